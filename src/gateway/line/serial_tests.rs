//! Serial lines over pseudo terminals, against a device written here: it shares no code with ours.

use super::tests::{next, setup};
use super::*;
use crate::model::Condition;
use crate::poll::PartOutcome;
use crate::transport::{Parity, SerialPort};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_serial::{SerialPort as _, SerialStream};

const BAUD: u32 = 19_200;
/// 3.5 characters of eleven bits.
const SILENCE: Duration = Duration::from_nanos(35 * 11 * 100_000_000 / BAUD as u64);

/// A device with unit id 1 whose holding registers say their own address, in a thread of its own. Dropping it unplugs
/// the port.
struct Device {
    path: PathBuf,
    /// Silences between the end of a reply and the beginning of the next request.
    gaps: Arc<Mutex<Vec<Duration>>>,
    _plugged: oneshot::Sender<()>,
}

impl Device {
    fn plug(mute: bool) -> Self {
        let (plugged, unplugged) = oneshot::channel::<()>();
        let (path, told) = std::sync::mpsc::channel();
        let gaps = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&gaps);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (mut far, near) = SerialStream::pair().unwrap();
                path.send(PathBuf::from(near.name().unwrap())).unwrap();
                // Its own end stays open until ours is: else it would read as unplugged before.
                let mut near = Some(near);
                tokio::select! {
                    _ = unplugged => {}
                    () = answer(&mut far, &mut near, mute, &seen) => {}
                }
            });
        });
        Self { path: told.recv().unwrap(), gaps, _plugged: plugged }
    }
}

async fn answer(
    far: &mut (impl AsyncRead + AsyncWrite + Unpin),
    near: &mut Option<SerialStream>,
    mute: bool,
    gaps: &Mutex<Vec<Duration>>,
) {
    let (mut got, mut buffer) = (Vec::new(), [0; 256]);
    let mut replied: Option<Instant> = None;
    loop {
        let Ok(n @ 1..) = far.read(&mut buffer).await else { return };
        *near = None;
        if got.is_empty()
            && let Some(at) = replied
        {
            gaps.lock().unwrap().push(at.elapsed());
        }
        got.extend_from_slice(&buffer[..n]);
        if got.len() < 8 {
            continue;
        }
        assert_eq!(crc(&got), [0, 0], "{got:02X?}");
        let (first, count) = (u16::from_be_bytes([got[2], got[3]]), u16::from_be_bytes([got[4], got[5]]));
        let mine = got[..2] == [1, 3];
        got.clear();
        if mute || !mine {
            continue;
        }
        let mut reply = vec![1, 3, (count * 2) as u8];
        reply.extend((first..first + count).flat_map(u16::to_be_bytes));
        let check = crc(&reply);
        reply.extend(check);
        // As long as both take on the wire; a sleep of the thread is precise enough.
        std::thread::sleep(Duration::from_secs(1) * 11 * (8 + reply.len() as u32) / BAUD);
        // Before it goes out: who loses the processor between the two would measure too little.
        replied = Some(Instant::now());
        far.write_all(&reply).await.unwrap();
    }
}

/// CRC-16 of the serial line guide, 6.2.2, bit by bit; of a whole frame with its own it is zero.
fn crc(bytes: &[u8]) -> [u8; 2] {
    let mut crc = 0xFFFF_u16;
    for byte in bytes {
        crc ^= u16::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xA001 } else { crc >> 1 };
        }
    }
    crc.to_le_bytes()
}

fn spawn(path: &Path) -> (LineHandle, mpsc::UnboundedReceiver<CycleReport>) {
    let (parity, rs485, ascii) = (Parity::Even, false, false);
    let port = SerialPort { path: path.into(), baud: BAUD, data_bits: 8, parity, stop_bits: 1, rs485, ascii };
    spawn_at(LinkAddress::Serial(port))
}

fn spawn_at(address: LinkAddress) -> (LineHandle, mpsc::UnboundedReceiver<CycleReport>) {
    let (tx, rx) = mpsc::unbounded_channel();
    let bus = BusOptions { spread: false, ..BusOptions::default() };
    let options = LineOptions { bus, ..LineOptions::default() };
    let line = Line::spawn(address, Clock::start(), options, move |report| drop(tx.send(report)));
    (line, rx)
}

/// The next good cycle has these values.
async fn good(reports: &mut mpsc::UnboundedReceiver<CycleReport>, count: u16) {
    loop {
        let report = next(reports).await;
        if report.condition == Condition::Reachable {
            assert_eq!(report.groups[0].parts[0].outcome, PartOutcome::Registers((0..count).collect()));
            return;
        }
    }
}

#[tokio::test]
async fn a_line_polls_a_serial_device_with_the_silence_of_the_standard() {
    let device = Device::plug(false);
    let (line, mut reports) = spawn(&device.path);
    line.put(setup("one", 1, 1, 5)).await.unwrap();
    for _ in 0..60 {
        good(&mut reports, 5).await;
    }
    let counters = line.counters().await.unwrap();
    line.stop().await;
    assert_eq!(counters.units[0].1.traffic.timeouts, 0, "{counters:?}");
    let mut gaps = std::mem::take(&mut *device.gaps.lock().unwrap());
    gaps.sort();
    assert!(gaps.len() >= 50, "{}", gaps.len());
    assert!(gaps[0] >= SILENCE, "an early frame: {:?}", gaps[0]);
    // The middle one: others want the processor too.
    let late = gaps[gaps.len() / 2].saturating_sub(SILENCE);
    println!(
        "silence {SILENCE:?}: {:?} in the middle, {:?} to {:?}",
        gaps[gaps.len() / 2],
        gaps[0],
        gaps[gaps.len() - 1]
    );
    assert!(late < Duration::from_micros(400), "{late:?} more than {SILENCE:?}: {gaps:?}");
}

#[tokio::test]
async fn an_adapter_that_is_pulled_and_plugged_under_load_is_used_again_within_two_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("usb-adapter");
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let ours = |path: &Path| {
        let fds = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        fds.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(path))).count()
    };
    let mut device = Device::plug(false);
    symlink(&device.path, &name).unwrap();
    let (line, mut reports) = spawn(&name);
    line.put(setup("one", 1, 20, 3)).await.unwrap();
    good(&mut reports, 3).await;
    for round in 0..4 {
        let path = device.path.clone();
        std::fs::remove_file(&name).unwrap();
        drop(device);
        let missing = timeout(Duration::from_secs(5), async {
            while next(&mut reports).await.condition != Condition::Unreachable(Fault::PortMissing) {}
        });
        missing.await.unwrap();
        assert_eq!(ours(&path), 0, "round {round}: the port that is gone is closed");
        // Long enough away for the pauses to have grown.
        tokio::time::sleep(Duration::from_millis(if round == 0 { 4000 } else { 100 })).await;
        device = Device::plug(false);
        symlink(&device.path, &name).unwrap();
        let plugged = Instant::now();
        good(&mut reports, 3).await;
        assert!(plugged.elapsed() < Duration::from_secs(2), "round {round}: {:?}", plugged.elapsed());
        assert!(ours(&device.path) <= 2, "round {round}: {} of {} descriptors", ours(&device.path), descriptors());
    }
    line.stop().await;
    assert_eq!(ours(&device.path), 0);
}

#[tokio::test]
async fn f25_a_port_that_another_program_holds_is_busy_until_it_is_free() {
    let device = Device::plug(false);
    let held = std::fs::File::open(&device.path).unwrap();
    held.try_lock().unwrap();
    let (line, mut reports) = spawn(&device.path);
    line.put(setup("one", 1, 50, 1)).await.unwrap();
    assert_eq!(next(&mut reports).await.condition, Condition::Unreachable(Fault::PortBusy));
    assert_eq!(line.counters().await.unwrap().link.traffic.requests, 0);
    drop(held);
    good(&mut reports, 1).await;
    line.stop().await;
}

#[tokio::test]
async fn f30_a_mute_serial_device_does_not_hold_up_the_stop() {
    let device = Device::plug(true);
    let (line, _reports) = spawn(&device.path);
    for unit in 1..=20 {
        line.put(setup(&format!("d{unit}"), unit, 1000, 1)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(line.counters().await.unwrap().link.traffic.requests, 1);
    let began = Instant::now();
    line.stop().await;
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
}

#[tokio::test]
async fn f22_what_a_device_server_says_at_the_connect_spoils_no_reply() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = LinkAddress::RtuOverTcp(listener.local_addr().unwrap().to_string().parse().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&[0x00, 0x11, 0x22, 0x33, 0x44, 0x55]).await.unwrap();
        answer(&mut stream, &mut None, false, &Mutex::new(Vec::new())).await;
    });
    let (line, mut reports) = spawn_at(address);
    line.put(setup("one", 1, 10, 4)).await.unwrap();
    for _ in 0..5 {
        let report = next(&mut reports).await;
        assert_eq!(report.condition, Condition::Reachable);
        assert_eq!(report.groups[0].parts[0].outcome, PartOutcome::Registers(vec![0, 1, 2, 3]));
    }
    let counters = line.counters().await.unwrap();
    assert_eq!((counters.units[0].1.traffic.timeouts, counters.link.reconnects), (0, 0), "{counters:?}");
    line.stop().await;
    server.abort();
}
