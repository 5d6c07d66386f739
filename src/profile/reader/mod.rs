//! From the tree of a file to a [`DeviceProfile`], or to every mistake in it at once.
//!
//! Two steps: each level of a profile (defaults, group, point) is read as written ([`written`]), the nearest level wins,
//! and the outcome is judged as meant ([`point`]). What needs several points to judge is in [`rules`], the models'
//! demands in [`conformity`], the profile's own tests in [`vectors`]. A key that could not be read is known to be there:
//! nothing that depends on it is reported as well.

mod conformity;
mod group;
mod head;
mod limits;
mod point;
mod position;
mod rules;
mod serial;
mod vectors;
mod written;

use super::{DeviceProfile, Model};
use crate::document::{Diagnostics, Document, Fields, Node, Place};
use crate::model::PointId;
use group::Draft;
use std::collections::HashMap;
use std::sync::Arc;
use written::Written;

/// Keys of a profile that later versions know.
const LATER: [&str; 4] = ["extends", "quirks", "identity", "setup"];

/// Reads the profile that a file holds, or finds every mistake in it.
pub fn parse(document: &Document) -> Result<DeviceProfile, Diagnostics> {
    parse_node(document, document.root())
}

/// Reads a profile that stands inline, as under `profile:` in a device file.
pub fn parse_node(document: &Document, node: &Node) -> Result<DeviceProfile, Diagnostics> {
    let mut wrong = Diagnostics::new(document);
    let profile = read(document, node, &mut wrong);
    if profile.is_none() && !wrong.has_errors() {
        wrong.report(node.place, "not a profile");
    }
    wrong.into_result(profile)?.ok_or_else(|| Diagnostics::new(document))
}

fn read(document: &Document, node: &Node, wrong: &mut Diagnostics) -> Option<DeviceProfile> {
    let mut fields = Fields::open(node, "a profile", wrong)?;
    let name = fields.required("profile", wrong).and_then(|n| wrong.keep(head::name(n)));
    let version = fields.required("version", wrong).and_then(|n| wrong.keep(head::version(n)));
    let title = fields.optional("title").and_then(|n| wrong.keep(n.text()));
    let model = fields.optional("shadow").and_then(|n| Some((wrong.keep(head::model(n))?, n.place)));
    let verified = fields.optional("verified").and_then(|n| wrong.keep(n.boolean())).unwrap_or(false);
    let sources = fields.optional("sources").map(|n| head::sources(n, wrong)).unwrap_or_default();
    let numbering = fields.optional("numbering").map(|n| head::numbering(n, wrong));
    let notation = fields.optional("notation").map(|n| position::Notation::read(n, wrong));
    let serial = fields.optional("serial").map(|n| serial::serial(n, wrong)).unwrap_or_default();
    let limits = fields.optional("limits").map(|n| limits::limits(n, wrong)).unwrap_or_default();
    let timing = fields.optional("timing").map(|n| limits::timing(n, wrong)).unwrap_or_default();
    let (defaults, every) = match fields.optional("defaults") {
        Some(node) => group::defaults(node, wrong),
        None => (Written::default(), None),
    };
    let numbering = numbering.unwrap_or(Some(position::Numbering::Zero));
    let addressing = position::Addressing { numbering, notation: position::Stated::from(notation) };
    let mut draft = Draft::default();
    if let Some(groups) = fields.required("groups", wrong) {
        let surroundings = group::Surroundings { defaults: &defaults, every, addressing: &addressing, limits: &limits };
        group::read_all(groups, &surroundings, &mut draft, wrong);
    }
    rules::check(&mut draft, &limits, wrong);
    if let Some((model, place)) = model {
        conformity::check(model, place, &draft, wrong);
    }
    let tests = fields.optional("tests").map(|n| vectors::read(document, n, &draft, wrong)).unwrap_or_default();
    fields.close(&LATER, wrong);

    let name: Arc<str> = name?.into();
    Some(DeviceProfile {
        title: title.unwrap_or(&name).to_owned(),
        name,
        version: version?.into(),
        model: model.map(|(m, _): (&Model, _)| m.name().to_owned()),
        verified,
        sources,
        serial,
        limits,
        timing,
        groups: draft.groups,
        points: draft.points.into_iter().map(|p| p.point).collect(),
        tests,
    })
}

/// Names of points with the places of their keys: those of which nothing can be made stand without an id, so that
/// nobody calls them unknown.
type Names = HashMap<Arc<str>, (Option<PointId>, Place)>;

#[cfg(test)]
mod tests;
