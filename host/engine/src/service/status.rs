//! Depths, what is blocked, the audit trail, readiness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use tokio::time::timeout;
use waybill_api::glance::{DeadCounted, Glance, Totals};
use waybill_api::history::{Changed, ChangesAsked, HistoryView};
use waybill_api::instant::Instant;
use waybill_api::sagas::SagaService;
use waybill_api::status::{AuditView, BlockedView, Check, CheckStatus, OutboxStats, StatusService};
use waybill_core::audit::AuditQuery;
use waybill_core::history::Measure;
use waybill_core::ids::Tenant;
use waybill_core::limits::DEAD_READS_MAX;
use waybill_core::outbox::owner::{HeldKey, HoldInfo, RateInfo, WaitKind};
use waybill_core::outbox::rates::Bounded;
use waybill_core::port::query::{Depths, Page};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::{Health, HealthReport, Transport};

use super::Outbox;
use crate::commit::Condition;
use crate::shard::{Blocked, OwnerQuery};

/// Blocked keys shown of each shard.
const HELD_KEYS_MAX: usize = 1_000;
/// A commit that takes longer makes readiness warn.
const SLOW_COMMIT: Duration = Duration::from_secs(1);
/// What each part of readiness may take: less than a probe waits for all of them, so that one without an answer hides no other.
const PART_TIMEOUT: Duration = Duration::from_millis(600);
/// A health check of a transport may take this long.
pub(crate) const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// Depths by tenant and transport.
type DepthsShown = BTreeMap<(String, String), OutboxStats>;

#[async_trait]
impl StatusService for Outbox {
    async fn stats(&self, tenant: Option<&Tenant>) -> Result<Vec<OutboxStats>, ServiceError> {
        let mut all = self.depths_in_memory().await;
        let depths = self.context.stores.query.depths(DEAD_READS_MAX).await?;
        for depth in depths.of {
            let stats = slot(&mut all, &depth.tenant, "-");
            stats.scheduled += depth.scheduled;
            stats.dead += depth.dead + depth.quarantined;
        }
        if depths.dead_since.is_some() || depths.scheduled_until.is_some() {
            // Any tenant may have more of them, also one of which none was counted.
            let asked = tenant.map(|tenant| tenant.as_str().to_owned());
            let tenants: BTreeSet<String> = all.keys().map(|(tenant, _)| tenant.clone()).chain(asked).collect();
            for tenant in &tenants {
                let stats = slot(&mut all, tenant, "-");
                stats.counted_since = depths.dead_since.map(Instant);
                stats.scheduled_until = depths.scheduled_until.map(Instant);
            }
        }
        Ok(all.into_values().filter(|stats| tenant.is_none_or(|tenant| stats.tenant == tenant.as_str())).collect())
    }

    async fn glance(&self) -> Result<Glance, ServiceError> {
        let transports = self.context.live().iter().map(|(_, entry)| entry.name.to_string()).collect();
        let depths = self.depths_in_memory().await.into_values().collect();
        let stuck = self.stuck_sagas();
        let dead = self.dead_counted.lock().map(|last| DeadCounted { count: last.count + stuck, ..last });
        Ok(Glance { depths, transports, dead })
    }

    fn totals(&self) -> Totals {
        let counts = &self.context.counts;
        let (enqueued, dead) = counts.in_all();
        Totals { enqueued, dead, sagas_started: counts.sagas_started.load(Ordering::Relaxed) }
    }

    async fn blocked(&self, tenant: Option<&Tenant>) -> Result<Vec<BlockedView>, ServiceError> {
        let (mut views, mut rates) = (Vec::new(), Vec::new());
        for shard in &self.shards {
            let asked = shard.query(|reply| OwnerQuery::Blocked { keys_max: HELD_KEYS_MAX, reply }).await;
            let Some(Blocked { holds, keys, rates: mine }) = asked else { continue };
            // Where nothing waits for a worker, none is missed.
            let holds = holds.into_iter().filter(|hold| hold.kind() != WaitKind::Unclaimed || hold.waiting > 0);
            views.extend(holds.map(|hold| self.hold_view(hold)));
            views.extend(keys.into_iter().map(key_view));
            for info in mine {
                // Shards share a rate.
                match rates.iter_mut().find(|(known, _): &&mut (Bounded, BlockedView)| *known == info.bounded) {
                    Some((_, view)) => view.waiting += info.waiting as u64,
                    None => rates.push((info.bounded.clone(), self.rate_view(info))),
                }
            }
        }
        views.extend(rates.into_iter().map(|(_, view)| view));
        Ok(views
            .into_iter()
            .filter(|view| {
                tenant.is_none_or(|tenant| view.tenant.as_deref().is_none_or(|mine| mine == tenant.as_str()))
            })
            .collect())
    }

    async fn audit(
        &self,
        query: &AuditQuery,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditView>, ServiceError> {
        let Page { items, next_cursor } = self.context.stores.transact.audit_lines(query, cursor, limit).await?;
        Ok(Page { items: items.into_iter().map(AuditView::from).collect(), next_cursor })
    }

    async fn history(&self, measure: Option<Measure>) -> Result<HistoryView, ServiceError> {
        Ok(self.read_history(measure))
    }

    async fn changes(&self, asked: &ChangesAsked) -> Result<Changed, ServiceError> {
        Ok(self.read_changes(asked))
    }

    async fn ready(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        if self.draining.load(Ordering::Acquire) {
            checks.push(check("drain", CheckStatus::Fail, "the host is shutting down".to_owned()));
        }
        let mut owned = 0;
        let mut worst: Option<(CheckStatus, String)> = None;
        for shard in &self.shards {
            match shard.condition() {
                Condition::Owning { .. } => owned += 1,
                Condition::Observing { .. } => {}
                Condition::Starting => {
                    worst = Some((CheckStatus::Fail, format!("shard {} isn't taken over yet", shard.shard)))
                }
                Condition::Released => {
                    worst = Some((CheckStatus::Fail, format!("shard {} was given back", shard.shard)))
                }
                Condition::Trouble { error, .. } => {
                    worst = Some((CheckStatus::Fail, format!("{}: {error}", error.code())))
                }
            }
        }
        let longest = self.context.commits.longest();
        if longest >= SLOW_COMMIT && worst.is_none() {
            let detail =
                format!("a commit has been under way for {} s: the store, or its disk, is slow", longest.as_secs());
            worst = Some((CheckStatus::Warn, detail));
        }
        let (status, detail) =
            worst.unwrap_or((CheckStatus::Ok, format!("owns {owned} of {} shards", self.shards.len())));
        checks.push(check("outbox", status, detail));
        checks.extend(self.sagas.iter().map(|sagas| sagas.readiness()));
        checks.extend(self.inbox.iter().flat_map(|inbox| inbox.readiness()));
        checks.extend(self.streams.iter().flat_map(|streams| streams.readiness()));
        let ill = self.context.supervisor.ill().into_iter();
        checks.extend(ill.map(|(task, detail)| check(&format!("task {task}"), CheckStatus::Warn, detail)));
        checks.push(check("durability", CheckStatus::Ok, self.context.config.durability.clone()));
        if let Some(jump) = self.context.clock.trouble() {
            checks.push(check("clock", CheckStatus::Warn, jump));
        }
        let live = self.context.live();
        let transports = join_all(live.iter().map(|(_, entry)| health_check(entry.transport.as_ref())));
        let tables = async {
            match &self.inbox {
                Some(inbox) => inbox.tables_within(PART_TIMEOUT).await,
                None => Vec::new(),
            }
        };
        let alert_at = live.config.dead_alert_at;
        let counted = async {
            if alert_at == 0 {
                return None;
            }
            Some(timeout(PART_TIMEOUT, self.dead_counts()).await)
        };
        let quarantine = timeout(PART_TIMEOUT, self.quarantine_check());
        let (transports, tables, counted, quarantine) = tokio::join!(transports, tables, counted, quarantine);
        checks.extend(transports);
        for table in tables.iter().filter(|table| table.health != Health::Ready) {
            let detail = table.health_detail.clone().unwrap_or_else(|| "it isn't ready".to_owned());
            checks.push(check(&format!("source {}", table.name), CheckStatus::Warn, detail));
        }
        let failed = tables.iter().filter_map(|table| table.failed).sum();
        checks.extend(counted.map(|counted| match counted {
            Ok(counted) => self.dead_check(counted, alert_at, failed),
            Err(_late) => silent("dead letters"),
        }));
        checks.extend(quarantine.unwrap_or_else(|_late| Some(silent("quarantine"))));
        checks.extend(self.alerts.readiness());
        checks
    }
}

/// The place of a tenant in a transport.
fn slot<'a>(all: &'a mut DepthsShown, tenant: &str, transport: &str) -> &'a mut OutboxStats {
    let key = (tenant.to_owned(), transport.to_owned());
    all.entry(key).or_insert_with(|| OutboxStats {
        tenant: tenant.to_owned(),
        transport: transport.to_owned(),
        ..OutboxStats::default()
    })
}

/// What a plugin says of itself, or that it didn't within this time.
pub(crate) async fn health_within(limit: Duration, asked: impl Future<Output = HealthReport>) -> HealthReport {
    timeout(limit, asked).await.unwrap_or_else(|_late| HealthReport {
        health: Health::Degraded,
        detail: Some(format!("it didn't say how it is within {limit:?}")),
    })
}

async fn health_check(transport: &dyn Transport) -> Check {
    let HealthReport { health, detail } = health_within(PART_TIMEOUT, transport.health()).await;
    let (status, detail) = match health {
        Health::Ready => (CheckStatus::Ok, detail.unwrap_or_else(|| "serving".to_owned())),
        other => {
            let word = format!("{other:?}").to_lowercase();
            (CheckStatus::Warn, format!("{word}: {}", detail.unwrap_or_default()))
        }
    };
    check(&format!("transport {}", transport.name()), status, detail)
}

/// Of what the store wasn't asked in time.
fn silent(name: &str) -> Check {
    check(name, CheckStatus::Warn, format!("they can't be counted: the store didn't answer within {PART_TIMEOUT:?}"))
}

impl Outbox {
    /// What the owners of this host's shards have in their order.
    async fn depths_in_memory(&self) -> DepthsShown {
        let mut all = DepthsShown::new();
        let now = self.now();
        let live = self.context.live();
        for shard in &self.shards {
            let asked = shard.query(|reply| OwnerQuery::Depths { reply }).await;
            for ((owner, transport), depth) in asked.unwrap_or_default() {
                let name = transport.and_then(|id| live.routing.name(id)).unwrap_or("-");
                let stats = slot(&mut all, owner.as_str(), name);
                stats.ready += depth.ready;
                stats.leased += depth.leased;
                stats.parked += depth.parked;
                let age =
                    depth.oldest_ready.map(|oldest| u64::try_from(now.since(oldest).as_millis()).unwrap_or(u64::MAX));
                stats.oldest_ready_ms = stats.oldest_ready_ms.max(age);
            }
        }
        all
    }

    fn hold_view(&self, info: HoldInfo) -> BlockedView {
        let kind = info.kind();
        let HoldInfo { key, code, reason, since, until, waiting, .. } = info;
        let live = self.context.live();
        let transport = key.transport.and_then(|id| live.routing.name(id)).map(str::to_owned);
        BlockedView {
            kind,
            tenant: key.tenant.map(|tenant| tenant.to_string()),
            subject: if key.scope.is_empty() {
                transport.clone().unwrap_or_else(|| "*".to_owned())
            } else {
                key.scope.to_string()
            },
            transport,
            reason,
            code: Some(code),
            since: since.into(),
            until: until.map(Instant),
            waiting: waiting as u64,
        }
    }

    fn rate_view(&self, info: RateInfo) -> BlockedView {
        let reason = self.rate_reason(&info);
        let (tenant, transport) = match &info.bounded {
            Bounded::Tenant(tenant) => (Some(tenant.to_string()), None),
            Bounded::Transport(id) => (None, self.context.live().routing.name(*id).map(str::to_owned)),
        };
        BlockedView {
            kind: WaitKind::Rate,
            subject: tenant.clone().or_else(|| transport.clone()).unwrap_or_default(),
            tenant,
            transport,
            reason,
            code: None,
            since: info.since.into(),
            until: Some(info.until.into()),
            waiting: info.waiting as u64,
        }
    }

    /// Which limit it is, in words.
    pub(super) fn rate_reason(&self, info: &RateInfo) -> String {
        let whose = match &info.bounded {
            Bounded::Tenant(tenant) => format!("[[tenant]] {tenant}"),
            Bounded::Transport(id) => {
                format!("[transport.{}]", self.context.live().routing.name(*id).unwrap_or_default())
            }
        };
        format!("{whose} sends {} messages a second (rate), {} at once (burst)", info.rate.per_second, info.rate.burst)
    }

    fn stuck_sagas(&self) -> u64 {
        self.sagas.as_ref().map_or(0, |sagas| sagas.saga_stats().stuck)
    }

    /// Dead letters of messages and events, and of received messages.
    pub(crate) async fn dead_counts(&self) -> Result<(Depths, u64), StoreError> {
        let counted = self.context.stores.query.depths(DEAD_READS_MAX).await;
        // Of a store that doesn't answer any more, what was counted before isn't so now.
        let depths = counted.inspect_err(|_| *self.dead_counted.lock() = None)?;
        let received: u64 = match &self.inbox {
            Some(inbox) => inbox.dead_counts().await.map_or(0, |counts| counts.values().sum()),
            None => 0,
        };
        let stored: u64 = depths.of.iter().map(|depth| depth.dead).sum();
        let last = DeadCounted { count: stored + received, is_at_least: depths.dead_since.is_some() };
        *self.dead_counted.lock() = Some(last);
        Ok((depths, received))
    }

    /// Whether there are as many dead letters as are worth an alert, or more than are counted. `failed` are rows that stand failed in
    /// tables of sources.
    fn dead_check(&self, counted: Result<(Depths, u64), StoreError>, alert_at: u64, failed: u64) -> Check {
        let (depths, received) = match counted {
            Ok(counted) => counted,
            Err(error) => {
                let detail = format!("they can't be counted: {}: {error}", error.code());
                return check("dead letters", CheckStatus::Warn, detail);
            }
        };
        let dead: u64 = depths.of.iter().map(|depth| depth.dead).sum();
        let stuck = self.stuck_sagas();
        let is_alert = dead + stuck + received + failed >= alert_at || depths.dead_since.is_some();
        let status = if is_alert { CheckStatus::Warn } else { CheckStatus::Ok };
        let at_least = if depths.dead_since.is_some() { "at least " } else { "" };
        let sagas = if stuck > 0 { format!(" and {stuck} stuck sagas") } else { String::new() };
        let received = if received > 0 { format!(" and {received} received messages") } else { String::new() };
        let failed = if failed > 0 { format!(" and {failed} failed rows of tables") } else { String::new() };
        check(
            "dead letters",
            status,
            format!("{at_least}{dead} dead letters{sagas}{received}{failed}, the alert is at {alert_at}"),
        )
    }
}

fn check(name: &str, status: CheckStatus, detail: String) -> Check {
    Check { name: name.to_owned(), status, detail }
}

fn key_view(held: HeldKey) -> BlockedView {
    let reason = match (&held.until, &held.reason) {
        (None, Some(reason)) => format!("a dead letter at seq {} holds it: {reason}", held.seq),
        (_, Some(reason)) => format!("the message at seq {} waits for its retry: {reason}", held.seq),
        (_, None) => format!("the message at seq {} waits for its retry", held.seq),
    };
    BlockedView {
        kind: WaitKind::Key,
        tenant: Some(held.tenant.to_string()),
        transport: None,
        subject: held.key,
        reason,
        code: held.code,
        since: held.since.into(),
        until: held.until.map(Instant),
        waiting: held.waiting,
    }
}
