//! Foreign servers on every kind of link: pymodbus on all five, and three units of libmodbus on one line.

use crate::harness::{
    Broker, Gateway, Killed, Pymodbus, fieldshadow, free_port, leaves, python, root, shared, wait_for,
};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A serial line of two pseudo terminals; each end is a symbolic link.
struct PtyLine {
    _child: Killed,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    dir: TempDir,
}

impl PtyLine {
    fn start() -> Option<Self> {
        let python = python()?;
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(python)
            .arg(root().join("tests/gateway/peers/pty_line.py"))
            .args([dir.path().join("near"), dir.path().join("far")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut line = Self { _child: Killed(child), orders, answers, dir };
        assert_eq!(line.answer(), "line up");
        Some(line)
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn order(&mut self, word: &str) -> String {
        writeln!(self.orders, "{word}").unwrap();
        self.answer()
    }

    /// Bytes that came from the near end so far.
    fn count(&mut self) -> u64 {
        self.order("count").parse().unwrap()
    }

    fn near(&self) -> String {
        self.dir.path().join("near").display().to_string()
    }

    fn far(&self) -> String {
        self.dir.path().join("far").display().to_string()
    }
}

/// What `fieldshadow read --json` says of a device of one unit behind `link`.
fn read(link: &str, profile: &str) -> Value {
    let folder = Gateway::folder_at("mqtt://127.0.0.1:1", "");
    folder.drop_device("meter.yaml", &format!("device: meter\nprofile: {profile}\nlink: {link}\nunit_id: 1\n"));
    let config = folder.dir.path().join("fieldshadow.yaml");
    let run = fieldshadow(&["read", "meter", "--json", "--config", config.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "read over {link}: {}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

/// The meter's dump, and what the maker of the dump expects of it, sorted.
fn meter() -> Option<(PathBuf, Vec<f64>)> {
    let dump = shared("data/dumps/plain/SDM630.json")?;
    let file: Value = serde_json::from_str(&fs::read_to_string(shared("data/dumps/SDM630.json")?).unwrap()).unwrap();
    let expected = leaves(&file["tests"][0]["expected"]);
    Some((dump, sorted(expected.values().filter_map(|v| v[0].as_str()?.parse().ok()))))
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// Serves the meter on `there` and reads it over `here`.
fn the_meter_is_read(there: &str, here: &str) {
    let Some((dump, expected)) = meter() else { return };
    let Some(_server) = Pymodbus::on(there, &[(1, &dump)]) else { return };
    let out = read(here, "eastron/sdm630");
    let found = sorted(leaves(&out["reported"]).values().filter_map(Value::as_f64));
    assert_eq!((found.len(), expected.len()), (85, 85), "over {here}: {out:#}");
    for (e, f) in expected.iter().zip(&found) {
        assert!((e - f).abs() <= 1e-3, "over {here}: expected {e}, found {f}");
    }
    assert_eq!(out["quality"], serde_json::json!({}), "over {here}");
}

#[test]
fn pymodbus_is_read_over_tcp() {
    let port = free_port();
    the_meter_is_read(&format!("tcp:{port}"), &format!("{{tcp: \"127.0.0.1:{port}\"}}"));
}

#[test]
fn pymodbus_is_read_over_rtu_in_tcp() {
    let port = free_port();
    the_meter_is_read(&format!("rtu_over_tcp:{port}"), &format!("{{rtu_over_tcp: \"127.0.0.1:{port}\"}}"));
}

#[test]
fn pymodbus_is_read_over_tls_with_certificates_on_both_sides() {
    let Some(certificates) = certificates() else { return };
    let port = free_port();
    let file = |name: &str| certificates.path().join(name).display().to_string();
    let there = format!("tls:{port}:{}:{}:{}", file("server.pem"), file("server.key"), file("ca.pem"));
    let (ca, cert, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    let here = format!("{{tls: \"localhost:{port}\", ca: \"{ca}\", cert: \"{cert}\", key: \"{key}\"}}");
    the_meter_is_read(&there, &here);
}

#[test]
fn pymodbus_is_read_over_a_serial_line_in_rtu() {
    let Some(line) = PtyLine::start() else { return };
    // A pseudo terminal knows no parity.
    let here = format!("{{serial: \"{}\", baud: 19200, parity: none}}", line.near());
    the_meter_is_read(&format!("rtu:{}", line.far()), &here);
}

#[test]
fn pymodbus_is_read_over_a_serial_line_in_ascii() {
    let Some(line) = PtyLine::start() else { return };
    // Nor does it know characters of seven bits.
    let here = format!("{{ascii: \"{}\", baud: 19200, data_bits: 8, parity: none}}", line.near());
    the_meter_is_read(&format!("ascii:{}", line.far()), &here);
}

/// An authority with a server's and a client's certificate, made by openssl.
fn certificates() -> Option<TempDir> {
    let version = Command::new("openssl").arg("version").output();
    let Ok(version) = version else {
        println!("skipped: no openssl");
        return None;
    };
    println!("used: {}", String::from_utf8_lossy(&version.stdout).trim());
    let dir = tempfile::tempdir().unwrap();
    let openssl = |words: &str| {
        let run = Command::new("openssl").args(words.split(' ')).current_dir(dir.path()).output().unwrap();
        assert!(run.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&run.stderr));
    };
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "req -x509 {curve} -days 2 -subj /CN=authority -keyout ca.key -out ca.pem -addext keyUsage=critical,keyCertSign"
    ));
    for who in ["server", "client"] {
        let wanted = format!("{who}.ext");
        let text = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n\
                    extendedKeyUsage=serverAuth,clientAuth\n";
        fs::write(dir.path().join(&wanted), text).unwrap();
        openssl(&format!("req {curve} -subj /CN={who} -keyout {who}.key -out {who}.csr"));
        openssl(&format!(
            "x509 -req -in {who}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile {wanted} -out {who}.pem"
        ));
    }
    Some(dir)
}

/// Three units of libmodbus on the far end of a line, compiled here.
fn libmodbus(line: &PtyLine) -> Option<Killed> {
    let program = line.dir.path().join("rtu_three_units");
    let built = Command::new("cc")
        .args(["-O1", "-I/usr/include/modbus", "-o"])
        .arg(&program)
        .arg(root().join("tests/foreign/rtu_three_units.c"))
        .args(["-lmodbus", "-lpthread"])
        .output();
    match built {
        Ok(run) if run.status.success() => {}
        _ if !Path::new("/usr/include/modbus/modbus.h").exists() => {
            println!("skipped: no libmodbus-dev");
            return None;
        }
        Err(e) => {
            println!("skipped: no C compiler ({e})");
            return None;
        }
        Ok(run) => panic!("the C program does not compile: {}", String::from_utf8_lossy(&run.stderr)),
    }
    let mut child: Child =
        Command::new(program).arg(line.far()).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("listening"), "the C program did not start: {said}");
    println!("used: {}", said.trim().trim_end_matches(" listening"));
    Some(Killed(child))
}

/// A unit of the C program: 20 holding and 20 input registers, in two groups.
fn three_units_device(name: &str, unit: u8, line: &PtyLine, every: &str) -> String {
    let mut text = format!(
        "device: {name}\nlink: {{serial: \"{}\", baud: 19200, parity: none}}\nunit_id: {unit}\nprofile:\n  \
         profile: test/three\n  version: 1.0.0\n  title: registers that say who they are\n  verified: false\n  \
         timing: {{timeout: 500ms}}\n  groups:\n",
        line.near()
    );
    for (group, table) in [("h", "holding"), ("i", "input")] {
        writeln!(text, "    {group}:\n      every: {every}\n      points:").unwrap();
        for a in 0..20 {
            writeln!(text, "        {group}{a}: {{address: {a}, table: {table}, type: u16}}").unwrap();
        }
    }
    text
}

#[test]
fn three_units_of_libmodbus_share_a_line_and_keep_their_values() {
    let Some(mut line) = PtyLine::start() else { return };
    let Some(_units) = libmodbus(&line) else { return };
    let Some(broker) = Broker::start() else { return };
    let heard = broker.subscribe("fieldshadow/#");
    let mut gateway = Gateway::folder(&broker, "");
    let units = [("one", 1u16), ("two", 2), ("seventeen", 17)];
    for (name, unit) in units {
        gateway.drop_device(&format!("{name}.yaml"), &three_units_device(name, unit as u8, &line, "100ms"));
    }
    gateway.run();
    for (name, _) in units {
        heard.wait(&format!("fieldshadow/{name}/state"), Duration::from_secs(15), |s| {
            leaves(&s["reported"]).len() == 40
        });
    }
    // Some hundred polls more; a value of another unit or table would be published as a change.
    let polled = line.count();
    wait_for("two hundred polls", Duration::from_secs(20), || (line.count() >= polled + 200 * 8).then_some(()));
    for (name, unit) in units {
        let states = heard.of(&format!("fieldshadow/{name}/state"));
        for state in &states {
            for (point, value) in leaves(&state.json()["reported"]) {
                let (table, address) = point.split_at(1);
                let table: u16 = if table == "h" { 0 } else { 500 };
                let expected = unit * 1000 + table + address.parse::<u16>().unwrap();
                assert_eq!(value, expected, "{name}.{point}");
            }
        }
        let last = states.last().unwrap().json();
        assert_eq!(last["quality"], serde_json::json!({}), "{name}");
    }
    assert_eq!(gateway.stop().0, Some(0));
}

#[test]
fn a_pulled_adapter_is_polled_again_within_two_seconds_and_no_descriptor_stays() {
    let Some(mut line) = PtyLine::start() else { return };
    let Some(_units) = libmodbus(&line) else { return };
    let Some(broker) = Broker::start() else { return };
    let heard = broker.subscribe("fieldshadow/one/#");
    let mut gateway = Gateway::folder(&broker, "");
    gateway.drop_device("one.yaml", &three_units_device("one", 1, &line, "50ms"));
    gateway.run();
    heard.wait("fieldshadow/one/state", Duration::from_secs(15), |s| leaves(&s["reported"]).len() == 40);

    let descriptors = |gateway: &Gateway| fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().count();
    let mut most = 0;
    let before = descriptors(&gateway);
    let mut slowest = Duration::ZERO;
    for round in 0..10 {
        assert_eq!(line.order("pull"), "pull");
        let gone = line.count();
        // A hand is sometimes quick and sometimes not.
        std::thread::sleep(Duration::from_millis([100, 400, 1500][round % 3]));
        assert_eq!(line.count(), gone, "bytes from an adapter that is not there");
        assert_eq!(line.order("plug"), "plug");
        let plugged = Instant::now();
        // Five requests: polling, not a single try.
        wait_for("polling after plugging", Duration::from_secs(10), || (line.count() >= gone + 40).then_some(()));
        slowest = slowest.max(plugged.elapsed());
        most = most.max(descriptors(&gateway));
    }
    println!("slowest return after plugging: {slowest:?}; descriptors before {before}, most {most}");
    assert!(slowest <= Duration::from_secs(2), "polling came back after {slowest:?}");
    assert!(most <= before, "descriptors grew from {before} to {most}");
    // Not only asked but answered.
    let online = |s: &Value| s["state"] == "online";
    wait_for("online again", Duration::from_secs(10), || {
        heard.of("fieldshadow/one/status").last().filter(|h| online(&h.json())).map(drop)
    });
    assert_eq!(gateway.stop().0, Some(0));
}
