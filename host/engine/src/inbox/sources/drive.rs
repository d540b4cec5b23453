//! Calls of sources that are due: opening, pulling into room, settling, extending, closing. Each runs in a task of the ownership and
//! comes back as mail.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use waybill_core::endpoint::ReloadPolicy;
use waybill_core::inbox::owner::{Settle, SettleAs};
use waybill_core::inbox::settings::SourceId;
use waybill_core::port::source::{Disposition, OpenSource, Pulled, Source, SourceSettlement};
use waybill_core::port::trace::Tracer;
use waybill_core::time::Now;

use super::place::{Beside, Phase, pause};
use crate::engine::CLOSE_TIMEOUT;
use crate::inbox::actor::Actor;
use crate::inbox::mail::{Mail, SourceEvent};
use crate::spans;

/// Longest wait of one pull.
const PULL_WAIT: Duration = Duration::from_secs(1);
/// The same of an instance that runs one call at a time while something of it is to be settled.
const SHORT_WAIT: Duration = Duration::from_millis(50);
/// Time for one call that settles.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
/// What is in hand gets this long to be settled before a source is closed to be opened anew.
pub(super) const REOPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// A source or a handler gets at least this long to end in good order, also when calls under way took the whole drain time. Sources and
/// then handlers: both together end before the drain gives up on them.
const CLOSE_MIN: Duration = Duration::from_millis(500);

/// How long a source or a handler may take to end in a drain that is to be over at this instant.
pub(in crate::inbox) fn close_within(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).clamp(CLOSE_MIN, CLOSE_TIMEOUT)
}

impl Actor {
    pub(in crate::inbox) fn drive_sources(&mut self, now: Now) {
        for source in 0..self.sources.places.len() {
            self.drive_phase(source);
        }
        for lane in 0..self.sources.lanes.len() {
            let Ok(number) = u16::try_from(lane) else { return };
            self.settle(SourceId(number), now);
            self.pull(SourceId(number));
        }
    }

    fn drive_phase(&mut self, source: usize) {
        let is_ending = self.is_ending();
        let is_quiescing =
            matches!(self.sources.places.get(source).map(|place| &place.phase), Some(Phase::Quiescing { .. }));
        let is_settled = is_quiescing && self.is_settled(source);
        let Some(place) = self.sources.places.get_mut(source) else { return };
        let wanted = !is_ending && place.seat.refused().is_none();
        match &mut place.phase {
            Phase::Closed { until, how } if wanted && Instant::now() >= *until => {
                let how = *how;
                place.phase = Phase::Opening;
                self.begin_open(source, how);
            }
            // What is being opened beside it decides first.
            Phase::Open(_) if place.beside.is_some() => {}
            Phase::Open(open) => match (place.reopens, place.plugin.reload()) {
                (Some(_), ReloadPolicy::StopStart) => {
                    place.phase = Phase::quiescing(open);
                    self.begin_quiesce(source);
                }
                (Some(how), ReloadPolicy::Overlap) if wanted => {
                    place.reopens = None;
                    place.beside = Some(Beside::Opening(how));
                    self.begin_beside(source, how);
                }
                (Some(_), ReloadPolicy::Overlap) | (None, _) => {}
            },
            Phase::Quiescing { source: open, until, told } if *told && is_settled || Instant::now() >= *until => {
                let open = Arc::clone(open);
                place.phase = Phase::Closing;
                self.begin_close(source, open);
            }
            Phase::Closed { .. } | Phase::Opening | Phase::Quiescing { .. } | Phase::Closing => {}
        }
    }

    /// Whether a source has nothing in hand and no call under way.
    fn is_settled(&self, source: usize) -> bool {
        let in_hand = self.home.instances_of(source).any(|id| self.owner.in_hand(id) > 0);
        !in_hand && !self.sources.is_busy(source)
    }

    fn begin_open(&mut self, source: usize, how: OpenSource) {
        let Some(place) = self.sources.places.get_mut(source) else { return };
        place.goes_on = how.go_on;
        let (seat, plugin) = (Arc::clone(&place.seat), place.begin_open());
        plugin.resume_after(self.begins_behind(source));
        self.begin(async move {
            let result = seat.open(plugin.as_ref(), how).await;
            SourceEvent::Opened { source, result }
        });
    }

    /// Opens its successor while a source goes on.
    fn begin_beside(&mut self, source: usize, how: OpenSource) {
        let Some(place) = self.sources.places.get_mut(source) else { return };
        let (seat, plugin) = (Arc::clone(&place.seat), place.begin_open());
        plugin.resume_after(self.begins_behind(source));
        self.begin(async move {
            let result = seat.open_beside(plugin.as_ref(), how).await;
            SourceEvent::OpenedBeside { source, result }
        });
    }

    /// Position behind which a source begins that has no place of its own at its peer.
    pub(in crate::inbox) fn begins_behind(&self, source: usize) -> Option<String> {
        let id = self.home.instances_of(source).next()?;
        self.owner.resume_after(id).map(str::to_owned)
    }

    pub(super) fn begin_quiesce(&mut self, source: usize) {
        let Some(Phase::Quiescing { source: open, .. }) = self.sources.places.get(source).map(|place| &place.phase)
        else {
            return;
        };
        let open = Arc::clone(open);
        self.begin(async move {
            if let Err(error) = open.quiesce(REOPEN_TIMEOUT).await {
                tracing::debug!(
                    source = open.name(),
                    code = error.fault.code,
                    reason = error.fault.reason,
                    "quiesce failed"
                );
            }
            SourceEvent::Quiesced { source }
        });
    }

    fn begin_close(&mut self, source: usize, open: Arc<dyn Source>) {
        let Some(place) = self.sources.places.get(source) else { return };
        let seat = Arc::clone(&place.seat);
        self.begin(async move {
            seat.close(&open, CLOSE_TIMEOUT).await;
            SourceEvent::Closed { source }
        });
    }

    /// Runs a call of a source in a task of this ownership.
    fn begin(&mut self, call: impl Future<Output = SourceEvent> + Send + 'static) {
        let (mail, epoch) = (self.handle.mail.clone(), self.epoch);
        self.tasks.spawn(async move {
            let _gone = mail.send(Mail::Source { epoch, event: call.await });
        });
    }

    /// Listens to what a source tells besides, for as long as it is open.
    pub(super) fn listen(&mut self, source: usize, open: Arc<dyn Source>) {
        let (mail, epoch) = (self.handle.mail.clone(), self.epoch);
        let seat = self.sources.places.get(source).map(|place| Arc::clone(&place.seat));
        self.tasks.spawn(async move {
            let is_open = || seat.as_ref().and_then(|seat| seat.open_now()).is_some_and(|now| Arc::ptr_eq(&now, &open));
            while is_open() {
                let Ok(notices) = tokio::time::timeout(PULL_WAIT, open.next_notices()).await else { continue };
                let event = SourceEvent::Noticed { source, notices };
                if mail.send(Mail::Source { epoch, event }).is_err() {
                    return;
                }
            }
        });
    }

    fn pull(&mut self, id: SourceId) {
        let Some((source, _)) = self.home.source_of(id) else { return };
        let Some(lane) = self.sources.lane(id) else { return };
        if lane.is_pulling || Instant::now() < lane.pull_at || self.is_ending() {
            return;
        }
        let Some(place) = self.sources.places.get(source) else { return };
        let Phase::Open(open) = &place.phase else { return };
        if place.seat.is_paused() || place.seat.refused().is_some() {
            return self.silent(id);
        }
        let (open, config) = (Arc::clone(open), Arc::clone(&place.home.config));
        let (room, in_hand) = (self.owner.room(id), self.owner.in_hand(id));
        let Some(lane) = self.sources.lane(id).filter(|_| room > 0) else { return };
        lane.is_pulling = true;
        let number = lane.number;
        let max = u32::try_from(room).unwrap_or(u32::MAX);
        let max_bytes = config.window_bytes / config.instances.max(1);
        let has_work = in_hand > 0 && open.facts().calls_per_lane <= 1;
        let wait = if has_work { SHORT_WAIT } else { PULL_WAIT };
        let tracer = self.shared.context.config.tracer.clone();
        self.begin(async move {
            let began = Instant::now();
            let result = open.pull(number, max, max_bytes, wait).await;
            if let (Some(tracer), Ok(pulled)) = (tracer, &result) {
                received(&tracer, config.name.as_str(), pulled, began.elapsed());
            }
            SourceEvent::Pulled { id, took: began.elapsed(), result }
        });
    }

    fn settle(&mut self, id: SourceId, now: Now) {
        let Some((source, _)) = self.home.source_of(id) else { return };
        let open = self.sources.places.get(source).and_then(|place| match &place.phase {
            Phase::Open(open) | Phase::Quiescing { source: open, .. } => Some(Arc::clone(open)),
            Phase::Closed { .. } | Phase::Opening | Phase::Closing => None,
        });
        // What is given back while it is pulled would come back at once.
        let waits = self.is_ending() && self.sources.is_pulled(source);
        let Some(lane) = self.sources.lane(id).filter(|_| !waits) else { return };
        let (Some(open), Some(session)) = (open, lane.session) else { return };
        if lane.is_settling || Instant::now() < lane.settle_at {
            return;
        }
        let number = lane.number;
        let orders = self.owner.take_settlements(id, now);
        if orders.is_empty() {
            return;
        }
        if let Some(lane) = self.sources.lane(id) {
            lane.is_settling = true;
        }
        let items = orders.iter().map(settlement).collect();
        self.begin(async move {
            let result = open.settle(number, session, items, SETTLE_TIMEOUT).await;
            SourceEvent::Settled { id, orders, result }
        });
    }

    /// When a source has something to do at the latest.
    pub(in crate::inbox) fn next_source_wake(&self) -> Option<Instant> {
        let now = Instant::now();
        let phases = self.sources.places.iter().filter_map(|place| match &place.phase {
            Phase::Closed { until, .. } if place.seat.refused().is_none() => Some(*until),
            Phase::Quiescing { until, .. } => Some(*until),
            _ => None,
        });
        let lanes = self.sources.lanes.iter().flat_map(|lane| [lane.pull_at, lane.settle_at]);
        phases.chain(lanes).filter(|at| *at > now).min()
    }

    /// A source that couldn't be opened is tried again later.
    pub(super) fn reopen_later(&mut self, source: usize, how: OpenSource) {
        if let Some(place) = self.sources.places.get_mut(source) {
            place.phase = Phase::Closed { until: Instant::now() + pause(place.failures), how };
            place.failures = place.failures.saturating_add(1);
        }
    }
}

/// The span of a pull that brought something.
fn received(tracer: &Arc<dyn Tracer>, source: &str, pulled: &Pulled, took: Duration) {
    let deliveries = &pulled.deliveries;
    if !deliveries.is_empty() {
        let contexts = deliveries.iter().filter_map(|delivery| spans::context_of(&delivery.headers));
        spans::received(tracer, source, contexts, deliveries.len(), took);
    }
}

fn settlement(order: &Settle) -> SourceSettlement {
    let disposition = match &order.settle_as {
        SettleAs::Ack => Disposition::Ack,
        SettleAs::Extend => Disposition::Extend,
        SettleAs::Release => Disposition::Release,
        SettleAs::Reject(fault) => Disposition::Reject(fault.clone()),
    };
    SourceSettlement { token: order.token.clone(), disposition }
}
