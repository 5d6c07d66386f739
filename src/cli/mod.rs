//! The commands: what a user typed, and what it means. One file a command.

mod check;
mod decode;
#[cfg(feature = "demo")]
mod demo;
mod fit;
mod link_words;
mod plan;
mod print;
mod profile;
mod read;
mod run;
mod scan;
mod schema;
mod simulate;
mod trace;
mod words;

use crate::gateway::log;
use clap::{Parser, Subcommand};
use std::fmt;
use std::process::ExitCode;

/// Reads industrial devices over Modbus and publishes them as whole, versioned JSON shadows over MQTT.
///
/// Not a safety device: never the only thing between a person and a machine.
#[derive(Debug, Parser)]
#[command(name = "fieldshadow", version, after_help = "Example: fieldshadow demo --for 30s")]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// What to log: error, warn, info, debug or trace; or per room, as in `info,fieldshadow::poll=trace`.
    #[arg(long, global = true, env = "FIELDSHADOW_LOG", value_name = "LEVEL")]
    log: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway.
    Run(run::Words),
    /// Everything in one process, nothing to install: a broker, pretend devices and the gateway.
    #[cfg(feature = "demo")]
    Demo(demo::Words),
    /// Find every error in configuration, profiles and devices; nothing is contacted.
    Check(check::Words),
    /// List, show and test device profiles.
    Profile(profile::Words),
    /// Print the JSON Schema of a device's shadow or of a message.
    Schema(schema::Words),
    /// Decode a dump of registers with a profile, offline.
    Decode(decode::Words),
    /// Read a device, once or again and again, and print its values.
    Read(read::Words),
    /// Find out which unit ids answer on a link, and which profiles fit.
    Scan(scan::Words),
    /// Pretend to be devices, with faults on request.
    Simulate(simulate::Words),
}

/// Why a command ended without doing its work. By whom it blames it becomes an exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The device, the broker or the environment: exit 1, one line.
    Environment(String),
    /// The user's configuration or arguments: exit 2, all errors listed.
    User(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(words) | Self::User(words) => f.write_str(words.trim_end()),
        }
    }
}

impl Failure {
    fn code(&self) -> ExitCode {
        match self {
            Self::Environment(_) => ExitCode::from(1),
            Self::User(_) => ExitCode::from(2),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Environment(error.to_string())
    }
}

/// Parses the arguments of the process and runs the command.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let log = cli.log.as_deref();
    let done = match &cli.command {
        Command::Run(words) => run::run(words, log),
        #[cfg(feature = "demo")]
        Command::Demo(words) => quiet(log).and_then(|()| demo::run(words)),
        Command::Check(words) => quiet(log).and_then(|()| check::run(words)),
        Command::Profile(words) => quiet(log).and_then(|()| profile::run(words)),
        Command::Schema(words) => quiet(log).and_then(|()| schema::run(words)),
        Command::Decode(words) => quiet(log).and_then(|()| decode::run(words)),
        // With --trace standard error is the trace's.
        Command::Read(words) if words.trace() => read::run(words),
        Command::Read(words) => quiet(log).and_then(|()| read::run(words)),
        Command::Scan(words) => quiet(log).and_then(|()| scan::run(words)),
        Command::Simulate(words) => quiet(log).and_then(|()| simulate::run(words)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let words = failure.to_string();
            if !words.is_empty() {
                eprintln!("{words}");
            }
            failure.code()
        }
    }
}

/// Commands that a person waits for say themselves what goes wrong; they log defects only, unless asked for more.
fn quiet(level: Option<&str>) -> Result<(), Failure> {
    log::start(level.unwrap_or("error"), log::Format::Auto).map_err(Failure::User)
}
