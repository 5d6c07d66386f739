//! The bus on serial framing, in virtual time of microseconds: a line gives each byte its time.

use super::tests::{at_once, device, hex, is_good, outcomes, registers};
use super::*;
use crate::modbus::{LineSpeed, rtu};
use crate::model::Condition;
use tokio_modbus::Request;

const LINE: LineSpeed = LineSpeed { baud: 19_200, bits_per_character: 11 };

/// A request, and when its first byte left.
#[derive(Debug, Clone)]
struct Asked {
    began: u64,
    unit: u8,
    address: u16,
    quantity: u16,
    frame: Vec<u8>,
}

type Answer = Box<dyn FnMut(&Asked) -> Vec<(u64, Vec<u8>)>>;

/// Times in microseconds.
struct Wire {
    now: u64,
    bus: Bus,
    line: Option<LineSpeed>,
    /// Bytes that reach us at these times.
    coming: Vec<(u64, Vec<u8>)>,
    answer: Answer,
    asked: Vec<Asked>,
    reports: Vec<CycleReport>,
    last_byte: u64,
    /// The shortest time between the last byte of either side and a request.
    gap: u64,
    steps: u64,
}

fn stamp(us: u64) -> Stamp {
    Stamp::default().plus(Duration::from_micros(us))
}

impl Wire {
    /// `answer` gives replies and after how long (from the request's end) their last bytes come.
    fn new(options: BusOptions, answer: impl FnMut(&Asked) -> Vec<(u64, Vec<u8>)> + 'static) -> Self {
        Self {
            now: 0,
            line: options.line,
            bus: Bus::new(Envelope::rtu(), options),
            coming: Vec::new(),
            answer: Box::new(answer),
            asked: Vec::new(),
            reports: Vec::new(),
            last_byte: 0,
            gap: u64::MAX,
            steps: 0,
        }
    }

    fn put(&mut self, setup: UnitSetup) {
        self.bus.put(stamp(self.now), setup).unwrap();
        self.act();
    }

    fn act(&mut self) {
        while let Some(report) = self.bus.poll_report() {
            self.reports.push(report);
        }
        while let Some(deed) = self.bus.poll_deed() {
            if deed == Deed::Connect {
                self.bus.handle_connected(stamp(self.now));
            }
        }
        let frame = self.bus.transmit().to_vec();
        self.bus.handle_sent(frame.len());
        if frame.is_empty() {
            return;
        }
        assert!(rtu::is_sound(&frame) && frame.len() == 8);
        let word = |i: usize| u16::from_be_bytes([frame[i], frame[i + 1]]);
        self.gap = self.gap.min(self.now - self.last_byte);
        let ended = self.now + self.line.map_or(0, |l| l.time_of(frame.len()).as_micros() as u64);
        self.last_byte = ended;
        let (unit, address, quantity) = (frame[0], word(2), word(4));
        let asked = Asked { began: self.now, unit, address, quantity, frame };
        let answers = (self.answer)(&asked).into_iter().filter(|(_, bytes)| !bytes.is_empty());
        self.coming.extend(answers.map(|(after, bytes)| (ended + after, bytes)));
        self.asked.push(asked);
    }

    fn run_until(&mut self, until: u64) {
        loop {
            let wake = self.bus.poll_timeout().map(|m| m.0.as_nanos().div_ceil(1000) as u64);
            let event = self.coming.iter().map(|c| c.0).min();
            let Some(next) = wake.into_iter().chain(event).min().filter(|t| *t <= until) else { break };
            self.steps += 1;
            self.now = next.max(self.now);
            if let Some(index) = self.coming.iter().position(|c| c.0 <= self.now) {
                let (_, bytes) = self.coming.remove(index);
                self.last_byte = self.last_byte.max(self.now);
                self.bus.handle_received(stamp(self.now), &bytes);
            } else {
                self.bus.handle_timeout(stamp(self.now));
            }
            self.act();
        }
        self.now = until;
    }

    fn of(&self, device: &str) -> Vec<&CycleReport> {
        self.reports.iter().filter(|r| r.device.as_str() == device).collect()
    }

    fn good(&self, device: &str) -> usize {
        self.of(device).iter().filter(|r| is_good(r)).count()
    }
}

fn serial() -> BusOptions {
    BusOptions { line: Some(LINE), ..at_once() }
}

/// Each register holds what `value` gives for its address.
fn reply(asked: &Asked, value: impl Fn(u16) -> u16) -> Vec<u8> {
    let words: Vec<u16> = (0..asked.quantity).map(|i| value(asked.address + i)).collect();
    let (mut pdu, mut out) = (Vec::new(), Vec::new());
    crate::modbus::encode_registers(3, &words, &mut pdu);
    rtu::encode_frame(UnitId(asked.unit), &pdu, &mut out);
    out
}

fn addresses(asked: &Asked) -> Vec<u8> {
    reply(asked, |a| a)
}

/// Answers after so long, at the line's speed.
fn at_line_speed(asked: &Asked, after: u64) -> Vec<(u64, Vec<u8>)> {
    let bytes = addresses(asked);
    vec![(after + LINE.time_of(bytes.len()).as_micros() as u64, bytes)]
}

#[test]
fn f18_no_request_begins_before_the_line_was_silent() {
    let speed = LineSpeed { baud: 9600, bits_per_character: 11 };
    for (turnaround, least) in [(0, 4010), (20, 20_000)] {
        let mut wire = Wire::new(BusOptions { line: Some(speed), ..serial() }, |a| vec![(100, addresses(a))]);
        for (name, unit) in [("a", 1), ("b", 2), ("c", 3)] {
            let mut setup = device(name, unit, 1, &[(0, 1)]);
            setup.timing.turnaround = Duration::from_millis(turnaround);
            wire.put(setup);
        }
        wire.run_until(40_000_000);
        assert!(wire.asked.len() > 1000 && wire.gap >= least, "{} {}", wire.asked.len(), wire.gap);
    }
}

#[test]
fn a_busy_line_waits_for_nothing_but_the_wire() {
    let mut wire = Wire::new(serial(), |a| at_line_speed(a, 2005));
    for unit in 1..=10 {
        wire.put(device(&format!("d{unit}"), unit, 1, &[(0, 20)]));
    }
    wire.run_until(30_000_000);
    // 53 characters and two silences: 34.4 ms a unit, 29.1 polls a second.
    let polls = wire.reports.len() as f64 / 30.0;
    assert!(polls > 29.1 * 0.998, "{polls}");
    assert!(wire.gap >= 2005);
    let each: Vec<usize> = (1..=10).map(|u| wire.good(&format!("d{u}"))).collect();
    assert!(each.iter().max().unwrap() - each.iter().min().unwrap() <= 1, "{each:?}");
    let counters = wire.bus.counters();
    let share = counters.wire.as_secs_f64() / 30.0;
    assert!((0.87..0.89).contains(&share), "{share}");
    // No more than two wakes (a reply, a silence) and a tick or two a request.
    assert!(wire.steps < wire.asked.len() as u64 * 40, "{} steps", wire.steps);
}

#[test]
fn f23_a_dead_unit_on_a_line_costs_one_timeout_a_step() {
    let polls = |dead: u8| {
        let mut wire = Wire::new(serial(), move |a| if a.unit == dead { vec![] } else { at_line_speed(a, 2005) });
        for unit in 1..=10 {
            wire.put(device(&format!("d{unit}"), unit, 1, &[(0, 20)]));
        }
        wire.run_until(600_000_000);
        assert_eq!(wire.bus.counters().reconnects, 0);
        let mut pauses: Vec<u64> =
            wire.of("d1").windows(2).map(|w| (w[1].ended.mono.since(w[0].ended.mono)).as_micros() as u64).collect();
        pauses.sort_unstable();
        let asked = wire.asked.iter().filter(|a| a.unit == 5).count();
        (asked, wire.good("d1"), pauses[pauses.len() / 2], *pauses.last().unwrap())
    };
    let (_, all, median, longest) = polls(99);
    let (probes, nine, slowed, worst) = polls(5);
    assert!(nine * 100 >= all * 95 && slowed <= median, "{nine} of {all}, {slowed} µs of {median} µs");
    assert!(probes < 6 + 35, "{probes}");
    assert!(worst <= longest + 300_000 + 10_000, "{worst} µs");
}

#[test]
fn f20_a_late_reply_is_never_the_next_blocks() {
    // The second of three blocks is late by each of these once; the third, as long, is asked next.
    for late in [1, 30, 100, 250, 299, 330] {
        let mut first = true;
        let mut wire = Wire::new(serial(), move |a| {
            let is_late = a.address == 10 && std::mem::take(&mut first);
            let after = if is_late { 300_000 + late * 1000 } else { 5000 };
            vec![(after, reply(a, |address| if address == 10 { 5 } else { 7 }))]
        });
        let mut setup = device("one", 1, 2000, &[(0, 1), (10, 1), (20, 1)]);
        setup.timing.retries = 0;
        wire.put(setup);
        wire.put(device("two", 2, 2000, &[(20, 1)]));
        wire.run_until(9_900_000);
        for report in wire.of("one") {
            for (address, _, outcome) in outcomes(report) {
                let right = registers(&[if address == 10 { 5 } else { 7 }]);
                assert!(outcome == right || matches!(outcome, PartOutcome::Fault(_)), "{late}: {address} {outcome:?}");
            }
        }
        assert!(wire.good("one") >= 4 && wire.good("two") == 5, "{late}");
    }
}

#[test]
fn f20_late_replies_are_counted_and_teach_how_long_to_wait() {
    // Every reply of unit 1 is late; unit 2 is asked meanwhile.
    let mut wire = Wire::new(serial(), |a| vec![(if a.unit == 1 { 420_000 } else { 5000 }, addresses(a))]);
    wire.put(device("late", 1, 1000, &[(0, 1), (10, 1)]));
    wire.put(device("two", 2, 1000, &[(20, 1)]));
    wire.run_until(20_000_000);
    assert_eq!(wire.good("late"), 0);
    let late = wire.bus.counters().late_replies;
    assert!(late > 5, "{late}");
    assert_eq!(wire.bus.unit_counters().next().unwrap().1.late_replies, late);
    assert!(wire.good("two") >= 18, "{}", wire.good("two"));
}

#[test]
fn f15_f16_f41_noise_around_replies_spoils_nothing() {
    for (before, after) in [("00", ""), ("", "00 00 FF"), ("DE AD BE EF", "01 03"), ("01 03 02", "01 83 02")] {
        let mut wire = Wire::new(serial(), move |a| vec![(5000, [hex(before), addresses(a), hex(after)].concat())]);
        wire.put(device("one", 1, 1000, &[(183, 1), (186, 2), (190, 2)]));
        wire.run_until(9_500_000);
        assert_eq!(wire.good("one"), 10, "{before} … {after}");
        let counted = wire.bus.counters().noise_bytes;
        assert!(counted > 0 && wire.bus.counters().traffic.crc_errors <= 30);
    }
}

#[test]
fn f13_echoes_are_removed_or_suspected_and_never_replies() {
    for (echo, silent) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut wire = Wire::new(BusOptions { echo, ..serial() }, move |a| {
            vec![(1, if silent { a.frame.clone() } else { [a.frame.clone(), addresses(a)].concat() })]
        });
        wire.put(device("one", 1, 1000, &[(0, 2)]));
        wire.run_until(4_500_000);
        assert_eq!(wire.good("one"), if silent { 0 } else { 5 });
        let counters = wire.bus.counters();
        assert_eq!(counters.echo_bytes, 8 * counters.traffic.requests);
        assert_eq!(counters.echo_suspected, if echo { 0 } else { counters.traffic.requests });
    }
}

#[test]
fn f22_what_a_converter_says_at_connect_is_noise() {
    let mut wire = Wire::new(at_once(), |a| vec![(5000, addresses(a))]);
    wire.coming.push((10, hex("00 11 22 33 44 55")));
    wire.put(device("one", 1, 1000, &[(0, 2)]));
    wire.run_until(500_000);
    assert_eq!((wire.good("one"), wire.bus.counters().noise_bytes), (1, 6));
    assert!(wire.asked[0].began >= 2000);
}

#[test]
fn f09_f07_frames_of_others_are_counted_and_the_right_one_awaited() {
    let mut wire = Wire::new(serial(), |a| {
        let mut frames = Vec::new();
        rtu::encode_frame(UnitId(2), &[3, 4, 0, 9, 0, 9], &mut frames);
        rtu::encode_frame(UnitId(1), &[4, 4, 0, 9, 0, 9], &mut frames);
        rtu::encode_frame(UnitId(1), &[3, 2, 0, 9], &mut frames);
        vec![(5000, frames), (50_000, addresses(a))]
    });
    wire.put(device("one", 1, 1000, &[(0, 2)]));
    wire.run_until(900_000);
    assert_eq!(wire.good("one"), 1);
    let t = wire.bus.counters().traffic;
    assert_eq!((t.unit_mismatch, t.function_mismatch, t.length_mismatch), (1, 1, 1));
}

#[test]
fn a_damaged_reply_is_a_crc_fault_and_closes_no_port() {
    let mut wire = Wire::new(serial(), |a| {
        let mut bytes = addresses(a);
        bytes[4] ^= 1;
        vec![(5000, bytes)]
    });
    wire.put(device("one", 1, 1000, &[(0, 2)]));
    wire.run_until(20_000_000);
    let reports = wire.of("one");
    assert!(reports.iter().all(|r| outcomes(r) == [(0, 2, PartOutcome::Fault(Reason::Crc))]));
    assert!(reports.iter().all(|r| r.condition == Condition::Unreachable(Fault::NoReply)));
    let counters = wire.bus.counters();
    assert_eq!((counters.traffic.timeouts, counters.reconnects), (0, 0));
    assert_eq!(counters.traffic.crc_errors, counters.traffic.requests);
}

#[test]
fn a_long_reply_that_has_begun_may_end() {
    // 125 registers at 19 200 baud take 146 ms: begun at 200 ms, over at 346 ms.
    let mut wire = Wire::new(serial(), |a| {
        let bytes = addresses(a);
        vec![(200_000, bytes[..10].to_vec()), (346_000, bytes[10..].to_vec())]
    });
    wire.put(device("one", 1, 1000, &[(0, 125)]));
    wire.run_until(900_000);
    assert_eq!(wire.good("one"), 1);
}

#[test]
fn f13_an_echo_is_not_yet_the_long_reply() {
    // The reply begins within the timeout of 300 ms and takes longer than what is left; its echo came long before.
    let mut wire = Wire::new(BusOptions { echo: true, ..serial() }, |a| {
        let mut bytes = addresses(a);
        let tail = bytes.split_off(10);
        vec![(1, a.frame.clone()), (280_000, bytes), (280_000 + LINE.time_of(tail.len()).as_micros() as u64, tail)]
    });
    wire.put(device("one", 1, 2000, &[(0, 100)]));
    wire.run_until(5_500_000);
    let traffic = wire.bus.counters().traffic;
    assert_eq!((wire.good("one"), traffic.timeouts), (3, 0));
}

#[test]
fn f20_a_reply_to_a_device_taken_off_is_not_its_successors() {
    // The only device goes while its request is out; another of the same unit comes at once and asks for as much.
    for away in [0, 10_000, 150_000, 400_000] {
        let mut wire = Wire::new(serial(), |a| {
            let after = if a.address == 50 { 200_000 } else { 5000 };
            vec![(after, addresses(a))]
        });
        wire.put(device("old", 1, 1000, &[(50, 2)]));
        wire.run_until(50_000);
        assert_eq!(wire.asked.len(), 1);
        wire.bus.remove(stamp(wire.now), &DeviceId::new("old").unwrap());
        wire.act();
        wire.run_until(50_000 + away);
        wire.put(device("new", 1, 1000, &[(0, 2)]));
        wire.run_until(2_900_000);
        assert!(wire.good("new") >= 2, "{away}");
        for report in wire.of("new") {
            for (_, _, outcome) in outcomes(report) {
                assert_eq!(outcome, registers(&[0, 1]), "away for {away} µs");
            }
        }
    }
}

#[test]
fn f43_a_limit_of_quantity_is_learned_and_told() {
    // Refused in so many words, or not answered at all.
    for mute in [false, true] {
        let mut wire = Wire::new(serial(), move |a| {
            let mut refusal = Vec::new();
            rtu::encode_frame(UnitId(1), &[0x83, 2], &mut refusal);
            match a.quantity {
                51.. if mute => vec![],
                51.. => vec![(5000, refusal)],
                _ => vec![(5000, addresses(a))],
            }
        });
        let mut values: Vec<(u16, u16)> = (0..120).map(|a| (100 + a, 1)).collect();
        if mute {
            // Something small that it answers.
            values.push((0, 1));
        }
        wire.put(device("one", 1, 10_000, &values));
        wire.run_until(59_000_000);
        let reports = wire.of("one");
        assert!(reports.iter().skip(2).all(|r| is_good(r)), "mute: {mute}");
        let limit = wire.bus.unit_counters().next().unwrap().1.learned_limit;
        assert!(limit.is_some_and(|l| (17..=50).contains(&l)), "{limit:?}");
        assert!(wire.asked.iter().filter(|a| a.began > 30_000_000).all(|a| a.quantity <= 50));
    }
}

#[test]
fn f39_a_hole_is_no_limit_of_quantity() {
    let mut wire = Wire::new(serial(), |a| {
        let mut refusal = Vec::new();
        rtu::encode_frame(UnitId(1), &[0x83, 2], &mut refusal);
        let touches = (a.address..a.address + a.quantity).contains(&2709);
        vec![(5000, if touches { refusal } else { addresses(a) })]
    });
    wire.put(device("one", 1, 2000, &(2700..2713).map(|a| (a, 1)).collect::<Vec<_>>()));
    wire.run_until(19_000_000);
    let last = outcomes(wire.of("one").last().unwrap());
    assert_eq!(
        last.iter().filter(|p| p.2 == PartOutcome::Refused(2)).map(|p| (p.0, p.1)).collect::<Vec<_>>(),
        [(2709, 1)]
    );
    assert_eq!(wire.bus.unit_counters().next().unwrap().1.learned_limit, None);
}

#[test]
fn ascii_lines_are_driven_by_the_same_bus() {
    let mut bus = Bus::new(Envelope::ascii(), serial());
    bus.put(stamp(0), device("one", 1, 1000, &[(0, 1)])).unwrap();
    assert_eq!(bus.poll_deed(), Some(Deed::Connect));
    bus.handle_connected(stamp(0));
    let wake = bus.poll_timeout().unwrap();
    bus.handle_timeout(Stamp { mono: wake, ..stamp(0) });
    assert_eq!(bus.transmit(), b":010300000001FB\r\n");
    bus.handle_sent(17);
    bus.handle_received(stamp(50_000), b":010302002AD0\r\n");
    assert_eq!(outcomes(&bus.poll_report().unwrap()), [(0, 1, registers(&[42]))]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    #[test]
    fn no_value_is_ever_anothers(
        seed in proptest::prelude::any::<u64>(),
        echo in proptest::prelude::any::<bool>(),
    ) {
        // Late by up to the timeout once more, noise, damage, silence, frames of others: what is taken is what was there.
        let mut chance = Backoff::new(Duration::from_secs(4), Duration::from_secs(4), seed);
        let mut draw = move |n: u64| chance.next_pause().as_nanos() as u64 / 7 % n;
        let mut wire = Wire::new(BusOptions { echo, ..serial() }, move |a| {
            let mut bytes = addresses(a);
            let after = match draw(8) { 0 => 300_000 + draw(290_000), 1 => draw(300_000), _ => 3000 };
            match draw(8) {
                0 => { let i = draw(bytes.len() as u64) as usize; bytes[i] ^= 1 << draw(8); }
                1 => bytes.splice(0..0, (0..draw(40)).map(|_| 1 + draw(3) as u8)).for_each(drop),
                2 => bytes.extend((0..draw(40)).map(|_| draw(256) as u8)),
                3 => bytes.clear(),
                4 => bytes.splice(0..0, reply(&Asked { unit: 9, ..a.clone() }, |_| 0xBAD)).for_each(drop),
                _ => {}
            }
            let cut = draw(bytes.len() as u64 + 1) as usize;
            let tail = bytes.split_off(cut);
            let mut out = vec![(after, bytes), (after + 900, tail)];
            if echo { out.insert(0, (0, a.frame.clone())); }
            out
        });
        for unit in 1..=4 {
            wire.put(device(&format!("d{unit}"), unit, 500, &[(0, 2), (50, 2), (90, 2)]));
        }
        wire.run_until(120_000_000);
        for report in &wire.reports {
            for (address, _, outcome) in outcomes(report) {
                if let PartOutcome::Registers(words) = outcome {
                    proptest::prop_assert_eq!(words, [address, address + 1]);
                }
            }
        }
        proptest::prop_assert!(wire.reports.iter().filter(|r| is_good(r)).count() > 20);
        proptest::prop_assert!(wire.gap >= 2005);
    }
}

/// Requests are what another decoder reads.
#[test]
fn requests_are_read_by_another_decoder() {
    let mut wire = Wire::new(serial(), |a| vec![(5000, addresses(a))]);
    wire.put(device("one", 17, 1000, &[(107, 3)]));
    wire.run_until(900_000);
    let pdu = bytes::Bytes::copy_from_slice(&wire.asked[0].frame[1..6]);
    assert_eq!(Request::try_from(pdu).unwrap(), Request::ReadHoldingRegisters(107, 3));
}
