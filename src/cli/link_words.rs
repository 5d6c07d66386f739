//! Words that name a link, shared by the commands that use one.

use super::Failure;
use crate::transport::{LinkAddress, Parity, SerialPort};
use clap::{ArgGroup, Args, ValueEnum};
use std::path::PathBuf;

/// Where a device is.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("link").args(["tcp", "rtu_over_tcp", "serial"]))]
pub(super) struct LinkWords {
    /// Over Modbus TCP.
    #[arg(long, value_name = "HOST:PORT")]
    tcp: Option<String>,
    /// Over TCP with RTU frames: a transparent serial device server.
    #[arg(long, value_name = "HOST:PORT")]
    rtu_over_tcp: Option<String>,
    /// On a serial port.
    #[arg(long, value_name = "DEV")]
    serial: Option<PathBuf>,
    #[command(flatten)]
    characters: CharacterWords,
    /// ASCII instead of RTU on the serial line.
    #[arg(long, requires = "serial")]
    ascii: bool,
}

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
enum ParityWord {
    None,
    Even,
    Odd,
}

impl LinkWords {
    /// The link that is named, if one is.
    pub(super) fn address(&self) -> Result<Option<LinkAddress>, Failure> {
        let endpoint = |flag: &str, text: &str| text.parse().map_err(|e| Failure::User(format!("{flag}: {e}")));
        Ok(if let Some(text) = &self.tcp {
            Some(LinkAddress::Tcp(endpoint("--tcp", text)?))
        } else if let Some(text) = &self.rtu_over_tcp {
            Some(LinkAddress::RtuOverTcp(endpoint("--rtu-over-tcp", text)?))
        } else {
            self.serial.as_ref().map(|path| LinkAddress::Serial(self.characters.port(path.clone(), self.ascii)))
        })
    }
}

impl CharacterWords {
    pub(super) fn port(self, path: PathBuf, ascii: bool) -> SerialPort {
        let parity = match self.parity {
            ParityWord::None => Parity::None,
            ParityWord::Even => Parity::Even,
            ParityWord::Odd => Parity::Odd,
        };
        let Self { baud, data_bits, stop_bits, .. } = self;
        SerialPort { path, baud, data_bits, parity, stop_bits, rs485: false, ascii }
    }
}
