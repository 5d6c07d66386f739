//! Where a link goes.

use super::SerialPort;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A link's far end. Devices that name an equal one share the link, its queue and its pacing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LinkAddress {
    /// Modbus TCP.
    Tcp(Endpoint),
    /// RTU frames over TCP: a serial device server.
    RtuOverTcp(Endpoint),
    /// Modbus/TCP Security.
    Tls(TlsEndpoint),
    /// A serial port of this computer; RTU or ASCII.
    Serial(SerialPort),
}

/// A server that is spoken to over TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TlsEndpoint {
    /// Where it is. Its certificate must name this host.
    pub endpoint: Endpoint,
    /// PEM file with the certificates of the authorities that may have signed the server's.
    pub ca: PathBuf,
    /// PEM files with our own certificate (and those between it and its authority) and its private key. Modbus/TCP
    /// Security wants them; some servers do without.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A host and its port. Prints as it is written: `plc.local:502`, `[::1]:502`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// Why a text is no [`Endpoint`]. The user's files are to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Nothing names the port.
    #[error("`{0}` has no port: write `{0}:502`")]
    NoPort(String),
    /// The port is none.
    #[error("`{0}` is no port: 1 to 65535")]
    Port(String),
    /// The host is empty or has characters that no host has.
    #[error("`{0}` is no host")]
    Host(String),
    /// An IPv6 address without brackets cannot be told from a host with a port.
    #[error("an IPv6 address stands in brackets: `[{0}]:502`")]
    Brackets(String),
}

impl Endpoint {
    /// Name or address, without brackets; lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// 1 to 65535.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or_else(|| EndpointError::Host(text.to_owned()))?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(EndpointError::Host(host.to_owned()));
            }
            (host, after.strip_prefix(':').ok_or_else(|| EndpointError::NoPort(text.to_owned()))?)
        } else {
            if text.matches(':').count() > 1 {
                return Err(EndpointError::Brackets(text.to_owned()));
            }
            let (host, port) = text.split_once(':').ok_or_else(|| EndpointError::NoPort(text.to_owned()))?;
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            if host.is_empty() || host.len() > 253 || !host.chars().all(fits) {
                return Err(EndpointError::Host(host.to_owned()));
            }
            (host, port)
        };
        let number = port.parse::<u16>().ok().filter(|p| *p > 0 && port.bytes().all(|b| b.is_ascii_digit()));
        let port = number.ok_or_else(|| EndpointError::Port(port.to_owned()))?;
        // Names are compared without regard to case; so are the links that carry them.
        Ok(Self { host: host.to_ascii_lowercase(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(endpoint) => write!(f, "{endpoint}"),
            Self::RtuOverTcp(endpoint) => write!(f, "{endpoint} (RTU)"),
            Self::Tls(tls) => write!(f, "{} (TLS)", tls.endpoint),
            Self::Serial(port) => write!(f, "{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_and_printed() {
        for text in ["192.168.1.50:502", "plc-7.local:1502", "[::1]:502", "[fe80::1:2]:65535"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("PLC.Local:502".parse::<Endpoint>(), "plc.local:502".parse());
    }

    #[test]
    fn endpoints_that_are_none_are_refused() {
        use EndpointError as E;
        let refused = |text: &str| text.parse::<Endpoint>().unwrap_err();
        assert_eq!(refused("plc"), E::NoPort("plc".into()));
        assert_eq!(refused("[::1]"), E::NoPort("[::1]".into()));
        assert_eq!(refused("plc:0"), E::Port("0".into()));
        assert_eq!(refused("plc:65536"), E::Port("65536".into()));
        assert_eq!(refused("plc:+5"), E::Port("+5".into()));
        assert_eq!(refused(":502"), E::Host(String::new()));
        assert_eq!(refused("a b:502"), E::Host("a b".into()));
        assert_eq!(refused("::1"), E::Brackets("::1".into()));
        assert_eq!(refused("[plc]:502"), E::Host("plc".into()));
    }
}
