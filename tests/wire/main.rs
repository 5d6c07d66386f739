//! Bytes that others saw on real wires, through the product's public doors: `modbus` and `poll`.
//!
//! - [`captures`]: traffic of real plants, beside what another dissector saw in it;
//! - [`faults`]: the field's own faults, as a table (`tests/data/faults-wire.json`);
//! - [`vectors`]: frames that other people computed;
//! - [`world`]: a far end of bytes and virtual time, in which a bus runs.

#![allow(unreachable_pub, reason = "a test binary has no outside")]

mod captures;
mod faults;
mod vectors;
mod world;
