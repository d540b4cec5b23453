//! Guests that behave, to see that what they are given is right.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use waybill_core::port::kv::{KvQuota, KvStore};
use waybill_core::port::transport::{Health, Outcome, SendCall, Transport};
use waybill_sandbox::{EndpointSpec, MemoryKv, SecretFailure, SecretProvider, SecretValue};
use waybill_tests::guests;

use super::support::*;

/// Everything that a message and an instance are told.
#[tokio::test(flavor = "multi_thread")]
pub async fn mirrors() {
    let mut spec = EndpointSpec { generation: 4, ..settings(json!({})) };
    spec.settings.instances = 2;
    let transport = start(guests::MIRRORS, spec).await;
    let identity = transport.identity();
    assert_eq!((identity.plugin.as_str(), identity.generation), ("guest", 4));
    let outcomes = transport
        .send_batch(
            SendCall::new(1, AMPLE),
            vec![delivery(9, "{\"n\":9}"), delivery(10, "x")],
            Arc::new(RecordedOutcomes::default()),
        )
        .await
        .expect("serves");
    let [Outcome::Ack(first), Outcome::Ack(_)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    let seen: HashMap<&str, &str> =
        first.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for (name, value) in [
        ("name", "fixture"),
        ("purpose", "OpenPurpose::Serve"),
        ("instance", "1/2"),
        ("generation", "4"),
        ("batch", "2"),
        ("timeout-told", "true"),
        ("id", "m9"),
        ("tenant", "acme"),
        ("topic", "bus:orders.created"),
        ("destination", "orders.created"),
        ("key", "order-9"),
        ("content-type", "application/json"),
        ("payload", "{\"n\":9}"),
        ("event-type", "order.created"),
        ("envelope-id", "env-1"),
        ("correlation-id", "cor-1"),
        ("causation-id", "-"),
        ("reply-to", "-"),
        ("occurred-at", "1700000000000"),
        ("created-at", "1700000000500"),
        ("expires-at", "-"),
        ("attempt", "2"),
        ("lease-epoch", "7"),
        ("headers", "x-shop=berlin;traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("attributes", "seq=9;event-version=3;aggregate-type=order;aggregate-id=9"),
    ] {
        assert_eq!(seen.get(name), Some(&value), "{name}");
    }
}

/// TCP both ways, with the peer's word as the outcome.
#[tokio::test(flavor = "multi_thread")]
pub async fn echoes_by_net() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap_or(0) > 0 {
            let word: &[u8] = if line.trim() == "bad" { b"no\n" } else { b"ok\n" };
            writer.write_all(word).unwrap();
            line.clear();
        }
    });
    let grant = format!("tcp://{address}");
    let config = json!({ "address": address.to_string() });
    let transport = start(guests::ECHOES_BY_NET, granting(config, &[&grant])).await;
    let told = Arc::new(RecordedOutcomes::default());
    let batch = vec![delivery(1, "good"), delivery(2, "bad"), delivery(3, "good")];
    let outcomes = transport.send_batch(SendCall::new(0, AMPLE), batch, told.clone()).await.expect("serves");
    assert!(matches!(
        outcomes.as_slice(),
        [Outcome::Ack(_), Outcome::Retryable(fault), Outcome::Ack(_)] if fault.code == "LINES.REFUSED"
    ));
    assert_eq!(told.places(), [0, 1, 2]);
    let report = transport.health().await;
    assert_eq!((report.health, report.detail), (Health::Ready, Some(address.to_string())));
    transport.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn keeps_in_kv() {
    let kv: Arc<dyn KvStore> = Arc::new(MemoryKv::default());
    let with = |amount: usize, granted: bool| {
        let mut spec = EndpointSpec { kv: Some(Arc::clone(&kv)), ..settings(json!({ "amount": amount })) };
        spec.settings.grants.kv = granted.then(KvQuota::default);
        spec
    };
    let transport = start(guests::KEEPS_IN_KV, with(0, true)).await;
    assert_eq!(seen(&transport).await, "1");
    assert_eq!(seen(&transport).await, "2");
    // Another instance goes on where the last one was.
    assert_eq!(seen(&*start(guests::KEEPS_IN_KV, with(0, true)).await).await, "3");
    assert!(seen(&*start(guests::KEEPS_IN_KV, with(1_000_000, true)).await).await.contains("TooLarge"));
    let refused = seen(&*start(guests::KEEPS_IN_KV, with(0, false)).await).await;
    assert!(refused.contains("allow.kv"), "{refused}");
}

struct Vault(BTreeMap<&'static str, &'static str>);

#[async_trait]
impl SecretProvider for Vault {
    async fn read(&self, source: &str) -> Result<SecretValue, SecretFailure> {
        let value = self.0.get(source).ok_or_else(|| SecretFailure::NotFound(source.to_owned()))?;
        Ok(SecretValue { bytes: value.as_bytes().to_vec(), expires_at: None })
    }
}

fn with_secrets(granted: &[(&str, &str)], config: serde_json::Value) -> EndpointSpec {
    let vault = Vault(BTreeMap::from([("vault:a", "correct horse battery"), ("vault:b", "other")]));
    let mut spec = EndpointSpec { secrets: Arc::new(vault), ..settings(config) };
    let sources = granted.iter().map(|(name, source)| ((*name).to_owned(), (*source).to_owned()));
    spec.settings.grants.secrets = sources.collect();
    spec
}

/// Only what is asked for and granted and there.
#[tokio::test(flavor = "multi_thread")]
pub async fn reads_secrets() {
    let config = json!({ "names": ["granted", "withheld", "unasked"] });
    let granted = [("granted", "vault:a"), ("unasked", "vault:b")];
    let transport = start(guests::READS_SECRETS, with_secrets(&granted, config.clone())).await;
    let report = seen(&transport).await;
    assert!(report.contains("granted: 21 bytes"), "{report}");
    assert!(report.contains("withheld: ") && report.to_lowercase().contains("denied"), "{report}");
    assert!(!report.contains("unasked: 5 bytes"), "{report}");
    let transport = start(guests::READS_SECRETS, with_secrets(&[("granted", "vault:gone")], config)).await;
    let report = seen(&transport).await;
    assert!(report.to_lowercase().contains("notfound") || report.to_lowercase().contains("not-found"), "{report}");
}

/// A value it has read doesn't come out again in anything the host keeps.
#[tokio::test(flavor = "multi_thread")]
pub async fn tells_secrets() {
    let transport = start(guests::TELLS_SECRETS, with_secrets(&[("granted", "vault:a")], json!({}))).await;
    let outcomes = send(&transport, batch(2)).await.expect("serves");
    let text = format!("{outcomes:?}");
    assert!(text.contains("the secret is [redacted]"), "{text}");
    assert!(!text.contains("correct horse"), "{text}");
}

/// Closing asks running calls to end, and they give their messages back untried.
#[tokio::test(flavor = "multi_thread")]
pub async fn ends_when_cancelled() {
    let transport = start_plain(guests::ENDS_WHEN_CANCELLED).await;
    let sending = {
        let transport = Arc::clone(&transport);
        tokio::spawn(async move { send(&transport, batch(2)).await })
    };
    // Health waits behind the call, so it tells when the call is running: not before its own deadline is near.
    tokio::task::yield_now().await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    transport.close(AMPLE).await;
    match sending.await.unwrap() {
        Ok(outcomes) => assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Release(_)))),
        Err(error) => assert_eq!(error.fault.code, "PLUGIN.CLOSED", "closed before it was taken"),
    }
    assert_eq!(send(&transport, batch(1)).await.expect_err("has ended").fault.code, "PLUGIN.CLOSED");
}

/// A deadline near makes a call end by itself, before the host would drop its instance.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_told_when_its_time_is_nearly_over() {
    let transport = start_plain(guests::ENDS_WHEN_CANCELLED).await;
    let timeout = std::time::Duration::from_secs(10);
    let outcomes = transport
        .send_batch(SendCall::new(0, timeout), batch(1), Arc::new(RecordedOutcomes::default()))
        .await
        .expect("in time");
    assert!(matches!(outcomes.as_slice(), [Outcome::Release(_)]));
}

/// Batches on one lane of a plugin that takes several calls at once all come back, each with its own outcomes.
#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_dont_mix() {
    let transport = start_plain(guests::MIRRORS).await;
    let calls = (0..40_u64).map(|number| {
        let transport = Arc::clone(&transport);
        async move {
            let batch = (0..5).map(|place| delivery(number * 10 + place, "x")).collect();
            let outcomes = send(&transport, batch).await.expect("serves");
            for (place, outcome) in outcomes.into_iter().enumerate() {
                assert_eq!(reference(vec![outcome]), format!("m{}", number * 10 + place as u64));
            }
        }
    });
    futures_join(calls).await;
}

async fn futures_join(calls: impl Iterator<Item = impl Future<Output = ()> + Send + 'static>) {
    let tasks: Vec<_> = calls.map(tokio::spawn).collect();
    for task in tasks {
        task.await.unwrap();
    }
}
