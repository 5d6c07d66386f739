//! From a store to a real broker and back through a foreign subscriber.

use super::*;
use crate::model::{Layout, Stamp};
use crate::mqtt::mosquitto::Mosquitto;
use crate::shadow::sample::{batch, configure, good, id, pump, store};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::{AsyncClient, MqttOptions};
use serde_json::Value as Json;
use tokio::sync::mpsc::UnboundedReceiver;

/// Listens to everything; ends with the receiver.
fn subscriber(broker: &mqtt::Broker, name: &str) -> UnboundedReceiver<(String, Vec<u8>, bool)> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut options = MqttOptions::new(name, broker.host(), broker.port());
    options.set_max_packet_size(Some(1 << 20));
    let (client, mut event_loop) = AsyncClient::new(options, 10);
    client.try_subscribe("#", QoS::AtLeastOnce).unwrap();
    tokio::spawn(async move {
        while let Ok(event) = event_loop.poll().await {
            if let rumqttc::v5::Event::Incoming(Packet::Publish(publish)) = event {
                let topic = String::from_utf8(publish.topic.to_vec()).unwrap();
                if sender.send((topic, publish.payload.to_vec(), publish.retain)).is_err() {
                    return;
                }
            }
        }
        drop(client);
    });
    receiver
}

/// Waits for a message of this topic that fits; passes over all others.
async fn expect(
    from: &mut UnboundedReceiver<(String, Vec<u8>, bool)>,
    topic: &str,
    fits: impl Fn(&Json) -> bool,
) -> Json {
    let search = async {
        loop {
            let (found, payload, _) = from.recv().await.expect("the subscriber lives");
            let body: Json = serde_json::from_slice(&payload).unwrap_or_else(|e| panic!("{found}: {e}"));
            if found == topic && fits(&body) {
                return body;
            }
        }
    };
    timeout(Duration::from_secs(30), search).await.unwrap_or_else(|_| panic!("{topic} within 30 s"))
}

struct Plant {
    store: Arc<Store>,
    clock: Clock,
    layout: Arc<Layout>,
}

impl Plant {
    fn new() -> Self {
        let (store, clock, layout) = (Arc::new(store()), Clock::start(), pump());
        configure(&store, "p1", &layout, clock.now());
        Self { store, clock, layout }
    }

    fn publisher(&self, broker: &mqtt::Broker) -> Publisher {
        let shadow = shadow::Options::new(id("gw-1"), "0.1.0");
        Publisher::start(Arc::clone(&self.store), self.clock, shadow, mqtt::Options::new(broker.clone(), "gw-1"))
    }

    fn read(&self, cycle: u64, speed: i64) -> Stamp {
        let now = self.clock.now();
        self.store.commit(&batch("p1", cycle, good(speed, 1500), now)).unwrap();
        now
    }
}

#[cfg(feature = "demo")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_with_the_demo_broker() {
    let demo = crate::simulate::Broker::start(0).await.unwrap();
    let broker = mqtt::Broker::new("127.0.0.1", demo.address().port()).unwrap();
    a_life(&broker).await;
    demo.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_with_mosquitto() {
    let Some(mosquitto) = Mosquitto::start() else { return };
    a_life(&mosquitto.url().parse().unwrap()).await;
}

async fn a_life(broker: &mqtt::Broker) {
    let plant = Plant::new();
    let mut live = subscriber(broker, "live");
    let mut changes = subscriber(broker, "changes");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let publisher = plant.publisher(broker);
    expect(&mut live, "fieldshadow/p1/status", |b| b["reason"] == "starting").await;
    expect(&mut live, "fieldshadow/p1/state", |b| b["reported"] == serde_json::json!({})).await;
    expect(&mut live, "fieldshadow/gw-1/status", |b| b["state"] == "online").await;
    plant.read(1, 1450);
    // A broker may let a message at most once overtake others, or be overtaken, so two subscribers look for two things.
    expect(&mut live, "fieldshadow/p1/status", |b| b["state"] == "online").await;
    let state = expect(&mut live, "fieldshadow/p1/state", |b| b["reported"]["speed"]["actual"] == 1450).await;
    expect(&mut changes, "fieldshadow/p1/change", |b| b["changed"]["speed"]["actual"] == 1450).await;
    assert_eq!(state["quality"], serde_json::json!({}));

    // SHD-038: who comes later gets the newest at once.
    let mut late = subscriber(broker, "late");
    let retained = expect(&mut late, "fieldshadow/p1/state", |_| true).await;
    assert_eq!(retained["rev"], state["rev"]);

    plant.store.stop(plant.clock.now());
    let began = Instant::now();
    publisher.stop(Duration::from_secs(10)).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    expect(&mut live, "fieldshadow/p1/status", |b| b["reason"] == "stopped").await;
    let last = expect(&mut live, "fieldshadow/p1/state", |_| true).await;
    assert_eq!(last["quality"]["speed.actual"]["reason"], "offline");
    expect(&mut live, "fieldshadow/gw-1/status", |b| b["state"] == "offline" && b["published"].is_string()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shd_114_after_a_crash_the_broker_says_that_we_are_gone() {
    let Some(mosquitto) = Mosquitto::start() else { return };
    let broker = mosquitto.url().parse().unwrap();
    let plant = Plant::new();
    let mut live = subscriber(&broker, "live");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let publisher = plant.publisher(&broker);
    expect(&mut live, "fieldshadow/gw-1/status", |b| b["state"] == "online").await;
    drop(publisher);
    expect(&mut live, "fieldshadow/gw-1/status", |b| b["state"] == "offline").await;
    // F113: a new life, a new subscriber: online.
    let _publisher = plant.publisher(&broker);
    expect(&mut live, "fieldshadow/gw-1/status", |b| b["state"] == "online").await;
    let mut late = subscriber(&broker, "late");
    let first = expect(&mut late, "fieldshadow/gw-1/status", |_| true).await;
    assert_eq!(first["state"], "online");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f109_f120_a_broker_that_comes_and_goes_holds_up_nothing_and_gets_the_newest() {
    let Some(mut mosquitto) = Mosquitto::start() else { return };
    let broker: mqtt::Broker = mosquitto.url().parse().unwrap();
    let plant = Plant::new();
    configure(&plant.store, "p2", &plant.layout, plant.clock.now());
    let publisher = plant.publisher(&broker);
    let mut cycle = 0;
    for round in 1..=3u64 {
        mosquitto.kill();
        let began = Instant::now();
        for _ in 0..1000 {
            cycle += 1;
            plant.read(cycle, cycle as i64);
        }
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        mosquitto.restart();
        let mut live = subscriber(&broker, &format!("live-{round}"));
        let newest = cycle;
        expect(&mut live, "fieldshadow/p1/state", |b| b["reported"]["speed"]["actual"] == newest).await;
        let seen = publisher.counters();
        assert!(seen.connected && seen.connections >= round, "{seen:?}");
    }
    assert!(publisher.counters().sync.dropped_changes >= 2000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_changes_a_second_arrive_whole_and_in_order() {
    let Some(mosquitto) = Mosquitto::start() else { return };
    let broker: mqtt::Broker = mosquitto.url().parse().unwrap();
    let plant = Plant::new();
    let mut live = subscriber(&broker, "live");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let publisher = plant.publisher(&broker);
    expect(&mut live, "fieldshadow/gw-1/status", |b| b["state"] == "online").await;
    for cycle in 1..=1000 {
        plant.read(cycle, cycle as i64);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // What a reader of a topic holds never falls. Over both topics the broker promises no order: it may send a change, at
    // most once, before a state that still waits for a free place among those at least once.
    let (mut state_rev, mut change_rev, mut states, mut changes) = (0, 0, 0, 0);
    loop {
        let (topic, payload, _) = timeout(Duration::from_secs(10), live.recv()).await.unwrap().unwrap();
        let body: Json = serde_json::from_slice(&payload).unwrap();
        let Some(this) = body["rev"].as_u64() else { continue };
        let rev = if topic.ends_with("/state") { &mut state_rev } else { &mut change_rev };
        assert!(this >= *rev, "{topic}: {this} after {rev}");
        *rev = this;
        if topic.ends_with("/state") {
            states += 1;
            if body["reported"]["speed"]["actual"] == 1000 {
                break;
            }
        } else {
            changes += 1;
        }
    }
    assert!(states > 1 && changes > 1, "{states} states, {changes} changes");
    let counters = publisher.counters().sync;
    assert_eq!(counters.refused, 0);
    println!("{states} states, {changes} changes, {counters:?}");
}
