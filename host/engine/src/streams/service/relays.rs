//! Relays shown, paused, sought.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use waybill_core::ids::{RelayName, ShardId, Tenant};
use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{
    RelayDetail, RelayLag, RelayStreamView, RelayView, SeekRequest, SeekTo, StreamError,
};
use waybill_core::port::stream_store::ShardOf;
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::owner::StreamOwner;
use waybill_core::streams::records::RelayWord;
use waybill_core::streams::settings::RelayPlan;

use super::super::StreamHandle;
use super::super::relay::{RelayDriver, read_notes, tell_stops};
use super::Streams;
use super::trail::{Asked, OperatorAct};

/// Streams that are behind, of one relay, as shown.
const BEHIND_SHOWN: usize = 100;
/// Streams that are looked through for them, and how many at once.
const BEHIND_LOOKED: usize = 10_000;
const BEHIND_PAGE: usize = 1_000;

/// A relay in one shard.
#[derive(Default)]
struct InShard {
    behind: u64,
    events: u64,
    lag: Option<Duration>,
    tenants: BTreeMap<Tenant, RelayLag>,
}

impl InShard {
    fn of(name: &RelayName, owner: &StreamOwner, drivers: &[RelayDriver]) -> Self {
        let mut found = Self::default();
        if let Some(relay) = owner.relays().iter().find(|relay| relay.name() == name) {
            found.behind = relay.streams_behind() as u64;
            for tenant in relay.tenants_behind() {
                found.tenants.entry(tenant.clone()).or_default().streams += 1;
            }
        }
        if let Some(driver) = drivers.iter().find(|driver| driver.name() == name) {
            (found.events, found.lag) = (driver.lag_events(), driver.lag());
            for (tenant, events) in driver.lag_by_tenant() {
                found.tenants.entry(tenant.clone()).or_default().events += events;
            }
        }
        found
    }
}

impl Streams {
    pub(super) async fn relay_views(&self) -> Vec<RelayView> {
        let settings = self.shared.settings();
        let views = settings.relays.iter().map(|plan| self.view(plan));
        futures::future::join_all(views).await
    }

    /// How far the relays are behind in the shards of this host: events that aren't settled, and since when.
    pub(crate) async fn relay_lags(&self) -> Vec<(RelayName, u64, Duration)> {
        let asked = self.shards.iter().map(|shard| {
            shard.query(|_, drivers| {
                let lag = |driver: &RelayDriver| (driver.lag_events(), driver.lag().unwrap_or_default());
                drivers.iter().map(|driver| (driver.name().clone(), lag(driver))).collect::<Vec<_>>()
            })
        });
        let mut lags: BTreeMap<RelayName, (u64, Duration)> = BTreeMap::new();
        for (name, (events, lag)) in futures::future::join_all(asked).await.into_iter().flatten().flatten() {
            let sum = lags.entry(name).or_default();
            *sum = (sum.0 + events, sum.1.max(lag));
        }
        lags.into_iter().map(|(name, (events, lag))| (name, events, lag)).collect()
    }

    pub(super) fn plan_of(&self, name: &RelayName) -> Result<RelayPlan, ServiceError> {
        let missing = || ServiceError::NotFound { what: Missing::Relay, id: name.to_string() };
        self.shared.settings().relays.iter().find(|plan| plan.name == *name).cloned().ok_or_else(missing)
    }

    async fn view(&self, plan: &RelayPlan) -> RelayView {
        let asked = self.shards.iter().map(|shard| {
            let name = plan.name.clone();
            shard.query(move |owner, drivers| InShard::of(&name, owner, drivers))
        });
        let shards: Vec<InShard> = futures::future::join_all(asked).await.into_iter().flatten().collect();
        let mut tenants: BTreeMap<Tenant, RelayLag> = BTreeMap::new();
        for (tenant, lag) in shards.iter().flat_map(|shard| &shard.tenants) {
            let sum = tenants.entry(tenant.clone()).or_default();
            sum.streams += lag.streams;
            sum.events += lag.events;
        }
        let state = self.shared.relays.of(&plan.name);
        RelayView {
            name: plan.name.clone(),
            streams: plan.streams.as_str().to_owned(),
            transport: plan.transport.clone(),
            state: state.state(),
            reason: state.reason(),
            streams_behind: shards.iter().map(|shard| shard.behind).sum(),
            lag_events: shards.iter().map(|shard| shard.events).sum(),
            lag: shards.iter().filter_map(|shard| shard.lag).max(),
            in_flight: state.in_flight.load(Ordering::Acquire) as u64,
            delivered: state.delivered.load(Ordering::Acquire),
            refused: state.refused.load(Ordering::Acquire),
            overtaken: state.overtaken.load(Ordering::Acquire),
            tenants,
        }
    }

    pub(super) async fn relay_detail(&self, name: &RelayName) -> Result<RelayDetail, ServiceError> {
        let plan = self.plan_of(name)?;
        // Of all shards at once, whoever owns them.
        let of = ShardOf { shard: ShardId(0), count: 1 };
        let (mut behind, mut last, mut looked) = (Vec::new(), None, 0);
        while behind.len() < BEHIND_SHOWN && looked < BEHIND_LOOKED {
            let page = self.store().relay_streams(name, of, last.as_ref(), BEHIND_PAGE).await?;
            looked += BEHIND_PAGE;
            let lacking = page
                .streams
                .into_iter()
                .filter(|found| plan.streams.matches(&found.stream.name) && found.checkpoint.upto < found.named_to);
            behind.extend(lacking.map(|found| RelayStreamView {
                stream: found.stream,
                upto: found.checkpoint.upto,
                named_to: found.named_to,
                generation: found.checkpoint.generation,
            }));
            match page.last {
                Some(stream) => last = Some(stream),
                None => break,
            }
        }
        behind.truncate(BEHIND_SHOWN);
        Ok(RelayDetail { view: self.view(&plan).await, behind })
    }

    pub(super) async fn set_paused(
        &self,
        name: &RelayName,
        is_paused: bool,
        actor: &str,
        reason: &str,
    ) -> Result<RelayView, ServiceError> {
        let plan = self.plan_of(name)?;
        let (act, word) =
            if is_paused { (OperatorAct::Pause, RelayWord::Pause) } else { (OperatorAct::Resume, RelayWord::Resume) };
        let detail = json!({ "reason": reason });
        let asked = Asked { act, actor: actor.to_owned(), tenant: None, object: name.to_string(), detail };
        let this = self.clone();
        let work = async move {
            // A stop before this word is noted before it, so that a resume is of it.
            tell_stops(&this.shared).await?;
            this.store().note_relay(&plan.name, &word).await?;
            read_notes(&this.shared).await?;
            this.wake_relays();
            Ok(this.view(&plan).await)
        };
        // A relay whose topic can't be used stays stopped: what came of it says so.
        self.audited(asked, work, |view| json!({ "state": view.state.word() })).await
    }

    /// A transport was paused or goes on: relays that send through it wait for nothing else.
    pub fn wake_relays(&self) {
        self.shards.iter().for_each(StreamHandle::relay_changed);
    }

    pub(super) async fn seek(&self, request: SeekRequest) -> Result<RelayStreamView, ServiceError> {
        let SeekRequest { relay, stream, to, actor, reason } = request;
        let plan = self.plan_of(&relay)?;
        if !plan.streams.matches(&stream.name) {
            return Err(StreamError::NotRelayed { relay, stream }.into());
        }
        let slice = self.store().stream_slice(&stream, 0, 1).await?;
        let (first, last) = self.kept(&stream, &slice)?;
        let upto = match to {
            SeekTo::After(seq) => seq,
            SeekTo::Earliest => first.saturating_sub(1),
            SeekTo::Latest => slice.rest.named_to(&slice.head),
        };
        if upto.saturating_add(1) < first || upto > last {
            return Err(StreamError::Seek { relay, stream, asked: upto, first, last }.into());
        }
        let before = self.store().relay_slice(&relay, &stream, last, 1).await?.checkpoint;
        let detail = json!({
            "stream": stream.name.as_str(), "from": SeqJson(before.upto), "to": SeqJson(upto),
            "skipped": upto.saturating_sub(before.upto), "reason": reason,
        });
        let tenant = Some(stream.tenant.clone());
        let asked = Asked { act: OperatorAct::Seek, actor, tenant, object: relay.to_string(), detail };
        let this = self.clone();
        let work = async move {
            this.shard_of(&stream)?.seek(relay.clone(), stream.clone(), before, upto).await?;
            let read = this.store().relay_slice(&relay, &stream, last, 1).await?;
            Ok(RelayStreamView {
                upto: read.checkpoint.upto,
                named_to: read.slice.rest.named_to(&read.slice.head),
                generation: read.checkpoint.generation,
                stream,
            })
        };
        self.audited(asked, work, |place| json!({ "generation": place.generation })).await
    }
}
