//! Takes a shard's inbox over when this host owns the outbox shard, and answers who asks meanwhile.

use std::future::pending;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use waybill_core::code::Code;
use waybill_core::ids::ShardId;
use waybill_core::inbox::fingerprint::HashSecret;
use waybill_core::inbox::owner::{Candidate, InboxConfig, InboxOwner, Rules, takeover};
use waybill_core::inbox::records::InboxShardRecord;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::Fault;

use super::actor::Actor;
use super::mail::Mail;
use super::settings::HomeSettings;
use super::{InboxHandle, Shared};
use crate::commit::{Condition, End, Supervised, Take};
use crate::shard::ShardHandle;

/// Pause after a takeover that failed, or with a token that was too old.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Pause without the outbox shard: its owner is watched besides.
const WAIT_PAUSE: Duration = Duration::from_secs(1);

/// Pause while no source lives in the shard, and none ever did.
const EMPTY_PAUSE: Duration = Duration::from_secs(5);

/// The inbox of a shard that this host writes or would write.
pub(super) struct InboxOfShard {
    pub outbox: ShardHandle,
    pub shared: Arc<Shared>,
    pub handle: InboxHandle,
    /// Token with which this process wrote it last; 0 = it didn't.
    pub written: AtomicU64,
    pub epochs: AtomicU64,
    /// Another configuration is in force: a shard that had no source may have one.
    pub reconfigured: Notify,
}

/// What a task has seen of the outbox shard.
pub(super) struct OutboxWatch {
    condition: watch::Receiver<Condition>,
    /// It was this host's.
    is_owned: bool,
}

impl Supervised for InboxOfShard {
    type Mail = Mail;
    type Actor = Actor;
    type Watch = OutboxWatch;
    const OF: &'static str = "inbox";

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
        let stored = self.shared.store.inbox_shard(self.handle.shard).await?;
        let config = self.shared.config.load_full();
        let home = HomeSettings::of(&config, self.handle.shard, self.shared.context.config.shards);
        if home.is_empty() && stored.token == 0 {
            // No source has ever lived here: there is nothing to own.
            self.condition().send_replace(Condition::Released);
            return Ok(Take::Wait(EMPTY_PAUSE));
        }
        let mine = self.written.load(Ordering::Acquire);
        let died = self.outbox.died_since(mine) && (mine == 0 || stored.token != mine);
        let Some(record) = self.write(token, died, stored).await? else {
            // A token that is too old becomes another, or another host has the shard.
            self.condition().send_replace(Condition::Starting);
            return Ok(Take::Wait(RETRY_PAUSE));
        };
        self.written.store(token, Ordering::Release);
        let owner = self.restore(&home, record, died).await?;
        self.bind(&home).await?;
        self.read_pauses().await?;
        tracing::info!(shard = self.handle.shard.0, of = Self::OF, token, "writing the shard's inbox");
        let epoch = self.epochs.fetch_add(1, Ordering::AcqRel) + 1;
        let (shared, handle, outbox) = (Arc::clone(&self.shared), self.handle.clone(), self.outbox.clone());
        Ok(Take::Done(Actor::new(shared, handle, outbox, owner, Arc::new(home), epoch)))
    }

    async fn changed(&self, watch: &mut OutboxWatch) {
        let owned_anew = async {
            if watch.is_owned || watch.condition.changed().await.is_err() {
                pending().await
            }
        };
        tokio::select! {
            () = owned_anew => {}
            () = self.reconfigured.notified() => {}
        }
    }

    fn retry_pause(&self) -> Duration {
        RETRY_PAUSE
    }

    async fn run(actor: Actor, mailbox: &mut mpsc::UnboundedReceiver<Mail>) -> End {
        actor.run(mailbox).await
    }

    /// Whoever asks is told who writes the inbox.
    fn answer(&self, mail: Mail, error: Option<&StoreError>) -> ControlFlow<()> {
        let refusal = || match error {
            Some(error) => ServiceError::Store(error.clone()),
            None => ServiceError::Unavailable(why_not(&self.outbox.condition())),
        };
        match mail {
            Mail::Replay(ask) => {
                let _gone = ask.reply.send(Err(refusal()));
            }
            Mail::Purge { reply, .. } => {
                let _gone = reply.send(Err(refusal()));
            }
            Mail::Release { reply, .. } => {
                let _gone = reply.send(());
                return ControlFlow::Break(());
            }
            Mail::Reconfigured => self.reconfigured.notify_one(),
            // What an ownership before was told comes again to whoever has the shard next. Who asks what is in memory hears that
            // nothing is.
            Mail::Source { .. }
            | Mail::Answered { .. }
            | Mail::Query(_)
            | Mail::Find { .. }
            | Mail::SeatChanged
            | Mail::Reopen { .. } => {}
        }
        ControlFlow::Continue(())
    }

    fn count_panic(&self) {
        self.shared.meter.commit_failed(Code::UNKNOWN_INTERNAL);
    }
}

impl InboxOfShard {
    /// Writes the shard's token into the record; the record as it stands then. None = a higher token stands.
    async fn write(
        &self,
        token: u64,
        died: bool,
        stored: InboxShardRecord,
    ) -> Result<Option<InboxShardRecord>, StoreError> {
        let secret = HashSecret(rand::random());
        let candidate = Candidate { shard: self.handle.shard, token, died, nonce: rand::random(), secret };
        let Some(commit) = takeover(candidate, &stored) else {
            tracing::debug!(
                shard = self.handle.shard.0,
                token,
                stored = stored.token,
                "a higher token writes the inbox"
            );
            return Ok(None);
        };
        let record = commit.record.clone();
        if let Err(error) = self.shared.store.commit_inbox(commit).await {
            // It may have gone in all the same: the nonce tells.
            let stands = self.shared.store.inbox_shard(self.handle.shard).await?;
            if stands.nonce != record.nonce {
                return Err(error);
            }
        }
        Ok(Some(record))
    }

    async fn restore(
        &self,
        home: &HomeSettings,
        record: InboxShardRecord,
        died: bool,
    ) -> Result<InboxOwner, StoreError> {
        let found = self.shared.store.inbox_takeover(self.handle.shard).await?;
        if record.suspicion.cautious {
            tracing::warn!(
                shard = self.handle.shard.0,
                unclean_ends = record.suspicion.unclean,
                suspects = record.suspicion.suspects.len(),
                "owners of this shard died lately: what is handled is noted first for a while, and suspects go a few at a time"
            );
        }
        self.handle.set_age(record.age);
        let context = &self.shared.context;
        let config = InboxConfig {
            shard: self.handle.shard,
            shards: context.config.shards,
            settings: Arc::clone(&home.owner),
            caution: context.config.caution,
            // A task that failed, or ended before its calls had, leaves as much undone as a process that died. And while owners are
            // cautious, what was in hand at the last crash may still come: to one whose takeover only its second try brought in, or
            // who had the shard in good order from one that hadn't had it back yet.
            unclean: died || record.suspicion.cautious || !self.handle.is_settled(),
            tx_events: context.config.tx_events.then(|| Arc::from(context.config.host.as_str())),
            rules: Rules::default(),
        };
        Ok(InboxOwner::restore(config, record, found, context.clock.now()))
    }

    /// Binds each consumer to its home. The sources of one that is remembered under another home aren't pulled.
    async fn bind(&self, home: &HomeSettings) -> Result<(), StoreError> {
        for source in &home.sources {
            self.shared.seats.of(&source.config.name).set_refused(None);
        }
        for source in &home.sources {
            for (_, consumer) in &source.consumers {
                let fault = match self.shared.store.bind_inbox_consumer(&consumer.name, &source.config.home).await {
                    Ok(bound) if bound == source.config.home => continue,
                    Ok(bound) => {
                        let reason = format!(
                            "what consumer {:?} has seen is remembered under home {bound:?}, and this source's is {:?}",
                            consumer.name.as_str(),
                            source.config.home
                        );
                        Fault::new(Code::INBOX_OTHER_HOME, reason)
                    }
                    // A record that can't be read stops the sources of its own consumer, and no others of the shard.
                    Err(error @ StoreError::Corrupt(_)) => Fault::new(error.code(), error.to_string()),
                    Err(error) => return Err(error),
                };
                tracing::error!(source = source.config.name.as_str(), reason = fault.reason, "a source isn't pulled");
                self.shared.seats.of(&source.config.name).set_refused(Some(fault));
            }
        }
        Ok(())
    }

    /// What operators paused stays paused.
    async fn read_pauses(&self) -> Result<(), StoreError> {
        let paused = self.shared.context.stores.transact.paused().await?;
        self.shared.seats.set_paused(&paused);
        Ok(())
    }
}

/// Why this host doesn't answer for the inbox of a shard.
fn why_not(condition: &Condition) -> String {
    match condition {
        Condition::Observing { owner } => {
            format!("host {owner} has the home of this message: ask there, or try again in a moment")
        }
        _ => "the home of this message is being taken over: try again in a moment".to_owned(),
    }
}
