//! A small plant for this room's tests: one kind of pump, a store, cycles as they come from the poller.

use super::skeleton::tests::layout;
use crate::model::{
    Batch, Condition, Configuration, Cycle, DeviceId, Epoch, Fault, Generation, GroupId, GroupResult, Interval, Layout,
    Mono, PointId, Reading, Reason, Stamp, Value, Wall,
};
use crate::twin::{Options, Store};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// 2026-11-30T22:27:40.000Z.
pub(crate) const BEGIN: Stamp = Stamp { mono: Mono(Duration::from_secs(100)), wall: Wall(1_796_077_660_000) };

pub(crate) fn at(ms: u64) -> Stamp {
    BEGIN.plus(Duration::from_millis(ms))
}

pub(crate) fn id(name: &str) -> DeviceId {
    DeviceId::new(name).unwrap()
}

/// `speed.actual`, `state`, `speed.setpoint`; one group, `fast`, every second.
pub(crate) fn pump() -> Arc<Layout> {
    Arc::new(layout(&["speed.actual", "state", "speed.setpoint"]))
}

pub(crate) fn store() -> Store {
    Store::new(Epoch(7), &Options::default())
}

pub(crate) fn configure(store: &Store, name: &str, layout: &Arc<Layout>, now: Stamp) -> Generation {
    store.configure(&id(name), Configuration::Ready(Arc::clone(layout)), now)
}

/// A cycle that read everything: one reading per point, in order.
pub(crate) fn batch(name: &str, cycle: u64, readings: Vec<Reading>, ended: Stamp) -> Batch {
    Batch {
        device: id(name),
        generation: Generation(1),
        interval: Interval(0),
        cycle: Cycle(cycle),
        started: ended,
        ended,
        condition: Condition::Reachable,
        skew_exceeded: false,
        groups: vec![(GroupId(0), GroupResult::Read(ended.wall))],
        readings: (0u16..).map(PointId).zip(readings).collect(),
    }
}

pub(crate) fn good(speed: i64, setpoint: i64) -> Vec<Reading> {
    vec![
        Reading::Good(Value::Int(speed)),
        Reading::Good(Value::Text("running".into())),
        Reading::Good(Value::Int(setpoint)),
    ]
}

/// A cycle without a reply.
pub(crate) fn silent(name: &str, cycle: u64, ended: Stamp) -> Batch {
    Batch {
        condition: Condition::Unreachable(Fault::NoReply),
        groups: vec![(GroupId(0), GroupResult::Failed(Reason::Timeout))],
        ..batch(name, cycle, Vec::new(), ended)
    }
}

/// Parses a payload and holds it against its message's schema.
pub(crate) fn valid(message: &str, payload: &[u8]) -> serde_json::Value {
    static VALIDATORS: LazyLock<HashMap<&str, jsonschema::Validator>> = LazyLock::new(|| {
        let compile = |text| jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap();
        super::schema::MESSAGES.into_iter().map(|(name, text)| (name, compile(text))).collect()
    });
    let parsed: serde_json::Value = serde_json::from_slice(payload).unwrap();
    if let Err(error) = VALIDATORS[message].validate(&parsed) {
        panic!("{message}: {error} at {}\n{}", error.instance_path(), String::from_utf8_lossy(payload));
    }
    parsed
}
