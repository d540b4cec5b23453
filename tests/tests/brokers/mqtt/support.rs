//! Starts the transport.

use std::sync::Arc;

use serde_json::{Value, json};
use waybill_core::port::transport::{CallError, Outcome};
use waybill_sandbox::{EndpointSpec, WasmTransport};
use waybill_testkit::mqtt::{Received, Server};
use waybill_tests::transport;
pub use waybill_tests::transport::{AMPLE, acknowledged, batch, send};

pub const TOPIC: &str = "orders.created";

/// Settings that reach loopback, with this configuration.
pub fn settings(config: Value) -> EndpointSpec {
    transport::settings("orders-mqtt", config)
}

/// The same with secrets granted, by the names the plugin asks for.
pub fn with_secrets(config: Value, secrets: &[(&str, &str)]) -> EndpointSpec {
    transport::grant(settings(config), secrets)
}

/// Serves; the error is that of the first `open`.
pub async fn open(settings: EndpointSpec) -> Result<Arc<WasmTransport>, CallError> {
    transport::open("mqtt", settings).await
}

/// A transport to this server, with more configuration.
pub async fn to(server: &Server, more: Value) -> Arc<WasmTransport> {
    let mut config = json!({ "servers": [server.url()] });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    open(settings(config)).await.expect("opens")
}

pub fn ids(messages: &[Received]) -> Vec<&str> {
    messages.iter().map(|message| message.property("id").unwrap_or("-")).collect()
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
