//! Pretend devices made from profiles, and the demo's broker.

#[cfg(feature = "demo")]
mod broker;

#[cfg(feature = "demo")]
pub use broker::{Broker, BrokerError};
