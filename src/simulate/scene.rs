//! The demo's machines: a servo drive that works a press, a meter on its supply and one on a single phase.
//!
//! Pure: registers are a function of the time since the scene began. Figures are made up to be plausible, and so that
//! every minute shows a fault and its end.

use crate::modbus::{Address, Table};
use crate::profile::Dump;
use std::f64::consts::TAU;
use std::time::Duration;

/// Registers of an Inovance IS620P (`inovance/is620p`) that moves a press up and down, and trips once a minute.
pub fn servo(at: Duration) -> Dump {
    let t = at.as_secs_f64();
    let in_minute = t % 60.0;
    let faulty = (40.0..46.0).contains(&in_minute);
    let speed = if faulty { 0.0 } else { stroke(t) };
    let torque = if faulty { 0.0 } else { 18.0 + 9.0 * (t * 1.7).sin() };
    let current = if faulty { 0.0 } else { 3.2 + 1.4 * (t * 1.7).sin() };
    let state: u16 = if faulty { 3 } else { 2 };
    let mut d = Dump::default();
    let mut set = |address: u16, value: i64| d.set_register(Table::HoldingRegister, Address(address), value as u16);
    let mut low_first = |address: u16, value: i64| {
        set(address, value & 0xFFFF);
        set(address + 1, (value >> 16) & 0xFFFF);
    };
    low_first(0x0B07, (60_000.0 * (t * TAU / 8.0).sin()) as i64);
    low_first(0x0B13, 3_429_330 + (t * 10.0) as i64);
    low_first(0x0B23, 3_411_020);
    low_first(0x0B35, (3.0 * (t * 5.0).sin()) as i64);
    set(0x3000, i64::from(state << 12 | 1));
    set(0x0B00, speed as i64);
    set(0x0B01, speed as i64);
    set(0x0B02, (torque * 10.0) as i64);
    set(0x0B03, 0x01BF);
    set(0x0B05, if faulty { 0x1D } else { 0x1E });
    set(0x0B0C, 425 + (20.0 * (t / 10.0).sin()) as i64);
    set(0x0B18, (current * 100.0) as i64);
    set(0x0B1A, 3242 + (15.0 * (t / 3.0).sin()) as i64);
    set(0x0B1B, 38 + (4.0 * (t / 40.0).sin()) as i64);
    set(0x0B21, 0);
    set(0x0B22, if faulty || t > 46.0 { 0x0620 } else { 0x6E08 });
    set(0x0B25, 1450);
    set(0x0B26, 412);
    set(0x0B27, -207);
    set(0x0B28, 3242);
    set(0x0B2D, 0);
    d
}

/// Speed of the press' motor in rpm: eight seconds down and up again.
fn stroke(t: f64) -> f64 {
    let in_stroke = t % 8.0;
    let ramp = |from: f64| (in_stroke - from).clamp(0.0, 1.0);
    1450.0 * (ramp(0.0) - ramp(2.0)) - 1450.0 * (ramp(4.0) - ramp(6.0))
}

/// Registers of an Eastron SDM630 (`eastron/sdm630`) on the hall's supply.
pub fn hall_meter(at: Duration) -> Dump {
    let t = at.as_secs_f64();
    let mut d = Dump::default();
    for address in 0..400 {
        d.set_register(Table::InputRegister, Address(address), 0);
    }
    let mut set = |address: u16, value: f64| float(&mut d, Table::InputRegister, address, value);
    let (mut watts, mut volt_amperes, mut vars, mut amperes) = (0.0, 0.0, 0.0, 0.0);
    for phase in 0..3u16 {
        let shift = f64::from(phase) * TAU / 3.0;
        let voltage = 230.0 + 1.5 * (t / 7.0 + shift).sin();
        let current = 6.0 + 2.5 * (t / 4.0 + shift).sin() + f64::from(phase);
        let factor = 0.93 + 0.02 * (t / 11.0 + shift).sin();
        let apparent = voltage * current;
        let (active, reactive) = (apparent * factor, apparent * (1.0 - factor * factor).sqrt());
        for (base, value) in [(0, voltage), (6, current), (12, active), (18, apparent), (24, reactive), (30, factor)] {
            set(base + phase * 2, value);
        }
        set(36 + phase * 2, factor.acos().to_degrees());
        set(346 + phase * 2, 1200.0 + f64::from(phase) * 37.0 + t / 3600.0);
        set(200 + phase * 2, voltage * 3f64.sqrt());
        watts += active;
        volt_amperes += apparent;
        vars += reactive;
        amperes += current;
    }
    let total = 4_021.37 + watts * t / 3.6e6;
    for (address, value) in [
        (42, 230.0),
        (46, amperes / 3.0),
        (48, amperes),
        (52, watts),
        (56, volt_amperes),
        (60, vars),
        (62, watts / volt_amperes),
        (66, (watts / volt_amperes).acos().to_degrees()),
        (70, 50.0 + 0.02 * (t / 5.0).sin()),
        (72, total),
        (76, 812.5),
        (80, 4.3),
        (84, watts),
        (86, 9_800.0),
        (206, 398.4),
        (224, 0.4),
        (342, total),
        (344, 812.5),
    ] {
        set(address, value);
    }
    d
}

/// Registers of an Eastron SDM230 (`eastron/sdm230`) on one phase: a compressor that switches on and off.
pub fn compressor_meter(at: Duration) -> Dump {
    let t = at.as_secs_f64();
    let runs = t % 20.0 < 12.0;
    let mut d = Dump::default();
    for address in 0..400 {
        d.set_register(Table::InputRegister, Address(address), 0);
    }
    let voltage = 231.0 + (t / 6.0).sin();
    let current = if runs { 4.8 + 0.3 * (t * 2.0).sin() } else { 0.03 };
    let factor = if runs { 0.81 } else { 0.42 };
    let apparent = voltage * current;
    let mut set = |address: u16, value: f64| float(&mut d, Table::InputRegister, address, value);
    for (address, value) in [
        (0, voltage),
        (6, current),
        (12, apparent * factor),
        (18, apparent),
        (24, -apparent * (1.0f64 - factor * factor).sqrt()),
        (30, factor),
        (36, 360.0 - f64::acos(factor).to_degrees()),
        (70, 50.0 + 0.02 * (t / 5.0).sin()),
        (72, 291.627 + t / 4000.0),
        (76, 0.17),
        (78, 26.445),
        (84, 640.0),
        (86, 1679.0),
        (88, 640.0),
        (90, 1679.0),
        (258, 2.9),
        (264, 6.987),
        (342, 291.627 + t / 4000.0),
        (344, 26.615),
        (384, 291.627 + t / 4000.0),
        (386, 26.615),
    ] {
        set(address, value);
    }
    let mut hold = |address: u16, value: f64| float(&mut d, Table::HoldingRegister, address, value);
    for (address, value) in [(12, 100.0), (18, 0.0), (20, 1.0), (28, 4.0), (63_792, 4897.95 + t / 3600.0)] {
        hold(address, value);
    }
    for (address, value) in [
        (62_720, 5377),
        (62_721, 96),
        (63_760, 0),
        (63_761, 0),
        (63_776, 2),
        (63_777, 0),
        (64_512, 3822),
        (64_513, 11422),
    ] {
        d.set_register(Table::HoldingRegister, Address(address), value);
    }
    d
}

/// A 32-bit float, high word first.
fn float(d: &mut Dump, table: Table, address: u16, value: f64) {
    let bits = (value as f32).to_bits();
    d.set_register(table, Address(address), (bits >> 16) as u16);
    d.set_register(table, Address(address + 1), bits as u16);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::AddressRange;

    #[test]
    fn the_scene_moves_and_trips_once_a_minute() {
        let state = |s: u64| {
            let range = AddressRange::new(Address(0x3000), 1).unwrap();
            servo(Duration::from_secs(s)).registers(Table::HoldingRegister, range).unwrap()[0] >> 12
        };
        assert_eq!([state(1), state(41), state(47), state(101)], [2, 3, 2, 3]);
        assert_ne!(servo(Duration::from_secs(1)), servo(Duration::from_secs(2)));
        assert_ne!(hall_meter(Duration::from_secs(1)), hall_meter(Duration::from_secs(2)));
        assert_ne!(compressor_meter(Duration::from_secs(1)), compressor_meter(Duration::from_secs(13)));
    }
}
