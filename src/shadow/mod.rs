//! Shadows: JSON documents, their schemas, topic names, and what must be said when. Pure.

mod message;

pub use message::{Publication, Qos};
