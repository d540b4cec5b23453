//! Settlements that came after their lease was lost: they change nothing, and everybody can see that they came.

use std::sync::Arc;

use waybill_core::code::Code;
use waybill_core::ids::{Seq, ShardId};
use waybill_core::message::Message;
use waybill_core::port::transact::AuditEvent;
use waybill_core::seq_json::SeqJson;

use super::Context;
use super::mail::SettlementReport;
use crate::spans;

/// A settlement that came too late.
pub(super) struct Stale {
    pub seq: Seq,
    pub epoch: u64,
    pub message: Arc<Message>,
}

impl From<SettlementReport> for Stale {
    fn from(report: SettlementReport) -> Self {
        Self { seq: report.seq, epoch: report.epoch, message: report.message }
    }
}

/// Counts late settlements and writes their audit in the background: nothing waits for it.
pub(super) fn audit(context: &Arc<Context>, shard: ShardId, stale: impl IntoIterator<Item = Stale>) {
    let at = context.clock.now().wall;
    let mut events = Vec::new();
    for Stale { seq, epoch, message } in stale {
        context.meter.lease_lost();
        tracing::warn!(shard = shard.0, seq = seq.0, epoch, id = %message.id, code = Code::TX_LEASE_LOST.as_str(), trace_id = spans::trace_id(&message), "a settlement came after its lease was lost");
        events.push(AuditEvent {
            at,
            kind: "outbox_flush_conflict".to_owned(),
            actor: context.config.host.clone(),
            tenant: Some(message.tenant.to_string()),
            object: message.id.to_string(),
            detail: serde_json::json!({ "shard": shard.0, "seq": SeqJson(seq.0), "epoch": epoch }),
        });
    }
    if events.is_empty() {
        return;
    }
    let store = Arc::clone(&context.stores.transact);
    tokio::spawn(async move {
        for event in events {
            if let Err(error) = store.audit(&event).await {
                tracing::error!(%error, "can't write the audit of a lease conflict");
            }
        }
    });
}
