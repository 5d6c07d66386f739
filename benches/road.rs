//! The loops that run per frame: deframe, decode, commit, write. Figures are ratios of one run on one machine.
//!
//! `cargo bench` prints them; nothing asserts them.

use divan::{Bencher, black_box};
use fieldshadow::codec::Decoder;
use fieldshadow::document::Document;
use fieldshadow::modbus::mbap::Deframer;
use fieldshadow::modbus::{Address, AddressRange, Reply, Table};
use fieldshadow::model::{
    Batch, Condition, Configuration, Cycle, DeviceId, Epoch, Generation, GroupId, GroupLayout, GroupResult, Interval,
    IntervalLayout, JsonForm, Layout, Mono, PointId, PointLayout, Reading, Stamp, Value, Wall,
};
use fieldshadow::poll::{CycleReport, GroupReport, Part, PartOutcome};
use fieldshadow::profile;
use fieldshadow::twin::{Options, Store};
use std::sync::Arc;
use std::time::Duration;

fn main() {
    divan::main();
}

const POINTS: usize = 100;

fn layout() -> Arc<Layout> {
    let points = (0..POINTS).map(|i| PointLayout {
        path: format!("r{i}").into(),
        group: GroupId(0),
        json: JsonForm::Plain,
        publish: true,
    });
    Arc::new(Layout {
        profile: "bench/stamped".into(),
        profile_version: "1.0.0".into(),
        points: points.collect(),
        groups: vec![GroupLayout { name: "all".into(), interval: Interval(0) }],
        intervals: vec![IntervalLayout { every: Some(Duration::from_secs(1)) }],
        offline_after: 3,
        timeout: Duration::from_secs(1),
        simulated: false,
    })
}

fn batch(device: &DeviceId, cycle: u64) -> Batch {
    let at = Stamp { mono: Mono(Duration::from_millis(cycle)), wall: Wall(1_800_000_000_000 + cycle) };
    Batch {
        device: device.clone(),
        generation: Generation(1),
        interval: Interval(0),
        cycle: Cycle(cycle),
        started: at,
        ended: at,
        condition: Condition::Reachable,
        skew_exceeded: false,
        groups: vec![(GroupId(0), GroupResult::Read(at.wall))],
        readings: (0..POINTS).map(|i| (PointId(i as u16), Reading::Good(Value::Int(cycle as i64)))).collect(),
    }
}

/// A batch of 100 points, all changed, into a store of so many devices.
#[divan::bench(args = [1, 100, 1000, 10_000])]
fn commit_100_points(bencher: Bencher<'_, '_>, devices: usize) {
    // A short ring: its memory is not what is measured.
    let store = Store::new(Epoch(1), &Options { ring_entries: 100, ring_bytes: 16 << 20 });
    let layout = layout();
    let ids: Vec<DeviceId> = (0..devices).map(|i| DeviceId::new(&format!("d{i}")).unwrap()).collect();
    for id in &ids {
        store.configure(id, Configuration::Ready(Arc::clone(&layout)), Stamp::default());
    }
    let mut cycle = 0;
    bencher
        .with_inputs(|| {
            cycle += 1;
            batch(&ids[cycle as usize % devices], cycle)
        })
        .bench_local_refs(|batch| black_box(store.commit(batch).unwrap()));
}

/// The same with equal values: last-seen only.
#[divan::bench]
fn commit_100_points_unchanged(bencher: Bencher<'_, '_>) {
    let store = Store::new(Epoch(1), &Options::default());
    let id = DeviceId::new("d").unwrap();
    store.configure(&id, Configuration::Ready(layout()), Stamp::default());
    let mut cycle = 0;
    bencher
        .with_inputs(|| {
            cycle += 1;
            let mut batch = batch(&id, cycle);
            batch.readings.iter_mut().for_each(|(_, reading)| *reading = Reading::Good(Value::Int(7)));
            batch
        })
        .bench_local_refs(|batch| black_box(store.commit(batch).unwrap()));
}

/// The reply to a read of 100 registers, from the bytes of the stream to a vector of registers.
#[divan::bench]
fn deframe_100_registers(bencher: Bencher<'_, '_>) {
    let mut frame = vec![0x00, 0x07, 0, 0, 0, 203, 1, 3, 200];
    frame.extend((0..100u16).flat_map(u16::to_be_bytes));
    let range = AddressRange::new(Address(0), 100).unwrap();
    let mut deframer = Deframer::default();
    bencher.bench_local(|| {
        let (adu, _) = deframer.next(black_box(&frame)).unwrap();
        let Reply::Read(values) = Reply::parse(Table::HoldingRegister, range, adu.unwrap().pdu).unwrap() else {
            unreachable!("it is no exception")
        };
        black_box(values.registers().collect::<Vec<u16>>())
    });
}

/// 100 registers to 100 readings: plain, and scaled with limits.
#[divan::bench(args = ["type: u16", "type: i16, scale: 0.1, min: -4000, max: 4000"])]
fn decode_100_registers(bencher: Bencher<'_, '_>, point: &str) {
    use std::fmt::Write as _;
    let mut text = String::from("profile: bench/decode\nversion: 1.0.0\ngroups:\n  g:\n    base: 0\n    points:\n");
    for i in 0..POINTS {
        writeln!(text, "      r{i}: {{offset: {i}, {point}}}").unwrap();
    }
    let profile = profile::parse(&Document::parse("bench", &text).unwrap()).unwrap();
    let decoder = Decoder::new(&profile);
    let at = Stamp::default();
    let part = Part {
        table: Table::HoldingRegister,
        range: AddressRange::new(Address(0), 100).unwrap(),
        outcome: PartOutcome::Registers((0..100).map(|i| i * 37).collect()),
        received: at,
    };
    let report = CycleReport {
        device: DeviceId::new("d").unwrap(),
        generation: Generation(1),
        interval: Interval(0),
        cycle: Cycle(1),
        started: at,
        ended: at,
        first_reply: at,
        condition: Condition::Reachable,
        groups: vec![GroupReport { group: GroupId(0), parts: vec![part] }],
    };
    bencher.bench_local(|| black_box(decoder.decode(black_box(&report))));
}
