//! Relays: how far each is, and where it goes on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::ids::Tenant;
use waybill_core::port::service::streams::{RelayLag, RelayStreamView, RelayView};
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::dead::OvertakenRange;

use crate::instant::Instant;

/// A relay, as far as the shards of this host go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Relay)]
pub struct RelayStatus {
    /// Name in the configuration.
    pub name: String,
    /// Pattern of the streams that it takes.
    pub streams: String,
    /// Transport that it sends through.
    pub transport: String,
    /// `running`, `paused` by an operator, or `stopped` by a refusal or an overtaken range.
    pub state: String,
    /// Why it is stopped or waits.
    pub reason: Option<String>,
    /// Streams with events that it hasn't settled: of the tenants that the credential allows.
    pub streams_behind: u64,
    /// Events that it hasn't settled, of these tenants.
    pub lag_events: u64,
    /// Age of the earliest of those that it has in hand, in milliseconds, of all tenants; null = it is behind in no stream of these tenants.
    pub lag_ms: Option<u64>,
    /// Events under way, of all tenants. This and what follows is null for a credential of some tenants only.
    pub in_flight: Option<u64>,
    /// Events that its peer acknowledged, since this host took its shards over.
    pub delivered: Option<u64>,
    /// Events that its peer refused for good, since then.
    pub refused: Option<u64>,
    /// Events that retention took before it had them.
    pub overtaken: Option<u64>,
}

impl RelayStatus {
    /// As somebody sees it who may see some tenants only: their lag, and nothing that tells of others.
    pub fn of_tenants(view: RelayView, is_seen: impl Fn(&Tenant) -> bool) -> Self {
        let lags = view.tenants.iter().filter(|(tenant, _)| is_seen(tenant)).map(|(_, lag)| *lag);
        let lag = lags.fold(RelayLag::default(), |sum, lag| RelayLag {
            streams: sum.streams + lag.streams,
            events: sum.events + lag.events,
        });
        let is_behind = lag != RelayLag::default();
        let status = Self::from(view);
        Self {
            reason: None,
            streams_behind: lag.streams,
            lag_events: lag.events,
            lag_ms: status.lag_ms.filter(|_| is_behind),
            in_flight: None,
            delivered: None,
            refused: None,
            overtaken: None,
            ..status
        }
    }
}

impl From<RelayView> for RelayStatus {
    fn from(view: RelayView) -> Self {
        Self {
            name: view.name.into(),
            streams: view.streams,
            transport: view.transport,
            state: view.state.word().to_owned(),
            reason: view.reason,
            streams_behind: view.streams_behind,
            lag_events: view.lag_events,
            lag_ms: view.lag.map(|lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX)),
            in_flight: Some(view.in_flight),
            delivered: Some(view.delivered),
            refused: Some(view.refused),
            overtaken: Some(view.overtaken),
        }
    }
}

/// A relay with its place in streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RelayDetail)]
pub struct RelayDetailView {
    /// As lists show it.
    #[serde(flatten)]
    pub relay: RelayStatus,
    /// Streams that are behind, by name, at most 100 of them.
    pub behind: Vec<RelayPlace>,
}

impl RelayDetailView {
    /// With the streams that may be seen, below what is seen of the relay.
    pub fn new(relay: RelayStatus, behind: Vec<RelayStreamView>) -> Self {
        Self { relay, behind: behind.into_iter().map(RelayPlace::from).collect() }
    }
}

/// Where a relay stands in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayPlace {
    pub stream: String,
    pub tenant: String,
    /// Everything up to this number is settled.
    pub upto: SeqJson,
    /// The last number that it knows of.
    pub named_to: SeqJson,
    /// Grows with each seek.
    pub generation: u64,
}

impl From<RelayStreamView> for RelayPlace {
    fn from(view: RelayStreamView) -> Self {
        Self {
            stream: view.stream.name.to_string(),
            tenant: view.stream.tenant.to_string(),
            upto: view.upto.into(),
            named_to: view.named_to.into(),
            generation: view.generation,
        }
    }
}

/// Events that retention took before a relay had them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Overtaken {
    pub stream: String,
    pub tenant: String,
    /// Number of the first of them.
    pub from: SeqJson,
    /// Number of the last of them.
    pub to: SeqJson,
    /// When that was noticed.
    pub at: Instant,
}

impl From<OvertakenRange> for Overtaken {
    fn from(range: OvertakenRange) -> Self {
        Self {
            stream: range.stream.name.to_string(),
            tenant: range.stream.tenant.to_string(),
            from: range.from.into(),
            to: range.to.into(),
            at: range.at.into(),
        }
    }
}

/// Where a relay goes on in a stream: either `after` a number, or `to` one of its ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SeekRelay {
    pub stream: String,
    /// Whose stream; the credential's only tenant, else `default`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Behind the event of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SeqJson>,
    /// With the earliest event that is kept, or behind the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<StreamEnd>,
    /// Why, for the audit; up to 2,000 bytes.
    #[serde(default)]
    pub reason: String,
}

/// An end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StreamEnd {
    /// The first event that is kept.
    Earliest,
    /// What is there now.
    Latest,
}
