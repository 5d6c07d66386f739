//! The process's two clocks. The only place where wall time is read.

use crate::model::{Mono, Stamp, Wall};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Reads both clocks; cheap to copy. All copies share one beginning.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    began: Instant,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self { began: Instant::now() }
    }

    /// Both clocks, read together.
    pub fn now(&self) -> Stamp {
        Stamp { mono: self.mono(), wall: Self::wall() }
    }

    /// Time since the beginning.
    pub fn mono(&self) -> Mono {
        Mono(self.began.elapsed())
    }

    /// The runtime's instant of a monotonic time: for sleeping until it.
    pub fn instant(&self, at: Mono) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.began + at.0)
    }

    /// Wall time; before 1970 it counts as 1970.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    pub fn wall() -> Wall {
        Wall(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64))
    }
}
