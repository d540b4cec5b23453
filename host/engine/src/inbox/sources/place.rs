//! How far each source of an ownership is, and each of its instances.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use waybill_core::inbox::settings::SourceId;
use waybill_core::port::source::{OpenSource, Source, SourcePlugin};
use waybill_core::port::transport::CallError;

use super::drive::REOPEN_TIMEOUT;
use super::seat::{Seat, Seats};
use crate::inbox::settings::{HomeSettings, HomeSource};

/// Pause after a call of a source that failed; it doubles with each further one.
const FAILED_PAUSE: Duration = Duration::from_millis(100);
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(10);

/// How far a source is.
pub(in crate::inbox) enum Phase {
    /// To be opened, not before this instant.
    Closed {
        until: Instant,
        how: OpenSource,
    },
    Opening,
    Open(Arc<dyn Source>),
    /// It fetches no more; what is in hand is settled until this instant at the latest.
    Quiescing {
        source: Arc<dyn Source>,
        until: Instant,
        told: bool,
    },
    Closing,
}

impl Phase {
    pub fn quiescing(source: &Arc<dyn Source>) -> Self {
        let until = Instant::now() + REOPEN_TIMEOUT;
        Self::Quiescing { source: Arc::clone(source), until, told: false }
    }
}

/// What is opened beside a source that goes on meanwhile.
pub(in crate::inbox) enum Beside {
    Opening(OpenSource),
    /// It serves as soon as the one before it has closed; its seat has it.
    Open(OpenSource),
}

/// One source of an ownership.
pub(in crate::inbox) struct Place {
    pub home: Arc<HomeSource>,
    pub seat: Arc<Seat>,
    /// What is opened: the configured plugin, or the one before if that can't serve.
    pub plugin: Arc<dyn SourcePlugin>,
    /// What is being opened, or is open and waits for the one before it to close. Another plugin may be configured meanwhile.
    opening: Option<Arc<dyn SourcePlugin>>,
    /// What served last in this ownership. One that was only tried isn't worth going back to.
    served: Option<Arc<dyn SourcePlugin>>,
    pub phase: Phase,
    pub beside: Option<Beside>,
    pub failures: u32,
    /// It was opened to go on at the earliest that is kept, and has brought nothing yet.
    pub goes_on: bool,
    /// It was closed to be opened again in this way.
    pub reopens: Option<OpenSource>,
    /// Who waits until it is open again.
    pub reopened: Vec<oneshot::Sender<Result<(), CallError>>>,
}

impl Place {
    /// Has it closed in good order and opened again in this way. Asked for twice, the last word counts.
    pub fn reopen(&mut self, how: OpenSource) {
        match &mut self.phase {
            Phase::Closed { until, how: before } => (*until, *before) = (Instant::now(), how),
            Phase::Opening | Phase::Open(_) | Phase::Quiescing { .. } | Phase::Closing => self.reopens = Some(how),
        }
    }

    /// Goes by another configuration of the same source.
    fn adopt(&mut self, home: &Arc<HomeSource>) {
        let is_other = !Arc::ptr_eq(&self.home.config.plugin, &home.config.plugin);
        self.home = Arc::clone(home);
        if is_other {
            self.plugin = Arc::clone(&home.config.plugin);
            self.reopen(OpenSource::default());
        }
    }

    /// What is to be opened is begun to be.
    pub fn begin_open(&mut self) -> Arc<dyn SourcePlugin> {
        self.opening = Some(Arc::clone(&self.plugin));
        Arc::clone(&self.plugin)
    }

    /// What was opened serves.
    pub fn serves(&mut self) {
        if let Some(opened) = self.opening.take() {
            self.served = Some(opened);
        }
    }

    /// What was opened can't serve: the one that did last is to do so again. False: there is no other, or a plugin that was configured
    /// meanwhile comes first.
    pub fn fall_back(&mut self) -> bool {
        self.opening = None;
        let served = self.served.clone().filter(|served| !Arc::ptr_eq(served, &self.plugin));
        match (self.reopens, served) {
            (None, Some(served)) => {
                self.plugin = served;
                true
            }
            (Some(_), _) | (None, None) => false,
        }
    }
}

/// One instance of a source.
pub(in crate::inbox) struct Lane {
    pub source: usize,
    pub number: u32,
    /// That brought what is in hand.
    pub session: Option<u64>,
    pub is_pulling: bool,
    pub is_settling: bool,
    /// Not pulled before.
    pub pull_at: Instant,
    /// Not settled before.
    pub settle_at: Instant,
    pub caught_up: bool,
    failures: u32,
}

impl Lane {
    /// A call failed: nothing more is asked of it for a while.
    pub fn rest(&mut self) -> Instant {
        let until = Instant::now() + pause(self.failures);
        self.failures = self.failures.saturating_add(1);
        until
    }

    pub fn is_well(&mut self) {
        self.failures = 0;
    }
}

/// The pause after so many failures in a row.
pub(super) fn pause(failures: u32) -> Duration {
    FAILED_PAUSE.saturating_mul(1 << failures.min(16)).min(FAILED_PAUSE_MAX)
}

/// All sources of an ownership.
pub(in crate::inbox) struct Places {
    pub places: Vec<Place>,
    pub lanes: Vec<Lane>,
}

impl Places {
    pub fn new(home: &HomeSettings, seats: &Seats) -> Self {
        let now = Instant::now();
        let places = home.sources.iter().map(|source| Place {
            home: Arc::clone(source),
            seat: seats.of(&source.config.name),
            plugin: Arc::clone(&source.config.plugin),
            opening: None,
            served: None,
            phase: Phase::Closed { until: now, how: OpenSource::default() },
            beside: None,
            failures: 0,
            goes_on: false,
            reopens: None,
            reopened: Vec::new(),
        });
        let lanes = home.lanes.iter().map(|(source, number)| Lane {
            source: *source,
            number: *number,
            session: None,
            is_pulling: false,
            is_settling: false,
            pull_at: now,
            settle_at: now,
            caught_up: false,
            failures: 0,
        });
        Self { places: places.collect(), lanes: lanes.collect() }
    }

    /// Goes by another configuration of the same sources.
    pub fn adopt(&mut self, home: &HomeSettings) {
        self.places.iter_mut().zip(&home.sources).for_each(|(place, source)| place.adopt(source));
    }

    pub fn lane(&mut self, id: SourceId) -> Option<&mut Lane> {
        self.lanes.get_mut(usize::from(id.0))
    }

    /// Whether every instance of a source had nothing more waiting at its last pull.
    pub fn is_caught_up(&self, source: usize) -> bool {
        self.lanes.iter().filter(|lane| lane.source == source).all(|lane| lane.caught_up)
    }

    /// Whether a source was asked for messages and hasn't answered.
    pub fn is_pulled(&self, source: usize) -> bool {
        self.lanes.iter().any(|lane| lane.source == source && lane.is_pulling)
    }

    /// Whether a call of a source is under way.
    pub fn is_busy(&self, source: usize) -> bool {
        self.lanes.iter().any(|lane| lane.source == source && (lane.is_pulling || lane.is_settling))
    }

    /// Whether a source can be told anything.
    pub fn is_open(&self, source: usize) -> bool {
        let phase = self.places.get(source).map(|place| &place.phase);
        matches!(phase, Some(Phase::Open(_) | Phase::Quiescing { .. }))
    }

    /// All of it was closed.
    pub fn forget(&mut self) {
        self.places.clear();
        self.lanes.clear();
    }

    /// What is open, for whoever closes it.
    pub fn open(&self) -> Vec<(Arc<Seat>, Arc<dyn Source>)> {
        let open = self.places.iter().flat_map(|place| {
            let seat = &place.seat;
            [seat.open_now(), seat.open_beside_now()]
                .into_iter()
                .flatten()
                .map(move |source| (Arc::clone(seat), source))
        });
        open.collect()
    }
}
