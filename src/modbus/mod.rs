//! The words of the wire: unit ids, tables, addresses, frames.
//!
//! A dictionary and a codec, sans-IO: no socket, no clock, nothing but bytes in and bytes out. Sources: MODBUS
//! Application Protocol V1.1b3 and MODBUS Messaging on TCP/IP V1.0b.

mod words;

pub use words::{
    Address, AddressRange, MAX_BITS_PER_READ, MAX_REGISTERS_PER_READ, MAX_REGISTERS_PER_WRITE, Table, UnitId,
};
