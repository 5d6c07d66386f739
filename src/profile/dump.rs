//! A dump: registers and bits of one device as somebody read them, by wire address.

use crate::modbus::{Address, AddressRange, Table};
use std::collections::BTreeMap;

/// Registers and bits of one device; what is missing cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dump {
    registers: BTreeMap<(Table, u16), u16>,
    bits: BTreeMap<(Table, u16), bool>,
}

impl Dump {
    /// Sets one register. Does nothing for a table of bits.
    pub fn set_register(&mut self, table: Table, address: Address, value: u16) {
        if !table.is_bits() {
            self.registers.insert((table, address.0), value);
        }
    }

    /// Sets one bit. Does nothing for a table of registers.
    pub fn set_bit(&mut self, table: Table, address: Address, value: bool) {
        if table.is_bits() {
            self.bits.insert((table, address.0), value);
        }
    }

    /// All registers of a range, or nothing if one of them is missing.
    pub fn registers(&self, table: Table, range: AddressRange) -> Option<Vec<u16>> {
        (u32::from(range.start().0)..range.end()).map(|a| self.registers.get(&(table, a as u16)).copied()).collect()
    }

    /// All bits of a range, or nothing if one of them is missing.
    pub fn bits(&self, table: Table, range: AddressRange) -> Option<Vec<bool>> {
        (u32::from(range.start().0)..range.end()).map(|a| self.bits.get(&(table, a as u16)).copied()).collect()
    }
}
