//! The session against a real broker.

use super::mosquitto::Mosquitto;
use super::*;
use crate::shadow::{Publication, Qos, Ticket};
use bytes::Bytes;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

fn message(n: u64, qos: Qos) -> Publication {
    let payload = Bytes::from(format!("{{\"n\":{n}}}"));
    Publication { topic: format!("t/{}", n % 7), payload, qos, retain: false, expiry: Some(Duration::from_secs(30)) }
}

async fn next(events: &mut Events) -> Vec<Event> {
    let mut all = Vec::new();
    timeout(Duration::from_secs(20), async {
        while all.is_empty() {
            events.recv(&mut all).await;
        }
    })
    .await
    .expect("an event within 20 s");
    all
}

async fn until_connected(events: &mut Events) {
    while !next(events).await.contains(&Event::Connected) {}
}

#[tokio::test]
async fn without_a_broker_there_is_no_room() {
    // A port that was free a moment ago: nobody answers there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("mqtt://127.0.0.1:{port}");
    let (session, _events) = Session::start(Options::new(url.parse().unwrap(), "gw"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!session.has_capacity());
    assert_eq!(session.try_publish(message(0, Qos::AtLeastOnce), Some(Ticket(0))), Err(PublishError::Away));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_publication_is_answered_for_in_order_within_the_window() {
    let Some(broker) = Mosquitto::start() else { return };
    let (session, mut events) = Session::start(Options::new(broker.url().parse().unwrap(), "gw"));
    until_connected(&mut events).await;
    let (mut sent, mut accepted) = (0u64, Vec::new());
    let mut news = Vec::new();
    while accepted.len() < 5000 {
        if sent < 5000 && session.has_capacity() {
            session.try_publish(message(sent, Qos::AtLeastOnce), Some(Ticket(sent))).unwrap();
            // Some at most once in between: they must not disturb the count.
            if sent % 3 == 0 && session.has_capacity() {
                session.try_publish(message(sent, Qos::AtMostOnce), None).unwrap();
            }
            sent += 1;
            continue;
        }
        if sent == 5000 {
            session.set_eager();
        }
        timeout(Duration::from_secs(10), events.recv(&mut news)).await.expect("progress");
        for event in news.drain(..) {
            let Event::Accepted(ticket) = event else { panic!("{event:?}") };
            accepted.push(ticket.0);
        }
        assert!(sent - accepted.len() as u64 <= 100);
    }
    assert!(accepted.iter().copied().eq(0..5000));
    session.disconnect(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f108_f120_after_the_broker_was_killed_with_a_full_window_it_goes_on() {
    let Some(mut broker) = Mosquitto::start() else { return };
    let (session, mut events) = Session::start(Options::new(broker.url().parse().unwrap(), "gw"));
    until_connected(&mut events).await;
    for round in 0..3u64 {
        let mut n = round * 1_000_000;
        // Fill the window and go on filling while the broker dies.
        while session.has_capacity() {
            session.try_publish(message(n, Qos::AtLeastOnce), Some(Ticket(n))).unwrap();
            n += 1;
        }
        broker.kill();
        loop {
            if next(&mut events).await.iter().any(|e| matches!(e, Event::Disconnected(_))) {
                break;
            }
        }
        assert_eq!(session.try_publish(message(n, Qos::AtLeastOnce), None), Err(PublishError::Away));
        broker.restart();
        let began = Instant::now();
        until_connected(&mut events).await;
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        session.set_eager();
        session.try_publish(message(n, Qos::AtLeastOnce), Some(Ticket(n))).unwrap();
        assert_eq!(next(&mut events).await, [Event::Accepted(Ticket(n))]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_too_large_ends_nothing() {
    let Some(broker) = Mosquitto::start() else { return };
    let mut options = Options::new(broker.url().parse().unwrap(), "gw");
    options.max_payload = 1000;
    let (session, mut events) = Session::start(options);
    until_connected(&mut events).await;
    let large = Publication { payload: Bytes::from(vec![b'x'; 1001]), ..message(1, Qos::AtLeastOnce) };
    let refused = session.try_publish(large, Some(Ticket(1)));
    assert_eq!(refused, Err(PublishError::Oversize { size: 1001, limit: 1000 }));
    session.set_eager();
    session.try_publish(message(2, Qos::AtLeastOnce), Some(Ticket(2))).unwrap();
    assert_eq!(next(&mut events).await, [Event::Accepted(Ticket(2))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f116_a_client_with_our_name_is_named_and_not_fought() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let broker = Broker::new("127.0.0.1", listener.local_addr().unwrap().port()).unwrap();
    let (_session, mut events) = Session::start(Options::new(broker, "twin"));
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut connect = [0u8; 256];
    assert!(socket.read(&mut connect).await.unwrap() > 0);
    // CONNACK, success, no properties; then DISCONNECT, 0x8E: session taken over.
    socket.write_all(&[0x20, 3, 0, 0, 0]).await.unwrap();
    assert_eq!(next(&mut events).await, [Event::Connected]);
    socket.write_all(&[0xE0, 2, 0x8E, 0]).await.unwrap();
    let lost = next(&mut events).await;
    assert!(matches!(&lost[0], Event::Disconnected(why) if why.contains("SessionTakenOver")), "{lost:?}");
    // We do not come back at once, so the other is left alone.
    assert!(timeout(Duration::from_secs(3), listener.accept()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_broker_is_left_after_the_time_to_connect_and_a_stop_waits_for_nobody() {
    // Accepts and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let broker = Broker::new("127.0.0.1", listener.local_addr().unwrap().port()).unwrap();
    let (session, mut events) = Session::start(Options::new(broker, "gw"));
    let (first, _) = listener.accept().await.unwrap();
    let again = timeout(Duration::from_secs(20), listener.accept()).await;
    assert!(again.is_ok(), "a second attempt comes");
    drop(first);
    let mut news = Vec::new();
    assert!(!events.try_recv(&mut news), "{news:?}");
    let began = Instant::now();
    session.disconnect(Duration::from_secs(5)).await;
    assert!(began.elapsed() < Duration::from_secs(1));
}
