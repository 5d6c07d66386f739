//! Replies as PDUs: read replies as a view over the received bytes, and the writing of replies for pretend devices.
//!
//! ```text
//! read:       function          | byte count, 1 byte | values
//! exception:  function + 128    | code, 1 byte
//! ```
//!
//! Codes are kept as numbers: a device may invent its own, and each must be shown as it came.

use super::request::put_bits;
use super::{AddressRange, Table};

/// What a device said to a read, believed as far as a PDU can be: function and length fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The values.
    Read(ReadReply<'a>),
    /// A refusal with its code, 0 to 255.
    Exception(u8),
}

/// Why a PDU is no reply to a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyMismatch {
    /// Another function code than asked for (or none at all).
    #[error("the reply has another function code than the request")]
    Function,
    /// Byte count, quantity asked for and bytes present do not agree.
    #[error("the reply has another length than asked for")]
    Length,
}

/// The values of a read, as a view over the frame. Invariant: exactly as many bytes as the quantity needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadReply<'a> {
    values: &'a [u8],
    quantity: u16,
}

impl<'a> Reply<'a> {
    /// Takes a PDU as the reply to a read of `range`, or says what does not fit. `function` has no exception bit.
    pub fn parse(table: Table, range: AddressRange, pdu: &'a [u8]) -> Result<Self, ReplyMismatch> {
        let function = table.read_function();
        match *pdu {
            [f, code, ..] if f == function | 0x80 => Ok(Self::Exception(code)),
            [f] if f == function | 0x80 => Err(ReplyMismatch::Length),
            [f, ref rest @ ..] if f == function => {
                let quantity = range.count();
                let bytes = if table.is_bits() { usize::from(quantity).div_ceil(8) } else { usize::from(quantity) * 2 };
                match rest {
                    [count, values @ ..] if usize::from(*count) == bytes && values.len() == bytes => {
                        Ok(Self::Read(ReadReply { values, quantity }))
                    }
                    _ => Err(ReplyMismatch::Length),
                }
            }
            _ => Err(ReplyMismatch::Function),
        }
    }
}

impl<'a> ReadReply<'a> {
    /// The registers, lowest address first. For replies of functions 3 and 4.
    pub fn registers(self) -> impl ExactSizeIterator<Item = u16> + 'a {
        self.values.as_chunks::<2>().0.iter().map(|w| u16::from_be_bytes(*w))
    }

    /// The bits, lowest address first, without the filling of the last byte. For replies of functions 1 and 2.
    pub fn bits(self) -> impl Iterator<Item = bool> + 'a {
        let bits = self.values.iter().flat_map(|byte| (0..8).map(move |i| byte >> i & 1 == 1));
        bits.take(usize::from(self.quantity))
    }
}

/// Appends the reply to a read of registers. At most 125 of them.
pub fn encode_registers(function: u8, registers: &[u16], out: &mut Vec<u8>) {
    debug_assert!(registers.len() <= 125);
    out.extend_from_slice(&[function, (registers.len() * 2) as u8]);
    super::request::put_words(out, registers);
}

/// Appends the reply to a read of bits. At most 2000 of them.
pub fn encode_bits(function: u8, bits: &[bool], out: &mut Vec<u8>) {
    debug_assert!(bits.len() <= 2000);
    out.extend_from_slice(&[function, bits.len().div_ceil(8) as u8]);
    put_bits(out, bits.iter().copied());
}

/// Appends a refusal of a function with any code.
pub fn encode_exception(function: u8, code: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[function | 0x80, code]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::Address;
    use bytes::Bytes;
    use proptest::prelude::*;
    use tokio_modbus::Response;

    fn range(count: u16) -> AddressRange {
        AddressRange::new(Address(10), count).unwrap()
    }

    #[test]
    fn f07_a_reply_with_fewer_registers_than_asked_is_no_reply() {
        let pdu = [3, 2, 0, 9];
        assert_eq!(Reply::parse(Table::HoldingRegister, range(2), &pdu), Err(ReplyMismatch::Length));
        // Byte count right, bytes missing; byte count right, bytes too many.
        assert_eq!(Reply::parse(Table::HoldingRegister, range(2), &[3, 4, 0, 9]), Err(ReplyMismatch::Length));
        assert_eq!(Reply::parse(Table::HoldingRegister, range(1), &[3, 2, 0, 9, 0]), Err(ReplyMismatch::Length));
        assert_eq!(Reply::parse(Table::Coil, range(9), &[1, 1, 0]), Err(ReplyMismatch::Length));
        assert_eq!(Reply::parse(Table::HoldingRegister, range(1), &[3]), Err(ReplyMismatch::Length));
        assert_eq!(Reply::parse(Table::HoldingRegister, range(1), &[4, 2, 0, 9]), Err(ReplyMismatch::Function));
        assert_eq!(Reply::parse(Table::HoldingRegister, range(1), &[]), Err(ReplyMismatch::Function));
    }

    #[test]
    fn f49_every_exception_code_is_kept_as_a_number() {
        for code in 0..=255 {
            let reply =
                Reply::parse(Table::HoldingRegister, range(1), &[0x83, code].map(|b| b)).map(|r| format!("{r:?}"));
            assert_eq!(reply, Ok(format!("Exception({code})")));
        }
    }

    proptest! {
        #[test]
        fn another_decoder_reads_the_same_registers(words in proptest::collection::vec(any::<u16>(), 1..=125)) {
            let mut pdu = Vec::new();
            encode_registers(4, &words, &mut pdu);
            let Ok(Reply::Read(reply)) = Reply::parse(Table::InputRegister, range(words.len() as u16), &pdu) else {
                return Err(TestCaseError::fail("no reply"));
            };
            let ours: Vec<u16> = reply.registers().collect();
            let theirs = Response::try_from(Bytes::from(pdu.clone())).unwrap();
            prop_assert_eq!(theirs, Response::ReadInputRegisters(ours));
        }

        #[test]
        fn another_decoder_reads_the_same_bits(bits in proptest::collection::vec(any::<bool>(), 1..=2000)) {
            let mut pdu = Vec::new();
            encode_bits(1, &bits, &mut pdu);
            let Ok(Reply::Read(reply)) = Reply::parse(Table::Coil, range(bits.len() as u16), &pdu) else {
                return Err(TestCaseError::fail("no reply"));
            };
            let ours: Vec<bool> = reply.bits().collect();
            let Ok(Response::ReadCoils(theirs)) = Response::try_from(Bytes::from(pdu.clone())) else {
                return Err(TestCaseError::fail("not theirs"));
            };
            prop_assert_eq!(&theirs[..bits.len()], &ours[..]);
            prop_assert_eq!(ours, bits);
        }

        #[test]
        fn whatever_they_refuse_and_whatever_comes_we_do_not_panic(
            pdu in proptest::collection::vec(any::<u8>(), 0..=260),
            count in 1..=125u16,
        ) {
            let ours = Reply::parse(Table::HoldingRegister, range(count), &pdu);
            if let Ok(Reply::Read(reply)) = ours {
                let theirs = Response::try_from(Bytes::copy_from_slice(&pdu)).unwrap();
                prop_assert_eq!(theirs, Response::ReadHoldingRegisters(reply.registers().collect()));
            }
        }
    }
}
