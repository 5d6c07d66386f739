//! JSON text of single values, written straight into a buffer: numbers, strings and times.
//!
//! One form for each number, whatever [`Value`] holds it (`docs`: JSON rules): no `.0`, no `-0`, no NaN, an exponent only
//! outside 10^-7 … 10^21, as RFC 8785 (canonical JSON) lays numbers out. A number that a reader's 64-bit float could not
//! hold to the last digit stands as a decimal string.

use crate::model::{Decimal, JsonForm, Value, Wall};
use std::io::Write as _;

/// The greatest whole number that every JSON reader keeps: 2^53 − 1.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Appends a value. Returns false, and appends nothing, for a float that is no number: JSON has no word for it.
pub fn write_value(out: &mut Vec<u8>, value: &Value, form: JsonForm) -> bool {
    match value {
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(n) => write_integer(out, *n, n.unsigned_abs() > MAX_SAFE_INTEGER || form == JsonForm::DecimalString),
        Value::Uint(n) => write_integer(out, *n, *n > MAX_SAFE_INTEGER || form == JsonForm::DecimalString),
        Value::Decimal(d) => write_decimal(out, *d),
        Value::F32(x) if x.is_finite() => write_float(out, zmij::Buffer::new().format_finite(*x)),
        Value::F64(x) if x.is_finite() => write_float(out, zmij::Buffer::new().format_finite(*x)),
        Value::F32(_) | Value::F64(_) => return false,
        Value::Text(text) => write_string(out, text),
    }
    true
}

/// Appends a whole number, in quotes or not.
fn write_integer(out: &mut Vec<u8>, n: impl itoa::Integer, quoted: bool) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(n).as_bytes();
    if quoted {
        out.push(b'"');
        out.extend_from_slice(digits);
        out.push(b'"');
    } else {
        out.extend_from_slice(digits);
    }
}

/// Appends an unsigned number: revisions, versions, counts.
pub(super) fn write_u64(out: &mut Vec<u8>, n: u64) {
    write_integer(out, n, false);
}

fn write_decimal(out: &mut Vec<u8>, d: Decimal) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(d.mantissa().unsigned_abs()).as_bytes();
    let point = digits.len() as i32 + i32::from(d.exponent());
    // Digits before the point decide, not all of them: 4294967295 × 0.123456789 stays a number like its neighbours.
    let beyond = point >= 16 && whole_part(digits, point) > MAX_SAFE_INTEGER;
    if beyond {
        out.push(b'"');
    }
    if d.mantissa() < 0 {
        out.push(b'-');
    }
    lay_out(out, digits, point);
    if beyond {
        out.push(b'"');
    }
}

/// The digits before the point as a number; saturates.
fn whole_part(digits: &[u8], point: i32) -> u64 {
    let whole = digits.iter().copied().chain(std::iter::repeat(b'0')).take(usize::try_from(point).unwrap_or(0).min(20));
    whole.fold(0u64, |n, d| n.saturating_mul(10).saturating_add(u64::from(d - b'0')))
}

/// Appends the shortest text of a finite float, laid out anew where the formatter chose an exponent.
fn write_float(out: &mut Vec<u8>, shortest: &str) {
    let text = shortest.as_bytes();
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (mantissa, exponent) = match text.iter().position(|b| *b == b'e') {
        Some(e) => (&text[..e], shortest[shortest.len() - (text.len() - e) + 1..].parse::<i32>().unwrap_or(0)),
        None => (text, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|b| *b == b'.') {
        Some(p) => (&mantissa[..p], &mantissa[p + 1..]),
        None => (mantissa, &[][..]),
    };
    if exponent == 0 && whole.len() <= 21 && (whole != b"0" || fraction.first().is_some_and(|d| *d != b'0')) {
        // The common case needs no digits moved: only the `.0` of whole numbers goes.
        if negative {
            out.push(b'-');
        }
        out.extend_from_slice(whole);
        if fraction != b"0" && !fraction.is_empty() {
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
        return;
    }
    // At most 17 digits are significant; the formatter pads none but the single zero of `1.0`.
    let mut digits = [0u8; 40];
    let mut len = 0;
    let mut point = whole.len() as i32 + exponent;
    for digit in whole.iter().chain(fraction).copied() {
        if len == 0 && digit == b'0' {
            point -= 1;
        } else if len < digits.len() {
            digits[len] = digit;
            len += 1;
        }
    }
    while len > 0 && digits[len - 1] == b'0' {
        len -= 1;
    }
    if len == 0 {
        out.push(b'0');
        return;
    }
    if negative {
        out.push(b'-');
    }
    lay_out(out, &digits[..len], point);
}

/// Appends 0.`digits` × 10^`point` in the layout of RFC 8785. `digits` has no leading zero and, unless all of it stands
/// before the point, no trailing one.
fn lay_out(out: &mut Vec<u8>, digits: &[u8], point: i32) {
    let count = digits.len() as i32;
    if count <= point && point <= 21 {
        out.extend_from_slice(digits);
        out.resize(out.len() + (point - count) as usize, b'0');
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(point as usize);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else if -6 < point && point <= 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + point.unsigned_abs() as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'e');
        let exponent = point - 1;
        if exponent > 0 {
            out.push(b'+');
        }
        out.extend_from_slice(itoa::Buffer::new().format(exponent).as_bytes());
    }
}

/// Appends a string in quotes, escaped.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte >= 0x20 && *byte != b'"' && *byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 0xF)]);
            }
        }
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}

/// Appends the `Display` of something that needs no escape (reasons, codes), in quotes.
pub(super) fn write_word(out: &mut Vec<u8>, word: impl std::fmt::Display) {
    // Writing to a vector does not fail.
    let _ = write!(out, "\"{word}\"");
}

/// Opens the next member: a comma unless the object has just begun, then the key, which is already `"key":`.
pub(super) fn write_key(out: &mut Vec<u8>, key: &[u8]) {
    // No value ends with a brace but an object, and that one closes.
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.extend_from_slice(key);
}

/// Writes times as RFC 3339 UTC with milliseconds; remembers the date, which seldom changes.
#[derive(Debug, Default)]
pub(super) struct Times {
    date: [u8; 11],
    day: Option<u64>,
}

impl Times {
    const DAY_MS: u64 = 86_400_000;

    /// Appends a time in quotes.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, at: Wall) {
        let text_of = |at: Wall| at.to_string();
        let day = at.0 / Self::DAY_MS;
        if self.day != Some(day) {
            let text = text_of(at);
            // Beyond the year 9999 the text stands still, and the clock arithmetic below would not.
            if text.len() != 24 || at.0 > 253_402_300_799_999 {
                write_string(out, &text);
                return;
            }
            self.date.copy_from_slice(&text.as_bytes()[..11]);
            self.day = Some(day);
        }
        let ms = at.0 % Self::DAY_MS;
        let two = |n: u64| [b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8];
        let ([h0, h1], [m0, m1]) = (two(ms / 3_600_000), two(ms / 60_000 % 60));
        let ([s0, s1], [f1, f2]) = (two(ms / 1000 % 60), two(ms % 100));
        let f0 = b'0' + (ms / 100 % 10) as u8;
        out.push(b'"');
        out.extend_from_slice(&self.date);
        out.extend_from_slice(&[h0, h1, b':', m0, m1, b':', s0, s1, b'.', f0, f1, f2, b'Z', b'"']);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text_in(value: &Value, form: JsonForm) -> String {
        let mut out = Vec::new();
        assert!(write_value(&mut out, value, form));
        String::from_utf8(out).unwrap()
    }

    fn text(value: &Value) -> String {
        text_in(value, JsonForm::Plain)
    }

    #[test]
    fn f67_no_binary_noise_in_decimals() {
        assert_eq!(text(&Value::from_decimal(23_773, -2).unwrap()), "237.73");
        assert_eq!(text(&Value::F32(f32::from_bits(0x409C_CCCD))), "4.9");
        assert_eq!(text(&Value::from_decimal(-20, -1).unwrap()), "-2");
        assert_eq!(text(&Value::from_decimal(-5, -3).unwrap()), "-0.005");
        assert_eq!(text(&Value::F64(0.1 + 0.2)), "0.30000000000000004");
    }

    #[test]
    fn f69_no_digit_of_64_bits_is_lost() {
        let string = JsonForm::DecimalString;
        assert_eq!(text_in(&Value::Int(9_007_199_254_740_993), string), "\"9007199254740993\"");
        assert_eq!(text_in(&Value::Uint(u64::MAX), string), "\"18446744073709551615\"");
        assert_eq!(text_in(&Value::Int(5), string), "\"5\"");
        assert_eq!(text(&Value::Int(9_007_199_254_740_991)), "9007199254740991");
        assert_eq!(text(&Value::Int(-9_007_199_254_740_992)), "\"-9007199254740992\"");
        assert_eq!(text(&Value::from_decimal(90_071_992_547_409_915, -1).unwrap()), "9007199254740991.5");
        assert_eq!(text(&Value::from_decimal(-90_071_992_547_409_925, -1).unwrap()), "\"-9007199254740992.5\"");
        assert_eq!(text(&Value::from_decimal(530_242_870_000_000_001, -9).unwrap()), "530242870.000000001");
    }

    #[test]
    fn f63_what_is_no_number_is_not_written() {
        for value in [Value::F32(f32::NAN), Value::F64(f64::NAN), Value::F32(f32::INFINITY), Value::F64(-f64::INFINITY)]
        {
            let mut out = b"[".to_vec();
            assert!(!write_value(&mut out, &value, JsonForm::Plain));
            assert_eq!(out, b"[");
        }
    }

    #[test]
    fn a_number_has_one_form() {
        for (value, expected) in [
            (Value::F32(1450.0), "1450"),
            (Value::F64(1450.0), "1450"),
            (Value::F32(-0.0), "0"),
            (Value::F64(0.0), "0"),
            (Value::F32(16_777_216.0), "16777216"),
            (Value::F64(1e20), "100000000000000000000"),
            (Value::F64(1e21), "1e+21"),
            (Value::F64(-1.5e300), "-1.5e+300"),
            (Value::F64(1e-6), "0.000001"),
            (Value::F64(1.25e-7), "1.25e-7"),
            (Value::F64(0.05), "0.05"),
            (Value::F32(f32::MAX), "3.4028235e+38"),
            (Value::F64(5e-324), "5e-324"),
            (Value::F64(123_456_789_012_345_680.0), "123456789012345680"),
            (Value::from_decimal(1, -6).unwrap(), "0.000001"),
            (Value::from_decimal(125, -9).unwrap(), "1.25e-7"),
            (Value::Bool(false), "false"),
            (Value::Text("".into()), "\"\""),
        ] {
            assert_eq!(text(&value), expected, "{value:?}");
        }
    }

    #[test]
    fn times_are_rfc3339_with_milliseconds() {
        let mut times = Times::default();
        for at in
            [0, 1_796_077_660_042, 1_796_077_660_043, 951_782_399_999, 951_868_800_000, 253_402_300_799_999, u64::MAX]
        {
            let mut out = Vec::new();
            times.write(&mut out, Wall(at));
            assert_eq!(String::from_utf8(out).unwrap(), format!("\"{}\"", Wall(at)));
        }
    }

    proptest! {
        #[test]
        fn strings_read_back(s in "\\PC*|[\\x00-\\x7f]*") {
            let mut out = Vec::new();
            write_string(&mut out, &s);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), s);
        }

        #[test]
        fn doubles_read_back_exactly(bits: u64) {
            let x = f64::from_bits(bits);
            prop_assume!(x.is_finite());
            // Nought added: a negative one prints as nought.
            prop_assert_eq!(text(&Value::F64(x)).parse::<f64>().unwrap().to_bits(), (x + 0.0).to_bits());
        }

        #[test]
        fn floats_read_back_exactly(bits: u32) {
            let x = f32::from_bits(bits);
            prop_assume!(x.is_finite());
            prop_assert_eq!(text(&Value::F32(x)).parse::<f32>().unwrap().to_bits(), (x + 0.0).to_bits());
        }

        #[test]
        fn decimals_are_exact(mantissa: i64, exponent in -20i8..=0) {
            let value = Value::from_decimal(mantissa, exponent).unwrap();
            let written = text(&value);
            let bare = written.trim_matches('"');
            // Judge: the decimal's own text, where no exponent is used.
            if bare.contains('e') {
                prop_assert_eq!(bare.parse::<f64>().unwrap().to_bits(), value.as_f64().unwrap().to_bits());
            } else {
                let expected = match &value {
                    Value::Decimal(d) => d.to_string(),
                    Value::Int(n) => n.to_string(),
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!(bare, expected);
            }
        }

        #[test]
        fn f67_all_u16_with_decimal_scales(raw: u16, places in 1i8..=3) {
            let written = text(&Value::from_decimal(i64::from(raw), -places).unwrap());
            prop_assert!(written.len() <= 6 + 1, "{}", written);
            let back: f64 = written.parse().unwrap();
            prop_assert_eq!((back * 10f64.powi(i32::from(places))).round() as u32, u32::from(raw));
        }
    }
}
