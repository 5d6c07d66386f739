//! Faults on request: what pretend devices do wrong, and how often.

use super::Framing;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

/// What goes wrong. Default: nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults {
    /// All chance comes from this: equal seeds and equal requests give equal replies.
    pub seed: u64,
    /// Each reply waits for so long.
    pub delay: Duration,
    /// Each reply waits for so long at most, by chance, besides.
    pub jitter: Duration,
    /// Replies that never come.
    pub drop: Often,
    /// Replies that come so much later, after others perhaps.
    pub late: Option<(Duration, Often)>,
    /// Replies of another unit.
    pub wrong_unit: Often,
    /// Replies with another transaction id; Modbus TCP only.
    pub wrong_tid: Often,
    /// Replies whose last two bytes are missing, byte count and all.
    pub short: Often,
    /// Replies with two bytes too many, byte count and all.
    pub long: Often,
    /// Replies with one bit turned over behind their checksum's back; not on Modbus TCP, which has none.
    pub crc: Often,
    /// The request comes back before the reply, as from an adapter that hears itself.
    pub echo: Often,
    /// Bytes that nobody sent, before and after a reply.
    pub noise: Option<(Noise, Often)>,
    /// Reads that touch an address get an exception: (code, address).
    pub exceptions: Vec<(u8, u16)>,
    /// Reads that touch an address from the first to the last get exception 2.
    pub holes: Vec<(u16, u16)>,
    /// So many requests to each unit, the first ones, get exception 6.
    pub busy: u32,
    /// Replies come in segments of so many bytes, 2 ms apart.
    pub split: Option<NonZeroUsize>,
    /// The connection is closed after so many replies; TCP only.
    pub close_after: Option<NonZeroU32>,
    /// While one client is connected, another is reset at once; TCP only.
    pub refuse_second_client: bool,
    /// Requests that are not heard at a connection's beginning (on a serial line: at the start).
    pub ignore_first: Option<First>,
    /// Bytes that greet each connection; TCP only.
    pub hello: Vec<u8>,
    /// Replies whose every second register is the one of the reply before: a 32-bit value's words out of two moments.
    pub word_tear: Often,
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

/// How much noise there is about a reply: random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noise {
    /// Before it, at most 64.
    pub before: u8,
    /// After it, at most 64.
    pub after: u8,
}

/// What counts as the beginning of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// So many requests.
    Requests(u32),
    /// So much time.
    Time(Duration),
}

/// Why a text names no fault. The user's arguments are to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No `=` in it.
    #[error("`{0}` is no fault: write NAME=VALUE, as in delay=200ms")]
    NoValue(String),
    /// No such fault.
    #[error("there is no fault `{0}`: they are {names}", names = NAMES.join(", "))]
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
    /// The link has nothing that could go wrong so.
    #[error("{name}: {reason}")]
    Link {
        /// The fault's name.
        name: &'static str,
        /// Why it cannot be on this link.
        reason: &'static str,
    },
}

impl Faults {
    /// Every fault with its forms, for people.
    pub const HELP: &'static str = "\
Faults, combinable; OFTEN: 3 is each third reply, 10% one in ten by chance:
  delay=200ms             each reply waits
  jitter=50ms             each reply waits up to so long besides, by chance
  drop=OFTEN              no reply
  late=1500ms@OFTEN       replies that come so much later (without @OFTEN each tenth)
  wrong_unit=OFTEN        replies of another unit
  wrong_tid=OFTEN         replies with another transaction id (Modbus TCP)
  short=OFTEN             two bytes of data too few, byte count and checksum to match
  long=OFTEN              two bytes of data too many, byte count and checksum to match
  crc=OFTEN               one bit turned over, the checksum says so (not on Modbus TCP)
  echo, echo=OFTEN        the request comes back before the reply
  noise=OFTEN             1 to 4 random bytes before and after a reply
  noise=2+3@OFTEN         so many before and after (without @OFTEN about each reply)
  exception=CODE@ADDR     reads that touch the address get this exception
  holes=2709,300-310      reads that touch these addresses get exception 2
  busy=3                  the first requests to each unit get exception 6
  split=1                 replies in segments of so many bytes, 2 ms apart
  close_after=5           the connection closes after so many replies (TCP)
  second_client=refuse    while one client is connected, others are reset (TCP)
  ignore_first=2          so many requests of a connection's beginning are not heard
  ignore_first=1500ms     the same for so long
  hello=0011FF            bytes that greet each connection (TCP)
  word_tear=OFTEN         every second register is that of the last reply to the same
                          request, as of a device that updates the words of a value
                          at two moments; seen only where values move (--count)";

    /// Adds a fault, written `NAME=VALUE`; [`Faults::HELP`] has all forms.
    pub fn add(&mut self, text: &str) -> Result<(), FaultError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, value),
            None if text == "echo" => (text, "1"),
            None => return Err(FaultError::NoValue(text.to_owned())),
        };
        let name = *NAMES.iter().find(|n| **n == name).ok_or_else(|| FaultError::Name(name.to_owned()))?;
        let refuse = |expected| FaultError::Value { name, value: value.to_owned(), expected };
        let how_often = || often(value).ok_or_else(|| refuse(OFTEN));
        let how_long = || duration(value).ok_or_else(|| refuse(DURATION));
        match name {
            "delay" => self.delay = how_long()?,
            "jitter" => self.jitter = how_long()?,
            "drop" => self.drop = how_often()?,
            "late" => self.late = Some(late(value).ok_or_else(|| refuse(LATE))?),
            "wrong_unit" => self.wrong_unit = how_often()?,
            "wrong_tid" => self.wrong_tid = how_often()?,
            "short" => self.short = how_often()?,
            "long" => self.long = how_often()?,
            "crc" => self.crc = how_often()?,
            "echo" => self.echo = how_often()?,
            "noise" => self.noise = Some(noise(value).ok_or_else(|| refuse(NOISE))?),
            "exception" => {
                self.exceptions.push(exception(value).ok_or_else(|| refuse("CODE@ADDRESS, as in 2@2709"))?);
            }
            "holes" => self.holes.extend(holes(value).ok_or_else(|| refuse(HOLES))?),
            "busy" => self.busy = value.parse().map_err(|_| refuse("a number of requests"))?,
            "split" => self.split = Some(value.parse().map_err(|_| refuse("bytes a segment, at least 1"))?),
            "close_after" => {
                self.close_after = Some(value.parse().map_err(|_| refuse("a number of replies, at least 1"))?);
            }
            "second_client" => match value {
                "refuse" => self.refuse_second_client = true,
                _ => return Err(refuse("the one value is refuse")),
            },
            "ignore_first" => self.ignore_first = Some(first(value).ok_or_else(|| refuse(FIRST))?),
            "hello" => self.hello = hex(value).ok_or_else(|| refuse("1 to 64 bytes in hex, as in 0011FF"))?,
            _ => self.word_tear = how_often()?,
        }
        Ok(())
    }

    /// Refuses faults that a link of this framing cannot have; `stream`: it is TCP, with connections.
    pub fn check(&self, framing: Framing, stream: bool) -> Result<(), FaultError> {
        let refuse = |name, reason| Err(FaultError::Link { name, reason });
        if framing == Framing::Mbap && self.crc != Often::Never {
            return refuse("crc", "Modbus TCP has no checksum");
        }
        if framing != Framing::Mbap && self.wrong_tid != Often::Never {
            return refuse("wrong_tid", "only Modbus TCP has transaction ids");
        }
        let connections = [
            ("close_after", self.close_after.is_some()),
            ("second_client", self.refuse_second_client),
            ("hello", !self.hello.is_empty()),
        ];
        match connections.into_iter().find(|(_, asked)| *asked && !stream) {
            Some((name, _)) => refuse(name, "a serial line has no connections"),
            None => Ok(()),
        }
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

fn noise(value: &str) -> Option<(Noise, Often)> {
    if !value.contains('+') {
        return Some((USUAL_NOISE, often(value)?));
    }
    let (bytes, how_often) = value.split_once('@').unwrap_or((value, "1"));
    let (before, after) = bytes.split_once('+')?;
    let few = |text: &str| text.parse().ok().filter(|n| *n <= MOST_NOISE);
    Some((Noise { before: few(before)?, after: few(after)? }, often(how_often)?))
}

fn exception(value: &str) -> Option<(u8, u16)> {
    let (code, address) = value.split_once('@')?;
    Some((u8::try_from(number(code)?).ok()?, number(address)?))
}

fn holes(value: &str) -> Option<Vec<(u16, u16)>> {
    let hole = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((number(first)?, number(last)?)).filter(|(first, last)| first <= last)
    };
    value.split(',').map(hole).collect()
}

fn first(value: &str) -> Option<First> {
    value.parse().map(First::Requests).ok().or_else(|| duration(value).map(First::Time))
}

fn hex(value: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = value.as_bytes().as_chunks::<2>();
    let digit = |c: u8| char::from(c).to_digit(16);
    let bytes = pairs.iter().map(|[a, b]| Some((digit(*a)? * 16 + digit(*b)?) as u8));
    bytes
        .collect::<Option<Vec<u8>>>()
        .filter(|b| rest.is_empty() && !b.is_empty() && b.len() <= usize::from(MOST_NOISE))
}

fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

const NAMES: [&str; 20] = [
    "delay",
    "jitter",
    "drop",
    "late",
    "wrong_unit",
    "wrong_tid",
    "short",
    "long",
    "crc",
    "echo",
    "noise",
    "exception",
    "holes",
    "busy",
    "split",
    "close_after",
    "second_client",
    "ignore_first",
    "hello",
    "word_tear",
];
const OFTEN: &str = "3 means each third reply, 10% one in ten by chance";
const DURATION: &str = "a duration with its unit, as in 200ms, at most 1h";
const LATE: &str = "a duration, and how often, as in 1500ms@5 (each fifth; without it each tenth) or 1500ms@2%";
const NOISE: &str = "how often, as in 5 or 10%; or bytes before and after, at most 64 each, as in 2+3 or 2+3@10%";
const HOLES: &str = "addresses, as in 2709 or 0x0A95,300-310";
const FIRST: &str = "a number of requests, as in 1, or a time, as in 1500ms";
const LATE_OFTEN: &str = "10";
const LONGEST_DELAY: Duration = Duration::from_hours(1);
/// Up to so many bytes, by chance.
pub(super) const USUAL_NOISE: Noise = Noise { before: 4, after: 4 };
const MOST_NOISE: u8 = 64;

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
        let read =
            faults(&["echo", "crc=2", "noise=2+3", "holes=5,0x10-18", "holes=30", "busy=3", "hello=00fF"]).unwrap();
        assert_eq!((read.echo, read.crc), (each(1), each(2)));
        assert_eq!(read.noise, Some((Noise { before: 2, after: 3 }, each(1))));
        assert_eq!((read.holes, read.busy, read.hello), (vec![(5, 5), (16, 18), (30, 30)], 3, vec![0, 255]));
        let read = faults(&["noise=10%", "second_client=refuse", "ignore_first=1500ms", "jitter=5ms"]).unwrap();
        assert_eq!(read.noise, Some((USUAL_NOISE, Often::Percent(10.0))));
        assert_eq!(read.ignore_first, Some(First::Time(Duration::from_millis(1500))));
        assert_eq!(faults(&["ignore_first=1"]).unwrap().ignore_first, Some(First::Requests(1)));
    }

    #[test]
    fn the_help_names_every_fault_and_no_other() {
        let lines = Faults::HELP.lines().skip(1).filter_map(|l| l.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
        let mut named: Vec<&str> = lines.filter_map(|l| l.split(['=', ',']).next()).collect();
        named.dedup();
        assert_eq!(named, NAMES);
    }

    #[test]
    fn faults_that_a_link_cannot_have_are_refused() {
        let said = |text, framing, stream| faults(&[text]).unwrap().check(framing, stream).map_err(|e| e.to_string());
        assert_eq!(said("crc=1", Framing::Mbap, true), Err("crc: Modbus TCP has no checksum".to_owned()));
        assert!(said("wrong_tid=1", Framing::Rtu, true).is_err());
        assert_eq!(said("hello=00", Framing::Rtu, false), Err("hello: a serial line has no connections".to_owned()));
        assert_eq!(said("hello=00", Framing::Rtu, true), Ok(()));
        assert_eq!(said("crc=1", Framing::Ascii, false), Ok(()));
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_would_be() {
        let said = |text: &str| faults(&[text]).unwrap_err().to_string();
        assert_eq!(said("delay"), "`delay` is no fault: write NAME=VALUE, as in delay=200ms");
        assert!(said("dely=1s").starts_with("there is no fault `dely`: they are delay, jitter, drop"));
        assert_eq!(said("delay=200"), "delay=200: a duration with its unit, as in 200ms, at most 1h");
        assert_eq!(said("drop=0"), "drop=0: 3 means each third reply, 10% one in ten by chance");
        assert_eq!(said("second_client=1"), "second_client=1: the one value is refuse");
        for wrong in [
            "drop=101%",
            "drop=x",
            "exception=2",
            "exception=256@1",
            "exception=2@70000",
            "split=0",
            "close_after=-1",
            "crc",
            "echo=0",
            "noise=65+0",
            "noise=1+",
            "noise=+",
            "holes=5-4",
            "holes=1,",
            "busy=-1",
            "ignore_first=1500",
            "ignore_first=x",
            "hello=",
            "hello=012",
            "hello=0g",
        ] {
            // 1500 requests are possible, if odd.
            assert_eq!(faults(&[wrong]).is_err(), wrong != "ignore_first=1500", "{wrong}");
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
