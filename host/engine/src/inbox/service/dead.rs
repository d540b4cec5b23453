//! Dead letters of received messages. They are read from the store, so that those of other hosts are there too.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use waybill_api::inbox::InboxMessageView;
use waybill_core::annotation::Annotation;
use waybill_core::glob::Glob;
use waybill_core::ids::{ConsumerName, InboundId, Key, Seq, ShardId, Tenant};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::place::InboxPlace;
use waybill_core::inbox::records::{InboxDead, InboxRow};
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::inbox_store::InboxFilter;
use waybill_core::port::query::ReadPage;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;

use super::Inbox;
use super::status::waiting;

/// Dead letters read in one page of a walk.
const WALK_PAGE: usize = 500;
/// All are looked through this often for old ones,
const WALK_EVERY: Duration = Duration::from_secs(600);
/// and so often at least while one is kept.
const WALKS_KEPT: u32 = 10;
/// Dead letters of one id that are looked at: past two it names several anyway.
const SAME_ID_MAX: usize = 2;

/// A dead letter of a received message, with its shard.
pub(crate) type DeadOf = (ShardId, Arc<InboxDead>);

impl Inbox {
    /// A page of those that match. It may hold fewer than `limit` although more follow.
    pub async fn dead_page(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<DeadOf>, StoreError> {
        let mut page = self.store().inbox_dead(&exact(filter), cursor, limit).await?;
        page.items.retain(|(shard, dead)| filter.takes_dead_inbox(*shard, dead));
        Ok(page)
    }

    /// Calls `each` with every one that matches, of the first `most` that are read, a page more or less. True = there are no others.
    pub async fn each_dead(
        &self,
        filter: &Filter,
        most: usize,
        mut each: impl FnMut(ShardId, &InboxDead) + Send,
    ) -> Result<bool, StoreError> {
        let (mut cursor, mut read) = (None::<String>, 0);
        loop {
            let page = self.store().inbox_dead(&exact(filter), cursor.as_deref(), WALK_PAGE).await?;
            read += page.reads;
            let matching = page.items.iter().filter(|(shard, dead)| filter.takes_dead_inbox(*shard, dead));
            matching.for_each(|(shard, dead)| each(*shard, dead));
            cursor = page.next_cursor;
            if cursor.is_none() || read >= most {
                return Ok(cursor.is_none());
            }
        }
    }

    /// The one at a place, or the only ones with a sender's id.
    pub async fn dead_letters_named(&self, tenant: &Tenant, id: &str) -> Result<Vec<DeadOf>, StoreError> {
        if let Ok(place) = id.parse::<InboxPlace>() {
            let found = self.store().inbox_dead_letter(place.shard, place.seq).await?;
            return Ok(found
                .filter(|dead| dead.message.tenant == *tenant)
                .map(|dead| (place.shard, dead))
                .into_iter()
                .collect());
        }
        let Ok(id) = InboundId::new(id) else { return Ok(Vec::new()) };
        let filter = InboxFilter { tenant: Some(tenant.clone()), id: Some(id), ..InboxFilter::default() };
        Ok(self.store().inbox_dead(&filter, None, SAME_ID_MAX).await?.items)
    }

    /// Has one handled again; what it became.
    pub async fn replay_dead(&self, shard: ShardId, dead: &Arc<InboxDead>) -> Result<InboxMessageView, ServiceError> {
        if dead.message.omitted.is_some() {
            return Err(ServiceError::State {
                what: "dead letter",
                id: InboxPlace { shard, seq: dead.seq }.to_string(),
                state: "without its payload, which was too large to carry".to_owned(),
                fix: "fetch the message at its position, or raise inbox.max_payload_bytes and have it sent again",
            });
        }
        self.store_again(shard, dead, Arc::clone(&dead.message)).await
    }

    async fn store_again(
        &self,
        shard: ShardId,
        dead: &Arc<InboxDead>,
        message: Arc<InboundMessage>,
    ) -> Result<InboxMessageView, ServiceError> {
        let handle = self.shard(shard)?;
        let known = handle.replay(Arc::clone(dead), Arc::clone(&message)).await?;
        metrics::counter!("tx_replay_total", "kind" => "inbox").increment(1);
        let row = InboxRow {
            seq: known.as_ref().map_or(Seq(0), |known| known.seq),
            consumer: dead.consumer.clone(),
            fingerprint: dead.fingerprint,
            order: None,
            digest: dead.digest,
            message,
            attempts: 0,
            last_error: None,
            due: UnixMillis::default(),
            delay: Default::default(),
            maybe_handled: true,
        };
        let view = InboxMessageView::of(shard, &row);
        let place = view.place.clone().filter(|_| known.is_some());
        Ok(InboxMessageView { place, not_before: None, waiting: known.as_ref().and_then(waiting), ..view })
    }

    /// The same with an audit event. In a task of its own: what is done is audited although its caller went away.
    pub async fn replay_audited(
        self: &Arc<Self>,
        (shard, dead): DeadOf,
        edited: Option<Arc<InboundMessage>>,
        reason: &str,
        actor: &str,
    ) -> Result<InboxMessageView, ServiceError> {
        let place = InboxPlace { shard, seq: dead.seq }.to_string();
        let edited_as = edited.as_ref().map(|message| message.id.to_string());
        let (consumer, message_id) = (dead.consumer.as_str(), dead.message.id.as_str());
        let detail = json!({
            "kind": "inbox",
            "consumer": consumer,
            "message_id": message_id,
            "reason": reason,
            "code": dead.code,
            "edited_as": edited_as,
        });
        let event = self.event("TxReplayRequested", actor, Some(&dead.message.tenant), &place, detail);
        let inbox = Arc::clone(self);
        let work = tokio::spawn(async move {
            let view = match edited {
                Some(message) => inbox.store_again(shard, &dead, message).await?,
                None => inbox.replay_dead(shard, &dead).await?,
            };
            inbox.audit(event).await;
            Ok(view)
        });
        work.await.unwrap_or_else(|ended| Err(ServiceError::Unavailable(ended.to_string())))
    }

    /// The message of a dead letter as somebody edited it, under an id of its own. `edited` is the whole copy: what it hasn't was taken
    /// away. Subject, tenant and what the source says of its delivery stay.
    pub fn edited(&self, dead: &InboxDead, edited: NewMessage) -> Result<InboundMessage, ServiceError> {
        let original = &*dead.message;
        let id = match edited.id {
            Some(id) => InboundId::new(id)?,
            None => InboundId::new(ulid::Ulid::new().to_string())?,
        };
        let text = |annotation| edited.annotations.get(annotation).map(str::to_owned);
        Ok(InboundMessage {
            id,
            content_type: text(Annotation::ContentType),
            correlation_id: text(Annotation::CorrelationId),
            causation_id: Some(original.id.to_string()),
            reply_to: text(Annotation::ReplyTo),
            key: edited.key.map(Key::new).transpose()?,
            headers: edited.headers,
            payload: edited.payload,
            event_type: edited.event_type,
            event_version: edited.event_version,
            occurred_at: edited.occurred_at,
            omitted: None,
            received_at: self.now(),
            position: None,
            ..original.clone()
        })
    }

    /// Removes one for good.
    pub async fn purge_dead(&self, shard: ShardId, dead: &InboxDead) -> Result<(), ServiceError> {
        self.shard(shard)?.purge(dead.seq).await
    }

    /// Fences one off. False when there is none any more.
    pub async fn quarantine_dead(&self, shard: ShardId, dead: &InboxDead, note: &str) -> Result<bool, StoreError> {
        let state = DeadState::Quarantined { note: note.to_owned(), at: self.now() };
        self.store().mark_inbox_dead(shard, dead.seq, &state).await
    }

    /// The same with an audit event.
    pub async fn quarantine_audited(
        self: &Arc<Self>,
        (shard, dead): DeadOf,
        note: &str,
        actor: &str,
    ) -> Result<bool, ServiceError> {
        let place = InboxPlace { shard, seq: dead.seq }.to_string();
        let (consumer, message_id) = (dead.consumer.as_str(), dead.message.id.as_str());
        let detail = json!({ "kind": "inbox", "consumer": consumer, "message_id": message_id, "note": note });
        let event = self.event("DeadLetterQuarantined", actor, Some(&dead.message.tenant), &place, detail);
        let (inbox, note) = (Arc::clone(self), note.to_owned());
        let work = tokio::spawn(async move {
            let is_there = inbox.quarantine_dead(shard, &dead, &note).await?;
            if is_there {
                inbox.audit(event).await;
            }
            Ok(is_there)
        });
        work.await.unwrap_or_else(|ended| Err(ServiceError::Unavailable(ended.to_string())))
    }

    /// Removes those that are older than `keep`. It reads all there are, so it does so now and then.
    pub async fn retire_dead(&self, keep: Duration) -> Result<(), ServiceError> {
        let is_due = |walked: &mut Option<Instant>| {
            let is_due = walked.is_none_or(|at| at.elapsed() >= WALK_EVERY.min(keep / WALKS_KEPT));
            if is_due {
                *walked = Some(Instant::now());
            }
            is_due
        };
        if !is_due(&mut self.walked_at.lock()) {
            return Ok(());
        }
        let before = UnixMillis(self.now().0.saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX)));
        let mut cursor: Option<String> = None;
        loop {
            let page = self.store().inbox_dead(&InboxFilter::default(), cursor.as_deref(), WALK_PAGE).await?;
            for (shard, dead) in page.items.iter().filter(|(_, dead)| dead.died_at < before) {
                let Ok(handle) = self.shard(*shard) else { continue };
                if handle.is_written() {
                    handle.purge(dead.seq).await?;
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Whether an error of an act may be over in a moment, so that a bulk act waits for that.
    pub fn is_passing(&self, error: &ServiceError) -> bool {
        match error {
            ServiceError::Unavailable(_) => self.shared.context.config.exclusive,
            ServiceError::Busy { .. } | ServiceError::OutcomeUnknown(_) | ServiceError::Unsure(_) => true,
            ServiceError::Store(error) => error.retryable() || matches!(error, StoreError::Other(_)),
            _ => false,
        }
    }
}

/// What of a filter a store can look up: it takes no less.
fn exact(filter: &Filter) -> InboxFilter {
    let text = |glob: &Option<Glob>| glob.as_ref().and_then(Glob::exact).map(str::to_owned);
    // A place isn't the sender's id.
    let id = text(&filter.id).filter(|id| id.parse::<InboxPlace>().is_err());
    InboxFilter {
        consumer: text(&filter.consumer).and_then(|name| ConsumerName::new(name).ok()),
        tenant: text(&filter.tenant).and_then(|name| Tenant::new(name).ok()),
        context: text(&filter.context),
        id: id.and_then(|id| InboundId::new(id).ok()),
    }
}
