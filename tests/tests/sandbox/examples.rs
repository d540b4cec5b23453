//! The example of a transport from scratch, in the real sandbox, against the server that comes with it.

#[allow(dead_code, reason = "its main isn't ours")]
#[path = "../../../examples/transport-from-scratch/server/main.rs"]
mod ledger;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use waybill_core::annotations::Annotations;
use waybill_core::endpoint::{EndpointSettings, Grants};
use waybill_core::ids::{MessageId, Seq, Tenant};
use waybill_core::message::{Delivery, Message, Payload};
use waybill_core::port::transport::{ErrorKind, Health, Outcome, OutcomeSink, SendCall, Transport};
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;
use waybill_sandbox::{
    EndpointSpec, PluginSource, Sandbox, SandboxError, SandboxOptions, SecretFailure, SecretProvider, SecretValue,
    WasmTransport, World,
};
use waybill_tests::transport::AMPLE;

/// A ledger on a free port, for the life of the test.
fn ledger() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || ledger::serve(&listener, "a-token"));
    address
}

struct Token(&'static str);

#[async_trait]
impl SecretProvider for Token {
    async fn read(&self, _: &str) -> Result<SecretValue, SecretFailure> {
        Ok(SecretValue { bytes: self.0.as_bytes().to_vec(), expires_at: None })
    }
}

async fn start(address: SocketAddr, token: &'static str) -> Result<Arc<WasmTransport>, SandboxError> {
    let sandbox = Sandbox::new(SandboxOptions::default()).unwrap();
    let plugin = sandbox.load(PluginSource::File(waybill_tests::examples::LEDGER.into()), World::Transport).await?;
    let mut grants = Grants::none().allow([format!("tcp://{address}").as_str()]);
    grants.secrets.insert("token".to_owned(), "given:token".to_owned());
    let config = json!({ "address": address.to_string(), "window": 2 });
    let settings = EndpointSettings { config, grants, ..EndpointSettings::new("ledger") };
    WasmTransport::start(plugin, EndpointSpec { secrets: Arc::new(Token(token)), ..EndpointSpec::new(settings) }).await
}

fn delivery(id: &str, book: &str, payload: &str) -> Delivery {
    let message = Message {
        id: MessageId::new(id).unwrap(),
        caller_id: true,
        tenant: Tenant::new("acme").unwrap(),
        topic: Topic::parse("bus:ledger.orders").unwrap(),
        key: None,
        headers: Vec::new(),
        payload: Payload::Inline(payload.to_owned().into()),
        event_type: "x".to_owned(),
        event_version: 1,
        annotations: Annotations::default(),
        occurred_at: UnixMillis(0),
        created_at: UnixMillis(0),
        not_before: None,
        expires_at: None,
        statements: None,
        replays: 0,
        replayed_by: None,
    };
    let (message, payload) = (Arc::new(message), payload.to_owned().into());
    let (destination, attributes) = (book.to_owned(), Vec::new());
    Delivery { message, payload, destination, attempt: 1, lease_epoch: 1, seq: Seq(1), attributes }
}

#[derive(Default)]
struct RecordedOutcomes(Mutex<Vec<usize>>);

impl OutcomeSink for RecordedOutcomes {
    fn settled(&self, index: usize, _: Outcome) {
        self.0.lock().unwrap().push(index);
    }
}

fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ack(receipt) => {
            let number = receipt.broker_ref.as_deref().unwrap_or("?");
            if receipt.duplicate { format!("known {number}") } else { format!("entered {number}") }
        }
        Outcome::Retryable(fault) | Outcome::Permanent(fault) | Outcome::Release(fault) => fault.code.clone(),
        Outcome::Blocked { scope, fault } => format!("{} {scope:?}", fault.code),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_transport_from_scratch_writes_into_its_ledger() {
    let transport = start(ledger(), "a-token").await.expect("opens");
    assert_eq!(transport.health().await.health, Health::Ready);
    let batch = || {
        vec![
            delivery("m 1", "orders", "first"),
            delivery("m 2", "orders", "busy"),
            delivery("m 3", "orders", "never"),
            delivery("m 4", "closed", "x"),
            delivery("m 5", "orders", "a text\nof two lines"),
        ]
    };
    let told = Arc::new(RecordedOutcomes::default());
    let outcomes =
        transport.send_batch(SendCall::new(0, AMPLE), batch(), Arc::clone(&told) as _).await.expect("answers");
    let words: Vec<String> = outcomes.iter().map(word).collect();
    assert_eq!(words, ["entered 1", "LEDGER.BUSY", "LEDGER.NO", "LEDGER.CLOSED \"\"", "entered 2"]);
    assert_eq!(*told.0.lock().unwrap(), [0, 1, 2, 3, 4], "each is told as soon as it is known");

    // The same again, as after a crash: nothing is entered twice.
    let again = transport
        .send_batch(SendCall::new(0, AMPLE), batch(), Arc::new(RecordedOutcomes::default()))
        .await
        .expect("answers");
    let words: Vec<String> = again.iter().map(word).collect();
    assert_eq!(words, ["known 1", "entered 3", "LEDGER.NO", "LEDGER.CLOSED \"\"", "known 2"]);
    transport.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_told_apart_from_weather() {
    let refused = start(ledger(), "another").await.map(drop).expect_err("refused");
    assert!(matches!(refused, SandboxError::Open { kind: ErrorKind::Denied, .. }), "{refused}");
    assert!(!refused.to_string().contains("another"), "{refused}");
    // Bound and not listening: it refuses, and nobody else gets the port meanwhile.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let away = start(nobody.local_addr().unwrap(), "a-token").await.map(drop).expect_err("nobody there");
    assert!(matches!(away, SandboxError::Open { kind: ErrorKind::Unavailable, .. }), "{away}");
}
