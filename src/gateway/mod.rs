//! The corridor: carries between the rooms and never decides.

mod clock;
mod line;
pub mod log;
mod tasks;
mod watch;

pub use clock::Clock;
pub use line::{Line, LineCounters, LineHandle, LineOptions, LineStopped, PutError};
pub use tasks::Tasks;
pub use watch::Folders;
