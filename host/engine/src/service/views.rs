//! Messages as people see them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use waybill_core::ids::{MessageId, Place, Seq, Tenant, place_of};
use waybill_core::message::{Message, Payload};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::owner::{Owner, WhyWaiting};
use waybill_core::outbox::records::{AttemptRecord, DeadLetter, DeadState, Done, DoneEnd, IdState, payload_sha256};
use waybill_core::port::query::{Found, ListKind, Page};
use waybill_core::port::service::{LeaseView, MessageState, MessageView, ServiceError, Waiting};
use waybill_core::port::transport::Receipt;
use waybill_core::time::UnixMillis;

use super::Outbox;
use crate::shard::{ShardHandle, Wish};

/// A look for a message waits this long at most for the doorsteps to be taken in.
const TAKE_IN_TIMEOUT: Duration = Duration::from_secs(2);

/// What a view holds beside the message itself.
struct Condition {
    state: MessageState,
    place: Option<Place>,
    attempts: u32,
    suspect: u32,
    not_before: Option<UnixMillis>,
    ended_at: Option<UnixMillis>,
    history: Vec<AttemptRecord>,
    receipt: Option<Receipt>,
    note: Option<String>,
    error: Option<String>,
}

impl Condition {
    fn new(state: MessageState, place: Option<Place>) -> Self {
        Self {
            state,
            place,
            attempts: 0,
            suspect: 0,
            not_before: None,
            ended_at: None,
            history: Vec::new(),
            receipt: None,
            note: None,
            error: None,
        }
    }
}

impl Outbox {
    /// Where a message stands now.
    pub(super) async fn find(&self, tenant: &Tenant, id: &str) -> Result<Option<Found>, ServiceError> {
        let Ok(id) = MessageId::new(id) else { return Ok(None) };
        if let Some(found) = self.look(tenant, &id).await? {
            return Ok(Some(found));
        }
        // It may lie on a doorstep: an id is indexed when its shard's owner has taken it in. Or it was on its way from one
        // place to another.
        let taken_in = futures::future::join_all(self.shards.iter().map(ShardHandle::take_in_door));
        let all_here = tokio::time::timeout(TAKE_IN_TIMEOUT, taken_in)
            .await
            .is_ok_and(|taken_in| taken_in.iter().all(|here| *here));
        if let Some(found) = self.look(tenant, &id).await? {
            return Ok(Some(found));
        }
        if all_here {
            return Ok(None);
        }
        // Another host's owner looks at its doorstep when it polls; a shard that was given back has an owner again after the next
        // look of a rival.
        let config = &self.context.config;
        let until = Instant::now() + config.poll_interval + config.rival_interval();
        loop {
            tokio::time::sleep(config.poll_interval).await;
            let found = self.look(tenant, &id).await?;
            if found.is_some() || Instant::now() >= until {
                return Ok(found);
            }
        }
    }

    async fn look(&self, tenant: &Tenant, id: &MessageId) -> Result<Option<Found>, ServiceError> {
        let query = &self.context.stores.query;
        let indexed = query.id(tenant, id).await?;
        let place = match indexed.map(|record| record.state) {
            Some(IdState::Scheduled { shard, due }) => {
                return Ok(query.scheduled(shard, due, id).await?.map(Found::Scheduled));
            }
            Some(IdState::At(place)) => place,
            None => match place_of(id.as_str()) {
                Some(place) => place,
                None => return Ok(None),
            },
        };
        let found = match query.at(place).await? {
            Some(found) => Some(found),
            // Delivered, and its receipt is still in its owner's memory; or it has just been written down.
            None => match self.in_memory(place).await {
                Some(done) => Some(Found::Done(place, done)),
                None => query.at(place).await?,
            },
        };
        Ok(found.filter(|found| message_of(found).tenant == *tenant && message_of(found).id == *id))
    }

    async fn in_memory(&self, place: Place) -> Option<Done> {
        let shard = self.shards.get(usize::from(place.shard.0))?;
        shard.visit(move |owner, _| owner.delivered(place)).await.flatten()
    }

    pub(super) async fn show_message(&self, tenant: &Tenant, id: &str) -> Result<MessageView, ServiceError> {
        let found =
            self.find(tenant, id).await?.ok_or(ServiceError::NotFound { what: "message", id: id.to_owned() })?;
        self.full_view(&found).await
    }

    /// A view with what it waits for and its payload.
    pub(super) async fn full_view(&self, found: &Found) -> Result<MessageView, ServiceError> {
        let mut view = self.view(found);
        let seq = view.seq.map(Seq);
        if let (MessageState::Pending | MessageState::Leased, Some(seq), false) =
            (view.state, seq, matches!(found, Found::Scheduled(_)))
        {
            let shard = waybill_core::ids::ShardId(view.shard);
            let look = move |owner: &mut Owner, now| (owner.why_waiting(seq, now), owner.crashes_of(seq));
            let (why, crashes) = self.shard(shard)?.visit(look).await.unwrap_or_default();
            view.suspect = crashes;
            self.add_wait(&mut view, why);
        }
        self.add_payload(&mut view, message_of(found)).await?;
        Ok(view)
    }

    /// Says what a message that isn't finished waits for, or who has it.
    fn add_wait(&self, view: &mut MessageView, why: Option<WhyWaiting>) {
        if let Some(WhyWaiting::Leased(lease)) = &why {
            view.lease = Some(LeaseView { worker: lease.worker.to_string(), until: lease.until });
        }
        let is_sent = matches!(why, Some(WhyWaiting::Sending | WhyWaiting::Leased(_)));
        view.state = if is_sent { MessageState::Leased } else { MessageState::Pending };
        view.waiting = self.waiting(why);
    }

    fn waiting(&self, why: Option<WhyWaiting>) -> Option<Waiting> {
        let waiting =
            |on: &str, reason: String, since, until| Some(Waiting { on: on.to_owned(), reason, since, until });
        match why {
            Some(WhyWaiting::Sending | WhyWaiting::Leased(_)) => None,
            Some(WhyWaiting::Key(head)) => {
                waiting("key", format!("message {head} of its key isn't finished"), None, None)
            }
            Some(WhyWaiting::DeadKey(head)) => {
                waiting("key", format!("dead letter {head} of its key holds the key"), None, None)
            }
            Some(WhyWaiting::Retry(due)) => waiting("retry", "its last attempt failed".to_owned(), None, Some(due)),
            Some(WhyWaiting::Held(hold)) => {
                waiting(hold.kind(), format!("{}: {}", hold.code, hold.reason), Some(hold.since), hold.until)
            }
            Some(WhyWaiting::Trial) => {
                let reason = "a host died while it was being sent: suspects go a few at a time".to_owned();
                waiting("trial", reason, None, None)
            }
            Some(WhyWaiting::Turn) => {
                waiting("turn", "it goes as soon as its tenant has a turn".to_owned(), None, None)
            }
            None => waiting("turn", "messages before it go first".to_owned(), None, None),
        }
    }

    pub(super) async fn add_payload(&self, view: &mut MessageView, message: &Message) -> Result<(), ServiceError> {
        view.payload_sha256 = Some(payload_sha256(&message.payload));
        let bytes = match &message.payload {
            Payload::Inline(bytes) => Some(bytes.clone()),
            Payload::Blob { blob, .. } => self.context.stores.owner.blob(blob).await?,
        };
        view.payload = bytes;
        Ok(())
    }

    /// A view without payload, as in lists.
    pub(super) fn view(&self, found: &Found) -> MessageView {
        let message = message_of(found);
        let condition = condition_of(found);
        // None since a replay: it begins anew.
        let last = condition.history.last().filter(|_| condition.attempts > 0);
        let last_error = condition.error.clone().or_else(|| {
            let last = last.filter(|attempt| attempt.code.is_some())?;
            Some(format!("{}: {}", last.code.as_deref().unwrap_or(""), last.reason.as_deref().unwrap_or("")))
        });
        MessageView {
            id: message.id.to_string(),
            tenant: message.tenant.to_string(),
            state: condition.state,
            topic: message.topic.to_string(),
            transport: self.context.live().routing.routes.find(&message.topic).map(|route| route.transport.clone()),
            key: message.key.as_ref().map(ToString::to_string),
            seq: condition.place.map(|place| place.seq().0),
            shard: condition.place.map_or(0, |place| place.shard.0),
            attempts: condition.attempts,
            suspect: condition.suspect,
            created_at: message.created_at,
            occurred_at: message.occurred_at,
            not_before: condition.not_before,
            expires_at: message.expires_at,
            ended_at: condition.ended_at,
            last_error,
            receipt: condition.receipt,
            waiting: match found {
                Found::Scheduled(scheduled) => Some(Waiting {
                    on: "schedule".to_owned(),
                    reason: "its time hasn't come".to_owned(),
                    since: None,
                    until: Some(scheduled.due),
                }),
                _ => None,
            },
            lease: None,
            history: condition.history,
            event_type: message.event_type.clone(),
            event_version: message.event_version,
            aggregate_type: message.aggregate_type.clone(),
            aggregate_id: message.aggregate_id.clone(),
            envelope_id: message.envelope_id.clone(),
            correlation_id: message.correlation_id.clone(),
            causation_id: message.causation_id.clone(),
            reply_to: message.reply_to.clone(),
            traceparent: message.traceparent.clone(),
            headers: message.headers.clone(),
            content_type: message.content_type.clone(),
            payload_bytes: message.payload.len() as u64,
            payload_sha256: None,
            payload: None,
            note: condition.note,
        }
    }

    pub(super) async fn list_messages(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<MessageView>, ServiceError> {
        let Some(filter) = self.filter(tenant, filter)? else {
            return Ok(Page { items: Vec::new(), next_cursor: None });
        };
        let takes = |word: &str| filter.state.as_ref().is_none_or(|state| state.matches(word));
        let kinds: Vec<(&str, ListKind)> = [
            ("p", ListKind::Parked, takes("pending") || takes("leased")),
            ("f", ListKind::Flowing, takes("pending") || takes("leased")),
            ("s", ListKind::Scheduled, takes("pending")),
            (
                "d",
                ListKind::Done,
                ["done", "sent", "published", "cancelled", "expired", "purged"].into_iter().any(takes),
            ),
        ]
        .into_iter()
        .filter(|(_, _, wanted)| *wanted)
        .map(|(name, kind, _)| (name, kind))
        .collect();
        let (mut at, mut inner) = match cursor.and_then(|cursor| cursor.split_once('.')) {
            Some((name, rest)) => (
                kinds.iter().position(|(kind, _)| *kind == name).unwrap_or(0),
                Some(rest.to_owned()).filter(|rest| !rest.is_empty()),
            ),
            None => (0, None),
        };
        let mut items = Vec::new();
        while let Some((name, kind)) = kinds.get(at) {
            let waits = matches!(kind, ListKind::Flowing | ListKind::Parked);
            // Of what waits only the owner knows whether it is being sent; the store knows what is claimed.
            let stored = if waits { Filter { state: None, ..filter.clone() } } else { filter.clone() };
            let page = self
                .context
                .stores
                .query
                .list(*kind, &stored, inner.as_deref(), limit.saturating_sub(items.len()))
                .await?;
            let wanted =
                |view: &MessageView| filter.state.as_ref().is_none_or(|state| state_matches(state, view.state));
            let mut views: Vec<MessageView> = page.items.iter().map(|found| self.view(found)).collect();
            if waits {
                self.ask_owners(&mut views).await;
            }
            items.extend(views.into_iter().filter(wanted));
            if let Some(next) = page.next_cursor {
                return Ok(Page { items, next_cursor: Some(format!("{name}.{next}")) });
            }
            at += 1;
            inner = None;
            if items.len() >= limit {
                break;
            }
        }
        let next_cursor = kinds.get(at).map(|(name, _)| format!("{name}."));
        Ok(Page { items, next_cursor })
    }

    /// Sets the state of listed messages that wait or are being sent, and what they wait for, as far as their owners are here.
    async fn ask_owners(&self, views: &mut [MessageView]) {
        for shard in &self.shards {
            let is_here = |view: &MessageView| view.shard == shard.shard.0;
            let seqs: Vec<Seq> =
                views.iter().filter(|view| is_here(view)).filter_map(|view| view.seq.map(Seq)).collect();
            if seqs.is_empty() {
                continue;
            }
            let asked = shard.visit(move |owner, now| {
                let whys = seqs.into_iter().map(|seq| (seq, owner.why_waiting(seq, now)));
                whys.collect::<BTreeMap<Seq, Option<WhyWaiting>>>()
            });
            let Some(mut whys) = asked.await else { continue };
            for view in views.iter_mut().filter(|view| is_here(view)) {
                let Some(why) = view.seq.and_then(|seq| whys.remove(&Seq(seq))) else { continue };
                self.add_wait(view, why);
            }
        }
    }

    pub(super) async fn cancel_message(
        &self,
        tenant: &Tenant,
        id: &str,
        actor: &str,
    ) -> Result<MessageView, ServiceError> {
        let found =
            self.find(tenant, id).await?.ok_or(ServiceError::NotFound { what: "message", id: id.to_owned() })?;
        let (shard, wish) = match &found {
            Found::Flowing { place, .. } => (place.shard, Wish::Cancel { place: *place }),
            Found::Parked(parked) => (parked.place.shard, Wish::Cancel { place: parked.place }),
            Found::Scheduled(scheduled) => {
                (scheduled.shard, Wish::CancelScheduled { due: scheduled.due, id: scheduled.message.id.clone() })
            }
            Found::Dead(_) => {
                return Err(self.wrong_state(&found, "quarantine or purge the dead letter instead").await);
            }
            Found::Done(..) => return Err(self.wrong_state(&found, "it is finished: nothing is left to cancel").await),
        };
        let event = self.event("MessageCancelled", actor, Some(tenant.as_str()), id, serde_json::Value::Null);
        self.audited_act(shard, wish, event).await.map_err(|error| named(error, id))?;
        self.show_message(tenant, id).await
    }

    pub(super) async fn reschedule_message(
        &self,
        tenant: &Tenant,
        id: &str,
        due: UnixMillis,
        actor: &str,
    ) -> Result<MessageView, ServiceError> {
        let found =
            self.find(tenant, id).await?.ok_or(ServiceError::NotFound { what: "message", id: id.to_owned() })?;
        let (shard, wish) = match &found {
            Found::Parked(parked) => (parked.place.shard, Wish::RescheduleParked { place: parked.place, due }),
            Found::Scheduled(scheduled) => {
                (scheduled.shard, Wish::Reschedule { old: scheduled.due, id: scheduled.message.id.clone(), due })
            }
            _ => {
                let fix = "only messages that wait for a retry or for their time can be moved";
                return Err(self.wrong_state(&found, fix).await);
            }
        };
        let detail = serde_json::json!({ "not_before": due.0 });
        let event = self.event("MessageRescheduled", actor, Some(tenant.as_str()), id, detail);
        self.audited_act(shard, wish, event).await.map_err(|error| named(error, id))?;
        self.show_message(tenant, id).await
    }

    pub(super) async fn wrong_state(&self, found: &Found, fix: &'static str) -> ServiceError {
        let mut view = self.view(found);
        if matches!(found, Found::Flowing { .. } | Found::Parked(_)) {
            self.ask_owners(std::slice::from_mut(&mut view)).await;
        }
        ServiceError::State { what: "message", id: view.id, state: view.state.word().to_owned(), fix }
    }
}

/// Puts the asked id into an error that doesn't know it.
pub(super) fn named(error: ServiceError, id: &str) -> ServiceError {
    match error {
        ServiceError::State { what, state, fix, .. } => ServiceError::State { what, id: id.to_owned(), state, fix },
        other => other,
    }
}

/// Our word for a state, or a source document's (`docs/aliases.md`).
fn state_matches(wanted: &waybill_core::glob::Glob, state: MessageState) -> bool {
    let aliases: &[&str] = match state {
        MessageState::Done => &["sent", "published"],
        MessageState::Leased => &["processing"],
        MessageState::Dead => &["failed"],
        _ => &[],
    };
    wanted.matches(state.word()) || aliases.iter().any(|alias| wanted.matches(alias))
}

pub(super) fn message_of(found: &Found) -> &Message {
    match found {
        Found::Flowing { entry, .. } => &entry.message,
        Found::Parked(parked) => &parked.message,
        Found::Scheduled(scheduled) => &scheduled.message,
        Found::Dead(dead) => &dead.message,
        Found::Done(_, done) => &done.message,
    }
}

fn condition_of(found: &Found) -> Condition {
    match found {
        Found::Flowing { place, claimed, .. } => {
            let state = if *claimed { MessageState::Leased } else { MessageState::Pending };
            Condition::new(state, Some(*place))
        }
        Found::Parked(parked) => {
            let state = if parked.claimed { MessageState::Leased } else { MessageState::Pending };
            Condition {
                attempts: parked.attempts,
                not_before: Some(parked.due),
                history: parked.history.clone(),
                ..Condition::new(state, Some(parked.place))
            }
        }
        Found::Scheduled(scheduled) => {
            Condition { not_before: Some(scheduled.due), ..Condition::new(MessageState::Pending, None) }
        }
        Found::Dead(dead) => dead_condition(dead),
        Found::Done(place, done) => done_condition(*place, done),
    }
}

fn dead_condition(dead: &DeadLetter) -> Condition {
    let (state, note) = match &dead.state {
        DeadState::Dead => (MessageState::Dead, None),
        DeadState::Quarantined { note, .. } => (MessageState::Quarantined, Some(note.clone())),
    };
    Condition {
        attempts: dead.attempts,
        suspect: dead.suspect,
        ended_at: Some(dead.died_at),
        history: dead.history.clone(),
        error: Some(format!("{}: {}", dead.code, dead.reason)),
        note,
        ..Condition::new(state, Some(dead.place))
    }
}

fn done_condition(place: Place, done: &Done) -> Condition {
    let state = match done.end {
        DoneEnd::Delivered => MessageState::Done,
        DoneEnd::Cancelled => MessageState::Cancelled,
        DoneEnd::Purged => MessageState::Purged,
        DoneEnd::Expired => MessageState::Expired,
    };
    Condition {
        attempts: done.attempts,
        ended_at: Some(done.at),
        history: done.history.clone(),
        receipt: done.receipt.clone(),
        ..Condition::new(state, Some(place))
    }
}
