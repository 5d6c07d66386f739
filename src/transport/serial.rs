//! Serial ports: opening them for us alone, with the settings that were asked for and no others.
//!
//! Never flushed: that would block until all is on the wire, and nobody needs to know. Reading nothing means that the
//! port is gone (an adapter was unplugged); it is opened anew by its name then.

use super::ConnectError;
use serial2::KeepSettings;
use serial2::rs4xx::Rs485Config;
use std::fmt;
use std::fs::{OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tokio_serial::{ClearBuffer, DataBits, ErrorKind, SerialPort as _, SerialPortBuilderExt, SerialStream, StopBits};

/// A serial port with its settings. Devices that name an equal one share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SerialPort {
    /// As in `/dev/ttyUSB0` or `/dev/serial/by-id/…`; looked up anew at each opening.
    pub path: PathBuf,
    /// Bits a second; any that the port can make.
    pub baud: u32,
    /// 5 to 8. RTU needs 8.
    pub data_bits: u8,
    /// None, even or odd.
    pub parity: Parity,
    /// 1 or 2.
    pub stop_bits: u8,
    /// Let the driver switch the transmitter by RTS. Where it cannot, that is logged and the port used as it is: most
    /// adapters switch by themselves.
    pub rs485: bool,
    /// ASCII framing in place of RTU.
    pub ascii: bool,
}

/// The parity bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the words say it")]
pub enum Parity {
    None,
    Even,
    Odd,
}

impl SerialPort {
    /// Bits of one character on the wire: the start bit, data, parity and stop bits.
    pub fn bits_per_character(&self) -> u8 {
        1 + self.data_bits + u8::from(self.parity != Parity::None) + self.stop_bits
    }
}

impl fmt::Display for SerialPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if self.ascii { f.write_str(" (ASCII)") } else { Ok(()) }
    }
}

/// An open port. Dropping it throws away what was not sent yet: closing would wait for that, half a minute at worst.
#[derive(Debug)]
pub struct OpenPort(pub(super) SerialStream);

impl Drop for OpenPort {
    fn drop(&mut self) {
        let _ = self.0.clear(ClearBuffer::All);
    }
}

/// Opens a port, locked against every other program, with exactly these settings.
pub(super) fn open(port: &SerialPort) -> Result<OpenPort, ConnectError> {
    let path = &port.path;
    let name = path.to_str().ok_or_else(|| wrong(path, "no serial port has such a name"))?;
    if port.rs485 {
        switch_by_rts(path)?;
    }
    let settings = tokio_serial::new(name, port.baud)
        .data_bits(data_bits(port)?)
        .parity(parity(port.parity))
        .stop_bits(stop_bits(port)?);
    let stream = settings.open_native_async().map_err(|error| failed(path, error))?;
    let open = OpenPort(stream);
    confirm(port, &open.0)?;
    // What came before was meant for somebody else, or was garbled by other settings.
    let _ = open.0.clear(ClearBuffer::All);
    Ok(open)
}

fn data_bits(port: &SerialPort) -> Result<DataBits, ConnectError> {
    DataBits::try_from(port.data_bits).map_err(|()| wrong(&port.path, &format!("{} data bits", port.data_bits)))
}

fn stop_bits(port: &SerialPort) -> Result<StopBits, ConnectError> {
    StopBits::try_from(port.stop_bits).map_err(|()| wrong(&port.path, &format!("{} stop bits", port.stop_bits)))
}

fn parity(parity: Parity) -> tokio_serial::Parity {
    match parity {
        Parity::None => tokio_serial::Parity::None,
        Parity::Even => tokio_serial::Parity::Even,
        Parity::Odd => tokio_serial::Parity::Odd,
    }
}

/// A driver may take over other settings than it was given, without a word. A port with other settings than the devices
/// on it hears nothing but noise.
fn confirm(port: &SerialPort, stream: &SerialStream) -> Result<(), ConnectError> {
    let path = &port.path;
    // A pseudo terminal has no line: whatever it says of parity and data bits has no effect.
    if path.canonicalize().is_ok_and(|real| real.starts_with("/dev/pts")) {
        return Ok(());
    }
    let refused = |what: String| Err(wrong(path, &format!("the port does not take {what}")));
    let near = |got: u32| got.abs_diff(port.baud) <= port.baud / 33;
    if !stream.baud_rate().is_ok_and(near) {
        return refused(format!("{} baud", port.baud));
    }
    if !stream.parity().is_ok_and(|p| p == parity(port.parity)) {
        return refused(format!("parity {}", port.parity));
    }
    if !stream.data_bits().is_ok_and(|d| u8::from(d) == port.data_bits) {
        return refused(format!("{} data bits", port.data_bits));
    }
    if !stream.stop_bits().is_ok_and(|s| u8::from(s) == port.stop_bits) {
        return refused(format!("{} stop bits", port.stop_bits));
    }
    Ok(())
}

impl fmt::Display for Parity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Even => "even",
            Self::Odd => "odd",
        })
    }
}

/// Tells the driver to switch the transmitter by RTS. It keeps that while the port is closed, so it is told over a
/// descriptor of its own, before ours locks the port; not where somebody else has it locked.
fn switch_by_rts(path: &Path) -> Result<(), ConnectError> {
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits().cast_signed())
        .open(path)
        .map_err(|error| of_io(path, &error))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(busy(path)),
        Err(TryLockError::Error(error)) => return Err(of_io(path, &error)),
    }
    let told = serial2::SerialPort::open(path, KeepSettings).and_then(|port| port.set_rs4xx_mode(Rs485Config::new()));
    if let Err(error) = told {
        tracing::warn!(port = %path.display(), "the driver cannot switch RS-485 by itself, the port is used as it is: {error}");
    }
    Ok(())
}

/// What an error of the serial library says. It tells a lock held by somebody else by words only.
fn failed(path: &Path, error: tokio_serial::Error) -> ConnectError {
    let words = error.description.to_ascii_lowercase();
    if words.contains("exclusive lock") || words.contains("busy") {
        return busy(path);
    }
    match error.kind {
        ErrorKind::Io(kind) => of_io(path, &io::Error::new(kind, error.description)),
        _ if !path.exists() => ConnectError::Missing(of(path, &error.description)),
        ErrorKind::NoDevice if words.contains("permission") => denied(path, &error.description),
        _ => wrong(path, &error.description),
    }
}

fn of_io(path: &Path, error: &io::Error) -> ConnectError {
    match error.kind() {
        io::ErrorKind::NotFound => ConnectError::Missing(of(path, &error.to_string())),
        io::ErrorKind::PermissionDenied => denied(path, &error.to_string()),
        io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock => busy(path),
        // An adapter that is being unplugged leaves its name for a moment.
        _ if matches!(error.raw_os_error(), Some(5 | 6 | 19)) => ConnectError::Missing(of(path, &error.to_string())),
        _ => wrong(path, &error.to_string()),
    }
}

fn of(path: &Path, words: &str) -> io::Error {
    io::Error::other(format!("{}: {words}", path.display()))
}

fn busy(path: &Path) -> ConnectError {
    ConnectError::Busy(of(path, "another program has it open"))
}

fn wrong(path: &Path, words: &str) -> ConnectError {
    ConnectError::Refused(of(path, words))
}

fn denied(path: &Path, words: &str) -> ConnectError {
    let remedy = "the user must be in the group of the port: `sudo usermod -aG dialout USER`, then log in anew";
    ConnectError::PermissionDenied(of(path, &format!("{words}; {remedy}")))
}
