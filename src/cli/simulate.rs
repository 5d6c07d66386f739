//! `fieldshadow simulate`: pretends to be devices on a link, with faults on request.

use super::link_words::CharacterWords;
use super::{Failure, decode, run, words};
use crate::modbus::{Address, Table, UnitId};
use crate::profile::{DeviceProfile, Dump};
use crate::simulate::{Faults, Framing, Pretend, Stamping, serial, tcp};
use clap::{ArgGroup, Args};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Pretend to be devices, with faults on request.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("where").required(true).args(["tcp", "rtu_over_tcp", "serial", "pty"]),
    group = ArgGroup::new("who").required(true).args(["profile", "devices"]),
    after_help = after_help()
)]
pub(super) struct Words {
    /// One device: a profile's name, or a file; it says which registers there are.
    #[arg(long, value_name = "P")]
    profile: Option<String>,
    /// Which unit id answers.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "devices")]
    unit_id: u8,
    /// What the registers hold: a dump. Without it all of the profile's registers hold 0.
    #[arg(long, value_name = "DUMP.json", conflicts_with = "devices")]
    registers: Option<String>,
    /// Instead of --profile, once for each device: its unit id, its profile, and what its registers hold.
    #[arg(long = "device", value_name = "UNIT=PROFILE[:DUMP.json]")]
    devices: Vec<String>,
    /// Where to listen, for Modbus TCP.
    #[arg(long, value_name = "ADDR")]
    tcp: Option<String>,
    /// Where to listen, for RTU frames over TCP.
    #[arg(long, value_name = "ADDR")]
    rtu_over_tcp: Option<String>,
    /// A serial port.
    #[arg(long, value_name = "DEV")]
    serial: Option<PathBuf>,
    /// For trying without hardware: a pseudo terminal as fast as the serial line would be; LINK becomes a symbolic link
    /// to what clients open.
    #[arg(long, value_name = "LINK")]
    pty: Option<PathBuf>,
    #[command(flatten)]
    characters: CharacterWords,
    /// ASCII instead of RTU on the serial line.
    #[arg(long, conflicts_with_all = ["tcp", "rtu_over_tcp"])]
    ascii: bool,
    /// All registers hold one counter that moves on so often, whatever dumps say: two counts in one picture show that it
    /// was torn.
    #[arg(long, value_name = "EVERY", value_parser = words::duration)]
    count: Option<Duration>,
    /// What goes wrong; see below. May be given several times.
    #[arg(long = "fault", value_name = "NAME=VALUE")]
    faults: Vec<String>,
    /// All chance comes from it: equal seeds and requests give equal replies.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

fn after_help() -> String {
    format!(
        "Example: fieldshadow simulate --profile eastron/sdm630 --tcp 127.0.0.1:1502 --fault delay=200ms\n\
         Example: fieldshadow simulate --device 1=eastron/sdm630 --device 2=inovance/is620p:drive.json \
         --pty /tmp/line --baud 9600\n\n\
         Reads are answered, writes are refused with exception 1.\n\n{}",
        Faults::HELP
    )
}

pub(super) fn run(asked: &Words) -> Result<(), Failure> {
    let framing = if asked.tcp.is_some() {
        Framing::Mbap
    } else if asked.ascii {
        Framing::Ascii
    } else {
        Framing::Rtu
    };
    let stream = asked.tcp.is_some() || asked.rtu_over_tcp.is_some();
    let mut faults = Faults { seed: asked.seed, ..Faults::default() };
    let mut wrong: Vec<String> = Vec::new();
    for fault in &asked.faults {
        wrong.extend(faults.add(fault).err().map(|error| format!("--fault: {error}")));
    }
    wrong.extend(faults.check(framing, stream).err().map(|error| format!("--fault: {error}")));
    if !wrong.is_empty() {
        return Err(Failure::User(wrong.join("\n")));
    }
    let (devices, told) = devices(asked, framing)?;
    run::runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let ended = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        };
        if let Some(address) = asked.tcp.as_ref().or(asked.rtu_over_tcp.as_ref()) {
            let listener = TcpListener::bind(address)
                .await
                .map_err(|error| Failure::Environment(format!("cannot listen on {address}: {error}")))?;
            let server = tcp::serve_framed(listener, framing, devices, faults);
            if let Some(address) = server.address() {
                eprintln!("{told} on {address}; Ctrl-C ends it");
            }
            ended.await;
            server.stop().await;
            return Ok(());
        }
        let server = open(asked)
            .and_then(|port| serial::serve(port, framing, devices, faults))
            .map_err(|error| Failure::Environment(format!("{}: {error}", line_name(asked))))?;
        eprintln!("{told} on {} ({}); Ctrl-C ends it", line_name(asked), server.path().display());
        let gone = async {
            while server.is_running() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            () = ended => {}
            () = gone => {}
        }
        server.stop().map_err(|error| Failure::Environment(format!("{}: {error}", line_name(asked))))
    })
}

/// The serial port, or the pseudo terminal.
fn open(asked: &Words) -> std::io::Result<serial::Port> {
    let port = asked.characters.port(asked.serial.clone().unwrap_or_default(), asked.ascii);
    match &asked.serial {
        Some(_) => serial::Port::open(&port),
        None => serial::Port::pty(asked.pty.as_deref(), Some(serial::speed(&port))),
    }
}

fn line_name(asked: &Words) -> String {
    asked.serial.as_ref().or(asked.pty.as_ref()).map_or_else(String::new, |path| path.display().to_string())
}

/// The devices asked for, and a line that says who they are.
fn devices(asked: &Words, framing: Framing) -> Result<(Vec<(UnitId, Pretend)>, String), Failure> {
    let mut given: BTreeMap<UnitId, (String, Option<String>)> = BTreeMap::new();
    if let Some(profile) = &asked.profile {
        given.insert(UnitId(asked.unit_id), (profile.clone(), asked.registers.clone()));
    }
    for device in &asked.devices {
        let (unit, profile, dump) = parts(device).ok_or_else(|| {
            Failure::User(format!("--device {device}: write UNIT=PROFILE or UNIT=PROFILE:DUMP.json, UNIT 0 to 255"))
        })?;
        if given.insert(unit, (profile, dump)).is_some() {
            return Err(Failure::User(format!("--device {device}: unit {unit} is there twice")));
        }
    }
    if framing != Framing::Mbap && given.contains_key(&UnitId(0)) {
        return Err(Failure::User("unit 0 means all devices of a serial line, and none: take 1 to 247".to_owned()));
    }
    let mut devices = Vec::new();
    let mut told = Vec::new();
    for (unit, (profile, dump)) in given {
        let profile = &words::profile(&profile)?.profile;
        let memory = match &dump {
            Some(path) => decode::dump(path)?,
            None => zeros(profile),
        };
        told.push(format!("{} as unit {unit}", profile.name));
        let pretend = match asked.count {
            Some(every) => Pretend::stamped(memory, Stamping::Every(every)),
            None => Pretend::still(memory),
        };
        devices.push((unit, pretend));
    }
    Ok((devices, format!("{} {}", told.join(", "), if told.len() == 1 { "answers" } else { "answer" })))
}

/// `UNIT=PROFILE[:DUMP.json]`, taken apart.
fn parts(device: &str) -> Option<(UnitId, String, Option<String>)> {
    let (unit, rest) = device.split_once('=')?;
    let unit = UnitId(unit.parse().ok()?);
    let (profile, dump) = match rest.rsplit_once(':') {
        Some((profile, dump)) if !std::path::Path::new(rest).exists() => (profile, Some(dump.to_owned())),
        _ => (rest, None),
    };
    (!profile.is_empty() && dump.as_deref() != Some("")).then(|| (unit, profile.to_owned(), dump))
}

/// All registers and bits of a profile, holding 0.
fn zeros(profile: &DeviceProfile) -> Dump {
    let mut dump = Dump::default();
    for point in &profile.points {
        for address in u32::from(point.range.start().0)..point.range.end() {
            let address = Address(address as u16);
            match point.table {
                Table::Coil | Table::DiscreteInput => dump.set_bit(point.table, address, false),
                Table::InputRegister | Table::HoldingRegister => dump.set_register(point.table, address, 0),
            }
        }
    }
    dump
}

/// A port that was pulled is noticed so late.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_its_unit_its_profile_and_its_dump() {
        let read = |text| parts(text).map(|(unit, profile, dump)| (unit.0, profile, dump));
        assert_eq!(read("7=eastron/sdm630"), Some((7, "eastron/sdm630".to_owned(), None)));
        assert_eq!(read("7=a/b:d.json"), Some((7, "a/b".to_owned(), Some("d.json".to_owned()))));
        for wrong in ["eastron/sdm630", "256=a/b", "x=a/b", "1=", "1=a/b:", "1=:d.json"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
