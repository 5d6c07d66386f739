//! The vendor-neutral shadow models: which paths a kind of device has, with type and unit. Read from their published
//! JSON Schemas, so that there is one list only.
//!
//! Conventions of those schemas: nested `properties`, `additionalProperties: false`; a leaf has `type`, or `anyOf` with
//! an `enum` of labels; `x-unit` is its unit, `x-required` marks what a profile must map, `x-access: rw` what it may make
//! writable; `patternProperties` takes any name; `vendor` is the profile author's own.

use serde_json::{Map, Value};
use std::sync::LazyLock;

/// Name and schema of each model of this version.
const SCHEMAS: [(&str, &str); 2] = [
    ("servo-drive", include_str!("../../schemas/shadows/servo-drive.schema.json")),
    ("energy-meter", include_str!("../../schemas/shadows/energy-meter.schema.json")),
];

/// Models that later versions know.
const LATER: [&str; 7] =
    ["frequency-drive", "inverter", "battery", "io-module", "relay", "climate-sensor", "heat-pump"];

static MODELS: LazyLock<Vec<Model>> = LazyLock::new(|| {
    let parsed = SCHEMAS.iter().map(|&(name, text)| (name, serde_json::from_str(text)));
    // A schema that is no JSON is a mistake of ours, which the tests below find.
    parsed.filter_map(|(name, schema)| Some(Model { name, schema: schema.ok()? })).collect()
});

/// One model.
#[derive(Debug)]
pub struct Model {
    name: &'static str,
    schema: Value,
}

/// What a model says of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathKind {
    /// A value.
    Leaf(Leaf),
    /// An object: points may lie below, none here.
    Object,
    /// Below `vendor`: whatever the author likes.
    Vendor,
    /// No such path.
    Unknown,
}

/// A value of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Its type.
    pub kind: LeafKind,
    /// Its unit; nothing where it has none.
    pub unit: Option<String>,
    /// Whether each profile must map it.
    pub required: bool,
    /// Whether a profile may make it writable.
    pub writable: bool,
}

/// Type of a value of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeafKind {
    /// Any number.
    Number,
    /// A whole number.
    Integer,
    /// Text.
    Text,
    /// True or false.
    Boolean,
    /// One of these labels.
    Labels(Vec<String>),
}

impl Model {
    /// The model of this name, where this version has it.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|m| m.name == name)
    }

    /// Names of all models of this version.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SCHEMAS.iter().map(|(name, _)| *name)
    }

    /// Whether a later version will have a model of this name.
    pub fn is_later(name: &str) -> bool {
        LATER.contains(&name)
    }

    /// Its name, as in `servo-drive`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its JSON Schema.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// What the model says of a path, as in `speed.actual`.
    pub fn path(&self, path: &str) -> PathKind {
        let mut steps = path.split('.');
        let mut node = &self.schema;
        if path.split('.').next() == Some("vendor") {
            return if path.contains('.') { PathKind::Vendor } else { PathKind::Object };
        }
        let found = steps.try_fold((), |(), step| {
            node = child(node, step)?;
            Some(())
        });
        match (found, leaf(node)) {
            (None, _) => PathKind::Unknown,
            (Some(()), Some(leaf)) => PathKind::Leaf(leaf),
            (Some(()), None) => PathKind::Object,
        }
    }

    /// All paths with a fixed name, in the order of the schema's keys.
    pub fn paths(&self) -> Vec<(String, Leaf)> {
        let mut paths = Vec::new();
        gather(&self.schema, "", &mut paths);
        paths
    }
}

fn child<'a>(node: &'a Value, step: &str) -> Option<&'a Value> {
    let object = node.as_object()?;
    let fixed = object.get("properties").and_then(|p| p.get(step));
    let open = || object.get("patternProperties").and_then(Value::as_object).and_then(|p| p.values().next());
    let rest = || object.get("additionalProperties").filter(|a| a.is_object());
    fixed.or_else(open).or_else(rest)
}

fn leaf(node: &Value) -> Option<Leaf> {
    let object = node.as_object()?;
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let kind = match (labels(object), text("type")) {
        (Some(labels), _) => LeafKind::Labels(labels),
        (None, Some("number")) => LeafKind::Number,
        (None, Some("integer")) => LeafKind::Integer,
        (None, Some("string")) => LeafKind::Text,
        (None, Some("boolean")) => LeafKind::Boolean,
        (None, _) => return None,
    };
    Some(Leaf {
        kind,
        unit: text("x-unit").map(str::to_owned),
        required: object.get("x-required") == Some(&Value::Bool(true)),
        writable: text("x-access") == Some("rw"),
    })
}

fn labels(object: &Map<String, Value>) -> Option<Vec<String>> {
    let choices = object.get("anyOf").and_then(Value::as_array)?;
    let labels = choices.iter().find_map(|c| c.get("enum").and_then(Value::as_array))?;
    Some(labels.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn gather(node: &Value, prefix: &str, paths: &mut Vec<(String, Leaf)>) {
    let Some(properties) = node.get("properties").and_then(Value::as_object) else { return };
    for (name, node) in properties {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match leaf(node) {
            Some(leaf) => paths.push((path, leaf)),
            None if path == "vendor" => {}
            None => gather(node, &path, paths),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_schema_is_read() {
        assert_eq!(MODELS.len(), SCHEMAS.len());
        for model in MODELS.iter() {
            assert!(model.paths().iter().any(|(_, leaf)| leaf.required), "{}", model.name);
        }
    }

    #[test]
    fn a_servo_drive_has_the_required_paths_and_units_of_the_table() {
        let model = Model::by_name("servo-drive").unwrap();
        let mut required: Vec<_> = model.paths().into_iter().filter(|(_, l)| l.required).map(|(p, _)| p).collect();
        required.sort();
        assert_eq!(required, ["fault.code", "speed.actual", "state"]);
        let PathKind::Leaf(speed) = model.path("speed.actual") else { panic!() };
        assert_eq!((speed.kind, speed.unit.as_deref(), speed.writable), (LeafKind::Number, Some("rpm"), false));
        let PathKind::Leaf(setpoint) = model.path("speed.setpoint") else { panic!() };
        assert!(setpoint.writable);
        let PathKind::Leaf(state) = model.path("state") else { panic!() };
        let labels = ["not_ready", "ready", "running", "fault"].map(str::to_owned).to_vec();
        assert_eq!(state.kind, LeafKind::Labels(labels));
        assert_eq!(model.path("speed"), PathKind::Object);
        assert_eq!(model.path("speed.wish"), PathKind::Unknown);
        assert_eq!(model.path("state.more"), PathKind::Unknown);
        assert_eq!(model.path("vendor.x.y"), PathKind::Vendor);
        assert!(Model::by_name("toaster").is_none());
    }

    #[test]
    fn an_energy_meter_takes_any_demand() {
        let model = Model::by_name("energy-meter").unwrap();
        let PathKind::Leaf(demand) = model.path("demand.maximum") else { panic!() };
        assert_eq!(demand.unit.as_deref(), Some("W"));
        let PathKind::Leaf(thd) = model.path("thd.voltage.l1") else { panic!() };
        assert_eq!(thd.unit.as_deref(), Some("%"));
    }
}
