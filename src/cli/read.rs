//! `fieldshadow read`: one look at a device, over a line of its own.

use super::{Failure, print, run, words};
use crate::codec::Decoder;
use crate::config::{Config, Library, Purpose, scan_devices};
use crate::gateway::{Clock, Line, Route};
use crate::modbus::UnitId;
use crate::model::{Configuration, Cycle, DeviceId, Epoch};
use crate::poll::{BusOptions, CycleReport, UnitSetup};
use crate::profile::{DeviceProfile, Intervals};
use crate::transport::LinkAddress;
use crate::twin::{Options, StatusReason, Store};
use clap::Args;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Read a device once and print its values.
#[derive(Debug, Args)]
#[command(after_help = "Example: fieldshadow read --profile eastron/sdm630 --tcp 192.168.1.50:502 --unit-id 1\n\n\
    Exit 0: read, though single points may be bad; 1: the device did not answer; 2: wrong arguments or files.")]
pub(super) struct Words {
    /// A device of the configuration.
    #[arg(value_name = "DEVICE", conflicts_with_all = ["profile", "tcp", "unit_id"])]
    device: Option<String>,
    /// The configuration that names it.
    #[arg(long, value_name = "FILE", default_value = "/etc/fieldshadow/fieldshadow.yaml")]
    config: PathBuf,
    /// Instead of DEVICE: a profile's name, or a file.
    #[arg(long, value_name = "P", required_unless_present = "device", requires = "tcp", requires = "unit_id")]
    profile: Option<String>,
    /// Where the device is.
    #[arg(long, value_name = "HOST:PORT")]
    tcp: Option<String>,
    /// Who it is there, 0 to 255.
    #[arg(long, value_name = "N")]
    unit_id: Option<u8>,
    /// The result as JSON: {"reported":{…},"quality":{…}}.
    #[arg(long)]
    json: bool,
}

/// What to read.
struct Asked {
    profile: Arc<DeviceProfile>,
    link: Route,
    unit_id: UnitId,
}

pub(super) fn run(asked: &Words) -> Result<(), Failure> {
    let json = asked.json;
    let asked = resolve(asked)?;
    run::runtime()?.block_on(read(&asked, json))
}

fn resolve(asked: &Words) -> Result<Asked, Failure> {
    if let (Some(profile), Some(tcp), Some(unit_id)) = (&asked.profile, &asked.tcp, asked.unit_id) {
        let profile = Arc::clone(&words::profile(profile)?.profile);
        let address = tcp.parse().map(LinkAddress::Tcp);
        let link = address.map_err(|error| Failure::User(format!("--tcp: {error}")))?.into();
        return Ok(Asked { profile, link, unit_id: UnitId(unit_id) });
    }
    let name = asked.device.as_deref().unwrap_or_default();
    let config: Config = run::load(&asked.config, Purpose::Gateway)?;
    let library = Library::new(config.profiles.clone());
    let scan = scan_devices(&config.devices, &library, &config.links, Some(&config.gateway.id));
    if let Some(refused) = scan.refused.iter().find(|r| r.device.as_ref().is_some_and(|d| d.as_str() == name)) {
        return Err(words::user(&refused.diagnostics));
    }
    let Some(setup) = scan.setups.iter().find(|setup| setup.device.as_str() == name) else {
        let folder = config.devices.display();
        let names: Vec<&str> = scan.setups.iter().map(|setup| setup.device.as_str()).collect();
        return Err(Failure::User(format!("there is no device `{name}` in {folder}; there are: {}", names.join(", "))));
    };
    let link = Route::try_from(&setup.link).map_err(|error| Failure::User(error.to_string()))?;
    Ok(Asked { profile: Arc::clone(&setup.profile), link, unit_id: setup.unit_id })
}

/// Polls until each interval had one cycle, through the same line, decoder and store as the gateway's.
async fn read(asked: &Asked, json: bool) -> Result<(), Failure> {
    let clock = Clock::start();
    let device = DeviceId::new("device").expect("a name of letters");
    let profile = &asked.profile;
    let layout = Arc::new(profile.layout(&Intervals::new()));
    let store = Store::new(Epoch(1), &Options::default());
    let generation = store.configure(&device, Configuration::Ready(Arc::clone(&layout)), clock.now());
    let decoder = Decoder::new(profile);

    let (sender, mut reports) = mpsc::unbounded_channel::<CycleReport>();
    let options = asked.link.options(BusOptions { spread: false, ..BusOptions::default() });
    let line = Line::spawn(asked.link.address.clone(), clock, options, move |report| {
        let _ = sender.send(report);
    });
    let unit = UnitSetup::from_profile(device.clone(), generation, asked.unit_id, profile, &layout, Cycle(1));
    line.put(unit).await.map_err(|error| Failure::User(error.to_string()))?;

    let mut missing: BTreeSet<u16> = (0..layout.intervals.len() as u16).collect();
    // Each request may be tried again, and each interval has its requests; nothing waits for ever.
    let attempts = profile.timing.retries + 1;
    let patience = Duration::from_secs(15) + profile.timing.timeout * attempts * 4;
    let done = timeout(patience, async {
        while let Some(report) = reports.recv().await {
            let interval = report.interval.0;
            let _ = store.commit(&decoder.decode(&report));
            missing.remove(&interval);
            let unreachable = matches!(report.condition, crate::model::Condition::Unreachable(_));
            if missing.is_empty() || unreachable {
                return Some(report.condition);
            }
        }
        None
    })
    .await;
    line.stop().await;
    let root = store.root();
    let twin = root.device(&device).expect("it was just configured");
    match done {
        Ok(Some(crate::model::Condition::Unreachable(fault))) => {
            return Err(Failure::Environment(format!(
                "{}, unit {}: {}",
                asked.link.address,
                asked.unit_id,
                StatusReason::Unreachable(fault)
            )));
        }
        Ok(_) if missing.is_empty() => {}
        _ => eprintln!("not everything was read within {} s", patience.as_secs()),
    }
    if json { print::reading(twin) } else { print::table(twin, profile) }
}
