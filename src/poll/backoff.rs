//! Growing pauses between tries. Chance comes in as a seed, so that a test can run it by arithmetic.

use std::time::Duration;

/// Pauses that double from a first to a longest, each shortened by chance to between three quarters and the whole:
/// devices that failed together do not come back together.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    /// Pauses given since the last reset; saturates.
    given: u32,
    chance: u64,
}

impl Backoff {
    /// Pauses from `first` to `longest`. A `longest` below `first` counts as `first`.
    pub fn new(first: Duration, longest: Duration, seed: u64) -> Self {
        Self { first, longest: longest.max(first), given: 0, chance: seed }
    }

    /// The next pause.
    pub fn next_pause(&mut self) -> Duration {
        let doubled = 1u32.checked_shl(self.given).unwrap_or(u32::MAX);
        self.given = self.given.saturating_add(1);
        let whole = self.first.saturating_mul(doubled).min(self.longest);
        whole.saturating_sub((whole / 4).saturating_mul((self.draw() >> 44) as u32) / (1 << 20))
    }

    /// Starts over with the first pause: the last try went well.
    pub fn reset(&mut self) {
        self.given = 0;
    }

    /// The splitmix64 generator.
    fn draw(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30), 7);
        for whole in [1, 2, 4, 8, 16, 30, 30, 30] {
            let pause = backoff.next_pause();
            let whole = Duration::from_secs(whole);
            assert!(pause <= whole && pause >= whole * 3 / 4, "{pause:?} of {whole:?}");
        }
        backoff.reset();
        assert!(backoff.next_pause() <= Duration::from_secs(1));
    }

    #[test]
    fn two_seeds_part() {
        let pauses = |seed| {
            let mut b = Backoff::new(Duration::from_secs(1), Duration::from_secs(30), seed);
            [b.next_pause(), b.next_pause(), b.next_pause()]
        };
        assert_ne!(pauses(1), pauses(2));
        assert_eq!(pauses(3), pauses(3));
    }

    proptest! {
        #[test]
        fn pauses_stay_in_bounds_for_ever(
            first in 0..10_000u64,
            more in 0..100_000u64,
            seed in any::<u64>(),
            tries in 1..200usize,
        ) {
            let (first, longest) = (Duration::from_millis(first), Duration::from_millis(first + more));
            let mut backoff = Backoff::new(first, longest, seed);
            let mut at_least = first * 3 / 4;
            for _ in 0..tries {
                let pause = backoff.next_pause();
                prop_assert!(pause <= longest);
                prop_assert!(pause >= at_least.min(longest * 3 / 4));
                at_least = (at_least * 2).min(longest * 3 / 4);
            }
        }
    }
}
