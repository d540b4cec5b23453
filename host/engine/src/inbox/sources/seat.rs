//! What outlives an ownership of a source: whether it is paused, whether it may be pulled, what is known of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
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
    /// Why it can't bring anything in.
    pub trouble: Option<Fault>,
    pub unsettled: u64,
}

/// One source of this host.
    /// How often what it reads from was made anew.
    pub made_anew: u64,
    /// So much of it is unsettled that where it stands isn't followed in this session.
    pub is_place_lost: bool,
#[derive(Default)]
pub(crate) struct Seat {
    paused: AtomicBool,
    refused: Mutex<Option<Fault>>,
    open: Mutex<Option<Arc<dyn Source>>>,
impl SourceFigures {
    /// Why it is less than ready although it brings messages in.
    pub fn shortfall(&self) -> Option<&'static str> {
        let told = "more of it is unsettled than is followed: after a restart it begins where it stood before";
        self.is_place_lost.then_some(told)
    }
}

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

    /// Opens the source, when the one before has closed.
    pub async fn open(&self, plugin: &dyn SourcePlugin, how: OpenSource) -> Result<Arc<dyn Source>, CallError> {
        let _alone = self.moving.lock().await;
        let source = plugin.open(how).await?;
        self.install(&source);
        Ok(source)
    }

    /// What was opened beside the source before it serves from now on.
    pub fn install(&self, source: &Arc<dyn Source>) {
        *self.open.lock() = Some(Arc::clone(source));
    }

    /// Closes what is open, within `timeout`.
    pub async fn close(&self, source: &Arc<dyn Source>, timeout: Duration) {
        let _alone = self.moving.lock().await;
        {
            let mut open = self.open.lock();
            if open.as_ref().is_some_and(|now| Arc::ptr_eq(now, source)) {
                *open = None;
            }
        }
        source.close(timeout).await;
    }
}
