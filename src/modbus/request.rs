//! Requests as PDUs: `tokio-modbus` has the words, this file writes them as bytes and keeps the standard's limits.
//!
//! ```text
//! read:   function (1, 2, 3, 4) | first address, 2 bytes | quantity, 2 bytes
//! write:  function (5, 6)       | address, 2 bytes       | value, 2 bytes
//! write:  function (15, 16)     | first address          | quantity | byte count, 1 byte | values
//! ```

use super::{AddressRange, MAX_BITS_PER_READ, MAX_REGISTERS_PER_READ, MAX_REGISTERS_PER_WRITE, Table};
use tokio_modbus::Request;

/// Longest PDU, request or reply (Application Protocol V1.1b3, 4.1).
pub const MAX_PDU_LEN: usize = 253;
/// Most bits one write may carry (6.11).
pub const MAX_BITS_PER_WRITE: u16 = 1968;
/// Most registers function 23 may write (6.17).
const MAX_REGISTERS_PER_READ_WRITE: u16 = 121;

/// Why a request may not go to the wire. Ours to blame: whoever made it did not keep the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// None, or more than the standard lets one request ask for.
    #[error("a quantity of {0} is outside what one request may ask for")]
    Quantity(usize),
    /// The last address would be beyond 65535.
    #[error("{quantity} from address {address} on reaches beyond 65535")]
    AddressSpace {
        /// First address.
        address: u16,
        /// How many.
        quantity: usize,
    },
    /// A raw request of more than 253 bytes, or of a function code of 128 and above.
    #[error("a raw request of function {function} with {len} bytes is no request")]
    Raw {
        /// Its function code.
        function: u8,
        /// Bytes after the function code.
        len: usize,
    },
}

/// The request that reads a range.
pub fn read_request(table: Table, range: AddressRange) -> Request<'static> {
    let (address, quantity) = (range.start().0, range.count());
    match table {
        Table::Coil => Request::ReadCoils(address, quantity),
        Table::DiscreteInput => Request::ReadDiscreteInputs(address, quantity),
        Table::InputRegister => Request::ReadInputRegisters(address, quantity),
        Table::HoldingRegister => Request::ReadHoldingRegisters(address, quantity),
    }
}

/// Appends a request's PDU to `out`; appends nothing where it is refused.
pub fn encode_request(request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), RequestError> {
    check(request)?;
    out.push(request.function_code().value());
    match request {
        Request::ReadCoils(address, quantity)
        | Request::ReadDiscreteInputs(address, quantity)
        | Request::ReadInputRegisters(address, quantity)
        | Request::ReadHoldingRegisters(address, quantity) => put_words(out, &[*address, *quantity]),
        Request::WriteSingleCoil(address, on) => put_words(out, &[*address, if *on { 0xFF00 } else { 0 }]),
        Request::WriteSingleRegister(address, word) => put_words(out, &[*address, *word]),
        Request::WriteMultipleCoils(address, bits) => {
            put_words(out, &[*address, bits.len() as u16]);
            out.push(bits.len().div_ceil(8) as u8);
            put_bits(out, bits.iter().copied());
        }
        Request::WriteMultipleRegisters(address, words) => {
            put_words(out, &[*address, words.len() as u16]);
            out.push((words.len() * 2) as u8);
            put_words(out, words);
        }
        Request::ReportServerId => {}
        Request::MaskWriteRegister(address, and_mask, or_mask) => put_words(out, &[*address, *and_mask, *or_mask]),
        Request::ReadWriteMultipleRegisters(read, quantity, write, words) => {
            put_words(out, &[*read, *quantity, *write, words.len() as u16]);
            out.push((words.len() * 2) as u8);
            put_words(out, words);
        }
        Request::ReadDeviceIdentification(code, object) => out.extend_from_slice(&[0x0E, code.value(), *object]),
        Request::Custom(_, data) => out.extend_from_slice(data),
    }
    Ok(())
}

fn check(request: &Request<'_>) -> Result<(), RequestError> {
    let (address, quantity, most) = match request {
        Request::ReadCoils(a, n) | Request::ReadDiscreteInputs(a, n) => (*a, usize::from(*n), MAX_BITS_PER_READ),
        Request::ReadInputRegisters(a, n) | Request::ReadHoldingRegisters(a, n) => {
            (*a, usize::from(*n), MAX_REGISTERS_PER_READ)
        }
        Request::WriteMultipleCoils(a, bits) => (*a, bits.len(), MAX_BITS_PER_WRITE),
        Request::WriteMultipleRegisters(a, words) => (*a, words.len(), MAX_REGISTERS_PER_WRITE),
        Request::ReadWriteMultipleRegisters(read, quantity, write, words) => {
            check_span(*read, usize::from(*quantity), MAX_REGISTERS_PER_READ)?;
            (*write, words.len(), MAX_REGISTERS_PER_READ_WRITE)
        }
        Request::Custom(function, data) => {
            if *function >= 0x80 || data.len() >= MAX_PDU_LEN {
                return Err(RequestError::Raw { function: *function, len: data.len() });
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    check_span(address, quantity, most)
}

fn check_span(address: u16, quantity: usize, most: u16) -> Result<(), RequestError> {
    if quantity == 0 || quantity > usize::from(most) {
        Err(RequestError::Quantity(quantity))
    } else if usize::from(address) + quantity > 0x1_0000 {
        Err(RequestError::AddressSpace { address, quantity })
    } else {
        Ok(())
    }
}

pub(super) fn put_words(out: &mut Vec<u8>, words: &[u16]) {
    out.extend(words.iter().flat_map(|w| w.to_be_bytes()));
}

/// Packs bits eight a byte, the first into the lowest.
pub(super) fn put_bits(out: &mut Vec<u8>, bits: impl Iterator<Item = bool>) {
    let mut free = 0;
    for bit in bits {
        if free == 0 {
            out.push(0);
            free = 8;
        }
        if let Some(last) = out.last_mut() {
            *last |= u8::from(bit) << (8 - free);
        }
        free -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::Address;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn encoded(request: &Request<'_>) -> Result<Vec<u8>, RequestError> {
        let mut out = Vec::new();
        encode_request(request, &mut out).map(|()| out)
    }

    #[test]
    fn f36_a_wire_address_goes_out_as_it_is() {
        // Reference 30001 as f32: input registers, address 0000, quantity 2.
        let range = AddressRange::new(Address(0), 2).unwrap();
        assert_eq!(encoded(&read_request(Table::InputRegister, range)).unwrap(), [4, 0, 0, 0, 2]);
    }

    #[test]
    fn requests_beyond_the_limits_are_refused() {
        assert_eq!(encoded(&Request::ReadHoldingRegisters(0, 126)), Err(RequestError::Quantity(126)));
        assert_eq!(encoded(&Request::ReadHoldingRegisters(0, 0)), Err(RequestError::Quantity(0)));
        assert_eq!(encoded(&Request::ReadCoils(0, 2001)), Err(RequestError::Quantity(2001)));
        assert_eq!(
            encoded(&Request::ReadHoldingRegisters(65535, 2)),
            Err(RequestError::AddressSpace { address: 65535, quantity: 2 })
        );
        assert_eq!(encoded(&Request::WriteMultipleRegisters(0, vec![0; 124].into())), Err(RequestError::Quantity(124)));
        assert_eq!(
            encoded(&Request::WriteMultipleCoils(0, vec![true; 1969].into())),
            Err(RequestError::Quantity(1969))
        );
        assert!(encoded(&Request::Custom(0x90, vec![].into())).is_err());
    }

    fn requests() -> impl Strategy<Value = Request<'static>> {
        let words = |most| proptest::collection::vec(any::<u16>(), 1..=most);
        prop_oneof![
            (0..60_000u16, 1..=2000u16).prop_map(|(a, n)| Request::ReadCoils(a, n)),
            (0..60_000u16, 1..=2000u16).prop_map(|(a, n)| Request::ReadDiscreteInputs(a, n)),
            (any::<u16>(), 1..=125u16)
                .prop_filter("fits", |(a, n)| u32::from(*a) + u32::from(*n) <= 65536)
                .prop_map(|(a, n)| Request::ReadHoldingRegisters(a, n)),
            (0..65_000u16, 1..=125u16).prop_map(|(a, n)| Request::ReadInputRegisters(a, n)),
            (any::<u16>(), any::<bool>()).prop_map(|(a, on)| Request::WriteSingleCoil(a, on)),
            (any::<u16>(), any::<u16>()).prop_map(|(a, w)| Request::WriteSingleRegister(a, w)),
            (0..60_000u16, proptest::collection::vec(any::<bool>(), 1..=1968))
                .prop_map(|(a, bits)| Request::WriteMultipleCoils(a, bits.into())),
            (0..60_000u16, words(123)).prop_map(|(a, w)| Request::WriteMultipleRegisters(a, w.into())),
            (any::<u16>(), any::<u16>(), any::<u16>()).prop_map(|(a, n, o)| Request::MaskWriteRegister(a, n, o)),
            (0..60_000u16, 1..=125u16, 0..60_000u16, words(121))
                .prop_map(|(r, n, w, v)| Request::ReadWriteMultipleRegisters(r, n, w, v.into())),
            Just(Request::ReportServerId),
            (65..=72u8, proptest::collection::vec(any::<u8>(), 0..=252))
                .prop_map(|(f, d)| Request::Custom(f, d.into())),
        ]
    }

    proptest! {
        #[test]
        fn another_decoder_reads_what_we_wrote(request in requests()) {
            let pdu = encoded(&request).unwrap();
            prop_assert!(pdu.len() <= MAX_PDU_LEN);
            prop_assert_eq!(Request::try_from(Bytes::from(pdu)).unwrap(), request);
        }
    }
}
