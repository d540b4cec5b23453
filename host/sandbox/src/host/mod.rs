//! The services a guest imports, one file an interface, all on [`InstanceState`].
//!
//! Everything is linked for everybody, because JavaScript and Python components import their whole world; what isn't
//! granted answers `denied` at the call.

mod context;
mod control;
mod handling;
mod http;
mod kv;
mod last_words;
mod limiter;
mod log;
mod metrics;
mod net;
mod progress;
mod redact;
mod secrets;
mod state;
mod stdio;
mod tls;
mod wasi;

use wasmtime::component::{HasSelf, Linker};
use waybill_bindings::services::All;

pub(crate) use context::{ContextParts, EndpointContext, Losses};
pub use kv::MemoryKv;
pub(crate) use limiter::Limiter;
pub use secrets::{ProcessSecrets, SecretFailure, SecretProvider, SecretValue};
pub(crate) use state::{CallRecord, ContractBreach, EarlySink, InstanceState, Reported};

/// Puts all services into a linker.
pub(crate) fn add_services(linker: &mut Linker<InstanceState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    All::add_to_linker::<InstanceState, HasSelf<InstanceState>>(linker, |state| state)
}
