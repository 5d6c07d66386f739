//! What is known of one device: its newest state, and what of it is still to be said.

use super::super::document::stale_since;
use super::super::skeleton::Skeleton;
use crate::model::{GroupId, Layout, Mono, Revision, Stamp, Wall};
use crate::twin::{DeviceTwin, StatusState};
use std::sync::Arc;
use std::time::Duration;

/// A read that was noted less than this before a message may belong to a commit that is not visible yet; the message
/// must not claim it for values that are older. A commit takes microseconds.
const IN_FLIGHT: Duration = Duration::from_millis(50);

/// One device.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four independent marks, each the twin of one queue or timer")]
pub(super) struct Device {
    /// Never given twice: tells a slot's owners apart.
    pub(super) serial: u64,
    /// Its newest state.
    pub(super) twin: Arc<DeviceTwin>,
    /// Its layout, prepared; nothing where it has none.
    pub(super) skeleton: Option<Arc<Skeleton>>,
    /// Revision of the last commit that changed a value or a quality, or configured it: what messages call `rev`.
    pub(super) rev: Revision,
    /// `rev` of the last state handed out on this connection.
    pub(super) stated: Revision,
    /// Clock steps up to which the flag was raised.
    pub(super) clock_said: u32,
    /// Per group, the newest read that a message has confirmed; never falls but with the clock.
    pub(super) acquired: Vec<Option<Wall>>,
    pub(super) want: Want,
    /// A timer of `min_interval` is running.
    pub(super) timer_runs: bool,
    pub(super) status_wanted: bool,
    pub(super) schema_wanted: bool,
    /// It has not yet had its first state of this connection.
    pub(super) unborn: bool,
    /// When its last state was handed out.
    pub(super) stated_at: Option<Mono>,
    /// When its state is to be repeated.
    pub(super) heartbeat_at: Mono,
}

/// Whether a state is to be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Not now.
    Nothing,
    /// Once `min_interval` is over.
    Later,
    /// As soon as there is room: it stands in the queue.
    Now,
}

impl Device {
    pub(super) fn new(serial: u64, twin: &Arc<DeviceTwin>, skeleton: Option<Arc<Skeleton>>, now: Mono) -> Self {
        Self {
            serial,
            twin: Arc::clone(twin),
            skeleton,
            rev: twin.revision,
            stated: Revision(0),
            clock_said: twin.clock_steps,
            acquired: vec![None; twin.acquired.len()],
            want: Want::Nothing,
            timer_runs: false,
            status_wanted: false,
            schema_wanted: false,
            unborn: false,
            stated_at: None,
            heartbeat_at: now,
        }
    }

    /// Takes a state of a new configuration.
    pub(super) fn reconfigure(&mut self, skeleton: Option<Arc<Skeleton>>, groups: usize) {
        self.skeleton = skeleton;
        self.acquired = vec![None; groups];
    }

    /// Moves `acquired` on to what is known now.
    pub(super) fn confirm(&mut self, now: Wall) {
        if self.twin.clock_steps > self.clock_said {
            self.acquired.fill(None);
        }
        for (index, said) in self.acquired.iter_mut().enumerate() {
            let committed = self.twin.acquired.get(index).copied().flatten();
            let seen = self.twin.last_seen.wall(GroupId(index as u16)).filter(|seen| seen.plus(IN_FLIGHT) <= now);
            *said = (*said).max(committed).max(seen);
        }
    }

    /// Whether its state may be repeated as fresh: it can be reached, something of it is fresh, no group is overdue.
    pub(super) fn is_confirmed(&self, now: Stamp) -> bool {
        let overdue = |layout: &Arc<Layout>| {
            (0..layout.groups.len()).any(|index| {
                let group = GroupId(index as u16);
                let patience = layout.every(group).map(|every| every.max(layout.timeout) * 3);
                patience.is_some_and(|patience| self.twin.last_seen.age(group, now.mono) > patience)
            })
        };
        self.twin.status.state != StatusState::Offline
            && stale_since(&self.twin).is_none()
            && !self.twin.layout().is_some_and(overdue)
    }
}
