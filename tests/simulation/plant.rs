//! Devices and their profiles, made by chance: layouts, limits, intervals, patience. Profiles are written as text and
//! go through the profile language; what the world judges by are the specs that the text was written from.

use super::chance::Chance;
use super::faults::UnitFaults;
use super::memory::{Memory, Micros};
use fieldshadow::document::Document;
use fieldshadow::modbus::Table;
use fieldshadow::model::{DeviceId, Value};
use fieldshadow::profile::{DeviceProfile, parse};
use std::fmt::Write;

/// How words become a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    U16,
    I16,
    /// u16 × 0.1.
    Tenths,
    U32 {
        low_first: bool,
    },
    I32 {
        low_first: bool,
    },
    F32 {
        low_first: bool,
    },
    Bit,
}

/// A point as the world knows it.
#[derive(Debug, Clone)]
pub struct PointSpec {
    pub path: String,
    pub group: usize,
    pub table: Table,
    pub address: u16,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub struct GroupSpec {
    pub every: Option<Micros>,
    pub table: Table,
    pub together: bool,
    pub mark: bool,
}

#[derive(Debug, Clone, Default)]
pub struct LimitsSpec {
    pub registers: u16,
    pub bits: u16,
    pub gap: u16,
    pub even: bool,
    pub boundary: Option<u16>,
    pub holes: Vec<(Table, u16)>,
}

/// What is wrong with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Nothing.
    Good,
    /// It is silent for a while now and then, and good otherwise.
    Spells,
    /// Its replies are wrong now and then.
    Faulty,
}

/// A device as the world knows it.
#[derive(Debug)]
pub struct Spec {
    pub id: DeviceId,
    pub unit: u8,
    pub groups: Vec<GroupSpec>,
    pub points: Vec<PointSpec>,
    pub limits: LimitsSpec,
    pub timeout: Micros,
    pub retries: u64,
    pub turnaround: Micros,
    pub offline_after: u64,
    pub memory: Memory,
    pub health: Health,
    pub faults: UnitFaults,
    /// When it is silent, from and to, ascending.
    pub spells: Vec<(Micros, Micros)>,
    pub profile: DeviceProfile,
}

/// What a point's words amount to, judged by the world's own reading of the profile language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    Good,
    Bad,
    Absent,
}

impl Kind {
    pub fn width(self) -> u16 {
        match self {
            Self::U16 | Self::I16 | Self::Tenths | Self::Bit => 1,
            Self::U32 { .. } | Self::I32 { .. } | Self::F32 { .. } => 2,
        }
    }

    /// The pattern of the value, of words with the lowest address first.
    fn pattern(self, first: u16, second: u16) -> u32 {
        match self {
            Self::U32 { low_first } | Self::I32 { low_first } | Self::F32 { low_first } => {
                let (high, low) = if low_first { (second, first) } else { (first, second) };
                u32::from(high) << 16 | u32::from(low)
            }
            _ => u32::from(first),
        }
    }

    pub fn worth(self, pattern: u32) -> Worth {
        let number = f32::from_bits(pattern);
        match self {
            Self::F32 { .. } if number.is_infinite() => Worth::Bad,
            Self::F32 { .. } if number.is_nan() || number.abs() >= 3.4e38 => Worth::Absent,
            _ => Worth::Good,
        }
    }

    /// Whether a value of the twin is what this pattern means.
    pub fn is(self, pattern: u32, value: &Value) -> bool {
        match (self, value) {
            (Self::U16 | Self::U32 { .. }, Value::Int(n)) => *n == i64::from(pattern),
            (Self::I16, Value::Int(n)) => *n == i64::from(pattern as u16 as i16),
            (Self::I32 { .. }, Value::Int(n)) => *n == i64::from(pattern as i32),
            (Self::Tenths, Value::Int(n)) => *n * 10 == i64::from(pattern),
            (Self::Tenths, Value::Decimal(d)) => d.exponent() == -1 && d.mantissa() == i64::from(pattern),
            (Self::F32 { .. }, Value::F32(x)) => x.to_bits() == pattern,
            (Self::Bit, Value::Bool(b)) => u32::from(*b) == pattern,
            _ => false,
        }
    }

    /// Whether a number in JSON is what this pattern means.
    pub fn is_json(self, pattern: u32, value: &serde_json::Value) -> bool {
        match self {
            Self::U16 | Self::U32 { .. } => value.as_u64() == Some(u64::from(pattern)),
            Self::I16 => value.as_i64() == Some(i64::from(pattern as u16 as i16)),
            Self::I32 { .. } => value.as_i64() == Some(i64::from(pattern as i32)),
            Self::Tenths => value.as_f64().is_some_and(|x| (x * 10.0 - f64::from(pattern)).abs() < 1e-6),
            Self::F32 { .. } => value.as_f64().is_some_and(|x| (x as f32).to_bits() == pattern),
            Self::Bit => value.as_bool() == Some(pattern == 1),
        }
    }
}

impl PointSpec {
    /// What the point's registers held at a tick.
    pub fn pattern(&self, memory: &Memory, tick: u64) -> u32 {
        if self.kind == Kind::Bit {
            return u32::from(memory.bit(self.table, self.address, tick));
        }
        let second = if self.kind.width() == 2 { memory.word(self.table, self.address + 1, tick) } else { 0 };
        self.kind.pattern(memory.word(self.table, self.address, tick), second)
    }
}

impl Spec {
    pub fn is_silent(&self, at: Micros) -> bool {
        self.spells.iter().any(|(from, to)| (*from..*to).contains(&at))
    }

    pub fn is_refused(&self, table: Table, address: u16) -> bool {
        let h =
            super::chance::mix(self.memory.seed ^ 0xBAD ^ (u64::from(address) << 8) ^ u64::from(table.read_function()));
        ((h >> 11) as f64 / (1u64 << 53) as f64) < self.faults.refused_share
    }

    /// Whether a point needs this address.
    pub fn wants(&self, table: Table, address: u16) -> bool {
        let even = |a: u16| {
            self.limits.even && !table.is_bits() && {
                self.points
                    .iter()
                    .any(|p| p.table == table && p.address <= (a | 1) && (a & !1) < p.address + p.kind.width())
            }
        };
        even(address)
            || self
                .points
                .iter()
                .any(|p| p.table == table && (p.address..p.address + p.kind.width()).contains(&address))
    }

    /// The shortest period.
    pub fn shortest(&self) -> Micros {
        self.groups.iter().filter_map(|g| g.every).min().unwrap_or(1_000_000)
    }

    pub fn longest(&self) -> Micros {
        self.groups.iter().filter_map(|g| g.every).max().unwrap_or(1_000_000)
    }

    /// Makes one by chance. `length` is that of the run.
    pub fn drawn(chance: &mut Chance, name: &str, unit: u8, health: Health, length: Micros) -> Self {
        let even = chance.happens(0.15);
        let mut limits = LimitsSpec {
            registers: chance.pick(&[4, 10, 20, 50, 125]),
            bits: chance.pick(&[8, 100, 2000]),
            gap: chance.pick(&[0, 0, 2, 5]),
            even,
            boundary: chance.pick(&[None, None, Some(16), Some(256)]),
            holes: Vec::new(),
        };
        let periods = [200_000, 500_000, 1_000_000, 1_000_000, 2_000_000, 5_000_000];
        let (fast, slow) = (chance.pick(&periods), chance.pick(&periods));
        let mut groups = Vec::new();
        let mut points = Vec::new();
        let mut cursor = chance.pick(&[0u16, 1, 240, 1000, 40_000, 64_000]);
        for group in 0..chance.within(1, 4) as usize {
            let table = chance.pick(&[
                Table::HoldingRegister,
                Table::HoldingRegister,
                Table::HoldingRegister,
                Table::InputRegister,
                Table::InputRegister,
                Table::Coil,
                Table::DiscreteInput,
            ]);
            let every = match chance.below(10) {
                0 if group > 0 => None,
                1..=4 if group > 0 => Some(slow),
                _ => Some(fast),
            };
            let together = !table.is_bits() && chance.happens(0.4);
            let first = points.len();
            for index in 0..chance.within(2, 14) {
                let kind = if table.is_bits() { Kind::Bit } else { drawn_kind(chance) };
                if !together && index > 0 {
                    let gap = chance.pick(&[0, 0, 0, 1, 2, 7]);
                    if gap > 0 && !even && chance.happens(0.3) {
                        limits.holes.push((table, cursor + chance.below(gap) as u16));
                    }
                    cursor += gap as u16;
                }
                if even && kind.width() == 2 {
                    // Values that share a pair come in one read; a long chain of them would fit into none.
                    cursor = cursor.next_multiple_of(2);
                }
                if let Some(boundary) = limits.boundary
                    && cursor / boundary != (cursor + kind.width() - 1) / boundary
                {
                    cursor = cursor.next_multiple_of(boundary);
                }
                points.push(PointSpec { path: format!("g{group}.p{index}"), group, table, address: cursor, kind });
                cursor += kind.width();
            }
            let (start, end) = (points[first].address, cursor);
            let whole = if even { (start & !1)..((end + 1) & !1) } else { start..end };
            let fits = whole.len() <= usize::from(limits.registers)
                && points[first..].windows(2).all(|p| p[0].address + p[0].kind.width() == p[1].address)
                && limits.boundary.is_none_or(|b| whole.start / b == (whole.end - 1) / b);
            groups.push(GroupSpec { every, table, together: together && fits, mark: chance.happens(0.25) });
            cursor = (cursor + 3) & !1;
        }
        let timeout = chance.pick(&[100_000, 200_000, 300_000, 500_000]);
        let mut spec = Self {
            id: DeviceId::new(name).expect("a good name"),
            unit,
            groups,
            points,
            limits,
            timeout,
            retries: chance.pick(&[0, 1, 1, 2]),
            turnaround: chance.pick(&[0, 0, 5000, 20_000]),
            offline_after: chance.within(1, 4),
            memory: Memory { seed: chance.draw(), step: chance.pick(&[2000, 2000, 2000, 800_000, 20_000_000]) },
            health,
            faults: if health == Health::Faulty { UnitFaults::drawn(chance) } else { UnitFaults::default() },
            spells: Vec::new(),
            profile: parse(&Document::parse("none", NONE).expect("yaml")).expect("a profile"),
        };
        if health == Health::Spells || (health == Health::Faulty && chance.happens(0.3)) {
            let mut at = chance.within(0, 40_000_000);
            while at < length {
                let most = chance.pick(&[3_000_000, 30_000_000, 120_000_000]);
                let to = at + chance.within(500_000, most);
                spec.spells.push((at, to));
                at = to + chance.within(5_000_000, 150_000_000);
            }
        }
        let text = spec.text();
        let document = Document::parse("drawn", &text).unwrap_or_else(|e| panic!("{}\n{text}", e.render()));
        spec.profile = parse(&document).unwrap_or_else(|e| panic!("{}\n{text}", e.render()));
        spec
    }

    fn text(&self) -> String {
        let limits = &self.limits;
        let mut t = format!("profile: world/{}\nversion: 1.0.0\nlimits:\n", self.id.as_str());
        let _ = write!(t, "  registers_per_read: {}\n  bits_per_read: {}\n", limits.registers, limits.bits);
        let _ = write!(t, "  gap: {}\n  gap_bits: {}\n  even: {}\n", limits.gap, limits.gap, limits.even);
        if let Some(boundary) = limits.boundary {
            let _ = writeln!(t, "  boundary: {boundary}");
        }
        if !limits.holes.is_empty() {
            t.push_str("  holes:\n");
            for table in Table::ALL {
                let holes: Vec<_> = limits.holes.iter().filter(|h| h.0 == table).map(|h| h.1.to_string()).collect();
                if !holes.is_empty() {
                    let _ = writeln!(t, "    {}: [{}]", table.as_str(), holes.join(", "));
                }
            }
        }
        let ms = |us: Micros| us / 1000;
        let _ = write!(t, "timing:\n  timeout: {}ms\n  retries: {}\n", ms(self.timeout), self.retries);
        let _ =
            write!(t, "  turnaround: {}ms\n  offline_after: {}\ngroups:\n", ms(self.turnaround), self.offline_after);
        for (index, group) in self.groups.iter().enumerate() {
            let every = group.every.map_or("once".to_owned(), |e| format!("{}ms", ms(e)));
            let _ = write!(t, "  g{index}:\n    every: {every}\n    table: {}\n", group.table.as_str());
            let _ = writeln!(t, "    on_partial: {}", if group.mark { "mark" } else { "keep" });
            if group.together {
                t.push_str("    together: true\n");
            }
            t.push_str("    points:\n");
            for point in self.points.iter().filter(|p| p.group == index) {
                let of = match point.kind {
                    Kind::U16 => "u16",
                    Kind::I16 => "i16",
                    Kind::Tenths => "u16, scale: 0.1",
                    Kind::U32 { low_first: false } => "u32",
                    Kind::U32 { low_first: true } => "u32, word_order: low_first",
                    Kind::I32 { low_first: false } => "i32",
                    Kind::I32 { low_first: true } => "i32, word_order: low_first",
                    Kind::F32 { low_first: false } => "f32",
                    Kind::F32 { low_first: true } => "f32, word_order: low_first",
                    Kind::Bit => "bool",
                };
                let _ = writeln!(t, "      {}: {{address: {}, type: {of}}}", point.path, point.address);
            }
        }
        t
    }
}

/// A placeholder until a device's own text was read.
const NONE: &str = "\
profile: world/none
version: 1.0.0
groups: {g: {points: {p: {address: 0, type: u16, table: holding}}}}
";

fn drawn_kind(chance: &mut Chance) -> Kind {
    let low_first = chance.happens(0.5);
    match chance.below(7) {
        0 | 1 => Kind::U16,
        2 => Kind::I16,
        3 => Kind::Tenths,
        4 => Kind::U32 { low_first },
        5 => Kind::I32 { low_first },
        _ => Kind::F32 { low_first },
    }
}
