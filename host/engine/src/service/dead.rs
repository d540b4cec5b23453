//! Dead letters: messages, stuck sagas, received messages, events of streams.

use std::sync::Arc;

use async_trait::async_trait;
use waybill_api::dead_events::DeadEvent;
use waybill_api::dead_inbox::DeadInbox;
use waybill_api::dead_letters::{
    DeadGroupView, DeadLetterService, DeadLetterView, PlanAsk, PlannedDead, Replay, Replayed, ReplayedSaga, SagaLinks,
};
use waybill_api::facets::FacetsView;
use waybill_api::messages::{EnqueueService, Enqueued, MessageService, MessageView};
use waybill_core::annotation::Annotation;
use waybill_core::ids::Tenant;
use waybill_core::inbox::place::InboxPlace;
use waybill_core::limits::DEAD_READS_MAX;
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadLetter;
use waybill_core::port::dead::{DeadId, DeadKind, EVENTS_STAY, NOTHING_TO_EDIT};
use waybill_core::port::missing::Missing;
use waybill_core::port::query::{Counted, Found, Page};
use waybill_core::port::saga::{Acted, ActedBy};
use waybill_core::port::service::ServiceError;
use waybill_core::saga::records::SagaDead;
use waybill_core::streams::dead::StoredDead;

use super::dead_list::{Dead, planned_reads};
use super::messages::named;
use super::{Outbox, because};
use crate::inbox::service::{DeadOf, Inbox};
use crate::saga::service::Sagas;
use crate::shard::OperatorCommand;
use crate::streams::service::Streams;

fn missing(id: &str) -> ServiceError {
    ServiceError::NotFound { what: Missing::DeadLetter, id: id.to_owned() }
}

fn other_kind(id: &str, fix: &'static str) -> ServiceError {
    ServiceError::DeadKind { id: id.to_owned(), fix }
}

#[async_trait]
impl DeadLetterService for Outbox {
    async fn dead_letters(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<DeadLetterView>, ServiceError> {
        let Some(filter) = self.filter(tenant, filter)? else {
            return Ok(Page { items: Vec::new(), next_cursor: None });
        };
        let page = self.dead_page(&filter, cursor, limit, true).await?;
        let items = page.items.into_iter().map(|dead| self.dead_view(dead)).collect();
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    async fn count_dead(&self, tenant: Option<&Tenant>, filter: &str) -> Result<Counted<u64>, ServiceError> {
        match self.filter(tenant, filter)? {
            None => Ok(Counted::default()),
            Some(filter) => self.number_of_dead(&filter, DEAD_READS_MAX).await,
        }
    }

    async fn plan_dead(&self, tenant: Option<&Tenant>, ask: PlanAsk<'_>) -> Result<PlannedDead, ServiceError> {
        let now = self.now();
        let before = ask.before.map_or(now, |before| before.min(now));
        let mut planned = PlannedDead { before, counted: Counted::default(), sample: Vec::new() };
        let mut filter = Filter::parse(ask.filter, before)?;
        if tenant.is_some_and(|tenant| !filter.confine(tenant.as_str())) {
            return Ok(planned);
        }
        filter.until(before);
        let page = self.dead_page(&filter, None, ask.sample, true).await?;
        planned.sample.extend(page.items.into_iter().map(|dead| self.dead_view(dead)));
        if ask.spares_quarantined {
            // To tell how many are left out.
            filter.state = None;
        }
        planned.counted = self.plan_of_dead(&filter, planned_reads(ask.exact), ask.spares_quarantined).await?;
        Ok(planned)
    }

    async fn dead_groups(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
    ) -> Result<Counted<Vec<DeadGroupView>>, ServiceError> {
        match self.filter(tenant, filter)? {
            None => Ok(Counted::default()),
            Some(filter) => self.groups_of_dead(&filter).await,
        }
    }

    async fn dead_facets(&self, tenant: Option<&Tenant>, filter: &str) -> Result<FacetsView, ServiceError> {
        match self.filter(tenant, filter)? {
            Some(filter) => self.facets_of_dead(&filter).await,
            None => Ok(FacetsView::default()),
        }
    }

    async fn dead_letter(&self, dead: &DeadId) -> Result<DeadLetterView, ServiceError> {
        match self.find_dead(dead).await {
            Ok(Dead::Message(message)) => Ok(self.full_view(&Found::Dead(message)).await?.into()),
            Ok(Dead::Saga(saga)) => Ok(DeadLetterView::from(&*saga)),
            Ok(Dead::Inbox(shard, dead)) => {
                Ok(DeadInbox::of(shard, &dead).with_payload(dead.message.payload.clone()).into())
            }
            Ok(Dead::Event(dead)) => Ok(DeadEvent::of(&dead).with_event(&dead).into()),
            Err(ServiceError::State { .. }) => Err(missing(&dead.id)),
            Err(error) => Err(error),
        }
    }

    async fn replay(&self, dead: &DeadId, how: Replay, actor: &str) -> Result<Replayed, ServiceError> {
        match self.find_dead(dead).await? {
            Dead::Message(_) | Dead::Inbox(..) | Dead::Event(_) if how.mode.is_some() => {
                Err(other_kind(&dead.id, "it is a message, and mode is for sagas: leave it out"))
            }
            Dead::Inbox(shard, letter) => {
                let view = self.own_inbox()?.replay_audited((shard, letter), None, &how.reason, actor).await?;
                Ok(Replayed::Inbox(Box::new(view)))
            }
            Dead::Event(letter) => {
                self.own_streams()?.replay_audited(&letter, &how.reason, actor).await?;
                Ok(Replayed::Event(Box::new(DeadEvent::of(&letter))))
            }
            Dead::Message(message) => {
                let view = self.replay_message(&dead.tenant, &dead.id, &message, &how.reason, actor).await?;
                Ok(Replayed::Message(Box::new(view)))
            }
            Dead::Saga(saga) => {
                let acted = self.replay_saga(&saga, how, actor).await?;
                let tenant = &saga.key.tenant;
                Ok(Replayed::Saga(ReplayedSaga {
                    links: SagaLinks::of(tenant, acted.id.as_str()),
                    id: acted.id.to_string(),
                    tenant: tenant.to_string(),
                    state: acted.state,
                    unchanged: acted.unchanged,
                }))
            }
        }
    }

    async fn quarantine(&self, dead: &DeadId, note: &str, actor: &str) -> Result<DeadLetterView, ServiceError> {
        let (tenant, id) = (&dead.tenant, dead.id.as_str());
        let message = match self.find_dead(dead).await? {
            Dead::Message(message) => message,
            Dead::Inbox(shard, letter) => {
                let named = DeadId { id: InboxPlace { shard, seq: letter.seq }.to_string(), ..dead.clone() };
                if !self.own_inbox()?.quarantine_audited((shard, letter), note, actor).await? {
                    return Err(missing(id));
                }
                return self.dead_letter(&named).await;
            }
            Dead::Event(letter) => {
                if !self.own_streams()?.quarantine_audited(&letter, note, actor).await? {
                    return Err(missing(id));
                }
                return self.dead_letter(dead).await;
            }
            Dead::Saga(saga) => {
                if !self.own_sagas()?.quarantine_audited(&saga, note, actor).await? {
                    return Err(missing(id));
                }
                let fenced = self.stuck_saga(tenant, id).await?;
                return fenced.map(|saga| DeadLetterView::from(&*saga)).ok_or_else(|| missing(id));
            }
        };
        let detail = serde_json::json!({ "note": note });
        let event = self.event("DeadLetterQuarantined", actor, Some(tenant.as_str()), id, detail);
        let command = OperatorCommand::Quarantine { place: message.place, died_at: None, note: note.to_owned() };
        self.audited_act(message.place.shard, command, event).await.map_err(|error| named(error, id))?;
        Ok(self.message(tenant, id).await?.into())
    }

    /// Enqueues the copy and fences the original off.
    async fn edit(
        &self,
        dead: &DeadId,
        edited: NewMessage,
        reason: &str,
        actor: &str,
    ) -> Result<Enqueued, ServiceError> {
        let (tenant, id) = (&dead.tenant, dead.id.as_str());
        let dead = match self.find_dead(dead).await? {
            Dead::Message(dead) => dead,
            Dead::Saga(_) => return Err(other_kind(id, NOTHING_TO_EDIT)),
            Dead::Event(_) => return Err(other_kind(id, EVENTS_STAY)),
            Dead::Inbox(shard, letter) => {
                let inbox = self.own_inbox()?;
                let message = Arc::new(inbox.edited(&letter, edited)?);
                let new_id = message.id.to_string();
                let reason = if reason.trim().is_empty() { "edited" } else { reason };
                inbox.replay_audited((shard, letter), Some(message), reason, actor).await?;
                return Ok(Enqueued { ids: vec![new_id], ..Enqueued::default() });
            }
        };
        let mut copy = edited;
        copy.annotations.set(Annotation::CausationId, Some(id));
        let enqueued = self.enqueue(vec![copy]).await?;
        let new_id = enqueued.ids.first().cloned().unwrap_or_default();
        let note = format!("edited and sent again as {new_id}");
        let detail = because(reason, serde_json::json!({ "kind": "outbox", "edited_as": new_id }));
        let event = self.event("TxReplayRequested", actor, Some(tenant.as_str()), id, detail);
        let command = OperatorCommand::Quarantine { place: dead.place, died_at: None, note };
        self.audited_act(dead.place.shard, command, event).await.map_err(|error| named(error, id))?;
        metrics::counter!("tx_replay_total", "kind" => "outbox").increment(1);
        Ok(enqueued)
    }
}

impl Outbox {
    fn dead_view(&self, dead: Dead) -> DeadLetterView {
        match dead {
            Dead::Message(dead) => self.view(&Found::Dead(dead)).into(),
            Dead::Saga(dead) => DeadLetterView::from(&*dead),
            Dead::Inbox(shard, dead) => DeadInbox::of(shard, &dead).into(),
            Dead::Event(dead) => DeadEvent::of(&dead).into(),
        }
    }

    /// One by its id. An id that names one of each kind is refused: nobody acts on the wrong one.
    async fn find_dead(&self, dead: &DeadId) -> Result<Dead, ServiceError> {
        // Of another kind an id may look like a place.
        if let Some(letter) = self.dead_event(dead).await? {
            return Ok(Dead::Event(letter));
        }
        let saga = if dead.takes(DeadKind::Saga) { self.stuck_saga(&dead.tenant, &dead.id).await? } else { None };
        let found = if dead.takes(DeadKind::Message) { self.find(&dead.tenant, &dead.id).await? } else { None };
        let received = self.dead_received(dead).await?;
        match received.as_slice() {
            [] => {}
            [(shard, letter)] => {
                if !matches!(found, Some(Found::Dead(_))) && saga.is_none() {
                    return Ok(Dead::Inbox(*shard, Arc::clone(letter)));
                }
                let fix = "it names dead letters of several kinds: say kind=message, kind=saga or kind=inbox";
                return Err(other_kind(&dead.id, fix));
            }
            _ => {
                let fix =
                    "several received messages have this id: name the one that is meant by its place (inbox-SHARD-SEQ)";
                return Err(other_kind(&dead.id, fix));
            }
        }
        match (found, saga) {
            (Some(Found::Dead(_)), Some(_)) => {
                Err(other_kind(&dead.id, "there is a message and a saga with this id: say kind=message or kind=saga"))
            }
            (Some(Found::Dead(message)), None) => Ok(Dead::Message(message)),
            (_, Some(saga)) => Ok(Dead::Saga(saga)),
            (Some(found), None) => {
                Err(self.wrong_state(&found, "only dead letters can be replayed, edited or quarantined").await)
            }
            (None, None) => Err(missing(&dead.id)),
        }
    }

    async fn dead_received(&self, dead: &DeadId) -> Result<Vec<DeadOf>, ServiceError> {
        match &self.inbox {
            Some(inbox) if dead.takes(DeadKind::Inbox) => Ok(inbox.dead_letters_named(&dead.tenant, &dead.id).await?),
            _ => Ok(Vec::new()),
        }
    }

    async fn dead_event(&self, dead: &DeadId) -> Result<Option<Arc<StoredDead>>, ServiceError> {
        let found = match &self.streams {
            Some(streams) if dead.takes(DeadKind::Event) => streams.dead_letter(&dead.id).await?,
            _ => None,
        };
        Ok(found.filter(|letter| letter.stream().tenant == dead.tenant))
    }

    fn own_streams(&self) -> Result<&Arc<Streams>, ServiceError> {
        self.streams.as_ref().ok_or_else(|| ServiceError::Unavailable("it has no event streams".to_owned()))
    }

    fn own_inbox(&self) -> Result<&Arc<Inbox>, ServiceError> {
        self.inbox.as_ref().ok_or_else(|| ServiceError::Unavailable("it has no inbox".to_owned()))
    }

    async fn stuck_saga(&self, tenant: &Tenant, id: &str) -> Result<Option<Arc<SagaDead>>, ServiceError> {
        match &self.sagas {
            Some(sagas) => Ok(sagas.dead_letter(tenant, id).await?),
            None => Ok(None),
        }
    }

    fn own_sagas(&self) -> Result<&Arc<Sagas>, ServiceError> {
        self.sagas.as_ref().ok_or_else(|| ServiceError::Unavailable("it runs no sagas".to_owned()))
    }

    async fn replay_message(
        &self,
        tenant: &Tenant,
        id: &str,
        dead: &DeadLetter,
        reason: &str,
        actor: &str,
    ) -> Result<MessageView, ServiceError> {
        let detail = serde_json::json!({ "kind": "outbox", "reason": reason, "code": dead.code });
        let event = self.event("TxReplayRequested", actor, Some(tenant.as_str()), id, detail);
        let command = OperatorCommand::Replay { place: dead.place, died_at: None, quarantined_too: true, by: None };
        self.audited_act(dead.place.shard, command, event).await.map_err(|error| named(error, id))?;
        metrics::counter!("tx_replay_total", "kind" => "outbox").increment(1);
        self.message(tenant, id).await
    }

    async fn replay_saga(&self, dead: &SagaDead, how: Replay, actor: &str) -> Result<Acted, ServiceError> {
        let mode = how.mode.unwrap_or_default();
        let note = Some(how.reason.clone()).filter(|reason| !reason.trim().is_empty());
        let by = ActedBy { actor: actor.to_owned(), note };
        let acted = self.own_sagas()?.replay_dead(dead, mode, by).await?;
        let detail = serde_json::json!({ "kind": "saga", "mode": mode, "reason": how.reason, "code": dead.code });
        let (tenant, id) = (dead.key.tenant.as_str(), dead.key.id.as_str());
        self.audit_event(self.event("TxReplayRequested", actor, Some(tenant), id, detail)).await;
        Ok(acted)
    }
}
