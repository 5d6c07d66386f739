//! Exact scaling: `raw × numerator / denominator + bias`, without binary noise.
//!
//! Three roads, the same result:
//!
//! 1. scales that are `m × 10^-k` (nearly all): one multiplication and one addition of `i64`, both checked;
//! 2. any ratio, and whatever overflowed road 1: `i128`. A result that terminates and fits 18 digits is exact, any other
//!    is rounded once, half away from zero, to 15 significant digits; a whole number beyond `u64` becomes the nearest `F64`
//!    of those 15 digits;
//! 3. floats too great or too small for `i128`: `f64`, rounded to 15 significant digits.
//!
//! Nothing where no road leads to a finite number: the caller says `out_of_range`.

use crate::model::Value;
use crate::profile::Scale;
use std::fmt::{self, Write};

/// A [`Scale`], prepared.
#[derive(Debug, Clone)]
pub(super) struct Scaling {
    fast: Option<Fast>,
    /// value = (raw × numerator + bias) / denominator; nothing where these do not fit.
    ratio: Option<Ratio>,
    /// The same for road 3.
    factor: f64,
    bias: f64,
    rounding: Rounding,
}

/// What becomes of the digits of a scaled number.
#[derive(Debug, Clone, Copy)]
enum Rounding {
    /// All of them stay.
    None,
    /// So many after the point.
    Decimals(u8),
    /// A multiple of this ratio, both above 0.
    Multiple(i64, i64),
}

/// value = (raw × factor + bias) × 10^-places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fast {
    factor: i64,
    bias: i64,
    places: u8,
    /// Power of ten to divide by, so that only `decimals` places stay; 1 for none.
    round: i64,
}

#[derive(Debug, Clone, Copy)]
struct Ratio {
    numerator: i128,
    bias: i128,
    denominator: i128,
}

impl Scaling {
    pub(super) fn new(scale: &Scale) -> Self {
        let ratio = Ratio::new(scale);
        let rounding = match (scale.round_to, scale.decimals) {
            (Some((numerator, denominator)), _) => Rounding::Multiple(numerator, denominator),
            (None, Some(decimals)) => Rounding::Decimals(decimals),
            (None, None) => Rounding::None,
        };
        Self {
            fast: ratio.and_then(|r| Fast::new(r, rounding)),
            ratio,
            factor: scale.numerator as f64 / scale.denominator as f64,
            bias: scale.bias_mantissa as f64 * 10f64.powi(i32::from(scale.bias_exponent)),
            rounding,
        }
    }

    /// Road 1, where it is open for this scale.
    pub(super) fn fast(&self) -> Option<Fast> {
        self.fast
    }

    /// Scales a whole number.
    pub(super) fn whole(&self, raw: i128) -> Option<Value> {
        let ratio = self.ratio?;
        let n = raw.checked_mul(ratio.numerator)?.checked_add(ratio.bias)?;
        quotient(n, ratio.denominator, self.rounding)
    }

    /// Scales a finite float, through the shortest decimal that reads back to it: 4.9, not 4.900000095.
    pub(super) fn float(&self, raw: Float) -> Option<Value> {
        let (mantissa, exponent) = shortest_decimal(raw)?;
        if let (Some(fast), Rounding::None) = (self.fast, self.rounding)
            && let Some(value) = fast.decimal(mantissa, exponent)
        {
            return Some(value);
        }
        self.decimal(mantissa, exponent).or_else(|| self.approximate(mantissa, exponent))
    }

    fn decimal(&self, mantissa: i64, exponent: i32) -> Option<Value> {
        let ratio = self.ratio?;
        let power = 10i128.checked_pow(exponent.unsigned_abs())?;
        let (up, down) = if exponent < 0 { (1, power) } else { (power, 1) };
        let raw = i128::from(mantissa).checked_mul(up)?;
        let n = raw.checked_mul(ratio.numerator)?.checked_add(ratio.bias.checked_mul(down)?)?;
        quotient(n, ratio.denominator.checked_mul(down)?, self.rounding)
    }

    fn approximate(&self, mantissa: i64, exponent: i32) -> Option<Value> {
        let x: f64 = text_of(format_args!("{mantissa}e{exponent}"))?.as_str()?.parse().ok()?;
        let mut y = x * self.factor + self.bias;
        let mut kept = -100;
        match self.rounding {
            Rounding::None => {}
            Rounding::Decimals(decimals) => kept = -i32::from(decimals.min(100)),
            Rounding::Multiple(numerator, denominator) => {
                let step = numerator as f64 / denominator as f64;
                y = (y / step).round() * step;
            }
        }
        if !y.is_finite() {
            return None;
        }
        let text = text_of(format_args!("{y:.14e}"))?;
        let (mut mantissa, mut exponent) = parse_scientific(&text)?;
        while exponent < kept {
            // One rounding would be exact only here, and here the digits are beyond the fifteenth anyway.
            mantissa = if exponent + 1 == kept { divide_half_away(mantissa.into(), 10) as i64 } else { mantissa / 10 };
            exponent += 1;
        }
        match i8::try_from(exponent).ok().and_then(|e| Value::from_decimal(mantissa, e)) {
            Some(value) => Some(value),
            None => text.as_str()?.parse().ok().map(Value::F64),
        }
    }
}

impl Ratio {
    fn new(scale: &Scale) -> Option<Self> {
        let denominator = i128::from(scale.denominator);
        if denominator <= 0 {
            return None;
        }
        let bias = i128::from(scale.bias_mantissa);
        let exponent = if bias == 0 { 0 } else { i32::from(scale.bias_exponent) };
        let power = 10i128.checked_pow(exponent.unsigned_abs())?;
        let (up, down) = if exponent < 0 { (1, power) } else { (power, 1) };
        let numerator = i128::from(scale.numerator).checked_mul(down)?;
        let bias = bias.checked_mul(denominator)?.checked_mul(up)?;
        let denominator = denominator.checked_mul(down)?;
        let common = gcd(gcd(numerator.unsigned_abs(), bias.unsigned_abs()), denominator.unsigned_abs()) as i128;
        Some(Self { numerator: numerator / common, bias: bias / common, denominator: denominator / common })
    }
}

impl Fast {
    fn new(ratio: Ratio, rounding: Rounding) -> Option<Self> {
        let places = decimal_places(ratio.denominator)?;
        let times = 10i128.checked_pow(places)? / ratio.denominator;
        let places = u8::try_from(places).ok().filter(|p| *p <= 18)?;
        let dropped = match rounding {
            Rounding::None => 0,
            Rounding::Decimals(decimals) => places.saturating_sub(decimals),
            Rounding::Multiple(..) => return None,
        };
        Some(Self {
            factor: ratio.numerator.checked_mul(times)?.try_into().ok()?,
            bias: ratio.bias.checked_mul(times)?.try_into().ok()?,
            places: places - dropped,
            round: 10i64.pow(u32::from(dropped)),
        })
    }

    /// The scaled number in units of 10^-[`places`](Self::places); nothing where it overflows.
    #[inline]
    pub(super) fn units(self, raw: i64) -> Option<i64> {
        let n = raw.checked_mul(self.factor)?.checked_add(self.bias)?;
        Some(if self.round == 1 { n } else { divide_half_away(n.into(), self.round.into()) as i64 })
    }

    /// Decimals of a unit: 0 to 18.
    pub(super) fn places(self) -> u8 {
        self.places
    }

    fn decimal(self, mantissa: i64, exponent: i32) -> Option<Value> {
        if !(-18..=18).contains(&exponent) {
            return None;
        }
        let power = 10i64.pow(exponent.unsigned_abs());
        let (up, down) = if exponent < 0 { (1, power) } else { (power, 1) };
        let n = mantissa.checked_mul(up)?.checked_mul(self.factor)?.checked_add(self.bias.checked_mul(down)?)?;
        Value::from_decimal(n, -(self.places as i8) + exponent.min(0) as i8)
    }
}

/// `value` in units of 10^-`places`, rounded up or down to a whole unit, at most what `i64` holds. For limits.
pub(super) fn limit_in_units(value: &Value, places: u8, up: bool) -> Option<i64> {
    let (mantissa, exponent) = match value {
        Value::Int(n) => (*n, 0),
        Value::Uint(_) => return Some(i64::MAX),
        Value::Decimal(d) => (d.mantissa(), i32::from(d.exponent())),
        Value::F32(x) => shortest_decimal(Float::Single(*x))?,
        Value::F64(x) => shortest_decimal(Float::Double(*x))?,
        Value::Bool(_) | Value::Text(_) => return None,
    };
    let shift = exponent + i32::from(places);
    let power = 10i128.checked_pow(shift.unsigned_abs());
    let n = i128::from(mantissa);
    let n = match (shift < 0, power) {
        (false, Some(power)) => n.saturating_mul(power),
        (false, None) => n.saturating_mul(i128::MAX),
        (true, Some(power)) if up => n.div_euclid(power) + i128::from(n.rem_euclid(power) != 0),
        (true, Some(power)) => n.div_euclid(power),
        (true, None) if up => i128::from(n > 0),
        (true, None) => -i128::from(n < 0),
    };
    Some(n.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// A finite float as the device sent it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Float {
    Single(f32),
    Double(f64),
}

/// `mantissa × 10^exponent`: the shortest digits that read back to the same float. Nothing for NaN and infinities.
fn shortest_decimal(x: Float) -> Option<(i64, i32)> {
    match x {
        Float::Single(x) if x.is_finite() => parse_scientific(&text_of(format_args!("{x:e}"))?),
        Float::Double(x) if x.is_finite() => parse_scientific(&text_of(format_args!("{x:e}"))?),
        _ => None,
    }
}

/// A short text on the stack: floats are decoded without an allocation.
struct Short {
    bytes: [u8; 32],
    len: usize,
}

impl Short {
    fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes[..self.len]).ok()
    }
}

impl Write for Short {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

fn text_of(arguments: fmt::Arguments<'_>) -> Option<Short> {
    let mut short = Short { bytes: [0; 32], len: 0 };
    short.write_fmt(arguments).ok()?;
    Some(short)
}

/// Reads `-1.2345e-7` as (-12345, -11), without trailing zeros.
fn parse_scientific(text: &Short) -> Option<(i64, i32)> {
    let (mut mantissa, mut exponent, mut after_point) = (0i64, 0i32, false);
    let bytes = &text.bytes[..text.len];
    let (negative, bytes) = bytes.strip_prefix(b"-").map_or((false, bytes), |rest| (true, rest));
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                exponent -= i32::from(after_point);
            }
            b'.' => after_point = true,
            _ => {
                exponent += std::str::from_utf8(&bytes[i + 1..]).ok()?.parse::<i32>().ok()?;
                break;
            }
        }
    }
    if mantissa == 0 {
        return Some((0, 0));
    }
    while mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    Some((if negative { -mantissa } else { mantissa }, exponent))
}

/// `n / d` as a value: exact where it terminates and fits, else rounded to 15 significant digits; `d` above 0.
fn quotient(n: i128, d: i128, rounding: Rounding) -> Option<Value> {
    let (n, d, decimals) = match rounding {
        Rounding::None => (n, d, None),
        Rounding::Decimals(decimals) => (n, d, Some(decimals)),
        Rounding::Multiple(up, down) if up > 0 && down > 0 => {
            let multiple = divide_half_away(n.checked_mul(down.into())?, d.checked_mul(up.into())?);
            (multiple.checked_mul(up.into())?, down.into(), None)
        }
        Rounding::Multiple(..) => return None,
    };
    let common = gcd(n.unsigned_abs(), d.unsigned_abs()).max(1);
    let d = d.unsigned_abs() / common;
    let magnitude = n.unsigned_abs() / common;
    terminating(n < 0, magnitude, d, decimals).or_else(|| long_division(n < 0, magnitude, d, decimals))
}

fn terminating(negative: bool, n: u128, d: u128, decimals: Option<u8>) -> Option<Value> {
    let mut places = decimal_places(i128::try_from(d).ok()?)?;
    let mut digits = n.checked_mul(10u128.checked_pow(places)? / d)?;
    if let Some(kept) = decimals.map(u32::from).filter(|kept| *kept < places) {
        let power = 10u128.checked_pow(places - kept)?;
        digits = digits / power + u128::from(digits % power >= power - digits % power);
        places = kept;
    }
    while places > 0 && digits.is_multiple_of(10) {
        digits /= 10;
        places -= 1;
    }
    if places == 0 {
        return whole_value(negative, digits);
    }
    Value::from_decimal(signed(negative, digits)?, -i8::try_from(places).ok()?)
}

fn long_division(negative: bool, n: u128, d: u128, decimals: Option<u8>) -> Option<Value> {
    const FIFTEEN_DIGITS: u128 = 1_000_000_000_000_000;
    let (mut digits, mut rest) = (n / d, n % d);
    if digits >= FIFTEEN_DIGITS {
        let mut power = 1;
        while digits / power >= FIFTEEN_DIGITS {
            power *= 10;
        }
        let rounded = digits / power + u128::from(digits % power >= power - digits % power);
        let whole = rounded.checked_mul(power)?;
        return whole_value(negative, whole).or_else(|| {
            let x = whole as f64;
            Some(Value::F64(if negative { -x } else { x }))
        });
    }
    // A number below 10^-100 is zero: no unit of measurement goes there.
    let most = decimals.unwrap_or(100).min(100);
    let mut places = 0u8;
    while rest != 0 && places < most && digits < FIFTEEN_DIGITS / 10 {
        rest = rest.checked_mul(10)?;
        digits = digits * 10 + rest / d;
        rest %= d;
        places += 1;
    }
    digits += u128::from(rest != 0 && rest >= d - rest);
    Value::from_decimal(signed(negative, digits)?, -(places as i8))
}

fn whole_value(negative: bool, n: u128) -> Option<Value> {
    match signed(negative, n) {
        Some(n) => Some(Value::Int(n)),
        None if negative => None,
        None => u64::try_from(n).ok().map(Value::from_u64),
    }
}

fn signed(negative: bool, n: u128) -> Option<i64> {
    let n = i128::try_from(n).ok()?;
    i64::try_from(if negative { -n } else { n }).ok()
}

/// Quotient rounded half away from zero; `d` above 0.
fn divide_half_away(n: i128, d: i128) -> i128 {
    let (q, r) = (n / d, (n % d).abs());
    if r >= d - r { q + n.signum() } else { q }
}

/// Decimals of 1/d, where it terminates: the greater count of the factors 2 and 5, if `d` has no others.
fn decimal_places(d: i128) -> Option<u32> {
    if d <= 0 {
        return None;
    }
    let (mut rest, mut twos, mut fives) = (d, 0, 0);
    while rest % 2 == 0 {
        rest /= 2;
        twos += 1;
    }
    while rest % 5 == 0 {
        rest /= 5;
        fives += 1;
    }
    (rest == 1).then_some(twos.max(fives))
}

fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scale(numerator: i64, denominator: i64) -> Scale {
        Scale { numerator, denominator, bias_mantissa: 0, bias_exponent: 0, decimals: None, round_to: None }
    }

    fn show(value: Option<Value>) -> String {
        match value {
            Some(Value::Int(n)) => n.to_string(),
            Some(Value::Uint(n)) => n.to_string(),
            Some(Value::Decimal(d)) => d.to_string(),
            Some(Value::F64(x)) => format!("{x:e}f64"),
            other => format!("{other:?}"),
        }
    }

    fn fast(s: &Scaling, raw: i64) -> String {
        let fast = s.fast().unwrap();
        show(fast.units(raw).and_then(|n| Value::from_decimal(n, -(fast.places() as i8))))
    }

    #[test]
    fn f67_integers_scale_to_the_exact_decimal() {
        let s = Scaling::new(&scale(1, 100));
        assert_eq!(fast(&s, 23_773), "237.73");
        assert_eq!(show(s.whole(23_773)), "237.73");
        assert_eq!(fast(&Scaling::new(&scale(1, 10)), 3217), "321.7");
        // 100/16384 has the exact decimal 0.006103515625.
        assert_eq!(fast(&Scaling::new(&scale(100, 16384)), 1), "0.006103515625");
    }

    #[test]
    fn ratios_without_an_end_keep_fifteen_digits() {
        // 1/3 and 2/3 by hand; 100/7 = 14.285714285714285714…
        assert_eq!(show(Scaling::new(&scale(1, 3)).whole(1)), "0.333333333333333");
        assert_eq!(show(Scaling::new(&scale(2, 3)).whole(-1)), "-0.666666666666667");
        assert_eq!(show(Scaling::new(&scale(1, 7)).whole(100)), "14.2857142857143");
        assert_eq!(show(Scaling::new(&scale(1, 3)).whole(9)), "3");
        assert_eq!(show(Scaling::new(&scale(1, 300)).whole(1)), "0.00333333333333333");
    }

    #[test]
    fn decimals_round_once_and_half_away_from_zero() {
        let s = Scaling::new(&Scale { decimals: Some(1), ..scale(1, 100) });
        assert_eq!(fast(&s, 25), "0.3");
        assert_eq!(fast(&s, -25), "-0.3");
        assert_eq!(fast(&s, 24), "0.2");
        assert_eq!(show(s.whole(-25)), "-0.3");
        // 2/3 to one decimal; rounding first to fifteen digits would make no difference here, 0.0499… to 1 would.
        assert_eq!(show(Scaling::new(&Scale { decimals: Some(1), ..scale(2, 3) }).whole(1)), "0.7");
        assert_eq!(
            show(Scaling::new(&Scale { decimals: Some(0), ..scale(1, 3) }).whole(1)),
            "0",
            "a third is nearer to nothing"
        );
    }

    #[test]
    fn a_value_is_rounded_to_the_nearest_multiple() {
        let quarter = Scaling::new(&Scale { round_to: Some((1, 4)), ..scale(1, 100) });
        assert_eq!(show(quarter.whole(187)), "1.75");
        assert_eq!(show(quarter.whole(188)), "2");
        assert_eq!(show(quarter.whole(-188)), "-2");
        assert_eq!(show(quarter.float(Float::Single(13.0))), "0.25");
        assert_eq!(show(Scaling::new(&Scale { round_to: Some((5, 1)), ..scale(1, 3) }).whole(22)), "5");
    }

    #[test]
    fn bias_is_exact() {
        // Kelvin in hundredths to degrees Celsius.
        let s = Scaling::new(&Scale { bias_mantissa: -27_315, bias_exponent: -2, ..scale(1, 100) });
        assert_eq!(fast(&s, 29_815), "25");
        assert_eq!(fast(&s, 27_314), "-0.01");
        let third = Scaling::new(&Scale { bias_mantissa: -5, bias_exponent: -1, ..scale(1, 3) });
        assert_eq!(show(third.whole(1)), "-0.166666666666667");
    }

    #[test]
    fn overflow_is_no_panic() {
        let s = Scaling::new(&scale(i64::MAX, 1));
        assert_eq!(s.fast().unwrap().units(3), None);
        assert_eq!(show(s.whole(3)), "2.76701161105643e19f64", "(2^63 - 1) × 3, to 15 digits");
        assert_eq!(show(Scaling::new(&scale(1, 1)).whole(u64::MAX.into())), "18446744073709551615");
        // 2^64 - 1 tenths: 20 digits do not fit, 15 are kept.
        assert_eq!(show(Scaling::new(&scale(1, 10)).whole(u64::MAX.into())), "1844674407370960000");
        let wild = Scale { bias_mantissa: i64::MAX, bias_exponent: i8::MIN, ..scale(i64::MIN, i64::MAX) };
        assert_eq!(Scaling::new(&wild).whole(7), None);
    }

    #[test]
    fn floats_scale_through_their_shortest_decimal() {
        let s = Scaling::new(&scale(1, 10));
        assert_eq!(show(s.float(Float::Single(4.9))), "0.49");
        assert_eq!(show(s.float(Float::Single(-0.0))), "0");
        assert_eq!(show(s.float(Float::Double(0.1))), "0.01");
        assert_eq!(show(Scaling::new(&scale(1, 3)).float(Float::Single(4.9))), "1.63333333333333");
        assert_eq!(show(Scaling::new(&scale(1000, 1)).float(Float::Single(1e38))), "1e41f64");
        assert_eq!(show(Scaling::new(&scale(1000, 1)).float(Float::Double(1e306))), "None");
        let two = Scaling::new(&Scale { decimals: Some(2), ..scale(1, 1) });
        assert_eq!(show(two.float(Float::Single(1.005))), "1.01", "the decimal that the device means ends in 5");
        assert_eq!(show(two.float(Float::Single(1e-40))), "0");
    }

    #[test]
    fn limits_are_compared_in_whole_units() {
        let tenth = Value::from_decimal(1005, -2).unwrap();
        assert_eq!(limit_in_units(&tenth, 1, true), Some(101), "10.05 as a least value: 10.1 is the first inside");
        assert_eq!(limit_in_units(&tenth, 1, false), Some(100));
        assert_eq!(limit_in_units(&Value::from_decimal(-1005, -2).unwrap(), 1, false), Some(-101));
        assert_eq!(limit_in_units(&Value::Int(i64::MAX), 18, false), Some(i64::MAX));
        assert_eq!(limit_in_units(&Value::F64(1e300), 3, false), Some(i64::MAX));
        assert_eq!(limit_in_units(&Value::F64(1e-300), 3, true), Some(1));
    }

    proptest! {
        #[test]
        fn f67_every_register_times_a_power_of_ten_is_its_own_digits(raw: u16, k in 1u32..=3) {
            let places = k as usize;
            let text = format!("{raw:0>width$}", width = places + 1);
            let (whole, fraction) = text.split_at(text.len() - places);
            let text = format!("{whole}.{fraction}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            let s = Scaling::new(&scale(1, 10i64.pow(k)));
            prop_assert_eq!(fast(&s, raw.into()), text);
            prop_assert_eq!(show(s.whole(raw.into())), text);
        }

        #[test]
        fn any_scale_of_any_number_is_near_the_true_one(
            raw: u64, numerator in -100_000i64..100_000, denominator in 1i64..100_000,
            bias in -1_000_000i64..1_000_000, exponent in -6i8..=0
        ) {
            let s = Scaling::new(&Scale { bias_mantissa: bias, bias_exponent: exponent, ..scale(numerator, denominator) });
            let value = s.whole(raw.into()).unwrap().as_f64().unwrap();
            let product = raw as f64 * numerator as f64 / denominator as f64;
            let truth = product + bias as f64 * 10f64.powi(exponent.into());
            prop_assert!((value - truth).abs() <= 1e-11 * product.abs().max(1.0), "{value} {truth}");
        }

        #[test]
        fn nothing_panics(
            raw: i128, bits: u64, numerator: i64, denominator: i64, bias: i64, exponent: i8, decimals: Option<u8>,
            round_to: Option<(i64, i64)>
        ) {
            let s = Scaling::new(&Scale { numerator, denominator, bias_mantissa: bias, bias_exponent: exponent, decimals, round_to });
            let _ = s.whole(raw);
            let _ = s.fast().map(|f| f.units(raw as i64));
            let _ = s.float(Float::Double(f64::from_bits(bits)));
            let _ = s.float(Float::Single(f32::from_bits(bits as u32)));
        }
    }
}
