//! The keys of a point as written, on any of the three levels where they may stand: defaults, group, point.

use super::super::{Access, Order, RawType};
use super::limits::span;
use crate::document::{Diagnostics, Fields, Node, Number, Place, Problem};
use crate::modbus::Table;
use crate::model::JsonForm;
use std::sync::Arc;

/// Keys of a point that later versions know.
pub(super) const LATER: [&str; 18] = [
    "words",
    "byte",
    "encoding",
    "char_byte",
    "count",
    "flags",
    "match",
    "scale_by",
    "write",
    "publish",
    "counter",
    "wraps_at",
    "max_rate",
    "deadband",
    "optional",
    "overlap",
    "step",
    "round",
];

/// Types that later versions know.
const LATER_TYPES: [&str; 18] = [
    "u8", "i8", "u24", "i24", "u48", "i48", "f16", "bcd16", "bcd32", "bcd64", "sm16", "sm32", "mod10k", "unix32",
    "ipv4", "ipv6", "eui48", "s7string",
];

/// Where a key stands; the nearest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Point,
    Group,
    Defaults,
}

/// A key that is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<T> {
    /// Nothing where it could not be read, which is reported.
    pub(super) value: Option<T>,
    /// Its value's place.
    pub(super) place: Place,
    /// Its own place.
    pub(super) key: Place,
    pub(super) level: Level,
}

impl<T> Given<T> {
    /// Whether it stands on the point itself.
    pub(super) fn own(&self) -> bool {
        self.level == Level::Point
    }
}

/// One label of an enumeration.
#[derive(Debug, Clone)]
pub(super) struct Label {
    pub(super) number: i128,
    pub(super) text: Arc<str>,
    pub(super) key: Place,
    pub(super) place: Place,
}

/// `valid_when`, its values not yet judged.
#[derive(Debug, Clone)]
pub(super) struct ValidWhen<'a> {
    pub(super) point: &'a str,
    pub(super) place: Place,
    pub(super) values: &'a [Node],
}

/// An exact ratio above or below zero, denominator above 0, without common factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ratio {
    pub(super) numerator: i64,
    pub(super) denominator: i64,
}

macro_rules! written {
    ($($field:ident: $kind:ty,)*) => {
        /// All keys that may stand on any level.
        #[derive(Debug, Clone, Default)]
        pub(super) struct Written<'a> {
            $(pub(super) $field: Option<Given<$kind>>,)*
        }

        impl<'a> Written<'a> {
            /// These keys, and those of a farther level where these have none.
            pub(super) fn over(self, farther: &Self) -> Self {
                Self { $($field: self.$field.or_else(|| farther.$field.clone()),)* }
            }
        }
    };
}

written! {
    table: Table,
    word_order: Order,
    byte_order: Order,
    kind: RawType,
    length: u16,
    bit: u8,
    bits: (u8, u8),
    invert: bool,
    scale: Ratio,
    bias: Number,
    decimals: u8,
    round_to: Ratio,
    unit: &'a str,
    title: &'a str,
    min: Number,
    max: Number,
    labels: Arc<[Label]>,
    format: (),
    valid_when: ValidWhen<'a>,
    absent: Arc<[(i128, Place)]>,
    json: JsonForm,
    access: Access,
    danger: bool,
}

impl<'a> Written<'a> {
    /// Reads all of them from a mapping that may hold others besides.
    pub(super) fn read(fields: &mut Fields<'a>, level: Level, wrong: &mut Diagnostics) -> Self {
        let mut keys = Keys { fields, level, wrong };
        let orders = [("high_first", Order::HighFirst), ("low_first", Order::LowFirst)];
        let accesses = [("r", Access::Read), ("rw", Access::ReadWrite), ("w", Access::Write)];
        Self {
            table: keys.take("table", |n| n.word(&Table::ALL.map(|t| (t.as_str(), t)))),
            word_order: keys.take("word_order", |n| n.word(&orders)),
            byte_order: keys.take("byte_order", |n| n.word(&orders)),
            kind: keys.take("type", raw_type),
            length: keys.take("length", |n| n.integer_within("length", 1..=125).map(|n| n as u16)),
            bit: keys.take("bit", |n| n.integer_within("bit", 0..=63).map(|n| n as u8)),
            bits: keys.take("bits", |n| span(n, 63).map(|(low, high)| (low as u8, high as u8))),
            invert: keys.take("invert", Node::boolean),
            scale: keys.take("scale", |n| match ratio(n)? {
                Ratio { numerator: 0, .. } => {
                    Err(Problem::new(n.place, "a scale of 0 makes every value 0").remedy("write 1, or leave it out"))
                }
                ratio => Ok(ratio),
            }),
            bias: keys.take("bias", |n| {
                let number = n.number()?;
                super::point::value_of(number).ok_or_else(|| too_many_digits(n)).map(|_| number)
            }),
            decimals: keys.take("decimals", |n| n.integer_within("decimals", 0..=15).map(|n| n as u8)),
            round_to: keys.take("round_to", |n| match ratio(n)? {
                ratio if ratio.numerator > 0 => Ok(ratio),
                _ => Err(Problem::new(n.place, "round_to takes a number above 0").remedy("write it as in 0.5")),
            }),
            unit: keys.take("unit", unit),
            title: keys.take("title", Node::text),
            min: keys.take("min", limit),
            max: keys.take("max", limit),
            labels: keys.take_all("enum", labels),
            format: keys.take("format", |n| n.word(&[("hex", ())])),
            valid_when: keys.take_all("valid_when", valid_when),
            absent: keys.take_all("absent", absent),
            json: keys.take("json", |n| n.word(&[("number", JsonForm::Plain), ("string", JsonForm::DecimalString)])),
            access: keys.take("access", |n| n.word(&accesses)),
            danger: keys.take("danger", Node::boolean),
        }
    }
}

struct Keys<'k, 'a> {
    fields: &'k mut Fields<'a>,
    level: Level,
    wrong: &'k mut Diagnostics,
}

impl<'a> Keys<'_, 'a> {
    fn take<T>(&mut self, key: &'static str, read: impl Fn(&'a Node) -> Result<T, Problem>) -> Option<Given<T>> {
        self.take_all(key, |node, wrong| wrong.keep(read(node)))
    }

    /// The same for readers that may find several mistakes.
    fn take_all<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&'a Node, &mut Diagnostics) -> Option<T>,
    ) -> Option<Given<T>> {
        let entry = self.fields.entry(key)?;
        let value = read(&entry.value, self.wrong);
        Some(Given { value, place: entry.value.place, key: entry.key.place, level: self.level })
    }
}

fn raw_type(node: &Node) -> Result<RawType, Problem> {
    const TYPES: [RawType; 11] = [
        RawType::Bool,
        RawType::U16,
        RawType::I16,
        RawType::U32,
        RawType::I32,
        RawType::U64,
        RawType::I64,
        RawType::F32,
        RawType::F64,
        RawType::Text,
        RawType::Bytes,
    ];
    match node.as_written() {
        Some(word) if LATER_TYPES.contains(&word) => {
            let problem = Problem::new(node.place, format!("the type `{word}` is not available in this version"));
            Err(problem.remedy(format!("this version knows {}", TYPES.map(RawType::as_str).join(", "))))
        }
        _ => node.word(&TYPES.map(|t| (t.as_str(), t))),
    }
}

/// A number, or a ratio of two whole ones as in `100/16384`.
fn ratio(node: &Node) -> Result<Ratio, Problem> {
    let text = node.as_written().unwrap_or_default();
    let (numerator, denominator) = if let Some((above, below)) = text.split_once('/') {
        let whole = |t: &str| Number::parse(t.trim()).and_then(Number::integer);
        match (whole(above), whole(below)) {
            (_, Some(0)) => return Err(Problem::new(node.place, "a ratio over 0")),
            (Some(above), Some(below)) => (above, below),
            _ => return Err(node.expects("a ratio of two whole numbers, as in 100/16384")),
        }
    } else {
        let number = node.number()?;
        let below = 10i128.checked_pow(number.exponent().unsigned_abs()).ok_or_else(|| too_many_digits(node))?;
        (number.digits(), below)
    };
    let divisor = common_divisor(numerator.unsigned_abs(), denominator.unsigned_abs()) as i128;
    let sign = if denominator < 0 { -1 } else { 1 };
    let part = |n: i128| i64::try_from(sign * n / divisor).map_err(|_| too_many_digits(node));
    Ok(Ratio { numerator: part(numerator)?, denominator: part(denominator)? })
}

/// At least 1, where not both are 0.
pub(super) fn common_divisor(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

fn too_many_digits(node: &Node) -> Problem {
    Problem::new(node.place, format!("{} has more digits than this can hold (18)", node.shown()))
}

fn limit(node: &Node) -> Result<Number, Problem> {
    let number = node.number()?;
    super::point::value_of(number).map(|_| number).ok_or_else(|| too_many_digits(node))
}

/// A unit may look like a number: "1".
fn unit(node: &Node) -> Result<&str, Problem> {
    match node.as_written() {
        Some(text) if !node.is_null() && !text.is_empty() && text.chars().count() <= 32 => Ok(text),
        _ => Err(node.expects("a unit of 1 to 32 characters")),
    }
}

/// Labels are text exactly as written: `on`, `off`, `no` and 1.0 too; only nothing is no label.
fn labels(node: &Node, wrong: &mut Diagnostics) -> Option<Arc<[Label]>> {
    let mapping = wrong.keep(node.mapping())?;
    if mapping.entries.is_empty() {
        wrong.report(node.place, "an enum without labels").remedy("write it as in {0: stopped, 1: running}");
        return None;
    }
    let mut labels: Vec<Label> = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for entry in &mapping.entries {
        let number = wrong.keep(entry.key.integer());
        let label = entry.value.scalar().filter(|s| s.quoted || !matches!(&*s.text, "" | "~"));
        let Some(label) = label else {
            let mut problem = entry.value.expects("a label");
            problem.place = entry.value.place;
            wrong.add_problem(problem.remedy("write a word, or \"~\" in quotes"));
            continue;
        };
        let number_of_unknown = label.text.strip_prefix("unknown(").and_then(|t| t.strip_suffix(')'));
        if number_of_unknown.is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit())) {
            wrong.report(entry.value.place, format!("`{}` is what numbers without a label are called", label.text));
            continue;
        }
        let Some(number) = number else { continue };
        if let Some(first) = seen.insert(number, entry.key.place) {
            wrong
                .report(entry.key.place, format!("{number} has two labels"))
                .remedy("keep one")
                .also(first, "first here");
            continue;
        }
        let (key, place) = (entry.key.place, entry.value.place);
        labels.push(Label { number, text: Arc::clone(&label.text), key, place });
    }
    Some(labels.into())
}

fn valid_when<'a>(node: &'a Node, wrong: &mut Diagnostics) -> Option<ValidWhen<'a>> {
    let mapping = wrong.keep(node.mapping())?;
    let [entry] = mapping.entries.as_slice() else {
        wrong.report(node.place, "valid_when names one point").remedy("write it as in {state: [fault]}");
        return None;
    };
    let values = wrong.keep(entry.value.items())?;
    if values.is_empty() {
        wrong.report(entry.value.place, "valid_when without values is never fulfilled");
        return None;
    }
    Some(ValidWhen { point: entry.name(), place: entry.key.place, values })
}

fn absent(node: &Node, wrong: &mut Diagnostics) -> Option<Arc<[(i128, Place)]>> {
    if node.as_written() == Some("sunspec") {
        wrong
            .report(node.place, "`absent: sunspec` is not available in this version")
            .remedy("write the patterns as in [0x8000]");
        return None;
    }
    let items = wrong.keep(node.items().map_err(|p| p.remedy("write it as in [0x8000]")))?;
    let patterns = items.iter().filter_map(|n| Some((wrong.keep(n.integer())?, n.place)));
    Some(patterns.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    #[test]
    fn f67_scales_are_exact_ratios() {
        let read =
            |text: &str| ratio(Document::parse("x", text).unwrap().root()).ok().map(|r| (r.numerator, r.denominator));
        assert_eq!(read("0.1"), Some((1, 10)));
        assert_eq!(read("100/16384"), Some((25, 4096)));
        assert_eq!(read("-0.25"), Some((-1, 4)));
        assert_eq!(read("1/-4"), Some((-1, 4)));
        assert_eq!(read("0.001"), Some((1, 1000)));
        assert_eq!(read("1e-3"), Some((1, 1000)));
        assert_eq!(read("60"), Some((60, 1)));
        for bad in ["1/0", "1.5/2", "a", "1/2/3", "0.00000000000000000001", "~", "[1]", "\"0.1\""] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
