//! Numbers as written, without binary noise.

/// A decimal number `digits × 10^exponent`, exactly as written: `0.1` is 1 × 10^-1.
///
/// Normalised: `digits` ends in no zero unless `exponent` is 0; `exponent` is 0 or below. At most 37 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number {
    digits: i128,
    exponent: i32,
}

impl Number {
    const MAX_DIGITS: usize = 37;

    /// Reads `-12`, `0.05`, `1e-3`, `0x1F`, `0o17`; nothing where the text is no number of that kind, is longer than 37
    /// digits when written out, or begins with a needless zero.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let sign = if negative { -1 } else { 1 };
        if let Some(radix) = radix(rest) {
            return digits_of(&rest[2..], radix).map(|n| Self { digits: sign * n, exponent: 0 });
        }
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], small_exponent(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if (whole.is_empty() && fraction.is_empty()) || whole.len() + fraction.len() > Self::MAX_DIGITS {
            return None;
        }
        if needless_zero(whole) {
            return None;
        }
        let digits = digits_of(&format!("0{whole}{fraction}"), 10)?;
        Self { digits: sign * digits, exponent: exponent - fraction.len() as i32 }.normal()
    }

    /// A whole number.
    pub fn from_integer(n: i128) -> Option<Self> {
        Self { digits: n, exponent: 0 }.normal()
    }

    fn normal(self) -> Option<Self> {
        let (mut digits, mut exponent) = (self.digits, self.exponent);
        if digits == 0 {
            return Some(Self { digits: 0, exponent: 0 });
        }
        while exponent < 0 && digits % 10 == 0 {
            digits /= 10;
            exponent += 1;
        }
        while exponent > 0 {
            digits = digits.checked_mul(10)?;
            exponent -= 1;
        }
        (exponent >= -(Self::MAX_DIGITS as i32) && digits.unsigned_abs() < 10u128.pow(Self::MAX_DIGITS as u32))
            .then_some(Self { digits, exponent })
    }

    /// The digits, as a whole number.
    pub fn digits(self) -> i128 {
        self.digits
    }

    /// Power of ten, 0 or below.
    pub fn exponent(self) -> i32 {
        self.exponent
    }

    /// The number, where it is a whole one.
    pub fn integer(self) -> Option<i128> {
        (self.exponent == 0).then_some(self.digits)
    }

    /// The nearest binary number.
    pub fn to_f64(self) -> f64 {
        // Parsing is correctly rounded.
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(f64::NAN)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Equal exponents by making the greater one smaller; where that overflows, that side is the larger by far.
        let common = self.exponent.min(other.exponent);
        let raised = |n: &Self| 10i128.checked_pow((n.exponent - common) as u32).and_then(|f| n.digits.checked_mul(f));
        match (raised(self), raised(other)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (None, _) => self.digits.cmp(&0),
            (_, None) => 0.cmp(&other.digits),
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let places = self.exponent.unsigned_abs() as usize;
        let digits = format!("{:0>width$}", self.digits.unsigned_abs(), width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        let sign = if self.digits < 0 { "-" } else { "" };
        let point = if places > 0 { "." } else { "" };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

/// Whether whole digits begin with a zero that YAML 1.1 reads as octal and everybody else as nothing: `0100`.
pub(super) fn needless_zero(whole: &str) -> bool {
    whole.len() > 1 && whole.starts_with('0')
}

fn radix(text: &str) -> Option<u32> {
    match text.get(..2)? {
        "0x" => Some(16),
        "0o" => Some(8),
        _ => None,
    }
}

fn digits_of(text: &str, radix: u32) -> Option<i128> {
    if text.is_empty() || !text.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    i128::from_str_radix(text, radix).ok().filter(|n| n.unsigned_abs() < 10u128.pow(Number::MAX_DIGITS as u32))
}

fn small_exponent(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.strip_prefix('+').unwrap_or(text).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact() {
        let parts = |t: &str| Number::parse(t).map(|n| (n.digits, n.exponent));
        assert_eq!(parts("0.1"), Some((1, -1)));
        assert_eq!(parts("-12.50"), Some((-125, -1)));
        assert_eq!(parts("1e3"), Some((1000, 0)));
        assert_eq!(parts("25e-1"), Some((25, -1)));
        assert_eq!(parts(".5"), Some((5, -1)));
        assert_eq!(parts("0x1F"), Some((31, 0)));
        assert_eq!(parts("-0o17"), Some((-15, 0)));
        assert_eq!(parts("18446744073709551615"), Some((18_446_744_073_709_551_615, 0)));
        for odd in ["", "-", ".", "1_000", "0100", "0x", "0xg", "1e", "1e9999", "on", "1.2.3", "１", "1e40", ".inf"] {
            assert_eq!(parts(odd), None, "{odd}");
        }
    }

    #[test]
    fn numbers_have_an_order_and_print_as_meant() {
        let n = |t| Number::parse(t).unwrap();
        assert!(n("0.1") < n("0.11") && n("-3") < n("-2.9") && n("1e30") > n("1e-30") && n("-1e36") < n("1e-36"));
        assert_eq!(n("-0.05").to_string(), "-0.05");
        assert_eq!(n("12.50").to_string(), "12.5");
    }
}
