//! Whole or not at all: a device whose every reply holds one counter in all registers, watched from every side.

use crate::harness::{Answer, Broker, Gateway, TestServer, leaves};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// `registers` holding registers in one group, as an inline profile.
fn stamped(name: &str, port: u16, registers: u16, every: &str) -> String {
    let mut text = format!(
        "device: {name}\nlink: {{tcp: \"127.0.0.1:{port}\"}}\nunit_id: 1\nprofile:\n  profile: test/stamped\n  \
         version: 1.0.0\n  title: one counter in all registers\n  verified: false\n  groups:\n    all:\n      base: 0\n      \
         every: {every}\n      points:\n"
    );
    for r in 0..registers {
        writeln!(text, "        r{r}: {{offset: {r}, type: u16}}").unwrap();
    }
    text
}

fn counter() -> TestServer {
    let next = AtomicU16::new(0);
    TestServer::start(move |_, _, _, count| Answer {
        registers: Ok(vec![next.fetch_add(1, Ordering::Relaxed); usize::from(count)]),
        delay: Duration::ZERO,
    })
}

/// Polled every 20 ms for a minute: no `state` and no `change` ever mixes two cycles, and the changes joined together
/// are the states.
#[test]
fn no_message_mixes_two_cycles_in_a_minute_of_polling_at_20_ms() {
    let Some(broker) = Broker::start() else { return };
    let server = counter();
    let heard = broker.subscribe("fieldshadow/s/#");
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("s.yaml", &stamped("s", server.port, 100, "20ms"));
    gateway.run();
    heard.wait("fieldshadow/s/state", Duration::from_secs(10), |s| s["reported"]["r99"].is_number());
    std::thread::sleep(Duration::from_mins(1));
    assert_eq!(gateway.stop().0, Some(0));
    let states = heard.of("fieldshadow/s/state");
    let changes = heard.of("fieldshadow/s/change");
    println!("{} states, {} changes, {} polls", states.len(), changes.len(), server.requests.lock().unwrap().len());
    // Fifty polls a second on a shared machine: most of them must have come through.
    assert!(states.len() > 1500, "only {} states", states.len());
    assert!(changes.len() > 1500, "only {} changes", changes.len());
    for message in &states {
        assert_one_counter(&message.json()["reported"], 100, &message.payload);
    }
    let mut rev = None;
    for message in &changes {
        let change = message.json();
        assert_one_counter(&change["changed"], 100, &message.payload);
        if let Some(rev) = rev {
            assert_eq!(change["previous_rev"], rev, "changes follow each other without a gap");
        }
        rev = Some(change["rev"].clone());
    }
    // Versions and revisions only rise.
    for pair in states.windows(2) {
        let (a, b) = (pair[0].json(), pair[1].json());
        assert!(a["version"].as_u64() <= b["version"].as_u64() && a["rev"].as_u64() <= b["rev"].as_u64());
    }
}

fn assert_one_counter(values: &Value, most: usize, whole: &str) {
    let values = leaves(values);
    assert!(values.len() <= most);
    let mut numbers = values.values().map(|v| v.as_u64().unwrap());
    if let Some(first) = numbers.next() {
        assert_eq!(values.len(), most, "a part of a cycle: {whole}");
        assert!(numbers.all(|n| n == first), "two cycles in one message: {whole}");
    }
}

/// A 100 ms group of one request beside a 1 s group of eight slow ones, on one connection with one request at a time.
#[test]
fn a_fast_group_and_a_slow_group_do_not_delay_each_other_by_more_than_a_request() {
    const SLOW: Duration = Duration::from_millis(40);
    let Some(broker) = Broker::start() else { return };
    let next = AtomicU16::new(0);
    let server = TestServer::start(move |_, _, address, count| Answer {
        registers: Ok(vec![next.fetch_add(1, Ordering::Relaxed); usize::from(count)]),
        delay: if address >= 1000 { SLOW } else { Duration::ZERO },
    });
    let mut text = stamped("s", server.port, 10, "100ms");
    text.push_str("    slow:\n      base: 1000\n      every: 1s\n      points:\n");
    for block in 0..8 {
        writeln!(text, "        b{block}: {{offset: {}, type: u16}}", block * 200).unwrap();
    }
    let heard = broker.subscribe("fieldshadow/s/#");
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("s.yaml", &text);
    gateway.run();
    heard.wait("fieldshadow/s/state", Duration::from_secs(10), |s| s["reported"]["b7"].is_number());
    server.requests.lock().unwrap().clear();
    std::thread::sleep(Duration::from_secs(10));
    let requests = server.requests.lock().unwrap().clone();
    let fast: Vec<Instant> = requests.iter().filter(|r| r.1 < 1000).map(|r| r.0).collect();
    let slow = requests.iter().filter(|r| r.1 >= 1000).count();
    println!("{} fast polls, {slow} slow requests in 10 s", fast.len());
    // The grid does not drift: 100 ticks in 10 s, and eight slow requests in each of ten seconds.
    assert!((97..=103).contains(&fast.len()), "{} fast polls", fast.len());
    assert!((72..=88).contains(&slow), "{slow} slow requests");
    // Lateness against the grid: one slow request in flight, and what a busy machine adds.
    let first = fast[0];
    let late: Vec<Duration> = (0u32..)
        .zip(&fast)
        .map(|(n, at)| at.saturating_duration_since(first + Duration::from_millis(100) * n))
        .collect();
    let mut sorted = late.clone();
    sorted.sort();
    let p90 = sorted[sorted.len() * 9 / 10];
    assert!(p90 < SLOW * 2 + Duration::from_millis(20), "fast polls are late by {p90:?}: {late:?}");
    // Neither was ever refused: every cycle moved the state.
    let states: Vec<Map<String, Value>> =
        heard.of("fieldshadow/s/state").iter().map(|h| h.json()["reported"].as_object().unwrap().clone()).collect();
    let last = states.last().unwrap();
    assert!(last.len() == 18);
    let said = heard.of("fieldshadow/s/status").last().unwrap().json();
    assert_eq!(said["state"], "online");
    assert_eq!(said["counters"]["stale_batches"], 0, "{said}");
    assert_eq!(gateway.stop().0, Some(0));
}

/// The same device, watched from within the process: readers of the store hold roots while it changes.
#[test]
fn no_reader_of_the_store_sees_two_cycles_in_a_minute_of_polling_at_20_ms() {
    use fieldshadow::config::{Config, Purpose};
    use fieldshadow::gateway::Gateway as InProcess;
    use fieldshadow::model::DeviceId;
    use fieldshadow::model::Value as Shown;

    let server = counter();
    // No broker there: the store does not care.
    let folder = Gateway::folder_at(&format!("mqtt://127.0.0.1:{}", crate::harness::free_port()), "");
    folder.drop_device("s.yaml", &stamped("s", server.port, 100, "20ms"));
    let config = folder.dir.path().join("fieldshadow.yaml");
    let config = Config::load(&config, std::iter::empty(), "host", Purpose::Gateway).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let gateway = runtime.block_on(InProcess::start(&config, false)).unwrap();
    let store = Arc::clone(gateway.store());
    let device = DeviceId::new("s").unwrap();
    let until = Instant::now() + Duration::from_mins(1);
    let seen: Vec<(u64, i64)> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut reads, mut newest) = (0u64, -1i64);
                    while Instant::now() < until {
                        let root = store.root();
                        let Some(twin) = root.device(&device) else { continue };
                        let Some(Some(Shown::Int(first))) = twin.values.first() else { continue };
                        for value in twin.values.iter() {
                            assert_eq!(*value, Some(Shown::Int(*first)), "torn at revision {}", root.revision);
                        }
                        assert!(*first >= newest, "a reader went back from {newest} to {first}");
                        newest = *first;
                        reads += 1;
                        if reads.is_multiple_of(64) {
                            std::thread::sleep(Duration::from_micros(200));
                        }
                    }
                    (reads, newest)
                })
            })
            .collect();
        readers.into_iter().map(|r| r.join().unwrap()).collect()
    });
    runtime.block_on(gateway.stop());
    println!("{seen:?} reads and last counts");
    assert!(seen.iter().all(|(reads, newest)| *reads > 10_000 && *newest > 1500), "{seen:?}");
}
