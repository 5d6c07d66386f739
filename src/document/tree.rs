//! The located tree of one file.

use super::{Diagnostics, loader};
use std::sync::Arc;

/// One file as a tree in which every node knows its place.
#[derive(Debug, Clone)]
pub struct Document {
    pub(super) file: Arc<str>,
    pub(super) text: Arc<str>,
    pub(super) root: Node,
}

/// Where something stands in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Place {
    /// Line, counted from 1.
    pub line: u32,
    /// Column in characters, counted from 1.
    pub column: u32,
    /// First byte of the text.
    pub start: usize,
    /// First byte after it; at least `start`.
    pub end: usize,
}

/// One node of the tree. A node that an alias brought in keeps the place of its definition.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub content: Content,
}

/// What a node is.
#[derive(Debug, Clone)]
pub enum Content {
    /// Text as written; see [`Node`]'s typed readers for what it means.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values.
    Mapping(Mapping),
}

/// A scalar as written: its type is decided by whoever reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// The text, unescaped and without quotes. Empty where nothing was written.
    pub text: Arc<str>,
    /// Whether it stood in quotes or as a block, and hence is text whatever it looks like.
    pub quoted: bool,
}

/// The entries of a mapping in file order, duplicate keys kept. Every key is a scalar.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    /// All of them; those of `<<` come last, unless the mapping has a key of that name itself.
    pub entries: Vec<Entry>,
}

/// One key with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// A scalar.
    pub key: Node,
    /// Its value.
    pub value: Node,
}

impl Document {
    /// Largest file, in bytes.
    pub const MAX_BYTES: usize = 1 << 20;
    /// Most nodes, after aliases are expanded.
    pub const MAX_NODES: usize = 200_000;
    /// Deepest nesting, after aliases are expanded.
    pub const MAX_DEPTH: usize = 64;

    /// Reads one YAML 1.2 document. `file_name` is what diagnostics call it.
    ///
    /// Refused: text that is no YAML, several documents in one file, tags, keys that are no scalars, aliases within
    /// their own anchor, and whatever goes beyond the budgets above. An empty file is a document of nothing.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, Diagnostics> {
        loader::load(file_name, text)
    }

    /// What diagnostics call it.
    pub fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// The whole text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The outermost node.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The node at the end of a path of keys and list indices, where it exists.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| match &node.content {
            Content::Mapping(mapping) => mapping.get(step),
            Content::Sequence(items) => items.get(step.parse::<usize>().ok()?),
            Content::Scalar(_) => None,
        })
    }

    /// The node that a JSON pointer (RFC 6901) names, or the deepest one on the way to it that exists.
    pub fn nearest(&self, pointer: &str) -> &Node {
        let mut node = &self.root;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let next = match &node.content {
                Content::Mapping(mapping) => mapping.get(&step),
                Content::Sequence(items) => step.parse::<usize>().ok().and_then(|i| items.get(i)),
                Content::Scalar(_) => None,
            };
            match next {
                Some(found) => node = found,
                None => break,
            }
        }
        node
    }
}

impl Node {
    /// The scalar, where it is one.
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.content {
            Content::Scalar(scalar) => Some(scalar),
            Content::Sequence(_) | Content::Mapping(_) => None,
        }
    }

    /// What a scalar says, exactly as written, whatever its type would be; nothing for lists and mappings.
    pub fn as_written(&self) -> Option<&str> {
        self.scalar().map(|s| &*s.text)
    }

    /// Whether it is `~`, `null` or nothing at all.
    pub fn is_null(&self) -> bool {
        self.scalar().is_some_and(Scalar::is_null)
    }

    /// The value of a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Mapping(mapping) => mapping.get(key),
            Content::Scalar(_) | Content::Sequence(_) => None,
        }
    }

    /// The tree as JSON, scalars as written: `true` and `false`, numbers (hex and octal too), null, else text. Of a
    /// key that stands twice the first one counts. Durations and sizes stay text.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.content {
            Content::Scalar(scalar) => scalar.to_json(),
            Content::Sequence(items) => items.iter().map(Self::to_json).collect(),
            Content::Mapping(mapping) => {
                let mut object = serde_json::Map::new();
                for entry in &mapping.entries {
                    object.entry(entry.name()).or_insert_with(|| entry.value.to_json());
                }
                object.into()
            }
        }
    }

    /// Reports every key that stands twice, in this node and all below: for trees that are not read by [`super::Fields`].
    pub fn report_duplicates(&self, wrong: &mut Diagnostics) {
        match &self.content {
            Content::Scalar(_) => {}
            Content::Sequence(items) => items.iter().for_each(|n| n.report_duplicates(wrong)),
            Content::Mapping(mapping) => {
                mapping.report_duplicates(wrong);
                mapping.entries.iter().for_each(|e| e.value.report_duplicates(wrong));
            }
        }
    }
}

impl Scalar {
    /// Whether it is `~`, `null` or nothing at all, without quotes.
    pub fn is_null(&self) -> bool {
        !self.quoted && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }
}

impl Mapping {
    /// The first value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|e| e.name() == key).map(|e| &e.value)
    }

    /// Reports each key that stands here a second time, at its second place.
    pub fn report_duplicates(&self, wrong: &mut Diagnostics) {
        let mut seen = std::collections::HashMap::new();
        for entry in &self.entries {
            if let Some(first) = seen.get(entry.name()) {
                wrong
                    .report(entry.key.place, format!("key `{}` stands twice", entry.name()))
                    .remedy("keep one of the two")
                    .also(*first, "first here");
            } else {
                seen.insert(entry.name(), entry.key.place);
            }
        }
    }
}

impl Entry {
    /// The key's text as written.
    pub fn name(&self) -> &str {
        self.key.as_written().unwrap_or_default()
    }
}
