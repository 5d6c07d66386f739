//! The session with the broker.
