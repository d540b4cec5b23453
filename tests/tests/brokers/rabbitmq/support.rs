//! Starts the transport and makes messages.

use std::sync::Arc;

use serde_json::{Value, json};
use waybill_core::message::Delivery;
use waybill_core::port::transport::{CallError, Outcome};
use waybill_sandbox::{EndpointSpec, WasmTransport};
use waybill_testkit::rabbitmq::{Client, Server};
use waybill_tests::transport;
pub use waybill_tests::transport::{AMPLE, acknowledged, batch, send, try_send};

/// Settings that reach loopback, with this configuration.
pub fn settings(config: Value) -> EndpointSpec {
    transport::settings("orders-rabbit", config)
}

/// The same with secrets granted, by the names the plugin asks for.
pub fn with_secrets(config: Value, secrets: &[(&str, &str)]) -> EndpointSpec {
    transport::grant(settings(config), secrets)
}

/// Serves; the error is that of the first `open`.
pub async fn open(settings: EndpointSpec) -> Result<Arc<WasmTransport>, CallError> {
    transport::open("rabbitmq", settings).await
}

/// A topic exchange of this name, and a queue of the same name that is bound to it for `orders.#`.
pub async fn topology(server: &Server, name: &str) -> Client {
    let mut client = server.client().await.unwrap();
    client.declare_exchange(name, "topic").await.unwrap();
    client.declare_queue(name, &[]).await.unwrap();
    client.bind(name, name, "orders.#").await.unwrap();
    client
}

/// A configuration for this exchange.
pub fn config(server: &Server, exchange: &str) -> Value {
    json!({ "servers": [server.url()], "exchange": exchange })
}

/// A transport to the exchange of this name, see [`topology`].
pub async fn to(server: &Server, exchange: &str) -> (Arc<WasmTransport>, Client) {
    let client = topology(server, exchange).await;
    (open(settings(config(server, exchange))).await.expect("opens"), client)
}

/// One letter a message: acknowledged, retried, dead, blocked, given back; a capital may be delivered.
pub fn fates(outcomes: &[Outcome]) -> String {
    let letter = |outcome: &Outcome| match outcome {
        Outcome::Ack(_) => 'a',
        Outcome::Retryable(fault) if fault.maybe_delivered => 'R',
        Outcome::Retryable(_) => 'r',
        Outcome::Permanent(_) => 'd',
        Outcome::Blocked { .. } => 'b',
        Outcome::Release(_) => '-',
    };
    outcomes.iter().map(letter).collect()
}

/// The code of each message that wasn't delivered.
pub fn codes(outcomes: &[Outcome]) -> Vec<&str> {
    outcomes.iter().filter_map(code).collect()
}

fn code(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Ack(_) => None,
        Outcome::Retryable(fault) | Outcome::Permanent(fault) | Outcome::Release(fault) => Some(&fault.code),
        Outcome::Blocked { fault, .. } => Some(&fault.code),
    }
}

/// A message of this number to another destination.
pub fn elsewhere(number: u64, destination: &str) -> Delivery {
    transport::delivery(number, destination)
}
