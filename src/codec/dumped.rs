//! Registers that somebody saved, decoded as if a device had just sent them; and profiles judged by such registers.

use super::Decoder;
use crate::modbus::{Address, AddressRange, Table};
use crate::model::{
    Batch, Condition, Cycle, DeviceId, Fault, Generation, GroupId, Interval, JsonForm, PointId, Reading, Stamp, Value,
};
use crate::poll::{CycleReport, GroupReport, Part, PartOutcome};
use crate::profile::{DeviceProfile, Dump, Intervals, ProfileTest};

/// Decodes all groups of a profile out of a dump: one batch per interval, in the order of its layout.
///
/// An address that is missing in the dump is refused with exception 2, as a device would.
pub fn decode_dump(device: &DeviceId, profile: &DeviceProfile, dump: &Dump, at: Stamp) -> Vec<Batch> {
    let decoder = Decoder::new(profile);
    let layout = profile.layout(&Intervals::new());
    let report = |number: u16| {
        let groups: Vec<_> = (0u16..)
            .zip(&layout.groups)
            .filter(|(_, group)| group.interval == Interval(number))
            .map(|(i, _)| GroupReport { group: GroupId(i), parts: parts_of(profile, GroupId(i), dump, at) })
            .collect();
        let readable = groups.iter().any(|group| !group.parts.is_empty());
        CycleReport {
            device: device.clone(),
            generation: Generation(1),
            interval: Interval(number),
            cycle: Cycle(u64::from(number) + 1),
            started: at,
            ended: at,
            first_reply: at,
            condition: if readable { Condition::Reachable } else { Condition::Unreachable(Fault::NoReply) },
            groups,
        }
    };
    (0u16..).zip(&layout.intervals).map(|(number, _)| decoder.decode(&report(number))).collect()
}

/// Runs one of a profile's own test vectors: every difference, in words.
pub fn run_profile_test(profile: &DeviceProfile, test: &ProfileTest) -> Result<(), Vec<String>> {
    let device = DeviceId::new("test").expect("a name of letters");
    let batches = decode_dump(&device, profile, &test.registers, Stamp::default());
    let reading = |point: PointId| {
        batches.iter().find_map(|batch| {
            let i = batch.readings.binary_search_by_key(&point, |(p, _)| *p).ok()?;
            Some(&batch.readings[i].1)
        })
    };
    let path = |point: PointId| profile.points.get(usize::from(point.0)).map_or("?", |p| &*p.path);
    let mut differences = Vec::new();
    for (point, expected) in &test.expect {
        match reading(*point) {
            Some(Reading::Good(value)) if agrees(profile, *point, value, expected) => {}
            other => differences.push(format!(
                "{}: `{}`: `{}` should be {}, and is {}",
                test.place,
                test.name,
                path(*point),
                show(expected),
                describe(other)
            )),
        }
    }
    for point in &test.absent {
        if let Some(Reading::Good(_) | Reading::Uncertain(..)) = reading(*point) {
            differences.push(format!(
                "{}: `{}`: `{}` should have no value, and is {}",
                test.place,
                test.name,
                path(*point),
                describe(reading(*point))
            ));
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(differences) }
}

fn agrees(profile: &DeviceProfile, point: PointId, value: &Value, expected: &Value) -> bool {
    let as_string = profile.points.get(usize::from(point.0)).is_some_and(|p| p.json == JsonForm::DecimalString);
    match (value, expected) {
        // A 64-bit number stands as text in payloads, and may in tests.
        (Value::Int(_) | Value::Uint(_), Value::Text(digits)) if as_string => show(value) == **digits,
        _ => value.same_as(expected),
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Uint(n) => n.to_string(),
        Value::Decimal(d) => d.to_string(),
        Value::F32(x) => x.to_string(),
        Value::F64(x) => x.to_string(),
        Value::Text(text) => text.to_string(),
    }
}

fn describe(reading: Option<&Reading>) -> String {
    match reading {
        Some(Reading::Good(value)) => show(value),
        Some(Reading::Uncertain(value, reason)) => format!("{}, uncertain: {reason}", show(value)),
        Some(Reading::Bad(reason)) => format!("bad: {reason}"),
        Some(Reading::Absent(reason)) => format!("absent: {reason}"),
        Some(Reading::Stale(reason)) => format!("stale: {reason}"),
        None => "not read".to_owned(),
    }
}

/// The addresses that a group needs, in runs that are wholly there or wholly missing.
fn parts_of(profile: &DeviceProfile, group: GroupId, dump: &Dump, at: Stamp) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut tables = Table::ALL;
    tables.sort_unstable();
    for table in tables {
        let mut addresses: Vec<u16> = profile
            .points
            .iter()
            .filter(|p| p.group == group && p.table == table)
            .flat_map(|p| p.range.start().0..=p.range.last().0)
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        let there = |address: u16| {
            AddressRange::new(Address(address), 1).is_some_and(|one| {
                if table.is_bits() { dump.bits(table, one).is_some() } else { dump.registers(table, one).is_some() }
            })
        };
        for run in addresses.chunk_by(|a, b| a + 1 == *b && there(*a) == there(*b)) {
            let Some(range) = u16::try_from(run.len()).ok().and_then(|n| AddressRange::new(Address(run[0]), n)) else {
                continue;
            };
            let outcome = if table.is_bits() {
                dump.bits(table, range).map(PartOutcome::Bits)
            } else {
                dump.registers(table, range).map(PartOutcome::Registers)
            };
            parts.push(Part { table, range, outcome: outcome.unwrap_or(PartOutcome::Refused(2)), received: at });
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::decoder::tests::profile;
    use super::super::recipe::tests::point;
    use super::*;
    use crate::model::Reason;
    use crate::profile::RawType;

    fn two_points() -> (DeviceProfile, Dump) {
        let mut wide = point(RawType::U32, 2);
        wide.range = AddressRange::new(Address(1), 2).unwrap();
        wide.group = GroupId(1);
        let mut coil = point(RawType::Bool, 1);
        coil.table = Table::Coil;
        coil.group = GroupId(1);
        let mut profile = profile(2, vec![point(RawType::U16, 1), wide, coil]);
        profile.groups[1].every = None;
        let mut dump = Dump::default();
        dump.set_register(Table::HoldingRegister, Address(0), 1450);
        dump.set_register(Table::HoldingRegister, Address(1), 7);
        dump.set_bit(Table::Coil, Address(0), true);
        (profile, dump)
    }

    #[test]
    fn a_missing_register_is_refused() {
        let (profile, dump) = two_points();
        let batches = decode_dump(&DeviceId::new("d").unwrap(), &profile, &dump, Stamp::default());
        assert_eq!(batches.len(), 2, "one per interval");
        assert_eq!(batches[0].readings, vec![(PointId(0), Reading::Good(Value::Int(1450)))]);
        assert_eq!(
            batches[1].readings,
            vec![(PointId(1), Reading::Bad(Reason::Exception(2))), (PointId(2), Reading::Good(Value::Bool(true)))]
        );
    }

    #[test]
    fn a_profile_test_names_each_difference() {
        let (profile, registers) = two_points();
        let test = |expect, absent| ProfileTest {
            name: "running".into(),
            registers: registers.clone(),
            expect,
            absent,
            place: "x.yaml:9".into(),
        };
        assert_eq!(run_profile_test(&profile, &test(vec![(PointId(0), Value::F32(1450.0))], vec![PointId(1)])), Ok(()));
        assert_eq!(
            run_profile_test(
                &profile,
                &test(vec![(PointId(0), Value::Int(1)), (PointId(1), Value::Int(7))], vec![PointId(0)])
            ),
            Err(vec![
                "x.yaml:9: `running`: `x` should be 1, and is 1450".to_owned(),
                "x.yaml:9: `running`: `x` should be 7, and is bad: exception(2)".to_owned(),
                "x.yaml:9: `running`: `x` should have no value, and is 1450".to_owned(),
            ])
        );
    }
}
