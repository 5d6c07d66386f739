//! The gateway's own configuration as meant.

use super::broker::{Broker, Scheme};
use super::folder;
use super::keys::{self, KEYS, Setting};
use super::layers::{FIRST, Layer, Winners, merge};
use super::link::Links;
use crate::document::{Diagnostics, Document, Node, Problem};
use crate::model::DeviceId;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration: file, then `conf.d/*.yaml` beside it in name order, then the environment.
///
/// Paths in it are relative to the folder of the configuration file. Everything that the documentation names is
/// accepted; what this version does not do is in [`Config::not_available`], and has no field.
#[derive(Debug, Clone)]
pub struct Config {
    /// The gateway itself.
    pub gateway: Gateway,
    /// Folders with profiles; the first that has one wins, the built-in ones come last.
    pub profiles: Vec<PathBuf>,
    /// Folder with device files. Default `/etc/fieldshadow/devices.d`.
    pub devices: PathBuf,
    /// Links that device files may name.
    pub links: Links,
    /// The broker and our session with it.
    pub mqtt: Mqtt,
    /// What is published.
    pub publish: Publish,
    /// The twin store.
    pub twin: Twin,
    /// Logs.
    pub log: Log,
    /// Warnings about keys that say something other than the default and that this version does not do: to be said
    /// once at start, and by `check`.
    pub not_available: Diagnostics,
}

/// `gateway:`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// Its name in topics. Default: the host name, see [`name_of_host`].
    pub id: DeviceId,
    /// Folder for what must survive a restart. Default `/var/lib/fieldshadow`.
    pub state_dir: PathBuf,
}

/// `mqtt:`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mqtt {
    /// Where the broker is. Default `mqtt://127.0.0.1:1883`.
    pub broker: Broker,
    /// Default: the gateway's id.
    pub client_id: String,
    /// Default none.
    pub username: Option<String>,
    /// The content of `password_file` without its last line break. Default none.
    pub password: Option<Secret>,
    /// Longest silence on the connection: 5 s to 65535 s. Default 10 s.
    pub keep_alive: Duration,
    /// Largest message sent or taken, in bytes: 1 KiB to 256 MiB. Default 128 KiB.
    pub max_payload: usize,
    /// Allow writes through a plain-text broker off this host. Default false.
    pub insecure_writes: bool,
}

/// `publish:`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// First part of native topics, without wildcards. Default `fieldshadow`.
    pub prefix: String,
    /// The retained whole.
    pub state: State,
    /// What changed.
    pub change: Change,
}

/// `publish.state:`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// 0 or 1. Default 1.
    pub qos: u8,
    /// Default true.
    pub retain: bool,
    /// Least time between two messages of a device: 0 to 1 h, default 0. Never delays one by which a quality gets worse.
    pub min_interval: Duration,
    /// It is sent at least so often: 5 s to 1 h. Default 60 s.
    pub heartbeat: Duration,
}

/// `publish.change:`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Default true.
    pub enabled: bool,
    /// 0 or 1. Default 0.
    pub qos: u8,
}

/// `twin:`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twin {
    /// Commits kept for slow readers: 1 to 100 000 000. Default 100 000.
    pub watch_ring_entries: usize,
    /// And their size in bytes: 64 KiB to 64 GiB. Default 64 MiB.
    pub watch_ring_bytes: usize,
}

/// `log:`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Default info.
    pub level: LogLevel,
    /// Default auto.
    pub format: LogFormat,
}

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words say it")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, journald under systemd, else JSON.
    Auto,
    /// Text for people.
    Text,
    /// With the priority marks of journald.
    Journald,
    /// One object a line.
    Json,
}

/// What a secret file holds. Never shown: `Debug` prints stars.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself: for the wire, never for a log.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// What a configuration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A gateway in a plant.
    Gateway,
    /// The demo, or a test: `embedded://` is allowed.
    Demo,
}

impl Config {
    /// Largest secret file, in bytes.
    const MAX_SECRET: usize = 64 << 10;

    /// Reads a configuration file, what lies beside it in `conf.d`, and the environment; all mistakes at once.
    ///
    /// `host_name` is the gateway's id where none is given, see [`name_of_host`].
    pub fn load(
        path: &Path,
        env: impl Iterator<Item = (String, String)>,
        host_name: &str,
        purpose: Purpose,
    ) -> Result<Self, Diagnostics> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut layers = vec![layer_of(path)];
        match folder::yaml_files(&folder.join("conf.d")) {
            Ok(files) => layers.extend(files.iter().map(|file| layer_of(file))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let name = folder.join("conf.d").display().to_string();
                layers.push(Layer::of_mistake(&name, format!("cannot be read: {error}")));
            }
        }
        Self::of_layers(layers, folder, env, host_name, purpose)
    }

    /// Reads a configuration out of a text, as if it stood in `folder`; and the environment. No file is read but the
    /// password's.
    pub fn of_text(
        name: &str,
        text: &str,
        folder: &Path,
        env: impl Iterator<Item = (String, String)>,
        host_name: &str,
        purpose: Purpose,
    ) -> Result<Self, Diagnostics> {
        Self::of_layers(vec![Layer::of_file(name, text)], folder, env, host_name, purpose)
    }

    fn of_layers(
        mut layers: Vec<Layer>,
        folder: &Path,
        env: impl Iterator<Item = (String, String)>,
        host_name: &str,
        purpose: Purpose,
    ) -> Result<Self, Diagnostics> {
        let mut variables: Vec<_> = env.collect();
        variables.sort();
        layers.extend(variables.iter().filter_map(|(name, text)| Layer::of_variable(name, text)));
        let credentials = variables.iter().find(|(name, _)| name == "CREDENTIALS_DIRECTORY").map(|(_, path)| path);

        // Every value of every layer is judged, also one that a later layer overrides.
        let mut not_available = Diagnostics::of("".into(), "".into());
        for layer in &mut layers {
            let mut said = layer.remarks();
            let wrong = &mut layer.wrong;
            for (path, node) in &layer.leaves {
                let Some(key) = keys::find(path) else { continue };
                let Some(setting) = wrong.keep(key.kind.read(path, node)) else { continue };
                wrong.keep(judge(path, &setting, node, purpose));
                if *path == "links" {
                    Links::read(node, folder, wrong);
                }
                if !key.available && default_of(path).as_ref() != Some(&setting) && setting != Setting::Names(0) {
                    said.warn(node.place, format!("`{path}` is not available in this version"))
                        .remedy(format!("leave `{path}` out: it does nothing yet"));
                }
            }
            not_available.append(said);
        }

        let mut wrong = Diagnostics::of("".into(), "".into());
        let winners = match merge(&layers) {
            Ok(winners) => winners,
            Err(error) => {
                wrong.report(FIRST, format!("the layers of the configuration do not fit together: {error}"));
                return Err(wrong);
            }
        };
        let password = password(&mut layers, &winners, folder, credentials);
        for layer in &layers {
            wrong.append(layer.wrong.clone());
        }
        let merged = Merged { layers: &layers, winners: &winners, folder };
        let config = merged.config(host_name, password, not_available);
        wrong.into_result(config)
    }
}

fn layer_of(path: &Path) -> Layer {
    let name = path.display().to_string();
    match folder::read_text(path) {
        Ok(text) => Layer::of_file(&name, &text),
        Err(error) => Layer::of_mistake(&name, format!("cannot be read: {error}")),
    }
}

fn default_of(path: &str) -> Option<Setting> {
    let key = KEYS.iter().find(|key| key.path == path && !key.default.is_empty())?;
    key.kind.read(path, Document::parse("default", key.default).ok()?.root()).ok()
}

/// What a value's kind alone does not say.
fn judge(path: &str, setting: &Setting, node: &Node, purpose: Purpose) -> Result<(), Problem> {
    let Setting::Text(text) = setting else { return Ok(()) };
    match path {
        "gateway.id" => DeviceId::new(text).map(|_| ()).map_err(|error| {
            Problem::new(node.place, error.to_string()).remedy(format!("as in `{}`", name_of_host(text)))
        }),
        "mqtt.url" => match Broker::parse(text) {
            Ok(Broker { scheme: Scheme::Embedded, .. }) if purpose == Purpose::Gateway => Err(Problem::new(
                node.place,
                "embedded:// runs a broker inside the process: in the demo and in tests only",
            )
            .remedy("name a broker, as in mqtt://127.0.0.1:1883")),
            Ok(_) => Ok(()),
            Err((message, remedy)) => Err(Problem::new(node.place, message).remedy(remedy)),
        },
        "publish.prefix" => judge_prefix(text, node),
        "mqtt.client_id" | "mqtt.username" if text.chars().any(char::is_control) || text.len() > 65_535 => {
            Err(Problem::new(node.place, format!("{path} has control characters, or is too long for MQTT")))
        }
        _ => Ok(()),
    }
}

fn judge_prefix(text: &str, node: &Node) -> Result<(), Problem> {
    let problem = |message: &str, remedy: &str| Err(Problem::new(node.place, message).remedy(remedy));
    if text.contains(['+', '#']) {
        return problem(
            "`+` and `#` are wildcards and cannot stand in a topic",
            "as in `fieldshadow` or `plant/north`",
        );
    }
    if text.starts_with('$') {
        return problem("topics with `$` in front are the broker's own", "begin with a letter");
    }
    if text.split('/').any(str::is_empty) {
        return problem("a part of the topic is empty", "no `/` in front, at the end, or twice in a row");
    }
    if text.chars().any(char::is_control) || text.len() > 1024 {
        return problem("not fit for a topic: control characters, or longer than 1024 bytes", "as in `fieldshadow`");
    }
    Ok(())
}

/// Reads the password's file: beside the configuration, or among the credentials that systemd hands over.
fn password(layers: &mut [Layer], winners: &Winners, folder: &Path, credentials: Option<&String>) -> Option<Secret> {
    let (layer, leaf) = *winners.get("mqtt.password_file")?;
    let Layer { leaves, wrong, .. } = layers.get_mut(layer)?;
    let node = &leaves.get(leaf)?.1;
    let name = node.as_written().filter(|name| !name.is_empty())?;
    let beside = folder.join(name);
    let handed_over = credentials.map(|folder| Path::new(folder).join(name)).filter(|path| path.exists());
    let path = if beside.exists() { beside } else { handed_over.unwrap_or(beside) };
    match folder::read_text(&path) {
        Ok(text) if text.len() > Config::MAX_SECRET => {
            wrong.report(node.place, format!("{} is too large for a password", path.display()));
            None
        }
        Ok(text) => {
            let text = text.strip_suffix('\n').unwrap_or(&text);
            Some(Secret::new(text.strip_suffix('\r').unwrap_or(text)))
        }
        Err(error) => {
            wrong
                .report(node.place, format!("the password's file {} cannot be read: {error}", path.display()))
                .remedy("write the password into that file, readable by the service's user only");
            None
        }
    }
}

/// The winning value of each key, or its default.
struct Merged<'a> {
    layers: &'a [Layer],
    winners: &'a Winners,
    folder: &'a Path,
}

impl Merged<'_> {
    fn config(&self, host_name: &str, password: Option<Secret>, not_available: Diagnostics) -> Config {
        let host = || DeviceId::new(&name_of_host(host_name)).expect("a name made of the allowed characters");
        let id = self.text("gateway.id").and_then(|id| DeviceId::new(&id).ok()).unwrap_or_else(host);
        let default_broker = || Broker { scheme: Scheme::Plain, host: "127.0.0.1".into(), port: 1883 };
        Config {
            profiles: match self.setting("profiles") {
                Some(Setting::Texts(folders)) => folders.iter().map(|f| self.folder.join(f)).collect(),
                _ => Vec::new(),
            },
            devices: self.path("devices"),
            links: self.links(),
            mqtt: Mqtt {
                broker: self.text("mqtt.url").and_then(|u| Broker::parse(&u).ok()).unwrap_or_else(default_broker),
                client_id: self.text("mqtt.client_id").unwrap_or_else(|| id.to_string()),
                username: self.text("mqtt.username"),
                password,
                keep_alive: self.duration("mqtt.keep_alive"),
                max_payload: self.number("mqtt.max_payload"),
                insecure_writes: self.truth("mqtt.insecure_writes"),
            },
            publish: Publish {
                prefix: self.text("publish.prefix").unwrap_or_default(),
                state: State {
                    qos: self.number("publish.state.qos") as u8,
                    retain: self.truth("publish.state.retain"),
                    min_interval: self.duration("publish.state.min_interval"),
                    heartbeat: self.duration("publish.state.heartbeat"),
                },
                change: Change {
                    enabled: self.truth("publish.change.enabled"),
                    qos: self.number("publish.change.qos") as u8,
                },
            },
            twin: Twin {
                watch_ring_entries: self.number("twin.watch_ring.entries"),
                watch_ring_bytes: self.number("twin.watch_ring.bytes"),
            },
            log: Log {
                level: match self.setting("log.level") {
                    Some(Setting::Word("error")) => LogLevel::Error,
                    Some(Setting::Word("warn")) => LogLevel::Warn,
                    Some(Setting::Word("debug")) => LogLevel::Debug,
                    Some(Setting::Word("trace")) => LogLevel::Trace,
                    _ => LogLevel::Info,
                },
                format: match self.setting("log.format") {
                    Some(Setting::Word("text")) => LogFormat::Text,
                    Some(Setting::Word("journald")) => LogFormat::Journald,
                    Some(Setting::Word("json")) => LogFormat::Json,
                    _ => LogFormat::Auto,
                },
            },
            gateway: Gateway { id, state_dir: self.path("gateway.state_dir") },
            not_available,
        }
    }

    /// What was judged wrong counts as not there: its report stops the start anyway.
    fn setting(&self, path: &str) -> Option<Setting> {
        let won = self.winners.get(path).and_then(|(layer, leaf)| {
            let (_, node) = self.layers.get(*layer)?.leaves.get(*leaf)?;
            keys::find(path)?.kind.read(path, node).ok()
        });
        won.or_else(|| default_of(path))
    }

    /// Their mistakes were reported with their layer.
    fn links(&self) -> Links {
        let node = self.winners.get("links").and_then(|(layer, leaf)| self.layers.get(*layer)?.leaves.get(*leaf));
        let mut unheard = Diagnostics::of("".into(), "".into());
        node.map(|(_, node)| Links::read(node, self.folder, &mut unheard)).unwrap_or_default()
    }

    fn text(&self, path: &str) -> Option<String> {
        match self.setting(path) {
            Some(Setting::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.join(self.text(path).unwrap_or_default())
    }

    fn truth(&self, path: &str) -> bool {
        self.setting(path) == Some(Setting::Truth(true))
    }

    fn duration(&self, path: &str) -> Duration {
        match self.setting(path) {
            Some(Setting::Duration(d)) => d,
            _ => Duration::ZERO,
        }
    }

    fn number(&self, path: &str) -> usize {
        match self.setting(path) {
            Some(Setting::Whole(n)) => n as usize,
            Some(Setting::Size(n)) => n as usize,
            _ => 0,
        }
    }
}

/// A gateway's id made of a host name: characters outside the set become `-`, nothing becomes `gateway`.
pub fn name_of_host(host: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-') { c } else { '-' };
    let name: String = host.chars().take(DeviceId::MAX_LEN).map(allowed).collect();
    if name.is_empty() { "gateway".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(yaml: &str, env: &[(&str, &str)]) -> Result<Config, String> {
        let env = env.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Config::of_text("c.yaml", yaml, Path::new("/etc/fieldshadow"), env, "gw.example.org", Purpose::Gateway)
            .map_err(|wrong| wrong.lines())
    }

    fn wrong(yaml: &str) -> String {
        read(yaml, &[]).unwrap_err()
    }

    #[test]
    fn nothing_said_gives_the_documented_defaults() {
        let config = read("", &[]).unwrap();
        assert_eq!(config.gateway.id.as_str(), "gw-example-org");
        assert_eq!(config.gateway.state_dir, Path::new("/var/lib/fieldshadow"));
        assert_eq!(config.profiles.len(), 2);
        assert_eq!(config.profiles[1], Path::new("/usr/share/fieldshadow/device-profiles"));
        assert_eq!(config.devices, Path::new("/etc/fieldshadow/devices.d"));
        assert_eq!(config.mqtt.broker, Broker { scheme: Scheme::Plain, host: "127.0.0.1".into(), port: 1883 });
        assert_eq!(config.mqtt.client_id, "gw-example-org");
        assert_eq!((config.mqtt.keep_alive, config.mqtt.max_payload), (Duration::from_secs(10), 128 << 10));
        assert_eq!(config.publish.prefix, "fieldshadow");
        let state = State { qos: 1, retain: true, min_interval: Duration::ZERO, heartbeat: Duration::from_mins(1) };
        assert_eq!(config.publish.state, state);
        assert_eq!(config.publish.change, Change { enabled: true, qos: 0 });
        assert_eq!(config.twin, Twin { watch_ring_entries: 100_000, watch_ring_bytes: 64 << 20 });
        assert_eq!(config.log, Log { level: LogLevel::Info, format: LogFormat::Auto });
        assert!(config.not_available.is_empty());
    }

    #[test]
    fn every_documented_default_is_accepted_and_none_is_called_not_available() {
        let yaml = r#"
gateway: {id: gw-1, state_dir: /var/lib/fieldshadow}
profiles: [/etc/fieldshadow/device-profiles, /usr/share/fieldshadow/device-profiles]
devices: /etc/fieldshadow/devices.d
mqtt:
  url: mqtt://127.0.0.1:1883
  also: []
  version: 5
  client_id: gw-1
  username: gw
  session: clean
  keep_alive: 10s
  max_payload: 128KiB
  insecure_writes: false
publish:
  prefix: fieldshadow
  state: {qos: 1, retain: true, min_interval: 0s, heartbeat: 60s}
  change: {enabled: true, qos: 0}
  history: false
  aws: {enabled: false, prefix: "$aws/things", documents: false, groups: false, free_form: {enabled: true, max_shadows: 100, max_bytes: 8KiB}}
  home_assistant: {enabled: false, prefix: homeassistant}
  topics: []
desired: {ttl: 30s, on_local_change: report}
outbox: {memory: 16MiB, disk: 256MiB, keep: 7d}
twin: {watch_ring: {entries: 100000, bytes: 64MiB}}
rollout: {}
log: {level: info, format: auto}
http: {listen: "127.0.0.1:8321", token_file: null}
"#;
        let config = read(yaml, &[]).unwrap();
        assert_eq!(config.not_available.lines(), "");
        assert_eq!(config.mqtt.username.as_deref(), Some("gw"));
    }

    #[test]
    fn what_is_not_built_is_named_with_its_place() {
        let yaml = "rollout: {a/b: {share: 10%}}\nmqtt:\n  version: 3.1.1\n  session: persistent\n\
                    publish: {history: true, aws: {enabled: true}}\nhttp: {listen: null}\n";
        let config = read(yaml, &[("FIELDSHADOW__DESIRED__TTL", "5s")]).unwrap();
        let lines = config.not_available.lines();
        for start in [
            "c.yaml:1:10: warning: `rollout` is not",
            "c.yaml:3:12: warning: `mqtt.version` is not",
            "c.yaml:4:12: warning: `mqtt.session` is not",
            "c.yaml:5:20: warning: `publish.history` is not",
            "c.yaml:5:41: warning: `publish.aws.enabled` is not",
            "c.yaml:6:16: warning: `http.listen` is not",
            "FIELDSHADOW__DESIRED__TTL:1:1: warning: `desired.ttl` is not",
        ] {
            assert!(lines.lines().any(|line| line.starts_with(start)), "{start}\n{lines}");
        }
        assert_eq!(config.not_available.len(), 7, "{lines}");
    }

    #[test]
    fn f131_every_mistake_is_found_at_once_with_its_place() {
        let yaml = "\
mqtt:
  ulr: mqtt://x
  keep_alive: 1s
  max_payload: 128
  insecure_writes: yes
publish:
  state: {qos: 2, retain: 1, heartbeat: 2h}
  prefix: a/#
  prefix: b
gateway: {id: my gateway}
devics: /x
log: {level: verbose}
profiles: /one
";
        assert_eq!(
            wrong(yaml),
            "c.yaml:2:3: unknown key `ulr`; did you mean `url`?\n\
             c.yaml:3:15: mqtt.keep_alive is 1s, it may be 5s to 65535s; write a value from 5s to 65535s\n\
             c.yaml:4:16: a size needs a unit: B, KiB, MiB or GiB; write 128B or 128KiB\n\
             c.yaml:5:20: expects true or false, found `yes`; write true\n\
             c.yaml:7:16: publish.state.qos is 2, it may be 0 to 1; write a number from 0 to 1\n\
             c.yaml:7:27: expects true or false, found `1`\n\
             c.yaml:7:41: publish.state.heartbeat is 2h, it may be 5s to 1h; write a value from 5s to 1h\n\
             c.yaml:8:11: `+` and `#` are wildcards and cannot stand in a topic; as in `fieldshadow` or `plant/north`\n\
             c.yaml:9:3: key `prefix` stands twice; keep one of the two\n\
             c.yaml:10:15: ` ` cannot stand in a device's name: letters, digits, `:`, `_` and `-` can; as in `my-gateway`\n\
             c.yaml:11:1: unknown key `devics`; did you mean `devices`?\n\
             c.yaml:12:14: `verbose` is none of error, warn, info, debug, trace; write `error`, `warn`, `info`, `debug` \
             or `trace`\n\
             c.yaml:13:11: expects a list, found `/one`\n"
        );
    }

    #[test]
    fn nothing_is_coerced() {
        for (yaml, found) in [
            ("mqtt: {client_id: 12}", "expects text, found `12`"),
            ("mqtt: {username: true}", "expects text, found `true`"),
            ("publish: {state: {qos: \"1\"}}", "expects a whole number, found the text \"1\""),
            ("publish: {state: {qos: 0.7}}", "expects a whole number, found `0.7`"),
            ("twin: {watch_ring: {entries: 1e5}}", ""),
            ("mqtt: {insecure_writes: \"true\"}", "expects true or false, found the text"),
            ("mqtt: 5", "expects a mapping"),
            ("gateway: [a]", "expects a mapping"),
            ("- a", "expects a mapping"),
            ("mqtt: {url: ~}", "expects text, found nothing"),
            ("http: {listen: \"\"}", "expects text or null"),
            ("mqtt.url: mqtt://x", "unknown key `mqtt.url`"),
        ] {
            if let Err(lines) = read(yaml, &[]) {
                assert!(lines.contains(found), "{yaml}: {lines}");
            } else {
                assert!(found.is_empty(), "{yaml} was taken");
            }
        }
    }

    #[test]
    fn a_broker_inside_is_for_the_demo() {
        let lines = wrong("mqtt: {url: \"embedded://\"}");
        assert!(lines.starts_with("c.yaml:1:13: ") && lines.contains("in the demo and in tests only"), "{lines}");
        let lines = wrong("mqtt: {url: \"mqtt://gw:secret@x\"}");
        assert!(lines.starts_with("c.yaml:1:13: ") && !lines.contains("secret"), "{lines}");
        let none = std::iter::empty();
        let demo = Config::of_text("c", "mqtt: {url: embedded://}", Path::new(""), none, "", Purpose::Demo).unwrap();
        assert_eq!(demo.mqtt.broker.scheme, Scheme::Embedded);
        assert_eq!(demo.gateway.id.as_str(), "gateway");
    }

    #[test]
    fn the_environment_wins_and_is_read_as_its_key_wants() {
        let config = read(
            "mqtt: {username: file, keep_alive: 20s}\n",
            &[
                ("FIELDSHADOW__MQTT__USERNAME", "007"),
                ("FIELDSHADOW__PUBLISH__STATE__QOS", "0"),
                ("FIELDSHADOW__PUBLISH__CHANGE__ENABLED", "false"),
                ("FIELDSHADOW__PROFILES", "[/a, b]"),
                ("FIELDSHADOW_LOG", "debug"),
                ("PATH", "/bin"),
            ],
        )
        .unwrap();
        assert_eq!(config.mqtt.username.as_deref(), Some("007"));
        assert_eq!(config.mqtt.keep_alive, Duration::from_secs(20));
        assert_eq!((config.publish.state.qos, config.publish.change.enabled), (0, false));
        assert_eq!(config.profiles, [Path::new("/a"), Path::new("/etc/fieldshadow/b")]);
        let lines = read("", &[("FIELDSHADOW__MQTT__ULR", "x"), ("FIELDSHADOW__MQTT__KEEP_ALIVE", "1s")]).unwrap_err();
        assert_eq!(
            lines,
            "FIELDSHADOW__MQTT__KEEP_ALIVE:1:1: mqtt.keep_alive is 1s, it may be 5s to 65535s; write a value from 5s to \
             65535s\n\
             FIELDSHADOW__MQTT__ULR:1:1: no key of the configuration is `mqtt.ulr`; did you mean FIELDSHADOW__MQTT__URL?\n"
        );
    }

    #[test]
    fn a_wrong_value_is_reported_also_where_a_later_layer_overrides_it() {
        let lines = read("mqtt: {keep_alive: 1s}", &[("FIELDSHADOW__MQTT__KEEP_ALIVE", "7s")]).unwrap_err();
        assert!(lines.starts_with("c.yaml:1:20: "), "{lines}");
    }

    #[test]
    fn drop_ins_follow_in_name_order_and_secrets_come_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("conf.d")).unwrap();
        fs::write(at("fieldshadow.yaml"), "mqtt: {client_id: a, password_file: mqtt.password}\n").unwrap();
        fs::write(at("conf.d/20.yaml"), "mqtt: {client_id: c}\n").unwrap();
        fs::write(at("conf.d/10.yaml"), "mqtt: {client_id: b, username: u}\ndevices: d\n").unwrap();
        fs::write(at("conf.d/30.yaml~"), "broken: [\n").unwrap();
        fs::write(at("mqtt.password"), "p4ss word\n").unwrap();
        let load = || Config::load(&at("fieldshadow.yaml"), std::iter::empty(), "h", Purpose::Gateway);
        let config = load().unwrap();
        assert_eq!((&*config.mqtt.client_id, config.mqtt.username.as_deref()), ("c", Some("u")));
        assert_eq!(config.devices, at("d"));
        assert_eq!(config.mqtt.password.as_ref().unwrap().reveal(), "p4ss word");
        assert!(!format!("{config:?}").contains("p4ss"), "a secret was printed");

        fs::write(at("conf.d/40.yaml"), "mqtt: {client: c}\n").unwrap();
        fs::remove_file(at("mqtt.password")).unwrap();
        let lines = load().unwrap_err().lines();
        assert!(lines.contains("fieldshadow.yaml:1:37: the password's file "), "{lines}");
        assert!(lines.contains("conf.d/40.yaml:1:8: unknown key `client`"), "{lines}");

        let credentials = tempfile::tempdir().unwrap();
        fs::write(credentials.path().join("mqtt.password"), "from systemd").unwrap();
        fs::remove_file(at("conf.d/40.yaml")).unwrap();
        let env = [("CREDENTIALS_DIRECTORY".to_owned(), credentials.path().display().to_string())];
        let config = Config::load(&at("fieldshadow.yaml"), env.into_iter(), "h", Purpose::Gateway).unwrap();
        assert_eq!(config.mqtt.password.unwrap().reveal(), "from systemd");
    }

    #[test]
    fn a_missing_file_and_broken_yaml_are_located() {
        let none = || std::iter::empty();
        let lines = Config::load(Path::new("/no/such.yaml"), none(), "h", Purpose::Gateway).unwrap_err().lines();
        assert!(lines.starts_with("/no/such.yaml:1:1: cannot be read: "), "{lines}");
        assert!(wrong("mqtt: [1\n").starts_with("c.yaml:2:1: not valid YAML"), "{}", wrong("mqtt: [1\n"));
    }
}
