//! The last hour of this host, and what changed at it: in memory, since the process began.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::changes::{ChangeKind, KeptChange};
use waybill_core::history::Measure;
use waybill_core::ids::Tenant;
use waybill_core::time::UnixMillis;

use crate::instant::Instant;

/// How this host did, a point every ten seconds, for an hour at most. It is kept in memory: a host that was started again begins anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = History)]
pub struct HistoryView {
    /// When this host began to keep it.
    pub since: Instant,
    /// Instant of the first point, by the clock as it is set now.
    pub from: Instant,
    /// Time between two points.
    pub step_ms: u64,
    /// As many points each, of the same instants.
    pub series: Vec<HistorySeries>,
    /// Series that aren't kept because there are too many transports, relays and sources.
    pub left_out: u64,
}

/// One line of a chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistorySeries {
    /// `enqueued`, `delivered`, `retried`, `dead`, `waiting`, `blocked`, `sagas_started`, `sagas_ended`, `sagas_stuck`,
    /// `inbox_processed`, `relay_lag_events`, `relay_lag_ms` or `source_lag`; others may come.
    #[schema(value_type = String)]
    pub name: Measure,
    /// `count`: how many there were in the ten seconds before a point. `level`: how many there are at it.
    pub kind: String,
    /// Of what it is: `transport`, `relay` or `source`; null = of all.
    pub by: Option<String>,
    /// Name of that transport, relay or source.
    pub of: Option<String>,
    /// The oldest first; null where it isn't known: the host slept, stood still, or had nothing to look at.
    pub points: Vec<Option<u64>>,
}

/// What changed at this host, newest first. It is kept in memory: a host that was started again begins anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Changes)]
pub struct Changed {
    /// Since when all changes are here; of what was before nothing is known, or not all.
    pub since: Instant,
    pub items: Vec<ChangeView>,
}

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Change)]
pub struct ChangeView {
    pub id: String,
    pub at: Instant,
    /// `plugin_loaded`, `plugin_swapped`, `plugin_rolled_back`, `plugin_refused`, `breaker_opened`, `breaker_closed`,
    /// `configuration_reloaded`, `configuration_refused`, `operation_begun`, `operation_ended`, `operation_cancelled`,
    /// `transport_paused`, `transport_resumed`, `transport_blocked`, `transport_flowing`, `source_paused`, `source_resumed`,
    /// `relay_paused`, `relay_resumed` or `relay_stopped`; others may come.
    #[schema(value_type = String)]
    pub kind: ChangeKind,
    /// The plugin, transport, source, relay or operation that it is about, or `configuration`.
    pub object: String,
    /// Who did it; null = the host by itself.
    pub actor: Option<String>,
    /// Whose it is; null = everybody's.
    pub tenant: Option<String>,
    /// Error code of what caused it; null without one.
    pub code: Option<String>,
    /// Explanation for people.
    pub detail: Option<String>,
    /// How often it happened within a minute from `at` on: what goes back and forth is told once.
    pub times: u64,
    /// When it happened last.
    pub last_at: Instant,
}

impl From<KeptChange> for ChangeView {
    fn from(kept: KeptChange) -> Self {
        let KeptChange { id, change, times, last_at, .. } = kept;
        Self {
            // Another process counts from 1 again.
            id: format!("{}-{id}", change.at.0),
            at: change.at.into(),
            kind: change.kind,
            object: change.object,
            actor: change.actor,
            tenant: change.tenant,
            code: change.code,
            detail: change.detail,
            times,
            last_at: last_at.into(),
        }
    }
}

/// Which changes are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesAsked {
    /// Those that happened at this instant or later, or after a change that did; none = all that are kept.
    pub since: Option<UnixMillis>,
    pub limit: usize,
    /// Tenants of the credential, none = all: it sees theirs, and what is everybody's.
    pub tenants: Option<Vec<Tenant>>,
}
