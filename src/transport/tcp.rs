//! Connecting over TCP.

use super::{ConnectError, Endpoint};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Resolves the host anew (it may have moved), tries each of its addresses in turn, all within `patience`.
pub(super) async fn connect(endpoint: &Endpoint, patience: Duration) -> Result<TcpStream, ConnectError> {
    match timeout(patience, try_all(endpoint)).await {
        Ok(result) => result,
        Err(_) => Err(ConnectError::Unreachable(io::ErrorKind::TimedOut.into())),
    }
}

async fn try_all(endpoint: &Endpoint) -> Result<TcpStream, ConnectError> {
    let addresses = lookup_host((endpoint.host(), endpoint.port())).await.map_err(ConnectError::UnknownHost)?;
    let mut last = None;
    for address in addresses.take(MAX_ADDRESSES) {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                tune(&stream);
                return Ok(stream);
            }
            Err(e) => last = Some(ConnectError::from_connect(e)),
        }
    }
    Err(last.unwrap_or_else(|| ConnectError::UnknownHost(io::ErrorKind::NotFound.into())))
}

/// Small frames go out at once; a peer that vanished is noticed. What the system does not offer is done without.
fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL));
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
}

/// A name with more addresses than this is answered by its first ones.
const MAX_ADDRESSES: usize = 16;
/// An idle connection is probed after this long: below the usual 60 s of firewalls that forget.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes that nobody acknowledges for so long end the connection; the default would be a quarter of an hour.
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn connects_with_no_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = endpoint(&listener.local_addr().unwrap().to_string());
        let stream = connect(&at, Duration::from_secs(3)).await.unwrap();
        assert!(stream.nodelay().unwrap());
    }

    #[tokio::test]
    async fn a_refused_connect_is_told_from_an_unknown_host() {
        let free = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap().port()
        };
        let refused = connect(&endpoint(&format!("127.0.0.1:{free}")), Duration::from_secs(3)).await;
        assert!(matches!(refused, Err(ConnectError::Refused(_))), "{refused:?}");
        let unknown = connect(&endpoint("no-such-host.invalid:502"), Duration::from_secs(3)).await;
        assert!(matches!(unknown, Err(ConnectError::UnknownHost(_) | ConnectError::Unreachable(_))), "{unknown:?}");
    }
}
