//! Pretend devices made from profiles and dumps, with faults on request.

mod faults;
mod pretend;
pub mod scene;
pub mod tcp;

pub use faults::{FaultError, Faults, Often};
pub use pretend::{Pretend, Stamping, Tick};
