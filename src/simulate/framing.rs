//! How pretend devices are spoken to: requests out of received bytes, and replies as bytes for the wire.
//!
//! ```text
//! Mbap   transaction, 2 | 0, 2 | length, 2 | unit | PDU
//! Rtu    unit | PDU | CRC, 2 bytes, low one first
//! Ascii  ':' | unit, PDU and LRC as hex digits | CR | LF
//! ```

use crate::modbus::mbap::{Deframer, begin_adu, end_adu};
use crate::modbus::rtu::{RequestDeframer, encode_frame};
use crate::modbus::{LostSync, TransactionId, UnitId};

/// How PDUs are wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Modbus TCP.
    Mbap,
    /// On a serial line, or over TCP as on one.
    Rtu,
    /// On a serial line, in readable characters.
    Ascii,
}

/// One request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heard {
    /// 0 where the framing has none.
    pub(super) transaction: TransactionId,
    pub(super) unit: UnitId,
    pub(super) pdu: Vec<u8>,
    /// All of its bytes.
    pub(super) raw: Vec<u8>,
}

/// Cuts what was received into requests. Holds at most one unfinished frame.
#[derive(Debug)]
pub(super) struct Requests {
    framing: Framing,
    mbap: Deframer,
    rtu: RequestDeframer,
    /// Of ASCII.
    held: Vec<u8>,
}

impl Requests {
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, mbap: Deframer::default(), rtu: RequestDeframer::default(), held: Vec::new() }
    }

    /// Takes bytes; appends the requests that they complete.
    pub(super) fn take(&mut self, bytes: &[u8], out: &mut Vec<Heard>) -> Result<(), LostSync> {
        match self.framing {
            Framing::Mbap => return self.take_mbap(bytes, out),
            Framing::Rtu => self.take_rtu(bytes, out),
            Framing::Ascii => out.extend(bytes.iter().filter_map(|byte| {
                self.held.push(*byte);
                ascii(&mut self.held)
            })),
        }
        Ok(())
    }

    /// Forgets an unfinished frame: the line was silent for longer than a frame may be.
    pub(super) fn forget(&mut self) {
        self.rtu.silence();
        self.held.clear();
    }

    fn take_rtu(&mut self, mut rest: &[u8], out: &mut Vec<Heard>) {
        loop {
            let (frame, done) = self.rtu.next(rest);
            rest = &rest[done..];
            let Some(frame) = frame else { return };
            let mut raw = Vec::new();
            encode_frame(frame.unit, frame.pdu, &mut raw);
            out.push(Heard { transaction: TransactionId(0), unit: frame.unit, pdu: frame.pdu.to_vec(), raw });
        }
    }

    fn take_mbap(&mut self, mut rest: &[u8], out: &mut Vec<Heard>) -> Result<(), LostSync> {
        loop {
            let (adu, done) = self.mbap.next(rest)?;
            rest = &rest[done..];
            let Some(adu) = adu else { return Ok(()) };
            let mut raw = Vec::new();
            let start = begin_adu(adu.transaction, adu.unit, &mut raw);
            raw.extend_from_slice(adu.pdu);
            end_adu(start, &mut raw);
            out.push(Heard { transaction: adu.transaction, unit: adu.unit, pdu: adu.pdu.to_vec(), raw });
        }
    }
}

/// A reply as bytes; `spoilt`: one bit of it is turned over behind its checksum's back.
pub(super) fn wrap(framing: Framing, transaction: TransactionId, unit: UnitId, pdu: &[u8], spoilt: bool) -> Vec<u8> {
    let mut frame = Vec::with_capacity(pdu.len() + 8);
    match framing {
        Framing::Mbap => {
            let start = begin_adu(transaction, unit, &mut frame);
            frame.extend_from_slice(pdu);
            end_adu(start, &mut frame);
        }
        Framing::Rtu => {
            encode_frame(unit, pdu, &mut frame);
            if spoilt && let Some(byte) = frame.get_mut(2) {
                *byte ^= 0x10;
            }
        }
        Framing::Ascii => {
            let mut bytes = vec![unit.0];
            bytes.extend_from_slice(pdu);
            bytes.push(lrc(&bytes));
            if spoilt && let Some(byte) = bytes.get_mut(2) {
                *byte ^= 0x10;
            }
            frame.push(b':');
            frame.extend(bytes.iter().flat_map(|b| [b >> 4, b & 15]).map(|d| b"0123456789ABCDEF"[usize::from(d)]));
            frame.extend_from_slice(b"\r\n");
        }
    }
    frame
}

/// Takes the request that ends here, if one does.
fn ascii(held: &mut Vec<u8>) -> Option<Heard> {
    match held.last()? {
        b':' => {
            held.clear();
            held.push(b':');
            None
        }
        b'\n' => {
            let raw = std::mem::take(held);
            let digits = raw.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
            let (pairs, []) = digits.as_chunks::<2>() else { return None };
            let digit = |c: u8| char::from(c).to_digit(16);
            let bytes: Vec<u8> =
                pairs.iter().map(|[a, b]| Some((digit(*a)? * 16 + digit(*b)?) as u8)).collect::<Option<_>>()?;
            match &*bytes {
                [unit, pdu @ .., sum] if !pdu.is_empty() && lrc(&bytes[..bytes.len() - 1]) == *sum => {
                    Some(Heard { transaction: TransactionId(0), unit: UnitId(*unit), pdu: pdu.to_vec(), raw })
                }
                _ => None,
            }
        }
        _ => {
            held.truncate(LONGEST_ASCII);
            None
        }
    }
}

/// MODBUS over Serial Line V1.02, 6.2.1.
fn lrc(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg()
}

const LONGEST_ASCII: usize = 513;

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(framing: Framing, bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut out = Vec::new();
        Requests::new(framing).take(bytes, &mut out).unwrap();
        out.into_iter().map(|h| (h.unit.0, h.pdu)).collect()
    }

    #[test]
    fn requests_of_the_standards_and_the_fields_examples_are_heard() {
        // The request of F14; with noise before and after; twice in a row; with a wrong checksum.
        let read = [1, 3, 0, 0, 0, 1, 0x84, 0x0A];
        let expected = (1, vec![3, 0, 0, 0, 1]);
        assert_eq!(heard(Framing::Rtu, &read), std::slice::from_ref(&expected));
        assert_eq!(heard(Framing::Rtu, &[&[0, 0xFF, 1][..], &read, &[7]].concat()), std::slice::from_ref(&expected));
        assert_eq!(heard(Framing::Rtu, &[read, read].concat()), [expected.clone(), expected.clone()]);
        assert!(heard(Framing::Rtu, &[1, 3, 0, 0, 0, 1, 0x84, 0x0B]).is_empty());
        // The request of F13.
        assert_eq!(heard(Framing::Rtu, &[1, 1, 0, 0, 0, 0x1F, 0x7D, 0xC2]), [(1, vec![1, 0, 0, 0, 0x1F])]);
        assert_eq!(heard(Framing::Ascii, b":010300000001FB\r\n"), std::slice::from_ref(&expected));
        assert_eq!(heard(Framing::Ascii, b"xx:0103:010300000001FB\r\n"), [expected]);
        assert!(heard(Framing::Ascii, b":010300000001FC\r\n").is_empty());
    }

    #[test]
    fn replies_have_the_checksums_of_the_fields_examples() {
        let reply = |framing, spoilt| wrap(framing, TransactionId(5), UnitId(1), &[3, 2, 0, 0x2A], spoilt);
        assert_eq!(reply(Framing::Rtu, false), [1, 3, 2, 0, 0x2A, 0x39, 0x9B]);
        assert_eq!(reply(Framing::Rtu, true), [1, 3, 0x12, 0, 0x2A, 0x39, 0x9B]);
        assert_eq!(reply(Framing::Ascii, false), b":010302002AD0\r\n");
        assert_eq!(reply(Framing::Mbap, false), [0, 5, 0, 0, 0, 5, 1, 3, 2, 0, 0x2A]);
    }

    #[test]
    fn whatever_comes_holds_no_more_than_a_frame() {
        for framing in [Framing::Rtu, Framing::Ascii] {
            let mut requests = Requests::new(framing);
            let mut out = Vec::new();
            for n in 0..5000u32 {
                requests.take(&n.wrapping_mul(2_654_435_761).to_le_bytes(), &mut out).unwrap();
                assert!(requests.held.len() <= 600 && out.len() <= 5000);
            }
        }
    }
}
