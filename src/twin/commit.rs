//! What a commit did, and how a batch becomes one: the diff. Pure functions over immutable states.

use super::device::{DeviceStatus, DeviceTwin, PointQuality, StatusReason, StatusState};
use crate::model::{
    Batch, Condition, GroupResult, PointId, Quality, QualityCode, Reading, Reason, Revision, Value, Wall,
};
use std::sync::Arc;

/// One step of the store: revision, and what changed in each device concerned.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Its number, one above the commit before.
    pub revision: Revision,
    /// The devices it changed; at least one, each at most once.
    pub changes: Vec<DeviceChange>,
}

/// What one commit changed in one device.
#[derive(Debug, Clone)]
pub struct DeviceChange {
    /// State before; nothing for a new device.
    pub old: Option<Arc<DeviceTwin>>,
    /// State after; nothing for a removed one.
    pub new: Option<Arc<DeviceTwin>>,
    /// Points whose value came, changed or went, ascending.
    pub values: Vec<PointId>,
    /// Points whose quality changed, ascending.
    pub qualities: Vec<PointId>,
    /// Whether the device's status changed.
    pub status: bool,
    /// Whether the device was configured, configured anew or removed.
    pub configured: bool,
}

impl DeviceChange {
    /// The state after, or the last one of a removed device.
    pub fn newest(&self) -> Option<&Arc<DeviceTwin>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// Whether some quality became worse than good in this commit: never to be held back.
    pub fn got_worse(&self) -> bool {
        let Some(new) = &self.new else { return true };
        self.qualities.iter().any(|p| new.quality(*p).degrades())
            || (self.status && new.status.state == StatusState::Offline)
    }
}

impl Commit {
    /// Estimate of the memory that only this entry keeps alive, in bytes.
    pub(super) fn footprint(&self) -> usize {
        let mut bytes = size_of::<Self>();
        for change in &self.changes {
            bytes += size_of::<DeviceChange>() + size_of::<DeviceTwin>();
            bytes += (change.values.len() + change.qualities.len()) * size_of::<PointId>();
            if let Some(new) = &change.new {
                if !change.values.is_empty() || change.configured {
                    bytes += new.values.len() * size_of::<Option<Value>>();
                }
                if !change.qualities.is_empty() || change.configured {
                    bytes += new.qualities.len() * size_of::<PointQuality>();
                }
            }
        }
        bytes
    }
}

/// The next state of a device and what changed on the way; `new.revision` is still to be set.
pub(super) struct Step {
    pub(super) new: DeviceTwin,
    pub(super) values: Vec<PointId>,
    pub(super) qualities: Vec<PointId>,
    pub(super) status: bool,
}

impl Step {
    /// Whether the shadow's version rises: a value or a quality changed.
    pub(super) fn moves_version(&self) -> bool {
        !self.values.is_empty() || !self.qualities.is_empty()
    }

    pub(super) fn is_nothing(&self) -> bool {
        !self.moves_version() && !self.status
    }
}

/// Columns of a device under change: copied only when the first cell changes.
struct Columns<'a> {
    old: &'a DeviceTwin,
    values: Option<Vec<Option<Value>>>,
    qualities: Option<Vec<PointQuality>>,
    changed_values: Vec<PointId>,
    changed_qualities: Vec<PointId>,
    now: Wall,
}

impl<'a> Columns<'a> {
    fn of(old: &'a DeviceTwin, now: Wall) -> Self {
        Self { old, values: None, qualities: None, changed_values: Vec::new(), changed_qualities: Vec::new(), now }
    }

    /// Compares before it copies: most values of most cycles are what they were.
    fn set_value(&mut self, point: PointId, value: Option<&Value>) {
        let index = usize::from(point.0);
        if self.old.values.get(index).is_some_and(|old| old.as_ref() != value) {
            let old = &self.old.values;
            self.values.get_or_insert_with(|| old.to_vec())[index] = value.cloned();
            self.changed_values.push(point);
        }
    }

    fn set_quality(&mut self, point: PointId, quality: Quality) {
        let index = usize::from(point.0);
        if self.old.qualities.get(index).is_some_and(|old| old.quality != quality) {
            let old = &self.old.qualities;
            self.qualities.get_or_insert_with(|| old.to_vec())[index] = PointQuality { quality, since: self.now };
            self.changed_qualities.push(point);
        }
    }

    /// A point that was read at least once becomes stale; one that never was has no entry to spoil.
    fn spoil(&mut self, point: PointId, reason: Reason) {
        let quality = self.old.quality(point);
        if quality != Quality::Unread {
            self.set_quality(point, Quality::Not(QualityCode::Stale, reason));
        }
    }

    fn qualities(&self) -> &[PointQuality] {
        self.qualities.as_deref().unwrap_or(&self.old.qualities)
    }

    /// Builds the step. Changed points were visited in ascending order within a group, not over groups.
    fn finish(mut self, new: DeviceTwin) -> Step {
        self.changed_values.sort_unstable();
        self.changed_qualities.sort_unstable();
        let mut new = new;
        if let Some(values) = self.values {
            new.values = Arc::from(values);
        }
        if let Some(qualities) = self.qualities {
            new.qualities = Arc::from(qualities);
        }
        let status = new.status != self.old.status;
        Step { new, values: self.changed_values, qualities: self.changed_qualities, status }
    }
}

/// What a batch makes of a device. `failures` counts its failed cycles in a row, this one included.
///
/// The caller has checked that the batch is of the device's generation and that the device has a layout.
pub(super) fn apply(old: &Arc<DeviceTwin>, batch: &Batch, failures: u32) -> Step {
    let Some(layout) = old.layout() else {
        return Columns::of(old, batch.ended.wall).finish(DeviceTwin::clone(old));
    };
    let now = batch.ended.wall;
    let mut columns = Columns::of(old, now);
    let mut new = DeviceTwin::clone(old);
    let offline = failures >= layout.offline_after;
    // Of a device that is gone only refusals remembered from before can be here: nothing of it moves, it all goes stale.
    let gone = offline && matches!(batch.condition, Condition::Unreachable(_));
    for (point, reading) in batch.readings.iter().filter(|_| !gone) {
        match reading {
            Reading::Good(value) => {
                columns.set_value(*point, Some(value));
                columns.set_quality(*point, Quality::Good);
            }
            Reading::Uncertain(value, reason) => {
                columns.set_value(*point, Some(value));
                columns.set_quality(*point, Quality::Not(QualityCode::Uncertain, *reason));
            }
            Reading::Bad(reason) => columns.set_quality(*point, Quality::Not(QualityCode::Bad, *reason)),
            Reading::Absent(reason) => {
                columns.set_value(*point, None);
                columns.set_quality(*point, Quality::Not(QualityCode::Absent, *reason));
            }
            Reading::Stale(reason) => columns.spoil(*point, *reason),
        }
    }
    for (group, result) in &batch.groups {
        match result {
            GroupResult::Read(_) => {}
            // Points of a group that failed while the device counts as offline are said once, below, with that reason.
            GroupResult::Failed(_) if offline => {}
            GroupResult::Failed(reason) => layout.points_of(*group).for_each(|p| columns.spoil(p, *reason)),
        }
    }
    match batch.condition {
        Condition::Unreachable(fault) if offline => {
            for point in 0..layout.points.len() {
                columns.spoil(PointId(point as u16), Reason::Offline);
            }
            new.status = moved(old.status, StatusState::Offline, Some(StatusReason::Unreachable(fault)), now);
        }
        // Not yet offline: what it showed is stale, so a device that was online is degraded.
        Condition::Unreachable(_) if old.status.state == StatusState::Offline => {}
        Condition::Unreachable(_) | Condition::Reachable => {
            new.status = if DeviceTwin::is_degraded(columns.qualities()) {
                moved(old.status, StatusState::Degraded, Some(StatusReason::PointsBad), now)
            } else {
                moved(old.status, StatusState::Online, None, now)
            };
        }
    }
    if batch.groups.iter().any(|(_, result)| matches!(result, GroupResult::Read(_))) {
        let mut acquired = old.acquired.to_vec();
        for (group, result) in &batch.groups {
            if let (GroupResult::Read(at), Some(slot)) = (result, acquired.get_mut(usize::from(group.0))) {
                *slot = Some(*at);
            }
        }
        new.acquired = Arc::from(acquired);
    }
    new.cycle = Some(batch.cycle);
    new.skew_exceeded = batch.skew_exceeded;
    columns.finish(new)
}

/// What it makes of a device that a group was not read for too long.
pub(super) fn overdue(old: &Arc<DeviceTwin>, groups: &[crate::model::GroupId], now: Wall) -> Step {
    let mut columns = Columns::of(old, now);
    let mut new = DeviceTwin::clone(old);
    if let Some(layout) = old.layout() {
        for group in groups {
            for point in layout.points_of(*group) {
                // A point that is stale for a known reason keeps that reason.
                if old.quality(point).code() != Some(QualityCode::Stale) {
                    columns.spoil(point, Reason::Overdue);
                }
            }
        }
        if old.status.state == StatusState::Online && DeviceTwin::is_degraded(columns.qualities()) {
            new.status = moved(old.status, StatusState::Degraded, Some(StatusReason::PointsBad), now);
        }
    }
    columns.finish(new)
}

/// What the end of polling makes of a device: nothing that it shows is fresh any more.
pub(super) fn stopped(old: &Arc<DeviceTwin>, now: Wall) -> Step {
    let mut columns = Columns::of(old, now);
    for point in 0..old.values.len() {
        columns.spoil(PointId(point as u16), Reason::Offline);
    }
    let mut new = DeviceTwin::clone(old);
    if old.configuration.layout().is_some() {
        new.status = moved(old.status, StatusState::Offline, Some(StatusReason::Stopped), now);
    }
    columns.finish(new)
}

fn moved(old: DeviceStatus, state: StatusState, reason: Option<StatusReason>, now: Wall) -> DeviceStatus {
    // `since` is of the state: a device that is refused instead of silent has not come back in between.
    let since = if old.state == state { old.since } else { now };
    DeviceStatus { state, reason, since }
}
