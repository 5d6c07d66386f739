//! What reply a request awaits, as far as it shows in the reply's first bytes. Serial frames carry no transaction id:
//! only this tells the answer from all else on the line.

use super::{MAX_PDU_LEN, UnitId};
use tokio_modbus::Request;

/// The reply that a request awaits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Who is to speak.
    pub unit: UnitId,
    /// The request's function code, below 128.
    pub function: u8,
    /// How long the reply is.
    pub shape: Shape,
}

/// How long a reply's PDU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A byte count, which must be this, and as many bytes.
    Counted(u8),
    /// So many bytes after the function code.
    Fixed(u8),
    /// Not known: any length whose checksum fits.
    Any,
}

/// Whether bytes can begin a PDU, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// They cannot.
    No,
    /// They can so far; too few to say more.
    Begun,
    /// They can: it has so many bytes.
    Len(usize),
    /// They can, with any length.
    Any,
}

impl Expected {
    /// What answers a request.
    pub fn of(unit: UnitId, request: &Request<'_>) -> Self {
        let shape = match request {
            Request::ReadCoils(_, n) | Request::ReadDiscreteInputs(_, n) => counted(usize::from(*n).div_ceil(8)),
            Request::ReadInputRegisters(_, n)
            | Request::ReadHoldingRegisters(_, n)
            | Request::ReadWriteMultipleRegisters(_, n, _, _) => counted(usize::from(*n) * 2),
            Request::WriteSingleCoil(..)
            | Request::WriteSingleRegister(..)
            | Request::WriteMultipleCoils(..)
            | Request::WriteMultipleRegisters(..) => Shape::Fixed(4),
            Request::MaskWriteRegister(..) => Shape::Fixed(6),
            _ => Shape::Any,
        };
        Self { unit, function: request.function_code().value(), shape }
    }

    /// Length of the awaited PDU, in bytes; the least where it is not known.
    pub fn pdu_len(self) -> usize {
        match self.shape {
            Shape::Counted(n) => 2 + usize::from(n),
            Shape::Fixed(n) => 1 + usize::from(n),
            Shape::Any => 2,
        }
    }

    /// Whether a PDU that begins so can be the one awaited. An exception always has two bytes.
    pub(super) fn fit(self, pdu: &[u8]) -> Fit {
        match *pdu {
            [] => Fit::Begun,
            [f, ..] if f == self.function | 0x80 => Fit::Len(2),
            [f, ref rest @ ..] if f == self.function => match self.shape {
                Shape::Fixed(n) => Fit::Len(1 + usize::from(n)),
                Shape::Any => Fit::Any,
                Shape::Counted(n) => match rest.first() {
                    None => Fit::Begun,
                    Some(count) if *count == n => Fit::Len(2 + usize::from(n)),
                    Some(_) => Fit::No,
                },
            },
            _ => Fit::No,
        }
    }
}

/// Whether a PDU that begins so can be anybody's reply. For functions of known shape only.
pub(super) fn fit_any_reply(pdu: &[u8]) -> Fit {
    match *pdu {
        [] | [1..=4 | 23] => Fit::Begun,
        [1..=4 | 23, n, ..] if n > 0 && usize::from(n) + 2 <= MAX_PDU_LEN => Fit::Len(2 + usize::from(n)),
        [5 | 6 | 15 | 16, ..] => Fit::Len(5),
        [22, ..] => Fit::Len(7),
        [f] if is_known_exception(f) => Fit::Begun,
        [f, 1..=11, ..] if is_known_exception(f) => Fit::Len(2),
        _ => Fit::No,
    }
}

/// Whether a PDU that begins so can be a request.
pub(super) fn fit_any_request(pdu: &[u8]) -> Fit {
    match *pdu {
        [1..=6 | 8, ..] => Fit::Len(5),
        [7 | 11 | 12 | 17, ..] => Fit::Len(1),
        [15 | 16, _, _, _, _, n, ..] => within(6 + usize::from(n)),
        [22, ..] => Fit::Len(7),
        [23, _, _, _, _, _, _, _, _, n, ..] => within(10 + usize::from(n)),
        [] | [15 | 16 | 23, ..] => Fit::Begun,
        [f, ..] if f < 0x80 => Fit::Any,
        _ => Fit::No,
    }
}

fn within(len: usize) -> Fit {
    if len <= MAX_PDU_LEN { Fit::Len(len) } else { Fit::No }
}

fn is_known_exception(function: u8) -> bool {
    function >= 0x80 && matches!(function & 0x7F, 1..=6 | 15 | 16 | 22 | 23)
}

fn counted(bytes: usize) -> Shape {
    // Within the standard's limits: at most 250. What is beyond is refused as a request.
    Shape::Counted(bytes.min(255) as u8)
}
