//! How a table does, for people: counts by context, rows that stand failed, what is paused, what is missing at the database.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout};
use waybill_api::inbox::{ContextStats, Waiters};
use waybill_api::sources::{Publish, SourceView};
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::service::ServiceError;
use waybill_core::port::table::{self, DeadPage};
use waybill_core::port::transport::{CallError, Health, HealthReport};

use super::PublishedTables;
use super::table::PublishedTable;
use crate::inbox::service::TableSources;

/// Counts are asked of the database at most this often: scrapes and people want them more often than it should be asked.
const COUNT_EVERY: Duration = Duration::from_secs(10);
/// A whole count that is older says nothing of the table any more.
const WHOLE_FOR: Duration = COUNT_EVERY.saturating_mul(6);
/// Time for a question of a person.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(20);
/// Keys named in a word of explanation.
const KEYS_SHOWN: usize = 5;

/// What the database counted, and when it was asked. None: it gave no answer.
type Counted = (Instant, Option<Vec<table::ContextStats>>);

/// Rows by context, as the database counts them.
#[derive(Default)]
pub(super) struct Counts {
    /// Held while the database counts, so that it is asked once for all who want to know.
    latest: AsyncMutex<Option<Counted>>,
    /// The last whole count, and when it ended: what stands for a while when the next one is under way, or fails.
    whole: Mutex<Option<(Instant, Vec<table::ContextStats>)>>,
}

impl PublishedTable {
    /// Rows by context, as counted at most [`COUNT_EVERY`] ago.
    async fn counts(&self) -> Option<Vec<table::ContextStats>> {
        let mut latest = self.counts.latest.lock().await;
        if let Some((_, counts)) = latest.as_ref().filter(|(at, _)| at.elapsed() < COUNT_EVERY) {
            return counts.clone();
        }
        let counts = match self.config.table.stats(QUESTION_TIMEOUT).await {
            Ok(counts) => {
                *self.counts.whole.lock() = Some((Instant::now(), counts.clone()));
                Some(counts)
            }
            Err(CallError { fault, .. }) => {
                tracing::debug!(source = %self.config.source, code = fault.code, reason = fault.reason, "rows of a table can't be counted");
                None
            }
        };
        *latest = Some((Instant::now(), counts.clone()));
        counts
    }

    /// The condition of its plugin, and what else keeps rows waiting.
    async fn health(&self) -> HealthReport {
        let report = self.config.table.health().await;
        if report.health != Health::Ready {
            return report;
        }
        let degraded = |detail: String| HealthReport { health: Health::Degraded, detail: Some(detail) };
        if let Some(fault) = self.trouble.lock().clone() {
            return degraded(format!("{}: {}", fault.code, fault.reason));
        }
        let unmarkable = self.with(|lane| lane.unmarkable()).unwrap_or_default();
        if unmarkable.is_empty() {
            return report;
        }
        let keys: Vec<&str> = unmarkable.iter().take(KEYS_SHOWN).map(|row| &*row.0).collect();
        degraded(format!("the table refuses the marks of {} rows ({}, ...)", unmarkable.len(), keys.join(", ")))
    }

    /// The same counts for who can't wait longer: a slow count goes on in a task of its own, and is there the next time. Until then the
    /// last whole one stands, for [`WHOLE_FOR`], or an alert would go off and on with each count that takes its time.
    async fn counts_within(self: &Arc<Self>, within: Duration) -> Option<Vec<table::ContextStats>> {
        let is_counting = self.counts.latest.try_lock().is_err();
        let counts = if is_counting {
            None
        } else {
            let table = Arc::clone(self);
            let counting = tokio::spawn(async move { table.counts().await });
            timeout(within, counting).await.ok().and_then(Result::ok).flatten()
        };
        counts.or_else(|| {
            let mut whole = self.counts.whole.lock();
            whole.take_if(|(ended, _)| ended.elapsed() >= WHOLE_FOR);
            whole.as_ref().map(|(_, counts)| counts.clone())
        })
    }

    async fn health_within(&self, within: Duration) -> HealthReport {
        let silent = || format!("it didn't say how it is within {within:?}");
        let report = timeout(within, self.health()).await;
        report.unwrap_or_else(|_| HealthReport { health: Health::Down, detail: Some(silent()) })
    }

    fn view(&self, host: &str, counts: Option<Vec<table::ContextStats>>, health: HealthReport) -> SourceView {
        let config = &self.config;
        let facts = config.table.facts();
        let sum = |of: fn(&table::ContextStats) -> u32| {
            counts.as_ref().map(|counts| counts.iter().map(|row| u64::from(of(row))).sum())
        };
        let lanes = u64::from(config.lanes).min(u64::from(facts.instances) * u64::from(facts.claims_per_instance));
        let lag: Option<u64> = sum(|row| row.waiting);
        SourceView {
            name: config.source.to_string(),
            plugin: Some(config.table.identity()),
            publish: Publish::Direct,
            home: config.source.to_string(),
            owner: Some(host.to_owned()),
            here: true,
            context: config.context.clone(),
            tenants: config.tenants.iter().map(ToString::to_string).collect(),
            consumers: vec![config.consumer.to_string()],
            paused: self.is_paused(),
            instances: facts.instances,
            unsettled: self.locked.load(Ordering::Acquire),
            window: lanes * config.batch as u64,
            caught_up: lag.map(|lag| lag == 0),
            lag,
            overtaken: 0,
            made_anew: 0,
            failed: sum(|row| row.dead),
            health: health.health,
            health_detail: health.detail,
        }
    }

    /// An error of the plugin, as a request is answered with it.
    fn failed(&self, error: CallError) -> ServiceError {
        ServiceError::SourceProvision { name: self.config.source.to_string(), error: ProvisionError::Failed(error) }
    }
}

#[async_trait]
impl TableSources for PublishedTables {
    async fn views(&self) -> Vec<SourceView> {
        let views = self.iter().map(|table| async move {
            let (counts, health) = tokio::join!(table.counts(), table.health());
            table.view(&table.context.host, counts, health)
        });
        futures::future::join_all(views).await
    }

    async fn views_within(&self, within: Duration) -> Vec<SourceView> {
        let views = self.iter().map(|table| async move {
            let (counts, health) = tokio::join!(table.counts_within(within), table.health_within(within));
            table.view(&table.context.host, counts, health)
        });
        futures::future::join_all(views).await
    }

    fn set_paused(&self, source: &str, paused: bool) -> bool {
        let found = self.find(source);
        if let Some(table) = &found {
            table.set_paused(paused);
        }
        found.is_some()
    }

    async fn provision(&self, source: &str, apply: bool) -> Option<Result<Vec<ProvisionChange>, ProvisionError>> {
        Some(self.find(source)?.config.table.provision(apply).await)
    }

    async fn failed(&self, source: &str, cursor: Option<String>, limit: u32) -> Option<Result<DeadPage, ServiceError>> {
        let table = self.find(source)?;
        Some(table.config.table.dead(cursor, limit, QUESTION_TIMEOUT).await.map_err(|error| table.failed(error)))
    }

    async fn replay(&self, source: &str, ids: Vec<String>) -> Option<Result<Vec<bool>, ServiceError>> {
        let table = self.find(source)?;
        let replayed = table.config.table.replay(ids, QUESTION_TIMEOUT).await;
        table.wake();
        Some(replayed.map_err(|error| table.failed(error)))
    }

    async fn contexts(&self) -> Vec<ContextStats> {
        let counts = futures::future::join_all(self.iter().map(|table| async move { table.counts().await })).await;
        let rows = counts.into_iter().flatten().flatten();
        let of = |row: table::ContextStats| ContextStats {
            context: row.context,
            unpublished: Waiters { count: row.waiting.into(), oldest_at: row.oldest.map(Into::into) },
            failed: row.dead.into(),
            ..ContextStats::default()
        };
        rows.map(of).collect()
    }
}
