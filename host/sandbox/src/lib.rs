//! The WebAssembly plugin host: engine, loading, grants, limits, and plugins behind the core's ports.
//!
//! ```text
//! Sandbox ──load──▶ LoadedPlugin ──start──▶ WasmTransport   (port::transport::Transport)
//!                                       ├─▶ WasmSource      (port::source::Source)
//!                                       ├─▶ WasmTable       (port::table::Table)
//!                                       ├─▶ WasmHandler     (port::handler::Handler)
//!                                       ├─▶ WasmParticipant (port::participant::Participant)
//!                                       └─▶ WasmBackoff     (port::backoff::BackoffPolicy)
//!                └──▶ Slot: a transport, handler, participant or policy whose plugin can be replaced; Fleet: all of them, with their files
//! ```
//! Bounds are in [`limits`]. A plugin reaches what its manifest asks for *and* the operator grants ([`grants`]); one that
//! traps, loops, leaks or lies loses its instance and nothing else. It knows `waybill-core` only; nobody else names wasmtime.

mod backoff;
mod bounded;
mod cache;
mod changes;
mod compile;
mod config;
mod contract;
mod convert;
mod cpu;
mod endpoint;
mod engine;
mod error;
mod fleet;
pub mod grants;
mod handler;
mod host;
mod http;
mod instance;
pub mod limits;
mod load;
mod log_book;
mod manifest;
mod meters;
mod net;
mod own;
mod participant;
mod pure;
mod schema;
mod seal;
mod slot;
mod source;
mod table;
mod tally;
mod text;
mod tls;
mod transport;
mod verify;

pub use backoff::WasmBackoff;
pub use cache::CodeOrigin;
pub use compile::{CompileLimits, CompilerProcess, compile_component};
pub use config::check_config;
pub use contract::{CONTRACT_VERSION, INBOUND_CONTRACT_VERSION};
pub use endpoint::EndpointSpec;
pub use engine::{Sandbox, SandboxOptions};
pub use error::SandboxError;
pub use fleet::{
    ComponentSource, Fleet, FleetOptions, ForStart, POLL_EVERY, Reload, Reloaded, StagedChange, StateFolder,
    TransportSpec,
};
pub use grants::check_grants;
pub use handler::WasmHandler;
pub use host::{MemoryKv, ProcessSecrets, SecretFailure, SecretProvider, SecretValue};
pub use http::{HttpHandlerClient, HttpStepClient};
pub use limits::limits_table;
pub use load::{Inspection, LoadedPlugin, PluginSource, inspect};
pub use manifest::{Ask, Manifest, World};
pub use participant::{ParticipantLimits, WasmParticipant, participant_steps};
pub use slot::{
    BAD_MAX, BadDigest, Forgetful, HISTORY_MAX, HandlerSlot, Life, ParticipantSlot, Phase, PolicySlot, Probation,
    Record, RolledBack, Slot, SlotMemory, StageOptions, Staged, SwapError, Swapped, Why,
};
pub use source::WasmSource;
pub use table::WasmTable;
pub use transport::WasmTransport;
pub use verify::{
    Fetched, PublicKey, SIGNATURE_FILE_BYTES_MAX, Signature, SignatureState, SigningKey, Trust, VerifyError,
    signature_path, verify,
};
