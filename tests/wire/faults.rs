//! Each fault of the field, fed as it was seen, and what must come of it.

use crate::world::{Asked, Link, Said, World, device, hex, outcomes};
use fieldshadow::codec::Decoder;
use fieldshadow::document::Document;
use fieldshadow::modbus::mbap::Deframer;
use fieldshadow::modbus::{Table, UnitId};
use fieldshadow::model::{Condition, Cycle, DeviceId, Generation, Reading, Reason, Value as Decoded};
use fieldshadow::poll::{CycleReport, LinkCounters, PartOutcome, UnitSetup};
use fieldshadow::profile::{Intervals, parse};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

/// What went either way while the faults were played, by fault.
type Fed = BTreeMap<String, Vec<Vec<u8>>>;

fn data() -> Value {
    serde_json::from_str(include_str!("../data/faults-wire.json")).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value[key].as_u64()
}

/// The bytes of a reply, as pieces with their times.
fn said(reply: &Value, asked: &Asked, link: Link) -> Vec<Said> {
    let bytes = match (reply["hex"].as_str(), reply["pdu"].as_str()) {
        (Some(whole), None) => hex(whole),
        (None, Some(pdu)) => link.wrap(asked, &hex(pdu)),
        _ => panic!("a reply has `hex` or `pdu`: {reply}"),
    };
    let after = number(reply, "after_ms").unwrap();
    let gap = number(reply, "gap_ms").unwrap_or(0);
    let pieces = list(reply, "pieces").iter().map(|n| n.as_u64().unwrap() as usize).collect::<Vec<_>>();
    let mut rest = bytes.as_slice();
    let mut out = Vec::new();
    for (i, len) in (0u64..).zip(if pieces.is_empty() { vec![rest.len()] } else { pieces }) {
        let (piece, after_it) = rest.split_at(len);
        out.push((after + i * gap, piece.to_vec()));
        rest = after_it;
    }
    assert!(rest.is_empty(), "pieces do not make the whole: {reply}");
    out
}

fn link(case: &Value) -> Link {
    match case["link"].as_str().unwrap() {
        "tcp" => Link::Tcp,
        "rtu" => Link::Rtu { echo: case["echo"] == true },
        "rtu_over_tcp" => Link::RtuOverTcp,
        other => panic!("no such link: {other}"),
    }
}

/// Plays one case to its end. Before its first exchange the device answers each request well.
fn play(case: &Value, byte_by_byte: bool) -> (World, usize) {
    let link = link(case);
    let exchanges: Vec<Value> = list(case, "exchanges").to_vec();
    let first = hex(exchanges[0]["request"].as_str().unwrap());
    let done: Rc<RefCell<Option<usize>>> = Rc::default();
    let (set, title) = (Rc::clone(&done), case["title"].to_string());
    let answer = move |asked: &Asked| {
        let mut next = set.borrow_mut();
        let Some(index) = next.or((asked.raw == first).then_some(0)) else {
            return vec![(2, link.wrap(asked, &asked.own_addresses()))];
        };
        *next = Some(index + 1);
        let Some(exchange) = exchanges.get(index) else { return vec![] };
        assert_eq!(asked.raw, hex(exchange["request"].as_str().unwrap()), "{title}: request {index}");
        list(exchange, "replies").iter().flat_map(|r| said(r, asked, link)).collect()
    };
    let mut world = World::new(link, answer);
    world.byte_by_byte = byte_by_byte;
    world.greeting = case["greeting"].as_str().map(hex).unwrap_or_default();
    let made = &case["device"];
    let table = if made["table"] == "coil" { Table::Coil } else { Table::HoldingRegister };
    let values: Vec<(u16, u16)> = serde_json::from_value(made["values"].clone()).unwrap();
    let mut setup = device(number(made, "unit").unwrap() as u8, table, 2000, &values);
    if let Some(retries) = number(made, "retries") {
        setup.timing.retries = retries as u32;
    }
    world.put(setup);
    let cycles = list(case, "cycles").len();
    world.run(100_000_000, |_| done.borrow().is_some());
    assert!(done.borrow().is_some(), "{}: its first request never came", case["title"]);
    let before = world.reports.len();
    world.run(100_000_000, |w| w.reports.len() >= before + cycles);
    let (made, all) = (done.borrow().unwrap(), list(case, "exchanges").len());
    assert!(made == all || (made < all && case["may_end_early"] == true), "{}: {made} of {all}", case["title"]);
    (world, before)
}

fn assert_outcome(expected: &Value, outcome: &PartOutcome, title: &str) {
    let values = |key: &str| serde_json::from_value::<Vec<u16>>(expected[key].clone()).ok();
    let fits = if let Some(words) = values("registers") {
        *outcome == PartOutcome::Registers(words)
    } else if let Some(words) = values("registers_or_none") {
        *outcome == PartOutcome::Registers(words) || matches!(outcome, PartOutcome::Fault(_))
    } else if let Some(on) = values("bits_on") {
        let count = number(expected, "count").unwrap() as u16;
        *outcome == PartOutcome::Bits((0..count).map(|i| on.contains(&i)).collect())
    } else if let Some(code) = number(expected, "refused") {
        *outcome == PartOutcome::Refused(code as u8)
    } else if let Some(reason) = expected["fault"].as_str() {
        matches!(outcome, PartOutcome::Fault(r) if r.to_string() == reason)
    } else {
        assert_eq!(*expected, "no_value", "{title}: no such expectation");
        matches!(outcome, PartOutcome::Fault(_))
    };
    assert!(fits, "{title}: expected {expected}, outcome {outcome:?}");
}

fn counter(counters: &LinkCounters, name: &str) -> u64 {
    match name {
        "transaction_mismatch" => counters.transaction_mismatch,
        "late_replies" => counters.late_replies,
        "lost_sync" => counters.lost_sync,
        "noise_bytes" => counters.noise_bytes,
        "reconnects" => counters.reconnects,
        "timeouts" => counters.traffic.timeouts,
        "retries" => counters.traffic.retries,
        "crc_errors" => counters.traffic.crc_errors,
        "unit_mismatch" => counters.traffic.unit_mismatch,
        "function_mismatch" => counters.traffic.function_mismatch,
        "length_mismatch" => counters.traffic.length_mismatch,
        other => panic!("no such counter: {other}"),
    }
}

fn judge(case: &Value, world: &World, before: usize) {
    let name = format!("{} ({})", case["fault"].as_str().unwrap(), case["title"].as_str().unwrap());
    for (cycle, (_, report)) in list(case, "cycles").iter().zip(&world.reports[before..]) {
        let parts = outcomes(report);
        let expected = cycle.as_array().unwrap();
        assert_eq!(parts.len(), expected.len(), "{name}: {parts:?}");
        for (e, (_, outcome)) in expected.iter().zip(&parts) {
            assert_outcome(e, outcome, &name);
        }
        if let Some(most) = number(case, "within_ms") {
            let took = report.ended.mono.since(report.started.mono).as_millis();
            assert!(took < u128::from(most), "{name}: took {took} ms");
        }
    }
    let counters = world.bus.counters();
    for (key, expected) in case["counters"].as_object().unwrap() {
        assert_eq!(Some(counter(&counters, key)), expected.as_u64(), "{name}: {key} of {counters:?}");
    }
}

fn note(fed: &mut Fed, fault: &str, world: &World) {
    let streams = fed.entry(fault.to_owned()).or_default();
    streams.extend(world.received.iter().cloned());
    streams.extend(world.asked.iter().map(|a| a.raw.clone()));
}

/// Plays the table: each case as its pieces come, and byte by byte.
fn play_all(fed: &mut Fed) {
    for case in list(&data(), "cases") {
        for byte_by_byte in [false, true] {
            let (world, before) = play(case, byte_by_byte);
            judge(case, &world, before);
            note(fed, case["fault"].as_str().unwrap(), &world);
        }
    }
}

/// The `n`th byte string given for a fault.
fn given(fault: &str, n: usize) -> Vec<u8> {
    hex(data()["given"][fault][n].as_str().unwrap())
}

/// F36: a reference number and a wire address ask for the same, and the floats are the meter's.
fn reference_numbers(fed: &mut Fed) {
    let words = given("F36", 0);
    for (positions, head) in [
        (["address: 30001", "address: 30003"], "numbering: modicon\n"),
        (["address: 0, table: input", "address: 2, table: input"], ""),
    ] {
        let text = format!(
            "profile: test/meter\nversion: 1.0.0\ntitle: two floats\nverified: false\n{head}groups:\n  all:\n    every: 1s\n    \
             points:\n      a: {{{}, type: f32}}\n      b: {{{}, type: f32}}\n",
            positions[0], positions[1]
        );
        let document = Document::parse("meter.yaml", &text).unwrap();
        let profile = parse(&document).unwrap_or_else(|e| panic!("{}", e.render()));
        let layout = profile.layout(&Intervals::new());
        let name = DeviceId::new("device").unwrap();
        let setup = UnitSetup::from_profile(name, Generation(1), UnitId(1), &profile, &layout, Cycle(1));
        let reply = [&[4, 8], &words[..]].concat();
        let mut world = World::new(Link::Tcp, move |asked| vec![(5, Link::Tcp.wrap(asked, &reply))]);
        world.put(setup);
        world.run(500, |_| false);
        let asked: Vec<_> = world.asked.iter().map(|a| (a.function, a.address, a.quantity)).collect();
        assert_eq!(asked, [(4, 0, 4)], "F36: {positions:?}");
        let batch = Decoder::new(&profile).decode(&world.reports[0].1);
        let values: Vec<f64> = batch
            .readings
            .iter()
            .map(|(_, r)| match r {
                Reading::Good(Decoded::F32(v)) => f64::from(*v),
                other => panic!("F36: {other:?}"),
            })
            .collect();
        assert_eq!(values, [230.5, 231.25]);
        note(fed, "F36", &world);
    }
}

/// F39: one refused register among thirteen costs itself only.
fn a_hole_in_a_block(fed: &mut Fed) {
    let refusal = given("F39", 0);
    let mut world = World::new(Link::Tcp, move |asked| {
        let pdu = if asked.touches(2709) { refusal.clone() } else { asked.own_addresses() };
        vec![(2, Link::Tcp.wrap(asked, &pdu))]
    });
    let values: Vec<_> = (2700..=2712).map(|a| (a, 1)).collect();
    world.put(device(1, Table::HoldingRegister, 1000, &values));
    world.run(900, |_| false);
    assert!(world.asked.len() <= 4 + 13, "F39: {} requests", world.asked.len());
    let first = world.asked.len();
    world.run(10_500, |_| false);
    for (_, report) in &world.reports {
        let mut seen = Vec::new();
        for (start, outcome) in outcomes(report) {
            match outcome {
                PartOutcome::Registers(words) => seen.extend(words),
                PartOutcome::Refused(2) => assert_eq!(start, 2709),
                other => panic!("F39: {other:?}"),
            }
        }
        assert_eq!(seen, (2700..=2712).filter(|a| *a != 2709).collect::<Vec<_>>());
    }
    assert!(world.asked[first..].iter().all(|a| !a.touches(2709) || a.quantity == 1));
    assert_eq!(world.reports.len(), 11);
    note(fed, "F39", &world);
}

/// F46: refusals in a time of noise do not end a register that worked.
fn refusals_of_noise(fed: &mut Fed) {
    let refusal = given("F46", 0);
    let mut count = 0;
    let mut world = World::new(Link::Tcp, move |asked| {
        count += 1;
        let pdu = if (11..=15).contains(&count) { refusal.clone() } else { asked.own_addresses() };
        vec![(2, Link::Tcp.wrap(asked, &pdu))]
    });
    world.put(device(1, Table::HoldingRegister, 1000, &[(7, 1)]));
    world.run(200_000, |_| false);
    let good = |r: &CycleReport| outcomes(r) == [(7, PartOutcome::Registers(vec![7]))];
    let bad: Vec<u64> = world.reports.iter().filter(|(_, r)| !good(r)).map(|(at, _)| *at).collect();
    assert!(bad.len() >= 5 && bad[0] == 10_002, "F46: {bad:?}");
    assert!(*bad.last().unwrap() <= 75_000, "F46: still bad at {} ms", bad.last().unwrap());
    assert!(world.reports.iter().all(|(_, r)| r.condition == Condition::Reachable));
    note(fed, "F46", &world);
}

/// F47: a device that stays busy gives no value, and no zero.
fn busy_for_ever(fed: &mut Fed) {
    let busy = given("F47", 0);
    let mut world = World::new(Link::Tcp, move |asked| vec![(2, Link::Tcp.wrap(asked, &busy))]);
    world.put(device(1, Table::HoldingRegister, 5000, &[(0, 1)]));
    world.run(11_000, |_| false);
    assert!(world.asked.len() >= 10, "F47: {} requests", world.asked.len());
    for (_, report) in &world.reports {
        assert_eq!(outcomes(report), [(0, PartOutcome::Fault(Reason::Exception(6)))]);
        assert_eq!(report.condition, Condition::Reachable);
    }
    note(fed, "F47", &world);
}

/// F49 is about writes: their refusals are cut and kept whatever their code.
fn codes_of_vendors(fed: &mut Fed) {
    for (n, transaction, pdu) in [(0, 5, [0x86, 0x80]), (1, 6, [0x90, 0x00])] {
        let bytes = given("F49", n);
        let mut deframer = Deframer::default();
        let (adu, done) = deframer.next(&bytes).unwrap();
        let adu = adu.unwrap();
        assert_eq!((adu.transaction.0, adu.unit, adu.pdu, done), (transaction, UnitId(1), &pdu[..], bytes.len()));
        fed.entry("F49".to_owned()).or_default().push(bytes);
    }
}

fn everything() -> Fed {
    let mut fed = Fed::new();
    play_all(&mut fed);
    reference_numbers(&mut fed);
    a_hole_in_a_block(&mut fed);
    refusals_of_noise(&mut fed);
    busy_for_ever(&mut fed);
    codes_of_vendors(&mut fed);
    fed
}

/// Bytes given for a fault that none of its streams holds.
fn not_fed(given: &Value, fed: &Fed) -> Vec<String> {
    let mut missing = Vec::new();
    for (fault, strings) in given.as_object().unwrap() {
        for text in strings.as_array().unwrap() {
            let bytes = hex(text.as_str().unwrap());
            let streams = fed.get(fault).map_or(&[][..], Vec::as_slice);
            if !streams.iter().any(|s| s.windows(bytes.len()).any(|w| w == bytes)) {
                missing.push(format!("{fault}: {}", text.as_str().unwrap()));
            }
        }
    }
    missing
}

#[test]
fn every_fault_comes_out_as_it_must_and_all_its_bytes_were_fed() {
    let fed = everything();
    let given = &data()["given"];
    assert_eq!(not_fed(given, &fed), Vec::<String>::new());
    // The alarm works: a byte changed, or a fault not played, is found.
    let mut less = fed.clone();
    less.remove("F22");
    assert_eq!(not_fed(given, &less), ["F22: 00 11 22 33 44 55"]);
    assert_eq!(not_fed(&serde_json::json!({"F16": ["01 03 02 00 2B 39 9B 00 00 FF"]}), &fed).len(), 1);
}

/// Strings of bytes in a text, by the fault whose heading they stand under: two or more groups of 2, 4 or 8 capital hex
/// digits with single spaces between.
fn byte_strings(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut fault = String::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            heading.split(' ').next().unwrap().clone_into(&mut fault);
        }
        let mut run: Vec<&str> = Vec::new();
        // A word ends at anything but letters and digits; what touches a mark on both sides is no part of a run.
        for word in line.split_inclusive(|c: char| !c.is_ascii_alphanumeric()).chain([""]) {
            let digits = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            let is_group = matches!(digits.len(), 2 | 4 | 8)
                && digits.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
            if is_group {
                run.push(digits);
            }
            if !is_group || !word.ends_with(' ') {
                if run.len() > 1 {
                    found.push((fault.clone(), hex(&run.concat())));
                }
                run.clear();
            }
        }
    }
    found
}

#[test]
fn the_data_has_every_byte_string_of_the_fields_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/faults.md");
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("skipped: no ../shared");
        return;
    };
    let families = &text[text.find("\n## A.").unwrap()..text.find("\n## F.").unwrap()];
    let found = byte_strings(families);
    // Counted by hand and eye once: a reader that finds less has gone blind.
    assert!(found.len() >= 29, "only {} byte strings found", found.len());
    let data = data();
    for (fault, bytes) in found {
        let ours = list(&data["given"], &fault);
        assert!(
            ours.iter().any(|t| hex(t.as_str().unwrap()) == bytes),
            "{fault}: {bytes:02X?} is not in tests/data/faults-wire.json"
        );
    }
}

#[test]
fn byte_strings_are_found_where_they_stand() {
    let text = "### F01 x\nsend `00 15 00`, then 0015 and 4366 8000 = 230.5\n### F02 y\nRX 0000 00000014 and 30x10, 95 % of 12\n";
    let found = byte_strings(text);
    let expected = [("F01", "00 15 00"), ("F01", "4366 8000"), ("F02", "0000 00000014")];
    assert_eq!(found, expected.map(|(f, h)| (f.to_owned(), hex(h))));
}
