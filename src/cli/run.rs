//! `fieldshadow run`: the gateway.

use super::{Failure, words};
use crate::config::{Checked, Config, LogFormat, Purpose, name_of_host};
use crate::gateway::{Gateway, log};
use clap::Args;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

/// Run the gateway.
#[derive(Debug, Args)]
#[command(after_help = "Example: fieldshadow run --config /etc/fieldshadow/fieldshadow.yaml\n\n\
    Signals: SIGTERM ends within 10 s; SIGHUP reads profiles and devices anew.")]
pub(super) struct Words {
    /// The configuration file; `conf.d/*.yaml` beside it and `FIELDSHADOW__…` variables come on top.
    #[arg(long, value_name = "FILE", default_value = "/etc/fieldshadow/fieldshadow.yaml")]
    config: PathBuf,
    /// Refuse to start if any device or profile file has a mistake; without it only its own devices are not started.
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(asked: &Words, level: Option<&str>) -> Result<(), Failure> {
    let config = load(&asked.config, Purpose::Gateway)?;
    let format = match config.log.format {
        // Under systemd the journal takes what is written; its own protocol comes with the service.
        LogFormat::Auto | LogFormat::Journald => log::Format::Auto,
        LogFormat::Text => log::Format::Text,
        LogFormat::Json => log::Format::Json,
    };
    log::start(level.unwrap_or(config.log.level.as_str()), format).map_err(Failure::User)?;
    for line in config.not_available.lines().lines() {
        tracing::warn!("{line}");
    }
    if asked.strict {
        let checked = Checked::of_config(&config);
        if checked.diagnostics.has_errors() {
            return Err(words::user(&checked.diagnostics));
        }
    }
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let gateway = Gateway::start(&config, false).await.map_err(|error| Failure::User(error.to_string()))?;
        tracing::info!(gateway = %config.gateway.id, version = env!("CARGO_PKG_VERSION"), "running");
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => gateway.reload(),
            }
        }
        tracing::info!("stopping");
        gateway.stop().await;
        tracing::info!("stopped");
        Ok(())
    })
}

/// The configuration, or every mistake in it.
pub(super) fn load(path: &std::path::Path, purpose: Purpose) -> Result<Config, Failure> {
    Config::load(path, std::env::vars(), &host_name(), purpose).map_err(|wrong| words::user(&wrong))
}

/// What this host is called, for a gateway that is given no name.
pub(super) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name_of_host(name.trim())
}

/// One thread runs all lines and the publisher: a poll is microseconds of work, and waking another thread for it costs
/// more than the work itself (measured: 14.6 % of a core against 7.4 % at 1000 polls a second). What takes its time,
/// as reading files does, goes to the runtime's blocking threads.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
