//! What the store and the shadow must know of a device: its points and groups, without a register.

use super::{GroupId, Interval, PointId};
use std::sync::Arc;
use std::time::Duration;

/// The shape of one device's shadow. Made by `profile`, immutable, shared.
///
/// Invariant: every id in it is an index into its own lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Name and version of the profile, as in `inovance/is620p` and `1.2.0`.
    pub profile: Arc<str>,
    /// The profile's version.
    pub profile_version: Arc<str>,
    /// All points, in profile order: the order of keys in every payload.
    pub points: Vec<PointLayout>,
    /// All groups, in profile order.
    pub groups: Vec<GroupLayout>,
    /// The distinct intervals of the groups; one cycle and one batch each.
    pub intervals: Vec<IntervalLayout>,
    /// Failed cycles in a row, of any groups, until the device counts as offline. At least 1.
    pub offline_after: u32,
    /// The longest that one attempt waits for a reply: the least patience before a group counts as overdue.
    pub timeout: Duration,
    /// The device is a pretend one: its state says so.
    pub simulated: bool,
}

/// One point of a [`Layout`].
#[derive(Debug, Clone, PartialEq)]
pub struct PointLayout {
    /// Place in the shadow, dots nest: `speed.actual`.
    pub path: Arc<str>,
    /// The group that reads it.
    pub group: GroupId,
    /// How its value stands in JSON.
    pub json: JsonForm,
    /// Whether it appears in the shadow; internal points (factors, counts) do not.
    pub publish: bool,
}

/// How a value is written in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonForm {
    /// As its kind has it: `true`, `1450`, `31.2`, `"fault"`. Scaled numbers beyond 2^53 become decimal strings.
    Plain,
    /// Unscaled 64-bit integers as decimal strings, exact in every reader.
    DecimalString,
}

/// One group of a [`Layout`].
#[derive(Debug, Clone, PartialEq)]
pub struct GroupLayout {
    /// Name in the profile, key of `acquired` in payloads.
    pub name: Arc<str>,
    /// The interval it is read at.
    pub interval: Interval,
}

/// One interval of a [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalLayout {
    /// The period; nothing for `once` (at each connect).
    pub every: Option<Duration>,
}

impl Layout {
    /// The group of a point.
    pub fn group_of(&self, point: PointId) -> GroupId {
        self.points[usize::from(point.0)].group
    }

    /// Points of one group, in profile order.
    pub fn points_of(&self, group: GroupId) -> impl Iterator<Item = PointId> + '_ {
        (0u16..).zip(&self.points).filter(move |(_, p)| p.group == group).map(|(i, _)| PointId(i))
    }

    /// The period of a group; nothing for `once`.
    pub fn every(&self, group: GroupId) -> Option<Duration> {
        self.intervals[usize::from(self.groups[usize::from(group.0)].interval.0)].every
    }
}

/// What a device was configured to be: its layout, or why it could not be.
#[derive(Debug, Clone, PartialEq)]
pub enum Configuration {
    /// It runs with this layout.
    Ready(Arc<Layout>),
    /// It does not run: `file:line:column: what` of each mistake.
    Refused(Arc<str>),
}

impl Configuration {
    /// The layout, where there is one.
    pub fn layout(&self) -> Option<&Arc<Layout>> {
        match self {
            Self::Ready(layout) => Some(layout),
            Self::Refused(_) => None,
        }
    }
}
