//! Carries between the store, what must be said of it, and the session with the broker. Never holds up the store.
//!
//! ```text
//!  Store ── wake, commits ──► ShadowSync ── publications, while there is room ──► Session
//!                                 ▲────── connected, accepted, refused, gone ────────┘
//! ```

use super::clock::Clock;
use crate::model::Stamp;
use crate::mqtt::{self, Event, Events, PublishError, Session};
use crate::profile::DeviceProfile;
use crate::shadow::{self, Outgoing, Reload, ShadowSync, SyncCounters, schema_shadow};
use crate::twin::Store;
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

/// A handle on the running task. Dropping it ends the task without a word to the broker, which then speaks the will.
#[derive(Debug)]
pub struct Publisher {
    orders: mpsc::Sender<Order>,
    counters: Arc<Mutex<PublisherCounters>>,
    task: AbortOnDropHandle<()>,
}

/// What was counted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublisherCounters {
    /// Publications made, accepted, given up; changes that were not said.
    pub sync: SyncCounters,
    /// Connections that the broker accepted; all but the first are reconnects.
    pub connections: u64,
    /// Whether there is a connection now.
    pub connected: bool,
}

#[derive(Debug)]
enum Order {
    Describe { profile: Arc<str>, version: Arc<str>, schema: Bytes },
    Reloaded(Reload),
    Stop { deadline: Instant },
}

impl Publisher {
    /// Starts the task. The session's will is set from the shadow's options. Needs a running tokio runtime.
    pub fn start(store: Arc<Store>, clock: Clock, shadow: shadow::Options, mqtt: mqtt::Options) -> Self {
        let mqtt = mqtt::Options { will: Some(shadow.will()), ..mqtt };
        // Subscribed before the first root is taken: no commit can fall in between.
        let wake = store.subscribe();
        let sync = ShadowSync::new(shadow, &store.root(), clock.now());
        let (session, events) = Session::start(mqtt);
        let (orders, inbox) = mpsc::channel(ORDERS_MAX);
        let counters = Arc::new(Mutex::new(PublisherCounters::default()));
        let run = Run {
            store,
            clock,
            sync,
            session,
            events,
            news: Vec::new(),
            counted: PublisherCounters::default(),
            counters: Arc::clone(&counters),
            stop_at: None,
        };
        Self { orders, counters, task: AbortOnDropHandle::new(tokio::spawn(run.until_stopped(wake, inbox))) }
    }

    /// Makes the schema of a kind of device known; it is said for every device of this profile and version.
    pub async fn describe(&self, profile: &DeviceProfile) {
        let (name, version) = (Arc::clone(&profile.name), Arc::clone(&profile.version));
        self.order(Order::Describe { profile: name, version, schema: schema_shadow(profile).into() }).await;
    }

    /// Says what came of reading files anew.
    pub async fn reloaded(&self, reload: Reload) {
        self.order(Order::Reloaded(reload)).await;
    }

    /// What was counted.
    pub fn counters(&self) -> PublisherCounters {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what is still to be said, then that the gateway is gone, then goodbye; returns within `deadline`. Stop the
    /// store first ([`Store::stop`]), so that what is said is that nothing is fresh any more.
    pub async fn stop(self, deadline: Duration) {
        let deadline = Instant::now() + deadline;
        self.order(Order::Stop { deadline }).await;
        let Self { task, .. } = self;
        // The task keeps the deadline itself; should it hang or have crashed, it is aborted with its handle.
        let _ = timeout(deadline + Duration::from_millis(100) - Instant::now(), task).await;
    }

    async fn order(&self, order: Order) {
        // It fails only where the task is gone, and whoever watches the task knows.
        let _ = self.orders.send(order).await;
    }
}

/// The task.
struct Run {
    store: Arc<Store>,
    clock: Clock,
    sync: ShadowSync,
    session: Session,
    events: Events,
    /// Events taken from the session; kept for its memory.
    news: Vec<Event>,
    counted: PublisherCounters,
    counters: Arc<Mutex<PublisherCounters>>,
    stop_at: Option<Instant>,
}

impl Run {
    async fn until_stopped(
        mut self,
        mut wake: tokio::sync::watch::Receiver<crate::model::Revision>,
        mut orders: mpsc::Receiver<Order>,
    ) {
        loop {
            let now = self.take_in();
            let more = self.give_out(now);
            self.publish_counters();
            if let Some(stop_at) = self.stop_at
                && (self.sync.is_finished() || Instant::now() >= stop_at)
            {
                self.session.disconnect(stop_at.saturating_duration_since(Instant::now())).await;
                return;
            }
            if more {
                // Newer commits may have come; others on this thread may want to run.
                tokio::task::yield_now().await;
                continue;
            }
            let timer = self.sync.poll_timeout().map(|at| self.clock.instant(at));
            let until = timer.into_iter().chain(self.stop_at).min();
            tokio::select! {
                _ = wake.changed() => {}
                () = self.events.recv(&mut self.news) => {}
                order = orders.recv() => match order {
                    Some(order) => self.obey(order, now),
                    // The handle is gone, and this task with it.
                    None => return,
                },
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            }
        }
    }

    /// Takes what the session and the store have for us.
    fn take_in(&mut self) -> Stamp {
        let now = self.clock.now();
        self.events.try_recv(&mut self.news);
        for event in self.news.drain(..) {
            match event {
                Event::Connected => {
                    self.counted.connections += 1;
                    self.counted.connected = true;
                    self.sync.handle_connected(now);
                }
                Event::Disconnected(_) => {
                    self.counted.connected = false;
                    self.sync.handle_disconnected(now);
                }
                Event::Accepted(ticket) => self.sync.handle_published(ticket),
                Event::Refused(ticket) => self.sync.handle_refused(Some(ticket)),
            }
        }
        for _ in 0..WATCHES_PER_TURN {
            match self.store.watch(self.sync.followed(), COMMITS_PER_WATCH) {
                Ok(commits) if commits.is_empty() => break,
                Ok(commits) => self.sync.handle_commits(&commits, now),
                Err(_) => self.sync.handle_root(&self.store.root(), now),
            }
        }
        self.sync.handle_timeout(now);
        now
    }

    /// Hands over what is to be said, as far as there is room; whether there is more.
    fn give_out(&mut self, now: Stamp) -> bool {
        for _ in 0..PUBLICATIONS_PER_TURN {
            if !self.session.has_capacity() {
                return false;
            }
            let Some(Outgoing { publication, ticket }) = self.sync.poll_publication(now) else { return false };
            match self.session.try_publish(publication, ticket) {
                Ok(()) => {}
                Err(PublishError::Oversize { .. }) => self.sync.handle_refused(ticket),
                // There was room an instant ago, so the connection has broken since: all of it is said anew.
                Err(PublishError::Away | PublishError::Full) => return false,
            }
        }
        true
    }

    fn obey(&mut self, order: Order, now: Stamp) {
        match order {
            Order::Describe { profile, version, schema } => self.sync.handle_schema(&profile, &version, schema),
            Order::Reloaded(reload) => self.sync.handle_reload(reload),
            Order::Stop { deadline } => {
                self.take_in();
                self.sync.handle_stopping(now);
                self.session.set_eager();
                self.stop_at = Some(deadline);
            }
        }
    }

    fn publish_counters(&mut self) {
        self.counted.sync = self.sync.counters();
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = self.counted;
    }
}

/// Orders waiting for the task; they are few, and whoever gives one waits.
const ORDERS_MAX: usize = 16;

/// Commits taken at a time, and how often before anything is said again: what is said shall be newest, and a store
/// that never rests shall not keep us from speaking.
const COMMITS_PER_WATCH: usize = 256;
const WATCHES_PER_TURN: usize = 64;

/// Publications between two looks at the store.
const PUBLICATIONS_PER_TURN: usize = 32;

#[cfg(test)]
mod tests;
