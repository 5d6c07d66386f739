//! From a link as configured to one that can be opened, and how its line behaves.

use super::line::LineOptions;
use crate::config::{Endpoint, FarEnd, Link};
use crate::poll::BusOptions;
use crate::profile;
use crate::transport::{self, EndpointError, LinkAddress, Parity, SerialPort, TlsEndpoint};

/// Where a line goes and what is peculiar to it. Devices whose routes are equal share one line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Route {
    /// Where it goes.
    pub address: LinkAddress,
    /// Requests unanswered at one time.
    pub in_flight: u8,
    /// What is sent comes back.
    pub echo: bool,
    /// Bytes are logged.
    pub trace: bool,
}

impl Route {
    /// A line with the options of this route; `bus` has those that are not the route's.
    pub fn options(&self, mut bus: BusOptions) -> LineOptions {
        bus.in_flight = self.in_flight;
        bus.echo = self.echo;
        LineOptions { bus, trace: self.trace, ..LineOptions::default() }
    }
}

impl From<LinkAddress> for Route {
    fn from(address: LinkAddress) -> Self {
        Self { address, in_flight: 1, echo: false, trace: false }
    }
}

impl TryFrom<&Link> for Route {
    type Error = EndpointError;

    fn try_from(link: &Link) -> Result<Self, EndpointError> {
        let Link { in_flight, echo, trace, .. } = *link;
        Ok(Self { address: address(&link.far_end)?, in_flight, echo, trace })
    }
}

fn address(far_end: &FarEnd) -> Result<LinkAddress, EndpointError> {
    let endpoint = |at: &Endpoint| at.to_string().parse::<transport::Endpoint>();
    Ok(match far_end {
        FarEnd::Tcp(at) => LinkAddress::Tcp(endpoint(at)?),
        FarEnd::RtuOverTcp(at) => LinkAddress::RtuOverTcp(endpoint(at)?),
        FarEnd::Tls { endpoint: at, ca, identity } => {
            LinkAddress::Tls(TlsEndpoint { endpoint: endpoint(at)?, ca: ca.clone(), identity: identity.clone() })
        }
        FarEnd::Serial(line) => LinkAddress::Serial(SerialPort {
            path: line.path.clone(),
            baud: line.baud,
            data_bits: line.data_bits,
            parity: match line.parity {
                profile::Parity::None => Parity::None,
                profile::Parity::Even => Parity::Even,
                profile::Parity::Odd => Parity::Odd,
            },
            stop_bits: line.stop_bits,
            rs485: line.rs485,
            ascii: line.ascii,
        }),
    })
}
