//! Serial ports over pseudo terminals. These have no line: neither speed nor parity can be seen there.

use super::*;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_serial::{SerialPort as _, SerialStream};

/// The far end of a pseudo terminal, and the path of its near end.
fn pair() -> (SerialStream, PathBuf) {
    let (far, near) = SerialStream::pair().unwrap();
    let path = near.name().unwrap().into();
    (far, path)
}

fn port(path: &Path) -> SerialPort {
    let (baud, data_bits, stop_bits) = (19_200, 8, 1);
    SerialPort { path: path.into(), baud, data_bits, parity: Parity::Even, stop_bits, rs485: false, ascii: false }
}

async fn open(port: &SerialPort) -> Result<Link, ConnectError> {
    Link::connect(&LinkAddress::Serial(port.clone()), Duration::from_secs(1)).await
}

#[tokio::test]
async fn bytes_go_both_ways() {
    let (mut far, path) = pair();
    let mut link = open(&port(&path)).await.unwrap();
    assert_eq!(link.try_send(&[1, 3, 0, 0x0A, 0x0D, 0x11, 0x7F, 0xFF]).unwrap(), 8);
    let mut buffer = [0; 20];
    let n = far.read(&mut buffer).await.unwrap();
    // No byte is special to the terminal.
    assert_eq!(buffer[..n], [1, 3, 0, 0x0A, 0x0D, 0x11, 0x7F, 0xFF]);
    far.write_all(&[0x0D, 3, 4, 0x13, 0]).await.unwrap();
    assert_eq!(link.exchange(&[], &mut buffer).await.unwrap(), Exchanged::Received(5));
    assert_eq!(buffer[..5], [0x0D, 3, 4, 0x13, 0]);
}

#[tokio::test]
async fn f25_a_port_is_locked_against_a_second_opening() {
    let (_far, path) = pair();
    let first = open(&port(&path)).await.unwrap();
    let second = open(&port(&path)).await;
    assert!(matches!(&second, Err(ConnectError::Busy(e)) if e.to_string().contains("/dev/pts")), "{second:?}");
    let with_rs485 = open(&SerialPort { rs485: true, ..port(&path) }).await;
    assert!(matches!(with_rs485, Err(ConnectError::Busy(_))), "{with_rs485:?}");
    drop(first);
    assert!(open(&port(&path)).await.is_ok());
}

#[tokio::test]
async fn f25_an_advisory_lock_of_another_program_is_heeded() {
    let (mut far, path) = pair();
    let held = std::fs::File::open(&path).unwrap();
    held.try_lock().unwrap();
    for rs485 in [false, true] {
        let refused = open(&SerialPort { rs485, ..port(&path) }).await;
        assert!(matches!(refused, Err(ConnectError::Busy(_))), "{refused:?}");
    }
    assert!(timeout(Duration::from_millis(50), far.read_u8()).await.is_err(), "no byte is sent");
    drop(held);
    assert!(open(&port(&path)).await.is_ok());
}

#[tokio::test]
async fn a_port_that_is_not_there_is_missing() {
    for rs485 in [false, true] {
        let missing = open(&SerialPort { rs485, ..port(Path::new("/dev/no-such-port")) }).await;
        assert!(
            matches!(&missing, Err(ConnectError::Missing(e)) if e.to_string().contains("/dev/no-such-port")),
            "{missing:?}"
        );
    }
}

#[tokio::test]
async fn what_is_no_port_is_refused_with_its_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let refused = open(&port(file.path())).await;
    let name = file.path().display().to_string();
    assert!(matches!(&refused, Err(ConnectError::Refused(e)) if e.to_string().contains(&name)), "{refused:?}");
    let (_far, path) = pair();
    for port in [SerialPort { data_bits: 9, ..port(&path) }, SerialPort { stop_bits: 3, ..port(&path) }] {
        let refused = open(&port).await;
        assert!(matches!(&refused, Err(ConnectError::Refused(e)) if e.to_string().contains("bits")), "{refused:?}");
    }
}

#[tokio::test]
async fn a_driver_without_rs485_is_used_as_it_is() {
    let (_far, path) = pair();
    assert!(open(&SerialPort { rs485: true, ..port(&path) }).await.is_ok());
}

#[tokio::test]
async fn odd_speeds_are_set() {
    let (_far, path) = pair();
    for baud in [1200, 57_600, 76_800, 187_500, 1_234_567] {
        let Ok(Link::Serial(open)) = open(&SerialPort { baud, ..port(&path) }).await else { panic!("{baud}") };
        assert_eq!(open.0.baud_rate().unwrap(), baud);
    }
}

#[tokio::test]
async fn an_unplugged_port_reads_nothing_and_comes_back_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("usb-adapter");
    let (far, path) = pair();
    symlink(&path, &name).unwrap();
    let mut link = open(&port(&name)).await.unwrap();
    drop(far);
    let mut buffer = [0; 20];
    let lost = timeout(Duration::from_secs(1), link.exchange(&[], &mut buffer)).await.unwrap();
    assert!(matches!(lost, Ok(Exchanged::Received(0)) | Err(_)), "{lost:?}");
    drop(link);
    std::fs::remove_file(&name).unwrap();
    assert!(matches!(open(&port(&name)).await, Err(ConnectError::Missing(_))));
    let (mut far, path) = pair();
    symlink(&path, &name).unwrap();
    let mut link = open(&port(&name)).await.unwrap();
    far.write_all(&[7]).await.unwrap();
    assert_eq!(link.exchange(&[], &mut buffer).await.unwrap(), Exchanged::Received(1));
}

#[test]
fn characters_are_as_long_as_their_bits() {
    let even = port(Path::new("x"));
    assert_eq!(even.bits_per_character(), 11);
    assert_eq!(SerialPort { parity: Parity::None, stop_bits: 2, ..even.clone() }.bits_per_character(), 11);
    assert_eq!(SerialPort { data_bits: 7, ..even.clone() }.bits_per_character(), 10);
    assert_eq!(SerialPort { parity: Parity::None, ..even }.bits_per_character(), 10);
}
