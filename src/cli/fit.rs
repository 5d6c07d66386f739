//! Whether a profile fits a device, judged by a handful of its registers. Pure.
//!
//! Most registers of most devices can be read and hold some number, so that a register that is there shows little. What
//! shows more is a value that could have been wrong and is not: within its limits, one of its labels, a float of a size
//! that things have, a text of readable characters; and not 0, which fits everything.

use crate::codec::decode_dump;
use crate::modbus::{AddressRange, Table};
use crate::model::{Batch, DeviceId, PointId, Reading, Stamp, Value};
use crate::profile::{Access, DeviceProfile, Dump, Meaning, Point, RawType};
use std::fmt;

/// How well a profile fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Confidence {
    /// Its registers are there; their values would fit anything.
    Unproven,
    /// One or two values are such as they should be, and could have been others.
    Possible,
    /// Three or more are.
    Likely,
}

/// What a look at a few values showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fit {
    pub(super) confidence: Confidence,
    /// Values that were read.
    pub(super) read: usize,
    /// Those of them that are right though they could have been wrong.
    pub(super) telling: usize,
}

/// The points to look at, at most [`MOST_LOOKS`]: the first of each group, then the last ones, which smaller models of
/// a family do not have.
pub(super) fn looks(profile: &DeviceProfile) -> Vec<PointId> {
    let of_group = |group: usize| {
        let points = (0u16..).map(PointId).zip(&profile.points);
        points.filter(move |(_, p)| {
            usize::from(p.group.0) == group && p.access != Access::Write && p.valid_when.is_none()
        })
    };
    let groups = || 0..profile.groups.len();
    let firsts = groups().filter_map(|g| of_group(g).next());
    let lasts = groups().filter_map(|g| of_group(g).max_by_key(|(_, p)| p.range.end()));
    // Values that say more: those with labels, limits or a form of their own.
    let telling = groups().flat_map(|g| of_group(g).filter(|(_, p)| can_tell(p)).take(2));
    let mut looks: Vec<PointId> = Vec::new();
    for (point, _) in firsts.chain(lasts).chain(telling) {
        if looks.len() < MOST_LOOKS && !looks.contains(&point) {
            looks.push(point);
        }
    }
    looks
}

/// Where a point lies.
pub(super) fn place(profile: &DeviceProfile, point: PointId) -> Option<(Table, AddressRange)> {
    profile.points.get(usize::from(point.0)).map(|p| (p.table, p.range))
}

/// Judges by what was read of the points looked at; nothing where one of their values contradicts the profile.
pub(super) fn judge(profile: &DeviceProfile, looks: &[PointId], read: &Dump) -> Option<Fit> {
    let device = DeviceId::new("scan").ok()?;
    let batches = decode_dump(&device, profile, read, Stamp::default());
    let mut telling = 0;
    for point in looks {
        match reading(&batches, *point)? {
            Reading::Good(value) => {
                let point = profile.points.get(usize::from(point.0))?;
                if !plausible(point, value) {
                    return None;
                }
                telling += usize::from(can_tell(point) && says_something(value));
            }
            Reading::Absent(_) => {}
            Reading::Uncertain(..) | Reading::Bad(_) | Reading::Stale(_) => return None,
        }
    }
    let confidence = match telling {
        0 => Confidence::Unproven,
        1 | 2 => Confidence::Possible,
        _ => Confidence::Likely,
    };
    Some(Fit { confidence, read: looks.len(), telling })
}

fn reading(batches: &[Batch], point: PointId) -> Option<&Reading> {
    batches.iter().find_map(|batch| {
        let i = batch.readings.binary_search_by_key(&point, |(p, _)| *p).ok()?;
        Some(&batch.readings.get(i)?.1)
    })
}

/// Whether this point's value could show that the profile is the wrong one.
fn can_tell(point: &Point) -> bool {
    let form = matches!(point.encoding.raw, RawType::F32 | RawType::F64 | RawType::Text);
    form || point.min.is_some() || point.max.is_some() || matches!(point.meaning, Meaning::Labels(_))
}

/// Labels and limits the decoder has judged. Registers that are no float decode to one near 0 or beyond all measure;
/// those that are no text to odd characters.
fn plausible(point: &Point, value: &Value) -> bool {
    match (point.encoding.raw, value) {
        (RawType::F32 | RawType::F64, value) => {
            value.as_f64().is_none_or(|x| x == 0.0 || (SMALLEST..LARGEST).contains(&x.abs()))
        }
        (RawType::Text, Value::Text(text)) => text.chars().all(|c| !c.is_control() && c != char::REPLACEMENT_CHARACTER),
        _ => true,
    }
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Bool(on) => *on,
        Value::Text(text) => !text.is_empty(),
        number => number.as_f64().is_some_and(|x| x != 0.0),
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unproven => "unproven",
            Self::Possible => "possible",
            Self::Likely => "likely",
        })
    }
}

/// Reads for one profile on one device.
const MOST_LOOKS: usize = 8;
const SMALLEST: f64 = 1e-6;
const LARGEST: f64 = 1e12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::modbus::Address;
    use crate::profile::parse;

    fn profile() -> DeviceProfile {
        let yaml = "\
profile: a/b
version: 1.0.0
groups:
  fast:
    every: 1s
    points:
      voltage: {address: 0, type: f32}
      state: {address: 2, type: u16, enum: {1: idle, 2: runs}}
      last: {address: 9, type: u16}
  slow: {every: 5s, points: {percent: {address: 20, type: u16, max: 100}}}
";
        parse(&Document::parse("p", yaml).unwrap()).unwrap()
    }

    fn judged(words: &[(u16, u16)]) -> Option<Fit> {
        let profile = profile();
        let mut dump = Dump::default();
        for (a, w) in words {
            dump.set_register(Table::HoldingRegister, Address(*a), *w);
        }
        judge(&profile, &looks(&profile), &dump)
    }

    #[test]
    fn the_firsts_the_lasts_and_the_telling_are_looked_at_once_each() {
        let profile = profile();
        let paths: Vec<&str> = looks(&profile).iter().map(|p| &*profile.points[usize::from(p.0)].path).collect();
        assert_eq!(paths, ["voltage", "percent", "last", "state"]);
    }

    #[test]
    fn a_profile_fits_as_well_as_its_values_show() {
        // 230.5 V, state 1, 40 %.
        let good = [(0, 0x4366), (1, 0x8000), (2, 1), (9, 7), (20, 40)];
        assert_eq!(judged(&good), Some(Fit { confidence: Confidence::Likely, read: 4, telling: 3 }));
        let zeros = [(0, 0), (1, 0), (2, 1), (9, 0), (20, 0)];
        assert_eq!(judged(&zeros), Some(Fit { confidence: Confidence::Possible, read: 4, telling: 1 }));
        for (address, word, why) in
            [(2, 7, "no label"), (20, 101, "above its limit"), (0, 0x0001, "no float of this world")]
        {
            let mut wrong = good;
            wrong.iter_mut().filter(|(a, _)| *a == address).for_each(|(_, w)| *w = word);
            assert_eq!(judged(&wrong), None, "{why}");
        }
        assert_eq!(judged(&good[..4]), None, "a register is missing");
    }
}
