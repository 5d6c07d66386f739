//! What travels between the rooms: values, qualities, ids, stamps and the batons of the road.
//!
//! A dictionary: no effects, no time of its own, no knowledge of any other room. A type lives here when two
//! rooms that may not see each other both need it.

mod batch;
mod ids;
mod layout;
mod quality;
mod time;
mod value;

pub use batch::{Batch, Condition, Fault, GroupResult, Reading};
pub use ids::{Cycle, DeviceId, DeviceIdError, Epoch, Generation, GroupId, Interval, PointId, Revision, Version};
pub use layout::{Configuration, GroupLayout, IntervalLayout, JsonForm, Layout, PointLayout};
pub use quality::{Quality, QualityCode, Reason};
pub use time::{Mono, Stamp, Wall};
pub use value::{Decimal, Value};
