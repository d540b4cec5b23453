//! What outlives an ownership of a source: whether it is paused, whether it may be pulled, what is known of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout_at};
use waybill_core::ids::SourceName;
use waybill_core::port::source::{OpenSource, Source, SourcePlugin};
use waybill_core::port::transport::{CallError, Fault};

/// Begins the name under which a paused source is noted beside paused transports: no transport's name has a colon.
const PAUSED_PREFIX: &str = "source:";

/// The seats of all sources of a host, by name.
#[derive(Default)]
pub(crate) struct Seats(Mutex<BTreeMap<SourceName, Arc<Seat>>>);

impl Seats {
    pub fn of(&self, source: &SourceName) -> Arc<Seat> {
        Arc::clone(self.0.lock().entry(source.clone()).or_default())
    }

    /// Whether an ownership has this source, open or not, or it is being closed: whoever does that holds its seat.
    pub fn is_taken(&self, source: &SourceName) -> bool {
        self.0.lock().get(source).is_some_and(|seat| Arc::strong_count(seat) > 1)
    }

    /// Takes over which sources operators paused, as it was noted.
    pub fn set_paused(&self, noted: &[String]) {
        let mut seats = self.0.lock();
        for name in noted.iter().filter_map(|name| Self::named_by(name)) {
            if let Ok(name) = SourceName::new(name) {
                seats.entry(name).or_default().paused.store(true, Ordering::Release);
            }
        }
    }

    /// The source that is noted as paused under this name, if one is.
    pub fn named_by(noted: &str) -> Option<&str> {
        noted.strip_prefix(PAUSED_PREFIX)
    }

    /// The name under which a paused source is noted.
    pub fn noted_as(source: &SourceName) -> String {
        format!("{PAUSED_PREFIX}{source}")
    }
}

/// What is known of a source now.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFigures {
    /// Nothing more was waiting at the last pull.
    pub caught_up: Option<bool>,
    /// Messages known to wait at its peer.
    pub lag: Option<u64>,
    /// Messages that its peer removed before they were read.
    pub overtaken: u64,
    /// How often what it reads from was made anew.
    pub made_anew: u64,
    /// So much of it is unsettled that where it stands isn't followed in this session.
    pub is_place_lost: bool,
    /// Why it can't bring anything in.
    pub trouble: Option<Fault>,
    pub unsettled: u64,
}

impl SourceFigures {
    /// Why it is less than ready although it brings messages in.
    pub fn shortfall(&self) -> Option<&'static str> {
        let told = "more of it is unsettled than is followed: after a restart it begins where it stood before";
        self.is_place_lost.then_some(told)
    }
}

/// One source of this host.
#[derive(Default)]
pub(crate) struct Seat {
    paused: AtomicBool,
    refused: Mutex<Option<Fault>>,
    open: Mutex<Option<Arc<dyn Source>>>,
    /// What was opened beside that one to take its place. Here, so that whoever ends an ownership finds it before anybody heard of it.
    beside: Mutex<Option<Arc<dyn Source>>>,
    /// Held from the beginning of an `open` or `close` to its end: a peer never sees two of them.
    moving: AsyncMutex<()>,
    figures: Mutex<SourceFigures>,
}

impl Seat {
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    pub fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
    }

    /// Why it mustn't be pulled at all, if so.
    pub fn refused(&self) -> Option<Fault> {
        self.refused.lock().clone()
    }

    pub fn set_refused(&self, fault: Option<Fault>) {
        *self.refused.lock() = fault;
    }

    /// The source while it is open here.
    pub fn open_now(&self) -> Option<Arc<dyn Source>> {
        self.open.lock().clone()
    }

    pub fn figures(&self) -> SourceFigures {
        self.figures.lock().clone()
    }

    pub fn change(&self, change: impl FnOnce(&mut SourceFigures)) {
        change(&mut self.figures.lock());
    }

    /// The source that was opened to take the place of that one.
    pub fn open_beside_now(&self) -> Option<Arc<dyn Source>> {
        self.beside.lock().clone()
    }

    /// Opens the source, when the one before has closed.
    pub async fn open(&self, plugin: &dyn SourcePlugin, how: OpenSource) -> Result<Arc<dyn Source>, CallError> {
        let _alone = self.moving.lock().await;
        let source = plugin.open(how).await?;
        *self.open.lock() = Some(Arc::clone(&source));
        Ok(source)
    }

    /// Opens its successor while the source goes on.
    pub async fn open_beside(&self, plugin: &dyn SourcePlugin, how: OpenSource) -> Result<(), CallError> {
        let source = plugin.open(how).await?;
        *self.beside.lock() = Some(source);
        Ok(())
    }

    /// What was opened beside the source before it serves from now on.
    pub fn install_beside(&self) -> Option<Arc<dyn Source>> {
        let source = self.beside.lock().take()?;
        *self.open.lock() = Some(Arc::clone(&source));
        Some(source)
    }

    /// Closes what is open, within `timeout`: also that of an `open` or `close` before it, which isn't waited for longer.
    pub async fn close(&self, source: &Arc<dyn Source>, timeout: Duration) {
        let until = Instant::now() + timeout;
        let _alone = timeout_at(until, self.moving.lock()).await;
        for place in [&self.open, &self.beside] {
            place.lock().take_if(|now| Arc::ptr_eq(now, source));
        }
        source.close(until.saturating_duration_since(Instant::now())).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use waybill_testkit::fake_source::{FakeSource, FakeSourcePlugin};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn closing_takes_no_longer_than_it_is_given_also_behind_another_open() {
        let (seat, broker) = (Arc::new(Seat::default()), FakeSource::new("shop"));
        let plugin = FakeSourcePlugin(Arc::clone(&broker));
        let open = seat.open(&plugin, OpenSource::default()).await.unwrap();
        broker.set_open_time(Duration::from_secs(3));
        broker.set_close_time(Duration::from_secs(60));
        let slow = tokio::spawn({
            let seat = Arc::clone(&seat);
            async move { seat.open(&plugin, OpenSource::default()).await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        let began = Instant::now();
        seat.close(&open, Duration::from_secs(5)).await;
        assert_eq!((began.elapsed(), broker.closed()), (Duration::from_secs(5), 1));
        slow.await.unwrap().unwrap();
        assert!(seat.open_now().is_some(), "what was opened meanwhile isn't what was closed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_successor_is_known_before_anybody_has_heard_of_it() {
        let (seat, broker) = (Seat::default(), FakeSource::new("shop"));
        let plugin = FakeSourcePlugin(Arc::clone(&broker));
        seat.open_beside(&plugin, OpenSource::default()).await.unwrap();
        let beside = seat.open_beside_now().unwrap();
        seat.close(&beside, Duration::from_secs(5)).await;
        assert_eq!((broker.closed(), seat.open_beside_now().is_none()), (1, true));
        seat.open_beside(&plugin, OpenSource::default()).await.unwrap();
        assert!(seat.install_beside().is_some() && seat.open_now().is_some() && seat.open_beside_now().is_none());
    }

    #[tokio::test]
    async fn a_source_is_taken_for_as_long_as_somebody_holds_its_seat() {
        let (seats, name) = (Seats::default(), SourceName::new("shop").unwrap());
        assert!(!seats.is_taken(&name));
        let seat = seats.of(&name);
        assert!(seats.is_taken(&name));
        drop(seat);
        assert!(!seats.is_taken(&name));
    }
}
