//! Starts the transport.

use std::sync::Arc;

use serde_json::{Value, json};
use waybill_core::message::Delivery;
use waybill_core::port::transport::{CallError, ErrorKind, Outcome};
use waybill_sandbox::{EndpointSpec, WasmTransport};
use waybill_testkit::redis::{Entry, Server};
use waybill_tests::transport;
pub use waybill_tests::transport::{AMPLE, RecordedOutcomes, acknowledged, batch, send, try_send};

pub const STREAM: &str = "orders.created";

/// Settings that reach loopback, with this configuration.
pub fn settings(config: Value) -> EndpointSpec {
    transport::settings("orders-redis", config)
}

/// The same with secrets granted, by the names the plugin asks for.
pub fn with_secrets(config: Value, secrets: &[(&str, &str)]) -> EndpointSpec {
    transport::grant(settings(config), secrets)
}

/// Serves; the error is that of the first `open`.
pub async fn open(settings: EndpointSpec) -> Result<Arc<WasmTransport>, CallError> {
    transport::open("redis", settings).await
}

/// A transport to this server, with more configuration.
pub async fn to(server: &Server, more: Value) -> Arc<WasmTransport> {
    let mut config = json!({ "servers": [server.url()] });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    open(settings(config)).await.expect("opens")
}

/// What is in the stream.
pub async fn stored(server: &Server) -> Vec<Entry> {
    server.client().await.unwrap().read_all(STREAM).await.unwrap()
}

pub fn ids(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.field("id").unwrap()).collect()
}

/// Runs one command at the server.
pub async fn command(server: &Server, words: &[&str]) -> String {
    server.client().await.unwrap().ask(words).await.unwrap().text()
}

/// A call that fails as a whole: kind and code, and that nothing of it was delivered.
pub async fn refused(transport: &WasmTransport, batch: Vec<Delivery>) -> (ErrorKind, String) {
    let error = try_send(transport, batch).await.unwrap_err();
    assert!(!error.fault.maybe_delivered, "{error:?}");
    (error.kind, error.fault.code)
}

/// Codes of what became of a batch; `+` for delivered.
pub fn codes(outcomes: &[Outcome]) -> Vec<String> {
    let code = |outcome: &Outcome| match outcome {
        Outcome::Ack(_) => "+".to_owned(),
        Outcome::Retryable(fault) => format!("retry {}", fault.code),
        Outcome::Permanent(fault) => format!("dead {}", fault.code),
        Outcome::Blocked { fault, .. } => format!("blocked {}", fault.code),
        Outcome::Release(fault) => format!("back {}", fault.code),
    };
    outcomes.iter().map(code).collect()
}
