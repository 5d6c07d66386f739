//! `fieldshadow read`: a look at a device, or one after another, over a line of its own.

use super::link_words::LinkWords;
use super::{Failure, print, run, trace, words};
use crate::codec::Decoder;
use crate::config::{Config, Library, Purpose, scan_devices};
use crate::gateway::{Clock, Line, LineHandle, Route};
use crate::modbus::UnitId;
use crate::model::{Condition, Configuration, Cycle, DeviceId, Epoch, Interval, Layout};
use crate::poll::{BusOptions, CycleReport, UnitSetup};
use crate::profile::{DeviceProfile, Intervals};
use crate::twin::{DeviceTwin, Options, StatusReason, Store};
use clap::Args;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Read a device, once or again and again, and print its values.
#[derive(Debug, Args)]
#[command(after_help = "Example: fieldshadow read --profile eastron/sdm630 --tcp 192.168.1.50:502 --unit-id 1\n\
    Example: fieldshadow read --profile eastron/sdm630 --serial /dev/ttyUSB0 --baud 9600 --unit-id 1 --watch 1s\n\n\
    Exit 0: read, though single points may be bad; 1: the device did not answer; 2: wrong arguments or files.")]
pub(super) struct Words {
    /// A device of the configuration.
    #[arg(value_name = "DEVICE", conflicts_with_all = ["profile", "link", "unit_id"])]
    device: Option<String>,
    /// The configuration that names it.
    #[arg(long, value_name = "FILE", default_value = "/etc/fieldshadow/fieldshadow.yaml")]
    config: PathBuf,
    /// Instead of DEVICE: a profile's name, or a file.
    #[arg(long, value_name = "P", required_unless_present = "device", requires = "link", requires = "unit_id")]
    profile: Option<String>,
    #[command(flatten)]
    link: LinkWords,
    /// Who it is there, 0 to 255.
    #[arg(long, value_name = "N")]
    unit_id: Option<u8>,
    /// The result as JSON: {"reported":{…},"quality":{…}}; with --watch one on each line.
    #[arg(long)]
    json: bool,
    /// Read again and again, until Ctrl-C. On a terminal the table is drawn over itself.
    #[arg(long, value_name = "EVERY", value_parser = period)]
    watch: Option<Duration>,
    /// Show what goes over the wire, on standard error: time, direction, bytes in hex, and what they are.
    #[arg(long)]
    trace: bool,
}

impl Words {
    /// Whether standard error belongs to the trace.
    pub(super) fn trace(&self) -> bool {
        self.trace
    }
}

/// What to read.
struct Asked {
    profile: Arc<DeviceProfile>,
    link: Route,
    unit_id: UnitId,
}

pub(super) fn run(words: &Words) -> Result<(), Failure> {
    let mut asked = resolve(words)?;
    if words.trace {
        asked.link.trace = true;
        trace::start(&asked.link.address);
        if let Some(pace) = trace::pace(&asked.link.address) {
            eprintln!("{pace}");
        }
    }
    run::runtime()?.block_on(async {
        match words.watch {
            Some(every) => watch(&asked, every, words.json).await,
            None => read(&asked, words.json).await,
        }
    })
}

fn period(text: &str) -> Result<Duration, String> {
    let every = words::duration(text)?;
    if every < SHORTEST { Err("at least 10ms".to_owned()) } else { Ok(every) }
}

fn resolve(asked: &Words) -> Result<Asked, Failure> {
    if let (Some(profile), Some(address), Some(unit_id)) = (&asked.profile, asked.link.address()?, asked.unit_id) {
        let profile = Arc::clone(&words::profile(profile)?.profile);
        return Ok(Asked { profile, link: address.into(), unit_id: UnitId(unit_id) });
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

/// A device on a line of its own, through the same line, decoder and store as the gateway's.
struct Look {
    device: DeviceId,
    layout: Arc<Layout>,
    store: Store,
    decoder: Decoder,
    line: LineHandle,
    reports: mpsc::UnboundedReceiver<CycleReport>,
}

impl Look {
    async fn start(asked: &Asked, intervals: &Intervals) -> Result<Self, Failure> {
        let clock = Clock::start();
        let device = DeviceId::new("device").expect("a name of letters");
        let profile = &asked.profile;
        let layout = Arc::new(profile.layout(intervals));
        let store = Store::new(Epoch(1), &Options::default());
        let generation = store.configure(&device, Configuration::Ready(Arc::clone(&layout)), clock.now());
        let decoder = Decoder::new(profile);
        let (sender, reports) = mpsc::unbounded_channel::<CycleReport>();
        let options = asked.link.options(BusOptions { spread: false, ..BusOptions::default() });
        let line = Line::spawn(asked.link.address.clone(), clock, options, move |report| {
            let _ = sender.send(report);
        });
        let unit = UnitSetup::from_profile(device.clone(), generation, asked.unit_id, profile, &layout, Cycle(1));
        line.put(unit).await.map_err(|error| Failure::User(error.to_string()))?;
        Ok(Self { device, layout, store, decoder, line, reports })
    }

    /// The next cycle, committed: its interval and whether the device could be reached. Nothing once the line stopped.
    async fn next(&mut self) -> Option<(Interval, Condition)> {
        let report = self.reports.recv().await?;
        let _ = self.store.commit(&self.decoder.decode(&report));
        Some((report.interval, report.condition))
    }

    fn twin(&self) -> Arc<DeviceTwin> {
        Arc::clone(self.store.root().device(&self.device).expect("it was just configured"))
    }
}

/// Polls until each interval had one cycle.
async fn read(asked: &Asked, json: bool) -> Result<(), Failure> {
    let mut look = Look::start(asked, &Intervals::new()).await?;
    let mut missing: BTreeSet<u16> = (0..look.layout.intervals.len() as u16).collect();
    // Each request may be tried again, and each interval has its requests; nothing waits for ever.
    let attempts = asked.profile.timing.retries + 1;
    let patience = Duration::from_secs(15) + asked.profile.timing.timeout * attempts * 4;
    let done = timeout(patience, async {
        while let Some((interval, condition)) = look.next().await {
            missing.remove(&interval.0);
            if missing.is_empty() || matches!(condition, Condition::Unreachable(_)) {
                return Some(condition);
            }
        }
        None
    })
    .await;
    let twin = look.twin();
    look.line.stop().await;
    match done {
        Ok(Some(Condition::Unreachable(fault))) => {
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
    if json { print::reading(&twin) } else { print::table("", &twin, &asked.profile) }.map(|_| ())
}

/// Polls all groups at one pace (those that are read once per connect: so), and shows each picture.
async fn watch(asked: &Asked, every: Duration, json: bool) -> Result<(), Failure> {
    let paced = asked.profile.groups.iter().map(|g| (g.name.to_string(), g.every.map(|_| every))).collect();
    let mut look = Look::start(asked, &paced).await?;
    let paced = look.layout.intervals.iter().position(|i| i.every.is_some()).unwrap_or(0);
    let redraw = if std::io::stdout().is_terminal() { "\x1b[H\x1b[J" } else { "" };
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    loop {
        let heard = tokio::select! {
            biased;
            signal = &mut interrupted => { signal?; None }
            heard = look.next() => heard,
        };
        let Some((interval, condition)) = heard else { break };
        if usize::from(interval.0) != paced {
            continue;
        }
        let twin = look.twin();
        let there = if json {
            print::reading(&twin)?
        } else {
            let state = match condition {
                Condition::Reachable => "reachable".to_owned(),
                Condition::Unreachable(fault) => StatusReason::Unreachable(fault).to_string(),
            };
            let title = format!("{redraw}{} at {}, unit {}: {state}", Clock::wall(), asked.link.address, asked.unit_id);
            print::table(&format!("{title}\n"), &twin, &asked.profile)?
        };
        if !there {
            break;
        }
    }
    look.line.stop().await;
    Ok(())
}

/// More often than this nobody can look.
const SHORTEST: Duration = Duration::from_millis(10);
