//! Shadows: JSON documents, their schemas, topic names, and what must be said when. Pure.

mod json;
mod message;
mod nest;
mod skeleton;
mod topic;

pub use json::{MAX_SAFE_INTEGER, write_string, write_value};
pub use message::{Publication, Qos};
pub use skeleton::Skeleton;
pub use topic::{Prefix, PrefixError, Topic};
