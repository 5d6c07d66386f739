//! What the bus brought of one cycle: the baton from `poll` to `codec`.

use crate::modbus::{AddressRange, Table};
use crate::model::{Condition, Cycle, DeviceId, Generation, GroupId, Interval, Reason, Stamp};

/// One cycle of one device as it was on the wire: registers, refusals and faults, undecoded.
#[derive(Debug, Clone, PartialEq)]
pub struct CycleReport {
    /// Whose cycle.
    pub device: DeviceId,
    /// Configuration under which it was polled.
    pub generation: Generation,
    /// Which interval's cycle.
    pub interval: Interval,
    /// Its number: rising over all intervals of the device, given when the cycle starts.
    pub cycle: Cycle,
    /// When its first request was sent (or should have been, had the link been up).
    pub started: Stamp,
    /// When its last reply, or its failure, came.
    pub ended: Stamp,
    /// When its first reply came; equals `ended` where there was one or none. The skew is `ended - first_reply`.
    pub first_reply: Stamp,
    /// Whether any believable reply came in the cycle.
    pub condition: Condition,
    /// Every group of the interval, in layout order.
    pub groups: Vec<GroupReport>,
}

/// One group's share of a cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupReport {
    /// Which group.
    pub group: GroupId,
    /// Everything that was asked for it, ascending by table and start, without overlaps. Every register that a
    /// point of the group needs lies in exactly one part.
    pub parts: Vec<Part>,
}

/// One range that was asked for, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Which table.
    pub table: Table,
    /// Which addresses.
    pub range: AddressRange,
    /// What came.
    pub outcome: PartOutcome,
    /// When the reply, or the failure, came.
    pub received: Stamp,
}

/// What came of one range.
#[derive(Debug, Clone, PartialEq)]
pub enum PartOutcome {
    /// A believable reply: as many registers as the range has addresses, as on the wire.
    Registers(Vec<u16>),
    /// A believable reply: as many bits as the range has addresses.
    Bits(Vec<bool>),
    /// The device refused it: exception 1, 2 or 3, not to be divided further.
    Refused(u8),
    /// No believable reply, for this reason.
    Fault(Reason),
}
