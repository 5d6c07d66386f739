//! Which replies are believed: those that fit a request in flight in all that a frame can show.

use super::PartOutcome;
use super::cycle::Job;
use crate::modbus::{Adu, Reply, ReplyMismatch, TransactionId, UnitId};
use crate::model::{Mono, Reason};

/// A request that was sent and not answered yet.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) transaction: TransactionId,
    pub(super) unit_id: UnitId,
    /// Place of the unit and index of its interval; nothing where the unit was removed meanwhile.
    pub(super) owner: Option<(usize, usize)>,
    pub(super) job: Job,
    pub(super) sent: Mono,
    /// When its last byte is on the wire.
    pub(super) sent_end: Mono,
    pub(super) deadline: Mono,
    /// Something came since: on a serial line the deadline has been moved, so that a reply under way can end.
    pub(super) heard: bool,
    /// What came so far instead of its reply: says more than that time is over.
    pub(super) flaw: Option<Reason>,
}

/// What a frame is worth.
pub(super) enum Verdict {
    /// No request has its transaction id.
    Stray(TransactionId),
    /// It fits this request but for the unit id.
    OtherUnit(usize),
    /// It fits this request but for the function code.
    OtherFunction(usize),
    /// It fits this request but for the length.
    OtherLength(usize),
    Exception(usize, u8),
    Values(usize, PartOutcome),
}

/// Whether a frame answers a request in flight. `any_transaction`: whatever its transaction id.
pub(super) fn judge(adu: &Adu<'_>, in_flight: &[InFlight], any_transaction: bool) -> Verdict {
    let Some(i) = in_flight.iter().position(|f| f.transaction == adu.transaction || any_transaction) else {
        return Verdict::Stray(adu.transaction);
    };
    let flight = &in_flight[i];
    if flight.unit_id != adu.unit {
        return Verdict::OtherUnit(i);
    }
    match Reply::parse(flight.job.table(), flight.job.range(), adu.pdu) {
        Ok(Reply::Read(reply)) if flight.job.table().is_bits() => {
            Verdict::Values(i, PartOutcome::Bits(reply.bits().collect()))
        }
        Ok(Reply::Read(reply)) => Verdict::Values(i, PartOutcome::Registers(reply.registers().collect())),
        Ok(Reply::Exception(code)) => Verdict::Exception(i, code),
        Err(ReplyMismatch::Function) => Verdict::OtherFunction(i),
        Err(ReplyMismatch::Length) => Verdict::OtherLength(i),
    }
}
