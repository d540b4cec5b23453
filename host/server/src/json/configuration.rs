//! Request and answer of a reload of the configuration.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use waybill_core::port::configuration::{Effect, Reloaded, SettingChange};

/// How to read the configuration again.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = ConfigReload)]
pub struct ReloadIn {
    /// Only compare it with what is in force, and load its plugins.
    pub dry_run: bool,
}

/// What reading the configuration again led to, or would lead to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ConfigReloaded)]
pub struct ReloadOut {
    /// False after a dry run.
    pub applied: bool,
    /// The file; none = defaults, environment and flags.
    pub file: Option<String>,
    /// Every setting that differs.
    pub changes: Vec<SettingChangeOut>,
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
#[schema(as = SettingChange)]
pub struct SettingChangeOut {
    /// Path, e.g. `transport.orders.plugin`.
    pub key: String,
    /// Value in force; null = it wasn't there.
    #[schema(value_type = Option<serde_json::Value>)]
    pub from: Option<Value>,
    /// Value as read now; null = it is gone.
    #[schema(value_type = Option<serde_json::Value>)]
    pub to: Option<Value>,
    /// When it counts.
    pub effect: EffectOut,
}

/// When a changed setting counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SettingEffect)]
pub enum EffectOut {
    /// From the next batch on.
    Now,
    /// After a restart.
    Restart,
}

impl From<Reloaded> for ReloadOut {
    fn from(reloaded: Reloaded) -> Self {
        let Reloaded { applied, file, changes, added, changed, removed, warnings } = reloaded;
        let changes = changes.into_iter().map(SettingChangeOut::from).collect();
        Self { applied, file, changes, added, changed, removed, warnings }
    }
}

impl From<SettingChange> for SettingChangeOut {
    fn from(change: SettingChange) -> Self {
        let SettingChange { key, from, to, effect } = change;
        let effect = match effect {
            Effect::Now => EffectOut::Now,
            Effect::Restart => EffectOut::Restart,
        };
        Self { key, from, to, effect }
    }
}
