//! The profile's own tests, and values written by people, judged against the point they are of.

use super::super::{Dump, Meaning, Point, ProfileTest, RawType};
use super::group::Draft;
use super::point::value_of;
use super::rules::labels_of;
use crate::document::{Diagnostics, Document, Entry, Fields, Node, Problem, closest};
use crate::model::{PointId, Value};

pub(super) fn read(document: &Document, node: &Node, draft: &Draft, wrong: &mut Diagnostics) -> Vec<ProfileTest> {
    let items = wrong.keep(node.items()).unwrap_or_default();
    items.iter().filter_map(|item| test(document, item, draft, wrong)).collect()
}

fn test(document: &Document, node: &Node, draft: &Draft, wrong: &mut Diagnostics) -> Option<ProfileTest> {
    let mut fields = Fields::open(node, "a test", wrong)?;
    let name = fields.required("name", wrong).and_then(|n| wrong.keep(n.text()));
    let registers = fields.required("registers", wrong).map(|n| Dump::from_node(n, wrong));
    let expect = fields.optional("expect");
    let absent = fields.optional("absent");
    if expect.is_none() && absent.is_none() {
        wrong.report(fields.start(), "a test that expects nothing cannot fail").remedy("add `expect` or `absent`");
    }
    fields.close(&[], wrong);

    let mut expected = Vec::new();
    if let Some(mapping) = expect.and_then(|n| wrong.keep(n.mapping())) {
        mapping.report_duplicates(wrong);
        for Entry { key, value } in &mapping.entries {
            let Some(id) = point(key, draft, wrong) else { continue };
            let Some(found) = draft.points.get(usize::from(id.0)) else { continue };
            expected.extend(wrong.keep(self::value(value, &found.point)).map(|value| (id, value)));
        }
    }
    let mut missing = Vec::new();
    for key in absent.and_then(|n| wrong.keep(n.items())).unwrap_or_default() {
        missing.extend(point(key, draft, wrong));
    }
    Some(ProfileTest {
        name: name?.to_owned(),
        registers: registers?,
        expect: expected,
        absent: missing,
        place: format!("{}:{}", document.file(), node.place.line),
    })
}

/// The point of a name; nothing where there is none (reported) or where it has mistakes of its own.
fn point(key: &Node, draft: &Draft, wrong: &mut Diagnostics) -> Option<PointId> {
    let Some(name) = key.as_written() else {
        wrong.add_problem(key.expects("the name of a point"));
        return None;
    };
    if let Some((id, _)) = draft.names.get(name) {
        return *id;
    }
    let near = wrong.suggest(name, draft.paths.iter().map(|(p, _)| &**p));
    let report = wrong.report(key.place, format!("there is no point `{name}`"));
    if let Some(near) = near {
        report.remedy(format!("did you mean `{near}`?"));
    }
    None
}

/// A value as a person writes it for this point: a truth value, a number, a label or text.
pub(super) fn value(node: &Node, point: &Point) -> Result<Value, Problem> {
    let boolean = point.encoding.raw == RawType::Bool || point.encoding.cut.is_some_and(|c| c.boolean);
    if let Some(labels) = labels_of(&point.meaning) {
        let text = written(node)?;
        let unknown = text.strip_prefix("unknown(").and_then(|t| t.strip_suffix(')'));
        if labels.iter().any(|l| **l == *text) || unknown.is_some_and(|n| n.parse::<i128>().is_ok()) {
            return Ok(Value::Text(text.into()));
        }
        let problem = Problem::new(node.place, format!("`{}` has no label {}", point.path, node.shown()));
        let names: Vec<&str> = labels.iter().map(|l| &**l).collect();
        return Err(match closest(text, names.iter().copied()) {
            Some(near) => problem.remedy(format!("did you mean `{near}`?")),
            None => problem.remedy(format!("its labels are {}", names.join(", "))),
        });
    }
    if boolean {
        return node.boolean().map(Value::Bool);
    }
    if matches!(point.encoding.raw, RawType::Text | RawType::Bytes) || point.meaning == Meaning::Hex {
        return written(node).map(|text| Value::Text(text.into()));
    }
    // 64-bit numbers are strings in JSON: here they may stand in quotes too.
    let number = match node.as_written().filter(|_| point.json == crate::model::JsonForm::DecimalString) {
        Some(text) => crate::document::Number::parse(text).ok_or_else(|| node.expects("a number"))?,
        None => node.number()?,
    };
    let value = value_of(number).ok_or_else(|| node.expects("a number of at most 18 digits"))?;
    let float = matches!(point.encoding.raw, RawType::F32 | RawType::F64);
    if !float && matches!(point.meaning, Meaning::Plain { .. }) && number.integer().is_none() {
        return Err(Problem::new(node.place, format!("`{}` is a whole number, never {number}", point.path)));
    }
    Ok(value)
}

fn written(node: &Node) -> Result<&str, Problem> {
    match node.scalar() {
        Some(scalar) if !scalar.is_null() => Ok(&scalar.text),
        _ => Err(node.expects("text")),
    }
}
