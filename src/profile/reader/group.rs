//! Groups and their points: from the tree to drafts that know their places.

use super::super::{Group, Limits, OnPartial, Point};
use super::position::{Addressing, Located, Stated, offset};
use super::written::{Given, LATER, Level, Written};
use super::{Names, point};
use crate::document::{Diagnostics, Entry, Fields, Node, Place, Problem};
use crate::modbus::Table;
use crate::model::{GroupId, PointId};
use std::sync::Arc;
use std::time::Duration;

/// Keys of a group that later versions know.
const LATER_GROUP: [&str; 3] = ["select", "blocks", "locate"];
/// Keys that belong on a point: each has its own.
const POSITION: [&str; 3] = ["offset", "address", "at"];

/// How often a group is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Period {
    /// At each connect only.
    Once,
    Every(Duration),
}

impl Default for Period {
    fn default() -> Self {
        Self::Every(Duration::from_secs(1))
    }
}

/// What a group is read in.
pub(super) struct Surroundings<'s, 'a> {
    pub(super) defaults: &'s Written<'a>,
    pub(super) every: Option<Period>,
    pub(super) addressing: &'s Addressing<'a>,
    pub(super) limits: &'s Limits,
}

/// All groups and points so far, with what later checks need.
#[derive(Default)]
pub(super) struct Draft<'a> {
    pub(super) groups: Vec<Group>,
    /// Of each group: the place of `together: true`, where it is.
    pub(super) together: Vec<Option<Place>>,
    pub(super) points: Vec<PointDraft<'a>>,
    /// Every point's name, those of which nothing can be made too.
    pub(super) names: Names,
    /// The same in file order, with the place of the key.
    pub(super) paths: Vec<(Arc<str>, Place)>,
}

/// A point with the places of what made it.
pub(super) struct PointDraft<'a> {
    pub(super) point: Point,
    pub(super) written: Written<'a>,
    /// Its key.
    pub(super) key: Place,
    /// Its offset, address or `at`.
    pub(super) position: Place,
}

/// Keys of `defaults`: any of a point but its place, and `every`.
pub(super) fn defaults<'a>(node: &'a Node, wrong: &mut Diagnostics) -> (Written<'a>, Option<Period>) {
    let Some(mut fields) = Fields::open(node, "defaults", wrong) else { return (Written::default(), None) };
    let written = Written::read(&mut fields, Level::Defaults, wrong);
    let every = fields.optional("every").map(|n| wrong.keep(period(n)).unwrap_or_default());
    refuse_position(&mut fields, "defaults", wrong);
    fields.close(&LATER, wrong);
    (written, every)
}

/// A period above zero, or `once`.
fn period(node: &Node) -> Result<Period, Problem> {
    if node.as_written() == Some("once") {
        return Ok(Period::Once);
    }
    match node.duration()? {
        Duration::ZERO => Err(Problem::new(node.place, "an interval of zero would poll without end")
            .remedy("write it as in 500ms, or `once` for each connect only")),
        every => Ok(Period::Every(every)),
    }
}

fn refuse_position(fields: &mut Fields, what: &str, wrong: &mut Diagnostics) {
    for key in POSITION {
        if let Some(entry) = fields.entry(key) {
            wrong
                .report(entry.key.place, format!("`{key}` says where one point lies: it cannot stand on {what}"))
                .remedy(format!("write `{key}` on each point"));
        }
    }
}

pub(super) fn read_all<'a>(
    node: &'a Node,
    surroundings: &Surroundings<'_, 'a>,
    draft: &mut Draft<'a>,
    wrong: &mut Diagnostics,
) {
    let Some(mapping) = wrong.keep(node.mapping()) else { return };
    mapping.report_duplicates(wrong);
    if mapping.entries.is_empty() {
        wrong.report(node.place, "a profile without groups reads nothing").remedy("add a group with points");
    }
    for entry in first_of_each(&mapping.entries) {
        if draft.groups.len() > usize::from(u16::MAX) {
            wrong.report(entry.key.place, "more than 65536 groups");
            return;
        }
        let name = entry.name();
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > 64 || !name.chars().all(letter) {
            wrong
                .report(entry.key.place, format!("{} is no name of a group", entry.key.shown()))
                .remedy("1 to 64 letters, digits, `_` or `-`");
        }
        read(entry, surroundings, draft, wrong);
    }
}

fn read<'a>(entry: &'a Entry, surroundings: &Surroundings<'_, 'a>, draft: &mut Draft<'a>, wrong: &mut Diagnostics) {
    let Some(mut fields) = Fields::open(&entry.value, "a group", wrong) else { return };
    let own = Written::read(&mut fields, Level::Group, wrong);
    let every = fields.optional("every").map(|n| wrong.keep(period(n)).unwrap_or_default());
    let together = fields.optional("together").and_then(|n| Some((wrong.keep(n.boolean())?, n.place)));
    let partial = [("keep", OnPartial::Keep), ("mark", OnPartial::Mark)];
    let on_partial = fields.optional("on_partial").and_then(|n| wrong.keep(n.word(&partial)));
    let max_skew = fields.optional("max_skew").and_then(|n| wrong.keep(n.duration()));
    let base = Stated::from(fields.optional("base").map(|n| surroundings.addressing.absolute(n, wrong)));
    let points = fields.required("points", wrong);
    refuse_position(&mut fields, "a group", wrong);
    fields.close(&[&LATER[..], &LATER_GROUP[..]].concat(), wrong);

    if let (Stated::Yes(Located { table: Some(named), place, .. }), Some(Given { value: Some(said), .. })) =
        (base, &own.table)
        && named != *said
    {
        refuse_table(named, *said, place, wrong);
    }
    let written = own.over(surroundings.defaults);
    let group = GroupId(draft.groups.len() as u16);
    draft.groups.push(Group {
        name: entry.name().into(),
        every: match every.or(surroundings.every).unwrap_or_default() {
            Period::Once => None,
            Period::Every(every) => Some(every),
        },
        together: together.is_some_and(|(t, _)| t),
        on_partial: on_partial.unwrap_or_default(),
        max_skew,
    });
    draft.together.push(together.and_then(|(t, place)| t.then_some(place)));

    let Some(points) = points else { return };
    let Some(mapping) = wrong.keep(points.mapping()) else { return };
    mapping.report_duplicates(wrong);
    if mapping.entries.is_empty() {
        wrong.report(points.place, "a group without points reads nothing").remedy("add points, or leave it out");
    }
    let place = GroupPlace { group, base, written: &written, surroundings };
    for entry in first_of_each(&mapping.entries) {
        place.point(entry, draft, wrong);
    }
}

pub(super) fn refuse_table(named: Table, said: Table, place: Place, wrong: &mut Diagnostics) {
    wrong
        .report(place, format!("the number names the {named} table, `table` says {said}"))
        .remedy("leave `table` out: the number names it");
}

/// A point's way through its group.
struct GroupPlace<'s, 'a> {
    group: GroupId,
    base: Stated<Located>,
    written: &'s Written<'a>,
    surroundings: &'s Surroundings<'s, 'a>,
}

impl<'a> GroupPlace<'_, 'a> {
    fn point(&self, entry: &'a Entry, draft: &mut Draft<'a>, wrong: &mut Diagnostics) {
        let named = path(entry, wrong);
        let Some(mut fields) = Fields::open(&entry.value, "a point", wrong) else {
            register(named, None, entry, draft, wrong);
            return;
        };
        let own = Written::read(&mut fields, Level::Point, wrong);
        let position = self.position(&mut fields, entry, wrong);
        fields.close(&[&LATER[..], &["every"]].concat(), wrong);
        if let (Some(Located { table: Some(named), .. }), Some(Given { value: Some(said), place, .. })) =
            (position.as_ref().and_then(|p| p.1), &own.table)
            && named != *said
        {
            refuse_table(named, *said, *place, wrong);
        }
        let written = own.over(self.written);
        let subject = point::Subject { key: entry.key.place, group: self.group, limits: self.surroundings.limits };
        let judged = subject.judge(&written, position.and_then(|p| p.1), wrong);
        let id = judged.is_some().then(|| PointId(draft.points.len().min(usize::from(u16::MAX)) as u16));
        let Some(path) = register(named, id, entry, draft, wrong) else { return };
        let Some(mut point) = judged else { return };
        if draft.points.len() > usize::from(u16::MAX) {
            wrong.report(entry.key.place, "more than 65536 points");
            return;
        }
        point.path = path;
        let position = position.map_or(entry.key.place, |p| p.0);
        draft.points.push(PointDraft { point, written, key: entry.key.place, position });
    }

    /// Exactly one of offset, address, at: the place where it stands, and what it names where it can be judged.
    fn position(
        &self,
        fields: &mut Fields<'a>,
        entry: &Entry,
        wrong: &mut Diagnostics,
    ) -> Option<(Place, Option<Located>)> {
        let given: Vec<_> = POSITION.into_iter().filter_map(|key| Some((key, fields.entry(key)?))).collect();
        let elsewhere = fields.mapping().get("words").is_some();
        let mut in_file = given.clone();
        in_file.sort_by_key(|(_, e)| e.key.place);
        if let [(first, _), (second, entry), ..] = in_file.as_slice() {
            wrong
                .report(entry.key.place, format!("`{second}` besides `{first}`: a point lies in one place"))
                .remedy(format!("keep `{first}` or `{second}`"));
        }
        let Some((key, found)) = in_file.first().map(|(key, e)| (*key, &e.value)) else {
            if !elsewhere {
                wrong
                    .report(entry.key.place, format!("where does `{}` lie?", entry.name()))
                    .remedy("add `offset` (from the group's base), `address` or `at`");
            }
            return None;
        };
        let located = match key {
            "address" => self.surroundings.addressing.absolute(found, wrong),
            "at" => self.surroundings.addressing.at(found, wrong),
            _ => self.offset(found, wrong),
        };
        Some((found.place, located))
    }

    fn offset(&self, node: &Node, wrong: &mut Diagnostics) -> Option<Located> {
        let distance = wrong.keep(offset(node));
        let base = match self.base {
            Stated::Yes(base) => base,
            Stated::Misread => return None,
            Stated::No => {
                wrong
                    .report(node.place, "`offset` counts from the group's `base`, which is not given")
                    .remedy("add `base` to the group, or write `address`");
                return None;
            }
        };
        let located = base.plus(distance?, node.place);
        located.within(wrong).then_some(located)
    }
}

/// Enters a point's name; nothing where it is no name, or stands in an earlier group.
fn register(
    named: Option<Arc<str>>,
    id: Option<PointId>,
    entry: &Entry,
    draft: &mut Draft,
    wrong: &mut Diagnostics,
) -> Option<Arc<str>> {
    let path = named?;
    if let Some((_, first)) = draft.names.get(&path) {
        let message = format!("the point `{path}` stands in two groups");
        wrong.report(entry.key.place, message).remedy("give one of them another name").also(*first, "first here");
        return None;
    }
    draft.names.insert(Arc::clone(&path), (id, entry.key.place));
    draft.paths.push((Arc::clone(&path), entry.key.place));
    Some(path)
}

/// A point's path: `[a-z][a-z0-9_]*(\.[a-z0-9_]+)*`, at most 200 characters.
fn path(entry: &Entry, wrong: &mut Diagnostics) -> Option<Arc<str>> {
    let name = entry.name();
    if name.contains(['{', '}']) {
        wrong
            .report(entry.key.place, "rows of points (`{1..3}`) are not available in this version")
            .remedy("write each point by itself");
        return None;
    }
    let letters =
        |step: &str| !step.is_empty() && step.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if name.starts_with(|c: char| c.is_ascii_lowercase()) && name.len() <= 200 && name.split('.').all(letters) {
        return Some(name.into());
    }
    let report = wrong.report(entry.key.place, format!("{} is no path of a point", entry.key.shown()));
    let lower = name.to_ascii_lowercase().replace('-', "_");
    if lower != name && lower.split('.').all(letters) && lower.starts_with(|c: char| c.is_ascii_lowercase()) {
        report.remedy(format!("write `{lower}`"));
    } else {
        report.remedy("small letters, digits and `_`, beginning with a letter; dots nest: `speed.actual`");
    }
    None
}

/// Entries whose key has not come before: the others are reported, and would report all again.
fn first_of_each(entries: &[Entry]) -> Vec<&Entry> {
    let mut seen = std::collections::HashSet::new();
    entries.iter().filter(|e| seen.insert(e.name())).collect()
}
