//! Takes a shard over, watches it while another host owns it, and answers who asks meanwhile.

use std::future::pending;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use waybill_core::code::Code;
use waybill_core::ids::ShardId;
use waybill_core::outbox::owner::{
    Adopted, Owner, OwnerConfig, Rules, TakeoverInput, has_died, takeover, takeover_reads,
};
use waybill_core::outbox::records::{DeadLetter, Parked, ShardRecord};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::{OwnerStore, StoreError, Write};
use waybill_core::time::{Monotonic, Now};

use super::actor::Actor;
use super::conflict::{self, Stale};
use super::mail::Mail;
use super::mine::Mine;
use super::{Context, ShardStatus};
use crate::commit::{Condition, End, Supervised, Take};

/// Pause after a failed takeover, where nobody else can own the shard.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Parked messages read in one page at the start.
const PARKED_PAGE: usize = 1_000;

/// A shard that this host owns or would own.
pub(super) struct OutboxShard {
    pub id: ShardId,
    pub context: Arc<Context>,
    pub sender: mpsc::UnboundedSender<Mail>,
    pub status: ShardStatus,
    pub mine: Mine,
}

impl Supervised for OutboxShard {
    type Mail = Mail;
    type Actor = Actor;
    type Watch = Observer;
    const OF: &'static str = "outbox";

    fn shard(&self) -> ShardId {
        self.id
    }

    fn condition(&self) -> &watch::Sender<Condition> {
        &self.status.condition
    }

    fn watch(&self) -> Observer {
        Observer::default()
    }

    async fn take(&self, observer: &mut Observer) -> Result<Take<Actor>, StoreError> {
        let now = self.context.clock.now();
        let record = self.context.stores.owner.shard(self.id).await?;
        if !self.is_free(&record, observer, now) {
            self.status.condition.send_replace(Condition::Observing { owner: record.owner });
            return Ok(Take::Wait(self.retry_pause()));
        }
        let owner = self.take_over(record).await?;
        metrics::counter!("waybill_takeovers_total").increment(1);
        tracing::info!(shard = self.id.0, of = Self::OF, token = owner.token(), "owning the shard");
        // What it convicted, and what the owner before it counted and couldn't tell.
        self.context.tell_fates();
        let (context, sender) = (Arc::clone(&self.context), self.sender.clone());
        Ok(Take::Done(Actor::new(context, sender, self.status.clone(), owner)))
    }

    /// Nobody tells when another host's beat stands still.
    async fn changed(&self, _: &mut Observer) {
        pending().await
    }

    fn retry_pause(&self) -> Duration {
        let config = &self.context.config;
        if config.exclusive { RETRY_PAUSE } else { config.rival_interval() }
    }

    async fn run(actor: Actor, mailbox: &mut mpsc::UnboundedReceiver<Mail>) -> End {
        actor.run(mailbox).await
    }

    /// Messages go to the doorstep, commands are refused.
    fn answer(&self, mail: Mail, error: Option<&StoreError>) -> ControlFlow<()> {
        let refusal = |otherwise: &str| match error {
            Some(error) => ServiceError::Store(error.clone()),
            None => ServiceError::Unavailable(format!(
                "another host owns the shard of this message, or it is being taken over: {otherwise}"
            )),
        };
        match mail {
            Mail::Enqueue(ask) => match error {
                Some(error) => ask.caller.answer(Err(ServiceError::Store(error.clone()))),
                None => ask.caller.give_back(ask.drafts),
            },
            Mail::Command(ask) => {
                let _gone = ask.reply.send(Err(refusal("try again in a moment")));
            }
            Mail::Outside(ask) => {
                // Whether the token is worth anything, only the owner knows.
                let otherwise = "settle at the host that gave the message out, or claim again";
                let _gone = ask.reply.send(Err(refusal(otherwise)));
            }
            Mail::Release { reply, .. } => {
                let _gone = reply.send(());
                return ControlFlow::Break(());
            }
            Mail::Settlement(report) => conflict::audit(&self.context, self.id, [Stale::from(*report)]),
            Mail::CallEnded(end) => {
                conflict::audit(&self.context, self.id, end.reports.into_iter().map(Stale::from));
            }
            Mail::Reroute(reply) => {
                let _gone = reply.send(());
            }
            // What they ask for needs an owner; a pause is seen by the next one.
            Mail::Pause { .. } | Mail::RetryHolds(_) | Mail::Awaited { .. } | Mail::Door | Mail::DoorSync(_) => {}
            Mail::Claim { .. } | Mail::ExpectWorkers(_) | Mail::Query(_) => {}
        }
        ControlFlow::Continue(())
    }

    fn count_panic(&self) {
        metrics::counter!("waybill_commit_failures_total", "code" => Code::UNKNOWN_INTERNAL.as_str()).increment(1);
    }
}

/// What an observer has seen: an owner is gone when its beat stands still.
#[derive(Default)]
pub(super) struct Observer {
    seen: Option<(u64, u64)>,
    since: Monotonic,
}

impl OutboxShard {
    /// Whether nobody else owns the shard: it was given back, or its beat has stood still for longer than its owner may send.
    fn is_free(&self, record: &ShardRecord, observer: &mut Observer, now: Now) -> bool {
        let seen = (record.token, record.beat);
        if observer.seen != Some(seen) {
            observer.seen = Some(seen);
            observer.since = now.mono;
        }
        let observer_ttl = self.context.config.owner_ttl.mul_f64(1.5);
        let is_given_back = self.context.config.exclusive || record.released || record.token == 0;
        is_given_back || now.mono - observer.since >= observer_ttl
    }

    async fn take_over(&self, record: ShardRecord) -> Result<Owner, StoreError> {
        let (mut taken, mut began) = self.take_page(record).await?;
        while !taken.open.is_empty() {
            (taken, began) = self.take_page(taken).await?;
        }
        note_crash(self.id, &taken);
        let adopted = adopt(self.context.stores.owner.as_ref(), self.id, taken).await?;
        // Before anything is sent.
        for name in self.context.stores.transact.paused().await? {
            if let Some((_, entry)) = self.context.live().find(&name) {
                entry.state.paused.store(true, Ordering::Release);
            }
        }
        let now = self.context.clock.now();
        Ok(Owner::new(owner_config(self.id, &self.context), adopted, began.mono, now))
    }

    /// One commit of a takeover; the record as it wrote it, and when it began. While that has claimed segments, another follows.
    async fn take_page(&self, record: ShardRecord) -> Result<(ShardRecord, Now), StoreError> {
        let (shard, store) = (self.id, &self.context.stores.owner);
        let open = store.segments(shard, &takeover_reads(&record)).await?;
        let lived = self.mine.is(&record);
        if lived && self.mine.holds(&record) {
            // A takeover of which nobody had said that it went in.
            self.status.note_death(record.token);
        }
        let died = has_died(&record, lived);
        // Only suspects may have to be taken out.
        let claimed = match record.suspicion.suspects.is_empty() {
            true => Vec::new(),
            false => all_parked(store.as_ref(), shard).await?.into_iter().filter(|parked| parked.claimed).collect(),
        };
        let mut input = TakeoverInput {
            shard,
            host: self.context.config.host.clone(),
            record,
            open,
            claimed,
            commit_bytes: self.context.config.limits.commit_bytes,
            dead_holds_key: self.context.config.dead_holds_key,
            tx_events: self.context.config.tx_events,
            lived,
            rules: Rules::default(),
        };
        loop {
            let began = self.context.clock.now();
            let commit = takeover(input.clone(), began.wall, rand::random());
            let taken = commit.record.clone();
            let convicted: Vec<Arc<DeadLetter>> = commit.writes.iter().filter_map(dead_letter).collect();
            self.mine.tries(&taken, died);
            match store.commit(commit).await {
                Ok(()) => {}
                Err(StoreError::TooLarge) if input.commit_bytes > 0 => {
                    input.commit_bytes /= 2;
                    continue;
                }
                Err(error) => {
                    // It may have gone in all the same: the token tells.
                    let stored = store.shard(shard).await?;
                    if stored.nonce != taken.nonce {
                        return Err(error);
                    }
                }
            }
            if self.mine.holds(&taken) {
                self.status.note_death(taken.token);
            }
            self.context.meter.died(&self.context.live(), &convicted);
            return Ok((taken, began));
        }
    }
}

/// The dead letter that is written.
fn dead_letter(write: &Write) -> Option<Arc<DeadLetter>> {
    match write {
        Write::PutDead(dead) => Some(Arc::clone(dead)),
        _ => None,
    }
}

/// Tells people what the ends before mean.
fn note_crash(shard: ShardId, taken: &ShardRecord) {
    let suspicion = &taken.suspicion;
    if suspicion.cautious {
        tracing::warn!(
            shard = shard.0,
            unclean_ends = suspicion.unclean,
            suspects = suspicion.suspects.len(),
            "owners of this shard died lately: what is sent is noted first for a while, and suspects go a few at a time"
        );
    }
}

async fn adopt(store: &dyn OwnerStore, shard: ShardId, record: ShardRecord) -> Result<Adopted, StoreError> {
    let parked = all_parked(store, shard).await?;
    let held: Vec<Arc<DeadLetter>> = store.held_keys(shard).await?;
    Ok(Adopted { record, parked, held })
}

async fn all_parked(store: &dyn OwnerStore, shard: ShardId) -> Result<Vec<Arc<Parked>>, StoreError> {
    let mut all: Vec<Arc<Parked>> = Vec::new();
    loop {
        let after = all.last().map(|parked| parked.place.seq());
        let page = store.parked(shard, after, PARKED_PAGE).await?;
        let is_last = page.len() < PARKED_PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

fn owner_config(shard: ShardId, context: &Context) -> OwnerConfig {
    let config = &context.config;
    OwnerConfig {
        shard,
        host: config.host.clone(),
        shards: config.shards,
        limits: config.limits,
        owner_ttl: config.owner_ttl,
        parked_per_tenant: config.parked_per_tenant,
        dead_holds_key: config.dead_holds_key,
        tx_events: config.tx_events,
        weights: context.live().config.weights.clone(),
        routing: Arc::clone(&context.live().routing),
        rates: Arc::clone(&context.rates),
        caution: config.caution,
        rules: Rules::default(),
    }
}
