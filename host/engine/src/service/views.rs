//! A message as people see it.

use waybill_api::annotations::AnnotationsView;
use waybill_api::headers::HeadersJson;
use waybill_api::instant::Instant;
use waybill_api::messages::{Attempt, LeaseView, MessageView, Waiting};
use waybill_core::ids::{Place, Seq};
use waybill_core::message::{Message, Payload};
use waybill_core::outbox::owner::{WaitKind, WhyWaiting};
use waybill_core::outbox::records::{AttemptRecord, DeadLetter, DeadState, Done, DoneEnd, payload_sha256};
use waybill_core::port::query::Found;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::port::transport::Receipt;
use waybill_core::seq_json::SeqJson;
use waybill_core::time::UnixMillis;

use super::Outbox;
use crate::shard::OwnerQuery;

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
    /// A view with what it waits for and its payload.
    pub(super) async fn full_view(&self, found: &Found) -> Result<MessageView, ServiceError> {
        let mut view = self.view(found);
        let seq = view.seq.map(|seq| Seq(seq.0));
        if let (MessageState::Pending | MessageState::Leased, Some(seq), false) =
            (view.state, seq, matches!(found, Found::Scheduled(_)))
        {
            let shard = waybill_core::ids::ShardId(view.shard);
            let asked = self.shard(shard)?.query(|reply| OwnerQuery::Wait { seq, reply }).await;
            let (why, crashes) = asked.unwrap_or_default();
            view.suspect = crashes;
            self.add_wait(&mut view, why);
        }
        self.with_payload(view, message_of(found)).await
    }

    /// Says what a message that isn't finished waits for, or who has it.
    pub(super) fn add_wait(&self, view: &mut MessageView, why: Option<WhyWaiting>) {
        if let Some(WhyWaiting::Leased(lease)) = &why {
            view.lease = Some(LeaseView { worker: lease.worker.to_string(), until: lease.until.into() });
        }
        let is_sent = matches!(why, Some(WhyWaiting::Sending | WhyWaiting::Leased(_)));
        view.state = if is_sent { MessageState::Leased } else { MessageState::Pending };
        view.waiting = self.waiting(why);
    }

    pub(super) fn waiting(&self, why: Option<WhyWaiting>) -> Option<Waiting> {
        let waiting = |on, reason, since: Option<UnixMillis>, until: Option<UnixMillis>| {
            Some(Waiting { on, reason, since: since.map(Instant), until: until.map(Instant) })
        };
        match why {
            Some(WhyWaiting::Sending | WhyWaiting::Leased(_)) => None,
            Some(WhyWaiting::Key(head)) => {
                waiting(WaitKind::Key, format!("message {head} of its key isn't finished"), None, None)
            }
            Some(WhyWaiting::DeadKey(head)) => {
                waiting(WaitKind::Key, format!("dead letter {head} of its key holds the key"), None, None)
            }
            Some(WhyWaiting::Retry(due)) => {
                waiting(WaitKind::Retry, "its last attempt failed".to_owned(), None, Some(due))
            }
            Some(WhyWaiting::Held(hold)) => {
                waiting(hold.kind(), format!("{}: {}", hold.code, hold.reason), Some(hold.since), hold.until)
            }
            Some(WhyWaiting::Rate(info)) => {
                waiting(WaitKind::Rate, self.rate_reason(&info), Some(info.since), Some(info.until))
            }
            Some(WhyWaiting::Trial) => {
                let reason = "a host died while it was being sent: suspects go a few at a time".to_owned();
                waiting(WaitKind::Trial, reason, None, None)
            }
            Some(WhyWaiting::Turn) => {
                waiting(WaitKind::Turn, "it goes as soon as its tenant has a turn".to_owned(), None, None)
            }
            None => waiting(WaitKind::Turn, "messages before it go first".to_owned(), None, None),
        }
    }

    pub(super) async fn with_payload(
        &self,
        mut view: MessageView,
        message: &Message,
    ) -> Result<MessageView, ServiceError> {
        view.payload_sha256 = Some(payload_sha256(&message.payload));
        let bytes = match &message.payload {
            Payload::Inline(bytes) => Some(bytes.clone()),
            Payload::Blob { blob, .. } => self.context.stores.owner.blob(blob).await?,
        };
        Ok(match bytes {
            Some(bytes) => view.with_payload(bytes),
            None => view,
        })
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
            seq: condition.place.map(|place| SeqJson(place.seq().0)),
            shard: condition.place.map_or(0, |place| place.shard.0),
            attempts: condition.attempts,
            suspect: condition.suspect,
            replays: message.replays,
            created_at: message.created_at.into(),
            occurred_at: message.occurred_at.into(),
            not_before: condition.not_before.map(Instant),
            expires_at: message.expires_at.map(Instant),
            ended_at: condition.ended_at.map(Instant),
            last_error,
            receipt: condition.receipt.map(Into::into),
            waiting: match found {
                Found::Scheduled(scheduled) => Some(Waiting {
                    on: WaitKind::Schedule,
                    reason: "its time hasn't come".to_owned(),
                    since: None,
                    until: Some(scheduled.due.into()),
                }),
                _ => None,
            },
            lease: None,
            history: condition.history.into_iter().map(Attempt::from).collect(),
            event_type: message.event_type.clone(),
            event_version: message.event_version,
            annotations: AnnotationsView(message.annotations.clone()),
            headers: HeadersJson(message.headers.clone()),
            payload_bytes: message.payload.len() as u64,
            payload_sha256: None,
            payload: None,
            payload_base64: None,
            bytes: None,
            note: condition.note,
        }
    }

    /// Sets the state of listed messages that wait or are being sent, and what they wait for, as far as their owners are here.
    pub(super) async fn ask_owners(&self, views: &mut [MessageView]) {
        for shard in &self.shards {
            // What is finished or dead lies beside it in a list; no owner knows of it any more.
            let is_here = |view: &MessageView| {
                view.shard == shard.shard.0 && matches!(view.state, MessageState::Pending | MessageState::Leased)
            };
            let seqs: Vec<Seq> =
                views.iter().filter(|view| is_here(view)).filter_map(|view| view.seq.map(|seq| Seq(seq.0))).collect();
            if seqs.is_empty() {
                continue;
            }
            let asked = shard.query(|reply| OwnerQuery::WaitOfEach { seqs, reply }).await;
            let Some(mut whys) = asked else { continue };
            for view in views.iter_mut().filter(|view| is_here(view)) {
                let Some(why) = view.seq.and_then(|seq| whys.remove(&Seq(seq.0))) else { continue };
                self.add_wait(view, why);
            }
        }
    }

    pub(super) async fn wrong_state(&self, found: &Found, fix: &'static str) -> ServiceError {
        let mut view = self.view(found);
        if matches!(found, Found::Flowing { .. } | Found::Parked(_)) {
            self.ask_owners(std::slice::from_mut(&mut view)).await;
        }
        ServiceError::State { what: "message", id: view.id, state: view.state.word().to_owned(), fix }
    }
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
