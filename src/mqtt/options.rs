//! What a session needs to know, each part checked when it is made.

use crate::shadow::Publication;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How to reach a broker and who we are.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens. The name is resolved anew at each connect.
    pub broker: Broker,
    /// Our name there; unique on the broker, else two clients throw each other out.
    pub client_id: String,
    /// Login, with or without a password.
    pub username: Option<String>,
    /// Only together with a user name.
    pub password: Option<Password>,
    /// How often to say that we are here. A broken link is noticed within twice this time.
    pub keep_alive: KeepAlive,
    /// Greatest payload that is sent, in bytes; greater ones are refused. Default 128 KiB. The broker may allow less.
    pub max_payload: usize,
    /// What the broker is to say when the connection breaks.
    pub will: Option<Publication>,
}

impl Options {
    /// The defaults, for this broker and name.
    pub fn new(broker: Broker, client_id: &str) -> Self {
        Self {
            broker,
            client_id: client_id.to_owned(),
            username: None,
            password: None,
            keep_alive: KeepAlive::default(),
            max_payload: 128 << 10,
            will: None,
        }
    }
}

/// Host and port, from `mqtt://host[:port]`; the port is 1883 unless given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Name or address; an IPv6 address keeps its brackets.
    host: String,
    port: u16,
}

/// Why a text is no [`Broker`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    /// `mqtts://`, `wss://` and their like.
    #[error("`{0}://` is not available in this version; `mqtt://` is")]
    Scheme(String),
    /// No scheme, no host, or more than host and port.
    #[error("a broker is written mqtt://HOST or mqtt://HOST:PORT; name and password have keys of their own")]
    Form,
    /// Not 1 to 65535.
    #[error("`{0}` is no port: 1 to 65535")]
    Port(String),
}

impl Broker {
    /// A host (IPv6 in brackets) and a port.
    pub fn new(host: &str, port: u16) -> Result<Self, BrokerError> {
        let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let legal = match bracketed {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains([':', '/', '@', '?', '#', '[', ']', ' ']),
        };
        match (legal, port) {
            (false, _) => Err(BrokerError::Form),
            (true, 0) => Err(BrokerError::Port("0".to_owned())),
            (true, port) => Ok(Self { host: host.to_owned(), port }),
        }
    }

    /// Name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Broker {
    type Err = BrokerError;

    fn from_str(url: &str) -> Result<Self, BrokerError> {
        let (scheme, rest) = url.split_once("://").ok_or(BrokerError::Form)?;
        if scheme != "mqtt" {
            return Err(BrokerError::Scheme(scheme.to_owned()));
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // The last colon, unless it stands within an IPv6 address' brackets.
        match rest.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => Self::new(host, port.parse().map_err(|_| BrokerError::Port(port.to_owned()))?),
            None => Self::new(rest, 1883),
        }
    }
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mqtt://{}:{}", self.host, self.port)
    }
}

/// 5 s (the library refuses less) to 65535 s. Default 10 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive(Duration);

/// A time that is no [`KeepAlive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("keep_alive is 5s to 65535s, not {0:?}")]
pub struct KeepAliveError(pub Duration);

impl KeepAlive {
    /// Takes a time, or refuses it.
    pub fn new(time: Duration) -> Result<Self, KeepAliveError> {
        if (5..=u64::from(u16::MAX)).contains(&time.as_secs()) { Ok(Self(time)) } else { Err(KeepAliveError(time)) }
    }

    /// The time.
    pub fn get(self) -> Duration {
        self.0
    }
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self(Duration::from_secs(10))
    }
}

/// A secret: never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Takes it as it is; line ends of a file are the caller's to cut.
    pub fn new(secret: String) -> Self {
        Self(secret)
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_host_and_port() {
        for (url, host, port) in [
            ("mqtt://127.0.0.1:1883", "127.0.0.1", 1883),
            ("mqtt://broker.plant.example", "broker.plant.example", 1883),
            ("mqtt://broker:8883/", "broker", 8883),
            ("mqtt://[::1]:1884", "[::1]", 1884),
            ("mqtt://[fe80::1]", "[fe80::1]", 1883),
        ] {
            let broker: Broker = url.parse().unwrap();
            assert_eq!((broker.host(), broker.port()), (host, port), "{url}");
        }
    }

    #[test]
    fn what_is_no_plain_broker_is_refused() {
        let error = |url: &str| url.parse::<Broker>().unwrap_err();
        assert_eq!(error("mqtts://b"), BrokerError::Scheme("mqtts".into()));
        assert_eq!(error("wss://b/mqtt"), BrokerError::Scheme("wss".into()));
        for url in ["b", "mqtt://", "mqtt://user:pw@b", "mqtt://b/topic", "mqtt://[::zz]", "mqtt://::1", "mqtt://a b"] {
            assert!(matches!(error(url), BrokerError::Form | BrokerError::Port(_)), "{url}");
        }
        assert_eq!(error("mqtt://b:0"), BrokerError::Port("0".into()));
        assert_eq!(error("mqtt://b:65536"), BrokerError::Port("65536".into()));
        assert_eq!(error("mqtt://b:"), BrokerError::Port(String::new()));
    }

    #[test]
    fn keep_alive_below_five_seconds_is_refused() {
        assert!(KeepAlive::new(Duration::from_millis(4999)).is_err());
        assert!(KeepAlive::new(Duration::from_secs(5)).is_ok());
        assert!(KeepAlive::new(Duration::from_secs(65535)).is_ok());
        assert!(KeepAlive::new(Duration::from_secs(65536)).is_err());
    }

    #[test]
    fn a_password_is_not_printed() {
        let mut options = Options::new("mqtt://b".parse().unwrap(), "gw");
        options.password = Some(Password::new("s3cret".to_owned()));
        assert!(!format!("{options:?}").contains("s3cret"));
    }
}
