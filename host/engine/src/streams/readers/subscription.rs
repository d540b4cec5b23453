//! What a surface holds of a subscription.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{EventPiece, Subscription, SubscriptionEnd};

use super::super::{SHUTTING_DOWN, Shared};
use super::places::Watched;
use super::{Answer, Ask, Reader, Step};

/// How often a reader that has everything compares that with the store.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A store that doesn't answer for so long ends a subscription.
const STORE_PATIENCE: Duration = Duration::from_secs(10);
/// Pause before a look is tried again.
const TROUBLE_PAUSE: Duration = Duration::from_millis(200);

pub(in crate::streams) struct Reading {
    shared: Arc<Shared>,
    id: u64,
    watched: Arc<Watched>,
    wake: Arc<Notify>,
    look_at: Instant,
}

impl Reading {
    pub fn begin(shared: &Arc<Shared>, reader: Reader, wake: Arc<Notify>) -> Result<Self, ServiceError> {
        let (id, watched) = shared.readers.admit(reader, shared.settings().events.subscriptions_max)?;
        Ok(Self { shared: Arc::clone(shared), id, watched, wake, look_at: Instant::now() + LOOK_EVERY })
    }

    /// What is there, or what follows.
    fn ready_or_step(&self) -> Result<Result<Vec<EventPiece>, Step>, SubscriptionEnd> {
        let mut held = self.watched.held.lock();
        if let Some(end) = &held.end {
            return Err(end.clone());
        }
        let ready = held.reader.ready();
        if !ready.is_empty() {
            return Ok(Ok(ready));
        }
        // All of its page was handed on.
        held.page = None;
        let step = held.reader.step();
        step.map(Err).inspect_err(|end| {
            if *end == SubscriptionEnd::Lagged {
                self.shared.meter.lagged();
            }
            held.end = Some(end.clone());
        })
    }

    fn end(&self, end: SubscriptionEnd) -> SubscriptionEnd {
        self.watched.held.lock().end = Some(end.clone());
        end
    }

    async fn read(&self, ask: Ask) -> Result<(), SubscriptionEnd> {
        let bytes = ask.bytes();
        self.watched.place(&self.shared, bytes).await;
        let answer = self.answer(&ask).await?;
        self.watched.held.lock().take(answer, bytes)
    }

    /// Asks until there is an answer, or patience is over.
    async fn answer(&self, ask: &Ask) -> Result<Answer, SubscriptionEnd> {
        let until = Instant::now() + STORE_PATIENCE;
        loop {
            match ask.read(&self.shared).await {
                Ok(answer) => return Ok(answer),
                Err(error) if Instant::now() >= until => return Err(self.end(error.into())),
                Err(error) => tracing::debug!(code = error.code().as_str(), %error, "a reader waits for the store"),
            }
            sleep(TROUBLE_PAUSE).await;
        }
    }

    async fn wait(&mut self) {
        let closing = self.shared.context.closing.clone();
        tokio::select! {
            biased;
            // Whoever looks next ends.
            () = closing.cancelled() => {}
            // Before what wakes it: whoever hears of others' commits all the time looks, too.
            () = sleep_until(self.look_at) => {
                self.look_at = Instant::now() + LOOK_EVERY;
                self.watched.held.lock().reader.look_again();
            }
            () = self.wake.notified() => {}
        }
    }
}

#[async_trait]
impl Subscription for Reading {
    async fn next(&mut self) -> Result<Vec<EventPiece>, SubscriptionEnd> {
        let watched = Arc::clone(&self.watched);
        let _waiting = watched.wait();
        loop {
            if self.shared.context.closing.is_cancelled() {
                return Err(self.end(ServiceError::Unavailable(SHUTTING_DOWN.to_owned()).into()));
            }
            match self.ready_or_step() {
                Ok(Ok(pieces)) => return Ok(pieces),
                Ok(Err(Step::Read(ask))) => self.read(ask).await?,
                Ok(Err(Step::Again)) => {}
                Ok(Err(Step::Wait)) => self.wait().await,
                Err(end) => return Err(end),
            }
        }
    }

    fn cursor(&self) -> Option<Arc<str>> {
        self.watched.held.lock().reader.cursor()
    }

    fn cut(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.watched.cut.clone().cancelled_owned())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.shared.readers.leave(self.id);
    }
}
