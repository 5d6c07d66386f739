//! Whether a profile keeps to the vendor-neutral model it names: paths, types, units, access.

use super::super::models::{Leaf, LeafKind, PathKind};
use super::super::{Access, Meaning, Model, RawType};
use super::group::{Draft, PointDraft};
use super::written::common_divisor;
use crate::document::{Diagnostics, Place, closest};
use crate::model::JsonForm;

/// Units that differ by a factor: unit, what it is in the other, numerator and denominator of the factor.
const FACTORS: [(&str, &str, i128, i128); 27] = [
    ("kW", "W", 1000, 1),
    ("MW", "W", 1_000_000, 1),
    ("mW", "W", 1, 1000),
    ("Wh", "kWh", 1, 1000),
    ("MWh", "kWh", 1000, 1),
    ("J", "kWh", 1, 3_600_000),
    ("kJ", "kWh", 1, 3600),
    ("MJ", "kWh", 10, 36),
    ("varh", "kvarh", 1, 1000),
    ("Mvarh", "kvarh", 1000, 1),
    ("kvar", "var", 1000, 1),
    ("kVA", "VA", 1000, 1),
    ("mV", "V", 1, 1000),
    ("kV", "V", 1000, 1),
    ("mA", "A", 1, 1000),
    ("kA", "A", 1000, 1),
    ("mHz", "Hz", 1, 1000),
    ("kHz", "Hz", 1000, 1),
    ("rps", "rpm", 60, 1),
    ("1/s", "rpm", 60, 1),
    ("s", "h", 1, 3600),
    ("min", "h", 1, 60),
    ("d", "h", 24, 1),
    ("ms", "h", 1, 3_600_000),
    ("[ppth]", "%", 1, 10),
    ("‰", "%", 1, 10),
    ("1", "%", 100, 1),
];

/// Other spellings of a unit: no factor.
const SPELLINGS: [(&str, &str); 9] = [
    ("r/min", "rpm"),
    ("1/min", "rpm"),
    ("min-1", "rpm"),
    ("RPM", "rpm"),
    ("°C", "Cel"),
    ("C", "Cel"),
    ("degC", "Cel"),
    ("inc", "counts"),
    ("hours", "h"),
];

pub(super) fn check(model: &Model, place: Place, draft: &Draft, wrong: &mut Diagnostics) {
    let paths = model.paths();
    let missing: Vec<&str> = paths
        .iter()
        .filter(|(path, leaf)| leaf.required && !draft.names.contains_key(path.as_str()))
        .map(|(path, _)| path.as_str())
        .collect();
    if !missing.is_empty() {
        wrong
            .report(place, format!("the model {} requires {}", model.name(), missing.join(", ")))
            .remedy("map them, or leave `shadow` out: then the shadow is made from the points");
    }
    for (path, key) in &draft.paths {
        match model.path(path) {
            PathKind::Vendor => {}
            PathKind::Object => {
                wrong
                    .report(*key, format!("`{path}` is an object in the model {}", model.name()))
                    .remedy(format!("write `vendor.{path}`, or a path below it"));
            }
            PathKind::Unknown => {
                let near = wrong.suggest(path, paths.iter().map(|(p, _)| p.as_str()));
                let report = wrong.report(*key, format!("the model {} has no path `{path}`", model.name()));
                match near {
                    Some(near) => report.remedy(format!("did you mean `{near}`? Else write `vendor.{path}`")),
                    None => report.remedy(format!("write `vendor.{path}`")),
                };
            }
            PathKind::Leaf(leaf) => {
                let id = draft.names.get(path).and_then(|(id, _)| *id);
                if let Some(point) = id.and_then(|id| draft.points.get(usize::from(id.0))) {
                    leaf_of(point, &leaf, wrong);
                }
            }
        }
    }
}

fn leaf_of(draft: &PointDraft, leaf: &Leaf, wrong: &mut Diagnostics) {
    let point = &draft.point;
    kind(draft, leaf, wrong);
    if point.access != Access::Read && !leaf.writable {
        let place = draft.written.access.as_ref().map_or(draft.key, |g| if g.own() { g.place } else { draft.key });
        wrong
            .report(place, format!("`{}` is read only in the model", point.path))
            .remedy("write `access: r`, or put the writable point under `vendor.`");
    }
    unit(draft, leaf, wrong);
}

fn kind(draft: &PointDraft, leaf: &Leaf, wrong: &mut Diagnostics) {
    let point = &draft.point;
    let boolean = point.encoding.raw == RawType::Bool || point.encoding.cut.is_some_and(|c| c.boolean);
    let text = matches!(point.encoding.raw, RawType::Text | RawType::Bytes)
        || matches!(point.meaning, Meaning::Hex | Meaning::Labels(_));
    let number = !boolean && !text;
    let place = draft.written.kind.as_ref().filter(|g| g.own()).map_or(draft.key, |g| g.place);
    let mut refuse = |what: &str, remedy: &str| {
        wrong.report(place, format!("the model wants {what} as `{}`", point.path)).remedy(remedy);
    };
    match &leaf.kind {
        LeafKind::Boolean if !boolean => refuse("true or false", "cut one bit out: `bit: 0`"),
        LeafKind::Text if !text => refuse("text", "write `format: hex` or an `enum`"),
        LeafKind::Number | LeafKind::Integer if !number => refuse("a number", "leave out what makes it text or a bit"),
        LeafKind::Number | LeafKind::Integer if point.json == JsonForm::DecimalString => {
            refuse("a number, not a string of digits,", "write `json: number`");
        }
        LeafKind::Integer if fractional(draft) => {
            refuse("a whole number", "leave the scale out, or put it under `vendor.`");
        }
        LeafKind::Labels(allowed) => {
            let Meaning::Labels(_) = point.meaning else {
                refuse("a label", &format!("add an `enum` with labels of {}", allowed.join(", ")));
                return;
            };
            let given = draft.written.labels.as_ref().and_then(|g| g.value.as_ref());
            for label in given.into_iter().flat_map(|l| l.iter()) {
                if !allowed.iter().any(|a| **a == *label.text) {
                    let message = format!("`{}` is no label of `{}` in the model", label.text, point.path);
                    let report = wrong.report(label.place, message);
                    match closest(&label.text, allowed.iter().map(String::as_str)) {
                        Some(near) => report.remedy(format!("did you mean `{near}`?")),
                        None => report.remedy(format!("its labels are {}", allowed.join(", "))),
                    };
                }
            }
        }
        _ => {}
    }
}

fn fractional(draft: &PointDraft) -> bool {
    let point = &draft.point;
    let float = matches!(point.encoding.raw, RawType::F32 | RawType::F64);
    match &point.meaning {
        Meaning::Scaled(scale) => {
            (float || scale.denominator != 1 || scale.bias_exponent != 0) && scale.decimals != Some(0)
        }
        Meaning::Plain { .. } | Meaning::Labels(_) | Meaning::Hex => float,
    }
}

fn unit(draft: &PointDraft, leaf: &Leaf, wrong: &mut Diagnostics) {
    let point = &draft.point;
    let (given, wanted) = (point.unit.as_deref(), leaf.unit.as_deref());
    if given == wanted {
        return;
    }
    let place = draft.written.unit.as_ref().map_or(draft.key, |g| if g.own() { g.place } else { draft.key });
    match (given, wanted) {
        (None, Some(wanted)) => {
            wrong
                .report(place, format!("`{}` has no unit, the model wants {wanted}", point.path))
                .remedy(format!("add `unit: {}` once the value is in it", quoted(wanted)));
        }
        (Some(given), None) => {
            wrong
                .report(place, format!("`{}` has no unit in the model, here it is {given}", point.path))
                .remedy("leave `unit` out, or put the point under `vendor.`");
        }
        (Some(given), Some(wanted)) => {
            let report = wrong.report(place, format!("`{}` is in {given}, the model wants {wanted}", point.path));
            report.remedy(remedy(draft, given, wanted));
        }
        (None, None) => {}
    }
}

/// What to write so that a point comes in the wanted unit.
fn remedy(draft: &PointDraft, given: &str, wanted: &str) -> String {
    if SPELLINGS.contains(&(given, wanted)) {
        return format!("write `unit: {}`: it is the same", quoted(wanted));
    }
    let kelvin = given == "K" && wanted == "Cel";
    if kelvin && !matches!(draft.point.meaning, Meaning::Scaled(ref s) if s.bias_mantissa != 0) {
        return "write `unit: Cel` and `bias: -273.15`".into();
    }
    let straight = FACTORS.iter().find(|(a, b, _, _)| (*a, *b) == (given, wanted)).map(|f| (f.2, f.3));
    let reverse = FACTORS.iter().find(|(a, b, _, _)| (*a, *b) == (wanted, given)).map(|f| (f.3, f.2));
    let Some((above, below)) = straight.or(reverse) else {
        return format!("map a value in {wanted}, or put this one under `vendor.`");
    };
    let (numerator, denominator, biased) = match &draft.point.meaning {
        Meaning::Scaled(s) => (i128::from(s.numerator), i128::from(s.denominator), s.bias_mantissa != 0),
        Meaning::Plain { .. } | Meaning::Labels(_) | Meaning::Hex => (1, 1, false),
    };
    let scale = ratio_text(numerator * above, denominator * below);
    let bias = if biased { format!(", and multiply `bias` by {}", ratio_text(above, below)) } else { String::new() };
    format!("write `scale: {scale}` and `unit: {}`{bias}", quoted(wanted))
}

fn quoted(unit: &str) -> String {
    if unit.starts_with('%') { format!("\"{unit}\"") } else { unit.to_owned() }
}

/// A ratio as a decimal where it ends soon, else as a ratio.
fn ratio_text(above: i128, below: i128) -> String {
    let divisor = common_divisor(above.unsigned_abs(), below.unsigned_abs()) as i128;
    let (above, below) = (above / divisor, below / divisor);
    if below == 1 {
        return above.to_string();
    }
    let ends = (1..=9u32).find(|n| 10i128.pow(*n) % below == 0);
    match ends.and_then(|n| crate::document::Number::parse(&format!("{}e-{n}", above * (10i128.pow(n) / below)))) {
        Some(number) => number.to_string(),
        None => format!("{above}/{below}"),
    }
}

#[cfg(test)]
mod tests {
    use super::ratio_text;

    #[test]
    fn factors_are_written_as_people_write_them() {
        assert_eq!(ratio_text(1, 1000), "0.001");
        assert_eq!(ratio_text(100, 10), "10");
        assert_eq!(ratio_text(1, 36_000), "1/36000");
        assert_eq!(ratio_text(-3, 8), "-0.375");
    }
}
