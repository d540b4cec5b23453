//! Takes a shard's sagas over when this host owns the outbox shard, and again after a loss or a panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use waybill_core::port::saga_store::Acquired;
use waybill_core::port::store::StoreError;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::machine::Rules;
use waybill_core::saga::shard::{Restored, SagaShard, SagaShardConfig};

use super::actor::{Actor, End};
use super::mail::Mail;
use super::{Condition, SagaHandle, Shared};
use crate::shard::{self, ShardHandle};

/// Pause after a failed takeover.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn supervise(
    outbox: ShardHandle,
    shared: Arc<Shared>,
    handle: SagaHandle,
    receiver: mpsc::UnboundedReceiver<Mail>,
) {
    let mailbox = Arc::new(tokio::sync::Mutex::new(receiver));
    let stop = shared.context.stop.clone();
    let taken = Arc::new(AtomicU64::new(0));
    for epoch in 1.. {
        let mail = Arc::clone(&mailbox);
        let run = run(outbox.clone(), Arc::clone(&shared), handle.clone(), mail, epoch, Arc::clone(&taken));
        let mut run = tokio::spawn(run);
        let ended = tokio::select! {
            ended = &mut run => ended,
            () = stop.cancelled() => {
                run.abort();
                return;
            }
        };
        match ended {
            Ok(End::Released) => {
                handle.seen.condition.send_replace(Condition::Released);
                return;
            }
            Ok(End::Lost) => tracing::warn!(shard = handle.shard.0, "another host took the shard's sagas over"),
            Ok(End::WentBack(error)) => {
                tracing::error!(shard = handle.shard.0, code = error.code(), %error, "the shard's sagas stop");
                handle.seen.condition.send_replace(Condition::Trouble { error: error.clone(), writing: true });
                tokio::select! {
                    () = refuse_all(&mailbox, error) => {
                        handle.seen.condition.send_replace(Condition::Released);
                    }
                    () = stop.cancelled() => {}
                }
                return;
            }
            Err(panic) => {
                shared.meter.commit_failed("UNKNOWN.INTERNAL");
                tracing::error!(shard = handle.shard.0, %panic, "the task of the shard's sagas failed; they are taken over and loaded again");
                sleep(RETRY_PAUSE).await;
            }
        }
        let waiting = Condition::Waiting("its sagas are being taken over".to_owned());
        handle.seen.condition.send_replace(waiting);
    }
}

/// One ownership, from the wait for the outbox shard to its end.
async fn run(
    outbox: ShardHandle,
    shared: Arc<Shared>,
    handle: SagaHandle,
    mailbox: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Mail>>>,
    epoch: u64,
    taken_before: Arc<AtomicU64>,
) -> End {
    let mut mailbox = mailbox.lock_owned().await;
    let mut watch = outbox.watch();
    loop {
        let condition = watch.borrow_and_update().clone();
        let token = match &condition {
            shard::Condition::Owning { token } => Some(*token),
            _ => None,
        };
        let taken = match token {
            Some(token) => {
                let died = has_writer_died(&shared, &outbox, taken_before.load(Ordering::Acquire)).await;
                take(&shared, &handle, token, died).await
            }
            None => Ok(None),
        };
        let pause = match taken {
            Ok(Some(restored)) => {
                taken_before.store(restored.shard.record().token, Ordering::Release);
                tell_broken(&restored);
                tracing::info!(shard = handle.shard.0, token, "writing the shard's sagas");
                handle.seen.condition.send_replace(Condition::Writing);
                return Actor::new(shared, handle, outbox, restored.shard, epoch).run(&mut mailbox).await;
            }
            Ok(None) => {
                handle.seen.condition.send_replace(Condition::Waiting(why_not(&condition)));
                // A token that is too old becomes another, or another host has the shard.
                if token.is_some() { RETRY_PAUSE } else { Duration::from_secs(1) }
            }
            Err(error) => {
                tracing::warn!(shard = handle.shard.0, code = error.code(), %error, "can't take the shard's sagas over yet");
                handle.seen.condition.send_replace(Condition::Trouble { error, writing: false });
                RETRY_PAUSE
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            changed = watch.changed(), if token.is_none() => if changed.is_err() { return End::Released },
            mail = mailbox.recv() => match mail {
                None => return End::Released,
                Some(mail) => if let Some(end) = answer_without_shard(&condition, mail) { return end; },
            }
        }
    }
}

/// Whether the process that wrote the sagas last died; `mine` = the token with which this one wrote them last, 0 = it didn't.
/// Not when that is the last one: this process lives, and who had the shard in between made no calls.
async fn has_writer_died(shared: &Shared, outbox: &ShardHandle, mine: u64) -> bool {
    if !outbox.died_since(mine) {
        return false;
    }
    // Of a record that can't be read the takeover tells.
    let writer = shared.store.saga_shard(outbox.shard).await.map_or(0, |record| record.token);
    mine == 0 || writer != mine
}

/// Takes the sagas over with the shard's token; `died` = the process that wrote them died. None = a higher token stands.
async fn take(shared: &Shared, handle: &SagaHandle, token: u64, died: bool) -> Result<Option<Restored>, StoreError> {
    let takeover = match shared.store.acquire(handle.shard, token, rand::random()).await? {
        Acquired::Taken(takeover) => *takeover,
        Acquired::Lost { token: stored } => {
            tracing::debug!(shard = handle.shard.0, token, stored, "a higher token writes the shard's sagas");
            return Ok(None);
        }
    };
    let definitions = shared.definitions.by_hashes(shared.store.as_ref(), takeover.definitions()).await?;
    let limits = shared.context.live().config.sagas.limits;
    let config = SagaShardConfig { shard: handle.shard, limits, rules: Rules::default(), died };
    let now = shared.context.clock.now().wall;
    Ok(Some(SagaShard::restore(config, takeover, |hash| definitions.get(hash).cloned(), now, rand::random())))
}

fn tell_broken(restored: &Restored) {
    for broken in &restored.broken {
        tracing::error!(saga = %broken.key, cause = broken.reason, "a saga can't be restored and goes to quarantine");
    }
}

fn why_not(condition: &shard::Condition) -> String {
    match condition {
        shard::Condition::Observing { owner } => {
            format!("host {owner} has the shard of this saga: ask there, or try again in a moment")
        }
        _ => "the shard of this saga is being taken over: try again in a moment".to_owned(),
    }
}

/// Answers whoever asks of sagas that aren't to be touched any more, until their shard is given back.
async fn refuse_all(mailbox: &tokio::sync::Mutex<mpsc::UnboundedReceiver<Mail>>, error: StoreError) {
    let mut mailbox = mailbox.lock().await;
    while let Some(mail) = mailbox.recv().await {
        match mail {
            Mail::Command { reply, .. } => drop(reply.send(Err(SagaError::Store(error.clone())))),
            Mail::Release { reply, .. } => {
                let _gone = reply.send(());
                return;
            }
            // An answer for nobody, and looks at what doesn't count any more.
            Mail::Answered(_) | Mail::Visit(_) | Mail::Watch { .. } => {}
        }
    }
}

/// What a host does that doesn't write the shard's sagas: whoever asks is told who does.
fn answer_without_shard(condition: &shard::Condition, mail: Mail) -> Option<End> {
    match mail {
        Mail::Command { reply, .. } => {
            let _gone = reply.send(Err(SagaError::Unavailable(why_not(condition))));
        }
        Mail::Release { reply, .. } => {
            let _gone = reply.send(());
            return Some(End::Released);
        }
        // An answer for nobody: whoever has the saga next calls again. Who looks hears that nothing is here.
        Mail::Answered(_) | Mail::Visit(_) | Mail::Watch { .. } => {}
    }
    None
}
