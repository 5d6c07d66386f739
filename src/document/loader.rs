//! From the events of a YAML parser to the tree, within budgets and without recursion.

use super::{Content, Diagnostics, Document, Entry, Mapping, Node, Place, Scalar};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Most bytes of scalars after aliases are expanded: text is shared, but a reader may copy it.
const MAX_EXPANDED_BYTES: usize = 8 << 20;

/// A node with what it weighs once expanded.
struct Weighed {
    node: Node,
    nodes: usize,
    bytes: usize,
    height: usize,
}

/// A list or mapping whose end has not come.
struct Open {
    place: Place,
    anchor: usize,
    items: Items,
    nodes: usize,
    bytes: usize,
    height: usize,
}

enum Items {
    Sequence(Vec<Node>),
    Mapping { entries: Vec<Entry>, key: Option<Node> },
}

struct Loader<'a> {
    text: &'a str,
    /// Byte at which each character begins; empty for ASCII, where the two are equal.
    bytes_of: Vec<usize>,
    /// Byte at which each line begins.
    lines: Vec<usize>,
    stack: Vec<Open>,
    anchors: HashMap<usize, Weighed>,
    root: Option<Node>,
    nodes: usize,
    bytes: usize,
    wrong: Diagnostics,
}

/// A budget is exceeded: nothing more is read.
struct Stop;

pub(super) fn load(file_name: &str, text: &str) -> Result<Document, Diagnostics> {
    // A byte order mark is no content, and no column of the first line.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (file, source): (Arc<str>, Arc<str>) = (Arc::from(file_name), Arc::from(text));
    let mut loader = Loader::new(text, Diagnostics::of(Arc::clone(&file), Arc::clone(&source)));
    if text.len() > Document::MAX_BYTES {
        let place = Place { line: 1, column: 1, start: 0, end: 0 };
        loader.wrong.report(place, format!("the file has {} bytes, the most is {}", text.len(), Document::MAX_BYTES));
        return Err(loader.wrong);
    }
    let _: Result<(), Stop> = loader.run();
    let start = Place { line: 1, column: 1, start: 0, end: 0 };
    let root = loader.root.take().unwrap_or_else(|| nothing(start));
    loader.wrong.into_result(Document { file, text: source, root })
}

fn nothing(place: Place) -> Node {
    Node { place, content: Content::Scalar(Scalar { text: Arc::from(""), quoted: false }) }
}

impl<'a> Loader<'a> {
    fn new(text: &'a str, wrong: Diagnostics) -> Self {
        let bytes_of = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(i, _)| i).collect() };
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        Self {
            text,
            bytes_of,
            lines,
            stack: Vec::new(),
            anchors: HashMap::new(),
            root: None,
            nodes: 0,
            bytes: 0,
            wrong,
        }
    }

    fn run(&mut self) -> Result<(), Stop> {
        for step in Parser::new_from_str(self.text) {
            let (event, span) = match step {
                Ok(step) => step,
                Err(error) => {
                    let place = self.place(Span::empty(*error.marker()));
                    // The scanner's own limit on brackets, met while it looks ahead for a key.
                    if error.info().contains("recursion limit") {
                        return self.too_deep(place);
                    }
                    let wrong = self.wrong.report(place, format!("not valid YAML: {}", error.info()));
                    if self.text[..place.start].ends_with('\t') || self.text[place.start..].starts_with('\t') {
                        wrong.remedy("indent with blanks, not with tabs");
                    }
                    return Err(Stop);
                }
            };
            self.step(event, span)?;
        }
        Ok(())
    }

    fn step(&mut self, event: Event, span: Span) -> Result<(), Stop> {
        let place = self.place(span);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => {
                if self.root.is_some() {
                    self.wrong
                        .report(place, "a second document begins in this file")
                        .remedy("one document a file: put it into a file of its own");
                    return Err(Stop);
                }
            }
            Event::Alias(anchor) => self.alias(anchor, place)?,
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), place);
                let scalar = self.scalar(&text, style, place);
                let bytes = scalar.text.len();
                self.spend(1, bytes, place)?;
                let node = Node { place: self.scalar_place(place, &scalar), content: Content::Scalar(scalar) };
                self.finish(Weighed { node, nodes: 1, bytes, height: 1 }, anchor);
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), place);
                self.open(place, anchor, Items::Sequence(Vec::new()))?;
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), place);
                self.open(place, anchor, Items::Mapping { entries: Vec::new(), key: None })?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(place),
        }
        Ok(())
    }

    fn refuse_tag(&mut self, tagged: bool, place: Place) {
        if tagged {
            self.wrong.report(place, "tags (`!…`) are not understood here").remedy("leave the tag out");
        }
    }

    fn scalar(&self, text: &str, style: ScalarStyle, place: Place) -> Scalar {
        let quoted = style != ScalarStyle::Plain;
        // The parser says `~` for what was left out, at the place of whatever comes next.
        let left_out = !quoted && text == "~" && !self.text[place.start..].starts_with('~');
        Scalar { text: if left_out { Arc::from("") } else { Arc::from(text) }, quoted }
    }

    /// What was left out is marked at its key.
    fn scalar_place(&self, place: Place, scalar: &Scalar) -> Place {
        let key = self.stack.last().and_then(|open| match &open.items {
            Items::Mapping { key, .. } => key.as_ref(),
            Items::Sequence(_) => None,
        });
        match key {
            Some(key) if scalar.text.is_empty() && !scalar.quoted => key.place,
            _ => place,
        }
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<(), Stop> {
        let Some(known) = self.anchors.get(&anchor) else {
            self.wrong
                .report(place, "an alias within its own anchor")
                .remedy("an alias may only repeat what is complete");
            return Err(Stop);
        };
        let (nodes, bytes, height) = (known.nodes, known.bytes, known.height);
        self.spend(nodes, bytes, place)?;
        self.fit_depth(height, place)?;
        let Some(known) = self.anchors.get(&anchor) else { return Err(Stop) };
        let node = known.node.clone();
        self.finish(Weighed { node, nodes, bytes, height }, 0);
        Ok(())
    }

    fn open(&mut self, place: Place, anchor: usize, items: Items) -> Result<(), Stop> {
        self.spend(1, 0, place)?;
        self.fit_depth(1, place)?;
        self.stack.push(Open { place, anchor, items, nodes: 1, bytes: 0, height: 0 });
        Ok(())
    }

    fn close(&mut self, end: Place) {
        let Some(open) = self.stack.pop() else { return };
        let place = Place { end: end.end.max(open.place.end), ..open.place };
        let content = match open.items {
            Items::Sequence(items) => Content::Sequence(items),
            Items::Mapping { entries, .. } => Content::Mapping(self.merge(entries)),
        };
        let node = Node { place, content };
        self.finish(Weighed { node, nodes: open.nodes, bytes: open.bytes, height: open.height + 1 }, open.anchor);
    }

    /// Puts a complete node where it belongs.
    fn finish(&mut self, weighed: Weighed, anchor: usize) {
        if anchor != 0 {
            let Weighed { node, nodes, bytes, height } = &weighed;
            let copy = Weighed { node: node.clone(), nodes: *nodes, bytes: *bytes, height: *height };
            self.anchors.insert(anchor, copy);
        }
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(weighed.node);
            return;
        };
        open.nodes += weighed.nodes;
        open.bytes += weighed.bytes;
        open.height = open.height.max(weighed.height);
        match &mut open.items {
            Items::Sequence(items) => items.push(weighed.node),
            Items::Mapping { entries, key } => match key.take() {
                None => *key = Some(weighed.node),
                Some(key) if key.scalar().is_some() => entries.push(Entry { key, value: weighed.node }),
                Some(key) => {
                    self.wrong.report(key.place, "a key must be a single word or text, not a list or mapping");
                }
            },
        }
    }

    /// Resolves `<<`: what the mapping says itself wins, then the first of several merged ones.
    fn merge(&mut self, entries: Vec<Entry>) -> Mapping {
        let is_merge = |e: &Entry| e.key.scalar().is_some_and(|s| !s.quoted && &*s.text == "<<");
        if !entries.iter().any(is_merge) {
            return Mapping { entries };
        }
        let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_merge);
        let mut names: HashSet<Arc<str>> = own.iter().filter_map(name_of).collect();
        for merge in merges {
            let place = merge.value.place;
            let sources = match merge.value.content {
                Content::Sequence(items) => items,
                content => vec![Node { place, content }],
            };
            for source in sources {
                let Content::Mapping(mapping) = source.content else {
                    self.wrong.report(source.place, "`<<` takes a mapping, or a list of mappings");
                    continue;
                };
                own.extend(mapping.entries.into_iter().filter(|e| name_of(e).is_some_and(|n| names.insert(n))));
            }
        }
        Mapping { entries: own }
    }

    fn spend(&mut self, nodes: usize, bytes: usize, place: Place) -> Result<(), Stop> {
        self.nodes += nodes;
        self.bytes += bytes;
        if self.nodes > Document::MAX_NODES || self.bytes > MAX_EXPANDED_BYTES {
            let most = Document::MAX_NODES;
            self.wrong
                .report(place, format!("the file is too large: with its aliases expanded it goes beyond {most} nodes"));
            return Err(Stop);
        }
        Ok(())
    }

    fn fit_depth(&mut self, height: usize, place: Place) -> Result<(), Stop> {
        if self.stack.len() + height > Document::MAX_DEPTH {
            return self.too_deep(place);
        }
        Ok(())
    }

    fn too_deep(&mut self, place: Place) -> Result<(), Stop> {
        self.wrong.report(place, format!("nested deeper than {} levels", Document::MAX_DEPTH));
        Err(Stop)
    }

    fn place(&self, span: Span) -> Place {
        let start = self.byte(span.start);
        let end = self.byte(span.end).max(start);
        let line = self.lines.partition_point(|&begin| begin <= start).max(1);
        let column = 1 + self.text[self.lines[line - 1]..start].chars().count();
        Place { line: line as u32, column: column as u32, start, end }
    }

    fn byte(&self, marker: Marker) -> usize {
        if self.bytes_of.is_empty() {
            marker.index().min(self.text.len())
        } else {
            self.bytes_of.get(marker.index()).copied().unwrap_or(self.text.len())
        }
    }
}

fn name_of(entry: &Entry) -> Option<Arc<str>> {
    entry.key.scalar().map(|s| Arc::clone(&s.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn place_of(text: &str, path: &[&str]) -> (u32, u32, String) {
        let document = Document::parse("x", text).unwrap_or_else(|d| panic!("{d}"));
        let place = document.at(path).unwrap_or_else(|| panic!("no {path:?} in {text}")).place;
        (place.line, place.column, document.text()[place.start..place.end].to_owned())
    }

    fn refusal(text: &str) -> String {
        let begun = Instant::now();
        let said = Document::parse("x", text).map(|d| d.root().to_json()).unwrap_err().lines();
        assert!(begun.elapsed() < Duration::from_secs(5), "took {:?}", begun.elapsed());
        said
    }

    #[test]
    fn every_node_knows_its_place() {
        let text = "a: 1\nbö:\n  - x\n  - {c: \"d e\"}\nempty:\nlast: 'it'\n";
        assert_eq!(place_of(text, &["a"]), (1, 4, "1".into()));
        assert_eq!(place_of(text, &["bö", "0"]), (3, 5, "x".into()));
        assert_eq!(place_of(text, &["bö", "1", "c"]), (4, 9, "\"d e\"".into()));
        assert_eq!(place_of(text, &["empty"]), (5, 1, "empty".into()));
        assert_eq!(place_of(text, &["last"]), (6, 7, "'it'".into()));
        assert_eq!(place_of("a: 1\r\nb: 2\r\n", &["b"]), (2, 4, "2".into()));
        assert_eq!(place_of("\u{feff}a: 1\nb: 2\n", &["a"]), (1, 4, "1".into()));
        assert_eq!(place_of("\u{feff}a: 1\nb: 2\n", &["b"]), (2, 4, "2".into()));
    }

    #[test]
    fn aliases_and_merge_keys_are_expanded() {
        let text = "base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}\nlist: *b\nboth: {<<: [{z: 9}, *b]}\n";
        let json = Document::parse("x", text).unwrap().root().to_json();
        assert_eq!(json["use"], serde_json::json!({"x": 1, "y": 3}));
        assert_eq!(json["list"], serde_json::json!({"x": 1, "y": 2}));
        assert_eq!(json["both"], serde_json::json!({"x": 1, "y": 2, "z": 9}));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert!(refusal("a: 1\n---\nb: 2\n").contains("x:2:1: a second document"));
        assert!(refusal("a: !!str 1\n").contains("tags"));
        assert!(refusal("a: !x {b: 1}\n").contains("tags"));
        assert!(refusal("? [a, b]\n: 1\n").contains("a key must be"));
        assert!(refusal("a: &a [*a]\n").contains("within its own anchor"));
        assert!(refusal("a: *nowhere\n").contains("not valid YAML"));
        assert!(refusal("a: [1\n").contains("not valid YAML"));
        assert!(refusal("a:\n\t- b\n").contains("blanks, not with tabs"));
        assert!(refusal("a: {<<: 5}\n").contains("`<<` takes a mapping"));
        assert!(Document::parse("x", "").unwrap().root().is_null());
        assert!(Document::parse("x", "# nothing\n").unwrap().root().is_null());
        assert!(Document::parse("x", "---\na: 1\n...\n").is_ok());
    }

    #[test]
    fn deep_nesting_and_alias_bombs_are_refused_fast() {
        assert!(refusal(&"[".repeat(500_000)).contains("deeper than 64"));
        assert!(refusal(&"- ".repeat(200_000)).contains("deeper than 64"));
        assert!(refusal(&"{a: ".repeat(200_000)).contains("deeper than 64"));
        let deep: Vec<String> = (0..200).map(|i| " ".repeat(i) + "a:\n").collect();
        assert!(refusal(&deep.concat()).contains("deeper than 64"));
        let level = |i: usize| format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(", "));
        let bomb =
            "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned() + &(1..10).map(level).collect::<Vec<_>>().concat();
        assert!(refusal(&bomb).contains("too large"));
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(500_000), vec!["*a"; 1000].join(", "));
        assert!(refusal(&long).contains("too large"));
        let floor = |i: usize| format!("a{i}: &a{i} [*a{}]\n", i - 1);
        let tower = "a0: &a0 [x]\n".to_owned() + &(1..80).map(floor).collect::<Vec<_>>().concat();
        assert!(refusal(&tower).contains("deeper than 64"));
        assert!(refusal(&"x".repeat(Document::MAX_BYTES + 1)).contains("bytes"));
        assert!(refusal(&"- a\n".repeat(250_000)).contains("too large"));
    }

    #[test]
    fn large_files_within_the_budgets_are_read_in_reasonable_time() {
        for text in ["a: 1\n".repeat(90_000), " ".repeat(1_000_000), "#\n".repeat(500_000), "\n".repeat(1_000_000)] {
            let begun = Instant::now();
            let _ = Document::parse("x", &text);
            assert!(begun.elapsed() < Duration::from_secs(10), "took {:?}", begun.elapsed());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_text_makes_it_panic(text in "[-a:{}\\[\\], \n\t#&*!|>'\"%@`?~0x.é\u{feff}<\r]{0,80}") {
            if let Err(wrong) = Document::parse("x", &text) {
                prop_assert!(!wrong.is_empty());
                let _ = (wrong.render(), wrong.to_json());
            }
        }

        #[test]
        fn no_unicode_makes_it_panic(text in "\\PC{0,60}") {
            if let Err(wrong) = Document::parse("x", &text) {
                let _ = wrong.render();
            }
        }
    }
}
