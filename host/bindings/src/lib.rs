//! The output of wasmtime's `bindgen!` for `wit/` and `wit/inbound/`, and nothing else: it compiles slowly and changes rarely, so it has a
//! crate of its own. Only `waybill-sandbox` uses it; conversion to the core's types happens there.
//!
//! Imports that wait (`kv`, `secrets`, `net-blocking`, `http-blocking`) are host `async fn`s, so a call suspends the
//! instance and never a host thread. Imports typed `async func` in WIT take an `Accessor`, so they run beside each other.
#![allow(
    unsafe_code,
    clippy::all,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "generated code; its documentation is in wit/"
)]

/// Every world that does I/O: all imports, and all exports that a host serves. `waybill:plugin` has a source and a handler of its
/// own from before `waybill:inbound`; no host serves them. The exports of one world are looked up through
/// `exports::waybill::<package>::<interface>::GuestIndices`, because no component has them all.
pub mod services {
    wasmtime::component::bindgen!({
        path: ["../../wit", "../../wit/inbound"],
        inline: "
            package waybill:host;
            world all {
                include waybill:plugin/host-services@0.1.0;
                include waybill:plugin/basic-services@0.1.0;
                import waybill:plugin/progress@0.1.0;
                import waybill:inbound/handling@0.1.0;
                export waybill:plugin/transport-api@0.1.0;
                export waybill:plugin/participant-api@0.1.0;
                export waybill:plugin/provision-api@0.1.0;
                export waybill:inbound/source-api@0.1.0;
                export waybill:inbound/handler-api@0.1.0;
                export waybill:inbound/table-api@0.1.0;
            }
        ",
        world: "waybill:host/all",
        imports: {
            "waybill:plugin/kv": async | trappable,
            "waybill:plugin/secrets": async | trappable,
            "waybill:plugin/net-blocking": async | trappable,
            "waybill:plugin/http-blocking": async | trappable,
            default: trappable,
        },
        exports: { default: async },
    });
}

/// Retry policies: a world without imports.
pub mod backoff {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "backoff",
        exports: { default: async },
        with: { "waybill:plugin/types": super::services::waybill::plugin::types },
    });
}

/// Types of the contract by their short path.
pub use services::waybill::plugin as api;

/// Types of the inbound side by their short path.
pub use services::waybill::inbound;
