//! What the bus must know of a device to poll it.

use super::{Experience, Plan, PlanErrors, Wanted};
use crate::modbus::UnitId;
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

    /// The reads of each group, for `check` and `profile show`; or every group that the limits make impossible.
    pub fn plans(&self) -> Result<Vec<(GroupId, Plan)>, PlanErrors> {
        let mut plans = Vec::new();
        let mut errors = Vec::new();
        for setup in self.intervals.iter().flat_map(|i| &i.groups) {
            match Plan::new(&setup.wanted, &self.limits, setup.together, &Experience::default()) {
                Ok(plan) => plans.push((setup.group, plan)),
                Err(e) => errors.push((setup.group, e)),
            }
        }
        if errors.is_empty() { Ok(plans) } else { Err(errors) }
    }
}
