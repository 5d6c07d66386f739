//! Links to devices: connect, send bytes, receive bytes. A shell: the only room that opens field sockets and ports.
//!
//! It knows no frame and no device: what is sent when, and what received bytes mean, others decide.

mod address;
mod serial;
mod tcp;
mod tls;

pub use address::{Endpoint, EndpointError, LinkAddress, TlsEndpoint};
pub use serial::{OpenPort, Parity, SerialPort};

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// An open link. Dropping it closes it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Link {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over TLS.
    Tls(Box<TlsStream<TcpStream>>),
    /// Over a serial port.
    Serial(OpenPort),
}

/// Why a link could not be opened. The environment is to blame.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The far end refused; a TLS handshake failed; a serial port does not take the settings.
    #[error("refused: {0}")]
    Refused(#[source] io::Error),
    /// No route, or no answer in time.
    #[error("unreachable: {0}")]
    Unreachable(#[source] io::Error),
    /// The host's name does not resolve.
    #[error("unknown host: {0}")]
    UnknownHost(#[source] io::Error),
    /// The socket or port may not be opened.
    #[error("permission denied: {0}")]
    PermissionDenied(#[source] io::Error),
    /// Another program has the serial port.
    #[error("port busy: {0}")]
    Busy(#[source] io::Error),
    /// There is no such serial port, or not at the moment.
    #[error("port missing: {0}")]
    Missing(#[source] io::Error),
}

impl ConnectError {
    fn from_connect(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Self::Refused(error),
            io::ErrorKind::PermissionDenied => Self::PermissionDenied(error),
            _ => Self::Unreachable(error),
        }
    }
}

impl Link {
    /// Opens a link, or says within `patience` why not. Names are resolved anew each time. Opening a serial port blocks
    /// for as long as its driver does.
    pub async fn connect(address: &LinkAddress, patience: Duration) -> Result<Self, ConnectError> {
        match address {
            LinkAddress::Tcp(endpoint) | LinkAddress::RtuOverTcp(endpoint) => {
                tcp::connect(endpoint, patience).await.map(Self::Tcp)
            }
            LinkAddress::Tls(endpoint) => tls::connect(endpoint, patience).await.map(Box::new).map(Self::Tls),
            LinkAddress::Serial(port) => serial::open(port).map(Self::Serial),
        }
    }

    /// Sends what goes out without waiting; nothing where that is nothing.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Serial(port) => port.0.try_write(bytes),
            Self::Tls(stream) => {
                // Nobody is woken: `exchange` follows, and asks again.
                match write_through(stream, bytes, &mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(result) => result,
                    Poll::Pending => Ok(0),
                }
            }
        };
        match sent {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }

    /// Sends and receives at once: whichever comes first. Gives what was received, or how many bytes were sent.
    ///
    /// Safe to cancel. With nothing to send it only receives.
    pub async fn exchange(&mut self, bytes: &[u8], buffer: &mut [u8]) -> io::Result<Exchanged> {
        poll_fn(|cx| {
            let received = match self {
                Self::Tcp(stream) => receive(stream, buffer, cx),
                Self::Tls(stream) => receive(&mut **stream, buffer, cx),
                Self::Serial(port) => receive(&mut port.0, buffer, cx),
            };
            if let Poll::Ready(result) = received {
                return Poll::Ready(result.map(Exchanged::Received));
            }
            let sent = match self {
                Self::Tls(stream) => write_through(stream, bytes, cx),
                _ if bytes.is_empty() => return Poll::Pending,
                Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
                Self::Serial(port) => Pin::new(&mut port.0).poll_write(cx, bytes),
            };
            match sent {
                Poll::Ready(Ok(0)) if bytes.is_empty() => Poll::Pending,
                sent => sent.map(|result| result.map(Exchanged::Sent)),
            }
        })
        .await
    }
}

fn receive(stream: &mut (impl AsyncRead + Unpin), buffer: &mut [u8], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut space = ReadBuf::new(buffer);
    Pin::new(stream).poll_read(cx, &mut space).map(|result| result.map(|()| space.filled().len()))
}

/// Takes bytes into the session and passes on to the socket what the session holds, as far as it goes: what was taken
/// may still wait there, so this is to be called also with nothing.
fn write_through(stream: &mut TlsStream<TcpStream>, bytes: &[u8], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let taken = if bytes.is_empty() { Poll::Ready(Ok(0)) } else { Pin::new(&mut *stream).poll_write(cx, bytes) };
    if let Poll::Ready(Err(error)) = Pin::new(stream).poll_flush(cx) {
        return Poll::Ready(Err(error));
    }
    taken
}

/// What came first of an [`Link::exchange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchanged {
    /// So many bytes are in the buffer; 0: the far end closed, or the port is gone.
    Received(usize),
    /// So many bytes went out.
    Sent(usize),
}

#[cfg(test)]
mod serial_tests;
#[cfg(test)]
mod tls_tests;
