//! A handler as it was built for `waybill:plugin@0.1.0`, by the frozen contract itself: refused, for handlers have moved to `waybill:inbound`.
waybill_plugin::manifest!("manifests/handler.toml");

wit_bindgen::generate!({ path: "../../wit/frozen/0.1.0", world: "handler" });

use api::{Inbound, Verdict};
use exports::waybill::plugin::handler_api as api;
use waybill::plugin::types::{CallInfo, OpenArgs, Opened, PluginError};

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
    async fn handle(_: CallInfo, batch: Vec<Inbound>) -> Result<Vec<Verdict>, PluginError> {
        Ok(batch.iter().map(|_| Verdict::Duplicate).collect())
    }
    async fn close(_: CallInfo) {}
}

#[cfg(target_family = "wasm")]
export!(Fixture);
