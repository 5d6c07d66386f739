//! The far end of a Modbus TCP link: which frames answer a request, in which state of disrepair, and the rules that
//! requests must keep.

use super::chance::Chance;
use super::judge::{Judged, Statement, hold};
use super::memory::Micros;
use super::plant::Spec;
use fieldshadow::modbus::Table;

/// One request as it was sent.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub at: Micros,
    pub tid: u16,
    pub unit: u8,
    pub table: Table,
    pub first: u16,
    pub count: u16,
}

impl Asked {
    /// Cuts a request of Modbus TCP.
    pub fn parse(at: Micros, adu: &[u8]) -> Judged<Self> {
        let word = |i: usize| u16::from_be_bytes([adu[i], adu[i + 1]]);
        let well_formed = adu.len() == 12 && word(2) == 0 && word(4) == 6;
        hold!(Statement::Wire, well_formed, "no read request: {adu:02x?}");
        let Some(table) = Table::ALL.into_iter().find(|t| t.read_function() == adu[7]) else {
            return super::judge::broken(Statement::Wire, format!("no read function: {adu:02x?}"));
        };
        Ok(Self { at, tid: word(0), unit: adu[6], table, first: word(8), count: word(10) })
    }

    /// Cuts a request on a serial line.
    pub fn parse_rtu(at: Micros, frame: &[u8]) -> Judged<Self> {
        let sound = frame.len() == 8 && crc(&frame[..6]).to_le_bytes() == frame[6..];
        hold!(Statement::Wire, sound, "no read request: {frame:02x?}");
        let mut adu = vec![0, 0, 0, 0, 0, 6];
        adu.extend(&frame[..6]);
        Self::parse(at, &adu)
    }

    fn addresses(&self) -> impl Iterator<Item = u16> + use<> {
        let (first, count) = (self.first, self.count);
        (0..count).map(move |i| first.wrapping_add(i))
    }

    /// The device's limits, holes and gaps.
    pub fn is_legal(&self, spec: &Spec) -> Judged {
        let limits = &spec.limits;
        let most = if self.table.is_bits() { limits.bits } else { limits.registers };
        hold!(Statement::Wire, self.count >= 1 && self.count <= most, "{} {self:?}: at most {most}", spec.id);
        let end = u32::from(self.first) + u32::from(self.count);
        hold!(Statement::Wire, end <= 65536, "{} {self:?}: beyond the last address", spec.id);
        if let Some(boundary) = limits.boundary {
            let crosses = self.first / boundary != ((end - 1) as u16) / boundary;
            hold!(Statement::Wire, !crosses, "{} {self:?}: across a multiple of {boundary}", spec.id);
        }
        if limits.even && !self.table.is_bits() {
            hold!(
                Statement::Wire,
                self.first.is_multiple_of(2) && self.count.is_multiple_of(2),
                "{} {self:?}: not even",
                spec.id
            );
        }
        let mut gap = 0;
        for address in self.addresses() {
            let hole = limits.holes.contains(&(self.table, address));
            hold!(Statement::Wire, !hole, "{} {self:?}: reads the hole {address}", spec.id);
            gap = if spec.wants(self.table, address) { 0 } else { gap + 1 };
            hold!(Statement::Wire, gap <= limits.gap, "{} {self:?}: bridges {gap} registers", spec.id);
        }
        Ok(())
    }

    /// The values at an instant, as the data of a reply.
    fn data(&self, spec: &Spec, at: Micros) -> Vec<u8> {
        let tick = spec.memory.tick(at);
        if self.table.is_bits() {
            let mut data = vec![0; usize::from(self.count).div_ceil(8)];
            for (i, address) in self.addresses().enumerate() {
                data[i / 8] |= u8::from(spec.memory.bit(self.table, address, tick)) << (i % 8);
            }
            return data;
        }
        self.addresses().flat_map(|a| spec.memory.word(self.table, a, tick).to_be_bytes()).collect()
    }

    /// The good reply of a device read at this instant.
    pub fn reply(&self, spec: &Spec, at: Micros) -> Frame {
        let data = self.data(spec, at);
        let mut pdu = vec![self.table.read_function(), data.len() as u8];
        pdu.extend(data);
        Frame { tid: self.tid, unit: self.unit, pdu }
    }

    pub fn exception(&self, code: u8) -> Frame {
        Frame { tid: self.tid, unit: self.unit, pdu: vec![self.table.read_function() | 0x80, code] }
    }

    /// Whether the device refuses some of it.
    pub fn is_refused(&self, spec: &Spec) -> bool {
        spec.faults.refused_share > 0.0 && self.addresses().any(|a| spec.is_refused(self.table, a))
    }

    /// Whether this frame is what a client on a serial line waits for.
    pub fn is_answered_by(&self, frame: &Frame) -> bool {
        let count = usize::from(self.count);
        let data = if self.table.is_bits() { count.div_ceil(8) } else { 2 * count };
        let function = self.table.read_function();
        let values = frame.pdu[0] == function && frame.pdu.len() == 2 + data && usize::from(frame.pdu[1]) == data;
        frame.unit == self.unit && (values || (frame.pdu[0] == function | 0x80 && frame.pdu.len() == 2))
    }

    /// Whether this frame, should it come in time, ends the wait for a reply: be it for its values or for its length.
    pub fn ends_by(&self, frame: &Frame) -> bool {
        frame.tid == self.tid && frame.unit == self.unit && frame.pdu[0] & 0x7F == self.table.read_function()
    }
}

/// A reply before it is bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub tid: u16,
    pub unit: u8,
    pub pdu: Vec<u8>,
}

impl Frame {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.tid.to_be_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend((self.pdu.len() as u16 + 1).to_be_bytes());
        bytes.push(self.unit);
        bytes.extend(&self.pdu);
        bytes
    }
}

impl Frame {
    /// The same on a serial line.
    pub fn rtu(&self) -> Vec<u8> {
        let mut bytes = vec![self.unit];
        bytes.extend(&self.pdu);
        bytes.extend(crc(&bytes).to_le_bytes());
        bytes
    }
}

/// The checksum of serial lines, bit by bit.
fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xA001 } else { crc >> 1 })
    })
}

/// What a device sends for one request.
#[derive(Debug, Default)]
pub struct Answer {
    /// Frames in order.
    pub frames: Vec<Frame>,
    /// An exception's length is one too many.
    pub surplus: bool,
    /// Sent after the request's timeout.
    pub late: bool,
    pub slow: bool,
}

/// The answer of a device that is read at `at`; `last` is the reply before, to any request of it.
pub fn answer(asked: &Asked, spec: &Spec, at: Micros, last: Option<&Frame>, chance: &mut Chance) -> Answer {
    let faults = &spec.faults;
    let mut answer = Answer::default();
    if spec.is_silent(at) || chance.happens(faults.drop) {
        return answer;
    }
    answer.late = chance.happens(faults.late);
    answer.slow = chance.happens(faults.slow);
    if chance.happens(faults.exception) {
        answer.frames.push(asked.exception(chance.pick(&[1, 2, 3, 4, 5, 6, 0x0A, 0x0B])));
        answer.surplus = chance.happens(faults.exception_length);
        return answer;
    }
    if asked.is_refused(spec) {
        answer.frames.push(asked.exception(2));
        answer.surplus = chance.happens(faults.exception_length);
        return answer;
    }
    let good = asked.reply(spec, at);
    if chance.happens(faults.repeat_last) {
        answer.frames.extend(last.cloned());
    }
    // Whatever is wrong with a frame, its values are too: they were in the registers long ago.
    let old = asked.reply(spec, at.saturating_sub(20_000_000));
    let mut wrong = Vec::new();
    if chance.happens(faults.wrong_tid) {
        // Not the next ones: late, or once more, such a frame would be a good reply to a request to come.
        let tid = old.tid.wrapping_add(chance.pick(&[0xFFFE, 0xFFFF, 0x100, 0x8000]));
        wrong.push(Frame { tid, ..old.clone() });
    }
    if chance.happens(faults.wrong_unit) {
        wrong.push(Frame { unit: old.unit.wrapping_add(chance.pick(&[1, 2, 128])), ..old.clone() });
    }
    if chance.happens(faults.wrong_function) {
        let mut frame = old.clone();
        frame.pdu[0] ^= chance.pick(&[7, 1, 16]);
        wrong.push(frame);
    }
    if chance.happens(faults.short) {
        let mut frame = old.clone();
        let gone = if asked.table.is_bits() { 1 } else { 2 };
        frame.pdu.truncate(frame.pdu.len() - gone);
        frame.pdu[1] -= gone as u8;
        wrong.push(frame);
    }
    if chance.happens(faults.long) && old.pdu.len() < 250 {
        let mut frame = old.clone();
        frame.pdu.extend([0x12, 0x34]);
        frame.pdu[1] += 2;
        wrong.push(frame);
    }
    if chance.happens(faults.count) {
        let mut frame = old.clone();
        frame.pdu[1] = frame.pdu[1].wrapping_add(chance.pick(&[1, 2, 254, 255]));
        wrong.push(frame);
    }
    let is_wrong = !wrong.is_empty();
    answer.frames.extend(wrong);
    if !is_wrong || chance.happens(faults.and_good) {
        answer.frames.push(good.clone());
        if chance.happens(faults.duplicate) {
            answer.frames.push(good);
        }
    }
    answer
}
