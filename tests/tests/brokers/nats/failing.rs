//! Servers that are silent, talk nonsense, change their mind or go away, and what becomes of the messages under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use waybill_core::port::transport::{ErrorKind, Outcome, SendCall, Transport};
use waybill_testkit::nats::Server;

use super::fake::{Fake, INFO};
use super::support::*;

/// Nearly as long as a call waits for a server that is away.
const WAITS_NEARLY: std::time::Duration = std::time::Duration::from_secs(4);

/// One server, and how long its silence is borne at the start and later.
fn bearing(url: String, connect: &str, ack: &str) -> Value {
    json!({ "servers": [url], "connect_timeout": connect, "ack_timeout": ack, "order": "listed" })
}

/// Longer than a server on a busy machine is silent.
fn patient(url: String) -> Value {
    bearing(url, "15s", "15s")
}

/// Kind of the failure and its code.
async fn refused(config: Value) -> (ErrorKind, String, String) {
    let error = open(settings(config)).await.unwrap_err();
    (error.kind, error.fault.code, error.fault.reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_server_is_unavailable_and_says_why() {
    let silent = Fake::start(|mut peer| peer.linger());
    let web = Fake::start(|mut peer| peer.say("HTTP/1.1 400 Bad Request"));
    let garbage = Fake::start(|mut peer| peer.say("INFO {\"max_payload\":"));
    let gone = Fake::start(drop);
    for (url, code) in [
        (silent.url(), "NATS.TIMEOUT"),
        (web.url(), "NATS.PROTOCOL"),
        (garbage.url(), "NATS.PROTOCOL"),
        (gone.url(), "NATS.LOST"),
        ("nats://127.0.0.1:1".to_owned(), "NATS.REFUSED"),
    ] {
        let config = if code == "NATS.TIMEOUT" { bearing(url.clone(), "500ms", "15s") } else { patient(url.clone()) };
        let (kind, found, reason) = refused(config).await;
        assert_eq!((kind, found.as_str()), (ErrorKind::Unavailable, code), "{reason}");
        assert!(reason.contains(url.trim_start_matches("nats://")), "{reason}");
    }
    let old = Fake::start(|mut peer| peer.greet(r#"INFO {"version":"2.1.0","max_payload":1048576}"#));
    assert_eq!(refused(patient(old.url())).await.1, "NATS.NO_HEADERS");
    let (kind, code, reason) = refused(patient("nats://192.0.2.1:4222".to_owned())).await;
    assert_eq!((kind, code.as_str()), (ErrorKind::Denied, "NATS.DENIED"));
    assert!(reason.contains("allow.net of orders-nats"), "{reason}");
}

/// Half of the batch is acknowledged, then nothing more comes: those stand, the rest may be there all the same.
#[tokio::test(flavor = "multi_thread")]
async fn silence_after_a_while_gives_up_what_is_not_acknowledged() {
    let fake = Fake::start(|mut peer| {
        peer.greet(INFO);
        for number in 1..=2 {
            let Some(message) = peer.published() else { return };
            peer.acknowledge(&message, number);
        }
        peer.linger();
    });
    let transport = open(settings(bearing(fake.url(), "15s", "3s"))).await.unwrap();
    let outcomes = send(&transport, batch(0, 4, "orders.created")).await;
    let [Outcome::Ack(_), Outcome::Ack(_), Outcome::Retryable(third), Outcome::Retryable(fourth)] = outcomes.as_slice()
    else {
        panic!("{outcomes:#?}")
    };
    for fault in [third, fourth] {
        assert_eq!((fault.code.as_str(), fault.maybe_delivered), ("NATS.ACK_TIMEOUT", true));
    }
    // A new connection is made for the next.
    assert_eq!(acknowledged(&send(&transport, batch(4, 6, "orders.created")).await), 2);
}

/// A server that reads late has no reason to acknowledge yet: silence counts from the end of what is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_takes_long_is_no_silence() {
    let fake = Fake::start(|mut peer| {
        peer.greet(INFO);
        // Three times `ack_timeout`, with more under way than the system's buffers take.
        std::thread::sleep(std::time::Duration::from_secs(6));
        let mut number = 0;
        while let Some(message) = peer.published() {
            number += 1;
            peer.acknowledge(&message, number);
        }
    });
    let mut settings = settings(bearing(fake.url(), "15s", "2s"));
    settings.limits.max_batch_bytes = 16 * 1024 * 1024;
    let transport = open(settings).await.unwrap();
    let mut all = batch(0, 8, "orders.created");
    for delivery in &mut all {
        delivery.payload = vec![b'x'; 1_000_000].into();
    }
    let outcomes = send(&transport, all).await;
    assert_eq!(acknowledged(&outcomes), 8, "{outcomes:#?}");
}

/// With a window of two, the others were never written: they are given back untried.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_costs_an_attempt_only_to_what_was_sent() {
    let fake = Fake::start(|mut peer| {
        peer.greet(INFO);
        let Some(first) = peer.published() else { return };
        peer.acknowledge(&first, 1);
        peer.published();
    });
    let mut config = patient(fake.url());
    config["window"] = json!(2);
    let transport = open(settings(config)).await.unwrap();
    let outcomes = send(&transport, batch(0, 8, "orders.created")).await;
    assert!(matches!(outcomes[0], Outcome::Ack(_)));
    for (place, outcome) in outcomes.iter().enumerate().skip(1) {
        match outcome {
            Outcome::Retryable(fault) => assert!(fault.maybe_delivered && place <= 3, "{place}"),
            Outcome::Release(fault) => assert!(!fault.maybe_delivered && place >= 2, "{place}"),
            other => panic!("{place}: {other:?}"),
        }
    }
    assert!(matches!(outcomes[7], Outcome::Release(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_says_before_it_closes_is_the_reason() {
    for (words, code) in [
        ("Stale Connection", "NATS.STALE"),
        ("Maximum Payload Violation", "NATS.MAX_PAYLOAD"),
        ("User Authentication Expired", "NATS.AUTH"),
        ("something nobody has heard of", "NATS.SERVER_ERROR"),
    ] {
        let fake = Fake::start(move |mut peer| {
            peer.greet(INFO);
            if peer.published().is_some() {
                peer.say(&format!("-ERR '{words}'"));
            }
        });
        let transport = open(settings(patient(fake.url()))).await.unwrap();
        let outcomes = send(&transport, batch(0, 1, "orders.created")).await;
        let [Outcome::Retryable(fault)] = outcomes.as_slice() else { panic!("{words}: {outcomes:#?}") };
        assert_eq!((fault.code.as_str(), fault.maybe_delivered), (code, true));
    }
}

/// The server lowers its bound while we are connected, and pings in between.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_changes_counts_from_then_on_and_its_pings_are_answered() {
    let pongs = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&pongs);
    let fake = Fake::start(move |mut peer| {
        peer.greet(INFO);
        let Some(first) = peer.published() else { return };
        peer.say(&INFO.replace("1048576", "900"));
        peer.say("PING");
        peer.acknowledge(&first, 1);
        if peer.until("PONG").is_some() {
            seen.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(second) = peer.published() {
            peer.acknowledge(&second, 2);
        }
        peer.linger();
    });
    let transport = open(settings(patient(fake.url()))).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 1, "orders.created")).await), 1);
    let mut all = batch(1, 3, "orders.created");
    all[0].payload = vec![b'x'; 800].into();
    let outcomes = send(&transport, all).await;
    let [Outcome::Permanent(fault), Outcome::Ack(_)] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!(fault.code, "NATS.MAX_PAYLOAD");
    assert_eq!(pongs.load(Ordering::SeqCst), 1);
}

/// Not every answer in our inbox is an acknowledgement.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_acknowledgement_is_none() {
    let fake = Fake::start(|mut peer| {
        peer.greet(INFO);
        while let Some(message) = peer.published() {
            peer.say(&format!("MSG {} 1 2\r\nok", message.reply));
        }
    });
    let transport = open(settings(patient(fake.url()))).await.unwrap();
    let outcomes = send(&transport, batch(0, 1, "orders.created")).await;
    let [Outcome::Retryable(fault)] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!((fault.code.as_str(), fault.maybe_delivered), ("NATS.ANSWER", true));
}

/// A killed server: the call waits for it for a part of its time, and the messages never learn of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_within_the_call_is_waited_for() {
    let mut server = Server::start().await.unwrap();
    let transport = to(&server).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 10, "orders.created")).await), 10);
    let mut tries = 0;
    let outcomes = loop {
        server.kill().await.unwrap();
        let sending = tokio::spawn({
            let transport = Arc::clone(&transport);
            async move {
                let began = std::time::Instant::now();
                (try_send(&transport, batch(10, 20, "orders.created")).await, began.elapsed())
            }
        });
        server.restart().await.unwrap();
        match sending.await.unwrap() {
            (Ok(outcomes), _) => break outcomes,
            // A call waits for five seconds: a machine that took about as long to start a server shows nothing.
            (Err(error), waited) => assert!(waited > WAITS_NEARLY, "{error:?} after {waited:?}"),
        }
        tries += 1;
        assert!(tries < 20, "no call ever met the server that was back");
    };
    assert_eq!(acknowledged(&outcomes), 10);
    // The instance is the one that was there before.
    assert_eq!(transport.lanes().len(), 1);
    server.kill().await.unwrap();
    let error = transport
        .send_batch(
            SendCall::new(0, std::time::Duration::from_secs(10)),
            batch(20, 21, "orders.created"),
            Arc::new(RecordedOutcomes::default()),
        )
        .await
        .unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "NATS.REFUSED"));
    assert!(!error.fault.maybe_delivered);
}
