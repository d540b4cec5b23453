//! Taking a shard's streams over, and what others hear while this host doesn't have them.

use std::future::pending;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use waybill_core::code::Code;
use waybill_core::ids::ShardId;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::streams::owner::{OwnerConfig, StreamOwner, takeover};
use waybill_core::streams::records::StreamShardRecord;
use waybill_core::streams::relay::Relays;

use super::actor::Actor;
use super::mail::{AppendReply, Mail};
use super::relay;
use super::{Shared, StreamHandle};
use crate::commit::{Condition, End, Supervised, Take};
use crate::shard::ShardHandle;

/// Pause after a takeover that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// Pause while another host has the shard; an ownership that begins ends it at once.
const WAIT_PAUSE: Duration = Duration::from_secs(1);
/// Relays go by the lease of the outbox's shard, so nothing is written for a lease of the streams' own.
const OWN_LEASE: Duration = Duration::from_secs(4_000_000_000);

/// The streams of a shard that this host owns or would own.
pub(super) struct StreamsOfShard {
    pub outbox: ShardHandle,
    pub shared: Arc<Shared>,
    pub handle: StreamHandle,
    pub epochs: AtomicU64,
}

/// What a task has seen of the outbox shard.
pub(super) struct OutboxWatch {
    condition: watch::Receiver<Condition>,
    /// It was this host's.
    is_owned: bool,
}

impl Supervised for StreamsOfShard {
    type Mail = Mail;
    type Actor = Actor;
    type Watch = OutboxWatch;
    const OF: &'static str = "streams";

    fn shard(&self) -> ShardId {
        self.handle.shard
    }

    fn condition(&self) -> &watch::Sender<Condition> {
        &self.handle.condition
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
        let begun = self.shared.context.clock.now().mono;
        let Some(record) = self.write(token).await? else {
            // A token that is too old becomes another, or another host has the shard.
            self.condition().send_replace(Condition::Starting);
            return Ok(Take::Wait(RETRY_PAUSE));
        };
        // What operators paused stays paused.
        let _is_news = relay::read_notes(&self.shared).await?;
        let settings = self.shared.settings();
        let relays: Vec<_> = settings.relays.iter().map(|plan| relay::of_plan(plan, &record)).collect();
        let context = &self.shared.context;
        let tx_events = context.config.tx_events.then(|| Arc::from(context.config.host.as_str()));
        let config = OwnerConfig { tx_events, ..OwnerConfig::new(self.handle.shard, self.shared.shards(), OWN_LEASE) };
        let owner = StreamOwner::new(config, record, Relays::new(relays), begun);
        tracing::info!(shard = self.handle.shard.0, of = Self::OF, token, "numbering the shard's streams");
        let epoch = self.epochs.fetch_add(1, Ordering::AcqRel) + 1;
        let (shared, handle, outbox) = (Arc::clone(&self.shared), self.handle.clone(), self.outbox.clone());
        Ok(Take::Done(Actor::new(shared, handle, outbox, owner, settings, epoch)))
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

    /// Whoever appends puts it on the doorstep; whoever asks for more is told who has the shard.
    fn answer(&self, mail: Mail, error: Option<&StoreError>) -> ControlFlow<()> {
        let refusal = || match error {
            Some(error) => ServiceError::Store(error.clone()),
            None => ServiceError::Unavailable(why_not(&self.outbox.condition())),
        };
        match mail {
            Mail::Append(ask) => {
                let answer = error.map_or(Ok(AppendReply::Recalled), |error| Err(ServiceError::Store(error.clone())));
                let _gone = ask.reply.send(answer);
            }
            Mail::Purge(ask) => {
                let _gone = ask.reply.send(Err(refusal()));
            }
            Mail::Seek(ask) => {
                let _gone = ask.reply.send(Err(refusal()));
            }
            Mail::Release { reply, .. } => {
                let _gone = reply.send(());
                return ControlFlow::Break(());
            }
            // Whoever takes the shard looks at its doorstep, and begins by what is in force; words of a broker come again.
            Mail::Door | Mail::Sent { .. } | Mail::Query(_) | Mail::RelayChanged | Mail::Reconfigured => {}
        }
        ControlFlow::Continue(())
    }

    fn count_panic(&self) {
        self.shared.meter.commit_failed(Code::UNKNOWN_INTERNAL);
    }
}

impl StreamsOfShard {
    /// Writes the shard's token into the record; the record as it stands then. None = a higher token stands.
    async fn write(&self, token: u64) -> Result<Option<StreamShardRecord>, StoreError> {
        let shard = self.handle.shard;
        let stored = self.shared.store.stream_shard(shard).await?;
        let Some(commit) = takeover(shard, token, rand::random(), &stored) else {
            tracing::debug!(shard = shard.0, token, stored = stored.token, "a higher token numbers the streams");
            return Ok(None);
        };
        let record = commit.record.clone();
        if let Err(error) = self.shared.store.commit_streams(commit).await {
            // It may have gone in all the same: the nonce tells.
            let stands = self.shared.store.stream_shard(shard).await?;
            if stands.nonce != record.nonce {
                return Err(error);
            }
        }
        Ok(Some(record))
    }
}

/// Why this host doesn't answer for the streams of a shard.
fn why_not(condition: &Condition) -> String {
    match condition {
        Condition::Observing { owner } => {
            format!("host {owner} numbers this stream: ask there, or try again in a moment")
        }
        _ => "the shard of this stream is being taken over: try again in a moment".to_owned(),
    }
}
