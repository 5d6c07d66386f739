//! How one point's registers become a reading: everything that can be known beforehand, prepared.
//!
//! ```text
//! registers ─ byte order, word order ─► raw pattern ─ cut ─► absent? ─► number, bit or text ─► meaning ─► limits
//! ```
//!
//! Order is applied within the point's own registers only. Absent patterns are compared before any scaling. A value
//! beyond its limits is never shown: the reading is bad and the last good one stays.

use super::scale::{Fast, Float, Scaling, limit_in_units};
use super::text::{hex_bytes, text};
use crate::modbus::{AddressRange, Table};
use crate::model::{Decimal, JsonForm, PointId, Reading, Reason, Value};
use crate::profile::{Meaning, Order, Point, RawType};
use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

/// The greatest whole number that every JSON reader keeps exactly: 2^53 - 1.
const SAFE_INTEGER: i64 = (1 << 53) - 1;
/// From here on a single is "not available" whatever the profile says: devices send ±`FLT_MAX` more or less rounded.
const SINGLE_NOT_AVAILABLE: f32 = 3.4e38;

/// A point, prepared for decoding.
#[derive(Debug)]
pub(super) struct Recipe {
    /// Which point.
    pub(super) point: PointId,
    /// Where it lies.
    pub(super) table: Table,
    /// Its registers, or its bit.
    pub(super) range: AddressRange,
    swap_bytes: bool,
    low_word_first: bool,
    /// Shift right, then mask.
    cut: Option<(u8, u64)>,
    absent: Box<[u64]>,
    kind: Kind,
    /// Limits of numbers that have no common unit (floats, odd ratios).
    min: Option<Value>,
    max: Option<Value>,
}

#[derive(Debug)]
enum Kind {
    Boolean { invert: bool },
    Whole { sign: Sign, meaning: WholeMeaning },
    Float { double: bool, meaning: FloatMeaning },
    Text,
    Bytes,
}

#[derive(Debug, Clone, Copy)]
enum Sign {
    Unsigned,
    /// Two's complement with so many unused bits above it in 64.
    Signed(u8),
}

#[derive(Debug)]
enum WholeMeaning {
    /// The number itself, between these limits; beyond `i64` only where nobody was promised that every reader gets it.
    Plain {
        min: i64,
        max: i64,
        beyond: bool,
    },
    /// Scaled by road 1, between these limits in its units; the other roads where it overflows.
    Fast(Fast, i64, i64, Scaling),
    Scaled(Scaling),
    Labels(Labels),
    /// So many hex digits.
    Hex(usize),
}

#[derive(Debug)]
enum FloatMeaning {
    Plain,
    Scaled(Scaling),
    Labels(Labels),
}

/// Labels, ascending by number.
#[derive(Debug)]
struct Labels(Box<[(i64, Arc<str>)]>);

impl Recipe {
    pub(super) fn new(id: PointId, point: &Point) -> Self {
        let encoding = point.encoding;
        Self {
            point: id,
            table: point.table,
            range: point.range,
            swap_bytes: encoding.byte_order == Order::LowFirst,
            low_word_first: encoding.word_order == Order::LowFirst,
            cut: encoding.cut.map(|cut| {
                let width = cut.high.min(63).saturating_sub(cut.low);
                (cut.low.min(63), u64::MAX >> (63 - width))
            }),
            absent: point.absent.as_slice().into(),
            kind: Kind::new(point),
            min: point.min.clone(),
            max: point.max.clone(),
        }
    }

    /// Decodes the point's own registers, lowest address first, and adds the reading to the others.
    ///
    /// The common road, whole numbers of a decimal scale, writes its reading right where it stays: handing it up
    /// through four callers takes longer than computing it.
    #[inline]
    pub(super) fn decode_onto(&self, words: &[u16], readings: &mut Vec<(PointId, Reading)>) {
        match self.plain_digits(words) {
            Some((n, 0)) => push_whole(readings, self.point, n),
            Some((n, places)) => match Decimal::new(n, -(places as i8)) {
                Some(d) if d.exponent() == 0 => push_whole(readings, self.point, d.mantissa()),
                Some(d) => push_decimal(readings, self.point, d),
                None => readings.push((self.point, Reading::Bad(Reason::OutOfRange))),
            },
            None => readings.push((self.point, self.decode(words))),
        }
    }

    /// Digits and decimals of a good reading on the common road; nothing for every other.
    #[inline]
    fn plain_digits(&self, words: &[u16]) -> Option<(i64, u8)> {
        let Kind::Whole { sign, meaning } = &self.kind else { return None };
        let raw = self.pattern(self.raw(words));
        if !self.absent.is_empty() && self.absent.contains(&raw) {
            return None;
        }
        let n = sign.number(raw)?;
        let (digits, places, min, max) = match meaning {
            WholeMeaning::Plain { min, max, .. } => (n, 0, *min, *max),
            WholeMeaning::Fast(fast, min, max, _) => (fast.units(n)?, fast.places(), *min, *max),
            WholeMeaning::Scaled(_) | WholeMeaning::Labels(_) | WholeMeaning::Hex(_) => return None,
        };
        (digits >= min && digits <= max).then_some((digits, places))
    }

    /// Decodes a coil or discrete input.
    pub(super) fn decode_bit(&self, bit: bool) -> Reading {
        self.decode_raw(u64::from(bit))
    }

    /// Decodes the point's own registers, lowest address first.
    pub(super) fn decode(&self, words: &[u16]) -> Reading {
        if !matches!(self.kind, Kind::Text | Kind::Bytes) {
            return self.decode_raw(self.raw(words));
        }
        if words.len() <= 4 && !self.absent.is_empty() && self.absent.contains(&self.raw(words)) {
            return Reading::Absent(Reason::NotAvailable);
        }
        let mut bytes = Vec::with_capacity(words.len() * 2);
        let mut push = |word: &u16| bytes.extend(if self.swap_bytes { word.to_le_bytes() } else { word.to_be_bytes() });
        if self.low_word_first {
            words.iter().rev().for_each(&mut push);
        } else {
            words.iter().for_each(&mut push);
        }
        Reading::Good(Value::Text(match self.kind {
            Kind::Text => text(&bytes),
            _ => hex_bytes(&bytes),
        }))
    }

    #[inline]
    fn raw(&self, words: &[u16]) -> u64 {
        let join =
            |raw: u64, word: &u16| raw << 16 | u64::from(if self.swap_bytes { word.swap_bytes() } else { *word });
        if self.low_word_first { words.iter().rev().fold(0, join) } else { words.iter().fold(0, join) }
    }

    #[inline]
    fn pattern(&self, raw: u64) -> u64 {
        self.cut.map_or(raw, |(shift, mask)| raw >> shift & mask)
    }

    fn decode_raw(&self, raw: u64) -> Reading {
        let raw = self.pattern(raw);
        if !self.absent.is_empty() && self.absent.contains(&raw) {
            return Reading::Absent(Reason::NotAvailable);
        }
        match &self.kind {
            Kind::Boolean { invert } => Reading::Good(Value::Bool((raw != 0) != *invert)),
            Kind::Whole { sign, meaning } => self.whole(raw, *sign, meaning),
            Kind::Float { double: false, meaning } => {
                let x = f32::from_bits(raw as u32);
                if x.is_infinite() {
                    Reading::Bad(Reason::Inf)
                } else if x.is_nan() || x.abs() >= SINGLE_NOT_AVAILABLE {
                    Reading::Absent(Reason::NotAvailable)
                } else {
                    // Adding +0 turns -0 into 0 and leaves every other number as it is.
                    self.float(Float::Single(x + 0.0), meaning)
                }
            }
            Kind::Float { double: true, meaning } => {
                let x = f64::from_bits(raw);
                if x.is_infinite() {
                    Reading::Bad(Reason::Inf)
                } else if x.is_nan() || x.abs() >= f64::MAX {
                    Reading::Absent(Reason::NotAvailable)
                } else {
                    self.float(Float::Double(x + 0.0), meaning)
                }
            }
            // `decode` took these.
            Kind::Text | Kind::Bytes => Reading::Bad(Reason::OutOfRange),
        }
    }

    fn whole(&self, raw: u64, sign: Sign, meaning: &WholeMeaning) -> Reading {
        match (meaning, sign.number(raw).ok_or(raw)) {
            (WholeMeaning::Plain { min, max, .. }, Ok(n)) => {
                if (*min..=*max).contains(&n) {
                    Reading::Good(Value::Int(n))
                } else {
                    Reading::Bad(Reason::OutOfRange)
                }
            }
            (WholeMeaning::Plain { beyond: true, .. }, Err(_)) => self.within_limits(Some(Value::Uint(raw))),
            (WholeMeaning::Plain { beyond: false, .. }, Err(_)) => Reading::Bad(Reason::OutOfRange),
            (WholeMeaning::Fast(fast, min, max, scaling), Ok(n)) => match fast.units(n) {
                Some(units) if units < *min || units > *max => Reading::Bad(Reason::OutOfRange),
                Some(units) => match Value::from_decimal(units, -(fast.places() as i8)) {
                    Some(value) => Reading::Good(value),
                    None => Reading::Bad(Reason::OutOfRange),
                },
                None => self.within_limits(scaling.whole(n.into())),
            },
            (WholeMeaning::Fast(.., scaling) | WholeMeaning::Scaled(scaling), n) => {
                self.within_limits(scaling.whole(n.map_or_else(i128::from, i128::from)))
            }
            (WholeMeaning::Labels(labels), Ok(n)) => labels.reading(n),
            (WholeMeaning::Labels(_), Err(_)) => unknown(&raw),
            (WholeMeaning::Hex(digits), _) => {
                let mut text = String::with_capacity(*digits);
                // Writing into a String cannot fail.
                let _ = write!(text, "{raw:0digits$X}");
                Reading::Good(Value::Text(text.into()))
            }
        }
    }

    fn float(&self, x: Float, meaning: &FloatMeaning) -> Reading {
        match meaning {
            FloatMeaning::Plain => self.within_limits(Some(match x {
                Float::Single(x) => Value::F32(x),
                Float::Double(x) => Value::F64(x),
            })),
            FloatMeaning::Scaled(scaling) => self.within_limits(scaling.float(x)),
            FloatMeaning::Labels(labels) => {
                let (wide, shown) = match x {
                    Float::Single(x) => (f64::from(x), x.to_string()),
                    Float::Double(x) => (x, x.to_string()),
                };
                // Whole numbers below 2^53 are the same in both types; labels are never beyond.
                if wide.fract() == 0.0 && wide.abs() <= SAFE_INTEGER as f64 {
                    labels.reading(wide as i64)
                } else {
                    unknown(&shown)
                }
            }
        }
    }

    /// A value that could not be computed, or is beyond its limits, is bad.
    fn within_limits(&self, value: Option<Value>) -> Reading {
        let Some(value) = value else { return Reading::Bad(Reason::OutOfRange) };
        let below = self.min.as_ref().is_some_and(|min| value.numeric_cmp(min) == Some(Ordering::Less));
        let above = self.max.as_ref().is_some_and(|max| value.numeric_cmp(max) == Some(Ordering::Greater));
        if below || above { Reading::Bad(Reason::OutOfRange) } else { Reading::Good(value) }
    }
}

impl Sign {
    /// The number of a raw pattern; nothing where it is beyond `i64`.
    #[inline]
    fn number(self, raw: u64) -> Option<i64> {
        match self {
            Self::Unsigned => i64::try_from(raw).ok(),
            Self::Signed(unused) => Some((raw << unused) as i64 >> unused),
        }
    }
}

impl Kind {
    fn new(point: &Point) -> Self {
        let raw = point.encoding.raw;
        match raw {
            RawType::Text => return Self::Text,
            RawType::Bytes => return Self::Bytes,
            _ => {}
        }
        let cut = point.encoding.cut;
        let boolean = cut.map_or(raw == RawType::Bool, |cut| cut.boolean);
        if let (true, Meaning::Plain { invert }) = (boolean, &point.meaning) {
            return Self::Boolean { invert: *invert };
        }
        let float = cut.is_none() && matches!(raw, RawType::F32 | RawType::F64);
        if float && point.meaning != Meaning::Hex {
            let meaning = match &point.meaning {
                Meaning::Scaled(scale) => FloatMeaning::Scaled(Scaling::new(scale)),
                Meaning::Labels(labels) => FloatMeaning::Labels(Labels::new(labels)),
                Meaning::Plain { .. } | Meaning::Hex => FloatMeaning::Plain,
            };
            return Self::Float { double: raw == RawType::F64, meaning };
        }
        let sign = match raw {
            _ if cut.is_some() => Sign::Unsigned,
            RawType::I16 => Sign::Signed(48),
            RawType::I32 => Sign::Signed(32),
            RawType::I64 => Sign::Signed(0),
            _ => Sign::Unsigned,
        };
        Self::Whole { sign, meaning: WholeMeaning::new(point) }
    }
}

impl WholeMeaning {
    fn new(point: &Point) -> Self {
        let limits = |places: u8| {
            let min = point.min.as_ref().and_then(|v| limit_in_units(v, places, true));
            let max = point.max.as_ref().and_then(|v| limit_in_units(v, places, false));
            match point.min {
                // No i64 reaches such a floor.
                Some(Value::Uint(_)) => (i64::MAX, i64::MIN),
                _ => (min.unwrap_or(i64::MIN), max.unwrap_or(i64::MAX)),
            }
        };
        match &point.meaning {
            Meaning::Plain { .. } => {
                let (min, max) = limits(0);
                // `json: number` promises that every reader gets the same digits.
                if point.json == JsonForm::Plain && matches!(point.encoding.raw, RawType::I64 | RawType::U64) {
                    Self::Plain { min: min.max(-SAFE_INTEGER), max: max.min(SAFE_INTEGER), beyond: false }
                } else {
                    Self::Plain { min, max, beyond: true }
                }
            }
            Meaning::Scaled(scale) => {
                let scaling = Scaling::new(scale);
                match scaling.fast() {
                    Some(fast) => {
                        let (min, max) = limits(fast.places());
                        Self::Fast(fast, min, max, scaling)
                    }
                    None => Self::Scaled(scaling),
                }
            }
            Meaning::Labels(labels) => Self::Labels(Labels::new(labels)),
            Meaning::Hex => {
                let bits = match (point.encoding.cut, point.encoding.raw.width()) {
                    (Some(cut), _) => u32::from(cut.high.saturating_sub(cut.low)) + 1,
                    (None, _) if point.encoding.raw == RawType::Bool => 1,
                    (None, width) => u32::from(width.unwrap_or(1)) * 16,
                };
                Self::Hex(bits.div_ceil(4) as usize)
            }
        }
    }
}

impl Labels {
    fn new(labels: &[(i64, Arc<str>)]) -> Self {
        let mut sorted = labels.to_vec();
        sorted.sort_by_key(|(n, _)| *n);
        Self(sorted.into())
    }

    fn reading(&self, n: i64) -> Reading {
        match self.0.binary_search_by_key(&n, |(number, _)| *number) {
            Ok(i) => Reading::Good(Value::Text(Arc::clone(&self.0[i].1))),
            Err(_) => unknown(&n),
        }
    }
}

// Functions of their own, or the compiler joins all pushes into one that copies the reading from the stack: bytes just
// written one by one and read back at once as sixteen make the processor wait, and decoding takes twice as long.
#[inline(never)]
fn push_whole(readings: &mut Vec<(PointId, Reading)>, point: PointId, n: i64) {
    readings.push((point, Reading::Good(Value::Int(n))));
}

#[inline(never)]
fn push_decimal(readings: &mut Vec<(PointId, Reading)>, point: PointId, d: Decimal) {
    readings.push((point, Reading::Good(Value::Decimal(d))));
}

fn unknown(number: &dyn std::fmt::Display) -> Reading {
    Reading::Uncertain(Value::Text(format!("unknown({number})").into()), Reason::UnknownLabel)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::modbus::Address;
    use crate::model::GroupId;
    use crate::profile::{Access, Cut, Encoding, Scale};
    use proptest::prelude::*;

    /// A plain point at holding register 0.
    pub(in crate::codec) fn point(raw: RawType, registers: u16) -> Point {
        Point {
            path: "x".into(),
            group: GroupId(0),
            table: Table::HoldingRegister,
            range: AddressRange::new(Address(0), registers).unwrap(),
            encoding: Encoding { raw, word_order: Order::HighFirst, byte_order: Order::HighFirst, cut: None },
            meaning: Meaning::Plain { invert: false },
            unit: None,
            title: None,
            min: None,
            max: None,
            absent: Vec::new(),
            valid_when: None,
            json: if matches!(raw, RawType::I64 | RawType::U64) { JsonForm::DecimalString } else { JsonForm::Plain },
            access: Access::Read,
            danger: false,
        }
    }

    /// `point` with its registers in one of the four orders.
    fn ordered(raw: RawType, registers: u16, order: &str) -> Point {
        let mut p = point(raw, registers);
        let (word, byte) = match order {
            "ABCD" | "AB" => (Order::HighFirst, Order::HighFirst),
            "CDAB" => (Order::LowFirst, Order::HighFirst),
            "BADC" | "BA" => (Order::HighFirst, Order::LowFirst),
            "DCBA" => (Order::LowFirst, Order::LowFirst),
            other => panic!("{other}"),
        };
        p.encoding.word_order = word;
        p.encoding.byte_order = byte;
        p
    }

    fn scaled(mut p: Point, numerator: i64, denominator: i64) -> Point {
        p.meaning = Meaning::Scaled(Scale {
            numerator,
            denominator,
            bias_mantissa: 0,
            bias_exponent: 0,
            decimals: None,
            round_to: None,
        });
        p
    }

    fn read(p: &Point, words: &[u16]) -> Reading {
        Recipe::new(PointId(0), p).decode(words)
    }

    fn decimal(mantissa: i64, exponent: i8) -> Reading {
        Reading::Good(Value::from_decimal(mantissa, exponent).unwrap())
    }

    fn int(n: i64) -> Reading {
        Reading::Good(Value::Int(n))
    }

    fn says(text: &str) -> Reading {
        Reading::Good(Value::Text(text.into()))
    }

    const NOT_AVAILABLE: Reading = Reading::Absent(Reason::NotAvailable);
    const OUT_OF_RANGE: Reading = Reading::Bad(Reason::OutOfRange);

    #[test]
    fn f51_the_four_orders_of_a_double_word() {
        assert_eq!(read(&scaled(ordered(RawType::U32, 2, "ABCD"), 1, 100), &[0, 0x0499]), decimal(1177, -2));
        assert_eq!(read(&scaled(ordered(RawType::U32, 2, "CDAB"), 1, 100), &[0, 0x0499]), decimal(77_135_872, -2));
        assert_eq!(read(&ordered(RawType::U32, 2, "CDAB"), &[0x4ACE, 0]), int(19_150));
        assert_eq!(read(&ordered(RawType::U32, 2, "ABCD"), &[0x4ACE, 0]), int(1_255_014_400));
        assert_eq!(read(&ordered(RawType::U32, 2, "BADC"), &[0x0201, 0x0403]), int(0x0102_0304));
        assert_eq!(read(&ordered(RawType::U32, 2, "DCBA"), &[0x0403, 0x0201]), int(0x0102_0304));
    }

    #[test]
    fn f54_text_obeys_the_byte_order() {
        let words = [0x7250, 0x336F, 0x4D45, 0x312D];
        assert_eq!(read(&ordered(RawType::Text, 4, "ABCD"), &words), says("rP3oME1-"));
        assert_eq!(read(&ordered(RawType::Text, 4, "BADC"), &words), says("Pro3EM-1"));
        assert_eq!(read(&ordered(RawType::Text, 4, "CDAB"), &[0x4344, 0x4142, 0x3132, 0x3030]), says("0012ABCD"));
    }

    #[test]
    fn f57_a_register_with_its_bytes_swapped() {
        assert_eq!(read(&ordered(RawType::U16, 1, "AB"), &[0x8025]), int(32_805));
        assert_eq!(read(&ordered(RawType::U16, 1, "BA"), &[0x8025]), int(9600));
    }

    #[test]
    fn f59_absent_patterns_are_compared_before_scaling() {
        let absent = |raw, registers, pattern| {
            let mut p = scaled(point(raw, registers), 1, 10);
            p.absent = vec![pattern];
            p
        };
        assert_eq!(read(&absent(RawType::U16, 1, 0xFFFF), &[0xFFFF]), NOT_AVAILABLE);
        assert_eq!(read(&absent(RawType::I16, 1, 0x8000), &[0x8000]), NOT_AVAILABLE);
        assert_eq!(read(&absent(RawType::I16, 1, 0x8000), &[0x7FFF]), decimal(32_767, -1));
        assert_eq!(read(&absent(RawType::U32, 2, 0xFFFF_FFFF), &[0xFFFF, 0xFFFF]), NOT_AVAILABLE);
        assert_eq!(read(&absent(RawType::I32, 2, 0x8000_0000), &[0x8000, 0]), NOT_AVAILABLE);
        // After order and cut: 20000 in the low byte first form, and a nibble.
        let mut swapped = ordered(RawType::U16, 1, "BA");
        swapped.absent = vec![0x4E20];
        assert_eq!(read(&swapped, &[0x204E]), NOT_AVAILABLE);
        let mut nibble = point(RawType::U16, 1);
        nibble.encoding.cut = Some(Cut { low: 4, high: 7, boolean: false });
        nibble.absent = vec![0xF];
        assert_eq!(read(&nibble, &[0x12F4]), NOT_AVAILABLE);
        assert_eq!(read(&nibble, &[0x1234]), int(3));
    }

    #[test]
    fn f61_the_greatest_float_is_not_available() {
        let p = ordered(RawType::F32, 2, "CDAB");
        assert_eq!(read(&p, &[0xFFFF, 0xFF7F]), NOT_AVAILABLE);
        assert_eq!(read(&p, &[0xFFFF, 0x7F7F]), NOT_AVAILABLE);
        assert_eq!(read(&p, &[0xCCCD, 0x409C]), Reading::Good(Value::F32(4.9)));
        assert_eq!(read(&point(RawType::F64, 4), &[0x7FEF, 0xFFFF, 0xFFFF, 0xFFFF]), NOT_AVAILABLE);
        assert_eq!(read(&point(RawType::F64, 4), &[0xFFEF, 0xFFFF, 0xFFFF, 0xFFFF]), NOT_AVAILABLE);
    }

    #[test]
    fn f63_nan_is_absent_and_infinity_bad() {
        assert_eq!(read(&point(RawType::F32, 2), &[0x7FC0, 0]), NOT_AVAILABLE);
        assert_eq!(read(&point(RawType::F32, 2), &[0xFFC0, 1]), NOT_AVAILABLE);
        assert_eq!(read(&point(RawType::F32, 2), &[0x7F80, 0]), Reading::Bad(Reason::Inf));
        assert_eq!(read(&scaled(point(RawType::F32, 2), 1, 10), &[0xFF80, 0]), Reading::Bad(Reason::Inf));
        assert_eq!(read(&point(RawType::F64, 4), &[0x7FF8, 0, 0, 0]), NOT_AVAILABLE);
        assert_eq!(read(&point(RawType::F64, 4), &[0xFFF0, 0, 0, 0]), Reading::Bad(Reason::Inf));
    }

    #[test]
    fn f64_sign_is_the_type_s() {
        assert_eq!(read(&point(RawType::U16, 1), &[0xFFEC]), int(65_516));
        assert_eq!(read(&point(RawType::I16, 1), &[0xFFEC]), int(-20));
        assert_eq!(read(&scaled(point(RawType::I16, 1), 1, 10), &[0xFFEC]), int(-2));
        assert_eq!(read(&point(RawType::U16, 1), &[0x8100]), int(33_024));
        assert_eq!(read(&point(RawType::I16, 1), &[0x8100]), int(-32_512));
    }

    #[test]
    fn f66_a_fractional_scale_keeps_its_decimals() {
        assert_eq!(read(&scaled(point(RawType::I16, 1), 1, 10), &[68]), decimal(68, -1));
        assert_eq!(read(&scaled(point(RawType::I16, 1), 1, 10), &[70]), int(7));
        assert_eq!(read(&scaled(point(RawType::I16, 1), 1, 1000), &[5]), decimal(5, -3));
    }

    #[test]
    fn f67_scaled_floats_have_no_noise() {
        assert_eq!(read(&scaled(point(RawType::U16, 1), 1, 100), &[23_773]), decimal(23_773, -2));
        assert_eq!(read(&scaled(point(RawType::F32, 2), 1, 10), &[0x409C, 0xCCCD]), decimal(49, -2));
    }

    #[test]
    fn f69_sixty_four_bits_stay_whole() {
        let words = [0x0020, 0, 0, 1];
        assert_eq!(read(&point(RawType::U64, 4), &words), int(9_007_199_254_740_993));
        assert_eq!(read(&point(RawType::U64, 4), &[0xFFFF; 4]), Reading::Good(Value::Uint(u64::MAX)));
        assert_eq!(read(&point(RawType::I64, 4), &[0xFFFF; 4]), int(-1));
        let mut number = point(RawType::U64, 4);
        number.json = JsonForm::Plain;
        assert_eq!(read(&number, &words), OUT_OF_RANGE);
        assert_eq!(read(&number, &[0xFFFF; 4]), OUT_OF_RANGE);
        assert_eq!(read(&number, &[0x001F, 0xFFFF, 0xFFFF, 0xFFFF]), int(9_007_199_254_740_991));
    }

    #[test]
    fn f75_an_unknown_number_is_uncertain_and_shown() {
        let mut p = point(RawType::U16, 1);
        p.meaning = Meaning::Labels(vec![(1, "on".into()), (0, "off".into())]);
        assert_eq!(read(&p, &[0]), says("off"));
        assert_eq!(read(&p, &[1]), says("on"));
        for (raw, text) in [(7, "unknown(7)"), (62_453, "unknown(62453)")] {
            assert_eq!(read(&p, &[raw]), Reading::Uncertain(Value::Text(text.into()), Reason::UnknownLabel));
        }
        let mut signed = point(RawType::I16, 1);
        signed.meaning = Meaning::Labels(vec![(-1, "reverse".into())]);
        assert_eq!(read(&signed, &[0xFFFF]), says("reverse"));
    }

    #[test]
    fn f84_nothing_is_a_value() {
        assert_eq!(read(&point(RawType::U16, 1), &[0]), int(0));
        assert_eq!(read(&point(RawType::F32, 2), &[0, 0]), Reading::Good(Value::F32(0.0)));
        assert_eq!(read(&point(RawType::Text, 5), &[0; 5]), says(""));
        let mut coil = point(RawType::Bool, 1);
        coil.table = Table::Coil;
        assert_eq!(Recipe::new(PointId(0), &coil).decode_bit(false), Reading::Good(Value::Bool(false)));
    }

    #[test]
    fn f90_the_counter_in_all_readings() {
        assert_eq!(read(&ordered(RawType::I32, 2, "ABCD"), &[0xE0B7, 0]), int(-524_877_824));
        assert_eq!(read(&ordered(RawType::U32, 2, "ABCD"), &[0xE0B7, 0]), int(3_770_089_472));
        assert_eq!(read(&ordered(RawType::U32, 2, "CDAB"), &[0xE0B7, 0]), int(57_527));
    }

    #[test]
    fn minus_zero_is_zero() {
        for (raw, words) in [(RawType::F32, vec![0x8000, 0]), (RawType::F64, vec![0x8000, 0, 0, 0])] {
            let Reading::Good(value) = read(&point(raw, words.len() as u16), &words) else { panic!() };
            assert!(value.as_f64().unwrap().is_sign_positive());
            assert_eq!(read(&scaled(point(raw, words.len() as u16), 1, 10), &words), int(0));
        }
    }

    #[test]
    fn values_beyond_their_limits_are_bad() {
        let limited = |p: Point, min: Value, max: Value| Point { min: Some(min), max: Some(max), ..p };
        let percent = |p| limited(p, Value::Int(0), Value::Int(100));
        assert_eq!(read(&percent(point(RawType::U16, 1)), &[101]), OUT_OF_RANGE);
        assert_eq!(read(&percent(point(RawType::U16, 1)), &[100]), int(100));
        assert_eq!(read(&percent(point(RawType::I16, 1)), &[0xFFFF]), OUT_OF_RANGE);
        assert_eq!(read(&percent(scaled(point(RawType::U16, 1), 1, 10)), &[1001]), OUT_OF_RANGE);
        assert_eq!(read(&percent(scaled(point(RawType::U16, 1), 1, 10)), &[1000]), int(100));
        assert_eq!(read(&percent(scaled(point(RawType::U16, 1), 1, 3)), &[301]), OUT_OF_RANGE);
        assert_eq!(read(&percent(point(RawType::F32, 2)), &[0x42C8, 0x0001]), OUT_OF_RANGE);
        assert_eq!(read(&percent(point(RawType::F32, 2)), &[0x42C8, 0]), Reading::Good(Value::F32(100.0)));
        let tenths = limited(point(RawType::F32, 2), Value::Int(0), Value::from_decimal(49, -1).unwrap());
        assert_eq!(read(&tenths, &[0x409C, 0xCCCD]), Reading::Good(Value::F32(4.9)), "the float means 4.9");
        assert_eq!(read(&percent(point(RawType::U64, 4)), &[0xFFFF; 4]), OUT_OF_RANGE);
        let huge = limited(point(RawType::U64, 4), Value::Int(0), Value::Uint(u64::MAX - 1));
        assert_eq!(read(&huge, &[0xFFFF; 4]), OUT_OF_RANGE);
        assert_eq!(read(&huge, &[0xFFFF, 0xFFFF, 0xFFFF, 0xFFFE]), Reading::Good(Value::Uint(u64::MAX - 1)));
        let floor = Point { min: Some(Value::Uint(u64::MAX)), ..point(RawType::U64, 4) };
        assert_eq!(read(&floor, &[0x7FFF, 0xFFFF, 0xFFFF, 0xFFFF]), OUT_OF_RANGE);
    }

    #[test]
    fn bits_are_cut_after_ordering() {
        let mut bit = ordered(RawType::U32, 2, "CDAB");
        bit.encoding.cut = Some(Cut { low: 16, high: 16, boolean: true });
        assert_eq!(read(&bit, &[0, 1]), Reading::Good(Value::Bool(true)));
        assert_eq!(read(&bit, &[1, 0]), Reading::Good(Value::Bool(false)));
        bit.meaning = Meaning::Plain { invert: true };
        assert_eq!(read(&bit, &[0, 1]), Reading::Good(Value::Bool(false)));
        let mut all = point(RawType::U64, 4);
        all.encoding.cut = Some(Cut { low: 0, high: 63, boolean: false });
        assert_eq!(read(&all, &[0xFFFF; 4]), Reading::Good(Value::Uint(u64::MAX)));
    }

    #[test]
    fn hex_has_as_many_digits_as_its_bits_need() {
        let mut p = point(RawType::U16, 1);
        p.meaning = Meaning::Hex;
        assert_eq!(read(&p, &[0x0A1F]), says("0A1F"));
        p.encoding.cut = Some(Cut { low: 0, high: 11, boolean: false });
        assert_eq!(read(&p, &[0xFA1F]), says("A1F"));
        p.encoding.cut = Some(Cut { low: 0, high: 4, boolean: false });
        assert_eq!(read(&p, &[0xFFFF]), says("1F"));
        let mut wide = point(RawType::U32, 2);
        wide.meaning = Meaning::Hex;
        assert_eq!(read(&wide, &[0, 0xBEEF]), says("0000BEEF"));
    }

    #[test]
    fn coils_can_be_inverted_and_labelled() {
        let mut coil = point(RawType::Bool, 1);
        coil.table = Table::Coil;
        coil.meaning = Meaning::Plain { invert: true };
        assert_eq!(Recipe::new(PointId(0), &coil).decode_bit(false), Reading::Good(Value::Bool(true)));
        coil.meaning = Meaning::Labels(vec![(0, "open".into()), (1, "closed".into())]);
        assert_eq!(Recipe::new(PointId(0), &coil).decode_bit(true), says("closed"));
    }

    proptest! {
        #[test]
        fn no_registers_panic(
            words in proptest::collection::vec(any::<u16>(), 0..8), low in 0u8..70, width in 0u8..70, boolean: bool,
            kind in 0usize..11, meaning in 0usize..5, word: bool, byte: bool, numerator: i64, denominator: i64,
            bias: i64, exponent: i8, decimals: Option<u8>, cut: bool
        ) {
            let raw = [
                RawType::Bool, RawType::U16, RawType::I16, RawType::U32, RawType::I32, RawType::U64, RawType::I64,
                RawType::F32, RawType::F64, RawType::Text, RawType::Bytes,
            ][kind];
            let mut p = point(raw, raw.width().unwrap_or(8));
            p.encoding.cut = cut.then_some(Cut { low, high: low.saturating_add(width), boolean });
            p.encoding.word_order = if word { Order::HighFirst } else { Order::LowFirst };
            p.encoding.byte_order = if byte { Order::HighFirst } else { Order::LowFirst };
            p.min = Some(Value::Int(bias));
            p.meaning = match meaning {
                0 => Meaning::Plain { invert: boolean },
                1 | 2 => Meaning::Scaled(Scale { numerator, denominator, bias_mantissa: bias, bias_exponent: exponent, decimals, round_to: None }),
                3 => Meaning::Labels(vec![(bias, "x".into())]),
                _ => Meaning::Hex,
            };
            if let Reading::Good(Value::F32(x)) = read(&p, &words) {
                prop_assert!(x.is_finite());
            }
        }
    }
}
