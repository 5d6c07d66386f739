//! The layers of the configuration: file, drop-ins, environment; merged without losing a place.
//!
//! Merging is the `config` crate's. It is given, as the value of each key, only the number of a leaf: so it can coerce
//! nothing, and the node that wins still knows its file, line and column.

use super::keys::{self, Kind};
use crate::document::{Content, Diagnostics, Document, Node, Place, Scalar, closest};
use config::{ConfigError, Map, Source, Value, ValueKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Prefix of environment variables that are ours; the next parts are keys, in any case.
const PREFIX: &str = "FIELDSHADOW__";

/// One source of settings: a file, or an environment variable.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// Dotted path and value of each known key that it sets.
    pub(super) leaves: Vec<(&'static str, Node)>,
    /// What is wrong with it.
    pub(super) wrong: Diagnostics,
    file: Arc<str>,
    text: Arc<str>,
}

impl Layer {
    /// The layer of a file's text. Unknown and repeated keys are in `wrong`, and in no leaf.
    pub(super) fn of_file(name: &str, text: &str) -> Self {
        let document = match Document::parse(name, text) {
            Ok(document) => document,
            Err(wrong) => return Self::new(name, text, wrong),
        };
        let mut layer = Self::new(name, text, Diagnostics::new(&document));
        layer.section("", document.root());
        layer
    }

    /// A layer of nothing but a mistake with a file as a whole.
    pub(super) fn of_mistake(name: &str, message: String) -> Self {
        let mut wrong = Diagnostics::of(name.into(), "".into());
        wrong.report(FIRST, message);
        Self::new(name, "", wrong)
    }

    fn new(name: &str, text: &str, wrong: Diagnostics) -> Self {
        Self { leaves: Vec::new(), wrong, file: name.into(), text: text.into() }
    }

    /// No mistakes yet, about this layer.
    pub(super) fn remarks(&self) -> Diagnostics {
        Diagnostics::of(Arc::clone(&self.file), Arc::clone(&self.text))
    }

    /// The layer of an environment variable, if it is one of ours. Its text is read as what its key wants.
    pub(super) fn of_variable(name: &str, text: &str) -> Option<Self> {
        let path = name.strip_prefix(PREFIX)?.to_lowercase().replace("__", ".");
        let mut wrong = Diagnostics::of(name.into(), text.into());
        let Some(key) = keys::find(&path) else {
            let diagnostic = wrong.report(FIRST, format!("no key of the configuration is `{path}`"));
            if let Some(near) = closest(&path, keys::KEYS.iter().map(|key| key.path)) {
                diagnostic.remedy(format!("did you mean {PREFIX}{}?", near.to_uppercase().replace('.', "__")));
            } else {
                diagnostic.remedy("as in FIELDSHADOW__MQTT__URL for `url` under `mqtt`");
            }
            return Some(Self::new(name, text, wrong));
        };
        let scalar = |quoted| Node {
            place: Place { end: text.len(), ..FIRST },
            content: Content::Scalar(Scalar { text: Arc::from(text), quoted }),
        };
        let node = match key.kind {
            Kind::Text => scalar(true),
            Kind::TextOrNull => scalar(text != "null"),
            Kind::Truth | Kind::Whole(..) | Kind::Duration(..) | Kind::Size(..) | Kind::Word(_) => scalar(false),
            Kind::Texts | Kind::Names => match Document::parse(name, text) {
                Ok(document) => document.root().clone(),
                Err(wrong) => return Some(Self::new(name, text, wrong)),
            },
        };
        Some(Self { leaves: vec![(key.path, node)], ..Self::new(name, text, wrong) })
    }

    fn section(&mut self, section: &str, node: &Node) {
        if node.is_null() {
            return;
        }
        let mapping = match node.mapping() {
            Ok(mapping) => mapping,
            Err(problem) => return self.wrong.add_problem(problem),
        };
        mapping.report_duplicates(&mut self.wrong);
        let known = keys::names_below(section);
        for (i, entry) in mapping.entries.iter().enumerate() {
            let name = entry.name();
            if mapping.entries[..i].iter().any(|earlier| earlier.name() == name) {
                continue;
            }
            if !known.contains(&name) {
                let place = if section.is_empty() { "the configuration" } else { section };
                let diagnostic = self.wrong.report(entry.key.place, format!("unknown key `{name}`"));
                match closest(name, known.iter().copied()) {
                    Some(near) => diagnostic.remedy(format!("did you mean `{near}`?")),
                    None => diagnostic.remedy(format!("{place} has {}", known.join(", "))),
                };
                continue;
            }
            let path = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
            match keys::find(&path) {
                Some(key) => self.leaves.push((key.path, entry.value.clone())),
                None => self.section(&path, &entry.value),
            }
        }
    }
}

/// The first character of whatever is meant.
pub(super) const FIRST: Place = Place { line: 1, column: 1, start: 0, end: 0 };

/// Which leaf of which layer won, by path.
pub(super) type Winners = BTreeMap<&'static str, (usize, usize)>;

/// Merges layers, the later over the earlier, key by key; lists are replaced as a whole.
pub(super) fn merge(layers: &[Layer]) -> Result<Winners, ConfigError> {
    let mut builder = config::Config::builder();
    for (number, layer) in layers.iter().enumerate() {
        builder = builder.add_source(Numbered::new(number, layer));
    }
    let merged = builder.build()?;
    let mut winners = Winners::new();
    collect("", &merged.cache, &mut winners);
    Ok(winners)
}

fn collect(path: &str, value: &Value, winners: &mut Winners) {
    match &value.kind {
        ValueKind::Table(table) => {
            for (name, value) in table {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(&path, value, winners);
            }
        }
        ValueKind::U64(number) => {
            if let Some(key) = keys::find(path) {
                winners.insert(key.path, ((number >> 32) as usize, (number & 0xFFFF_FFFF) as usize));
            }
        }
        // No layer has anything else.
        _ => {}
    }
}

/// A layer as the `config` crate sees it: numbers for values.
#[derive(Debug, Clone)]
struct Numbered(Map<String, Value>);

impl Numbered {
    fn new(layer_number: usize, layer: &Layer) -> Self {
        let mut root = Map::new();
        for (i, (path, _)) in layer.leaves.iter().enumerate() {
            let mut table = &mut root;
            let mut steps = path.split('.').peekable();
            while let Some(step) = steps.next() {
                if steps.peek().is_none() {
                    let number = (layer_number as u64) << 32 | i as u64;
                    table.insert(step.to_owned(), Value::new(None, ValueKind::U64(number)));
                    break;
                }
                let below =
                    table.entry(step.to_owned()).or_insert_with(|| Value::new(None, ValueKind::Table(Map::new())));
                let ValueKind::Table(next) = &mut below.kind else { break };
                table = next;
            }
        }
        Self(root)
    }
}

impl Source for Numbered {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_layers_win_key_by_key() {
        let layers = [
            Layer::of_file("a.yaml", "mqtt: {url: mqtt://a, keep_alive: 5s}\nprofiles: [x, y]\n"),
            Layer::of_file("b.yaml", "mqtt: {keep_alive: 6s}\nprofiles: [z]\n"),
            Layer::of_variable("FIELDSHADOW__MQTT__URL", "mqtt://c").unwrap(),
        ];
        let winners = merge(&layers).unwrap();
        let won = |path: &str| {
            let (layer, leaf) = winners[path];
            (layer, layers[layer].leaves[leaf].1.to_json().to_string())
        };
        assert_eq!(won("mqtt.url"), (2, "\"mqtt://c\"".into()));
        assert_eq!(won("mqtt.keep_alive"), (1, "\"6s\"".into()));
        assert_eq!(won("profiles"), (1, "[\"z\"]".into()));
    }

    #[test]
    fn other_variables_are_not_ours() {
        assert!(Layer::of_variable("FIELDSHADOW_LOG", "debug").is_none());
        assert!(Layer::of_variable("HOME", "/").is_none());
    }
}
