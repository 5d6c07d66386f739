//! Ranges that a device refuses: not asked for in every cycle, but re-tested, so that a refusal born of noise heals.

use super::{Backoff, Wanted};
use crate::model::{Mono, Stamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// The refused ranges of one unit. Bound: one entry for each atom of its plans.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    refused: BTreeMap<Wanted, Refusal>,
}

/// A range that was refused when last asked for.
#[derive(Debug)]
struct Refusal {
    code: u8,
    came: Stamp,
    test_at: Mono,
    pauses: Backoff,
}

impl Quarantine {
    /// Takes note of a refusal. `proven`: the range was good before, so it may well be so again soon.
    pub(super) fn refuse(&mut self, atom: Wanted, code: u8, proven: bool, now: Stamp, seed: u64) {
        let refusal = self.refused.entry(atom).or_insert_with(|| {
            let (first, longest) = if proven { PROVEN_TEST } else { UNPROVEN_TEST };
            Refusal { code, came: now, test_at: now.mono, pauses: Backoff::new(first, longest, seed) }
        });
        refusal.code = code;
        refusal.came = now;
        refusal.test_at = now.mono + refusal.pauses.next_pause();
    }

    /// The range was read: it is free.
    pub(super) fn free(&mut self, atom: Wanted) {
        if !self.refused.is_empty() {
            self.refused.remove(&atom);
        }
    }

    /// Code and time of the last refusal, where the range need not be asked for now.
    pub(super) fn spares(&self, atom: Wanted, now: Mono) -> Option<(u8, Stamp)> {
        self.refused.get(&atom).filter(|r| now < r.test_at).map(|r| (r.code, r.came))
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.refused.len()
    }
}

/// Re-tests of what was good before: first and longest pause.
const PROVEN_TEST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// Re-tests of what never was.
const UNPROVEN_TEST: (Duration, Duration) = (Duration::from_mins(10), Duration::from_mins(10));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::{Address, AddressRange, Table};

    #[test]
    fn f46_what_was_good_is_tested_within_a_minute_and_what_never_was_within_ten() {
        let atom = Wanted { table: Table::HoldingRegister, range: AddressRange::new(Address(9), 1).unwrap() };
        let at = |s| Stamp::default().plus(Duration::from_secs(s));
        for (proven, longest) in [(true, 60), (false, 600)] {
            let mut quarantine = Quarantine::default();
            for round in 0..20 {
                let now = at(round * 1000);
                quarantine.refuse(atom, 3, proven, now, 1);
                assert_eq!(quarantine.spares(atom, now.mono), Some((3, now)));
                assert_eq!(quarantine.spares(atom, at(round * 1000 + longest).mono), None);
            }
            assert_eq!(quarantine.len(), 1);
            quarantine.free(atom);
            assert_eq!(quarantine.spares(atom, at(19_000).mono), None);
        }
    }
}
