//! A policy as it was built for `waybill:plugin@0.1.0`, by the frozen contract itself: it waits a second for each attempt.
waybill_plugin::manifest!("manifests/backoff.toml");

wit_bindgen::generate!({ path: "../../wit/frozen/0.1.0", world: "backoff" });

use exports::waybill::plugin::backoff_api as api;

struct Fixture;

impl api::Guest for Fixture {
    fn validate(_: String) -> Result<(), String> {
        Ok(())
    }
    fn decide(_: String, attempt: api::Attempt) -> api::Decision {
        api::Decision::Delay(attempt.number.saturating_mul(1_000))
    }
}

#[cfg(target_family = "wasm")]
export!(Fixture);
