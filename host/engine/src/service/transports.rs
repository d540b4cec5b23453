//! Transports: shown, paused, asked how they are, provisioned.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use waybill_api::transports::{Breaker, TransportService, TransportView};
use waybill_core::outbox::owner::{TransportId, WaitKind};
use waybill_core::port::missing::Missing;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange, ProvisionError};
use waybill_core::port::service::ServiceError;

use super::status::{HEALTH_TIMEOUT, health_within};
use super::{Outbox, audit, because};
use crate::shard::OwnerQuery;

#[async_trait]
impl TransportService for Outbox {
    async fn transports(&self) -> Vec<TransportView> {
        let mut views = Vec::new();
        for (_, entry) in self.context.live().iter() {
            views.extend(self.transport_view(entry.transport.name()).await);
        }
        views
    }

    async fn pause(&self, transport: &str, reason: &str, actor: &str) -> Result<TransportView, ServiceError> {
        self.set_paused(transport, true, reason, actor).await
    }

    async fn resume(&self, transport: &str, reason: &str, actor: &str) -> Result<TransportView, ServiceError> {
        self.set_paused(transport, false, reason, actor).await
    }

    async fn probe(&self, transport: &str, actor: &str) -> Result<TransportView, ServiceError> {
        let live = self.context.live();
        let (id, _) = live.find(transport).ok_or_else(|| Self::no_transport(transport))?;
        for shard in &self.shards {
            shard.retry_holds(id);
        }
        self.audit_event(self.event("TransportProbed", actor, None, transport, serde_json::Value::Null)).await;
        self.transport_view(transport).await.ok_or_else(|| Self::no_transport(transport))
    }

    async fn provision(&self, name: &str, apply: bool, actor: &str) -> Result<Vec<ProvisionChange>, ServiceError> {
        let live = self.context.live();
        let (_, entry) = live.find(name).ok_or_else(|| Self::no_transport(name))?;
        let transport = Arc::clone(&entry.transport);
        let failed = |error| of_provisioning(name, error);
        if !apply {
            return transport.provision(false).await.map_err(failed);
        }
        let mut event = self.event("TransportProvisioned", actor, None, name, serde_json::Value::Null);
        let context = Arc::clone(&self.context);
        // In a task of its own: what was begun at the peer is ended and audited, whether or not its caller waits.
        let work = tokio::spawn(async move {
            let result = transport.provision(true).await;
            if !matches!(result, Err(ProvisionError::NotOffered { .. })) {
                event.detail = provision_detail(&result);
                audit(&context, &event).await;
            }
            result
        });
        work.await.map_err(|ended| ServiceError::Unavailable(ended.to_string()))?.map_err(failed)
    }
}

impl Outbox {
    async fn transport_view(&self, name: &str) -> Option<TransportView> {
        let live = self.context.live();
        let (id, entry) = live.find(name)?;
        let mut breaker = Breaker::Closed;
        for shard in &self.shards {
            let whole = shard.query(|reply| OwnerQuery::TransportHold { transport: id, reply }).await.flatten();
            if let Some(info) = whole.filter(|info| info.kind() != WaitKind::Unclaimed) {
                breaker = if info.probing { Breaker::HalfOpen } else { Breaker::Open };
            }
        }
        let leases = self.leases_of(id).await;
        let health = health_within(HEALTH_TIMEOUT, entry.transport.health()).await;
        Some(TransportView {
            name: name.to_owned(),
            plugin: entry.transport.identity(),
            paused: entry.state.paused.load(Ordering::Acquire),
            breaker,
            lanes: entry.transport.limits().lanes,
            in_flight: entry.state.in_flight.load(Ordering::Relaxed) + leases,
            health: health.health,
            health_detail: health.detail,
        })
    }

    /// Messages of a transport that workers outside have.
    async fn leases_of(&self, id: TransportId) -> u64 {
        let mut leases = 0;
        if self.context.live().routing.external == Some(id) {
            for shard in &self.shards {
                leases += shard.query(|reply| OwnerQuery::Leases { reply }).await.unwrap_or(0);
            }
        }
        leases
    }

    pub(super) fn no_transport(name: &str) -> ServiceError {
        ServiceError::NotFound { what: Missing::Transport, id: name.to_owned() }
    }

    async fn set_paused(
        &self,
        name: &str,
        paused: bool,
        reason: &str,
        actor: &str,
    ) -> Result<TransportView, ServiceError> {
        let live = self.context.live();
        let (id, entry) = live.find(name).ok_or_else(|| Self::no_transport(name))?;
        entry.state.paused.store(paused, Ordering::Release);
        for shard in &self.shards {
            shard.pause(id, paused);
        }
        self.streams.iter().for_each(|streams| streams.wake_relays());
        self.context.stores.transact.set_paused(name, paused).await?;
        let kind = if paused { "TransportPaused" } else { "TransportResumed" };
        self.audit_event(self.event(kind, actor, None, name, because(reason, serde_json::json!({})))).await;
        self.transport_view(name).await.ok_or_else(|| Self::no_transport(name))
    }
}

fn of_provisioning(transport: &str, error: ProvisionError) -> ServiceError {
    let transport = transport.to_owned();
    match error {
        ProvisionError::NotOffered { .. } => ServiceError::NoProvisioning { transport, error },
        ProvisionError::Failed(_) => ServiceError::ProvisionFailed { transport, error },
    }
}

/// What was done, or what stopped it.
pub(crate) fn provision_detail(result: &Result<Vec<ProvisionChange>, ProvisionError>) -> serde_json::Value {
    match result {
        Ok(changes) => {
            let of = |action| -> Vec<&str> {
                let same = changes.iter().filter(|change| change.action == action);
                same.map(|change| change.target.as_str()).collect()
            };
            serde_json::json!({
                "created": of(ProvisionAction::Create), "changed": of(ProvisionAction::Change),
                "conflicts": of(ProvisionAction::Conflict),
            })
        }
        Err(error) => serde_json::json!({ "error": error.to_string() }),
    }
}
