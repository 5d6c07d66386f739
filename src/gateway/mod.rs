//! The corridor: carries between the rooms and never decides.

mod clock;
mod line;

pub use clock::Clock;
pub use line::{Line, LineCounters, LineHandle, LineOptions, LineStopped, PutError};
