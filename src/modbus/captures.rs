//! Real traffic, cut by us and by another dissector: both must see the same frames.

use super::mbap::Deframer;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Source and destination, each with its port.
type Flow = (String, u16, String, u16);
/// Transaction id, unit id, function code without the exception bit, exception code.
type Frame = (u16, u8, u8, Option<u8>);

/// The TCP payloads of a capture (classic format, Ethernet, IPv4), by flow and in order, repetitions left out.
fn flows(pcap: &[u8]) -> BTreeMap<Flow, Vec<Vec<u8>>> {
    let mut flows: BTreeMap<Flow, (u32, Vec<Vec<u8>>)> = BTreeMap::new();
    let mut rest = &pcap[24..];
    while rest.len() >= 16 {
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
        let host = |b: &[u8]| format!("{}.{}.{}.{}", b[0], b[1], b[2], b[3]);
        let port = |b: &[u8]| u16::from_be_bytes([b[0], b[1]]);
        let seq = u32::from_be_bytes(tcp[4..8].try_into().unwrap());
        let flow = (host(&ip[12..16]), port(&tcp[..2]), host(&ip[16..20]), port(&tcp[2..4]));
        if payload.is_empty() {
            continue;
        }
        let (next, segments) = flows.entry(flow).or_insert((seq, Vec::new()));
        // Bytes seen before go; a gap in the capture is passed over.
        let seen = next.wrapping_sub(seq) as i32;
        let fresh = if seen > 0 { payload.get(seen as usize..).unwrap_or_default() } else { payload };
        if !fresh.is_empty() {
            segments.push(fresh.to_vec());
            *next = seq.wrapping_add(payload.len() as u32);
        }
    }
    flows.into_iter().map(|(flow, (_, segments))| (flow, segments)).collect()
}

/// All frames, or those before the stream was lost.
fn ours(segments: &[Vec<u8>], chunk: usize) -> (Vec<Frame>, bool) {
    let mut deframer = Deframer::default();
    let mut frames = Vec::new();
    for mut rest in segments.iter().flat_map(|s| s.chunks(chunk)) {
        loop {
            let Ok((adu, done)) = deframer.next(rest) else { return (frames, true) };
            rest = &rest[done..];
            let Some(adu) = adu else { break };
            let code = (adu.pdu[0] >= 0x80).then(|| adu.pdu[1]);
            frames.push((adu.transaction.0, adu.unit.0, adu.pdu[0] & 0x7F, code));
        }
    }
    (frames, false)
}

fn theirs(table: &str) -> BTreeMap<Flow, Vec<Frame>> {
    let mut flows: BTreeMap<Flow, Vec<Frame>> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let flow = (cells[2].into(), cells[3].parse().unwrap(), cells[4].into(), cells[5].parse().unwrap());
        let list = |i: usize| cells[i].split(',').filter(|c| !c.is_empty());
        // One frame of several in a segment may be an exception; none of these captures has that.
        let code = list(16).next().map(|c| c.parse().unwrap());
        let frames = flows.entry(flow).or_default();
        for ((tid, unit), function) in list(6).zip(list(9)).zip(list(10)) {
            frames.push((tid.parse().unwrap(), unit.parse().unwrap(), function.parse().unwrap(), code));
        }
    }
    flows
}

#[test]
fn captures_are_cut_as_another_dissector_cuts_them() {
    let data = Path::new("../shared/data");
    if !data.exists() {
        println!("skipped: no ../shared");
        return;
    }
    let (mut compared, mut exceptions) = (0, 0);
    for name in [
        "pcap-iti/modbus_test",
        "pcap-iti/modbus_test_data_part1",
        "pcap-iti/modbus_test_data_part2",
        "pcap-icsnpp/modbus_example",
        "pcap-zeek/modbusSmall",
    ] {
        let file = name.rsplit('/').next().unwrap();
        let pcap = std::fs::read(data.join(format!("{name}.pcap"))).unwrap();
        let packed = data.join(format!("pcap-oracle/{file}.tshark.tsv.gz"));
        let Ok(unpacked) = Command::new("gzip").arg("-dc").arg(packed).output() else {
            println!("skipped: no gzip");
            return;
        };
        let ours_by_flow = flows(&pcap);
        for (flow, expected) in theirs(&String::from_utf8(unpacked.stdout).unwrap()) {
            for chunk in [usize::MAX, 1, 7] {
                let (frames, lost) = ours(&ours_by_flow[&flow], chunk);
                // Part 1 has peers that break the rules: protocol id 16, a length of 34820, bytes after the end.
                assert!(!lost || file == "modbus_test_data_part1", "{name} {flow:?}");
                let expected = if lost { &expected[..frames.len()] } else { &expected[..] };
                assert_eq!(frames, expected, "{name} {flow:?} in chunks of {chunk}");
                compared += frames.len();
                exceptions += frames.iter().filter(|f| f.3.is_some()).count();
            }
        }
    }
    assert!(compared > 3 * 2000 && exceptions > 3 * 10, "{compared} frames, {exceptions} exceptions");
}
