//! The demo's broker: MQTT 5 and 3.1.1 inside the process, on the loopback interface, forgetting all at its end.

use mqtt5::broker::config::{AuthConfig, StorageBackend, StorageConfig};
use mqtt5::broker::{BrokerConfig, BrokerShutdownHandle, MqttBroker};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// A running broker. Dropping it ends it at once; [`Broker::stop`] lets its connections end first.
///
/// Anybody on this machine may connect and read or publish all: for demos and tests only. It therefore listens on
/// 127.0.0.1 and cannot be told otherwise.
pub struct Broker {
    address: SocketAddr,
    shutdown: BrokerShutdownHandle,
    task: AbortOnDropHandle<()>,
}

/// The broker could not be started, mostly because the port is taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the demo's broker on port {port}: {source}")]
pub struct BrokerError {
    /// The port asked for.
    pub port: u16,
    /// What the library says.
    pub source: mqtt5::MqttError,
}

impl Broker {
    /// Listens on 127.0.0.1 and this port, or on a free one for 0. Connections are accepted when it returns.
    pub async fn start(port: u16) -> Result<Self, BrokerError> {
        let failed = |source| BrokerError { port, source };
        let mut broker = MqttBroker::with_config(config(port)).await.map_err(failed)?;
        let address = broker.local_addr().unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let shutdown = broker.shutdown_handle();
        let mut ready = broker.ready_receiver();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            if let Err(error) = broker.run().await {
                tracing::error!(%error, "the demo's broker has ended");
            }
        }));
        // An error here means that the task has ended; whoever connects will see it, and the log says why.
        let _ = ready.wait_for(|ready| *ready).await;
        Ok(Self { address, shutdown, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it, waiting at most this long for its connections.
    pub async fn stop(self, deadline: Duration) {
        self.shutdown.shutdown();
        // On a timeout the task is aborted with its handle.
        let _ = timeout(deadline, self.task).await;
    }
}

/// Small tables: a handful of clients on one machine.
fn config(port: u16) -> BrokerConfig {
    let storage = StorageConfig {
        backend: StorageBackend::Memory,
        // Without it sessions do not survive a reconnect.
        enable_persistence: true,
        max_queued_messages_per_client: 1000,
        max_queued_bytes_per_client: 4 << 20,
        ..StorageConfig::default()
    };
    BrokerConfig {
        bind_addresses: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))],
        max_clients: 64,
        max_packet_size: 1 << 20,
        session_expiry_interval: Duration::from_mins(10),
        auth_config: AuthConfig { allow_anonymous: true, ..AuthConfig::default() },
        storage_config: storage,
        sys_topics_enabled: false,
        ..BrokerConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn it_listens_on_loopback_takes_a_free_port_and_stops() {
        let broker = Broker::start(0).await.unwrap();
        let address = broker.address();
        assert!(address.ip().is_loopback() && address.port() != 0);
        TcpStream::connect(address).await.unwrap();
        let second = Broker::start(address.port()).await;
        assert!(matches!(second, Err(BrokerError { port, .. }) if port == address.port()));
        broker.stop(Duration::from_secs(5)).await;
        assert!(TcpStream::connect(address).await.is_err());
    }
}
