//! Servers that are silent, talk nonsense, ask to wait or go away, and what becomes of the messages under way.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::transport::{ErrorKind, Outcome, SendCall, Transport};
use waybill_testkit::rabbitmq::Server;

use super::fake::Fake;
use super::support::*;

/// Longest a few calls take, one of which may wait to its end for a server that just came back.
const SEVERAL_CALLS: Duration = Duration::from_secs(240);

/// These servers, and how long their silence is borne at the start and later.
fn bearing(servers: &[String], connect: &str, confirm: &str) -> Value {
    json!({ "servers": servers, "connect_timeout": connect, "confirm_timeout": confirm, "order": "listed" })
}

/// Longer than a server on a busy machine is silent.
fn patient(servers: &[String]) -> Value {
    bearing(servers, "15s", "15s")
}

/// Kind of the failure and its code.
async fn refused(config: Value) -> (ErrorKind, String, String) {
    let error = open(settings(config)).await.unwrap_err();
    (error.kind, error.fault.code, error.fault.reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_server_is_unavailable_and_says_why() {
    let silent = Fake::start(|mut peer| peer.linger());
    let web = Fake::start(|mut peer| peer.say_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let newer = Fake::start(|mut peer| peer.say_bytes(b"AMQP\x03\x01\x00\x00"));
    let gone = Fake::start(drop);
    let full = Fake::start(|mut peer| {
        let _ = peer.start("publisher_confirms").and_then(|()| peer.until((10, 11)));
        peer.close(0, 530, "NOT_ALLOWED - access to vhost '/' refused: connection limit (1) is reached");
        peer.linger();
    });
    for (url, code) in [
        (silent.url(), "RABBITMQ.TIMEOUT"),
        (web.url(), "RABBITMQ.PROTOCOL"),
        (newer.url(), "RABBITMQ.PROTOCOL"),
        (gone.url(), "RABBITMQ.LOST"),
        (full.url(), "RABBITMQ.MAX_CONNECTIONS"),
        ("amqp://127.0.0.1:1".to_owned(), "RABBITMQ.REFUSED"),
    ] {
        let servers = [url.clone()];
        let is_silent = code == "RABBITMQ.TIMEOUT";
        let config = if is_silent { bearing(&servers, "500ms", "15s") } else { patient(&servers) };
        let (kind, found, reason) = refused(config).await;
        assert_eq!((kind, found.as_str()), (ErrorKind::Unavailable, code), "{reason}");
        assert!(reason.contains(url.trim_start_matches("amqp://")), "{reason}");
    }
    let without = Fake::start(|mut peer| {
        let _ = peer.start("basic.nack");
        peer.linger();
    });
    assert_eq!(refused(patient(&[without.url()])).await.1, "RABBITMQ.NO_CONFIRMS");
    let (kind, code, reason) = refused(patient(&["amqp://192.0.2.1:5672".to_owned()])).await;
    assert_eq!((kind, code.as_str()), (ErrorKind::Denied, "RABBITMQ.DENIED"));
    assert!(reason.contains("allow.net of orders-rabbit"), "{reason}");
}

/// Half of the batch is confirmed, then nothing more comes: those stand, the rest may be there all the same.
#[tokio::test(flavor = "multi_thread")]
async fn silence_after_a_while_gives_up_what_is_not_confirmed() {
    let fake = Fake::start(|mut peer| {
        let _ = peer.greet(0).and_then(|()| {
            peer.until_published(1)?;
            peer.confirm(1, false);
            peer.until_published(4)?;
            peer.confirm(2, true);
            peer.linger();
            Some(())
        });
    });
    let transport = open(settings(bearing(&[fake.url()], "15s", "3s"))).await.unwrap();
    let outcomes = send(&transport, batch(0, 4, "orders.created")).await;
    assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), ("aaRR", vec!["RABBITMQ.CONFIRM_TIMEOUT"; 2]));
    // A new connection is made for the next.
    let outcomes = send(&transport, batch(4, 5, "orders.created")).await;
    assert_eq!(fates(&outcomes), "a", "{outcomes:#?}");
}

/// Signs of life are no confirms, and they are given while confirms are waited for.
#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_go_on_and_are_no_confirms() {
    let beats = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&beats);
    let fake = Fake::start(move |mut peer| {
        let _ = peer.greet(3).and_then(|()| -> Option<()> {
            peer.until_published(1)?;
            loop {
                peer.until_heartbeat()?;
                seen.fetch_add(1, Ordering::SeqCst);
                peer.say_bytes(&[8, 0, 0, 0, 0, 0, 0, 0xce]);
            }
        });
    });
    let transport = open(settings(bearing(&[fake.url()], "15s", "9s"))).await.unwrap();
    let outcomes = send(&transport, batch(0, 1, "orders.created")).await;
    assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), ("R", vec!["RABBITMQ.CONFIRM_TIMEOUT"]));
    assert!(beats.load(Ordering::SeqCst) >= 3, "{beats:?}");
}

/// With a window of two, the others were never written: they are given back untried.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_costs_an_attempt_only_to_what_was_sent() {
    let fake = Fake::start(|mut peer| {
        let _ = peer.greet(0).and_then(|()| {
            peer.until_published(1)?;
            peer.confirm(1, false);
            peer.until_published(3)
        });
    });
    let mut config = patient(&[fake.url()]);
    config["window"] = json!(2);
    let transport = open(settings(config)).await.unwrap();
    let outcomes = send(&transport, batch(0, 8, "orders.created")).await;
    assert_eq!(fates(&outcomes), "aRR-----", "{outcomes:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_says_before_it_closes_is_the_reason() {
    for (channel, code, text, fate, expected) in [
        (
            0,
            320,
            "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
            "aRR",
            "RABBITMQ.CLOSED",
        ),
        (0, 541, "INTERNAL_ERROR", "aRR", "RABBITMQ.UNAVAILABLE"),
        (0, 501, "FRAME_ERROR", "aRR", "RABBITMQ.SERVER_ERROR"),
        (1, 406, "PRECONDITION_FAILED - something", "aRR", "RABBITMQ.CHANNEL_CLOSED"),
        (1, 404, "NOT_FOUND - no exchange 'amq.topic' in vhost '/'", "aRR", "RABBITMQ.NO_EXCHANGE"),
        (1, 403, "ACCESS_REFUSED - access to exchange 'amq.topic' in vhost '/' refused", "abb", "RABBITMQ.PERMISSIONS"),
    ] {
        let fake = Fake::start(move |mut peer| {
            let _ = peer.greet(0).and_then(|()| {
                peer.until_published(1)?;
                peer.confirm(1, false);
                peer.until_published(3)?;
                peer.close(channel, code, text);
                peer.linger();
                Some(())
            });
        });
        let transport = open(settings(patient(&[fake.url()]))).await.unwrap();
        let outcomes = send(&transport, batch(0, 3, "orders.created")).await;
        assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), (fate, vec![expected; 2]), "{text}");
    }
}

/// The rest isn't sent, what was is waited for, and the connection that was blocked is the one that goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_to_wait_in_the_middle_of_a_batch() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let is_told = Arc::new(AtomicBool::new(false));
    let goes_on = Arc::clone(&is_told);
    let fake = Fake::start(move |mut peer| {
        count.fetch_add(1, Ordering::SeqCst);
        let _ = peer.greet(0).and_then(|()| {
            peer.until_published(1)?;
            peer.confirm(1, false);
            peer.until_published(3)?;
            peer.block(Some("low on disk"));
            peer.confirm(2, false);
            // Longer than `confirm_timeout`.
            std::thread::sleep(Duration::from_secs(4));
            peer.confirm(3, false);
            wait_for(&goes_on);
            peer.block(None);
            peer.until_published(4)?;
            peer.confirm(4, false);
            peer.linger();
            Some(())
        });
    });
    let mut config = bearing(&[fake.url()], "15s", "2s");
    config["window"] = json!(2);
    config["connections"] = json!(1);
    let transport = open(settings(config)).await.unwrap();
    let outcomes = send(&transport, batch(0, 6, "orders.created")).await;
    assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), ("aaa---", vec!["RABBITMQ.BLOCKED"; 3]));
    let error = try_send(&transport, batch(3, 4, "orders.created")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Throttled, "{error:?}");
    assert!(error.fault.reason.contains("low on disk"), "{error:?}");
    is_told.store(true, Ordering::SeqCst);
    let later = tokio::time::timeout(SEVERAL_CALLS, async {
        loop {
            if let Ok(outcomes) = try_send(&transport, batch(3, 4, "orders.created")).await {
                break outcomes;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert_eq!(fates(&later.await.expect("goes on")), "a");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// What is on its way when the call ends may be there; the connection stays, and a late word isn't taken for another's.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ends_under_an_alarm_keeps_the_connection() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let is_over = Arc::new(AtomicBool::new(false));
    let goes_on = Arc::clone(&is_over);
    let fake = Fake::start(move |mut peer| {
        count.fetch_add(1, Ordering::SeqCst);
        let _ = peer.greet(0).and_then(|()| {
            peer.until_published(1)?;
            peer.block(Some("low on memory"));
            wait_for(&goes_on);
            peer.confirm(1, false);
            peer.block(None);
            peer.until_published(2)?;
            peer.confirm(2, true);
            peer.linger();
            Some(())
        });
    });
    let mut config = patient(&[fake.url()]);
    config["connections"] = json!(1);
    let transport = open(settings(config)).await.unwrap();
    let call =
        transport.send_batch(SendCall::new(0, Duration::from_secs(5)), batch(0, 2, "orders.created"), Arc::new(Nobody));
    let outcomes = call.await.unwrap();
    assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), ("R-", vec!["RABBITMQ.BLOCKED"; 2]));
    is_over.store(true, Ordering::SeqCst);
    let later = tokio::time::timeout(SEVERAL_CALLS, async {
        loop {
            if let Ok(outcomes) = try_send(&transport, batch(0, 1, "orders.created")).await {
                break outcomes;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert_eq!(fates(&later.await.expect("goes on")), "a");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// Waits in the thread of a peer.
fn wait_for(told: &AtomicBool) {
    while !told.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Nobody;

impl waybill_core::port::transport::OutcomeSink for Nobody {
    fn settled(&self, _: usize, _: Outcome) {}
}

/// The first server in the list goes; the second takes over. A message may be written before the end of the connection is
/// seen: then it may be there, and it is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn another_server_takes_over() {
    let (first_count, second_count) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let serve = |count: &Arc<AtomicUsize>, most: u64| {
        let count = Arc::clone(count);
        Fake::start(move |mut peer| {
            let _ = peer.greet(0).and_then(|()| {
                for number in 1..=most {
                    peer.until_published(number)?;
                    count.fetch_add(1, Ordering::SeqCst);
                    peer.confirm(number, false);
                }
                Some(())
            });
        })
    };
    let (first, second) = (serve(&first_count, 2), serve(&second_count, 100));
    let mut config = patient(&[first.url(), second.url()]);
    config["connections"] = json!(1);
    let transport = open(settings(config)).await.unwrap();
    for number in 0..6 {
        let message = || batch(number, number + 1, "orders.created");
        let mut outcomes = send(&transport, message()).await;
        if number == 2 && fates(&outcomes) == "R" {
            outcomes = send(&transport, message()).await;
        }
        assert_eq!(fates(&outcomes), "a", "{number}: {outcomes:#?}");
    }
    assert_eq!((first_count.load(Ordering::SeqCst), second_count.load(Ordering::SeqCst)), (2, 4));
}

/// A killed server: the next call finds the connection gone, and one after its return goes through in the same instance.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_is_found_again() {
    let mut server = Server::start().await.unwrap();
    topology(&server, "orders").await;
    let mut config = patient(&[server.url()]);
    config["exchange"] = json!("orders");
    let transport = open(settings(config)).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 10, "orders.created")).await), 10);
    server.write_declared().await.unwrap();
    server.kill().await.unwrap();
    let call = transport.send_batch(
        SendCall::new(0, Duration::from_secs(10)),
        batch(10, 11, "orders.created"),
        Arc::new(Nobody),
    );
    let error = call.await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "RABBITMQ.REFUSED"), "{error:?}");
    assert!(!error.fault.maybe_delivered);
    server.restart().await.unwrap();
    // A server that has just come back may take a part of a batch: the rest is sent again, as the host would.
    let (mut unsettled, mut last) = ((10..20).collect::<Vec<u64>>(), String::new());
    let through = tokio::time::timeout(SEVERAL_CALLS, async {
        while !unsettled.is_empty() {
            let messages = unsettled.iter().flat_map(|number| batch(*number, number + 1, "orders.created")).collect();
            match try_send(&transport, messages).await {
                Ok(outcomes) => {
                    last = format!("{outcomes:?}");
                    let fates = fates(&outcomes);
                    let mut fates = fates.chars();
                    unsettled.retain(|_| fates.next() != Some('a'));
                }
                Err(error) => last = format!("{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert!(through.await.is_ok(), "it doesn't come back; the last call: {last}\n{}", server.log());
    let all = server.client().await.unwrap().read_all("orders").await.unwrap();
    let ids: HashSet<_> = all.iter().map(|message| message.property("message-id").unwrap()).collect();
    assert_eq!(ids.len(), 20, "{} messages", all.len());
}
