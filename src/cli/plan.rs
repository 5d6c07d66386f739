//! What polling costs: each group's requests, their time on a serial line, and what share of its line all devices take.

use crate::config::DeviceSetup;
use crate::document::duration_text;
use crate::gateway::{Route, line_speed};
use crate::modbus::LineSpeed;
use crate::model::{Cycle, Generation};
use crate::poll::UnitSetup;
use crate::profile::{DeviceProfile, Intervals};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Above this share a line keeps its intervals only as long as nothing has to be asked twice.
const BUSY_SHARE: f64 = 0.9;

/// The plans of all devices, and the lines that they share.
#[derive(Default)]
pub(super) struct Plans {
    /// For people.
    pub(super) text: String,
    /// What cannot be kept, each with its place and remedy.
    pub(super) warnings: Vec<String>,
    /// Per serial line: how many devices it has, and the share of time that they take.
    lines: BTreeMap<String, (usize, f64)>,
}

impl Plans {
    /// Adds a device: its groups, and its share of its line.
    pub(super) fn add(&mut self, setup: &DeviceSetup) {
        let profile = &setup.profile;
        let _ = writeln!(
            self.text,
            "{}: {} {} at {}, unit {}",
            setup.device, profile.name, profile.version, setup.link, setup.unit_id
        );
        let layout = profile.layout(&Intervals::new());
        let unit =
            UnitSetup::from_profile(setup.device.clone(), Generation(1), setup.unit_id, profile, &layout, Cycle(1));
        let route = Route::try_from(&setup.link).ok();
        let speed = route.as_ref().and_then(|route| line_speed(&route.address));
        let (text, share) = groups(profile, &unit, speed, &mut |group, time, every| {
            self.warnings.push(format!(
                "{}: a cycle of group `{group}` of {} takes {} on the line, longer than its interval of {}; read it less \
                 often (`every: {{{group}: {}}}`), leave out points, or raise the baud rate",
                setup.stands_at,
                setup.device,
                rounded(time),
                duration_text(every),
                rounded(time * 2)
            ));
        });
        self.text.push_str(&text);
        if let (Some(route), Some(_)) = (route, speed) {
            let line = self.lines.entry(route.address.to_string()).or_default();
            line.0 += 1;
            line.1 += share;
        }
    }

    /// Ends with a line for each serial line.
    pub(super) fn close(&mut self) {
        for (line, (devices, share)) in &self.lines {
            let _ = writeln!(self.text, "line {line}: {:.0} % busy with {devices} devices", share * 100.0);
            if *share > BUSY_SHARE {
                self.warnings.push(format!(
                    "line {line}: its {devices} devices want {:.0} % of its time; intervals will not be kept: read less \
                     often, leave out points, raise the baud rate, or use a second line",
                    share * 100.0
                ));
            }
        }
    }
}

/// A line a group, as for a device that is reached over TCP.
pub(super) fn of_profile(profile: &DeviceProfile, unit: &UnitSetup, speed: Option<LineSpeed>) -> String {
    groups(profile, unit, speed, &mut |_, _, _| {}).0
}

/// A line a group: its interval, its requests, its time on the line; and the share of the line that all take.
fn groups(
    profile: &DeviceProfile,
    unit: &UnitSetup,
    speed: Option<LineSpeed>,
    too_long: &mut dyn FnMut(&str, Duration, Duration),
) -> (String, f64) {
    let (mut text, mut share) = (String::new(), 0.0);
    let plans = match unit.plans(speed) {
        Ok(plans) => plans,
        Err(errors) => {
            for (group, error) in errors {
                let name = profile.groups.get(usize::from(group.0)).map_or("?", |g| &*g.name);
                let _ = writeln!(text, "  {name}: {error}");
            }
            return (text, share);
        }
    };
    for (group, plan) in plans {
        let Some(group) = profile.groups.get(usize::from(group.0)) else { continue };
        let every = group.every.map_or_else(|| "once".to_owned(), |e| format!("every {}", duration_text(e)));
        let addresses: u32 = plan.reads.iter().map(|read| u32::from(read.range.count())).sum();
        let reads: Vec<String> = plan.reads.iter().map(|read| format!("{} {}", read.table, read.range)).collect();
        let requests = if reads.len() == 1 { "request" } else { "requests" };
        let mut on_line = String::new();
        if let Some(speed) = speed {
            let time = plan.line_time(speed, unit.timing.turnaround);
            on_line = format!(", {} on the line", rounded(time));
            if let Some(every) = group.every {
                let part = time.as_secs_f64() / every.as_secs_f64();
                share += part;
                let _ = write!(on_line, " ({:.0} % of it)", part * 100.0);
                if time > every {
                    too_long(&group.name, time, every);
                }
            }
        }
        let _ = writeln!(
            text,
            "  {} {every}: {} {requests}, {addresses} addresses{on_line}: {}",
            group.name,
            reads.len(),
            reads.join(", ")
        );
    }
    (text, share)
}

/// To the millisecond, upwards: 31 ms, 2 s.
fn rounded(time: Duration) -> String {
    duration_text(Duration::from_millis(time.as_micros().div_ceil(1000) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Library, Links, check_paths};

    #[test]
    fn a_line_that_cannot_keep_its_intervals_is_told_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let link = "{serial: /dev/ttyUSB0, baud: 9600, data_bits: 8, parity: none, stop_bits: 2}";
        let device = |name: &str, unit: u8, every: &str| {
            format!(
                "  - {{device: {name}, profile: eastron/sdm630, link: {link}, unit_id: {unit}, every: {{instant: {every}}}}}\n"
            )
        };
        let file = dir.path().join("line.yaml");
        std::fs::write(&file, format!("devices:\n{}{}", device("a", 1, "100ms"), device("b", 2, "1s"))).unwrap();
        let checked = check_paths(&[file], Library::new(Vec::new()), &Links::none(), None);
        assert_eq!(checked.devices.len(), 2, "{}", checked.diagnostics.lines());
        let mut plans = Plans::default();
        checked.devices.iter().for_each(|setup| plans.add(setup));
        plans.close();
        // 82 registers in three requests: 24 + 15 + 164 bytes at 11 bits, and six silences of 4.01 ms.
        assert!(
            plans.text.contains("instant every 100ms: 3 requests, 82 addresses, 257ms on the line"),
            "{}",
            plans.text
        );
        assert_eq!(plans.warnings.len(), 2, "{:?}", plans.warnings);
        assert!(plans.warnings[0].contains("line.yaml:2:"), "{}", plans.warnings[0]);
        assert!(plans.warnings[1].contains("2 devices"), "{}", plans.warnings[1]);
    }
}
