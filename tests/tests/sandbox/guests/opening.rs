//! Guests whose `open` fails, each in its way.

use std::time::Duration;

use serde_json::json;
use waybill_core::port::transport::{ErrorKind, Transport};
use waybill_sandbox::{EndpointSpec, SandboxError, WasmTransport, World};
use waybill_tests::guests;

use super::support::*;

async fn open_error(path: &str, spec: EndpointSpec) -> SandboxError {
    let plugin = load(path, World::Transport).await.expect("loads");
    WasmTransport::start(plugin, spec).await.expect_err("doesn't open")
}

fn kind(error: &SandboxError) -> ErrorKind {
    assert_eq!(error.code().as_str(), "PLUGIN.OPEN_FAILED");
    match error {
        SandboxError::Open { kind, .. } => *kind,
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
pub async fn open_invalid_config() {
    let error = open_error(guests::OPEN_INVALID_CONFIG, settings(json!({ "address": "nowhere" }))).await;
    assert_eq!(kind(&error), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("nowhere") && error.to_string().contains("correct its config"), "{error}");
    assert!(!error.retryable());
}

#[tokio::test(flavor = "multi_thread")]
pub async fn open_denied() {
    let error = open_error(guests::OPEN_DENIED, settings(json!({}))).await;
    assert_eq!(kind(&error), ErrorKind::Denied);
    assert!(error.to_string().contains("secrets"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
pub async fn open_panics() {
    let error = open_error(guests::OPEN_PANICS, settings(json!({}))).await;
    assert_eq!(kind(&error), ErrorKind::Trapped);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn open_loops() {
    let mut settings = settings(json!({}));
    settings.limits.open_timeout = SHORT;
    let error = open_error(guests::OPEN_LOOPS, settings).await;
    assert_eq!(kind(&error), ErrorKind::TimedOut);
    the_host_still_serves().await;
}

/// Kept supervised, a refused one isn't tried again until somebody says so, and calls say why.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_open_waits_to_be_told() {
    let plugin = load(guests::OPEN_DENIED, World::Transport).await.expect("loads");
    let (transport, opened) = WasmTransport::start_supervised(plugin, settings(json!({}))).await.expect("kept");
    assert!(opened.is_err());
    let error = send(&transport, batch(1)).await.expect_err("not open");
    assert_eq!(error.kind, ErrorKind::Denied);
    assert_eq!(transport.lanes()[0].0, "refused");
    transport.reopen();
    eventually("it is refused again", || transport.lanes()[0].0 == "refused").await;
    transport.close(AMPLE).await;
    assert_eq!(transport.lanes()[0].0, "closed");
}

/// A peer that isn't there yet is tried again by itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_peer_is_tried_again() {
    // Bound and not listening: it refuses, and nobody else gets the port meanwhile.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let grant = format!("tcp://{address}");
    let plugin = load(guests::ECHOES_BY_NET, World::Transport).await.expect("loads");
    let config = json!({ "address": address.to_string() });
    let (transport, opened) = WasmTransport::start_supervised(plugin, granting(config, &[&grant])).await.expect("kept");
    assert!(opened.is_err_and(|error| error.retryable()));
    let error = send(&transport, batch(1)).await.expect_err("not open");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.fault.after.is_some_and(|after| after <= Duration::from_secs(1)));

    let listener = socket.listen(16).unwrap();
    tokio::spawn(async move {
        let mut peers = Vec::new();
        while let Ok(peer) = listener.accept().await {
            peers.push(peer);
        }
    });
    eventually("it opens", || transport.lanes()[0].0 == "serving").await;
}

/// What it claims of itself is cut to what the host has.
#[tokio::test(flavor = "multi_thread")]
pub async fn open_claims_absurd_limits() {
    let transport = start_plain(guests::OPEN_CLAIMS_ABSURD_LIMITS).await;
    let limits = transport.limits();
    assert_eq!((limits.max_batch, limits.calls_per_lane), (1, 64));
    // A batch larger than that is sent as far as it goes; the rest is given back untried.
    let outcomes = send(&transport, batch(3)).await.expect("serves");
    let words: Vec<&str> = outcomes
        .iter()
        .map(|outcome| match outcome {
            waybill_core::port::transport::Outcome::Ack(_) => "ack",
            waybill_core::port::transport::Outcome::Release(_) => "release",
            _ => "other",
        })
        .collect();
    assert_eq!(words, ["ack", "release", "release"]);
}

/// A probe opens, asks, and leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_probe_says_whether_it_would_work() {
    let plugin = load(guests::MIRRORS, World::Transport).await.expect("loads");
    assert!(WasmTransport::probe(plugin, settings(json!({}))).await.is_ok());
    let plugin = load(guests::OPEN_DENIED, World::Transport).await.expect("loads");
    assert_eq!(kind(&WasmTransport::probe(plugin, settings(json!({}))).await.expect_err("denied")), ErrorKind::Denied);
    let plugin = load(guests::FAILS_BESIDES_SENDING, World::Transport).await.expect("loads");
    assert_eq!(kind(&WasmTransport::probe(plugin, settings(json!({}))).await.expect_err("traps")), ErrorKind::Trapped);
}
