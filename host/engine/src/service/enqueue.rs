//! Messages in: directly through a shard's owner, or with business statements and events through the doorstep.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use waybill_api::idempotency::{FinishWith, IdempotencyService};
use waybill_api::messages::{AppendedEvent, EnqueueService, Enqueued, TransactionDone};
use waybill_core::error::InputError;
use waybill_core::ids::{MessageId, ShardId, Tenant};
use waybill_core::limits::REQUEST_MESSAGES_MAX;
use waybill_core::message::Message;
use waybill_core::new_message::{Draft, NewMessage};
use waybill_core::outbox::records::{IdOrigin, content_digest};
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::StreamError;
use waybill_core::port::store::StoreError;
use waybill_core::port::trace::{self, Span};
use waybill_core::port::transact::{Conclusion, DoorGroup, Statement, Transacted, statements_digest};
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::joint::{JointEvent, SortedEvents};

use super::doorsteps::{Known, Waiting};
use super::{Outbox, door_id};
use crate::admission::Admitted;
use crate::shard::{EnqueuedOne, ShardHandle, Taken};
use crate::spans;

/// Tries of a business transaction that conflicts with others.
const CONFLICT_TRIES: u32 = 8;

#[async_trait]
impl EnqueueService for Outbox {
    async fn enqueue(&self, messages: Vec<NewMessage>) -> Result<Enqueued, ServiceError> {
        let drafts = self.check(messages)?;
        if drafts.is_empty() {
            return Ok(Enqueued::default());
        }
        let bytes = drafts.iter().map(|draft| draft.message.weight()).sum();
        let room = self.admission.admit(drafts.len(), bytes)?;
        let shards = self.shards_of(&drafts);
        let first = shards.first().copied().unwrap_or_default();
        let direct = shards.iter().all(|shard| *shard == first).then(|| self.shard(first)).transpose()?;
        let answers = match direct {
            Some(shard) => self.at_owner(shard, drafts, room, &shards).await?,
            // All or nothing over several shards: one transaction puts them on the doorsteps.
            None => self.at_doors(Business::default(), drafts, &shards, None).await?.0,
        };
        Ok(enqueued(answers))
    }

    async fn transact(
        &self,
        statements: Vec<Statement>,
        messages: Vec<NewMessage>,
        events: Vec<JointEvent>,
        finish: Option<FinishWith>,
    ) -> Result<TransactionDone, ServiceError> {
        let (events, _events_room) = match &self.streams {
            Some(streams) => streams.join(events)?,
            None if events.is_empty() => Default::default(),
            None => {
                return Err(ServiceError::Unavailable("this host keeps no event streams: ask one that does".into()));
            }
        };
        let mut drafts = self.check(messages)?;
        if let Some(digest) = events.appends.digest(statements_digest(&statements)) {
            for draft in drafts.iter_mut().filter(|draft| !draft.needs_id) {
                Arc::make_mut(&mut draft.message).statements = Some(Box::new(digest));
            }
        }
        let bytes = drafts.iter().map(|draft| draft.message.weight()).sum();
        let _room = self.admission.admit(drafts.len().max(1), bytes)?;
        let shards = self.shards_of(&drafts);
        let business = Business { statements, events: Arc::new(events) };
        let events = Arc::clone(&business.events);
        let (answers, transacted) = self.at_doors(business, drafts, &shards, finish.as_ref()).await?;
        let answers = if transacted.is_repeat { Vec::new() } else { answers };
        // Of a repeat that its messages show, the first has the events.
        let is_known = !answers.is_empty() && answers.iter().all(|answer| answer.duplicate);
        let none = SortedEvents::default();
        Ok(transaction_done(answers, transacted, if is_known { &none } else { &events }))
    }
}

impl Outbox {
    /// Checks messages against everything that can be checked before the commit.
    fn check(&self, messages: Vec<NewMessage>) -> Result<Vec<Draft>, ServiceError> {
        if messages.len() > REQUEST_MESSAGES_MAX {
            return Err(InputError::TooMany { count: messages.len(), count_max: REQUEST_MESSAGES_MAX }.into());
        }
        let (now, live) = (self.now(), self.context.live());
        let mut drafts: Vec<Draft> = Vec::with_capacity(messages.len());
        let mut named: BTreeMap<(Tenant, MessageId), usize> = BTreeMap::new();
        for (index, message) in messages.into_iter().enumerate() {
            let refuse = |error| ServiceError::Message { index, error };
            let draft =
                message.check_after(drafts.last(), now, self.context.config.payload_bytes_max).map_err(refuse)?;
            let alike = drafts.last().is_some_and(|before| before.message.topic == draft.message.topic);
            if !alike && live.routing.routes.find(&draft.message.topic).is_none() {
                return Err(refuse(InputError::NoRoute { topic: draft.message.topic.to_string() }));
            }
            let identity = || (draft.message.tenant.clone(), draft.message.id.clone());
            if !draft.needs_id
                && let Some(first) = named.insert(identity(), index)
            {
                return Err(refuse(InputError::IdTwice { first }));
            }
            drafts.push(draft);
        }
        Ok(drafts)
    }

    /// The shard of each message. Those that may go anywhere go to one shard together, so that a request without keys stays
    /// one commit.
    fn shards_of(&self, drafts: &[Draft]) -> Vec<ShardId> {
        let count = self.context.config.shards;
        let spread = self.spread.fetch_add(1, Ordering::Relaxed);
        let shard_of = |draft: &Draft| {
            let caller_id = (!draft.needs_id).then_some(&draft.message.id);
            ShardId::of(&draft.message.tenant, draft.message.key.as_ref(), caller_id, spread, count)
        };
        drafts.iter().map(shard_of).collect()
    }

    /// Hands messages to their shard's owner if that is here, else to its doorstep.
    async fn at_owner(
        &self,
        shard: &ShardHandle,
        drafts: Vec<Draft>,
        room: Admitted,
        shards: &[ShardId],
    ) -> Result<Vec<EnqueuedOne>, ServiceError> {
        match shard.enqueue(drafts, room).await? {
            Taken::Here(answers) => Ok(answers),
            Taken::Elsewhere(drafts, _room) => Ok(self.at_doors(Business::default(), drafts, shards, None).await?.0),
        }
    }

    /// Puts messages on their doorsteps, with statements and events, in one transaction. A repeat of a message that is there already is left
    /// out: one that was taken in, and with statements also one that lies on its doorstep.
    async fn at_doors(
        &self,
        business: Business,
        drafts: Vec<Draft>,
        shards: &[ShardId],
        finish: Option<&FinishWith>,
    ) -> Result<(Vec<EnqueuedOne>, Transacted), ServiceError> {
        let mut tries = 0;
        let mut waiting = Waiting::new();
        loop {
            tries += 1;
            let Sorted { answers, groups, elsewhere } = self.sort_out(&drafts, shards, &waiting).await?;
            if groups.is_empty() && !drafts.is_empty() {
                if let Some(message) = elsewhere {
                    let (tenant, id) = (message.tenant.to_string(), message.id.to_string());
                    return Err(ServiceError::OtherStatements { tenant, id });
                }
                // All of it was there before: it is a repeat, and its statements ran with the first.
                if let Some(finish) = finish {
                    let done = transaction_done(answers.clone(), Transacted::default(), &SortedEvents::default());
                    self.idempotency.finish(finish.hold.clone(), (finish.answer)(&done)).await?;
                }
                return Ok((answers, Transacted::default()));
            }
            let conclusion = finish.map(|finish| self.conclusion(finish, &answers, &business.events));
            match self.commit(business.clone(), groups, conclusion).await {
                Ok(transacted) => return Ok((answers, transacted)),
                Err(StoreError::LeaseLost(id)) => {
                    return Err(ServiceError::LeaseLost { what: "idempotency key", id });
                }
                Err(StoreError::Append(refusal)) => return Err(StreamError::Exact(*refusal).into()),
                Err(error @ (StoreError::Conflict(_) | StoreError::Exists(_))) if tries < CONFLICT_TRIES => {
                    if matches!(error, StoreError::Exists(_)) && !business.is_empty() {
                        // Looked for before the ids are: what is taken in between is found by these.
                        waiting = self.on_doorsteps(&drafts, shards).await?;
                    }
                    let pause = std::time::Duration::from_micros(200 << tries).mul_f64(1.0 + rand::random::<f64>());
                    tokio::time::sleep(pause).await;
                }
                Err(error @ (StoreError::Unavailable(_) | StoreError::Other(_))) => {
                    return Err(ServiceError::OutcomeUnknown(error));
                }
                Err(error) => return Err(ServiceError::Store(error)),
            }
        }
    }

    /// How a transaction with these answers finishes an idempotency key.
    fn conclusion(&self, finish: &FinishWith, answers: &[EnqueuedOne], events: &Arc<SortedEvents>) -> Conclusion {
        let (settings, answers, answer) = (self.idempotency.settings(), answers.to_vec(), Arc::clone(&finish.answer));
        let events = Arc::clone(events);
        let of_transacted = move |done: &Transacted| {
            let answers = if done.is_repeat { Vec::new() } else { answers.clone() };
            answer(&transaction_done(answers, done.clone(), &events)).kept(&settings)
        };
        Conclusion { hold: finish.hold.clone(), answer: Arc::new(of_transacted), now: self.idempotency.now() }
    }

    /// In a task of its own: a caller who goes away may leave messages on the doorstep, and somebody has to wake the owners.
    async fn commit(
        &self,
        Business { statements, events }: Business,
        groups: Vec<DoorGroup>,
        conclusion: Option<Conclusion>,
    ) -> Result<Transacted, StoreError> {
        let streams = self.streams.clone();
        let (context, shards) = (Arc::clone(&self.context), self.shards.clone());
        let idempotency = Arc::clone(&self.idempotency);
        let work = tokio::spawn(async move {
            let concluded = conclusion.as_ref().map(|conclusion| conclusion.hold.clone());
            let appends = events.appends.clone();
            let has_statements = !statements.is_empty();
            let spans = context.config.tracer.iter().flat_map(|tracer| spans::appends(tracer, &appends));
            let spans: Vec<Box<dyn Span>> = spans.collect();
            let result = context.stores.transact.transact(statements, groups, appends, conclusion).await;
            let failed = result.as_ref().err().map(|error| error.code().as_str());
            spans.into_iter().for_each(|span| trace::finish(Some(span), failed));
            // A statement may have left some too, through a function of the caller's own, on any doorstep.
            super::wake_door(&context, &shards);
            streams.iter().for_each(|streams| match has_statements {
                true => streams.wake_doors(),
                false => streams.joined(&events.appends),
            });
            if let (Some(hold), Ok(_)) = (concluded, &result) {
                idempotency.concluded(&hold).await;
            }
            result
        });
        work.await.unwrap_or_else(|ended| Err(StoreError::Unavailable(ended.to_string())))
    }

    async fn sort_out(&self, drafts: &[Draft], shards: &[ShardId], waiting: &Waiting) -> Result<Sorted, ServiceError> {
        let named: Vec<(Tenant, MessageId)> = drafts
            .iter()
            .filter(|draft| !draft.needs_id)
            .map(|draft| (draft.message.tenant.clone(), draft.message.id.clone()))
            .collect();
        let found = if named.is_empty() { Vec::new() } else { self.context.stores.owner.ids(&named).await? };
        let mut found = found.into_iter();
        let mut groups: BTreeMap<ShardId, Vec<Arc<Message>>> = BTreeMap::new();
        let mut answers = Vec::with_capacity(drafts.len());
        let mut elsewhere = None;
        for (draft, shard) in drafts.iter().zip(shards) {
            let identity = || (draft.message.tenant.clone(), draft.message.id.clone());
            let indexed = if draft.needs_id { None } else { found.next().flatten() };
            let lies = || if draft.needs_id || waiting.is_empty() { None } else { waiting.get(&identity()) };
            let indexed = indexed.as_ref().map(Known::indexed);
            if let Some(known) = indexed.as_ref().or_else(lies) {
                if known.content != Some(content_digest(&draft.message)) {
                    let (tenant, id) = (draft.message.tenant.to_string(), draft.message.id.to_string());
                    return Err(ServiceError::IdTaken { tenant, id });
                }
                if !came_with(known.origin, &draft.message) {
                    elsewhere.get_or_insert_with(|| Arc::clone(&draft.message));
                }
                answers.push(EnqueuedOne { id: draft.message.id.clone(), duplicate: true });
                continue;
            }
            let message = draft.clone().finish(door_id);
            answers.push(EnqueuedOne { id: message.id.clone(), duplicate: false });
            groups.entry(*shard).or_default().push(message);
        }
        let groups = groups.into_iter().map(|(shard, messages)| DoorGroup { shard, messages }).collect();
        Ok(Sorted { answers, groups, elsewhere })
    }
}

/// What a transaction does beside putting messages.
#[derive(Clone, Default)]
struct Business {
    statements: Vec<Statement>,
    events: Arc<SortedEvents>,
}

impl Business {
    fn is_empty(&self) -> bool {
        self.statements.is_empty() && self.events.appends.is_empty()
    }
}

/// A transaction's messages, sorted into those that are there and those that are new.
struct Sorted {
    answers: Vec<EnqueuedOne>,
    groups: Vec<DoorGroup>,
    /// One that is there, but wasn't committed with the statements of this transaction.
    elsewhere: Option<Arc<Message>>,
}

/// Whether what is stored was committed with the statements that the message comes with now. A transaction without statements
/// drops nothing when it is taken for a repeat, and of rows of older versions it isn't known.
fn came_with(origin: IdOrigin, message: &Message) -> bool {
    match (&message.statements, origin) {
        (None, _) | (_, IdOrigin::Unknown) => true,
        (Some(_), IdOrigin::Alone) => false,
        (Some(statements), IdOrigin::Transaction(stored)) => **statements == stored,
    }
}

fn transaction_done(answers: Vec<EnqueuedOne>, transacted: Transacted, events: &SortedEvents) -> TransactionDone {
    let Enqueued { ids, duplicates } = enqueued(answers);
    let seq = |(append, place): (usize, usize)| transacted.seqs.get(append)?.as_ref()?.get(place).copied().map(SeqJson);
    let events = events.ids().map(|(id, place)| AppendedEvent { id: id.to_string(), seq: seq(place) }).collect();
    TransactionDone { ids, duplicates, events, results: transacted.results }
}

fn enqueued(answers: Vec<EnqueuedOne>) -> Enqueued {
    let duplicates = answers.iter().filter(|one| one.duplicate).map(|one| one.id.to_string()).collect();
    Enqueued { ids: answers.into_iter().map(|one| one.id.to_string()).collect(), duplicates }
}
