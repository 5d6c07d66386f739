//! What must be said to the broker, and what of it was accepted. STATE MACHINE, `now` as an argument.
//!
//! Kinds of method:
//!
//! - `handle_*`: something happened: commits, a connection came or went, the broker accepted a publication, time
//!   passed, the process is to stop. They return nothing; what follows from them is asked for.
//! - `poll_publication`: the next thing to say. Ask only when it can be sent at once: a `state` is made when it is
//!   asked for, from the newest commit handled, so handle all commits first. Nothing is queued but names.
//! - `poll_timeout`: when to call `handle_timeout` next. Ask after the last `poll_publication`.
//!
//! ```text
//!            handle_connected
//!   away ───────────────────────► statuses, states of all devices ─► schemas ─► gateway online ─► what changes
//!     ▲                            (again after each reconnect, then schemas last)                     │
//!     └──────────── handle_disconnected, from anywhere ◄───────────── handle_stopping: states, gateway offline
//! ```
//!
//! Memory is bounded: one entry per device in each queue of names, [`CHANGES_MAX`] changes, [`CLEARS_MAX`] topics of
//! removed devices to clear, and tickets as many as the session lets through.

mod device;
#[cfg(test)]
mod tests;

use super::document::{ChangeFrame, DeviceCounts, Documents, GatewayStatus, Reload, StateFrame};
use super::message::{Publication, Qos, Ticket};
use super::skeleton::Skeleton;
use super::topic::{Prefix, Topic};
use crate::model::{DeviceId, Epoch, Layout, Mono, Revision, Stamp};
use crate::twin::{Commit, DeviceChange, DeviceTwin, Root};
use bytes::Bytes;
use device::{Device, Want};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How to say it.
#[derive(Debug, Clone)]
pub struct Options {
    /// What stands before each topic.
    pub prefix: Prefix,
    /// The gateway's name in topics: obeys the rule of device names, and no device may have it.
    pub gateway: DeviceId,
    /// Version of the program.
    pub version: Arc<str>,
    /// Quality of service of `state`. Default at least once.
    pub state_qos: Qos,
    /// Whether the broker keeps `state`. Default true; without it a new subscriber waits for the next one.
    pub state_retain: bool,
    /// Least time between two states of a device. Default 0. Never delays one by which a quality got worse.
    pub min_interval: Duration,
    /// How often an unchanged state is repeated, 5 s to 1 h. Default 60 s.
    pub heartbeat: Duration,
    /// Whether to say what each commit changed. Default true.
    pub change: bool,
    /// Quality of service of `change`. Default at most once.
    pub change_qos: Qos,
}

impl Options {
    /// The defaults, for this gateway.
    pub fn new(gateway: DeviceId, version: &str) -> Self {
        Self {
            prefix: Prefix::default(),
            gateway,
            version: Arc::from(version),
            state_qos: Qos::AtLeastOnce,
            state_retain: true,
            min_interval: Duration::ZERO,
            heartbeat: Duration::from_mins(1),
            change: true,
            change_qos: Qos::AtMostOnce,
        }
    }

    /// What the broker is to say when the connection breaks: same topic, quality of service and retain flag as the
    /// gateway's birth (F113).
    pub fn will(&self) -> Publication {
        let payload = Bytes::copy_from_slice(Documents::default().gateway_offline(&self.gateway, None));
        self.gateway_publication(payload)
    }

    fn gateway_publication(&self, payload: Bytes) -> Publication {
        let topic = self.prefix.topic(&self.gateway, Topic::Status);
        Publication { topic, payload, qos: Qos::AtLeastOnce, retain: true, expiry: None }
    }
}

/// Something to say now.
#[derive(Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The message.
    pub publication: Publication,
    /// By which its acceptance is reported; nothing for messages at most once.
    pub ticket: Option<Ticket>,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncCounters {
    /// Publications handed out.
    pub published: u64,
    /// Publications that the broker accepted.
    pub accepted: u64,
    /// Publications that could not be sent, as for their size.
    pub refused: u64,
    /// Changes that were not said: the broker was away or too slow, or the history was gone.
    pub dropped_changes: u64,
}

/// The state machine. See the head of this file.
#[derive(Debug)]
pub struct ShadowSync {
    options: Options,
    epoch: Epoch,
    /// Revision up to which commits were handled.
    followed: Revision,
    link: Link,
    /// The gateway was said to be online in this life.
    ever_online: bool,
    stopping: bool,
    /// Slots; an empty one is in `free`.
    devices: Vec<Option<Device>>,
    free: Vec<u32>,
    slots: HashMap<DeviceId, u32>,
    next_serial: u64,
    skeletons: Vec<(Arc<Layout>, Arc<Skeleton>)>,
    /// `name@version` → its schema.
    schemas: HashMap<Box<str>, Bytes>,
    clears: VecDeque<(DeviceId, Topic)>,
    statuses: VecDeque<Name>,
    states: VecDeque<(Name, Mono)>,
    schemas_wanted: VecDeque<Name>,
    changes: VecDeque<PendingChange>,
    /// Devices whose first state of this connection is still to be said.
    unborn: usize,
    timers: BinaryHeap<Reverse<(Mono, Name, Timer)>>,
    counts: DeviceCounts,
    reload: Option<Reload>,
    gateway_changed: bool,
    gateway_at: Option<Mono>,
    tickets: HashMap<Ticket, Said>,
    next_ticket: u64,
    documents: Documents,
    counters: SyncCounters,
}

/// Whether there is a broker, and how far it has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Away,
    /// Connected; the gateway's `online` is still to be said.
    Births,
    /// Connected, and said to be online.
    Online,
    /// Connected, and said to be offline: nothing more is said.
    Farewell,
}

/// A device in a queue: its slot, and its serial, by which an entry of an earlier owner is known.
type Name = (u32, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Heartbeat,
    MinInterval,
}

#[derive(Debug)]
struct PendingChange {
    name: Name,
    skeleton: Arc<Skeleton>,
    previous_rev: Revision,
    commit: Arc<Commit>,
    index: u32,
}

/// What a ticket stands for, as far as its loss matters.
#[derive(Debug)]
enum Said {
    /// A topic of a removed device was cleared.
    Clear(DeviceId, Topic),
    /// A state with the flag `clock_stepped`; with the count of steps said before.
    Flagged(Name, u32),
    Other,
}

impl ShadowSync {
    /// A machine that knows the devices of this root and no broker yet.
    pub fn new(options: Options, root: &Root, now: Stamp) -> Self {
        let mut sync = Self {
            options,
            epoch: root.epoch,
            followed: Revision(0),
            link: Link::Away,
            ever_online: false,
            stopping: false,
            devices: Vec::new(),
            free: Vec::new(),
            slots: HashMap::new(),
            next_serial: 0,
            skeletons: Vec::new(),
            schemas: HashMap::new(),
            clears: VecDeque::new(),
            statuses: VecDeque::new(),
            states: VecDeque::new(),
            schemas_wanted: VecDeque::new(),
            changes: VecDeque::new(),
            unborn: 0,
            timers: BinaryHeap::new(),
            counts: DeviceCounts::default(),
            reload: None,
            gateway_changed: false,
            gateway_at: None,
            tickets: HashMap::new(),
            next_ticket: 0,
            documents: Documents::default(),
            counters: SyncCounters::default(),
        };
        sync.handle_root(root, now);
        sync
    }

    // Plain getters.

    /// Revision up to which commits were handled: where to go on watching.
    pub fn followed(&self) -> Revision {
        self.followed
    }

    /// What was counted.
    pub fn counters(&self) -> SyncCounters {
        self.counters
    }

    /// After [`ShadowSync::handle_stopping`]: everything was said and accepted, or there is nobody to say it to.
    pub fn is_finished(&self) -> bool {
        self.stopping && (self.link == Link::Away || (self.link == Link::Farewell && self.tickets.is_empty()))
    }

    // What happened.

    /// The broker is there, with a clean session: everything is to be said anew.
    pub fn handle_connected(&mut self, now: Stamp) {
        self.forget_connection();
        self.link = Link::Births;
        self.unborn = 0;
        for slot in 0..self.devices.len() as u32 {
            let Some(device) = &mut self.devices[slot as usize] else { continue };
            device.unborn = true;
            self.unborn += 1;
            self.want_status(slot);
            self.want_state(slot, true, now);
            self.want_schema(slot);
        }
    }

    /// The broker is gone; what it had not accepted is lost and will be said anew, from what is newest then.
    pub fn handle_disconnected(&mut self, _now: Stamp) {
        self.forget_connection();
        self.link = Link::Away;
    }

    /// These commits were made, in order. Those that were handled already are passed over.
    pub fn handle_commits(&mut self, commits: &[Arc<Commit>], now: Stamp) {
        for commit in commits {
            if commit.revision <= self.followed {
                continue;
            }
            // The caller watches from `followed`, so the next commit is the one after it.
            debug_assert_eq!(commit.revision, self.followed.next());
            self.followed = commit.revision;
            for (index, change) in commit.changes.iter().enumerate() {
                self.handle_change(commit, index as u32, change, now);
            }
        }
    }

    /// The history of commits is gone up to here: go on from this root. What changed in between is said as states.
    pub fn handle_root(&mut self, root: &Root, now: Stamp) {
        if root.revision < self.followed {
            return;
        }
        self.followed = root.revision;
        for slot in 0..self.devices.len() {
            let gone = self.devices[slot].as_ref().filter(|d| root.device(&d.twin.device).is_none());
            if let Some(device) = gone.map(|d| d.twin.device.clone()) {
                self.remove(&device);
            }
        }
        for twin in root.devices() {
            let Some(slot) = self.slots.get(&twin.device).copied() else {
                self.add(twin, now);
                continue;
            };
            let Some(device) = &mut self.devices[slot as usize] else { continue };
            if device.twin.revision == twin.revision {
                continue;
            }
            let configured = device.twin.generation != twin.generation;
            let status = device.twin.status != twin.status;
            let moved = device.twin.version != twin.version;
            if moved {
                self.counters.dropped_changes += u64::from(self.options.change);
            }
            self.update(slot, twin, configured, status);
            if moved || configured {
                self.moved(slot, twin.revision, true, now);
            }
        }
    }

    /// A kind of device is described by this schema: say it for each device of the kind.
    pub fn handle_schema(&mut self, profile: &str, version: &str, schema: Bytes) {
        let key = format!("{profile}@{version}").into_boxed_str();
        if self.schemas.get(&key) == Some(&schema) {
            return;
        }
        self.schemas.insert(key, schema);
        for slot in 0..self.devices.len() as u32 {
            let layout = self.devices[slot as usize].as_ref().and_then(|d| d.twin.layout());
            if layout.is_some_and(|l| &*l.profile == profile && &*l.profile_version == version) {
                self.want_schema(slot);
            }
        }
    }

    /// Files were read anew, with this result.
    pub fn handle_reload(&mut self, reload: Reload) {
        self.reload = Some(reload);
        self.gateway_changed = true;
    }

    /// The broker has accepted this publication.
    pub fn handle_published(&mut self, ticket: Ticket) {
        if self.tickets.remove(&ticket).is_some() {
            self.counters.accepted += 1;
        }
    }

    /// This publication cannot be sent, or the broker did not take it, and repeating it would not help: it is given
    /// up until there is something new to say.
    pub fn handle_refused(&mut self, ticket: Option<Ticket>) {
        self.counters.refused += 1;
        if let Some(ticket) = ticket {
            self.tickets.remove(&ticket);
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Stamp) {
        if self.link == Link::Away {
            return;
        }
        while let Some(Reverse((at, name, timer))) = self.timers.peek().copied() {
            if at > now.mono {
                break;
            }
            self.timers.pop();
            let Some(device) = owner(&mut self.devices, name) else { continue };
            match timer {
                Timer::MinInterval => {
                    device.timer_runs = false;
                    if device.want == Want::Later {
                        device.want = Want::Nothing;
                        self.want_state(name.0, false, now);
                    }
                }
                Timer::Heartbeat => {
                    let (due, confirmed) = (device.heartbeat_at, device.is_confirmed(now));
                    let next = if now.mono < due {
                        due
                    } else if self.stopping || !confirmed {
                        now.mono + (self.options.heartbeat / 10).max(Duration::from_secs(1))
                    } else {
                        self.want_state(name.0, true, now);
                        now.mono + self.options.heartbeat
                    };
                    self.timers.push(Reverse((next, name, Timer::Heartbeat)));
                }
            }
        }
    }

    /// The process ends: say what is still to be said (the caller has stopped the store, so that this is that nothing
    /// is fresh any more), then that the gateway is gone.
    pub fn handle_stopping(&mut self, now: Stamp) {
        self.stopping = true;
        for slot in 0..self.devices.len() as u32 {
            if self.devices[slot as usize].as_ref().is_some_and(|d| d.want == Want::Later) {
                self.enqueue_state(slot, now);
            }
        }
    }

    // What follows.

    /// The next thing to say, made now. Nothing while the broker is away or all is said.
    pub fn poll_publication(&mut self, now: Stamp) -> Option<Outgoing> {
        if matches!(self.link, Link::Away | Link::Farewell) {
            return None;
        }
        let outgoing = self
            .next_clear()
            .or_else(|| self.next_status(now))
            .or_else(|| self.next_birth(now))
            .or_else(|| self.next_of_gateway(now))
            .or_else(|| self.next_change_or_state(now))
            .or_else(|| self.next_farewell(now))
            .or_else(|| self.next_schema());
        self.counters.published += u64::from(outgoing.is_some());
        outgoing
    }

    /// When to call [`ShadowSync::handle_timeout`] and ask again.
    pub fn poll_timeout(&self) -> Option<Mono> {
        if matches!(self.link, Link::Away | Link::Farewell) {
            return None;
        }
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        let gateway = (self.link == Link::Online && self.gateway_changed)
            .then(|| self.gateway_at.map_or(Mono::ZERO, |at| at + GATEWAY_INTERVAL));
        [timer, gateway].into_iter().flatten().min()
    }

    fn next_clear(&mut self) -> Option<Outgoing> {
        let (device, topic) = self.clears.pop_front()?;
        let publication = Publication {
            topic: self.options.prefix.topic(&device, topic),
            payload: Bytes::new(),
            qos: Qos::AtLeastOnce,
            retain: true,
            expiry: None,
        };
        Some(self.ticketed(publication, Said::Clear(device, topic)))
    }

    fn next_status(&mut self, now: Stamp) -> Option<Outgoing> {
        while let Some(name) = self.statuses.pop_front() {
            let Some(device) = owner(&mut self.devices, name) else { continue };
            device.status_wanted = false;
            let payload = Bytes::copy_from_slice(self.documents.status(&device.twin, now.wall));
            let topic = self.options.prefix.topic(&device.twin.device, Topic::Status);
            let publication = Publication { topic, payload, qos: Qos::AtLeastOnce, retain: true, expiry: None };
            return Some(self.ticketed(publication, Said::Other));
        }
        None
    }

    /// While some device has had no state on this connection, states come before all else.
    fn next_birth(&mut self, now: Stamp) -> Option<Outgoing> {
        if self.unborn == 0 { None } else { self.next_state(now) }
    }

    fn next_of_gateway(&mut self, now: Stamp) -> Option<Outgoing> {
        // In the first place, what a device is described by comes before the news that it can be listened to.
        if self.link == Link::Births
            && !self.ever_online
            && !self.stopping
            && let Some(schema) = self.next_schema()
        {
            return Some(schema);
        }
        let due = match self.link {
            Link::Births => !self.stopping,
            Link::Online if self.stopping || !self.gateway_changed => false,
            Link::Online => self.gateway_at.is_none_or(|at| now.mono >= at + GATEWAY_INTERVAL),
            Link::Away | Link::Farewell => false,
        };
        if !due {
            return None;
        }
        self.link = Link::Online;
        self.ever_online = true;
        self.gateway_changed = false;
        self.gateway_at = Some(now.mono);
        let status = GatewayStatus {
            gateway: self.options.gateway.clone(),
            version: Arc::clone(&self.options.version),
            epoch: self.epoch,
            devices: self.counts,
            reload: self.reload.clone(),
        };
        let payload = Bytes::copy_from_slice(self.documents.gateway_online(&status, now.wall));
        let publication = self.options.gateway_publication(payload);
        Some(self.ticketed(publication, Said::Other))
    }

    /// A commit's change comes before the state that it leads to, so that readers of both see revisions rise. A state
    /// that has waited too long goes first, and what it overtakes is not said any more.
    fn next_change_or_state(&mut self, now: Stamp) -> Option<Outgoing> {
        let patient = self.states.front().is_none_or(|(_, since)| now.mono.since(*since) < STATE_PATIENCE);
        if patient && let Some(change) = self.next_change(now) {
            return Some(change);
        }
        self.next_state(now).or_else(|| self.next_change(now))
    }

    fn next_change(&mut self, now: Stamp) -> Option<Outgoing> {
        while let Some(pending) = self.changes.pop_front() {
            let rev = pending.commit.revision;
            if self.device(pending.name).is_none_or(|device| rev <= device.stated) {
                self.counters.dropped_changes += 1;
                continue;
            }
            let Some(change) = pending.commit.changes.get(pending.index as usize) else { continue };
            let frame = ChangeFrame { epoch: self.epoch, rev, previous_rev: pending.previous_rev, published: now.wall };
            let Some(device) = change.new.as_ref().map(|new| &new.device) else { continue };
            let Some(payload) = self.documents.change(change, &pending.skeleton, &frame) else { continue };
            let publication = Publication {
                topic: self.options.prefix.topic(device, Topic::Change),
                payload: Bytes::copy_from_slice(payload),
                qos: self.options.change_qos,
                retain: false,
                expiry: None,
            };
            return Some(self.ticketed(publication, Said::Other));
        }
        None
    }

    fn next_state(&mut self, now: Stamp) -> Option<Outgoing> {
        while let Some((name, _)) = self.states.pop_front() {
            let Some(device) = owner(&mut self.devices, name) else { continue };
            device.want = Want::Nothing;
            device.confirm(now.wall);
            let clock_before = device.clock_said;
            let clock_stepped = device.twin.clock_steps > clock_before;
            device.clock_said = device.twin.clock_steps;
            device.stated = device.rev;
            device.stated_at = Some(now.mono);
            device.heartbeat_at = now.mono + self.options.heartbeat;
            if device.unborn {
                // All are born at once; their heartbeats shall not all come at once for ever after.
                device.heartbeat_at = now.mono + spread(self.options.heartbeat, name.0);
                device.unborn = false;
                self.unborn -= 1;
            }
            let frame = StateFrame {
                epoch: self.epoch,
                rev: device.rev,
                acquired: &device.acquired,
                published: now.wall,
                heartbeat: self.options.heartbeat,
                clock_stepped,
            };
            let payload = self.documents.state(&device.twin, device.skeleton.as_deref(), &frame);
            let publication = Publication {
                topic: self.options.prefix.topic(&device.twin.device, Topic::State),
                payload: Bytes::copy_from_slice(payload),
                qos: self.options.state_qos,
                retain: self.options.state_retain,
                expiry: Some(self.options.heartbeat * 3),
            };
            let said = if clock_stepped { Said::Flagged(name, clock_before) } else { Said::Other };
            return Some(self.ticketed(publication, said));
        }
        None
    }

    fn next_farewell(&mut self, now: Stamp) -> Option<Outgoing> {
        if !self.stopping {
            return None;
        }
        self.link = Link::Farewell;
        let payload = Bytes::copy_from_slice(self.documents.gateway_offline(&self.options.gateway, Some(now.wall)));
        let publication = self.options.gateway_publication(payload);
        Some(self.ticketed(publication, Said::Other))
    }

    fn next_schema(&mut self) -> Option<Outgoing> {
        while let Some(name) = self.schemas_wanted.pop_front() {
            let Some(device) = owner(&mut self.devices, name) else { continue };
            device.schema_wanted = false;
            let Some(layout) = device.twin.layout() else { continue };
            let key = format!("{}@{}", layout.profile, layout.profile_version);
            let Some(payload) = self.schemas.get(key.as_str()).cloned() else { continue };
            let topic = self.options.prefix.topic(&device.twin.device, Topic::Schema);
            let publication = Publication { topic, payload, qos: Qos::AtLeastOnce, retain: true, expiry: None };
            return Some(self.ticketed(publication, Said::Other));
        }
        None
    }

    fn ticketed(&mut self, publication: Publication, said: Said) -> Outgoing {
        let ticket = (publication.qos == Qos::AtLeastOnce).then(|| {
            let ticket = Ticket(self.next_ticket);
            self.next_ticket += 1;
            self.tickets.insert(ticket, said);
            ticket
        });
        Outgoing { publication, ticket }
    }

    fn handle_change(&mut self, commit: &Arc<Commit>, index: u32, change: &DeviceChange, now: Stamp) {
        let Some(new) = &change.new else {
            if let Some(old) = &change.old {
                self.remove(&old.device);
            }
            return;
        };
        let Some(slot) = self.slots.get(&new.device).copied() else {
            self.add(new, now);
            return;
        };
        self.update(slot, new, change.configured, change.status || change.configured);
        let moved = !change.values.is_empty() || !change.qualities.is_empty();
        let Some(device) = self.devices[slot as usize].as_ref().filter(|_| moved || change.configured) else { return };
        if moved && self.options.change {
            let pending = device.skeleton.as_ref().filter(|_| self.link != Link::Away).map(|skeleton| PendingChange {
                name: (slot, device.serial),
                skeleton: Arc::clone(skeleton),
                previous_rev: device.rev,
                commit: Arc::clone(commit),
                index,
            });
            match pending {
                Some(pending) => {
                    if self.changes.len() >= CHANGES_MAX {
                        self.changes.pop_front();
                        self.counters.dropped_changes += 1;
                    }
                    self.changes.push_back(pending);
                }
                None => self.counters.dropped_changes += 1,
            }
        }
        self.moved(slot, commit.revision, change.got_worse() || change.configured, now);
    }

    /// Takes over a device's newest state.
    fn update(&mut self, slot: u32, twin: &Arc<DeviceTwin>, configured: bool, status: bool) {
        let skeleton = if configured { twin.layout().map(|layout| self.skeleton(layout)) } else { None };
        let Some(device) = &mut self.devices[slot as usize] else { return };
        let before = device.twin.status.state;
        device.twin = Arc::clone(twin);
        if configured {
            device.reconfigure(skeleton, twin.acquired.len());
            self.want_schema(slot);
        }
        if before != twin.status.state {
            *self.counts.of(before) -= 1;
            *self.counts.of(twin.status.state) += 1;
            self.gateway_changed = true;
        }
        if status {
            self.want_status(slot);
        }
    }

    /// A value or a quality of a device changed, or its configuration.
    fn moved(&mut self, slot: u32, rev: Revision, urgent: bool, now: Stamp) {
        if let Some(device) = &mut self.devices[slot as usize] {
            device.rev = rev;
        }
        self.want_state(slot, urgent, now);
    }

    fn add(&mut self, twin: &Arc<DeviceTwin>, now: Stamp) {
        let skeleton = twin.layout().map(|layout| self.skeleton(layout));
        let serial = self.next_serial;
        self.next_serial += 1;
        let device = Device::new(serial, twin, skeleton, now.mono);
        let slot = self.free.pop().unwrap_or(self.devices.len() as u32);
        if slot as usize == self.devices.len() {
            self.devices.push(None);
        }
        self.devices[slot as usize] = Some(device);
        self.slots.insert(twin.device.clone(), slot);
        *self.counts.of(twin.status.state) += 1;
        self.gateway_changed = true;
        // It is back before its topics were cleared: what it says now overwrites them.
        self.clears.retain(|(device, _)| *device != twin.device);
        let first = now.mono + self.options.heartbeat / 2;
        self.timers.push(Reverse((first, (slot, serial), Timer::Heartbeat)));
        self.want_status(slot);
        self.want_state(slot, true, now);
        self.want_schema(slot);
    }

    fn remove(&mut self, device: &DeviceId) {
        let Some(slot) = self.slots.remove(device) else { return };
        if let Some(gone) = self.devices[slot as usize].take() {
            *self.counts.of(gone.twin.status.state) -= 1;
            self.gateway_changed = true;
            self.unborn -= usize::from(gone.unborn);
        }
        self.free.push(slot);
        for topic in [Topic::State, Topic::Status, Topic::Schema] {
            self.clear(device.clone(), topic);
        }
    }

    fn clear(&mut self, device: DeviceId, topic: Topic) {
        if self.clears.len() < CLEARS_MAX && !self.slots.contains_key(&device) {
            self.clears.push_back((device, topic));
        }
    }

    /// The layout's skeleton; devices of equal layouts share one.
    fn skeleton(&mut self, layout: &Arc<Layout>) -> Arc<Skeleton> {
        if let Some((_, skeleton)) = self.skeletons.iter().find(|(l, _)| Arc::ptr_eq(l, layout) || l == layout) {
            return Arc::clone(skeleton);
        }
        // Those that only this list holds belong to configurations that are gone.
        self.skeletons.retain(|(_, skeleton)| Arc::strong_count(skeleton) > 1);
        let skeleton = Arc::new(Skeleton::new(layout));
        self.skeletons.push((Arc::clone(layout), Arc::clone(&skeleton)));
        skeleton
    }

    fn want_status(&mut self, slot: u32) {
        let Some(device) = self.devices[slot as usize].as_mut().filter(|d| !d.status_wanted) else { return };
        if self.link != Link::Away {
            device.status_wanted = true;
            self.statuses.push_back((slot, device.serial));
        }
    }

    fn want_schema(&mut self, slot: u32) {
        let Some(device) = self.devices[slot as usize].as_mut().filter(|d| !d.schema_wanted) else { return };
        if self.link != Link::Away {
            device.schema_wanted = true;
            self.schemas_wanted.push_back((slot, device.serial));
        }
    }

    fn want_state(&mut self, slot: u32, urgent: bool, now: Stamp) {
        let Some(device) = self.devices[slot as usize].as_mut().filter(|d| d.want != Want::Now) else { return };
        if self.link == Link::Away {
            return;
        }
        let due = device.stated_at.map_or(Mono::ZERO, |at| at + self.options.min_interval);
        if urgent || self.stopping || due <= now.mono {
            self.enqueue_state(slot, now);
        } else if device.want == Want::Nothing {
            device.want = Want::Later;
            // One timer a device: should a state have gone out meanwhile, it is wound up again when it fires.
            if !device.timer_runs {
                device.timer_runs = true;
                self.timers.push(Reverse((due, (slot, device.serial), Timer::MinInterval)));
            }
        }
    }

    fn enqueue_state(&mut self, slot: u32, now: Stamp) {
        if let Some(device) = &mut self.devices[slot as usize] {
            device.want = Want::Now;
            self.states.push_back(((slot, device.serial), now.mono));
        }
    }

    /// Nothing of what was to be said on a connection outlives it but topics that are still to be cleared.
    fn forget_connection(&mut self) {
        self.counters.dropped_changes += self.changes.len() as u64;
        self.changes.clear();
        self.statuses.clear();
        self.states.clear();
        self.schemas_wanted.clear();
        for device in self.devices.iter_mut().flatten() {
            device.want = Want::Nothing;
            device.status_wanted = false;
            device.schema_wanted = false;
            device.unborn = false;
            device.stated = Revision(0);
        }
        self.unborn = 0;
        let mut lost: Vec<_> = self.tickets.drain().collect();
        lost.sort_unstable_by_key(|(ticket, _)| *ticket);
        // Newest first: of several flags it is the oldest count that must stand in the end.
        for (_, said) in lost.into_iter().rev() {
            match said {
                Said::Clear(device, topic) => self.clear(device, topic),
                Said::Flagged(name, before) => {
                    if let Some(device) = owner(&mut self.devices, name) {
                        device.clock_said = before;
                    }
                }
                Said::Other => {}
            }
        }
    }

    fn device(&self, (slot, serial): Name) -> Option<&Device> {
        self.devices.get(slot as usize)?.as_ref().filter(|device| device.serial == serial)
    }
}

/// The device of this name, if it is still there. Apart from the machine, so that its other parts can be used meanwhile.
fn owner(devices: &mut [Option<Device>], (slot, serial): Name) -> Option<&mut Device> {
    devices.get_mut(slot as usize)?.as_mut().filter(|device| device.serial == serial)
}

/// Half to the whole of a heartbeat, evenly over the slots: multiples of the golden ratio never come together.
fn spread(heartbeat: Duration, slot: u32) -> Duration {
    let fraction = (f64::from(slot) * 0.618_033_988_749_895).fract();
    heartbeat.mul_f64(0.5 + fraction / 2.0)
}

/// Least time between two statuses of the gateway: a plant that comes up device by device says so once a second.
const GATEWAY_INTERVAL: Duration = Duration::from_secs(1);

/// A state that has waited longer than this is said before further changes. Well above what a healthy broker takes for
/// the burst of a thousand devices, well below what a person notices.
const STATE_PATIENCE: Duration = Duration::from_millis(50);

/// Changes waiting for a slow broker; beyond it the oldest are dropped, and `previous_rev` shows the gap. Most of what
/// an entry keeps alive is in the store's ring as well.
const CHANGES_MAX: usize = 8192;

/// Topics of removed devices waiting to be cleared.
const CLEARS_MAX: usize = 100_000;
