//! When each group was last read: a side array of atomics that moves without a commit.
//!
//! No common instant is promised between it and a root: it says that the values are still being confirmed, never
//! what they are.

use crate::model::{GroupId, Mono, Stamp, Wall};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Per group of one device, the time of its last believable read on both clocks.
#[derive(Debug)]
pub struct LastSeen {
    groups: Box<[Seen]>,
    /// When the device was configured: the beginning of every group's patience.
    configured: Mono,
}

/// 0 means never; times are stored plus one so that the clock's first instant is not "never".
#[derive(Debug, Default)]
struct Seen {
    mono_us: AtomicU64,
    wall_ms: AtomicU64,
}

impl LastSeen {
    pub(super) fn new(groups: usize, configured: Mono) -> Self {
        Self { groups: (0..groups).map(|_| Seen::default()).collect(), configured }
    }

    /// Notes a read. Relaxed: nobody derives the order of anything else from it.
    pub(super) fn mark(&self, group: GroupId, at: Stamp) {
        if let Some(seen) = self.groups.get(usize::from(group.0)) {
            seen.mono_us.store(at.mono.0.as_micros() as u64 + 1, Ordering::Relaxed);
            seen.wall_ms.store(at.wall.0 + 1, Ordering::Relaxed);
        }
    }

    /// Wall time of the last read; nothing if there was none in this configuration.
    pub fn wall(&self, group: GroupId) -> Option<Wall> {
        let at = self.groups.get(usize::from(group.0))?.wall_ms.load(Ordering::Relaxed);
        (at > 0).then(|| Wall(at - 1))
    }

    /// How long ago the last read was, or the configuration if there was none.
    pub fn age(&self, group: GroupId, now: Mono) -> Duration {
        let at = self.groups.get(usize::from(group.0)).map_or(0, |s| s.mono_us.load(Ordering::Relaxed));
        let at = if at == 0 { self.configured } else { Mono(Duration::from_micros(at - 1)) };
        now.since(at)
    }
}
