//! A pretend device: what it holds, how that changes, what it answers.

use crate::modbus::{
    Address, AddressRange, MAX_BITS_PER_READ, MAX_REGISTERS_PER_READ, Table, encode_bits, encode_exception,
    encode_registers,
};
use crate::profile::Dump;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

/// Changes what a moving device holds; told the time since the device began.
pub type Tick = Box<dyn FnMut(Duration, &mut Dump) + Send>;

/// A device that exists in memory only. What its dump does not hold cannot be read: exception 2.
pub struct Pretend {
    memory: Dump,
    behaviour: Behaviour,
}

enum Behaviour {
    Still,
    Moving(Tick),
    Stamped { stamping: Stamping, requests: u32 },
}

/// When the counter of a stamped device moves on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamping {
    /// With each request.
    EachRequest,
    /// After so many requests: those of one cycle.
    EachCycle(NonZeroU32),
    /// With time: after each such period, at least 1 ms.
    Every(Duration),
}

impl Pretend {
    /// A device whose values stay.
    pub fn still(memory: Dump) -> Self {
        Self { memory, behaviour: Behaviour::Still }
    }

    /// A device whose values move: `tick` is called before each request is answered.
    pub fn moving(memory: Dump, tick: Tick) -> Self {
        Self { memory, behaviour: Behaviour::Moving(tick) }
    }

    /// A device all of whose registers hold one counter, from 1 on: two counts in one picture show that it was torn.
    /// The dump says which registers there are.
    pub fn stamped(memory: Dump, stamping: Stamping) -> Self {
        Self { memory, behaviour: Behaviour::Stamped { stamping, requests: 0 } }
    }

    /// Appends the reply to a request. `now`: since the device began.
    pub fn answer(&mut self, now: Duration, request: &[u8], out: &mut Vec<u8>) {
        let stamp = match &mut self.behaviour {
            Behaviour::Still => None,
            Behaviour::Moving(tick) => {
                tick(now, &mut self.memory);
                None
            }
            Behaviour::Stamped { stamping, requests } => {
                let before = *requests;
                *requests = requests.wrapping_add(1);
                Some(match stamping {
                    Stamping::EachRequest => before as u16,
                    Stamping::EachCycle(n) => (before / *n) as u16,
                    Stamping::Every(period) => (now.as_millis() / period.as_millis().max(1)) as u16,
                })
            }
        };
        match self.read(request, stamp.map(|s| s.wrapping_add(1)), out) {
            Ok(()) => {}
            Err(code) => encode_exception(request.first().copied().unwrap_or(0), code, out),
        }
    }

    fn read(&self, request: &[u8], stamp: Option<u16>, out: &mut Vec<u8>) -> Result<(), u8> {
        let (table, range) = read_of(request)?;
        let function = table.read_function();
        if table.is_bits() {
            encode_bits(function, &self.memory.bits(table, range).ok_or(ILLEGAL_ADDRESS)?, out);
        } else {
            let mut words = self.memory.registers(table, range).ok_or(ILLEGAL_ADDRESS)?;
            if let Some(stamp) = stamp {
                words.fill(stamp);
            }
            encode_registers(function, &words, out);
        }
        Ok(())
    }
}

impl fmt::Debug for Pretend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pretend").finish_non_exhaustive()
    }
}

/// What a request wants read; or the exception that it deserves.
pub(super) fn read_of(request: &[u8]) -> Result<(Table, AddressRange), u8> {
    let (&function, rest) = request.split_first().ok_or(ILLEGAL_FUNCTION)?;
    let table = Table::ALL.into_iter().find(|t| t.read_function() == function).ok_or(ILLEGAL_FUNCTION)?;
    let &[a, b, n, m] = rest else { return Err(ILLEGAL_VALUE) };
    let quantity = u16::from_be_bytes([n, m]);
    let most = if table.is_bits() { MAX_BITS_PER_READ } else { MAX_REGISTERS_PER_READ };
    if quantity == 0 || quantity > most {
        return Err(ILLEGAL_VALUE);
    }
    let range = AddressRange::new(Address(u16::from_be_bytes([a, b])), quantity).ok_or(ILLEGAL_ADDRESS)?;
    Ok((table, range))
}

const ILLEGAL_FUNCTION: u8 = 1;
const ILLEGAL_ADDRESS: u8 = 2;
const ILLEGAL_VALUE: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use tokio_modbus::Response;

    fn dump() -> Dump {
        let mut dump = Dump::default();
        for a in 10..14 {
            dump.set_register(Table::HoldingRegister, Address(a), a * 3);
        }
        dump.set_bit(Table::Coil, Address(0), true);
        dump.set_bit(Table::Coil, Address(1), false);
        dump.set_bit(Table::Coil, Address(2), true);
        dump
    }

    fn answer(pretend: &mut Pretend, ms: u64, request: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        pretend.answer(Duration::from_millis(ms), request, &mut out);
        out
    }

    #[test]
    fn a_still_device_answers_as_another_decoder_expects() {
        let mut device = Pretend::still(dump());
        let registers = Response::try_from(Bytes::from(answer(&mut device, 0, &[3, 0, 10, 0, 3]))).unwrap();
        assert_eq!(registers, Response::ReadHoldingRegisters(vec![30, 33, 36]));
        assert_eq!(answer(&mut device, 0, &[1, 0, 0, 0, 3]), [1, 1, 0b101]);
    }

    #[test]
    fn what_it_does_not_have_is_refused() {
        let mut device = Pretend::still(dump());
        assert_eq!(answer(&mut device, 0, &[3, 0, 13, 0, 2]), [0x83, 2]);
        assert_eq!(answer(&mut device, 0, &[4, 0, 10, 0, 1]), [0x84, 2]);
        assert_eq!(answer(&mut device, 0, &[3, 0xFF, 0xFF, 0, 2]), [0x83, 2]);
        assert_eq!(answer(&mut device, 0, &[3, 0, 10, 0, 0]), [0x83, 3]);
        assert_eq!(answer(&mut device, 0, &[3, 0, 10, 0, 126]), [0x83, 3]);
        assert_eq!(answer(&mut device, 0, &[3, 0, 10]), [0x83, 3]);
        for function in [5, 6, 15, 16, 22, 43] {
            assert_eq!(answer(&mut device, 0, &[function, 0, 10, 0, 1]), [function | 0x80, 1]);
        }
    }

    #[test]
    fn a_moving_device_is_as_its_tick_makes_it() {
        let tick = |now: Duration, memory: &mut Dump| {
            memory.set_register(Table::HoldingRegister, Address(10), now.as_secs() as u16);
        };
        let mut device = Pretend::moving(dump(), Box::new(tick));
        assert_eq!(answer(&mut device, 5000, &[3, 0, 10, 0, 1]), [3, 2, 0, 5]);
        assert_eq!(answer(&mut device, 6000, &[3, 0, 10, 0, 1]), [3, 2, 0, 6]);
    }

    #[test]
    fn a_stamped_device_counts_in_all_registers() {
        let read = [3, 0, 10, 0, 2];
        let mut each = Pretend::stamped(dump(), Stamping::EachRequest);
        assert_eq!(answer(&mut each, 0, &read), [3, 4, 0, 1, 0, 1]);
        assert_eq!(answer(&mut each, 0, &read), [3, 4, 0, 2, 0, 2]);
        let mut cycle = Pretend::stamped(dump(), Stamping::EachCycle(NonZeroU32::new(2).unwrap()));
        let counts: Vec<u8> = (0..5).map(|_| answer(&mut cycle, 0, &read)[3]).collect();
        assert_eq!(counts, [1, 1, 2, 2, 3]);
        let mut timed = Pretend::stamped(dump(), Stamping::Every(Duration::from_millis(100)));
        assert_eq!(answer(&mut timed, 99, &read)[3], 1);
        assert_eq!(answer(&mut timed, 250, &read)[3], 3);
    }
}
