//! What fuzzers call: one function for each door that bytes from outside come through.
//!
//! Each takes any bytes, returns when it is done with them, and panics where an invariant does not hold. The targets of
//! `fuzz/` and an ordinary test (`tests/fuzz_smoke.rs`) call them; the product does not.

use crate::document::Document;
use crate::modbus::mbap::Deframer;
use crate::modbus::{
    Address, AddressRange, Envelope, Expected, LineSpeed, Reply, Table, UnitId, ascii, read_request, rtu,
};
use crate::model::{Cycle, DeviceId, Fault, Generation, GroupId, Interval, Stamp};
use crate::poll::{Bus, BusOptions, CycleReport, GroupSetup, IntervalSetup, PartOutcome, UnitSetup, Wanted};
use crate::profile::{Dump, Limits, Timing, parse};
use std::collections::BTreeMap;
use std::time::Duration;

/// A stream of Modbus TCP: cut into the same ADUs however it comes in segments. The first byte gives their length.
pub fn mbap(bytes: &[u8]) {
    let (first, stream) = bytes.split_first().map_or((0, bytes), |(f, s)| (*f, s));
    let cut = |len: usize| {
        let mut deframer = Deframer::default();
        let mut adus = Vec::new();
        for mut segment in stream.chunks(len) {
            loop {
                match deframer.next(segment) {
                    Ok((adu, done)) => {
                        segment = &segment[done..];
                        let Some(adu) = adu else { break };
                        assert!((1..=253).contains(&adu.pdu.len()), "a PDU of {} bytes", adu.pdu.len());
                        adus.push((adu.transaction, adu.unit, adu.pdu.to_vec()));
                    }
                    Err(lost) => return (adus, Some(lost)),
                }
            }
            assert!(segment.is_empty(), "bytes left over");
        }
        (adus, None)
    };
    let whole = cut(stream.len().max(1));
    for len in [1, usize::from(first).max(1)] {
        assert_eq!(cut(len), whole, "in segments of {len}");
    }
}

/// A serial line in RTU. The first two bytes say how what follows comes in pieces and whether the line echoes; a request
/// for the third byte's quantity is out.
pub fn rtu(bytes: &[u8]) {
    let [first, echo, quantity, stream @ ..] = bytes else { return };
    let (expected, request) = question(*quantity, false);
    let cut = |len: usize| {
        let mut ear = rtu::ReplyDeframer::new(echo & 1 == 1);
        ear.expect(expected, &request);
        let mut frames = Vec::new();
        for mut piece in stream.chunks(len) {
            while let (Some(frame), done) = ear.next(piece) {
                let mut whole = vec![frame.unit.0];
                whole.extend_from_slice(frame.pdu);
                frames.push(whole);
                piece = &piece[done..];
            }
        }
        frames
    };
    for frame in [cut(stream.len().max(1)), cut(usize::from(*first).max(1)), cut(1)].concat() {
        let mut sealed = frame;
        rtu::seal(0, &mut sealed);
        let came = stream.windows(sealed.len()).any(|w| w == sealed);
        assert!(came, "a frame that never came, with its checksum");
    }
}

/// A serial line in ASCII; as [`rtu`].
pub fn ascii(bytes: &[u8]) {
    let [first, echo, quantity, stream @ ..] = bytes else { return };
    let (expected, request) = question(*quantity, true);
    for len in [stream.len().max(1), usize::from(*first).max(1), 1] {
        let mut ear = ascii::ReplyDeframer::new(echo & 1 == 1);
        ear.expect(expected, &request);
        for mut piece in stream.chunks(len) {
            while let (Some(frame), done) = ear.next(piece) {
                assert!((1..=253).contains(&frame.pdu.len()), "a PDU of {} bytes", frame.pdu.len());
                piece = &piece[done..];
            }
        }
    }
}

/// A request to unit 1 for holding registers from 0, as it goes out, and what it awaits.
fn question(quantity: u8, as_ascii: bool) -> (Expected, Vec<u8>) {
    let range = AddressRange::new(Address(0), u16::from(quantity % 125) + 1);
    let request = read_request(Table::HoldingRegister, range.unwrap_or_else(|| unreachable!("within the table")));
    let mut out = Vec::new();
    let encoded = if as_ascii {
        ascii::encode_request_frame(UnitId(1), &request, &mut out)
    } else {
        rtu::encode_request_frame(UnitId(1), &request, &mut out)
    };
    assert_eq!(encoded, Ok(()), "a legal request");
    (Expected::of(UnitId(1), &request), out)
}

/// A PDU as the reply to a read: table and quantity from the first three bytes.
pub fn pdu(bytes: &[u8]) {
    let [which, high, low, pdu @ ..] = bytes else { return };
    let table = Table::ALL[usize::from(*which) % Table::ALL.len()];
    let most = if table.is_bits() { 2000 } else { 125 };
    let quantity = u16::from_be_bytes([*high, *low]) % most + 1;
    let Some(range) = AddressRange::new(Address(0), quantity) else { return };
    match Reply::parse(table, range, pdu) {
        Ok(Reply::Read(reply)) if table.is_bits() => assert_eq!(reply.bits().count(), usize::from(quantity)),
        Ok(Reply::Read(reply)) => assert_eq!(reply.registers().len(), usize::from(quantity)),
        Ok(Reply::Exception(code)) => assert_eq!(pdu[1], code),
        Err(_) => {}
    }
}

/// A document and the profile in it: understood or refused with words, never more.
pub fn yaml(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let found = Document::parse("fuzz.yaml", &text).and_then(|document| parse(&document).map(drop));
    if let Err(diagnostics) = found {
        let said = (diagnostics.render(), diagnostics.lines(), diagnostics.to_json());
        assert!(!said.0.is_empty() && !said.1.is_empty(), "refused without a word");
    }
}

/// A dump: what was read is written so that it reads the same.
pub fn dump(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(dump) = Dump::from_json(text) else { return };
    let again = Dump::from_json(&dump.to_json().to_string());
    assert_eq!(again.ok().as_ref(), Some(&dump), "not the same after writing and reading");
}

/// A bus and what befalls it: the bytes are a list of events, with true, spoilt and senseless replies among them.
pub fn bus_events(bytes: &[u8]) {
    let mut script = Script(bytes);
    let mut world = World::new(&mut script);
    // Each event takes at least one byte; what an event sets off is bounded by `settle`.
    while !script.0.is_empty() {
        world.befall(&mut script);
        world.settle();
    }
}

/// Bytes read as decisions; zeros after their end.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

struct World {
    bus: Bus,
    now: Stamp,
    /// The latest request as it went out.
    asked: Vec<u8>,
    serial: bool,
    /// The number of each interval's latest cycle.
    cycles: BTreeMap<(DeviceId, Interval), Cycle>,
    next_cycle: BTreeMap<DeviceId, Cycle>,
}

impl World {
    fn new(script: &mut Script<'_>) -> Self {
        let head = script.byte();
        let serial = head >= 128;
        let options = BusOptions {
            in_flight: head % 20,
            spread: script.byte() & 1 == 1,
            silent_resets: u32::from(script.byte() % 4),
            line: (head >= 192).then_some(LineSpeed { baud: 19_200, bits_per_character: 11 }),
            echo: head & 1 == 1,
            ..BusOptions::default()
        };
        Self {
            bus: Bus::new(if serial { Envelope::rtu() } else { Envelope::mbap() }, options),
            now: Stamp::default(),
            asked: Vec::new(),
            serial,
            cycles: BTreeMap::new(),
            next_cycle: BTreeMap::new(),
        }
    }

    fn befall(&mut self, script: &mut Script<'_>) {
        match script.byte() % 11 {
            0 => {
                self.pass(Duration::from_millis(u64::from(script.byte())));
                self.bus.handle_timeout(self.now);
            }
            1 | 2 => {
                if let Some(wake) = self.bus.poll_timeout() {
                    self.pass(wake.since(self.now.mono));
                    self.bus.handle_timeout(self.now);
                }
            }
            3 => self.bus.handle_connected(self.now),
            4 => {
                let fault = if script.byte() & 1 == 0 { Fault::Refused } else { Fault::UnknownHost };
                self.bus.handle_connect_failed(self.now, fault);
            }
            5 => self.bus.handle_disconnected(self.now),
            6 => {
                let count = usize::from(script.byte());
                self.bus.handle_received(self.now, script.take(count));
            }
            7 | 8 => {
                let reply = self.reply(script);
                self.bus.handle_received(self.now, &reply);
            }
            9 => {
                // A reply with one byte changed, or cut short.
                let mut reply = self.reply(script);
                let at = usize::from(script.byte());
                if let Some(byte) = reply.get_mut(at) {
                    *byte ^= script.byte().max(1);
                } else {
                    reply.truncate(at / 16);
                }
                self.bus.handle_received(self.now, &reply);
            }
            _ => self.order(script),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.plus(time);
    }

    /// What an honest device would say to the latest request.
    fn reply(&self, script: &mut Script<'_>) -> Vec<u8> {
        let body = if self.serial { self.asked.get(..6) } else { self.asked.get(6..) };
        let Some(&[unit, function, _, _, high, low]) = body else { return Vec::new() };
        let quantity = usize::from(u16::from_be_bytes([high, low]));
        let pdu = if script.byte().is_multiple_of(8) {
            vec![function | 0x80, script.byte()]
        } else {
            let count = if function <= 2 { quantity.div_ceil(8) } else { quantity * 2 };
            let mut pdu = vec![function, count as u8];
            pdu.resize(count + 2, script.byte());
            pdu
        };
        if self.serial {
            let mut frame = Vec::new();
            rtu::encode_frame(UnitId(unit), &pdu, &mut frame);
            return frame;
        }
        [&self.asked[..2], &[0, 0, 0, pdu.len() as u8 + 1, unit], &pdu].concat()
    }

    /// Puts a device, or takes one off.
    fn order(&mut self, script: &mut Script<'_>) {
        let which = script.byte() % 4;
        let Ok(device) = DeviceId::new(&format!("d{which}")) else { return };
        if script.byte().is_multiple_of(4) {
            if let Some(next) = self.bus.remove(self.now, &device) {
                self.next_cycle.insert(device.clone(), next);
            }
            return;
        }
        let intervals = (0..u16::from(script.byte() % 3)).map(|i| IntervalSetup {
            interval: Interval(i),
            every: Some(script.word()).filter(|ms| *ms > 0).map(|ms| Duration::from_millis(u64::from(ms))),
            groups: vec![GroupSetup { group: GroupId(i), together: script.byte() & 1 == 1, wanted: wanted(script) }],
        });
        let setup = UnitSetup {
            first_cycle: self.next_cycle.get(&device).copied().unwrap_or(Cycle(1)),
            device,
            generation: Generation(1),
            unit_id: UnitId(which / 2),
            intervals: intervals.collect(),
            limits: Limits {
                registers_per_read: u16::from(script.byte()) % 125 + 1,
                gap: u16::from(script.byte() % 8),
                ..Limits::default()
            },
            timing: Timing {
                timeout: Duration::from_millis(u64::from(script.byte())),
                retries: u32::from(script.byte() % 3),
                turnaround: Duration::from_millis(u64::from(script.byte() % 50)),
                after_connect: Duration::from_millis(u64::from(script.byte())),
                ..Timing::default()
            },
        };
        // Refused where a group cannot be planned.
        let _ = self.bus.put(self.now, setup);
    }

    /// Does what the bus wants done, and sees that it comes to rest.
    fn settle(&mut self) {
        for _ in 0..MOST_TURNS {
            while let Some(report) = self.bus.poll_report() {
                self.check(&report);
            }
            while self.bus.poll_deed().is_some() {}
            let bytes = self.bus.transmit();
            if let Some(last) = bytes.chunks(if self.serial { 8 } else { 12 }).next_back() {
                self.asked = last.to_vec();
            }
            let count = bytes.len();
            self.bus.handle_sent(count);
            assert!(self.bus.transmit().is_empty(), "bytes to send that were sent");
            if self.bus.poll_timeout().is_none_or(|wake| wake > self.now.mono) {
                return;
            }
            self.bus.handle_timeout(self.now);
        }
        panic!("the bus wants to be woken without end, and time stands still");
    }

    fn check(&mut self, report: &CycleReport) {
        let last = self.cycles.insert((report.device.clone(), report.interval), report.cycle);
        assert!(last.is_none_or(|last| last < report.cycle), "cycle {:?} after {last:?}", report.cycle);
        assert!(report.started.mono <= report.ended.mono, "ended before it started");
        assert!(report.ended.mono <= self.now.mono, "ended in the future");
        for group in &report.groups {
            let mut end = None;
            for part in &group.parts {
                let here = (part.table, u32::from(part.range.start().0));
                assert!(end.is_none_or(|end| end <= here), "parts out of order, or one over another");
                end = Some((part.table, part.range.end()));
                match &part.outcome {
                    PartOutcome::Registers(words) => assert_eq!(words.len(), usize::from(part.range.count())),
                    PartOutcome::Bits(bits) => assert_eq!(bits.len(), usize::from(part.range.count())),
                    PartOutcome::Refused(code) => assert!((1..=3).contains(code), "refused by {code}"),
                    PartOutcome::Fault(_) => {}
                }
            }
        }
    }
}

/// Up to seven values.
fn wanted(script: &mut Script<'_>) -> Vec<Wanted> {
    let count = script.byte() % 8;
    let one = |_| {
        let table = Table::ALL[usize::from(script.byte()) % Table::ALL.len()];
        let range = AddressRange::new(Address(script.word()), u16::from(script.byte() % 4) + 1)?;
        Some(Wanted { table, range })
    };
    (0..count).filter_map(one).collect()
}

/// Turns in which a bus must have come to rest.
const MOST_TURNS: u32 = 64;
