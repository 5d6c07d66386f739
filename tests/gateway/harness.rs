//! Starts and ends peers, and collects what they say.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Material that is not part of the repository; tests that read it skip without it.
pub fn shared(path: &str) -> Option<PathBuf> {
    let path = root().join("../shared").join(path);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no ../shared");
    None
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until `ready` gives something, polling; panics with `what` after `patience`.
pub fn wait_for<T>(what: &str, patience: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(began.elapsed() < patience, "no {what} within {patience:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_open(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn program(name: &str) -> Option<PathBuf> {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&places).collect();
    folders.push("/usr/sbin".into());
    folders.into_iter().map(|f| f.join(name)).find(|p| p.is_file())
}

/// A child that is killed when its test ends, however it ends.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A mosquitto on loopback.
pub struct Broker {
    child: Option<Killed>,
    pub port: u16,
    dir: TempDir,
}

impl Broker {
    /// Starts one, or says that it is missing.
    pub fn start() -> Option<Self> {
        if program("mosquitto").is_none() || program("mosquitto_sub").is_none() {
            println!("skipped: no mosquitto");
            return None;
        }
        let mut broker = Self { child: None, port: free_port(), dir: tempfile::tempdir().unwrap() };
        broker.run();
        Some(broker)
    }

    /// Starts it (again) on its port, with nothing remembered.
    pub fn run(&mut self) {
        let config = self.dir.path().join("mosquitto.conf");
        let text = format!(
            "listener {} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_dest none\n\
             set_tcp_nodelay true\nmax_queued_messages 100000\n",
            self.port
        );
        fs::write(&config, text).unwrap();
        let child = Command::new(program("mosquitto").unwrap())
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(Killed(child));
        wait_for("broker", Duration::from_secs(10), || is_open(self.port).then_some(()));
        let version = Command::new(program("mosquitto_sub").unwrap()).arg("--version").output().unwrap();
        let version = String::from_utf8_lossy(&version.stdout);
        println!("used: mosquitto ({})", version.lines().next().unwrap_or_default());
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(&mut self) {
        self.child = None;
    }

    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// Subscribes with `mosquitto_sub`.
    pub fn subscribe(&self, topic: &str) -> Subscriber {
        Subscriber::start(self.port, topic)
    }
}

/// One message as `mosquitto_sub` saw it.
#[derive(Debug, Clone)]
pub struct Heard {
    pub topic: String,
    pub retained: bool,
    pub payload: String,
}

impl Heard {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.payload).unwrap_or_else(|e| panic!("{e}: {}", self.payload))
    }
}

/// A running `mosquitto_sub`.
pub struct Subscriber {
    _child: Killed,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Subscriber {
    pub fn start(port: u16, topic: &str) -> Self {
        let mut child = Command::new(program("mosquitto_sub").unwrap())
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-V", "mqttv5", "-q", "1", "-t", topic])
            .args(["-F", "%t\t%r\t%p"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (lines, sink) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&heard));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut parts = line.splitn(3, '\t');
                let (Some(topic), Some(retained), Some(payload)) = (parts.next(), parts.next(), parts.next()) else {
                    continue;
                };
                let message = Heard { topic: topic.to_owned(), retained: retained == "1", payload: payload.to_owned() };
                sink.lock().unwrap().push(message);
            }
        });
        Self { _child: Killed(child), heard }
    }

    /// All messages so far.
    pub fn all(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// Messages of one topic so far.
    pub fn of(&self, topic: &str) -> Vec<Heard> {
        self.heard.lock().unwrap().iter().filter(|h| h.topic == topic).cloned().collect()
    }

    /// Waits for a message of a topic that `fits`, among those already heard too.
    pub fn wait(&self, topic: &str, patience: Duration, mut fits: impl FnMut(&Value) -> bool) -> Value {
        let mut seen = 0;
        wait_for(&format!("fitting message on {topic}; heard {:#?}", self.last(topic)), patience, || {
            let heard = self.of(topic);
            let found = heard[seen.min(heard.len())..].iter().map(Heard::json).find(|v| fits(v));
            seen = heard.len();
            found
        })
    }

    fn last(&self, topic: &str) -> Option<String> {
        self.of(topic).last().map(|h| h.payload.clone())
    }
}

/// Dumps served by pymodbus.
pub struct Pymodbus {
    child: Option<Killed>,
    /// On TCP.
    pub port: u16,
    link: String,
    units: Vec<String>,
}

impl Pymodbus {
    /// Over Modbus TCP.
    pub fn start(units: &[(u8, &Path)]) -> Option<Self> {
        let port = free_port();
        Some(Self { port, ..Self::on(&format!("tcp:{port}"), units)? })
    }

    /// On any link that `peers/modbus_server.py` knows.
    pub fn on(link: &str, units: &[(u8, &Path)]) -> Option<Self> {
        let units = units.iter().map(|(unit, dump)| format!("{unit}={}", dump.display())).collect();
        let mut server = Self { child: None, port: 0, link: link.to_owned(), units };
        server.run().then_some(server)
    }

    /// Starts it (again) on its link.
    pub fn run(&mut self) -> bool {
        let Some(python) = python() else { return false };
        let mut child = Command::new(python)
            .arg(root().join("tests/gateway/peers/modbus_server.py"))
            .arg(&self.link)
            .args(&self.units)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "pymodbus did not start: {line}");
        println!("used: {}", line.trim().trim_end_matches(" listening"));
        self.child = Some(Killed(child));
        true
    }

    pub fn kill(&mut self) {
        self.child = None;
    }
}

/// The Python of the tests' environment, or a word that it is missing.
pub fn python() -> Option<PathBuf> {
    let python =
        std::env::var_os("FIELDSHADOW_TEST_PYTHON").map_or_else(|| root().join(".venv/bin/python"), PathBuf::from);
    if python.is_file() {
        return Some(python);
    }
    println!("skipped: no Python environment with pymodbus and jsonschema");
    None
}

/// Validates documents with the foreign validator; says nothing where it is missing.
pub fn validate(schema: &Path, documents: &[String]) {
    let Some(python) = python() else { return };
    let mut child = Command::new(python)
        .arg(root().join("tests/gateway/peers/validate.py"))
        .arg(schema)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = documents.join("\n") + "\n";
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the validator refuses: {words}{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{} valid", documents.len()));
    println!("used: Python jsonschema");
}

/// A folder of configuration, and the gateway that runs on it.
pub struct Gateway {
    pub dir: TempDir,
    child: Option<Child>,
}

impl Gateway {
    /// A configuration folder; `more` are further lines of the configuration file.
    pub fn folder(broker: &Broker, more: &str) -> Self {
        Self::folder_at(&broker.url(), more)
    }

    pub fn folder_at(url: &str, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("devices.d")).unwrap();
        fs::create_dir(dir.path().join("device-profiles")).unwrap();
        fs::create_dir(dir.path().join("state")).unwrap();
        let text = format!(
            "gateway: {{id: gw-test, state_dir: state}}\nprofiles: [device-profiles]\ndevices: devices.d\n\
             mqtt: {{url: \"{url}\"}}\n{more}\n"
        );
        fs::write(dir.path().join("fieldshadow.yaml"), text).unwrap();
        Self { dir, child: None }
    }

    /// Drops a device file, by rename as a careful tool does.
    pub fn drop_device(&self, name: &str, text: &str) {
        let folder = self.dir.path().join("devices.d");
        fs::write(folder.join(format!(".{name}.part")), text).unwrap();
        fs::rename(folder.join(format!(".{name}.part")), folder.join(name)).unwrap();
    }

    pub fn remove_device(&self, name: &str) {
        fs::remove_file(self.dir.path().join("devices.d").join(name)).unwrap();
    }

    pub fn run(&mut self) {
        let log = fs::File::create(self.dir.path().join("gateway.log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_fieldshadow"))
            .args(["run", "--config"])
            .arg(self.dir.path().join("fieldshadow.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Of the running gateway.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("gateway.log")).unwrap_or_default()
    }

    /// SIGTERM; returns exit code and how long it took.
    pub fn stop(&mut self) -> (Option<i32>, Duration) {
        let mut child = self.child.take().expect("it runs");
        let began = Instant::now();
        signal(&child, "TERM");
        let status = wait_for("exit after SIGTERM", Duration::from_secs(15), || child.try_wait().unwrap());
        (status.code(), began.elapsed())
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- the gateway's log:\n{}", self.log());
        }
    }
}

pub fn signal(child: &Child, name: &str) {
    Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status().unwrap();
}

/// Runs the command to its end.
pub fn fieldshadow(args: &[&str]) -> Finished {
    let output = Command::new(env!("CARGO_BIN_EXE_fieldshadow"))
        .args(args)
        .current_dir(root())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Finished {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub struct Finished {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Leaves of a JSON object by dotted path.
pub fn leaves(value: &Value) -> BTreeMap<String, Value> {
    fn walk(prefix: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(members) => {
                for (key, inner) in members {
                    let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    walk(&path, inner, into);
                }
            }
            leaf => {
                into.insert(prefix.to_owned(), leaf.clone());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk("", value, &mut found);
    found
}

/// What a pretend server of the tests answers to one read: registers, or an exception code, after a delay.
pub struct Answer {
    pub registers: Result<Vec<u16>, u8>,
    pub delay: Duration,
}

/// A Modbus TCP server of the tests' own, independent of the product's code: one thread a connection.
pub struct TestServer {
    pub port: u16,
    pub requests: Arc<Mutex<Vec<(Instant, u16, u16)>>>,
    pub connections: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl TestServer {
    /// `answer(unit, function, address, count)` is asked for each read.
    pub fn start(answer: impl Fn(u8, u8, u16, u16) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            requests: Arc::default(),
            connections: Arc::default(),
            stop: Arc::default(),
        };
        let (requests, connections, stop) =
            (Arc::clone(&server.requests), Arc::clone(&server.connections), Arc::clone(&server.stop));
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                connections.fetch_add(1, Ordering::Relaxed);
                let (requests, answer, stop) = (Arc::clone(&requests), Arc::clone(&answer), Arc::clone(&stop));
                std::thread::spawn(move || serve(stream, &requests, &*answer, &stop));
            }
        });
        server
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(
    mut stream: TcpStream,
    requests: &Mutex<Vec<(Instant, u16, u16)>>,
    answer: &(dyn Fn(u8, u8, u16, u16) -> Answer + Send + Sync),
    stop: &AtomicBool,
) {
    let _ = stream.set_nodelay(true);
    let mut frame = [0u8; 12];
    while stream.read_exact(&mut frame).is_ok() && !stop.load(Ordering::Relaxed) {
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (address, count) = (word(8), word(10));
        requests.lock().unwrap().push((Instant::now(), address, count));
        let Answer { registers, delay } = answer(frame[6], frame[7], address, count);
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let mut pdu = vec![frame[6]];
        match registers {
            Ok(registers) => {
                pdu.extend([frame[7], (registers.len() * 2) as u8]);
                pdu.extend(registers.iter().flat_map(|r| r.to_be_bytes()));
            }
            Err(code) => pdu.extend([frame[7] | 0x80, code]),
        }
        let mut reply = frame[..4].to_vec();
        reply.extend((pdu.len() as u16).to_be_bytes());
        reply.extend(pdu);
        if stream.write_all(&reply).is_err() {
            return;
        }
    }
}
