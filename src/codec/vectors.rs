//! Values that other people's decoders gave for the same registers. Read from a folder that is not part of this
//! package; where it is missing the tests say so and pass.

use super::decode_dump;
use super::decoder::tests::profile;
use super::recipe::tests::point;
use crate::modbus::{Address, AddressRange, Table};
use crate::model::{DeviceId, Reading, Reason, Stamp, Value};
use crate::profile::{Dump, Meaning, Order, Point, RawType, Scale};
use serde_json::Value as Json;
use std::path::Path;

fn shared(file: &str) -> Option<Json> {
    let Ok(text) = std::fs::read_to_string(Path::new("../shared/data").join(file)) else {
        println!("skipped: no ../shared");
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

fn registers(table: Table, start: u16, words: &[u16]) -> Dump {
    let mut dump = Dump::default();
    for (address, word) in (start..).zip(words) {
        dump.set_register(table, Address(address), *word);
    }
    dump
}

/// The reading of a single point at its own address.
fn read(point: Point, dump: &Dump) -> Reading {
    let batches = decode_dump(&DeviceId::new("d").unwrap(), &profile(1, vec![point]), dump, Stamp::default());
    batches[0].readings[0].1.clone()
}

fn words_of_hex(hex: &str) -> Vec<u16> {
    assert!(hex.is_ascii() && hex.len().is_multiple_of(4), "{hex}");
    (0..hex.len()).step_by(4).map(|i| u16::from_str_radix(&hex[i..i + 4], 16).unwrap()).collect()
}

/// `0.1`, `.1`, `10` as an exact ratio.
fn ratio(text: &str) -> (i64, i64) {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    (format!("{whole}{fraction}").parse().unwrap(), 10i64.pow(fraction.len() as u32))
}

#[test]
fn telegraf_s_vectors() {
    let Some(rows) = shared("telegraf-modbus/vectors/decode_vectors.json") else { return };
    let mut judged = 0;
    for row in rows.as_array().unwrap() {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let raw = match text("dataType").trim_end_matches("-IEEE") {
            "UINT16" => RawType::U16,
            "INT16" => RawType::I16,
            "UINT32" => RawType::U32,
            "INT32" => RawType::I32,
            "UINT64" => RawType::U64,
            "INT64" => RawType::I64,
            "FLOAT32" => RawType::F32,
            "FLOAT64" => RawType::F64,
            "STRING" => RawType::Text,
            "FIXED" | "UFIXED" => {
                let signed = text("dataType") == "FIXED";
                match (text("bytes_hex").len(), signed) {
                    (4, true) => RawType::I16,
                    (4, false) => RawType::U16,
                    (8, true) => RawType::I32,
                    (8, false) => RawType::U32,
                    (_, true) => RawType::I64,
                    (_, false) => RawType::U64,
                }
            }
            // Types that are not of this version, and bits of coils, which have no words.
            _ => continue,
        };
        // Another type for the output is a conversion of theirs; FLOAT64 of the second table is a scaled 64-bit integer.
        let converted = !text("dataTypeOut").is_empty();
        let second_table = text("func").starts_with("TestRequestTypes");
        if converted || second_table && raw == RawType::F64 {
            continue;
        }
        let words = words_of_hex(text("bytes_hex"));
        let mut p = point(raw, words.len() as u16);
        let order = if second_table { &text("func")["TestRequestTypesHolding".len()..] } else { text("byteOrder") };
        let (word, byte) = match order {
            "AB" | "ABCD" | "ABCDEFGH" => (Order::HighFirst, Order::HighFirst),
            "BA" | "DCBA" if raw == RawType::Text => (Order::HighFirst, Order::LowFirst),
            "BA" | "DCBA" | "HGFEDCBA" => (Order::LowFirst, Order::LowFirst),
            "CDAB" | "GHEFCDAB" => (Order::LowFirst, Order::HighFirst),
            "BADC" | "BADCFEHG" => (Order::HighFirst, Order::LowFirst),
            other => panic!("{other}: {row}"),
        };
        // In the second table the bytes of numbers stand most significant first, whatever the device's order is.
        if !second_table || raw == RawType::Text {
            p.encoding.word_order = word;
            p.encoding.byte_order = byte;
        }
        let scale = text("scale");
        let scaled = !scale.is_empty() && scale.trim_end_matches(".0") != "1";
        if scaled {
            let (numerator, denominator) = ratio(scale);
            p.meaning = Meaning::Scaled(Scale {
                numerator,
                denominator,
                bias_mantissa: 0,
                bias_exponent: 0,
                decimals: None,
                round_to: None,
            });
        }
        let reading = read(p, &registers(Table::HoldingRegister, 0, &words));
        let Reading::Good(value) = &reading else { panic!("{reading:?}: {row}") };
        let expected = text("expected").split("//").next().unwrap().trim().trim_end_matches(',');
        let number = expected.split_once('(').map_or(expected, |(_, n)| n.trim_end_matches(')'));
        let same = match value {
            Value::Text(text) => expected.trim_matches('"') == &**text,
            // They scale in f64, also by 1, and cut the decimals off where the output is a whole number.
            _ if !scale.is_empty() && !expected.starts_with("float") => {
                let (ours, theirs) = (value.as_f64().unwrap().trunc(), number.parse::<f64>().unwrap());
                (ours - theirs).abs() <= theirs.abs() * f64::EPSILON
            }
            // Theirs are floats with binary noise, ours are exact: they agree within a few units of their last place.
            _ if scaled => {
                let theirs: f64 = number.parse().unwrap();
                (value.as_f64().unwrap() - theirs).abs() <= theirs.abs() * 1e-7
            }
            Value::Int(n) => number == n.to_string(),
            Value::Uint(n) => number == n.to_string(),
            Value::F32(x) => number.parse::<f32>().unwrap().to_bits() == x.to_bits(),
            Value::F64(x) => number.parse::<f64>().unwrap().to_bits() == x.to_bits(),
            Value::Bool(_) | Value::Decimal(_) => false,
        };
        assert!(same, "{value:?} should be {expected}: {row}");
        judged += 1;
    }
    assert!(judged > 70, "only {judged} rows were judged");
}

/// `hr:0#2; 0xDEAD 0xDEAD` of an expression: address, count and absent pattern.
fn operand(expression: &str, function: &str) -> Option<(u16, u16, Option<u64>)> {
    let inner = expression.strip_prefix(function)?.trim().strip_prefix('(')?.strip_suffix(')')?;
    let (place, pattern) = inner.split_once(';').map_or((inner, None), |(p, rest)| (p, Some(rest)));
    let place = place.trim().strip_prefix("hr:")?;
    let (address, count) = place.split_once('#').unwrap_or((place, "1"));
    let pattern = match pattern {
        None => None,
        Some(words) => {
            let mut raw = 0u64;
            for word in words.split_whitespace() {
                raw = raw << 16 | u64::from(u16::from_str_radix(word.strip_prefix("0x")?, 16).ok()?);
            }
            Some(raw)
        }
    };
    Some((address.trim().parse().ok()?, count.trim().parse().ok()?, pattern))
}

#[test]
fn reference_sets_of_numbers_and_text() {
    let functions = [
        ("int16", RawType::I16),
        ("uint16", RawType::U16),
        ("int32", RawType::I32),
        ("uint32", RawType::U32),
        ("int64", RawType::I64),
        ("uint64", RawType::U64),
        ("ieee754_32", RawType::F32),
        ("ieee754_64", RawType::F64),
        ("utf8", RawType::Text),
        ("hexstring", RawType::Bytes),
    ];
    let mut judged = 0;
    for set in ["Integer", "Float", "String"] {
        let Some(set) = shared(&format!("dumps/reference-{set}.json")) else { return };
        for test in set["tests"].as_array().unwrap() {
            let mut dump = Dump::default();
            for input in test["input"].as_array().unwrap() {
                assert_eq!(input["table"], "holding");
                for segment in input["segments"].as_array().unwrap() {
                    let first = segment["first"].as_u64().unwrap() as u16;
                    for (i, word) in (first..).zip(segment["values"].as_array().unwrap()) {
                        if let Some(word) = word.as_u64() {
                            dump.set_register(Table::HoldingRegister, Address(i), word as u16);
                        }
                    }
                }
            }
            for (block, fields) in test["expected"].as_object().unwrap() {
                for (field, expected) in fields.as_object().unwrap() {
                    let expression = set["fields"][block][field]["expression"].as_str().unwrap();
                    let Some(((address, count, absent), raw)) =
                        functions.iter().find_map(|(name, raw)| Some((operand(expression, name)?, *raw)))
                    else {
                        continue;
                    };
                    let mut p = point(raw, count);
                    p.range = AddressRange::new(Address(address), count).unwrap();
                    p.absent.extend(absent);
                    let reading = read(p, &dump);
                    let context = format!("{}: {field} {expression}: {reading:?}, {expected}", test["id"]);
                    judged += 1;
                    let Some(expected) = expected.as_array().unwrap().first() else {
                        // Their numbers end at 2^63 - 1.
                        if matches!(reading, Reading::Good(Value::Uint(_))) {
                            continue;
                        }
                        assert!(!matches!(reading, Reading::Good(_)), "{context}");
                        continue;
                    };
                    let expected = expected.as_str().unwrap();
                    match &reading {
                        Reading::Good(Value::Int(n)) => assert_eq!(n.to_string(), expected, "{context}"),
                        Reading::Good(Value::Uint(n)) => assert_eq!(n.to_string(), expected, "{context}"),
                        // They print three decimals of few digits.
                        Reading::Good(value @ (Value::F32(_) | Value::F64(_))) => {
                            let (theirs, ours) = (expected.parse::<f64>().unwrap(), value.as_f64().unwrap());
                            assert!((theirs - ours).abs() <= 5e-4_f64.max(theirs.abs() * 1e-7), "{context}");
                        }
                        Reading::Good(Value::Text(text)) if raw == RawType::Bytes => {
                            let digits = expected.replace("0x", "").replace(' ', "").to_lowercase();
                            assert_eq!(**text, *digits, "{context}");
                        }
                        Reading::Good(Value::Text(text)) => assert_eq!(**text, *expected, "{context}"),
                        // What they print as a word is no number in a payload.
                        Reading::Absent(Reason::NotAvailable) | Reading::Bad(Reason::Inf) => {
                            assert!(!expected.parse::<f64>().is_ok_and(|x| x.abs() < 3.4e38), "{context}");
                        }
                        other => panic!("{other:?}: {context}"),
                    }
                }
            }
        }
    }
    assert!(judged >= 40, "only {judged} values were judged");
}

#[test]
fn meters_of_givenergy_and_eastron() {
    // Input registers of one plant: a voltage in tenths, a power, an energy of two registers in tenths.
    let Some(aio) = shared("dumps/plain/giv-aio_a__aio_arm612_5min-unit17.json") else { return };
    let scaled = |raw: RawType, address: u16| {
        let mut p = point(raw, raw.width().unwrap());
        p.table = Table::InputRegister;
        p.range = AddressRange::new(Address(address), raw.width().unwrap()).unwrap();
        p.meaning = Meaning::Scaled(Scale {
            numerator: 1,
            denominator: 10,
            bias_mantissa: 0,
            bias_exponent: 0,
            decimals: None,
            round_to: None,
        });
        p
    };
    let decimal = |mantissa, exponent| Reading::Good(Value::from_decimal(mantissa, exponent).unwrap());
    let dump = plain_dump(&aio);
    assert_eq!(read(scaled(RawType::U16, 5), &dump), decimal(2457, -1));
    assert_eq!(read(scaled(RawType::U16, 44), &dump), decimal(18, -1));
    let Some(ac) = shared("dumps/plain/giv-ems_2_inv_3_bat_a__ac_arm282_1x_givbat512gen3_30min-unit17.json") else {
        return;
    };
    assert_eq!(read(scaled(RawType::U32, 45), &plain_dump(&ac)), decimal(26_438, -1));
}

/// A dump in the product's own form.
fn plain_dump(json: &Json) -> Dump {
    let mut dump = Dump::default();
    for (table, places) in json.as_object().unwrap() {
        let Some(table) = Table::from_word(table).filter(|t| !t.is_bits()) else { continue };
        for (address, words) in places.as_object().unwrap() {
            let address =
                address.strip_prefix("0x").map_or_else(|| address.parse(), |hex| u16::from_str_radix(hex, 16));
            let words = words.as_array().cloned().unwrap_or_else(|| vec![words.clone()]);
            for (address, word) in (address.unwrap()..).zip(&words) {
                dump.set_register(table, Address(address), word.as_u64().unwrap() as u16);
            }
        }
    }
    dump
}
