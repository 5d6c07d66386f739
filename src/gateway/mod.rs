//! The corridor: carries between the rooms and never decides.

mod clock;
pub mod log;
mod watch;

pub use clock::Clock;
pub use watch::Folders;
