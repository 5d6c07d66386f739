//! Pretend devices behind one Modbus TCP port.

use super::pretend::read_of;
use super::{Faults, Pretend};
use crate::modbus::mbap::{Deframer, begin_adu, end_adu};
use crate::modbus::{TransactionId, UnitId, encode_exception};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
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

/// Answers on `listener` for these devices until stopped. A unit id that none of them has is answered by silence, as
/// on a line where nobody has it.
pub fn serve(listener: TcpListener, devices: Vec<(UnitId, Pretend)>, faults: Faults) -> Server {
    let address = listener.local_addr().ok();
    let shared = Arc::new(Shared {
        devices: devices.into_iter().map(|(unit, device)| (unit, Mutex::new(device))).collect(),
        faults,
        began: Instant::now(),
    });
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
    devices: BTreeMap<UnitId, Mutex<Pretend>>,
    faults: Faults,
    began: Instant,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Aborted with this task, all of them.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let connection = Connection::new(Arc::clone(&shared));
                    connections.spawn(connection.run(stream));
                }
                // Out of descriptors, most likely: later there may be some.
                Err(_) => sleep(Duration::from_millis(100)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

struct Connection {
    shared: Arc<Shared>,
    /// Replies that wait for their time; equal times in the order of their requests.
    outbox: BTreeMap<(Instant, u64), Vec<u8>>,
    /// Requests so far.
    nth: u64,
    replies: u32,
    chance: u64,
}

impl Connection {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, outbox: BTreeMap::new(), nth: 0, replies: 0, chance: 1 }
    }

    /// Ends with the connection. Whoever connects to a pretend device sees how it ended.
    async fn run(mut self, mut stream: TcpStream) {
        drop(stream.set_nodelay(true));
        drop(self.talk(&mut stream).await);
    }

    async fn talk(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let mut deframer = Deframer::default();
        let mut buffer = [0; 2048];
        loop {
            while let Some(entry) = self.outbox.first_entry() {
                if entry.key().0 > Instant::now() {
                    break;
                }
                let adu = entry.remove();
                self.send(stream, &adu).await?;
                self.replies += 1;
                if self.shared.faults.close_after.is_some_and(|n| self.replies >= n.get()) {
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
                    let mut rest = &buffer[..n];
                    loop {
                        let (adu, done) = deframer.next(rest).map_err(io::Error::other)?;
                        rest = &rest[done..];
                        let Some(adu) = adu else { break };
                        self.answer(adu.transaction, adu.unit, adu.pdu);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Writes the reply to a request, with its faults, and when it is to go out.
    fn answer(&mut self, transaction: TransactionId, unit: UnitId, request: &[u8]) {
        let Some(device) = self.shared.devices.get(&unit) else { return };
        let faults = &self.shared.faults;
        self.nth += 1;
        let nth = self.nth;
        let chance = &mut self.chance;
        let mut happens = |often: super::Often| often.happens(nth, draw(chance));
        if happens(faults.drop) || self.outbox.len() >= MAX_WAITING {
            return;
        }
        let transaction = if happens(faults.wrong_tid) { TransactionId(!transaction.0) } else { transaction };
        let unit = if happens(faults.wrong_unit) { UnitId(unit.0.wrapping_add(1)) } else { unit };
        let mut adu = Vec::new();
        let start = begin_adu(transaction, unit, &mut adu);
        let pdu = adu.len();
        let touched = read_of(request).ok().and_then(|(_, range)| {
            let hit = |a: u16| u32::from(range.start().0) <= u32::from(a) && u32::from(a) < range.end();
            faults.exceptions.iter().find(|(_, address)| hit(*address))
        });
        if let Some((code, _)) = touched {
            encode_exception(request[0], *code, &mut adu);
        } else {
            // A tick that panicked left the device as it was.
            let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
            device.answer(self.shared.began.elapsed(), request, &mut adu);
        }
        if adu[pdu] < 0x80 && happens(faults.short) && adu.len() > pdu + 4 {
            adu.truncate(adu.len() - 2);
            adu[pdu + 1] -= 2;
        }
        if adu[pdu] < 0x80 && happens(faults.long) && adu.len() - pdu + 2 <= crate::modbus::MAX_PDU_LEN {
            adu.extend_from_slice(&[0, 0]);
            adu[pdu + 1] += 2;
        }
        end_adu(start, &mut adu);
        let late = faults.late.filter(|(_, often)| happens(*often)).map_or(Duration::ZERO, |(by, _)| by);
        self.outbox.insert((Instant::now() + faults.delay + late, nth), adu);
    }

    async fn send(&self, stream: &mut TcpStream, adu: &[u8]) -> io::Result<()> {
        let Some(bytes) = self.shared.faults.split else { return stream.write_all(adu).await };
        for segment in adu.chunks(bytes.get()) {
            stream.write_all(segment).await?;
            // Time enough for the far end to read it before the next comes.
            sleep(BETWEEN_SEGMENTS).await;
        }
        Ok(())
    }
}

/// The splitmix64 generator, as a number from 0 to below 1.
fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// More connections than these wait in the system's queue.
const MAX_CONNECTIONS: usize = 4096;
/// Replies that may wait on a connection; further requests are not answered.
const MAX_WAITING: usize = 1024;
const BETWEEN_SEGMENTS: Duration = Duration::from_millis(2);

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
    async fn a_unit_that_is_not_there_stays_silent() {
        let (server, address) = server(&[]).await;
        assert!(raw(address, &[0, 5, 0, 0, 0, 6, 9, 3, 0, 1, 0, 2]).await.is_empty());
        server.stop().await;
    }
}
