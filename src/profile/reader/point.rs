//! One point as meant: its type, its registers, what its number means; and every option that has no effect.

use super::super::{Access, Cut, Encoding, Limits, Meaning, Order, Point, RawType, Scale};
use super::position::Located;
use super::written::{Given, Level, Ratio, Written};
use crate::document::{Diagnostics, Number, Place};
use crate::modbus::{Address, AddressRange, Table};
use crate::model::{GroupId, JsonForm, Value};
use std::sync::Arc;

/// What is judged.
pub(super) struct Subject<'s> {
    pub(super) key: Place,
    pub(super) group: GroupId,
    pub(super) limits: &'s Limits,
}

/// A number as a point has it; nothing where it has more digits than a value can hold.
pub(super) fn value_of(number: Number) -> Option<Value> {
    match number.integer() {
        Some(n) => i64::try_from(n).map(Value::Int).ok().or_else(|| u64::try_from(n).map(Value::from_u64).ok()),
        None => Value::from_decimal(i64::try_from(number.digits()).ok()?, i8::try_from(number.exponent()).ok()?),
    }
}

/// What kind of value a type and a cut give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A coil, a discrete input, or one bit.
    Boolean,
    /// A whole number of that many bits.
    Whole {
        bits: u8,
        signed: bool,
    },
    Float {
        bits: u8,
    },
    Text,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Self::Boolean => "a boolean",
            Self::Whole { .. } => "a whole number",
            Self::Float { .. } => "a floating-point number",
            Self::Text => "text",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Whole { .. } | Self::Float { .. })
    }
}

/// Options that exclude each other, of which the nearest level counts.
enum Family {
    None,
    Labels,
    Hex,
    Scaled,
}

impl Subject<'_> {
    /// The point, its path still empty; nothing where something about it is wrong. All that is wrong is reported.
    pub(super) fn judge(&self, w: &Written, located: Option<Located>, wrong: &mut Diagnostics) -> Option<Point> {
        let before = wrong.len();
        let table = Self::table(w, located);
        let raw = table.and_then(|table| self.raw_type(w, table, wrong));
        let length = raw.and_then(|raw| self.length(w, raw, wrong));
        let cut = raw.map(|raw| Self::cut(w, raw, wrong));
        let range = match (table, located, raw, length) {
            (Some(table), Some(located), Some(raw), Some(length)) => self.range(w, table, located, raw, length, wrong),
            _ => None,
        };
        let access = self.access(w, table, raw, length, wrong);
        min_below_max(w, wrong);
        let encoding = Self::encoding(w, raw, length, cut.flatten(), wrong);
        let kind = raw.zip(cut).and_then(|(raw, cut)| kind(raw, cut, w));
        let meaning = kind.and_then(|kind| Self::meaning(w, kind, wrong));
        let absent = kind.map(|kind| absent(w, kind, wrong));
        let json = kind.zip(meaning.as_ref()).map(|(kind, meaning)| Self::json(w, kind, meaning, wrong));
        if let Some(kind) = kind {
            limits_of_value(w, kind, meaning.as_ref(), wrong);
        }
        if wrong.len() != before || any_misread(w) {
            return None;
        }
        Some(Point {
            path: Arc::from(""),
            group: self.group,
            table: table?,
            range: range?,
            encoding: encoding?,
            min: w.min.as_ref().and_then(|g| value_of(g.value?)).filter(|_| takes_limits(kind, meaning.as_ref())),
            max: w.max.as_ref().and_then(|g| value_of(g.value?)).filter(|_| takes_limits(kind, meaning.as_ref())),
            meaning: meaning?,
            unit: w.unit.as_ref().and_then(|g| g.value).map(str::to_owned),
            title: w.title.as_ref().and_then(|g| g.value).map(str::to_owned),
            absent: absent?,
            valid_when: None,
            json: json?,
            access: access?,
            danger: w.danger.as_ref().and_then(|g| g.value).unwrap_or(false),
        })
    }

    /// The table: what the number names, where that is nearer than `table`; nothing where it cannot be known.
    fn table(w: &Written, located: Option<Located>) -> Option<Table> {
        match (&w.table, located.and_then(|l| l.table)) {
            (_, Some(named)) => Some(named),
            (Some(given), None) => given.value,
            (None, None) => located.map(|_| Table::HoldingRegister),
        }
    }

    fn raw_type(&self, w: &Written, table: Table, wrong: &mut Diagnostics) -> Option<RawType> {
        // Coils and discrete inputs hold one type only; a farther level may speak of the other kind of table.
        let speaks_of_this =
            |g: &&Given<RawType>| g.own() || g.value.is_none_or(|t| (t == RawType::Bool) == table.is_bits());
        let given = match w.kind.as_ref().filter(speaks_of_this) {
            Some(given) => given,
            None if table.is_bits() => return Some(RawType::Bool),
            None if w.bit.is_some() || w.bits.is_some() => return Some(RawType::U16),
            None => {
                wrong.report(self.key, "the point needs a `type`").remedy("write it as in `type: u16`");
                return None;
            }
        };
        let raw = given.value?;
        match (raw, table.is_bits()) {
            (RawType::Bool, false) => {
                wrong
                    .report(given.place, format!("a register of the {table} table is no bool"))
                    .remedy("write `bit: 0` (or another bit) instead of the type, or `table: coil`");
                None
            }
            (RawType::Bool, true) | (_, false) => Some(raw),
            (_, true) => {
                wrong
                    .report(given.place, format!("the {table} table holds bits, not {}", raw.as_str()))
                    .remedy("write `type: bool`, or leave it out");
                None
            }
        }
    }

    /// How many registers (or bits) the value takes.
    fn length(&self, w: &Written, raw: RawType, wrong: &mut Diagnostics) -> Option<u16> {
        let Some(width) = raw.width() else {
            let Some(given) = &w.length else {
                let place = w.kind.as_ref().map_or(self.key, |g| g.place);
                wrong
                    .report(place, format!("{} needs a `length`", raw.as_str()))
                    .remedy("add `length`: how many registers it takes");
                return None;
            };
            return given.value;
        };
        if let Some(given) = w.length.as_ref().filter(|g| g.own()) {
            no_effect(given, "length", &format!("{} always takes {width}", raw.as_str()), wrong);
        }
        Some(width)
    }

    fn cut(w: &Written, raw: RawType, wrong: &mut Diagnostics) -> Option<Cut> {
        let (bit, bits) = nearest(w.bit.as_ref(), w.bits.as_ref());
        if let (Some(bit), Some(bits)) = (bit, bits) {
            let (second, name) = if bit.key > bits.key { (bit.key, "bit") } else { (bits.key, "bits") };
            wrong.report(second, "`bit` and `bits` exclude each other").remedy(format!("leave `{name}` out"));
            return None;
        }
        let (given, own, key, cut) = match (bit, bits) {
            (Some(g), _) => (g.place, g.own(), g.key, g.value.map(|b| Cut { low: b, high: b, boolean: true })),
            (_, Some(g)) => (g.place, g.own(), g.key, g.value.map(|(low, high)| Cut { low, high, boolean: false })),
            (None, None) => return None,
        };
        let width = match raw {
            RawType::U16 | RawType::I16 => 16,
            RawType::U32 | RawType::I32 => 32,
            RawType::U64 | RawType::I64 => 64,
            RawType::Bool | RawType::F32 | RawType::F64 | RawType::Text | RawType::Bytes => {
                if own {
                    wrong
                        .report(key, format!("bits can be cut from whole numbers, not from {}", raw.as_str()))
                        .remedy("choose a type such as u16, or leave it out");
                }
                return None;
            }
        };
        let cut = cut?;
        if cut.high >= width {
            wrong
                .report(
                    given,
                    format!("bit {} is beyond {}, whose bits are 0 to {}", cut.high, raw.as_str(), width - 1),
                )
                .remedy(format!("stay within {}, or choose a wider type", width - 1));
            return None;
        }
        Some(cut)
    }

    fn range(
        &self,
        w: &Written,
        table: Table,
        located: Located,
        raw: RawType,
        length: u16,
        wrong: &mut Diagnostics,
    ) -> Option<AddressRange> {
        let start = u16::try_from(located.address).ok()?;
        let Some(range) = AddressRange::new(Address(start), length) else {
            let end = u32::from(start) + u32::from(length) - 1;
            wrong
                .report(located.place, format!("{} at {start} reaches to {end}, beyond 65535", raw.as_str()))
                .remedy(format!("the last place for it is {}", 65536 - u32::from(length)));
            return None;
        };
        let Limits { registers_per_read, bits_per_read, even, .. } = *self.limits;
        let most = if table.is_bits() { bits_per_read } else { registers_per_read };
        let read = read_range(range, table, even);
        if read.count() > most {
            let place = [w.length.as_ref().map(|g| g.place), w.kind.as_ref().map(|g| g.place)];
            let place = place.into_iter().flatten().next().unwrap_or(self.key);
            wrong
                .report(
                    place,
                    format!("the value takes a read of {} {}, one read may take {most}", read.count(), items(table)),
                )
                .remedy("raise `limits`, or shorten the value");
            return None;
        }
        if let Some((_, hole)) = self.limits.holes.iter().find(|(t, hole)| *t == table && hole.overlaps(read)) {
            wrong
                .report(located.place, format!("{table} {range} cannot be read without the hole {hole}"))
                .remedy("correct the address, or the hole in `limits`");
            return None;
        }
        if let Some(boundary) = self.limits.boundary.filter(|b| crosses(read, *b)) {
            wrong
                .report(located.place, format!("{table} {range} crosses a multiple of {boundary}, which no read may"))
                .remedy("correct the address, or `boundary` in `limits`");
            return None;
        }
        Some(range)
    }

    fn access(
        &self,
        w: &Written,
        table: Option<Table>,
        raw: Option<RawType>,
        length: Option<u16>,
        wrong: &mut Diagnostics,
    ) -> Option<Access> {
        let access = match &w.access {
            Some(given) => given.value?,
            None => Access::Read,
        };
        let place = w.access.as_ref().map_or(self.key, |g| if g.own() { g.place } else { self.key });
        if access != Access::Read && table.is_some_and(|t| !t.is_writable()) {
            let table = table.map_or("", Table::as_str);
            wrong
                .report(place, format!("the {table} table cannot be written"))
                .remedy("write `access: r`, or take the holding or coil table");
            return None;
        }
        let most = self.limits.registers_per_write;
        if access != Access::Read && raw != Some(RawType::Bool) && length.is_some_and(|l| l > most) {
            wrong
                .report(place, format!("a value of {} registers, one write may carry {most}", length.unwrap_or(0)))
                .remedy("write `access: r`, or raise registers_per_write");
            return None;
        }
        if let Some(danger) = w.danger.as_ref().filter(|g| g.own() && access == Access::Read && g.value == Some(true)) {
            no_effect(danger, "danger", "a point that is only read moves nothing", wrong);
        }
        Some(access)
    }

    fn encoding(
        w: &Written,
        raw: Option<RawType>,
        length: Option<u16>,
        cut: Option<Cut>,
        wrong: &mut Diagnostics,
    ) -> Option<Encoding> {
        let raw = raw?;
        if let Some(given) = w.word_order.as_ref().filter(|g| g.own() && length.is_some_and(|l| l < 2)) {
            no_effect(given, "word_order", "the value is one register", wrong);
        }
        if let Some(given) = w.byte_order.as_ref().filter(|g| g.own() && raw == RawType::Bool) {
            no_effect(given, "byte_order", "the value is one bit", wrong);
        }
        let order = |given: &Option<Given<Order>>| given.as_ref().map_or(Some(Order::default()), |g| g.value);
        Some(Encoding { raw, word_order: order(&w.word_order)?, byte_order: order(&w.byte_order)?, cut })
    }

    fn meaning(w: &Written, kind: Kind, wrong: &mut Diagnostics) -> Option<Meaning> {
        if let Some(given) = w.invert.as_ref().filter(|g| g.own() && kind != Kind::Boolean) {
            no_effect(given, "invert", &format!("the value is {}, no boolean", kind.words()), wrong);
        }
        match family(w, kind, wrong) {
            Family::Labels => labels(w, kind, wrong),
            Family::Hex => Some(Meaning::Hex),
            Family::Scaled => scaled(w, kind, wrong),
            Family::None => {
                let invert = match &w.invert {
                    Some(given) => given.value? && kind == Kind::Boolean,
                    None => false,
                };
                Some(Meaning::Plain { invert })
            }
        }
    }

    /// Unscaled whole numbers wider than 53 bits are strings unless the point says otherwise.
    fn json(w: &Written, kind: Kind, meaning: &Meaning, wrong: &mut Diagnostics) -> JsonForm {
        let wide = matches!(kind, Kind::Whole { bits: 54.., .. }) && matches!(meaning, Meaning::Plain { .. });
        match &w.json {
            Some(given) if wide => given.value.unwrap_or(JsonForm::DecimalString),
            None if wide => JsonForm::DecimalString,
            Some(given) => {
                if given.own() {
                    no_effect(given, "json", "only unscaled 64-bit whole numbers have a choice", wrong);
                }
                JsonForm::Plain
            }
            None => JsonForm::Plain,
        }
    }
}

/// What one read must cover for these items: with `even`, registers from an even start on and an even count.
pub(super) fn read_range(range: AddressRange, table: Table, even: bool) -> AddressRange {
    if !even || table.is_bits() {
        return range;
    }
    let start = range.start().0 & !1;
    let end = (range.end() + 1) & !1;
    AddressRange::new(Address(start), (end - u32::from(start)).min(0xFFFF) as u16).unwrap_or(range)
}

/// Whether a read of this range crosses a multiple of `boundary`.
pub(super) fn crosses(range: AddressRange, boundary: u16) -> bool {
    range.start().0 / boundary != range.last().0 / boundary
}

/// "registers" or "bits".
pub(super) fn items(table: Table) -> &'static str {
    if table.is_bits() { "bits" } else { "registers" }
}

fn kind(raw: RawType, cut: Option<Cut>, w: &Written) -> Option<Kind> {
    // A cut that was refused leaves nothing to judge the rest by.
    let asked = w.bit.as_ref().is_some_and(Given::own) || w.bits.as_ref().is_some_and(Given::own);
    match (raw, cut) {
        (RawType::Bool, _) | (_, Some(Cut { boolean: true, .. })) => Some(Kind::Boolean),
        (_, Some(Cut { low, high, .. })) => Some(Kind::Whole { bits: high - low + 1, signed: false }),
        (_, None) if asked => None,
        (RawType::U16, None) => Some(Kind::Whole { bits: 16, signed: false }),
        (RawType::I16, None) => Some(Kind::Whole { bits: 16, signed: true }),
        (RawType::U32, None) => Some(Kind::Whole { bits: 32, signed: false }),
        (RawType::I32, None) => Some(Kind::Whole { bits: 32, signed: true }),
        (RawType::U64, None) => Some(Kind::Whole { bits: 64, signed: false }),
        (RawType::I64, None) => Some(Kind::Whole { bits: 64, signed: true }),
        (RawType::F32, None) => Some(Kind::Float { bits: 32 }),
        (RawType::F64, None) => Some(Kind::Float { bits: 64 }),
        (RawType::Text | RawType::Bytes, None) => Some(Kind::Text),
    }
}

/// Which of labels, hex and scaling counts. The nearest level wins; two on one level exclude each other.
fn family(w: &Written, kind: Kind, wrong: &mut Diagnostics) -> Family {
    let scaling = [
        ("scale", w.scale.as_ref().map(spot)),
        ("bias", w.bias.as_ref().map(spot)),
        ("decimals", w.decimals.as_ref().map(spot)),
        ("round_to", w.round_to.as_ref().map(spot)),
    ];
    let mut given: Vec<(Family, &str, Spot)> = Vec::new();
    given.extend(w.labels.as_ref().map(|g| (Family::Labels, "enum", spot(g))));
    given.extend(w.format.as_ref().map(|g| (Family::Hex, "format", spot(g))));
    given.extend(scaling.into_iter().filter_map(|(name, s)| Some((Family::Scaled, name, s?))));
    // What cannot apply to this kind of value is refused on the point, and passed over on a farther level.
    given.retain(|(family, name, spot)| {
        let applies = match family {
            Family::Scaled => kind.is_number(),
            Family::Labels | Family::Hex => matches!(kind, Kind::Whole { .. }),
            Family::None => false,
        };
        if !applies && spot.level == Level::Point {
            let report = wrong.report(spot.key, format!("`{name}` has no effect: the value is {}", kind.words()));
            match (family, kind) {
                (Family::Labels, Kind::Boolean) => report.remedy("cut a number out: `bits: 3..3` instead of `bit: 3`"),
                _ => report.remedy(format!("leave `{name}` out")),
            };
        }
        applies
    });
    let nearest = given.iter().map(|(_, _, s)| s.level).min();
    given.retain(|(_, _, s)| Some(s.level) == nearest);
    given.sort_by_key(|(_, _, s)| s.key);
    let class = |family: &Family| std::mem::discriminant(family);
    if let Some((first, rest)) = given.split_first()
        && let Some((_, name, spot)) = rest.iter().find(|(f, _, _)| class(f) != class(&first.0))
    {
        wrong
            .report(spot.key, format!("`{name}` and `{}` exclude each other", first.1))
            .remedy(format!("keep `{}` or `{name}`", first.1));
    }
    given.into_iter().next().map_or(Family::None, |(family, _, _)| family)
}

struct Spot {
    key: Place,
    level: Level,
}

fn spot<T>(given: &Given<T>) -> Spot {
    Spot { key: given.key, level: given.level }
}

fn labels(w: &Written, kind: Kind, wrong: &mut Diagnostics) -> Option<Meaning> {
    let given = w.labels.as_ref()?;
    let Kind::Whole { bits, signed } = kind else { return None };
    let (low, high) = bounds(bits, signed);
    let mut meant = Vec::new();
    for label in given.value.as_ref()?.iter() {
        match i64::try_from(label.number).ok().filter(|_| (low..=high).contains(&label.number)) {
            Some(number) => meant.push((number, Arc::clone(&label.text))),
            None => {
                wrong
                    .report(label.key, format!("{} never comes: the value is {low} to {high}", label.number))
                    .remedy("correct the number, or the type");
            }
        }
    }
    Some(Meaning::Labels(meant))
}

fn scaled(w: &Written, kind: Kind, wrong: &mut Diagnostics) -> Option<Meaning> {
    let ratio = w.scale.as_ref().map_or(Some(Ratio { numerator: 1, denominator: 1 }), |g| g.value)?;
    let bias = w.bias.as_ref().map_or(Number::from_integer(0), |g| g.value)?;
    if let (Some(decimals), Some(round_to)) = nearest(w.decimals.as_ref(), w.round_to.as_ref()) {
        let (second, name) =
            if decimals.key > round_to.key { (decimals.key, "decimals") } else { (round_to.key, "round_to") };
        wrong.report(second, "`decimals` and `round_to` exclude each other").remedy(format!("leave `{name}` out"));
    }
    let (decimals, round_to) = nearest(w.decimals.as_ref(), w.round_to.as_ref());
    let whole = matches!(kind, Kind::Whole { .. }) && ratio.denominator == 1 && bias.exponent() == 0;
    if let Some(given) = decimals.filter(|g| g.own() && whole) {
        no_effect(given, "decimals", "the value is always a whole number", wrong);
    }
    let decimals = decimals.map_or(Some(None), |g| g.value.map(Some))?.filter(|_| !whole);
    let round_to = round_to.map_or(Some(None), |g| g.value.map(Some))?;
    let unchanged = ratio == (Ratio { numerator: 1, denominator: 1 }) && bias.digits() == 0;
    if unchanged && decimals.is_none() && round_to.is_none() {
        return Some(Meaning::Plain { invert: false });
    }
    Some(Meaning::Scaled(Scale {
        numerator: ratio.numerator,
        denominator: ratio.denominator,
        bias_mantissa: i64::try_from(bias.digits()).ok()?,
        bias_exponent: i8::try_from(bias.exponent()).ok()?,
        decimals,
        round_to: round_to.map(|r| (r.numerator, r.denominator)),
    }))
}

/// Patterns meaning "not available", as the bits that are compared.
fn absent(w: &Written, kind: Kind, wrong: &mut Diagnostics) -> Vec<u64> {
    let Some(given) = &w.absent else { return Vec::new() };
    let (bits, signed) = match kind {
        Kind::Whole { bits, signed } => (bits, signed),
        Kind::Float { bits } => (bits, false),
        Kind::Boolean | Kind::Text => {
            if given.own() {
                no_effect(given, "absent", &format!("the value is {}", kind.words()), wrong);
            }
            return Vec::new();
        }
    };
    let mask = u64::MAX >> (64 - u32::from(bits));
    let mut patterns = Vec::new();
    for (pattern, place) in given.value.iter().flat_map(|p| p.iter()) {
        if let Some(raw) = u64::try_from(*pattern).ok().filter(|p| *p <= mask) {
            patterns.push(raw);
        } else if signed && *pattern < 0 && *pattern >= bounds(bits, true).0 {
            patterns.push(*pattern as i64 as u64 & mask);
        } else {
            let digits = usize::from(bits.div_ceil(4));
            wrong
                .report(*place, format!("{pattern} is no pattern of {bits} bits"))
                .remedy(format!("patterns are raw: 0 to 0x{mask:0digits$X}"));
        }
    }
    patterns
}

fn takes_limits(kind: Option<Kind>, meaning: Option<&Meaning>) -> bool {
    kind.is_some_and(Kind::is_number) && !matches!(meaning, Some(Meaning::Labels(_) | Meaning::Hex))
}

fn limits_of_value(w: &Written, kind: Kind, meaning: Option<&Meaning>, wrong: &mut Diagnostics) {
    if takes_limits(Some(kind), meaning) {
        return;
    }
    let why = match meaning {
        Some(Meaning::Labels(_)) => "the value is a label",
        Some(Meaning::Hex) => "the value is text",
        _ => kind.words(),
    };
    for (name, given) in [("min", &w.min), ("max", &w.max)] {
        if let Some(given) = given.as_ref().filter(|g| g.own()) {
            no_effect(given, name, &format!("{why}, no number"), wrong);
        }
    }
}

fn no_effect<T>(given: &Given<T>, name: &str, why: &str, wrong: &mut Diagnostics) {
    wrong.report(given.key, format!("`{name}` has no effect: {why}")).remedy(format!("leave `{name}` out"));
}

/// Of two keys that exclude each other: both where they stand on one level, else only the nearer.
fn nearest<'g, A, B>(a: Option<&'g Given<A>>, b: Option<&'g Given<B>>) -> (Option<&'g Given<A>>, Option<&'g Given<B>>) {
    match (a, b) {
        (Some(a), Some(b)) if a.level < b.level => (Some(a), None),
        (Some(a), Some(b)) if a.level > b.level => (None, Some(b)),
        both => both,
    }
}

/// Least and greatest whole number of that many bits.
fn bounds(bits: u8, signed: bool) -> (i128, i128) {
    if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) }
}

fn min_below_max(w: &Written, wrong: &mut Diagnostics) {
    let (Some(min), Some(max)) = (&w.min, &w.max) else { return };
    let (Some(least), Some(greatest)) = (min.value, max.value) else { return };
    if least > greatest {
        let place = if max.own() || !min.own() { max.place } else { min.place };
        wrong
            .report(place, format!("min {least} is above max {greatest}: every value would be bad"))
            .remedy("exchange the two, or correct one");
    }
}

/// Whether a key of the point could not be read: then it is not as meant, and a default must not stand in for it.
fn any_misread(w: &Written) -> bool {
    fn misread<T>(given: Option<&Given<T>>) -> bool {
        given.is_some_and(|g| g.value.is_none())
    }
    misread(w.table.as_ref())
        || misread(w.kind.as_ref())
        || misread(w.length.as_ref())
        || misread(w.bit.as_ref())
        || misread(w.bits.as_ref())
        || misread(w.labels.as_ref())
        || misread(w.min.as_ref())
        || misread(w.max.as_ref())
        || misread(w.absent.as_ref())
        || misread(w.valid_when.as_ref())
}
