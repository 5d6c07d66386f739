//! Pretend devices made from profiles and dumps, with faults on request; and the demo's broker.

#[cfg(feature = "demo")]
mod broker;
mod faults;
mod pretend;
pub mod scene;
pub mod tcp;

#[cfg(feature = "demo")]
pub use broker::{Broker, BrokerError};
pub use faults::{FaultError, Faults, Often};
pub use pretend::{Pretend, Stamping, Tick};
