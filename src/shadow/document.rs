//! The native documents: `state`, `change` and `status`, field by field in the order of the topic table.

use super::json::{Times, write_key, write_string, write_u64, write_word};
use super::skeleton::{Marks, Skeleton};
use crate::model::{Configuration, DeviceId, Epoch, GroupId, PointId, Quality, QualityCode, Revision, Wall};
use crate::twin::{DeviceChange, DeviceTwin, PointQuality, StatusState};
use std::sync::Arc;
use std::time::Duration;

/// Writes documents into one buffer that it keeps; what it returns is valid until the next document.
#[derive(Debug, Default)]
pub struct Documents {
    out: Vec<u8>,
    marks: Marks,
    times: Times,
}

/// What a `state` says beside the device's own state.
#[derive(Debug, Clone, Copy)]
pub struct StateFrame<'a> {
    /// Which life of the store. Below 2^53, like every number that is no string.
    pub epoch: Epoch,
    /// Revision of the last commit that changed a value or a quality of the device, or configured it.
    pub rev: Revision,
    /// Per group, when it was last read; nothing where it never was.
    pub acquired: &'a [Option<Wall>],
    /// Now.
    pub published: Wall,
    /// How often the state is repeated: it counts as fresh for one and a half times as long.
    pub heartbeat: Duration,
    /// The wall clock was set back since the state before.
    pub clock_stepped: bool,
}

/// What a `change` says beside the change itself.
#[derive(Debug, Clone, Copy)]
pub struct ChangeFrame {
    /// Which life of the store.
    pub epoch: Epoch,
    /// The commit's revision.
    pub rev: Revision,
    /// `rev` of the message about this device before this one, sent or dropped.
    pub previous_rev: Revision,
    /// Now.
    pub published: Wall,
}

/// What the gateway says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayStatus {
    /// Its name in topics.
    pub gateway: DeviceId,
    /// Version of the program.
    pub version: Arc<str>,
    /// Which life of the store.
    pub epoch: Epoch,
    /// Devices by their state.
    pub devices: DeviceCounts,
    /// What came of the last reading of files; nothing before the first reload.
    pub reload: Option<Reload>,
}

/// How many devices are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Online.
    pub online: u64,
    /// Degraded.
    pub degraded: u64,
    /// Offline.
    pub offline: u64,
}

impl DeviceCounts {
    /// The count of one state, to be changed.
    pub(super) fn of(&mut self, state: StatusState) -> &mut u64 {
        match state {
            StatusState::Online => &mut self.online,
            StatusState::Degraded => &mut self.degraded,
            StatusState::Offline => &mut self.offline,
        }
    }

    /// All of them.
    pub fn configured(self) -> u64 {
        self.online + self.degraded + self.offline
    }
}

/// What came of reading the configuration anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// When.
    pub at: Wall,
    /// `file:line:column: what` of each mistake; none if all went well. The caller bounds their number.
    pub errors: Arc<[Arc<str>]>,
}

impl Documents {
    /// The whole shadow of a device. `skeleton` is that of the device's layout; nothing for a device without one.
    pub fn state(&mut self, twin: &DeviceTwin, skeleton: Option<&Skeleton>, frame: &StateFrame<'_>) -> &[u8] {
        let Self { out, times, .. } = self;
        open(out, &twin.device);
        if let Some(skeleton) = skeleton {
            write_key(out, b"\"profile\":");
            out.extend_from_slice(skeleton.profile());
        }
        number(out, b"\"epoch\":", frame.epoch.0);
        number(out, b"\"rev\":", frame.rev.0);
        number(out, b"\"version\":", twin.version.0);
        if let Some(cycle) = twin.cycle {
            number(out, b"\"cycle\":", cycle.0);
        }
        write_key(out, b"\"acquired\":{");
        for (index, at) in frame.acquired.iter().enumerate() {
            if let (Some(at), Some(name)) = (at, skeleton.and_then(|s| s.group(GroupId(index as u16)))) {
                write_key(out, name);
                times.write(out, *at);
            }
        }
        out.push(b'}');
        time(out, times, b"\"published\":", frame.published);
        let fresh_until = stale_since(twin).unwrap_or_else(|| frame.published.plus(frame.heartbeat.mul_f64(1.5)));
        time(out, times, b"\"fresh_until\":", fresh_until);
        write_key(out, b"\"reported\":");
        match skeleton {
            Some(skeleton) => skeleton.write_values(out, &twin.values),
            None => out.extend_from_slice(b"{}"),
        }
        write_key(out, b"\"quality\":{");
        if let Some(skeleton) = skeleton {
            for (point, quality) in (0u16..).map(PointId).zip(twin.qualities.iter()) {
                if let Quality::Not(..) = quality.quality {
                    write_quality(out, times, skeleton, point, quality);
                }
            }
        }
        out.push(b'}');
        write_key(out, b"\"flags\":[");
        let simulated = twin.layout().is_some_and(|layout| layout.simulated);
        for (is_set, flag) in
            [(twin.skew_exceeded, "skew_exceeded"), (frame.clock_stepped, "clock_stepped"), (simulated, "simulated")]
        {
            if is_set {
                if out.last() != Some(&b'[') {
                    out.push(b',');
                }
                write_word(out, flag);
            }
        }
        out.extend_from_slice(b"]}");
        out
    }

    /// What a device says without when and how often: `{"reported":…,"quality":…}`, quality without `since`. For
    /// registers that were not polled, or polled only once.
    pub fn reading(&mut self, twin: &DeviceTwin, skeleton: &Skeleton) -> &[u8] {
        let Self { out, .. } = self;
        out.clear();
        out.extend_from_slice(b"{\"reported\":");
        skeleton.write_values(out, &twin.values);
        write_key(out, b"\"quality\":{");
        for (point, quality) in (0u16..).map(PointId).zip(twin.qualities.iter()) {
            if let (Quality::Not(code, reason), Some(path)) = (quality.quality, skeleton.path(point)) {
                write_key(out, path);
                out.extend_from_slice(b"{\"code\":");
                write_word(out, code.as_str());
                write_key(out, b"\"reason\":");
                write_word(out, reason);
                out.push(b'}');
            }
        }
        out.extend_from_slice(b"}}");
        out
    }

    /// What one commit changed in a device; nothing where the change removed it or has no layout.
    pub fn change(&mut self, change: &DeviceChange, skeleton: &Skeleton, frame: &ChangeFrame) -> Option<&[u8]> {
        let Self { out, times, marks } = self;
        let new = change.new.as_ref()?;
        open(out, &new.device);
        number(out, b"\"epoch\":", frame.epoch.0);
        number(out, b"\"rev\":", frame.rev.0);
        number(out, b"\"previous_rev\":", frame.previous_rev.0);
        number(out, b"\"version\":", new.version.0);
        if let Some(cycle) = new.cycle {
            number(out, b"\"cycle\":", cycle.0);
        }
        write_key(out, b"\"acquired\":{");
        let old_acquired = change.old.as_ref().map(|old| &old.acquired);
        for (index, at) in new.acquired.iter().enumerate() {
            let before = old_acquired.and_then(|old| *old.get(index)?);
            if let (Some(at), Some(name)) = (at.filter(|_| *at != before), skeleton.group(GroupId(index as u16))) {
                write_key(out, name);
                times.write(out, at);
            }
        }
        out.push(b'}');
        time(out, times, b"\"published\":", frame.published);
        write_key(out, b"\"changed\":");
        marks.set(&change.values);
        skeleton.write_marked(out, &new.values, marks);
        write_key(out, b"\"removed\":[");
        for point in change.values.iter().filter(|p| new.value(**p).is_none()) {
            if let Some(path) = skeleton.path(*point) {
                if out.last() != Some(&b'[') {
                    out.push(b',');
                }
                out.extend_from_slice(&path[..path.len() - 1]);
            }
        }
        out.push(b']');
        write_key(out, b"\"quality\":{");
        for point in &change.qualities {
            if let Some(quality) = new.qualities.get(usize::from(point.0)) {
                write_quality(out, times, skeleton, *point, quality);
            }
        }
        out.extend_from_slice(b"}}");
        Some(out)
    }

    /// Whether a device can be reached, and why not.
    pub fn status(&mut self, twin: &DeviceTwin, published: Wall) -> &[u8] {
        let Self { out, times, .. } = self;
        out.clear();
        out.extend_from_slice(b"{\"kind\":\"device\",\"device\":");
        write_string(out, twin.device.as_str());
        write_key(out, b"\"state\":");
        write_word(out, twin.status.state.as_str());
        if let Some(reason) = twin.status.reason {
            write_key(out, b"\"reason\":");
            write_word(out, reason);
        }
        time(out, times, b"\"since\":", twin.status.since);
        if let Configuration::Refused(places) = &twin.configuration {
            write_key(out, b"\"detail\":");
            write_string(out, places);
        }
        write_key(out, b"\"counters\":{");
        number(out, b"\"cycles\":", twin.tally.cycles());
        number(out, b"\"failed_cycles\":", twin.tally.failed_cycles());
        number(out, b"\"stale_batches\":", twin.tally.stale_batches());
        out.push(b'}');
        time(out, times, b"\"published\":", published);
        out.push(b'}');
        out
    }

    /// That the gateway is there.
    pub fn gateway_online(&mut self, status: &GatewayStatus, published: Wall) -> &[u8] {
        let Self { out, times, .. } = self;
        open_gateway(out, &status.gateway, "online");
        write_key(out, b"\"version\":");
        write_string(out, &status.version);
        number(out, b"\"epoch\":", status.epoch.0);
        write_key(out, b"\"devices\":{");
        number(out, b"\"configured\":", status.devices.configured());
        number(out, b"\"online\":", status.devices.online);
        number(out, b"\"degraded\":", status.devices.degraded);
        number(out, b"\"offline\":", status.devices.offline);
        out.push(b'}');
        if let Some(reload) = &status.reload {
            write_key(out, b"\"reload\":{");
            time(out, times, b"\"at\":", reload.at);
            write_key(out, if reload.errors.is_empty() { b"\"ok\":true" } else { b"\"ok\":false" });
            write_key(out, b"\"errors\":[");
            for error in reload.errors.iter() {
                if out.last() != Some(&b'[') {
                    out.push(b',');
                }
                write_string(out, error);
            }
            out.extend_from_slice(b"]}");
        }
        time(out, times, b"\"published\":", published);
        out.push(b'}');
        out
    }

    /// That the gateway is gone. The broker says it, without a time, for a gateway whose connection broke.
    pub fn gateway_offline(&mut self, gateway: &DeviceId, published: Option<Wall>) -> &[u8] {
        let Self { out, times, .. } = self;
        open_gateway(out, gateway, "offline");
        if let Some(at) = published {
            time(out, times, b"\"published\":", at);
        }
        out.push(b'}');
        out
    }
}

/// Since when nothing that a device shows is fresh: it is offline, or every value that it ever had is stale.
pub(super) fn stale_since(twin: &DeviceTwin) -> Option<Wall> {
    if twin.status.state == StatusState::Offline {
        return Some(twin.status.since);
    }
    let mut since = None;
    for quality in twin.qualities.iter() {
        match quality.quality {
            Quality::Not(QualityCode::Stale, _) => since = since.max(Some(quality.since)),
            Quality::Unread => {}
            Quality::Good | Quality::Not(..) => return None,
        }
    }
    since
}

fn open(out: &mut Vec<u8>, device: &DeviceId) {
    out.clear();
    out.extend_from_slice(b"{\"device\":");
    write_string(out, device.as_str());
}

fn open_gateway(out: &mut Vec<u8>, gateway: &DeviceId, state: &str) {
    out.clear();
    out.extend_from_slice(b"{\"kind\":\"gateway\",\"gateway\":");
    write_string(out, gateway.as_str());
    write_key(out, b"\"state\":");
    write_word(out, state);
}

fn number(out: &mut Vec<u8>, key: &[u8], n: u64) {
    write_key(out, key);
    write_u64(out, n);
}

fn time(out: &mut Vec<u8>, times: &mut Times, key: &[u8], at: Wall) {
    write_key(out, key);
    times.write(out, at);
}

fn write_quality(out: &mut Vec<u8>, times: &mut Times, skeleton: &Skeleton, point: PointId, quality: &PointQuality) {
    let (Some(path), Some(code)) = (skeleton.path(point), quality.quality.code()) else { return };
    write_key(out, path);
    out.extend_from_slice(b"{\"code\":");
    write_word(out, code.as_str());
    if let Quality::Not(_, reason) = quality.quality {
        write_key(out, b"\"reason\":");
        write_word(out, reason);
    }
    time(out, times, b"\"since\":", quality.since);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::super::sample::{at, batch, configure, good, id, pump, silent, store, valid};
    use super::*;
    use crate::model::{Reading, Reason, Value};
    use crate::twin::Store;

    const HEARTBEAT: Duration = Duration::from_mins(1);

    fn state(store: &Store, published: Wall, clock_stepped: bool) -> String {
        let root = store.root();
        let twin = root.device(&id("pump-1")).unwrap();
        let skeleton = twin.layout().map(|layout| Skeleton::new(layout));
        let frame = StateFrame {
            epoch: root.epoch,
            rev: twin.revision,
            acquired: &twin.acquired,
            published,
            heartbeat: HEARTBEAT,
            clock_stepped,
        };
        let mut documents = Documents::default();
        let text = documents.state(twin, skeleton.as_ref(), &frame);
        String::from_utf8(text.to_vec()).unwrap()
    }

    fn change(store: &Store, previous_rev: u64, published: Wall) -> String {
        let rev = store.root().revision;
        let commits = store.watch(Revision(rev.0 - 1), 10).unwrap();
        let change = &commits[0].changes[0];
        let skeleton = Skeleton::new(change.new.as_ref().unwrap().layout().unwrap());
        let frame = ChangeFrame { epoch: Epoch(7), rev, previous_rev: Revision(previous_rev), published };
        let mut documents = Documents::default();
        let text = documents.change(change, &skeleton, &frame).unwrap();
        valid("change", text);
        String::from_utf8(text.to_vec()).unwrap()
    }

    #[test]
    fn a_device_that_was_never_read_shows_nothing_and_is_not_fresh() {
        let store = store();
        configure(&store, "pump-1", &pump(), at(0));
        let text = state(&store, at(500).wall, false);
        valid("state", text.as_bytes());
        assert_eq!(
            text,
            concat!(
                r#"{"device":"pump-1","profile":"acme/pump@1.2.0","epoch":7,"rev":1,"version":1,"acquired":{},"#,
                r#""published":"2026-11-30T22:27:40.500Z","fresh_until":"2026-11-30T22:27:40.000Z","#,
                r#""reported":{},"quality":{},"flags":[]}"#
            )
        );
    }

    #[test]
    fn a_state_has_all_values_and_the_qualities_that_are_not_good() {
        let store = store();
        configure(&store, "pump-1", &pump(), at(0));
        let mut readings = good(1450, 1500);
        readings[1] = Reading::Uncertain(Value::Text("unknown(17)".into()), Reason::UnknownLabel);
        store.commit(&batch("pump-1", 1, readings, at(1000))).unwrap();
        let mut readings = good(1451, 1500);
        readings[1] = Reading::Uncertain(Value::Text("unknown(17)".into()), Reason::UnknownLabel);
        readings[2] = Reading::Bad(Reason::Exception(2));
        let skewed = crate::model::Batch { skew_exceeded: true, ..batch("pump-1", 2, readings, at(2000)) };
        store.commit(&skewed).unwrap();
        let text = state(&store, at(2001).wall, true);
        valid("state", text.as_bytes());
        // SHD-013, SHD-014: the flags.
        assert_eq!(
            text,
            concat!(
                r#"{"device":"pump-1","profile":"acme/pump@1.2.0","epoch":7,"rev":3,"version":3,"cycle":2,"#,
                r#""acquired":{"fast":"2026-11-30T22:27:42.000Z"},"published":"2026-11-30T22:27:42.001Z","#,
                r#""fresh_until":"2026-11-30T22:29:12.001Z","#,
                r#""reported":{"speed":{"actual":1451,"setpoint":1500},"state":"unknown(17)"},"#,
                r#""quality":{"state":{"code":"uncertain","reason":"unknown_label","since":"2026-11-30T22:27:41.000Z"},"#,
                r#""speed.setpoint":{"code":"bad","reason":"exception(2)","since":"2026-11-30T22:27:42.000Z"}},"#,
                r#""flags":["skew_exceeded","clock_stepped"]}"#
            )
        );
    }

    #[test]
    fn a_change_has_only_what_changed() {
        let store = store();
        configure(&store, "pump-1", &pump(), at(0));
        store.commit(&batch("pump-1", 1, good(1450, 1500), at(1000))).unwrap();
        let mut readings = good(1450, 1600);
        readings[0] = Reading::Absent(Reason::NotAvailable);
        store.commit(&batch("pump-1", 2, readings, at(2000))).unwrap();
        assert_eq!(
            change(&store, 2, at(2001).wall),
            concat!(
                r#"{"device":"pump-1","epoch":7,"rev":3,"previous_rev":2,"version":3,"cycle":2,"#,
                r#""acquired":{"fast":"2026-11-30T22:27:42.000Z"},"published":"2026-11-30T22:27:42.001Z","#,
                r#""changed":{"speed":{"setpoint":1600}},"removed":["speed.actual"],"#,
                r#""quality":{"speed.actual":{"code":"absent","reason":"not_available","since":"2026-11-30T22:27:42.000Z"}}}"#
            )
        );
    }

    #[test]
    fn a_quality_that_became_good_again_is_said_in_a_change() {
        let store = store();
        configure(&store, "pump-1", &pump(), at(0));
        store.commit(&batch("pump-1", 1, good(1450, 1500), at(1000))).unwrap();
        store.commit(&silent("pump-1", 2, at(2000))).unwrap();
        let stale = change(&store, 2, at(2000).wall);
        assert!(stale.contains(r#""acquired":{},"#), "{stale}");
        assert!(stale.contains(r#""speed.actual":{"code":"stale","reason":"timeout","since":"#), "{stale}");
        store.commit(&batch("pump-1", 3, good(1450, 1500), at(3000))).unwrap();
        let good = change(&store, 3, at(3000).wall);
        assert!(
            good.ends_with(concat!(
                r#""changed":{},"removed":[],"#,
                r#""quality":{"speed.actual":{"code":"good","since":"2026-11-30T22:27:43.000Z"},"#,
                r#""state":{"code":"good","since":"2026-11-30T22:27:43.000Z"},"#,
                r#""speed.setpoint":{"code":"good","since":"2026-11-30T22:27:43.000Z"}}}"#
            )),
            "{good}"
        );
    }

    #[test]
    fn what_is_wholly_stale_was_fresh_until_it_became_so() {
        let store = store();
        configure(&store, "pump-1", &pump(), at(0));
        store.commit(&batch("pump-1", 1, good(1450, 1500), at(1000))).unwrap();
        store.commit(&silent("pump-1", 2, at(2000))).unwrap();
        // Not yet offline, and nothing in it is fresh.
        let state_of = |published| serde_json::from_str::<serde_json::Value>(&state(&store, published, false)).unwrap();
        assert_eq!(state_of(at(9000).wall)["fresh_until"], "2026-11-30T22:27:42.000Z");
        store.commit(&silent("pump-1", 3, at(3000))).unwrap();
        store.commit(&silent("pump-1", 4, at(4000))).unwrap();
        let offline = state_of(at(9000).wall);
        assert_eq!(offline["fresh_until"], "2026-11-30T22:27:44.000Z");
        assert_eq!(offline["quality"]["state"]["reason"], "offline");
        assert_eq!(offline["reported"]["speed"]["actual"], 1450);
    }

    #[test]
    fn status_gives_the_reason_only_where_there_is_one() {
        let store = store();
        configure(&store, "pump-1", &pump(), at(0));
        let status = |name: &str| {
            let root = store.root();
            let mut documents = Documents::default();
            let text = documents.status(root.device(&id(name)).unwrap(), at(5000).wall).to_vec();
            valid("status", &text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(
            status("pump-1"),
            concat!(
                r#"{"kind":"device","device":"pump-1","state":"offline","reason":"starting","#,
                r#""since":"2026-11-30T22:27:40.000Z","#,
                r#""counters":{"cycles":0,"failed_cycles":0,"stale_batches":0},"published":"2026-11-30T22:27:45.000Z"}"#
            )
        );
        store.commit(&batch("pump-1", 1, good(1, 2), at(1000))).unwrap();
        assert_eq!(
            status("pump-1"),
            concat!(
                r#"{"kind":"device","device":"pump-1","state":"online","#,
                r#""since":"2026-11-30T22:27:41.000Z","#,
                r#""counters":{"cycles":1,"failed_cycles":0,"stale_batches":0},"published":"2026-11-30T22:27:45.000Z"}"#
            )
        );
        store.configure(&id("pump-2"), Configuration::Refused("pumps.yaml:3:7: no profile \"acme\"".into()), at(0));
        assert!(status("pump-2").contains(r#""reason":"config_error","#));
        assert!(status("pump-2").contains(r#""detail":"pumps.yaml:3:7: no profile \"acme\"","#));
    }

    #[test]
    fn the_gateway_counts_its_devices() {
        let mut documents = Documents::default();
        let status = GatewayStatus {
            gateway: id("gw-1"),
            version: "0.1.0".into(),
            epoch: Epoch(7),
            devices: DeviceCounts { online: 2, degraded: 1, offline: 3 },
            reload: Some(Reload {
                at: at(0).wall,
                errors: Arc::from(vec![Arc::from("a.yaml:1:2: no"), Arc::from("b")]),
            }),
        };
        let text = documents.gateway_online(&status, at(1000).wall).to_vec();
        valid("gateway-status", &text);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            concat!(
                r#"{"kind":"gateway","gateway":"gw-1","state":"online","version":"0.1.0","epoch":7,"#,
                r#""devices":{"configured":6,"online":2,"degraded":1,"offline":3},"#,
                r#""reload":{"at":"2026-11-30T22:27:40.000Z","ok":false,"errors":["a.yaml:1:2: no","b"]},"#,
                r#""published":"2026-11-30T22:27:41.000Z"}"#
            )
        );
        let will = documents.gateway_offline(&id("gw-1"), None).to_vec();
        valid("gateway-status", &will);
        assert_eq!(will, br#"{"kind":"gateway","gateway":"gw-1","state":"offline"}"#);
    }
}
