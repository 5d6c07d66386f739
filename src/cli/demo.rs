//! `fieldshadow demo`: a broker, three pretend machines and the gateway in one process; nothing to install.
//!
//! The gateway is the real one, on real files in a folder of its own that goes with it.

use super::{Failure, print, run, words};
use crate::config::{Config, Purpose};
use crate::gateway::Gateway;
use crate::modbus::UnitId;
use crate::model::{DeviceId, Revision};
use crate::profile::Dump;
use crate::shadow::{ChangeFrame, Documents, Skeleton};
use crate::simulate::{Broker, Faults, Pretend, scene, tcp};
use crate::twin::Store;
use clap::Args;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// Everything in one process, nothing to install.
#[derive(Debug, Args)]
#[command(after_help = "Example: fieldshadow demo --for 30s")]
pub(super) struct Words {
    /// End after this long; without it, on Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = words::duration)]
    span: Option<Duration>,
}

/// One pretend machine: its device's name, its profile, and its registers over time.
type Machine = (&'static str, &'static str, fn(Duration) -> Dump);

const MACHINES: [Machine; 3] = [
    ("press-3-servo", "inovance/is620p", scene::servo),
    ("hall-meter", "eastron/sdm630", scene::hall_meter),
    ("compressor-meter", "eastron/sdm230", scene::compressor_meter),
];

pub(super) fn run(asked: &Words) -> Result<(), Failure> {
    let folder = Folder::new()?;
    run::runtime()?.block_on(demo(asked.span, &folder.0))
}

async fn demo(span: Option<Duration>, folder: &Path) -> Result<(), Failure> {
    let began = Instant::now();
    let broker = Broker::start(0).await.map_err(|error| Failure::Environment(error.to_string()))?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let machines = (1u8..).zip(MACHINES).map(|(unit, (_, _, registers))| {
        let tick = Box::new(move |at: Duration, memory: &mut Dump| *memory = registers(at));
        (UnitId(unit), Pretend::moving(registers(Duration::ZERO), tick))
    });
    let server = tcp::serve(listener, machines.collect(), Faults::default());
    let modbus = server.address().ok_or_else(|| Failure::Environment("no address to listen on".to_owned()))?;
    let port = broker.address().port();
    write_files(folder, port, modbus.port())?;
    let config: Config = run::load(&folder.join("fieldshadow.yaml"), Purpose::Demo)?;
    let gateway = Gateway::start(&config, true).await.map_err(|error| Failure::User(error.to_string()))?;

    print::bytes(
        format!(
            "fieldshadow {}: three pretend machines behind Modbus TCP {modbus}, a broker and the gateway.\n\n\
             Watch them from another terminal:\n\n    mosquitto_sub -h 127.0.0.1 -p {port} -v -t 'fieldshadow/#'\n\n\
             What changes, at most one line a machine and second:\n",
            env!("CARGO_PKG_VERSION")
        )
        .as_bytes(),
    )?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let end = span.map(|span| began + span);
    tokio::select! {
        shown = show(gateway.store()) => shown?,
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = sleep_until(end.unwrap_or(began)), if end.is_some() => {}
    }
    gateway.stop().await;
    server.stop().await;
    broker.stop(Duration::from_secs(1)).await;
    Ok(())
}

/// Prints what changes in the store, rate-limited, for as long as somebody reads it.
async fn show(store: &Arc<Store>) -> Result<(), Failure> {
    let mut wake = store.subscribe();
    let mut followed = Revision(0);
    let mut documents = Documents::default();
    let mut next: HashMap<DeviceId, Instant> = HashMap::new();
    let mut previous: HashMap<DeviceId, Revision> = HashMap::new();
    let width = if std::io::stdout().is_terminal() { 160 } else { usize::MAX };
    loop {
        let commits = store.watch(followed, 256).unwrap_or_default();
        let root = store.root();
        if commits.is_empty() && followed < root.revision {
            followed = root.revision;
        }
        for commit in &commits {
            followed = commit.revision;
            for change in &commit.changes {
                let Some(twin) = &change.new else { continue };
                let Some(layout) = twin.layout() else { continue };
                let now = Instant::now();
                let due = next.get(&twin.device).is_none_or(|at| *at <= now);
                // What a person must not miss is never held back.
                if !(due || change.status) || change.values.is_empty() {
                    continue;
                }
                next.insert(twin.device.clone(), now + Duration::from_secs(1));
                let frame = ChangeFrame {
                    epoch: root.epoch,
                    rev: commit.revision,
                    previous_rev: previous.insert(twin.device.clone(), commit.revision).unwrap_or_default(),
                    published: crate::gateway::Clock::wall(),
                };
                let skeleton = Skeleton::new(layout);
                let Some(document) = documents.change(change, &skeleton, &frame) else { continue };
                let mut line = format!("{:17} {:8} ", twin.device.as_str(), twin.status.state.as_str());
                line.push_str(changed_part(document));
                if line.len() > width {
                    line.truncate((0..=width).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0));
                    line.push('…');
                }
                print::bytes(line.as_bytes())?;
            }
        }
        if commits.is_empty() && wake.changed().await.is_err() {
            return Ok(());
        }
    }
}

/// The values in a `change`.
fn changed_part(document: &[u8]) -> &str {
    let text = std::str::from_utf8(document).unwrap_or_default();
    let from = text.find("\"changed\":").map_or(0, |at| at + 10);
    let to = text.find(",\"removed\":").unwrap_or(text.len());
    text.get(from..to).unwrap_or_default()
}

fn write_files(folder: &Path, broker: u16, modbus: u16) -> Result<(), Failure> {
    let devices = folder.join("devices.d");
    std::fs::create_dir_all(&devices)?;
    std::fs::write(
        folder.join("fieldshadow.yaml"),
        format!(
            "gateway: {{id: demo, state_dir: .}}\nprofiles: []\ndevices: devices.d\n\
             mqtt: {{url: \"mqtt://127.0.0.1:{broker}\"}}\npublish: {{state: {{heartbeat: 10s}}}}\n\
             twin: {{watch_ring: {{entries: 1000, bytes: 1MiB}}}}\n"
        ),
    )?;
    for (unit, (device, profile, _)) in (1..).zip(MACHINES) {
        let text =
            format!("device: {device}\nprofile: {profile}\nlink: {{tcp: \"127.0.0.1:{modbus}\"}}\nunit_id: {unit}\n");
        std::fs::write(devices.join(format!("{device}.yaml")), text)?;
    }
    Ok(())
}

/// A folder of its own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("fieldshadow-demo-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
