//! The output of wasmtime's `bindgen!` for `wit/`, and nothing else: it compiles slowly and changes rarely, so it has a
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
    reason = "generated code; its documentation is in wit/*.wit"
)]

/// Every world that does I/O: all imports, all exports. The exports of one world are looked up through
/// `exports::waybill::plugin::<interface>::GuestIndices`, because no component has them all.
pub mod services {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "host-all",
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
