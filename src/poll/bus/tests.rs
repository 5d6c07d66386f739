//! The bus in a world of virtual time: a far end is a closure that answers requests, hours pass in milliseconds.

use super::*;
use crate::modbus::{Address, AddressRange, Table};
use crate::model::{Condition, Generation, GroupId, Interval};
use crate::poll::{GroupSetup, IntervalSetup, Wanted};
use crate::profile::{Limits, Timing};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// One request as it went out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    at_ms: u64,
    tid: u16,
    unit: u8,
    function: u8,
    address: u16,
    quantity: u16,
}

/// What the far end does after a while.
#[derive(Debug, Clone)]
enum Far {
    Bytes(Vec<u8>),
    Close,
}

#[derive(Debug, Clone)]
enum Event {
    Connected,
    ConnectFailed(Fault),
    /// Of the connection with this number.
    Far(u64, Far),
}

type Answer = Box<dyn FnMut(&Asked) -> Vec<(u64, Far)>>;
type Accept = Box<dyn FnMut(u64) -> Result<u64, Fault>>;

struct World {
    now: Stamp,
    bus: Bus,
    events: Vec<(u64, Event)>,
    answer: Answer,
    accept: Accept,
    connection: u64,
    asked: Vec<Asked>,
    reports: Vec<(u64, CycleReport)>,
    most_in_flight: usize,
}

impl World {
    fn new(options: BusOptions, answer: impl FnMut(&Asked) -> Vec<(u64, Far)> + 'static) -> Self {
        Self {
            now: Stamp::default(),
            bus: Bus::new(Envelope::mbap(), options),
            events: Vec::new(),
            answer: Box::new(answer),
            accept: Box::new(|_| Ok(1)),
            connection: 0,
            asked: Vec::new(),
            reports: Vec::new(),
            most_in_flight: 0,
        }
    }

    fn ms(&self) -> u64 {
        self.now.mono.0.as_millis() as u64
    }

    fn put(&mut self, setup: UnitSetup) {
        self.bus.put(self.now, setup).unwrap();
        self.act();
    }

    /// Does what the bus wants done.
    fn act(&mut self) {
        let ms = self.ms();
        while let Some(report) = self.bus.poll_report() {
            self.reports.push((ms, report));
        }
        while let Some(deed) = self.bus.poll_deed() {
            self.connection += 1;
            self.events.retain(|(_, e)| matches!(e, Event::Far(..)));
            if deed == Deed::Connect {
                match (self.accept)(ms) {
                    Ok(after) => self.events.push((ms + after, Event::Connected)),
                    Err(fault) => self.events.push((ms + 1, Event::ConnectFailed(fault))),
                }
            }
        }
        let bytes = self.bus.transmit().to_vec();
        self.bus.handle_sent(bytes.len());
        for adu in bytes.chunks(12) {
            let word = |i: usize| u16::from_be_bytes([adu[i], adu[i + 1]]);
            assert_eq!((word(2), word(4), adu.len()), (0, 6, 12));
            let asked =
                Asked { at_ms: ms, tid: word(0), unit: adu[6], function: adu[7], address: word(8), quantity: word(10) };
            self.asked.push(asked);
            for (after, far) in (self.answer)(&asked) {
                self.events.push((ms + after, Event::Far(self.connection, far)));
            }
        }
        self.most_in_flight = self.most_in_flight.max(self.bus.in_flight.len());
    }

    fn run_until(&mut self, until_ms: u64) {
        loop {
            let event = self.events.iter().map(|e| e.0).min();
            // Times of the bus are finer than this world's: it is woken at the next millisecond.
            let wake = self.bus.poll_timeout().map(|m| m.0.as_micros().div_ceil(1000) as u64);
            let Some(next) = event.into_iter().chain(wake).min().filter(|t| *t <= until_ms) else { break };
            let next = next.max(self.ms());
            self.now = Stamp::default().plus(Duration::from_millis(next));
            if event == Some(next) {
                let index = self.events.iter().position(|e| e.0 == next).unwrap();
                match self.events.remove(index).1 {
                    Event::Connected => self.bus.handle_connected(self.now),
                    Event::ConnectFailed(fault) => self.bus.handle_connect_failed(self.now, fault),
                    Event::Far(c, _) if c != self.connection => {}
                    Event::Far(_, Far::Bytes(bytes)) => self.bus.handle_received(self.now, &bytes),
                    Event::Far(_, Far::Close) => self.bus.handle_disconnected(self.now),
                }
            } else {
                self.bus.handle_timeout(self.now);
            }
            self.act();
        }
        self.now = Stamp::default().plus(Duration::from_millis(until_ms));
    }

    fn reports_of(&self, device: &str) -> Vec<&CycleReport> {
        self.reports.iter().map(|(_, r)| r).filter(|r| r.device.as_str() == device).collect()
    }

    fn good(&self, device: &str) -> usize {
        self.reports_of(device).iter().filter(|r| is_good(r)).count()
    }
}

pub(super) fn is_good(report: &CycleReport) -> bool {
    report.groups.iter().flat_map(|g| &g.parts).all(|p| matches!(p.outcome, PartOutcome::Registers(_)))
}

pub(super) fn outcomes(report: &CycleReport) -> Vec<(u16, u16, PartOutcome)> {
    let parts = report.groups.iter().flat_map(|g| &g.parts);
    parts.map(|p| (p.range.start().0, p.range.count(), p.outcome.clone())).collect()
}

pub(super) fn registers(words: &[u16]) -> PartOutcome {
    PartOutcome::Registers(words.to_vec())
}

/// A reply in which each register holds its own address.
fn addresses(asked: &Asked) -> Vec<u8> {
    let count = asked.quantity * 2;
    let [high, low] = asked.tid.to_be_bytes();
    let mut out = vec![high, low, 0, 0, 0, count as u8 + 3, asked.unit, asked.function, count as u8];
    (0..asked.quantity).for_each(|i| out.extend((asked.address + i).to_be_bytes()));
    out
}

fn exception(asked: &Asked, code: u8) -> Vec<u8> {
    let [high, low] = asked.tid.to_be_bytes();
    vec![high, low, 0, 0, 0, 3, asked.unit, asked.function | 0x80, code]
}

fn good_after(ms: u64) -> impl FnMut(&Asked) -> Vec<(u64, Far)> {
    move |asked| vec![(ms, Far::Bytes(addresses(asked)))]
}

fn wanted(values: &[(u16, u16)]) -> Vec<Wanted> {
    let one = |&(a, n): &(u16, u16)| Wanted {
        table: Table::HoldingRegister,
        range: AddressRange::new(Address(a), n).unwrap(),
    };
    values.iter().map(one).collect()
}

/// A device with one group.
pub(super) fn device(name: &str, unit: u8, every_ms: u64, values: &[(u16, u16)]) -> UnitSetup {
    UnitSetup {
        device: DeviceId::new(name).unwrap(),
        generation: Generation(1),
        unit_id: UnitId(unit),
        limits: Limits::default(),
        timing: Timing { timeout: Duration::from_millis(300), ..Timing::default() },
        intervals: vec![IntervalSetup {
            interval: Interval(0),
            every: Some(Duration::from_millis(every_ms)),
            groups: vec![GroupSetup { group: GroupId(0), together: false, wanted: wanted(values) }],
        }],
        first_cycle: Cycle(1),
    }
}

pub(super) fn at_once() -> BusOptions {
    BusOptions { spread: false, ..BusOptions::default() }
}

/// Answers request after request from a list of byte texts; nothing after its end.
fn script(replies: &'static [&'static [(u64, &'static str)]]) -> impl FnMut(&Asked) -> Vec<(u64, Far)> {
    let mut replies = replies.iter();
    move |_| {
        let list = replies.next().copied().unwrap_or_default();
        list.iter().map(|(after, text)| (*after, Far::Bytes(hex(text)))).collect()
    }
}

pub(super) fn hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()).collect()
}

#[test]
fn f01_a_late_reply_is_dropped_and_the_next_is_taken() {
    let mut world = World::new(
        at_once(),
        script(&[
            &[(350, "00 14 00 00 00 13 01 03 10 00 63 00 63 00 63 00 63 00 63 00 63 00 63 00 63")],
            &[(60, "00 15 00 00 00 13 01 03 10 00 01 00 02 00 03 00 04 00 05 00 06 00 07 00 08")],
        ]),
    );
    world.bus.next_transaction = 0x14;
    world.put(device("meter", 1, 5000, &[(0, 8)]));
    world.run_until(1000);
    assert_eq!(world.asked.iter().map(|a| a.tid).collect::<Vec<_>>(), [0x14, 0x15]);
    assert_eq!(outcomes(&world.reports[0].1), [(0, 8, registers(&[1, 2, 3, 4, 5, 6, 7, 8]))]);
    let counters = world.bus.counters();
    assert_eq!((counters.transaction_mismatch, counters.late_replies), (1, 1));
    assert_eq!((counters.traffic.timeouts, counters.traffic.retries, counters.reconnects), (1, 1, 0));
}

#[test]
fn f06_an_exception_with_a_length_too_large_costs_no_time() {
    let mut world = World::new(at_once(), |asked: &Asked| {
        let mut reply = if asked.address == 10 { exception(asked, 3) } else { addresses(asked) };
        if asked.address == 10 {
            reply[5] = 4;
        }
        vec![(5, Far::Bytes(reply))]
    });
    world.put(device("meter", 1, 1000, &[(0, 1), (10, 1), (20, 1)]));
    world.run_until(200);
    let expected = [(0, 1, registers(&[0])), (10, 1, PartOutcome::Refused(3)), (20, 1, registers(&[20]))];
    assert_eq!(outcomes(&world.reports[0].1), expected);
    assert_eq!(world.bus.counters().reconnects, 0);
}

#[test]
fn f07_a_short_reply_is_rejected_whole() {
    let mut cycle = 0;
    let mut world = World::new(at_once(), move |asked: &Asked| {
        cycle += 1;
        let [high, low] = asked.tid.to_be_bytes();
        let good = vec![high, low, 0, 0, 0, 7, 1, 3, 4, 0, 0, 0, 7];
        let short = vec![high, low, 0, 0, 0, 5, 1, 3, 2, 0, 9];
        vec![(5, Far::Bytes(if cycle == 1 { good } else { short }))]
    });
    world.put(device("meter", 1, 1000, &[(10, 2)]));
    world.run_until(1500);
    assert_eq!(outcomes(&world.reports[0].1), [(10, 2, registers(&[0, 7]))]);
    assert_eq!(outcomes(&world.reports[1].1), [(10, 2, PartOutcome::Fault(Reason::Length))]);
    assert_eq!(world.reports[1].1.condition, Condition::Unreachable(Fault::NoReply));
    assert_eq!(world.bus.counters().traffic.length_mismatch, 2);
}

#[test]
fn f09_a_reply_of_another_unit_is_dropped_and_the_right_one_awaited() {
    let mut world = World::new(
        at_once(),
        script(&[&[(5, "00 07 00 00 00 05 02 03 02 00 63"), (55, "00 07 00 00 00 05 01 03 02 00 05")]]),
    );
    world.bus.next_transaction = 7;
    world.put(device("one", 1, 5000, &[(0, 1)]));
    world.run_until(1000);
    assert_eq!(outcomes(&world.reports[0].1), [(0, 1, registers(&[5]))]);
    assert_eq!(world.bus.counters().traffic.unit_mismatch, 1);
}

#[test]
fn f10_a_corrupt_body_costs_one_retry_on_the_same_socket() {
    let mut world = World::new(
        at_once(),
        script(&[&[(5, "29 53 00 00 00 04 C0 60 60 00")], &[(5, "29 54 00 00 00 05 01 03 02 00 05")]]),
    );
    world.bus.next_transaction = 0x2953;
    world.put(device("one", 1, 5000, &[(0xA8F1, 1)]));
    world.run_until(1000);
    assert_eq!(outcomes(&world.reports[0].1), [(0xA8F1, 1, registers(&[5]))]);
    let counters = world.bus.counters();
    assert_eq!((counters.traffic.retries, counters.reconnects), (1, 0));
    assert_eq!(counters.traffic.unit_mismatch, 1);
}

#[test]
fn f11_one_request_at_a_time_over_all_units() {
    let open_until = Rc::new(RefCell::new(0));
    let mut world = World::new(at_once(), move |asked: &Asked| {
        let busy = *open_until.borrow() > asked.at_ms;
        *open_until.borrow_mut() = asked.at_ms + 20;
        vec![(20, Far::Bytes(if busy { exception(asked, 0x0B) } else { addresses(asked) }))]
    });
    for (name, unit) in [("a", 1), ("b", 2), ("c", 3)] {
        world.put(device(name, unit, 100, &[(0, 10)]));
    }
    world.run_until(10_050);
    let counters = world.bus.counters();
    assert_eq!(counters.traffic.exceptions.len(), 0);
    assert_eq!(world.most_in_flight, 1);
    assert_eq!(world.asked.iter().take(6).map(|a| a.unit).collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3]);
    // 101 ticks each; the last request of c is still open.
    assert_eq!((world.good("a"), world.good("b"), world.good("c")), (101, 101, 100));
}

#[test]
fn several_in_flight_go_out_at_once_but_one_a_unit() {
    let mut world = World::new(BusOptions { in_flight: 4, ..at_once() }, |asked: &Asked| {
        // The later asked, the earlier answered.
        vec![(50 - u64::from(asked.unit) * 5, Far::Bytes(addresses(asked)))]
    });
    for unit in 1..=6 {
        world.put(device(&format!("d{unit}"), unit, 1000, &[(0, 1), (10, 1)]));
    }
    world.run_until(900);
    assert_eq!(world.most_in_flight, 4);
    for unit in 1..=6 {
        assert_eq!(world.good(&format!("d{unit}")), 1);
    }
    let mut open: Vec<(u8, u64)> = Vec::new();
    for asked in &world.asked {
        open.retain(|(_, until)| *until > asked.at_ms);
        assert!(open.iter().all(|(unit, _)| *unit != asked.unit));
        open.push((asked.unit, asked.at_ms + 50 - u64::from(asked.unit) * 5));
    }
}

#[test]
fn f23_a_silent_unit_does_not_slow_the_others_and_comes_back() {
    let silent = Rc::new(RefCell::new(true));
    let is_silent = Rc::clone(&silent);
    let mut world = World::new(at_once(), move |asked: &Asked| {
        if asked.unit == 3 && *is_silent.borrow() { vec![] } else { vec![(20, Far::Bytes(addresses(asked)))] }
    });
    for unit in 1..=5 {
        world.put(device(&format!("d{unit}"), unit, 1000, &[(0, 10)]));
    }
    world.run_until(600_000);
    for unit in [1, 2, 4, 5] {
        assert!(world.good(&format!("d{unit}")) >= 570, "{}", world.good(&format!("d{unit}")));
    }
    let dead = world.reports_of("d3");
    assert!(dead.iter().all(|r| r.condition == Condition::Unreachable(Fault::NoReply)));
    // Three cycles of two attempts, then probes of one.
    let probes: Vec<u64> = world.asked.iter().filter(|a| a.unit == 3).map(|a| a.at_ms).skip(6).collect();
    assert!((20..=32).contains(&probes.len()), "{}", probes.len());
    assert_eq!(dead.len(), 3 + probes.len());
    assert_eq!(world.bus.counters().reconnects, 0);

    *silent.borrow_mut() = false;
    world.run_until(631_000);
    let back = world.reports.iter().find(|(_, r)| r.device.as_str() == "d3" && is_good(r)).unwrap().0;
    assert!(back <= 630_400);
    // From then on at its full rate.
    let before = world.good("d3");
    world.run_until(641_000);
    assert_eq!(world.good("d3") - before, 10);
}

#[test]
fn f26_a_peer_that_closes_idle_sockets_costs_no_poll() {
    let mut world = World::new(at_once(), |asked: &Asked| vec![(10, Far::Bytes(addresses(asked))), (4010, Far::Close)]);
    world.put(device("one", 1, 10_000, &[(0, 1)]));
    world.run_until(999_000);
    assert_eq!((world.reports.len(), world.good("one")), (100, 100));
    assert!(world.reports.iter().all(|(_, r)| r.ended.mono.since(r.started.mono) < Duration::from_millis(100)));
    assert_eq!(world.bus.counters().connect_failures, 0);
}

#[test]
fn f26_a_close_under_a_request_has_it_sent_once_more() {
    let mut count = 0;
    let mut world = World::new(at_once(), move |asked: &Asked| {
        count += 1;
        if count == 2 { vec![(3, Far::Close)] } else { vec![(10, Far::Bytes(addresses(asked)))] }
    });
    world.put(device("one", 1, 1000, &[(0, 1)]));
    world.run_until(2500);
    assert_eq!(world.good("one"), 3);
    assert_eq!(world.asked.iter().map(|a| a.at_ms).collect::<Vec<_>>(), [1, 1000, 1004, 2000]);
    assert_eq!(world.bus.counters().reconnects, 1);
}

#[test]
fn a_peer_that_closes_at_each_request_is_an_error_in_the_end() {
    let mut world = World::new(at_once(), |_: &Asked| vec![(3, Far::Close)]);
    world.put(device("one", 1, 1000, &[(0, 1)]));
    world.run_until(60_000);
    assert_eq!(world.good("one"), 0);
    assert!(world.reports.iter().all(|(_, r)| matches!(r.condition, Condition::Unreachable(_))));
    assert!(world.reports.len() > 50);
    assert!(world.connection < 20, "{} connects in a minute", world.connection);
}

#[test]
fn f27_a_server_killed_for_90_s_is_good_again_within_30_s_twenty_times() {
    let period = 300_000;
    let up = move |ms: u64| ms % period < 210_000;
    let mut world = World::new(at_once(), move |asked: &Asked| {
        let mut out = vec![(10, Far::Bytes(addresses(asked)))];
        if up(asked.at_ms) && !up(asked.at_ms + 1100) {
            out.push((500, Far::Close));
        }
        out
    });
    world.accept = Box::new(move |ms| if up(ms) { Ok(1) } else { Err(Fault::Refused) });
    world.put(device("one", 1, 1000, &[(0, 1)]));
    world.run_until(20 * period);
    for round in 1..20 {
        let since = round * period;
        let good = world.reports.iter().find(|(at, r)| *at > since && is_good(r)).unwrap().0;
        assert!(good - since <= 31_000, "round {round}: {} ms", good - since);
    }
    // While it was away each tick said so at once.
    let refused = world.reports.iter().filter(|(_, r)| r.condition == Condition::Unreachable(Fault::Refused)).count();
    assert!(refused >= 20 * 80, "{refused}");
    assert!(world.connection < 20 * 20);
}

#[test]
fn f30_a_mute_link_gives_up_its_queue_at_once() {
    let mut world = World::new(at_once(), |_: &Asked| vec![]);
    for unit in 1..=20 {
        world.put(device(&format!("d{unit}"), unit, 1000, &[(0, 1)]));
    }
    world.run_until(100);
    for unit in 1..=20 {
        let next = world.bus.remove(world.now, &DeviceId::new(&format!("d{unit}")).unwrap());
        assert_eq!(next, Some(Cycle(2)));
    }
    world.act();
    assert!(world.bus.is_empty());
    assert_eq!((world.bus.poll_timeout(), world.bus.transmit()), (None, &[][..]));
}

#[test]
fn f31_the_wait_after_connecting_counts_from_the_handshake() {
    let connected_at = Rc::new(RefCell::new(0));
    let (set, get) = (Rc::clone(&connected_at), Rc::clone(&connected_at));
    let mut count = 0;
    let mut world = World::new(at_once(), move |asked: &Asked| {
        count += 1;
        if asked.unit == 1 && asked.at_ms < *get.borrow() + 1500 {
            return vec![];
        }
        let mut out = vec![(10, Far::Bytes(addresses(asked)))];
        if count % 10 == 0 {
            out.push((20, Far::Close));
        }
        out
    });
    world.accept = Box::new(move |ms| {
        *set.borrow_mut() = ms + 700;
        Ok(700)
    });
    let mut slow = device("slow", 1, 1000, &[(0, 1)]);
    slow.timing.after_connect = Duration::from_secs(2);
    world.put(slow);
    world.put(device("quick", 2, 1000, &[(0, 1)]));
    world.run_until(60_000);
    assert!(world.bus.counters().reconnects >= 5);
    assert_eq!(world.bus.counters().traffic.timeouts, 0);
    assert_eq!(world.good("slow"), world.reports_of("slow").len());
    // Nobody else waits for it.
    let first = |unit| world.asked.iter().find(|a| a.unit == unit).unwrap().at_ms;
    assert_eq!((first(2), first(1)), (700, 2700));
}

#[test]
fn f34_polls_never_pile_up_and_late_ticks_are_counted() {
    let mut world = World::new(at_once(), good_after(80));
    let mut slow = device("one", 1, 100, &[(0, 1), (10, 1), (20, 1), (30, 1), (40, 1)]);
    slow.timing.timeout = Duration::from_secs(1);
    world.put(slow);
    world.run_until(600_000);
    let reports = world.reports_of("one");
    // 400 ms a cycle, begun at a tick of the grid: each fourth.
    assert_eq!(reports.len(), 1499);
    let ages = reports.windows(2).map(|w| w[1].ended.mono.since(w[0].started.mono));
    assert!(ages.max().unwrap() <= Duration::from_millis(900));
    assert!(reports.iter().all(|r| r.ended.mono.since(r.started.mono) <= Duration::from_millis(400)));
    let (_, counters) = world.bus.unit_counters().next().unwrap();
    assert_eq!(counters.cycles + 1 + counters.cycle_late, 6001);
    assert!(world.bus.counters().queue_depth < 5);
}

#[test]
fn f39_a_hole_in_a_merged_read_is_found_and_remembered() {
    let mut world = World::new(at_once(), |asked: &Asked| {
        let touches = (asked.address..asked.address + asked.quantity).contains(&2709);
        vec![(2, Far::Bytes(if touches { exception(asked, 2) } else { addresses(asked) }))]
    });
    let values: Vec<_> = (2700..=2712).map(|a| (a, 1)).collect();
    world.put(device("one", 1, 1000, &values));
    world.run_until(900);
    // ceil(log2 13) + 13.
    assert!(world.asked.len() <= 17, "{} requests", world.asked.len());
    let mut seen = Vec::new();
    for (start, count, outcome) in outcomes(&world.reports[0].1) {
        match outcome {
            PartOutcome::Registers(words) => seen.extend(words),
            PartOutcome::Refused(2) => assert_eq!((start, count), (2709, 1)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, (2700..=2712).filter(|a| *a != 2709).collect::<Vec<_>>());

    let before = world.asked.len();
    world.run_until(700_000);
    let later = &world.asked[before..];
    let touching: Vec<_> = later.iter().filter(|a| (a.address..a.address + a.quantity).contains(&2709)).collect();
    assert!(touching.iter().all(|a| a.quantity == 1));
    // Never good: tested about each ten minutes, though reported in each cycle.
    assert!((1..=2).contains(&touching.len()), "{}", touching.len());
    assert_eq!(outcomes(&world.reports[5].1).len(), 3);
    assert_eq!(outcomes(&world.reports[5].1)[1], (2709, 1, PartOutcome::Refused(2)));
}

proptest! {
    #[test]
    fn f39_any_refused_values_are_known_within_the_bound(
        n in 2..60u16,
        bad in proptest::collection::hash_set(0..60u16, 0..60),
        code in 1..=3u8,
    ) {
        let refused = bad.clone();
        let mut world = World::new(at_once(), move |asked: &Asked| {
            let touches = (asked.address..asked.address + asked.quantity).any(|a| refused.contains(&a));
            vec![(1, Far::Bytes(if touches { exception(asked, code) } else { addresses(asked) }))]
        });
        let values: Vec<_> = (0..n).map(|a| (a, 1)).collect();
        world.put(device("one", 1, 1000, &values));
        world.run_until(999);
        let bound = usize::from(n) + (f64::from(n).log2().ceil() as usize);
        prop_assert!(world.asked.len() <= bound, "{} requests for {} values", world.asked.len(), n);
        let mut covered = 0;
        for (start, count, outcome) in outcomes(&world.reports[0].1) {
            prop_assert_eq!(start, covered);
            covered += count;
            let any_bad = (start..start + count).any(|a| bad.contains(&a));
            match outcome {
                PartOutcome::Registers(words) => {
                    prop_assert!(!any_bad);
                    prop_assert_eq!(words, (start..start + count).collect::<Vec<_>>());
                }
                PartOutcome::Refused(c) => prop_assert_eq!((count, c, any_bad), (1, code, true)),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
        }
        prop_assert_eq!(covered, n);
    }
}

#[test]
fn f43_a_quantity_limit_found_by_refusal_leaves_all_good() {
    let mut world = World::new(at_once(), |asked: &Asked| {
        vec![(2, Far::Bytes(if asked.quantity > 50 { exception(asked, 2) } else { addresses(asked) }))]
    });
    let values: Vec<_> = (0..120).map(|a| (a, 1)).collect();
    world.put(device("one", 1, 1000, &values));
    world.run_until(20_500);
    assert_eq!(world.good("one"), world.reports.len());
    let late: Vec<_> = world.asked.iter().filter(|a| a.at_ms > 10_000).collect();
    assert!(late.iter().all(|a| a.quantity <= 50));
}

#[test]
fn f45_a_value_behind_a_gap_lies_where_its_address_says() {
    let mut world = World::new(at_once(), good_after(2));
    let mut setup = device("one", 1, 1000, &[(7016, 2), (7000, 2)]);
    setup.limits.gap = 14;
    world.put(setup);
    world.run_until(500);
    assert_eq!(outcomes(&world.reports[0].1), [(7000, 18, registers(&(7000..7018).collect::<Vec<_>>()))]);
}

#[test]
fn f46_a_value_refused_in_noise_comes_back() {
    let mut count = 0;
    let mut world = World::new(at_once(), move |asked: &Asked| {
        count += 1;
        let noise = (10..15).contains(&count);
        vec![(2, Far::Bytes(if noise { exception(asked, 3) } else { addresses(asked) }))]
    });
    world.put(device("one", 1, 1000, &[(7, 1)]));
    world.run_until(120_000);
    let last_bad = world.reports.iter().filter(|(_, r)| !is_good(r)).map(|r| r.0).max().unwrap();
    assert!(last_bad < 9_000 + 60_000, "{last_bad}");
    assert!(world.reports.iter().all(|(_, r)| r.condition == Condition::Reachable));
}

#[test]
fn f47_a_busy_device_gets_a_little_patience() {
    let scripted = |busy: usize| {
        let mut count = 0;
        let mut world = World::new(at_once(), move |asked: &Asked| {
            count += 1;
            vec![(2, Far::Bytes(if count <= busy { exception(asked, 6) } else { addresses(asked) }))]
        });
        world.put(device("one", 1, 2000, &[(5, 1), (9, 1)]));
        world.run_until(1900);
        world
    };
    let twice = scripted(2);
    assert_eq!(twice.good("one"), 1);
    assert_eq!(twice.bus.counters().traffic.retries, 2);
    let ever = scripted(10);
    assert!(outcomes(&ever.reports[0].1).iter().all(|p| p.2 == PartOutcome::Fault(Reason::Exception(6))));
    assert_eq!(ever.reports[0].1.condition, Condition::Reachable);
    assert_eq!(ever.asked.len(), 8);
}

#[test]
fn f49_codes_beyond_the_standard_are_reported_with_their_number() {
    for code in [0, 4, 7, 0x80, 0xFF] {
        let mut world = World::new(at_once(), move |asked: &Asked| {
            vec![(2, Far::Bytes(if asked.address == 0 { exception(asked, code) } else { addresses(asked) }))]
        });
        world.put(device("one", 1, 1000, &[(0, 1), (9, 1)]));
        world.run_until(500);
        let expected = [(0, 1, PartOutcome::Fault(Reason::Exception(code))), (9, 1, registers(&[9]))];
        assert_eq!(outcomes(&world.reports[0].1), expected);
        assert_eq!(world.bus.counters().reconnects, 0);
    }
}

#[test]
fn a_gateways_exception_means_the_unit_is_away_and_costs_one_request() {
    for code in [0x0A, 0x0B] {
        let mut world = World::new(at_once(), move |asked: &Asked| vec![(2, Far::Bytes(exception(asked, code)))]);
        world.put(device("one", 1, 1000, &[(0, 1), (9, 1)]));
        world.run_until(500);
        let fault = PartOutcome::Fault(Reason::Exception(code));
        assert_eq!(outcomes(&world.reports[0].1), [(0, 1, fault.clone()), (9, 1, fault)]);
        assert_eq!(world.reports[0].1.condition, Condition::Unreachable(Fault::NoReply));
        assert_eq!(world.asked.len(), 1);
    }
}

#[test]
fn f106_units_0_and_255_are_ordinary_on_tcp() {
    let mut world = World::new(at_once(), good_after(2));
    world.put(device("zero", 0, 1000, &[(1, 1)]));
    world.put(device("last", 255, 1000, &[(2, 1)]));
    world.run_until(500);
    assert_eq!(world.asked.iter().map(|a| a.unit).collect::<Vec<_>>(), [0, 255]);
    assert_eq!((world.good("zero"), world.good("last")), (1, 1));
}

#[test]
fn a_silent_device_costs_one_request_a_cycle_not_one_a_read() {
    let mut world = World::new(at_once(), |_: &Asked| vec![]);
    let mut silent = device("one", 1, 5000, &[(0, 1), (10, 1), (20, 1)]);
    silent.timing.retries = 2;
    world.put(silent);
    world.run_until(4000);
    assert_eq!(world.asked.len(), 3);
    assert_eq!(world.reports[0].0, 901);
    let expected: Vec<_> = [0, 10, 20].map(|a| (a, 1, PartOutcome::Fault(Reason::Timeout))).into();
    assert_eq!(outcomes(&world.reports[0].1), expected);
}

#[test]
fn a_refused_connect_fails_each_tick_at_once() {
    let mut world = World::new(at_once(), good_after(1));
    world.accept = Box::new(|_| Err(Fault::Refused));
    world.put(device("one", 1, 1000, &[(0, 1)]));
    world.run_until(10_500);
    let at: Vec<_> = world.reports.iter().map(|r| r.0).collect();
    assert_eq!(at, [1, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10_000]);
    for (i, (_, report)) in world.reports.iter().enumerate() {
        assert_eq!(report.condition, Condition::Unreachable(Fault::Refused));
        assert_eq!(outcomes(report), [(0, 1, PartOutcome::Fault(Reason::Link))]);
        assert_eq!(report.cycle, Cycle(i as u64 + 1));
    }
    // 250 ms doubling: by ten seconds about six connects.
    assert!((5..=8).contains(&world.connection), "{}", world.connection);
}

#[test]
fn a_connect_that_never_ends_is_given_up() {
    let mut world = World::new(BusOptions { connect_patience: Duration::from_secs(5), ..at_once() }, good_after(1));
    world.accept = Box::new(|_| Ok(1_000_000));
    world.put(device("one", 1, 1000, &[(0, 1)]));
    world.run_until(5500);
    // What waited, and the tick that was due just then.
    assert_eq!(world.reports.iter().map(|r| r.0).collect::<Vec<_>>(), [5000, 5000]);
    assert!(world.reports.iter().all(|(_, r)| r.condition == Condition::Unreachable(Fault::Unreachable)));
}

#[test]
fn a_half_open_connection_is_given_up_after_three_timeouts() {
    let mut count = 0;
    let mut world = World::new(at_once(), move |asked: &Asked| {
        count += 1;
        // From the third request on the first connection is dead.
        if (3..=5).contains(&count) { vec![] } else { vec![(5, Far::Bytes(addresses(asked)))] }
    });
    world.put(device("one", 1, 1000, &[(0, 1)]));
    world.run_until(5500);
    assert_eq!(world.bus.counters().reconnects, 1);
    let good: Vec<_> = world.reports.iter().map(|(_, r)| is_good(r)).collect();
    assert_eq!(good, [true, true, false, true, true, true]);
}

#[test]
fn a_stream_that_is_no_modbus_is_reset_without_a_storm() {
    let mut world = World::new(at_once(), |_: &Asked| vec![(2, Far::Bytes(b"HTTP/1.1 400 Bad Request".to_vec()))]);
    world.put(device("one", 1, 1000, &[(0, 1)]));
    world.run_until(60_000);
    assert!(world.bus.counters().lost_sync > 3);
    assert!(world.connection < 30, "{}", world.connection);
    assert!(world.reports.iter().all(|(_, r)| matches!(r.condition, Condition::Unreachable(_))));
}

#[test]
fn turnaround_holds_for_its_unit_only() {
    let mut world = World::new(at_once(), good_after(5));
    let mut slow = device("slow", 1, 1000, &[(0, 1), (10, 1)]);
    slow.timing.turnaround = Duration::from_millis(40);
    world.put(slow);
    world.put(device("quick", 2, 1000, &[(0, 1), (10, 1)]));
    world.run_until(500);
    let sent: Vec<_> = world.asked.iter().map(|a| (a.at_ms, a.unit)).collect();
    assert_eq!(sent, [(1, 1), (6, 2), (11, 2), (46, 1)]);
}

#[test]
fn a_group_read_together_is_one_request_and_refused_as_one() {
    let mut world = World::new(at_once(), |asked: &Asked| vec![(2, Far::Bytes(exception(asked, 2)))]);
    let mut setup = device("one", 1, 1000, &[(0, 2), (2, 2)]);
    setup.intervals[0].groups[0].together = true;
    world.put(setup);
    world.run_until(500);
    assert_eq!(world.asked.len(), 1);
    assert_eq!(outcomes(&world.reports[0].1), [(0, 4, PartOutcome::Refused(2))]);
}

#[test]
fn once_is_read_at_each_connect_and_again_until_it_was_good() {
    let mut count = 0;
    let mut world = World::new(at_once(), move |asked: &Asked| {
        count += 1;
        match (asked.address, count) {
            // Its first try times out, twice.
            (500, 1..=3) => vec![],
            (0, 12) => vec![(5, Far::Bytes(addresses(asked))), (10, Far::Close)],
            _ => vec![(5, Far::Bytes(addresses(asked)))],
        }
    });
    let mut setup = device("one", 1, 1000, &[(0, 1)]);
    setup.intervals.push(IntervalSetup {
        interval: Interval(1),
        every: None,
        groups: vec![GroupSetup { group: GroupId(1), together: false, wanted: wanted(&[(500, 2)]) }],
    });
    world.put(setup);
    world.run_until(30_000);
    let once: Vec<_> = world.reports.iter().filter(|(_, r)| r.interval == Interval(1)).collect();
    assert_eq!(once.iter().map(|(_, r)| is_good(r)).collect::<Vec<_>>(), [false, true, true]);
    // Numbers of cycles rise over all intervals.
    let mut cycles: Vec<_> = world.reports.iter().map(|(_, r)| r.cycle).collect();
    cycles.sort_unstable();
    cycles.dedup();
    assert_eq!(cycles.len(), world.reports.len());
}

#[test]
fn a_link_that_cannot_keep_up_is_shared_fairly() {
    let mut world = World::new(at_once(), good_after(40));
    world.put(device("eager", 1, 10, &[(0, 1)]));
    world.put(device("also", 2, 20, &[(0, 1)]));
    world.put(device("patient", 3, 10_000, &[(0, 1), (10, 1)]));
    world.run_until(99_900);
    let patient = world.reports_of("patient");
    assert_eq!(patient.len(), 10);
    assert!(patient.iter().all(|r| r.ended.mono.0.as_millis() % 10_000 < 1300));
    let (eager, also) = (world.good("eager"), world.good("also"));
    assert!(eager + also > 2400 && also > 1000, "{eager} {also}");
}

#[test]
fn an_hour_of_two_devices_is_exact() {
    let mut world = World::new(at_once(), good_after(7));
    world.put(device("a", 1, 1000, &[(0, 2), (4, 1)]));
    world.put(device("b", 2, 500, &[(100, 3)]));
    world.run_until(3_600_000 - 1);
    assert_eq!((world.good("a"), world.good("b"), world.reports.len()), (3600, 7200, 10_800));
    // No drift: the last poll lies on the grid as the first does.
    let a = world.reports_of("a");
    for (k, report) in a.iter().enumerate().skip(1) {
        assert_eq!(report.cycle, Cycle(k as u64 + 1));
        // b has the nearer deadline and goes first.
        assert_eq!(report.started.mono.0.as_millis() as usize, k * 1000 + 7);
        assert_eq!(outcomes(report), [(0, 2, registers(&[0, 1])), (4, 1, registers(&[4]))]);
    }
    let counters = world.bus.counters();
    assert_eq!((counters.traffic.requests, counters.traffic.replies), (14_400, 14_400));
    assert_eq!(counters.busy, Duration::from_millis(14_400 * 7));
    assert_eq!(counters.traffic.round_trip.counts[3], 14_400);
    assert_eq!(world.connection, 1);
}

#[test]
fn the_first_polls_spread_over_the_period_and_come_within_a_second() {
    let mut world = World::new(BusOptions { in_flight: 16, ..BusOptions::default() }, good_after(1));
    for unit in 0..100 {
        world.put(device(&format!("press-{unit}"), unit, 60_000, &[(0, 1)]));
    }
    world.run_until(1100);
    assert_eq!(world.asked.len(), 100);
    let mut tenths = [0; 11];
    world.asked.iter().for_each(|a| tenths[(a.at_ms / 100) as usize] += 1);
    assert!(tenths.iter().all(|n| *n <= 25), "{tenths:?}");
}

#[test]
fn a_replaced_device_goes_on_counting_and_the_old_reply_is_not_its_own() {
    let mut world = World::new(at_once(), good_after(100));
    world.put(device("one", 1, 1000, &[(0, 1)]));
    world.run_until(50);
    let mut newer = device("one", 1, 1000, &[(50, 1)]);
    newer.generation = Generation(2);
    world.put(newer);
    world.run_until(900);
    assert_eq!(world.reports.len(), 1);
    let report = &world.reports[0].1;
    assert_eq!((report.generation, report.cycle), (Generation(2), Cycle(2)));
    assert_eq!(outcomes(report), [(50, 1, registers(&[50]))]);
    // The link was not free before the old reply had come.
    assert_eq!(world.asked.iter().map(|a| (a.at_ms, a.address)).collect::<Vec<_>>(), [(1, 0), (101, 50)]);
}

#[test]
fn a_device_that_cannot_be_planned_is_refused_and_changes_nothing() {
    let mut world = World::new(at_once(), good_after(1));
    world.put(device("one", 1, 1000, &[(0, 1)]));
    let mut wide = device("one", 1, 1000, &[(0, 20)]);
    wide.limits.registers_per_read = 10;
    assert_eq!(world.bus.put(world.now, wide).unwrap_err()[0].0, GroupId(0));
    world.run_until(2500);
    assert_eq!(world.good("one"), 3);
}

#[test]
fn skew_is_told_by_first_reply_and_end() {
    let mut world = World::new(at_once(), good_after(10));
    world.put(device("one", 1, 1000, &[(0, 1), (10, 1), (20, 1)]));
    world.run_until(500);
    let report = &world.reports[0].1;
    assert_eq!(report.ended.mono.since(report.first_reply.mono), Duration::from_millis(20));
    assert_eq!(report.first_reply.mono.since(report.started.mono), Duration::from_millis(10));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_from_outside_panic_or_are_believed_wrongly(
        noise in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..60),
        closes in any::<u64>(),
    ) {
        let mut turn = 0;
        let mut world = World::new(BusOptions { in_flight: 3, ..at_once() }, move |asked: &Asked| {
            turn += 1;
            let mut bytes = noise[turn % noise.len()].clone();
            // Near misses: the right beginning, then noise.
            let right = addresses(asked);
            let keep = bytes.len().min(right.len()) / 2;
            bytes[..keep].copy_from_slice(&right[..keep]);
            let mut out = vec![(3, Far::Bytes(bytes)), (9, Far::Bytes(right))];
            if closes >> (turn % 64) & 1 == 1 {
                out.push((6, Far::Close));
            }
            out
        });
        for unit in 1..=4 {
            world.put(device(&format!("d{unit}"), unit, 200, &[(0, 2), (9, 1)]));
        }
        world.run_until(20_000);
        for (_, report) in &world.reports {
            let parts = outcomes(report);
            prop_assert_eq!(parts.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(), [(0, 2), (9, 1)]);
        }
        prop_assert!(world.bus.in_flight.len() <= 3);
        prop_assert!(world.bus.tx.len() <= 3 * 12);
    }
}

#[test]
fn shd_012_a_cycle_is_reported_once_all_its_parts_have_come() {
    let mut world = World::new(at_once(), good_after(40));
    // Three requests, 40 ms each; the link is up after 1 ms.
    world.put(device("drive", 1, 1000, &[(0, 1), (500, 2), (900, 4)]));
    world.run_until(120);
    assert_eq!((world.asked.len(), world.reports.len()), (3, 0), "nothing is told of a cycle under way");
    world.run_until(500);
    let (at, report) = &world.reports[0];
    assert_eq!((*at, world.reports.len()), (121, 1));
    let ms = |stamp: Stamp| stamp.mono.0.as_millis();
    assert_eq!((ms(report.started), ms(report.first_reply), ms(report.ended)), (1, 41, 121));
    assert_eq!(report.groups[0].parts.iter().map(|p| ms(p.received)).collect::<Vec<_>>(), [41, 81, 121]);
}

#[test]
fn a_device_put_anew_keeps_the_silence_that_it_is_due() {
    let mut world = World::new(at_once(), good_after(5));
    let slow = |every_ms| {
        let mut setup = device("drive", 1, every_ms, &[(0, 1)]);
        setup.timing.turnaround = Duration::from_millis(40);
        setup
    };
    world.put(slow(1000));
    world.run_until(10);
    // Asked when connected, answered at 6 ms: it may be spoken to from 46 ms on, whatever its files say since.
    world.put(slow(500));
    world.run_until(100);
    assert_eq!(world.asked.iter().map(|a| a.at_ms).collect::<Vec<_>>(), [1, 46]);
}

#[test]
fn f03_a_converter_with_its_own_transaction_ids_is_bad_or_believed_by_choice() {
    for ignore_transaction_id in [false, true] {
        let options = BusOptions { ignore_transaction_id, in_flight: 4, ..at_once() };
        let mut world = World::new(options, |_: &Asked| {
            vec![(5, Far::Bytes(hex("FF 02 00 00 00 13 01 03 10 00 05 00 01 01 04 30 30 30 30 30 30 30 30 30 30")))]
        });
        world.put(device("one", 1, 1000, &[(3, 8)]));
        world.run_until(60_900);
        assert_eq!(world.good("one"), if ignore_transaction_id { 61 } else { 0 });
        let counters = world.bus.counters();
        assert_eq!(counters.reconnects, 0);
        assert_eq!(counters.transaction_mismatch >= 10, !ignore_transaction_id);
        assert_eq!(world.most_in_flight, 1);
    }
}

#[test]
fn f29_the_connection_is_closed_between_cycles_where_asked_for() {
    let options = BusOptions { close_after_cycle: true, ..at_once() };
    let mut world = World::new(options, good_after(10));
    world.put(device("one", 1, 1000, &[(0, 1), (10, 1)]));
    for second in 0..5 {
        world.run_until(second * 1000 + 500);
        assert!(matches!(world.bus.link, LinkState::Down { .. }), "free for others at {second}.5 s");
    }
    assert_eq!((world.good("one"), world.bus.counters().reconnects), (5, 4));
}
