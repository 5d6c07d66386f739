//! A device profile as meant: everything resolved to wire addresses, nothing left to interpret.
//!
//! Made by the parser from one YAML file (and what it extends), or not at all. Source: the profile language in
//! `docs/profile.md`.

use crate::modbus::{AddressRange, Table};
use crate::model::{GroupId, JsonForm, PointId, Value};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// What a kind of device keeps where.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceProfile {
    /// `vendor/model`.
    pub name: Arc<str>,
    /// Semantic version, as written.
    pub version: Arc<str>,
    /// In words.
    pub title: String,
    /// The vendor-neutral model it maps, as in `servo-drive`.
    pub model: Option<String>,
    /// Whether a public hardware source or a capture confirms it.
    pub verified: bool,
    /// What it rests on.
    pub sources: Vec<String>,
    /// How its serial port is set when it leaves the factory.
    pub serial: SerialDefaults,
    /// What one request may ask for.
    pub limits: Limits,
    /// Pace and patience.
    pub timing: Timing,
    /// Groups, in file order.
    pub groups: Vec<Group>,
    /// Points of all groups, in file order; `PointId` is the index.
    pub points: Vec<Point>,
    /// The profile's own test vectors.
    pub tests: Vec<ProfileTest>,
}

/// Factory settings of a serial port, as far as the profile says them. A device file need give only the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SerialDefaults {
    /// Bits a second.
    pub baud: Option<u32>,
    /// 7 or 8.
    pub data_bits: Option<u8>,
    /// None, even or odd.
    pub parity: Option<Parity>,
    /// 1 or 2.
    pub stop_bits: Option<u8>,
}

impl SerialDefaults {
    /// Speeds that may be written, in bits a second.
    pub const BAUD: RangeInclusive<i128> = 50..=10_000_000;
    /// Data bits that Modbus knows: 8, in ASCII also 7.
    pub const DATA_BITS: RangeInclusive<i128> = 7..=8;
    /// Stop bits that Modbus knows.
    pub const STOP_BITS: RangeInclusive<i128> = 1..=2;
}

/// The parity bit of a serial character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words say it")]
pub enum Parity {
    None,
    Even,
    Odd,
}

impl Parity {
    /// As they are written in files.
    pub const WORDS: [(&str, Self); 3] = [("none", Self::None), ("even", Self::Even), ("odd", Self::Odd)];
}

/// What one request may ask of the device. All bounds are at most the standard's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Registers per read, 1 to 125. Default 125.
    pub registers_per_read: u16,
    /// Bits per read, 1 to 2000. Default 2000.
    pub bits_per_read: u16,
    /// Registers per write, 1 to 123. Default 123.
    pub registers_per_write: u16,
    /// Registers nobody asked for that one read may bridge. Default 0.
    pub gap: u16,
    /// The same for coils and discrete inputs. Default 0.
    pub gap_bits: u16,
    /// Start and count of register reads must be even. Default false.
    pub even: bool,
    /// No read crosses a multiple of this. Default none.
    pub boundary: Option<u16>,
    /// Never read.
    pub holes: Vec<(Table, AddressRange)>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            registers_per_read: crate::modbus::MAX_REGISTERS_PER_READ,
            bits_per_read: crate::modbus::MAX_BITS_PER_READ,
            registers_per_write: crate::modbus::MAX_REGISTERS_PER_WRITE,
            gap: 0,
            gap_bits: 0,
            even: false,
            boundary: None,
            holes: Vec::new(),
        }
    }
}

/// Pace and patience with the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// To wait for a reply, per attempt. Default 1 s.
    pub timeout: Duration,
    /// Further attempts of a read that got no reply. Default 1.
    pub retries: u32,
    /// Least silence before the device is spoken to again. Default 0.
    pub turnaround: Duration,
    /// The same after a write. Default: `turnaround`.
    pub after_write: Duration,
    /// Wait after the connection opened. Default 0.
    pub after_connect: Duration,
    /// Failed cycles in a row, of any groups, until the device counts as offline. Default 3.
    pub offline_after: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(1),
            retries: 1,
            turnaround: Duration::ZERO,
            after_write: Duration::ZERO,
            after_connect: Duration::ZERO,
            offline_after: 3,
        }
    }
}

/// Points that are read together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: Arc<str>,
    /// The period; nothing for `once`.
    pub every: Option<Duration>,
    /// All of it in one request: an equal instant on the wire.
    pub together: bool,
    /// Keep the last complete picture when part of a cycle failed (the default), or commit what was read.
    pub on_partial: OnPartial,
    /// Flag the cycle when its first and last reply are further apart.
    pub max_skew: Option<Duration>,
}

/// What becomes of a group of which only a part got a believable reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnPartial {
    /// None of its values moves; all go stale.
    #[default]
    Keep,
    /// What was read commits, the rest goes stale.
    Mark,
}

/// One value of the device.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Place in the shadow: `speed.actual`.
    pub path: Arc<str>,
    /// Group that reads it.
    pub group: GroupId,
    /// Table it lies in.
    pub table: Table,
    /// Its registers (or its bit), lowest address first.
    pub range: AddressRange,
    /// What the registers mean.
    pub encoding: Encoding,
    /// What becomes of the number.
    pub meaning: Meaning,
    /// Engineering unit.
    pub unit: Option<String>,
    /// In words.
    pub title: Option<String>,
    /// Least value; a read below is bad.
    pub min: Option<Value>,
    /// Greatest value; a read above is bad.
    pub max: Option<Value>,
    /// Raw patterns meaning "not available", compared after order and cut, before scaling.
    pub absent: Vec<u64>,
    /// Absent unless that point of the same batch is good and has one of these values.
    pub valid_when: Option<(PointId, Vec<Value>)>,
    /// JSON form of the value.
    pub json: JsonForm,
    /// What a user may do with it.
    pub access: Access,
    /// Moves or resets something.
    pub danger: bool,
}

/// How registers become a raw number, bit or text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    /// The type of the value over all its registers.
    pub raw: RawType,
    /// Order of the registers of a wider value.
    pub word_order: Order,
    /// Order of the bytes in a register.
    pub byte_order: Order,
    /// Bits taken out after ordering, lowest first.
    pub cut: Option<Cut>,
}

/// Most or least significant first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Most significant first: Modbus' own order.
    #[default]
    HighFirst,
    /// Least significant first.
    LowFirst,
}

/// Bits cut from a raw value, after ordering; bit 0 is the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// First bit.
    pub low: u8,
    /// Last bit, at least `low`.
    pub high: u8,
    /// A single bit that is a boolean (`bit:`), not a number (`bits:`).
    pub boolean: bool,
}

/// Types of the first version of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RawType {
    /// A coil or discrete input.
    Bool,
    /// Unsigned 16 bits.
    U16,
    /// Signed 16 bits.
    I16,
    /// Unsigned 32 bits.
    U32,
    /// Signed 32 bits.
    I32,
    /// Unsigned 64 bits.
    U64,
    /// Signed 64 bits.
    I64,
    /// IEEE 754 single.
    F32,
    /// IEEE 754 double.
    F64,
    /// UTF-8 text, ends at the first NUL, trailing blanks go.
    Text,
    /// Bytes, as lower-case hex.
    Bytes,
}

impl RawType {
    /// Registers (or, for `Bool`, bits) of one value; nothing where `length` decides.
    pub fn width(self) -> Option<u16> {
        match self {
            Self::Bool | Self::U16 | Self::I16 => Some(1),
            Self::U32 | Self::I32 | Self::F32 => Some(2),
            Self::U64 | Self::I64 | Self::F64 => Some(4),
            Self::Text | Self::Bytes => None,
        }
    }

    /// Word in profiles.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Text => "string",
            Self::Bytes => "bytes",
        }
    }
}

/// What becomes of a raw value.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// The value itself, or its opposite where `invert` (booleans only).
    Plain {
        /// Booleans only: publish the opposite.
        invert: bool,
    },
    /// A number, scaled exactly.
    Scaled(Scale),
    /// A label for each number; others become `unknown(n)`, uncertain.
    Labels(Vec<(i64, Arc<str>)>),
    /// Upper-case hex digits without prefix, as many as the bits need.
    Hex,
}

/// value = raw × numerator / denominator + bias, in exact arithmetic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// Over `denominator`.
    pub numerator: i64,
    /// Above 0; coprime to the numerator.
    pub denominator: i64,
    /// Mantissa of the bias.
    pub bias_mantissa: i64,
    /// Exponent of the bias: 0 or below.
    pub bias_exponent: i8,
    /// Round to this many decimals.
    pub decimals: Option<u8>,
    /// Round to a multiple of this: numerator and denominator, both above 0. Never together with `decimals`.
    pub round_to: Option<(i64, i64)>,
}

/// What a user may do with a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Read.
    #[default]
    Read,
    /// Read and write.
    ReadWrite,
    /// Write.
    Write,
}

/// One test vector of a profile, in wire addresses.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileTest {
    /// What it shows.
    pub name: String,
    /// Registers and bits given; all others are unreadable.
    pub registers: super::Dump,
    /// Points that must be good and equal.
    pub expect: Vec<(PointId, Value)>,
    /// Points that must have no value.
    pub absent: Vec<PointId>,
    /// Where it stands: `file:line`.
    pub place: String,
}
