//! A line: one link and one bus, driven by one task; that of a serial port has a thread of its own.
//!
//! The bus decides, the link does, this file carries bytes and time between them. It is used by the gateway and by
//! commands that read a device themselves.

use super::Clock;
use super::alarm::Alarm;
use crate::modbus::{Envelope, LineSpeed};
use crate::model::{Cycle, DeviceId, Fault};
use crate::poll::{Bus, BusOptions, CycleReport, Deed, LinkCounters, PlanErrors, UnitCounters, UnitSetup};
use crate::transport::{ConnectError, Exchanged, Link, LinkAddress};
use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error, info, trace, warn};

/// How a line behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineOptions {
    /// The bus on it.
    pub bus: BusOptions,
    /// To wait for a connect, over all addresses of the host. Default 3 s.
    pub connect_timeout: Duration,
    /// Log every byte sent and received, in hex, under the target [`WIRE`]. Default false.
    pub trace: bool,
}

/// What bytes on a line are logged under, at the level `trace`.
pub const WIRE: &str = "fieldshadow::wire";

impl Default for LineOptions {
    fn default() -> Self {
        Self { bus: BusOptions::default(), connect_timeout: Duration::from_secs(3), trace: false }
    }
}

/// What was counted of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Why the link is down, where it is.
    pub fault: Option<Fault>,
    /// The link.
    pub link: LinkCounters,
    /// The devices on it.
    pub units: Vec<(DeviceId, UnitCounters)>,
}

/// The line has stopped: nothing can be asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the line has stopped")]
pub struct LineStopped;

/// Why a device was not put on a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// Its groups cannot be read within its limits. The profile is to blame.
    #[error("{} groups cannot be read within the device's limits", .0.len())]
    Refused(PlanErrors),
    /// The line has stopped.
    #[error(transparent)]
    Stopped(#[from] LineStopped),
}

/// A line that runs. Dropping it stops it, without waiting.
#[derive(Debug)]
pub struct LineHandle {
    orders: mpsc::Sender<Order>,
    /// Ends with the line.
    ended: oneshot::Receiver<()>,
}

/// One link and one bus; see [`Line::spawn`].
#[derive(Debug)]
pub struct Line<F> {
    address: LinkAddress,
    clock: Clock,
    connect_timeout: Duration,
    trace: bool,
    on_report: F,
    bus: Bus,
    link: Option<Link>,
    connecting: Option<Connecting>,
    /// The last fault that was logged.
    told: Option<Fault>,
}

type ConnectFuture = Pin<Box<dyn Future<Output = Result<Link, ConnectError>> + Send>>;

struct Connecting(ConnectFuture);

impl std::fmt::Debug for Connecting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connecting")
    }
}

enum Order {
    Put(Box<UnitSetup>, oneshot::Sender<Result<(), PlanErrors>>),
    Remove(DeviceId, oneshot::Sender<Option<Cycle>>),
    Counters(oneshot::Sender<LineCounters>),
}

impl<F: FnMut(CycleReport) + Send + 'static> Line<F> {
    /// Starts a line without devices. `on_report` is called from its task and must not block.
    ///
    /// What the address demands of the bus is set here: its frames and the silence between them.
    pub fn spawn(address: LinkAddress, clock: Clock, options: LineOptions, on_report: F) -> LineHandle {
        let serial = matches!(address, LinkAddress::Serial(_));
        let name = address.to_string();
        let LineOptions { mut bus, connect_timeout, trace } = options;
        bus.line = line_speed(&address);
        let line = Self {
            bus: Bus::new(envelope(&address), bus),
            address,
            clock,
            connect_timeout,
            trace,
            on_report,
            link: None,
            connecting: None,
            told: None,
        };
        let (orders, inbox) = mpsc::channel(ORDERS);
        let (end, ended) = oneshot::channel::<()>();
        let run = async move {
            let _end = end;
            line.run(inbox).await;
        };
        if serial {
            // Nothing else may hold up its silences, and a driver that blocks holds up nothing else.
            let thread = std::thread::Builder::new().name("line".into()).spawn(move || {
                match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime.block_on(run),
                    Err(e) => error!(link = name, "the line has no runtime: {e}"),
                }
            });
            if let Err(e) = thread {
                error!("a line has no thread: {e}");
            }
        } else {
            drop(tokio::spawn(run));
        }
        LineHandle { orders, ended }
    }

    async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut buffer = [0; RECEIVE_BUFFER];
        let serial = matches!(self.address, LinkAddress::Serial(_));
        let mut alarm = if serial { Alarm::precise(self.clock) } else { Alarm::coarse(self.clock) };
        loop {
            self.act();
            alarm.set(self.bus.poll_timeout());
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => return,
                },
                result = exchange(&mut self.link, self.bus.transmit(), &mut buffer) => match result {
                    Ok(Exchanged::Received(0)) => self.lost(None),
                    Ok(Exchanged::Received(n)) => self.received(&buffer[..n]),
                    Ok(Exchanged::Sent(n)) => self.sent(n),
                    Err(e) => self.lost(Some(&e)),
                },
                () = alarm.ring() => self.bus.handle_timeout(self.clock.now()),
                result = connected(&mut self.connecting) => self.connected(result),
            }
        }
    }

    /// Does all that the bus wants done and that needs no waiting.
    fn act(&mut self) {
        loop {
            while let Some(report) = self.bus.poll_report() {
                (self.on_report)(report);
            }
            while let Some(deed) = self.bus.poll_deed() {
                self.link = None;
                self.connecting = (deed == Deed::Connect).then(|| {
                    let (address, patience) = (self.address.clone(), self.connect_timeout);
                    Connecting(Box::pin(async move { Link::connect(&address, patience).await }))
                });
            }
            let bytes = self.bus.transmit();
            let Some(link) = self.link.as_mut().filter(|_| !bytes.is_empty()) else { return };
            match link.try_send(bytes) {
                Ok(n) => return self.sent(n),
                // The bus may have something new to do: once more round.
                Err(e) => self.lost(Some(&e)),
            }
        }
    }

    fn obey(&mut self, order: Order) {
        let now = self.clock.now();
        // Who asked may have gone: then nobody needs the answer.
        match order {
            Order::Put(setup, answer) => drop(answer.send(self.bus.put(now, *setup))),
            Order::Remove(device, answer) => drop(answer.send(self.bus.remove(now, &device))),
            Order::Counters(answer) => drop(answer.send(LineCounters {
                fault: self.bus.link_fault(),
                link: self.bus.counters(),
                units: self.bus.unit_counters().map(|(d, c)| (d.clone(), c.clone())).collect(),
            })),
        }
    }

    fn received(&mut self, bytes: &[u8]) {
        if self.trace {
            trace!(target: WIRE, link = %self.address, "<- {}", Hex(bytes));
        }
        // Not at the connect: a far end may take it and say no by closing again.
        if self.told.take().is_some() {
            info!(link = %self.address, "connected again");
        }
        self.bus.handle_received(self.clock.now(), bytes);
    }

    fn sent(&mut self, count: usize) {
        if self.trace && count > 0 {
            trace!(target: WIRE, link = %self.address, "-> {}", Hex(&self.bus.transmit()[..count]));
        }
        self.bus.handle_sent(count);
    }

    fn connected(&mut self, result: Result<Link, ConnectError>) {
        self.connecting = None;
        match result {
            Ok(link) => {
                debug!(link = %self.address, "connected");
                self.link = Some(link);
                self.bus.handle_connected(self.clock.now());
            }
            Err(e) => {
                let fault = fault_of(&e);
                self.tell(fault, &format!("cannot connect: {e}"));
                self.bus.handle_connect_failed(self.clock.now(), fault);
            }
        }
    }

    /// Warns once for each fault, not once for each try.
    fn tell(&mut self, fault: Fault, what: &str) {
        if self.told.replace(fault) != Some(fault) {
            warn!(link = %self.address, "{what}");
        }
    }

    fn lost(&mut self, error: Option<&io::Error>) {
        match error {
            // The words of TLS: a server that wants a certificate says so only after the handshake.
            Some(e) if e.kind() == io::ErrorKind::InvalidData => {
                self.tell(Fault::Refused, &format!("connection lost: {e}"));
            }
            Some(e) => debug!(link = %self.address, "connection lost: {e}"),
            None => debug!(link = %self.address, "the far end closed the connection"),
        }
        self.link = None;
        self.bus.handle_disconnected(self.clock.now());
    }
}

impl LineHandle {
    /// Puts a device on the line, or replaces the one of its name.
    pub async fn put(&self, setup: UnitSetup) -> Result<(), PutError> {
        self.ask(|answer| Order::Put(Box::new(setup), answer)).await?.map_err(PutError::Refused)
    }

    /// Takes a device off; gives the number that its next cycle would have had.
    pub async fn remove(&self, device: DeviceId) -> Result<Option<Cycle>, LineStopped> {
        self.ask(|answer| Order::Remove(device, answer)).await
    }

    /// What was counted so far.
    pub async fn counters(&self) -> Result<LineCounters, LineStopped> {
        self.ask(Order::Counters).await
    }

    /// Whether its task is still there: it ends by itself only if a report's receiver panicked.
    pub fn is_running(&self) -> bool {
        !self.orders.is_closed()
    }

    /// Stops the line and waits until it has: within 100 ms, whatever was under way. Requests in flight are forgotten.
    pub async fn stop(self) {
        drop(self.orders);
        // A task that panicked has stopped too.
        drop(self.ended.await);
    }

    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Result<T, LineStopped> {
        let (answer, answered) = oneshot::channel();
        self.orders.send(order(answer)).await.map_err(|_| LineStopped)?;
        answered.await.map_err(|_| LineStopped)
    }
}

/// Exchanges bytes over a link; waits for ever where there is none.
async fn exchange(link: &mut Option<Link>, bytes: &[u8], buffer: &mut [u8]) -> io::Result<Exchanged> {
    match link {
        Some(link) => link.exchange(bytes, buffer).await,
        None => pending().await,
    }
}

/// Waits for a connect; for ever where there is none.
async fn connected(connecting: &mut Option<Connecting>) -> Result<Link, ConnectError> {
    match connecting {
        Some(Connecting(future)) => future.await,
        None => pending().await,
    }
}

fn fault_of(error: &ConnectError) -> Fault {
    match error {
        ConnectError::Refused(_) => Fault::Refused,
        ConnectError::Unreachable(_) => Fault::Unreachable,
        ConnectError::UnknownHost(_) => Fault::UnknownHost,
        ConnectError::PermissionDenied(_) => Fault::PermissionDenied,
        ConnectError::Busy(_) => Fault::PortBusy,
        ConnectError::Missing(_) => Fault::PortMissing,
    }
}

/// How frames look on this link.
fn envelope(address: &LinkAddress) -> Envelope {
    match address {
        LinkAddress::Tcp(_) | LinkAddress::Tls(_) => Envelope::mbap(),
        LinkAddress::Serial(port) if port.ascii => Envelope::ascii(),
        LinkAddress::RtuOverTcp(_) | LinkAddress::Serial(_) => Envelope::rtu(),
    }
}

/// How fast this link is, where it is a serial line of this computer.
pub fn line_speed(address: &LinkAddress) -> Option<LineSpeed> {
    match address {
        LinkAddress::Serial(port) => Some(LineSpeed { baud: port.baud, bits_per_character: port.bits_per_character() }),
        _ => None,
    }
}

/// Bytes as people write them: `01 03 00 0A`.
struct Hex<'a>(&'a [u8]);

impl std::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02X}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Orders that may wait; who has more waits until some are obeyed, which takes microseconds.
const ORDERS: usize = 64;
/// Some frames at a time: the longest has 260 bytes.
const RECEIVE_BUFFER: usize = 1040;

#[cfg(test)]
mod serial_tests;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::{Address, AddressRange, Table, UnitId};
    use crate::model::{Condition, Generation, GroupId, Interval};
    use crate::poll::{GroupSetup, IntervalSetup, PartOutcome, Wanted};
    use crate::profile::{Dump, Limits, Timing};
    use crate::simulate::{Faults, Pretend, tcp};
    use std::time::Instant;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    pub(super) fn setup(name: &str, unit: u8, every_ms: u64, count: u16) -> UnitSetup {
        let wanted = Wanted { table: Table::HoldingRegister, range: AddressRange::new(Address(0), count).unwrap() };
        UnitSetup {
            device: DeviceId::new(name).unwrap(),
            generation: Generation(1),
            unit_id: UnitId(unit),
            limits: Limits::default(),
            timing: Timing { timeout: Duration::from_secs(2), ..Timing::default() },
            intervals: vec![IntervalSetup {
                interval: Interval(0),
                every: Some(Duration::from_millis(every_ms)),
                groups: vec![GroupSetup { group: GroupId(0), together: false, wanted: vec![wanted] }],
            }],
            first_cycle: Cycle(1),
        }
    }

    fn pretend(words: &[u16]) -> Pretend {
        let mut dump = Dump::default();
        for (address, word) in (0u16..).zip(words) {
            dump.set_register(Table::HoldingRegister, Address(address), *word);
        }
        Pretend::still(dump)
    }

    async fn listen() -> (TcpListener, LinkAddress) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = LinkAddress::Tcp(listener.local_addr().unwrap().to_string().parse().unwrap());
        (listener, address)
    }

    fn spawn(address: LinkAddress) -> (LineHandle, mpsc::UnboundedReceiver<CycleReport>) {
        let (tx, rx) = mpsc::unbounded_channel();
        let options =
            LineOptions { bus: BusOptions { spread: false, ..BusOptions::default() }, ..LineOptions::default() };
        let line = Line::spawn(address, Clock::start(), options, move |report| drop(tx.send(report)));
        (line, rx)
    }

    pub(super) async fn next(reports: &mut mpsc::UnboundedReceiver<CycleReport>) -> CycleReport {
        timeout(Duration::from_secs(5), reports.recv()).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_line_reads_pretend_devices() {
        let (listener, address) = listen().await;
        let devices = vec![(UnitId(1), pretend(&[1450, 312])), (UnitId(255), pretend(&[7]))];
        let server = tcp::serve(listener, devices, Faults::default());
        let (line, mut reports) = spawn(address);
        line.put(setup("drive", 1, 20, 2)).await.unwrap();
        for cycle in 1..=5 {
            let report = next(&mut reports).await;
            assert_eq!((report.cycle, report.condition), (Cycle(cycle), Condition::Reachable));
            assert_eq!(report.groups[0].parts[0].outcome, PartOutcome::Registers(vec![1450, 312]));
        }
        assert_eq!(line.remove(DeviceId::new("drive").unwrap()).await.unwrap().map(|c| c.0 > 5), Some(true));
        line.put(setup("last", 255, 20, 1)).await.unwrap();
        while next(&mut reports).await.device.as_str() != "last" {}
        let counters = line.counters().await.unwrap();
        assert_eq!(counters.units.len(), 1);
        assert!(counters.link.traffic.replies >= 6);
        line.stop().await;
        server.stop().await;
    }

    #[tokio::test]
    async fn f04_replies_byte_by_byte_are_read() {
        let (listener, address) = listen().await;
        let mut faults = Faults::default();
        faults.add("split=1").unwrap();
        let server = tcp::serve(listener, vec![(UnitId(1), pretend(&[0, 1]))], faults);
        let (line, mut reports) = spawn(address);
        line.put(setup("one", 1, 1000, 2)).await.unwrap();
        assert_eq!(next(&mut reports).await.groups[0].parts[0].outcome, PartOutcome::Registers(vec![0, 1]));
        line.stop().await;
        server.stop().await;
    }

    #[tokio::test]
    async fn f27_a_line_comes_back_with_its_server() {
        let (listener, address) = listen().await;
        let at = listener.local_addr().unwrap();
        let server = tcp::serve(listener, vec![(UnitId(1), pretend(&[1]))], Faults::default());
        let (line, mut reports) = spawn(address);
        line.put(setup("one", 1, 50, 1)).await.unwrap();
        assert_eq!(next(&mut reports).await.condition, Condition::Reachable);
        server.stop().await;
        while next(&mut reports).await.condition != Condition::Unreachable(Fault::Refused) {}
        let listener = TcpListener::bind(at).await.unwrap();
        let server = tcp::serve(listener, vec![(UnitId(1), pretend(&[2]))], Faults::default());
        while next(&mut reports).await.condition != Condition::Reachable {}
        line.stop().await;
        server.stop().await;
    }

    #[tokio::test]
    async fn f30_a_mute_server_does_not_hold_up_the_stop() {
        let (listener, address) = listen().await;
        let mut faults = Faults::default();
        faults.add("drop=1").unwrap();
        let server = tcp::serve(listener, (1..=20).map(|u| (UnitId(u), pretend(&[1]))).collect(), faults);
        let (line, _reports) = spawn(address);
        for unit in 1..=20 {
            line.put(setup(&format!("d{unit}"), unit, 1000, 1)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(line.counters().await.unwrap().link.traffic.requests, 1);
        let began = Instant::now();
        line.stop().await;
        assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
        server.stop().await;
    }

    #[tokio::test]
    async fn a_refused_link_is_reported_at_once() {
        let (listener, address) = listen().await;
        drop(listener);
        let (line, mut reports) = spawn(address);
        line.put(setup("one", 1, 1000, 1)).await.unwrap();
        assert_eq!(next(&mut reports).await.condition, Condition::Unreachable(Fault::Refused));
        assert_eq!(line.counters().await.unwrap().fault, Some(Fault::Refused));
        line.stop().await;
    }
}
