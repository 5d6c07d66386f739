//! The corridor: carries between the rooms and never decides.

mod clock;
pub mod log;
mod tasks;
mod watch;

pub use clock::Clock;
pub use tasks::Tasks;
pub use watch::Folders;
