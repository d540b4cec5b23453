//! Guests that flood the host: with entries, measurements, texts.

use std::sync::{Arc, Mutex};

use serde_json::json;
use waybill_core::port::transport::{Outcome, Transport};
use waybill_tests::guests;

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
pub async fn floods_the_log() {
    let transport = start(guests::FLOODS_THE_LOG, settings(json!({ "amount": 5_000 }))).await;
    assert_eq!(send(&transport, batch(1)).await.expect("serves").len(), 1);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn floods_stdout() {
    let transport = start(guests::FLOODS_STDOUT, settings(json!({ "amount": 5_000 }))).await;
    assert_eq!(send(&transport, batch(1)).await.expect("serves").len(), 1);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn floods_metrics() {
    let transport = start(guests::FLOODS_METRICS, settings(json!({ "amount": 5_000 }))).await;
    assert_eq!(send(&transport, batch(1)).await.expect("serves").len(), 1);
    the_host_still_serves().await;
}

/// Texts are cut; more than a call may hand over ends the instance.
#[tokio::test(flavor = "multi_thread")]
pub async fn huge_outcome() {
    let transport = start(guests::HUGE_OUTCOME, settings(json!({ "amount": 100_000 }))).await;
    let outcomes = send(&transport, batch(1)).await.expect("serves");
    let [Outcome::Blocked { scope, fault }] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert!(scope.len() <= 1_024 && fault.reason.len() <= 1_024 && fault.code.len() <= 64);
    assert!(fault.attributes.iter().all(|(name, value)| name.len() <= 256 && value.len() <= 256));

    let transport = start(guests::HUGE_OUTCOME, settings(json!({ "amount": 2_000_000 }))).await;
    assert!(send(&transport, batch(1)).await.is_err());
    the_host_still_serves().await;
    transport.close(AMPLE).await;
}

/// Cut to what a receipt may hold.
#[tokio::test(flavor = "multi_thread")]
pub async fn huge_receipt() {
    let transport = start(guests::HUGE_RECEIPT, settings(json!({ "amount": 100_000 }))).await;
    let outcomes = send(&transport, batch(3)).await.expect("serves");
    for outcome in outcomes {
        let Outcome::Ack(receipt) = outcome else { panic!("{outcome:?}") };
        assert!(receipt.broker_ref.is_some_and(|text| text.len() == 256));
        assert_eq!(receipt.attributes.len(), 32);
        assert!(receipt.attributes.iter().all(|(_, value)| value.len() == 256));
    }
}

/// More than a call may hand over never reaches the host's memory.
#[tokio::test(flavor = "multi_thread")]
pub async fn huge_string() {
    let transport = start(guests::HUGE_STRING, settings(json!({ "amount": 100_000 }))).await;
    assert_eq!(send(&transport, batch(1)).await.expect("serves").len(), 1);
    let transport = start(guests::HUGE_STRING, settings(json!({ "amount": 8_000_000 }))).await;
    let error = send(&transport, batch(1)).await.expect_err("ends");
    assert!(error.fault.reason.contains("fuel allocated for hostcalls"), "{}", error.fault.reason);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn hoards_handles() {
    let transport = start(guests::HOARDS_HANDLES, settings(json!({ "amount": 500 }))).await;
    assert_eq!(seen(&transport).await, "holds 500");
    let transport = start(guests::HOARDS_HANDLES, settings(json!({ "amount": 5_000 }))).await;
    let error = send(&transport, batch(1)).await.expect_err("ends");
    let reason = error.fault.reason;
    assert!(reason.contains("handle limit exceeded") || reason.contains("no free keys"), "{reason}");
    the_host_still_serves().await;
}

/// Refused before anybody is connected to.
#[tokio::test(flavor = "multi_thread")]
pub async fn floods_headers() {
    let server = Server::start();
    let granted = format!("http://{}", server.address);
    let config = |amount: usize| json!({ "address": server.address.to_string(), "amount": amount });
    let transport = start(guests::FLOODS_HEADERS, granting(config(100), &[&granted])).await;
    let refused = seen(&transport).await;
    assert!(refused.contains("Limit") && refused.contains("headers"), "{refused}");
    assert_eq!(server.connects().await, 0);
}

/// No more than so many go in one call; the others aren't sent.
#[tokio::test(flavor = "multi_thread")]
pub async fn hoards_answers() {
    let server = Server::start();
    let granted = format!("http://{}", server.address);
    let config = json!({ "address": server.address.to_string(), "amount": 300 });
    let transport = start(guests::HOARDS_ANSWERS, granting(config, &[&granted])).await;
    assert_eq!(seen(&transport).await, "256 whole, 0 cut, 44 none, 0 bytes");
}

/// What everything of this process writes to its log.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Every text of a guest stays on its line, wherever it goes: log, stdout, receipts, faults.
#[tokio::test(flavor = "multi_thread")]
pub async fn forges_log_lines() {
    let written = Written::default();
    let writer = written.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::set_global_default(log).expect("nobody else of this process reads the log");

    let transport = start_plain(guests::FORGES_LOG_LINES).await;
    let outcomes = send(&transport, batch(3)).await.expect("serves");
    let [Outcome::Ack(receipt), Outcome::Permanent(forged), Outcome::Permanent(coded)] = outcomes.as_slice() else {
        panic!("{outcomes:?}")
    };
    const SHOWN: &str = "\\r\\n2026-11-22T00:00:00Z  INFO forged: \\u{1b}[2K\\u{202e}";
    assert_eq!(receipt.broker_ref.as_deref(), Some(format!("a{SHOWN}receipt").as_str()));
    assert_eq!((forged.code.as_str(), forged.reason.clone()), ("FIXTURE.FORGED", format!("a{SHOWN}reason")));
    assert_eq!(forged.attributes, [("a\\rb".to_owned(), SHOWN.to_owned())]);
    assert_eq!(coded.code, "PLUGIN.BAD_CODE");
    assert!(coded.reason.ends_with(": a code of two lines") && !coded.reason.contains(char::is_control), "{coded:?}");
    transport.close(AMPLE).await;

    let log = || String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    eventually("stdout, stderr and the log are written", || {
        ["stdout", "stderr", "message", "field"].iter().all(|word| log().contains(word))
    })
    .await;
    let log = log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("INFO forged")).collect();
    assert!(lines.len() >= 3 && lines.iter().all(|line| !line.starts_with("2026-11-22")), "{lines:#?}");
    assert!(!log.contains(['\r', '\u{1b}', '\u{202e}']), "{log}");
}
