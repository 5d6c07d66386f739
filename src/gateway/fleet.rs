//! The devices that run: which line polls them, under which generation, and what a new scan of the files changes.
//!
//! What differs is stopped, started or restarted; what does not is left alone: its connection, its cycle and its
//! values go on.

use super::Clock;
use super::line::{Line, LineHandle, PutError};
use super::route::Route;
use crate::codec::Decoder;
use crate::config::{DeviceSetup, Scan};
use crate::model::{Configuration, Cycle, DeviceId, Generation};
use crate::poll::{BusOptions, CycleReport, UnitSetup};
use crate::profile::{DeviceProfile, Intervals};
use crate::transport::EndpointError;
use crate::twin::{Committed, Store};
use dashmap::DashMap;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All devices of a gateway and the lines that poll them.
pub struct Fleet {
    clock: Clock,
    store: Arc<Store>,
    /// All devices are pretend ones: their states say so.
    simulated: bool,
    decoders: Arc<Decoders>,
    lines: HashMap<Route, LineHandle>,
    devices: HashMap<DeviceId, Member>,
}

/// A device of the last scan.
struct Member {
    /// Where it was configured.
    file: PathBuf,
    life: Life,
}

enum Life {
    /// It is polled on this link.
    Running { fingerprint: u64, link: Route },
    /// It is not, for these mistakes.
    Refused { places: Arc<str> },
}

/// How each device's registers become values. Read by the lines, written when the fleet changes.
type Decoders = DashMap<DeviceId, Arc<Prepared>>;

struct Prepared {
    generation: Generation,
    decoder: Decoder,
    /// Number of the newest cycle that was reported.
    cycle: AtomicU64,
}

/// What a scan changed, for the log and the gateway's status.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// Profiles of the devices that began, or began anew.
    pub started: Vec<Arc<DeviceProfile>>,
    /// Devices that were taken out.
    pub removed: usize,
    /// Mistakes in files, each `file:line:column: what`.
    pub errors: Vec<Arc<str>>,
}

/// Most mistakes that are told; the rest is counted in the last line.
const ERRORS_MAX: usize = 50;

impl Fleet {
    /// No devices yet.
    pub fn new(clock: Clock, store: Arc<Store>, simulated: bool) -> Self {
        Self { clock, store, simulated, decoders: Arc::default(), lines: HashMap::new(), devices: HashMap::new() }
    }

    /// Makes the fleet what the files say now.
    pub async fn apply(&mut self, scan: &Scan) -> Applied {
        let mut applied = Applied::default();
        let mut named: HashSet<&DeviceId> = HashSet::new();
        for refused in &scan.refused {
            let places = refused.diagnostics.lines();
            applied.errors.extend(places.lines().map(Arc::from));
            if let Some(device) = &refused.device {
                named.insert(device);
                self.refuse(device, &places, &refused.file);
            } else {
                tracing::warn!(places = places.trim_end(), "a file cannot be used");
            }
        }
        for setup in &scan.setups {
            named.insert(&setup.device);
            match self.start(setup).await {
                Ok(false) => {}
                Ok(true) => applied.started.push(Arc::clone(&setup.profile)),
                Err(error) => {
                    let places = format!("{}: {error}", setup.stands_at);
                    self.refuse(&setup.device, &places, &setup.file);
                    applied.errors.push(places.into());
                }
            }
        }
        // A file (or the folder) that can no longer be read names nobody: its devices go on as they were.
        let unreadable: Vec<&Path> =
            scan.refused.iter().filter(|r| r.device.is_none()).map(|r| r.file.as_path()).collect();
        let gone: Vec<DeviceId> = self
            .devices
            .iter()
            .filter(|(device, member)| {
                !named.contains(device) && !unreadable.iter().any(|place| member.file.starts_with(place))
            })
            .map(|(device, _)| device.clone())
            .collect();
        for device in gone {
            self.remove(&device).await;
            applied.removed += 1;
        }
        self.close_idle_lines();
        if applied.errors.len() > ERRORS_MAX {
            let more = applied.errors.len() - ERRORS_MAX;
            applied.errors.truncate(ERRORS_MAX);
            applied.errors.push(format!("and {more} more; `fieldshadow check` lists all").into());
        }
        applied
    }

    /// Ends all polling.
    pub async fn stop(&mut self) {
        for (_, line) in self.lines.drain() {
            line.stop().await;
        }
    }

    /// A device whose files are wrong: it is not started; one that runs goes on with the last good version.
    fn refuse(&mut self, device: &DeviceId, places: &str, file: &Path) {
        let shown = places.trim_end();
        match self.devices.get(device).map(|member| &member.life) {
            Some(Life::Running { .. }) => {
                tracing::warn!(%device, places = shown, "wrong files: the device goes on with the last good version");
            }
            Some(Life::Refused { places: known, .. }) if **known == *places => {}
            _ => {
                tracing::warn!(%device, places = shown, "wrong files: the device is not started");
                let places: Arc<str> = places.into();
                self.store.configure(device, Configuration::Refused(Arc::clone(&places)), self.clock.now());
                let member = Member { file: file.to_owned(), life: Life::Refused { places } };
                self.devices.insert(device.clone(), member);
            }
        }
    }

    /// Starts a device, or restarts it where its files changed; whether it did.
    async fn start(&mut self, setup: &DeviceSetup) -> Result<bool, StartError> {
        if let Some(Member { life: Life::Running { fingerprint, .. }, file }) = self.devices.get_mut(&setup.device)
            && *fingerprint == setup.fingerprint
        {
            file.clone_from(&setup.file);
            return Ok(false);
        }
        let device = &setup.device;
        let link = Route::try_from(&setup.link)?;
        self.leave_line(device, &link).await;
        let mut layout = setup.profile.layout(&Intervals::new());
        layout.simulated = self.simulated;
        let layout = Arc::new(layout);
        let configuration = Configuration::Ready(Arc::clone(&layout));
        let generation = self.store.configure(device, configuration, self.clock.now());
        let past = self.decoders.get(device).map_or(0, |p| p.value().cycle.load(Ordering::Relaxed));
        let prepared = Prepared { generation, decoder: Decoder::new(&setup.profile), cycle: AtomicU64::new(past) };
        self.decoders.insert(device.clone(), Arc::new(prepared));
        let unit = UnitSetup::from_profile(
            device.clone(),
            generation,
            setup.unit_id,
            &setup.profile,
            &layout,
            Cycle(past + 1),
        );
        self.line(&link).put(unit).await?;
        tracing::info!(%device, profile = %setup.profile.name, link = %link.address, unit_id = %setup.unit_id, "device started");
        let life = Life::Running { fingerprint: setup.fingerprint, link };
        self.devices.insert(device.clone(), Member { file: setup.file.clone(), life });
        Ok(true)
    }

    async fn remove(&mut self, device: &DeviceId) {
        if let Some(Member { life: Life::Running { link, .. }, .. }) = self.devices.remove(device)
            && let Some(line) = self.lines.get(&link)
        {
            // A line that has stopped polls nobody.
            let _ = line.remove(device.clone()).await;
        }
        self.decoders.remove(device);
        if self.store.remove(device, self.clock.now()).is_ok() {
            tracing::info!(%device, "device removed");
        }
    }

    /// A device that moves to another link leaves its old one; on the same link it is replaced in its place.
    async fn leave_line(&self, device: &DeviceId, new: &Route) {
        if let Some(Member { life: Life::Running { link, .. }, .. }) = self.devices.get(device)
            && link != new
            && let Some(line) = self.lines.get(link)
        {
            let _ = line.remove(device.clone()).await;
        }
    }

    /// The line of a link, opened where it is not yet.
    fn line(&mut self, link: &Route) -> &LineHandle {
        let (clock, store, decoders) = (self.clock, Arc::clone(&self.store), Arc::clone(&self.decoders));
        self.lines.entry(link.clone()).or_insert_with(|| {
            let options = link.options(BusOptions { seed: chance(link), ..BusOptions::default() });
            Line::spawn(link.address.clone(), clock, options, move |report| commit(&store, &decoders, &report))
        })
    }

    fn close_idle_lines(&mut self) {
        let used: HashSet<&Route> = self
            .devices
            .values()
            .filter_map(|member| match &member.life {
                Life::Running { link, .. } => Some(link),
                Life::Refused { .. } => None,
            })
            .collect();
        let idle: Vec<Route> = self.lines.keys().filter(|link| !used.contains(link)).cloned().collect();
        for link in idle {
            if let Some(line) = self.lines.remove(&link) {
                tokio::spawn(line.stop());
            }
        }
    }
}

/// Why a device could not be put on its line.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Put(#[from] PutError),
}

/// One cycle's way from the line into the store. A panic on it (a defect of ours) costs this cycle only.
fn commit(store: &Store, decoders: &Decoders, report: &CycleReport) {
    let Some(prepared) = decoders.get(&report.device).map(|p| Arc::clone(p.value())) else { return };
    if prepared.generation != report.generation {
        return;
    }
    prepared.cycle.store(report.cycle.0, Ordering::Relaxed);
    let done = catch_unwind(AssertUnwindSafe(|| store.commit(&prepared.decoder.decode(report))));
    let (device, cycle) = (&report.device, report.cycle.0);
    match done {
        Ok(Ok(Committed::Changed(rev))) => tracing::debug!(%device, cycle, rev = rev.0, "committed"),
        Ok(Ok(Committed::Unchanged)) => tracing::debug!(%device, cycle, "unchanged"),
        Ok(Ok(Committed::Stale)) => tracing::warn!(%device, cycle, "stale batch refused"),
        Ok(Err(unknown)) => tracing::debug!(%unknown, cycle, "batch of a device that was removed meanwhile"),
        Err(_) => tracing::error!(%device, cycle, "a defect: decoding panicked; the cycle is dropped"),
    }
}

/// Chance for a link's jitter: links must not all try again at one time.
fn chance(link: &Route) -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(link)
}
