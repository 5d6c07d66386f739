//! Unit ids, tables and addresses.

use std::fmt;

/// Most registers one read may ask for (Application Protocol V1.1b3, 6.3).
pub const MAX_REGISTERS_PER_READ: u16 = 125;
/// Most bits one read may ask for (6.1).
pub const MAX_BITS_PER_READ: u16 = 2000;
/// Most registers one write may carry (6.12).
pub const MAX_REGISTERS_PER_WRITE: u16 = 123;

/// Who on a link is meant: 0 to 255. On a serial line 1 to 247 are units and 0 is broadcast; on TCP all are ordinary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitId(pub u8);

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One of the four tables of a Modbus device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Bits, read and write: function codes 1, 5, 15.
    Coil,
    /// Bits, read only: function code 2.
    DiscreteInput,
    /// Registers, read only: function code 4.
    InputRegister,
    /// Registers, read and write: function codes 3, 6, 16, 22.
    HoldingRegister,
}

impl Table {
    /// All four, in the order of their reference numbers.
    pub const ALL: [Self; 4] = [Self::Coil, Self::DiscreteInput, Self::InputRegister, Self::HoldingRegister];

    /// Whether its items are bits, not registers.
    pub fn is_bits(self) -> bool {
        matches!(self, Self::Coil | Self::DiscreteInput)
    }

    /// Whether the standard lets it be written.
    pub fn is_writable(self) -> bool {
        matches!(self, Self::Coil | Self::HoldingRegister)
    }

    /// Function code that reads it.
    pub fn read_function(self) -> u8 {
        match self {
            Self::Coil => 1,
            Self::DiscreteInput => 2,
            Self::HoldingRegister => 3,
            Self::InputRegister => 4,
        }
    }

    /// The standard's own limit of items per read.
    pub fn max_per_read(self) -> u16 {
        if self.is_bits() { MAX_BITS_PER_READ } else { MAX_REGISTERS_PER_READ }
    }

    /// The word in profiles and dumps: `coil`, `discrete`, `input`, `holding`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Coil => "coil",
            Self::DiscreteInput => "discrete",
            Self::InputRegister => "input",
            Self::HoldingRegister => "holding",
        }
    }

    /// The table of a word in profiles and dumps.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.as_str() == word)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A register's or bit's address as on the wire: counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u16);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Addresses in a row. Invariants: not empty, and its end is at most 65536.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressRange {
    start: u16,
    count: u16,
}

impl AddressRange {
    /// `count` addresses from `start` on; nothing where that is empty or reaches beyond 65535.
    pub fn new(start: Address, count: u16) -> Option<Self> {
        let end = u32::from(start.0) + u32::from(count);
        (count > 0 && end <= 0x1_0000).then_some(Self { start: start.0, count })
    }

    /// First address.
    pub fn start(self) -> Address {
        Address(self.start)
    }

    /// How many.
    pub fn count(self) -> u16 {
        self.count
    }

    /// First address after it: 1 to 65536.
    pub fn end(self) -> u32 {
        u32::from(self.start) + u32::from(self.count)
    }

    /// Last address in it.
    pub fn last(self) -> Address {
        Address((self.end() - 1) as u16)
    }

    /// Whether all of `other` lies within.
    pub fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }

    /// Whether any address is in both.
    pub fn overlaps(self, other: Self) -> bool {
        u32::from(self.start) < other.end() && u32::from(other.start) < self.end()
    }

    /// The smallest range that holds both.
    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        let start = self.start.min(other.start);
        let end = self.end().max(other.end());
        Self { start, count: (end - u32::from(start)).min(0xFFFF) as u16 }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 1 { write!(f, "{}", self.start) } else { write!(f, "{}..{}", self.start, self.last()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_within_the_address_space() {
        assert!(AddressRange::new(Address(65535), 1).is_some());
        assert!(AddressRange::new(Address(65535), 2).is_none());
        assert!(AddressRange::new(Address(0), 0).is_none());
        let all = AddressRange::new(Address(1), 65535).unwrap();
        assert_eq!(all.last(), Address(65535));
        assert!(all.covers(AddressRange::new(Address(65535), 1).unwrap()));
        assert!(!all.overlaps(AddressRange::new(Address(0), 1).unwrap()));
    }
}
