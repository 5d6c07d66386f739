//! The reader as a whole: planted mistakes, good profiles, hostile text.

use super::*;
use crate::modbus::Table;
use crate::model::{JsonForm, Value};
use crate::profile::{Access, Meaning, Order, Parity, RawType, Scale, SerialDefaults};
use proptest::prelude::*;
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn read(yaml: &str) -> Result<DeviceProfile, Diagnostics> {
    parse(&Document::parse("p.yaml", yaml)?)
}

fn good(yaml: &str) -> DeviceProfile {
    read(yaml).unwrap_or_else(|d| panic!("{}", d.render()))
}

/// A profile around points; the first of them stands on line 6.
fn around(points: &str) -> String {
    format!("profile: a/b\nversion: 1.0.0\ngroups:\n  g:\n    points:\n{points}")
}

/// What is said of these points: `line: message; remedy`, in order of place.
fn said(points: &str) -> Vec<String> {
    said_of(&around(points))
}

fn said_of(yaml: &str) -> Vec<String> {
    let lines = read(yaml).map_or_else(|d| d.lines(), |_| String::new());
    lines.lines().map(|l| l.strip_prefix("p.yaml:").unwrap_or(l).to_owned()).collect()
}

/// That exactly one mistake is found, on this line and with these words.
#[track_caller]
fn one(points: &str, line: u32, words: &str) {
    one_of(&around(points), line, words);
}

#[track_caller]
fn one_of(yaml: &str, line: u32, words: &str) {
    let said = said_of(yaml);
    let fits = said.len() == 1 && said[0].starts_with(&format!("{line}:")) && said[0].contains(words);
    assert!(fits, "wanted {line}: {words}\nof\n{yaml}\ngot {said:#?}");
}

/// Lines of the planted file and its list of expected ones; nothing where the folder is missing.
fn planted(folder: &str, file: &str) -> Option<(String, Vec<u32>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data/planted").join(folder);
    let text = std::fs::read_to_string(folder.join(file)).ok();
    let expected = std::fs::read_to_string(folder.join("expected.txt")).ok();
    let (Some(text), Some(expected)) = (text, expected) else {
        println!("skipped: no ../shared");
        return None;
    };
    let prefix = format!("{file}:");
    let line_of = |l: &str| l.strip_prefix(&prefix)?.split(' ').next()?.parse().ok();
    Some((text, expected.lines().filter_map(line_of).collect()))
}

#[test]
fn all_planted_mistakes_are_found_at_once_and_no_others() {
    let Some((text, expected)) = planted("first", "bad-profile.yaml") else { return };
    let wrong = parse(&Document::parse("bad-profile.yaml", &text).unwrap()).unwrap_err();
    let found: Vec<u32> = wrong.iter().map(|d| d.place.line).collect();
    assert_eq!(expected.len(), 12);
    assert_eq!(found, expected, "{}", wrong.render());
    assert!(wrong.iter().all(|d| d.remedy.is_some()), "{}", wrong.render());
}

#[test]
fn planted_mistakes_of_later_versions_are_refused_too() {
    let Some((text, expected)) = planted("language", "bad-a.yaml") else { return };
    let wrong = parse(&Document::parse("bad-a.yaml", &text).unwrap()).unwrap_err();
    let found: Vec<u32> = wrong.iter().map(|d| d.place.line).collect();
    // Line 3 is no mistake. `identity` is refused at its key, line 11; what is in it is not judged.
    for line in expected.iter().filter(|l| ![3, 12].contains(*l)) {
        assert!(found.contains(line), "line {line} of\n{}", wrong.render());
    }
    assert!(!found.contains(&3), "{}", wrong.render());
}

const RICH: &str = r#"
profile: acme/rich-1.0_b
version: 1.2.0-rc.1
title: on
verified: true
sources: ["a manual", another one]
numbering: zero
notation: {pattern: "H{hex}-{dec}", weights: [256, 1], add: 0}
defaults: {table: holding, word_order: low_first, every: 2s, unit: V}
limits: {registers_per_read: 20, gap: 4, even: false, boundary: 0x100, holes: {holding: [119..120, 301], coil: [7]}}
timing: {timeout: 200ms, retries: 2, turnaround: 40ms, after_connect: 0ms, offline_after: 5}
x: &fast {every: 500ms, together: true}
groups:
  monitor:
    <<: *fast
    base: 0x0B00
    on_partial: mark
    max_skew: 50ms
    points:
      state: {at: H0B-00, bits: 12..13, enum: {0: off, 1: on, 2: no, 3: 1.0}}
      speed.actual: {offset: 1, type: i32, scale: 0.1, unit: rpm, min: -6000, max: 6000.5, title: actual speed}
      bits.low: {offset: 3, bit: 0, invert: true}
      bits.high: {offset: 3, bits: 4..7, type: u16}
      ratio: {offset: 4, type: u16, scale: 100/16384, bias: -273.15, decimals: 2, absent: [0x8000, 0xFFFF]}
      fault.code: {offset: 5, bits: 0..11, format: hex, valid_when: {state: [on]}}
  texts:
    points:
      name: {address: 0x200, type: string, length: 8, byte_order: low_first}
      serial: {address: 0x208, type: bytes, length: 3}
      total: {address: 0x20C, type: u64}
      exact: {address: 0x210, type: i64, json: number, word_order: high_first}
      real: {address: 0x214, type: f32, unit: A, round_to: 0.5}
      trouble: {address: 0x216, type: i16, absent: [-1, 0x8000], unit: "%"}
  coils:
    table: coil
    every: once
    points:
      run: {address: 0, access: rw, danger: true}
      door: {address: 5, table: discrete, type: bool, invert: true}
      same.address: {address: 5, table: input, type: u16, scale: 1}
tests:
  - name: all kinds of values
    registers:
      holding: {0x0B00: [0x1001, 0, 0], 0x20C: [1, 0, 0, 0]}
      coil: {0: true}
    expect:
      state: on
      speed.actual: 31.2
      fault.code: "E08"
      total: "9007199254740993"
      run: true
    absent: [name]
"#;

#[test]
fn a_rich_profile_is_read_without_false_alarms() {
    // `x:` only holds an anchor; the profile itself knows no such key.
    let profile = good(
        &RICH
            .replace("x: &fast {every: 500ms, together: true}\n", "")
            .replace("    <<: *fast\n", "    every: 500ms\n    together: true\n"),
    );
    let point = |path: &str| &profile.points[usize::from(profile.point_id(path).unwrap().0)];
    assert_eq!((&*profile.name, &*profile.title, profile.verified), ("acme/rich-1.0_b", "on", true));
    assert_eq!(profile.timing.after_write, Duration::from_millis(40));
    assert_eq!(profile.limits.holes.len(), 3);
    assert_eq!(profile.groups[0].every, Some(Duration::from_millis(500)));
    assert_eq!(profile.groups[1].every, Some(Duration::from_secs(2)));
    assert_eq!(profile.groups[2].every, None);
    assert!(profile.groups[0].together && !profile.groups[1].together);

    let state = point("state");
    assert_eq!((state.table, state.range.start().0, state.range.count()), (Table::HoldingRegister, 0x0B00, 1));
    let Meaning::Labels(labels) = &state.meaning else { panic!() };
    assert_eq!(
        labels.iter().map(|(n, l)| (*n, &**l)).collect::<Vec<_>>(),
        [(0, "off"), (1, "on"), (2, "no"), (3, "1.0")]
    );
    let speed = point("speed.actual");
    assert_eq!((speed.encoding.raw, speed.encoding.word_order), (RawType::I32, Order::LowFirst));
    let tenth =
        Scale { numerator: 1, denominator: 10, bias_mantissa: 0, bias_exponent: 0, decimals: None, round_to: None };
    assert_eq!(speed.meaning, Meaning::Scaled(tenth));
    assert_eq!((&speed.min, &speed.max), (&Some(Value::Int(-6000)), &Value::from_decimal(60_005, -1)));
    assert_eq!(speed.unit.as_deref(), Some("rpm"));
    assert_eq!(point("bits.low").meaning, Meaning::Plain { invert: true });
    assert_eq!(point("bits.low").unit.as_deref(), Some("V"), "defaults reach every point");
    let Meaning::Scaled(ratio) = &point("ratio").meaning else { panic!() };
    assert_eq!((ratio.numerator, ratio.denominator, ratio.bias_mantissa, ratio.bias_exponent), (25, 4096, -27_315, -2));
    assert_eq!((ratio.decimals, point("ratio").absent.as_slice()), (Some(2), &[0x8000, 0xFFFF][..]));
    assert_eq!(
        point("fault.code").valid_when,
        Some((profile.point_id("state").unwrap(), vec![Value::Text("on".into())]))
    );
    assert_eq!((point("total").json, point("exact").json), (JsonForm::DecimalString, JsonForm::Plain));
    assert_eq!(point("exact").encoding.word_order, Order::HighFirst);
    let Meaning::Scaled(real) = &point("real").meaning else { panic!() };
    assert_eq!(real.round_to, Some((1, 2)));
    assert_eq!(point("trouble").absent, [0xFFFF, 0x8000]);
    assert_eq!((point("run").access, point("run").danger, point("run").table), (Access::ReadWrite, true, Table::Coil));
    assert_eq!(point("door").table, Table::DiscreteInput);
    assert_eq!(point("same.address").meaning, Meaning::Plain { invert: false });

    let test = &profile.tests[0];
    assert!(test.place.starts_with("p.yaml:"));
    assert_eq!(test.expect[0].1, Value::Text("on".into()));
    assert_eq!(test.expect[1].1, Value::from_decimal(312, -1).unwrap());
    assert_eq!(test.expect[3].1, Value::Int(9_007_199_254_740_993));
    assert_eq!(test.absent, [profile.point_id("name").unwrap()]);
}

#[test]
fn merge_keys_carry_groups_and_points() {
    let yaml = "\
profile: a/b
version: 1.0.0
groups:
  one: {every: 5s, points: {a: &a {address: 1, type: i32, unit: V}, b: {<<: *a, address: 3}}}
";
    let profile = good(yaml);
    assert_eq!((profile.points[1].range.start().0, profile.points[1].encoding.raw), (3, RawType::I32));
    assert_eq!(said_of(&RICH[1..]).len(), 1, "an anchor's own key is an unknown key");
}

#[test]
fn f131_options_without_effect_are_refused() {
    one("      a: {address: 0, type: u16, word_order: low_first}\n", 6, "`word_order` has no effect");
    one("      a: {address: 0, type: f32, length: 2}\n", 6, "`length` has no effect");
    one("      a: {address: 0, type: string, length: 2, scale: 0.1}\n", 6, "`scale` has no effect");
    one("      a: {address: 0, type: f32, bit: 3}\n", 6, "bits can be cut from whole numbers");
    one("      a: {address: 0, type: u16, invert: true}\n", 6, "`invert` has no effect");
    one("      a: {address: 0, type: u32, json: string}\n", 6, "`json` has no effect");
    one("      a: {address: 0, bit: 1, min: 0}\n", 6, "`min` has no effect");
    one("      a: {address: 0, type: u16, enum: {0: x}, max: 5}\n", 6, "`max` has no effect");
    one("      a: {address: 0, type: u16, decimals: 1}\n", 6, "`decimals` has no effect");
    one("      a: {address: 0, type: u16, danger: true}\n", 6, "`danger` has no effect");
    one("      a: {address: 0, table: coil, byte_order: low_first}\n", 6, "`byte_order` has no effect");
    one("      a: {address: 0, bit: 1, absent: [1]}\n", 6, "`absent` has no effect");
    one("      a: {address: 0, type: f32, format: hex}\n", 6, "`format` has no effect");
    one("      a: {address: 0, bit: 2, enum: {0: x, 1: y}}\n", 6, "`bits: 3..3`");
    one("      a: {address: 0, type: u16, scal: 0.1}\n", 6, "did you mean `scale`?");
}

#[test]
fn options_of_farther_levels_that_cannot_apply_are_passed_over() {
    let yaml = "\
profile: a/b
version: 1.0.0
defaults: {word_order: low_first, scale: 0.1, min: 0, max: 9, absent: [0xFFFF], decimals: 1, length: 2, type: u16}
groups:
  g:
    points:
      a: {address: 0}
      b: {address: 1, bit: 0}
      c: {address: 2, type: string}
      d: {address: 4, enum: {0: x}}
      e: {address: 9, table: coil}
      f: {address: 5, bits: 0..3, format: hex, absent: [1]}
";
    let profile = good(yaml);
    assert!(matches!(profile.points[0].meaning, Meaning::Scaled(_)));
    assert!(matches!(profile.points[3].meaning, Meaning::Labels(_)));
    assert_eq!((profile.points[2].range.count(), &profile.points[2].min), (2, &None));
    assert_eq!(profile.points[4].encoding.raw, RawType::Bool);
}

#[test]
fn what_excludes_each_other_is_refused() {
    one("      a: {address: 0, type: u16, scale: 0.1, enum: {0: x}}\n", 6, "`enum` and `scale` exclude each other");
    one("      a: {address: 0, bit: 1, bits: 0..3}\n", 6, "`bit` and `bits` exclude each other");
    one("      a: {address: 0, type: u16, format: hex, enum: {0: x}}\n", 6, "exclude each other");
    one("      a: {address: 0, type: f32, decimals: 1, round_to: 0.5}\n", 6, "exclude each other");
    one("      a: {address: 0, type: u16, at: H0B-1}\n", 6, "`at` besides `address`");
    one("      a: {type: u16}\n", 6, "where does `a` lie?");
    one("      a: {offset: 1, type: u16}\n", 6, "which is not given");
    one("      a: {at: H0B-1, type: u16}\n", 6, "needs a `notation`");
    one("      a: {address: 1}\n", 6, "needs a `type`");
    one("      a: {address: 1, type: string}\n", 6, "string needs a `length`");
    one("      a: {address: 1, type: bool}\n", 6, "`bit: 0`");
    one("      a: {address: 1, type: u16, table: coil}\n", 6, "holds bits, not u16");
}

#[test]
fn values_keep_within_the_address_space_and_one_read() {
    one("      a: {address: 65535, type: u32}\n", 6, "u32 at 65535 reaches to 65536");
    one("      a: {address: 65536, type: u16}\n", 6, "beyond 0 to 65535");
    one("      a: {address: -1, type: u16}\n", 6, "beyond 0 to 65535");
    assert!(said("      a: {address: 65535, type: u16}\n").is_empty());
    let limited = |limits: &str, point: &str| {
        format!("profile: a/b\nversion: 1.0.0\nlimits: {limits}\ngroups:\n  g:\n    points:\n      {point}\n")
    };
    one_of(&limited("{registers_per_read: 2}", "a: {address: 0, type: u64}"), 7, "one read may take 2");
    one_of(&limited("{registers_per_read: 2, even: true}", "a: {address: 1, type: u32}"), 7, "a read of 4 registers");
    one_of(&limited("{holes: {holding: [5..6]}}", "a: {address: 4, type: u32}"), 7, "hole 5..6");
    one_of(&limited("{even: true, holes: {holding: [5]}}", "a: {address: 4, type: u16}"), 7, "hole 5");
    one_of(&limited("{boundary: 0x100}", "a: {address: 0xFF, type: u32}"), 7, "crosses a multiple of 256");
    one_of(&limited("{holes: {holding: [6..5]}}", "a: {address: 4, type: u32}"), 3, "write 5..6");
    one_of(&limited("{gap: -1}", "a: {address: 4, type: u32}"), 3, "gap is -1");
    one_of(&limited("{boundary: 0}", "a: {address: 4, type: u32}"), 3, "boundary is 0");
    one_of(&limited("{registers_per_write: 1}", "a: {address: 4, type: u32, access: rw}"), 7, "one write may carry 1");
    assert!(said_of(&limited("{holes: {input: [4]}}", "a: {address: 4, type: u32}")).is_empty());
}

#[test]
fn f132_only_partly_overlapping_registers_are_refused() {
    let all = "      a: {address: 5, table: coil}\n      b: {address: 5, table: discrete}\n\
               \x20     c: {address: 5, type: u16}\n      d: {address: 5, type: u16, table: input}\n\
               \x20     e: {address: 5, bit: 3}\n      f: {address: 6, type: u16}\n";
    assert!(said(all).is_empty(), "{:#?}", said(all));
    let partly = "      a: {address: 100, type: u32}\n      b: {address: 101, type: u16}\n";
    one(partly, 7, "`b` (holding 101) and `a` (holding 100..101) overlap in part");
    let reversed = "      b: {address: 101, type: u16}\n      a: {address: 100, type: u32}\n";
    one(reversed, 7, "`a` (holding 100..101) and `b` (holding 101) overlap in part");
    let hidden =
        "      a: {address: 0, type: u64}\n      b: {address: 1, type: u16}\n      c: {address: 3, type: u16}\n";
    assert_eq!(said(hidden).len(), 2, "{:#?}", said(hidden));
}

#[test]
fn names_are_unique_and_nest_cleanly() {
    one("      a.b: {address: 1, type: u16}\n      a: {address: 2, type: u16}\n", 7, "a value and an object at once");
    one("      a: {address: 1, type: u16}\n      a.b.c: {address: 2, type: u16}\n", 7, "a value and an object at once");
    one("      a: {address: 1, type: u16}\n      a: {address: 2, type: u16}\n", 7, "stands twice");
    one("      Speed-X: {address: 1, type: u16}\n", 6, "write `speed_x`");
    one("      1a: {address: 1, type: u16}\n", 6, "no path of a point");
    one("      \"t{1..3}\": {address: 1, type: u16}\n", 6, "not available in this version");
    let yaml = "profile: a/b\nversion: 1.0.0\ngroups:\n  g: {points: {a: {address: 1, type: u16}}}\n\
                \x20 h: {points: {a: {address: 2, type: u16}}}\n";
    one_of(yaml, 5, "stands in two groups");
}

#[test]
fn together_must_fit_one_request() {
    let group = |limits: &str, points: &str| {
        format!(
            "profile: a/b\nversion: 1.0.0\nlimits: {limits}\ngroups:\n  g:\n    together: true\n    points: {points}\n"
        )
    };
    let two = "{a: {address: 0, type: u16}, b: {address: 4, type: u16}}";
    one_of(&group("{}", two), 6, "bridges 3 registers nobody asked for");
    assert!(said_of(&group("{gap: 3}", two)).is_empty());
    one_of(&group("{gap: 3, registers_per_read: 4}", two), 6, "takes 5 registers");
    one_of(&group("{gap: 3, registers_per_read: 5, even: true}", two), 6, "takes 6 registers");
    one_of(&group("{gap: 3, boundary: 2}", two), 6, "crosses a multiple of 2");
    one_of(&group("{gap: 3, holes: {holding: [2]}}", two), 6, "runs over the hole 2");
    one_of(&group("{}", "{a: {address: 0, type: u16}, b: {address: 1, table: input, type: u16}}"), 6, "two tables");
    one_of(&group("{gap: 200}", "{a: {address: 0, type: u16}}"), 3, "gap is 200");
    one_of(
        &group("{gap: 125}", "{a: {address: 0, type: u16}, b: {address: 126, type: u16}}"),
        6,
        "takes 127 registers",
    );
}

#[test]
fn conditions_name_a_point_of_the_same_batch_and_values_it_has() {
    let with = |condition: &str| {
        format!(
            "      state: {{address: 0, type: u16, enum: {{0: ok, 3: fault}}}}\n      n: {{address: 2, type: u16}}\n      \
             a: {{address: 1, type: u16, valid_when: {condition}}}\n"
        )
    };
    assert!(said(&with("{state: [fault, unknown(7)]}")).is_empty());
    assert!(said(&with("{n: [0, 1]}")).is_empty());
    one(&with("{stat: [fault]}"), 8, "did you mean `state`?");
    one(&with("{state: [falt]}"), 8, "did you mean `fault`?");
    one(&with("{n: [x]}"), 8, "expects a number");
    one(&with("{n: [1.5]}"), 8, "is a whole number");
    one(&with("{state: fault}"), 8, "expects a list");
    one(&with("{a: [1]}"), 8, "goes in a circle");
    one(&with("{state: [ok], n: [1]}"), 8, "names one point");
    let yaml = "profile: a/b\nversion: 1.0.0\ngroups:\n  g: {every: 2s, points: {s: {address: 1, type: u16}}}\n\
                \x20 h: {points: {a: {address: 2, type: u16, valid_when: {s: [1]}}}}\n";
    one_of(yaml, 5, "`s` is read every 2s, this point every 1s");
}

#[test]
fn f129_labels_are_text_as_written_and_nothing_is_none() {
    one("      a: {address: 0, type: u16, enum: {0: off, 3: ~}}\n", 6, "expects a label, found nothing");
    one("      a: {address: 0, type: u16, enum: {0: a, 0x0: b}}\n", 6, "0 has two labels");
    one("      a: {address: 0, type: u16, enum: {70000: a}}\n", 6, "70000 never comes");
    one("      a: {address: 0, bits: 0..1, enum: {4: a}}\n", 6, "the value is 0 to 3");
    one("      a: {address: 0, type: u16, enum: {on: a}}\n", 6, "expects a whole number");
    one("      a: {address: 0, type: u16, enum: {}}\n", 6, "without labels");
    assert!(said("      a: {address: 0, type: i16, enum: {-1: null, 1: y}}\n").is_empty());
}

#[test]
fn odd_numbers_are_refused() {
    one("      a: {address: 0100, type: u16}\n", 6, "0o100");
    one("      a: {address: 0, type: u16, scale: 0}\n", 6, "a scale of 0");
    one("      a: {address: 0, type: u16, absent: [70000]}\n", 6, "no pattern of 16 bits");
    one("      a: {address: 0, type: u16, absent: 1}\n", 6, "[0x8000]");
    one("      a: {address: 0, type: u16, absent: sunspec}\n", 6, "not available in this version");
    one("      a: {address: 0, type: u16, bits: 7..4}\n", 6, "write 4..7");
    one("      a: {address: 0, type: u16, bits: 9..17}\n", 6, "bit 17 is beyond u16");
    one("      a: {address: 0, type: u16, min: 5, max: 4.9}\n", 6, "min 5 is above max 4.9");
    one("      a: {address: 0, type: u16, access: rw, table: input}\n", 6, "cannot be written");
    one("      a: {address: 0, type: u48}\n", 6, "not available in this version");
    one("      a: {address: 0, type: u61}\n", 6, "did you mean `u16`?");
}

#[test]
fn what_later_versions_know_is_named_so() {
    for key in written::LATER {
        let said = said(&format!("      a: {{address: 0, type: u16, {key}: 1}}\n"));
        assert!(said.len() == 1 && said[0].contains("not available in this version"), "{key}: {said:?}");
    }
    let yaml = "profile: a/b\nversion: 1.0.0\nextends: x/y\nquirks: {}\nidentity: []\nsetup: []\n\
                groups:\n  g: {select: {}, blocks: {}, locate: {}, points: {a: {address: 1, type: u16, every: 1s}}}\n";
    let said = said_of(yaml);
    assert_eq!(said.len(), 8, "{said:#?}");
    assert!(said.iter().all(|l| l.contains("not available in this version")), "{said:#?}");
}

#[test]
fn the_serial_port_s_factory_settings() {
    let yaml = |serial: &str| {
        format!(
            "profile: a/b\nversion: 1.0.0\nserial: {serial}\ngroups: {{g: {{points: {{a: {{address: 1, type: u16}}}}}}}}\n"
        )
    };
    let serial = good(&yaml("{baud: 57600, data_bits: 8, parity: none, stop_bits: 2}")).serial;
    let all = (serial.baud, serial.data_bits, serial.parity, serial.stop_bits);
    assert_eq!(all, (Some(57_600), Some(8), Some(Parity::None), Some(2)));
    // What is not said is not known: no default is made up.
    assert_eq!(
        good(&yaml("{parity: even}")).serial,
        SerialDefaults { parity: Some(Parity::Even), ..Default::default() }
    );
    let said = said_of(&yaml("{baud: 0, data_bits: 9, parity: mark, stop_bits: 3, echo: true}"));
    assert_eq!(said.len(), 5, "{said:#?}");
}

#[test]
fn f36_reference_numbers_name_the_table() {
    let yaml = |base: &str, point: &str| {
        format!(
            "profile: a/b\nversion: 1.0.0\nnumbering: modicon\ndefaults: {{type: u16}}\ngroups:\n  g:\n    {base}\n    \
             points:\n      a: {{{point}}}\n"
        )
    };
    let place = |p: DeviceProfile| (p.points[0].table, p.points[0].range.start().0);
    assert_eq!(place(good(&yaml("base: 30011", "offset: 2"))), (Table::InputRegister, 12));
    assert_eq!(place(good(&yaml("table: holding", "address: 300001"))), (Table::InputRegister, 0));
    assert_eq!(place(good(&yaml("every: 1s", "address: \"00011\""))), (Table::Coil, 10));
    one_of(
        &yaml("{base: 30001, table: holding}", "offset: 1")
            .replace("    {base", "    base")
            .replace(", table: holding}", "\n    table: holding"),
        7,
        "names the input table",
    );
    one_of(&yaml("every: 1s", "address: 40001, table: input"), 9, "names the holding table");
    one_of(&yaml("every: 1s", "address: 97719"), 9, "no reference number");
}

#[test]
fn tests_of_a_profile_are_judged_against_its_points() {
    let yaml = |test: &str| {
        around("      a: {address: 0, type: u16}\n      b: {address: 1, bit: 0}\n") + "tests:\n  - " + test
    };
    one_of(&yaml("{name: x, registers: {holding: {0: 70000}}, expect: {a: 1}}\n"), 9, "a register is 70000");
    one_of(&yaml("{name: x, registers: {holding: {0: 7}}, expect: {aa: 1}}\n"), 9, "there is no point `aa`");
    one_of(&yaml("{name: x, registers: {holding: {0: 7}}, expect: {b: 1}}\n"), 9, "expects true or false");
    one_of(&yaml("{name: x, registers: {holding: {0: 7}}, expect: {a: 1.5}}\n"), 9, "is a whole number");
    one_of(&yaml("{name: x, registers: {holding: {0: 7}}}\n"), 9, "cannot fail");
    one_of(&yaml("{name: x, expect: {a: 1}}\n"), 9, "needs `registers`");
    one_of(&yaml("{name: x, registers: {holdings: {0: 7}}, absent: [a]}\n"), 9, "did you mean `holding`?");
    one_of(&yaml("{name: x, registers: {holding: {0: [1, 2], 1: 3}}, absent: [a]}\n"), 9, "holding 1 is given twice");
}

#[test]
fn a_model_is_kept_to_or_the_profile_is_refused() {
    let servo = |points: &str| {
        format!(
            "profile: a/b\nversion: 1.0.0\nshadow: servo-drive\ngroups:\n  g:\n    points:\n      state: {{address: 0, \
             type: u16, enum: {{1: ready, 2: running}}}}\n      fault.code: {{address: 1, type: u16, format: hex}}\n{points}"
        )
    };
    let speed = "      speed.actual: {address: 2, type: i16, unit: rpm}\n";
    assert!(said_of(&servo(speed)).is_empty(), "{:#?}", said_of(&servo(speed)));
    one_of(&servo(""), 3, "requires speed.actual");
    one_of(
        &servo("      speed.actual: {address: 2, type: i16, scale: 0.1, unit: rps}\n"),
        9,
        "write `scale: 6` and `unit: rpm`",
    );
    one_of(&servo("      speed.actual: {address: 2, type: i16, unit: m/s}\n"), 9, "the model wants rpm");
    one_of(&servo("      speed.actual: {address: 2, type: i16}\n"), 9, "has no unit");
    one_of(
        &servo(&format!("{speed}      dc_voltage: {{address: 3, type: u16, unit: mV}}\n")),
        10,
        "write `scale: 0.001`",
    );
    one_of(&servo(&format!("{speed}      colour: {{address: 3, type: u16}}\n")), 10, "write `vendor.colour`");
    one_of(
        &servo(&format!("{speed}      speed.setpiont: {{address: 3, type: u16}}\n")),
        10,
        "did you mean `speed.setpoint`?",
    );
    one_of(&servo(&format!("{speed}      enabled: {{address: 3, type: u16}}\n")), 10, "wants true or false");
    one_of(
        &servo(&format!("{speed}      position.actual: {{address: 4, type: i32, scale: 0.1, unit: counts}}\n")),
        10,
        "a whole number",
    );
    one_of(
        &servo(&format!("{speed}      position.actual: {{address: 4, type: i64, unit: counts}}\n")),
        10,
        "json: number",
    );
    one_of(
        &servo(&format!("{speed}      load: {{address: 4, type: u16, unit: \"%\", access: rw}}\n")),
        10,
        "is read only in the model",
    );
    one_of(&servo(speed).replace("2: running", "2: runing"), 7, "did you mean `running`?");
    assert!(said_of(&servo(&format!("{speed}      vendor.x: {{address: 3, bit: 0}}\n"))).is_empty());
    one_of(&servo(speed).replace("servo-drive", "servo-drives"), 3, "did you mean `servo-drive`?");
    one_of(&servo(speed).replace("servo-drive", "heat-pump"), 3, "not available in this version");
}

#[test]
fn heads_are_judged() {
    let head = |head: &str| format!("{head}\ngroups: {{g: {{points: {{a: {{address: 0, type: u16}}}}}}}}\n");
    one_of(&head("profile: Acme/X\nversion: 1.0.0"), 1, "write acme/x");
    one_of(&head("profile: acme\nversion: 1.0.0"), 1, "no profile name");
    one_of(&head("profile: a/b\nversion: 1.0"), 2, "write 1.0.0");
    one_of(&head("profile: a/b"), 1, "needs `version`");
    one_of(&head("profile: a/b\nversion: 1.0.0\nverified: yes"), 3, "write true");
    one_of(&head("profile: a/b\nversion: 1.0.0\ntiming: {timeout: 0s}"), 3, "waits for no reply");
    one_of(
        &head("profile: a/b\nversion: 1.0.0\nlimits: {even: true, registers_per_read: 1}"),
        3,
        "no read can be made",
    );
    one_of(&head("profile: a/b\nversion: 1.0.0\ndefaults: {address: 1}"), 3, "cannot stand on defaults");
    one_of("profile: a/b\nversion: 1.0.0\ngroups: {}\n", 3, "without groups");
    one_of("profile: a/b\nversion: 1.0.0\ngroups: {g: {base: 0, points: {}}}\n", 3, "without points");
    assert!(said_of("").len() == 1 && said_of("[]").len() == 1 && said_of("5").len() == 1);
}

#[test]
fn a_profile_may_stand_inline() {
    let yaml = "device: x\nprofile:\n  profile: a/b\n  version: 1.0.0\n  groups: {g: {points: {a: {address: 0, type: u17}}}}\n";
    let document = Document::parse("d.yaml", yaml).unwrap();
    let wrong = parse_node(&document, document.at(&["profile"]).unwrap()).unwrap_err();
    assert!(wrong.lines().starts_with("d.yaml:5:"), "{}", wrong.lines());
}

#[test]
fn a_large_profile_is_read_in_reasonable_time() {
    let points: Vec<String> =
        (0..10_000).map(|i| format!("      p{i}: {{address: {i}, type: u16, scale: 0.1}}\n")).collect();
    let begun = Instant::now();
    let profile = good(&around(&points.concat()));
    assert_eq!(profile.points.len(), 10_000);
    assert!(begun.elapsed() < Duration::from_secs(10), "took {:?}", begun.elapsed());
    let wrong = around(&points.concat().replace("u16", "u61"));
    let begun = Instant::now();
    assert_eq!(read(&wrong).unwrap_err().len(), 10_000);
    assert!(begun.elapsed() < Duration::from_secs(10), "took {:?}", begun.elapsed());
}

/// Words that the language knows, and some that it does not, as material for random profiles.
fn word() -> impl Strategy<Value = String> {
    let words = "profile version groups points defaults limits timing notation numbering tests g a a.b speed.actual base \
                 offset address at type length bit bits invert scale bias decimals round_to unit min max enum format \
                 valid_when absent json access danger every together registers expect holding coil u16 i32 f64 string \
                 bool rw hex one modicon 0 1 -1 65535 65536 40001 1e37 0.1 1/3 100/16384 4..7 99999999999999999999 ~ true \
                 servo-drive shadow {hex}-{dec} 1s 0ms once word_order low_first table even holes boundary gap";
    proptest::sample::select(words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

/// A random flow tree of such words.
fn tree() -> impl Strategy<Value = String> {
    word().prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            proptest::collection::vec((word(), inner), 0..6).prop_map(|entries| {
                let entries: Vec<String> = entries.iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
                format!("{{{}}}", entries.join(", "))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,80}") {
        let _ = read(&text).map_err(|d| d.render());
    }

    #[test]
    fn no_tree_of_known_words_makes_it_panic(points in tree(), top in tree(), limits in tree()) {
        let _ = read(&top).map_err(|d| d.render());
        let yaml = format!("profile: a/b\nversion: 1.0.0\nlimits: {limits}\ngroups: {{g: {{base: 1, points: {points}}}}}\ntests: {top}\n");
        let _ = read(&yaml).map_err(|d| d.render());
    }

    #[test]
    fn no_point_of_known_keys_makes_it_panic(
        keys in proptest::collection::vec((word(), tree()), 0..8),
        place in word(),
    ) {
        let keys: Vec<String> = keys.iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
        let _ = read(&around(&format!("      a: {{address: {place}, {}}}\n", keys.join(", ")))).map_err(|d| d.render());
    }
}
