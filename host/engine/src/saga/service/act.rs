//! What operators do, signals, and replies to `bus:` steps.

use std::sync::Arc;

use waybill_core::ids::Tenant;
use waybill_core::port::saga::{Acted, ActedBy, SagaAct, StepReply};
use waybill_core::port::transact::AuditEvent;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::event::StepDirection;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::machine::late_decision;
use waybill_core::saga::shard::{SagaCommand, SagaReply};

use super::super::{SagaHandle, Shared};
use super::Sagas;
use crate::service;

impl Sagas {
    pub(super) async fn do_act(
        &self,
        tenant: &Tenant,
        id: &SagaId,
        act: SagaAct,
        by: ActedBy,
    ) -> Result<Acted, SagaError> {
        let key = SagaKey { tenant: tenant.clone(), id: id.clone() };
        let (kind, detail) = (audit_kind(&act), detail(&act, by.note.as_deref()));
        let event = self.event(kind, &by.actor, Some(tenant), id.as_str(), detail);
        let decided = match &act {
            SagaAct::Approve { step, .. } | SagaAct::Reject { step, .. } => Some(step.clone()),
            _ => None,
        };
        match (self.audited(key.clone(), SagaCommand::Act { key: key.clone(), act, by }, event).await, decided) {
            (Err(SagaError::Ended { .. }), Some(step)) => Err(self.late_decision(&key, step.as_deref()).await?),
            (acted, _) => acted,
        }
    }

    /// What is said about a decision that comes when its saga has ended: who made it, or that its time was over.
    async fn late_decision(&self, key: &SagaKey, step: Option<&str>) -> Result<SagaError, SagaError> {
        let (tree, definitions) = self.tree(key).await?;
        Ok(late_decision(&tree, &definitions, &key.id, step))
    }

    /// Has a command done and audited. In a task of its own: what is done is audited although its caller went away.
    async fn audited(&self, key: SagaKey, command: SagaCommand, event: AuditEvent) -> Result<Acted, SagaError> {
        let (shared, shard) = (Arc::clone(&self.shared), self.shard(&key)?.clone());
        let work = tokio::spawn(async move {
            let acted = command_at(&shared, &shard, &key, command).await?;
            if !acted.unchanged {
                service::audit(&shared.context, &event).await;
            }
            Ok(acted)
        });
        work.await.unwrap_or_else(|ended| Err(SagaError::Unavailable(ended.to_string())))
    }

    pub(super) async fn send_signal(
        &self,
        tenant: &Tenant,
        id: &SagaId,
        name: &str,
        data: Json,
        by: ActedBy,
    ) -> Result<Acted, SagaError> {
        let key = SagaKey { tenant: tenant.clone(), id: id.clone() };
        let detail = serde_json::json!({ "signal": name, "bytes": data.len(), "reason": by.note });
        let event = self.event("SagaSignalled", &by.actor, Some(tenant), id.as_str(), detail);
        let signal = SagaCommand::Signal { key: key.clone(), name: name.to_owned(), data, by };
        self.audited(key, signal, event).await
    }

    pub(super) async fn take_reply(&self, tenant: &Tenant, reply: StepReply) -> Result<Acted, SagaError> {
        let key = SagaKey { tenant: tenant.clone(), id: reply.id.clone() };
        let step = (reply.id.clone(), reply.step.clone(), reply.way);
        let command = SagaCommand::Reply { tenant: tenant.clone(), reply };
        match command_at(&self.shared, self.shard(&key)?, &key, command).await {
            Err(SagaError::Ended { .. }) => self.late_reply(&key, step).await,
            other => other,
        }
    }

    /// A reply to a saga that has ended decides nothing, as one that comes twice: whoever sends it needn't send it again.
    async fn late_reply(
        &self,
        key: &SagaKey,
        (id, step, way): (SagaId, String, StepDirection),
    ) -> Result<Acted, SagaError> {
        tracing::info!(saga = %id, step, direction = way.as_str(), "a reply came after its saga had ended");
        let (tree, _) = self.tree(key).await?;
        Ok(Acted { id: key.root().id, state: tree.state(), unchanged: true })
    }
}

/// Has a command done. One for a saga that isn't in memory may be for one that has ended.
async fn command_at(
    shared: &Shared,
    shard: &SagaHandle,
    key: &SagaKey,
    command: SagaCommand,
) -> Result<Acted, SagaError> {
    match shard.command(command).await {
        Ok(SagaReply::Acted(acted)) => Ok(acted),
        Ok(SagaReply::Started { .. }) => Err(SagaError::LookAgain),
        Err(SagaError::NotFound { id }) => match shared.store.saga(shard.shard, &key.root()).await? {
            Some(row) if row.tree.is_ended() && row.tree.number_of(&key.id).is_some() => {
                Err(SagaError::Ended { id, state: row.tree.state().word().to_owned() })
            }
            _ => Err(SagaError::NotFound { id }),
        },
        Err(error) => Err(error),
    }
}

fn audit_kind(act: &SagaAct) -> &'static str {
    match act {
        SagaAct::Pause => "SagaPaused",
        SagaAct::Resume => "SagaResumed",
        SagaAct::Cancel => "SagaCancelled",
        SagaAct::Kill => "SagaKilled",
        SagaAct::Retry { .. } => "SagaRetried",
        SagaAct::Skip { .. } => "SagaStepSkipped",
        SagaAct::Approve { .. } => "SagaStepApproved",
        SagaAct::Reject { .. } => "SagaStepRejected",
        SagaAct::Accept => "SagaAccepted",
    }
}

fn detail(act: &SagaAct, note: Option<&str>) -> serde_json::Value {
    let (step, mode) = match act {
        SagaAct::Retry { step, mode } => (step.as_deref(), Some(mode)),
        SagaAct::Skip { step } => (Some(step.as_str()), None),
        SagaAct::Approve { step, .. } | SagaAct::Reject { step, .. } => (step.as_deref(), None),
        _ => (None, None),
    };
    serde_json::json!({ "act": act.name(), "step": step, "mode": mode, "reason": note })
}
