//! One device on a bus: its intervals, their grids, its patience and what experience it has.

use super::cycle::{GroupPlan, Job, Running};
use super::{
    Backoff, CycleReport, Experience, PartOutcome, Plan, PlanErrors, ReadCost, UnitCounters, UnitSetup, Wanted,
    quarantine::Quarantine,
};
use crate::modbus::{Address, LineSpeed, Table, UnitId};
use crate::model::{Condition, Cycle, DeviceId, Fault, Generation, Interval, Mono, Reason, Stamp};
use crate::profile::{Limits, Timing};
use std::collections::BTreeMap;
use std::time::Duration;

/// A device being polled.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "`unit_id` is the standard's word")]
pub(super) struct Unit {
    pub(super) device: DeviceId,
    generation: Generation,
    pub(super) unit_id: UnitId,
    limits: Limits,
    pub(super) timing: Timing,
    pub(super) intervals: Vec<IntervalState>,
    pub(super) next_cycle: Cycle,
    /// Not spoken to before: the connection is young.
    pub(super) ready_at: Mono,
    /// Not spoken to before: turnaround, or it was busy.
    pub(super) quiet_until: Mono,
    /// When it was last sent a request, as a rising number: who waited longest goes first.
    pub(super) served: u64,
    failed_in_a_row: u32,
    /// It is silent: only probed, not polled.
    probe: Option<Probe>,
    experience: Experience,
    cost: ReadCost,
    /// Most registers that one read ever brought.
    largest_good: u16,
    /// Cycles in which larger reads were refused and all of their parts were good.
    limit_strikes: u8,
    /// Reads without a reply that were divided to see whether they were too large.
    size_trials: u8,
    /// Places where a refused read was good in two pieces, once so far.
    strikes: BTreeMap<(Table, Address), u8>,
    quarantine: Quarantine,
    pub(super) counters: UnitCounters,
    seed: u64,
}

#[derive(Debug)]
struct Probe {
    at: Mono,
    pauses: Backoff,
}

/// The groups of a device that are read as one cycle.
#[derive(Debug)]
pub(super) struct IntervalState {
    interval: Interval,
    every: Option<Duration>,
    pub(super) groups: Vec<GroupPlan>,
    /// The next tick of its grid; for `once`: when to read, if it is to be read.
    due: Option<Mono>,
    pub(super) running: Option<Running>,
    /// The last cycle, emptied: its room is used again.
    spare: Option<Running>,
    /// For `once`: pauses between tries that failed.
    again: Backoff,
}

impl Unit {
    /// Plans all groups, or says which cannot be. `share`: 0 to 1, where in its period the device's ticks lie.
    pub(super) fn new(
        setup: UnitSetup,
        share: f64,
        seed: u64,
        now: Mono,
        line: Option<LineSpeed>,
    ) -> Result<Self, PlanErrors> {
        let cost = line.map_or(ReadCost::Count, |line| ReadCost::on_line(line, setup.timing.turnaround));
        let mut errors = Vec::new();
        let mut intervals = Vec::new();
        for interval in setup.intervals {
            let mut groups = Vec::new();
            for g in interval.groups {
                match Plan::with_cost(&g.wanted, &setup.limits, g.together, &Experience::default(), cost) {
                    Ok(plan) => {
                        let proven = vec![false; plan.atoms.len()];
                        groups.push(GroupPlan { group: g.group, together: g.together, plan, proven });
                    }
                    Err(e) => errors.push((g.group, e)),
                }
            }
            // An interval of which nothing is read has no cycles.
            if groups.iter().all(|g| g.plan.atoms.is_empty()) {
                continue;
            }
            let every = interval.every.map(|e| e.max(SHORTEST_PERIOD));
            let phase = every.unwrap_or(LONGEST_PHASE).min(LONGEST_PHASE).mul_f64(share.clamp(0.0, 1.0));
            intervals.push(IntervalState {
                interval: interval.interval,
                every,
                groups,
                due: Some(now + phase),
                running: None,
                spare: None,
                again: Backoff::new(ONCE_AGAIN.0, ONCE_AGAIN.1, seed),
            });
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            device: setup.device,
            generation: setup.generation,
            unit_id: setup.unit_id,
            limits: setup.limits,
            timing: setup.timing,
            intervals,
            next_cycle: setup.first_cycle,
            ready_at: now,
            quiet_until: now,
            served: 0,
            failed_in_a_row: 0,
            probe: None,
            experience: Experience::default(),
            cost,
            largest_good: 0,
            limit_strikes: 0,
            size_trials: 0,
            strikes: BTreeMap::new(),
            quarantine: Quarantine::default(),
            counters: UnitCounters::default(),
            seed,
        })
    }

    /// Attempts that a request may have.
    pub(super) fn attempts(&self) -> u32 {
        if self.probe.is_some() { 1 } else { self.timing.retries.saturating_add(1) }
    }

    /// To wait for a reply.
    pub(super) fn timeout(&self) -> Duration {
        self.timing.timeout.max(SHORTEST_TIMEOUT)
    }

    /// When it may be spoken to.
    pub(super) fn free_at(&self) -> Mono {
        self.ready_at.max(self.quiet_until)
    }

    /// The earliest time at which a cycle of it begins.
    pub(super) fn next_tick(&self) -> Option<Mono> {
        if let Some(probe) = &self.probe {
            return if self.is_running() { None } else { Some(probe.at) };
        }
        self.intervals.iter().filter_map(|i| i.due).min()
    }

    /// Whether a cycle of it is on its way.
    pub(super) fn is_running(&self) -> bool {
        self.intervals.iter().any(|i| i.running.is_some())
    }

    /// Begins the cycles that are due; counts those that cannot be because the one before still runs.
    pub(super) fn begin_due(&mut self, now: Mono) {
        if let Some(probe) = &self.probe {
            if probe.at <= now && !self.is_running() {
                // The interval with the shortest period speaks for the device.
                let by_period = |(_, i): &(usize, &IntervalState)| i.every.unwrap_or(Duration::MAX);
                if let Some((index, _)) = self.intervals.iter().enumerate().min_by_key(by_period) {
                    self.begin(index, now);
                }
            }
            return;
        }
        for index in 0..self.intervals.len() {
            let interval = &mut self.intervals[index];
            let Some(due) = interval.due.filter(|due| *due <= now) else { continue };
            let Some(every) = interval.every else {
                interval.due = None;
                if interval.running.is_none() {
                    self.begin(index, now);
                }
                continue;
            };
            let ticks = ticks_between(due, now, every);
            interval.due = Some(due + whole_periods(every, ticks));
            if interval.running.is_some() {
                self.counters.cycle_late += ticks;
            } else {
                self.counters.cycle_late += ticks - 1;
                self.begin(index, now);
            }
        }
    }

    fn begin(&mut self, index: usize, now: Mono) {
        let interval = &mut self.intervals[index];
        let deadline = now + interval.every.unwrap_or(LONGEST_SLACK).min(LONGEST_SLACK);
        let mut running = Running::new(self.next_cycle, deadline, &interval.groups, interval.spare.take());
        self.next_cycle = self.next_cycle.next();
        let spared = |atom: Wanted| self.quarantine.spares(atom, now);
        let alone = |g: &GroupPlan, read: super::Read| {
            (read.end - read.first == 1).then(|| g.plan.atoms[usize::from(read.first)])
        };
        // A cycle that asks for nothing could not tell whether the device is there.
        let asks = |g: &GroupPlan| g.plan.reads.iter().any(|r| alone(g, *r).and_then(spared).is_none());
        let asks_any = interval.groups.iter().any(asks);
        for (g, group) in interval.groups.iter().enumerate() {
            for read in &group.plan.reads {
                match alone(group, *read).and_then(spared).filter(|_| asks_any) {
                    Some((code, came)) => running.put(g, *read, PartOutcome::Refused(code), came),
                    None => running.ask(g, *read),
                }
            }
        }
        interval.running = Some(running);
    }

    /// It said something believable: if it was silent, all of its grids go on at once.
    pub(super) fn note_alive(&mut self, now: Mono) {
        self.failed_in_a_row = 0;
        if self.probe.take().is_none() {
            return;
        }
        for interval in &mut self.intervals {
            if let (Some(due), Some(every)) = (interval.due, interval.every)
                && due <= now
            {
                // Ticks that passed in silence are no late cycles. The last of them is made up for.
                let ticks = ticks_between(due, now, every) - u64::from(interval.running.is_none());
                interval.due = Some(due + whole_periods(every, ticks));
            }
        }
    }

    /// The connection is there. `anew`: it was lost by the far end or never was, so what was silent may be back.
    pub(super) fn connected(&mut self, now: Mono, anew: bool) {
        self.ready_at = now + self.timing.after_connect;
        for interval in &mut self.intervals {
            if interval.every.is_none() && interval.running.is_none() {
                interval.due = Some(now);
                interval.again.reset();
            }
        }
        if let Some(probe) = self.probe.as_mut().filter(|_| anew) {
            probe.at = now;
            probe.pauses.reset();
        }
    }

    /// Atoms that a reply brought.
    pub(super) fn note_read(&mut self, index: usize, group: usize, first: u16, end: u16) {
        let group = &mut self.intervals[index].groups[group];
        let (a, b) = (group.plan.atoms[usize::from(first)], group.plan.atoms[usize::from(end) - 1]);
        if !a.table.is_bits() {
            self.largest_good = self.largest_good.max(a.range.hull(b.range).count());
        }
        for atom in first..end {
            let atom = usize::from(atom);
            group.proven[atom] = true;
            self.quarantine.free(group.plan.atoms[atom]);
        }
    }

    /// An atom that the device refused by itself.
    pub(super) fn note_refused(&mut self, index: usize, group: usize, atom: u16, code: u8, now: Stamp) {
        let group = &mut self.intervals[index].groups[group];
        let wanted = group.plan.atoms[usize::from(atom)];
        self.quarantine.refuse(wanted, code, group.proven[usize::from(atom)], now, self.seed);
        self.experience.alone.insert(wanted);
    }

    /// Ends a cycle that is over. `link`: the link's fault, if it was the link that failed.
    pub(super) fn end_cycle(&mut self, index: usize, now: Stamp, link: Option<Fault>) -> Option<CycleReport> {
        let mut running = self.intervals[index].running.take()?;
        self.learn(index, &running);
        self.counters.quarantined = self.quarantine.len() as u64;
        let interval = &mut self.intervals[index];
        if interval.every.is_none() && !running.is_whole() && link.is_none() {
            interval.due = Some(now.mono + interval.again.next_pause());
        }
        let started = running.started.unwrap_or(now);
        let report = CycleReport {
            device: self.device.clone(),
            generation: self.generation,
            interval: interval.interval,
            cycle: running.cycle,
            started,
            ended: now,
            first_reply: running.first_reply.filter(|_| running.replies > 1).unwrap_or(now),
            condition: if running.answered {
                Condition::Reachable
            } else {
                Condition::Unreachable(link.unwrap_or(Fault::NoReply))
            },
            groups: running.take_groups(&interval.groups),
        };
        let answered = running.answered;
        interval.spare = Some(running);
        self.counters.cycles += 1;
        self.counters.cycle_time.record(now.mono.since(started.mono));
        if !answered {
            self.counters.cycles_failed += 1;
            self.note_failed(now.mono, link);
        }
        Some(report)
    }

    fn note_failed(&mut self, now: Mono, link: Option<Fault>) {
        if let Some(probe) = &mut self.probe {
            // A cycle that was under way when the device was found silent is no probe.
            if probe.at <= now {
                probe.at = now + probe.pauses.next_pause();
            }
        } else if link.is_none() {
            self.failed_in_a_row += 1;
            if self.failed_in_a_row >= self.timing.offline_after {
                let mut pauses = Backoff::new(PROBE.0, PROBE.1, self.seed);
                self.probe = Some(Probe { at: now + pauses.next_pause(), pauses });
            }
        }
    }

    /// Whether it is silent for so long that it is only probed.
    pub(super) fn is_offline(&self) -> bool {
        self.probe.is_some()
    }

    /// Gives up what other cycles have not asked for yet: the device is silent.
    pub(super) fn fail_all(&mut self, reason: Reason, now: Stamp) {
        for running in self.intervals.iter_mut().filter_map(|i| i.running.as_mut()) {
            running.fail_rest(reason, now);
        }
    }

    /// Whether a read that nobody answered may have asked for too much: the device answered others in this cycle, and
    /// never so large a one. Tried a few times only: each costs timeouts.
    pub(super) fn may_be_too_much(&self, index: usize, job: &Job) -> bool {
        let interval = &self.intervals[index];
        let count = job.range().count();
        self.size_trials < SIZE_TRIALS
            && !job.table().is_bits()
            && job.atoms() > 1
            && count > SMALL_READ
            && count > self.largest_good
            && interval.running.as_ref().is_some_and(|r| r.answered)
    }

    /// Asks for the halves of such a read.
    pub(super) fn divide(&mut self, index: usize, job: &Job) {
        self.size_trials += 1;
        let interval = &mut self.intervals[index];
        if let Some(running) = &mut interval.running {
            running.in_flight = false;
            running.divide(job, &interval.groups);
        }
    }

    /// Lowers the quantity that is asked for at once, to the largest that was good in this cycle.
    fn learn_limit(&mut self, running: &Running) {
        self.limit_strikes += 1;
        let limit = running.largest_good();
        // Once may have been noise on the line.
        if self.limit_strikes < STRIKES || limit == 0 || limit >= self.limits.registers_per_read {
            return;
        }
        self.limit_strikes = 0;
        self.limits.registers_per_read = limit;
        self.counters.learned_limit = Some(limit);
        for group in self.intervals.iter_mut().flat_map(|i| &mut i.groups) {
            // A group that must come in one read, or a value that is wider, is asked for as before.
            if let Ok(plan) =
                Plan::with_cost(&group.plan.atoms, &self.limits, group.together, &self.experience, self.cost)
            {
                group.plan = plan;
            }
        }
    }

    /// Plans anew where a cycle showed that reads must be kept apart.
    fn learn(&mut self, index: usize, running: &Running) {
        if !running.was_divided() {
            return;
        }
        let divisions = running.good_divisions(&self.intervals[index].groups);
        let too_large = |&(g, middle): &(usize, u16)| {
            let plan = &self.intervals[index].groups[g].plan;
            let (before, next) = (plan.atoms[usize::from(middle) - 1], plan.atoms[usize::from(middle)]);
            let whole = plan.reads.iter().find(|r| r.first < middle && middle < r.end);
            // Nothing lies between the halves that could have been refused; it was the whole that was too much.
            !next.table.is_bits()
                && before.range.end() == u32::from(next.range.start().0)
                && whole.is_some_and(|r| r.range.count() > SMALL_READ.max(self.largest_good))
        };
        if divisions.iter().any(too_large) {
            self.learn_limit(running);
            return;
        }
        let interval = &mut self.intervals[index];
        for (g, middle) in divisions {
            let atom = interval.groups[g].plan.atoms[usize::from(middle)];
            let place = (atom.table, atom.range.start());
            let strikes = self.strikes.entry(place).or_insert(0);
            *strikes += 1;
            // Once may have been noise on the line.
            if *strikes >= STRIKES {
                self.experience.cuts.insert(place);
            }
        }
        for group in &mut interval.groups {
            // The same values within the same limits: it was possible before, and experience only parts.
            if let Ok(plan) =
                Plan::with_cost(&group.plan.atoms, &self.limits, group.together, &self.experience, self.cost)
            {
                group.plan = plan;
            }
        }
    }
}

/// Ticks from `due` to `now`, both counted: at least 1 where `due` is not after `now`.
fn ticks_between(due: Mono, now: Mono, every: Duration) -> u64 {
    (now.since(due).as_nanos() / every.as_nanos().max(1)) as u64 + 1
}

fn whole_periods(every: Duration, n: u64) -> Duration {
    let nanos = every.as_nanos() * u128::from(n);
    Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
}

/// No patience is less: a timeout of nothing would time out as it is sent.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);
/// No grid is finer.
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);
/// The first poll comes within this, however long the period.
const LONGEST_PHASE: Duration = Duration::from_secs(1);
/// A cycle should be over when its next tick comes, or after this: on a link that cannot keep up, devices with a long
/// period would else wait for all of it.
const LONGEST_SLACK: Duration = Duration::from_secs(1);
/// Probes of a silent device: first and longest pause.
const PROBE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Tries of a `once` group that failed: first and longest pause.
const ONCE_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// So many registers any device gives at once: refusals of smaller reads have other reasons.
const SMALL_READ: u16 = 16;
/// Unanswered reads of a device that are divided to see whether they are too large.
const SIZE_TRIALS: u8 = 8;
/// As often a read is refused and its halves are good before they stay parted.
const STRIKES: u8 = 2;
