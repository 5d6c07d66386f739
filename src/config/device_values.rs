//! What stands behind the keys of one device: what may be written, its labels, intervals and points.

use super::restrict::matches;
use crate::document::{Content, Diagnostics, Fields, Node, Place, Problem, closest};
use crate::model::DeviceId;
use crate::profile::{Access, DeviceProfile, Intervals};
use std::collections::BTreeMap;
use std::fmt;

/// A Modbus/TCP server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Name or address, without brackets.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What may be written to a device. No write frame is ever sent beyond it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Writes {
    /// Nothing.
    #[default]
    Deny,
    /// Selectors only.
    Selectors,
    /// These points.
    Points(Vec<String>),
    /// Whatever the profile makes writable.
    Allow,
}

impl Writes {
    /// Reads a device's `writes`; without a profile, points are only read, not looked up.
    pub(super) fn read(node: &Node, profile: Option<&DeviceProfile>, wrong: &mut Diagnostics) -> Self {
        let Content::Sequence(items) = &node.content else {
            let words = [("deny", 0), ("selectors", 1), ("allow", 2)];
            return match wrong.keep(node.word(&words)) {
                Some(1) => Self::Selectors,
                Some(2) => Self::Allow,
                _ => Self::Deny,
            };
        };
        let mut points = Vec::new();
        for item in items {
            let Some(path) = wrong.keep(item.text()) else { continue };
            if let Some(profile) = profile {
                match profile.points.iter().find(|p| &*p.path == path) {
                    Some(point) if point.access == Access::Read => {
                        wrong
                            .report(item.place, format!("`{path}` is read only in profile `{}`", profile.name))
                            .remedy("leave it out, or give the point `access: rw`");
                    }
                    Some(_) => {}
                    None => unknown_point(item.place, path, profile, wrong),
                }
            }
            points.push(path.to_owned());
        }
        points.sort();
        points.dedup();
        Self::Points(points)
    }
}

/// Reads a device's name; the gateway's own is taken.
pub(super) fn device_id(node: &Node, gateway: Option<&DeviceId>) -> Result<DeviceId, Problem> {
    let id = DeviceId::new(node.text()?).map_err(|error| Problem::new(node.place, error.to_string()))?;
    if Some(&id) == gateway {
        return Err(Problem::new(node.place, format!("`{id}` is the gateway's own name")).remedy("take another name"));
    }
    Ok(id)
}

/// Reads a device's `place`.
pub(super) fn labels(node: &Node, wrong: &mut Diagnostics) -> BTreeMap<String, String> {
    const MOST: usize = 64;
    let Some(mapping) = wrong.keep(node.mapping()) else { return BTreeMap::new() };
    mapping.report_duplicates(wrong);
    if mapping.entries.len() > MOST {
        wrong.report(node.place, format!("{} labels, the most is {MOST}", mapping.entries.len()));
    }
    let mut labels = BTreeMap::new();
    for entry in &mapping.entries {
        let name = entry.name();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
            wrong
                .report(entry.key.place, format!("`{name}` is no name of a label"))
                .remedy("letters, digits, `_` and `-`");
        }
        if let Some(text) = wrong.keep(entry.value.text()) {
            labels.insert(name.to_owned(), text.to_owned());
        }
    }
    labels
}

fn unknown_point(place: Place, path: &str, profile: &DeviceProfile, wrong: &mut Diagnostics) {
    let diagnostic = wrong.report(place, format!("profile `{}` has no point `{path}`", profile.name));
    if let Some(near) = closest(path, profile.points.iter().map(|p| &*p.path)) {
        diagnostic.remedy(format!("did you mean `{near}`?"));
    }
}

/// Reads a device's `every`.
pub(super) fn intervals(node: &Node, profile: &DeviceProfile, wrong: &mut Diagnostics) -> Intervals {
    let mut intervals = Intervals::new();
    let Some(mapping) = wrong.keep(node.mapping()) else { return intervals };
    mapping.report_duplicates(wrong);
    for entry in &mapping.entries {
        let name = entry.name();
        if profile.group_id(name).is_none() {
            let diagnostic = wrong.report(entry.key.place, format!("profile `{}` has no group `{name}`", profile.name));
            if let Some(near) = closest(name, profile.groups.iter().map(|g| &*g.name)) {
                diagnostic.remedy(format!("did you mean `{near}`?"));
            }
            continue;
        }
        let every = if entry.value.as_written() == Some("once") {
            Some(None)
        } else {
            wrong.keep(entry.value.duration()).map(Some)
        };
        match every {
            Some(Some(d)) if d.is_zero() => {
                wrong.report(entry.value.place, "an interval of nothing").remedy("write at least 1ms");
            }
            Some(every) => {
                intervals.insert(name.to_owned(), every);
            }
            None => {}
        }
    }
    intervals
}

/// Which points a device has: those of a list, or all but those.
#[derive(Hash)]
pub(super) struct Selection {
    include: bool,
    patterns: Vec<String>,
}

impl Selection {
    /// Reads a device's `points`.
    pub(super) fn read(node: &Node, profile: &DeviceProfile, wrong: &mut Diagnostics) -> Self {
        let mut selection = Self { include: false, patterns: Vec::new() };
        let Some(mut fields) = Fields::open(node, "a selection of points", wrong) else { return selection };
        let (include, exclude) = (fields.optional("include"), fields.optional("exclude"));
        fields.close(&[], wrong);
        let list = match (include, exclude) {
            (Some(list), None) => {
                selection.include = true;
                list
            }
            (None, Some(list)) => list,
            _ => {
                wrong.report(node.place, "a selection of points is `include` or `exclude`, one of the two");
                return selection;
            }
        };
        for item in wrong.keep(list.items()).unwrap_or_default() {
            let Some(pattern) = wrong.keep(item.text()) else { continue };
            if profile.points.iter().any(|point| matches(pattern, &point.path)) {
                selection.patterns.push(pattern.to_owned());
            } else {
                unknown_point(item.place, pattern, profile, wrong);
            }
        }
        selection
    }

    /// Whether a point of this path stays.
    pub(super) fn keeps(&self, path: &str) -> bool {
        self.patterns.iter().any(|pattern| matches(pattern, path)) == self.include
    }
}
