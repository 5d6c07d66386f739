//! The shape of one layout's JSON, made once: keys as bytes, nesting as a flat list of steps.
//!
//! ```text
//!  layout ──► Skeleton: Open "speed": { · Leaf "actual": · Leaf "setpoint": · Close ──► bytes, in one pass, no tree
//! ```

use super::json::{write_key, write_string, write_value};
use super::nest::{Member, nest};
use crate::model::{GroupId, JsonForm, Layout, PointId, Value};

/// A layout, prepared for writing. Make one per layout and keep it; it is as large as the layout's texts.
#[derive(Debug)]
pub struct Skeleton {
    steps: Vec<Step>,
    /// All keys, as `"key":`.
    text: Vec<u8>,
    /// Per point, its whole path as a key; empty for points that are not published.
    paths: Vec<Key>,
    /// Per group, its name as a key.
    groups: Vec<Key>,
    /// `"name@version"` of the profile, in quotes.
    profile: Key,
}

/// A slice of `Skeleton::text`.
#[derive(Debug, Clone, Copy)]
struct Key {
    at: u32,
    len: u32,
}

#[derive(Debug)]
enum Step {
    Open(Key),
    Leaf(Key, PointId, JsonForm),
    /// Ends the object that this key opened; takes it back if it stayed empty.
    Close(Key),
}

impl Skeleton {
    /// Prepares a layout.
    pub fn new(layout: &Layout) -> Self {
        let mut text = Vec::new();
        let published = layout.points.iter().enumerate().filter(|(_, p)| p.publish);
        let mut steps = Vec::with_capacity(layout.points.len() + 8);
        push_steps(&nest(published.map(|(i, p)| (i, &*p.path))), layout, &mut steps, &mut text);
        let key_of = |name: &str, text: &mut Vec<u8>| add(text, |text| write_name(text, name));
        let paths = layout
            .points
            .iter()
            .map(|p| if p.publish { key_of(&p.path, &mut text) } else { Key { at: 0, len: 0 } })
            .collect();
        let groups = layout.groups.iter().map(|g| key_of(&g.name, &mut text)).collect();
        let profile =
            add(&mut text, |text| write_string(text, &format!("{}@{}", layout.profile, layout.profile_version)));
        text.shrink_to_fit();
        Self { steps, text, paths, groups, profile }
    }

    /// Appends the object of all published points that have a value.
    pub fn write_values(&self, out: &mut Vec<u8>, values: &[Option<Value>]) {
        self.write(out, |point| values.get(usize::from(point.0))?.as_ref());
    }

    /// Appends the object of those published points that are marked and have a value.
    pub(super) fn write_marked(&self, out: &mut Vec<u8>, values: &[Option<Value>], marks: &Marks) {
        self.write(out, |point| if marks.has(point) { values.get(usize::from(point.0))?.as_ref() } else { None });
    }

    fn write<'v>(&self, out: &mut Vec<u8>, value_of: impl Fn(PointId) -> Option<&'v Value>) {
        out.push(b'{');
        for step in &self.steps {
            match step {
                Step::Open(key) => {
                    write_key(out, self.bytes(*key));
                    out.push(b'{');
                }
                Step::Leaf(key, point, form) => {
                    if let Some(value) = value_of(*point) {
                        let before = out.len();
                        write_key(out, self.bytes(*key));
                        if !write_value(out, value, *form) {
                            out.truncate(before);
                        }
                    }
                }
                Step::Close(key) => {
                    if out.last() == Some(&b'{') {
                        out.truncate(out.len() - 1 - key.len as usize);
                        if out.last() == Some(&b',') {
                            out.pop();
                        }
                    } else {
                        out.push(b'}');
                    }
                }
            }
        }
        out.push(b'}');
    }

    /// A point's path as a key, if it is published.
    pub(super) fn path(&self, point: PointId) -> Option<&[u8]> {
        let key = self.paths.get(usize::from(point.0))?;
        (key.len > 0).then(|| self.bytes(*key))
    }

    /// A group's name as a key.
    pub(super) fn group(&self, group: GroupId) -> Option<&[u8]> {
        self.groups.get(usize::from(group.0)).map(|key| self.bytes(*key))
    }

    /// Name and version of the profile, in quotes.
    pub(super) fn profile(&self) -> &[u8] {
        self.bytes(self.profile)
    }

    fn bytes(&self, key: Key) -> &[u8] {
        &self.text[key.at as usize..(key.at + key.len) as usize]
    }
}

fn push_steps(members: &[Member<'_>], layout: &Layout, steps: &mut Vec<Step>, text: &mut Vec<u8>) {
    for member in members {
        match member {
            Member::Leaf(name, index) => {
                let key = add(text, |text| write_name(text, name));
                steps.push(Step::Leaf(key, PointId(*index as u16), layout.points[*index].json));
            }
            Member::Object(name, members) => {
                let key = add(text, |text| write_name(text, name));
                steps.push(Step::Open(key));
                push_steps(members, layout, steps, text);
                steps.push(Step::Close(key));
            }
        }
    }
}

fn add(text: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Key {
    let at = text.len();
    write(text);
    Key { at: at as u32, len: (text.len() - at) as u32 }
}

fn write_name(text: &mut Vec<u8>, name: &str) {
    write_string(text, name);
    text.push(b':');
}

/// A set of points; keeps its memory between uses.
#[derive(Debug, Default)]
pub(super) struct Marks(Vec<u64>);

impl Marks {
    /// Marks these points and no others.
    pub(super) fn set(&mut self, points: &[PointId]) {
        self.0.clear();
        for point in points {
            let word = usize::from(point.0 / 64);
            if word >= self.0.len() {
                self.0.resize(word + 1, 0);
            }
            self.0[word] |= 1 << (point.0 % 64);
        }
    }

    fn has(&self, point: PointId) -> bool {
        self.0.get(usize::from(point.0 / 64)).is_some_and(|word| word >> (point.0 % 64) & 1 == 1)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{GroupLayout, Interval, IntervalLayout, PointLayout};
    use proptest::prelude::*;
    use std::time::Duration;

    /// A layout with one group `fast` read every second.
    pub(in crate::shadow) fn layout(paths: &[&str]) -> Layout {
        Layout {
            profile: "acme/pump".into(),
            profile_version: "1.2.0".into(),
            points: paths
                .iter()
                .map(|path| PointLayout {
                    path: (*path).into(),
                    group: GroupId(0),
                    json: JsonForm::Plain,
                    publish: true,
                })
                .collect(),
            groups: vec![GroupLayout { name: "fast".into(), interval: Interval(0) }],
            intervals: vec![IntervalLayout { every: Some(Duration::from_secs(1)) }],
            offline_after: 3,
            timeout: Duration::from_secs(1),
            simulated: false,
        }
    }

    fn written(skeleton: &Skeleton, values: &[Option<Value>]) -> String {
        let mut out = Vec::new();
        skeleton.write_values(&mut out, values);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn objects_nest_once_and_vanish_when_empty() {
        let skeleton = Skeleton::new(&layout(&["speed.actual", "state", "speed.set\"point", "a.b.c", "x"]));
        let int = |n| Some(Value::Int(n));
        let values = [int(0), Some(Value::Text("running".into())), int(-20), int(7), Some(Value::Bool(false))];
        assert_eq!(
            written(&skeleton, &values),
            r#"{"speed":{"actual":0,"set\"point":-20},"state":"running","a":{"b":{"c":7}},"x":false}"#
        );
        assert_eq!(written(&skeleton, &[None, None, None, None, int(1)]), r#"{"x":1}"#);
        assert_eq!(written(&skeleton, &[int(1), None, None, None, int(1)]), r#"{"speed":{"actual":1},"x":1}"#);
        assert_eq!(written(&skeleton, &[None, None, None, int(1), None]), r#"{"a":{"b":{"c":1}}}"#);
        assert_eq!(written(&skeleton, &[None, None, None, None, None]), "{}");
    }

    #[test]
    fn f84_nought_false_and_empty_are_values() {
        let skeleton = Skeleton::new(&layout(&["a", "b", "c", "d"]));
        let values = [Value::Int(0), Value::F32(0.0), Value::Bool(false), Value::Text("".into())].map(Some);
        assert_eq!(written(&skeleton, &values), r#"{"a":0,"b":0,"c":false,"d":""}"#);
    }

    #[test]
    fn f63_one_nan_spoils_no_other_value() {
        let skeleton = Skeleton::new(&layout(&["a", "b.x", "c"]));
        let values = [Value::Int(1), Value::F32(f32::NAN), Value::Int(3)].map(Some);
        assert_eq!(written(&skeleton, &values), r#"{"a":1,"c":3}"#);
    }

    #[test]
    fn internal_points_do_not_appear() {
        let mut layout = layout(&["a", "factor", "b"]);
        layout.points[1].publish = false;
        let skeleton = Skeleton::new(&layout);
        assert_eq!(written(&skeleton, &[1, 2, 3].map(|n| Some(Value::Int(n)))), r#"{"a":1,"b":3}"#);
        assert_eq!(skeleton.path(PointId(1)), None);
        assert_eq!(skeleton.path(PointId(2)), Some(&b"\"b\":"[..]));
    }

    #[test]
    fn marks_choose_points() {
        let paths: Vec<String> = (0..130).map(|i| format!("g{}.p{i}", i % 3)).collect();
        let skeleton = Skeleton::new(&layout(&paths.iter().map(String::as_str).collect::<Vec<_>>()));
        let values: Vec<_> = (0..130).map(|n| Some(Value::Int(n))).collect();
        let mut marks = Marks::default();
        marks.set(&[PointId(1), PointId(64), PointId(129)]);
        let mut out = Vec::new();
        skeleton.write_marked(&mut out, &values, &marks);
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"g0":{"p129":129},"g1":{"p1":1,"p64":64}}"#);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<bool>().prop_map(Value::Bool),
            any::<i32>().prop_map(|n| Value::Int(i64::from(n))),
            (any::<i32>(), -4i8..0).prop_map(|(m, e)| Value::from_decimal(i64::from(m), e).unwrap()),
            any::<f32>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::F32),
            "\\PC{0,8}".prop_map(|s| Value::Text(s.as_str().into())),
        ]
    }

    proptest! {
        /// Judge: serde_json reads the text, and a map of pointers built from the paths says what must be there.
        #[test]
        fn output_equals_the_model(
            points in prop::collection::vec(("[a-c](\\.[a-c]){0,2}x", prop::option::of(any_value())), 0..40)
        ) {
            let mut points = points;
            points.sort_by(|a, b| a.0.len().cmp(&b.0.len()).then(a.0.cmp(&b.0)));
            points.dedup_by(|a, b| a.0 == b.0);
            let paths: Vec<&str> = points.iter().map(|p| p.0.as_str()).collect();
            let values: Vec<Option<Value>> = points.iter().map(|p| p.1.clone()).collect();
            let text = written(&Skeleton::new(&layout(&paths)), &values);
            let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
            let mut leaves = 0;
            for (path, value) in &points {
                let found = parsed.pointer(&format!("/{}", path.replace('.', "/")));
                match value {
                    None => prop_assert!(found.is_none()),
                    Some(value) => {
                        leaves += 1;
                        let found = found.unwrap();
                        match value {
                            Value::Bool(b) => prop_assert_eq!(found.as_bool(), Some(*b)),
                            Value::Text(t) => prop_assert_eq!(found.as_str(), Some(&**t)),
                            // Of two shortest texts at equal distance either will do: what counts is the float it names.
                            Value::F32(x) => {
                                prop_assert_eq!((found.as_f64().unwrap() as f32).to_bits(), (*x + 0.0).to_bits());
                            },
                            number => {
                                let got = found.as_f64().unwrap();
                                prop_assert!(Value::F64(got).same_as(number), "{} {:?}", got, number);
                            }
                        }
                    }
                }
            }
            prop_assert_eq!(count_leaves(&parsed), leaves);
        }
    }

    fn count_leaves(value: &serde_json::Value) -> usize {
        match value.as_object() {
            Some(object) => object.values().map(|v| count_leaves(v).max(usize::from(!v.is_object()))).sum(),
            None => 1,
        }
    }
}
