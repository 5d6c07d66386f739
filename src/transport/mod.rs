//! Links to devices: connect, send bytes, receive bytes. A shell: the only room that opens field sockets.
//!
//! It knows no frame and no device: what is sent when, and what received bytes mean, others decide.

mod address;
mod tcp;

pub use address::{Endpoint, EndpointError, LinkAddress};

use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An open link. Dropping it closes it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Link {
    /// Over TCP.
    Tcp(TcpStream),
}

/// Why a link could not be opened. The environment is to blame.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The far end refused.
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
    /// Opens a link, or says within `patience` why not. Names are resolved anew each time.
    pub async fn connect(address: &LinkAddress, patience: Duration) -> Result<Self, ConnectError> {
        match address {
            LinkAddress::Tcp(endpoint) => tcp::connect(endpoint, patience).await.map(Self::Tcp),
        }
    }

    /// Sends what goes out without waiting; nothing where that is nothing.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => match stream.try_write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
                result => result,
            },
        }
    }

    /// Sends and receives at once: whichever comes first. Gives what was received, or how many bytes were sent.
    ///
    /// Safe to cancel. With nothing to send it only receives.
    pub async fn exchange(&mut self, bytes: &[u8], buffer: &mut [u8]) -> io::Result<Exchanged> {
        match self {
            Self::Tcp(stream) => {
                let (mut reader, mut writer) = stream.split();
                tokio::select! {
                    n = reader.read(buffer) => n.map(Exchanged::Received),
                    n = writer.write(bytes), if !bytes.is_empty() => n.map(Exchanged::Sent),
                }
            }
        }
    }
}

/// What came first of an [`Link::exchange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchanged {
    /// So many bytes are in the buffer; 0: the far end closed.
    Received(usize),
    /// So many bytes went out.
    Sent(usize),
}
