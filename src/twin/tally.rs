//! How a device's batches fared: side counters that move without a commit, for its `status`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one device since it was first configured in this life. Reads promise no common instant.
#[derive(Debug, Default)]
pub struct Tally {
    cycles: AtomicU64,
    failed_cycles: AtomicU64,
    stale_batches: AtomicU64,
}

impl Tally {
    /// Cycles that came to the store, failed ones included.
    pub fn cycles(&self) -> u64 {
        self.cycles.load(Ordering::Relaxed)
    }

    /// Cycles without any believable reply.
    pub fn failed_cycles(&self) -> u64 {
        self.failed_cycles.load(Ordering::Relaxed)
    }

    /// Batches that were refused as stale.
    pub fn stale_batches(&self) -> u64 {
        self.stale_batches.load(Ordering::Relaxed)
    }

    pub(super) fn count_cycle(&self, failed: bool) {
        self.cycles.fetch_add(1, Ordering::Relaxed);
        if failed {
            self.failed_cycles.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_stale(&self) {
        self.stale_batches.fetch_add(1, Ordering::Relaxed);
    }
}
