//! What needs several points to judge: nesting, overlaps, `together`, `valid_when`.

use super::super::{Access, Limits, Meaning};
use super::group::Draft;
use super::point::{crosses, items, read_range};
use super::vectors;
use crate::document::{Diagnostics, Place, duration_text};
use crate::modbus::{AddressRange, Table};
use crate::model::PointId;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) fn check(draft: &mut Draft, limits: &Limits, wrong: &mut Diagnostics) {
    nesting(draft, wrong);
    overlaps(draft, wrong);
    together(draft, limits, wrong);
    conditions(draft, wrong);
}

/// No path is leaf and parent at once. Reported at the later of the two, once per leaf.
fn nesting(draft: &Draft, wrong: &mut Diagnostics) {
    let mut leaves: HashMap<&str, (Place, bool)> = HashMap::new();
    let mut parents: HashMap<&str, Place> = HashMap::new();
    for (path, place) in &draft.paths {
        let say = |leaf: &str, first: Place, wrong: &mut Diagnostics| {
            wrong
                .report(*place, format!("`{leaf}` would be a value and an object at once"))
                .remedy(format!("rename one, as in `{leaf}.value`"))
                .also(first, "the other");
        };
        if let Some(first) = parents.get(&**path) {
            say(path, *first, wrong);
            leaves.insert(path, (*place, true));
        }
        for (dot, _) in path.match_indices('.') {
            let parent = &path[..dot];
            if let Some((first, said @ false)) = leaves.get_mut(parent) {
                *said = true;
                say(parent, *first, wrong);
            }
            parents.entry(parent).or_insert(*place);
        }
        leaves.entry(path).or_insert((*place, false));
    }
}

/// Two points may share exactly the same registers; a part of them only is a mistake in an address or a type.
fn overlaps(draft: &Draft, wrong: &mut Diagnostics) {
    let mut by_address: Vec<(Table, AddressRange, usize)> =
        draft.points.iter().enumerate().map(|(i, p)| (p.point.table, p.point.range, i)).collect();
    by_address.sort_by_key(|(table, range, i)| (*table, range.start(), range.count(), *i));
    let mut furthest: Option<(Table, AddressRange, usize)> = None;
    let mut said = std::collections::HashSet::new();
    for here in by_address {
        let (table, range, index) = here;
        if let Some((_, other, with)) = furthest.filter(|(t, r, _)| *t == table && *r != range && r.overlaps(range)) {
            let (later, earlier) = (index.max(with), index.min(with));
            if said.insert(later) {
                let (later, earlier) = (&draft.points[later], &draft.points[earlier]);
                let message = format!(
                    "`{}` ({table} {}) and `{}` ({table} {}) overlap in part",
                    later.point.path, later.point.range, earlier.point.path, earlier.point.range
                );
                wrong
                    .report(later.position, message)
                    .remedy("correct an address or a type; points may share exactly the same registers")
                    .also(earlier.position, "the other");
            }
            if range.end() <= other.end() {
                continue;
            }
        }
        if furthest.is_none_or(|(t, r, _)| t != table || r.end() < range.end() || r == range) {
            furthest = Some(here);
        }
    }
}

/// A group that is read together must fit into one request.
fn together(draft: &Draft, limits: &Limits, wrong: &mut Diagnostics) {
    let mut read_by: Vec<Vec<(Table, AddressRange, Place)>> = vec![Vec::new(); draft.together.len()];
    for p in draft.points.iter().filter(|p| p.point.access != Access::Write) {
        read_by[usize::from(p.point.group.0)].push((p.point.table, p.point.range, p.position));
    }
    for (place, mut points) in draft.together.iter().zip(read_by) {
        let Some(place) = *place else { continue };
        points.sort_by_key(|(table, range, _)| (*table, range.start()));
        let Some(&(table, first, first_place)) = points.first() else { continue };
        if let Some((other, _, odd)) = points.iter().find(|(t, _, _)| *t != table) {
            wrong
                .report(place, format!("read together, but the points lie in two tables: {table} and {other}"))
                .remedy("one request reads one table: make two groups with the same `every`")
                .also(first_place, table.as_str())
                .also(*odd, other.as_str());
            continue;
        }
        let mut whole = first;
        let gap = if table.is_bits() { limits.gap_bits } else { limits.gap };
        let mut too_wide_a_gap = None;
        for (_, range, at) in &points[1..] {
            let between = u32::from(range.start().0).saturating_sub(whole.end());
            if between > u32::from(gap) && too_wide_a_gap.is_none() {
                too_wide_a_gap = Some((between, *at));
            }
            whole = whole.hull(*range);
        }
        let read = read_range(whole, table, limits.even);
        let most = if table.is_bits() { limits.bits_per_read } else { limits.registers_per_read };
        let what = items(table);
        if read.count() > most {
            wrong
                .report(
                    place,
                    format!("read together takes {} {what} ({table} {read}), one read may take {most}", read.count()),
                )
                .remedy("leave `together` out, or make two groups with the same `every`");
        } else if let Some((_, hole)) = limits.holes.iter().find(|(t, hole)| *t == table && hole.overlaps(read)) {
            wrong
                .report(place, format!("read together ({table} {read}) runs over the hole {hole}"))
                .remedy("leave `together` out, or make two groups with the same `every`");
        } else if let Some(boundary) = limits.boundary.filter(|b| crosses(read, *b)) {
            wrong
                .report(place, format!("read together ({table} {read}) crosses a multiple of {boundary}"))
                .remedy("leave `together` out, or make two groups with the same `every`");
        } else if let Some((between, at)) = too_wide_a_gap {
            wrong
                .report(place, format!("read together bridges {between} {what} nobody asked for, `gap` allows {gap}"))
                .remedy(format!(
                    "set `{}: {between}` in `limits`, if the device has them all",
                    if table.is_bits() { "gap_bits" } else { "gap" }
                ))
                .also(at, "after the gap");
        }
    }
}

/// `valid_when`: an existing point of the same cycle, with values it can have, and no circle.
fn conditions(draft: &mut Draft, wrong: &mut Diagnostics) {
    let mut found: Vec<(usize, PointId, Vec<crate::model::Value>, Place)> = Vec::new();
    for (index, owner) in draft.points.iter().enumerate() {
        let Some(condition) = owner.written.valid_when.as_ref().and_then(|g| g.value.as_ref()) else { continue };
        let id = match draft.names.get(condition.point) {
            Some((Some(id), _)) => *id,
            Some((None, _)) => continue, // it has mistakes of its own
            None => {
                let message = format!("valid_when names `{}`, there is no such point", condition.point);
                let near = wrong.suggest(condition.point, draft.paths.iter().map(|(p, _)| &**p));
                let report = wrong.report(condition.place, message);
                if let Some(near) = near {
                    report.remedy(format!("did you mean `{near}`?"));
                }
                continue;
            }
        };
        let Some(other) = draft.points.get(usize::from(id.0)) else { continue };
        let every = |p: &super::group::PointDraft| draft.groups[usize::from(p.point.group.0)].every;
        if every(owner) != every(other) {
            let shown = |e: Option<std::time::Duration>| e.map_or("once".to_owned(), duration_text);
            wrong
                .report(
                    condition.place,
                    format!(
                        "`{}` is read every {}, this point every {}: they never share a batch",
                        condition.point,
                        shown(every(other)),
                        shown(every(owner))
                    ),
                )
                .remedy("give both groups the same `every`");
            continue;
        }
        if other.point.access == Access::Write {
            wrong.report(condition.place, format!("`{}` is never read (access w)", condition.point));
            continue;
        }
        let values: Vec<_> =
            condition.values.iter().filter_map(|n| wrong.keep(vectors::value(n, &other.point))).collect();
        if values.len() == condition.values.len() {
            found.push((index, id, values, condition.place));
        }
    }
    let leads: HashMap<usize, usize> = found.iter().map(|(from, to, _, _)| (*from, usize::from(to.0))).collect();
    for (index, id, values, place) in found {
        if in_circle(index, &leads) {
            wrong.report(place, "valid_when goes in a circle: the point depends on itself");
        }
        draft.points[index].point.valid_when = Some((id, values));
    }
}

/// Whether a point comes back to itself; each leads to at most one other.
fn in_circle(start: usize, leads: &HashMap<usize, usize>) -> bool {
    const LONGEST: usize = 1000; // longer chains are no profile, and the search is quadratic
    let mut at = start;
    for _ in 0..LONGEST {
        match leads.get(&at) {
            None => return false,
            Some(next) if *next == start => return true,
            Some(next) => at = *next,
        }
    }
    true
}

/// The labels a point may have, where it has labels.
pub(super) fn labels_of(meaning: &Meaning) -> Option<Vec<Arc<str>>> {
    match meaning {
        Meaning::Labels(labels) => Some(labels.iter().map(|(_, l)| Arc::clone(l)).collect()),
        Meaning::Plain { .. } | Meaning::Scaled(_) | Meaning::Hex => None,
    }
}
