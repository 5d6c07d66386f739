//! The bus: one link, the devices on it, and what is said to them when.

mod link;
mod pace;

use self::link::{LinkState, RECONNECT, REOPEN};
use self::pace::Pace;
use super::belief::{InFlight, Verdict, judge};
use super::cycle::{Job, Running};
use super::unit::Unit;
use super::{
    Backoff, BusOptions, CycleReport, Deed, LinkCounters, PartOutcome, PlanErrors, Traffic, UnitCounters, UnitSetup,
    options::MAX_IN_FLIGHT,
};
use crate::modbus::{Envelope, TransactionId, UnitId, read_request};
use crate::model::{Cycle, DeviceId, Fault, Mono, Reason, Stamp};
use std::collections::VecDeque;
use std::time::Duration;

/// STATE MACHINE: polls the devices of one link and believes only what fits. Sans-IO; it reads no clock.
///
/// Methods are of four kinds:
///
/// - getters, which change nothing: [`link_fault`](Self::link_fault), [`counters`](Self::counters), …;
/// - orders of the user: [`put`](Self::put), [`remove`](Self::remove);
/// - `handle_*`, for what happened outside: connected, received, time passed, …;
/// - `poll_*` and [`transmit`](Self::transmit), for what is to be done.
///
/// After each order and each `handle_*`, do all of this, in this order: [`poll_report`](Self::poll_report) until it
/// gives none; [`poll_deed`](Self::poll_deed) until it gives none; send what [`transmit`](Self::transmit) holds and say
/// so by [`handle_sent`](Self::handle_sent); call [`handle_timeout`](Self::handle_timeout) once
/// [`poll_timeout`](Self::poll_timeout) is reached. `now` must not run backwards.
///
/// One bus drives every kind of link; they differ in envelope and pace alone. Where replies carry no transaction id one
/// request is in flight, and the line and its units are left alone as `Pace` says.
///
/// Bounds: at most `in_flight` requests unanswered, one for each unit id; one running cycle for each interval of a
/// device; one unfinished frame; reports wait only until the caller takes them.
#[derive(Debug)]
pub struct Bus {
    options: BusOptions,
    envelope: Envelope,
    link: LinkState,
    /// Pauses between connects that failed.
    pauses: Backoff,
    ever_connected: bool,
    /// Places keep their index; one of a removed unit is used again.
    units: Vec<Option<Unit>>,
    in_flight: Vec<InFlight>,
    next_transaction: u16,
    /// Transaction ids of requests that timed out, the newest last.
    expired: VecDeque<TransactionId>,
    /// Rises with each request: who was served when.
    turn: u64,
    /// Not sent yet: `tx[sent..]`.
    tx: Vec<u8>,
    sent: usize,
    deeds: VecDeque<Deed>,
    reports: VecDeque<CycleReport>,
    wake: Option<Mono>,
    counters: LinkCounters,
    busy_since: Option<Mono>,
    pace: Pace,
}

impl Bus {
    /// A bus without devices on a link that is down.
    pub fn new(mut envelope: Envelope, options: BusOptions) -> Self {
        let (first, longest) = if options.line.is_some() { REOPEN } else { RECONNECT };
        let pauses = Backoff::new(first, longest, options.seed);
        envelope.set_echo(options.echo);
        let pace = Pace::new(envelope.is_serial(), options.line);
        Self {
            options,
            envelope,
            link: LinkState::Down { not_before: Mono::ZERO, fault: None, anew: true },
            pauses,
            ever_connected: false,
            units: Vec::new(),
            in_flight: Vec::new(),
            next_transaction: 1,
            expired: VecDeque::new(),
            turn: 0,
            tx: Vec::new(),
            sent: 0,
            deeds: VecDeque::new(),
            reports: VecDeque::new(),
            wake: None,
            counters: LinkCounters::default(),
            busy_since: None,
            pace,
        }
    }

    // ---- getters

    /// Why the link is down, where its last connect failed.
    pub fn link_fault(&self) -> Option<Fault> {
        match self.link {
            LinkState::Down { fault, .. } | LinkState::Connecting { fault, .. } => fault,
            LinkState::Up { .. } => None,
        }
    }

    /// Whether it has no devices.
    pub fn is_empty(&self) -> bool {
        self.units.iter().all(Option::is_none)
    }

    /// What was counted of the link.
    pub fn counters(&self) -> LinkCounters {
        let running = self.units.iter().flatten().flat_map(|u| &u.intervals).filter_map(|i| i.running.as_ref());
        let units = || self.units.iter().flatten().map(|u| &u.counters);
        LinkCounters {
            queue_depth: running.map(|r| r.jobs.len() as u64).sum(),
            cycle_late: self.counters.cycle_late + units().map(|c| c.cycle_late).sum::<u64>(),
            quarantined: units().map(|c| c.quarantined).sum(),
            ..self.counters.clone()
        }
    }

    /// What was counted of each device on it.
    pub fn unit_counters(&self) -> impl Iterator<Item = (&DeviceId, &UnitCounters)> {
        self.units.iter().flatten().map(|u| (&u.device, &u.counters))
    }

    // ---- orders

    /// Adds a device, or replaces the one of its name: what that one had asked for is forgotten. Numbers of cycles go
    /// on from the greater of the two, counters go on. Changes nothing where a group of it cannot be planned.
    pub fn put(&mut self, now: Stamp, mut setup: UnitSetup) -> Result<(), PlanErrors> {
        let share = if self.options.spread { share_of(setup.device.as_str()) } else { 0.0 };
        let seed = self.options.seed ^ name_hash(setup.device.as_str());
        let old = self.find(&setup.device);
        if let Some(old) = old.and_then(|place| self.units[place].as_ref()) {
            setup.first_cycle = setup.first_cycle.max(old.next_cycle);
        }
        let mut unit = Unit::new(setup, share, seed, now.mono, self.options.line)?;
        if let Some(place) = old {
            if let Some(old) = &mut self.units[place] {
                unit.counters = std::mem::take(&mut old.counters);
                // The device on the wire is the same: what silence it was due, it is still due.
                if old.unit_id == unit.unit_id {
                    unit.quiet_until = unit.quiet_until.max(old.quiet_until);
                }
                (unit.counters.quarantined, unit.counters.learned_limit) = (0, None);
            }
            self.vacate(place);
        }
        let place = self.units.iter().position(Option::is_none).unwrap_or(self.units.len());
        if place == self.units.len() {
            self.units.push(None);
        }
        self.units[place] = Some(unit);
        if let (LinkState::Up { since, .. }, Some(unit)) = (self.link, &mut self.units[place]) {
            unit.ready_at = since + unit.timing.after_connect;
        }
        self.advance(now);
        Ok(())
    }

    /// Takes a device off; gives the number that its next cycle would have had. Its running cycles are not reported.
    pub fn remove(&mut self, now: Stamp, device: &DeviceId) -> Option<Cycle> {
        let place = self.find(device)?;
        self.counters.cycle_late += self.units[place].as_ref().map_or(0, |u| u.counters.cycle_late);
        let next = self.vacate(place);
        if self.is_empty() {
            self.drop_connection();
            // Who comes next on this line must not be given what this device still says.
            for flight in self.take_in_flight(now.mono) {
                if self.is_blind() {
                    let patience = flight.deadline.since(flight.sent_end) + flight.deadline.since(now.mono);
                    self.pace.owes(flight.unit_id, flight.sent_end, now.mono, patience);
                }
            }
            self.link = LinkState::Down { not_before: now.mono, fault: None, anew: true };
            self.ever_connected = false;
        }
        self.advance(now);
        next
    }

    // ---- what happened outside

    /// The connection that was ordered is there.
    pub fn handle_connected(&mut self, now: Stamp) {
        let LinkState::Connecting { anew, .. } = self.link else { return };
        self.counters.reconnects += u64::from(std::mem::replace(&mut self.ever_connected, true));
        self.link = LinkState::Up { since: now.mono, answered: false, silent: 0 };
        self.envelope.renew();
        self.pace.note_bytes(now.mono);
        self.tx.clear();
        self.sent = 0;
        for unit in self.units.iter_mut().flatten() {
            unit.connected(now.mono, anew);
        }
        self.advance(now);
    }

    /// The connection that was ordered did not come about.
    pub fn handle_connect_failed(&mut self, now: Stamp, fault: Fault) {
        if matches!(self.link, LinkState::Connecting { .. }) {
            self.fail_link(now, fault);
            self.advance(now);
        }
    }

    /// The far end closed the connection, or it broke.
    pub fn handle_disconnected(&mut self, now: Stamp) {
        let LinkState::Up { since, answered, .. } = self.link else { return };
        let idle = self.in_flight.is_empty() && now.mono.since(since) >= SHORT_LIFE;
        self.tx.clear();
        self.sent = 0;
        // A read that a closing connection took along is no error: it goes out once more.
        for flight in self.take_in_flight(now.mono) {
            if self.is_blind() {
                self.pace.owes(
                    flight.unit_id,
                    flight.sent_end,
                    now.mono,
                    flight.deadline.since(now.mono).min(LOST_RECOVERY),
                );
            }
            self.requeue_lost(now, &flight, answered);
        }
        if answered || idle {
            self.link = LinkState::Down { not_before: now.mono, fault: None, anew: true };
        } else {
            self.fail_link(now, Fault::Refused);
        }
        self.advance(now);
    }

    /// Bytes came.
    pub fn handle_received(&mut self, now: Stamp, bytes: &[u8]) {
        let mut rest = bytes;
        if !bytes.is_empty() && matches!(self.link, LinkState::Up { .. }) {
            self.note_heard(now.mono, bytes.len());
        }
        let blind = self.is_blind();
        while let LinkState::Up { silent, answered, .. } = &mut self.link {
            *silent = 0;
            let answered = *answered;
            match self.envelope.unwrap(rest) {
                Ok((None, _)) => break,
                Ok((Some(adu), done)) => {
                    rest = &rest[done..];
                    let unit_id = adu.unit;
                    let verdict = judge(&adu, self.in_flight.iter().map(InFlight::awaited), blind);
                    self.take_tally();
                    self.apply(now, unit_id, verdict);
                }
                Err(_lost) => {
                    self.counters.lost_sync += 1;
                    self.counters.noise_bytes += rest.len() as u64;
                    self.reset(now, answered);
                }
            }
        }
        self.take_tally();
        self.advance(now);
    }

    /// So many bytes of [`transmit`](Self::transmit) went out.
    pub fn handle_sent(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.tx.len());
        if self.sent == self.tx.len() {
            self.tx.clear();
            self.sent = 0;
        }
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: Stamp) {
        self.advance(now);
    }

    // ---- what is to be done

    /// The next report of a cycle that is over.
    pub fn poll_report(&mut self) -> Option<CycleReport> {
        self.reports.pop_front()
    }

    /// The next thing to do with the link.
    pub fn poll_deed(&mut self) -> Option<Deed> {
        self.deeds.pop_front()
    }

    /// Bytes to send, or none.
    pub fn transmit(&self) -> &[u8] {
        &self.tx[self.sent..]
    }

    /// When time itself makes a difference next.
    pub fn poll_timeout(&self) -> Option<Mono> {
        self.wake
    }

    // ---- within

    fn find(&self, device: &DeviceId) -> Option<usize> {
        self.units.iter().position(|u| u.as_ref().is_some_and(|u| u.device == *device))
    }

    /// Empties a place. A request of it in flight stays so until its reply or its deadline: the link is not free before.
    fn vacate(&mut self, place: usize) -> Option<Cycle> {
        for flight in &mut self.in_flight {
            flight.owner = flight.owner.filter(|(p, _)| *p != place);
        }
        self.units[place].take().map(|u| u.next_cycle)
    }

    /// All that time and the last event make due.
    fn advance(&mut self, now: Stamp) {
        self.expire(now);
        self.advance_link(now);
        for unit in self.units.iter_mut().flatten() {
            unit.begin_due(now.mono);
        }
        if let Some(fault) = self.link_fault() {
            self.fail_running(now, Reason::Link, Some(fault));
        }
        // A cycle that has just begun may be what a sleeping link was waiting for.
        self.advance_link(now);
        self.send_due(now);
        self.close_if_idle(now);
        self.wake = self.next_wake(now.mono);
    }

    /// Requests whose time is over.
    fn expire(&mut self, now: Stamp) {
        while let Some(index) = self.in_flight.iter().position(|f| f.deadline <= now.mono) {
            let flight = self.in_flight.swap_remove(index);
            if self.expired.len() == EXPIRED_KEPT {
                self.expired.pop_front();
            }
            self.expired.push_back(flight.transaction);
            if flight.flaw.is_none() {
                self.count(flight.owner, |t| t.timeouts += 1);
            }
            if self.is_blind() {
                let patience = flight.deadline.since(flight.sent_end);
                self.pace.owes(flight.unit_id, flight.sent_end, now.mono, patience);
            }
            self.after_exchange(now.mono, flight.unit_id);
            self.attempt_failed(now, &flight, flight.flaw.unwrap_or(Reason::Timeout));
            if self.options.line.is_none()
                && let LinkState::Up { silent, answered, .. } = &mut self.link
            {
                *silent += 1;
                if *silent >= self.options.silent_resets {
                    let answered = *answered;
                    self.give_up_connection(now, answered);
                }
            }
        }
    }

    /// Ends all running cycles, but for requests in flight.
    fn fail_running(&mut self, now: Stamp, reason: Reason, link: Option<Fault>) {
        for place in 0..self.units.len() {
            let Some(unit) = &mut self.units[place] else { continue };
            unit.fail_all(reason, now);
            for index in 0..unit.intervals.len() {
                self.end_if_over(now, place, index, link);
            }
        }
    }

    /// Believes a frame, or counts why not.
    fn apply(&mut self, now: Stamp, unit_id: UnitId, verdict: Verdict) {
        if !matches!(verdict, Verdict::Values(..) | Verdict::Exception(..)) && self.pace.settles(unit_id, now.mono) {
            self.note_late(unit_id);
        }
        match verdict {
            // Without a transaction id it is late, or nobody's.
            Verdict::Stray(_) if self.is_blind() => {}
            Verdict::Stray(transaction) => {
                self.counters.transaction_mismatch += 1;
                self.counters.late_replies += u64::from(self.expired.contains(&transaction));
            }
            Verdict::OtherUnit(i) => self.count(self.in_flight[i].owner, |t| t.unit_mismatch += 1),
            Verdict::OtherFunction(i) => {
                self.in_flight[i].flaw = Some(Reason::Length);
                self.count(self.in_flight[i].owner, |t| t.function_mismatch += 1);
            }
            // It may be the late reply to another request: the right one may follow.
            Verdict::OtherLength(i) if self.is_blind() => {
                self.in_flight[i].flaw = Some(Reason::Length);
                self.count(self.in_flight[i].owner, |t| t.length_mismatch += 1);
            }
            Verdict::OtherLength(i) => {
                let flight = self.in_flight.swap_remove(i);
                self.count(flight.owner, |t| t.length_mismatch += 1);
                self.after_exchange(now.mono, flight.unit_id);
                self.attempt_failed(now, &flight, Reason::Length);
            }
            Verdict::Exception(i, code) => {
                let flight = self.in_flight.swap_remove(i);
                self.note_reply(now, &flight);
                self.count(flight.owner, |t| *t.exceptions.entry(code).or_insert(0) += 1);
                self.apply_exception(now, &flight, code);
            }
            Verdict::Values(i, outcome) => {
                let flight = self.in_flight.swap_remove(i);
                self.note_reply(now, &flight);
                self.note_alive(now, &flight);
                let Some((place, index)) = flight.owner else { return };
                if let Some(unit) = &mut self.units[place] {
                    let read = flight.job.read;
                    unit.note_read(index, flight.job.group, read.first, read.end);
                }
                self.settle(now, place, index, &flight.job, outcome);
            }
        }
    }

    fn apply_exception(&mut self, now: Stamp, flight: &InFlight, code: u8) {
        let Some((place, index)) = flight.owner else { return };
        match code {
            // Illegal function, address, value: some of it may be legal.
            1..=3 => {
                self.note_alive(now, flight);
                let Some(unit) = &mut self.units[place] else { return };
                let interval = &mut unit.intervals[index];
                let Some(running) = &mut interval.running else { return };
                if flight.job.atoms() > 1 {
                    running.in_flight = false;
                    running.divide(&flight.job, &interval.groups);
                } else {
                    unit.note_refused(index, flight.job.group, flight.job.read.first, code, now);
                    self.settle(now, place, index, &flight.job, PartOutcome::Refused(code));
                }
            }
            // Acknowledged for later, or busy: a little patience.
            5 | 6 if flight.job.busy < BUSY_RETRIES => {
                self.note_alive(now, flight);
                let Some(unit) = &mut self.units[place] else { return };
                unit.quiet_until = unit.quiet_until.max(now.mono + BUSY_PAUSE * (1 << flight.job.busy));
                if let Some(running) = self.running(place, index) {
                    running.in_flight = false;
                    running.jobs.push_front(Job { busy: flight.job.busy + 1, ..flight.job.clone() });
                }
                self.count(flight.owner, |t| t.retries += 1);
            }
            // A gateway speaks, because the device does not.
            0x0A | 0x0B => {
                self.settle(now, place, index, &flight.job, PartOutcome::Fault(Reason::Exception(code)));
                self.fail_unless_answered(now, place, index, Reason::Exception(code));
            }
            _ => {
                self.note_alive(now, flight);
                self.settle(now, place, index, &flight.job, PartOutcome::Fault(Reason::Exception(code)));
            }
        }
    }

    /// A believable frame came for a request.
    fn note_reply(&mut self, now: Stamp, flight: &InFlight) {
        let took = now.mono.since(flight.sent);
        self.pace.note_answer(flight.unit_id, now.mono.since(flight.sent_end));
        self.count(flight.owner, |t| {
            t.replies += 1;
            t.round_trip.record(took);
        });
        self.after_exchange(now.mono, flight.unit_id);
        if let LinkState::Up { answered, .. } = &mut self.link {
            *answered = true;
            self.pauses.reset();
        }
        if let Some((place, index)) = flight.owner
            && let Some(running) = self.running(place, index)
        {
            running.note_reply(now);
        }
    }

    /// The device itself spoke.
    fn note_alive(&mut self, now: Stamp, flight: &InFlight) {
        let Some((place, index)) = flight.owner else { return };
        if let Some(unit) = &mut self.units[place] {
            unit.note_alive(now.mono);
        }
        if let Some(running) = self.running(place, index) {
            running.answered = true;
        }
    }

    /// An attempt brought nothing: once more, or never.
    fn attempt_failed(&mut self, now: Stamp, flight: &InFlight, reason: Reason) {
        let Some((place, index)) = flight.owner else { return };
        let Some(unit) = &mut self.units[place] else { return };
        let allowed = unit.attempts();
        let interval = &mut unit.intervals[index];
        let Some(running) = &mut interval.running else { return };
        let attempts = flight.job.attempts + 1;
        if attempts < allowed {
            running.in_flight = false;
            running.jobs.push_front(Job { attempts, ..flight.job.clone() });
            self.count(flight.owner, |t| t.retries += 1);
            return;
        }
        // It answers others: it may be that this asks for too much at once.
        if reason == Reason::Timeout && unit.may_be_too_much(index, &flight.job) {
            unit.divide(index, &flight.job);
            return;
        }
        self.settle(now, place, index, &flight.job, PartOutcome::Fault(reason));
        if reason == Reason::Timeout {
            self.fail_unless_answered(now, place, index, reason);
        }
    }

    /// Who has not answered the first request will not answer the others: one timeout is enough.
    fn fail_unless_answered(&mut self, now: Stamp, place: usize, index: usize, reason: Reason) {
        let Some(running) = self.running(place, index) else { return };
        if !running.answered {
            running.fail_rest(reason, now);
            self.end_if_over(now, place, index, None);
        }
    }

    /// A request is done with.
    fn settle(&mut self, now: Stamp, place: usize, index: usize, job: &Job, outcome: PartOutcome) {
        if let Some(running) = self.running(place, index) {
            running.in_flight = false;
            running.settle(job, outcome, now);
            self.end_if_over(now, place, index, None);
        }
    }

    fn end_if_over(&mut self, now: Stamp, place: usize, index: usize, link: Option<Fault>) {
        let Some(unit) = &mut self.units[place] else { return };
        if !unit.intervals[index].running.as_ref().is_some_and(Running::is_over) {
            return;
        }
        let was_offline = unit.is_offline();
        self.reports.extend(unit.end_cycle(index, now, link));
        if unit.is_offline() && !was_offline {
            // Offline just now: its other cycles would only cost further timeouts.
            unit.fail_all(Reason::Timeout, now);
            for other in 0..unit.intervals.len() {
                self.end_if_over(now, place, other, link);
            }
        }
    }

    fn running(&mut self, place: usize, index: usize) -> Option<&mut Running> {
        self.units[place].as_mut()?.intervals[index].running.as_mut()
    }

    /// Silence for a unit after its exchange, whatever device it counts as.
    fn after_exchange(&mut self, now: Mono, unit_id: UnitId) {
        for unit in self.units.iter_mut().flatten().filter(|u| u.unit_id == unit_id) {
            unit.quiet_until = unit.quiet_until.max(now + unit.timing.turnaround);
        }
        self.note_idle(now);
    }

    /// Adds up the time in which something was in flight.
    fn note_idle(&mut self, now: Mono) {
        if let Some(since) = self.busy_since {
            self.counters.busy += now.since(since);
            self.busy_since = (!self.in_flight.is_empty()).then_some(now);
        }
    }

    fn count(&mut self, owner: Option<(usize, usize)>, count: impl Fn(&mut Traffic)) {
        count(&mut self.counters.traffic);
        if let Some(unit) = owner.and_then(|(place, _)| self.units[place].as_mut()) {
            count(&mut unit.counters.traffic);
        }
    }

    /// Sends requests while there is room: the earliest deadline first, then who waited longest.
    fn send_due(&mut self, now: Stamp) {
        if !matches!(self.link, LinkState::Up { .. }) {
            return;
        }
        while self.has_room() {
            let Some((place, index)) = self.next_to_serve(now.mono) else { return };
            // Who is next waits for the line; nobody overtakes, or a long silence would never come about.
            if self.line_free_for(place) > now.mono {
                return;
            }
            self.send_next(now, place, index);
        }
    }

    fn has_room(&self) -> bool {
        let most = if self.is_blind() { 1 } else { usize::from(self.options.in_flight.clamp(1, MAX_IN_FLIGHT)) };
        self.in_flight.len() < most
    }

    /// Whether replies cannot be told by a transaction id.
    fn is_blind(&self) -> bool {
        self.envelope.is_serial() || self.options.ignore_transaction_id
    }

    /// When the line has been silent for long enough before a request to this unit.
    fn line_free_for(&self, place: usize) -> Mono {
        self.units[place].as_ref().map_or(Mono::ZERO, |u| self.pace.line_free_at(u.timing.turnaround))
    }

    /// When a unit may be spoken to, as far as it depends on the unit.
    fn free_at(&self, unit: &Unit) -> Mono {
        unit.free_at().max(self.pace.settled_at(unit.unit_id))
    }

    /// Bytes came: the line is not silent, and a reply may be under way.
    fn note_heard(&mut self, now: Mono, bytes: usize) {
        if !self.envelope.is_serial() {
            return;
        }
        self.pace.note_bytes(now);
        self.counters.wire += self.pace.time_of(bytes);
        let Some(flight) = self.in_flight.first_mut() else { return };
        let echo = flight.echo.min(bytes);
        flight.echo -= echo;
        if bytes > echo && !std::mem::replace(&mut flight.heard, true) {
            let reply = self.envelope.frame_len(reply_len(&flight.job));
            flight.deadline = flight.deadline.max(now + self.pace.reply_time(reply));
        }
    }

    /// Takes over what the envelope met that is no frame.
    fn take_tally(&mut self) {
        let tally = self.envelope.take_tally();
        self.counters.noise_bytes += tally.noise_bytes;
        self.counters.echo_bytes += tally.echo_bytes;
        self.counters.echo_suspected += tally.echo_suspected;
        if tally.crc_errors > 0 {
            let owner = self.in_flight.first_mut().and_then(|flight| {
                flight.flaw = Some(Reason::Crc);
                flight.owner
            });
            self.count(owner, |t| t.crc_errors += tally.crc_errors);
        }
    }

    /// A unit gave its reply after its request had timed out.
    fn note_late(&mut self, unit_id: UnitId) {
        self.counters.late_replies += 1;
        for unit in self.units.iter_mut().flatten().filter(|u| u.unit_id == unit_id) {
            unit.counters.late_replies += 1;
        }
    }

    fn next_to_serve(&self, now: Mono) -> Option<(usize, usize)> {
        let mut best = None;
        for (place, unit) in self.units.iter().enumerate() {
            let Some(unit) = unit.as_ref().filter(|u| self.free_at(u) <= now) else { continue };
            for (index, interval) in unit.intervals.iter().enumerate() {
                let Some(running) = interval.running.as_ref().filter(|r| !r.jobs.is_empty()) else { continue };
                let key = (running.deadline, unit.served);
                if best.is_none_or(|(k, _, _)| key < k) && !self.is_busy(unit.unit_id) {
                    best = Some((key, place, index));
                }
            }
        }
        best.map(|(_, place, index)| (place, index))
    }

    fn is_busy(&self, unit_id: UnitId) -> bool {
        self.in_flight.iter().any(|f| f.unit_id == unit_id)
    }

    fn send_next(&mut self, now: Stamp, place: usize, index: usize) {
        let transaction = self.fresh_transaction();
        let Some(unit) = &mut self.units[place] else { return };
        let interval = &mut unit.intervals[index];
        let Some(running) = &mut interval.running else { return };
        let Some(job) = running.next_job(&interval.groups) else { return };
        let request = read_request(job.table(), job.range());
        let before = self.tx.len();
        if self.envelope.wrap(transaction, unit.unit_id, &request, &mut self.tx).is_err() {
            debug_assert!(false, "a plan made an illegal request: {request:?}");
            self.settle(now, place, index, &job, PartOutcome::Fault(Reason::Length));
            return;
        }
        running.in_flight = true;
        running.started.get_or_insert(now);
        self.turn += 1;
        unit.served = self.turn;
        // On a serial line patience begins when the request is out.
        let request_len = self.tx.len() - before;
        let on_wire = self.pace.time_of(request_len);
        let echo = if self.options.echo && self.envelope.is_serial() { request_len } else { 0 };
        let sent_end = now.mono + on_wire;
        let (unit_id, deadline) = (unit.unit_id, sent_end + unit.timeout());
        let (sent, owner) = (now.mono, Some((place, index)));
        self.in_flight.push(InFlight {
            transaction,
            unit_id,
            owner,
            job,
            sent,
            sent_end,
            deadline,
            echo,
            heard: false,
            flaw: None,
        });
        self.pace.note_bytes(sent_end);
        self.counters.wire += on_wire;
        self.busy_since.get_or_insert(now.mono);
        self.count(owner, |t| t.requests += 1);
    }

    fn fresh_transaction(&mut self) -> TransactionId {
        loop {
            let id = TransactionId(self.next_transaction);
            self.next_transaction = self.next_transaction.wrapping_add(1);
            if self.in_flight.iter().all(|f| f.transaction != id) {
                return id;
            }
        }
    }

    fn next_wake(&self, now: Mono) -> Option<Mono> {
        let link = match self.link {
            LinkState::Down { not_before, fault, .. } => self.wants_connection(fault).then_some(not_before),
            LinkState::Connecting { since, .. } => Some(since + self.options.connect_patience),
            LinkState::Up { .. } => None,
        };
        let up = matches!(self.link, LinkState::Up { .. });
        let room = self.has_room();
        // Who has something to say and may not yet. Who waits for others is woken by their replies or deadlines.
        let waiting = self.units.iter().flatten().filter(|u| up && room && self.free_at(u) > now);
        let waiting =
            waiting.filter(|u| u.intervals.iter().any(|i| i.running.as_ref().is_some_and(|r| !r.jobs.is_empty())));
        let deadlines = self.in_flight.iter().map(|f| f.deadline);
        let ticks = self.units.iter().flatten().filter_map(Unit::next_tick);
        let silent =
            if up && room { self.next_to_serve(now).map(|(place, _)| self.line_free_for(place)) } else { None };
        let waiting = waiting.map(|u| self.free_at(u));
        link.into_iter().chain(deadlines).chain(ticks).chain(waiting).chain(silent).min()
    }
}

/// Bytes of the PDU that answers a job.
fn reply_len(job: &Job) -> usize {
    let count = usize::from(job.range().count());
    2 + if job.table().is_bits() { count.div_ceil(8) } else { count * 2 }
}

/// Where in its period a device of this name has its ticks: 0 to 1, the same in every run.
fn share_of(name: &str) -> f64 {
    (name_hash(name) >> 32) as f64 / f64::from(u32::MAX)
}

/// FNV-1a with a final mix: names that differ in one digit differ in all bits.
fn name_hash(name: &str) -> u64 {
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3));
    (hash ^ (hash >> 29)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

/// A connection closed unasked sooner than this was not wanted by the far end.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// A unit whose request was lost with its connection is not asked again before.
const LOST_RECOVERY: Duration = Duration::from_millis(50);
/// Timed-out transaction ids remembered, to tell late replies from strange ones.
const EXPIRED_KEPT: usize = 32;
/// Times that a busy device is asked again within a cycle.
const BUSY_RETRIES: u32 = 3;
/// Pause before the first of them; doubles.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod serial_tests;
#[cfg(test)]
mod tests;
