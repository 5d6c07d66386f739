//! What is counted of a link and of each unit on it. Plain numbers; they only rise, but for those called gauges.

use std::collections::BTreeMap;
use std::time::Duration;

/// Traffic, counted for a unit and, once more, for its link. A link's counts keep those of units that left it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests sent, retries among them.
    pub requests: u64,
    /// Believed replies, exceptions among them.
    pub replies: u64,
    /// Attempts that nobody answered in time.
    pub timeouts: u64,
    /// Further attempts of a request.
    pub retries: u64,
    /// Replies dropped: the transaction id fitted, the unit id did not.
    pub unit_mismatch: u64,
    /// Replies dropped: all fitted but the function code.
    pub function_mismatch: u64,
    /// Replies refused: all fitted but the length.
    pub length_mismatch: u64,
    /// Frames that were the awaited reply by unit, function and length, with a wrong checksum.
    pub crc_errors: u64,
    /// Exceptions, by code.
    pub exceptions: BTreeMap<u8, u64>,
    /// From request to believed reply.
    pub round_trip: Histogram,
}

/// Counters of one unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitCounters {
    /// Its traffic.
    pub traffic: Traffic,
    /// Cycles ended, failed ones among them.
    pub cycles: u64,
    /// Cycles in which nothing was answered.
    pub cycles_failed: u64,
    /// Ticks skipped because the cycle before still ran.
    pub cycle_late: u64,
    /// From a cycle's first request to its last reply.
    pub cycle_time: Histogram,
    /// Replies that came after their request had timed out, where their unit id shows it: on serial framing.
    pub late_replies: u64,
    /// Gauge: ranges refused by the device and re-tested now and then only.
    pub quarantined: u64,
    /// Gauge: registers per read that it allows, where it was found to allow fewer than its profile says.
    pub learned_limit: Option<u16>,
}

/// Counters of one link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// The traffic of all units.
    pub traffic: Traffic,
    /// Replies dropped: no request in flight has their transaction id.
    pub transaction_mismatch: u64,
    /// Replies (those among them, on TCP) that belong to a request which had timed out.
    pub late_replies: u64,
    /// Times the stream was no Modbus any more, so that the connection was reset.
    pub lost_sync: u64,
    /// Bytes thrown away at that; on serial framing, bytes that belonged to no frame.
    pub noise_bytes: u64,
    /// Bytes of our own requests that came back.
    pub echo_bytes: u64,
    /// Times that the line gave back a request although it is not said to echo.
    pub echo_suspected: u64,
    /// Connections opened after the first.
    pub reconnects: u64,
    /// Connects that failed.
    pub connect_failures: u64,
    /// Gauge: requests waiting to be sent.
    pub queue_depth: u64,
    /// Time in which at least one request was in flight.
    pub busy: Duration,
    /// Time that all bytes sent and received took on a serial line, by its speed: with the time passed, the line's busy
    /// share. Zero on TCP.
    pub wire: Duration,
    /// Ticks that any unit skipped because its cycle before still ran.
    pub cycle_late: u64,
    /// Ranges that any unit refuses.
    pub quarantined: u64,
}

/// How often a duration fell where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    /// One count for each of [`Histogram::BOUNDS`], then one for what was longer.
    pub counts: [u64; 13],
    /// Sum of all durations.
    pub sum: Duration,
}

impl Histogram {
    /// Upper bounds, inclusive.
    pub const BOUNDS: [Duration; 12] = [
        Duration::from_millis(1),
        Duration::from_millis(2),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(20),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(200),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_secs(2),
        Duration::from_secs(5),
    ];

    /// Counts one.
    pub fn record(&mut self, duration: Duration) {
        self.counts[Self::BOUNDS.partition_point(|bound| *bound < duration)] += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_the_last_count_is_the_rest() {
        let mut h = Histogram::default();
        for ms in [0, 1, 2, 3, 5000, 5001, 1_000_000] {
            h.record(Duration::from_millis(ms));
        }
        assert_eq!(h.counts, [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!((h.count(), h.sum), (7, Duration::from_millis(1_010_007)));
    }
}
