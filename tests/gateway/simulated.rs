//! Pretend devices seen by a foreign client and by raw bytes; and our own line against their faults.

use crate::harness::{Killed, fieldshadow, free_port, shared, wait_for};
use fieldshadow::gateway::{Clock, Line, Route};
use fieldshadow::modbus::{Address, AddressRange, Table, UnitId};
use fieldshadow::model::{Cycle, DeviceId, Generation, GroupId, Interval};
use fieldshadow::poll::{BusOptions, GroupSetup, IntervalSetup, PartOutcome, UnitSetup, Wanted};
use fieldshadow::profile::{Dump, Limits, Timing};
use fieldshadow::simulate::{Faults, Framing, Pretend, serial, tcp};
use fieldshadow::transport::{LinkAddress, Parity, SerialPort};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `fieldshadow simulate` with these words; ready when this returns.
fn simulate(words: &[&str]) -> Killed {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fieldshadow"))
        .arg("simulate")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("Ctrl-C"), "{said}");
    std::thread::spawn(move || stderr.lines().count());
    Killed(child)
}

/// The values that mbpoll reads, as it prints them; nothing where there is no mbpoll.
fn mbpoll(words: &[&str]) -> Option<Vec<String>> {
    let Ok(version) = Command::new("mbpoll").arg("-V").output() else {
        println!("skipped: no mbpoll");
        return None;
    };
    println!("used: mbpoll {}", String::from_utf8_lossy(&version.stdout).trim());
    let run = Command::new("mbpoll").args(["-1", "-0"]).args(words).output().unwrap();
    let out = String::from_utf8_lossy(&run.stdout).into_owned();
    // `[72]: 	20234.9`
    Some(out.lines().filter_map(|l| l.strip_prefix('[')?.split_once("]:")).map(|(_, v)| v.trim().to_owned()).collect())
}

/// Three registers of a dump whose values a foreign client is to see: floats of function 4.
fn written(folder: &Path) -> String {
    let dump = folder.join("meter.json");
    // 230.5, 231.25 and -1.5 as IEEE 754.
    std::fs::write(&dump, r#"{"input":{"0":[17254,32768,17255,16384,49088,0]},"holding":{"7":[1450]}}"#).unwrap();
    dump.to_str().unwrap().to_owned()
}

#[test]
fn a_foreign_client_reads_simulated_devices_over_tcp() {
    let dir = tempfile::tempdir().unwrap();
    let (port, dump) = (free_port(), written(dir.path()));
    let _simulated =
        simulate(&["--device", &format!("3=eastron/sdm630:{dump}"), "--tcp", &format!("127.0.0.1:{port}")]);
    let port = port.to_string();
    let Some(floats) =
        mbpoll(&["-m", "tcp", "-p", &port, "-a", "3", "-t", "3:float", "-B", "-r", "0", "-c", "3", "127.0.0.1"])
    else {
        return;
    };
    assert_eq!(floats, ["230.5", "231.25", "-1.5"]);
    let words = mbpoll(&["-m", "tcp", "-p", &port, "-a", "3", "-t", "4", "-r", "7", "127.0.0.1"]).unwrap();
    assert_eq!(words, ["1450"]);
}

#[test]
fn a_foreign_client_reads_simulated_devices_on_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let (dump, link) = (written(dir.path()), dir.path().join("line"));
    let link = link.to_str().unwrap();
    let device = |unit: u8| format!("{unit}=eastron/sdm630:{dump}");
    let _simulated = simulate(&["--device", &device(3), "--device", &device(247), "--pty", link, "--baud", "38400"]);
    for unit in ["3", "247"] {
        let words = ["-m", "rtu", "-b", "38400", "-P", "none", "-a", unit, "-t", "3:float", "-B", "-r", "0", "-c", "3"];
        let Some(floats) = mbpoll(&[&words[..], &[link]].concat()) else { return };
        assert_eq!(floats, ["230.5", "231.25", "-1.5"], "unit {unit}");
    }
}

#[test]
fn faults_are_in_the_bytes_that_a_raw_client_sees() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let device = format!("1=eastron/sdm630:{}", written(dir.path()));
    let words = ["--device", &device, "--rtu-over-tcp", &address, "--fault", "hello=5566", "--fault", "echo"];
    let _simulated = simulate(&[&words[..], &["--fault", "busy=1", "--fault", "crc=3"]].concat());
    let mut client = TcpStream::connect(&address).unwrap();
    // Holding register 7 of unit 1 and its reply; the checksums by another implementation of theirs.
    let read = [1, 3, 0, 7, 0, 1, 0x35, 0xCB];
    let good = [1, 3, 2, 5, 0xAA, 0x3B, 0x6B];
    let mut expected = vec![0x55, 0x66];
    expected.extend([&read[..], &[1, 0x83, 6, 0xC1, 0x32]].concat());
    expected.extend([&read[..], &good].concat());
    expected.extend([&read[..], &[1, 3, 0x12, 5, 0xAA, 0x3B, 0x6B]].concat());
    for _ in 0..3 {
        client.write_all(&read).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut all = vec![0; expected.len()];
    client.read_exact(&mut all).unwrap();
    assert_eq!(all, expected);
}

#[test]
fn faults_and_devices_that_cannot_be_are_refused_with_all_that_is_wrong() {
    for (words, said) in [
        (&["--profile", "eastron/sdm630", "--tcp", "127.0.0.1:1", "--fault", "crc=1"][..], "no checksum"),
        (&["--profile", "eastron/sdm630", "--pty", "/tmp/x", "--fault", "hello=00"], "no connections"),
        (&["--profile", "eastron/sdm630", "--pty", "/tmp/x", "--unit-id", "0"], "unit 0"),
        (&["--device", "1=eastron/sdm630", "--device", "1=eastron/sdm230", "--tcp", "127.0.0.1:1"], "twice"),
        (&["--device", "eastron/sdm630", "--tcp", "127.0.0.1:1"], "UNIT=PROFILE"),
        (&["--profile", "eastron/sdm630"], "--pty"),
    ] {
        let run = fieldshadow(&[&["simulate"], words].concat());
        assert_eq!(run.code, Some(2), "{words:?}: {}", run.err);
        assert!(run.err.contains(said), "{words:?}: {}", run.err);
    }
    let run = fieldshadow(&[
        "simulate",
        "--profile",
        "eastron/sdm630",
        "--tcp",
        "127.0.0.1:1",
        "--fault",
        "a=1",
        "--fault",
        "split=0",
    ]);
    assert_eq!(run.err.trim().lines().count(), 2, "{}", run.err);
}

/// Three devices of real dumps, where they are; on this link.
fn three(link: &[&str]) -> Option<Killed> {
    let dump = |name: &str| shared(&format!("data/dumps/plain/{name}.json")).map(|p| p.to_str().unwrap().to_owned());
    let devices = [
        format!("2=eastron/sdm630:{}", dump("SDM630")?),
        format!("5=eastron/sdm230:{}", dump("SDM230")?),
        "9=inovance/is620p".to_owned(),
    ];
    let words: Vec<&str> = devices.iter().flat_map(|d| ["--device", d]).collect();
    Some(simulate(&[&words[..], link].concat()))
}

fn assert_three_found(link: &[&str]) {
    let words = ["scan", "--units", "1..10", "--rate", "200", "--timeout", "150ms"];
    let run = fieldshadow(&[&words[..], link, &["--json"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert_eq!(run.err, "", "a pipe sees no progress");
    let found: Value = serde_json::from_str(&run.out).unwrap();
    let units = found["units"].as_array().unwrap();
    assert_eq!(units.iter().map(|u| u["unit_id"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 5, 9], "{found:#}");
    let best: Vec<_> = units.iter().map(|u| u["profiles"][0]["profile"].as_str().unwrap_or("none")).collect();
    assert_eq!(best, ["eastron/sdm630", "eastron/sdm230", "inovance/is620p"], "{found:#}");
    assert_eq!(units[0]["profiles"][0]["confidence"], "likely");
    // A drive whose registers all hold 0 proves nothing.
    assert_ne!(units[2]["profiles"][0]["confidence"], "likely");
    assert!(units.iter().all(|u| u["response_ms"].as_f64().is_some_and(|ms| (0.0..150.0).contains(&ms))), "{found:#}");
}

#[test]
fn scan_finds_units_and_profiles_over_tcp() {
    let address = format!("127.0.0.1:{}", free_port());
    let Some(_simulated) = three(&["--tcp", &address]) else { return };
    assert_three_found(&["--tcp", &address]);
    let run = fieldshadow(&["scan", "--tcp", &address, "--units", "2,3", "--timeout", "100ms"]);
    assert!(run.out.contains("eastron/sdm630 (likely"), "{}", run.out);
    let run = fieldshadow(&["scan", "--tcp", &address, "--units", "30", "--timeout", "50ms"]);
    assert_eq!((run.code, run.err.trim()), (Some(1), &*format!("{address}: no unit answered")));
}

#[test]
fn scan_finds_units_and_profiles_on_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("line");
    let link = link.to_str().unwrap();
    let Some(_simulated) = three(&["--pty", link, "--baud", "115200"]) else { return };
    assert_three_found(&["--serial", link, "--baud", "115200", "--parity", "none"]);
}

#[test]
fn scan_keeps_to_its_rate_and_never_writes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let mut times = Vec::new();
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 12];
        while stream.read_exact(&mut request).is_ok() {
            times.push(Instant::now());
            assert!((1..=4).contains(&request[7]), "function {}", request[7]);
            let [t, d, ..] = request;
            stream.write_all(&[t, d, 0, 0, 0, 3, request[6], request[7] | 0x80, 2]).unwrap();
        }
        times
    });
    let run = fieldshadow(&["scan", "--tcp", &address, "--units", "1..10", "--rate", "50", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let times = server.join().unwrap();
    assert!(times.len() >= 20, "ten units, and at least one look at each of their registers: {}", times.len());
    let took = times[times.len() - 1] - times[0];
    // 20 ms apart, but for the wobble of the machine's clock at either end.
    let least = (Duration::from_millis(20) * (times.len() as u32 - 1)).checked_sub(Duration::from_millis(15)).unwrap();
    assert!(took >= least, "{} requests in {took:?}", times.len());
}

#[test]
fn watch_gives_a_line_each_time_and_ends_with_its_reader() {
    let address = format!("127.0.0.1:{}", free_port());
    let _simulated = simulate(&["--profile", "inovance/is620p", "--count", "10ms", "--tcp", &address]);
    let words = ["read", "--profile", "inovance/is620p", "--tcp", &address, "--unit-id", "1", "--watch", "300ms"];
    let mut child = Killed(
        Command::new(env!("CARGO_BIN_EXE_fieldshadow"))
            .args(words)
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let lines: Vec<Value> = BufReader::new(child.0.stdout.take().unwrap())
        .lines()
        .take(3)
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    let speeds: Vec<i64> = lines.iter().map(|l| l["reported"]["speed"]["actual"].as_i64().unwrap()).collect();
    assert!(speeds.is_sorted_by(|a, b| a < b), "{speeds:?}");
    // Its reader has gone: so does it.
    wait_for("end of read --watch", Duration::from_secs(5), || child.0.try_wait().unwrap());
}

#[test]
fn trace_shows_the_frames_on_standard_error() {
    let address = format!("127.0.0.1:{}", free_port());
    let _simulated = simulate(&["--profile", "inovance/is620p", "--tcp", &address]);
    let run = fieldshadow(&[
        "read",
        "--profile",
        "inovance/is620p",
        "--tcp",
        &address,
        "--unit-id",
        "1",
        "--trace",
        "--json",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    serde_json::from_str::<Value>(&run.out).unwrap();
    let (sent, received): (Vec<_>, Vec<_>) = run.err.lines().partition(|l| l.contains("Z -> "));
    assert!(!sent.is_empty() && sent.len() == received.len(), "{}", run.err);
    assert!(sent[0].contains(" 00 00 00 06 01 03 ") && sent[0].contains("read holding registers"), "{}", sent[0]);
    assert!(received.iter().all(|l| l.contains("Z <- ") && l.contains("registers to: ")), "{}", run.err);
}

/// Four blocks of equal length, read one after another: a reply that is taken for another request's is seen by its
/// first word, one that is older than its request by its second.
const BLOCKS: u16 = 4;

/// A device whose registers are block and unit, and the time in milliseconds since the clock's start.
fn telltale(unit: u8, clock: Clock) -> (UnitId, Pretend) {
    let write = move |dump: &mut Dump| {
        for block in 0..BLOCKS {
            let words = [tag(unit, block), clock.mono().0.as_millis() as u16];
            (block * 100..).zip(words).for_each(|(a, w)| dump.set_register(Table::HoldingRegister, Address(a), w));
        }
    };
    let mut dump = Dump::default();
    write(&mut dump);
    (UnitId(unit), Pretend::moving(dump, Box::new(move |_, dump| write(dump))))
}

fn tag(unit: u8, block: u16) -> u16 {
    0x4000 | u16::from(unit) << 4 | block
}

/// Polls two such devices until so many replies were believed; panics at the first value that was not in that register
/// between the cycle's begin and end.
async fn poll(route: Route, clock: Clock, polls: usize, fault: &str) -> usize {
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let options = route.options(BusOptions { spread: false, ..BusOptions::default() });
    let line = Line::spawn(route.address, clock, options, move |report| drop(sender.send(report)));
    let group = |block: u16| GroupSetup {
        group: GroupId(block),
        together: true,
        wanted: vec![Wanted {
            table: Table::HoldingRegister,
            range: AddressRange::new(Address(block * 100), 2).unwrap(),
        }],
    };
    for unit in [1, 2] {
        let setup = UnitSetup {
            device: DeviceId::new(&format!("unit-{unit}")).unwrap(),
            generation: Generation(1),
            unit_id: UnitId(unit),
            limits: Limits::default(),
            // A unit that misses some replies is never offline here: its polls do not slow down.
            timing: Timing {
                // Long against what a busy machine costs a reply: one that comes even later looks like the next one.
                timeout: Duration::from_millis(100),
                retries: 0,
                offline_after: u32::MAX,
                ..Timing::default()
            },
            intervals: vec![IntervalSetup {
                interval: Interval(0),
                every: Some(Duration::from_millis(1)),
                groups: (0..BLOCKS).map(group).collect(),
            }],
            first_cycle: Cycle(1),
        };
        line.put(setup).await.unwrap();
    }
    let began = Instant::now();
    let (mut good, mut missed) = (0, 0);
    while good + missed < polls {
        assert!(began.elapsed() < Duration::from_mins(1), "{fault}: {good} good and {missed} missed in a minute");
        let report = reports.recv().await.unwrap();
        let unit = if report.device.as_str() == "unit-1" { 1 } else { 2 };
        let (from, to) = (report.started.mono.0.as_millis() as u16, report.ended.mono.0.as_millis() as u16);
        for part in report.groups.iter().flat_map(|g| &g.parts) {
            match &part.outcome {
                PartOutcome::Registers(words) => {
                    assert_eq!(words[0], tag(unit, part.range.start().0 / 100), "{fault}: another's value: {report:?}");
                    assert!(
                        words[1].wrapping_sub(from) <= to.wrapping_sub(from),
                        "{fault}: a value of {} in a cycle from {from} to {to}: {report:?}",
                        words[1]
                    );
                    good += 1;
                }
                PartOutcome::Fault(_) => missed += 1,
                other => panic!("{fault}: {other:?}"),
            }
        }
    }
    let counters = line.counters().await.unwrap().link;
    println!(
        "{fault}: {good} good, {missed} missed, in {:.1} s; {:?}",
        began.elapsed().as_secs_f64(),
        counters.traffic
    );
    line.stop().await;
    good
}

fn faults(text: &str) -> Faults {
    let mut faults = Faults { seed: 7, ..Faults::default() };
    text.split(' ').for_each(|fault| faults.add(fault).unwrap());
    faults
}

/// As many as the acceptance asks for.
const POLLS: usize = 10_000;

async fn polls_over_tcp(fault: &str) -> usize {
    let clock = Clock::start();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = LinkAddress::Tcp(listener.local_addr().unwrap().to_string().parse().unwrap());
    let server = tcp::serve(listener, vec![telltale(1, clock), telltale(2, clock)], faults(fault));
    let good = poll(address.into(), clock, POLLS, fault).await;
    server.stop().await;
    good
}

async fn polls_on_a_line(fault: &str, echo: bool) -> usize {
    let clock = Clock::start();
    let port = serial::Port::pty(None, None).unwrap();
    let address = LinkAddress::Serial(SerialPort {
        path: port.path().to_owned(),
        baud: 4_000_000,
        data_bits: 8,
        parity: Parity::None,
        stop_bits: 1,
        rs485: false,
        ascii: false,
    });
    let devices = vec![telltale(1, clock), telltale(2, clock)];
    let server = serial::serve(port, Framing::Rtu, devices, faults(fault)).unwrap();
    let good = poll(Route { echo, ..Route::from(address) }, clock, POLLS, fault).await;
    server.stop().unwrap();
    good
}

#[tokio::test]
async fn f01_late_replies_over_tcp_give_no_wrong_value() {
    assert!(polls_over_tcp("late=150ms@200").await > POLLS / 2);
}

#[tokio::test]
async fn echoes_over_tcp_give_no_wrong_value() {
    // An echo has the transaction id and not the length: it spoils its read, and must do no more.
    polls_over_tcp("echo").await;
}

#[tokio::test]
async fn noise_over_tcp_gives_no_wrong_value() {
    assert!(polls_over_tcp("noise=500").await > POLLS / 2);
}

#[tokio::test]
async fn f20_late_replies_on_a_line_give_no_wrong_value() {
    assert!(polls_on_a_line("late=150ms@400", false).await > POLLS / 2);
}

#[tokio::test]
async fn f13_echoes_on_a_line_give_no_wrong_value() {
    assert!(polls_on_a_line("echo", true).await > POLLS / 2);
}

#[tokio::test]
async fn f15_f16_noise_on_a_line_gives_no_wrong_value() {
    assert!(polls_on_a_line("noise=10%", false).await > POLLS / 2);
}
