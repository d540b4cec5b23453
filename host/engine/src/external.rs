//! The built-in transport `external`: nothing is sent through it, workers claim its messages by the API.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use waybill_core::code::Code;
use waybill_core::message::Delivery;
use waybill_core::port::transport::{
    CallError, ErrorKind, Fault, Health, HealthReport, Outcome, OutcomeSink, PluginIdentity, SendCall, Transport,
    TransportLimits,
};
use waybill_core::port::workers::EXTERNAL;

/// Stands for the workers outside where transports are listed.
pub(crate) struct External;

#[async_trait]
impl Transport for External {
    fn name(&self) -> &str {
        EXTERNAL
    }

    fn identity(&self) -> PluginIdentity {
        PluginIdentity {
            plugin: EXTERNAL.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            digest: "built-in".to_owned(),
            generation: 1,
        }
    }

    fn limits(&self) -> TransportLimits {
        TransportLimits {
            lanes: 1,
            calls_per_lane: 1,
            max_batch: 1,
            max_batch_bytes: u32::MAX,
            max_payload_bytes: None,
            key_runs: false,
        }
    }

    async fn send_batch(
        &self,
        _call: SendCall,
        _batch: Vec<Delivery>,
        _sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError> {
        let fault =
            Fault::new(Code::PLUGIN_INTERNAL, "nothing is sent through the transport external: workers claim it");
        Err(CallError { kind: ErrorKind::Unsupported, fault })
    }

    async fn health(&self) -> HealthReport {
        HealthReport { health: Health::Ready, detail: Some("claimed by workers through the API".to_owned()) }
    }

    async fn close(&self, _timeout: Duration) {}
}
