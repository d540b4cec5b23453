//! A transport as it was built for `waybill:plugin@0.1.0`, by the frozen contract itself: it acknowledges everything.
waybill_plugin::manifest!("manifests/transport.toml");

wit_bindgen::generate!({ path: "../../wit/frozen/0.1.0", world: "transport" });

use exports::waybill::plugin::transport_api as api;
use waybill::plugin::types::{
    CallInfo, Health, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Receipt,
};

struct Fixture;

impl api::Guest for Fixture {
    async fn open(_: CallInfo, _: OpenArgs) -> Result<Opened, PluginError> {
        Ok(Opened {
            peer: None,
            max_batch: None,
            max_payload_bytes: None,
            max_concurrent_calls: 1,
            tick_every: None,
            dedup_window: None,
            features: Vec::new(),
            attributes: Vec::new(),
        })
    }
    async fn send_batch(_: CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let ack = |message: &Message| {
            Outcome::Ack(Receipt { broker_ref: Some(message.id.clone()), duplicate: false, attributes: Vec::new() })
        };
        Ok(batch.iter().map(ack).collect())
    }
    async fn health(_: CallInfo) -> HealthReport {
        HealthReport { status: Health::Ready, detail: None, attributes: Vec::new() }
    }
    async fn tick(_: CallInfo) -> Result<(), PluginError> {
        Ok(())
    }
    async fn close(_: CallInfo) {}
}

#[cfg(target_family = "wasm")]
export!(Fixture);
