//! Acts on dead letters. They are gone from the list when they are done, so a page that is read again has only the rest.

use std::sync::Arc;

use waybill_core::glob::Glob;
use waybill_core::inbox::place::InboxPlace;
use waybill_core::outbox::dead_groups::DeadCause;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, DeadState};
use waybill_core::port::dead::DeadKind;
use waybill_core::port::missing::Missing;
use waybill_core::port::query::{Counted, Page};
use waybill_core::port::saga::{ActedBy, RetryMode};
use waybill_core::port::service::ServiceError;
use waybill_core::port::transact::Operation;
use waybill_core::saga::records::SagaDead;
use waybill_core::streams::dead::StoredDead;
use waybill_core::time::UnixMillis;

use super::Outbox;
use super::task::{Outcome, Task, acted_by};
use crate::inbox::service::DeadOf;
use crate::service::dead_list::Dead;
use crate::service::messages::named;
use crate::shard::OperatorCommand;

/// Dead letters read in one page.
const PAGE: usize = 100;

/// What is done to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeadAct {
    Replay,
    Quarantine,
    Purge,
}

/// The dead letters that an operation is about, and what is done to them.
pub(super) struct DeadLetters {
    act: DeadAct,
    filter: Filter,
    /// Becomes the note of what is quarantined.
    reason: String,
    by: ActedBy,
    id: Arc<str>,
}

impl DeadLetters {
    pub fn of(operation: &Operation, act: DeadAct) -> Result<Option<Self>, ServiceError> {
        let mut filter = Filter::parse(&operation.filter, operation.before.unwrap_or(operation.created_at))?;
        if let Some(before) = operation.before {
            filter.until(before);
        }
        if operation.trial.is_some() {
            // Of others nobody counts what comes of a replay.
            if !filter.may_take(DeadKind::Message) {
                return Ok(None);
            }
            filter.kind = Some(Glob::literal(DeadKind::Message.word()));
        }
        if act == DeadAct::Replay && filter.state.is_none() {
            // Quarantined ones are replayed only by their id.
            filter.state = Some(Glob::new("dead"));
        }
        if act == DeadAct::Purge {
            let purged = [DeadKind::Message, DeadKind::Inbox, DeadKind::Event];
            if !purged.iter().any(|kind| filter.may_take(*kind)) {
                return Ok(None);
            }
            // A stuck saga isn't deleted: it is ended, one by one, with a reason.
            filter.without_sagas = true;
        }
        let is_possible = operation.tenant.as_deref().is_none_or(|tenant| filter.confine(tenant));
        let (reason, by, id) = (operation.reason.clone(), acted_by(operation), Arc::from(operation.id.as_str()));
        Ok(is_possible.then_some(Self { act, filter, reason, by, id }))
    }

    /// What was done to one that isn't a message; `replayed` says what a replay of it was.
    fn done(&self, replayed: Outcome) -> Outcome {
        if self.act == DeadAct::Replay { replayed } else { Outcome::Done }
    }

    async fn act_on_message(&self, outbox: &Outbox, dead: &DeadLetter) -> Result<Outcome, ServiceError> {
        // One that was put back and died again since its page was read isn't what the operation is about.
        let (place, died_at) = (dead.place, Some(dead.died_at));
        let command = match self.act {
            DeadAct::Replay => {
                OperatorCommand::Replay { place, died_at, quarantined_too: false, by: Some(Arc::clone(&self.id)) }
            }
            DeadAct::Quarantine => OperatorCommand::Quarantine { place, died_at, note: self.reason.clone() },
            DeadAct::Purge => OperatorCommand::Purge { place, died_at },
        };
        match outbox.shard(dead.place.shard)?.command(command).await {
            Ok(()) => {
                if self.act == DeadAct::Replay {
                    metrics::counter!("tx_replay_total", "kind" => "outbox").increment(1);
                }
                Ok(Outcome::Done)
            }
            Err(error @ (ServiceError::State { .. } | ServiceError::NotFound { .. })) => {
                Ok(Outcome::refused(&named(error, dead.message.id.as_str())))
            }
            Err(error) => Err(error),
        }
    }

    async fn act_on_saga(&self, outbox: &Outbox, dead: &SagaDead) -> Result<Outcome, ServiceError> {
        let gone = || ServiceError::NotFound { what: Missing::DeadLetter, id: dead.key.id.to_string() };
        let Some(sagas) = &outbox.sagas else { return Ok(Outcome::refused(&gone())) };
        let done = match self.act {
            DeadAct::Replay => sagas.replay_dead(dead, RetryMode::Compensate, self.by.clone()).await.map(|_| true),
            DeadAct::Quarantine => sagas.quarantine_dead(dead, &self.reason).await,
            DeadAct::Purge => Ok(false),
        };
        match done {
            Ok(true) => Ok(self.done(Outcome::NotFollowed)),
            Ok(false) => Ok(Outcome::refused(&gone())),
            Err(error) if sagas.is_passing(&error) => Err(error.into()),
            Err(error) => Ok(Outcome::refused(&error.into())),
        }
    }
}

impl DeadLetters {
    async fn act_on_received(&self, outbox: &Outbox, id: &str, letter: &DeadOf) -> Result<Outcome, ServiceError> {
        let gone = || ServiceError::NotFound { what: Missing::DeadLetter, id: id.to_owned() };
        let Some(inbox) = &outbox.inbox else { return Ok(Outcome::refused(&gone())) };
        let (shard, dead) = letter;
        let done = match self.act {
            DeadAct::Replay => inbox.replay_dead(*shard, dead).await.map(|_| true),
            DeadAct::Quarantine => inbox.quarantine_dead(*shard, dead, &self.reason).await.map_err(ServiceError::from),
            DeadAct::Purge => inbox.purge_dead(*shard, dead).await.map(|()| true),
        };
        match done {
            Ok(true) => Ok(self.done(Outcome::NotFollowed)),
            Ok(false) => Ok(Outcome::refused(&gone())),
            Err(error) if inbox.is_passing(&error) => Err(error),
            Err(error) => Ok(Outcome::refused(&error)),
        }
    }
}

impl DeadLetters {
    async fn act_on_event(&self, outbox: &Outbox, letter: &StoredDead) -> Result<Outcome, ServiceError> {
        let gone = || ServiceError::NotFound { what: Missing::DeadLetter, id: letter.place.to_string() };
        let Some(streams) = &outbox.streams else { return Ok(Outcome::refused(&gone())) };
        let done = match self.act {
            DeadAct::Replay => streams.replay_dead(letter).await.map(|()| true),
            DeadAct::Quarantine => {
                streams.quarantine_dead(letter.place, &self.reason).await.map_err(ServiceError::from)
            }
            DeadAct::Purge => streams.purge_dead(letter.place).await.map_err(ServiceError::from),
        };
        match done {
            Ok(true) => Ok(self.done(Outcome::Delivered)),
            Ok(false) => Ok(Outcome::refused(&gone())),
            Err(error) if is_passing(&error) => Err(error),
            Err(error) => Ok(Outcome::refused(&error)),
        }
    }
}

/// Whether an error of an act on an event may be over in a moment, so that the operation waits for that: its transport is away, say.
fn is_passing(error: &ServiceError) -> bool {
    match error {
        ServiceError::Unavailable(_) | ServiceError::OutcomeUnknown(_) => true,
        ServiceError::Store(error) => error.retryable(),
        _ => false,
    }
}

/// A dead letter with its name: that of a received one or of an event is made of its place.
pub(super) struct NamedDead {
    pub dead: Dead,
    pub id: String,
}

impl NamedDead {
    fn of(dead: Dead) -> Self {
        let id = match &dead {
            Dead::Message(dead) => dead.message.id.to_string(),
            Dead::Saga(dead) => dead.key.id.to_string(),
            Dead::Inbox(shard, dead) => InboxPlace { shard: *shard, seq: dead.seq }.to_string(),
            Dead::Event(dead) => dead.place.to_string(),
        };
        Self { dead, id }
    }
}

impl Task for DeadLetters {
    type Item = NamedDead;

    /// What is done is gone from the page, which is read again.
    const TRIES: u32 = 1;

    async fn count(&self, outbox: &Outbox, reads: usize) -> Result<Counted<u64>, ServiceError> {
        outbox.number_of_dead(&self.filter, reads).await
    }
    async fn page(&self, outbox: &Outbox, cursor: Option<&str>) -> Result<Page<NamedDead>, ServiceError> {
        let page = outbox.dead_page(&self.filter, cursor, PAGE, false).await?;
        Ok(Page { items: page.items.into_iter().map(NamedDead::of).collect(), next_cursor: page.next_cursor })
    }
    async fn act(&self, outbox: &Outbox, named: &NamedDead) -> Result<Outcome, ServiceError> {
        if self.act == DeadAct::Replay && *named.dead.state() != DeadState::Dead {
            return Ok(Outcome::refused(&ServiceError::State {
                what: "dead letter",
                id: named.id.clone(),
                state: "quarantined".to_owned(),
                fix: "it is replayed by its id only",
            }));
        }
        match &named.dead {
            Dead::Message(message) => self.act_on_message(outbox, message).await,
            Dead::Saga(saga) => self.act_on_saga(outbox, saga).await,
            Dead::Inbox(shard, letter) => self.act_on_received(outbox, &named.id, &(*shard, Arc::clone(letter))).await,
            Dead::Event(letter) => self.act_on_event(outbox, letter).await,
        }
    }
    fn id(named: &NamedDead) -> &str {
        &named.id
    }
    fn identity(named: &NamedDead) -> String {
        match &named.dead {
            Dead::Message(dead) => format!("message {} {}", dead.message.tenant, named.id),
            Dead::Saga(dead) => format!("saga {} {}", dead.key.tenant, named.id),
            // A place is one of all tenants.
            Dead::Inbox(..) | Dead::Event(_) => named.id.clone(),
        }
    }
    fn since(named: &NamedDead) -> UnixMillis {
        named.dead.died_at()
    }
    fn cursor_behind(_: Option<&str>, _: &NamedDead) -> Result<Option<String>, ServiceError> {
        Ok(None)
    }
    fn cause(named: &NamedDead) -> Option<DeadCause> {
        Some(named.dead.cause())
    }
}
