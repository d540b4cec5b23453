//! Takes a shard over, watches it while another host owns it, and takes it over from itself after a panic.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use waybill_core::ids::ShardId;
use waybill_core::outbox::owner::{
    Adopted, Owner, OwnerConfig, Rules, TakeoverInput, has_died, takeover, takeover_reads,
};
use waybill_core::outbox::records::{DeadLetter, Parked, ShardRecord};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::{OwnerStore, StoreError};
use waybill_core::time::{Monotonic, Now};

use super::actor::{Actor, End};
use super::mail::Mail;
use super::mine::Mine;
use super::{Condition, Context, Seen, conflict};

/// Pause after a failed takeover or read.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Pause after a shard was given back because of what a newer host wrote: one may take it over meanwhile.
const NEWER_PAUSE: Duration = Duration::from_secs(30);
/// Parked messages read in one page at the start.
const PARKED_PAGE: usize = 1_000;

pub(super) async fn supervise(
    shard: ShardId,
    context: Arc<Context>,
    sender: mpsc::UnboundedSender<Mail>,
    receiver: mpsc::UnboundedReceiver<Mail>,
    seen: Seen,
) {
    let mailbox = Arc::new(tokio::sync::Mutex::new(receiver));
    let mine = Arc::new(Mine::default());
    loop {
        let run =
            run(shard, Arc::clone(&context), sender.clone(), Arc::clone(&mailbox), seen.clone(), Arc::clone(&mine));
        let mut run = tokio::spawn(run);
        let ended = tokio::select! {
            ended = &mut run => ended,
            () = context.stop.cancelled() => {
                run.abort();
                return;
            }
        };
        match ended {
            Ok(End::Released) => {
                seen.set(Condition::Released);
                return;
            }
            Ok(End::Lost) => tracing::warn!(shard = shard.0, "another host took the shard over"),
            // `run` waits and takes it again by itself.
            Ok(End::Newer(error)) => {
                tracing::warn!(shard = shard.0, %error, "the shard was given back to a newer host");
                sleep(NEWER_PAUSE).await;
            }
            Ok(End::WentBack(error)) => {
                tracing::error!(shard = shard.0, code = error.code(), %error, "the shard's owner stops");
                seen.set(Condition::Trouble { error: error.clone(), owning: true });
                let refuse = refuse_all(shard, &context, &mailbox, error);
                tokio::select! {
                    () = refuse => seen.set(Condition::Released),
                    () = context.stop.cancelled() => {}
                }
                return;
            }
            Err(panic) => {
                metrics::counter!("waybill_commit_failures_total", "code" => "UNKNOWN.INTERNAL").increment(1);
                tracing::error!(shard = shard.0, %panic, "the shard's owner failed; it is taken over and loaded again");
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// One ownership, from observation to its end.
async fn run(
    shard: ShardId,
    context: Arc<Context>,
    sender: mpsc::UnboundedSender<Mail>,
    mailbox: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Mail>>>,
    seen: Seen,
    mine: Arc<Mine>,
) -> End {
    let mut mailbox = mailbox.lock_owned().await;
    let mut observer = Observer::default();
    loop {
        let mut pause = if context.config.exclusive { RETRY_PAUSE } else { context.config.rival_interval() };
        match try_take(shard, &context, &mut observer, &mine, &seen).await {
            Ok(Take::Done(owner)) => {
                metrics::counter!("waybill_takeovers_total").increment(1);
                tracing::info!(shard = shard.0, token = owner.token(), "owning the shard");
                seen.set(Condition::Owning { token: owner.token() });
                let actor = Actor::new(Arc::clone(&context), sender.clone(), seen.clone(), *owner);
                match actor.run(&mut mailbox).await {
                    End::Newer(error) => {
                        seen.set(Condition::Trouble { error, owning: false });
                        (observer, pause) = (Observer::default(), NEWER_PAUSE);
                    }
                    end => return end,
                }
            }
            Ok(Take::Watch { owner }) => seen.set(Condition::Observing { owner }),
            Err(error) => {
                tracing::warn!(shard = shard.0, code = error.code(), %error, "can't take the shard over yet");
                seen.set(Condition::Trouble { error, owning: false });
            }
        }
        let until = tokio::time::Instant::now() + pause;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => break,
                mail = mailbox.recv() => match mail {
                    None => return End::Released,
                    Some(mail) => if let Some(end) = answer_without_owner(shard, &context, mail) { return end; },
                }
            }
        }
    }
}

/// Answers whoever asks of a shard that isn't to be touched any more, until it is given back.
async fn refuse_all(
    shard: ShardId,
    context: &Arc<Context>,
    mailbox: &tokio::sync::Mutex<mpsc::UnboundedReceiver<Mail>>,
    error: StoreError,
) {
    let mut mailbox = mailbox.lock().await;
    while let Some(mail) = mailbox.recv().await {
        match mail {
            Mail::Enqueue(ask) => ask.caller.answer(Err(ServiceError::Store(error.clone()))),
            Mail::Command(ask) => drop(ask.reply.send(Err(ServiceError::Store(error.clone())))),
            Mail::Outside(ask) => drop(ask.reply.send(Err(ServiceError::Store(error.clone())))),
            other => {
                if answer_without_owner(shard, context, other).is_some() {
                    return;
                }
            }
        }
    }
}

/// What a host does that doesn't own the shard: messages go to the doorstep, wishes are refused.
fn answer_without_owner(shard: ShardId, context: &Arc<Context>, mail: Mail) -> Option<End> {
    match mail {
        Mail::Enqueue(ask) => {
            ask.caller.give_back(ask.drafts);
        }
        Mail::Command(ask) => {
            let refusal = ServiceError::Unavailable(
                "another host owns the shard of this message, or it is being taken over: try again in a moment"
                    .to_owned(),
            );
            let _gone = ask.reply.send(Err(refusal));
        }
        Mail::Outside(ask) => {
            // Whether the token is worth anything, only the owner knows.
            let refusal = ServiceError::Unavailable(
                "another host owns the shard of this message, or it is being taken over: settle at the host that gave the \
                 message out, or claim again"
                    .to_owned(),
            );
            let _gone = ask.reply.send(Err(refusal));
        }
        Mail::Release { reply, .. } => {
            let _gone = reply.send(());
            return Some(End::Released);
        }
        Mail::Told(told) => conflict::audit(context, shard, [conflict::Stale::from(*told)]),
        Mail::CallEnded(end) => conflict::audit(context, shard, end.told.into_iter().map(conflict::Stale::from)),
        Mail::Reroute(reply) => {
            let _gone = reply.send(());
        }
        // What they ask for needs an owner; a pause is seen by the next one.
        Mail::Pause { .. } | Mail::Door | Mail::DoorSync(_) | Mail::Visit(_) => {}
    }
    None
}

/// What an observer has seen: an owner is gone when its beat stands still.
#[derive(Default)]
struct Observer {
    seen: Option<(u64, u64)>,
    since: Monotonic,
}

enum Take {
    Done(Box<Owner>),
    Watch { owner: String },
}

async fn try_take(
    shard: ShardId,
    context: &Context,
    observer: &mut Observer,
    mine: &Mine,
    seen_by_others: &Seen,
) -> Result<Take, StoreError> {
    let store = &context.stores.owner;
    let now = context.clock.now();
    let record = store.shard(shard).await?;
    let seen = (record.token, record.beat);
    if observer.seen != Some(seen) {
        observer.seen = Some(seen);
        observer.since = now.mono;
    }
    let observer_ttl = context.config.owner_ttl.mul_f64(1.5);
    let free = context.config.exclusive || record.released || record.token == 0;
    if !free && now.mono - observer.since < observer_ttl {
        return Ok(Take::Watch { owner: record.owner });
    }
    let (mut taken, mut began) = take_page(shard, context, mine, seen_by_others, record).await?;
    while !taken.open.is_empty() {
        (taken, began) = take_page(shard, context, mine, seen_by_others, taken).await?;
    }
    note_crash(shard, &taken);
    let adopted = adopt(store.as_ref(), shard, taken).await?;
    // Before anything is sent.
    for name in context.stores.transact.paused().await? {
        if let Some((_, line)) = context.live().find(&name) {
            line.state.paused.store(true, Ordering::Release);
        }
    }
    let now = context.clock.now();
    Ok(Take::Done(Box::new(Owner::new(owner_config(shard, context), adopted, began.mono, now))))
}

/// One commit of a takeover; the record as it wrote it, and when it began. While that has claimed segments, another follows.
async fn take_page(
    shard: ShardId,
    context: &Context,
    mine: &Mine,
    seen_by_others: &Seen,
    record: ShardRecord,
) -> Result<(ShardRecord, Now), StoreError> {
    let store = &context.stores.owner;
    let open = store.segments(shard, &takeover_reads(&record)).await?;
    let lived = mine.is(&record);
    if lived && mine.holds(&record) {
        // A takeover of which nobody had said that it went in.
        seen_by_others.note_death(record.token);
    }
    let died = has_died(&record, lived);
    // Only suspects may have to be taken out.
    let claimed = match record.suspicion.suspects.is_empty() {
        true => Vec::new(),
        false => all_parked(store.as_ref(), shard).await?.into_iter().filter(|parked| parked.claimed).collect(),
    };
    let mut input = TakeoverInput {
        shard,
        host: context.config.host.clone(),
        record,
        open,
        claimed,
        commit_bytes: context.config.limits.commit_bytes,
        dead_holds_key: context.config.dead_holds_key,
        lived,
        rules: Rules::default(),
    };
    loop {
        let began = context.clock.now();
        let commit = takeover(input.clone(), began.wall, rand::random());
        let taken = commit.record.clone();
        mine.tries(&taken, died);
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
        if mine.holds(&taken) {
            seen_by_others.note_death(taken.token);
        }
        return Ok((taken, began));
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
        weights: context.live().config.weights.clone(),
        routing: Arc::clone(&context.live().routing),
        caution: config.caution,
        rules: Rules::default(),
    }
}
