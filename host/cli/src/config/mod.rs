//! Configuration: `waybill.toml`, then the environment (`WAYBILL_...`), then flags (`semantics.md` §9).
//!
//! [`load`] answers a [`Config`] in which every value is checked, or all that is wrong with code, place and fix. Every key with
//! its default and its other names is in `docs/configuration.md`, and a test holds that page against the code. What this
//! doesn't do: open anything. Secrets stay references (`env:NAME`, `file:/path`) until a plugin asks for them.

mod exposed;
pub mod inbound;
mod inbound_checks;
mod indexes;
mod key;
pub mod kinds;
mod listener;
mod load;
mod model;
mod plugins;
pub mod problem;
pub mod reader;
mod scalar;
mod secrets;
mod sections;
pub mod size;
mod streams;
mod tokens;
mod transports;

pub use inbound_checks::is_routed;
pub use listener::listener;
pub use load::{FILE_NAME, Inputs, cache_folder, catalogue, data_folder, find_file, load};
pub use model::{
    AuthSettings, AuthToken, BackoffSettings, Config, DeadSettings, LimitSettings, LogFormat, LogSettings,
    OidcSettings, OnDead, OtelSettings, OutboxSettings, PluginSettings, ServerSettings, StoreKind, StoreSettings,
    TenantSettings, TlsSettings,
};
pub use streams::broker_of;
