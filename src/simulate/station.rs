//! What goes out for a request: the reply of a pretend device with its faults, as bytes and when they leave. Pure: it
//! is told the time, and all chance comes from the seed.

use super::faults::{First, USUAL_NOISE};
use super::framing::{Heard, wrap};
use super::pretend::read_of;
use super::{Faults, Framing, Often, Pretend};
use crate::modbus::{MAX_PDU_LEN, TransactionId, UnitId, encode_exception};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Pretend devices on one link, and what goes wrong there.
#[derive(Debug)]
pub(super) struct Station {
    pub(super) framing: Framing,
    pub(super) faults: Faults,
    units: BTreeMap<UnitId, Mutex<Unit>>,
}

#[derive(Debug)]
struct Unit {
    device: Pretend,
    /// So many requests still find it busy.
    busy: u32,
    /// The last reply to each request: for torn words.
    said: HashMap<Vec<u8>, Vec<u8>>,
}

/// One connection, or a serial line from its start on.
#[derive(Debug)]
pub(super) struct Dialogue {
    began: Duration,
    /// Requests heard so far.
    nth: u64,
    chance: Chance,
}

/// Bytes that leave, and so long after their request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) after: Duration,
    pub(super) bytes: Vec<u8>,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The request, heard by who sent it.
    Echo,
    Reply,
}

/// The splitmix64 generator.
#[derive(Debug, Clone)]
struct Chance(u64);

impl Station {
    pub(super) fn new(framing: Framing, devices: Vec<(UnitId, Pretend)>, faults: Faults) -> Self {
        let unit = |device| Mutex::new(Unit { device, busy: faults.busy, said: HashMap::new() });
        let units = devices.into_iter().map(|(id, device)| (id, unit(device))).collect();
        Self { framing, faults, units }
    }

    /// A dialogue, begun at `now` since the station's start; `number` makes its chance differ from others'.
    pub(super) fn dialogue(&self, now: Duration, number: u64) -> Dialogue {
        let seed = self.faults.seed.wrapping_add(1).wrapping_add(number.wrapping_mul(0xD1B5_4A32_D192_ED03));
        Dialogue { began: now, nth: 0, chance: Chance(seed) }
    }

    /// Appends what goes out for a request. A unit id that no device has is answered by silence, as on a line where
    /// nobody has it; so is a broadcast.
    pub(super) fn answer(&self, dialogue: &mut Dialogue, now: Duration, heard: &Heard, out: &mut Vec<Outgoing>) {
        let faults = &self.faults;
        dialogue.nth += 1;
        let nth = dialogue.nth;
        match faults.ignore_first {
            Some(First::Requests(n)) if nth <= u64::from(n) => return,
            Some(First::Time(time)) if now < dialogue.began + time => return,
            _ => {}
        }
        let chance = &mut dialogue.chance;
        let mut happens = |often: Often| often.happens(nth, chance.fraction());
        if happens(faults.echo) {
            out.push(Outgoing { after: Duration::ZERO, bytes: heard.raw.clone(), kind: Kind::Echo });
        }
        let broadcast = heard.unit.0 == 0 && self.framing != Framing::Mbap;
        let Some(unit) = self.units.get(&heard.unit).filter(|_| !broadcast) else { return };
        if happens(faults.drop) {
            return;
        }
        let other_transaction = happens(faults.wrong_tid);
        let transaction = if other_transaction { TransactionId(!heard.transaction.0) } else { heard.transaction };
        let unit_id = if happens(faults.wrong_unit) { UnitId(heard.unit.0.wrapping_add(1)) } else { heard.unit };
        let mut pdu = Vec::new();
        {
            // A tick that panicked left the device as it was.
            let mut unit = unit.lock().unwrap_or_else(PoisonError::into_inner);
            unit.answer(now, &heard.pdu, faults, happens(faults.word_tear), &mut pdu);
        }
        let good = pdu.first().is_some_and(|f| *f < 0x80);
        if happens(faults.short) && good && pdu.len() > 4 {
            pdu.truncate(pdu.len() - 2);
            pdu[1] -= 2;
        }
        if happens(faults.long) && good && pdu.len() + 2 <= MAX_PDU_LEN {
            pdu.extend_from_slice(&[0, 0]);
            pdu[1] += 2;
        }
        let mut bytes = wrap(self.framing, transaction, unit_id, &pdu, happens(faults.crc));
        if let Some((noise, often)) = faults.noise
            && happens(often)
        {
            let many = |chance: &mut Chance, n: u8| if noise == USUAL_NOISE { chance.up_to(n) } else { n };
            let (before, after) = (many(&mut dialogue.chance, noise.before), many(&mut dialogue.chance, noise.after));
            let mut noisy: Vec<u8> = (0..before).map(|_| dialogue.chance.byte()).collect();
            noisy.append(&mut bytes);
            noisy.extend((0..after).map(|_| dialogue.chance.byte()));
            bytes = noisy;
        }
        let late = faults.late.filter(|(_, often)| often.happens(nth, dialogue.chance.fraction()));
        let jitter = faults.jitter.mul_f64(dialogue.chance.fraction());
        let after = faults.delay + jitter + late.map_or(Duration::ZERO, |(by, _)| by);
        out.push(Outgoing { after, bytes, kind: Kind::Reply });
    }
}

impl Unit {
    fn answer(&mut self, now: Duration, request: &[u8], faults: &Faults, torn: bool, out: &mut Vec<u8>) {
        let function = request.first().copied().unwrap_or(0);
        if self.busy > 0 {
            self.busy -= 1;
            return encode_exception(function, BUSY, out);
        }
        if let Some(code) = refusal(faults, request) {
            return encode_exception(function, code, out);
        }
        self.device.answer(now, request, out);
        if faults.word_tear == Often::Never || !matches!(out.first(), Some(3 | 4)) {
            return;
        }
        if self.said.len() >= MOST_SAID && !self.said.contains_key(request) {
            self.said.clear();
        }
        let before = self.said.insert(request.to_vec(), out.clone());
        if let Some(before) = before.filter(|before| torn && before.len() == out.len()) {
            let words = out[2..].chunks_mut(2).zip(before[2..].chunks(2));
            words.skip(1).step_by(2).for_each(|(word, old)| word.copy_from_slice(old));
        }
    }
}

/// The exception that the addresses of a read deserve.
fn refusal(faults: &Faults, request: &[u8]) -> Option<u8> {
    let (_, range) = read_of(request).ok()?;
    let touches = |first: u16, last: u16| range.start().0 <= last && u32::from(first) < range.end();
    let exception = faults.exceptions.iter().find(|(_, a)| touches(*a, *a)).map(|(code, _)| *code);
    exception.or_else(|| faults.holes.iter().any(|(first, last)| touches(*first, *last)).then_some(ILLEGAL_ADDRESS))
}

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to below 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 1 to `n`; 0 for 0.
    fn up_to(&mut self, n: u8) -> u8 {
        if n == 0 { 0 } else { (self.next() % u64::from(n)) as u8 + 1 }
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}

const ILLEGAL_ADDRESS: u8 = 2;
const BUSY: u8 = 6;
/// Requests whose last reply is kept for tearing; a client asks the same few again and again.
const MOST_SAID: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::{Address, Table};
    use crate::profile::Dump;
    use crate::simulate::Stamping;

    fn station(framing: Framing, faults: &[&str]) -> Station {
        let mut dump = Dump::default();
        (0..10).for_each(|a| dump.set_register(Table::HoldingRegister, Address(a), 100 + a));
        let mut all = Faults::default();
        for fault in faults {
            all.add(fault).unwrap();
        }
        Station::new(framing, vec![(UnitId(1), Pretend::still(dump))], all)
    }

    fn request(framing: Framing, unit: u8, pdu: &[u8]) -> Heard {
        let raw = wrap(framing, TransactionId(5), UnitId(unit), pdu, false);
        Heard { transaction: TransactionId(5), unit: UnitId(unit), pdu: pdu.to_vec(), raw }
    }

    /// All that goes out for this many equal reads of unit 1, registers 1 and 2, one each 10 ms.
    fn replies(framing: Framing, faults: &[&str], times: u64) -> Vec<Vec<Outgoing>> {
        let station = station(framing, faults);
        let mut dialogue = station.dialogue(Duration::ZERO, 0);
        let read = request(framing, 1, &[3, 0, 1, 0, 2]);
        let one = |n: u64| {
            let mut out = Vec::new();
            station.answer(&mut dialogue, Duration::from_millis(10 * n), &read, &mut out);
            out
        };
        (0..times).map(one).collect()
    }

    fn bytes(framing: Framing, fault: &str) -> Vec<u8> {
        replies(framing, &[fault], 1)[0].iter().flat_map(|o| o.bytes.clone()).collect()
    }

    #[test]
    fn rtu_replies_have_the_faults_asked_for() {
        let good: &[u8] = &[1, 3, 4, 0, 101, 0, 102, 0x6A, 0x06];
        assert_eq!(bytes(Framing::Rtu, "delay=0s"), good);
        // One bit is turned over, the checksum is the good frame's.
        assert_eq!(bytes(Framing::Rtu, "crc=1"), [1, 3, 0x14, 0, 101, 0, 102, 0x6A, 0x06]);
        assert_eq!(bytes(Framing::Rtu, "echo"), [&[1, 3, 0, 1, 0, 2, 0x95, 0xCB], good].concat());
        let noisy = bytes(Framing::Rtu, "noise=2+3");
        assert_eq!((noisy.len(), &noisy[2..11]), (good.len() + 5, good));
        let noisy = bytes(Framing::Rtu, "noise=1");
        assert!((good.len() + 2..=good.len() + 8).contains(&noisy.len()));
        assert!(noisy.windows(good.len()).any(|w| w == good));
        assert_eq!(bytes(Framing::Rtu, "wrong_unit=1")[..7], [2, 3, 4, 0, 101, 0, 102]);
        assert_eq!(bytes(Framing::Rtu, "short=1")[..5], [1, 3, 2, 0, 101]);
        assert_eq!(bytes(Framing::Rtu, "long=1")[..9], [1, 3, 6, 0, 101, 0, 102, 0, 0]);
        for (fault, code) in [("busy=1", 6), ("holes=0-1", 2), ("holes=2", 2), ("exception=4@1", 4)] {
            assert_eq!(bytes(Framing::Rtu, fault)[..3], [1, 0x83, code], "{fault}");
        }
        assert_eq!(bytes(Framing::Rtu, "holes=0,3"), good);
        assert_eq!(bytes(Framing::Ascii, "delay=0s"), b":010304006500662D\r\n");
    }

    #[test]
    fn f47_busy_ends_and_the_first_requests_are_not_heard() {
        let functions = |faults: &[&str]| {
            replies(Framing::Rtu, faults, 5).iter().map(|out| out.first().map(|o| o.bytes[1])).collect::<Vec<_>>()
        };
        assert_eq!(functions(&["busy=2"]), [Some(0x83), Some(0x83), Some(3), Some(3), Some(3)]);
        assert_eq!(functions(&["ignore_first=1"])[..2], [None, Some(3)]);
        assert_eq!(functions(&["ignore_first=20ms"]), [None, None, Some(3), Some(3), Some(3)]);
        assert_eq!(functions(&["ignore_first=1", "echo"])[0], None);
    }

    #[test]
    fn broadcasts_and_strangers_are_answered_by_silence_but_echoed() {
        let station = station(Framing::Rtu, &["echo"]);
        let mut dialogue = station.dialogue(Duration::ZERO, 0);
        for unit in [0, 9] {
            let mut out = Vec::new();
            station.answer(&mut dialogue, Duration::ZERO, &request(Framing::Rtu, unit, &[3, 0, 1, 0, 2]), &mut out);
            assert_eq!(out.iter().map(|o| o.kind).collect::<Vec<_>>(), [Kind::Echo]);
        }
    }

    #[test]
    fn times_add_up_and_jitter_stays_within_its_bound() {
        let all = replies(Framing::Rtu, &["delay=10ms", "jitter=5ms", "late=1s@2"], 100);
        for (n, out) in (1..).zip(&all) {
            let late = Duration::from_millis(if n % 2 == 0 { 1010 } else { 10 });
            assert!(late <= out[0].after && out[0].after < late + Duration::from_millis(5), "{n}: {:?}", out[0].after);
        }
        assert!(all.windows(3).any(|w| w[0][0].after != w[2][0].after), "no jitter");
    }

    #[test]
    fn equal_seeds_give_equal_faults_and_others_others() {
        let faults = ["drop=20%", "noise=50%", "jitter=5ms", "crc=30%"];
        assert_eq!(replies(Framing::Rtu, &faults, 200), replies(Framing::Rtu, &faults, 200));
        let station = station(Framing::Rtu, &faults);
        let read = request(Framing::Rtu, 1, &[3, 0, 1, 0, 2]);
        let talk = |number| {
            let (mut dialogue, mut out) = (station.dialogue(Duration::ZERO, number), Vec::new());
            (0..50).for_each(|_| station.answer(&mut dialogue, Duration::ZERO, &read, &mut out));
            out
        };
        assert_eq!(talk(1), talk(1));
        assert_ne!(talk(1), talk(2));
    }

    #[test]
    fn torn_words_come_from_two_moments() {
        let mut dump = Dump::default();
        (0..4).for_each(|a| dump.set_register(Table::HoldingRegister, Address(a), 0));
        let mut faults = Faults::default();
        faults.add("word_tear=2").unwrap();
        let counted = Pretend::stamped(dump, Stamping::EachRequest);
        let station = Station::new(Framing::Mbap, vec![(UnitId(1), counted)], faults);
        let mut dialogue = station.dialogue(Duration::ZERO, 0);
        let read = request(Framing::Mbap, 1, &[3, 0, 0, 0, 4]);
        let mut out = Vec::new();
        (0..4).for_each(|_| station.answer(&mut dialogue, Duration::ZERO, &read, &mut out));
        let words: Vec<_> = out.iter().map(|o| [o.bytes[10], o.bytes[12], o.bytes[14], o.bytes[16]]).collect();
        assert_eq!(words, [[1, 1, 1, 1], [2, 1, 2, 1], [3, 3, 3, 3], [4, 3, 4, 3]]);
    }
}
