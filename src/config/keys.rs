//! The keys of the configuration: one table, from which reading, defaults, "not available" and the JSON Schema come.

use crate::document::{Node, Problem, duration_text};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// A key of the configuration, by its dotted path.
#[derive(Debug)]
pub(super) struct Key {
    /// `mqtt.keep_alive`.
    pub(super) path: &'static str,
    /// What its value is.
    pub(super) kind: Kind,
    /// Its default as written in YAML; empty where there is none.
    pub(super) default: &'static str,
    /// Whether this version does what it says.
    pub(super) available: bool,
    /// In words, for the schema.
    pub(super) about: &'static str,
}

/// What a value is. Bounds are inclusive.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Text, not empty.
    Text,
    /// Text, or null for off.
    TextOrNull,
    /// `true` or `false`.
    Truth,
    /// A whole number.
    Whole(i128, i128),
    /// Milliseconds, written with a unit.
    Duration(u64, u64),
    /// Bytes, written with a unit.
    Size(u64, u64),
    /// One of a few words.
    Word(&'static [&'static str]),
    /// A list of texts; one text counts as a list of one where `single` says so.
    Texts,
    /// A mapping of the user's own names.
    Names,
}

/// A value, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Setting {
    Text(String),
    Null,
    Truth(bool),
    Whole(i128),
    Duration(Duration),
    Size(u64),
    Word(&'static str),
    Texts(Vec<String>),
    /// How many names it has.
    Names(usize),
}

const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

const fn key(path: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { path, kind, default, available: true, about }
}

const fn later(path: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { path, kind, default, available: false, about }
}

/// All keys, in the order of the documentation.
pub(super) const KEYS: &[Key] = &[
    key("gateway.id", Kind::Text, "", "the gateway's name in topics; default: the host name"),
    key("gateway.state_dir", Kind::Text, "/var/lib/fieldshadow", "folder for what must survive a restart"),
    key(
        "profiles",
        Kind::Texts,
        "[/etc/fieldshadow/device-profiles, /usr/share/fieldshadow/device-profiles]",
        "folders with profiles, first match wins; then the built-in ones",
    ),
    key("devices", Kind::Text, "/etc/fieldshadow/devices.d", "folder with device files, watched"),
    key("links", Kind::Names, "{}", "links by name, for device files to name"),
    key("mqtt.url", Kind::Text, "mqtt://127.0.0.1:1883", "mqtt://host:port"),
    later("mqtt.also", Kind::Texts, "[]", "further brokers, tried in turn"),
    later("mqtt.version", Kind::Word(&["5", "3.1.1"]), "5", "protocol version"),
    key("mqtt.client_id", Kind::Text, "", "default: the gateway's id"),
    key("mqtt.username", Kind::Text, "", "user name at the broker"),
    key("mqtt.password_file", Kind::Text, "", "file with the password, beside the configuration"),
    later("mqtt.tls.ca", Kind::Text, "", "certificate authority of the broker"),
    later("mqtt.tls.cert", Kind::Text, "", "own certificate"),
    later("mqtt.tls.key", Kind::Text, "", "own key"),
    later("mqtt.session", Kind::Word(&["clean", "persistent"]), "clean", "whether the broker keeps our session"),
    key("mqtt.keep_alive", Kind::Duration(5 * SECOND, 65_535 * SECOND), "10s", "longest silence on the connection"),
    key("mqtt.max_payload", Kind::Size(KIB, 256 << 20), "128KiB", "largest message sent or taken"),
    key("mqtt.insecure_writes", Kind::Truth, "false", "allow writes through a plain-text broker off this host"),
    key("publish.prefix", Kind::Text, "fieldshadow", "first part of native topics"),
    key("publish.state.qos", Kind::Whole(0, 1), "1", "QoS of `state`"),
    key("publish.state.retain", Kind::Truth, "true", "whether `state` is retained"),
    key("publish.state.min_interval", Kind::Duration(0, HOUR), "0s", "least time between two `state` of a device"),
    key("publish.state.heartbeat", Kind::Duration(5 * SECOND, HOUR), "60s", "`state` is sent at least so often"),
    key("publish.change.enabled", Kind::Truth, "true", "whether `change` is sent"),
    key("publish.change.qos", Kind::Whole(0, 1), "0", "QoS of `change`"),
    later("publish.history", Kind::Truth, "false", "every batch, in order"),
    later("publish.aws.enabled", Kind::Truth, "false", "the AWS dialect"),
    later("publish.aws.prefix", Kind::Text, "$aws/things", "first part of its topics"),
    later("publish.aws.documents", Kind::Truth, "false", "`update/documents` too"),
    later("publish.aws.groups", Kind::Truth, "false", "each group as a named shadow too"),
    later("publish.aws.free_form.enabled", Kind::Truth, "true", "named shadows of clients"),
    later("publish.aws.free_form.max_shadows", Kind::Whole(0, 100_000), "100", "most of them"),
    later("publish.aws.free_form.max_bytes", Kind::Size(1, 128 * KIB), "8KiB", "largest of them"),
    later("publish.home_assistant.enabled", Kind::Truth, "false", "discovery messages for Home Assistant"),
    later("publish.home_assistant.prefix", Kind::Text, "homeassistant", "first part of its topics"),
    later("publish.topics", Kind::Texts, "[]", "topic templates"),
    later("desired.ttl", Kind::Duration(0, 7 * DAY), "30s", "how long a wish may wait for its write"),
    later(
        "desired.on_local_change",
        Kind::Word(&["report", "field_wins", "cloud_wins"]),
        "report",
        "who wins when somebody changes a written point at the device",
    ),
    later("outbox.memory", Kind::Size(0, 64 * GIB), "16MiB", "messages kept in memory while the broker is away"),
    later("outbox.disk", Kind::Size(0, 1024 * GIB), "256MiB", "and on disk"),
    later("outbox.keep", Kind::Duration(0, 3650 * DAY), "7d", "for how long"),
    key("twin.watch_ring.entries", Kind::Whole(1, 100_000_000), "100000", "commits kept for slow readers"),
    key("twin.watch_ring.bytes", Kind::Size(64 * KIB, 64 * GIB), "64MiB", "and their size"),
    later("signatures.required", Kind::Truth, "false", "take only signed profiles"),
    later("signatures.root", Kind::Text, "", "key that signs them"),
    later("rollout", Kind::Names, "{}", "canaries by profile"),
    key("log.level", Kind::Word(&["error", "warn", "info", "debug", "trace"]), "info", "what is logged"),
    key(
        "log.format",
        Kind::Word(&["auto", "text", "journald", "json"]),
        "auto",
        "text on a terminal, journald under systemd, else JSON",
    ),
    later("http.listen", Kind::TextOrNull, "127.0.0.1:8321", "health, metrics and API; null for off"),
    later("http.token_file", Kind::TextOrNull, "null", "file with the token that requests must carry"),
];

impl Kind {
    /// The value of a node, or what is wrong with it. `path` names it in messages.
    pub(super) fn read(self, path: &str, node: &Node) -> Result<Setting, Problem> {
        let text = |node: &Node| match node.text() {
            Ok("") => Err(node.expects("text").remedy(format!("leave `{path}` out, or write what it is"))),
            Ok(text) => Ok(text.to_owned()),
            Err(problem) => Err(problem),
        };
        Ok(match self {
            Self::TextOrNull if node.as_written() == Some("") => return Err(node.expects("text or null")),
            Self::TextOrNull if node.is_null() => Setting::Null,
            Self::Text | Self::TextOrNull => Setting::Text(text(node)?),
            Self::Truth => Setting::Truth(node.boolean()?),
            Self::Whole(least, most) => Setting::Whole(node.integer_within(path, least..=most)?),
            Self::Duration(least, most) => {
                let d = node.duration()?;
                let (least, most) = (Duration::from_millis(least), Duration::from_millis(most));
                if !(least..=most).contains(&d) {
                    let (least, most) = (duration_text(least), duration_text(most));
                    return Err(beyond(node, path, &least, &most));
                }
                Setting::Duration(d)
            }
            Self::Size(least, most) => {
                let bytes = node.size()?;
                if !(least..=most).contains(&bytes) {
                    return Err(beyond(node, path, &size_text(least), &size_text(most)));
                }
                Setting::Size(bytes)
            }
            Self::Word(words) => {
                let pairs: Vec<(&str, &'static str)> = words.iter().map(|w| (*w, *w)).collect();
                Setting::Word(node.word(&pairs)?)
            }
            Self::Texts => Setting::Texts(node.items()?.iter().map(text).collect::<Result<_, _>>()?),
            Self::Names => Setting::Names(node.mapping()?.entries.len()),
        })
    }

    fn schema(self) -> Json {
        match self {
            Self::Text => json!({"type": "string", "minLength": 1}),
            Self::TextOrNull => json!({"type": ["string", "null"], "minLength": 1}),
            Self::Truth => json!({"type": "boolean"}),
            Self::Whole(least, most) => json!({"type": "integer", "minimum": least as i64, "maximum": most as i64}),
            Self::Duration(..) => json!({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"}),
            Self::Size(..) => json!({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB)$"}),
            // The one word that looks like a number may be written as one.
            Self::Word(words) if words.contains(&"5") => json!({"enum": [5, "5", "3.1.1"]}),
            Self::Word(words) => json!({"enum": words}),
            Self::Texts => json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
            Self::Names => json!({"type": "object"}),
        }
    }
}

fn beyond(node: &Node, path: &str, least: &str, most: &str) -> Problem {
    let written = node.as_written().unwrap_or_default();
    Problem::new(node.place, format!("{path} is {written}, it may be {least} to {most}"))
        .remedy(format!("write a value from {least} to {most}"))
}

fn size_text(bytes: u64) -> String {
    let (unit, factor) = [("GiB", GIB), ("MiB", 1 << 20), ("KiB", KIB)]
        .into_iter()
        .find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor))
        .unwrap_or(("B", 1));
    format!("{}{unit}", bytes / factor)
}

/// The key of this path.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The names that may stand below a section (`""` for the outermost).
pub(super) fn names_below(section: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for key in KEYS {
        let below = if section.is_empty() {
            Some(key.path)
        } else {
            key.path.strip_prefix(section).and_then(|rest| rest.strip_prefix('.'))
        };
        let Some(name) = below.and_then(|rest| rest.split('.').next()) else { continue };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// JSON Schema (2020-12) of the configuration file, for editors.
pub fn schema() -> Json {
    let mut root = section_schema("");
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "fieldshadow configuration".into();
    root
}

fn section_schema(section: &str) -> Json {
    let mut properties = serde_json::Map::new();
    for name in names_below(section) {
        let path = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
        let schema = match find(&path) {
            Some(key) => {
                let mut schema = key.kind.schema();
                let note = if key.available { "" } else { " (not available in this version)" };
                schema["description"] = format!("{}{note}", key.about).into();
                schema
            }
            None => section_schema(&path),
        };
        properties.insert(name.to_owned(), schema);
    }
    // A section of which everything is commented out is empty.
    let kind = if section.is_empty() { json!("object") } else { json!(["object", "null"]) };
    json!({"type": kind, "additionalProperties": false, "properties": properties})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            let document = Document::parse("default", key.default).unwrap();
            key.kind.read(key.path, document.root()).unwrap_or_else(|p| panic!("{}: {}", key.path, p.message));
        }
    }

    #[test]
    fn no_key_is_both_section_and_value() {
        for key in KEYS {
            assert!(names_below(key.path).is_empty(), "{}", key.path);
            assert_eq!(KEYS.iter().filter(|other| other.path == key.path).count(), 1, "{}", key.path);
        }
        assert_eq!(names_below("mqtt.tls"), ["ca", "cert", "key"]);
    }

    #[test]
    fn the_schema_is_one_and_takes_the_documented_file() {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let yaml = "mqtt: {version: 5, keep_alive: 10s}\nhttp: {listen: null}\npublish:\nlinks: {a: {serial: x}}\n";
        let json = Document::parse("c", yaml).unwrap().root().to_json();
        assert!(validator.is_valid(&json), "{:?}", validator.validate(&json).err());
        assert!(!validator.is_valid(&json!({"mqtt": {"keepalive": "10s"}})));
        assert!(!validator.is_valid(&json!({"mqtt": {"keep_alive": 10}})));
    }
}
