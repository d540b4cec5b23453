//! What calls of sources brought.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::inbox::intake::IntakeContext;
use waybill_core::inbox::owner::{Arrival, Settle, SettleAs, SettleResult, SourceAbilities};
use waybill_core::inbox::settings::SourceId;
use waybill_core::port::source::{OpenSource, Pulled, Settled, Source, SourceDelivery, SourceFacts};
use waybill_core::port::transport::{CallError, ErrorKind, Fault};
use waybill_core::time::UnixMillis;

use super::place::{Beside, Phase};
use crate::engine::CLOSE_TIMEOUT;
use crate::inbox::actor::Actor;
use crate::inbox::mail::SourceEvent;
use crate::inbox::settings::HomeSource;

/// A pull that brought nothing in less than this didn't wait.
const HASTY: Duration = Duration::from_millis(20);
/// Pause after such a pull.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// Pause after settling failed.
const SETTLE_PAUSE: Duration = Duration::from_millis(200);

impl Actor {
    pub(in crate::inbox) fn take_source_event(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Opened { source, result } => self.source_opened(source, result),
            SourceEvent::OpenedBeside { source, result } => self.opened_beside(source, result),
            SourceEvent::Quiesced { source } => {
                if let Some(Phase::Quiescing { told, .. }) =
                    self.sources.places.get_mut(source).map(|place| &mut place.phase)
                {
                    *told = true;
                }
            }
            SourceEvent::Closed { source } => self.source_closed(source),
            SourceEvent::Pulled { id, took, result } => self.pulled(id, took, result),
            SourceEvent::Settled { id, orders, result } => self.settled(id, orders, result),
            SourceEvent::Noticed { source, notices } => self.noticed(source, notices),
        }
    }

    fn source_opened(&mut self, source: usize, result: Result<Arc<dyn Source>, CallError>) {
        let ids: Vec<SourceId> = self.home.instances_of(source).collect();
        let Some(place) = self.sources.places.get_mut(source) else { return };
        let name = place.home.config.name.clone();
        match result {
            Ok(open) => {
                tracing::info!(source = name.as_str(), instances = place.home.config.instances, "a source is open");
                place.seat.change(|figures| figures.trouble = None);
                place.failures = 0;
                place.serves();
                place.phase = Phase::Open(Arc::clone(&open));
                if place.reopens.is_none() {
                    for waiting in place.reopened.drain(..) {
                        let _gone = waiting.send(Ok(()));
                    }
                }
                for id in ids {
                    self.owner.opened(id, abilities(&open.facts()));
                    if let Some(lane) = self.sources.lane(id) {
                        (lane.pull_at, lane.session) = (Instant::now(), None);
                    }
                }
                self.listen(source, open);
            }
            Err(error) => {
                let CallError { fault, .. } = error.clone();
                tracing::warn!(
                    source = name.as_str(),
                    code = fault.code,
                    reason = fault.reason,
                    "can't open a source yet"
                );
                place.seat.change(|figures| figures.trouble = Some(fault));
                // What was asked for meanwhile is still to show what it can.
                if let Some(how) = place.reopens.take() {
                    return self.reopen_later(source, how);
                }
                for waiting in place.reopened.drain(..) {
                    let _gone = waiting.send(Err(error.clone()));
                }
                if place.fall_back() {
                    tracing::error!(
                        source = name.as_str(),
                        "it is opened again with the plugin and settings that served before"
                    );
                    place.phase = Phase::Closed { until: Instant::now(), how: OpenSource::default() };
                } else {
                    self.reopen_later(source, OpenSource::default());
                }
            }
        }
    }

    /// The successor of a source is open: the one before fetches no more and is closed when what it has out is settled. One that can't
    /// serve changes nothing.
    fn opened_beside(&mut self, source: usize, result: Result<(), CallError>) {
        let Some(place) = self.sources.places.get_mut(source) else { return };
        let Some(Beside::Opening(how)) = place.beside else { return };
        place.beside = None;
        match (result, &place.phase) {
            (Ok(()), Phase::Open(serving)) => {
                place.phase = Phase::quiescing(serving);
                place.beside = Some(Beside::Open(how));
                self.begin_quiesce(source);
            }
            // Nothing else moves a source while its successor is opened; if something did, nobody waits for that one.
            (Ok(()), _) => {
                let seat = Arc::clone(&place.seat);
                if let Some(open) = seat.open_beside_now() {
                    self.tasks.spawn(async move { seat.close(&open, CLOSE_TIMEOUT).await });
                }
            }
            (Err(error), _) => {
                let (name, fault) = (&place.home.config.name, &error.fault);
                tracing::error!(
                    source = name.as_str(),
                    code = fault.code,
                    reason = fault.reason,
                    "a source's successor can't serve: it goes on as before"
                );
                for waiting in place.reopened.drain(..) {
                    let _gone = waiting.send(Err(error.clone()));
                }
                place.fall_back();
            }
        }
    }

    fn source_closed(&mut self, source: usize) {
        let ids: Vec<SourceId> = self.home.instances_of(source).collect();
        for id in ids {
            self.owner.closed(id);
            if let Some(lane) = self.sources.lane(id) {
                (lane.session, lane.caught_up) = (None, false);
            }
        }
        let Some(place) = self.sources.places.get_mut(source) else { return };
        let successor = match place.beside.take() {
            Some(Beside::Open(how)) => place.seat.install_beside().map(|open| (open, how)),
            Some(Beside::Opening(_)) | None => None,
        };
        match successor {
            Some((open, how)) => {
                place.goes_on = how.go_on;
                self.source_opened(source, Ok(open));
            }
            None => {
                let how = place.reopens.take().unwrap_or_default();
                place.phase = Phase::Closed { until: Instant::now(), how };
            }
        }
    }

    fn pulled(&mut self, id: SourceId, took: Duration, result: Result<Pulled, CallError>) {
        let Some((source, _)) = self.home.source_of(id) else { return };
        if let Some(lane) = self.sources.lane(id) {
            lane.is_pulling = false;
        }
        let Some(place) = self.sources.places.get(source) else { return };
        let (name, seat) = (place.home.config.name.clone(), Arc::clone(&place.seat));
        match result {
            Ok(pulled) => {
                self.shared.meter.pulled(&name, &pulled);
                seat.change(|figures| figures.trouble = None);
                self.take_pulled(source, id, took, pulled);
            }
            Err(CallError { kind: ErrorKind::Cancelled, .. }) => {
                if let Some(lane) = self.sources.lane(id) {
                    lane.pull_at = lane.rest();
                }
                self.silent(id);
            }
            Err(CallError { fault, .. }) => {
                self.shared.meter.pull_failed(&name);
                let is_new = seat.figures().trouble.is_none_or(|before| before.code != fault.code);
                if is_new {
                    tracing::warn!(
                        source = name.as_str(),
                        code = fault.code,
                        reason = fault.reason,
                        "a source brings nothing"
                    );
                }
                seat.change(|figures| figures.trouble = Some(fault));
                if let Some(lane) = self.sources.lane(id) {
                    lane.pull_at = lane.rest();
                }
                self.silent(id);
            }
        }
    }

    /// An instance brings nothing for now: what waits behind it is unknown.
    pub(super) fn silent(&mut self, id: SourceId) {
        let Some(lane) = self.sources.lane(id) else { return };
        lane.caught_up = false;
        let source = lane.source;
        if let Some(place) = self.sources.places.get(source) {
            place.seat.change(|figures| figures.caught_up = None);
        }
        // To the owner the instances of a source have caught up together.
        let all: Vec<SourceId> = self.home.instances_of(source).collect();
        all.into_iter().for_each(|id| self.owner.silent(id));
    }

    fn take_pulled(&mut self, source: usize, id: SourceId, took: Duration, pulled: Pulled) {
        let Pulled { session, notices, deliveries, caught_up } = pulled;
        let now = self.shared.context.clock.now();
        let Some(place) = self.sources.places.get(source) else { return };
        let home = Arc::clone(&place.home);
        let open = match &place.phase {
            Phase::Open(open) | Phase::Quiescing { source: open, .. } => Some(Arc::clone(open)),
            Phase::Closed { .. } | Phase::Opening | Phase::Closing => None,
        };
        let Some(lane) = self.sources.lane(id) else { return };
        lane.is_well();
        lane.caught_up = caught_up;
        if deliveries.is_empty() && took < HASTY {
            lane.pull_at = Instant::now() + IDLE_PAUSE;
        }
        if lane.session.replace(session) != Some(session) {
            let lost = self.owner.in_hand(id);
            if lost > 0 {
                self.count_lost(source, "session", lost);
            }
            // A source stays open while its peer is away, and says what it can only when it has found it.
            if let Some(open) = open {
                self.owner.opened(id, abilities(&open.facts()));
            }
            self.owner.restarted(id, session);
        }
        // What was told before says nothing of these deliveries.
        self.take_notices(source, id, notices);
        if !deliveries.is_empty() {
            self.went_on(source);
        }
        let arrivals: Vec<Arrival> =
            deliveries.into_iter().map(|delivery| self.arrival(&home, delivery, now.wall)).collect();
        // A queue is empty when none of its readers finds anything.
        let caught_up = self.sources.is_caught_up(source);
        self.owner.pulled(id, session, arrivals, caught_up, now);
        self.look_for_place(source);
        if let Some(place) = self.sources.places.get(source) {
            place.seat.change(|figures| figures.caught_up = Some(caught_up));
        }
    }

    /// What somebody decided was for what had been removed by then: it is opened anew by its configuration, for its instances keep what
    /// they were opened with. One that brought nothing hasn't gone on yet and would stand still for the same messages again.
    fn went_on(&mut self, source: usize) {
        let Some(place) = self.sources.places.get_mut(source) else { return };
        if std::mem::take(&mut place.goes_on) && matches!(place.phase, Phase::Open(_)) {
            place.reopens.get_or_insert_default();
        }
    }

    fn arrival(&self, home: &HomeSource, delivery: SourceDelivery, now: UnixMillis) -> Arrival {
        let secret = self.owner.record().secret;
        let content_id = |payload: &[u8]| format!("content-{:032x}", secret.of_content(payload).0);
        let context = IntakeContext {
            now,
            fresh_id: &|| ulid::Ulid::new().to_string(),
            content_id: &content_id,
            consumers: &|subject| home.takers(subject),
        };
        home.intake.read(delivery, &context)
    }

    fn settled(&mut self, id: SourceId, orders: Vec<Settle>, result: Result<Vec<Settled>, CallError>) {
        let now = self.shared.context.clock.now();
        let Some((source, _)) = self.home.source_of(id) else { return };
        if let Some(lane) = self.sources.lane(id) {
            lane.is_settling = false;
        }
        let results = match result {
            Ok(results) if results.len() == orders.len() => results,
            Ok(_) => {
                vec![Settled::Failed(Fault::new(Code::PLUGIN_CONTRACT, "another number of answers")); orders.len()]
            }
            Err(CallError { fault, .. }) => {
                tracing::debug!(code = fault.code, reason = fault.reason, "settling at a source failed");
                vec![Settled::Failed(fault); orders.len()]
            }
        };
        let (mut lost, mut failed, mut done) = (0, false, Vec::<(SettleAs, u64)>::new());
        for (order, settled) in orders.iter().zip(results) {
            let result = match settled {
                Settled::Done => SettleResult::Done,
                Settled::Lost => SettleResult::Lost,
                Settled::Failed(_) => SettleResult::Failed,
            };
            lost += usize::from(result == SettleResult::Lost);
            failed |= result == SettleResult::Failed;
            if result == SettleResult::Done {
                match done.iter_mut().find(|(kind, _)| *kind == order.settle_as) {
                    Some((_, count)) => *count += 1,
                    None => done.push((order.settle_as.clone(), 1)),
                }
            }
            self.owner.settled(order, result, now);
        }
        if let Some(place) = self.sources.places.get(source) {
            done.iter().for_each(|(kind, count)| self.shared.meter.settled(&place.home.config.name, kind, *count));
        }
        if lost > 0 {
            self.count_lost(source, "lost", lost);
        }
        if let Some(lane) = self.sources.lane(id).filter(|_| failed) {
            lane.settle_at = Instant::now() + SETTLE_PAUSE;
        }
    }

    /// Closes a source in good order and opens it again.
    pub(in crate::inbox) fn reopen(&mut self, name: &str, go_on: bool, reply: oneshot::Sender<Result<(), CallError>>) {
        let place = self.sources.places.iter_mut().find(|place| place.home.config.name.as_str() == name);
        // Unanswered, whoever asks hears that it isn't here. One that mustn't be pulled is never opened: nobody waits for that.
        let Some(place) = place.filter(|place| place.seat.refused().is_none()) else { return };
        place.reopened.push(reply);
        if !go_on {
            // The one in force is tried again, also where the one before it serves in its place.
            place.plugin = Arc::clone(&place.home.config.plugin);
        }
        place.reopen(OpenSource { go_on });
    }
}

/// What a source is to the owner, by the features that it named.
fn abilities(facts: &SourceFacts) -> SourceAbilities {
    let replays_in_order = facts.has("replays-in-order");
    SourceAbilities {
        replays_in_order,
        // Groups that are revoked as wholes and come again behind what was settled last.
        by_offsets: replays_in_order && facts.has("ordered-groups"),
        ordered_acks: facts.has("ordered-acks"),
        extends: facts.has("extend"),
        rejects: facts.has("reject"),
        resumes: facts.has("resumes"),
        settle_within: facts.settle_within,
    }
}
