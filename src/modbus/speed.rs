//! How long characters take on a serial line, and how long it must be silent between frames.
//!
//! Source: MODBUS over Serial Line V1.02, 2.5.1.1: frames are parted by at least 3.5 characters of silence; above
//! 19 200 baud that is a fixed 1.75 ms.

use std::time::Duration;

/// The pace of a serial line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineSpeed {
    /// Bits a second, at least 1.
    pub baud: u32,
    /// Bits of one character on the wire: start, data, parity and stop bits; 7 to 12.
    pub bits_per_character: u8,
}

impl LineSpeed {
    /// Above this, the silence no longer shrinks with the characters.
    const FIXED_SILENCE_ABOVE: u32 = 19_200;

    /// How long so many bytes take on the line, without any silence.
    pub fn time_of(self, bytes: usize) -> Duration {
        let bits = bytes as u64 * u64::from(self.bits_per_character);
        Duration::from_nanos(bits * 1_000_000_000 / u64::from(self.baud.max(1)))
    }

    /// The least silence between two RTU frames: 3.5 characters, 1.75 ms above 19 200 baud.
    pub fn silence(self) -> Duration {
        if self.baud > Self::FIXED_SILENCE_ABOVE { Duration::from_micros(1750) } else { self.time_of(7) / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_three_and_a_half_characters_up_to_19200_baud() {
        let at = |baud| LineSpeed { baud, bits_per_character: 11 };
        assert_eq!(at(19_200).silence().as_micros(), 2005);
        assert_eq!(LineSpeed { baud: 9600, bits_per_character: 11 }.silence().as_micros(), 4010);
        assert_eq!(at(19_201).silence().as_micros(), 1750);
        assert_eq!(at(115_200).silence().as_micros(), 1750);
        // 53 characters of a request and its reply of 20 registers.
        assert_eq!(at(19_200).time_of(53).as_micros(), 30_364);
    }
}
