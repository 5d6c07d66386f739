//! From a foreign Modbus server to a foreign broker: the whole road.

use crate::harness::{
    Answer, Broker, Gateway, Pymodbus, TestServer, fieldshadow, leaves, root, shared, validate, wait_for,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);

/// A device file for a TCP endpoint on loopback.
fn device(name: &str, profile: &str, port: u16, unit: u8) -> String {
    format!("device: {name}\nprofile: {profile}\nlink: {{tcp: \"127.0.0.1:{port}\"}}\nunit_id: {unit}\n")
}

/// A device with its profile inline: `registers` holding registers from 0 in one group.
fn counted(name: &str, port: u16, registers: u16, every: &str) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "device: {name}\nlink: {{tcp: \"127.0.0.1:{port}\"}}\nunit_id: 1\nprofile:\n  profile: test/counted\n  \
         version: 1.0.0\n  title: registers that hold one counter\n  verified: false\n  \
         timing: {{timeout: 300ms, retries: 0}}\n  groups:\n    all:\n      base: 0\n      every: {every}\n      points:\n"
    );
    for r in 0..registers {
        writeln!(text, "        r{r}: {{offset: {r}, type: u16}}").unwrap();
    }
    text
}

/// The figures that the maker of a dump expects, sorted: only those that are plain numbers.
fn expected_numbers(dump: &str) -> Option<Vec<f64>> {
    let text = std::fs::read_to_string(shared(&format!("data/dumps/{dump}.json"))?).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let mut numbers: Vec<f64> =
        leaves(&file["tests"][0]["expected"]).values().filter_map(|v| v[0].as_str()?.parse().ok()).collect();
    numbers.sort_by(f64::total_cmp);
    Some(numbers)
}

fn plain(dump: &str) -> Option<PathBuf> {
    shared(&format!("data/dumps/plain/{dump}.json"))
}

/// Every expected figure is reported, each once, to a thousandth.
fn assert_same_numbers(expected: &[f64], reported: &Value) {
    let mut found: Vec<f64> = leaves(reported).values().filter_map(Value::as_f64).collect();
    found.sort_by(f64::total_cmp);
    assert_eq!(found.len(), expected.len(), "reported: {reported:#}");
    for (e, f) in expected.iter().zip(&found) {
        assert!((e - f).abs() <= 1e-3, "expected {e}, found {f}");
    }
}

#[test]
fn decode_gives_the_85_values_of_a_real_sdm630() {
    let (Some(expected), Some(dump)) = (expected_numbers("SDM630"), plain("SDM630")) else { return };
    assert_eq!(expected.len(), 85);
    let run = fieldshadow(&["decode", "--profile", "eastron/sdm630", dump.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let out: Value = serde_json::from_str(&run.out).unwrap();
    assert_same_numbers(&expected, &out["reported"]);
    assert_eq!(out["quality"], serde_json::json!({}), "everything is good");
    // Which value stands under which name is checked against the names in the dump's own file.
    let names = [
        ("voltage.l1", "Phase 1 Line To Neutral Volts"),
        ("voltage.l3", "Phase 3 Line To Neutral Volts"),
        ("current.l2", "Phase 2 Current"),
        ("power.active.l3", "Phase 3 Power"),
        ("power.apparent.l1", "Phase 1 Volt Amps"),
        ("power.reactive.l2", "Phase 2 Reactive Power"),
        ("power_factor.l3", "Phase 3 Power Factor"),
        ("power.active.total", "Total System Power"),
        ("power.reactive.total", "Total System VAr"),
        ("frequency", "Frequency Of Supply Voltages"),
    ];
    let file: Value =
        serde_json::from_str(&std::fs::read_to_string(shared("data/dumps/SDM630.json").unwrap()).unwrap()).unwrap();
    let reported = leaves(&out["reported"]);
    for (path, name) in names {
        let value: f64 = file["tests"][0]["expected"]["measurements"][name][0].as_str().unwrap().parse().unwrap();
        let found = reported.get(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} is missing"));
        assert!((found - value).abs() <= 1e-3, "{path}: expected {value}, found {found}");
    }
}

#[test]
fn decode_gives_every_value_of_a_real_sdm230() {
    let (Some(expected), Some(dump)) = (expected_numbers("SDM230"), plain("SDM230")) else { return };
    // 28 floats parse as numbers, and the serial number.
    let run = fieldshadow(&["decode", "--profile", "eastron/sdm230", dump.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let out: Value = serde_json::from_str(&run.out).unwrap();
    assert_same_numbers(&expected, &out["reported"]);
    let words: Vec<String> =
        leaves(&out["reported"]).into_values().filter_map(|v| v.as_str().map(str::to_owned)).collect();
    assert!(words.contains(&"15010060".to_owned()), "the screen settings as hex digits: {words:?}");
    assert_eq!(words.len(), 3, "two enums and one hex text: {words:?}");
}

#[test]
fn a_real_meters_dump_travels_from_pymodbus_to_mosquitto() {
    let (Some(expected), Some(dump)) = (expected_numbers("SDM630"), plain("SDM630")) else { return };
    let Some(broker) = Broker::start() else { return };
    let Some(mut server) = Pymodbus::start(&[(1, &dump)]) else { return };
    let heard = broker.subscribe("fieldshadow/#");
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("meter.yaml", &device("meter-1", "eastron/sdm630", server.port, 1));
    gateway.run();

    let topic = "fieldshadow/meter-1/state";
    let whole = heard.wait(topic, SOON, |s| leaves(&s["reported"]).len() == 85);
    assert_same_numbers(&expected, &whole["reported"]);
    assert_eq!(whole["quality"], serde_json::json!({}));
    heard.wait("fieldshadow/meter-1/status", SOON, |s| s["state"] == "online");

    server.kill();
    let status =
        heard.wait("fieldshadow/meter-1/status", SOON, |s| s["state"] == "offline" && s["reason"] != "starting");
    assert!(["refused", "no_reply", "unreachable"].contains(&status["reason"].as_str().unwrap()), "{status}");
    let stale = heard.wait(topic, SOON, |s| s["quality"].as_object().is_some_and(|q| q.len() == 85));
    assert_same_numbers(&expected, &stale["reported"]);
    for (path, quality) in stale["quality"].as_object().unwrap() {
        assert_eq!(quality["code"], "stale", "{path}");
    }
    // A reader who only looks at the time sees it too.
    assert!(stale["fresh_until"].as_str().unwrap() <= stale["published"].as_str().unwrap());

    let before = heard.of("fieldshadow/meter-1/status").len();
    assert!(server.run());
    wait_for("online again", Duration::from_secs(40), || {
        let statuses = heard.of("fieldshadow/meter-1/status");
        statuses[before..].iter().any(|s| s.json()["state"] == "online").then_some(())
    });
    let last = heard.of(topic).last().unwrap().json();
    assert_eq!(last["quality"], serde_json::json!({}));
    assert_eq!(gateway.stop().0, Some(0));
    assert_messages_valid(&heard.all().iter().map(|h| (h.topic.clone(), h.payload.clone())).collect::<Vec<_>>());
}

/// Every message against the published schemas: by the `jsonschema` crate and by Python.
pub fn assert_messages_valid(messages: &[(String, String)]) {
    let mut kinds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut device_schemas: BTreeMap<String, Value> = BTreeMap::new();
    for (topic, payload) in messages.iter().filter(|(_, payload)| !payload.is_empty()) {
        let json: Value = serde_json::from_str(payload).unwrap_or_else(|e| panic!("{topic}: {e}: {payload}"));
        let kind = topic.rsplit('/').next().unwrap();
        match kind {
            "state" => kinds.entry("state").or_default().push(payload.clone()),
            "change" => kinds.entry("change").or_default().push(payload.clone()),
            "status" if json["kind"] == "gateway" => kinds.entry("gateway-status").or_default().push(payload.clone()),
            "status" => kinds.entry("status").or_default().push(payload.clone()),
            "schema" => {
                device_schemas.insert(topic.trim_end_matches("/schema").to_owned(), json);
            }
            other => panic!("a topic nobody asked for: {topic} ({other})"),
        }
    }
    for (kind, documents) in &kinds {
        let file = root().join(format!("schemas/messages/{kind}.schema.json"));
        let schema: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for document in documents {
            let json: Value = serde_json::from_str(document).unwrap();
            if let Err(error) = validator.validate(&json) {
                panic!("{kind}: {error} at {}: {document}", error.instance_path());
            }
        }
        validate(&file, documents);
    }
    // What a device reports fits the schema that it published.
    for (device, schema) in device_schemas {
        let validator = jsonschema::validator_for(&schema).unwrap();
        let reported: Vec<String> = messages
            .iter()
            .filter(|(topic, payload)| *topic == format!("{device}/state") && !payload.is_empty())
            .map(|(_, payload)| serde_json::from_str::<Value>(payload).unwrap()["reported"].clone())
            .map(|reported| {
                if let Err(error) = validator.validate(&reported) {
                    panic!("{device}: {error} at {}: {reported}", error.instance_path());
                }
                reported.to_string()
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("schema.json");
        std::fs::write(&file, schema.to_string()).unwrap();
        validate(&file, &reported);
    }
}

#[test]
fn a_dropped_file_starts_its_device_and_disturbs_no_other() {
    let Some(broker) = Broker::start() else { return };
    let counter = |start: u16| {
        let next = AtomicU16::new(start);
        TestServer::start(move |_, _, _, count| Answer {
            registers: Ok(vec![next.fetch_add(1, Ordering::Relaxed); usize::from(count)]),
            delay: Duration::ZERO,
        })
    };
    let (first, second) = (counter(1), counter(1000));
    let heard = broker.subscribe("fieldshadow/#");
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("a.yaml", &counted("a", first.port, 10, "100ms"));
    gateway.run();
    heard.wait("fieldshadow/a/state", SOON, |s| s["reported"]["r9"].is_number());
    heard.wait("fieldshadow/a/status", SOON, |s| s["state"] == "online");

    let statuses = heard.of("fieldshadow/a/status").len();
    let dropped = Instant::now();
    gateway.drop_device("b.yaml", &counted("b", second.port, 5, "100ms"));
    heard.wait("fieldshadow/b/state", Duration::from_secs(3), |s| s["reported"]["r4"].is_number());
    println!("a dropped file's values after {:?}", dropped.elapsed());
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(first.connections.load(Ordering::Relaxed), 1, "the first device's connection is untouched");
    assert_eq!(heard.of("fieldshadow/a/status").len(), statuses, "and nothing was said of it");
    let times: Vec<Instant> = first.requests.lock().unwrap().iter().map(|r| r.0).collect();
    let gap = times.windows(2).map(|w| w[1] - w[0]).max().unwrap();
    assert!(gap < Duration::from_millis(400), "polls of the first device paused for {gap:?}");

    // A changed file restarts its device only: another shape, the version goes on.
    let before = heard.of("fieldshadow/b/state").last().unwrap().json();
    gateway.drop_device("b.yaml", &counted("b", second.port, 7, "100ms"));
    let after = heard.wait("fieldshadow/b/state", Duration::from_secs(3), |s| s["reported"]["r6"].is_number());
    assert!(after["version"].as_u64() > before["version"].as_u64());

    // A removed file ends its device: nothing of it stays behind at the broker.
    gateway.remove_device("b.yaml");
    wait_for("retained topics of the removed device cleared", Duration::from_secs(5), || {
        ["state", "status", "schema"]
            .iter()
            .all(|kind| heard.of(&format!("fieldshadow/b/{kind}")).last().is_some_and(|h| h.payload.is_empty()))
            .then_some(())
    });
    let asked = second.requests.lock().unwrap().len();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(second.requests.lock().unwrap().len(), asked, "a removed device is not polled");
    assert_eq!(first.connections.load(Ordering::Relaxed), 1);
    assert_eq!(gateway.stop().0, Some(0));
}

#[test]
fn a_bad_file_stops_only_its_own_device_and_says_where() {
    let Some(broker) = Broker::start() else { return };
    let server = TestServer::start(|_, _, _, count| Answer {
        registers: Ok(vec![7; usize::from(count)]),
        delay: Duration::ZERO,
    });
    let heard = broker.subscribe("fieldshadow/#");
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("good.yaml", &counted("good", server.port, 3, "100ms"));
    let bad = counted("bad", server.port, 3, "100ms").replace("type: u16}\n        r1", "type: u61}\n        r1");
    gateway.drop_device("bad.yaml", &bad);
    gateway.run();
    heard.wait("fieldshadow/good/status", SOON, |s| s["state"] == "online");
    let status = heard.wait("fieldshadow/bad/status", SOON, |s| s["reason"] == "config_error");
    assert_eq!(status["state"], "offline");
    let line = 1 + bad.lines().position(|l| l.contains("u61")).unwrap();
    let detail = status["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("bad.yaml:{line}:")), "no place in {detail:?}");

    // Mended, it runs; broken again while it runs, it goes on with the last good version.
    gateway.drop_device("bad.yaml", &bad.replace("u61", "u16").replace("unit_id: 1", "unit_id: 2"));
    heard.wait("fieldshadow/bad/status", Duration::from_secs(3), |s| s["state"] == "online");
    gateway.drop_device("bad.yaml", &bad.replace("unit_id: 1", "unit_id: 2"));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(heard.of("fieldshadow/bad/status").last().unwrap().json()["state"], "online");
    let gateway_status = heard.of("fieldshadow/gw-test/status").last().unwrap().json();
    let errors = gateway_status["reload"]["errors"].to_string();
    assert!(errors.contains(&format!("bad.yaml:{line}:")), "the reload's result names the place: {gateway_status}");
    assert_eq!(gateway.stop().0, Some(0));
}

#[test]
fn polling_goes_on_without_a_broker_and_the_newest_state_is_there_after() {
    let Some(mut broker) = Broker::start() else { return };
    let value = Arc::new(AtomicU16::new(1));
    let present = Arc::clone(&value);
    let server = TestServer::start(move |_, _, _, count| Answer {
        registers: Ok(vec![present.load(Ordering::Relaxed); usize::from(count)]),
        delay: Duration::ZERO,
    });
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("a.yaml", &counted("a", server.port, 10, "50ms"));
    gateway.run();
    broker.subscribe("fieldshadow/a/state").wait("fieldshadow/a/state", SOON, |s| s["reported"]["r0"] == 1);

    broker.kill();
    let asked = server.requests.lock().unwrap().len();
    for v in 2..=100 {
        value.store(v, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(30));
    }
    let polled = server.requests.lock().unwrap().len() - asked;
    assert!(polled >= 50, "only {polled} polls in three seconds without a broker");
    broker.run();
    let heard = broker.subscribe("fieldshadow/#");
    heard.wait("fieldshadow/a/state", Duration::from_secs(35), |s| s["reported"]["r0"] == 100);
    heard.wait("fieldshadow/gw-test/status", SOON, |s| s["state"] == "online");
    assert_eq!(gateway.stop().0, Some(0));
}

#[test]
fn nothing_that_the_broker_kept_looks_fresh() {
    let Some(broker) = Broker::start() else { return };
    let alive = Arc::new(AtomicBool::new(true));
    let answers = Arc::clone(&alive);
    let server = TestServer::start(move |_, _, _, count| {
        let delay = if answers.load(Ordering::Relaxed) { Duration::ZERO } else { Duration::from_secs(3) };
        Answer { registers: Ok(vec![42; usize::from(count)]), delay }
    });
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("a.yaml", &counted("a", server.port, 4, "100ms"));
    gateway.run();
    let first = broker.subscribe("fieldshadow/#");
    first.wait("fieldshadow/a/state", SOON, |s| s["reported"]["r0"] == 42);
    let online = first.wait("fieldshadow/gw-test/status", SOON, |s| s["state"] == "online");
    assert_eq!(online["kind"], "gateway");

    // Killed: the will says so, on the same topic, kept.
    gateway.kill();
    first.wait("fieldshadow/gw-test/status", SOON, |s| s["state"] == "offline");
    alive.store(false, Ordering::Relaxed);
    gateway.run();
    // The device does not answer now. The state of the life before must not stand there as good.
    let heard = broker.subscribe("fieldshadow/#");
    let state = heard
        .wait("fieldshadow/a/state", SOON, |s| s["epoch"] != Value::Null && s["reported"] == serde_json::json!({}));
    assert!(state["fresh_until"].as_str().unwrap() <= state["published"].as_str().unwrap(), "{state}");
    heard.wait("fieldshadow/a/status", SOON, |s| s["state"] == "offline");
    alive.store(true, Ordering::Relaxed);
    heard.wait("fieldshadow/a/state", Duration::from_secs(40), |s| {
        s["epoch"] == state["epoch"] && s["reported"]["r0"] == 42
    });

    // SIGTERM: everything is said to be over before the goodbye.
    let (code, took) = gateway.stop();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(10), "{took:?}");
    let late = broker.subscribe("fieldshadow/#");
    let status = late.wait("fieldshadow/a/status", SOON, |_| true);
    assert_eq!((&status["state"], &status["reason"]), (&"offline".into(), &"stopped".into()));
    let state = late.wait("fieldshadow/a/state", SOON, |_| true);
    assert_eq!(state["quality"].as_object().unwrap().len(), 4, "all stale: {state}");
    assert_eq!(late.wait("fieldshadow/gw-test/status", SOON, |_| true)["state"], "offline");
    assert!(late.all().iter().all(|h| h.retained));
}

#[test]
fn a_reply_that_does_not_fit_is_never_a_value() {
    let Some(broker) = Broker::start() else { return };
    let odd = Arc::new(AtomicBool::new(false));
    let lying = Arc::clone(&odd);
    // Two registers where four were asked: byte count and length agree with each other, not with the request.
    let server = TestServer::start(move |_, _, _, count| Answer {
        registers: Ok(vec![
            if lying.load(Ordering::Relaxed) { 999 } else { 42 };
            usize::from(count) - if lying.load(Ordering::Relaxed) { 2 } else { 0 }
        ]),
        delay: Duration::ZERO,
    });
    let heard = broker.subscribe("fieldshadow/a/#");
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("a.yaml", &counted("a", server.port, 4, "100ms"));
    gateway.run();
    heard.wait("fieldshadow/a/state", SOON, |s| s["reported"]["r3"] == 42);
    odd.store(true, Ordering::Relaxed);
    let state = heard.wait("fieldshadow/a/state", SOON, |s| s["quality"]["r0"]["code"] == "stale");
    assert_eq!(state["quality"]["r0"]["reason"], "length");
    heard.wait("fieldshadow/a/status", SOON, |s| s["state"] == "offline");
    assert!(heard.all().iter().all(|h| !h.payload.contains("999")), "a value out of a wrong reply");
    odd.store(false, Ordering::Relaxed);
    heard.wait("fieldshadow/a/status", Duration::from_secs(40), |s| s["state"] == "online");
}

#[test]
fn a_refused_register_is_bad_alone() {
    let Some(broker) = Broker::start() else { return };
    let server = TestServer::start(|_, _, address, count| Answer {
        registers: if (address..address + count).contains(&9) {
            Err(2)
        } else {
            Ok((address..address + count).collect())
        },
        delay: Duration::ZERO,
    });
    let heard = broker.subscribe("fieldshadow/a/#");
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("a.yaml", &counted("a", server.port, 13, "100ms"));
    gateway.run();
    let state = heard.wait("fieldshadow/a/state", SOON, |s| s["reported"]["r12"] == 12);
    assert_eq!(state["quality"]["r9"]["code"], "bad");
    assert_eq!(state["quality"]["r9"]["reason"], "exception(2)");
    assert_eq!(state["quality"].as_object().unwrap().len(), 1);
    assert!(state["reported"].get("r9").is_none(), "never read: no key");
    let status = heard.wait("fieldshadow/a/status", SOON, |s| s["state"] == "degraded");
    assert_eq!(status["reason"], "points_bad");
    std::thread::sleep(Duration::from_millis(500));
    let requests = server.requests.lock().unwrap().clone();
    let late = &requests[requests.len() - 6..];
    assert!(
        late.iter().all(|(_, address, count)| !(*address..address + count).contains(&9)),
        "the refused register is asked for again at each poll: {late:?}"
    );
    assert_eq!(gateway.stop().0, Some(0));
}

#[test]
fn a_dropped_profile_starts_the_device_that_waited_for_it_and_a_changed_one_restarts_it() {
    let Some(broker) = Broker::start() else { return };
    let server = TestServer::start(|_, _, address, count| Answer {
        registers: Ok((address..address + count).map(|a| a + 250).collect()),
        delay: Duration::ZERO,
    });
    let heard = broker.subscribe("fieldshadow/#");
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("a.yaml", &device("a", "acme/pump", server.port, 1));
    gateway.run();
    let status = heard.wait("fieldshadow/a/status", SOON, |s| s["reason"] == "config_error");
    assert!(status["detail"].as_str().unwrap().contains("a.yaml:2:"), "{status}");

    let profile = |scale: &str| {
        format!(
            "profile: acme/pump\nversion: 1.0.0\ntitle: a pump\nverified: false\ngroups:\n  g:\n    base: 0\n    \
             every: 100ms\n    points:\n      pressure: {{offset: 0, type: u16, scale: {scale}, unit: bar}}\n"
        )
    };
    let folder = gateway.dir.path().join("device-profiles/acme");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("pump.yaml"), profile("0.1")).unwrap();
    heard.wait("fieldshadow/a/state", Duration::from_secs(3), |s| s["reported"]["pressure"] == 25);
    std::fs::write(folder.join("pump.yaml"), profile("0.01")).unwrap();
    heard.wait("fieldshadow/a/state", Duration::from_secs(3), |s| s["reported"]["pressure"] == 2.5);
    // Every message of this device too, the one without a profile included.
    assert_eq!(gateway.stop().0, Some(0));
    assert_messages_valid(&heard.all().iter().map(|h| (h.topic.clone(), h.payload.clone())).collect::<Vec<_>>());
}
