//! The gateway as a whole: builds the rooms, joins them, and takes them down in order.
//!
//! ```text
//!  start:  files ─► store configured ─► lines poll ─► publisher says what is there ─► folders watched
//!  stop:   folders, tick ─► lines ─► store: nothing is fresh ─► publisher says so, then goodbye
//! ```

use super::fleet::{Applied, Fleet};
use super::{Clock, Folders, Publisher, Tasks};
use crate::config::{Config, Library, Links, Scan, scan_devices};
use crate::model::{DeviceId, Epoch};
use crate::mqtt::{self, Broker, BrokerError, KeepAlive, KeepAliveError, Password};
use crate::shadow::{self, Prefix, PrefixError, Qos, Reload};
use crate::twin::{self, Store};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::time::{MissedTickBehavior, interval};

/// How often the store looks for groups that were not read in time.
const TICK: Duration = Duration::from_millis(500);

/// Of the ten seconds that a service manager waits after SIGTERM, what the goodbye to the broker may take.
const GOODBYE: Duration = Duration::from_secs(8);

/// A gateway that runs.
pub struct Gateway {
    clock: Clock,
    store: Arc<Store>,
    fleet: Arc<Mutex<Fleet>>,
    publisher: Arc<Publisher>,
    tasks: Tasks,
    reload: Arc<Notify>,
}

/// Why a gateway cannot start. The configuration is to blame.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The broker's address.
    #[error("mqtt.url: {0}")]
    Broker(#[from] BrokerError),
    /// The keep-alive.
    #[error("mqtt.keep_alive: {0}")]
    KeepAlive(#[from] KeepAliveError),
    /// The topics' prefix.
    #[error("publish.prefix: {0}")]
    Prefix(#[from] PrefixError),
}

/// Where profiles and devices are read from.
#[derive(Debug)]
struct Sources {
    library: Library,
    devices: PathBuf,
    links: Links,
    gateway: DeviceId,
}

impl Sources {
    fn scan(&self) -> Scan {
        scan_devices(&self.devices, &self.library, &self.links, Some(&self.gateway))
    }
}

impl Gateway {
    /// Starts everything. `simulated`: all devices are pretend ones, and their states say so.
    pub async fn start(config: &Config, simulated: bool) -> Result<Self, StartError> {
        let (shadow, mqtt) = (shadow_options(config)?, mqtt_options(config)?);
        let clock = Clock::start();
        // A new life has a greater number than any before, as long as the wall clock is not set back over a restart.
        let epoch = Epoch(Clock::wall().0);
        let options =
            twin::Options { ring_entries: config.twin.watch_ring_entries, ring_bytes: config.twin.watch_ring_bytes };
        let store = Arc::new(Store::new(epoch, &options));
        let sources = Arc::new(Sources {
            library: Library::new(config.profiles.clone()),
            devices: config.devices.clone(),
            links: config.links.clone(),
            gateway: config.gateway.id.clone(),
        });
        let mut watched = config.profiles.clone();
        watched.push(config.devices.clone());
        // Watched before the first look: nothing that is dropped in between is missed.
        let folders = Folders::watch(&watched);

        let mut fleet = Fleet::new(clock, Arc::clone(&store), simulated);
        let applied = fleet.apply(&scan(&sources).await).await;
        let publisher = Arc::new(Publisher::start(Arc::clone(&store), clock, shadow, mqtt));
        tell(&publisher, &applied).await;

        let gateway = Self {
            clock,
            store,
            fleet: Arc::new(Mutex::new(fleet)),
            publisher,
            tasks: Tasks::default(),
            reload: Arc::default(),
        };
        gateway.tick();
        gateway.follow(sources, folders, applied);
        Ok(gateway)
    }

    /// The store, for readers in the same process.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Reads profiles and devices anew, soon.
    pub fn reload(&self) {
        self.reload.notify_one();
    }

    /// Ends polling, says of every device that nothing is fresh any more, says goodbye. Takes less than ten seconds.
    pub async fn stop(self) {
        self.tasks.stop().await;
        self.fleet.lock().await.stop().await;
        self.store.stop(self.clock.now());
        if let Some(publisher) = Arc::into_inner(self.publisher) {
            publisher.stop(GOODBYE).await;
        }
    }

    fn tick(&self) {
        let (clock, store) = (self.clock, Arc::clone(&self.store));
        self.tasks.spawn("tick", move || {
            let store = Arc::clone(&store);
            async move {
                let mut ticks = interval(TICK);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    store.tick(clock.now());
                }
            }
        });
    }

    /// Follows what users drop, change and remove.
    fn follow(&self, sources: Arc<Sources>, folders: Folders, first: Applied) {
        let (fleet, publisher, reload) =
            (Arc::clone(&self.fleet), Arc::clone(&self.publisher), Arc::clone(&self.reload));
        let state = Arc::new(Mutex::new((folders, first.errors)));
        self.tasks.spawn("reload", move || {
            let (sources, fleet, publisher) = (Arc::clone(&sources), Arc::clone(&fleet), Arc::clone(&publisher));
            let (reload, state) = (Arc::clone(&reload), Arc::clone(&state));
            async move {
                let (folders, told) = &mut *state.lock().await;
                loop {
                    let asked = tokio::select! {
                        () = folders.changed() => false,
                        () = reload.notified() => true,
                    };
                    let applied = fleet.lock().await.apply(&scan(&sources).await).await;
                    if asked || !applied.started.is_empty() || applied.removed > 0 || applied.errors != *told {
                        let (started, removed, errors) = (applied.started.len(), applied.removed, applied.errors.len());
                        tracing::info!(started, removed, errors, "files read anew");
                        tell(&publisher, &applied).await;
                    }
                    *told = applied.errors;
                }
            }
        });
    }
}

/// Reads the files on a thread where that may take its time.
async fn scan(sources: &Arc<Sources>) -> Scan {
    let sources = Arc::clone(sources);
    match tokio::task::spawn_blocking(move || sources.scan()).await {
        Ok(scan) => scan,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn tell(publisher: &Publisher, applied: &Applied) {
    let mut described: Vec<(&str, &str)> = Vec::new();
    for profile in &applied.started {
        let kind = (&*profile.name, &*profile.version);
        if !described.contains(&kind) {
            described.push(kind);
            publisher.describe(profile).await;
        }
    }
    publisher.reloaded(Reload { at: Clock::wall(), errors: applied.errors.as_slice().into() }).await;
}

fn shadow_options(config: &Config) -> Result<shadow::Options, PrefixError> {
    let publish = &config.publish;
    let qos = |n: u8| if n == 0 { Qos::AtMostOnce } else { Qos::AtLeastOnce };
    Ok(shadow::Options {
        prefix: Prefix::new(&publish.prefix)?,
        state_qos: qos(publish.state.qos),
        state_retain: publish.state.retain,
        min_interval: publish.state.min_interval,
        heartbeat: publish.state.heartbeat,
        change: publish.change.enabled,
        change_qos: qos(publish.change.qos),
        ..shadow::Options::new(config.gateway.id.clone(), env!("CARGO_PKG_VERSION"))
    })
}

fn mqtt_options(config: &Config) -> Result<mqtt::Options, StartError> {
    let mqtt = &config.mqtt;
    let broker = Broker::new(&mqtt.broker.host, mqtt.broker.port)?;
    Ok(mqtt::Options {
        username: mqtt.username.clone(),
        password: mqtt.password.as_ref().map(|secret| Password::new(secret.reveal().to_owned())),
        keep_alive: KeepAlive::new(mqtt.keep_alive)?,
        max_payload: mqtt.max_payload,
        ..mqtt::Options::new(broker, &mqtt.client_id)
    })
}
