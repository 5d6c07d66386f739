//! The keys of one mapping: asked for by name, and whatever nobody asked for is a mistake.

use super::{Diagnostics, Entry, Mapping, Node, Place, closest};

/// Reads a mapping key by key. Open it, ask for each key, then [`Fields::close`] it: only that finds unknown keys.
#[derive(Debug)]
pub struct Fields<'a> {
    what: &'static str,
    place: Place,
    mapping: &'a Mapping,
    asked: Vec<&'static str>,
    /// Required keys that are not there, but another one looks like them: whether that one is known is seen at the end.
    perhaps_misspelt: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Opens a mapping; where the node is none, that is reported. `what` names it in messages: "a point".
    /// Keys that stand twice are reported here; the first counts.
    pub fn open(node: &'a Node, what: &'static str, wrong: &mut Diagnostics) -> Option<Self> {
        let mapping = match node.mapping() {
            Ok(mapping) => mapping,
            Err(mut problem) => {
                problem.message = format!("{what} is a mapping (`key: value`), found {}", node.shown());
                wrong.add_problem(problem);
                return None;
            }
        };
        mapping.report_duplicates(wrong);
        Some(Self { what, place: node.place, mapping, asked: Vec::new(), perhaps_misspelt: Vec::new() })
    }

    /// The value of a key that may be left out. A key without a value counts as given: its reader refuses it.
    pub fn optional(&mut self, key: &'static str) -> Option<&'a Node> {
        self.entry(key).map(|e| &e.value)
    }

    /// The value of a key that must be there; where it is not, that is reported.
    pub fn required(&mut self, key: &'static str, wrong: &mut Diagnostics) -> Option<&'a Node> {
        let found = self.optional(key);
        if found.is_none() {
            if self.looks_like(key).next().is_some() {
                self.perhaps_misspelt.push(key);
            } else {
                self.say_missing(key, wrong);
            }
        }
        found
    }

    /// The whole entry of a key, for who needs the key's place.
    pub fn entry(&mut self, key: &'static str) -> Option<&'a Entry> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        self.mapping.entries.iter().find(|e| e.name() == key)
    }

    /// Where the mapping begins, one character long.
    pub fn start(&self) -> Place {
        Place { end: self.place.start + 1, ..self.place }
    }

    /// All entries, asked for or not.
    pub fn mapping(&self) -> &'a Mapping {
        self.mapping
    }

    /// Reports every key that nobody asked for: those of `later` as "not available in this version", the others as
    /// unknown, with the nearest known one.
    pub fn close(self, later: &[&'static str], wrong: &mut Diagnostics) {
        for key in &self.perhaps_misspelt {
            // An unknown key that looks like it is reported below: that is enough.
            if self.looks_like(key).all(|e| self.asked.contains(&e.name())) {
                self.say_missing(key, wrong);
            }
        }
        for entry in &self.mapping.entries {
            let name = entry.name();
            if self.asked.contains(&name) {
                continue;
            }
            if later.contains(&name) {
                wrong
                    .report(entry.key.place, format!("`{name}` is not available in this version"))
                    .remedy(format!("leave `{name}` out"));
                continue;
            }
            let near = wrong.suggest(name, self.asked.iter().chain(later).copied());
            let diagnostic = wrong.report(entry.key.place, format!("unknown key `{name}`"));
            match near {
                Some(near) => diagnostic.remedy(format!("did you mean `{near}`?")),
                None => diagnostic.remedy(format!("{} has no such key", self.what)),
            };
        }
    }

    fn say_missing(&self, key: &str, wrong: &mut Diagnostics) {
        wrong.report(self.start(), format!("{} needs `{key}`", self.what)).remedy(format!("add `{key}: …`"));
    }

    /// Keys that may be meant for `key`.
    fn looks_like(&self, key: &'static str) -> impl Iterator<Item = &'a Entry> {
        self.mapping.entries.iter().filter(move |e| closest(e.name(), [key]).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    #[test]
    fn f131_all_mistakes_of_a_mapping_are_found_at_once() {
        let yaml = "scal: 0.1\ntype: u16\ntype: i16\nflags: {0: a}\ncolour: red\n";
        let document = Document::parse("p.yaml", yaml).unwrap();
        let mut wrong = Diagnostics::new(&document);
        let mut point = Fields::open(document.root(), "a point", &mut wrong).unwrap();
        let kind = point.optional("type").and_then(Node::as_written);
        let scale = point.optional("scale");
        point.required("offset", &mut wrong);
        point.close(&["flags"], &mut wrong);
        assert_eq!((kind, scale.is_none()), (Some("u16"), true));
        wrong.sort();
        assert_eq!(
            wrong.lines(),
            "p.yaml:1:1: a point needs `offset`; add `offset: …`\n\
             p.yaml:1:1: unknown key `scal`; did you mean `scale`?\n\
             p.yaml:3:1: key `type` stands twice; keep one of the two\n\
             p.yaml:4:1: `flags` is not available in this version; leave `flags` out\n\
             p.yaml:5:1: unknown key `colour`; a point has no such key\n"
        );
    }

    #[test]
    fn a_missing_key_is_missed_though_a_known_one_looks_like_it() {
        let document = Document::parse("p.yaml", "gaps: 1").unwrap();
        let mut wrong = Diagnostics::new(&document);
        let mut fields = Fields::open(document.root(), "a limit", &mut wrong).unwrap();
        assert!(fields.required("gap", &mut wrong).is_none());
        assert!(fields.optional("gaps").is_some());
        fields.close(&[], &mut wrong);
        assert_eq!(wrong.lines(), "p.yaml:1:1: a limit needs `gap`; add `gap: …`\n");
    }

    #[test]
    fn a_list_is_no_mapping() {
        let document = Document::parse("p.yaml", "[1]").unwrap();
        let mut wrong = Diagnostics::new(&document);
        assert!(Fields::open(document.root(), "a point", &mut wrong).is_none());
        assert_eq!(wrong.lines(), "p.yaml:1:1: a point is a mapping (`key: value`), found a list\n");
    }
}
