//! `fieldshadow check`: every mistake in the user's files, at once. Nothing is contacted.

use super::plan::Plans;
use super::{Failure, print, run, words};
use crate::config::{Checked, Links, Purpose, check_paths};
use crate::document::Diagnostics;
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
        let mut plans = Plans::default();
        for device in &found.devices {
            plans.add(device);
        }
        plans.close();
        for warning in &plans.warnings {
            eprintln!("warning: {warning}");
        }
        let mut plan = plans.text;
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
