//! What goes wrong, as probabilities drawn from the seed.

use super::chance::Chance;

/// Faults of one unit: chances for each of its replies.
#[derive(Debug, Clone, Default)]
pub struct UnitFaults {
    /// No reply.
    pub drop: f64,
    /// The reply comes after the request's timeout.
    pub late: f64,
    /// Another transaction id.
    pub wrong_tid: f64,
    pub wrong_unit: f64,
    pub wrong_function: f64,
    /// Fewer registers than asked for, lengths agreeing with each other.
    pub short: f64,
    /// More of them.
    pub long: f64,
    /// A byte count that does not agree with the bytes.
    pub count: f64,
    /// The good reply comes after the wrong one as well.
    pub and_good: f64,
    /// Exceptions by chance, of the codes 1 to 6, 0x0A and 0x0B.
    pub exception: f64,
    /// An exception announces a byte too many.
    pub exception_length: f64,
    pub duplicate: f64,
    /// The reply before comes once more, in front.
    pub repeat_last: f64,
    /// It is slow: up to nine tenths of the timeout.
    pub slow: f64,
    /// Addresses refused with exception 2, as a share.
    pub refused_share: f64,
}

/// Faults of one link: chances for each reply, but where it says otherwise.
#[derive(Debug, Clone, Default)]
pub struct LinkFaults {
    /// Bytes that are no Modbus come before a reply.
    pub noise_before: f64,
    pub noise_after: f64,
    /// A reply breaks off; what comes next follows right behind it.
    pub truncated: f64,
    /// The connection is closed instead of a reply.
    pub close_instead: f64,
    pub close_after: f64,
    /// The far end goes silent for good on this connection.
    pub half_open: f64,
    /// A connect is refused.
    pub refuse: f64,
    /// A connect says nothing.
    pub hang: f64,
    /// A frame has a wrong byte.
    pub damage: f64,
    /// A unit that nobody asked speaks before a reply.
    pub other_frame: f64,
}

/// How bytes travel, on good links too.
#[derive(Debug, Clone)]
pub struct Travel {
    /// One way, in microseconds.
    pub delay: u64,
    pub jitter: u64,
    /// A reply comes in pieces.
    pub split: f64,
    /// Replies wait for each other and come glued.
    pub glue: f64,
    /// The caller's timer is late by up to so many microseconds.
    pub timer_late: u64,
}

impl UnitFaults {
    pub fn drawn(chance: &mut Chance) -> Self {
        // Few kinds at a time, so that each shows what it does alone, too.
        let mut one = |most: f64| if chance.happens(0.35) { most * chance.within(1, 100) as f64 / 100.0 } else { 0.0 };
        Self {
            drop: one(0.10),
            late: one(0.10),
            wrong_tid: one(0.10),
            wrong_unit: one(0.10),
            wrong_function: one(0.10),
            short: one(0.10),
            long: one(0.10),
            count: one(0.10),
            and_good: one(1.0),
            exception: one(0.10),
            exception_length: one(1.0),
            duplicate: one(0.20),
            repeat_last: one(0.20),
            slow: one(0.20),
            refused_share: one(0.15),
        }
    }
}

impl LinkFaults {
    pub fn drawn(chance: &mut Chance) -> Self {
        let mut one = |most: f64| if chance.happens(0.4) { most * chance.within(1, 100) as f64 / 100.0 } else { 0.0 };
        Self {
            noise_before: one(0.02),
            noise_after: one(0.02),
            truncated: one(0.02),
            close_instead: one(0.02),
            close_after: one(0.02),
            half_open: one(0.005),
            refuse: one(0.5),
            hang: one(0.1),
            damage: one(0.05),
            other_frame: one(0.05),
        }
    }
}

impl UnitFaults {
    /// Without what a serial line cannot show: there, a reply once more is as good as the next one.
    pub fn on_serial_line(&mut self) {
        self.repeat_last = 0.0;
        self.wrong_tid = 0.0;
        self.exception_length = 0.0;
    }
}

impl LinkFaults {
    /// Without what a serial port does not do: it does not go silent by itself.
    pub fn on_serial_line(&mut self) {
        self.half_open = 0.0;
        self.hang = 0.0;
    }
}

impl Travel {
    pub fn drawn(chance: &mut Chance) -> Self {
        Self {
            delay: chance.within(50, 5000),
            jitter: chance.within(0, 3000),
            split: if chance.happens(0.4) { 0.3 } else { 0.0 },
            glue: if chance.happens(0.3) { 0.3 } else { 0.0 },
            timer_late: if chance.happens(0.5) { 2000 } else { 0 },
        }
    }
}
