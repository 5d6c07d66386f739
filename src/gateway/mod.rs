//! The corridor: carries between the rooms and never decides.

mod alarm;
mod clock;
mod corridor;
mod fleet;
mod line;
pub mod log;
mod publisher;
mod route;
mod tasks;
mod watch;

pub use clock::Clock;
pub use corridor::{Gateway, StartError};
pub use fleet::{Applied, Fleet};
pub use line::{Line, LineCounters, LineHandle, LineOptions, LineStopped, PutError, WIRE, line_speed};
pub use publisher::{Publisher, PublisherCounters};
pub use route::Route;
pub use tasks::Tasks;
pub use watch::Folders;
