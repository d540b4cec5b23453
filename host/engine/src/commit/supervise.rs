//! Takes a shard over, answers whoever asks while this host doesn't have it, and takes it over again after a loss or a panic.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;

use super::{Condition, End};

/// Pause after a panic.
const PANIC_PAUSE: Duration = Duration::from_millis(200);
/// Pause after a shard was given back because of what a newer host wrote: one may take it over meanwhile.
const NEWER_PAUSE: Duration = Duration::from_secs(30);

/// What came of trying to take a shard over.
pub(crate) enum Take<A> {
    Done(A),
    /// It isn't this host's now: it is tried again after this long.
    Wait(Duration),
}

/// A shard whose owner or writer is supervised. It outlives each ownership.
pub(crate) trait Supervised: Send + Sync + 'static {
    type Mail: Send + 'static;
    type Actor: Send;
    /// What a task has seen of other owners.
    type Watch: Send;
    /// What is written, for logs.
    const OF: &'static str;

    fn shard(&self) -> ShardId;
    /// What others see of it.
    fn condition(&self) -> &watch::Sender<Condition>;
    /// A watch that has seen nothing yet: at the start, and after each ownership.
    fn watch(&self) -> Self::Watch;
    /// Takes the shard over if nobody else has it.
    fn take(&self, watch: &mut Self::Watch) -> impl Future<Output = Result<Take<Self::Actor>, StoreError>> + Send;
    /// Ends when it is worth trying before the pause is over.
    fn changed(&self, watch: &mut Self::Watch) -> impl Future<Output = ()> + Send;
    /// Pause after a takeover that failed.
    fn retry_pause(&self) -> Duration;
    fn run(actor: Self::Actor, mailbox: &mut mpsc::UnboundedReceiver<Self::Mail>) -> impl Future<Output = End> + Send;

    /// Answers mail while this host doesn't have the shard; with an error, while it isn't to be touched any more. It breaks when
    /// the shard is given back.
    fn answer(&self, mail: Self::Mail, error: Option<&StoreError>) -> ControlFlow<()>;
    fn count_panic(&self);
}

/// Runs until the shard is given back, or where it is when `stop` says so.
pub(crate) async fn supervise<S: Supervised>(
    shard: S,
    mailbox: mpsc::UnboundedReceiver<S::Mail>,
    stop: CancellationToken,
) {
    let (shard, mailbox) = (Arc::new(shard), Arc::new(Mutex::new(mailbox)));
    let (number, condition) = (shard.shard().0, shard.condition());
    loop {
        let mut run = tokio::spawn(run(Arc::clone(&shard), Arc::clone(&mailbox)));
        let Some(ended) = stop.run_until_cancelled(&mut run).await else { return run.abort() };
        match ended {
            Ok(End::Released) => {
                condition.send_replace(Condition::Released);
                return;
            }
            Ok(End::WentBack(error)) => {
                tracing::error!(shard = number, of = S::OF, code = error.code().as_str(), %error, "nothing of the shard is written any more");
                condition.send_replace(Condition::Trouble { error: error.clone(), owning: true });
                if stop.run_until_cancelled(refuse_all(shard.as_ref(), &mailbox, &error)).await.is_some() {
                    condition.send_replace(Condition::Released);
                }
                return;
            }
            Ok(End::Reconfigured) => {
                tracing::info!(shard = number, of = S::OF, "the shard is taken over anew by another configuration");
            }
            Ok(End::Newer(_) | End::Lost) => {
                tracing::warn!(shard = number, of = S::OF, "another host took the shard over")
            }
            Err(panic) => {
                shard.count_panic();
                tracing::error!(shard = number, of = S::OF, %panic, "the shard's task failed; the shard is taken over and loaded again");
                sleep(PANIC_PAUSE).await;
            }
        }
    }
}

/// Up to the end of an ownership that others have to hear of.
async fn run<S: Supervised>(shard: Arc<S>, mailbox: Arc<Mutex<mpsc::UnboundedReceiver<S::Mail>>>) -> End {
    let mut mailbox = mailbox.lock_owned().await;
    let mut watch = shard.watch();
    loop {
        let pause = match shard.take(&mut watch).await {
            Ok(Take::Done(actor)) => match S::run(actor, &mut mailbox).await {
                End::Newer(error) => {
                    tracing::warn!(shard = shard.shard().0, of = S::OF, %error, "the shard was given back to a newer host");
                    watch = shard.watch();
                    shard.condition().send_replace(Condition::Trouble { error, owning: false });
                    NEWER_PAUSE
                }
                end => return end,
            },
            Ok(Take::Wait(pause)) => pause,
            Err(error) => {
                tracing::warn!(shard = shard.shard().0, of = S::OF, code = error.code().as_str(), %error, "can't take the shard over yet");
                shard.condition().send_replace(Condition::Trouble { error, owning: false });
                shard.retry_pause()
            }
        };
        let until = Instant::now() + pause;
        loop {
            tokio::select! {
                () = sleep_until(until) => break,
                () = shard.changed(&mut watch) => break,
                mail = mailbox.recv() => {
                    let Some(mail) = mail else { return End::Released };
                    if shard.answer(mail, None).is_break() {
                        return End::Released;
                    }
                }
            }
        }
    }
}

/// Answers whoever asks of a shard that isn't to be touched any more, until it is given back.
async fn refuse_all<S: Supervised>(shard: &S, mailbox: &Mutex<mpsc::UnboundedReceiver<S::Mail>>, error: &StoreError) {
    let mut mailbox = mailbox.lock().await;
    while let Some(mail) = mailbox.recv().await {
        if shard.answer(mail, Some(error)).is_break() {
            return;
        }
    }
}
