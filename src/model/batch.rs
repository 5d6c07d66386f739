//! What one poll cycle brought: the unit of commitment.

use super::{Cycle, DeviceId, Generation, GroupId, Interval, PointId, Reason, Stamp, Value, Wall};
use std::fmt;

/// One cycle of one device, decoded. Commits whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Whose cycle.
    pub device: DeviceId,
    /// Configuration under which it was polled.
    pub generation: Generation,
    /// Which interval's cycle.
    pub interval: Interval,
    /// Its number.
    pub cycle: Cycle,
    /// When its first request was sent.
    pub started: Stamp,
    /// When its last reply, or its failure, came.
    pub ended: Stamp,
    /// Whether the device answered at all.
    pub condition: Condition,
    /// Its first and last reply are further apart than a group's `max_skew` allows.
    pub skew_exceeded: bool,
    /// Each group of the interval, and how it went.
    pub groups: Vec<(GroupId, GroupResult)>,
    /// Readings of the groups that are [`GroupResult::Read`]; at most one a point, ascending by point.
    pub readings: Vec<(PointId, Reading)>,
}

/// How a group fared in a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupResult {
    /// Every request got a believable reply (which may be a refusal): the last of them came at this time.
    Read(Wall),
    /// At least one got none: all of the group's values become stale for this reason, none moves.
    Failed(Reason),
}

/// What was read of one point.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// A value to trust.
    Good(Value),
    /// A value to show and not to rely on.
    Uncertain(Value, Reason),
    /// No usable value: the last one is kept, quality bad.
    Bad(Reason),
    /// The device has no such value now: its key goes.
    Absent(Reason),
    /// Not read in this cycle although others of its group were (`on_partial: mark`): the last one is kept.
    Stale(Reason),
}

/// Whether a device could be reached in a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    /// At least one believable reply came.
    Reachable,
    /// None did.
    Unreachable(Fault),
}

/// Why a device cannot be reached. `Display` gives the word in `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The link is up, the device says nothing believable.
    NoReply,
    /// The connection was refused.
    Refused,
    /// No route, or no answer to a connect.
    Unreachable,
    /// The host's name does not resolve.
    UnknownHost,
    /// The port or the socket may not be opened.
    PermissionDenied,
    /// Another program has the serial port.
    PortBusy,
    /// There is no such serial port, or not at the moment.
    PortMissing,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoReply => "no_reply",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::UnknownHost => "unknown_host",
            Self::PermissionDenied => "permission_denied",
            Self::PortBusy => "port_busy",
            Self::PortMissing => "port_missing",
        })
    }
}
