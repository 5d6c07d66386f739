//! What the registers of a device hold at each instant: a function of address and time, hence its own history.
//!
//! All registers of a device change at once, at each of its ticks, and every one of 65 536 ticks in a row gives a
//! register another word. So a word tells the one tick (modulo 65 536) at which its register held it, and two words of
//! one reply that tell different ticks were never in the device together.

use super::chance::mix;
use fieldshadow::modbus::Table;

/// Microseconds of the world.
pub type Micros = u64;

/// The registers of one device.
#[derive(Debug, Clone)]
pub struct Memory {
    pub seed: u64,
    /// How long all registers stand still between two changes.
    pub step: Micros,
}

/// Odd, so that multiplying by it can be undone.
const FACTOR: u16 = 0x9E37;
const INVERSE: u16 = inverse(FACTOR);

const fn inverse(odd: u16) -> u16 {
    let mut x: u16 = odd;
    let mut i = 0;
    while i < 5 {
        x = x.wrapping_mul(2u16.wrapping_sub(odd.wrapping_mul(x)));
        i += 1;
    }
    x
}

impl Memory {
    pub fn tick(&self, at: Micros) -> u64 {
        at / self.step
    }

    pub fn word(&self, table: Table, address: u16, tick: u64) -> u16 {
        let (add, flip) = self.keys(table, address);
        (tick as u16).wrapping_mul(FACTOR).wrapping_add(add) ^ flip
    }

    pub fn bit(&self, table: Table, address: u16, tick: u64) -> bool {
        let (add, flip) = self.keys(table, address);
        mix(tick ^ (u64::from(add) << 40) ^ (u64::from(flip) << 24)) & 1 == 1
    }

    /// The tick, modulo 65 536, at which a register holds this word.
    pub fn tick_of(&self, table: Table, address: u16, word: u16) -> u16 {
        let (add, flip) = self.keys(table, address);
        (word ^ flip).wrapping_sub(add).wrapping_mul(INVERSE)
    }

    /// The tick between two instants (both included) at which the registers from `first` on held all these words.
    pub fn when_words(&self, table: Table, first: u16, words: &[u16], from: Micros, to: Micros) -> Option<u64> {
        let (begin, end) = (self.tick(from), self.tick(to));
        let tick = begin + u64::from(self.tick_of(table, first, *words.first()?).wrapping_sub(begin as u16));
        let held = (first..).zip(words).all(|(a, w)| self.word(table, a, tick) == *w);
        (tick <= end && held).then_some(tick)
    }

    /// The same for bits; several ticks may fit, the first is given.
    pub fn when_bits(&self, table: Table, first: u16, bits: &[bool], from: Micros, to: Micros) -> Option<u64> {
        (self.tick(from)..=self.tick(to)).find(|t| (first..).zip(bits).all(|(a, b)| self.bit(table, a, *t) == *b))
    }

    fn keys(&self, table: Table, address: u16) -> (u16, u16) {
        let h = mix(self.seed ^ (u64::from(table.read_function()) << 16) ^ u64::from(address));
        (h as u16, (h >> 16) as u16)
    }
}

#[test]
fn a_word_tells_when_its_register_held_it() {
    let memory = Memory { seed: 7, step: 2000 };
    let at = 131_072_000 * 3 + 5000;
    let words: Vec<u16> = (100..110).map(|a| memory.word(Table::HoldingRegister, a, memory.tick(at))).collect();
    let when = |words: &[u16], from, to| memory.when_words(Table::HoldingRegister, 100, words, from, to);
    assert_eq!(when(&words, at - 10_000, at + 10_000), Some(memory.tick(at)));
    assert_eq!(when(&words, at, at), Some(memory.tick(at)));
    assert_eq!(when(&words, at - 10_000, at - 2000), None);
    assert_eq!(when(&words, at + 2000, at + 90_000), None);
    let mut torn = words.clone();
    torn[7] = memory.word(Table::HoldingRegister, 107, memory.tick(at) + 1);
    assert_eq!(when(&torn, at - 10_000, at + 10_000), None);
}
