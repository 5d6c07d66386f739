//! One cycle's registers to one batch.
//!
//! A group is whole or it is not: a range without a believable reply fails its group (`on_partial: keep`), or makes
//! stale what lies in it (`mark`). A register that the device refuses is no failure: that point alone is bad.
//! No failure of any kind becomes a value.

use super::recipe::Recipe;
use crate::model::{Batch, GroupResult, PointId, Reading, Reason, Value};
use crate::poll::{CycleReport, GroupReport, Part, PartOutcome};
use crate::profile::{DeviceProfile, OnPartial};
use std::time::Duration;

/// A device profile, prepared for decoding. Immutable; one serves all devices of a profile.
///
/// Point and group ids are those of the profile it was made from.
#[derive(Debug)]
pub struct Decoder {
    groups: Vec<PreparedGroup>,
    /// Points with `valid_when`, each behind the point it depends on.
    conditions: Vec<Condition>,
}

#[derive(Debug)]
struct PreparedGroup {
    recipes: Vec<Recipe>,
    together: bool,
    on_partial: OnPartial,
    max_skew: Option<Duration>,
}

#[derive(Debug)]
struct Condition {
    point: PointId,
    depends_on: PointId,
    values: Vec<Value>,
}

impl Decoder {
    /// Prepares all points of a profile.
    pub fn new(profile: &DeviceProfile) -> Self {
        let mut groups: Vec<_> = profile
            .groups
            .iter()
            .map(|group| PreparedGroup {
                recipes: Vec::new(),
                together: group.together,
                on_partial: group.on_partial,
                max_skew: group.max_skew,
            })
            .collect();
        for (id, point) in (0u16..).map(PointId).zip(&profile.points) {
            if let Some(group) = groups.get_mut(usize::from(point.group.0)) {
                group.recipes.push(Recipe::new(id, point));
            }
        }
        Self { groups, conditions: conditions_in_order(profile) }
    }

    /// Decodes a cycle. Groups that the profile does not have are left out.
    pub fn decode(&self, report: &CycleReport) -> Batch {
        let prepared = |group: &GroupReport| self.groups.get(usize::from(group.group.0));
        let points = report.groups.iter().filter_map(prepared).map(|group| group.recipes.len()).sum();
        let mut readings = Vec::with_capacity(points);
        let mut groups = Vec::with_capacity(report.groups.len());
        let mut allowed_skew: Option<Duration> = None;
        for reported in &report.groups {
            let Some(group) = prepared(reported) else { continue };
            let result = group.result(reported, report);
            if matches!(result, GroupResult::Read(_)) {
                group.read(&reported.parts, &mut readings);
                allowed_skew = [allowed_skew, group.max_skew].into_iter().flatten().min();
            }
            groups.push((reported.group, result));
        }
        if !readings.is_sorted_by(|(a, _), (b, _)| a < b) {
            readings.sort_by_key(|(point, _)| *point);
            readings.dedup_by_key(|(point, _)| *point);
        }
        self.apply_conditions(&mut readings);
        let skew = report.ended.mono.since(report.first_reply.mono);
        Batch {
            device: report.device.clone(),
            generation: report.generation,
            interval: report.interval,
            cycle: report.cycle,
            started: report.started,
            ended: report.ended,
            condition: report.condition,
            skew_exceeded: allowed_skew.is_some_and(|allowed| skew > allowed),
            groups,
            readings,
        }
    }

    fn apply_conditions(&self, readings: &mut [(PointId, Reading)]) {
        for condition in &self.conditions {
            let Ok(own) = readings.binary_search_by_key(&condition.point, |(point, _)| *point) else { continue };
            // What was not read is stale, whatever was read of others.
            if matches!(readings[own].1, Reading::Stale(_)) {
                continue;
            }
            let met = readings.binary_search_by_key(&condition.depends_on, |(point, _)| *point).ok().is_some_and(|i| {
                match &readings[i].1 {
                    Reading::Good(value) => condition.values.iter().any(|allowed| allowed.same_as(value)),
                    _ => false,
                }
            });
            if !met {
                readings[own].1 = Reading::Absent(Reason::NotAvailable);
            }
        }
    }
}

impl PreparedGroup {
    fn result(&self, reported: &GroupReport, report: &CycleReport) -> GroupResult {
        let mut first_fault = None;
        let mut last_reply = None;
        for part in &reported.parts {
            match fault_of(part) {
                Some(reason) => first_fault = first_fault.or(Some(reason)),
                None if last_reply.is_none_or(|last: crate::model::Stamp| last.mono < part.received.mono) => {
                    last_reply = Some(part.received);
                }
                None => {}
            }
        }
        match (first_fault, last_reply) {
            (Some(reason), None) => GroupResult::Failed(reason),
            (Some(reason), Some(_)) if self.on_partial == OnPartial::Keep => GroupResult::Failed(reason),
            (_, Some(last)) => GroupResult::Read(last.wall),
            (None, None) => GroupResult::Read(report.ended.wall),
        }
    }

    fn read(&self, parts: &[Part], readings: &mut Vec<(PointId, Reading)>) {
        let refused = parts.iter().find_map(|part| match part.outcome {
            PartOutcome::Refused(code) if self.together => Some(code),
            _ => None,
        });
        if let Some(code) = refused {
            let bad = |recipe: &Recipe| (recipe.point, Reading::Bad(Reason::Exception(code)));
            readings.extend(self.recipes.iter().map(bad));
            return;
        }
        // Points in profile order mostly follow the addresses: the part of the last one is tried first.
        let mut at = 0;
        for recipe in &self.recipes {
            if !parts.get(at).is_some_and(|part| holds(part, recipe)) {
                let start = (recipe.table, recipe.range.start());
                at = parts.partition_point(|part| (part.table, part.range.start()) <= start).saturating_sub(1);
            }
            match parts.get(at) {
                Some(part) if holds(part, recipe) => read_from(part, recipe, readings),
                _ => readings.push((recipe.point, gather(parts, recipe))),
            }
        }
    }
}

fn holds(part: &Part, recipe: &Recipe) -> bool {
    part.table == recipe.table && part.range.covers(recipe.range)
}

/// Why a part cannot be believed; a reply of another length or kind than was asked for cannot.
fn fault_of(part: &Part) -> Option<Reason> {
    let count = usize::from(part.range.count());
    match &part.outcome {
        PartOutcome::Registers(words) => (part.table.is_bits() || words.len() != count).then_some(Reason::Length),
        PartOutcome::Bits(bits) => (!part.table.is_bits() || bits.len() != count).then_some(Reason::Length),
        PartOutcome::Refused(_) => None,
        PartOutcome::Fault(reason) => Some(*reason),
    }
}

/// The reading of a point that lies within one part: found by address, never by counting the points before it.
#[inline]
fn read_from(part: &Part, recipe: &Recipe, readings: &mut Vec<(PointId, Reading)>) {
    let offset = usize::from(recipe.range.start().0 - part.range.start().0);
    let reading = match &part.outcome {
        PartOutcome::Registers(words) => match words.get(offset..offset + usize::from(recipe.range.count())) {
            Some(words) => return recipe.decode_onto(words, readings),
            None => Reading::Stale(Reason::Length),
        },
        PartOutcome::Bits(bits) => {
            bits.get(offset).map_or(Reading::Stale(Reason::Length), |bit| recipe.decode_bit(*bit))
        }
        PartOutcome::Refused(code) => Reading::Bad(Reason::Exception(*code)),
        PartOutcome::Fault(reason) => Reading::Stale(*reason),
    };
    readings.push((recipe.point, reading));
}

/// The reading of a point whose registers came in several parts: a fault in one is a fault of all.
fn gather(parts: &[Part], recipe: &Recipe) -> Reading {
    let mut words = Vec::with_capacity(usize::from(recipe.range.count()));
    let mut refused = None;
    for address in u32::from(recipe.range.start().0)..recipe.range.end() {
        let covers = |part: &&Part| {
            part.table == recipe.table && (u32::from(part.range.start().0)..part.range.end()).contains(&address)
        };
        // An address that nobody asked for is as good as a reply that is too short.
        let Some(part) = parts.iter().find(covers) else { return Reading::Stale(Reason::Length) };
        match &part.outcome {
            PartOutcome::Registers(all) => match all.get((address - u32::from(part.range.start().0)) as usize) {
                Some(word) => words.push(*word),
                None => return Reading::Stale(Reason::Length),
            },
            PartOutcome::Bits(_) => return Reading::Stale(Reason::Length),
            PartOutcome::Refused(code) => refused = refused.or(Some(*code)),
            PartOutcome::Fault(reason) => return Reading::Stale(*reason),
        }
    }
    match refused {
        Some(code) => Reading::Bad(Reason::Exception(code)),
        None => recipe.decode(&words),
    }
}

/// Each condition behind the one of the point it depends on. A circle, which the profile language refuses, comes out
/// as conditions that are never met.
fn conditions_in_order(profile: &DeviceProfile) -> Vec<Condition> {
    let dependency = |point: PointId| {
        let (depends_on, values) = profile.points.get(usize::from(point.0))?.valid_when.as_ref()?;
        Some((*depends_on, values))
    };
    let mut ordered: Vec<(usize, Condition)> = (0..profile.points.len())
        .filter_map(|i| {
            let point = PointId(u16::try_from(i).ok()?);
            let (depends_on, values) = dependency(point)?;
            let (mut depth, mut next) = (0, depends_on);
            while let Some((further, _)) = dependency(next) {
                depth += 1;
                next = further;
                if depth > profile.points.len() {
                    return Some((depth, Condition { point, depends_on, values: Vec::new() }));
                }
            }
            Some((depth, Condition { point, depends_on, values: values.clone() }))
        })
        .collect();
    ordered.sort_by_key(|(depth, _)| *depth);
    ordered.into_iter().map(|(_, condition)| condition).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::recipe::tests::point;
    use super::*;
    use crate::modbus::{Address, AddressRange, Table};
    use crate::model::{Condition as Reach, Cycle, DeviceId, Generation, GroupId, Interval, Stamp, Wall};
    use crate::profile::{Cut, Group, Limits, Meaning, Order, Point, RawType, Scale, Timing};
    use proptest::prelude::*;

    pub(in crate::codec) fn profile(groups: usize, points: Vec<Point>) -> DeviceProfile {
        let group = |i| Group {
            name: format!("g{i}").into(),
            every: Some(Duration::from_secs(1)),
            together: false,
            on_partial: OnPartial::Keep,
            max_skew: None,
        };
        DeviceProfile {
            name: "test/x".into(),
            version: "1.0.0".into(),
            title: String::new(),
            model: None,
            verified: false,
            sources: Vec::new(),
            serial: crate::profile::SerialDefaults::default(),
            limits: Limits::default(),
            timing: Timing::default(),
            groups: (0..groups).map(group).collect(),
            points,
            tests: Vec::new(),
        }
    }

    fn at(p: Point, group: u16, address: u16) -> Point {
        let range = AddressRange::new(Address(address), p.range.count()).unwrap();
        Point { group: GroupId(group), range, ..p }
    }

    fn stamp(ms: u64) -> Stamp {
        Stamp::default().plus(Duration::from_millis(ms))
    }

    fn part(start: u16, outcome: PartOutcome, ms: u64) -> Part {
        let count = match &outcome {
            PartOutcome::Registers(words) => words.len() as u16,
            PartOutcome::Bits(bits) => bits.len() as u16,
            PartOutcome::Refused(_) | PartOutcome::Fault(_) => 1,
        };
        part_of(Table::HoldingRegister, start, count, outcome, ms)
    }

    fn part_of(table: Table, start: u16, count: u16, outcome: PartOutcome, ms: u64) -> Part {
        Part { table, range: AddressRange::new(Address(start), count).unwrap(), outcome, received: stamp(ms) }
    }

    fn report(groups: Vec<Vec<Part>>) -> CycleReport {
        CycleReport {
            device: DeviceId::new("d").unwrap(),
            generation: Generation(3),
            interval: Interval(0),
            cycle: Cycle(9),
            started: stamp(0),
            ended: stamp(100),
            first_reply: stamp(10),
            condition: Reach::Reachable,
            groups: (0u16..).zip(groups).map(|(i, parts)| GroupReport { group: GroupId(i), parts }).collect(),
        }
    }

    fn reading(batch: &Batch, point: u16) -> Option<&Reading> {
        batch.readings.iter().find(|(p, _)| p.0 == point).map(|(_, r)| r)
    }

    fn int(n: i64) -> Reading {
        Reading::Good(Value::Int(n))
    }

    #[test]
    fn f53_order_stays_within_each_point() {
        let mut single = point(RawType::F32, 2);
        single.encoding.word_order = Order::LowFirst;
        let p = profile(1, vec![at(single.clone(), 0, 0), at(single, 0, 2)]);
        let words = PartOutcome::Registers(vec![0, 0x4148, 0, 0x4248]);
        let batch = Decoder::new(&p).decode(&report(vec![vec![part(0, words, 10)]]));
        assert_eq!(reading(&batch, 0), Some(&Reading::Good(Value::F32(12.5))));
        assert_eq!(reading(&batch, 1), Some(&Reading::Good(Value::F32(50.0))));
    }

    #[test]
    fn f56_orders_mix_within_one_request() {
        let mut single = point(RawType::F32, 2);
        single.encoding.word_order = Order::LowFirst;
        let mut text = point(RawType::Text, 2);
        text.encoding.byte_order = Order::LowFirst;
        let p = profile(1, vec![at(point(RawType::U16, 1), 0, 0), at(single, 0, 1), at(text, 0, 3)]);
        let words = PartOutcome::Registers(vec![0x00FA, 0, 0x4148, 0x7250, 0x336F]);
        let batch = Decoder::new(&p).decode(&report(vec![vec![part(0, words, 10)]]));
        assert_eq!(reading(&batch, 0), Some(&int(250)));
        assert_eq!(reading(&batch, 1), Some(&Reading::Good(Value::F32(12.5))));
        assert_eq!(reading(&batch, 2), Some(&Reading::Good(Value::Text("Pro3".into()))));
    }

    #[test]
    fn f45_points_behind_a_gap_are_found_by_address() {
        let p = profile(1, vec![at(point(RawType::U32, 2), 0, 7000), at(point(RawType::U32, 2), 0, 7016)]);
        let words = PartOutcome::Registers((7000..7018).collect());
        let batch = Decoder::new(&p).decode(&report(vec![vec![part(7000, words, 10)]]));
        assert_eq!(reading(&batch, 0), Some(&int(0x1B58_1B59)));
        assert_eq!(reading(&batch, 1), Some(&int(0x1B68_1B69)));
    }

    #[test]
    fn shd_010_a_refused_register_is_bad_alone() {
        let p = profile(1, vec![at(point(RawType::U16, 1), 0, 0), at(point(RawType::U16, 1), 0, 1)]);
        let parts = vec![part(0, PartOutcome::Registers(vec![5]), 40), part(1, PartOutcome::Refused(2), 60)];
        let batch = Decoder::new(&p).decode(&report(vec![parts]));
        assert_eq!(batch.groups, vec![(GroupId(0), GroupResult::Read(Wall(60)))]);
        assert_eq!(batch.readings, vec![(PointId(0), int(5)), (PointId(1), Reading::Bad(Reason::Exception(2)))]);
        assert_eq!((batch.generation, batch.interval, batch.cycle), (Generation(3), Interval(0), Cycle(9)));
    }

    #[test]
    fn shd_011_a_missing_reply_fails_its_group_only() {
        let p = profile(
            2,
            vec![at(point(RawType::U16, 1), 0, 0), at(point(RawType::U16, 1), 0, 1), at(point(RawType::U16, 1), 1, 20)],
        );
        let batch = Decoder::new(&p).decode(&report(vec![
            vec![part(0, PartOutcome::Registers(vec![5]), 40), part(1, PartOutcome::Fault(Reason::Timeout), 60)],
            vec![part(20, PartOutcome::Registers(vec![7]), 80)],
        ]));
        assert_eq!(
            batch.groups,
            vec![(GroupId(0), GroupResult::Failed(Reason::Timeout)), (GroupId(1), GroupResult::Read(Wall(80)))]
        );
        assert_eq!(batch.readings, vec![(PointId(2), int(7))]);
    }

    #[test]
    fn f80_mark_commits_what_was_read() {
        let mut p = profile(1, vec![at(point(RawType::U16, 1), 0, 0), at(point(RawType::U16, 1), 0, 1)]);
        p.groups[0].on_partial = OnPartial::Mark;
        let decoder = Decoder::new(&p);
        let parts = vec![part(0, PartOutcome::Registers(vec![5]), 40), part(1, PartOutcome::Fault(Reason::Crc), 60)];
        let batch = decoder.decode(&report(vec![parts]));
        assert_eq!(batch.groups, vec![(GroupId(0), GroupResult::Read(Wall(40)))]);
        assert_eq!(batch.readings, vec![(PointId(0), int(5)), (PointId(1), Reading::Stale(Reason::Crc))]);
        // Nothing read at all is no partial success.
        let nothing =
            vec![part(0, PartOutcome::Fault(Reason::Link), 40), part(1, PartOutcome::Fault(Reason::Link), 60)];
        let batch = decoder.decode(&report(vec![nothing]));
        assert_eq!(batch.groups, vec![(GroupId(0), GroupResult::Failed(Reason::Link))]);
        assert!(batch.readings.is_empty());
    }

    #[test]
    fn f85_no_failure_becomes_a_value() {
        let p = profile(1, vec![at(point(RawType::U16, 1), 0, 0)]);
        let decoder = Decoder::new(&p);
        for reason in [Reason::Timeout, Reason::Crc, Reason::Length, Reason::Link] {
            let batch = decoder.decode(&report(vec![vec![part(0, PartOutcome::Fault(reason), 10)]]));
            assert_eq!(batch.groups, vec![(GroupId(0), GroupResult::Failed(reason))]);
            assert!(batch.readings.is_empty());
        }
        // Fewer registers, or bits, where registers were asked for; and a range that nobody asked for.
        let short = part_of(Table::HoldingRegister, 0, 2, PartOutcome::Registers(vec![1]), 10);
        let odd = part_of(Table::HoldingRegister, 0, 1, PartOutcome::Bits(vec![true]), 10);
        for wrong in [short, odd] {
            let batch = decoder.decode(&report(vec![vec![wrong]]));
            assert_eq!(batch.groups, vec![(GroupId(0), GroupResult::Failed(Reason::Length))]);
        }
        let elsewhere = part(5, PartOutcome::Registers(vec![1]), 10);
        let batch = decoder.decode(&report(vec![vec![elsewhere]]));
        assert_eq!(batch.readings, vec![(PointId(0), Reading::Stale(Reason::Length))]);
    }

    #[test]
    fn a_group_read_together_is_refused_as_a_whole() {
        let mut p = profile(1, vec![at(point(RawType::U16, 1), 0, 0), at(point(RawType::U16, 1), 0, 1)]);
        p.groups[0].together = true;
        let parts = vec![part(0, PartOutcome::Registers(vec![5]), 40), part(1, PartOutcome::Refused(3), 60)];
        let batch = Decoder::new(&p).decode(&report(vec![parts]));
        let bad = Reading::Bad(Reason::Exception(3));
        assert_eq!(batch.readings, vec![(PointId(0), bad.clone()), (PointId(1), bad)]);
    }

    #[test]
    fn shd_013_skew_beyond_the_least_allowed_is_flagged() {
        let mut p = profile(2, vec![at(point(RawType::U16, 1), 0, 0), at(point(RawType::U16, 1), 1, 9)]);
        p.groups[1].max_skew = Some(Duration::from_millis(89));
        let good = |start| vec![part(start, PartOutcome::Registers(vec![5]), 40)];
        assert!(Decoder::new(&p).decode(&report(vec![good(0), good(9)])).skew_exceeded);
        p.groups[1].max_skew = Some(Duration::from_millis(90));
        assert!(!Decoder::new(&p).decode(&report(vec![good(0), good(9)])).skew_exceeded);
        p.groups[1].max_skew = Some(Duration::from_millis(1));
        let failed = vec![part(9, PartOutcome::Fault(Reason::Timeout), 40)];
        assert!(!Decoder::new(&p).decode(&report(vec![good(0), failed])).skew_exceeded, "that group was not read");
    }

    #[test]
    fn valid_when_hides_a_point_whose_condition_is_not_met() {
        let mut state = at(point(RawType::U16, 1), 0, 2);
        state.meaning = Meaning::Labels(vec![(1, "run".into()), (3, "fault".into())]);
        let mut code = at(point(RawType::U16, 1), 0, 0);
        code.valid_when = Some((PointId(2), vec![Value::Text("fault".into())]));
        let mut detail = at(point(RawType::U16, 1), 0, 1);
        detail.valid_when = Some((PointId(0), vec![Value::Int(17)]));
        // The detail depends on a later point by way of an earlier one.
        let mut p = profile(1, vec![code, detail, state]);
        let decode = |p: &DeviceProfile, words: Vec<u16>| {
            let batch = Decoder::new(p).decode(&report(vec![vec![part(0, PartOutcome::Registers(words), 10)]]));
            (batch.readings[0].1.clone(), batch.readings[1].1.clone())
        };
        let absent = Reading::Absent(Reason::NotAvailable);
        assert_eq!(decode(&p, vec![17, 5, 3]), (int(17), int(5)));
        assert_eq!(decode(&p, vec![17, 5, 1]), (absent.clone(), absent.clone()));
        assert_eq!(decode(&p, vec![16, 5, 3]), (int(16), absent.clone()));
        assert_eq!(decode(&p, vec![17, 5, 9]), (absent.clone(), absent.clone()), "an uncertain state is not good");
        // A circle is never met, and no endless loop.
        p.points[2].valid_when = Some((PointId(1), vec![Value::Int(5)]));
        assert_eq!(decode(&p, vec![17, 5, 3]), (absent.clone(), absent));
    }

    #[test]
    fn f78_bits_are_found_by_address() {
        let coil = |address| Point { table: Table::Coil, ..at(point(RawType::Bool, 1), 0, address) };
        let p = profile(1, vec![coil(19), coil(11)]);
        let mut bits = vec![false; 20];
        bits[19] = true;
        let parts = vec![part_of(Table::Coil, 0, 20, PartOutcome::Bits(bits), 10)];
        let batch = Decoder::new(&p).decode(&report(vec![parts]));
        assert_eq!(reading(&batch, 0), Some(&Reading::Good(Value::Bool(true))));
        assert_eq!(reading(&batch, 1), Some(&Reading::Good(Value::Bool(false))));
    }

    #[test]
    fn unknown_groups_and_repeated_ones_are_no_panic() {
        let p = profile(1, vec![at(point(RawType::U16, 1), 0, 0)]);
        let mut twice = report(vec![vec![part(0, PartOutcome::Registers(vec![5]), 10)]]);
        twice.groups.push(twice.groups[0].clone());
        twice.groups.push(GroupReport { group: GroupId(77), parts: Vec::new() });
        let batch = Decoder::new(&p).decode(&twice);
        assert_eq!(batch.readings, vec![(PointId(0), int(5))]);
    }

    /// Points at random places of a few random types.
    fn layouts() -> impl Strategy<Value = Vec<Point>> {
        let one = (0u16..200, 0usize..6, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(address, kind, word, byte, scaled)| {
                let raw = [RawType::U16, RawType::I32, RawType::F32, RawType::U64, RawType::Text, RawType::Bytes][kind];
                let mut p = point(raw, raw.width().unwrap_or(3));
                p.encoding.word_order = if word { Order::LowFirst } else { Order::HighFirst };
                p.encoding.byte_order = if byte { Order::LowFirst } else { Order::HighFirst };
                if scaled && kind < 4 {
                    p.meaning = Meaning::Scaled(Scale {
                        numerator: 1,
                        denominator: 10,
                        bias_mantissa: 0,
                        bias_exponent: 0,
                        decimals: None,
                        round_to: None,
                    });
                } else if kind == 0 {
                    p.encoding.cut = Some(Cut { low: 3, high: 9, boolean: false });
                }
                at(p, 0, address)
            },
        );
        proptest::collection::vec(one, 1..20)
    }

    proptest! {
        #[test]
        fn f45_a_merged_block_gives_what_single_requests_give(
            points in layouts(), words in proptest::collection::vec(any::<u16>(), 204), cut in 0u16..204
        ) {
            let merged = Decoder::new(&profile(1, points.clone()));
            let whole = vec![part(0, PartOutcome::Registers(words.clone()), 10)];
            let batch = merged.decode(&report(vec![whole]));
            for (i, p) in (0u16..).zip(&points) {
                let own = words[usize::from(p.range.start().0)..p.range.end() as usize].to_vec();
                let single = Decoder::new(&profile(1, vec![p.clone()]));
                let alone = single.decode(&report(vec![vec![part(p.range.start().0, PartOutcome::Registers(own), 10)]]));
                prop_assert_eq!(reading(&batch, i), Some(&alone.readings[0].1));
            }
            // Wherever the block is cut in two, the values are the same.
            let (low, high) = words.split_at(usize::from(cut.max(1)));
            let parts = vec![
                part(0, PartOutcome::Registers(low.to_vec()), 10),
                part(cut.max(1), PartOutcome::Registers(high.to_vec()), 10),
            ];
            prop_assert_eq!(merged.decode(&report(vec![parts])), batch);
        }
    }
}
