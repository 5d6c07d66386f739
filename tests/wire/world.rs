//! A bus in virtual time before a far end that gives bytes. It sees the bus only as any caller does, and notes every
//! byte that went either way.

use fieldshadow::modbus::{Address, AddressRange, Envelope, LineSpeed, Table, UnitId};
use fieldshadow::model::{Cycle, DeviceId, Generation, GroupId, Interval, Stamp};
use fieldshadow::poll::{
    Bus, BusOptions, CycleReport, Deed, GroupSetup, IntervalSetup, PartOutcome, UnitSetup, Wanted,
};
use fieldshadow::profile::{Limits, Timing};
use std::time::Duration;

/// How PDUs are wrapped on a link, by the tests' own hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Tcp,
    Rtu { echo: bool },
    RtuOverTcp,
}

impl Link {
    pub fn bus(self) -> Bus {
        let options = BusOptions { spread: false, ..BusOptions::default() };
        match self {
            Self::Tcp => Bus::new(Envelope::mbap(), options),
            Self::Rtu { echo } => Bus::new(
                Envelope::rtu(),
                BusOptions { line: Some(LineSpeed { baud: 19_200, bits_per_character: 11 }), echo, ..options },
            ),
            Self::RtuOverTcp => Bus::new(Envelope::rtu(), options),
        }
    }

    pub fn is_tcp(self) -> bool {
        self == Self::Tcp
    }

    /// Wraps the PDU of a reply.
    pub fn wrap(self, asked: &Asked, pdu: &[u8]) -> Vec<u8> {
        if self.is_tcp() {
            let mut out = asked.tid.to_be_bytes().to_vec();
            out.extend([0, 0]);
            out.extend((pdu.len() as u16 + 1).to_be_bytes());
            out.push(asked.unit);
            out.extend(pdu);
            return out;
        }
        let mut out = vec![asked.unit];
        out.extend(pdu);
        out.extend(crc16(&out).to_le_bytes());
        out
    }
}

/// CRC-16/MODBUS by the definition, bit by bit.
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |c, _| if c & 1 == 1 { (c >> 1) ^ 0xA001 } else { c >> 1 })
    })
}

/// One request as it went out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub at_ms: u64,
    pub raw: Vec<u8>,
    /// On a serial line: 0.
    pub tid: u16,
    pub unit: u8,
    pub function: u8,
    pub address: u16,
    pub quantity: u16,
}

impl Asked {
    fn read(at_ms: u64, link: Link, raw: &[u8]) -> Self {
        let word = |i: usize| u16::from_be_bytes([raw[i], raw[i + 1]]);
        let tcp = link.is_tcp();
        let at = if tcp {
            assert_eq!((word(2), word(4), raw.len()), (0, 6, 12), "a request's header: {raw:02X?}");
            6
        } else {
            assert_eq!(raw.len(), 8, "one request at a time on a line: {raw:02X?}");
            assert_eq!(crc16(&raw[..6]).to_le_bytes(), raw[6..8], "a request's CRC: {raw:02X?}");
            0
        };
        Self {
            at_ms,
            raw: raw.to_vec(),
            tid: if tcp { word(0) } else { 0 },
            unit: raw[at],
            function: raw[at + 1],
            address: word(at + 2),
            quantity: word(at + 4),
        }
    }

    /// The PDU in which each register holds its own address.
    pub fn own_addresses(&self) -> Vec<u8> {
        let mut pdu = vec![self.function, (self.quantity * 2) as u8];
        (0..self.quantity).for_each(|i| pdu.extend(self.address.wrapping_add(i).to_be_bytes()));
        pdu
    }

    /// Whether it asks for this address.
    pub fn touches(&self, address: u16) -> bool {
        (self.address..self.address + self.quantity).contains(&address)
    }
}

/// After so many milliseconds these bytes come.
pub type Said = (u64, Vec<u8>);
type Answer = Box<dyn FnMut(&Asked) -> Vec<Said>>;

enum Event {
    Connected,
    /// Of the connection with this number.
    Bytes(u64, Vec<u8>),
}

pub struct World {
    pub bus: Bus,
    pub asked: Vec<Asked>,
    pub reports: Vec<(u64, CycleReport)>,
    /// All that came in, one stream for each connection.
    pub received: Vec<Vec<u8>>,
    /// Bytes of one piece come in single calls.
    pub byte_by_byte: bool,
    pub greeting: Vec<u8>,
    link: Link,
    now: Stamp,
    events: Vec<(u64, Event)>,
    answer: Answer,
}

impl World {
    pub fn new(link: Link, answer: impl FnMut(&Asked) -> Vec<Said> + 'static) -> Self {
        Self {
            bus: link.bus(),
            asked: Vec::new(),
            reports: Vec::new(),
            received: vec![Vec::new()],
            byte_by_byte: false,
            greeting: Vec::new(),
            link,
            now: Stamp::default(),
            events: Vec::new(),
            answer: Box::new(answer),
        }
    }

    pub fn put(&mut self, setup: UnitSetup) {
        self.bus.put(self.now, setup).unwrap();
        self.act();
    }

    fn ms(&self) -> u64 {
        self.now.mono.0.as_millis() as u64
    }

    /// Does what the bus wants done.
    fn act(&mut self) {
        let ms = self.ms();
        while let Some(report) = self.bus.poll_report() {
            self.reports.push((ms, report));
        }
        while let Some(deed) = self.bus.poll_deed() {
            self.received.push(Vec::new());
            self.events.retain(|(_, e)| !matches!(e, Event::Connected));
            match deed {
                Deed::Connect => {
                    self.events.push((ms + 1, Event::Connected));
                    if !self.greeting.is_empty() {
                        self.events.push((ms + 1, Event::Bytes(self.connection(), self.greeting.clone())));
                    }
                }
                Deed::Disconnect => {}
            }
        }
        let bytes = self.bus.transmit().to_vec();
        self.bus.handle_sent(bytes.len());
        for raw in bytes.chunks(if self.link.is_tcp() { 12 } else { bytes.len().max(1) }) {
            let asked = Asked::read(ms, self.link, raw);
            for (after, bytes) in (self.answer)(&asked) {
                self.events.push((ms + after, Event::Bytes(self.connection(), bytes)));
            }
            self.asked.push(asked);
        }
    }

    fn connection(&self) -> u64 {
        self.received.len() as u64 - 1
    }

    /// Runs until `done` or until a time.
    pub fn run(&mut self, until_ms: u64, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) {
            let event = self.events.iter().map(|e| e.0).min();
            // Times of the bus are finer than this world's: it is woken at the next millisecond.
            let wake = self.bus.poll_timeout().map(|m| m.0.as_micros().div_ceil(1000) as u64);
            let Some(next) = event.into_iter().chain(wake).min().filter(|t| *t <= until_ms) else { break };
            let next = next.max(self.ms());
            self.now = Stamp::default().plus(Duration::from_millis(next));
            if event.is_some_and(|e| e <= next) {
                let index = self.events.iter().position(|e| e.0 <= next && Some(e.0) == event).unwrap();
                match self.events.remove(index).1 {
                    Event::Connected => self.bus.handle_connected(self.now),
                    Event::Bytes(c, _) if c != self.connection() => {}
                    Event::Bytes(_, bytes) => self.receive(&bytes),
                }
            } else {
                self.bus.handle_timeout(self.now);
            }
            self.act();
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.received.last_mut().unwrap().extend_from_slice(bytes);
        for piece in bytes.chunks(if self.byte_by_byte { 1 } else { bytes.len() }) {
            self.bus.handle_received(self.now, piece);
        }
    }
}

/// A device with one group.
pub fn device(unit: u8, table: Table, every_ms: u64, values: &[(u16, u16)]) -> UnitSetup {
    let wanted = |&(a, n): &(u16, u16)| Wanted { table, range: AddressRange::new(Address(a), n).unwrap() };
    UnitSetup {
        device: DeviceId::new("device").unwrap(),
        generation: Generation(1),
        unit_id: UnitId(unit),
        limits: Limits::default(),
        timing: Timing { timeout: Duration::from_millis(300), ..Timing::default() },
        intervals: vec![IntervalSetup {
            interval: Interval(0),
            every: Some(Duration::from_millis(every_ms)),
            groups: vec![GroupSetup {
                group: GroupId(0),
                together: false,
                wanted: values.iter().map(wanted).collect(),
            }],
        }],
        first_cycle: Cycle(1),
    }
}

/// All parts of a cycle: first address, and what came.
pub fn outcomes(report: &CycleReport) -> Vec<(u16, PartOutcome)> {
    report.groups.iter().flat_map(|g| &g.parts).map(|p| (p.range.start().0, p.outcome.clone())).collect()
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte: {text}");
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}
