//! Real traffic through the deframer and the matcher, beside what another dissector saw in it: the same frames, the same
//! values, and each reply with the request that was its own.

use fieldshadow::modbus::mbap::Deframer;
use fieldshadow::modbus::{Address, AddressRange, Table, UnitId};
use fieldshadow::poll::{Awaited, PartOutcome, Verdict, judge};
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;

/// Host and port.
type End = ([u8; 4], u16);

/// One TCP segment with fresh bytes.
struct Segment {
    frame: u32,
    from: End,
    to: End,
    bytes: Vec<u8>,
}

/// All segments of a capture (classic format, Ethernet, IPv4) in order, without what was sent again.
fn segments(pcap: &[u8]) -> Vec<Segment> {
    let mut next: BTreeMap<(End, End), u32> = BTreeMap::new();
    let mut found = Vec::new();
    let mut rest = &pcap[24..];
    let mut frame = 0;
    while rest.len() >= 16 {
        frame += 1;
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let packet = &rest[16..16 + len];
        rest = &rest[16 + len..];
        if packet.len() < 54 || packet[12..14] != [8, 0] || packet[23] != 6 {
            continue;
        }
        let ip = &packet[14..];
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]])).min(ip.len());
        let tcp = &ip[usize::from(ip[0] & 15) * 4..total];
        let payload = &tcp[usize::from(tcp[12] >> 4) * 4..];
        let end = |host: &[u8], port: &[u8]| (host.try_into().unwrap(), u16::from_be_bytes([port[0], port[1]]));
        let (from, to) = (end(&ip[12..16], &tcp[..2]), end(&ip[16..20], &tcp[2..4]));
        let seq = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
        if payload.is_empty() {
            continue;
        }
        let awaited = next.entry((from, to)).or_insert(seq);
        // Bytes seen before go; a gap in the capture is passed over.
        let seen = awaited.wrapping_sub(seq) as i32;
        let fresh = if seen > 0 { payload.get(seen as usize..).unwrap_or_default() } else { payload };
        if !fresh.is_empty() {
            *awaited = seq.wrapping_add(payload.len() as u32);
            found.push(Segment { frame, from, to, bytes: fresh.to_vec() });
        }
    }
    found
}

/// What the other dissector saw in one frame; lists have one entry for each ADU, values are of all of them in a row.
#[derive(Debug)]
struct Row {
    transactions: Vec<u32>,
    units: Vec<u32>,
    functions: Vec<u32>,
    requests: Vec<u32>,
    exceptions: Vec<u32>,
    registers: Vec<u32>,
    bits: Vec<u32>,
}

/// By the number of the frame.
fn theirs(table: &str) -> BTreeMap<u32, Row> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let list = |i: usize| -> Vec<u32> {
            let cell = cells.get(i).copied().unwrap_or("");
            cell.split(',').filter(|c| !c.is_empty()).map(number).collect()
        };
        let row = Row {
            transactions: list(6),
            units: list(9),
            functions: list(10),
            requests: list(15),
            exceptions: list(16),
            registers: list(18),
            bits: list(20),
        };
        (number(cells[0]), row)
    };
    table.lines().skip(1).filter(|l| !l.is_empty()).map(row).collect()
}

fn number(cell: &str) -> u32 {
    match cell {
        "True" => 1,
        "False" => 0,
        other => other.parse().unwrap_or_else(|_| panic!("no number: {other}")),
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Ear {
    deframer: Deframer,
    lost: bool,
    /// A frame of before ended in a segment of now: who counts by segment sees it elsewhere.
    pending: bool,
}

#[derive(Debug, Default)]
struct Tally {
    adus: usize,
    values: usize,
    exceptions: usize,
    /// Attributed to the frame of which the other dissector says so too.
    agreed: usize,
    /// Replies that nobody asked for in the capture.
    strays: usize,
}

/// A read in flight, with the frame that asked for it.
type Pending = (u32, Awaited);

fn follow(name: &str, pcap: &[u8], table: &str, chunk: usize, asked: fn(Awaited) -> Awaited) -> Tally {
    let rows = theirs(table);
    let mut ears: BTreeMap<(End, End), Ear> = BTreeMap::new();
    let mut pending: BTreeMap<(End, End), Vec<Pending>> = BTreeMap::new();
    let mut tally = Tally::default();
    for segment in segments(pcap).iter().filter(|s| s.from.1 == 502 || s.to.1 == 502) {
        let ear = ears.entry((segment.from, segment.to)).or_default();
        if ear.lost {
            continue;
        }
        let mut adus: Vec<(u16, u8, Vec<u8>)> = Vec::new();
        let mut outcomes = Vec::new();
        let is_reply = segment.from.1 == 502;
        let connection = if is_reply { (segment.to, segment.from) } else { (segment.from, segment.to) };
        let flights = pending.entry(connection).or_default();
        let began_whole = !ear.pending;
        'segment: for mut rest in segment.bytes.chunks(chunk) {
            loop {
                let Ok((adu, done)) = ear.deframer.next(rest) else {
                    ear.lost = true;
                    break 'segment;
                };
                ear.pending = adu.is_none() && (ear.pending || !rest.is_empty());
                rest = &rest[done..];
                let Some(adu) = adu else { break };
                ear.pending = false;
                adus.push((adu.transaction.0, adu.unit.0, adu.pdu.to_vec()));
                if is_reply {
                    let verdict = judge(&adu, flights.iter().map(|(_, awaited)| *awaited), false);
                    match verdict {
                        Verdict::Values(i, outcome) => outcomes.push((Some(flights.remove(i).0), Some(outcome), None)),
                        Verdict::Exception(i, code) => outcomes.push((Some(flights.remove(i).0), None, Some(code))),
                        _ => outcomes.push((None, None, None)),
                    }
                } else if let [function @ 1..=4, a, b, c, d] = *adu.pdu
                    && let Some(range) =
                        AddressRange::new(Address(u16::from_be_bytes([a, b])), u16::from_be_bytes([c, d]))
                {
                    let table = Table::ALL.into_iter().find(|t| t.read_function() == function).unwrap();
                    // A client that uses a transaction id again has given the older request up.
                    flights.retain(|(_, f)| f.transaction != adu.transaction);
                    let awaited = Awaited { transaction: adu.transaction, unit_id: adu.unit, table, range };
                    flights.push((segment.frame, asked(awaited)));
                }
            }
        }
        let Some(row) = rows.get(&segment.frame).filter(|_| !ear.lost && began_whole && !ear.pending) else { continue };
        compare(name, segment.frame, row, &adus, &outcomes, &mut tally);
    }
    tally
}

/// Frame of the request, values, exception code.
type Outcome = (Option<u32>, Option<PartOutcome>, Option<u8>);

fn compare(name: &str, frame: u32, row: &Row, adus: &[(u16, u8, Vec<u8>)], outcomes: &[Outcome], tally: &mut Tally) {
    let at = format!("{name}, frame {frame}: {row:?}");
    let list = |f: fn(&(u16, u8, Vec<u8>)) -> u32| adus.iter().map(f).collect::<Vec<_>>();
    assert_eq!(list(|a| u32::from(a.0)), row.transactions, "{at}");
    assert_eq!(list(|a| u32::from(a.1)), row.units, "{at}");
    assert_eq!(list(|a| u32::from(a.2[0] & 0x7F)), row.functions, "{at}");
    tally.adus += adus.len();
    if adus.len() > 1 {
        // Theirs are in one list: whose they are does not show.
        return;
    }
    let [(request, values, code)] = outcomes else { return };
    if let Some(code) = code {
        assert_eq!(row.exceptions, [u32::from(*code)], "{at}");
        tally.exceptions += 1;
    }
    match values {
        Some(PartOutcome::Registers(words)) => {
            assert_eq!(words.iter().map(|w| u32::from(*w)).collect::<Vec<_>>(), row.registers, "{at}");
            tally.values += words.len();
        }
        Some(PartOutcome::Bits(bits)) => {
            // Theirs has the filling of the last byte too.
            let ours: Vec<u32> = bits.iter().map(|b| u32::from(*b)).collect();
            assert_eq!(Some(&ours[..]), row.bits.get(..ours.len()), "{at}");
            tally.values += bits.len();
        }
        Some(other) => panic!("{at}: {other:?}"),
        None => {}
    }
    if let (Some(request), [theirs]) = (request, &row.requests[..]) {
        assert_eq!(request, theirs, "{at}: attributed to another request");
        tally.agreed += 1;
    }
    if request.is_none() {
        tally.strays += 1;
        // A read's reply is nobody's only where the dissector found no request either.
        assert!(!(1..=4).contains(&row.functions[0]) || row.requests.is_empty(), "{at}: not attributed");
    }
}

#[test]
fn captured_replies_decode_as_another_dissector_says_and_find_their_requests() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    if !data.exists() {
        println!("skipped: no ../shared");
        return;
    }
    let mut all = Tally::default();
    for name in [
        "pcap-iti/modbus_test",
        "pcap-iti/modbus_test_data_part1",
        "pcap-iti/modbus_test_data_part2",
        "pcap-icsnpp/modbus_example",
        "pcap-zeek/modbusSmall",
        "pcap-zeek/4SICS-GeekLounge-151022-min",
        "pcap-zeek/fuzz-1011",
        "pcap-zeek/fuzz-72",
        "pcap-zeek/modbus-and-non-modbus-p502",
        "pcap-zeek/modbus-eit",
    ] {
        let file = name.rsplit('/').next().unwrap();
        let pcap = std::fs::read(data.join(format!("{name}.pcap"))).unwrap();
        let packed = data.join(format!("pcap-oracle/{file}.tshark.tsv.gz"));
        let Ok(unpacked) = Command::new("gzip").arg("-dc").arg(packed).output() else {
            println!("skipped: no gzip");
            return;
        };
        let table = String::from_utf8(unpacked.stdout).unwrap();
        if file == "modbusSmall" {
            // The comparison sees what it should not: requests that were asked otherwise.
            let other = |awaited: Awaited| Awaited { unit_id: UnitId(awaited.unit_id.0 ^ 1), ..awaited };
            assert!(catch_unwind(|| follow("spoilt on purpose", &pcap, &table, usize::MAX, other)).is_err());
        }
        for chunk in [usize::MAX, 1, 7] {
            let one = follow(name, &pcap, &table, chunk, |awaited| awaited);
            println!("{name} in pieces of {}: {one:?}", chunk.min(9999));
            assert!(one.adus > 0, "{name}: nothing compared");
            all.adus += one.adus;
            all.values += one.values;
            all.exceptions += one.exceptions;
            all.agreed += one.agreed;
        }
    }
    // A comparison that has gone blind would find less.
    assert!(all.adus > 3 * 2600 && all.agreed > 3 * 1000 && all.values > 3 * 8000, "{all:?}");
}
