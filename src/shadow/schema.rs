//! JSON Schemas (2020-12): of the shadow that a device of a profile has, and of every message.

use super::json::{write_key, write_string, write_value};
use super::nest::{Member, nest};
use crate::model::{JsonForm, Value};
use crate::profile::{Access, DeviceProfile, Meaning, Point, RawType, Scale};

/// The schema of one message, by its name; nothing for a name that is not in [`MESSAGES`].
pub fn schema_message(name: &str) -> Option<&'static str> {
    MESSAGES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Names and schemas of all messages.
pub const MESSAGES: [(&str, &str); 4] = [
    ("state", include_str!("../../schemas/messages/state.schema.json")),
    ("change", include_str!("../../schemas/messages/change.schema.json")),
    ("status", include_str!("../../schemas/messages/status.schema.json")),
    ("gateway-status", include_str!("../../schemas/messages/gateway-status.schema.json")),
];

/// The schema of `reported` for a device of this profile, in one line: nested like the shadow, closed, without
/// `required`, because a value that was never read or is absent has no key.
pub fn schema_shadow(profile: &DeviceProfile) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + profile.points.len() * 96);
    out.extend_from_slice(b"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\"");
    text(&mut out, b"\"$id\":", &format!("fieldshadow:profiles/{}@{}", profile.name, profile.version));
    text(&mut out, b"\"title\":", &profile.title);
    if let Some(model) = &profile.model {
        text(&mut out, b"\"x-model\":", model);
    }
    write_object(&mut out, &nest(profile.points.iter().map(|p| &*p.path).enumerate()), profile);
    out.push(b'}');
    out
}

/// Appends type and properties of an object to a schema that is already open.
fn write_object(out: &mut Vec<u8>, members: &[Member<'_>], profile: &DeviceProfile) {
    write_key(out, b"\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
    for member in members {
        let (Member::Object(key, _) | Member::Leaf(key, _)) = member;
        let mut quoted = Vec::with_capacity(key.len() + 3);
        write_string(&mut quoted, key);
        quoted.push(b':');
        write_key(out, &quoted);
        out.push(b'{');
        match member {
            Member::Object(_, members) => write_object(out, members, profile),
            Member::Leaf(_, index) => write_point(out, &profile.points[*index]),
        }
        out.push(b'}');
    }
    out.push(b'}');
}

fn write_point(out: &mut Vec<u8>, point: &Point) {
    if let Some(title) = &point.title {
        text(out, b"\"title\":", title);
    }
    write_type(out, point);
    if let Some(unit) = &point.unit {
        text(out, b"\"x-unit\":", unit);
    }
    match point.access {
        Access::Read => {}
        Access::ReadWrite => text(out, b"\"x-access\":", "rw"),
        Access::Write => text(out, b"\"x-access\":", "w"),
    }
    if point.danger {
        write_key(out, b"\"x-danger\":true");
    }
}

fn write_type(out: &mut Vec<u8>, point: &Point) {
    let raw = point.encoding.raw;
    match &point.meaning {
        Meaning::Labels(labels) => {
            write_key(out, b"\"type\":\"string\",\"anyOf\":[{\"enum\":[");
            for (i, (_, label)) in labels.iter().enumerate() {
                // Two numbers may share a label; an enumeration lists it once.
                if labels[..i].iter().any(|(_, earlier)| earlier == label) {
                    continue;
                }
                if out.last() != Some(&b'[') {
                    out.push(b',');
                }
                write_string(out, label);
            }
            out.extend_from_slice(b"]},{\"pattern\":");
            let signed = is_signed(raw) && point.encoding.cut.is_none();
            write_string(out, if signed { r"^unknown\(-?[0-9]+\)$" } else { r"^unknown\([0-9]+\)$" });
            out.extend_from_slice(b"}]");
        }
        Meaning::Hex => {
            let digits = bits(point).div_ceil(4);
            text(out, b"\"type\":\"string\",\"pattern\":", &format!("^[0-9A-F]{{{digits}}}$"));
        }
        _ if is_boolean(point) => write_key(out, b"\"type\":\"boolean\""),
        _ if raw == RawType::Text => write_key(out, b"\"type\":\"string\""),
        _ if raw == RawType::Bytes => text(out, b"\"type\":\"string\",\"pattern\":", "^([0-9a-f]{2})*$"),
        Meaning::Plain { .. } if point.json == JsonForm::DecimalString => {
            let pattern = if is_signed(raw) { "^(0|-?[1-9][0-9]*)$" } else { "^(0|[1-9][0-9]*)$" };
            text(out, b"\"type\":\"string\",\"pattern\":", pattern);
        }
        Meaning::Plain { .. } => {
            let whole = !matches!(raw, RawType::F32 | RawType::F64);
            write_key(out, if whole { b"\"type\":\"integer\"" } else { b"\"type\":\"number\"" });
            limits(out, point);
        }
        Meaning::Scaled(scale) => {
            let exceeds = may_exceed_safe_integers(point, scale);
            if exceeds {
                write_key(out, b"\"anyOf\":[{");
            }
            let whole =
                !matches!(raw, RawType::F32 | RawType::F64) && scale.denominator == 1 && scale.bias_exponent == 0;
            write_key(out, if whole { b"\"type\":\"integer\"" } else { b"\"type\":\"number\"" });
            limits(out, point);
            if exceeds {
                out.extend_from_slice(b"},{\"description\":\"beyond 2^53, exact\",\"type\":\"string\",\"pattern\":");
                write_string(out, r"^-?[1-9][0-9]*(\.[0-9]+)?$");
                out.extend_from_slice(b"}]");
            }
        }
    }
}

fn limits(out: &mut Vec<u8>, point: &Point) {
    for (key, limit) in [(&b"\"minimum\":"[..], &point.min), (b"\"maximum\":", &point.max)] {
        let Some(limit) = limit else { continue };
        let mut number = Vec::new();
        // A limit beyond 2^53 would print as text, which no keyword takes; the reading is checked all the same.
        if write_value(&mut number, limit, JsonForm::Plain) && !number.starts_with(b"\"") {
            write_key(out, key);
            out.extend_from_slice(&number);
        }
    }
}

fn text(out: &mut Vec<u8>, key: &[u8], value: &str) {
    write_key(out, key);
    write_string(out, value);
}

fn is_signed(raw: RawType) -> bool {
    matches!(raw, RawType::I16 | RawType::I32 | RawType::I64)
}

fn is_boolean(point: &Point) -> bool {
    point.encoding.raw == RawType::Bool || point.encoding.cut.is_some_and(|cut| cut.boolean)
}

/// Bits of the raw value.
fn bits(point: &Point) -> u32 {
    match point.encoding.cut {
        Some(cut) => u32::from(cut.high.saturating_sub(cut.low)) + 1,
        None if point.encoding.raw == RawType::Bool => 1,
        None => point.encoding.raw.width().map_or(u32::from(point.range.count()) * 16, |w| u32::from(w) * 16),
    }
}

/// Whether some raw value of the point, scaled, cannot stand as a JSON number that every reader keeps.
fn may_exceed_safe_integers(point: &Point, scale: &Scale) -> bool {
    if matches!(point.encoding.raw, RawType::F32 | RawType::F64) {
        return false;
    }
    let greatest = (1i128 << bits(point).min(64)) * i128::from(scale.numerator.unsigned_abs());
    let beyond = greatest / i128::from(scale.denominator.max(1)) + i128::from(scale.bias_mantissa.unsigned_abs());
    let limited = |limit: &Option<Value>| {
        limit.as_ref().and_then(Value::as_f64).is_some_and(|x| x.abs() <= super::MAX_SAFE_INTEGER as f64)
    };
    beyond > i128::from(super::MAX_SAFE_INTEGER) && !(limited(&point.min) && limited(&point.max))
}

/// The same JSON with line breaks and an indent of two, for people. Takes what this room has written, nothing else.
pub fn pretty(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let (mut in_text, mut escaped) = (false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for (at, byte) in json.iter().copied().enumerate() {
        if in_text {
            out.push(byte);
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        let empty = |close: u8| json.get(at + 1) == Some(&close);
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                if !empty(byte + 2) {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if at == 0 || json[at - 1] != byte - 2 {
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                in_text = true;
                out.push(byte);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::{Address, AddressRange, Table};
    use crate::model::GroupId;
    use crate::profile::{Cut, Encoding, Limits, Order, Timing};
    use serde_json::json;

    fn point(path: &str, raw: RawType, words: u16, meaning: Meaning) -> Point {
        Point {
            path: path.into(),
            group: GroupId(0),
            table: Table::HoldingRegister,
            range: AddressRange::new(Address(0), words).unwrap(),
            encoding: Encoding { raw, word_order: Order::HighFirst, byte_order: Order::HighFirst, cut: None },
            meaning,
            unit: None,
            title: None,
            min: None,
            max: None,
            absent: Vec::new(),
            valid_when: None,
            json: JsonForm::Plain,
            access: Access::Read,
            danger: false,
        }
    }

    fn plain(path: &str, raw: RawType, words: u16) -> Point {
        point(path, raw, words, Meaning::Plain { invert: false })
    }

    fn scaled(path: &str, raw: RawType, words: u16, numerator: i64, denominator: i64) -> Point {
        let scale =
            Scale { numerator, denominator, bias_mantissa: 0, bias_exponent: 0, decimals: None, round_to: None };
        point(path, raw, words, Meaning::Scaled(scale))
    }

    fn profile(points: Vec<Point>) -> DeviceProfile {
        DeviceProfile {
            name: "acme/pump".into(),
            version: "1.2.0".into(),
            title: "Acme \"pump\"".into(),
            model: Some("servo-drive".into()),
            verified: false,
            sources: Vec::new(),
            serial: crate::profile::SerialDefaults::default(),
            limits: Limits::default(),
            timing: Timing::default(),
            groups: Vec::new(),
            points,
            tests: Vec::new(),
        }
    }

    fn schema(points: Vec<Point>) -> serde_json::Value {
        let text = schema_shadow(&profile(points));
        let schema: serde_json::Value = serde_json::from_slice(&text).unwrap();
        jsonschema::meta::validate(&schema).unwrap_or_else(|e| panic!("{e}\n{}", String::from_utf8_lossy(&text)));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&pretty(&text)).unwrap(), schema);
        schema
    }

    #[test]
    fn a_schema_is_nested_closed_and_requires_nothing() {
        let mut actual = plain("speed.actual", RawType::I16, 1);
        actual.unit = Some("rpm".into());
        actual.title = Some("actual speed".into());
        actual.min = Some(Value::Int(-3000));
        actual.max = Some(Value::from_decimal(30_005, -1).unwrap());
        let mut setpoint = plain("speed.setpoint", RawType::I16, 1);
        setpoint.access = Access::ReadWrite;
        setpoint.danger = true;
        let state = Meaning::Labels(vec![(0, "off".into()), (1, "on".into()), (2, "on".into())]);
        let points = vec![actual, point("state", RawType::U16, 1, state), setpoint];
        let text = String::from_utf8(schema_shadow(&profile(points.clone()))).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"fieldshadow:profiles/acme/pump@1.2.0","#,
                r#""title":"Acme \"pump\"","x-model":"servo-drive","type":"object","additionalProperties":false,"properties":{"#,
                r#""speed":{"type":"object","additionalProperties":false,"properties":{"#,
                r#""actual":{"title":"actual speed","type":"integer","minimum":-3000,"maximum":3000.5,"x-unit":"rpm"},"#,
                r#""setpoint":{"type":"integer","x-access":"rw","x-danger":true}}},"#,
                r#""state":{"type":"string","anyOf":[{"enum":["off","on"]},{"pattern":"^unknown\\([0-9]+\\)$"}]}}}"#,
            )
        );
        let schema = schema(points);
        let accepts = |value| jsonschema::is_valid(&schema, &value);
        assert!(accepts(json!({})));
        assert!(accepts(json!({"speed": {"actual": -3000}, "state": "unknown(17)"})));
        assert!(!accepts(json!({"speed": {"actual": 3001}})));
        assert!(!accepts(json!({"speed": {"actual": 1.5}})));
        assert!(!accepts(json!({"speed": {"other": 1}})));
        assert!(!accepts(json!({"state": "broken"})));
        assert!(!accepts(json!({"state": null})));
    }

    #[test]
    fn every_form_of_value_has_its_type() {
        let mut serial = plain("serial", RawType::U64, 4);
        serial.json = JsonForm::DecimalString;
        let mut offset = plain("offset", RawType::I64, 4);
        offset.json = JsonForm::DecimalString;
        let mut bit = plain("bit", RawType::U16, 1);
        bit.encoding.cut = Some(Cut { low: 3, high: 3, boolean: true });
        let mut code = point("code", RawType::U16, 1, Meaning::Hex);
        code.encoding.cut = Some(Cut { low: 0, high: 11, boolean: false });
        let signed = Meaning::Labels(vec![(-1, "reverse".into())]);
        let schema = schema(vec![
            serial,
            offset,
            bit,
            code,
            point("direction", RawType::I16, 1, signed),
            plain("coil", RawType::Bool, 1),
            plain("name", RawType::Text, 8),
            plain("mac", RawType::Bytes, 3),
            plain("flow", RawType::F32, 2),
            scaled("temperature", RawType::I16, 1, 1, 10),
            scaled("rpm", RawType::U16, 1, 10, 1),
            scaled("energy", RawType::U64, 4, 1, 1000),
        ]);
        let accepts = |key: &str, value: serde_json::Value| jsonschema::is_valid(&schema, &json!({key: value}));
        for (key, good, bad) in [
            ("serial", json!("18446744073709551615"), json!(5)),
            ("serial", json!("0"), json!("-1")),
            ("offset", json!("-9223372036854775808"), json!("007")),
            ("bit", json!(false), json!(0)),
            ("code", json!("C22"), json!("c22")),
            ("code", json!("0C2"), json!("00C2")),
            ("direction", json!("unknown(-7)"), json!("unknown()")),
            ("coil", json!(true), json!("true")),
            ("name", json!(""), json!(1)),
            ("mac", json!("00ff1a"), json!("00FF")),
            ("flow", json!(4.9), json!("4.9")),
            ("temperature", json!(-2.5), json!("unknown(1)")),
            ("rpm", json!(30), json!(30.5)),
            ("energy", json!(1.234), json!("1e3")),
            ("energy", json!("9007199254740992.001"), json!(null)),
        ] {
            assert!(accepts(key, good.clone()), "{key} {good}");
            assert!(!accepts(key, bad.clone()), "{key} {bad}");
        }
    }

    #[test]
    fn message_schemas_are_schemas() {
        for (name, _) in MESSAGES {
            let schema: serde_json::Value = serde_json::from_str(schema_message(name).unwrap()).unwrap();
            jsonschema::meta::validate(&schema).unwrap();
            assert_eq!(schema["$id"], format!("fieldshadow:messages/{name}"));
        }
        assert_eq!(schema_message("../state"), None);
    }

    #[test]
    fn pretty_leaves_texts_alone() {
        assert_eq!(
            String::from_utf8(pretty(br#"{"a":[],"b\"{":{"c":"x,y:\\"},"d":[1,2]}"#)).unwrap(),
            "{\n  \"a\": [],\n  \"b\\\"{\": {\n    \"c\": \"x,y:\\\\\"\n  },\n  \"d\": [\n    1,\n    2\n  ]\n}\n"
        );
    }
}
