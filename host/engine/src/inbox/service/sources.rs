//! Sources: shown, paused, provisioned.

use std::sync::Arc;

use async_trait::async_trait;
use waybill_api::sources::{FailedRowView, Publish, ReplayRows, ReplayedRows, SourceService, SourceView};
use waybill_core::ids::SourceName;
use waybill_core::port::missing::Missing;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::transport::{Health, HealthReport};

use super::Inbox;
use crate::commit::Condition;
use crate::inbox::config::{InboundConfig, SourceConfig};
use crate::inbox::sources::Seats;
use crate::service::{HEALTH_TIMEOUT, because, health_within, provision_detail};

fn missing(source: &str) -> ServiceError {
    ServiceError::NotFound { what: Missing::Source, id: source.to_owned() }
}

#[async_trait]
impl SourceService for Inbox {
    async fn sources(&self) -> Vec<SourceView> {
        let config = self.config();
        let stored = config.sources.iter().map(|source| self.source_view(&config, source));
        let mut views = futures::future::join_all(stored).await;
        if let Some(tables) = self.tables.get() {
            views.extend(tables.views().await);
        }
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    async fn pause_source(&self, source: &str, reason: &str, actor: &str) -> Result<SourceView, ServiceError> {
        self.set_paused(source, true, reason, actor).await
    }

    async fn resume_source(&self, source: &str, reason: &str, actor: &str) -> Result<SourceView, ServiceError> {
        self.set_paused(source, false, reason, actor).await
    }

    async fn provision_source(
        &self,
        source: &str,
        apply: bool,
        actor: &str,
    ) -> Result<Vec<ProvisionChange>, ServiceError> {
        let failed = |error| ServiceError::SourceProvision { name: source.to_owned(), error };
        if !apply {
            return self.provisioned(source, false).await?.map_err(failed);
        }
        let result = self.provisioned(source, true).await?;
        if !matches!(result, Err(ProvisionError::NotOffered { .. })) {
            self.audit(self.event("SourceProvisioned", actor, None, source, provision_detail(&result))).await;
        }
        result.map_err(failed)
    }

    async fn failed_rows(
        &self,
        source: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<FailedRowView>, ServiceError> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let Some(tables) = self.tables.get() else { return Err(missing(source)) };
        let page = tables.failed(source, cursor.map(str::to_owned), limit).await.ok_or_else(|| missing(source))??;
        Ok(Page { items: page.rows.into_iter().map(FailedRowView::from).collect(), next_cursor: page.next })
    }

    async fn replay_rows(&self, source: &str, rows: ReplayRows, actor: &str) -> Result<ReplayedRows, ServiceError> {
        let Some(tables) = self.tables.get() else { return Err(missing(source)) };
        let ReplayRows { ids, reason } = rows;
        let waits = tables.replay(source, ids.clone()).await.ok_or_else(|| missing(source))??;
        let (mut replayed, mut unchanged) = (Vec::new(), Vec::new());
        for (id, waits) in ids.into_iter().zip(waits) {
            if waits { replayed.push(id) } else { unchanged.push(id) }
        }
        let detail = serde_json::json!({ "kind": "row", "reason": reason, "replayed": replayed });
        self.audit(self.event("TxReplayRequested", actor, None, source, detail)).await;
        metrics::counter!("tx_replay_total", "kind" => "row").increment(replayed.len() as u64);
        Ok(ReplayedRows { source: source.to_owned(), replayed, unchanged })
    }
}

impl Inbox {
    /// How far sources that are open here are behind their peers, where those tell.
    pub(crate) fn lags(&self) -> Vec<(String, u64)> {
        let config = self.config();
        let of = |source: &Arc<SourceConfig>| {
            let is_here = self.home_of(source).is_ok_and(|shard| shard.condition().is_owned());
            let lag = self.shared.seats.of(&source.name).figures().lag.filter(|_| is_here)?;
            Some((source.name.to_string(), lag))
        };
        config.sources.iter().filter_map(of).collect()
    }

    async fn source_view(&self, config: &InboundConfig, source: &SourceConfig) -> SourceView {
        let seat = self.shared.seats.of(&source.name);
        let figures = seat.figures();
        let owner = match self.home_of(source).map(|shard| shard.condition()) {
            Ok(condition) if condition.is_owned() => Some(self.shared.context.host.to_string()),
            Ok(Condition::Observing { owner }) => Some(owner),
            _ => None,
        };
        let here = owner.as_deref() == Some(&*self.shared.context.host);
        let shortfall = figures.shortfall();
        let report = match (seat.refused().or(figures.trouble.filter(|_| here)), seat.open_now()) {
            (Some(fault), _) => {
                HealthReport { health: Health::Down, detail: Some(format!("{}: {}", fault.code, fault.reason)) }
            }
            (None, Some(open)) => health_within(HEALTH_TIMEOUT, open.health()).await,
            (None, None) if here => HealthReport { health: Health::Down, detail: Some("it isn't open yet".to_owned()) },
            (None, None) => HealthReport { health: Health::Ready, detail: None },
        };
        let report = match shortfall.filter(|_| here && report.health == Health::Ready) {
            Some(why) => HealthReport { health: Health::Degraded, detail: Some(why.to_owned()) },
            None => report,
        };
        let consumers = config.consumers.iter().filter(|consumer| consumer.sources.contains(&source.name));
        SourceView {
            name: source.name.to_string(),
            plugin: seat.open_now().map(|open| open.identity()),
            publish: Publish::Stored,
            home: source.home.clone(),
            owner,
            here,
            context: source.context.clone(),
            tenants: source.tenants.iter().map(ToString::to_string).collect(),
            consumers: consumers.map(|consumer| consumer.name.to_string()).collect(),
            paused: seat.is_paused(),
            instances: source.instances,
            unsettled: if here { figures.unsettled } else { 0 },
            window: u64::from(source.window),
            caught_up: figures.caught_up.filter(|_| here),
            lag: figures.lag.filter(|_| here),
            overtaken: figures.overtaken,
            made_anew: figures.made_anew,
            failed: None,
            health: report.health,
            health_detail: report.detail,
        }
    }

    async fn view_named(&self, source: &str) -> Result<SourceView, ServiceError> {
        let views = self.sources().await;
        views.into_iter().find(|view| view.name == source).ok_or_else(|| missing(source))
    }

    async fn set_paused(
        &self,
        name: &str,
        paused: bool,
        reason: &str,
        actor: &str,
    ) -> Result<SourceView, ServiceError> {
        let config = self.config();
        let source = config.sources.iter().find(|source| source.name.as_str() == name);
        let is_table = self.tables.get().is_some_and(|tables| tables.set_paused(name, paused));
        let noted = SourceName::new(name).map_err(|_| missing(name))?;
        if source.is_none() && !is_table {
            return Err(missing(name));
        }
        self.shared.context.stores.transact.set_paused(&Seats::noted_as(&noted), paused).await?;
        if let Some(source) = source {
            let seat = self.shared.seats.of(&source.name);
            seat.set_paused(paused);
            let shard = self.home_of(source)?;
            let was_overtaken = seat
                .figures()
                .trouble
                .is_some_and(|fault| fault.code == waybill_core::code::Code::SOURCE_OVERTAKEN.as_str());
            if !paused && was_overtaken {
                // Somebody decided: it goes on at the earliest that is kept. How that goes is seen in its health.
                let (shard, name) = (shard.clone(), name.to_owned());
                tokio::spawn(async move { shard.reopen(name, true).await });
            } else {
                shard.seat_changed();
            }
        }
        let kind = if paused { "SourcePaused" } else { "SourceResumed" };
        self.audit(self.event(kind, actor, None, name, because(reason, serde_json::json!({})))).await;
        self.view_named(name).await
    }

    /// In a task of its own: what was begun at the peer is ended, whether or not its caller waits.
    async fn provisioned(
        &self,
        name: &str,
        apply: bool,
    ) -> Result<Result<Vec<ProvisionChange>, ProvisionError>, ServiceError> {
        let config = self.config();
        if let Some(source) = config.sources.iter().find(|source| source.name.as_str() == name) {
            let plugin = Arc::clone(&source.plugin);
            let work = tokio::spawn(async move { plugin.provision(apply).await });
            return work.await.map_err(|ended| ServiceError::Unavailable(ended.to_string()));
        }
        let Some(tables) = self.tables.get().cloned() else { return Err(missing(name)) };
        let source = name.to_owned();
        let work = tokio::spawn(async move { tables.provision(&source, apply).await });
        let result = work.await.map_err(|ended| ServiceError::Unavailable(ended.to_string()))?;
        result.ok_or_else(|| missing(name))
    }
}
