//! Pretend devices made from profiles and dumps, with faults on request; and the demo's broker.

#[cfg(feature = "demo")]
mod broker;
mod faults;
mod framing;
mod pretend;
pub mod scene;
pub mod serial;
mod station;
pub mod tcp;

#[cfg(feature = "demo")]
pub use broker::{Broker, BrokerError};
pub use faults::{FaultError, Faults, First, Noise, Often};
pub use framing::Framing;
pub use pretend::{Pretend, Stamping, Tick};
