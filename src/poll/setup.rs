//! What the bus must know of a device to poll it.

use super::plan::PlanError;
use super::{Experience, Plan, PlanErrors, ReadCost, Wanted};
use crate::modbus::{LineSpeed, UnitId};
use crate::model::{Cycle, DeviceId, Generation, GroupId, Interval, Layout};
use crate::profile::{Access, DeviceProfile, Limits, Timing};
use std::time::Duration;

/// One device as the bus sees it: wire addresses, limits, pace.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitSetup {
    /// Whose cycles these are; at most one of a name on a link.
    pub device: DeviceId,
    /// Carried into each report.
    pub generation: Generation,
    /// Whom to address.
    pub unit_id: UnitId,
    /// What one request may ask for.
    pub limits: Limits,
    /// Pace and patience.
    pub timing: Timing,
    /// The intervals, one cycle each.
    pub intervals: Vec<IntervalSetup>,
    /// Number of its next cycle: greater than that of any cycle that the device had before.
    pub first_cycle: Cycle,
}

/// One interval of a [`UnitSetup`].
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalSetup {
    /// Carried into each report.
    pub interval: Interval,
    /// The period, at least 1 ms; nothing for once per connect.
    pub every: Option<Duration>,
    /// Its groups, in layout order.
    pub groups: Vec<GroupSetup>,
}

/// One group of an [`IntervalSetup`].
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSetup {
    /// Carried into each report.
    pub group: GroupId,
    /// One request or none.
    pub together: bool,
    /// Its values, in any order.
    pub wanted: Vec<Wanted>,
}

/// What one cycle of a group costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupCost {
    /// Which group.
    pub group: GroupId,
    /// Requests.
    pub requests: usize,
    /// Registers asked for, wanted or bridged.
    pub registers: u32,
    /// Bits asked for, wanted or bridged.
    pub bits: u32,
    /// Time on a serial line: requests, replies, silences and turnaround. Nothing on TCP.
    pub time: Option<Duration>,
}

impl UnitSetup {
    /// A device of a profile. Periods and intervals are the layout's: a device file may have changed them.
    pub fn from_profile(
        device: DeviceId,
        generation: Generation,
        unit_id: UnitId,
        profile: &DeviceProfile,
        layout: &Layout,
        first_cycle: Cycle,
    ) -> Self {
        let group = |id: GroupId| GroupSetup {
            group: id,
            together: profile.groups.get(usize::from(id.0)).is_some_and(|g| g.together),
            wanted: profile
                .points
                .iter()
                .filter(|p| p.group == id && p.access != Access::Write)
                .map(|p| Wanted { table: p.table, range: p.range })
                .collect(),
        };
        let groups_of = |interval| {
            (0u16..).zip(&layout.groups).filter(move |(_, g)| g.interval == interval).map(|(i, _)| group(GroupId(i)))
        };
        let intervals = (0u16..)
            .zip(&layout.intervals)
            .map(|(i, interval)| IntervalSetup {
                interval: Interval(i),
                every: interval.every,
                groups: groups_of(Interval(i)).collect(),
            })
            .collect();
        let (limits, timing) = (profile.limits.clone(), profile.timing.clone());
        Self { device, generation, unit_id, limits, timing, intervals, first_cycle }
    }

    /// What a cycle of each group costs, with the reads that suit this line (nothing: TCP). Groups that cannot be planned
    /// are left out; [`plans`](Self::plans) says why.
    pub fn cost(&self, line: Option<LineSpeed>) -> Vec<GroupCost> {
        let turnaround = self.timing.turnaround;
        let planned = self.each_plan(line).filter_map(|(group, plan)| Some((group, plan.ok()?)));
        planned
            .map(|(group, plan)| {
                let asked = |bits: bool| {
                    let reads = plan.reads.iter().filter(|r| r.table.is_bits() == bits);
                    reads.map(|r| u32::from(r.range.count())).sum()
                };
                GroupCost {
                    group,
                    requests: plan.reads.len(),
                    registers: asked(false),
                    bits: asked(true),
                    time: line.map(|line| plan.line_time(line, turnaround)),
                }
            })
            .collect()
    }

    /// The reads of each group on this line (nothing: TCP), for `check` and `profile show`; or every group that the
    /// limits make impossible.
    pub fn plans(&self, line: Option<LineSpeed>) -> Result<Vec<(GroupId, Plan)>, PlanErrors> {
        let mut plans = Vec::new();
        let mut errors = Vec::new();
        for (group, plan) in self.each_plan(line) {
            match plan {
                Ok(plan) => plans.push((group, plan)),
                Err(e) => errors.push((group, e)),
            }
        }
        if errors.is_empty() { Ok(plans) } else { Err(errors) }
    }

    fn each_plan(&self, line: Option<LineSpeed>) -> impl Iterator<Item = (GroupId, Result<Plan, PlanError>)> + '_ {
        let cost = line.map_or(ReadCost::Count, |line| ReadCost::on_line(line, self.timing.turnaround));
        let nothing_known = Experience::default();
        self.intervals.iter().flat_map(|i| &i.groups).map(move |setup| {
            (setup.group, Plan::with_cost(&setup.wanted, &self.limits, setup.together, &nothing_known, cost))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::{Address, AddressRange, Table};
    use crate::model::{GroupLayout, IntervalLayout, JsonForm};
    use crate::profile::{Encoding, Group, Meaning, OnPartial, Order, Point, RawType};
    use std::sync::Arc;

    fn point(group: u16, address: u16, access: Access) -> Point {
        Point {
            path: Arc::from("a"),
            group: GroupId(group),
            table: Table::HoldingRegister,
            range: AddressRange::new(Address(address), 1).unwrap(),
            encoding: Encoding {
                raw: RawType::U16,
                word_order: Order::HighFirst,
                byte_order: Order::HighFirst,
                cut: None,
            },
            meaning: Meaning::Plain { invert: false },
            unit: None,
            title: None,
            min: None,
            max: None,
            absent: Vec::new(),
            valid_when: None,
            json: JsonForm::Plain,
            access,
            danger: false,
        }
    }

    fn group(together: bool) -> Group {
        Group { name: Arc::from("g"), every: None, together, on_partial: OnPartial::Keep, max_skew: None }
    }

    #[test]
    fn a_profile_gives_its_groups_by_the_layouts_intervals() {
        let profile = DeviceProfile {
            name: Arc::from("v/m"),
            version: Arc::from("1.0.0"),
            title: String::new(),
            model: None,
            verified: false,
            sources: Vec::new(),
            serial: crate::profile::SerialDefaults::default(),
            limits: Limits { registers_per_read: 1, ..Limits::default() },
            timing: Timing::default(),
            groups: vec![group(false), group(true), group(false)],
            points: vec![
                point(0, 7, Access::Read),
                point(0, 8, Access::ReadWrite),
                point(0, 9, Access::Write),
                point(1, 20, Access::Read),
                point(1, 21, Access::Read),
                point(2, 30, Access::Read),
            ],
            tests: Vec::new(),
        };
        let in_interval = |i| GroupLayout { name: Arc::from("g"), interval: Interval(i) };
        let second = Some(Duration::from_secs(1));
        let layout = Layout {
            profile: Arc::from("v/m"),
            profile_version: Arc::from("1.0.0"),
            points: Vec::new(),
            groups: vec![in_interval(1), in_interval(0), in_interval(1)],
            intervals: vec![IntervalLayout { every: None }, IntervalLayout { every: second }],
            offline_after: 3,
            timeout: Duration::from_secs(1),
            simulated: false,
        };
        let device = DeviceId::new("d").unwrap();
        let setup = UnitSetup::from_profile(device, Generation(2), UnitId(9), &profile, &layout, Cycle(40));
        let groups =
            |i: usize| setup.intervals[i].groups.iter().map(|g| (g.group.0, g.wanted.len())).collect::<Vec<_>>();
        assert_eq!((setup.intervals[0].every, groups(0)), (None, vec![(1, 2)]));
        assert_eq!((setup.intervals[1].every, groups(1)), (second, vec![(0, 2), (2, 1)]));
        // One register a read: only the group that must come together is impossible.
        let errors = setup.plans(None).unwrap_err();
        assert_eq!(errors.iter().map(|e| e.0).collect::<Vec<_>>(), [GroupId(1)]);
    }

    #[test]
    fn a_cycle_costs_what_it_takes_on_the_wire() {
        let wanted = vec![Wanted { table: Table::HoldingRegister, range: AddressRange::new(Address(0), 20).unwrap() }];
        let setup = UnitSetup {
            device: DeviceId::new("d").unwrap(),
            generation: Generation(1),
            unit_id: UnitId(1),
            limits: Limits::default(),
            timing: Timing::default(),
            intervals: vec![IntervalSetup {
                interval: Interval(0),
                every: None,
                groups: vec![GroupSetup { group: GroupId(4), together: false, wanted }],
            }],
            first_cycle: Cycle(1),
        };
        let [cost] = setup.cost(Some(LineSpeed { baud: 19_200, bits_per_character: 11 }))[..] else { panic!() };
        assert_eq!((cost.group, cost.requests, cost.registers, cost.bits), (GroupId(4), 1, 20, 0));
        // 53 characters of 0.573 ms and two silences of 2.005 ms.
        assert_eq!(cost.time.unwrap().as_micros() / 10, 3437);
        assert_eq!(setup.cost(None)[0].time, None);
    }
}
