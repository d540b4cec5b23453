//! The bound of all pages of replay, and the watch over readers who take nothing.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::SubscriptionEnd;
use waybill_core::streams::settings::EventsSettings;

use super::super::Shared;
use super::super::meter::StreamMeter;
use super::{Answer, Reader};

/// Pages are counted in these, so that a bound of many gigabytes fits.
const UNIT: usize = 1024;
/// Who takes nothing for so long gives its page back.
const PAGE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often readers are looked at.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// A reader's turn to have a page: who hangs up and comes back at once, as one does who says something to its peer in between, keeps it.
#[derive(Default)]
struct Turn(Option<Asked>);

struct Asked {
    bytes: usize,
    place: Asking,
}

enum Asking {
    /// It waits in the queue also while nobody asks.
    Waits(Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>),
    Has(Option<OwnedSemaphorePermit>),
}

impl Turn {
    /// Whether it has a place for a page of so many bytes. Nothing needs none, and leaves the turn as it is.
    fn poll(&mut self, readers: &Readers, meter: &StreamMeter, bytes: usize, context: &mut Context<'_>) -> Poll<()> {
        if bytes == 0 {
            return Poll::Ready(());
        }
        // A page of another size waits anew.
        let asked = match &mut self.0 {
            Some(asked) if asked.bytes == bytes => asked,
            other => other.insert(Asked { bytes, place: readers.ask(bytes, meter) }),
        };
        if let Asking::Waits(place) = &mut asked.place {
            asked.place = Asking::Has(ready!(place.as_mut().poll(context)));
        }
        Poll::Ready(())
    }

    /// The place that it has, for the page that was read.
    fn taken(&mut self) -> Option<OwnedSemaphorePermit> {
        match self.0.take()?.place {
            Asking::Has(place) => place,
            Asking::Waits(_) => None,
        }
    }
}

/// A reader with what it holds.
pub(super) struct Held {
    pub reader: Reader,
    /// The place of the page that it hands on.
    pub page: Option<OwnedSemaphorePermit>,
    turn: Turn,
    pub end: Option<SubscriptionEnd>,
}

impl Held {
    /// Nobody takes it: the page is given back, and so is the turn to have one.
    fn drop_page(&mut self) {
        self.turn = Turn::default();
        if self.page.take().is_some() {
            self.reader.drop_page();
        }
    }

    /// Takes what was read, with its place.
    pub fn take(&mut self, answer: Answer, bytes: usize) -> Result<(), SubscriptionEnd> {
        if bytes > 0 {
            self.page = self.turn.taken();
        }
        let taken = self.reader.take(answer);
        taken.inspect_err(|end| self.end = Some(end.clone()))
    }
}

/// What a subscription shares with who watches it.
pub(super) struct Watched {
    pub held: Mutex<Held>,
    taken_at: Mutex<Instant>,
    /// Somebody waits for what comes next.
    is_waiting: AtomicBool,
    pub cut: CancellationToken,
}

impl Watched {
    /// Waits for a place for a page of so many bytes.
    pub async fn place(&self, shared: &Shared, bytes: usize) {
        poll_fn(|context| self.held.lock().turn.poll(&shared.readers, &shared.meter, bytes, context)).await;
    }

    /// Somebody waits from now on, until what is answered is dropped.
    pub fn wait(&self) -> Waiting<'_> {
        self.is_waiting.store(true, Ordering::Release);
        Waiting(self)
    }
}

/// Somebody waits for what comes next.
pub(super) struct Waiting<'a>(&'a Watched);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        *self.0.taken_at.lock() = Instant::now();
        self.0.is_waiting.store(false, Ordering::Release);
    }
}

/// All readers of this host.
pub(crate) struct Readers {
    watched: Mutex<(u64, HashMap<u64, Arc<Watched>>)>,
    places: Arc<Semaphore>,
    units: u32,
}

impl Readers {
    pub fn new(settings: &EventsSettings) -> Self {
        let units = u32::try_from(settings.replay_bytes_total / UNIT).unwrap_or(u32::MAX).max(1);
        let places = usize::try_from(units).unwrap_or(1).min(Semaphore::MAX_PERMITS);
        Self { watched: Mutex::default(), places: Arc::new(Semaphore::new(places)), units }
    }

    pub fn count(&self) -> usize {
        self.watched.lock().1.len()
    }

    /// Bytes of pages that are in memory now.
    pub fn replay_bytes(&self) -> usize {
        (self.units as usize).saturating_sub(self.places.available_permits()) * UNIT
    }

    /// Asks for a place for a page of so many bytes.
    fn ask(&self, bytes: usize, meter: &StreamMeter) -> Asking {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units);
        let free = Arc::clone(&self.places).try_acquire_many_owned(units).ok();
        meter.page(free.is_none());
        if free.is_some() {
            return Asking::Has(free);
        }
        let places = Arc::clone(&self.places);
        // Nobody closes it.
        Asking::Waits(Box::pin(async move { places.acquire_many_owned(units).await.ok() }))
    }

    /// Takes a reader in, if there is room for another one.
    pub(super) fn admit(&self, reader: Reader, count_max: usize) -> Result<(u64, Arc<Watched>), ServiceError> {
        let mut watched = self.watched.lock();
        if watched.1.len() >= count_max {
            return Err(full(count_max));
        }
        watched.0 += 1;
        let id = watched.0;
        let held = Held { reader, page: None, turn: Turn::default(), end: None };
        let one = Arc::new(Watched {
            held: Mutex::new(held),
            taken_at: Mutex::new(Instant::now()),
            is_waiting: AtomicBool::new(false),
            cut: CancellationToken::new(),
        });
        watched.1.insert(id, Arc::clone(&one));
        Ok((id, one))
    }

    /// Whether another one would be let in.
    pub fn check(&self, count_max: usize) -> Result<(), ServiceError> {
        if self.count() < count_max { Ok(()) } else { Err(full(count_max)) }
    }

    pub(super) fn leave(&self, id: u64) {
        self.watched.lock().1.remove(&id);
    }
}

fn full(count_max: usize) -> ServiceError {
    ServiceError::Unavailable(format!(
        "it has {count_max} subscriptions, as many as events.subscriptions_max allows: ask another host, or try again later"
    ))
}

/// Gives back pages that nobody takes, and cuts off who takes nothing for long. Runs until the engine ends.
pub(in crate::streams) async fn sweep(shared: Arc<Shared>) {
    loop {
        sleep(SWEEP_EVERY).await;
        let stall = shared.settings().events.stall_timeout;
        let all: Vec<Arc<Watched>> = shared.readers.watched.lock().1.values().cloned().collect();
        for watched in &all {
            let idle = watched.taken_at.lock().elapsed();
            if watched.is_waiting.load(Ordering::Acquire) || idle < PAGE_TIMEOUT {
                continue;
            }
            let mut held = watched.held.lock();
            // Whoever came back meanwhile waits for its turn, and wouldn't hear that it is gone.
            if watched.is_waiting.load(Ordering::Acquire) {
                continue;
            }
            held.drop_page();
            if idle >= stall && held.end.is_none() {
                held.end = Some(SubscriptionEnd::Stalled(stall));
                watched.cut.cancel();
                shared.meter.stalled();
            }
        }
        let (rings, bytes) = shared.rings.size();
        shared.meter.rings(rings, bytes);
        shared.meter.readers(all.len());
        shared.meter.replay_bytes(shared.readers.replay_bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::FutureExt as _;

    use super::*;

    /// Asks once, as whoever hangs up at once does.
    fn has_place(turn: &mut Turn, readers: &Readers) -> bool {
        poll_fn(|context| turn.poll(readers, &StreamMeter::new(), UNIT, context)).now_or_never().is_some()
    }

    #[tokio::test]
    async fn who_hangs_up_and_comes_back_keeps_its_turn_and_its_place() {
        let readers = Readers::new(&EventsSettings { replay_bytes_total: UNIT, ..EventsSettings::default() });
        let (mut first, mut second, mut third) = (Turn::default(), Turn::default(), Turn::default());
        assert!(has_place(&mut first, &readers));
        assert!(!has_place(&mut second, &readers) && !has_place(&mut third, &readers));
        // It had its place and was hung up on before the page was read.
        assert!(has_place(&mut first, &readers));
        drop(first.taken().unwrap());
        assert!(!has_place(&mut third, &readers), "the second one came before it");
        assert!(has_place(&mut second, &readers));
        assert_eq!(readers.replay_bytes(), UNIT);
        second = Turn::default();
        assert!(second.taken().is_none() && has_place(&mut third, &readers), "who takes nothing gives its turn back");
    }
}
