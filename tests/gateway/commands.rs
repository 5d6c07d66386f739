//! The commands as a user types them: what they print, and their exit codes.

use crate::harness::{Answer, Killed, TestServer, fieldshadow, free_port, leaves, root, shared, wait_for};
use crate::road::assert_messages_valid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn check_finds_the_twelve_planted_mistakes_and_nothing_else() {
    let Some(folder) = shared("data/planted/first") else { return };
    let expected: Vec<String> = std::fs::read_to_string(folder.join("expected.txt"))
        .unwrap()
        .lines()
        .map(|l| l.split_whitespace().next().unwrap().to_owned())
        .collect();
    assert_eq!(expected.len(), 12);
    let run = fieldshadow(&["check", "--json", folder.to_str().unwrap()]);
    assert_eq!(run.code, Some(2), "{}{}", run.out, run.err);
    let found: Value = serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {}", run.out));
    let places: Vec<String> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            let file = e["file"].as_str().unwrap().rsplit('/').next().unwrap();
            assert!(!e["message"].as_str().unwrap().is_empty() && e["severity"] == "error");
            format!("{file}:{}", e["line"])
        })
        .collect();
    assert_eq!(places, expected, "{}", run.out);
    // The same for people: each place with its line and what would be right.
    let run = fieldshadow(&["check", folder.to_str().unwrap()]);
    assert_eq!(run.code, Some(2));
    for place in &expected {
        assert!(run.err.contains(&format!("{place}:")), "{place} is missing in\n{}", run.err);
    }
    assert!(run.err.contains("numbering"), "did you mean:\n{}", run.err);
}

#[test]
fn check_says_nothing_against_a_good_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("press.yaml");
    std::fs::write(&file, "device: press-3\nprofile: inovance/is620p\nlink: {tcp: \"192.0.2.1:502\"}\nunit_id: 1\n")
        .unwrap();
    let run = fieldshadow(&["check", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    // It prints the plan: how many requests and registers a cycle costs.
    assert!(run.out.contains("press-3") && run.out.contains("request"), "{}", run.out);
}

#[test]
fn every_shipped_profile_passes_its_own_tests() {
    let run = fieldshadow(&["profile", "test"]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    for name in ["eastron/sdm230", "eastron/sdm630", "inovance/is620n", "inovance/is620p"] {
        assert!(run.out.contains(name), "{name} was not tested:\n{}", run.out);
    }
    let list = fieldshadow(&["profile", "list"]);
    assert_eq!(list.code, Some(0));
    assert!(list.out.lines().count() >= 4, "{}", list.out);
    let show = fieldshadow(&["profile", "show", "eastron/sdm630"]);
    assert_eq!(show.code, Some(0), "{}", show.err);
    assert!(show.out.contains("voltage.l1"), "{}", show.out);
    let none = fieldshadow(&["profile", "show", "eastron/sdm360"]);
    assert_eq!(none.code, Some(2));
    assert!(none.err.contains("eastron/sdm630"), "did you mean: {}", none.err);
}

#[test]
fn a_profile_test_that_does_not_hold_fails() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wrong.yaml");
    let text = "profile: test/wrong\nversion: 1.0.0\ntitle: t\nverified: false\ngroups:\n  g:\n    base: 0\n    points:\n      \
                a: {offset: 0, type: u16, scale: 0.1}\ntests:\n  - name: no\n    registers: {holding: {0: 10}}\n    \
                expect: {a: 10}\n";
    std::fs::write(&file, text).unwrap();
    let run = fieldshadow(&["profile", "test", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(2), "{}", run.out);
    assert!(run.err.contains('a') && run.err.contains("10") && run.err.contains("wrong.yaml:11"), "{}", run.err);
}

#[test]
fn schemas_are_printed_and_are_schemas() {
    for words in [&["schema", "shadow", "inovance/is620p"][..], &["schema", "message", "state"]] {
        let run = fieldshadow(words);
        assert_eq!(run.code, Some(0), "{}", run.err);
        let schema: Value = serde_json::from_str(&run.out).unwrap();
        jsonschema::meta::validate(&schema).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
    let run = fieldshadow(&["schema", "message", "nonsense"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("state"), "the names there are: {}", run.err);
}

#[test]
fn read_asks_the_device_itself() {
    let server = TestServer::start(|_, _, address, count| Answer {
        registers: Ok((address..address + count).collect()),
        delay: Duration::ZERO,
    });
    let dir = tempfile::tempdir().unwrap();
    let profile = dir.path().join("p.yaml");
    std::fs::write(
        &profile,
        "profile: test/p\nversion: 1.0.0\ntitle: t\nverified: false\ngroups:\n  g:\n    base: 100\n    points:\n      \
         a: {offset: 0, type: u16}\n      b: {offset: 1, type: u16, scale: 0.1, unit: V}\n",
    )
    .unwrap();
    let address = format!("127.0.0.1:{}", server.port);
    let run =
        fieldshadow(&["read", "--profile", profile.to_str().unwrap(), "--tcp", &address, "--unit-id", "1", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let out: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(out["reported"], serde_json::json!({"a": 100, "b": 10.1}));
    let run = fieldshadow(&["read", "--profile", profile.to_str().unwrap(), "--tcp", &address, "--unit-id", "1"]);
    assert!(run.out.contains("10.1") && run.out.contains('V'), "{}", run.out);
    // Nobody there: the environment failed, in one line.
    let address = format!("127.0.0.1:{}", free_port());
    let run = fieldshadow(&["read", "--profile", profile.to_str().unwrap(), "--tcp", &address, "--unit-id", "1"]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert!(run.err.contains("refused") && run.err.trim().lines().count() == 1, "{}", run.err);
}

#[test]
fn simulate_serves_a_dump_that_read_reads_back() {
    let Some(dump) = shared("data/dumps/plain/SDM630.json") else { return };
    let address = format!("127.0.0.1:{}", free_port());
    let child = Command::new(env!("CARGO_BIN_EXE_fieldshadow"))
        .args(["simulate", "--profile", "eastron/sdm630", "--tcp", &address, "--unit-id", "7", "--registers"])
        .arg(&dump)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _child = Killed(child);
    wait_for("simulator", Duration::from_secs(10), || std::net::TcpStream::connect(&address).ok());
    let run = fieldshadow(&["read", "--profile", "eastron/sdm630", "--tcp", &address, "--unit-id", "7", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let read: Value = serde_json::from_str(&run.out).unwrap();
    let decoded = fieldshadow(&["decode", "--profile", "eastron/sdm630", dump.to_str().unwrap()]);
    let decoded: Value = serde_json::from_str(&decoded.out).unwrap();
    assert_eq!(leaves(&read["reported"]).len(), 85);
    assert_eq!(read["reported"], decoded["reported"]);
}

#[test]
fn wrong_words_are_the_users_and_exit_with_2() {
    for words in [
        &["run", "--config", "/nonexistent/f.yaml"][..],
        &["decode", "--profile", "eastron/sdm630", "/nonexistent"],
        &["decode", "--profile", "no/such", "Cargo.toml"],
        &["nonsense"],
        &["read", "--profile", "eastron/sdm630"],
    ] {
        let run = fieldshadow(words);
        assert_eq!(run.code, Some(2), "{words:?}: {}", run.err);
        assert!(!run.err.is_empty() && !run.err.contains("panicked"), "{words:?}: {}", run.err);
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let help = fieldshadow(&["--help"]);
    assert_eq!(help.code, Some(0));
    for command in ["run", "demo", "check", "decode", "read", "simulate", "scan", "profile", "schema"] {
        assert!(help.out.contains(command), "{command} is not in --help");
        let run = fieldshadow(&[command, "--help"]);
        assert_eq!(run.code, Some(0));
        assert!(run.out.contains("Example"), "{command} --help shows no example:\n{}", run.out);
    }
    assert!(fieldshadow(&["--version"]).out.contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_demo_shows_three_devices_to_a_foreign_subscriber() {
    if Command::new("mosquitto_sub").arg("--version").output().is_err() {
        println!("skipped: no mosquitto");
        return;
    }
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fieldshadow"))
        .args(["demo", "--for", "8s"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The address stands in what it prints.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port: u16 = lines
        .find_map(|l| l.split_once("-p ").map(|(_, rest)| rest.split_whitespace().next().unwrap().parse().unwrap()))
        .expect("demo prints a mosquitto_sub command");
    std::thread::spawn(move || lines.count());
    let heard = crate::harness::Subscriber::start(port, "fieldshadow/#");
    wait_for("three devices", Duration::from_secs(6), || {
        let mut devices: Vec<String> = heard
            .all()
            .iter()
            .filter(|h| h.topic.ends_with("/state") && !leaves(&h.json()["reported"]).is_empty())
            .map(|h| h.topic.clone())
            .collect();
        devices.sort();
        devices.dedup();
        (devices.len() >= 3).then_some(())
    });
    let status = wait_for("end of the demo", Duration::from_secs(15), || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert!(began.elapsed() >= Duration::from_secs(8));
    let messages: Vec<_> = heard.all().iter().map(|h| (h.topic.clone(), h.payload.clone())).collect();
    assert!(messages.iter().any(|(_, p)| p.contains("\"simulated\"")), "pretend devices say so");
    assert_messages_valid(&messages);
}

#[test]
fn the_examples_of_the_documents_are_true() {
    let dir = tempfile::tempdir().unwrap();
    let mut files: Vec<_> = std::fs::read_dir(root().join("docs")).unwrap().map(|e| e.unwrap().path()).collect();
    files.push(root().join("README.md"));
    let (mut checked, mut commands) = (0, 0);
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "md")) {
        let text = std::fs::read_to_string(file).unwrap();
        for (at, _) in text.match_indices("<!-- example: ") {
            let kind = text[at + 14..].split_whitespace().next().unwrap();
            let block = text[at..].split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
            let example = dir.path().join(format!("{kind}-{checked}.yaml"));
            std::fs::write(&example, block).unwrap();
            let run = fieldshadow(&["check", example.to_str().unwrap()]);
            assert_eq!(run.code, Some(0), "{} at byte {at}:\n{}\n{block}", file.display(), run.err);
            checked += 1;
        }
        // No document names a command that does not exist.
        let mut in_code = false;
        for line in text.lines() {
            if line.starts_with("```") {
                in_code = !in_code;
            }
            let Some(rest) = line.trim_start().trim_start_matches("sudo ").strip_prefix("fieldshadow ") else {
                continue;
            };
            let word = rest.split_whitespace().next().unwrap_or("");
            if in_code && !word.starts_with('-') {
                assert_eq!(fieldshadow(&[word, "--help"]).code, Some(0), "{}: {line}", file.display());
                commands += 1;
            }
        }
    }
    assert!(checked >= 5 && commands >= 5, "only {checked} examples and {commands} commands found");
}
