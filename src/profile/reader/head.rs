//! What a profile says of itself: name, version, model, sources.

use super::super::Model;
use super::position::Numbering;
use crate::document::{Diagnostics, Node, Problem, closest};

/// `vendor/model`: `[a-z0-9-]+/[a-z0-9._-]+`, at most 128 characters.
pub(super) fn name(node: &Node) -> Result<&str, Problem> {
    let text = node.text()?;
    let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fits = text.split_once('/').is_some_and(|(vendor, model)| {
        !vendor.is_empty()
            && !model.is_empty()
            && vendor.chars().all(small)
            && model.chars().all(|c| small(c) || matches!(c, '.' | '_'))
    });
    if fits && text.len() <= 128 {
        return Ok(text);
    }
    let problem = Problem::new(
        node.place,
        format!(
            "{} is no profile name: vendor/model in small letters, digits, `-` (model: also `.`, `_`)",
            node.shown()
        ),
    );
    let lower = text.to_ascii_lowercase();
    Err(if lower != text && !lower.contains(' ') { problem.remedy(format!("write {lower}")) } else { problem })
}

/// Semantic version 2.0.0.
pub(super) fn version(node: &Node) -> Result<&str, Problem> {
    let text = node.as_written().ok_or_else(|| node.expects("a version"))?;
    if is_semver(text) {
        return Ok(text);
    }
    let problem = Problem::new(node.place, format!("{} is no semantic version (major.minor.patch)", node.shown()));
    let filled = [format!("{text}.0"), format!("{text}.0.0")].into_iter().find(|t| is_semver(t));
    Err(problem.remedy(format!("write {}", filled.as_deref().unwrap_or("it as in 1.2.0"))))
}

fn is_semver(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(t, b)| (t, Some(b)));
    let (release, pre) = text.split_once('-').map_or((text, None), |(t, p)| (t, Some(p)));
    let number = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()) && (t == "0" || !t.starts_with('0'));
    let identifier = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let numeric = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    text.len() <= 64
        && release.split('.').count() == 3
        && release.split('.').all(number)
        && pre.is_none_or(|p| p.split('.').all(|i| identifier(i) && (!numeric(i) || number(i))))
        && build.is_none_or(|b| b.split('.').all(identifier))
}

/// A vendor-neutral model.
pub(super) fn model(node: &Node) -> Result<&'static Model, Problem> {
    let name = node.text()?;
    if let Some(model) = Model::by_name(name) {
        return Ok(model);
    }
    let known: Vec<&str> = Model::names().collect();
    if Model::is_later(name) {
        return Err(Problem::new(node.place, format!("the shadow model `{name}` is not available in this version"))
            .remedy("leave `shadow` out: then the shadow is made from the points"));
    }
    let problem = Problem::new(node.place, format!("no shadow model is called `{name}`: {} are", known.join(", ")));
    Err(match closest(name, known) {
        Some(near) => problem.remedy(format!("did you mean `{near}`?")),
        None => problem.remedy("leave `shadow` out: then the shadow is made from the points"),
    })
}

/// What the profile rests on.
pub(super) fn sources(node: &Node, wrong: &mut Diagnostics) -> Vec<String> {
    let items = wrong.keep(node.items()).unwrap_or_default();
    items.iter().filter_map(|n| wrong.keep(n.text()).map(str::to_owned)).collect()
}

/// How absolute addresses are counted; nothing where that is not understood.
pub(super) fn numbering(node: &Node, wrong: &mut Diagnostics) -> Option<Numbering> {
    let words = [("zero", Numbering::Zero), ("one", Numbering::One), ("modicon", Numbering::Modicon)];
    wrong.keep(node.word(&words))
}

#[cfg(test)]
mod tests {
    use super::is_semver;

    #[test]
    fn versions_are_semantic() {
        for good in ["1.2.0", "0.0.1", "10.20.30", "1.0.0-rc.1", "1.0.0-alpha-a.b-c+001", "1.0.0+build.5"] {
            assert!(is_semver(good), "{good}");
        }
        for bad in ["1.0", "1", "v1.0.0", "1.0.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0+", "1..0", "", "1.0.0-ä"] {
            assert!(!is_semver(bad), "{bad}");
        }
    }
}
