//! What a scalar means: booleans, whole numbers, numbers, durations, sizes, text. Each reader says what would be right.

use super::{Content, Mapping, Node, Number, Problem, Scalar, number::needless_zero};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Units of durations, in milliseconds.
const DURATIONS: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
/// Units of sizes, in bytes.
const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
/// Longest duration, in milliseconds: a hundred years, far from where clocks overflow.
const LONGEST_MS: u64 = 36_525 * 86_400_000;

impl Node {
    /// The text, where it is text: in quotes, or nothing else. A bare number, truth value or null is refused.
    pub fn text(&self) -> Result<&str, Problem> {
        let scalar = self.scalar_or("text")?;
        if scalar.is_null() {
            return Err(self.expects("text"));
        }
        if !scalar.quoted && (matches!(&*scalar.text, "true" | "false") || Number::parse(&scalar.text).is_some()) {
            return Err(self.expects("text").remedy(format!("write \"{}\" in quotes", scalar.text)));
        }
        Ok(&scalar.text)
    }

    /// `true` or `false`; in YAML 1.2 nothing else is a truth value.
    pub fn boolean(&self) -> Result<bool, Problem> {
        let scalar = self.scalar_or("true or false")?;
        match (&*scalar.text, scalar.quoted) {
            ("true", false) => Ok(true),
            ("false", false) => Ok(false),
            ("true" | "false", true) => {
                Err(self.expects("true or false").remedy(format!("write {} without quotes", scalar.text)))
            }
            ("on" | "On" | "ON" | "yes" | "Yes" | "YES" | "y" | "Y" | "True" | "TRUE", _) => {
                Err(self.expects("true or false").remedy("write true"))
            }
            ("off" | "Off" | "OFF" | "no" | "No" | "NO" | "n" | "N" | "False" | "FALSE", _) => {
                Err(self.expects("true or false").remedy("write false"))
            }
            _ => Err(self.expects("true or false")),
        }
    }

    /// A whole number: decimal, `0x` hex or `0o` octal.
    pub fn integer(&self) -> Result<i128, Problem> {
        let scalar = self.unquoted("a whole number")?;
        self.refuse_needless_zero(scalar)?;
        Number::parse(&scalar.text).and_then(Number::integer).ok_or_else(|| self.expects("a whole number"))
    }

    /// A whole number within bounds. `what` names it in the message: "gap".
    pub fn integer_within(&self, what: &str, bounds: RangeInclusive<i128>) -> Result<i128, Problem> {
        let n = self.integer()?;
        if bounds.contains(&n) {
            return Ok(n);
        }
        let (low, high) = (bounds.start(), bounds.end());
        let written = self.as_written().unwrap_or_default();
        Err(Problem::new(self.place, format!("{what} is {written}, it may be {low} to {high}"))
            .remedy(format!("write a number from {low} to {high}")))
    }

    /// A number, exact.
    pub fn number(&self) -> Result<Number, Problem> {
        let scalar = self.unquoted("a number")?;
        self.refuse_needless_zero(scalar)?;
        Number::parse(&scalar.text).ok_or_else(|| self.expects("a number"))
    }

    /// A duration with its unit: `200ms`, `1.5s`, `2m`, `7d`. Whole milliseconds, at most a hundred years.
    pub fn duration(&self) -> Result<Duration, Problem> {
        let ms = self.quantity("a duration", &DURATIONS, "ms, s, m, h or d", "200ms")?;
        if ms > LONGEST_MS {
            return Err(Problem::new(self.place, "a duration of more than a hundred years"));
        }
        Ok(Duration::from_millis(ms))
    }

    /// A size in bytes with its unit: `512B`, `128KiB`, `16MiB`, `1GiB`.
    pub fn size(&self) -> Result<u64, Problem> {
        self.quantity("a size", &SIZES, "B, KiB, MiB or GiB", "16MiB")
    }

    /// The items of a list.
    pub fn items(&self) -> Result<&[Node], Problem> {
        match &self.content {
            Content::Sequence(items) => Ok(items),
            Content::Scalar(_) | Content::Mapping(_) => Err(self.expects("a list")),
        }
    }

    /// The entries of a mapping.
    pub fn mapping(&self) -> Result<&Mapping, Problem> {
        match &self.content {
            Content::Mapping(mapping) => Ok(mapping),
            Content::Scalar(_) | Content::Sequence(_) => Err(self.expects("a mapping (`key: value`)")),
        }
    }

    /// One of a few words.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Problem> {
        let scalar = self.scalar_or("a word")?;
        if let Some((_, meaning)) = words.iter().find(|(w, _)| *w == &*scalar.text) {
            return Ok(*meaning);
        }
        let names: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
        let problem = Problem::new(self.place, format!("{} is none of {}", self.shown(), names.join(", ")));
        Err(match super::closest(&scalar.text, names.iter().copied()) {
            Some(near) => problem.remedy(format!("did you mean `{near}`?")),
            None => problem.remedy(format!("write {}", one_of(&names))),
        })
    }

    /// A problem here: "expects …, found …".
    pub fn expects(&self, what: &str) -> Problem {
        Problem::new(self.place, format!("expects {what}, found {}", self.shown()))
    }

    /// What stands here, in a few words for a message.
    pub fn shown(&self) -> String {
        match &self.content {
            Content::Sequence(_) => "a list".into(),
            Content::Mapping(_) => "a mapping".into(),
            Content::Scalar(s) if s.is_null() => "nothing".into(),
            Content::Scalar(s) if s.text.chars().count() > 40 => {
                format!("`{}…`", s.text.chars().take(40).collect::<String>())
            }
            Content::Scalar(s) if s.quoted => format!("the text \"{}\"", s.text),
            Content::Scalar(s) => format!("`{}`", s.text),
        }
    }

    fn scalar_or(&self, what: &str) -> Result<&Scalar, Problem> {
        self.scalar().ok_or_else(|| self.expects(what))
    }

    fn unquoted(&self, what: &str) -> Result<&Scalar, Problem> {
        let scalar = self.scalar_or(what)?;
        if scalar.quoted && Number::parse(&scalar.text).is_some() {
            return Err(self.expects(what).remedy(format!("write {} without quotes", scalar.text)));
        }
        if scalar.quoted { Err(self.expects(what)) } else { Ok(scalar) }
    }

    fn refuse_needless_zero(&self, scalar: &Scalar) -> Result<(), Problem> {
        let digits = scalar.text.strip_prefix(['-', '+']).unwrap_or(&scalar.text);
        let whole = digits.split(['.', 'e', 'E']).next().unwrap_or_default();
        if !needless_zero(whole) || !whole.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(());
        }
        let decimal = match whole.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        let problem = Problem::new(self.place, format!("`{}` can be read in two ways", scalar.text));
        let octal = i128::from_str_radix(whole, 8).ok().filter(|_| whole == digits);
        Err(match octal {
            Some(octal) if octal != 0 => problem.remedy(format!(
                "write {decimal} for the decimal number, or 0o{decimal} for the octal one, which is {octal}"
            )),
            _ => {
                problem.remedy(format!("write it without the leading zero: {}", &digits[whole.len() - decimal.len()..]))
            }
        })
    }

    fn quantity(&self, what: &str, units: &[(&str, u64)], names: &str, example: &str) -> Result<u64, Problem> {
        let scalar = self.scalar_or(what)?;
        let text = &*scalar.text;
        let at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
        let (amount, unit) = text.split_at(at);
        let Some(number) = Number::parse(amount.trim_end()).filter(|n| n.digits() >= 0) else {
            return Err(self.expects(what).remedy(format!("write it as in {example}")));
        };
        if unit.is_empty() {
            let examples: Vec<String> = units.iter().take(2).map(|(u, _)| format!("{amount}{u}")).collect();
            return Err(Problem::new(self.place, format!("{what} needs a unit: {names}"))
                .remedy(format!("write {}", examples.join(" or "))));
        }
        let Some((_, factor)) = units.iter().find(|(u, _)| *u == unit) else {
            return Err(Problem::new(self.place, format!("`{unit}` is no unit of {what}: {names} are"))
                .remedy(format!("write it as in {example}")));
        };
        if amount.ends_with(' ') {
            return Err(self.expects(what).remedy(format!("write {}{unit} without a blank", amount.trim_end())));
        }
        let scaled = number.digits().checked_mul(i128::from(*factor));
        let divisor = 10i128.checked_pow(number.exponent().unsigned_abs());
        match (scaled, divisor) {
            (Some(scaled), Some(divisor)) if scaled % divisor == 0 => u64::try_from(scaled / divisor)
                .map_err(|_| Problem::new(self.place, format!("{} is too large for {what}", self.shown()))),
            (Some(_), Some(_)) => {
                Err(Problem::new(self.place, format!("{} is no whole number of {}", self.shown(), units[0].0))
                    .remedy(format!("use the next smaller unit: {names}")))
            }
            _ => Err(Problem::new(self.place, format!("{} is too large for {what}", self.shown()))),
        }
    }
}

impl Scalar {
    pub(super) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        if self.quoted {
            return Value::from(&*self.text);
        }
        if self.is_null() {
            return Value::Null;
        }
        match &*self.text {
            "true" => return Value::Bool(true),
            "false" => return Value::Bool(false),
            _ => {}
        }
        let Some(number) = Number::parse(&self.text) else { return Value::from(&*self.text) };
        match number.integer() {
            Some(n) => i64::try_from(n)
                .map(Value::from)
                .or_else(|_| u64::try_from(n).map(Value::from))
                .unwrap_or_else(|_| Value::from(&*self.text)),
            None => Value::from(number.to_f64()),
        }
    }
}

/// A duration in the largest unit that says it in whole numbers: `1s`, `1500ms`.
pub fn duration_text(duration: Duration) -> String {
    let ms = duration.as_millis();
    let (unit, factor) = DURATIONS
        .iter()
        .rev()
        .find(|(_, factor)| ms > 0 && ms.is_multiple_of(u128::from(*factor)))
        .unwrap_or(&DURATIONS[0]);
    format!("{}{unit}", ms / u128::from(*factor))
}

fn one_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => format!("`{only}`"),
        [rest @ .., last] => {
            format!("{} or `{last}`", rest.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Document;
    use super::*;

    fn read<T>(yaml: &str, f: impl Fn(&Node) -> Result<T, Problem>) -> Result<T, String> {
        let document = Document::parse("x", yaml).map_err(|d| d.lines())?;
        f(document.root()).map_err(|p| format!("{}; {}", p.message, p.remedy.unwrap_or_default()))
    }

    #[test]
    fn f129_only_true_and_false_are_truth_values() {
        assert_eq!(read("true", Node::boolean), Ok(true));
        assert_eq!(read("on", Node::boolean), Err("expects true or false, found `on`; write true".into()));
        assert!(read("\"false\"", Node::boolean).unwrap_err().contains("without quotes"));
        for word in ["on", "off", "yes", "no", "y", "n"] {
            assert_eq!(read(word, |n| n.text().map(str::to_owned)), Ok(word.into()));
        }
    }

    #[test]
    fn a_leading_zero_is_refused_with_both_readings() {
        let said = read("0100", Node::integer).unwrap_err();
        assert!(said.contains("100 for the decimal") && said.contains("0o100") && said.contains("64"), "{said}");
        assert!(read("08", Node::integer).unwrap_err().contains("without the leading zero: 8"));
        assert!(read("00", Node::integer).unwrap_err().contains("without the leading zero: 0"));
        assert!(read("00.5", Node::number).unwrap_err().contains("without the leading zero: 0.5"));
        assert_eq!(read("0x0B00", Node::integer), Ok(0x0B00));
        assert_eq!(read("0o100", Node::integer), Ok(64));
        assert_eq!(read("-7", Node::integer), Ok(-7));
        for odd in ["1.5", "\"7\"", "~", "[1]", "1_000", "0b1"] {
            assert!(read(odd, Node::integer).is_err(), "{odd}");
        }
    }

    #[test]
    fn durations_and_sizes_need_a_unit() {
        assert_eq!(read("200ms", Node::duration), Ok(Duration::from_millis(200)));
        assert_eq!(read("1.5s", Node::duration), Ok(Duration::from_millis(1500)));
        assert_eq!(read("2d", Node::duration), Ok(Duration::from_hours(48)));
        assert_eq!(
            read("200", Node::duration),
            Err("a duration needs a unit: ms, s, m, h or d; write 200ms or 200s".into())
        );
        for odd in ["0.5ms", "-1s", "1 s", "1min", "ms", "99999999999999d", "1e30d", "[1s]", "~"] {
            assert!(read(odd, Node::duration).is_err(), "{odd}");
        }
        assert_eq!(read("16MiB", Node::size), Ok(16 << 20));
        assert!(read("16MB", Node::size).is_err());
        assert!(read("16", Node::size).unwrap_err().contains("needs a unit"));
        assert_eq!(duration_text(Duration::from_millis(1500)), "1500ms");
        assert_eq!(duration_text(Duration::from_mins(2)), "2m");
    }

    #[test]
    fn numbers_are_not_text_and_text_is_no_number() {
        assert!(read("12", |n| n.text().map(str::to_owned)).unwrap_err().contains("\"12\" in quotes"));
        assert_eq!(read("\"12\"", |n| n.text().map(str::to_owned)), Ok("12".into()));
        assert_eq!(read("1.0.0", |n| n.text().map(str::to_owned)), Ok("1.0.0".into()));
        assert!(read("", |n| n.text().map(str::to_owned)).unwrap_err().contains("found nothing"));
    }

    #[test]
    fn a_tree_as_json_is_as_written() {
        let yaml = "a: 0x10\nb: on\nc: \"1\"\nd: 1.5\ne: ~\nf: [true, 5s]\ng: 18446744073709551615\nh: 0100\n";
        let json = Document::parse("x", yaml).unwrap().root().to_json();
        let expected = serde_json::json!({
            "a": 16, "b": "on", "c": "1", "d": 1.5, "e": null, "f": [true, "5s"], "g": u64::MAX, "h": "0100"
        });
        assert_eq!(json, expected);
    }
}
