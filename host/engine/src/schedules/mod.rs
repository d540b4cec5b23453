//! Makes the runs of schedules whose shards this host owns (`docs/design/schedules.md`).
//!
//! One task looks each second what is due. Of what the store says otherwise than it is known here everything is read anew: a record is
//! written only over the one that it was made of, so a stale one does no harm.

mod held;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use waybill_api::sagas::SagaService;
use waybill_core::ids::ShardId;
use waybill_core::message::Message;
use waybill_core::port::schedules::ScheduleStore;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_core::schedule::{Advance, Run, Schedule, ScheduleKey, Work};
use waybill_core::time::UnixMillis;

use crate::service::wake_door;
use crate::shard::{Context, ShardHandle};
use held::Held;

/// How often it is looked what is due, while there are any schedules.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often schedules are read anew: what another host added or changed on a shared store runs from then on.
const LIST_EVERY: Duration = Duration::from_secs(10);

/// What a host makes the runs of schedules with.
pub(crate) struct Schedules {
    context: Arc<Context>,
    store: Arc<dyn ScheduleStore>,
    shards: Vec<ShardHandle>,
    sagas: Option<Arc<dyn SagaService>>,
}

/// What came of one look at one schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// Nothing more is due now.
    Done,
    /// More is due than one commit makes.
    More,
    /// The store has another record than this host knows.
    Stale,
}

impl Schedules {
    /// Starts the task; it ends when the host drains.
    pub fn start(
        context: &Arc<Context>,
        store: Arc<dyn ScheduleStore>,
        shards: &[ShardHandle],
        sagas: Option<Arc<dyn SagaService>>,
    ) -> JoinHandle<()> {
        let schedules = Arc::new(Self { context: Arc::clone(context), store, shards: shards.to_vec(), sagas });
        let begin = move || {
            let schedules = Arc::clone(&schedules);
            async move {
                let closing = schedules.context.closing.clone();
                closing.run_until_cancelled(schedules.run()).await;
            }
        };
        context.supervisor.run("schedules", context.stop.clone(), begin)
    }

    async fn run(&self) {
        let mut held: Vec<Held> = Vec::new();
        let mut listed: Option<Instant> = None;
        let mut fails = false;
        loop {
            let mut trouble = None;
            if listed.is_none_or(|at| at.elapsed() >= LIST_EVERY) {
                match self.store.schedules().await {
                    Ok(all) => {
                        held = held::again(held, all);
                        listed = Some(Instant::now());
                    }
                    Err(error) => trouble = Some(error),
                }
            }
            let mut more = false;
            for one in &mut held {
                if !self.is_mine(&one.schedule.key) {
                    continue;
                }
                match self.look_at(one).await {
                    Ok(Looked::Done) => {}
                    Ok(Looked::More) => more = true,
                    Ok(Looked::Stale) => listed = None,
                    Err(error) => {
                        listed = None;
                        trouble = Some(error);
                    }
                }
            }
            if let Some(error) = trouble.as_ref().filter(|_| !fails) {
                tracing::warn!(code = error.code().as_str(), %error, "runs of schedules can't be made now; it is tried again");
            }
            fails = trouble.is_some();
            if fails || !more {
                sleep(if held.is_empty() && !fails { LIST_EVERY } else { LOOK_EVERY }).await;
            }
        }
    }

    fn is_mine(&self, key: &ScheduleKey) -> bool {
        let shard = key.shard(self.context.config.shards.max(1));
        self.shards.get(usize::from(shard.0)).is_some_and(ShardHandle::is_owned)
    }

    /// Starts sagas that are owed, and then makes what one commit makes of what is due.
    async fn look_at(&self, held: &mut Held) -> Result<Looked, StoreError> {
        let started = self.start_owed(held).await?;
        if started != Looked::More {
            return Ok(started);
        }
        let now = self.context.clock.now().wall;
        let Some(Advance { mut next, runs, is_cut }) = held.advance(now) else { return Ok(Looked::Done) };
        let (messages, error) = self.messages(&held.schedule, &runs, now);
        next.error = error;
        let owes = !next.owed.is_empty();
        match self.change(held, next, messages).await? {
            Looked::Stale => Ok(Looked::Stale),
            _ if is_cut || owes => Ok(Looked::More),
            _ => Ok(Looked::Done),
        }
    }

    /// Starts the sagas of runs that are decided. [`Looked::More`]: none is owed any more.
    async fn start_owed(&self, held: &mut Held) -> Result<Looked, StoreError> {
        for run in held.schedule.owed.clone() {
            let Work::Saga(work) = &held.schedule.work else { return Ok(Looked::More) };
            // A host without sagas leaves them to one that has some.
            let Some(sagas) = &self.sagas else { return Ok(Looked::Done) };
            let key = &held.schedule.key;
            let start = work.start(key, run, &format!("schedule:{}", key.name));
            let error = match sagas.start(start).await {
                Ok(_) => None,
                Err(error) if error.retryable() => {
                    tracing::debug!(schedule = key.name.as_str(), %error, "a saga can't be started now; it is tried again");
                    return Ok(Looked::Done);
                }
                Err(error) => {
                    let name = key.name.as_str();
                    tracing::error!(schedule = name, code = error.code().as_str(), %error, "a saga is refused");
                    Some(error.to_string())
                }
            };
            let next = held.schedule.settled(run, error);
            if self.change(held, next, Vec::new()).await? == Looked::Stale {
                return Ok(Looked::Stale);
            }
        }
        Ok(Looked::More)
    }

    /// Writes a record with the messages of its runs.
    async fn change(&self, held: &mut Held, next: Schedule, messages: Vec<DoorGroup>) -> Result<Looked, StoreError> {
        let has_messages = !messages.is_empty();
        let written = self.store.change_schedule(&next, messages).await;
        // Also of a commit without an answer: what went in is to be taken in.
        if has_messages {
            wake_door(&self.context, &self.shards);
        }
        match written {
            Ok(()) => {
                held.replace(next);
                Ok(Looked::Done)
            }
            Err(StoreError::Conflict(_)) => Ok(Looked::Stale),
            Err(error) => Err(error),
        }
    }

    /// The messages of runs, by the shards they belong to; and why one of them could not be made.
    fn messages(&self, schedule: &Schedule, runs: &[Run], now: UnixMillis) -> (Vec<DoorGroup>, Option<String>) {
        let Work::Message(work) = &schedule.work else { return (Vec::new(), schedule.error.clone()) };
        let mut groups: BTreeMap<ShardId, Vec<Arc<Message>>> = BTreeMap::new();
        let mut refused = None;
        for run in runs {
            match work.draft(&schedule.key, *run, now) {
                Ok(draft) => {
                    let message = draft.message;
                    let shards = self.context.config.shards;
                    let shard = ShardId::of(&message.tenant, message.key.as_ref(), Some(&message.id), 0, shards);
                    groups.entry(shard).or_default().push(message);
                }
                Err(error) => refused = Some(error.to_string()),
            }
        }
        let groups = groups.into_iter().map(|(shard, messages)| DoorGroup { shard, messages }).collect();
        (groups, refused)
    }
}
