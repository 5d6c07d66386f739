//! How far a value can be trusted, and why not further.

use std::fmt;

/// The five words of quality (`spec`: Quality).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QualityCode {
    /// As read in the last cycle.
    Good,
    /// Read, but not certain: an unknown label, a counter held back.
    Uncertain,
    /// Read or refused, and not usable: the last good value is kept.
    Bad,
    /// Not read of late: the last value is kept and must not be acted upon.
    Stale,
    /// The device says that it has no such value now. No fault: does not degrade the device.
    Absent,
}

impl QualityCode {
    /// The word in payloads.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Uncertain => "uncertain",
            Self::Bad => "bad",
            Self::Stale => "stale",
            Self::Absent => "absent",
        }
    }
}

/// Why a quality is not good. `Display` gives the word in payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The device's own pattern for "not available", NaN, ±`FLT_MAX`, or a condition (`valid_when`) not met.
    NotAvailable,
    /// The register held an infinity.
    Inf,
    /// Outside the profile's limits.
    OutOfRange,
    /// A number without a label.
    UnknownLabel,
    /// The device refused the register with this exception code.
    Exception(u8),
    /// No reply within the device's timeout.
    Timeout,
    /// A reply with a wrong checksum.
    Crc,
    /// A reply of the wrong length or kind.
    Length,
    /// The link was down.
    Link,
    /// No good cycle for three intervals, whatever the poller says.
    Overdue,
    /// The device counts as offline, or the gateway was stopped.
    Offline,
    /// The gateway has just started.
    Starting,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAvailable => "not_available",
            Self::Inf => "inf",
            Self::OutOfRange => "out_of_range",
            Self::UnknownLabel => "unknown_label",
            Self::Exception(code) => return write!(f, "exception({code})"),
            Self::Timeout => "timeout",
            Self::Crc => "crc",
            Self::Length => "length",
            Self::Link => "link",
            Self::Overdue => "overdue",
            Self::Offline => "offline",
            Self::Starting => "starting",
        })
    }
}

/// A code with its reason; `Good` has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quality {
    /// Never read and nothing known against it: no entry in the shadow at all.
    Unread,
    /// As read in the last cycle.
    Good,
    /// Anything but good, with its reason.
    Not(QualityCode, Reason),
}

impl Quality {
    /// The code, or nothing where the point was never read.
    pub fn code(self) -> Option<QualityCode> {
        match self {
            Self::Unread => None,
            Self::Good => Some(QualityCode::Good),
            Self::Not(code, _) => Some(code),
        }
    }

    /// Whether this quality makes its device degraded: bad and stale do, absent and uncertain do not.
    pub fn degrades(self) -> bool {
        matches!(self, Self::Not(QualityCode::Bad | QualityCode::Stale, _))
    }
}
