//! A cycle on its way: which requests are still to be made, and what the others brought.

use super::{GroupReport, Part, PartOutcome, Plan, Read};
use crate::modbus::{AddressRange, Table};
use crate::model::{Cycle, GroupId, Mono, Reason, Stamp};
use std::collections::VecDeque;

/// A group with its reads.
#[derive(Debug)]
pub(super) struct GroupPlan {
    pub(super) group: GroupId,
    pub(super) together: bool,
    pub(super) plan: Plan,
    /// For each atom: whether it was ever read.
    pub(super) proven: Vec<bool>,
}

/// One request to make, some atoms of a group in a row.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// Index of the group in its interval.
    pub(super) group: usize,
    pub(super) read: Read,
    /// Attempts that failed.
    pub(super) attempts: u32,
    /// Times the device was busy.
    pub(super) busy: u32,
    /// It went out anew because its connection was closed under it.
    pub(super) resent: bool,
    /// Index of the division it came from.
    pub(super) root: Option<usize>,
}

impl Job {
    fn new(group: usize, read: Read, root: Option<usize>) -> Self {
        Self { group, read, attempts: 0, busy: 0, resent: false, root }
    }

    pub(super) fn table(&self) -> Table {
        self.read.table
    }

    pub(super) fn range(&self) -> AddressRange {
        self.read.range
    }

    /// How many atoms.
    pub(super) fn atoms(&self) -> usize {
        usize::from(self.read.end - self.read.first)
    }
}

/// A cycle that has begun and not ended.
///
/// A refused read of n atoms is divided so that all of them are known within ceil(log2 n) + n requests: a read of
/// several atoms is tried only while there is `slack` for its being refused, single atoms are asked for otherwise.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) cycle: Cycle,
    /// When it should be over: its place in the order of requests.
    pub(super) deadline: Mono,
    pub(super) started: Option<Stamp>,
    pub(super) first_reply: Option<Stamp>,
    pub(super) replies: u32,
    /// Whether the device itself said anything believable.
    pub(super) answered: bool,
    pub(super) jobs: VecDeque<Job>,
    pub(super) in_flight: bool,
    /// For each group of the interval.
    parts: Vec<Vec<Part>>,
    /// For each divided read: refused tries of several atoms that it can still afford.
    slack: Vec<i32>,
    /// Divisions made: group, first atom, middle, end.
    divisions: Vec<(usize, u16, u16, u16)>,
}

impl Running {
    /// `spare`: a cycle that is over, for its room; nothing of it is kept.
    pub(super) fn new(cycle: Cycle, deadline: Mono, groups: &[GroupPlan], spare: Option<Self>) -> Self {
        let (mut jobs, mut slack, mut divisions) = spare.map(|s| (s.jobs, s.slack, s.divisions)).unwrap_or_default();
        jobs.clear();
        slack.clear();
        divisions.clear();
        Self {
            cycle,
            deadline,
            started: None,
            first_reply: None,
            replies: 0,
            answered: false,
            jobs,
            in_flight: false,
            parts: groups.iter().map(|g| Vec::with_capacity(g.plan.reads.len())).collect(),
            slack,
            divisions,
        }
    }

    /// Adds a planned read to the queue.
    pub(super) fn ask(&mut self, group: usize, read: Read) {
        self.jobs.push_back(Job::new(group, read, None));
    }

    /// The next request; the caller sets `in_flight`.
    pub(super) fn next_job(&mut self, groups: &[GroupPlan]) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        let Some(root) = job.root.filter(|root| job.atoms() > 1 && self.slack[*root] < 1) else { return Some(job) };
        let plan = &groups[job.group].plan;
        for atom in (job.read.first..job.read.end).rev() {
            self.jobs.push_front(Job::new(job.group, read_of(plan, atom, atom + 1), Some(root)));
        }
        self.jobs.pop_front()
    }

    /// Takes note of a believable reply.
    pub(super) fn note_reply(&mut self, now: Stamp) {
        self.replies += 1;
        self.first_reply.get_or_insert(now);
    }

    /// A request is done with: this came of it.
    pub(super) fn settle(&mut self, job: &Job, outcome: PartOutcome, now: Stamp) {
        if let Some(root) = job.root {
            self.slack[root] += job.atoms() as i32 - 1;
        }
        self.put(job.group, job.read, outcome, now);
    }

    /// Puts down what came of a range that was not asked for in this cycle.
    pub(super) fn put(&mut self, group: usize, read: Read, outcome: PartOutcome, received: Stamp) {
        self.parts[group].push(Part { table: read.table, range: read.range, outcome, received });
    }

    /// A read of several atoms was refused: asks for its halves, next of all.
    pub(super) fn divide(&mut self, job: &Job, groups: &[GroupPlan]) {
        let Read { first, end, .. } = job.read;
        let root = if let Some(root) = job.root {
            self.slack[root] -= 1;
            root
        } else {
            self.slack.push((job.atoms().next_power_of_two().trailing_zeros() as i32) - 1);
            self.slack.len() - 1
        };
        let middle = first + (end - first) / 2;
        let plan = &groups[job.group].plan;
        self.jobs.push_front(Job::new(job.group, read_of(plan, middle, end), Some(root)));
        self.jobs.push_front(Job::new(job.group, read_of(plan, first, middle), Some(root)));
        self.divisions.push((job.group, first, middle, end));
    }

    /// Gives up all that was not asked for yet.
    pub(super) fn fail_rest(&mut self, reason: Reason, now: Stamp) {
        while let Some(job) = self.jobs.pop_front() {
            self.settle(&job, PartOutcome::Fault(reason), now);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.jobs.is_empty() && !self.in_flight
    }

    /// Whether every part was read or refused.
    pub(super) fn is_whole(&self) -> bool {
        !self.parts.iter().flatten().any(|p| matches!(p.outcome, PartOutcome::Fault(_)))
    }

    /// Places where a refused read was parted and both halves were then good in one piece: group, first atom of the
    /// second half.
    pub(super) fn good_divisions(&self, groups: &[GroupPlan]) -> Vec<(usize, u16)> {
        let mut good = Vec::new();
        for &(group, first, middle, end) in &self.divisions {
            let whole = read_of(&groups[group].plan, first, end);
            let deeper = |d: &&(usize, u16, u16, u16)| d.0 == group && first <= d.1 && d.3 <= end;
            let deepest = self.divisions.iter().filter(deeper).count() == 1;
            let mut parts = self.parts[group].iter().filter(|p| p.table == whole.table && whole.range.covers(p.range));
            if deepest && parts.all(|p| matches!(p.outcome, PartOutcome::Registers(_) | PartOutcome::Bits(_))) {
                good.push((group, middle));
            }
        }
        good
    }

    /// Most registers that one read brought.
    pub(super) fn largest_good(&self) -> u16 {
        let good = self.parts.iter().flatten().filter(|p| matches!(p.outcome, PartOutcome::Registers(_)));
        good.map(|p| p.range.count()).max().unwrap_or(0)
    }

    /// Whether a read of several atoms was refused.
    pub(super) fn was_divided(&self) -> bool {
        !self.divisions.is_empty()
    }

    /// The parts by group, ascending. Leaves the cycle empty.
    pub(super) fn take_groups(&mut self, groups: &[GroupPlan]) -> Vec<GroupReport> {
        let parts = std::mem::take(&mut self.parts);
        groups
            .iter()
            .zip(parts)
            .map(|(g, mut parts)| {
                parts.sort_unstable_by_key(|p| (p.table, p.range));
                GroupReport { group: g.group, parts }
            })
            .collect()
    }
}

/// The read of some atoms in a row: `first` is less than `end`.
fn read_of(plan: &Plan, first: u16, end: u16) -> Read {
    let (a, b) = (plan.atoms[usize::from(first)], plan.atoms[usize::from(end) - 1]);
    Read { table: a.table, range: a.range.hull(b.range), first, end }
}
