//! How PDUs are wrapped on a link.

use super::mbap::{Adu, Deframer, LostSync, TransactionId, encode_request_adu};
use super::{RequestError, UnitId};
use tokio_modbus::Request;

/// A link's framing, with what it must remember of received bytes. One per connection: [`Envelope::renew`] at each.
#[derive(Debug)]
#[non_exhaustive]
pub enum Envelope {
    /// Modbus TCP: replies carry their request's transaction id.
    Mbap(Deframer),
}

impl Envelope {
    /// The framing of Modbus TCP.
    pub fn mbap() -> Self {
        Self::Mbap(Deframer::default())
    }

    /// Forgets all that was received: a new connection begins.
    pub fn renew(&mut self) {
        match self {
            Self::Mbap(deframer) => *deframer = Deframer::default(),
        }
    }

    /// Appends one request as bytes for the wire; appends nothing where it is refused.
    pub fn wrap(
        &self,
        transaction: TransactionId,
        unit: UnitId,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), RequestError> {
        match self {
            Self::Mbap(_) => encode_request_adu(transaction, unit, request, out),
        }
    }

    /// The next frame of what was received, and how many bytes are done with; see [`Deframer::next`].
    pub fn unwrap<'a>(&'a mut self, input: &'a [u8]) -> Result<(Option<Adu<'a>>, usize), LostSync> {
        match self {
            Self::Mbap(deframer) => deframer.next(input),
        }
    }
}
