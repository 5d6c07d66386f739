//! Shadows: JSON documents, their schemas, topic names, and what must be said when. Pure.

mod document;
mod json;
mod message;
mod nest;
#[cfg(test)]
pub(crate) mod sample;
mod schema;
mod skeleton;
mod sync;
mod topic;

pub use document::{ChangeFrame, DeviceCounts, Documents, GatewayStatus, Reload, StateFrame};
pub use json::{MAX_SAFE_INTEGER, write_string, write_value};
pub use message::{Publication, Qos, Ticket};
pub use schema::{MESSAGES, pretty, schema_message, schema_shadow};
pub use skeleton::Skeleton;
pub use sync::{Options, Outgoing, ShadowSync, SyncCounters};
pub use topic::{Prefix, PrefixError, Topic};
