//! Starts the transport and makes messages.

use std::sync::Arc;

use serde_json::{Value, json};
use waybill_core::message::Delivery;
use waybill_core::port::transport::{CallError, HealthReport};
use waybill_sandbox::{EndpointSpec, WasmTransport};
use waybill_testkit::nats::Server;
use waybill_tests::transport;
pub use waybill_tests::transport::{AMPLE, RecordedOutcomes, acknowledged, send, try_send};

/// Settings that reach loopback, with this configuration.
pub fn settings(config: Value) -> EndpointSpec {
    transport::settings("orders-nats", config)
}

/// The same with secrets granted, by the names the plugin asks for.
pub fn with_secrets(config: Value, secrets: &[(&str, &str)]) -> EndpointSpec {
    transport::grant(settings(config), secrets)
}

/// Serves; the error is that of the first `open`.
pub async fn open(settings: EndpointSpec) -> Result<Arc<WasmTransport>, CallError> {
    transport::open("nats", settings).await
}

/// Whether it would work.
pub async fn probe(settings: EndpointSpec) -> Result<HealthReport, CallError> {
    transport::probe("nats", settings).await
}

/// A transport to this server, which has a stream `ORDERS` for `orders.>`.
pub async fn to(server: &Server) -> Arc<WasmTransport> {
    server.client().await.unwrap().create_stream("ORDERS", &["orders.>"], &json!({})).await.unwrap();
    open(settings(json!({ "servers": [server.url()] }))).await.expect("opens")
}

/// Messages `from..to` to one subject, with a header that would command JetStream.
pub fn batch(from: u64, to: u64, subject: &str) -> Vec<Delivery> {
    let mut batch = transport::batch(from, to, subject);
    for delivery in &mut batch {
        Arc::make_mut(&mut delivery.message).headers.push(("Nats-Rollup".to_owned(), "all".to_owned()));
    }
    batch
}
