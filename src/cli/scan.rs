//! `fieldshadow scan`: who answers on a link, and what it may be. It reads and never writes.

use super::fit::{self, Fit};
use super::link_words::LinkWords;
use super::{Failure, print, run, words};
use crate::gateway::{Clock, Line, LineHandle, LineOptions};
use crate::modbus::{Address, AddressRange, Table, UnitId};
use crate::model::{Condition, Cycle, DeviceId, Fault, Generation, GroupId, Interval};
use crate::poll::{BusOptions, CycleReport, GroupSetup, IntervalSetup, PartOutcome, UnitSetup, Wanted};
use crate::profile::{DeviceProfile, Dump, Limits, Timing};
use crate::transport::LinkAddress;
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// Find out which unit ids answer on a link, and which profiles fit. Reads only, slowly; nothing is ever written.
#[derive(Debug, Args)]
#[command(after_help = "Example: fieldshadow scan --serial /dev/ttyUSB0 --baud 9600 --units 1..32\n\n\
    Each unit is asked for holding register 0; an exception is an answer, too. Of those that answer, at most eight \
    values a profile are read. A profile that fits is a guess: `likely` means that three or more values are such as they \
    should be and could have been others, `possible` one or two, `unproven` none.\n\n\
    Exit 0: somebody answered; 1: nobody did, or the link failed; 2: wrong arguments.")]
pub(super) struct Words {
    #[command(flatten)]
    link: LinkWords,
    /// Unit ids: `1..247`, `1,3,10..20`.
    #[arg(long, value_name = "UNITS", default_value = "1..247", value_parser = units)]
    units: Units,
    /// How long to wait for each reply.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = words::duration)]
    timeout: Duration,
    /// Requests a second at most: other programs may need the devices.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// Only say who answers; try no profiles.
    #[arg(long)]
    units_only: bool,
    /// The result as JSON: `{"units":[{"unit_id":1,"response_ms":12.3,"profiles":[…]}]}`.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone)]
struct Units(Vec<UnitId>);

/// A unit that answers.
struct Found {
    unit: UnitId,
    took: Duration,
    /// The exception that it answered with, if it did.
    exception: Option<u8>,
    fits: Vec<(Arc<DeviceProfile>, Fit)>,
}

pub(super) fn run(asked: &Words) -> Result<(), Failure> {
    let address = asked.link.address()?;
    let address = address.ok_or_else(|| Failure::User("which link: --tcp, --serial or --rtu-over-tcp?".to_owned()))?;
    let found = run::runtime()?.block_on(scan(asked, &address))?;
    if asked.json {
        print::bytes(as_json(&found).to_string().as_bytes())?;
    } else if !found.is_empty() {
        print::bytes(as_table(&found, !asked.units_only).as_bytes())?;
    }
    if found.is_empty() {
        return Err(Failure::Environment(format!("{address}: no unit answered")));
    }
    Ok(())
}

async fn scan(asked: &Words, address: &LinkAddress) -> Result<Vec<Found>, Failure> {
    let profiles: Vec<_> = if asked.units_only { Vec::new() } else { profiles() };
    let mut questions = Asker::new(address, asked.timeout, Duration::from_secs(1) / asked.rate);
    let progress = Progress::new();
    let first = AddressRange::new(Address(0), 1).expect("one register");
    let mut found: Vec<Found> = Vec::new();
    for (n, unit) in asked.units.0.iter().enumerate() {
        progress.show(&format!("unit {unit}: {n} of {} asked, {} found", asked.units.0.len(), found.len()));
        let heard = questions.ask(*unit, Table::HoldingRegister, first).await?;
        let exception = match heard.what {
            What::Silent => continue,
            What::Refused(code) => Some(code),
            What::Registers(_) | What::Bits(_) => None,
        };
        found.push(Found { unit: *unit, took: heard.took, exception, fits: Vec::new() });
    }
    let count = found.len();
    for (n, one) in found.iter_mut().take(MOST_TRIED).enumerate() {
        progress.show(&format!("unit {}: which profile fits? ({} of {count})", one.unit, n + 1));
        one.fits = fits(&mut questions, one.unit, &profiles).await?;
    }
    progress.end();
    if count > MOST_TRIED {
        eprintln!(
            "{count} units answer, profiles were tried on the first {MOST_TRIED}: a device that answers to every unit \
             id, most likely"
        );
    }
    questions.line.stop().await;
    Ok(found)
}

/// All profiles that a user could name.
fn profiles() -> Vec<Arc<DeviceProfile>> {
    let listed = words::library().list();
    let usable = listed.into_iter().filter(|l| !l.shadowed).filter_map(|l| l.profile.ok());
    usable.map(|file| Arc::clone(&file.profile)).collect()
}

/// Profiles that fit, the best first. Each range is read once, and a profile ends with its first contradiction.
async fn fits(
    asker: &mut Asker,
    unit: UnitId,
    profiles: &[Arc<DeviceProfile>],
) -> Result<Vec<(Arc<DeviceProfile>, Fit)>, Failure> {
    let mut known: BTreeMap<(Table, u16, u16), What> = BTreeMap::new();
    let mut fits = Vec::new();
    'profiles: for profile in profiles {
        let looks = fit::looks(profile);
        let mut dump = Dump::default();
        for (n, point) in looks.iter().enumerate() {
            let Some((table, range)) = fit::place(profile, *point) else { continue 'profiles };
            let key = (table, range.start().0, range.count());
            let what = match known.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => unknown.insert(asker.ask(unit, table, range).await?.what),
            };
            match what {
                What::Registers(words) => (range.start().0..).zip(words).for_each(|(a, word)| {
                    dump.set_register(table, Address(a), *word);
                }),
                What::Bits(bits) => (range.start().0..).zip(bits).for_each(|(a, bit)| {
                    dump.set_bit(table, Address(a), *bit);
                }),
                What::Refused(_) | What::Silent => continue 'profiles,
            }
            if fit::judge(profile, &looks[..=n], &dump).is_none() {
                continue 'profiles;
            }
        }
        if let Some(fit) = fit::judge(profile, &looks, &dump).filter(|fit| fit.read > 0) {
            fits.push((Arc::clone(profile), fit));
        }
    }
    // Of two that fit equally well, the one that has more to say.
    fits.sort_by_key(|(profile, fit)| std::cmp::Reverse((*fit, profile.points.len())));
    Ok(fits)
}

/// Asks one thing at a time, no more often than allowed.
struct Asker {
    address: LinkAddress,
    line: LineHandle,
    reports: mpsc::UnboundedReceiver<CycleReport>,
    patience: Duration,
    pause: Duration,
    next: Instant,
    asked: u64,
}

/// What came of a question.
#[derive(Debug)]
enum What {
    Registers(Vec<u16>),
    Bits(Vec<bool>),
    Refused(u8),
    /// Nobody answered, or a gateway did in the name of nobody.
    Silent,
}

struct Heard {
    took: Duration,
    what: What,
}

impl Asker {
    fn new(address: &LinkAddress, patience: Duration, pause: Duration) -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        // Silent units are to be expected: the connection is good all the same.
        let bus = BusOptions { spread: false, silent_resets: u32::MAX, ..BusOptions::default() };
        let options = LineOptions { bus, ..LineOptions::default() };
        let line = Line::spawn(address.clone(), Clock::start(), options, move |report| {
            let _ = sender.send(report);
        });
        Self { address: address.clone(), line, reports, patience, pause, next: Instant::now(), asked: 0 }
    }

    async fn ask(&mut self, unit: UnitId, table: Table, range: AddressRange) -> Result<Heard, Failure> {
        let mut lost = None;
        for _ in 0..CONNECTS {
            sleep_until(self.next).await;
            self.next = Instant::now() + self.pause;
            let report = self.one(unit, table, range).await?;
            let took = report.first_reply.mono.since(report.started.mono);
            let outcome = report.groups.into_iter().flat_map(|g| g.parts).next().map(|part| part.outcome);
            let what = match (report.condition, outcome) {
                (Condition::Unreachable(Fault::NoReply), _) => What::Silent,
                // The link went: a device that hangs up when it is not asked right, for one.
                (Condition::Unreachable(fault), _) => {
                    lost = Some(fault);
                    continue;
                }
                (_, Some(PartOutcome::Registers(words))) => What::Registers(words),
                (_, Some(PartOutcome::Bits(bits))) => What::Bits(bits),
                (_, Some(PartOutcome::Refused(code) | PartOutcome::Fault(crate::model::Reason::Exception(code)))) => {
                    What::Refused(code)
                }
                (_, Some(PartOutcome::Fault(_)) | None) => What::Silent,
            };
            return Ok(Heard { took, what });
        }
        let fault = lost.map_or_else(String::new, |fault| fault.to_string());
        Err(Failure::Environment(format!("{}: {fault}", self.address)))
    }

    /// One request, through the same line and bus as the gateway's. The unit asked before is replaced, not removed: a bus
    /// without devices closes its link.
    async fn one(&mut self, unit: UnitId, table: Table, range: AddressRange) -> Result<CycleReport, Failure> {
        self.asked += 1;
        let device = DeviceId::new("scan").expect("a name of letters");
        let group = GroupSetup { group: GroupId(0), together: true, wanted: vec![Wanted { table, range }] };
        let setup = UnitSetup {
            device,
            generation: Generation(self.asked),
            unit_id: unit,
            limits: Limits::default(),
            timing: Timing { timeout: self.patience, retries: 0, ..Timing::default() },
            intervals: vec![IntervalSetup { interval: Interval(0), every: None, groups: vec![group] }],
            first_cycle: Cycle(self.asked),
        };
        self.line.put(setup).await.map_err(|error| Failure::Environment(error.to_string()))?;
        let (reports, asked) = (&mut self.reports, self.asked);
        let heard = timeout(self.patience + LONGEST_CONNECT, async {
            loop {
                match reports.recv().await {
                    Some(report) if report.generation == Generation(asked) => return Some(report),
                    Some(_) => {}
                    None => return None,
                }
            }
        });
        let report = heard.await.ok().flatten();
        report.ok_or_else(|| Failure::Environment(format!("{}: the line has stopped", self.address)))
    }
}

/// A line on a terminal that says how far it is; silent where nobody looks.
struct Progress {
    terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal() }
    }

    fn show(&self, what: &str) {
        if self.terminal {
            let mut out = std::io::stderr().lock();
            // Whether it is seen decides nothing.
            let _ = write!(out, "\r\x1b[K{what}").and_then(|()| out.flush());
        }
    }

    fn end(&self) {
        self.show("");
    }
}

fn as_json(found: &[Found]) -> serde_json::Value {
    let fit = |(profile, fit): &(Arc<DeviceProfile>, Fit)| {
        json!({
            "profile": *profile.name,
            "confidence": fit.confidence.to_string(),
            "values_read": fit.read,
            "values_telling": fit.telling,
        })
    };
    let unit = |one: &Found| {
        json!({
            "unit_id": one.unit.0,
            "response_ms": (one.took.as_secs_f64() * 1e4).round() / 10.0,
            "exception": one.exception,
            "profiles": one.fits.iter().map(fit).collect::<Vec<_>>(),
        })
    };
    json!({ "units": found.iter().map(unit).collect::<Vec<_>>() })
}

fn as_table(found: &[Found], tried: bool) -> String {
    use std::fmt::Write as _;
    let mut out = String::from("unit  answers in  profiles that fit\n");
    for one in found {
        let milliseconds = format!("{:.1} ms", one.took.as_secs_f64() * 1e3);
        let fits: Vec<String> = one
            .fits
            .iter()
            .map(|(profile, fit)| {
                format!("{} ({}: {} values read, {} telling)", profile.name, fit.confidence, fit.read, fit.telling)
            })
            .collect();
        let mut said = match (fits.is_empty(), tried) {
            (false, _) => fits.join(&format!("\n{:18}", "")),
            (true, true) => "none known here".to_owned(),
            (true, false) => String::new(),
        };
        if let Some(code) = one.exception {
            let _ = write!(said, "  [exception {code} to register 0]");
        }
        let _ = writeln!(out, "{:>4}  {milliseconds:>10}  {}", one.unit.0, said.trim());
    }
    out
}

/// `1..247`, `1,3,10..20`: ascending, each once.
fn units(text: &str) -> Result<Units, String> {
    let number = |t: &str| t.trim().parse::<u8>().map_err(|_| format!("`{t}` is no unit id: 0 to 255"));
    let mut all = std::collections::BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").or_else(|| part.split_once('-')).unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("`{part}` ends before it begins"));
        }
        all.extend(first..=last);
    }
    Ok(Units(all.into_iter().map(UnitId).collect()))
}

/// Tries of one question on a link that closes.
const CONNECTS: usize = 3;
/// Longer than a line tries to connect.
const LONGEST_CONNECT: Duration = Duration::from_secs(15);
/// More units than these answer only where one device answers for all.
const MOST_TRIED: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_in_ranges_and_lists() {
        let read = |text| units(text).map(|u| u.0.iter().map(|u| u.0).collect::<Vec<_>>());
        assert_eq!(read("1..247").map(|u| u.len()), Ok(247));
        assert_eq!(read("7,1..3,2-4"), Ok(vec![1, 2, 3, 4, 7]));
        for wrong in ["", "x", "256", "5..1", "1..", "1,"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
