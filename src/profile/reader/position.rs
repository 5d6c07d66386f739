//! Where a value lies: `offset`, `address`, `base`, `at`, and the three ways of counting.

use crate::document::{Diagnostics, Fields, Node, Place, Problem};
use crate::modbus::Table;

/// How absolute addresses are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// As on the wire.
    Zero,
    /// From 1, as in many manuals.
    One,
    /// Reference numbers of which the first digit names the table: 40001, "00001", 300001.
    Modicon,
}

/// What addresses mean in this profile.
pub(super) struct Addressing<'a> {
    /// Nothing where the word was not understood: then no address is judged.
    pub(super) numbering: Option<Numbering>,
    /// The manual's own names.
    pub(super) notation: Stated<Notation<'a>>,
}

/// Something that may be given, and be given so that it is not understood (which is reported).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stated<T> {
    No,
    Misread,
    Yes(T),
}

impl<T> From<Option<Option<T>>> for Stated<T> {
    fn from(read: Option<Option<T>>) -> Self {
        match read {
            None => Self::No,
            Some(None) => Self::Misread,
            Some(Some(value)) => Self::Yes(value),
        }
    }
}

/// A wire address (not yet within bounds) and, where its number names it, the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) address: i128,
    pub(super) table: Option<Table>,
    pub(super) place: Place,
}

impl Addressing<'_> {
    /// An absolute address as this profile counts; nothing where it cannot be judged or was reported.
    pub(super) fn absolute(&self, node: &Node, wrong: &mut Diagnostics) -> Option<Located> {
        let located = match self.numbering? {
            Numbering::Zero => node.integer().map(|n| (n, None)),
            Numbering::One => node.integer().and_then(|n| match n {
                1.. => Ok((n - 1, None)),
                _ => Err(Problem::new(node.place, format!("{n} is no address where counting begins with 1"))
                    .remedy("write 1 for the first, or `numbering: zero`")),
            }),
            Numbering::Modicon => modicon(node),
        };
        let (address, table) = wrong.keep(located)?;
        let located = Located { address, table, place: node.place };
        located.within(wrong).then_some(located)
    }

    /// A place in the manual's notation.
    pub(super) fn at(&self, node: &Node, wrong: &mut Diagnostics) -> Option<Located> {
        let notation = match &self.notation {
            Stated::Yes(notation) => notation,
            Stated::Misread => return None,
            Stated::No => {
                wrong
                    .report(node.place, "`at` needs a `notation` in the profile")
                    .remedy("add `notation: {pattern: …, weights: […]}`, or write `address`");
                return None;
            }
        };
        let address = wrong.keep(notation.address(node))?;
        let located = Located { address, table: None, place: node.place };
        located.within(wrong).then_some(located)
    }
}

impl Located {
    /// This place, further on by a distance.
    pub(super) fn plus(self, offset: i128, place: Place) -> Self {
        Self { address: self.address + offset, place, ..self }
    }

    /// Whether it lies in the address space; where not, that is reported.
    pub(super) fn within(self, wrong: &mut Diagnostics) -> bool {
        let good = (0..=65535).contains(&self.address);
        if !good {
            wrong
                .report(self.place, format!("wire address {} is beyond 0 to 65535", self.address))
                .remedy("wire addresses count from 0 to 65535 within each table");
        }
        good
    }
}

/// 5 digits: table and 1 to 9999; 6 digits: table and 1 to 65536. Tables: 0 coil, 1 discrete, 3 input, 4 holding.
fn modicon(node: &Node) -> Result<(i128, Option<Table>), Problem> {
    let text = node.as_written().ok_or_else(|| node.expects("a reference number"))?;
    let digits = text.bytes().all(|b| b.is_ascii_digit()) && matches!(text.len(), 5 | 6);
    if text.starts_with('0') && digits && node.scalar().is_some_and(|s| !s.quoted) {
        return Err(Problem::new(node.place, format!("`{text}` loses its leading zero as a number"))
            .remedy(format!("write \"{text}\" in quotes")));
    }
    let malformed = || {
        Problem::new(node.place, format!("{} is no reference number", node.shown())).remedy(
            "write 5 digits (table 0, 1, 3 or 4 and 0001 to 9999) or 6 (table and 00001 to 65536), as in 40001 or 300001",
        )
    };
    if !digits {
        return Err(malformed());
    }
    let table = match &text[..1] {
        "0" => Table::Coil,
        "1" => Table::DiscreteInput,
        "3" => Table::InputRegister,
        "4" => Table::HoldingRegister,
        _ => return Err(malformed()),
    };
    let number: i128 = text[1..].parse().map_err(|_| malformed())?;
    if (1..=65536).contains(&number) { Ok((number - 1, Some(table))) } else { Err(malformed()) }
}

/// The manual's own names as linear data: `H0B-26` with `H{hex}-{dec}` and weights 256 and 1 is 0x0B × 256 + 26.
#[derive(Debug, Clone)]
pub(super) struct Notation<'a> {
    pattern: &'a str,
    parts: Vec<Part<'a>>,
    weights: Vec<i128>,
    add: i128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    Literal(&'a str),
    Number { radix: u32 },
}

impl<'a> Notation<'a> {
    pub(super) fn read(node: &'a Node, wrong: &mut Diagnostics) -> Option<Self> {
        if node.as_written().is_some_and(|t| t == "siemens-db") {
            wrong
                .report(node.place, "the notation `siemens-db` is not available in this version")
                .remedy("write `address` for each point");
            return None;
        }
        let mut fields = Fields::open(node, "a notation", wrong)?;
        let pattern = fields.required("pattern", wrong);
        let weights = fields.required("weights", wrong);
        let add = fields.optional("add").map_or(Some(0), |n| wrong.keep(n.integer_within("add", -65535..=65535)));
        fields.close(&[], wrong);
        let pattern_text = pattern.and_then(|n| wrong.keep(n.text()));
        let place = pattern.map_or(node.place, |n| n.place);
        let parts = pattern_text.and_then(|t| wrong.keep(parts(t).map_err(|message| Problem::new(place, message))));
        let items = weights.and_then(|n| wrong.keep(n.items()))?;
        let read: Vec<i128> =
            items.iter().filter_map(|n| wrong.keep(n.integer_within("a weight", -65536..=65536))).collect();
        let parts: Vec<Part> = parts?;
        let places = parts.iter().filter(|p| matches!(p, Part::Number { .. })).count();
        if places != items.len() {
            let message = format!("the pattern has {places} numbers, there are {} weights", items.len());
            wrong.report(weights?.place, message).remedy("one weight for each {hex} or {dec}");
            return None;
        }
        (read.len() == places).then_some(Self { pattern: pattern_text?, parts, weights: read, add: add? })
    }

    fn address(&self, node: &Node) -> Result<i128, Problem> {
        let text = node.as_written().ok_or_else(|| node.expects("a name in the manual's notation"))?;
        let Some(numbers) = self.numbers(text) else {
            let message = format!("{} does not fit the notation {}", node.shown(), self.pattern);
            return Err(Problem::new(node.place, message).remedy(format!("write it as in {}", self.example())));
        };
        Ok(self.add + numbers.iter().zip(&self.weights).map(|(n, w)| n * w).sum::<i128>())
    }

    fn numbers(&self, text: &str) -> Option<Vec<i128>> {
        let mut rest = text;
        let mut numbers = Vec::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => rest = rest.strip_prefix(literal)?,
                Part::Number { radix } => {
                    let end = rest.find(|c: char| !c.is_digit(*radix)).unwrap_or(rest.len());
                    let (digits, after) = rest.split_at(end);
                    numbers.push(i128::from(u32::from_str_radix(digits, *radix).ok().filter(|_| end <= 8)?));
                    rest = after;
                }
            }
        }
        rest.is_empty().then_some(numbers)
    }

    fn example(&self) -> String {
        let shown = |part: &Part| match part {
            Part::Literal(literal) => (*literal).to_owned(),
            Part::Number { radix: 16 } => "0B".to_owned(),
            Part::Number { .. } => "26".to_owned(),
        };
        self.parts.iter().map(shown).collect()
    }
}

fn parts(pattern: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('{') {
        if at > 0 {
            parts.push(Part::Literal(&rest[..at]));
        }
        let radix = match rest[at..].find('}').map(|end| &rest[at..=at + end]) {
            Some("{hex}") => 16,
            Some("{dec}") => 10,
            _ => return Err("a pattern knows {hex} and {dec} only".into()),
        };
        if matches!(parts.last(), Some(Part::Number { .. })) {
            return Err("two numbers of a pattern need something between them".into());
        }
        parts.push(Part::Number { radix });
        rest = &rest[at + 5..];
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest));
    }
    // A letter A to F right after {hex} would be taken for a digit.
    let swallowed = |pair: &[Part]| match pair {
        [Part::Number { radix }, Part::Literal(l)] => l.starts_with(|c: char| c.is_digit(*radix)),
        _ => false,
    };
    if parts.windows(2).any(swallowed) {
        return Err("what follows a number of a pattern looks like one more digit of it".into());
    }
    if parts.iter().any(|p| matches!(p, Part::Number { .. })) {
        Ok(parts)
    } else {
        Err("a pattern needs at least one {hex} or {dec}".into())
    }
}

/// An offset: a distance in registers or bits, never counted otherwise.
pub(super) fn offset(node: &Node) -> Result<i128, Problem> {
    let n = node.integer()?;
    if n < 0 {
        return Err(Problem::new(node.place, format!("an offset of {n} lies before the base"))
            .remedy("set the base to the lowest address"));
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn located(numbering: Numbering, text: &str) -> Result<(i128, Option<Table>), String> {
        let document = Document::parse("x", text).unwrap();
        let mut wrong = Diagnostics::new(&document);
        let addressing = Addressing { numbering: Some(numbering), notation: Stated::No };
        addressing.absolute(document.root(), &mut wrong).map(|l| (l.address, l.table)).ok_or_else(|| wrong.lines())
    }

    #[test]
    fn f36_three_ways_of_counting_name_one_register() {
        assert_eq!(located(Numbering::Zero, "0"), Ok((0, None)));
        assert_eq!(located(Numbering::One, "1"), Ok((0, None)));
        assert_eq!(located(Numbering::Modicon, "30001"), Ok((0, Some(Table::InputRegister))));
        assert_eq!(located(Numbering::Modicon, "300001"), Ok((0, Some(Table::InputRegister))));
        assert_eq!(located(Numbering::Modicon, "\"00001\""), Ok((0, Some(Table::Coil))));
        assert_eq!(located(Numbering::Modicon, "10002"), Ok((1, Some(Table::DiscreteInput))));
        assert_eq!(located(Numbering::Modicon, "465536"), Ok((65535, Some(Table::HoldingRegister))));
        assert!(located(Numbering::Modicon, "00001").unwrap_err().contains("\"00001\" in quotes"));
        assert!(located(Numbering::One, "0").unwrap_err().contains("numbering: zero"));
    }

    #[test]
    fn f38_reference_numbers_keep_to_their_table() {
        assert_eq!(located(Numbering::Modicon, "457719"), Ok((57718, Some(Table::HoldingRegister))));
        for bad in ["97719", "40000", "465537", "4001", "1", "0x9C41", "4000001", "20001", "-40001", "~", "[]"] {
            assert!(located(Numbering::Modicon, bad).is_err(), "{bad}");
        }
        assert!(located(Numbering::Zero, "70000").unwrap_err().contains("beyond 0 to 65535"));
        assert!(located(Numbering::One, "65537").is_err());
        assert_eq!(located(Numbering::One, "65536"), Ok((65535, None)));
    }

    #[test]
    fn a_manuals_notation_is_linear() {
        let yaml =
            "{notation: {pattern: \"H{hex}-{dec}\", weights: [256, 1]}, at: [H0B-26, H0b-0, P1-01, H0B-, H0B-26x]}";
        let document = Document::parse("x", yaml).unwrap();
        let mut wrong = Diagnostics::new(&document);
        let notation = Notation::read(document.at(&["notation"]).unwrap(), &mut wrong).unwrap();
        let at = |i: &str| notation.address(document.at(&["at", i]).unwrap()).ok();
        assert_eq!([at("0"), at("1"), at("2"), at("3"), at("4")], [Some(0x0B1A), Some(0x0B00), None, None, None]);
        assert!(wrong.is_empty());
        for bad in ["{hex}{dec}", "{oct}", "H", "{hex", "{hex}A"] {
            assert!(parts(bad).is_err(), "{bad}");
        }
    }
}
