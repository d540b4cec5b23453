//! The WebAssembly plugin host: engine, loading, grants, limits, and plugins behind the core's ports.
//!
//! ```text
//! Sandbox ──load──▶ LoadedPlugin ──start──▶ WasmTransport (port::transport::Transport)
//!                                       └─▶ WasmBackoff   (port::backoff::BackoffPolicy)
//! ```
//! Bounds are in [`limits`]. A plugin reaches what its manifest asks for *and* the operator grants ([`grants`]); one that
//! traps, loops, leaks or lies loses its instance and nothing else. It knows `waybill-core` only; nobody else names wasmtime.
//!
//! What it doesn't do yet: worlds other than transport and backoff, swapping generations while they serve.

mod backoff;
mod cache;
mod config;
mod contract;
mod convert;
mod cpu;
mod engine;
mod error;
pub mod grants;
mod host;
mod http;
mod instance;
pub mod limits;
mod load;
mod manifest;
mod meters;
mod net;
mod pure;
mod text;
mod tls;
mod transport;

pub use backoff::WasmBackoff;
pub use cache::CodeOrigin;
pub use config::check_config;
pub use contract::CONTRACT_VERSION;
pub use engine::{Sandbox, SandboxOptions};
pub use error::SandboxError;
pub use grants::Grants;
pub use host::{MemoryKv, ProcessSecrets, SecretFailure, SecretProvider, SecretValue};
pub use limits::PluginLimits;
pub use load::{Inspection, LoadedPlugin, PluginSource, inspect};
pub use manifest::{Ask, Manifest, World};
pub use transport::{TransportSettings, WasmTransport};
