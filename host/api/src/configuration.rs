//! The configuration of a running host: read again, compared, put in force.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use utoipa::ToSchema;

/// How to read the configuration again.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigReload {
    /// Only compare it with what is in force, and load its plugins.
    pub dry_run: bool,
}

/// What reading the configuration again led to, or would lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ConfigReloaded)]
pub struct Reloaded {
    /// False after a dry run.
    pub applied: bool,
    /// The file; none = defaults, environment and flags.
    pub file: Option<String>,
    /// Every setting that differs.
    pub changes: Vec<SettingChange>,
    /// Transports that are new.
    pub added: Vec<String>,
    /// Transports that serve with other settings or another plugin.
    pub changed: Vec<String>,
    /// Transports that are gone.
    pub removed: Vec<String>,
    /// What has no effect or looks wrong, but isn't an error.
    pub warnings: Vec<String>,
}

/// One setting that differs from what is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingChange {
    /// Path of the setting in the file, e.g. `transport.orders.plugin`.
    pub key: String,
    /// Value in force; null = it wasn't there.
    #[schema(value_type = Option<serde_json::Value>)]
    pub from: Option<Value>,
    /// Value as read now; null = it is gone.
    #[schema(value_type = Option<serde_json::Value>)]
    pub to: Option<Value>,
    /// `now`: from the next batch on; `restart`: only after a restart; `refused`: not at all, for a reload is refused as a whole, as
    /// `warnings` say.
    pub effect: Effect,
}

/// When a changed setting counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SettingEffect)]
pub enum Effect {
    /// From the next batch on.
    Now,
    Restart,
    /// A reload is refused as a whole.
    Refused,
}

/// One setting in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Setting)]
pub struct SettingView {
    /// Path of the setting in the file, e.g. `transport.orders.plugin`.
    pub key: String,
    /// Its value; of a secret the reference that names it.
    pub value: Value,
    /// Where it comes from: `default`, a file with line and column, a variable, a flag.
    pub origin: String,
    /// When another value would count: `now` at a reload, or `restart`.
    pub effect: Effect,
}

/// The configuration that was read can't be put in force. The one before stays in force, all of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{code}: {message}")]
pub struct ReloadRefused {
    /// Code of the first reason.
    pub code: String,
    /// Every reason with its place and fix, a line each.
    pub message: String,
    /// The same may succeed later without a change: a peer that doesn't answer, a file that is being written.
    pub retryable: bool,
}

/// A host that can read its configuration again.
#[async_trait]
pub trait ConfigurationService: Send + Sync + 'static {
    /// Reads the configuration from where it came from. With `apply` all of what can change while the host runs is put in
    /// force, or nothing; without, it is only compared and its plugins are loaded.
    async fn reload(&self, apply: bool, actor: &str) -> Result<Reloaded, ReloadRefused>;
    /// Every setting in force, by key: those of before until a reload that is at work has put others in force.
    fn settings(&self) -> Vec<SettingView>;
}
