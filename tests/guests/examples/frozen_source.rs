//! A source as it was built for `waybill:plugin@0.1.0`, by the frozen contract itself: refused, for sources have moved to `waybill:inbound`.
waybill_plugin::manifest!("manifests/source.toml");

wit_bindgen::generate!({ path: "../../wit/frozen/0.1.0", world: "source" });

use api::{Pulled, Settled, Settlement};
use exports::waybill::plugin::source_api as api;
use waybill::plugin::types::{CallInfo, Health, HealthReport, OpenArgs, Opened, PluginError};

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
    async fn pull(_: CallInfo, _: u32, _: u32, _: u32) -> Result<Pulled, PluginError> {
        Ok(Pulled { deliveries: Vec::new(), revoked: Vec::new(), caught_up: true, attributes: Vec::new() })
    }
    async fn settle(_: CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        Ok(items.iter().map(|_| Settled::Done).collect())
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
