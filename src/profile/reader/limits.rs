//! `limits` and `timing`.

use super::super::{Limits, Timing};
use crate::document::{Diagnostics, Fields, Node, Number, Problem};
use crate::modbus::{Address, AddressRange, MAX_BITS_PER_READ, MAX_REGISTERS_PER_READ, MAX_REGISTERS_PER_WRITE, Table};
use std::time::Duration;

/// What one request may ask of the device.
pub(super) fn limits(node: &Node, wrong: &mut Diagnostics) -> Limits {
    let mut limits = Limits::default();
    let Some(mut fields) = Fields::open(node, "limits", wrong) else { return limits };
    let mut bounded = |key: &'static str, low: u16, high: u16, slot: &mut u16, wrong: &mut Diagnostics| {
        let read = fields.optional(key).map(|n| n.integer_within(key, i128::from(low)..=i128::from(high)));
        if let Some(n) = read.and_then(|r| wrong.keep(r)) {
            *slot = n as u16;
        }
    };
    bounded("registers_per_read", 1, MAX_REGISTERS_PER_READ, &mut limits.registers_per_read, wrong);
    bounded("bits_per_read", 1, MAX_BITS_PER_READ, &mut limits.bits_per_read, wrong);
    bounded("registers_per_write", 1, MAX_REGISTERS_PER_WRITE, &mut limits.registers_per_write, wrong);
    bounded("gap", 0, MAX_REGISTERS_PER_READ, &mut limits.gap, wrong);
    bounded("gap_bits", 0, MAX_BITS_PER_READ, &mut limits.gap_bits, wrong);
    let mut boundary = 0;
    bounded("boundary", 1, u16::MAX, &mut boundary, wrong);
    limits.boundary = (boundary > 0).then_some(boundary);
    if let Some(even) = fields.optional("even").and_then(|n| wrong.keep(n.boolean())) {
        limits.even = even;
    }
    if limits.even && limits.registers_per_read < 2 {
        let message = "registers_per_read of 1 and even: no read can be made";
        wrong.report(fields.start(), message).remedy("allow at least 2 registers per read");
        limits.even = false;
    }
    if let Some(node) = fields.optional("holes") {
        holes(node, &mut limits, wrong);
    }
    fields.close(&[], wrong);
    limits
}

/// Most holes: each is compared with each point.
const MAX_HOLES: usize = 1000;

fn holes(node: &Node, limits: &mut Limits, wrong: &mut Diagnostics) {
    let Some(mapping) = wrong.keep(node.mapping()) else { return };
    mapping.report_duplicates(wrong);
    for entry in &mapping.entries {
        let table = wrong.keep(entry.key.word(&Table::ALL.map(|t| (t.as_str(), t))));
        let items = wrong.keep(entry.value.items()).unwrap_or_default();
        for item in items {
            if limits.holes.len() == MAX_HOLES {
                wrong.report(item.place, format!("more than {MAX_HOLES} holes"));
                return;
            }
            if let (Some((low, high)), Some(table)) = (wrong.keep(span(item, 65535)), table) {
                let range = AddressRange::new(Address(low as u16), (high - low + 1).min(0xFFFF) as u16);
                limits.holes.extend(range.map(|r| (table, r)));
            }
        }
    }
}

/// `4..7`, or `4` for 4..4; both at most `most`.
pub(super) fn span(node: &Node, most: u32) -> Result<(u32, u32), Problem> {
    let text = node.as_written().ok_or_else(|| node.expects("a range as in 4..7"))?;
    let number = |t: &str| Number::parse(t).and_then(Number::integer).and_then(|n| u32::try_from(n).ok());
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (Some(low), Some(high)) = (number(low), number(high)) else {
        return Err(node.expects("a range as in 4..7"));
    };
    if low > high {
        return Err(
            Problem::new(node.place, format!("the range {text} runs backwards")).remedy(format!("write {high}..{low}"))
        );
    }
    if high > most {
        return Err(Problem::new(node.place, format!("{high} is beyond {most}")));
    }
    Ok((low, high))
}

/// Pace and patience.
pub(super) fn timing(node: &Node, wrong: &mut Diagnostics) -> Timing {
    let mut timing = Timing::default();
    let Some(mut fields) = Fields::open(node, "timing", wrong) else { return timing };
    let mut duration = |key: &'static str, wrong: &mut Diagnostics| {
        let node = fields.optional(key)?;
        Some((wrong.keep(node.duration())?, node))
    };
    if let Some((timeout, node)) = duration("timeout", wrong) {
        if timeout == Duration::ZERO {
            wrong.report(node.place, "a timeout of zero waits for no reply").remedy("write it as in 200ms");
        }
        timing.timeout = timeout;
    }
    if let Some((turnaround, _)) = duration("turnaround", wrong) {
        timing.turnaround = turnaround;
    }
    timing.after_write = duration("after_write", wrong).map_or(timing.turnaround, |(d, _)| d);
    if let Some((after_connect, _)) = duration("after_connect", wrong) {
        timing.after_connect = after_connect;
    }
    let retries = fields.optional("retries").and_then(|n| wrong.keep(n.integer_within("retries", 0..=100)));
    timing.retries = retries.map_or(timing.retries, |n| n as u32);
    let offline = fields.optional("offline_after");
    let offline = offline.and_then(|n| wrong.keep(n.integer_within("offline_after", 1..=1_000_000)));
    timing.offline_after = offline.map_or(timing.offline_after, |n| n as u32);
    fields.close(&[], wrong);
    timing
}
