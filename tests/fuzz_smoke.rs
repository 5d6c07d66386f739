//! A short run of every fuzz target, in the ordinary test command: the stored corpus, then inputs made from it.
//!
//! The seed is printed; `FIELDSHADOW_FUZZ_SEED=N` repeats a run. `fuzz/` has the same targets for long runs. A planted
//! fault must be found by the same means, or the alarm does not work.

use fieldshadow::fuzz;
use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Inputs made for each target, at most, and the time for them: this is a smoke run.
const INPUTS: u32 = 20_000;
const TIME: Duration = Duration::from_millis(1300);
/// No input is longer than this; none may take longer than that.
const LONGEST: usize = 2048;
const SLOWEST: Duration = Duration::from_secs(3);

struct Chance(Cell<u64>);

impl Chance {
    /// The generator `SplitMix64`.
    fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        let mut z = self.0.get();
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// One corpus item with a few changes, now and then with a piece of another.
fn made(corpus: &[Vec<u8>], chance: &Chance) -> Vec<u8> {
    let mut bytes = corpus[chance.below(corpus.len())].clone();
    for _ in 0..=chance.below(6) {
        let at = chance.below(bytes.len() + 1);
        let byte = chance.next() as u8;
        match chance.below(9) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << (byte & 7),
            2 if at < bytes.len() => bytes[at] = byte,
            3 if at < bytes.len() => bytes[at] = [0, 1, 0x7F, 0x80, 0x83, 0xFF][usize::from(byte) % 6],
            4 => bytes.insert(at, byte),
            5 if at < bytes.len() => drop(bytes.remove(at)),
            6 => bytes.truncate(at),
            7 => {
                let other = &corpus[chance.below(corpus.len())];
                let from = chance.below(other.len() + 1);
                bytes.splice(at..at, other[from..].iter().copied());
            }
            _ => {
                let end = at + chance.below(bytes.len() + 1 - at);
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
        bytes.truncate(LONGEST);
    }
    bytes
}

/// Runs a target; gives how many inputs it bore, or the one it did not.
fn run(target: fn(&[u8]), corpus: &[Vec<u8>], seed: u64) -> Result<u32, Vec<u8>> {
    let chance = Chance(Cell::new(seed));
    let began = Instant::now();
    let mut count = 0;
    for i in 0.. {
        let input = corpus.get(i).cloned().unwrap_or_else(|| made(corpus, &chance));
        if i >= corpus.len() && (count >= INPUTS || began.elapsed() > TIME) {
            break;
        }
        let one = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() || one.elapsed() > SLOWEST {
            return Err(input);
        }
        count += 1;
    }
    Ok(count)
}

fn seed() -> u64 {
    let given = std::env::var("FIELDSHADOW_FUZZ_SEED").ok().and_then(|s| s.parse().ok());
    given.unwrap_or_else(|| RandomState::new().build_hasher().finish())
}

/// All files of a target's folder, of the targets given besides, by name.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.into_iter().map(|f| fs::read(f).unwrap()).collect()
}

fn smoke(name: &str, target: fn(&[u8]), more: Vec<Vec<u8>>) {
    let seed = seed();
    let corpus = [corpus(name), more].concat();
    match run(target, &corpus, seed) {
        Ok(count) => {
            println!("fuzz: {name}: {count} inputs, seed {seed}");
            assert!(count > 200, "only {count} inputs: too slow to find anything");
        }
        Err(input) => {
            let hex = input.iter().fold(String::new(), |mut text, b| {
                let _ = write!(text, "{b:02X}");
                text
            });
            panic!(
                "{name} does not bear this input (seed {seed}): {hex}\nas text: {:?}",
                String::from_utf8_lossy(&input)
            );
        }
    }
}

#[test]
fn mbap() {
    smoke("mbap", fuzz::mbap, vec![]);
}

#[test]
fn rtu() {
    smoke("rtu", fuzz::rtu, vec![]);
}

#[test]
fn ascii() {
    smoke("ascii", fuzz::ascii, vec![]);
}

#[test]
fn pdu() {
    smoke("pdu", fuzz::pdu, vec![]);
}

#[test]
fn bus_events() {
    smoke("bus_events", fuzz::bus_events, vec![]);
}

#[test]
fn yaml() {
    let profiles = Path::new(env!("CARGO_MANIFEST_DIR")).join("device-profiles");
    let pieces = ["inovance/is620p.yaml", "eastron/sdm230.yaml"].map(|p| {
        // Whole profiles are long: a piece of each has every kind of key.
        let mut text = fs::read(profiles.join(p)).unwrap();
        text.truncate(LONGEST);
        text
    });
    smoke("yaml", fuzz::yaml, pieces.to_vec());
}

#[test]
fn dump() {
    smoke("dump", fuzz::dump, vec![]);
}

/// A decoder with a fault of a well-known kind: it believes the byte count of a reply.
fn planted(bytes: &[u8]) {
    if let [_, _, 0, 0, 0, _, _, 3 | 4, count, values @ ..] = bytes
        && !values.is_empty()
    {
        assert!(usize::from(*count) <= values.len(), "planted: this panic is meant to be seen");
    }
}

#[test]
fn a_planted_fault_is_found() {
    let good = vec![0, 1, 0, 0, 0, 7, 1, 3, 4, 0, 0, 0, 1];
    planted(&good);
    let found = run(planted, &[good], 1).expect_err("the planted fault was not found: the alarm does not work");
    // And the input is the one to blame.
    assert!(catch_unwind(|| planted(&found)).is_err());
}
