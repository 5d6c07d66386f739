//! Which replies are believed: those that fit a request in flight in all that a frame can show.

use super::PartOutcome;
use super::cycle::Job;
use crate::modbus::{AddressRange, Adu, Reply, ReplyMismatch, Table, TransactionId, UnitId};
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
    /// Bytes still to come of its own echo: none of them is its reply.
    pub(super) echo: usize,
    /// Something else came since: on a serial line the deadline has been moved, so that a reply under way can end.
    pub(super) heard: bool,
    /// What came so far instead of its reply: says more than that time is over.
    pub(super) flaw: Option<Reason>,
}

/// A read in flight, as far as a frame can be held against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awaited {
    /// The transaction id that it went out with.
    pub transaction: TransactionId,
    /// Who was asked.
    pub unit_id: UnitId,
    /// For what table.
    pub table: Table,
    /// For what addresses.
    pub range: AddressRange,
}

impl InFlight {
    pub(super) fn awaited(&self) -> Awaited {
        let (transaction, unit_id) = (self.transaction, self.unit_id);
        Awaited { transaction, unit_id, table: self.job.table(), range: self.job.range() }
    }
}

/// What a frame is worth. Numbers are places among the reads in flight.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// No request has its transaction id.
    Stray(TransactionId),
    /// It fits this request but for the unit id.
    OtherUnit(usize),
    /// It fits this request but for the function code.
    OtherFunction(usize),
    /// It fits this request but for the length.
    OtherLength(usize),
    /// It refuses this request, with a code.
    Exception(usize, u8),
    /// It answers this request.
    Values(usize, PartOutcome),
}

/// Whether a frame answers a request in flight, and which. `any_transaction`: whatever its transaction id.
pub fn judge(adu: &Adu<'_>, in_flight: impl IntoIterator<Item = Awaited>, any_transaction: bool) -> Verdict {
    let fits = |f: &Awaited| f.transaction == adu.transaction || any_transaction;
    let Some((i, flight)) = in_flight.into_iter().enumerate().find(|(_, f)| fits(f)) else {
        return Verdict::Stray(adu.transaction);
    };
    if flight.unit_id != adu.unit {
        return Verdict::OtherUnit(i);
    }
    match Reply::parse(flight.table, flight.range, adu.pdu) {
        Ok(Reply::Read(reply)) if flight.table.is_bits() => {
            Verdict::Values(i, PartOutcome::Bits(reply.bits().collect()))
        }
        Ok(Reply::Read(reply)) => Verdict::Values(i, PartOutcome::Registers(reply.registers().collect())),
        Ok(Reply::Exception(code)) => Verdict::Exception(i, code),
        Err(ReplyMismatch::Function) => Verdict::OtherFunction(i),
        Err(ReplyMismatch::Length) => Verdict::OtherLength(i),
    }
}
