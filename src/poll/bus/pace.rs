//! When a line may be spoken on: its silences, and replies that are still owed.
//!
//! A reply on serial framing does not say which request it answers. One that comes after its request has timed out looks
//! like the answer to the next request of the same unit, function and length; so, after a timeout,
//!
//! - the unit is left alone until its late reply has been seen, or for its patience once more (at most [`RECOVERY_MAX`]),
//!   or, where it has been later than that, for as long as it was late at most ([`LATEST`]);
//! - the line is left alone while that unit, by the longest answer time seen of it, may still speak (at most
//!   [`RECOVERY_MAX`] after the timeout). Units that never were late cost the others nothing beyond the timeout: what a
//!   dead unit costs, all others pay.
//!
//! In the meantime other units are asked: their replies have another unit id.

use crate::modbus::{LineSpeed, UnitId};
use crate::model::Mono;
use std::time::Duration;

/// The silences of one link. Bound: one entry for each unit id.
#[derive(Debug)]
pub(super) struct Pace {
    /// Nothing on TCP.
    silence: Option<Duration>,
    line: Option<LineSpeed>,
    /// When the last byte was on the line, of either side.
    last_byte: Mono,
    /// The line is left alone before.
    hushed_until: Mono,
    units: Vec<Answers>,
}

/// How a unit answers.
#[derive(Debug)]
struct Answers {
    unit_id: UnitId,
    /// The longest time from a request's end to its reply's, seen of late: it shrinks with every reply that never came.
    longest: Duration,
    owed: Option<Owed>,
}

/// A reply that may still come.
#[derive(Debug, Clone, Copy)]
struct Owed {
    sent_end: Mono,
    until: Mono,
}

impl Pace {
    pub(super) fn new(is_serial: bool, line: Option<LineSpeed>) -> Self {
        let silence = is_serial.then(|| line.map_or(CONVERTER_GUARD, LineSpeed::silence));
        Self { silence, line, last_byte: Mono::ZERO, hushed_until: Mono::ZERO, units: Vec::new() }
    }

    /// A byte is on the line at this time.
    pub(super) fn note_bytes(&mut self, at: Mono) {
        self.last_byte = self.last_byte.max(at);
    }

    /// How long so many bytes take; nothing where the line has no known speed.
    pub(super) fn time_of(&self, bytes: usize) -> Duration {
        self.line.map_or(Duration::ZERO, |line| line.time_of(bytes))
    }

    /// How long a reply of so many bytes takes from its first byte on.
    pub(super) fn reply_time(&self, bytes: usize) -> Duration {
        self.line.map_or(Duration::ZERO, |line| line.time_of(bytes) + line.silence())
    }

    /// When a request may begin, as far as it depends on the line: silence and the device's own turnaround after the
    /// last byte.
    pub(super) fn line_free_at(&self, turnaround: Duration) -> Mono {
        match self.silence {
            Some(silence) => (self.last_byte + silence + turnaround).max(self.hushed_until),
            None => self.hushed_until,
        }
    }

    /// When a unit owes nothing any more.
    pub(super) fn settled_at(&self, unit_id: UnitId) -> Mono {
        let owed = self.units.iter().find(|u| u.unit_id == unit_id).and_then(|u| u.owed);
        owed.map_or(Mono::ZERO, |o| o.until)
    }

    /// A unit answered so long after its request.
    pub(super) fn note_answer(&mut self, unit_id: UnitId, took: Duration) {
        let answers = self.of(unit_id);
        answers.longest = answers.longest.max(took);
        answers.owed = None;
    }

    /// A request timed out: its reply may still come.
    pub(super) fn owes(&mut self, unit_id: UnitId, sent_end: Mono, now: Mono, patience: Duration) {
        let answers = self.of(unit_id);
        let late = (sent_end + answers.longest).since(now);
        let until = now + patience.min(RECOVERY_MAX).max(late.min(LATEST));
        answers.longest = answers.longest / 8 * 7;
        answers.owed = Some(Owed { sent_end, until });
        self.hushed_until = self.hushed_until.max(now + late.min(RECOVERY_MAX));
    }

    /// A unit said something that answers no request in flight; whether that was a reply it owed.
    pub(super) fn settles(&mut self, unit_id: UnitId, now: Mono) -> bool {
        let answers = self.of(unit_id);
        let Some(owed) = answers.owed.take() else { return false };
        answers.longest = answers.longest.max(now.since(owed.sent_end));
        self.hushed_until = self.hushed_until.min(now);
        true
    }

    fn of(&mut self, unit_id: UnitId) -> &mut Answers {
        let place = self.units.iter().position(|u| u.unit_id == unit_id).unwrap_or_else(|| {
            self.units.push(Answers { unit_id, longest: Duration::ZERO, owed: None });
            self.units.len() - 1
        });
        &mut self.units[place]
    }
}

/// Least silence where RTU frames go over TCP: the converter keeps the line's own.
const CONVERTER_GUARD: Duration = Duration::from_millis(2);
/// Longest wait for a late reply of which nothing is known.
const RECOVERY_MAX: Duration = Duration::from_secs(1);
/// Longest wait for a late reply of a unit that was so late before.
const LATEST: Duration = Duration::from_secs(10);
