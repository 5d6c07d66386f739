//! Where the broker is: `mqtt://host:port`.

use super::folder;

/// Where a broker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// How to speak to it.
    pub scheme: Scheme,
    /// Name or address, without brackets; empty for [`Scheme::Embedded`].
    pub host: String,
    /// Default 1883; 0 for [`Scheme::Embedded`].
    pub port: u16,
}

/// How to speak to a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `mqtt://`: plain text over TCP.
    Plain,
    /// `embedded://`: a broker inside this process, in the demo only.
    Embedded,
}

impl Broker {
    /// Reads `mqtt://host:port`; the error is what is wrong and what would be right.
    pub(super) fn parse(url: &str) -> Result<Self, (String, &'static str)> {
        const FORM: &str = "write it as in mqtt://127.0.0.1:1883";
        let wrong = |message: &str| Err((format!("the broker's URL {message}"), FORM));
        let Some((scheme, rest)) = url.split_once("://") else {
            return wrong("has no scheme");
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        match scheme {
            "mqtt" => {}
            "embedded" if rest.is_empty() => {
                return Ok(Self { scheme: Scheme::Embedded, host: String::new(), port: 0 });
            }
            "embedded" => return Err(("embedded:// has no host".into(), "write embedded://")),
            // To connect without what the user asked for would send the password in plain text.
            "mqtts" => {
                return Err((
                    "mqtts:// (TLS) is not available in this version".into(),
                    "use mqtt:// to a broker on this host, which may speak TLS onwards",
                ));
            }
            _ => return wrong(&format!("has the scheme `{scheme}`, known are mqtt and embedded")),
        }
        if rest.contains('@') {
            return Err((
                "the broker's URL holds a user name or password".into(),
                "use username and password_file: a URL is shown in logs",
            ));
        }
        let Some((host, port)) = folder::host_and_port(rest, Some(1883)) else {
            return wrong("needs a host, and a port of 1 to 65535 after it");
        };
        Ok(Self { scheme: Scheme::Plain, host, port })
    }

    /// Whether the broker is on this host by its address or name: then plain text leaves nothing open.
    pub fn is_local(&self) -> bool {
        self.scheme == Scheme::Embedded
            || self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_judged() {
        for (url, found) in [
            ("127.0.0.1:1883", "has no scheme"),
            ("http://x", "has the scheme `http`"),
            ("mqtts://x", "not available in this version"),
            ("embedded://x", "has no host"),
            ("mqtt://", "needs a host"),
            ("mqtt://x:0", "needs a host, and a port"),
            ("mqtt://x:99999", "needs a host, and a port"),
            ("mqtt://x:y", "needs a host, and a port"),
            ("mqtt://gw:secret@x", "holds a user name or password"),
        ] {
            let (message, _) = Broker::parse(url).unwrap_err();
            assert!(message.contains(found) && !message.contains("secret"), "{url}: {message}");
        }
        let broker = |url: &str| Broker::parse(url).unwrap();
        assert_eq!(broker("mqtt://[::1]:1884/"), Broker { scheme: Scheme::Plain, host: "::1".into(), port: 1884 });
        assert!(broker("mqtt://[::1]").is_local() && broker("mqtt://localhost").is_local());
        assert!(broker("embedded://").is_local() && !broker("mqtt://broker.example").is_local());
    }
}
