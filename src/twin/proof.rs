//! The statements on store and batches (SHD-001 … SHD-014), each as a test; and two stores that are wrong on purpose,
//! which the same tests must catch. A test that cannot fail proves nothing.

use super::{Committed, Compacted, DeviceTwin, Options, StatusReason, StatusState, Store};
use crate::model::{
    Batch, Condition, Configuration, Cycle, DeviceId, Epoch, Fault, Generation, GroupId, GroupLayout, GroupResult,
    Interval, IntervalLayout, JsonForm, Layout, Mono, PointId, PointLayout, Quality, QualityCode, Reading, Reason,
    Revision, Stamp, Value, Version, Wall,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const FIELDS: usize = 100;

fn id(name: &str) -> DeviceId {
    DeviceId::new(name).unwrap()
}

fn at(ms: u64) -> Stamp {
    Stamp { mono: Mono(Duration::from_millis(ms)), wall: Wall(1_800_000_000_000 + ms) }
}

fn layout(groups: &[(&str, Option<u64>, usize)]) -> Arc<Layout> {
    let mut layout = Layout {
        profile: "test/stamped".into(),
        profile_version: "1.0.0".into(),
        points: Vec::new(),
        groups: Vec::new(),
        intervals: Vec::new(),
        offline_after: 3,
        timeout: Duration::from_millis(100),
        simulated: false,
    };
    for (index, (name, every, points)) in groups.iter().enumerate() {
        let every = every.map(Duration::from_millis);
        let interval = layout.intervals.iter().position(|i| i.every == every).unwrap_or_else(|| {
            layout.intervals.push(IntervalLayout { every });
            layout.intervals.len() - 1
        });
        layout.groups.push(GroupLayout { name: (*name).into(), interval: Interval(interval as u16) });
        for point in 0..*points {
            layout.points.push(PointLayout {
                path: format!("{name}.f{point}").into(),
                group: GroupId(index as u16),
                json: JsonForm::Plain,
                publish: true,
            });
        }
    }
    Arc::new(layout)
}

fn store() -> Store {
    Store::new(Epoch(7), &Options::default())
}

fn ready(layout: &Arc<Layout>) -> Configuration {
    Configuration::Ready(Arc::clone(layout))
}

/// A batch that stamps every point of the interval's groups with one number.
fn stamped(device: &DeviceId, generation: Generation, layout: &Layout, interval: u16, cycle: u64, stamp: i64) -> Batch {
    let groups: Vec<GroupId> = (0u16..)
        .zip(&layout.groups)
        .filter(|(_, g)| g.interval == Interval(interval))
        .map(|(i, _)| GroupId(i))
        .collect();
    let readings =
        groups.iter().flat_map(|g| layout.points_of(*g)).map(|p| (p, Reading::Good(Value::Int(stamp)))).collect();
    let started = at(cycle * 1000);
    Batch {
        device: device.clone(),
        generation,
        interval: Interval(interval),
        cycle: Cycle(cycle),
        started,
        ended: started.plus(Duration::from_millis(10)),
        condition: Condition::Reachable,
        skew_exceeded: false,
        groups: groups.iter().map(|g| (*g, GroupResult::Read(started.plus(Duration::from_millis(10)).wall))).collect(),
        readings,
    }
}

fn failed(batch: Batch, reason: Reason, fault: Fault) -> Batch {
    Batch {
        condition: Condition::Unreachable(fault),
        groups: batch.groups.into_iter().map(|(g, _)| (g, GroupResult::Failed(reason))).collect(),
        readings: Vec::new(),
        ..batch
    }
}

fn ints(twin: &DeviceTwin) -> Vec<i64> {
    twin.values.iter().map(|v| if let Some(Value::Int(n)) = v { *n } else { -1 }).collect()
}

/// What the concurrent statements need of a store, so that wrong ones can stand in the right one's place.
trait Subject: Send + Sync {
    /// Commits `stamp` in all fields of a device; calls come one after the other.
    fn put(&self, device: usize, stamp: i64);
    /// The revision that a watcher has been told.
    fn told(&self) -> u64;
    /// The revision read, and every field of every device.
    fn read(&self) -> (u64, Vec<Vec<i64>>);
}

struct Right {
    store: Store,
    layout: Arc<Layout>,
    ids: Vec<DeviceId>,
    cycle: AtomicU64,
}

impl Right {
    fn new(devices: usize) -> Self {
        let (store, layout) = (store(), layout(&[("g", Some(1000), FIELDS)]));
        let ids: Vec<DeviceId> = (0..devices).map(|i| id(&format!("d{i}"))).collect();
        for id in &ids {
            store.configure(id, ready(&layout), at(0));
        }
        let right = Self { store, layout, ids, cycle: AtomicU64::new(0) };
        (0..devices).for_each(|d| right.put(d, 0));
        right
    }
}

impl Subject for Right {
    fn put(&self, device: usize, stamp: i64) {
        let cycle = self.cycle.fetch_add(1, Ordering::Relaxed) + 1;
        let batch = stamped(&self.ids[device], Generation(1), &self.layout, 0, cycle, stamp);
        assert!(matches!(self.store.commit(&batch).unwrap(), Committed::Changed(_)));
    }

    fn told(&self) -> u64 {
        self.store.subscribe().borrow().0
    }

    fn read(&self) -> (u64, Vec<Vec<i64>>) {
        let root = self.store.root();
        (root.revision.0, root.devices().map(|d| ints(d)).collect())
    }
}

/// Wrong on purpose: one map entry a value, written key by key. This is what the project began from.
struct PerValueMap {
    fields: dashmap::DashMap<(usize, usize), i64>,
    devices: usize,
    revision: AtomicU64,
}

impl Subject for PerValueMap {
    fn put(&self, device: usize, stamp: i64) {
        for field in 0..FIELDS {
            self.fields.insert((device, field), stamp);
        }
        self.revision.fetch_add(1, Ordering::SeqCst);
    }

    fn told(&self) -> u64 {
        self.revision.load(Ordering::SeqCst)
    }

    fn read(&self) -> (u64, Vec<Vec<i64>>) {
        let revision = self.told();
        let read = |d| (0..FIELDS).map(|f| self.fields.get(&(d, f)).map_or(0, |v| *v)).collect();
        (revision, (0..self.devices).map(read).collect())
    }
}

/// Wrong on purpose: watchers are told the revision before the root that has it is stored.
struct RevisionBeforeStore {
    right: Right,
    told: AtomicU64,
}

impl Subject for RevisionBeforeStore {
    fn put(&self, device: usize, stamp: i64) {
        self.told.fetch_add(1, Ordering::SeqCst);
        std::thread::yield_now();
        self.right.put(device, stamp);
    }

    fn told(&self) -> u64 {
        self.told.load(Ordering::SeqCst)
    }

    fn read(&self) -> (u64, Vec<Vec<i64>>) {
        self.right.read()
    }
}

/// SHD-001, SHD-002 and SHD-005 over any subject of two devices: a writer puts k into device 0, then into device 1;
/// readers must see whole devices, from one root, at least as new as what they were told.
fn whole_and_ordered(subject: &dyn Subject, patience: Duration) -> Result<(), String> {
    let done = AtomicBool::new(false);
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let told = subject.told();
                        let (revision, devices) = subject.read();
                        if revision < told {
                            return Err(format!("SHD-005: told {told}, found {revision}"));
                        }
                        for device in &devices {
                            if device.iter().any(|v| *v != device[0]) {
                                return Err(format!("SHD-001: torn between {} and others", device[0]));
                            }
                        }
                        let ahead = devices[0][0] - devices[1][0];
                        if !(0..=1).contains(&ahead) {
                            return Err(format!("SHD-002: device 0 is {ahead} ahead of device 1"));
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let mut stamp = 0;
        while began.elapsed() < patience && readers.iter().all(|r| !r.is_finished()) {
            stamp += 1;
            subject.put(0, stamp);
            subject.put(1, stamp);
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().try_for_each(|r| r.join().unwrap())
    })
}

#[test]
fn shd_001_002_005_readers_see_whole_devices_of_one_root_never_older_than_told() {
    whole_and_ordered(&Right::new(2), Duration::from_millis(1500)).unwrap();
}

#[test]
fn shd_001_the_same_test_catches_a_map_of_single_values() {
    let wrong = PerValueMap { fields: dashmap::DashMap::new(), devices: 2, revision: AtomicU64::new(0) };
    whole_and_ordered(&wrong, Duration::from_secs(30)).unwrap_err();
}

#[test]
fn shd_005_the_same_test_catches_a_revision_told_before_its_root() {
    let right = Right::new(2);
    let told = AtomicU64::new(right.read().0);
    let wrong = RevisionBeforeStore { right, told };
    let error = whole_and_ordered(&wrong, Duration::from_secs(30)).unwrap_err();
    assert!(error.starts_with("SHD-005"), "{error}");
}

#[test]
fn shd_003_one_batch_is_one_revision_carried_by_every_changed_device() {
    let (store, layout, a) = (store(), layout(&[("g", Some(1000), 3)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    let before = store.root().revision;
    let committed = store.commit(&stamped(&a, generation, &layout, 0, 1, 5)).unwrap();
    assert_eq!(committed, Committed::Changed(before.next()));
    let root = store.root();
    assert_eq!(root.revision, before.next());
    assert_eq!(root.device(&a).unwrap().revision, before.next());
    assert_eq!(root.device(&a).unwrap().version, Version(2));
    let events = store.watch(before, 10).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].changes[0].values, vec![PointId(0), PointId(1), PointId(2)]);
}

#[test]
fn shd_004_concurrent_commits_get_different_revisions_in_one_order() {
    let (store, layout) = (store(), layout(&[("g", Some(1000), 3)]));
    let ids: Vec<DeviceId> = (0..4).map(|i| id(&format!("d{i}"))).collect();
    for id in &ids {
        store.configure(id, ready(&layout), at(0));
    }
    let start = store.root().revision;
    let revisions: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = ids
            .iter()
            .map(|id| {
                let (store, layout) = (&store, &layout);
                scope.spawn(move || {
                    (1..=250u64)
                        .map(|cycle| {
                            let batch = stamped(id, Generation(1), layout, 0, cycle, cycle as i64);
                            match store.commit(&batch).unwrap() {
                                Committed::Changed(revision) => revision.0,
                                other => panic!("{other:?}"),
                            }
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let mut sorted = revisions.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (start.0 + 1..=start.0 + 1000).collect::<Vec<_>>());
    // The events replayed in order on top of nothing give the live root.
    let mut replayed: BTreeMap<DeviceId, Vec<i64>> = BTreeMap::new();
    for commit in store.watch(start, usize::MAX).unwrap() {
        for change in &commit.changes {
            let twin = change.new.as_ref().unwrap();
            replayed.insert(twin.device.clone(), ints(twin));
        }
    }
    let live: BTreeMap<_, _> = store.root().devices().map(|d| (d.device.clone(), ints(d))).collect();
    assert_eq!(replayed, live);
}

#[test]
fn shd_006_a_held_root_does_not_change_and_is_released_after() {
    let right = Right::new(1);
    let held = right.store.root();
    let weak = Arc::downgrade(&held.device(&right.ids[0]).unwrap().values);
    let before = ints(held.device(&right.ids[0]).unwrap());
    (1..=10_000).for_each(|k| right.put(0, k));
    assert_eq!(ints(held.device(&right.ids[0]).unwrap()), before);
    drop(held);
    // The ring still holds it until it moves on: a store with a short ring lets go at once.
    let short = Store::new(Epoch(1), &Options { ring_entries: 2, ring_bytes: 1 << 20 });
    short.configure(&right.ids[0], ready(&right.layout), at(0));
    let mut first = None;
    for cycle in 1..=4 {
        short.commit(&stamped(&right.ids[0], Generation(1), &right.layout, 0, cycle, cycle as i64)).unwrap();
        first.get_or_insert_with(|| Arc::downgrade(&short.root().device(&right.ids[0]).unwrap().values));
    }
    assert!(first.unwrap().upgrade().is_none());
    drop(right);
    assert!(weak.upgrade().is_none());
}

#[test]
fn shd_007_a_cycle_that_its_interval_has_passed_is_refused() {
    let (store, layout, a) = (store(), layout(&[("fast", Some(100), 1), ("slow", Some(1000), 1)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    store.commit(&stamped(&a, generation, &layout, 0, 17, 1)).unwrap();
    let before = store.root().revision;
    for cycle in [17, 16] {
        assert_eq!(store.commit(&stamped(&a, generation, &layout, 0, cycle, 2)).unwrap(), Committed::Stale);
    }
    assert_eq!(store.root().revision, before);
    assert_eq!(store.counters().stale_batches, 2);
    // Another interval counts for itself: its slow cycle began earlier and ends later.
    let slow = store.commit(&stamped(&a, generation, &layout, 1, 16, 3)).unwrap();
    assert!(matches!(slow, Committed::Changed(_)));
}

#[test]
fn shd_008_a_batch_of_an_older_configuration_is_refused() {
    let (store, layout, a) = (store(), layout(&[("g", Some(1000), 1)]), id("a"));
    let old = store.configure(&a, ready(&layout), at(0));
    store.commit(&stamped(&a, old, &layout, 0, 1, 1)).unwrap();
    let new = store.configure(&a, ready(&layout), at(1));
    assert_ne!(old, new);
    assert_eq!(store.commit(&stamped(&a, old, &layout, 0, 2, 2)).unwrap(), Committed::Stale);
    // A value of another machine is no last value.
    assert!(store.root().device(&a).unwrap().values.iter().all(Option::is_none));
}

#[test]
fn shd_009_equal_values_move_last_seen_only() {
    let (store, layout, a) = (store(), layout(&[("g", Some(1000), 3)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    store.commit(&stamped(&a, generation, &layout, 0, 1, 5)).unwrap();
    let before = store.root();
    let mut woken = store.subscribe();
    woken.mark_unchanged();
    assert_eq!(store.commit(&stamped(&a, generation, &layout, 0, 2, 5)).unwrap(), Committed::Unchanged);
    assert_eq!(store.root().revision, before.revision);
    assert!(!woken.has_changed().unwrap());
    let twin = Arc::clone(before.device(&a).unwrap());
    assert_eq!(twin.acquired[0], Some(at(1010).wall));
    assert_eq!(twin.last_seen.wall(GroupId(0)), Some(at(2010).wall));
    // Unchanged or not, the cycle has passed.
    assert_eq!(store.commit(&stamped(&a, generation, &layout, 0, 2, 6)).unwrap(), Committed::Stale);
}

#[test]
fn shd_010_a_refused_register_is_bad_alone_and_still_one_revision() {
    let (store, layout, a) = (store(), layout(&[("g", Some(1000), 3)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    store.commit(&stamped(&a, generation, &layout, 0, 1, 5)).unwrap();
    let before = store.root().revision;
    let mut batch = stamped(&a, generation, &layout, 0, 2, 6);
    batch.readings[1].1 = Reading::Bad(Reason::Exception(2));
    assert_eq!(store.commit(&batch).unwrap(), Committed::Changed(before.next()));
    let root = store.root();
    let twin = root.device(&a).unwrap();
    assert_eq!(ints(twin), vec![6, 5, 6]);
    assert_eq!(twin.quality(PointId(1)), Quality::Not(QualityCode::Bad, Reason::Exception(2)));
    assert_eq!(twin.quality(PointId(0)), Quality::Good);
    assert_eq!(twin.status.state, StatusState::Degraded);
    assert_eq!(twin.status.reason, Some(StatusReason::PointsBad));
}

#[test]
fn shd_011_a_failed_group_keeps_its_picture_and_is_stale_at_once() {
    let (store, layout, a) = (store(), layout(&[("g", Some(1000), 2), ("h", Some(1000), 1)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    store.commit(&stamped(&a, generation, &layout, 0, 1, 5)).unwrap();
    let mut batch = stamped(&a, generation, &layout, 0, 2, 6);
    batch.groups[0].1 = GroupResult::Failed(Reason::Timeout);
    batch.readings.retain(|(p, _)| layout.group_of(*p) != GroupId(0));
    store.commit(&batch).unwrap();
    let root = store.root();
    let twin = root.device(&a).unwrap();
    assert_eq!(ints(twin), vec![5, 5, 6]);
    assert_eq!(twin.quality(PointId(0)), Quality::Not(QualityCode::Stale, Reason::Timeout));
    assert_eq!(twin.quality(PointId(2)), Quality::Good);
    assert_eq!(twin.acquired[0], Some(at(1010).wall), "the time of the last complete picture");
}

#[test]
fn shd_013_014_flags_of_a_long_cycle_and_of_a_clock_set_back() {
    let (store, layout, a) = (store(), layout(&[("g", Some(1000), 1)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    let mut batch = stamped(&a, generation, &layout, 0, 1, 1);
    batch.skew_exceeded = true;
    store.commit(&batch).unwrap();
    assert!(store.root().device(&a).unwrap().skew_exceeded);
    let mut batch = stamped(&a, generation, &layout, 0, 2, 2);
    batch.ended.wall = Wall(batch.ended.wall.0 - 3_600_000);
    let before = store.root().revision;
    assert_eq!(store.commit(&batch).unwrap(), Committed::Changed(before.next()));
    assert_eq!(store.root().device(&a).unwrap().clock_steps, 1);
    assert!(!store.root().device(&a).unwrap().skew_exceeded);
    // An hour behind from now on is no further step.
    let mut batch = stamped(&a, generation, &layout, 0, 3, 3);
    batch.ended.wall = Wall(batch.ended.wall.0 - 3_600_000);
    store.commit(&batch).unwrap();
    assert_eq!(store.root().device(&a).unwrap().clock_steps, 1);
}

#[test]
fn a_silent_device_is_offline_after_its_failed_cycles_and_back_by_itself() {
    let (store, layout, a) = (store(), layout(&[("fast", Some(100), 1), ("slow", Some(1000), 1)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    assert_eq!(store.root().device(&a).unwrap().status.reason, Some(StatusReason::Starting));
    store.commit(&stamped(&a, generation, &layout, 0, 1, 5)).unwrap();
    store.commit(&stamped(&a, generation, &layout, 1, 2, 5)).unwrap();
    assert_eq!(store.root().device(&a).unwrap().status.state, StatusState::Online);
    for cycle in 3..=5 {
        let batch = stamped(&a, generation, &layout, 0, cycle, 6);
        store.commit(&failed(batch, Reason::Timeout, Fault::NoReply)).unwrap();
        let root = store.root();
        let twin = root.device(&a).unwrap();
        if cycle < 5 {
            assert_eq!(twin.status.state, StatusState::Degraded);
            assert_eq!(twin.quality(PointId(0)), Quality::Not(QualityCode::Stale, Reason::Timeout));
            assert_eq!(twin.quality(PointId(1)), Quality::Good);
        } else {
            assert_eq!(twin.status.state, StatusState::Offline);
            assert_eq!(twin.status.reason, Some(StatusReason::Unreachable(Fault::NoReply)));
            assert_eq!(twin.status.since, at(5010).wall);
            for point in [PointId(0), PointId(1)] {
                assert_eq!(twin.quality(point), Quality::Not(QualityCode::Stale, Reason::Offline));
            }
            assert_eq!(ints(twin), vec![5, 5]);
        }
    }
    // A further failure changes nothing: no commit.
    let revision = store.root().revision;
    let batch = failed(stamped(&a, generation, &layout, 0, 6, 6), Reason::Timeout, Fault::NoReply);
    assert_eq!(store.commit(&batch).unwrap(), Committed::Unchanged);
    assert_eq!(store.root().revision, revision);
    store.commit(&stamped(&a, generation, &layout, 0, 7, 7)).unwrap();
    let twin = Arc::clone(store.root().device(&a).unwrap());
    assert_eq!(twin.status.state, StatusState::Degraded, "the slow group is still to come");
    store.commit(&stamped(&a, generation, &layout, 1, 8, 7)).unwrap();
    assert_eq!(store.root().device(&a).unwrap().status.state, StatusState::Online);
}

#[test]
fn a_device_that_is_gone_stays_stale_though_a_refusal_of_it_is_remembered() {
    let (store, layout, a) = (store(), layout(&[("whole", Some(100), 1), ("refused", Some(100), 1)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    store.commit(&stamped(&a, generation, &layout, 0, 1, 5)).unwrap();
    let gone = |cycle| {
        let whole = failed(stamped(&a, generation, &layout, 0, cycle, 6), Reason::Timeout, Fault::NoReply);
        Batch {
            groups: vec![whole.groups[0], (GroupId(1), GroupResult::Read(at(1).wall))],
            readings: vec![(PointId(1), Reading::Bad(Reason::Exception(2)))],
            ..whole
        }
    };
    for cycle in 2..8 {
        let committed = store.commit(&gone(cycle)).unwrap();
        let twin = Arc::clone(store.root().device(&a).unwrap());
        if cycle >= 4 {
            assert_eq!(twin.status.state, StatusState::Offline);
            for point in [PointId(0), PointId(1)] {
                assert_eq!(twin.quality(point), Quality::Not(QualityCode::Stale, Reason::Offline), "cycle {cycle}");
            }
        }
        // Further failures change nothing: no point is bad and stale in turns.
        assert_eq!(committed == Committed::Unchanged, cycle == 3 || cycle > 4, "cycle {cycle}");
    }
}

#[test]
fn a_device_that_never_answered_has_no_values_and_no_quality_but_a_reason() {
    let (store, layout, a) = (store(), layout(&[("g", Some(1000), 2)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    for cycle in 1..=3 {
        let batch = stamped(&a, generation, &layout, 0, cycle, 6);
        store.commit(&failed(batch, Reason::Link, Fault::Refused)).unwrap();
    }
    let root = store.root();
    let twin = root.device(&a).unwrap();
    assert_eq!(twin.status.reason, Some(StatusReason::Unreachable(Fault::Refused)));
    assert_eq!(twin.status.since, at(0).wall);
    assert!(twin.qualities.iter().all(|q| q.quality == Quality::Unread));
    assert_eq!(twin.version, Version(1), "a change of status alone moves the revision, not the version");
}

#[test]
fn the_tick_marks_what_the_poller_forgot() {
    let (store, layout, a) = (store(), layout(&[("g", Some(1000), 1), ("once", None, 1)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    store.commit(&stamped(&a, generation, &layout, 0, 1, 5)).unwrap();
    store.commit(&stamped(&a, generation, &layout, 1, 2, 5)).unwrap();
    let before = store.root().revision;
    store.tick(at(4010));
    assert_eq!(store.root().revision, before, "three intervals are not over");
    store.tick(at(4011));
    let root = store.root();
    let twin = root.device(&a).unwrap();
    assert_eq!(root.revision, before.next());
    assert_eq!(twin.quality(PointId(0)), Quality::Not(QualityCode::Stale, Reason::Overdue));
    assert_eq!(twin.quality(PointId(1)), Quality::Good, "once is never overdue");
    store.tick(at(9999));
    assert_eq!(store.root().revision, before.next(), "said once");
}

#[test]
fn stopping_spoils_everything_and_removal_keeps_the_version() {
    let (store, layout, a) = (store(), layout(&[("g", Some(1000), 1)]), id("a"));
    let generation = store.configure(&a, ready(&layout), at(0));
    store.commit(&stamped(&a, generation, &layout, 0, 1, 5)).unwrap();
    store.stop(at(2000));
    let twin = Arc::clone(store.root().device(&a).unwrap());
    assert_eq!(twin.status.reason, Some(StatusReason::Stopped));
    assert_eq!(twin.quality(PointId(0)), Quality::Not(QualityCode::Stale, Reason::Offline));
    store.remove(&a, at(3000)).unwrap();
    assert!(store.root().device(&a).is_none());
    assert!(store.remove(&a, at(3000)).is_err());
    assert!(store.commit(&stamped(&a, generation, &layout, 0, 2, 5)).is_err());
    let again = store.configure(&a, ready(&layout), at(4000));
    assert!(again > generation);
    assert!(store.root().device(&a).unwrap().version > twin.version);
    assert_eq!(store.root().devices().count(), 1);
}

#[test]
fn a_watcher_that_fell_behind_is_told_the_floor() {
    let (layout, a) = (layout(&[("g", Some(1000), 1)]), id("a"));
    let store = Store::new(Epoch(1), &Options { ring_entries: 3, ring_bytes: 1 << 20 });
    store.configure(&a, ready(&layout), at(0));
    for cycle in 1..=9 {
        store.commit(&stamped(&a, Generation(1), &layout, 0, cycle, cycle as i64)).unwrap();
    }
    assert_eq!(store.watch(Revision(6), 9).unwrap_err(), Compacted { floor: Revision(7) });
    let got: Vec<u64> = store.watch(Revision(7), 9).unwrap().iter().map(|c| c.revision.0).collect();
    assert_eq!(got, vec![8, 9, 10]);
    assert_eq!(store.watch(Revision(7), 1).unwrap().len(), 1);
    assert!(store.watch(Revision(10), 9).unwrap().is_empty());
    assert!(store.watch(Revision(99), 9).unwrap().is_empty());
}
