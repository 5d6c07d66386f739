//! The corridor: carries between the rooms and never decides.

mod clock;
mod publisher;

pub use clock::Clock;
pub use publisher::{Publisher, PublisherCounters};
