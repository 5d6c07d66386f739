//! `fieldshadow check`: every mistake in the user's files, at once. Nothing is contacted.

use super::{Failure, print, run, words};
use crate::config::{Checked, DeviceSetup, Links, Purpose, check_paths};
use crate::document::Diagnostics;
use crate::model::{Cycle, Generation};
use crate::poll::UnitSetup;
use crate::profile::Intervals;
use clap::Args;
use std::fmt::Write;
use std::path::PathBuf;

/// Find every error in configuration, profiles and devices.
#[derive(Debug, Args)]
#[command(after_help = "Example: fieldshadow check /etc/fieldshadow/devices.d/press-3.yaml\n\n\
    A file's keys say what it is: `profile:` with `groups:`, `device:`, `devices:`, else a configuration.\n\
    Exit 0: no errors; 2: errors, all listed.")]
pub(super) struct Words {
    /// Check all that this configuration names. The default where no PATH is given.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Files, and folders of which all `*.yaml` are taken.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The result as JSON: [{"severity","file","line","column","length","message","remedy"}, …].
    #[arg(long)]
    json: bool,
}

pub(super) fn run(asked: &Words) -> Result<(), Failure> {
    let default = PathBuf::from("/etc/fieldshadow/fieldshadow.yaml");
    let config = match (&asked.config, asked.paths.is_empty()) {
        (Some(path), _) => Some(path),
        (None, true) => Some(&default),
        (None, false) => None,
    };
    let mut found = Checked { diagnostics: Diagnostics::of("".into(), "".into()), profiles: vec![], devices: vec![] };
    let mut links = Links::none();
    if let Some(path) = config {
        match crate::config::Config::load(path, std::env::vars(), &run::host_name(), Purpose::Gateway) {
            Ok(config) => {
                add(&mut found, Checked::of_config(&config));
                links = config.links;
            }
            Err(wrong) => found.diagnostics.append(wrong),
        }
    }
    if !asked.paths.is_empty() {
        add(&mut found, check_paths(&asked.paths, words::library(), &links, None));
    }
    found.diagnostics.sort();
    if asked.json {
        print::bytes(found.diagnostics.to_json().to_string().as_bytes())?;
    } else {
        if !found.diagnostics.is_empty() {
            eprintln!("{}", found.diagnostics.render().trim_end());
        }
        let mut plan = String::new();
        for device in &found.devices {
            plan.push_str(&plan_of(device));
        }
        if !found.diagnostics.has_errors() {
            let _ =
                writeln!(plan, "{} profiles and {} devices without errors", found.profiles.len(), found.devices.len());
        }
        print::bytes(plan.as_bytes())?;
    }
    if found.diagnostics.has_errors() { Err(Failure::User(String::new())) } else { Ok(()) }
}

fn add(found: &mut Checked, more: Checked) {
    found.diagnostics.append(more.diagnostics);
    found.profiles.extend(more.profiles);
    found.devices.extend(more.devices);
}

/// What polling a device costs: each group's requests.
fn plan_of(setup: &DeviceSetup) -> String {
    let mut text = format!(
        "{}: {} {} at {}, unit {}\n",
        setup.device, setup.profile.name, setup.profile.version, setup.link, setup.unit_id
    );
    let layout = setup.profile.layout(&Intervals::new());
    let unit =
        UnitSetup::from_profile(setup.device.clone(), Generation(1), setup.unit_id, &setup.profile, &layout, Cycle(1));
    text.push_str(&super::profile::plan_lines(&setup.profile, &unit));
    text
}
