//! Two clocks, never mixed: monotonic time for intervals, wall time for readings.
//!
//! Neither type can read a clock: values come in as arguments, from `gateway::clock` or from a test.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, UNIX_EPOCH};

/// Monotonic time since the process's clock began. For intervals, timeouts and ages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Mono(pub Duration);

impl Mono {
    /// The clock's beginning.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// Time passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Mono {
    type Output = Self;

    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d))
    }
}

impl Sub<Duration> for Mono {
    type Output = Self;

    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(d))
    }
}

/// Wall time: milliseconds since 1970-01-01T00:00:00Z. For what a person or a message reads; may jump.
///
/// Prints as RFC 3339 UTC with milliseconds, the one form of times in every payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Wall(pub u64);

impl Wall {
    /// This time, later by `d`.
    #[must_use]
    pub fn plus(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.as_millis() as u64))
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The library's range ends with the year 9999; a clock beyond it is broken, and the last instant says so.
        const LAST: u64 = 253_402_300_799_999;
        let at = UNIX_EPOCH + Duration::from_millis(self.0.min(LAST));
        fmt::Display::fmt(&humantime::format_rfc3339_millis(at), f)
    }
}

/// One instant on both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Stamp {
    /// For intervals and order.
    pub mono: Mono,
    /// For people and messages.
    pub wall: Wall,
}

impl Stamp {
    /// This instant, later by `d` on both clocks. For tests and for deadlines derived from an event.
    #[must_use]
    pub fn plus(self, d: Duration) -> Self {
        Self { mono: self.mono + d, wall: self.wall.plus(d) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_prints_as_rfc3339_with_milliseconds() {
        assert_eq!(Wall(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Wall(1_796_077_660_042).to_string(), "2026-11-30T22:27:40.042Z");
        assert_eq!(Wall(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn monotonic_time_saturates() {
        assert_eq!(Mono::ZERO.since(Mono(Duration::from_secs(1))), Duration::ZERO);
        assert_eq!(Mono::ZERO - Duration::from_secs(1), Mono::ZERO);
    }
}
