//! The concurrent twin store: whole, versioned device states, readable while they change.
//!
//! One immutable [`Root`] behind an atomic pointer holds every device. A commit prepares everything, then stores a
//! new root: that one pointer store is where it becomes visible, all of it or nothing. Readers hold a root as long as
//! they like and block nobody.
//!
//! This room never sees a register, a topic or a file format, and reads no clock: `now` is an argument.
//!
//! ```text
//!  Batch ──► check generation, interval, cycle ──► diff ──► rev + 1 ──► path copy ──► ring ──► store root ──► wake
//!              stale: counted, dropped       nothing changed: last-seen only                 (linearisation)
//! ```

mod commit;
mod device;
mod last_seen;
#[cfg(test)]
mod proof;
mod ring;
mod store;
mod table;
mod tally;

pub use commit::{Commit, DeviceChange};
pub use device::{DeviceStatus, DeviceTwin, PointQuality, StatusReason, StatusState};
pub use last_seen::LastSeen;
pub use ring::Compacted;
pub use store::{Committed, Counters, Options, Root, Store, UnknownDevice};
pub use tally::Tally;
