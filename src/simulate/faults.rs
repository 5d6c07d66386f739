//! Faults on request: what a pretend device does wrong, and how often.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

/// What goes wrong. Default: nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults {
    /// Each reply waits for so long.
    pub delay: Duration,
    /// Replies that never come.
    pub drop: Often,
    /// Replies that come so much later, after others perhaps.
    pub late: Option<(Duration, Often)>,
    /// Replies of another unit.
    pub wrong_unit: Often,
    /// Replies with another transaction id.
    pub wrong_tid: Often,
    /// Replies whose last two bytes are missing, byte count and all.
    pub short: Often,
    /// Replies with two bytes too many, byte count and all.
    pub long: Often,
    /// Reads that touch an address get an exception: (code, address).
    pub exceptions: Vec<(u8, u16)>,
    /// Replies come in segments of so many bytes.
    pub split: Option<NonZeroUsize>,
    /// The connection is closed after so many replies.
    pub close_after: Option<NonZeroU32>,
}

/// How often something happens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Often {
    /// Not at all.
    #[default]
    Never,
    /// To every so many-th reply.
    Each(NonZeroU32),
    /// By chance, to so many of a hundred replies.
    Percent(f64),
}

/// Why a text names no fault. The user's arguments are to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No `=` in it.
    #[error("`{0}` is no fault: write NAME=VALUE, as in delay=200ms")]
    NoValue(String),
    /// No such fault.
    #[error("there is no fault `{0}`: {NAMES}")]
    Name(String),
    /// The value does not fit.
    #[error("{name}={value}: {expected}")]
    Value {
        /// The fault's name.
        name: &'static str,
        /// As given.
        value: String,
        /// What would fit.
        expected: &'static str,
    },
}

impl Faults {
    /// Adds a fault, written `NAME=VALUE`:
    ///
    /// ```text
    /// delay=200ms          drop=3  drop=10%      late=1500ms  late=1500ms@5  late=1500ms@2%
    /// wrong_unit=OFTEN     wrong_tid=OFTEN       short=OFTEN  long=OFTEN     (OFTEN: 3 is each third, 10% by chance)
    /// exception=2@0x0A95   split=1               close_after=5
    /// ```
    pub fn add(&mut self, text: &str) -> Result<(), FaultError> {
        let (name, value) = text.split_once('=').ok_or_else(|| FaultError::NoValue(text.to_owned()))?;
        let refuse = |name, expected| FaultError::Value { name, value: value.to_owned(), expected };
        let often = |name| often(value).ok_or_else(|| refuse(name, OFTEN));
        match name {
            "delay" => self.delay = duration(value).ok_or_else(|| refuse("delay", DURATION))?,
            "drop" => self.drop = often("drop")?,
            "late" => self.late = Some(late(value).ok_or_else(|| refuse("late", LATE))?),
            "wrong_unit" => self.wrong_unit = often("wrong_unit")?,
            "wrong_tid" => self.wrong_tid = often("wrong_tid")?,
            "short" => self.short = often("short")?,
            "long" => self.long = often("long")?,
            "exception" => {
                self.exceptions
                    .push(exception(value).ok_or_else(|| refuse("exception", "CODE@ADDRESS, as in 2@2709"))?);
            }
            "split" => self.split = Some(value.parse().map_err(|_| refuse("split", "bytes a segment, at least 1"))?),
            "close_after" => {
                let replies = value.parse().map_err(|_| refuse("close_after", "a number of replies, at least 1"))?;
                self.close_after = Some(replies);
            }
            _ => return Err(FaultError::Name(name.to_owned())),
        }
        Ok(())
    }
}

impl Often {
    /// Whether it happens to this reply: the `nth`, from 1 on; `chance` is between 0 and 1.
    pub fn happens(self, nth: u64, chance: f64) -> bool {
        match self {
            Self::Never => false,
            Self::Each(n) => nth.is_multiple_of(u64::from(n.get())),
            Self::Percent(p) => chance * 100.0 < p,
        }
    }
}

fn often(value: &str) -> Option<Often> {
    match value.strip_suffix('%') {
        Some(percent) => percent.parse().ok().filter(|p| (0.0..=100.0).contains(p)).map(Often::Percent),
        None => value.parse().ok().map(Often::Each),
    }
}

fn duration(value: &str) -> Option<Duration> {
    humantime::parse_duration(value).ok().filter(|d| *d <= LONGEST_DELAY)
}

fn late(value: &str) -> Option<(Duration, Often)> {
    let (by, how_often) = value.split_once('@').unwrap_or((value, LATE_OFTEN));
    Some((duration(by)?, often(how_often)?))
}

fn exception(value: &str) -> Option<(u8, u16)> {
    let (code, address) = value.split_once('@')?;
    Some((u8::try_from(number(code)?).ok()?, number(address)?))
}

fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

const NAMES: &str = "they are delay, drop, late, wrong_unit, wrong_tid, short, long, exception, split and close_after";
const OFTEN: &str = "3 means each third reply, 10% one in ten by chance";
const DURATION: &str = "a duration with its unit, as in 200ms, at most 1h";
const LATE: &str = "a duration, and how often, as in 1500ms@5 (each fifth; without it each tenth) or 1500ms@2%";
const LATE_OFTEN: &str = "10";
const LONGEST_DELAY: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(texts: &[&str]) -> Result<Faults, FaultError> {
        let mut faults = Faults::default();
        texts.iter().try_for_each(|t| faults.add(t)).map(|()| faults)
    }

    #[test]
    fn faults_are_read() {
        let each = |n| Often::Each(NonZeroU32::new(n).unwrap());
        let given = [
            "delay=200ms",
            "drop=3",
            "late=1s@2%",
            "exception=0x80@0x0A95",
            "exception=2@7",
            "split=1",
            "close_after=5",
        ];
        let read = faults(&given).unwrap();
        assert_eq!(read.delay, Duration::from_millis(200));
        assert_eq!((read.drop, read.late), (each(3), Some((Duration::from_secs(1), Often::Percent(2.0)))));
        assert_eq!(read.exceptions, [(0x80, 0x0A95), (2, 7)]);
        assert_eq!((read.split.map(NonZeroUsize::get), read.close_after.map(NonZeroU32::get)), (Some(1), Some(5)));
        assert_eq!(faults(&["late=1s"]).unwrap().late, Some((Duration::from_secs(1), each(10))));
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_would_be() {
        let said = |text: &str| faults(&[text]).unwrap_err().to_string();
        assert_eq!(said("delay"), "`delay` is no fault: write NAME=VALUE, as in delay=200ms");
        assert!(said("dely=1s").starts_with("there is no fault `dely`: they are delay, drop"));
        assert_eq!(said("delay=200"), "delay=200: a duration with its unit, as in 200ms, at most 1h");
        assert_eq!(said("drop=0"), "drop=0: 3 means each third reply, 10% one in ten by chance");
        for wrong in
            ["drop=101%", "drop=x", "exception=2", "exception=256@1", "exception=2@70000", "split=0", "close_after=-1"]
        {
            assert!(faults(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn often_is_as_often_as_said() {
        let each = Often::Each(NonZeroU32::new(3).unwrap());
        assert_eq!((1..=9).filter(|n| each.happens(*n, 0.0)).collect::<Vec<_>>(), [3, 6, 9]);
        assert!(Often::Percent(10.0).happens(1, 0.09) && !Often::Percent(10.0).happens(1, 0.11));
        assert!(!Often::Percent(0.0).happens(1, 0.0) && !Often::Never.happens(1, 0.0));
    }
}
