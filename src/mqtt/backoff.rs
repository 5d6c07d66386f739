//! How long to wait before the next connection. Pure: chance comes in as a number.

use std::time::Duration;

/// Counts what went wrong of late.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Attempts and short connections in a row.
    failures: u32,
    /// Connections in a row that broke right after they had been accepted.
    short_lives: u32,
}

/// How a connection ended, as far as the next one is concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    /// Time since the broker accepted it; nothing if it never did.
    pub(super) lived: Option<Duration>,
    /// The broker says that another client took the session over.
    pub(super) taken_over: bool,
}

impl Backoff {
    /// The wait after this ending. `chance` is in 0 … 1 and spreads gateways that lost one broker at one instant.
    ///
    /// At most a second after a connection that had worked; then doubling from 1 to 30 s; 30 to 40 s where another client
    /// with our name seems to take turns with us (F116): two of them then cost the broker a few connections a minute.
    pub(super) fn after(&mut self, ending: Ending, chance: f64) -> Duration {
        match ending.lived {
            Some(lived) if lived >= SHORT_LIFE => {
                self.failures = 0;
                // Two that take turns both live as long as the other waits: that is no peace yet.
                if !self.is_contested() || lived >= PEACE {
                    self.short_lives = 0;
                }
            }
            Some(_) => (self.failures, self.short_lives) = (self.failures + 1, self.short_lives + 1),
            None => self.failures += 1,
        }
        if ending.taken_over || self.is_contested() {
            return LONGEST + Duration::from_secs(10).mul_f64(chance);
        }
        if self.failures == 0 {
            return Duration::from_millis(100) + Duration::from_millis(900).mul_f64(chance);
        }
        let longest = Duration::from_secs(1 << self.failures.min(5)).min(LONGEST);
        longest.mul_f64(0.5 + chance / 2.0)
    }

    /// Whether another client seems to have our name.
    pub(super) fn is_contested(&self) -> bool {
        self.short_lives > SHORT_LIVES_MAX
    }
}

/// A connection that broke sooner after CONNACK did not work.
const SHORT_LIFE: Duration = Duration::from_secs(5);

/// So many of them in a row may have other causes.
const SHORT_LIVES_MAX: u32 = 3;

/// Nobody has taken our place for so long: nobody does.
const PEACE: Duration = Duration::from_mins(2);

const LONGEST: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Ending = Ending { lived: None, taken_over: false };
    const fn lived(seconds: u64) -> Ending {
        Ending { lived: Some(Duration::from_secs(seconds)), taken_over: false }
    }

    fn seconds(d: Duration) -> f64 {
        d.as_secs_f64()
    }

    #[test]
    fn f120_first_fast_then_doubling_to_half_a_minute_for_ever() {
        for chance in [0.0, 0.5, 1.0] {
            let mut backoff = Backoff::default();
            assert!(seconds(backoff.after(lived(3600), chance)) <= 1.0);
            for longest in [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0] {
                let wait = seconds(backoff.after(REFUSED, chance));
                assert!((longest / 2.0..=longest).contains(&wait), "{wait} of {longest}");
            }
            for _ in 0..10_000 {
                assert!((15.0..=30.0).contains(&seconds(backoff.after(REFUSED, chance))));
            }
            assert!(seconds(backoff.after(lived(6), chance)) <= 1.0);
        }
    }

    #[test]
    fn f116_a_takeover_waits_half_a_minute() {
        let mut backoff = Backoff::default();
        let taken = Ending { lived: Some(Duration::from_mins(1)), taken_over: true };
        assert!(seconds(backoff.after(taken, 0.0)) >= 30.0);
        // Brokers that do not say why (3.1.1 bridges): the pattern alone.
        let mut backoff = Backoff::default();
        for _ in 0..3 {
            assert!(seconds(backoff.after(lived(1), 1.0)) <= 8.0);
            assert!(!backoff.is_contested());
        }
        assert!(seconds(backoff.after(lived(1), 0.0)) >= 30.0);
        assert!(backoff.is_contested());
        assert!(seconds(backoff.after(lived(35), 0.0)) >= 30.0);
        assert!(seconds(backoff.after(lived(120), 1.0)) <= 1.0);
        assert!(!backoff.is_contested());
    }
}
