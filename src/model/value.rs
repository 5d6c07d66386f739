//! A point's value, in exactly one form for each number.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A decimal number `mantissa × 10^exponent`, exact: what a scaled register is, without binary noise.
///
/// Normalised: the mantissa ends in no zero unless the exponent is 0, so that equal numbers are equal values.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    mantissa: i64,
    exponent: i8,
}

impl Decimal {
    /// `mantissa × 10^exponent`, normalised; nothing where it does not fit (over 18 digits before the point).
    #[inline]
    pub fn new(mantissa: i64, exponent: i8) -> Option<Self> {
        let (mut m, mut e) = (mantissa, exponent);
        while e < 0 && m % 10 == 0 {
            m /= 10;
            e += 1;
        }
        while e > 0 {
            m = m.checked_mul(10)?;
            e -= 1;
        }
        Some(Self { mantissa: m, exponent: e })
    }

    /// The digits as an integer.
    pub fn mantissa(self) -> i64 {
        self.mantissa
    }

    /// Power of ten, 0 or below.
    pub fn exponent(self) -> i8 {
        self.exponent
    }

    /// The nearest binary number.
    pub fn to_f64(self) -> f64 {
        // Parsing is correctly rounded; a division of two rounded factors is so only up to 2^53 and 10^22.
        if self.mantissa.unsigned_abs() <= 1 << 53 && self.exponent >= -22 {
            self.mantissa as f64 / 10f64.powi(i32::from(-self.exponent))
        } else {
            format!("{}e{}", self.mantissa, self.exponent).parse().unwrap_or(f64::NAN)
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.exponent == 0 {
            return write!(f, "{}", self.mantissa);
        }
        let places = usize::from(self.exponent.unsigned_abs());
        let digits = self.mantissa.unsigned_abs().to_string();
        if self.mantissa < 0 {
            f.write_str("-")?;
        }
        if digits.len() > places {
            let (whole, fraction) = digits.split_at(digits.len() - places);
            write!(f, "{whole}.{fraction}")
        } else {
            write!(f, "0.{digits:0>places$}")
        }
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A value as a point has it. Never NaN, never infinite: those are qualities, not values.
///
/// The same number has one form: whole numbers that fit `i64` are `Int`, greater ones `Uint`; `F32` and `F64`
/// are what a device sent as floating point, unscaled; `Decimal` is never a whole number.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A bit.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number above `i64::MAX`.
    Uint(u64),
    /// A scaled number with decimals.
    Decimal(Decimal),
    /// An unscaled 32-bit float, printed as such: 4.9, not 4.900000095.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// Text, a label, or digits.
    Text(Arc<str>),
}

impl Value {
    /// A whole number in its one form.
    pub fn from_u64(n: u64) -> Self {
        i64::try_from(n).map_or(Self::Uint(n), Self::Int)
    }

    /// A decimal in its one form; nothing where it does not fit.
    pub fn from_decimal(mantissa: i64, exponent: i8) -> Option<Self> {
        let d = Decimal::new(mantissa, exponent)?;
        Some(if d.exponent == 0 { Self::Int(d.mantissa) } else { Self::Decimal(d) })
    }

    /// The number as the nearest `f64`, where it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(n) => Some(*n as f64),
            Self::Uint(n) => Some(*n as f64),
            Self::Decimal(d) => Some(d.to_f64()),
            Self::F32(x) => Some(f64::from(*x)),
            Self::F64(x) => Some(*x),
            Self::Bool(_) | Self::Text(_) => None,
        }
    }

    /// Order of two numbers by value, whatever their forms: 1 equals 1.0. Nothing for what is no number.
    pub fn numeric_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(b)),
            (Self::Int(_), Self::Uint(_)) => Some(Ordering::Less),
            (Self::Uint(_), Self::Int(_)) => Some(Ordering::Greater),
            // A 32-bit float means the decimal that it prints as, not the binary tail that f64 would show.
            (Self::F32(a), b) if !matches!(b, Self::F32(_)) => shortest(*a).partial_cmp(&b.as_f64()?),
            (a, Self::F32(b)) if !matches!(a, Self::F32(_)) => a.as_f64()?.partial_cmp(&shortest(*b)),
            (a, b) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        }
    }

    /// Equality as readers mean it: 1 equals 1.0; text and bits only equal themselves.
    pub fn same_as(&self, other: &Self) -> bool {
        self == other || self.numeric_cmp(other) == Some(Ordering::Equal)
    }
}

/// What a 32-bit float reads as once it was printed. The same formatter as in payloads: where two shortest texts are at
/// equal distance (2652335.25 prints as …5.2 or …5.3), another one may choose the other.
fn shortest(x: f32) -> f64 {
    if !x.is_finite() {
        return f64::from(x);
    }
    zmij::Buffer::new().format_finite(x).parse().unwrap_or(f64::from(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_have_one_form() {
        assert_eq!(Value::from_decimal(3210, -1), Some(Value::Int(321)));
        assert_eq!(Decimal::new(23_773, -2).unwrap().to_string(), "237.73");
        assert_eq!(Decimal::new(-5, -3).unwrap().to_string(), "-0.005");
        assert_eq!(Decimal::new(-50, -3), Decimal::new(-5, -2));
        assert_eq!(Decimal::new(i64::MAX, 1), None);
        assert_eq!(Decimal::new(7, 2).unwrap().to_string(), "700");
        assert!((Decimal::new(23_773, -2).unwrap().to_f64() - 237.73).abs() < f64::EPSILON);
    }

    #[test]
    fn one_equals_one_point_zero() {
        assert!(Value::Int(1).same_as(&Value::F32(1.0)));
        assert!(Value::F32(4.9).same_as(&Value::from_decimal(49, -1).unwrap()));
        assert!(!Value::Bool(true).same_as(&Value::Int(1)));
        assert!(!Value::Text("1".into()).same_as(&Value::Int(1)));
        assert_eq!(Value::Int(-1).numeric_cmp(&Value::Uint(u64::MAX)), Some(Ordering::Less));
    }
}
