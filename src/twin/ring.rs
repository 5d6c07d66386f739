//! The last commits, for those who follow: bounded by entries and bytes, sharing its blocks with the roots.

use super::commit::Commit;
use crate::model::Revision;
use std::collections::VecDeque;
use std::sync::Arc;

/// The ring has moved on: commits up to and including `floor` are gone. Take a root and follow from its revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("history up to revision {floor} has been dropped")]
pub struct Compacted {
    /// Newest revision that is no longer held.
    pub floor: Revision,
}

/// Invariant: entries have consecutive revisions, the first being `floor + 1`.
#[derive(Debug)]
pub(super) struct Ring {
    commits: VecDeque<(Arc<Commit>, usize)>,
    floor: Revision,
    bytes: usize,
    max_entries: usize,
    max_bytes: usize,
}

impl Ring {
    pub(super) fn new(floor: Revision, max_entries: usize, max_bytes: usize) -> Self {
        Self { commits: VecDeque::new(), floor, bytes: 0, max_entries: max_entries.max(1), max_bytes }
    }

    /// Appends the next commit; drops the oldest ones beyond the bounds, but never the newest.
    pub(super) fn push(&mut self, commit: Arc<Commit>) {
        let size = commit.footprint();
        self.bytes += size;
        self.commits.push_back((commit, size));
        while self.commits.len() > 1 && (self.commits.len() > self.max_entries || self.bytes > self.max_bytes) {
            if let Some((gone, size)) = self.commits.pop_front() {
                self.bytes -= size;
                self.floor = gone.revision;
            }
        }
    }

    /// Commits after `after` up to `until`, at most `limit`, oldest first.
    pub(super) fn range(&self, after: Revision, until: Revision, limit: usize) -> Result<Vec<Arc<Commit>>, Compacted> {
        if after < self.floor {
            return Err(Compacted { floor: self.floor });
        }
        let skip = (after.0 - self.floor.0) as usize;
        Ok(self
            .commits
            .iter()
            .skip(skip)
            .take(limit)
            .take_while(|(c, _)| c.revision <= until)
            .map(|(c, _)| Arc::clone(c))
            .collect())
    }
}
