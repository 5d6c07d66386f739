//! The log: text on a terminal, JSON lines otherwise, stamped by the gateway's one clock.

use super::Clock;
use std::fmt;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Text on a terminal, JSON lines otherwise.
    #[default]
    Auto,
    /// Text.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging to standard error. `level` is a word (`error`, `warn`, `info`, `debug`, `trace`) or a filter in the
/// form of `tracing` (`info,fieldshadow::poll=trace`). A second call does nothing.
///
/// # Errors
/// What is wrong with `level`, in words.
pub fn start(level: &str, format: Format) -> Result<(), String> {
    let filter = EnvFilter::try_new(level).map_err(|e| format!("`{level}` is no log level: {e}"))?;
    // A library's warnings about single bytes and packets are counted by us, not logged by it. Bytes on a line are
    // logged only where a link says `trace: true`; who says that wants to see them.
    let filter = [crate::mqtt::LIBRARY_LOG_FILTER, "tokio_modbus=error", "mqtt5=off", "fieldshadow::wire=trace"]
        .iter()
        .filter_map(|d| d.parse().ok())
        .fold(filter, EnvFilter::add_directive);
    let json = match format {
        Format::Json => true,
        Format::Text => false,
        Format::Auto => !std::io::stderr().is_terminal(),
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_timer(WallTime);
    let started = if json {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    } else {
        lines.with_ansi(std::io::stderr().is_terminal()).try_init()
    };
    drop(started);
    Ok(())
}

/// The gateway's wall clock, in the form of every payload.
struct WallTime;

impl FormatTime for WallTime {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        write!(w, "{}", Clock::wall())
    }
}
