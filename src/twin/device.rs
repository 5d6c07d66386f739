//! One device's state as one commit left it.

use super::last_seen::LastSeen;
use super::tally::Tally;
use crate::model::{
    Configuration, Cycle, DeviceId, Fault, Generation, Layout, PointId, Quality, Revision, Value, Version, Wall,
};
use std::fmt;
use std::sync::Arc;

/// A device's whole state, immutable. Columns are shared with earlier states where nothing in them changed.
///
/// Invariant: with a layout, `values` and `qualities` have one entry a point and `acquired` one a group; without one,
/// all are empty.
#[derive(Debug, Clone)]
pub struct DeviceTwin {
    /// Its name.
    pub device: DeviceId,
    /// Configuration it runs with, or why it does not.
    pub configuration: Configuration,
    /// Which configuration, counted.
    pub generation: Generation,
    /// The commit that made this state.
    pub revision: Revision,
    /// The shadow's version.
    pub version: Version,
    /// The cycle of the last batch that changed something; nothing before the first.
    pub cycle: Option<Cycle>,
    /// Online, degraded or offline, and why.
    pub status: DeviceStatus,
    /// Per point, the value last known.
    pub values: Arc<[Option<Value>]>,
    /// Per point, how far it can be trusted.
    pub qualities: Arc<[PointQuality]>,
    /// Per group, when its last good reply came, as of this commit.
    pub acquired: Arc<[Option<Wall>]>,
    /// The batch of this commit was read over a longer time than a group allows.
    pub skew_exceeded: bool,
    /// How often the wall clock had been seen to jump back when this state was made; a reader who saw a lower number
    /// before says so once.
    pub clock_steps: u32,
    /// Per group, when it was last read, changed or not; moves without a commit.
    pub last_seen: Arc<LastSeen>,
    /// How its batches fared; moves without a commit, goes on over configurations.
    pub tally: Arc<Tally>,
}

/// A point's quality, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointQuality {
    /// The quality.
    pub quality: Quality,
    /// Wall time of the commit that made it so.
    pub since: Wall,
}

/// Whether a device can be reached, in the words of its `status` topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceStatus {
    /// The state.
    pub state: StatusState,
    /// Why; nothing when online.
    pub reason: Option<StatusReason>,
    /// Since when.
    pub since: Wall,
}

/// The state of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StatusState {
    /// It answers and everything that was read is usable.
    Online,
    /// It answers, something is bad or stale.
    Degraded,
    /// Nothing that it showed may be acted upon.
    Offline,
}

impl StatusState {
    /// The word in payloads.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Degraded => "degraded",
            Self::Offline => "offline",
        }
    }
}

/// Why a device is not online. `Display` gives the word in payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StatusReason {
    /// The gateway has just started and nothing was read yet.
    Starting,
    /// The gateway was stopped.
    Stopped,
    /// Its files are wrong.
    ConfigError,
    /// It cannot be reached.
    Unreachable(Fault),
    /// It answers, and some points are bad or stale.
    PointsBad,
}

impl fmt::Display for StatusReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Stopped => f.write_str("stopped"),
            Self::ConfigError => f.write_str("config_error"),
            Self::Unreachable(fault) => fmt::Display::fmt(fault, f),
            Self::PointsBad => f.write_str("points_bad"),
        }
    }
}

impl DeviceTwin {
    /// The layout, where the device is configured.
    pub fn layout(&self) -> Option<&Arc<Layout>> {
        self.configuration.layout()
    }

    /// A point's value, if it has one.
    pub fn value(&self, point: PointId) -> Option<&Value> {
        self.values.get(usize::from(point.0))?.as_ref()
    }

    /// A point's quality.
    pub fn quality(&self, point: PointId) -> Quality {
        self.qualities.get(usize::from(point.0)).map_or(Quality::Unread, |q| q.quality)
    }

    /// A point by its path, for tests and single look-ups: linear.
    pub fn point(&self, path: &str) -> Option<PointId> {
        let layout = self.layout()?;
        (0u16..).zip(&layout.points).find(|(_, p)| &*p.path == path).map(|(i, _)| PointId(i))
    }

    /// Whether any published point is bad or stale.
    pub(super) fn is_degraded(qualities: &[PointQuality]) -> bool {
        qualities.iter().any(|q| q.quality.degrades())
    }
}
