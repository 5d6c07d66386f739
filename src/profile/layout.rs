//! What the store must know of a device: a profile without its registers.

use super::DeviceProfile;
use crate::model::{GroupId, GroupLayout, Interval, IntervalLayout, Layout, PointId, PointLayout};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Intervals that a device file sets for groups, by group name; nothing inside means `once`.
pub type Intervals = BTreeMap<String, Option<Duration>>;

impl DeviceProfile {
    /// The group of this name.
    pub fn group_id(&self, name: &str) -> Option<GroupId> {
        (0u16..).zip(&self.groups).find(|(_, g)| &*g.name == name).map(|(i, _)| GroupId(i))
    }

    /// The point of this path.
    pub fn point_id(&self, path: &str) -> Option<PointId> {
        (0u16..).zip(&self.points).find(|(_, p)| &*p.path == path).map(|(i, _)| PointId(i))
    }

    /// The interval of a group, with a device file's overrides.
    pub fn every(&self, group: GroupId, overrides: &Intervals) -> Option<Duration> {
        let group = &self.groups[usize::from(group.0)];
        overrides.get(&*group.name).copied().unwrap_or(group.every)
    }

    /// The layout of a device of this profile. Groups with one interval share an [`Interval`], in the order in which the
    /// intervals come first. Overrides of groups that do not exist are passed over: whoever read them has judged them.
    pub fn layout(&self, overrides: &Intervals) -> Layout {
        let mut intervals: Vec<IntervalLayout> = Vec::new();
        let groups = (0u16..)
            .zip(&self.groups)
            .map(|(i, group)| {
                let every = self.every(GroupId(i), overrides);
                let known = intervals.iter().position(|l| l.every == every);
                let interval = known.unwrap_or_else(|| {
                    intervals.push(IntervalLayout { every });
                    intervals.len() - 1
                });
                GroupLayout { name: Arc::clone(&group.name), interval: Interval(interval as u16) }
            })
            .collect();
        let points = self.points.iter().map(|point| PointLayout {
            path: Arc::clone(&point.path),
            group: point.group,
            json: point.json,
            publish: true,
        });
        Layout {
            profile: Arc::clone(&self.name),
            profile_version: Arc::clone(&self.version),
            points: points.collect(),
            groups,
            intervals,
            offline_after: self.timing.offline_after,
            timeout: self.timing.timeout,
        }
    }

    /// Points whose `valid_when` names a point that these overrides put into another cycle: such overrides must be
    /// refused, because the two would never share a batch.
    pub fn parted_by(&self, overrides: &Intervals) -> Vec<(PointId, PointId)> {
        let every = |point: PointId| self.every(self.points[usize::from(point.0)].group, overrides);
        let conditions = (0u16..).zip(&self.points).filter_map(|(i, p)| Some((PointId(i), p.valid_when.as_ref()?.0)));
        conditions.filter(|(point, other)| every(*point) != every(*other)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::profile::parse;

    #[test]
    fn groups_with_one_interval_share_it() {
        let yaml = "\
profile: a/b
version: 1.0.0
groups:
  fast: {every: 500ms, points: {state: {address: 0, type: u16, enum: {0: idle, 1: fault}}}}
  slow: {every: once, points: {serial: {address: 10, type: u64}}}
  also: {every: 500ms, points: {code: {address: 1, type: u16, valid_when: {state: [fault]}}}}
";
        let profile = parse(&Document::parse("p", yaml).unwrap()).unwrap();
        let layout = profile.layout(&Intervals::new());
        let half = Some(Duration::from_millis(500));
        assert_eq!(layout.intervals.iter().map(|i| i.every).collect::<Vec<_>>(), [half, None]);
        assert_eq!(layout.groups.iter().map(|g| g.interval.0).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(layout.points[1].json, crate::model::JsonForm::DecimalString);
        assert_eq!(profile.parted_by(&Intervals::new()), []);
        let slower = Intervals::from([("also".to_owned(), Some(Duration::from_secs(2)))]);
        assert_eq!(profile.layout(&slower).intervals.len(), 3);
        assert_eq!(profile.parted_by(&slower), [(PointId(2), PointId(0))]);
    }
}
