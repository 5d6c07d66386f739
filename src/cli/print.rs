//! Prints data to standard output: for people as a table, for programs as JSON.

use super::Failure;
use crate::model::{PointId, Quality, Value};
use crate::profile::DeviceProfile;
use crate::shadow::{Documents, Skeleton, write_value};
use crate::twin::DeviceTwin;
use std::io::{ErrorKind, Write};

/// Writes bytes and a line's end. A reader that has gone away (`| head`) is no failure.
pub(super) fn bytes(data: &[u8]) -> Result<(), Failure> {
    bytes_for(data).map(|_| ())
}

/// The same; says whether the reader is still there.
fn bytes_for(data: &[u8]) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    let end: &[u8] = if data.ends_with(b"\n") { b"" } else { b"\n" };
    match out.write_all(data).and_then(|()| out.write_all(end)).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// `{"reported":…,"quality":…}` on one line. Says whether the reader is still there.
pub(super) fn reading(twin: &DeviceTwin) -> Result<bool, Failure> {
    let Some(layout) = twin.layout() else { return Ok(true) };
    bytes_for(Documents::default().reading(twin, &Skeleton::new(layout)))
}

/// A line a point: path, value, unit, and the quality where it is not good; before them what is given. Says whether the
/// reader is still there.
pub(super) fn table(before: &str, twin: &DeviceTwin, profile: &DeviceProfile) -> Result<bool, Failure> {
    let rows: Vec<[String; 4]> = (0u16..)
        .map(PointId)
        .zip(&profile.points)
        .map(|(id, point)| {
            let value = twin.value(id).map_or_else(|| "-".to_owned(), |value| text(value, point.json));
            let quality = match twin.quality(id) {
                Quality::Good => String::new(),
                Quality::Unread => "never read".to_owned(),
                Quality::Not(code, reason) => format!("{}: {reason}", code.as_str()),
            };
            [point.path.to_string(), value, point.unit.clone().unwrap_or_default(), quality]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (path, value, unit) = (width(0), width(1), width(2));
    let mut lines = before.to_owned();
    for row in &rows {
        let line = format!("{:path$}  {:>value$} {:unit$}  {}", row[0], row[1], row[2], row[3]);
        lines.push_str(line.trim_end());
        lines.push('\n');
    }
    bytes_for(lines.as_bytes())
}

fn text(value: &Value, form: crate::model::JsonForm) -> String {
    if let Value::Text(text) = value {
        return text.to_string();
    }
    let mut out = Vec::new();
    write_value(&mut out, value, form);
    String::from_utf8_lossy(&out).trim_matches('"').to_owned()
}
