//! A participant that, when it is asked for its steps, tries to read a secret and to keep state, and names its step by what came of it.
use waybill_plugin::host::{kv, secrets};
use waybill_plugin::participant::{Guest, StepContext, StepDone, StepError, StepInfo, StepOutput};
use waybill_plugin::transport::{CallInfo, OpenArgs, Opened, PluginError};

waybill_plugin::manifest!("manifests/participant.toml");

struct Exported;
impl Guest for Exported {
    fn steps() -> Vec<StepInfo> {
        let secret = secrets::get("granted").is_ok();
        let kept = kv::put("key", b"value", &kv::Expectation::Anything).is_ok();
        let name = format!("secret-{secret}.kv-{kept}");
        vec![StepInfo { name, compensates: false, idempotent: true, summary: String::new(), attributes: Vec::new() }]
    }
    async fn open(_: CallInfo, _: OpenArgs) -> Result<Opened, PluginError> {
        Ok(Opened::new())
    }
    async fn execute(_: CallInfo, name: String, _: StepContext, _: Vec<u8>) -> Result<StepDone, StepError> {
        Err(StepError::permanent("FIXTURE.NEVER", name))
    }
    async fn compensate(
        _: CallInfo,
        name: String,
        _: StepContext,
        _: Vec<u8>,
        _: Option<Vec<u8>>,
    ) -> Result<StepOutput, StepError> {
        Err(StepError::permanent("FIXTURE.NEVER", name))
    }
    async fn close(_: CallInfo) {}
}

#[cfg(target_family = "wasm")]
waybill_plugin::participant::bindings::export!(Exported with_types_in waybill_plugin::participant::bindings);
