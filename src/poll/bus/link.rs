//! The bus's link: when it connects, gives up, and what becomes of requests that a connection took along.

use super::Bus;
use crate::model::{Fault, Mono, Reason, Stamp};
use crate::poll::belief::InFlight;
use crate::poll::cycle::Job;
use crate::poll::options::Deed;
use crate::poll::unit::Unit;
use std::time::Duration;

/// How the link is.
///
/// `anew`: the far end ended the connection, or there never was one; not we ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    /// Not connected, and not before this time. With a fault: the last connect, or connection, failed.
    Down {
        not_before: Mono,
        fault: Option<Fault>,
        anew: bool,
    },
    Connecting {
        since: Mono,
        fault: Option<Fault>,
        anew: bool,
    },
    /// `silent`: timeouts since the last byte came.
    Up {
        since: Mono,
        answered: bool,
        silent: u32,
    },
}

impl Bus {
    /// Connects where that is due.
    pub(super) fn advance_link(&mut self, now: Stamp) {
        if let LinkState::Connecting { since, .. } = self.link
            && since + self.options.connect_patience <= now.mono
        {
            self.deeds.push_back(Deed::Disconnect);
            self.fail_link(now, Fault::Unreachable);
        }
        if let LinkState::Down { not_before, fault, anew } = self.link
            && not_before <= now.mono
            && self.wants_connection(fault)
        {
            self.link = LinkState::Connecting { since: now.mono, fault, anew };
            self.deeds.push_back(Deed::Connect);
        }
    }

    /// A link that failed is tried again anyhow; one that was closed in peace when somebody has something to say.
    pub(super) fn wants_connection(&self, fault: Option<Fault>) -> bool {
        let mut units = self.units.iter().flatten();
        if fault.is_some() || !self.ever_connected { units.next().is_some() } else { units.any(Unit::is_running) }
    }

    /// The link failed: all that waits for it fails with it.
    pub(super) fn fail_link(&mut self, now: Stamp, fault: Fault) {
        self.counters.connect_failures += 1;
        let not_before = now.mono + self.pauses.next_pause();
        self.link = LinkState::Down { not_before, fault: Some(fault), anew: true };
        self.fail_running(now, Reason::Link, Some(fault));
    }

    /// Closes a connection that nobody needs before the next cycle, where that is wanted.
    pub(super) fn close_if_idle(&mut self, now: Stamp) {
        if self.options.close_after_cycle
            && matches!(self.link, LinkState::Up { .. })
            && self.in_flight.is_empty()
            && !self.units.iter().flatten().any(Unit::is_running)
        {
            self.drop_connection();
            self.link = LinkState::Down { not_before: now.mono, fault: None, anew: false };
        }
    }

    pub(super) fn drop_connection(&mut self) {
        if !matches!(self.link, LinkState::Down { .. }) {
            self.deeds.push_back(Deed::Disconnect);
        }
        self.tx.clear();
        self.sent = 0;
    }

    /// Nothing comes any more: the connection is dead though nobody said so. What it took along goes out once more.
    pub(super) fn give_up_connection(&mut self, now: Stamp, answered: bool) {
        self.drop_connection();
        for flight in self.take_in_flight(now.mono) {
            self.requeue_lost(now, &flight, answered);
        }
        self.link = LinkState::Down { not_before: now.mono, fault: None, anew: false };
    }

    /// What comes is no Modbus: the connection is reset, and what was asked on it failed.
    pub(super) fn reset(&mut self, now: Stamp, answered: bool) {
        self.drop_connection();
        for flight in self.take_in_flight(now.mono) {
            self.attempt_failed(now, &flight, Reason::Length);
        }
        if answered {
            self.link = LinkState::Down { not_before: now.mono, fault: None, anew: true };
        } else {
            self.fail_link(now, Fault::NoReply);
        }
    }

    pub(super) fn take_in_flight(&mut self, now: Mono) -> Vec<InFlight> {
        let flights = std::mem::take(&mut self.in_flight);
        self.note_idle(now);
        flights
    }

    pub(super) fn requeue_lost(&mut self, now: Stamp, flight: &InFlight, answered: bool) {
        if answered && flight.job.resent {
            self.attempt_failed(now, flight, Reason::Link);
        } else if let Some((place, index)) = flight.owner {
            if let Some(running) = self.running(place, index) {
                running.in_flight = false;
                running.jobs.push_front(Job { resent: true, ..flight.job.clone() });
            }
            self.count(flight.owner, |t| t.retries += 1);
        }
    }
}

/// Pauses between connects that failed: first and longest.
pub(super) const RECONNECT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// The same for serial ports: to try costs nothing, and an adapter that is plugged in again is to be used at once.
pub(super) const REOPEN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));
