//! Dead letters, one by one.

use waybill_core::ids::Tenant;
use waybill_core::message::Payload;
use waybill_core::new_message::NewMessage;
use waybill_core::port::query::{Found, Page};
use waybill_core::port::service::{Enqueued, MessageView, ServiceError};

use super::Outbox;
use super::views::named;
use crate::shard::Wish;

impl Outbox {
    pub(super) async fn list_dead(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<MessageView>, ServiceError> {
        let Some(filter) = self.filter(tenant, filter)? else {
            return Ok(Page { items: Vec::new(), next_cursor: None });
        };
        let page = self.context.stores.query.dead_letters(&filter, cursor, limit).await?;
        let items = page.items.into_iter().map(|dead| self.view(&Found::Dead(dead))).collect();
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    async fn find_dead(&self, tenant: &Tenant, id: &str) -> Result<Found, ServiceError> {
        match self.find(tenant, id).await? {
            Some(found @ Found::Dead(_)) => Ok(found),
            Some(found) => {
                Err(self.wrong_state(&found, "only dead letters can be replayed, edited or quarantined").await)
            }
            None => Err(ServiceError::NotFound { what: "dead letter", id: id.to_owned() }),
        }
    }

    pub(super) async fn show_dead(&self, tenant: &Tenant, id: &str) -> Result<MessageView, ServiceError> {
        match self.find(tenant, id).await? {
            Some(found @ Found::Dead(_)) => self.full_view(&found).await,
            _ => Err(ServiceError::NotFound { what: "dead letter", id: id.to_owned() }),
        }
    }

    pub(super) async fn replay_one(
        &self,
        tenant: &Tenant,
        id: &str,
        reason: &str,
        actor: &str,
    ) -> Result<MessageView, ServiceError> {
        let Found::Dead(dead) = self.find_dead(tenant, id).await? else {
            return Err(ServiceError::NotFound { what: "dead letter", id: id.to_owned() });
        };
        let detail = serde_json::json!({ "kind": "outbox", "reason": reason, "code": dead.code });
        let event = self.event("TxReplayRequested", actor, Some(tenant.as_str()), id, detail);
        let wish = Wish::Replay { place: dead.place, quarantined_too: true };
        self.audited_act(dead.place.shard, wish, event).await.map_err(|error| named(error, id))?;
        metrics::counter!("tx_replay_total", "kind" => "outbox").increment(1);
        self.show_message(tenant, id).await
    }

    pub(super) async fn quarantine_one(
        &self,
        tenant: &Tenant,
        id: &str,
        note: &str,
        actor: &str,
    ) -> Result<MessageView, ServiceError> {
        let Found::Dead(dead) = self.find_dead(tenant, id).await? else {
            return Err(ServiceError::NotFound { what: "dead letter", id: id.to_owned() });
        };
        let detail = serde_json::json!({ "note": note });
        let event = self.event("DeadLetterQuarantined", actor, Some(tenant.as_str()), id, detail);
        let wish = Wish::Quarantine { place: dead.place, note: note.to_owned() };
        self.audited_act(dead.place.shard, wish, event).await.map_err(|error| named(error, id))?;
        self.show_message(tenant, id).await
    }

    /// Enqueues an edited copy under a new id that names the original as its cause, and fences the original off. What
    /// the edit leaves out is taken from the original.
    pub(super) async fn edit_dead(
        &self,
        tenant: &Tenant,
        id: &str,
        edited: NewMessage,
        actor: &str,
    ) -> Result<Enqueued, ServiceError> {
        let Found::Dead(dead) = self.find_dead(tenant, id).await? else {
            return Err(ServiceError::NotFound { what: "dead letter", id: id.to_owned() });
        };
        let original = &dead.message;
        let payload = match (&original.payload, edited.payload.is_empty()) {
            (_, false) => edited.payload.clone(),
            (Payload::Inline(bytes), true) => bytes.clone(),
            (Payload::Blob { blob, .. }, true) => self.context.stores.owner.blob(blob).await?.unwrap_or_default(),
        };
        let copy = NewMessage {
            topic: if edited.topic.is_empty() { original.topic.to_string() } else { edited.topic },
            payload,
            content_type: edited.content_type.or_else(|| original.content_type.clone()),
            id: edited.id,
            tenant: Some(tenant.to_string()),
            key: edited.key.or_else(|| original.key.as_ref().map(ToString::to_string)),
            headers: if edited.headers.is_empty() { original.headers.clone() } else { edited.headers },
            not_before: edited.not_before,
            expires_at: edited.expires_at,
            occurred_at: edited.occurred_at.or(Some(original.occurred_at)),
            event_type: edited.event_type.or_else(|| Some(original.event_type.clone())),
            event_version: edited.event_version.or(Some(original.event_version)),
            aggregate_type: edited.aggregate_type.or_else(|| original.aggregate_type.clone()),
            aggregate_id: edited.aggregate_id.or_else(|| original.aggregate_id.clone()),
            envelope_id: edited.envelope_id.or_else(|| original.envelope_id.clone()),
            correlation_id: edited.correlation_id.or_else(|| original.correlation_id.clone()),
            causation_id: Some(id.to_owned()),
            reply_to: edited.reply_to.or_else(|| original.reply_to.clone()),
            traceparent: edited.traceparent.or_else(|| original.traceparent.clone()),
        };
        let enqueued = self.enqueue_messages(vec![copy]).await?;
        let new_id = enqueued.ids.first().cloned().unwrap_or_default();
        let note = format!("edited and sent again as {new_id}");
        let detail = serde_json::json!({ "kind": "outbox", "edited_as": new_id });
        let event = self.event("TxReplayRequested", actor, Some(tenant.as_str()), id, detail);
        let wish = Wish::Quarantine { place: dead.place, note };
        self.audited_act(dead.place.shard, wish, event).await.map_err(|error| named(error, id))?;
        metrics::counter!("tx_replay_total", "kind" => "outbox").increment(1);
        Ok(enqueued)
    }
}
