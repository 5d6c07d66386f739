//! The store: one root, one commit at a time, any number of readers.
//!
//! Kinds of method, and who calls them:
//!
//! - *writers* (`configure`, `remove`, `commit`, `tick`, `stop`): each is at most one commit, made under one lock
//!   that is held for microseconds and never across an await;
//! - *readers* (`root`): one atomic load; what they hold never changes;
//! - *watchers* (`subscribe`, `watch`): woken after a commit is visible, they fetch what they missed from the ring.
//!
//! Invariants: a revision is visible to a reader before any watcher can fetch it; no commit changes nothing; a batch
//! commits whole or not at all.

use super::commit::{self, Commit, DeviceChange, Step};
use super::device::{DeviceStatus, DeviceTwin, PointQuality, StatusReason, StatusState};
use super::last_seen::LastSeen;
use super::ring::{Compacted, Ring};
use super::table::Table;
use crate::model::{
    Batch, Condition, Configuration, Cycle, DeviceId, Epoch, Generation, GroupId, GroupResult, Quality, Revision,
    Stamp, Version,
};
use arc_swap::ArcSwap;
use dashmap::DashMap;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// A wall clock that falls behind the monotonic one by more than this between two commits has been set back.
/// Reading the two clocks is not one instant, and time servers slew by less.
const CLOCK_STEP: Duration = Duration::from_millis(500);

/// Names of removed devices whose version is remembered, so that one that comes back goes on counting.
const DEPARTED_MAX: usize = 100_000;

/// Bounds of a store. Defaults: as in the configuration file.
#[derive(Debug, Clone)]
pub struct Options {
    /// Commits that a watcher may be behind before it must start over. Default 100 000, at least 1.
    pub ring_entries: usize,
    /// Bytes that they may keep alive. Default 64 MiB.
    pub ring_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { ring_entries: 100_000, ring_bytes: 64 << 20 }
    }
}

/// Everything, as one commit left it. Immutable.
#[derive(Debug)]
pub struct Root {
    /// Which life of the store.
    pub epoch: Epoch,
    /// The commit that made it; 0 before the first.
    pub revision: Revision,
    table: Table<DeviceTwin>,
    slots: Arc<HashMap<DeviceId, usize>>,
}

impl Root {
    /// One device.
    pub fn device(&self, device: &DeviceId) -> Option<&Arc<DeviceTwin>> {
        self.table.get(*self.slots.get(device)?)
    }

    /// All devices, in the order of their first configuration.
    pub fn devices(&self) -> impl Iterator<Item = &Arc<DeviceTwin>> {
        self.table.iter()
    }
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// It changed something: the new revision.
    Changed(Revision),
    /// It brought what was there already: only last-seen moved.
    Unchanged,
    /// It is of an older configuration, or its interval has already committed an equal or later cycle: dropped.
    Stale,
}

/// A device that is not, or no longer, in the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no device {0} in the store")]
pub struct UnknownDevice(pub DeviceId);

/// What the store has counted since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commits made.
    pub commits: u64,
    /// Batches that changed nothing.
    pub unchanged_batches: u64,
    /// Batches refused as stale.
    pub stale_batches: u64,
}

/// The store itself. Shared by reference; every method takes `&self`.
pub struct Store {
    root: ArcSwap<Root>,
    kernel: Mutex<Kernel>,
    /// Device handles: need no common instant with the root.
    handles: DashMap<DeviceId, Arc<Handle>>,
    wake: watch::Sender<Revision>,
    unchanged_batches: AtomicU64,
    stale_batches: AtomicU64,
    commits: AtomicU64,
}

/// What is known of a device beside its state.
#[derive(Debug)]
struct Handle {
    slot: usize,
}

/// State that only a commit touches.
struct Kernel {
    ring: Ring,
    /// Per slot; as long as the table's used part.
    slots: Vec<Slot>,
    /// Devices that were removed: one that comes back goes on counting, in its old slot.
    departed: HashMap<DeviceId, Departed>,
    last: Option<Stamp>,
    clock_steps: u32,
}

/// What is remembered of a removed device.
struct Departed {
    generation: Generation,
    version: Version,
    slot: usize,
}

/// Progress of one device.
#[derive(Debug, Default)]
struct Slot {
    /// Per interval, the newest cycle that committed (or changed nothing).
    cycles: Vec<Option<Cycle>>,
    /// Failed cycles in a row, of any groups.
    failures: u32,
}

impl Store {
    /// An empty store of a new life.
    pub fn new(epoch: Epoch, options: &Options) -> Self {
        let root = Root { epoch, revision: Revision(0), table: Table::new(), slots: Arc::default() };
        Self {
            root: ArcSwap::from_pointee(root),
            kernel: Mutex::new(Kernel {
                ring: Ring::new(Revision(0), options.ring_entries, options.ring_bytes),
                slots: Vec::new(),
                departed: HashMap::new(),
                last: None,
                clock_steps: 0,
            }),
            handles: DashMap::new(),
            wake: watch::Sender::new(Revision(0)),
            unchanged_batches: AtomicU64::new(0),
            stale_batches: AtomicU64::new(0),
            commits: AtomicU64::new(0),
        }
    }

    /// The present root: whole, consistent over all devices, valid as long as it is held.
    pub fn root(&self) -> Arc<Root> {
        self.root.load_full()
    }

    /// A receiver that is woken after each commit with its revision. Slow receivers see only the newest.
    pub fn subscribe(&self) -> watch::Receiver<Revision> {
        self.wake.subscribe()
    }

    /// Commits after `after`, oldest first, at most `limit`; or that the ring has moved on.
    pub fn watch(&self, after: Revision, limit: usize) -> Result<Vec<Arc<Commit>>, Compacted> {
        // The root first: an entry is in the ring an instant before its root is visible, and whoever has seen a
        // revision must find the store at least there (SHD-005).
        let visible = self.root.load().revision;
        if after >= visible {
            return Ok(Vec::new());
        }
        self.lock().ring.range(after, visible, limit)
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        Counters {
            commits: self.commits.load(Ordering::Relaxed),
            unchanged_batches: self.unchanged_batches.load(Ordering::Relaxed),
            stale_batches: self.stale_batches.load(Ordering::Relaxed),
        }
    }

    /// Adds a device or configures it anew: one commit. Values of the configuration before are dropped, the version
    /// goes on. Batches must carry the generation returned.
    pub fn configure(&self, device: &DeviceId, configuration: Configuration, now: Stamp) -> Generation {
        let mut kernel = self.lock();
        let root = self.root.load_full();
        let old = root.device(device).cloned();
        let departed = kernel.departed.remove(device);
        let (generation, version) = match (&old, &departed) {
            (Some(old), _) => (old.generation.next(), old.version.next()),
            (None, Some(past)) => (past.generation.next(), past.version.next()),
            (None, None) => (Generation(1), Version(1)),
        };
        let slot = self.slot_of(device, departed.map(|past| past.slot), &mut kernel);
        let (points, groups, intervals) = configuration
            .layout()
            .map_or((0, 0, 0), |layout| (layout.points.len(), layout.groups.len(), layout.intervals.len()));
        let reason = match configuration {
            Configuration::Ready(_) => StatusReason::Starting,
            Configuration::Refused(_) => StatusReason::ConfigError,
        };
        kernel.slots[slot] = Slot { cycles: vec![None; intervals], failures: 0 };
        let unread = PointQuality { quality: Quality::Unread, since: now.wall };
        let new = DeviceTwin {
            device: device.clone(),
            configuration,
            generation,
            revision: Revision(0),
            version,
            cycle: None,
            status: DeviceStatus { state: StatusState::Offline, reason: Some(reason), since: now.wall },
            values: vec![None; points].into(),
            qualities: vec![unread; points].into(),
            acquired: vec![None; groups].into(),
            skew_exceeded: false,
            clock_steps: 0,
            last_seen: Arc::new(LastSeen::new(groups, now.mono)),
            tally: old.as_ref().map_or_else(Arc::default, |old| Arc::clone(&old.tally)),
        };
        let change = Change { slot, old, new: Some(new), configured: true, ..Change::default() };
        self.publish(kernel, &root, vec![change], now);
        generation
    }

    /// Takes a device out: one commit, whose event carries the last state (SHD-019).
    pub fn remove(&self, device: &DeviceId, now: Stamp) -> Result<Revision, UnknownDevice> {
        let mut kernel = self.lock();
        let root = self.root.load_full();
        let handle = self.handles.get(device).map(|h| Arc::clone(h.value()));
        let (Some(old), Some(handle)) = (root.device(device).cloned(), handle) else {
            return Err(UnknownDevice(device.clone()));
        };
        self.handles.remove(device);
        if kernel.departed.len() < DEPARTED_MAX {
            let past = Departed { generation: old.generation, version: old.version, slot: handle.slot };
            kernel.departed.insert(device.clone(), past);
        }
        kernel.slots[handle.slot] = Slot::default();
        let change = Change { slot: handle.slot, old: Some(old), new: None, configured: true, ..Change::default() };
        Ok(self.publish(kernel, &root, vec![change], now))
    }

    /// Commits what a cycle brought, whole or not at all. `Err` where the device is unknown: count and drop.
    pub fn commit(&self, batch: &Batch) -> Result<Committed, UnknownDevice> {
        let handle = self.handles.get(&batch.device).map(|h| Arc::clone(h.value()));
        let handle = handle.ok_or_else(|| UnknownDevice(batch.device.clone()))?;
        let mut kernel = self.lock();
        let root = self.root.load_full();
        let old = root.table.get(handle.slot).filter(|twin| twin.device == batch.device);
        let old = old.ok_or_else(|| UnknownDevice(batch.device.clone()))?;
        let slot = &mut kernel.slots[handle.slot];
        let interval = usize::from(batch.interval.0);
        let passed = slot.cycles.get(interval).is_none_or(|last| last.is_some_and(|last| batch.cycle <= last));
        if batch.generation != old.generation || passed {
            self.stale_batches.fetch_add(1, Ordering::Relaxed);
            old.tally.count_stale();
            return Ok(Committed::Stale);
        }
        slot.cycles[interval] = Some(batch.cycle);
        slot.failures = match batch.condition {
            Condition::Reachable => 0,
            Condition::Unreachable(_) => slot.failures.saturating_add(1),
        };
        let failures = slot.failures;
        old.tally.count_cycle(failures > 0);
        for (group, result) in &batch.groups {
            if let GroupResult::Read(at) = result {
                old.last_seen.mark(*group, Stamp { mono: batch.ended.mono, wall: *at });
            }
        }
        let step = commit::apply(old, batch, failures);
        if step.is_nothing() {
            self.unchanged_batches.fetch_add(1, Ordering::Relaxed);
            kernel.note_clock(batch.ended);
            return Ok(Committed::Unchanged);
        }
        let change = Change::of(handle.slot, old, step);
        Ok(Committed::Changed(self.publish(kernel, &root, vec![change], batch.ended)))
    }

    /// The store's own clockwork: marks groups that were not read for three intervals (at least three timeouts) as
    /// stale, overdue, whatever the poller says. Call about once a second. Each device is one commit.
    pub fn tick(&self, now: Stamp) {
        let root = self.root.load_full();
        for twin in root.devices() {
            let groups = overdue_groups(twin, now);
            if groups.is_empty() {
                continue;
            }
            self.step(&twin.device, now, |current| {
                let groups = overdue_groups(current, now);
                commit::overdue(current, &groups, now.wall)
            });
        }
    }

    /// Says of every configured device that nothing it shows is fresh any more. For the end of the process.
    pub fn stop(&self, now: Stamp) {
        for twin in self.root.load_full().devices() {
            self.step(&twin.device, now, |current| commit::stopped(current, now.wall));
        }
    }

    /// One commit that concerns one device and is made of its present state.
    fn step(&self, device: &DeviceId, now: Stamp, step: impl FnOnce(&Arc<DeviceTwin>) -> Step) {
        let Some(handle) = self.handles.get(device).map(|h| Arc::clone(h.value())) else { return };
        let kernel = self.lock();
        let root = self.root.load_full();
        let Some(old) = root.table.get(handle.slot).filter(|twin| twin.device == *device) else { return };
        let step = step(old);
        if !step.is_nothing() {
            let change = Change::of(handle.slot, old, step);
            self.publish(kernel, &root, vec![change], now);
        }
    }

    /// Revision + 1, path copy, ring, root, wake: the only place where a root is stored. Nothing in here can fail
    /// between the ring and the root.
    fn publish(
        &self,
        mut kernel: MutexGuard<'_, Kernel>,
        root: &Arc<Root>,
        changes: Vec<Change>,
        now: Stamp,
    ) -> Revision {
        kernel.note_clock(now);
        let revision = root.revision.next();
        let mut table = root.table.clone();
        let mut slots = Arc::clone(&root.slots);
        let mut events = Vec::with_capacity(changes.len());
        for change in changes {
            let new = change.new.map(|mut new| {
                new.revision = revision;
                new.clock_steps = kernel.clock_steps;
                Arc::new(new)
            });
            table = table.with(change.slot, new.clone());
            match (&change.old, &new) {
                (None, Some(twin)) => {
                    Arc::make_mut(&mut slots).insert(twin.device.clone(), change.slot);
                }
                (Some(twin), None) => {
                    Arc::make_mut(&mut slots).remove(&twin.device);
                }
                _ => {}
            }
            events.push(DeviceChange {
                old: change.old,
                new,
                values: change.values,
                qualities: change.qualities,
                status: change.status,
                configured: change.configured,
            });
        }
        let next = Arc::new(Root { epoch: root.epoch, revision, table, slots });
        kernel.ring.push(Arc::new(Commit { revision, changes: events }));
        self.root.store(next);
        drop(kernel);
        self.commits.fetch_add(1, Ordering::Relaxed);
        // Wake outside the lock; a later commit may already have woken with a higher number.
        self.wake.send_if_modified(|seen| {
            let newer = revision > *seen;
            *seen = revision.max(*seen);
            newer
        });
        revision
    }

    fn slot_of(&self, device: &DeviceId, past: Option<usize>, kernel: &mut Kernel) -> usize {
        if let Some(handle) = self.handles.get(device).map(|h| Arc::clone(h.value())) {
            return handle.slot;
        }
        let slot = past.unwrap_or(kernel.slots.len());
        if slot == kernel.slots.len() {
            kernel.slots.push(Slot::default());
        }
        self.handles.insert(device.clone(), Arc::new(Handle { slot }));
        slot
    }

    /// A panic in a commit leaves the store at its last root (nothing is visible before the root is stored), so the
    /// lock's poison says nothing that matters.
    fn lock(&self) -> MutexGuard<'_, Kernel> {
        self.kernel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel {
    /// Compares the two clocks with the last commit's: a wall clock that was set back is noted, once a jump.
    fn note_clock(&mut self, now: Stamp) {
        if let Some(last) = self.last {
            // Batches of different devices may end in another order than they commit: time that seems to run
            // backwards on both clocks is no step.
            if now.mono < last.mono {
                return;
            }
            let expected = last.wall.plus(now.mono.since(last.mono));
            if now.wall.plus(CLOCK_STEP) < expected {
                self.clock_steps += 1;
            }
        }
        self.last = Some(now);
    }
}

/// A change of one device on its way into a commit.
#[derive(Default)]
struct Change {
    slot: usize,
    old: Option<Arc<DeviceTwin>>,
    new: Option<DeviceTwin>,
    values: Vec<crate::model::PointId>,
    qualities: Vec<crate::model::PointId>,
    status: bool,
    configured: bool,
}

impl Change {
    fn of(slot: usize, old: &Arc<DeviceTwin>, step: Step) -> Self {
        let mut new = step.new;
        if !step.values.is_empty() || !step.qualities.is_empty() {
            new.version = old.version.next();
        }
        Self {
            slot,
            old: Some(Arc::clone(old)),
            new: Some(new),
            values: step.values,
            qualities: step.qualities,
            status: step.status,
            configured: false,
        }
    }
}

/// Groups of a running device whose last read is too old.
fn overdue_groups(twin: &DeviceTwin, now: Stamp) -> Vec<GroupId> {
    let Some(layout) = twin.layout() else { return Vec::new() };
    let mut groups = Vec::new();
    for index in 0..layout.groups.len() {
        let group = GroupId(index as u16);
        let Some(every) = layout.every(group) else { continue };
        let patience = every.max(layout.timeout) * 3;
        if twin.last_seen.age(group, now.mono) > patience {
            groups.push(group);
        }
    }
    groups
}
