//! A profile as one device uses it: with its own intervals, without the points it leaves out.

use crate::model::{GroupId, PointId, Value};
use crate::profile::{DeviceProfile, Intervals, Point, ProfileTest};
use std::collections::HashMap;

/// The profile with these intervals in place of its own.
pub(super) fn with_intervals(mut profile: DeviceProfile, intervals: &Intervals) -> DeviceProfile {
    for group in &mut profile.groups {
        if let Some(every) = intervals.get(&*group.name) {
            group.every = *every;
        }
    }
    profile
}

/// The profile with the points that are kept, and the groups that still have some. Fails with the pairs of points of
/// which one is kept and depends on the other, which is not.
pub(super) fn with_points(
    profile: DeviceProfile,
    keep: impl Fn(&Point) -> bool,
) -> Result<DeviceProfile, Vec<(String, String)>> {
    let kept: Vec<usize> = (0..profile.points.len()).filter(|i| keep(&profile.points[*i])).collect();
    let point_ids: HashMap<PointId, PointId> =
        (0u16..).zip(&kept).map(|(new, old)| (PointId(*old as u16), PointId(new))).collect();
    let groups: Vec<usize> = (0..profile.groups.len())
        .filter(|g| kept.iter().any(|i| usize::from(profile.points[*i].group.0) == *g))
        .collect();
    let group_ids: HashMap<GroupId, GroupId> =
        (0u16..).zip(&groups).map(|(new, old)| (GroupId(*old as u16), GroupId(new))).collect();

    let mut torn = Vec::new();
    let mut points = Vec::with_capacity(kept.len());
    for i in &kept {
        let mut point = profile.points[*i].clone();
        point.group = group_ids[&point.group];
        if let Some((on, _)) = &mut point.valid_when {
            match point_ids.get(on) {
                Some(new) => *on = *new,
                None => torn.push((point.path.to_string(), profile.points[usize::from(on.0)].path.to_string())),
            }
        }
        points.push(point);
    }
    if !torn.is_empty() {
        return Err(torn);
    }
    let moved = |(point, value): &(PointId, Value)| Some((*point_ids.get(point)?, value.clone()));
    let tests = profile.tests.iter().map(|test| ProfileTest {
        expect: test.expect.iter().filter_map(moved).collect(),
        absent: test.absent.iter().filter_map(|point| point_ids.get(point).copied()).collect(),
        ..test.clone()
    });
    Ok(DeviceProfile {
        tests: tests.collect(),
        groups: groups.iter().map(|g| profile.groups[*g].clone()).collect(),
        points,
        ..profile
    })
}

/// Whether a path fits a pattern in which `*` stands for anything.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::profile::parse;
    use std::time::Duration;

    const YAML: &str = "\
profile: a/b
version: 1.0.0
groups:
  one: {points: {x: {address: 0, type: u16}}}
  two:
    points:
      state: {address: 1, type: u16, enum: {0: idle, 1: fault}}
      y: {address: 2, type: u16}
      code: {address: 3, type: u16, valid_when: {state: [fault]}}
tests:
  - {name: t, registers: {holding: {0: [1, 1, 7, 9]}}, expect: {x: 1, code: 9}}
";

    #[test]
    fn ids_follow_the_points_that_stay() {
        let profile = parse(&Document::parse("p", YAML).unwrap()).unwrap();
        let fewer = with_points(profile.clone(), |p| &*p.path != "x" && &*p.path != "y").unwrap();
        assert_eq!(fewer.groups.len(), 1);
        assert_eq!(fewer.points.iter().map(|p| (&*p.path, p.group.0)).collect::<Vec<_>>(), [("state", 0), ("code", 0)]);
        assert_eq!(fewer.points[1].valid_when.as_ref().unwrap().0, PointId(0));
        assert_eq!(fewer.tests[0].expect, [(PointId(1), Value::Int(9))]);
        assert_eq!(
            with_points(profile.clone(), |p| &*p.path != "state").unwrap_err(),
            [("code".to_owned(), "state".to_owned())]
        );
        let slower = Intervals::from([("two".to_owned(), Some(Duration::from_secs(9)))]);
        assert_eq!(with_intervals(profile, &slower).groups[1].every, Some(Duration::from_secs(9)));
    }

    #[test]
    fn patterns() {
        for (pattern, path, fits) in [
            ("inputs.*", "inputs.di1", true),
            ("inputs.*", "input.di1", false),
            ("*.level", "inputs.di1.level", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("*", "", true),
            ("a", "ab", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, path), fits, "{pattern} {path}");
        }
    }
}
