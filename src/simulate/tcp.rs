//! Pretend devices behind one TCP port: Modbus TCP, or RTU framing as behind a transparent device server.

use super::framing::{Heard, Requests};
use super::station::{Dialogue, Kind, Outgoing, Station};
use super::{Faults, Framing, Pretend};
use crate::modbus::UnitId;
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

/// A server that runs. Dropping it stops it, and closes its connections.
#[derive(Debug)]
pub struct Server {
    address: Option<SocketAddr>,
    task: JoinHandle<()>,
}

/// Answers Modbus TCP on `listener` for these devices until stopped. A unit id that none of them has is answered by
/// silence, as on a line where nobody has it.
pub fn serve(listener: TcpListener, devices: Vec<(UnitId, Pretend)>, faults: Faults) -> Server {
    serve_framed(listener, Framing::Mbap, devices, faults)
}

/// The same with the framing of RTU (or of ASCII), without any silence between frames.
pub fn serve_framed(
    listener: TcpListener,
    framing: Framing,
    devices: Vec<(UnitId, Pretend)>,
    faults: Faults,
) -> Server {
    let address = listener.local_addr().ok();
    let shared = Arc::new(Shared { station: Station::new(framing, devices, faults), began: Instant::now() });
    Server { address, task: tokio::spawn(accept(listener, shared)) }
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Stops it: no connection and no listener is left when this returns.
    pub async fn stop(mut self) {
        self.task.abort();
        // Ends by the abort, unless it had ended before.
        drop((&mut self.task).await);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Shared {
    station: Station,
    began: Instant,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Aborted with this task, all of them.
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) if shared.station.faults.refuse_second_client && !connections.is_empty() => {
                    // Closed by a reset: nothing of it lingers.
                    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                }
                Ok((stream, _)) => {
                    connections.spawn(Connection::new(Arc::clone(&shared), number).run(stream));
                    number += 1;
                }
                // Out of descriptors, most likely: later there may be some.
                Err(_) => sleep(Duration::from_millis(100)).await,
            },
        }
    }
}

struct Connection {
    shared: Arc<Shared>,
    dialogue: Dialogue,
    /// What waits for its time; equal times in the order of their requests.
    outbox: BTreeMap<(Instant, u64), Outgoing>,
    /// Entries of the outbox so far.
    nth: u64,
    replies: u32,
}

impl Connection {
    fn new(shared: Arc<Shared>, number: u64) -> Self {
        let dialogue = shared.station.dialogue(shared.began.elapsed(), number);
        Self { shared, dialogue, outbox: BTreeMap::new(), nth: 0, replies: 0 }
    }

    /// Ends with the connection. Whoever connects to a pretend device sees how it ended.
    async fn run(mut self, mut stream: TcpStream) {
        drop(stream.set_nodelay(true));
        drop(self.talk(&mut stream).await);
    }

    async fn talk(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(&self.shared.station.faults.hello).await?;
        let mut requests = Requests::new(self.shared.station.framing);
        let mut heard = Vec::new();
        let mut buffer = [0; 2048];
        loop {
            while let Some(entry) = self.outbox.first_entry() {
                if entry.key().0 > Instant::now() {
                    break;
                }
                let outgoing = entry.remove();
                self.send(stream, &outgoing.bytes).await?;
                self.replies += u32::from(outgoing.kind == Kind::Reply);
                if self.shared.station.faults.close_after.is_some_and(|n| self.replies >= n.get()) {
                    return Ok(());
                }
            }
            let due = self.outbox.first_key_value().map(|(k, _)| k.0);
            tokio::select! {
                received = stream.read(&mut buffer) => {
                    let n = received?;
                    if n == 0 {
                        return Ok(());
                    }
                    let stays = requests.take(&buffer[..n], &mut heard);
                    heard.drain(..).for_each(|request| self.answer(&request));
                    stays.map_err(io::Error::other)?;
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Puts what a request brings into the outbox.
    fn answer(&mut self, request: &Heard) {
        if self.outbox.len() >= MAX_WAITING {
            return;
        }
        let mut outgoing = Vec::new();
        self.shared.station.answer(&mut self.dialogue, self.shared.began.elapsed(), request, &mut outgoing);
        let now = Instant::now();
        for one in outgoing {
            self.nth += 1;
            self.outbox.insert((now + one.after, self.nth), one);
        }
    }

    async fn send(&self, stream: &mut TcpStream, adu: &[u8]) -> io::Result<()> {
        let Some(bytes) = self.shared.station.faults.split else { return stream.write_all(adu).await };
        for segment in adu.chunks(bytes.get()) {
            stream.write_all(segment).await?;
            // Time enough for the far end to read it before the next comes.
            sleep(BETWEEN_SEGMENTS).await;
        }
        Ok(())
    }
}

/// More connections than these wait in the system's queue.
const MAX_CONNECTIONS: usize = 4096;
/// Replies that may wait on a connection; further requests are not answered.
const MAX_WAITING: usize = 1024;
pub(super) const BETWEEN_SEGMENTS: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::{Address, Table};
    use crate::profile::Dump;
    use tokio::time::timeout;
    use tokio_modbus::prelude::*;

    async fn server(faults: &[&str]) -> (Server, SocketAddr) {
        let mut dump = Dump::default();
        for a in 0..10 {
            dump.set_register(Table::HoldingRegister, Address(a), 100 + a);
        }
        dump.set_bit(Table::Coil, Address(0), true);
        let mut all = Faults::default();
        for fault in faults {
            all.add(fault).unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = serve(listener, vec![(UnitId(1), Pretend::still(dump))], all);
        let address = server.address().unwrap();
        (server, address)
    }

    async fn client(address: SocketAddr) -> client::Context {
        client::tcp::connect_slave(address, Slave(1)).await.unwrap()
    }

    async fn raw(address: SocketAddr, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut all = vec![0; 300];
        let n = timeout(Duration::from_millis(300), stream.read(&mut all)).await.map_or(0, Result::unwrap);
        all.truncate(n);
        all
    }

    const READ: [u8; 12] = [0, 5, 0, 0, 0, 6, 1, 3, 0, 1, 0, 2];

    #[tokio::test]
    async fn another_client_reads_it() {
        let (server, address) = server(&["exception=3@9"]).await;
        let mut client = client(address).await;
        assert_eq!(client.read_holding_registers(2, 3).await.unwrap().unwrap(), [102, 103, 104]);
        assert_eq!(client.read_coils(0, 1).await.unwrap().unwrap(), [true]);
        assert_eq!(client.read_holding_registers(8, 3).await.unwrap(), Err(ExceptionCode::IllegalDataValue));
        assert_eq!(client.read_holding_registers(10, 1).await.unwrap(), Err(ExceptionCode::IllegalDataAddress));
        assert_eq!(client.write_single_register(0, 1).await.unwrap(), Err(ExceptionCode::IllegalFunction));
        server.stop().await;
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn replies_have_the_faults_asked_for() {
        let good = [0, 5, 0, 0, 0, 7, 1, 3, 4, 0, 101, 0, 102];
        for (fault, expected) in [
            ("delay=1ms", &good[..]),
            ("drop=1", &[]),
            ("drop=100%", &[]),
            ("late=1h@1", &[]),
            ("wrong_unit=1", &[0, 5, 0, 0, 0, 7, 2, 3, 4, 0, 101, 0, 102]),
            ("wrong_tid=1", &[0xFF, 0xFA, 0, 0, 0, 7, 1, 3, 4, 0, 101, 0, 102]),
            ("short=1", &[0, 5, 0, 0, 0, 5, 1, 3, 2, 0, 101]),
            ("long=1", &[0, 5, 0, 0, 0, 9, 1, 3, 6, 0, 101, 0, 102, 0, 0]),
            ("exception=0x80@2", &[0, 5, 0, 0, 0, 3, 1, 0x83, 0x80]),
            ("exception=2@3", &good[..]),
            ("split=4", &good[..4]),
            ("ignore_first=1", &[]),
            ("ignore_first=1h", &[]),
            ("holes=2", &[0, 5, 0, 0, 0, 3, 1, 0x83, 2]),
            ("busy=1", &[0, 5, 0, 0, 0, 3, 1, 0x83, 6]),
            ("echo", &[&READ[..], &good].concat()),
        ] {
            let (server, address) = server(&[fault]).await;
            assert_eq!(raw(address, &READ).await, expected, "{fault}");
            server.stop().await;
        }
    }

    #[tokio::test]
    async fn a_late_reply_comes_after_the_next_one_and_the_connection_closes() {
        let (server, address) = server(&["late=100ms@2", "close_after=3"]).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        for tid in 1..=3 {
            stream.write_all(&[0, tid, 0, 0, 0, 6, 1, 3, 0, 0, 0, 1]).await.unwrap();
        }
        let mut all = Vec::new();
        timeout(Duration::from_secs(2), stream.read_to_end(&mut all)).await.unwrap().unwrap();
        assert_eq!(all.chunks(11).map(|adu| adu[1]).collect::<Vec<_>>(), [1, 3, 2]);
        server.stop().await;
    }

    #[tokio::test]
    async fn f22_a_device_server_greets_and_speaks_rtu() {
        let mut dump = Dump::default();
        dump.set_register(Table::HoldingRegister, Address(0), 42);
        let mut faults = Faults::default();
        faults.add("hello=001122334455").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = serve_framed(listener, Framing::Rtu, vec![(UnitId(1), Pretend::still(dump))], faults);
        let mut stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
        let mut hello = [0; 6];
        stream.read_exact(&mut hello).await.unwrap();
        assert_eq!(hello, [0, 0x11, 0x22, 0x33, 0x44, 0x55]);
        // The frames of F14.
        stream.write_all(&[1, 3, 0, 0, 0, 1, 0x84, 0x0A]).await.unwrap();
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).await.unwrap();
        assert_eq!(reply, [1, 3, 2, 0, 42, 0x39, 0x9B]);
        server.stop().await;
    }

    #[tokio::test]
    async fn f29_a_second_client_is_reset_until_the_first_has_gone() {
        let (server, address) = server(&["second_client=refuse"]).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        let mut answer = [0; 13];
        first.write_all(&READ).await.unwrap();
        first.read_exact(&mut answer).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        let ended = timeout(Duration::from_secs(2), second.read(&mut answer)).await.unwrap();
        assert!(!matches!(ended, Ok(1..)), "{ended:?}");
        // The first still talks.
        first.write_all(&READ).await.unwrap();
        first.read_exact(&mut answer).await.unwrap();
        drop(first);
        sleep(Duration::from_millis(50)).await;
        assert_eq!(raw(address, &READ).await.len(), 13);
        server.stop().await;
    }

    #[tokio::test]
    async fn a_unit_that_is_not_there_stays_silent() {
        let (server, address) = server(&[]).await;
        assert!(raw(address, &[0, 5, 0, 0, 0, 6, 9, 3, 0, 1, 0, 2]).await.is_empty());
        server.stop().await;
    }
}
