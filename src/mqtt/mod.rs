//! The session with the broker: MQTT 5 over TCP, clean, for ever reconnecting. SHELL. It sees topics and bytes, never a
//! value.
//!
//! ```text
//!  gateway ──► Session::try_publish ──► window of unaccepted ──► connection task (one rumqttc event loop each) ──► broker
//!     ▲                                                              │
//!     └──── Events: connected, accepted, refused, disconnected ◄─────┘      backoff between connections
//! ```
//!
//! What a connection had not had accepted when it broke is lost, and said to be lost by `Disconnected`: whoever
//! publishes makes it anew from what is newest then. So each connection gets a fresh event loop, and none of the
//! library's own ways to resend (which lose, wedge and repeat) is ever used.

mod backoff;
mod connection;
#[cfg(test)]
pub(crate) mod mosquitto;
mod options;
mod session;
#[cfg(test)]
mod tests;

pub use options::{Broker, BrokerError, KeepAlive, KeepAliveError, Options, Password};
pub use session::{Event, Events, PublishError, Session};

/// Directive for the log filter: the library's own lines repeat what the session says, at levels of their own.
pub const LIBRARY_LOG_FILTER: &str = "rumqttc=off";
