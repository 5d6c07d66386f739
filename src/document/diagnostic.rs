//! What is wrong in a file, where, and what would be right.

use super::{Document, Place};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::json;
use std::fmt::{self, Write};
use std::sync::Arc;

/// Most mistakes kept of one run; further ones are counted and said in one line.
const MAX_KEPT: usize = 1000;
/// Longest piece of a line shown, in characters around the mark: a file may be one line of a mebibyte.
const MAX_SHOWN: usize = 400;
/// Further places are marked if they lie within so many bytes of the first.
const MAX_APART: usize = 20_000;

/// How grave it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is taken; somebody should know.
    Warning,
}

/// One mistake in one file.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// The file's name.
    pub file: Arc<str>,
    /// Where, and how long the mark is.
    pub place: Place,
    /// How grave.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: Option<String>,
    /// Further places in the same file, each with a few words.
    pub also: Vec<(Place, String)>,
    source: Arc<str>,
}

/// A mistake found by a reader that does not know the file: a [`Diagnostic`] without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: Option<String>,
}

impl Problem {
    /// A mistake without a remedy.
    pub fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), remedy: None }
    }

    /// The same with a remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// All that is wrong in one file or in several, each mistake with its place.
///
/// Bounded: beyond 1000 they are only counted.
#[derive(Debug, Clone)]
pub struct Diagnostics {
    file: Arc<str>,
    source: Arc<str>,
    list: Vec<Diagnostic>,
    dropped: usize,
    dropped_errors: usize,
    /// Where a report beyond the bound goes, so that [`Diagnostics::report`] always has one to return.
    spill: Option<Box<Diagnostic>>,
}

impl Diagnostics {
    /// None yet, about this document.
    pub fn new(document: &Document) -> Self {
        Self::of(Arc::clone(&document.file), Arc::clone(&document.text))
    }

    /// None yet, about a text that is no tree (yet), or about none: then lines are not shown.
    pub fn of(file: Arc<str>, source: Arc<str>) -> Self {
        Self { file, source, list: Vec::new(), dropped: 0, dropped_errors: 0, spill: None }
    }

    /// Adds an error; remedy and further places may be put on what is returned.
    pub fn report(&mut self, place: Place, message: impl Into<String>) -> &mut Diagnostic {
        self.add(place, Severity::Error, message.into())
    }

    /// Adds a warning.
    pub fn warn(&mut self, place: Place, message: impl Into<String>) -> &mut Diagnostic {
        self.add(place, Severity::Warning, message.into())
    }

    /// Adds what a reader found.
    pub fn add_problem(&mut self, problem: Problem) {
        self.report(problem.place, problem.message).remedy = problem.remedy;
    }

    /// The value of a reader; or nothing, and its problem is added.
    pub fn keep<T>(&mut self, read: Result<T, Problem>) -> Option<T> {
        read.map_err(|problem| self.add_problem(problem)).ok()
    }

    /// Takes over all of another run, of this file or of another.
    pub fn append(&mut self, other: Self) {
        self.dropped += other.dropped;
        self.dropped_errors += other.dropped_errors;
        for diagnostic in other.list {
            if self.list.len() < MAX_KEPT {
                self.list.push(diagnostic);
            } else {
                self.count_dropped(diagnostic.severity);
            }
        }
    }

    fn add(&mut self, place: Place, severity: Severity, message: String) -> &mut Diagnostic {
        let diagnostic = Diagnostic {
            file: Arc::clone(&self.file),
            place,
            severity,
            message,
            remedy: None,
            also: Vec::new(),
            source: Arc::clone(&self.source),
        };
        if self.list.len() < MAX_KEPT {
            self.list.push(diagnostic);
            let last = self.list.len() - 1;
            &mut self.list[last]
        } else {
            self.count_dropped(severity);
            self.spill.insert(Box::new(diagnostic))
        }
    }

    fn count_dropped(&mut self, severity: Severity) {
        self.dropped += 1;
        self.dropped_errors += usize::from(severity == Severity::Error);
    }

    /// The known word nearest to a misspelt one; nothing once so much is wrong that further reports are only counted.
    pub fn suggest<'w>(&self, word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
        if self.list.len() < MAX_KEPT { super::closest(word, known) } else { None }
    }

    /// Whether nothing at all was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many were found, those beyond the bound included.
    pub fn len(&self) -> usize {
        self.list.len() + self.dropped
    }

    /// Whether an error was found, not only warnings.
    pub fn has_errors(&self) -> bool {
        self.dropped_errors > 0 || self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// `value` where no error was found (warnings are lost), else all that was found, by place.
    pub fn into_result<T>(mut self, value: T) -> Result<T, Self> {
        if self.has_errors() {
            self.sort();
            Err(self)
        } else {
            Ok(value)
        }
    }

    /// Puts them in order of place, files in the order in which they came first; of equal ones one stays.
    pub fn sort(&mut self) {
        let mut files: Vec<Arc<str>> = Vec::new();
        for diagnostic in &self.list {
            if !files.contains(&diagnostic.file) {
                files.push(Arc::clone(&diagnostic.file));
            }
        }
        let rank = |file: &Arc<str>| files.iter().position(|f| f == file);
        self.list.sort_by_key(|d| (rank(&d.file), d.place.line, d.place.column));
        // What stands on a default is judged anew for each point that takes it.
        self.list.dedup_by(|a, b| a.file == b.file && a.place == b.place && a.message == b.message);
    }

    /// All that were kept, in the order of [`Diagnostics::sort`] once that was called.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// One line each: `file:line:column: message; remedy`.
    pub fn lines(&self) -> String {
        let mut out = String::new();
        for diagnostic in &self.list {
            let _ = writeln!(out, "{diagnostic}");
        }
        self.say_dropped(&mut out);
        out
    }

    /// Each as a paragraph: `file:line:column: message`, the line with the place marked, and the remedy.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for diagnostic in &self.list {
            out.push_str(&diagnostic.render());
        }
        self.say_dropped(&mut out);
        out
    }

    /// A list of objects `{file, line, column, length, severity, message, remedy}`; `remedy` may be null.
    pub fn to_json(&self) -> serde_json::Value {
        self.list.iter().map(Diagnostic::to_json).collect()
    }

    fn say_dropped(&self, out: &mut String) {
        if self.dropped > 0 {
            let _ = writeln!(out, "and {} more", self.dropped);
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines())
    }
}

impl std::error::Error for Diagnostics {}

impl Diagnostic {
    /// Says what would be right.
    pub fn remedy(&mut self, remedy: impl Into<String>) -> &mut Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Marks a further place of the same file.
    pub fn also(&mut self, place: Place, label: impl Into<String>) -> &mut Self {
        self.also.push((place, label.into()));
        self
    }

    /// How long the mark is, in characters: within its first line, at least 1.
    pub fn length(&self) -> usize {
        let (start, end) = clip(&self.source, self.place);
        self.source.get(start..end).map_or(1, |t| t.chars().count().max(1))
    }

    /// `{file, line, column, length, severity, message, remedy}`.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "file": &*self.file,
            "line": self.place.line,
            "column": self.place.column,
            "length": self.length(),
            "severity": match self.severity { Severity::Error => "error", Severity::Warning => "warning" },
            "message": self.message,
            "remedy": self.remedy,
        })
    }

    /// A paragraph: `file:line:column: message`, the line with the place marked, `= help:` and the remedy.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{}", self.headline());
        let drawn = self.draw();
        if drawn.is_empty() {
            if let Some(remedy) = &self.remedy {
                let _ = writeln!(out, "  = help: {}", printable(remedy));
            }
        } else {
            out.push_str(&drawn);
            out.push('\n');
        }
        out
    }

    fn headline(&self) -> String {
        let warning = if self.severity == Severity::Warning { "warning: " } else { "" };
        let Place { line, column, .. } = self.place;
        format!("{}:{line}:{column}: {warning}{}", printable(&self.file), printable(&self.message))
    }

    /// The lines concerned with marks beneath; empty where there is no source, or no line short enough to show.
    fn draw(&self) -> String {
        let (start, end) = clip(&self.source, self.place);
        let mut marks = vec![(start, end, AnnotationKind::Primary, String::new())];
        for (place, label) in &self.also {
            let (from, to) = clip(&self.source, *place);
            if from.abs_diff(start) <= MAX_APART {
                marks.push((from, to, AnnotationKind::Context, printable(label)));
            }
        }
        let first = marks.iter().map(|m| m.0).min().unwrap_or(start);
        let last = marks.iter().map(|m| m.1).max().unwrap_or(end);
        let from = self.source[..first].rfind('\n').map_or(0, |i| i + 1);
        let to = self.source[last..].find('\n').map_or(self.source.len(), |i| last + i);
        let shown = &self.source[from..to];
        if shown.is_empty() || shown.lines().any(|l| l.len() > MAX_SHOWN) {
            return String::new();
        }
        let before = self.source[from..start].matches('\n').count();
        let line = (self.place.line as usize).saturating_sub(before).max(1);
        let mut snippet = Snippet::source(shown).line_start(line).fold(true);
        for (start, end, kind, label) in marks {
            let mark = kind.span(start - from..end - from);
            snippet = snippet.annotation(if label.is_empty() { mark } else { mark.label(label) });
        }
        let level = if self.severity == Severity::Error { Level::ERROR } else { Level::WARNING };
        let mut group = Group::with_level(level).element(snippet);
        if let Some(remedy) = &self.remedy {
            group = group.element(Level::HELP.message(printable(remedy)));
        }
        Renderer::plain().render(&[group])
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {}", printable(remedy)),
            None => Ok(()),
        }
    }
}

/// The part of a place that lies on its first line and within the text, at character borders.
fn clip(source: &str, place: Place) -> (usize, usize) {
    let border = |mut at: usize| {
        at = at.min(source.len());
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = border(place.start);
    let end = border(place.end).max(start);
    let end = source[start..end].find(['\n', '\r']).map_or(end, |i| start + i);
    (start, end)
}

/// Text of a file may steer a terminal: control characters are shown, not obeyed.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_shown_with_its_line_its_mark_and_its_remedy() {
        let document = Document::parse("p.yaml", "limits:\n  gap: 5\n  gap: 70000 # ü\n").unwrap();
        let mut wrong = Diagnostics::new(&document);
        document.root().report_duplicates(&mut wrong);
        assert_eq!(wrong.lines(), "p.yaml:3:3: key `gap` stands twice; keep one of the two\n");
        let shown = wrong.render();
        assert!(shown.starts_with("p.yaml:3:3: key `gap` stands twice\n"), "{shown}");
        assert!(shown.contains("3 |   gap: 70000 # ü\n  |   ^^^\n"), "{shown}");
        assert!(shown.contains("2 |   gap: 5\n  |   --- first here\n"), "{shown}");
        assert!(shown.contains("= help: keep one of the two"), "{shown}");
        let json = wrong.to_json();
        assert_eq!(json[0]["line"], 3);
        assert_eq!(json[0]["length"], 3);
        assert_eq!(json[0]["remedy"], "keep one of the two");
    }

    #[test]
    fn places_count_characters_and_never_cut_one() {
        let document = Document::parse("p.yaml", "{ü: 1, é: x}").unwrap();
        let mut wrong = Diagnostics::new(&document);
        wrong.report(document.at(&["é"]).unwrap().place, "no number");
        assert_eq!(wrong.lines(), "p.yaml:1:11: no number\n");
        wrong.report(Place { line: 1, column: 1, start: 2, end: 9999 }, "odd place");
        assert!(wrong.render().contains("odd place"));
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        let wrong = Diagnostics::of("a\u{1b}[2J".into(), "".into());
        let mut wrong = wrong;
        wrong.report(Place::default(), "x\u{7}\u{202e}y");
        assert!(!wrong.render().contains(['\u{1b}', '\u{7}', '\u{202e}']));
    }

    #[test]
    fn beyond_the_bound_they_are_counted() {
        let mut wrong = Diagnostics::of("f".into(), "".into());
        for _ in 0..MAX_KEPT + 3 {
            wrong.report(Place::default(), "x").remedy("y");
        }
        assert_eq!((wrong.len(), wrong.iter().count()), (MAX_KEPT + 3, MAX_KEPT));
        assert!(wrong.lines().ends_with("and 3 more\n"));
        assert!(wrong.into_result(()).is_err());
    }
}
