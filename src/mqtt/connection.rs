//! One connection: a fresh event loop of the library, alone in its task, from CONNECT to its end.

use super::options::Options;
use super::session::{CHANNEL, Shared, WINDOW, announce};
use crate::shadow::{Qos, Ticket};
use rumqttc::NetworkOptions;
use rumqttc::Outgoing;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{DisconnectReasonCode, LastWill, Packet, PubAckReason};
use rumqttc::v5::{AsyncClient, ConnectionError, Event, MqttOptions, StateError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tracing::warn;

/// How it ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// In words.
    pub(super) reason: String,
    /// Time since CONNACK; nothing if there was none.
    pub(super) lived: Option<Duration>,
    /// Another client took our session.
    pub(super) taken_over: bool,
}

impl Ended {
    /// The library panicked. Counted as no connection at all, however long it lived: it may well do it again.
    pub(super) fn crashed() -> Self {
        Self { reason: "the MQTT library crashed".to_owned(), lived: None, taken_over: false }
    }
}

/// The library's options for one connection.
pub(super) fn settings(options: &Options) -> MqttOptions {
    let mut settings = MqttOptions::new(&options.client_id, options.broker.host(), options.broker.port());
    settings.set_keep_alive(options.keep_alive.get());
    settings.set_clean_start(true);
    // Both bound the library's memory: tables per packet id, and the greatest incoming packet.
    settings.set_outgoing_inflight_upper_limit(WINDOW);
    settings.set_max_packet_size(Some(PACKET_IN_MAX));
    settings.set_connection_timeout(CONNECT_TIMEOUT.as_secs());
    let mut network = NetworkOptions::new();
    // Without it a message waits for the acknowledgement of the one before: 34 ms instead of 0.7.
    network.set_tcp_nodelay(true);
    settings.set_network_options(network);
    if let Some(username) = &options.username {
        settings.set_credentials(username, options.password.as_ref().map_or("", |p| p.reveal()));
    }
    if let Some(will) = &options.will {
        let qos = match will.qos {
            Qos::AtMostOnce => QoS::AtMostOnce,
            Qos::AtLeastOnce => QoS::AtLeastOnce,
        };
        settings.set_last_will(LastWill::new(&will.topic, will.payload.to_vec(), qos, will.retain, None));
    }
    settings
}

/// Connects and carries on until the connection ends. Nothing here awaits but the library's `poll`, and that future is
/// only ever given up together with the connection.
pub(super) async fn run(settings: MqttOptions, keep_alive: Duration, shared: Arc<Shared>) -> Ended {
    let (host, port) = settings.broker_address();
    let (client, mut event_loop) = AsyncClient::new(settings, CHANNEL + 1);
    let mut accepted_at: Option<Instant> = None;
    let mut flight = InFlight::new();
    // `poll` returns at least once per keep-alive; where it does not, a write hangs in a link that is dead.
    let patience = keep_alive * 2 + CONNECT_TIMEOUT;
    let ended = |reason: String, accepted_at: Option<Instant>, taken_over| Ended {
        reason,
        lived: accepted_at.map(|at| at.elapsed()),
        taken_over,
    };
    loop {
        let event = match timeout(patience, event_loop.poll()).await {
            Err(_) => return ended("the link takes no more bytes".to_owned(), accepted_at, false),
            Ok(Err(error)) => return ended(in_words(&error), accepted_at, is_takeover(&error)),
            Ok(Ok(event)) => event,
        };
        match event {
            Event::Incoming(Packet::ConnAck(connack)) => {
                let properties = connack.properties.as_ref();
                accepted_at = Some(Instant::now());
                announce(&format!("mqtt://{host}:{port}"));
                shared.connected(
                    client.clone(),
                    properties.and_then(|p| p.receive_max),
                    properties.and_then(|p| p.max_packet_size),
                );
            }
            Event::Outgoing(Outgoing::Publish(packet_id)) => flight.written(packet_id, &shared),
            Event::Outgoing(Outgoing::AwaitAck(packet_id)) => flight.collided(packet_id, &shared),
            Event::Incoming(Packet::PubAck(ack)) => {
                let accepted = matches!(ack.reason, PubAckReason::Success | PubAckReason::NoMatchingSubscribers);
                if let Some(ticket) = flight.answered(ack.pkid) {
                    if !accepted {
                        warn!(reason = ?ack.reason, "the broker refuses a message");
                    }
                    shared.answered(ticket, accepted);
                }
            }
            Event::Outgoing(Outgoing::Disconnect) => return ended("said goodbye".to_owned(), accepted_at, false),
            _ => {}
        }
        if flight.waits_for(ANSWER_PATIENCE) {
            return ended("the broker accepts messages no more".to_owned(), accepted_at, false);
        }
    }
}

/// Tickets by packet id, of messages written and not yet answered for.
struct InFlight {
    by_id: Vec<Option<Ticket>>,
    count: usize,
    /// When the broker last answered, or began to owe an answer.
    moved_at: Instant,
    /// A message that waits for its packet id to become free.
    collided: Option<(u16, Option<Ticket>)>,
}

impl InFlight {
    fn new() -> Self {
        Self { by_id: vec![None; usize::from(WINDOW) + 1], count: 0, moved_at: Instant::now(), collided: None }
    }

    /// The library writes messages in the order in which it got them, so this is the oldest one handed over; or the one
    /// that had to wait for this packet id.
    fn written(&mut self, packet_id: u16, shared: &Shared) {
        let ticket = match self.collided.take_if(|(id, _)| *id == packet_id) {
            Some((_, ticket)) => ticket,
            None => shared.written(),
        };
        if let (Some(ticket), Some(slot)) = (ticket, self.by_id.get_mut(usize::from(packet_id))) {
            if self.count == 0 {
                self.moved_at = Instant::now();
            }
            self.count += usize::from(slot.replace(ticket).is_none());
        }
    }

    fn collided(&mut self, packet_id: u16, shared: &Shared) {
        self.collided = Some((packet_id, shared.written()));
    }

    fn answered(&mut self, packet_id: u16) -> Option<Ticket> {
        let ticket = self.by_id.get_mut(usize::from(packet_id))?.take()?;
        self.count -= 1;
        self.moved_at = Instant::now();
        Some(ticket)
    }

    fn waits_for(&self, patience: Duration) -> bool {
        self.count > 0 && self.moved_at.elapsed() > patience
    }
}

fn in_words(error: &ConnectionError) -> String {
    match error {
        ConnectionError::Io(error) => error.to_string(),
        ConnectionError::Timeout(_) => format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
        ConnectionError::ConnectionRefused(code) => format!("the broker refuses the connection: {code:?}"),
        ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, reason_string }) => {
            match reason_string {
                Some(words) => format!("the broker disconnects: {reason_code:?}, {words}"),
                None => format!("the broker disconnects: {reason_code:?}"),
            }
        }
        ConnectionError::MqttState(StateError::ConnectionAborted) => "the broker closed the connection".to_owned(),
        ConnectionError::MqttState(StateError::AwaitPingResp) => "the broker answers no more".to_owned(),
        other => other.to_string(),
    }
}

fn is_takeover(error: &ConnectionError) -> bool {
    matches!(
        error,
        ConnectionError::MqttState(StateError::ServerDisconnect {
            reason_code: DisconnectReasonCode::SessionTakenOver,
            ..
        })
    )
}

/// TCP and CONNACK together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A broker that answers pings but accepts nothing for so long is wedged (F108): begin anew.
const ANSWER_PATIENCE: Duration = Duration::from_mins(1);

/// Greatest packet that we take, in bytes.
const PACKET_IN_MAX: u32 = 1 << 20;
