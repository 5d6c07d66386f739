//! `fieldshadow profile`: lists, shows and tests what kinds of devices are known.

use super::{Failure, plan, print, words};
use crate::codec::run_profile_test;
use crate::config::{ProfileFile, check_paths};
use crate::modbus::{LineSpeed, UnitId};
use crate::model::{Cycle, DeviceId, Generation};
use crate::poll::UnitSetup;
use crate::profile::{Access, Intervals, Parity};
use clap::{Args, Subcommand};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// List, show and test device profiles.
#[derive(Debug, Args)]
#[command(after_help = "Example: fieldshadow profile show eastron/sdm630")]
pub(super) struct Words {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// All profiles: those of the search path, then the built-in ones.
    #[command(after_help = "Example: fieldshadow profile list")]
    List,
    /// A profile's points with their wire addresses, and the requests that read them.
    #[command(after_help = "Example: fieldshadow profile show eastron/sdm630")]
    Show {
        /// A profile's name, or a file.
        name: String,
    },
    /// Run the tests that profiles carry.
    #[command(after_help = "Example: fieldshadow profile test my-drive.yaml")]
    Test {
        /// Files and folders; without any, all profiles of the search path and the built-in ones.
        #[arg(value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
}

pub(super) fn run(asked: &Words) -> Result<(), Failure> {
    match &asked.what {
        What::List => list(),
        What::Show { name } => show(&*words::profile(name)?),
        What::Test { paths } => test(paths),
    }
}

fn list() -> Result<(), Failure> {
    let mut lines = String::new();
    for listed in words::library().list() {
        let origin = &listed.origin;
        let note = if listed.shadowed { ", hidden by another of this name" } else { "" };
        let _ = match &listed.profile {
            Ok(file) => {
                let profile = &file.profile;
                let verified = if profile.verified { "verified" } else { "unverified" };
                writeln!(
                    lines,
                    "{:24} {:8} {verified:10} {} ({origin}{note})",
                    listed.name, profile.version, profile.title
                )
            }
            Err(wrong) => writeln!(lines, "{:24} {} errors ({origin}{note})", listed.name, wrong.len()),
        };
    }
    print::bytes(lines.as_bytes())
}

fn show(file: &ProfileFile) -> Result<(), Failure> {
    let profile = &file.profile;
    let mut text = format!("{} {}: {}\n", profile.name, profile.version, profile.title);
    let verified = if profile.verified { "verified" } else { "not verified on a device in public" };
    let _ = writeln!(text, "{verified}; {}", file.origin);
    if let Some(model) = &profile.model {
        let _ = writeln!(text, "shadow model: {model}");
    }
    for source in &profile.sources {
        let _ = writeln!(text, "source: {source}");
    }
    let layout = profile.layout(&Intervals::new());
    let device = DeviceId::new("any").map_err(|error| Failure::User(error.to_string()))?;
    let unit = UnitSetup::from_profile(device, Generation(1), UnitId(1), profile, &layout, Cycle(1));
    text.push_str(&plan::of_profile(profile, &unit, None));
    // What the same costs on a line at the device's factory setting, where the profile tells it.
    let serial = &profile.serial;
    if let (Some(baud), Some(data_bits)) = (serial.baud, serial.data_bits) {
        let parity = u8::from(serial.parity.is_some_and(|parity| parity != Parity::None));
        let bits_per_character = 1 + data_bits + parity + serial.stop_bits.unwrap_or(1);
        let _ = writeln!(text, "on a serial line at {baud} baud:");
        text.push_str(&plan::of_profile(profile, &unit, Some(LineSpeed { baud, bits_per_character })));
    }
    text.push('\n');
    for point in &profile.points {
        let access = match point.access {
            Access::Read => "r",
            Access::ReadWrite => "rw",
            Access::Write => "w",
        };
        let unit = point.unit.as_deref().unwrap_or("");
        let title = point.title.as_deref().unwrap_or("");
        let range = point.range;
        let _ = writeln!(
            text,
            "{:32} {:8} 0x{:04X} {:5} {:6} {access:2} {unit:6} {title}",
            point.path,
            point.table.as_str(),
            range.start().0,
            range.start().0,
            point.encoding.raw.as_str(),
        );
    }
    print::bytes(text.as_bytes())
}

fn test(paths: &[PathBuf]) -> Result<(), Failure> {
    let mut wrong = String::new();
    let profiles: Vec<Arc<ProfileFile>> = if paths.is_empty() {
        let mut profiles = Vec::new();
        for listed in words::library().list() {
            match listed.profile {
                Ok(file) => profiles.push(file),
                Err(mistakes) => wrong.push_str(&mistakes.render()),
            }
        }
        profiles
    } else {
        if let Some(missing) = paths.iter().find(|path| !path.exists()) {
            return Err(Failure::User(format!("{}: there is no such file or folder", missing.display())));
        }
        let checked = check_paths(paths, words::library(), &crate::config::Links::none(), None);
        if checked.diagnostics.has_errors() {
            wrong.push_str(&checked.diagnostics.render());
        }
        checked.profiles
    };
    let mut lines = String::new();
    for file in &profiles {
        let profile = &file.profile;
        let mut passed = 0;
        for test in &profile.tests {
            match run_profile_test(profile, test) {
                Ok(()) => passed += 1,
                Err(differences) => {
                    for difference in differences {
                        let _ = writeln!(wrong, "{}: {}: {}: {difference}", test.place, profile.name, test.name);
                    }
                }
            }
        }
        let _ =
            writeln!(lines, "{:24} {passed} of {} tests passed ({})", profile.name, profile.tests.len(), file.origin);
    }
    print::bytes(lines.as_bytes())?;
    if wrong.is_empty() { Ok(()) } else { Err(Failure::User(wrong)) }
}
