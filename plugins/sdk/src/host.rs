//! What the host lends a plugin that does I/O. Each function is bounded by the grant and answers `denied` past it.
//! Calling one off the sandbox (in a plain `cargo test`) aborts: keep what you test pure.

pub use crate::transport::bindings::waybill::plugin::{
    control, http, http_types, kv, metrics, net, net_types, progress, secrets,
};
