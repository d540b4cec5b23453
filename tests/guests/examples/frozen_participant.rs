//! A participant as it was built for `waybill:plugin@0.1.0`, by the frozen contract itself: its step `echo` answers what it was given.
waybill_plugin::manifest!("manifests/participant.toml");

wit_bindgen::generate!({ path: "../../wit/frozen/0.1.0", world: "participant" });

use api::{StepContext, StepDone, StepError, StepInfo, StepOutput};
use exports::waybill::plugin::participant_api as api;
use waybill::plugin::types::{CallInfo, OpenArgs, Opened, PluginError};

fn output(data: Vec<u8>) -> StepOutput {
    StepOutput { data, content_type: None, messages: Vec::new(), events: Vec::new(), attributes: Vec::new() }
}

struct Fixture;

impl api::Guest for Fixture {
    fn steps() -> Vec<StepInfo> {
        let name = "echo".to_owned();
        vec![StepInfo { name, compensates: true, idempotent: true, summary: String::new(), attributes: Vec::new() }]
    }
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
    async fn execute(_: CallInfo, _: String, _: StepContext, input: Vec<u8>) -> Result<StepDone, StepError> {
        Ok(StepDone::Output(output(input)))
    }
    async fn compensate(
        _: CallInfo,
        _: String,
        _: StepContext,
        _: Vec<u8>,
        done: Option<Vec<u8>>,
    ) -> Result<StepOutput, StepError> {
        Ok(output(done.unwrap_or_default()))
    }
    async fn close(_: CallInfo) {}
}

#[cfg(target_family = "wasm")]
export!(Fixture);
