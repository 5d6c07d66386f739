//! The session as its user sees it: a handle that never waits, and events.

use super::backoff::{Backoff, Ending};
use super::connection::{self, Ended};
use super::options::Options;
use crate::shadow::{Publication, Qos, Ticket};
use rumqttc::v5::AsyncClient;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::PublishProperties;
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

/// What happened to the session or to a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The broker accepted the connection; the session is clean, nothing is under way.
    Connected,
    /// The connection is gone, and with it every publication that was not accepted.
    Disconnected(String),
    /// The broker has taken responsibility for it.
    Accepted(Ticket),
    /// The broker does not take it, as for want of permission; the connection stands.
    Refused(Ticket),
}

/// Why a publication was not handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// There is no connection: `Disconnected` has come or comes.
    #[error("no connection to the broker")]
    Away,
    /// No room now: wait for an event.
    #[error("as many publications under way as may be")]
    Full,
    /// It will never pass: greater than the configuration or the broker allows.
    #[error("{size} bytes, and at most {limit} are allowed")]
    Oversize {
        /// Bytes of the packet, or of the payload where that is what is limited.
        size: usize,
        /// The most.
        limit: usize,
    },
}

/// A handle on the session. Dropping it breaks the connection without a word, so that the broker speaks the will.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    max_payload: usize,
    task: AbortOnDropHandle<()>,
}

/// The receiving side; one user.
#[derive(Debug)]
pub struct Events {
    shared: Arc<Shared>,
}

/// What the handle and the connection task share.
#[derive(Debug)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// Wakes the user of [`Events`].
    news: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    live: Option<Live>,
    /// Bounded: tickets are at most a window, and a broken connection empties it.
    events: Vec<Event>,
    /// The user found no room.
    hungry: bool,
    /// The user wants each acceptance at once.
    eager: bool,
    /// Goodbye is being said: no further connection.
    stopping: bool,
    /// Topics whose messages were too large: each is complained of once.
    parked: HashSet<String>,
}

/// One accepted connection.
#[derive(Debug)]
struct Live {
    client: AsyncClient,
    /// Handed to the library and not yet written: it writes in this order.
    submitted: VecDeque<Option<Ticket>>,
    /// At least once, and not yet accepted; includes those in `submitted`.
    unaccepted: usize,
    /// Most of them at a time: ours or the broker's receive maximum.
    window: usize,
    /// Greatest packet that the broker takes.
    max_packet: usize,
}

impl Session {
    /// Begins to connect. Needs a running tokio runtime; returns at once.
    pub fn start(options: Options) -> (Self, Events) {
        let shared = Arc::new(Shared { inner: Mutex::default(), news: Notify::new() });
        let max_payload = options.max_payload;
        let task = AbortOnDropHandle::new(tokio::spawn(keep_connected(options, Arc::clone(&shared))));
        (Self { shared: Arc::clone(&shared), max_payload, task }, Events { shared })
    }

    /// Whether a publication can be handed over now. Where not, an event will come when it can.
    pub fn has_capacity(&self) -> bool {
        let mut inner = self.shared.lock();
        let room = inner.live.as_ref().is_some_and(Live::has_room);
        inner.hungry |= !room;
        room
    }

    /// Hands a publication over. Its acceptance is reported by its ticket; without one it is forgotten at once.
    pub fn try_publish(&self, publication: Publication, ticket: Option<Ticket>) -> Result<(), PublishError> {
        let mut inner = self.shared.lock();
        let inner = &mut *inner;
        let live = inner.live.as_mut().ok_or(PublishError::Away)?;
        let (size, limit) = match (publication.payload.len(), packet_size(&publication)) {
            (payload, _) if payload > self.max_payload => (payload, self.max_payload),
            (_, packet) => (packet, live.max_packet),
        };
        if size > limit {
            if inner.parked.len() < PARKED_MAX && inner.parked.insert(publication.topic.clone()) {
                let topic = &publication.topic;
                warn!(
                    topic,
                    size, limit, "message is too large and is not sent; raise mqtt.max_payload or the broker's limit"
                );
            }
            return Err(PublishError::Oversize { size, limit });
        }
        if !live.has_room() {
            inner.hungry = true;
            return Err(PublishError::Full);
        }
        let Publication { topic, payload, qos, retain, expiry } = publication;
        let qos = match qos {
            Qos::AtMostOnce => QoS::AtMostOnce,
            Qos::AtLeastOnce => QoS::AtLeastOnce,
        };
        let sent = match expiry {
            None => live.client.try_publish(topic, qos, retain, payload),
            Some(expiry) => {
                let seconds = u32::try_from(expiry.as_secs()).unwrap_or(u32::MAX).max(1);
                let properties =
                    PublishProperties { message_expiry_interval: Some(seconds), ..PublishProperties::default() };
                live.client.try_publish_with_properties(topic, qos, retain, payload, properties)
            }
        };
        if sent.is_err() {
            // The library's queue is as long as ours, so this means that its end is gone; the task will say so.
            return Err(PublishError::Away);
        }
        // The connection task cannot see the message before this lock is released.
        live.submitted.push_back(ticket);
        live.unaccepted += usize::from(ticket.is_some());
        Ok(())
    }

    /// From now on wake the user for each acceptance: it waits for the last of them.
    pub fn set_eager(&self) {
        self.shared.lock().eager = true;
    }

    /// Says goodbye, so that the broker does not speak the will, and waits for it to be sent. Everything handed over
    /// before goes out first. After `deadline` the connection is broken instead.
    pub async fn disconnect(self, deadline: Duration) {
        let Self { shared, task, .. } = self;
        let farewell = async {
            while shared.say_goodbye() {
                // The library's queue is full; it empties as fast as the broker reads.
                sleep(Duration::from_millis(5)).await;
            }
            if shared.lock().live.is_some() {
                // A panic of the task or its end: either way there is no connection any more.
                let _ = task.await;
            }
        };
        if timeout(deadline, farewell).await.is_err() {
            warn!("the broker did not take the goodbye in time");
        }
    }
}

impl Events {
    /// Waits for events, or for room where there was none, and appends the events. Safe to cancel.
    pub async fn recv(&mut self, into: &mut Vec<Event>) {
        if !self.try_recv(into) {
            self.shared.news.notified().await;
            self.try_recv(into);
        }
    }

    /// Appends what is there; whether there was anything.
    pub fn try_recv(&mut self, into: &mut Vec<Event>) -> bool {
        let mut inner = self.shared.lock();
        let any = !inner.events.is_empty();
        into.append(&mut inner.events);
        any
    }
}

impl Live {
    fn has_room(&self) -> bool {
        self.unaccepted < self.window && self.submitted.len() < CHANNEL
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code under this lock can leave it half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The broker accepted the connection.
    pub(super) fn connected(&self, client: AsyncClient, receive_max: Option<u16>, max_packet: Option<u32>) {
        let mut inner = self.lock();
        inner.live = Some(Live {
            client,
            submitted: VecDeque::with_capacity(CHANNEL),
            unaccepted: 0,
            window: usize::from(receive_max.unwrap_or(WINDOW).clamp(1, WINDOW)),
            max_packet: max_packet.map_or(PACKET_MAX, |max| max as usize),
        });
        inner.parked.clear();
        inner.events.push(Event::Connected);
        drop(inner);
        self.news.notify_one();
    }

    /// The oldest message handed over was written (or is about to be).
    pub(super) fn written(&self) -> Option<Ticket> {
        let mut inner = self.lock();
        let ticket = inner.live.as_mut().and_then(|live| live.submitted.pop_front()).flatten();
        self.wake_if_awaited(inner);
        ticket
    }

    /// The broker has answered for a message.
    pub(super) fn answered(&self, ticket: Ticket, accepted: bool) {
        let mut inner = self.lock();
        if let Some(live) = &mut inner.live {
            live.unaccepted = live.unaccepted.saturating_sub(1);
        }
        inner.events.push(if accepted { Event::Accepted(ticket) } else { Event::Refused(ticket) });
        self.wake_if_awaited(inner);
    }

    /// An acceptance alone is no news that cannot wait: half a window at a time wakes the user less often.
    fn wake_if_awaited(&self, mut inner: MutexGuard<'_, Inner>) {
        let room = inner.hungry && inner.live.as_ref().is_some_and(Live::has_room);
        let full = inner.events.len() >= usize::from(WINDOW / 2) || (inner.eager && !inner.events.is_empty());
        if room || full {
            inner.hungry = false;
            drop(inner);
            self.news.notify_one();
        }
    }

    /// Whether goodbye is still to be said: there is a connection, and its queue had no room for it.
    fn say_goodbye(&self) -> bool {
        let mut inner = self.lock();
        inner.stopping = true;
        inner.live.as_ref().is_some_and(|live| live.client.try_disconnect().is_err())
    }

    fn disconnected(&self, reason: &str) {
        let mut inner = self.lock();
        if inner.live.take().is_some() {
            inner.events.clear();
            inner.events.push(Event::Disconnected(reason.to_owned()));
        }
        inner.hungry = false;
        drop(inner);
        self.news.notify_one();
    }
}

/// Connects, for ever; between connections it waits.
async fn keep_connected(options: Options, shared: Arc<Shared>) {
    let mut backoff = Backoff::default();
    let mut said: Option<String> = None;
    let mut away_since = Instant::now();
    loop {
        // A task of its own: a panic in the library ends a connection, not the session.
        let task = tokio::spawn(connection::run(
            connection::settings(&options),
            options.keep_alive.get(),
            Arc::clone(&shared),
        ));
        let ended = AbortOnDropHandle::new(task).await.unwrap_or_else(|_| Ended::crashed());
        shared.disconnected(&ended.reason);
        if shared.lock().stopping {
            debug!(broker = %options.broker, "disconnected from the broker");
            return;
        }
        if ended.lived.is_some() {
            away_since = Instant::now();
            said = None;
        }
        let wait = backoff.after(Ending { lived: ended.lived, taken_over: ended.taken_over }, chance());
        let contested = ended.taken_over || backoff.is_contested();
        let reason = if contested {
            format!("{}: another client seems to use the name {}", ended.reason, options.client_id)
        } else {
            ended.reason
        };
        if said.as_ref() == Some(&reason) {
            debug!(broker = %options.broker, reason, ?wait, "no connection to the broker");
        } else {
            warn!(broker = %options.broker, reason, ?wait, "no connection to the broker");
            said = Some(reason);
        }
        sleep(wait).await;
        debug!(broker = %options.broker, away = ?away_since.elapsed(), "connecting to the broker");
    }
}

pub(super) fn announce(broker: &str) {
    info!(broker, "connected to the broker");
}

/// 0 … 1, from the seed that the standard library draws for its maps.
fn chance() -> f64 {
    let drawn = RandomState::new().hash_one(0u8);
    (drawn >> 11) as f64 / (1u64 << 53) as f64
}

/// Bytes of the packet, at most a few too many: fixed header, topic, packet id, expiry.
fn packet_size(publication: &Publication) -> usize {
    5 + 2 + publication.topic.len() + 2 + 6 + publication.payload.len()
}

/// Publications at least once under way. At 80 000 a second a hundred are enough; the library's memory grows with it.
pub(super) const WINDOW: u16 = 100;

/// Publications handed to the library and not yet written: what is here is not newest any more.
pub(super) const CHANNEL: usize = 64;

/// Greatest packet of the protocol.
const PACKET_MAX: usize = 268_435_455;

/// Topics that were complained of.
const PARKED_MAX: usize = 1024;
