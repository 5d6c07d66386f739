//! How PDUs are wrapped on a link.

use super::mbap::{self, Adu, LostSync, TransactionId, encode_request_adu};
use super::{Expected, RequestError, UnitId, ascii, rtu};
use tokio_modbus::Request;

/// A link's framing, with what it must remember of received bytes. One per connection: [`Envelope::renew`] at each.
#[derive(Debug)]
#[non_exhaustive]
pub enum Envelope {
    /// Modbus TCP: replies carry their request's transaction id.
    Mbap(mbap::Deframer),
    /// RTU, on a serial line or over TCP: a reply belongs to the last request, if it fits.
    Rtu(Serial<rtu::ReplyDeframer>),
    /// ASCII: likewise.
    Ascii(Serial<ascii::ReplyDeframer>),
}

/// Serial framing. Its frames are given the transaction id of the last request: they can belong to no other.
#[derive(Debug)]
pub struct Serial<D> {
    deframer: D,
    transaction: TransactionId,
}

impl<D> Serial<D> {
    fn new(deframer: D) -> Self {
        Self { deframer, transaction: TransactionId(0) }
    }
}

impl Envelope {
    /// The framing of Modbus TCP.
    pub fn mbap() -> Self {
        Self::Mbap(mbap::Deframer::default())
    }

    /// The framing of RTU lines.
    pub fn rtu() -> Self {
        Self::Rtu(Serial::new(rtu::ReplyDeframer::default()))
    }

    /// The framing of ASCII lines.
    pub fn ascii() -> Self {
        Self::Ascii(Serial::new(ascii::ReplyDeframer::default()))
    }

    /// Says whether the link gives back all that is sent on it. Default: it does not. Without meaning on Modbus TCP.
    pub fn set_echo(&mut self, echo: bool) {
        match self {
            Self::Mbap(_) => {}
            Self::Rtu(serial) => serial.deframer = rtu::ReplyDeframer::new(echo),
            Self::Ascii(serial) => serial.deframer = ascii::ReplyDeframer::new(echo),
        }
    }

    /// Whether replies carry no transaction id: one request at a time, and a late reply looks like the next one.
    pub fn is_serial(&self) -> bool {
        !matches!(self, Self::Mbap(_))
    }

    /// Forgets all that was received: a new connection begins.
    pub fn renew(&mut self) {
        match self {
            Self::Mbap(deframer) => *deframer = mbap::Deframer::default(),
            Self::Rtu(serial) => serial.deframer.renew(),
            Self::Ascii(serial) => serial.deframer.renew(),
        }
    }

    /// Appends one request as bytes for the wire; appends nothing where it is refused. On serial framing it is the
    /// awaited one from now on.
    pub fn wrap(
        &mut self,
        transaction: TransactionId,
        unit: UnitId,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), RequestError> {
        let start = out.len();
        match self {
            Self::Mbap(_) => encode_request_adu(transaction, unit, request, out)?,
            Self::Rtu(serial) => {
                rtu::encode_request_frame(unit, request, out)?;
                serial.transaction = transaction;
                serial.deframer.expect(Expected::of(unit, request), &out[start..]);
            }
            Self::Ascii(serial) => {
                ascii::encode_request_frame(unit, request, out)?;
                serial.transaction = transaction;
                serial.deframer.expect(Expected::of(unit, request), &out[start..]);
            }
        }
        Ok(())
    }

    /// Bytes of a frame with a PDU of this length.
    pub fn frame_len(&self, pdu_len: usize) -> usize {
        match self {
            Self::Mbap(_) => mbap::MBAP_LEN + pdu_len,
            Self::Rtu(_) => 1 + pdu_len + 2,
            Self::Ascii(_) => 1 + 2 * (1 + pdu_len + 1) + 2,
        }
    }

    /// The next frame of what was received, and how many bytes are done with; see [`mbap::Deframer::next`] and
    /// [`rtu::ReplyDeframer::next`].
    pub fn unwrap<'a>(&'a mut self, input: &'a [u8]) -> Result<(Option<Adu<'a>>, usize), LostSync> {
        let (frame, done, transaction) = match self {
            Self::Mbap(deframer) => return deframer.next(input),
            Self::Rtu(Serial { deframer, transaction }) => {
                let (frame, done) = deframer.next(input);
                (frame, done, *transaction)
            }
            Self::Ascii(Serial { deframer, transaction }) => {
                let (frame, done) = deframer.next(input);
                (frame, done, *transaction)
            }
        };
        Ok((frame.map(|f| Adu { transaction, unit: f.unit, pdu: f.pdu }), done))
    }

    /// What was met since the last call that is no frame. Nothing on TCP: there it is the end of the connection.
    pub fn take_tally(&mut self) -> rtu::Tally {
        match self {
            Self::Mbap(_) => rtu::Tally::default(),
            Self::Rtu(serial) => serial.deframer.take_tally(),
            Self::Ascii(serial) => serial.deframer.take_tally(),
        }
    }
}
