//! Takes a shard's sagas over when this host owns the outbox shard, and answers who asks meanwhile.

use std::future::pending;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use waybill_core::code::Code;
use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::Acquired;
use waybill_core::port::store::StoreError;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::machine::Rules;
use waybill_core::saga::shard::{Restored, SagaShard, SagaShardConfig};

use super::actor::Actor;
use super::mail::Mail;
use super::{SagaHandle, Shared};
use crate::commit::{Condition, End, Supervised, Take};
use crate::shard::ShardHandle;

/// Pause after a takeover that failed, or with a token that was too old.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Pause without the outbox shard: its owner is watched besides.
const WAIT_PAUSE: Duration = Duration::from_secs(1);

/// The sagas of a shard that this host writes or would write.
pub(super) struct SagasOfShard {
    pub outbox: ShardHandle,
    pub shared: Arc<Shared>,
    pub handle: SagaHandle,
    /// Token with which this process wrote them last; 0 = it didn't.
    pub written: AtomicU64,
    pub epochs: AtomicU64,
}

/// What a task has seen of the outbox shard.
pub(super) struct OutboxWatch {
    condition: watch::Receiver<Condition>,
    /// It was this host's.
    is_owned: bool,
}

impl Supervised for SagasOfShard {
    type Mail = Mail;
    type Actor = Actor;
    type Watch = OutboxWatch;
    const OF: &'static str = "sagas";

    fn shard(&self) -> ShardId {
        self.handle.shard
    }

    fn condition(&self) -> &watch::Sender<Condition> {
        &self.handle.status.condition
    }

    fn watch(&self) -> OutboxWatch {
        self.condition().send_replace(Condition::Starting);
        OutboxWatch { condition: self.outbox.watch(), is_owned: false }
    }

    async fn take(&self, watch: &mut OutboxWatch) -> Result<Take<Actor>, StoreError> {
        let condition = watch.condition.borrow_and_update().clone();
        watch.is_owned = matches!(condition, Condition::Owning { .. });
        let Condition::Owning { token } = condition else {
            let is_elsewhere = matches!(condition, Condition::Observing { .. });
            self.condition().send_replace(if is_elsewhere { condition } else { Condition::Starting });
            return Ok(Take::Wait(WAIT_PAUSE));
        };
        let died = has_writer_died(&self.shared, &self.outbox, self.written.load(Ordering::Acquire)).await;
        let Some(restored) = take(&self.shared, &self.handle, token, died).await? else {
            // A token that is too old becomes another, or another host has the shard.
            self.condition().send_replace(Condition::Starting);
            return Ok(Take::Wait(RETRY_PAUSE));
        };
        self.written.store(restored.shard.record().token, Ordering::Release);
        tell_broken(&restored);
        tracing::info!(shard = self.handle.shard.0, of = Self::OF, token, "writing the shard's sagas");
        let epoch = self.epochs.fetch_add(1, Ordering::AcqRel) + 1;
        let (shared, handle, outbox) = (Arc::clone(&self.shared), self.handle.clone(), self.outbox.clone());
        Ok(Take::Done(Actor::new(shared, handle, outbox, restored.shard, epoch)))
    }

    async fn changed(&self, watch: &mut OutboxWatch) {
        if watch.is_owned || watch.condition.changed().await.is_err() {
            pending().await
        }
    }

    fn retry_pause(&self) -> Duration {
        RETRY_PAUSE
    }

    async fn run(actor: Actor, mailbox: &mut mpsc::UnboundedReceiver<Mail>) -> End {
        actor.run(mailbox).await
    }

    /// Whoever asks is told who writes the sagas.
    fn answer(&self, mail: Mail, error: Option<&StoreError>) -> ControlFlow<()> {
        match mail {
            Mail::Command { reply, .. } => {
                let _gone = reply.send(Err(match error {
                    Some(error) => SagaError::Store(error.clone()),
                    None => SagaError::Unavailable(why_not(&self.outbox.condition())),
                }));
            }
            Mail::Release { reply, .. } => {
                let _gone = reply.send(());
                return ControlFlow::Break(());
            }
            // An answer for nobody: whoever has the saga next calls again. Who asks what is in memory hears that nothing is. The door
            // is read by who takes the shard over.
            Mail::Answered(_) | Mail::Query(_) | Mail::Watch { .. } | Mail::Door => {}
        }
        ControlFlow::Continue(())
    }

    fn count_panic(&self) {
        self.shared.meter.commit_failed(Code::UNKNOWN_INTERNAL);
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
    let config = &shared.context.config;
    let tx_events = config.tx_events.then(|| Arc::from(config.host.as_str()));
    let config = SagaShardConfig { shard: handle.shard, tx_events, limits, rules: Rules::default(), died };
    let now = shared.context.clock.now().wall;
    Ok(Some(SagaShard::restore(config, takeover, |hash| definitions.get(hash).cloned(), now, rand::random())))
}

fn tell_broken(restored: &Restored) {
    for broken in &restored.broken {
        tracing::error!(saga = %broken.key, cause = broken.reason, "a saga can't be restored and goes to quarantine");
    }
}

/// Why this host doesn't answer for the sagas of a shard.
pub(super) fn why_not(condition: &Condition) -> String {
    match condition {
        Condition::Observing { owner } => {
            format!("host {owner} has the shard of this saga: ask there, or try again in a moment")
        }
        _ => "the shard of this saga is being taken over: try again in a moment".to_owned(),
    }
}
