//! `fieldshadow simulate`: pretends to be a device, with faults on request.

use super::{Failure, decode, run, words};
use crate::modbus::{Address, Table, UnitId};
use crate::profile::{DeviceProfile, Dump};
use crate::simulate::{Faults, Pretend, tcp};
use clap::Args;
use tokio::net::TcpListener;

/// Pretend to be a device.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: fieldshadow simulate --profile eastron/sdm630 --tcp 127.0.0.1:1502 --fault delay=200ms\n\n\
    Reads are answered, writes are refused with exception 1."
)]
pub(super) struct Words {
    /// A profile's name, or a file: it says which registers there are.
    #[arg(long, value_name = "P")]
    profile: String,
    /// Where to listen.
    #[arg(long, value_name = "ADDR")]
    tcp: String,
    /// Which unit id answers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    unit_id: u8,
    /// What the registers hold: a dump. Without it all of the profile's registers hold 0.
    #[arg(long, value_name = "DUMP.json")]
    registers: Option<String>,
    /// What goes wrong: `delay=200ms`, `drop=10%`, `late=500ms`, `wrong_unit=5`, `wrong_tid=5`, `short=5`, `long=5`,
    /// `exception=2@100`, `split=1`, `close_after=10`.
    #[arg(long = "fault", value_name = "NAME=VALUE")]
    faults: Vec<String>,
}

pub(super) fn run(asked: &Words) -> Result<(), Failure> {
    let file = words::profile(&asked.profile)?;
    let memory = match &asked.registers {
        Some(path) => decode::dump(path)?,
        None => zeros(&file.profile),
    };
    let mut faults = Faults::default();
    for fault in &asked.faults {
        faults.add(fault).map_err(|error| Failure::User(format!("--fault: {error}")))?;
    }
    run::runtime()?.block_on(async {
        let listener = TcpListener::bind(&asked.tcp)
            .await
            .map_err(|error| Failure::Environment(format!("cannot listen on {}: {error}", asked.tcp)))?;
        let server = tcp::serve(listener, vec![(UnitId(asked.unit_id), Pretend::still(memory))], faults);
        if let Some(address) = server.address() {
            eprintln!("{} answers on {address}, unit {}; Ctrl-C ends it", file.profile.name, asked.unit_id);
        }
        tokio::signal::ctrl_c().await?;
        server.stop().await;
        Ok(())
    })
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
