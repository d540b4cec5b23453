//! Servers that are silent, talk nonsense, change their mind or go away, and what becomes of the messages under way.

use std::sync::Arc;

use serde_json::{Value, json};
use waybill_core::port::transport::{ErrorKind, Outcome, SendCall, Transport};

use super::fake::Fake;
use super::support::*;

/// One server, and how long its silence is borne at the start and later.
fn bearing(url: String, connect: &str, ack: &str) -> Value {
    json!({ "servers": [url], "connect_timeout": connect, "ack_timeout": ack })
}

/// Longer than a server on a busy machine is silent.
fn patient(url: String) -> Value {
    bearing(url, "15s", "15s")
}

/// Kind of the failure and its code.
async fn not_opened(config: Value) -> (ErrorKind, String, String) {
    let error = open(settings(config)).await.unwrap_err();
    (error.kind, error.fault.code, error.fault.reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_server_is_unavailable_and_says_why() {
    let silent = Fake::start(|mut peer| peer.linger());
    let web = Fake::start(|mut peer| {
        peer.say("HTTP/1.1 400 Bad Request");
        peer.linger();
    });
    let confused = Fake::start(|mut peer| {
        while peer.command().is_some() {
            peer.say("+OK");
        }
    });
    let loading = Fake::start(|mut peer| {
        while let Some(words) = peer.command() {
            peer.say(if words[0] == "HELLO" { "%0" } else { "-LOADING Redis is loading the dataset in memory" });
        }
    });
    let full = Fake::start(|mut peer| {
        peer.say("-ERR max number of clients reached");
        peer.linger();
    });
    let gone = Fake::start(|mut peer| {
        peer.command();
    });
    for (url, code) in [
        (silent.url(), "REDIS.ACK_TIMEOUT"),
        (web.url(), "REDIS.PROTOCOL"),
        (confused.url(), "REDIS.PROTOCOL"),
        (loading.url(), "REDIS.LOADING"),
        (full.url(), "REDIS.MAX_CLIENTS"),
        (gone.url(), "REDIS.LOST"),
        ("redis://127.0.0.1:1".to_owned(), "REDIS.REFUSED"),
    ] {
        let is_silent = code == "REDIS.ACK_TIMEOUT";
        let config = if is_silent { bearing(url.clone(), "500ms", "300ms") } else { patient(url.clone()) };
        let (kind, found, reason) = not_opened(config).await;
        assert_eq!((kind, found.as_str()), (ErrorKind::Unavailable, code), "{reason}");
        assert!(reason.contains(url.trim_start_matches("redis://")), "{reason}");
    }
    let (kind, code, reason) = not_opened(patient("redis://192.0.2.1:6379".to_owned())).await;
    assert_eq!((kind, code.as_str()), (ErrorKind::Denied, "REDIS.DENIED"));
    assert!(reason.contains("allow.net of orders-redis"), "{reason}");
}

/// Half of the batch is answered, then nothing more comes: those stand, the rest may be there all the same.
#[tokio::test(flavor = "multi_thread")]
async fn silence_after_a_while_gives_up_what_is_not_answered() {
    let fake = Fake::start(|mut peer| {
        for number in 1..=2 {
            if peer.published().is_none() {
                return;
            }
            peer.entry(&format!("{number}-0"));
        }
        peer.linger();
    });
    let transport = open(settings(bearing(fake.url(), "15s", "3s"))).await.unwrap();
    let outcomes = send(&transport, batch(0, 4, STREAM)).await;
    let [Outcome::Ack(_), Outcome::Ack(_), Outcome::Retryable(third), Outcome::Retryable(fourth)] = outcomes.as_slice()
    else {
        panic!("{outcomes:#?}")
    };
    for fault in [third, fourth] {
        assert_eq!((fault.code.as_str(), fault.maybe_delivered), ("REDIS.ACK_TIMEOUT", true));
    }
    // A new connection is made for the next.
    assert_eq!(acknowledged(&send(&transport, batch(4, 6, STREAM)).await), 2);
}

/// With a window of two, the others were never written: they are given back untried.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_costs_an_attempt_only_to_what_was_sent() {
    let fake = Fake::start(|mut peer| {
        if peer.published().is_some() {
            peer.entry("1-0");
            peer.published();
        }
    });
    let mut config = patient(fake.url());
    config["window"] = json!(2);
    let transport = open(settings(config)).await.unwrap();
    let outcomes = send(&transport, batch(0, 8, STREAM)).await;
    assert!(matches!(outcomes[0], Outcome::Ack(_)), "{outcomes:#?}");
    for (place, outcome) in outcomes.iter().enumerate().skip(1) {
        match outcome {
            Outcome::Retryable(fault) => assert!(fault.maybe_delivered && place <= 3, "{place}"),
            Outcome::Release(fault) => assert!(!fault.maybe_delivered && place >= 2, "{place}"),
            other => panic!("{place}: {other:?}"),
        }
    }
    assert!(matches!(outcomes[7], Outcome::Release(_)));
}

/// What servers say to a message, and what it means for it; the connection stays.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_says_of_a_message_is_its_fate() {
    for (words, fate) in [
        ("-MOVED 3999 127.0.0.1:6381", "blocked REDIS.CLUSTER"),
        ("-ASK 3999 127.0.0.1:6381", "blocked REDIS.CLUSTER"),
        ("-CROSSSLOT Keys in request don't hash to the same slot", "blocked REDIS.CROSS_SLOT"),
        ("-ERR The stream has exhausted the last possible ID, unable to add more items", "blocked REDIS.STREAM_FULL"),
        ("-ERR something nobody has heard of", "retry REDIS.ERROR"),
        ("+OK", "retry REDIS.ANSWER"),
        ("$-1", "retry REDIS.ANSWER"),
        ("*0", "retry REDIS.ANSWER"),
        (">2\r\n$10\r\ninvalidate\r\n*0\r\n$3\r\n1-0", "+"),
    ] {
        let fake = Fake::start(move |mut peer| {
            while peer.published().is_some() {
                peer.say(words);
                if peer.published().is_some() {
                    peer.entry("2-0");
                }
            }
        });
        let transport = open(settings(patient(fake.url()))).await.unwrap();
        assert_eq!(codes(&send(&transport, batch(0, 2, STREAM)).await), [fate, "+"], "{words}");
    }
}

/// What stops everything fails the call, but what was answered before stands; nothing more is written.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_says_of_itself_holds_everything() {
    for (words, kind, code) in [
        ("LOADING Redis is loading the dataset in memory", ErrorKind::Unavailable, "REDIS.LOADING"),
        ("MASTERDOWN Link with MASTER is down", ErrorKind::Unavailable, "REDIS.MASTER_DOWN"),
        ("MISCONF Redis is configured to save RDB snapshots", ErrorKind::Unavailable, "REDIS.MISCONF"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", ErrorKind::Unavailable, "REDIS.CLUSTER_DOWN"),
        ("NOAUTH Authentication required.", ErrorKind::Denied, "REDIS.AUTH"),
        ("ERR unknown command 'XADD'", ErrorKind::Unsupported, "REDIS.UNSUPPORTED"),
    ] {
        let fake = Fake::start(move |mut peer| {
            if peer.published().is_some() {
                peer.entry("1-0");
            }
            while peer.published().is_some() {
                peer.say(&format!("-{words}"));
            }
        });
        let mut config = patient(fake.url());
        config["window"] = json!(2);
        let transport = open(settings(config)).await.unwrap();
        let told = Arc::new(RecordedOutcomes::default());
        let sent = transport.send_batch(SendCall::new(0, AMPLE), batch(0, 8, STREAM), Arc::clone(&told) as _).await;
        let error = sent.unwrap_err();
        assert_eq!((error.kind, error.fault.code.as_str()), (kind, code), "{words}");
        assert!(!error.fault.maybe_delivered);
        let told = told.0.lock().unwrap();
        let [(0, Outcome::Ack(_))] = told.as_slice() else { panic!("{words}: {told:?}") };
    }
}

/// A server that never learns the script is given up with the call, not asked for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_at_once_ends_with_the_call() {
    let fake = Fake::start(|mut peer| {
        while peer.published().is_some() {
            peer.say("-NOSCRIPT No matching script. Please use EVAL.");
        }
    });
    let mut config = patient(fake.url());
    config["dedup"] = json!("window");
    let transport = open(settings(config)).await.unwrap();
    let outcomes = send(&transport, batch(0, 1, STREAM)).await;
    assert_eq!(codes(&outcomes), ["back REDIS.NO_SCRIPT"]);
}
