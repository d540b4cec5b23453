//! Backups of everything that is stored.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::backup::HeldFile;

/// What a backup is to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackupRequest {
    /// Files of an earlier backup. What is the same still is left out; without, everything is in it.
    pub earlier: Vec<HeldFile>,
}
