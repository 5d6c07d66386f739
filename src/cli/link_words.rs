//! Words that name a link, shared by the commands that use one.

use crate::simulate::serial::{Parity, Settings};
use clap::{Args, ValueEnum};

/// The characters of a serial line.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct CharacterWords {
    /// Bits a second on the serial line.
    #[arg(long, value_name = "BAUD", default_value_t = 19_200, value_parser = clap::value_parser!(u32).range(50..=4_000_000))]
    baud: u32,
    /// The parity bit on the serial line.
    #[arg(long, value_enum, default_value = "even")]
    parity: ParityWord,
    /// Bits of a character, 7 (for ASCII) or 8.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(7..=8))]
    data_bits: u8,
    /// Stop bits of a character, 1 or 2.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    stop_bits: u8,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ParityWord {
    None,
    Even,
    Odd,
}

impl CharacterWords {
    pub(super) fn settings(self) -> Settings {
        let parity = match self.parity {
            ParityWord::None => Parity::None,
            ParityWord::Even => Parity::Even,
            ParityWord::Odd => Parity::Odd,
        };
        Settings { baud: self.baud, data_bits: self.data_bits, parity, stop_bits: self.stop_bits }
    }
}
