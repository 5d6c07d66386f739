//! `serial`: how the device's serial port is set when it leaves the factory.

use super::super::{Parity, SerialDefaults};
use crate::document::{Diagnostics, Fields, Node, Problem};

/// Reads a profile's `serial`; what it leaves out, the device file has to say.
pub(super) fn serial(node: &Node, wrong: &mut Diagnostics) -> SerialDefaults {
    let mut read = SerialDefaults::default();
    let Some(mut fields) = Fields::open(node, "`serial`", wrong) else { return read };
    read.baud = fields.optional("baud").and_then(|n| wrong.keep(baud(n)));
    read.data_bits = fields.optional("data_bits").and_then(|n| wrong.keep(data_bits(n)));
    read.parity = fields.optional("parity").and_then(|n| wrong.keep(parity(n)));
    read.stop_bits = fields.optional("stop_bits").and_then(|n| wrong.keep(stop_bits(n)));
    fields.close(&[], wrong);
    read
}

fn baud(node: &Node) -> Result<u32, Problem> {
    node.integer_within("baud", SerialDefaults::BAUD).map(|n| n as u32)
}

fn data_bits(node: &Node) -> Result<u8, Problem> {
    node.integer_within("data_bits", SerialDefaults::DATA_BITS).map(|n| n as u8)
}

fn parity(node: &Node) -> Result<Parity, Problem> {
    node.word(&Parity::WORDS)
}

fn stop_bits(node: &Node) -> Result<u8, Problem> {
    node.integer_within("stop_bits", SerialDefaults::STOP_BITS).map(|n| n as u8)
}
