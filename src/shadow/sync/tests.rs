//! The machine in a small world: a store, a broker that takes what it is given, a clock that is set.

use super::super::sample::{at, batch, configure, good, id, pump, silent, store, valid};
use super::*;
use crate::model::{Configuration, Generation, Reading, Reason, Value};
use crate::twin::Store;
use serde_json::Value as Json;

struct World {
    store: Store,
    sync: ShadowSync,
}

/// A message as the broker sees it: `topic` without the prefix, payload parsed and held against its schema.
#[derive(Debug)]
struct Message {
    topic: String,
    body: Json,
    publication: Publication,
    ticket: Option<Ticket>,
}

impl World {
    fn new(devices: &[&str], change: impl FnOnce(&mut Options)) -> Self {
        let store = store();
        let layout = pump();
        for device in devices {
            configure(&store, device, &layout, at(0));
        }
        let mut options = Options::new(id("gw-1"), "0.1.0");
        change(&mut options);
        let sync = ShadowSync::new(options, &store.root(), at(0));
        Self { store, sync }
    }

    /// One device, connected, read once, everything said.
    fn running() -> Self {
        let mut world = Self::new(&["p1"], |_| {});
        world.sync.handle_connected(at(0));
        world.all(0);
        world.commit(&batch("p1", 1, good(1450, 1500), at(1000)));
        world.all(1000);
        world
    }

    fn commit(&mut self, batch: &crate::model::Batch) {
        self.store.commit(batch).unwrap();
        self.follow(batch.ended);
    }

    fn follow(&mut self, now: Stamp) {
        match self.store.watch(self.sync.followed(), 1000) {
            Ok(commits) => self.sync.handle_commits(&commits, now),
            Err(_) => self.sync.handle_root(&self.store.root(), now),
        }
    }

    fn next(&mut self, ms: u64) -> Option<Message> {
        let Outgoing { publication, ticket } = self.sync.poll_publication(at(ms))?;
        let topic = publication.topic.strip_prefix("fieldshadow/").unwrap().to_owned();
        let kind = match topic.split_once('/').unwrap() {
            ("gw-1", "status") => "gateway-status",
            (_, kind) => kind,
        };
        let body = match kind {
            _ if publication.payload.is_empty() => Json::Null,
            "schema" => serde_json::from_slice(&publication.payload).unwrap(),
            kind => valid(kind, &publication.payload),
        };
        assert_eq!(ticket.is_some(), publication.qos == Qos::AtLeastOnce);
        Some(Message { topic, body, publication, ticket })
    }

    /// Everything that is to be said at this time, accepted at once.
    fn all(&mut self, ms: u64) -> Vec<Message> {
        let mut all = Vec::new();
        while let Some(message) = self.next(ms) {
            if let Some(ticket) = message.ticket {
                self.sync.handle_published(ticket);
            }
            all.push(message);
        }
        all
    }

    fn topics(&mut self, ms: u64) -> Vec<String> {
        self.all(ms).into_iter().map(|m| m.topic).collect()
    }

    fn pass(&mut self, ms: u64) {
        self.sync.handle_timeout(at(ms));
    }
}

#[test]
fn at_first_nothing_looks_fresh_before_the_gateway_is_online() {
    let mut world = World::new(&["p1", "p2"], |_| {});
    world.sync.handle_schema("acme/pump", "1.2.0", Bytes::from_static(b"{}"));
    assert!(world.next(50).is_none(), "nobody to say it to");
    world.sync.handle_connected(at(100));
    let all = world.all(100);
    let topics: Vec<&str> = all.iter().map(|m| m.topic.as_str()).collect();
    assert_eq!(topics, ["p1/status", "p2/status", "p1/state", "p2/state", "p1/schema", "p2/schema", "gw-1/status"]);
    assert_eq!(all[0].body["reason"], "starting");
    assert_eq!(all[2].body["reported"], serde_json::json!({}));
    assert_eq!(all[2].body["fresh_until"], "2026-11-30T22:27:40.000Z");
    assert_eq!(all[2].publication.expiry, Some(Duration::from_mins(3)));
    let online = &all[6].body;
    assert_eq!(online["state"], "online");
    assert_eq!(online["devices"], serde_json::json!({"configured": 2, "online": 0, "degraded": 0, "offline": 2}));
    for message in &all {
        assert!(message.publication.retain);
        assert_eq!(message.publication.qos, Qos::AtLeastOnce);
    }
}

#[test]
fn a_commit_is_said_as_change_and_state() {
    let mut world = World::running();
    world.commit(&batch("p1", 2, good(1451, 1500), at(2000)));
    let all = world.all(2000);
    assert_eq!(all.iter().map(|m| m.topic.as_str()).collect::<Vec<_>>(), ["p1/change", "p1/state"]);
    let (change, state) = (&all[0], &all[1]);
    assert_eq!(change.body["rev"], 3);
    assert_eq!(change.body["previous_rev"], 2);
    assert_eq!(change.body["changed"], serde_json::json!({"speed": {"actual": 1451}}));
    assert_eq!(change.publication.qos, Qos::AtMostOnce);
    assert!(!change.publication.retain);
    assert_eq!(change.publication.expiry, None);
    assert_eq!(state.body["rev"], 3);
    assert_eq!(state.body["version"], change.body["version"]);
    assert!(world.next(2000).is_none());
    // SHD-009, SHD-069: the same values again are no news.
    world.commit(&batch("p1", 3, good(1451, 1500), at(3000)));
    assert!(world.next(3000).is_none());
}

#[test]
fn f113_birth_will_and_farewell_are_one_topic() {
    let mut world = World::new(&[], |_| {});
    let will = world.sync.options.will();
    world.sync.handle_connected(at(0));
    let birth = world.all(0).pop().unwrap();
    world.sync.handle_stopping(at(10));
    let farewell = world.all(10).pop().unwrap();
    for said in [&birth.publication, &farewell.publication] {
        assert_eq!((&said.topic, said.qos, said.retain), (&will.topic, will.qos, will.retain));
    }
    assert_eq!(birth.body["state"], "online");
    assert_eq!(farewell.body["state"], "offline");
    assert_eq!(valid("gateway-status", &will.payload)["state"], "offline");
    assert!(will.retain);
    assert!(world.sync.is_finished());
}

#[test]
fn f109_f118_while_the_broker_is_away_only_the_newest_is_kept() {
    let mut world = World::running();
    world.sync.handle_disconnected(at(1500));
    for cycle in 2..1002 {
        world.commit(&batch("p1", cycle, good(cycle as i64, 1500), at(cycle * 1000)));
        assert!(world.next(cycle * 1000).is_none());
    }
    assert_eq!(world.sync.counters().dropped_changes, 1000);
    assert!(world.sync.changes.is_empty() && world.sync.states.is_empty());
    // SHD-115, SHD-116: current status and state once, nothing stale for it.
    world.sync.handle_connected(at(1_001_500));
    let all = world.all(1_001_500);
    assert_eq!(all.iter().map(|m| m.topic.as_str()).collect::<Vec<_>>(), ["p1/status", "p1/state", "gw-1/status"]);
    assert_eq!(all[0].body["state"], "online");
    assert_eq!(all[1].body["reported"]["speed"]["actual"], 1001);
    assert_eq!(all[1].body["quality"], serde_json::json!({}));
    // The gap shows: the message before was revision 2.
    let rev = all[1].body["rev"].as_u64().unwrap();
    world.commit(&batch("p1", 1002, good(7, 1500), at(1_002_000)));
    assert_eq!(world.all(1_002_000)[0].body["previous_rev"].as_u64(), Some(rev));
}

#[test]
fn f119_what_was_not_accepted_is_said_anew_as_it_is_now() {
    let mut world = World::running();
    world.commit(&batch("p1", 2, good(2, 1500), at(2000)));
    // Sent, never accepted; then the link breaks.
    while world.next(2000).is_some() {}
    assert_eq!(world.sync.tickets.len(), 1);
    world.sync.handle_disconnected(at(2500));
    assert!(world.sync.tickets.is_empty());
    world.commit(&batch("p1", 3, good(3, 1500), at(3000)));
    world.sync.handle_connected(at(62_000));
    let states: Vec<Message> = world.all(62_000).into_iter().filter(|m| m.topic == "p1/state").collect();
    assert_eq!(states.len(), 1);
    assert_eq!(states[0].body["reported"]["speed"]["actual"], 3);
}

#[test]
fn shd_120_a_slow_broker_gets_the_newest_state_and_memory_is_bounded() {
    let mut world = World::running();
    for cycle in 2..20_002 {
        world.commit(&batch("p1", cycle, good(cycle as i64, 1500), at(1000 + cycle)));
    }
    assert_eq!(world.sync.changes.len(), CHANGES_MAX);
    assert_eq!(world.sync.states.len(), 1);
    // The state has waited: it goes first, and the changes before it are not said any more.
    let all = world.all(30_000);
    assert_eq!(all.iter().map(|m| m.topic.as_str()).collect::<Vec<_>>(), ["p1/state"]);
    assert_eq!(all[0].body["reported"]["speed"]["actual"], 20_001);
    assert_eq!(world.sync.counters().dropped_changes, 20_000);
}

#[test]
fn revisions_never_fall_for_a_reader_of_both_topics() {
    let mut world = World::new(&["p1", "p2", "p3"], |_| {});
    world.sync.handle_connected(at(0));
    world.all(0);
    let mut seen: HashMap<String, u64> = HashMap::new();
    let mut step = 7u64;
    for cycle in 1..400u64 {
        for device in ["p1", "p2", "p3"] {
            world.commit(&batch(device, cycle, good(cycle as i64, 1500), at(cycle * 20)));
        }
        step = (step * 5 + 3) % 8;
        for _ in 0..step {
            let Some(message) = world.next(cycle * 20) else { break };
            let (device, kind) = message.topic.split_once('/').unwrap();
            if kind == "status" {
                continue;
            }
            let rev = message.body["rev"].as_u64().unwrap();
            let last = seen.insert(device.to_owned(), rev).unwrap_or(0);
            assert!(rev >= last, "{device} fell from {last} to {rev}");
            if kind == "change" && message.body["previous_rev"].as_u64() == Some(last) {
                assert_eq!(message.body["changed"]["speed"]["actual"].as_u64(), Some(cycle_of(&message)));
            }
        }
    }
    assert!(seen.len() == 3 && world.sync.counters().dropped_changes > 0);
}

fn cycle_of(message: &Message) -> u64 {
    message.body["cycle"].as_u64().unwrap()
}

#[test]
fn a_heartbeat_repeats_the_state_with_new_times_while_no_group_is_overdue() {
    let mut world = World::running();
    let confirm = |world: &mut World, from: u64, until: u64| {
        for second in from..until {
            world.commit(&batch("p1", second, good(1450, 1500), at(second * 1000)));
            assert!(world.next(second * 1000).is_none() || second > 61, "said at {second}");
        }
    };
    confirm(&mut world, 2, 61);
    world.pass(60_999);
    assert!(world.next(60_999).is_none());
    world.pass(61_000);
    let beat = world.all(61_000);
    assert_eq!(beat.len(), 1);
    assert_eq!((beat[0].body["rev"].as_u64(), beat[0].body["version"].as_u64()), (Some(2), Some(2)));
    assert_eq!(beat[0].body["acquired"]["fast"], "2026-11-30T22:28:40.000Z");
    assert_eq!(beat[0].body["published"], "2026-11-30T22:28:41.000Z");
    assert_eq!(beat[0].body["fresh_until"], "2026-11-30T22:30:11.000Z");
    assert!(world.sync.poll_timeout().unwrap() <= at(121_000).mono);
    // Not read any more: after 121 s nothing is repeated, although the store has not yet said why.
    world.pass(121_000);
    assert!(world.next(121_000).is_none());
    // It is back before the next heartbeat would be due: said soon, not a whole heartbeat later.
    world.commit(&batch("p1", 200, good(1450, 1500), at(125_000)));
    world.pass(127_000);
    assert_eq!(world.topics(127_000), ["p1/state"]);
}

#[test]
fn a_read_that_may_belong_to_a_commit_in_flight_is_not_claimed() {
    let mut world = World::running();
    // Confirmed 10 ms before the message: not yet believed; the time said before stands.
    world.commit(&batch("p1", 2, good(1450, 1500), at(60_990)));
    world.pass(61_000);
    let beat = world.all(61_000);
    assert_eq!(beat[0].body["acquired"]["fast"], "2026-11-30T22:27:41.000Z");
}

#[test]
fn min_interval_delays_news_but_no_bad_news() {
    let mut world = World::new(&["p1"], |o| {
        o.min_interval = Duration::from_secs(10);
        o.change = false;
    });
    world.sync.handle_connected(at(0));
    world.all(0);
    world.commit(&batch("p1", 1, good(1, 1500), at(1000)));
    world.commit(&batch("p1", 2, good(2, 1500), at(2000)));
    assert_eq!(world.topics(2000), ["p1/status", "gw-1/status"]);
    assert_eq!(world.sync.poll_timeout(), Some(at(10_000).mono));
    world.pass(10_000);
    let all = world.all(10_000);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].body["reported"]["speed"]["actual"], 2);
    // A quality got worse: at once.
    let mut readings = good(3, 1500);
    readings[2] = Reading::Bad(Reason::OutOfRange);
    world.commit(&batch("p1", 3, readings, at(11_000)));
    assert_eq!(world.topics(11_000), ["p1/status", "gw-1/status", "p1/state"]);
    // It got better: that can wait again.
    world.commit(&batch("p1", 4, good(3, 1500), at(12_000)));
    assert_eq!(world.topics(12_000), ["p1/status", "gw-1/status"]);
    world.pass(21_000);
    assert_eq!(world.topics(21_000), ["p1/state"]);
}

#[test]
fn a_silent_device_goes_stale_at_once_and_offline_after_three() {
    let mut world = World::running();
    world.commit(&silent("p1", 2, at(2000)));
    let all = world.all(2000);
    assert_eq!(all[0].body["state"], "degraded");
    let state = all.iter().find(|m| m.topic == "p1/state").unwrap();
    assert_eq!(state.body["quality"]["speed.actual"]["reason"], "timeout");
    assert_eq!(state.body["reported"]["speed"]["actual"], 1450);
    assert_eq!(state.body["fresh_until"], "2026-11-30T22:27:42.000Z");
    world.commit(&silent("p1", 3, at(3000)));
    world.commit(&silent("p1", 4, at(4000)));
    let all = world.all(4000);
    assert_eq!(
        (&all[0].topic[..], &all[0].body["state"], &all[0].body["reason"]),
        ("p1/status", &"offline".into(), &"no_reply".into())
    );
    let gateway = all.iter().find(|m| m.topic == "gw-1/status").unwrap();
    assert_eq!(gateway.body["devices"]["offline"], 1);
    // No heartbeat for a device that is offline.
    for ms in [61_000, 64_000, 70_000, 130_000] {
        world.pass(ms);
        assert!(world.next(ms).is_none());
    }
}

#[test]
fn the_gateway_speaks_of_itself_once_a_second_at_most() {
    let mut world = World::new(&["p1", "p2", "p3"], |o| o.change = false);
    world.sync.handle_connected(at(0));
    world.all(0);
    world.commit(&batch("p1", 1, good(1, 1), at(100)));
    world.commit(&batch("p2", 1, good(1, 1), at(200)));
    assert_eq!(world.topics(200), ["p1/status", "p2/status", "p1/state", "p2/state"]);
    assert_eq!(world.sync.poll_timeout(), Some(at(1000).mono));
    world.commit(&batch("p3", 1, good(1, 1), at(900)));
    world.sync.handle_reload(Reload { at: at(950).wall, errors: Arc::from(vec![Arc::from("x.yaml:1:1: no")]) });
    assert_eq!(world.topics(950), ["p3/status", "p3/state"]);
    let all = world.all(1000);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].body["devices"]["online"], 3);
    assert_eq!(all[0].body["reload"]["errors"][0], "x.yaml:1:1: no");
}

#[test]
fn shd_014_a_clock_set_back_is_flagged_once() {
    let mut world = World::running();
    let back = |ms: u64| Stamp { mono: at(ms).mono, wall: crate::model::Wall(at(ms).wall.0 - 3_600_000) };
    world.commit(&batch("p1", 2, good(2, 1500), back(2000)));
    let mut first = None;
    while let Some(message) = world.next(2000) {
        if message.topic == "p1/state" {
            first = Some(message);
        }
    }
    let first = first.unwrap();
    assert_eq!(first.body["flags"], serde_json::json!(["clock_stepped"]));
    assert_eq!(first.body["rev"], 3);
    assert_eq!(first.body["acquired"]["fast"], "2026-11-30T21:27:42.000Z", "times follow the clock");
    // It was lost on the way: the flag is raised again.
    world.sync.handle_disconnected(at(2100));
    world.sync.handle_connected(at(2200));
    let flags = |all: Vec<Message>| -> Vec<Json> {
        all.into_iter().filter(|m| m.topic == "p1/state").map(|m| m.body["flags"].clone()).collect()
    };
    assert_eq!(flags(world.all(2200)), [serde_json::json!(["clock_stepped"])]);
    world.commit(&batch("p1", 3, good(3, 1500), back(3000)));
    assert_eq!(flags(world.all(3000)), [serde_json::json!([])]);
    world.sync.handle_disconnected(at(3100));
    world.sync.handle_connected(at(3200));
    assert_eq!(flags(world.all(3200)), [serde_json::json!([])]);
}

#[test]
fn shd_013_a_skewed_cycle_is_flagged() {
    let mut world = World::running();
    world.commit(&crate::model::Batch { skew_exceeded: true, ..batch("p1", 2, good(2, 1500), at(2000)) });
    assert_eq!(world.all(2000)[1].body["flags"], serde_json::json!(["skew_exceeded"]));
}

#[test]
fn f114_topics_of_a_removed_device_are_cleared_until_the_broker_took_it() {
    let mut world = World::running();
    world.store.remove(&id("p1"), at(2000)).unwrap();
    world.follow(at(2000));
    let cleared = |world: &mut World, ms| {
        let mut topics = Vec::new();
        let mut tickets = Vec::new();
        while let Some(message) = world.next(ms) {
            if message.publication.payload.is_empty() {
                assert!(message.publication.retain);
                topics.push(message.topic);
            }
            tickets.push(message.ticket.unwrap());
        }
        (topics, tickets)
    };
    let (topics, _) = cleared(&mut world, 2000);
    assert_eq!(topics, ["p1/state", "p1/status", "p1/schema"]);
    // Lost with the connection: cleared again.
    world.sync.handle_disconnected(at(2500));
    world.sync.handle_connected(at(3000));
    let (mut topics, tickets) = cleared(&mut world, 3000);
    topics.sort();
    assert_eq!(topics, ["p1/schema", "p1/state", "p1/status"]);
    for ticket in tickets {
        world.sync.handle_published(ticket);
    }
    world.sync.handle_disconnected(at(3500));
    world.sync.handle_connected(at(4000));
    assert_eq!(cleared(&mut world, 4000).0, [""; 0]);
}

#[test]
fn a_device_that_is_back_is_not_cleared() {
    let mut world = World::running();
    world.sync.handle_disconnected(at(1500));
    world.store.remove(&id("p1"), at(2000)).unwrap();
    world.follow(at(2000));
    configure(&world.store, "p1", &pump(), at(3000));
    world.follow(at(3000));
    world.sync.handle_connected(at(4000));
    assert_eq!(world.topics(4000), ["p1/status", "p1/state", "gw-1/status"]);
}

#[test]
fn a_new_configuration_is_said_at_once_with_its_schema() {
    let mut world = World::running();
    world.sync.handle_schema("acme/pump", "2.0.0", Bytes::from_static(b"{\"title\":\"new\"}"));
    let mut layout = super::super::skeleton::tests::layout(&["flow"]);
    layout.profile_version = "2.0.0".into();
    let generation = configure(&world.store, "p1", &Arc::new(layout), at(2000));
    world.follow(at(2000));
    let all = world.all(2000);
    assert_eq!(
        all.iter().map(|m| m.topic.as_str()).collect::<Vec<_>>(),
        ["p1/status", "gw-1/status", "p1/state", "p1/schema"]
    );
    assert_eq!(all[2].body["profile"], "acme/pump@2.0.0");
    assert_eq!(all[2].body["reported"], serde_json::json!({}));
    let mut batch = batch("p1", 5, vec![Reading::Good(Value::Int(3))], at(3000));
    batch.generation = generation;
    assert_ne!(generation, Generation(1));
    world.commit(&batch);
    let change = world.all(3000).into_iter().find(|m| m.topic == "p1/change").unwrap();
    assert_eq!(change.body["previous_rev"], all[2].body["rev"]);
    assert_eq!(change.body["changed"], serde_json::json!({"flow": 3}));
}

#[test]
fn a_device_whose_files_are_wrong_says_so() {
    let mut world = World::new(&[], |_| {});
    world.store.configure(&id("p9"), Configuration::Refused("p9.yaml:3:7: no such profile".into()), at(0));
    world.follow(at(0));
    world.sync.handle_connected(at(100));
    let status = world.next(100).unwrap();
    assert_eq!(status.body["reason"], "config_error");
    assert_eq!(status.body["detail"], "p9.yaml:3:7: no such profile");
    // Its state names no profile, for none is known: exact bytes instead of the schema.
    let state = world.sync.poll_publication(at(100)).unwrap();
    assert_eq!(
        state.publication.payload,
        Bytes::from_static(
            concat!(
                r#"{"device":"p9","epoch":7,"rev":1,"version":1,"acquired":{},"published":"2026-11-30T22:27:40.100Z","#,
                r#""fresh_until":"2026-11-30T22:27:40.000Z","reported":{},"quality":{},"flags":[]}"#
            )
            .as_bytes()
        )
    );
}

#[test]
fn at_the_end_nothing_is_left_looking_fresh() {
    let mut world = World::new(&["p1", "p2"], |o| o.min_interval = Duration::from_secs(30));
    world.sync.handle_connected(at(0));
    world.commit(&batch("p1", 1, good(1, 1), at(1000)));
    world.all(1000);
    world.store.stop(at(5000));
    world.follow(at(5000));
    world.sync.handle_stopping(at(5000));
    assert!(!world.sync.is_finished());
    let mut all = Vec::new();
    while let Some(message) = world.next(5000) {
        all.push(message);
    }
    let topics: Vec<&str> = all.iter().map(|m| m.topic.as_str()).collect();
    assert_eq!(topics, ["p1/status", "p2/status", "p1/change", "p1/state", "gw-1/status"]);
    assert_eq!(all[0].body["reason"], "stopped");
    let state = &all[3].body;
    assert_eq!(state["quality"]["speed.actual"]["reason"], "offline");
    assert_eq!(state["fresh_until"], "2026-11-30T22:27:45.000Z");
    assert_eq!(all[4].body["state"], "offline");
    // Finished once the broker has taken the last of it.
    assert!(!world.sync.is_finished());
    for ticket in all.iter().filter_map(|m| m.ticket) {
        world.sync.handle_published(ticket);
    }
    assert!(world.sync.is_finished());
    assert!(world.next(6000).is_none());
    assert_eq!(world.sync.poll_timeout(), None);
}

#[test]
fn an_end_without_a_broker_waits_for_nobody() {
    let mut world = World::running();
    world.sync.handle_stopping(at(2000));
    world.sync.handle_disconnected(at(2100));
    assert!(world.sync.is_finished());
}

#[test]
fn after_a_gap_in_the_history_the_states_are_said_and_the_gap_shows() {
    let mut world = World::running();
    for cycle in 2..10 {
        world.store.commit(&batch("p1", cycle, good(cycle as i64, 1500), at(cycle * 1000))).unwrap();
    }
    configure(&world.store, "p2", &pump(), at(9500));
    world.sync.handle_root(&world.store.root(), at(10_000));
    let all = world.all(10_000);
    assert_eq!(
        all.iter().map(|m| m.topic.as_str()).collect::<Vec<_>>(),
        ["p2/status", "gw-1/status", "p1/state", "p2/state"]
    );
    assert_eq!(all[2].body["reported"]["speed"]["actual"], 9);
    world.commit(&batch("p1", 10, good(10, 1500), at(10_000)));
    let change = world.next(10_000).unwrap();
    assert_eq!(change.body["previous_rev"], all[2].body["rev"]);
    assert_ne!(change.body["previous_rev"], 2);
    // A root that is older than what was followed is no news.
    let old = store();
    world.sync.handle_root(&old.root(), at(10_000));
    assert!(world.sync.slots.contains_key(&id("p1")));
}

#[test]
fn heartbeats_of_many_devices_do_not_come_together() {
    let names: Vec<String> = (0..100).map(|i| format!("d{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names, |o| o.change = false);
    world.sync.handle_connected(at(0));
    for name in &names {
        world.commit(&batch(name, 1, good(1, 1), at(0)));
    }
    world.all(0);
    let mut most = 0;
    let mut total = 0;
    for second in 1..=60u64 {
        for name in &names {
            world.commit(&batch(name, 1 + second, good(1, 1), at(second * 1000)));
        }
        world.pass(second * 1000);
        let beats = world.all(second * 1000).iter().filter(|m| m.topic.ends_with("/state")).count();
        most = most.max(beats);
        total += beats;
    }
    assert!(most <= 10, "{most} in one second");
    assert!((100..=120).contains(&total), "{total}");
}

#[test]
fn a_message_that_cannot_be_sent_is_given_up_until_there_is_news() {
    let mut world = World::running();
    world.commit(&batch("p1", 2, good(2, 1500), at(2000)));
    let refused: Vec<_> = std::iter::from_fn(|| world.next(2000)).collect();
    for message in &refused {
        world.sync.handle_refused(message.ticket);
    }
    assert!(world.next(2000).is_none());
    assert_eq!(world.sync.counters().refused, 2);
    world.commit(&batch("p1", 3, good(3, 1500), at(3000)));
    assert_eq!(world.topics(3000), ["p1/change", "p1/state"]);
}
