//! Pretend devices on a serial line: a real port, or a pseudo terminal where there is no hardware.
//!
//! Each line has a thread of its own, because an asynchronous timer is a millisecond late and a line's silences are
//! not longer. A pseudo terminal has no speed of its own: given one, bytes come as late as they would at it.

use super::framing::Requests;
use super::station::{Dialogue, Outgoing, Station};
use super::tcp::BETWEEN_SEGMENTS;
use super::{Faults, Framing, Pretend};
use crate::modbus::{LineSpeed, UnitId};
use crate::transport::{Parity, SerialPort};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{Errno, read, write};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{ControlModes, OptionalActions, tcgetattr, tcsetattr};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// An open port. Dropping it closes it, and takes away the link to a pseudo terminal.
#[derive(Debug)]
pub struct Port {
    fd: OwnedFd,
    path: PathBuf,
    /// Bytes are held back to this speed; nothing where the hardware does it, or nobody wants it.
    pace: Option<LineSpeed>,
    silence: Duration,
    /// The other end of a pseudo terminal, held open so that a client's leaving ends nothing.
    far: Option<OwnedFd>,
    link: Option<PathBuf>,
}

/// A line that runs. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Port {
    /// Opens a serial device, locked against a second program.
    pub fn open(port: &SerialPort) -> io::Result<Self> {
        let fd = open(&port.path, OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        flock(&fd, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => io::Error::new(io::ErrorKind::ResourceBusy, "another program holds it"),
            other => other.into(),
        })?;
        configure(&fd, port)?;
        let silence = speed(port).silence();
        Ok(Self { fd, path: port.path.clone(), pace: None, silence, far: None, link: None })
    }

    /// Opens a pseudo terminal: clients open [`Port::path`], or `link`, a symbolic link to it that this makes (and
    /// that may stand there from before, if it is a link).
    ///
    /// With a speed, bytes come as late as at it; without, at once.
    pub fn pty(link: Option<&Path>, speed: Option<LineSpeed>) -> io::Result<Self> {
        let fd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&fd)?;
        unlockpt(&fd)?;
        let name = ptsname(&fd, Vec::new())?.into_string().map_err(io::Error::other)?;
        let path = PathBuf::from(name);
        let far = open(&path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        let mut termios = tcgetattr(&far)?;
        termios.make_raw();
        tcsetattr(&far, OptionalActions::Now, &termios)?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        if let Some(link) = link {
            if link.symlink_metadata().is_ok_and(|m| m.is_symlink()) {
                std::fs::remove_file(link)?;
            }
            std::os::unix::fs::symlink(&path, link)?;
        }
        let silence = speed.map_or(Duration::ZERO, LineSpeed::silence);
        Ok(Self { fd, path, pace: speed, silence, far: Some(far), link: link.map(Path::to_owned) })
    }

    /// What clients open.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            // Somebody else may have put theirs there.
            if std::fs::read_link(link).is_ok_and(|to| to == self.path) {
                let _ = std::fs::remove_file(link);
            }
        }
    }
}

/// Answers on a port for these devices until stopped, or until the port goes.
pub fn serve(port: Port, framing: Framing, devices: Vec<(UnitId, Pretend)>, faults: Faults) -> io::Result<Server> {
    let (stop, stopped) = UnixStream::pair()?;
    let path = port.path.clone();
    let station = Station::new(framing, devices, faults);
    let dialogue = station.dialogue(Duration::ZERO, 0);
    let line = Line {
        port,
        requests: Requests::new(framing),
        station,
        dialogue,
        began: Instant::now(),
        quiet_from: Instant::now(),
        outbox: BTreeMap::new(),
        nth: 0,
        sending: None,
    };
    let thread = std::thread::Builder::new().name("simulated line".to_owned()).spawn(move || line.run(&stopped))?;
    Ok(Server { path, stop: Some(stop), thread: Some(thread) })
}

impl Server {
    /// What clients open.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the port is still there.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops it and closes the port; the error that ended it before, if one did.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        // Its other end sees this one gone.
        self.stop = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(io::Error::other("the line's thread panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end());
    }
}

struct Line {
    port: Port,
    station: Station,
    dialogue: Dialogue,
    requests: Requests,
    began: Instant,
    /// When the last byte heard was past, at the line's speed.
    quiet_from: Instant,
    /// What waits for its time; equal times in the order of their requests.
    outbox: BTreeMap<(Instant, u64), Outgoing>,
    nth: u64,
    sending: Option<Sending>,
}

/// A frame that goes out.
struct Sending {
    began: Instant,
    bytes: Vec<u8>,
    sent: usize,
}

impl Line {
    fn run(mut self, stopped: &UnixStream) -> io::Result<()> {
        let mut buffer = [0; 1024];
        let mut heard = Vec::new();
        loop {
            let now = Instant::now();
            let wake = self.send(now)?;
            let wait = wake.map_or(IDLE, |at| at.saturating_duration_since(Instant::now()));
            let until = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
            let mut fds =
                [PollFd::new(&self.port.fd, PollFlags::IN), PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN)];
            let ready = match poll(&mut fds, Some(&until)) {
                Err(Errno::INTR) => continue,
                ready => ready?,
            };
            if !fds[1].revents().is_empty() {
                return Ok(());
            }
            if ready == 0 {
                self.idle(wake.is_none());
                continue;
            }
            match read(&self.port.fd, &mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.hear(&buffer[..n], &mut heard),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn hear(&mut self, bytes: &[u8], heard: &mut Vec<super::framing::Heard>) {
        let now = Instant::now();
        if now.saturating_duration_since(self.quiet_from) > FORGET {
            self.requests.forget();
        }
        // On the line these bytes would still be coming.
        let began = self.quiet_from.max(now);
        self.quiet_from = self.port.pace.map_or(now, |speed| began + speed.time_of(bytes.len()));
        // Serial framings do not lose their step for good.
        let _ = self.requests.take(bytes, heard);
        for request in heard.drain(..) {
            let mut outgoing = Vec::new();
            self.station.answer(&mut self.dialogue, self.began.elapsed(), &request, &mut outgoing);
            for one in outgoing.into_iter().take(MAX_WAITING.saturating_sub(self.outbox.len())) {
                let at = match one.kind {
                    super::station::Kind::Echo => began,
                    // A device knows by the silence that the request has ended.
                    super::station::Kind::Reply => self.quiet_from + self.port.silence + one.after,
                };
                self.nth += 1;
                self.outbox.insert((at, self.nth), one);
            }
        }
    }

    /// Sends what is due; gives when there is more to send.
    fn send(&mut self, now: Instant) -> io::Result<Option<Instant>> {
        loop {
            if self.sending.is_none() {
                let Some(first) = self.outbox.first_entry() else { return Ok(None) };
                let at = first.key().0;
                if at > now {
                    return Ok(Some(at));
                }
                self.sending = Some(Sending { began: at, bytes: first.remove().bytes, sent: 0 });
            }
            let Some(sending) = &mut self.sending else { return Ok(None) };
            let len = sending.bytes.len();
            let split = self.station.faults.split.map(std::num::NonZeroUsize::get);
            let arrival = |bytes: usize| {
                let gaps = split.map_or(0, |segment| bytes.saturating_sub(1) / segment);
                let pace = self.port.pace.map_or(Duration::ZERO, |speed| speed.time_of(bytes));
                sending.began + pace + BETWEEN_SEGMENTS * gaps as u32
            };
            let due = (sending.sent..=len).rev().find(|n| *n == sending.sent || arrival(*n) <= now);
            let due = due.unwrap_or(sending.sent);
            if due > sending.sent {
                match write(&self.port.fd, &sending.bytes[sending.sent..due]) {
                    Ok(n) => sending.sent += n,
                    Err(Errno::INTR) => {}
                    // Nobody reads: on a line the bytes would be gone, too. A real port's buffer holds any frame.
                    Err(Errno::AGAIN) => sending.sent = due,
                    Err(error) => return Err(error.into()),
                }
                if sending.sent < due {
                    continue;
                }
            }
            if sending.sent < len {
                // As from a port that hands over what came within a millisecond.
                let next = (sending.sent + 1..=len).find(|n| *n == len || arrival(*n) >= now + PIECE).unwrap_or(len);
                return Ok(Some(arrival(next)));
            }
            self.sending = None;
        }
    }

    /// A client that was killed leaves its mark of exclusive use on a pseudo terminal that is never quite closed.
    fn idle(&mut self, quiet: bool) {
        if let Some(far) = self.port.far.as_ref().filter(|_| quiet && self.quiet_from.elapsed() > IDLE) {
            let _ = rustix::termios::ioctl_tiocnxcl(far);
        }
    }
}

/// Bits and characters a second.
pub fn speed(port: &SerialPort) -> LineSpeed {
    LineSpeed { baud: port.baud, bits_per_character: port.bits_per_character() }
}

fn configure(fd: &OwnedFd, settings: &SerialPort) -> io::Result<()> {
    let mut termios = tcgetattr(fd)?;
    termios.make_raw();
    termios.set_speed(settings.baud)?;
    let modes = &mut termios.control_modes;
    modes.remove(ControlModes::CSIZE | ControlModes::PARENB | ControlModes::PARODD | ControlModes::CSTOPB);
    modes.remove(ControlModes::CRTSCTS);
    modes.insert(ControlModes::CREAD | ControlModes::CLOCAL);
    modes.insert(match settings.data_bits {
        5 => ControlModes::CS5,
        6 => ControlModes::CS6,
        7 => ControlModes::CS7,
        _ => ControlModes::CS8,
    });
    match settings.parity {
        Parity::None => {}
        Parity::Even => modes.insert(ControlModes::PARENB),
        Parity::Odd => modes.insert(ControlModes::PARENB | ControlModes::PARODD),
    }
    if settings.stop_bits == 2 {
        modes.insert(ControlModes::CSTOPB);
    }
    tcsetattr(fd, OptionalActions::Flush, &termios)?;
    Ok(())
}

/// Bytes of one request do not lie further apart, however busy the machine is.
const FORGET: Duration = Duration::from_millis(200);
const IDLE: Duration = Duration::from_secs(1);
const PIECE: Duration = Duration::from_millis(1);
/// Replies that may wait; further ones are lost.
const MAX_WAITING: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::{Address, Table};
    use crate::profile::Dump;
    use std::fs::{File, OpenOptions};
    use std::io::{Read, Write};

    /// The frames of F14.
    const READ: [u8; 8] = [1, 3, 0, 0, 0, 1, 0x84, 0x0A];
    const REPLY: [u8; 7] = [1, 3, 2, 0, 42, 0x39, 0x9B];

    fn line(framing: Framing, speed: Option<LineSpeed>, faults: &[&str]) -> (Server, File) {
        let device = || {
            let mut dump = Dump::default();
            dump.set_register(Table::HoldingRegister, Address(0), 42);
            Pretend::still(dump)
        };
        let mut all = Faults::default();
        for fault in faults {
            all.add(fault).unwrap();
        }
        let port = Port::pty(None, speed).unwrap();
        let server = serve(port, framing, vec![(UnitId(1), device()), (UnitId(7), device())], all).unwrap();
        let client = OpenOptions::new().read(true).write(true).open(server.path()).unwrap();
        (server, client)
    }

    fn talk(client: &mut File, request: &[u8], expected: &[u8]) {
        client.write_all(request).unwrap();
        let mut reply = vec![0; expected.len()];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply, expected);
    }

    #[test]
    fn devices_on_a_line_answer_whole_echoed_split_and_in_ascii() {
        for faults in [&[][..], &["split=1"], &["delay=5ms"]] {
            let (server, mut client) = line(Framing::Rtu, None, faults);
            talk(&mut client, &READ, &REPLY);
            talk(&mut client, &[7, 3, 0, 0, 0, 1, 0x84, 0x6C], &[7, 3, 2, 0, 42, 0xB1, 0x9B]);
            server.stop().unwrap();
        }
        let (server, mut client) = line(Framing::Rtu, None, &["echo"]);
        talk(&mut client, &READ, &[&READ[..], &REPLY].concat());
        server.stop().unwrap();
        let (server, mut client) = line(Framing::Ascii, None, &[]);
        talk(&mut client, b":010300000001FB\r\n", b":010302002AD0\r\n");
        server.stop().unwrap();
    }

    #[test]
    fn bytes_come_no_sooner_than_at_the_lines_speed() {
        let speed = LineSpeed { baud: 9600, bits_per_character: 11 };
        let (server, mut client) = line(Framing::Rtu, Some(speed), &[]);
        let least = speed.time_of(READ.len() + REPLY.len()) + speed.silence();
        for _ in 0..5 {
            let began = Instant::now();
            talk(&mut client, &READ, &REPLY);
            let took = began.elapsed();
            assert!(least <= took && took < least + Duration::from_millis(100), "{took:?} instead of {least:?}");
        }
        server.stop().unwrap();
    }

    #[test]
    fn a_link_leads_to_the_line_and_goes_with_it_and_nothing_else_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("line");
        let first = Port::pty(Some(&link), None).unwrap();
        let second = Port::pty(Some(&link), None).unwrap();
        drop(first);
        assert_eq!(std::fs::read_link(&link).unwrap(), second.path());
        drop(second);
        assert!(link.symlink_metadata().is_err());
        std::fs::write(&link, "a file").unwrap();
        assert!(Port::pty(Some(&link), None).is_err());
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "a file");
    }

    #[test]
    fn f25_a_port_is_held_against_a_second_program() {
        let pty = Port::pty(None, None).unwrap();
        let port = SerialPort {
            path: pty.path().to_owned(),
            baud: 9600,
            data_bits: 8,
            // A pseudo terminal knows none.
            parity: Parity::None,
            stop_bits: 1,
            rs485: false,
            ascii: false,
        };
        let first = Port::open(&port).unwrap();
        let busy = Port::open(&port).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        drop(first);
        Port::open(&port).unwrap();
    }
}
