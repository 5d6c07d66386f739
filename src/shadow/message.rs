//! What goes to and comes from the broker: the baton between `shadow` and `mqtt`.

use bytes::Bytes;
use std::time::Duration;

/// A message to publish. `mqtt` sees topic and bytes, never a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Topic, without wildcards.
    pub topic: String,
    /// Payload, JSON in UTF-8.
    pub payload: Bytes,
    /// At most once, or at least once.
    pub qos: Qos,
    /// Whether the broker keeps it for later subscribers.
    pub retain: bool,
    /// MQTT 5: after this long the broker drops it.
    pub expiry: Option<Duration>,
}

/// Quality of service of a publication. Exactly-once is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qos {
    /// At most once (0).
    AtMostOnce,
    /// At least once (1).
    AtLeastOnce,
}

/// Names a publication at least once until the broker has accepted it, or the connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);
