//! A transport by version 0.9.0 of the contract, which no host has.
waybill_plugin::manifest!("manifests/other-contract.toml");

wit_bindgen::generate!({
    inline: "
        package waybill:plugin@0.9.0;
        interface transport-api {
            send-batch: func(batch: list<string>) -> list<string>;
        }
        world transport { export transport-api; }
    ",
});

struct Fixture;

impl exports::waybill::plugin::transport_api::Guest for Fixture {
    fn send_batch(batch: Vec<String>) -> Vec<String> {
        batch
    }
}

#[cfg(target_family = "wasm")]
export!(Fixture);
