//! Chance that comes from a printed seed: the same seed, the same world.

/// The splitmix64 generator.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5EED))
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Below `n`, which is above 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    /// From `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with this probability. Draws nothing where it is 0: a fault that is off moves no other chance.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && ((self.draw() >> 11) as f64 / (1u64 << 53) as f64) < probability
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.draw() as u8).collect()
    }
}

/// The finalizer of splitmix64: every bit of the result depends on every bit of `z`.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
