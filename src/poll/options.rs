//! What a bus is told at its beginning, and what it tells to do.

use crate::modbus::LineSpeed;
use std::time::Duration;

/// How a bus behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "switches of the user, each by itself")]
pub struct BusOptions {
    /// Requests unanswered at one time, 1 to 16. Default 1: serial gateways keep no more, and lose or mix the rest. Always 1
    /// where replies carry no transaction id.
    pub in_flight: u8,
    /// Chance, for jitter. Links that fail together should have different ones. Default 0.
    pub seed: u64,
    /// Spread the devices' ticks over their periods (at most over 1 s), by their names. Default true; without it the
    /// first poll of each comes at once.
    pub spread: bool,
    /// Timeouts in a row, over all units and without a byte received, until the connection is given up. Default 3. Not on
    /// serial lines: a port that is open is open, and units that are silent share it with others.
    pub silent_resets: u32,
    /// A connect that says nothing for so long has failed. Default 10 s.
    pub connect_patience: Duration,
    /// The pace of a serial line; nothing (the default) on TCP and where RTU frames go over TCP.
    pub line: Option<LineSpeed>,
    /// The line gives back all that is sent on it. Default false.
    pub echo: bool,
    /// Believe replies on Modbus TCP whatever their transaction id: for converters that send their own. Then one request
    /// is in flight and the care taken on serial lines is taken here. Default false.
    pub ignore_transaction_id: bool,
    /// Close the connection once nothing is to be asked, until the next cycle is due: for devices that serve one client.
    /// Default false.
    pub close_after_cycle: bool,
}

impl Default for BusOptions {
    fn default() -> Self {
        Self {
            in_flight: 1,
            seed: 0,
            spread: true,
            silent_resets: 3,
            connect_patience: Duration::from_secs(10),
            line: None,
            echo: false,
            ignore_transaction_id: false,
            close_after_cycle: false,
        }
    }
}

/// What the caller has to do with the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Connect, and say how it went by [`Bus::handle_connected`] or [`Bus::handle_connect_failed`].
    Connect,
    /// Close the connection, or give up connecting. Nothing is to be said of it.
    Disconnect,
}

/// Most requests in flight on one link.
pub(super) const MAX_IN_FLIGHT: u8 = 16;
