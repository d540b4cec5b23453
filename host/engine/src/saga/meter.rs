//! Metrics of sagas (`semantics.md` §8). Label values are bounded: tenants, definitions and codes up to a number. Counts of what is in memory are read from [`waybill_core::port::saga::SagaStats`] when they are asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, gauge, histogram};
use parking_lot::Mutex;
use waybill_core::code::Code;
use waybill_core::ids::ShardId;
use waybill_core::port::saga::SagaStats;
use waybill_core::saga::definition::{Action, Definition, DefinitionSet, Step};
use waybill_core::saga::event::{End, Event, EventKind, StepDirection, StepNumber};
use waybill_core::saga::state::{SagaNode, SagaState, Tree};

use super::flight::CommitSize;
use crate::history::Counts;
use crate::labels::{CODES_MAX, FAILURES_MAX, Labels, OTHER};

/// Pairs of tenant and definition that get labels of their own, and as many series of step latencies and of durations; the rest
/// share `other`.
const LABELS_MAX: usize = 1_000;

type SagaLabels = (Arc<str>, Arc<str>);
/// Definition, step and direction.
type StepLabels = (Arc<str>, Arc<str>, StepDirection);

/// Cached handles, so that a transition costs no formatting.
pub(crate) struct SagaMeter {
    counts: Arc<Counts>,
    sagas: Mutex<HashMap<SagaLabels, Arc<SagaCounters>>>,
    steps: Mutex<HashMap<StepLabels, Histogram>>,
    durations: Mutex<HashMap<(Arc<str>, SagaState), Histogram>>,
    results: Mutex<HashMap<(&'static str, StepDirection, &'static str), Counter>>,
    codes: Labels,
    /// A code with tenant and definition.
    failures: Labels,
    commit_seconds: Histogram,
    commit_sagas: Histogram,
    commit_rows: Histogram,
}

struct SagaCounters {
    started: Counter,
    completed: Counter,
    compensating: Counter,
    stuck: Counter,
    tenant: String,
    definition: String,
}

impl SagaCounters {
    fn new(tenant: &str, definition: &str) -> Self {
        let count =
            |name: &'static str| counter!(name, "tenant" => tenant.to_owned(), "definition" => definition.to_owned());
        Self {
            started: count("tx_saga_started_total"),
            completed: count("tx_saga_completed_total"),
            compensating: count("tx_saga_compensate_total"),
            stuck: count("tx_saga_stuck_total"),
            tenant: tenant.to_owned(),
            definition: definition.to_owned(),
        }
    }

    /// `compensated` counts one that ended with all undone.
    fn ended(&self, end: End, compensated: impl FnOnce()) {
        let cause = match end {
            End::Completed => return self.completed.increment(1),
            End::Cancelled => return compensated(),
            End::Killed => "killed",
            End::Accepted => "accepted",
            End::Skipped => "skipped",
        };
        let (tenant, definition) = (self.tenant.clone(), self.definition.clone());
        counter!("tx_saga_failed_total", "tenant" => tenant, "definition" => definition, "cause" => cause).increment(1);
    }
}

/// One step of one saga, as an event names it.
struct Place<'a> {
    tree: &'a Tree,
    definitions: &'a DefinitionSet,
    event: &'a Event,
}

impl SagaMeter {
    /// A row of the door is done with.
    pub fn door(&self, result: &'static str) {
        counter!("tx_saga_door_total", "result" => result).increment(1);
    }

    pub fn new(counts: Arc<Counts>) -> Self {
        Self {
            counts,
            sagas: Mutex::default(),
            steps: Mutex::default(),
            durations: Mutex::default(),
            results: Mutex::default(),
            codes: Labels::up_to(CODES_MAX),
            failures: Labels::up_to(FAILURES_MAX),
            commit_seconds: histogram!("tx_saga_commit_seconds"),
            commit_sagas: histogram!("tx_saga_commit_sagas"),
            commit_rows: histogram!("tx_saga_commit_rows"),
        }
    }

    /// A tree moved, and it is durable.
    pub fn moved(&self, tree: &Tree, definitions: &DefinitionSet, events: &[Event]) {
        for event in events {
            let place = Place { tree, definitions, event };
            match &event.what {
                EventKind::Started(_) | EventKind::ChildStarted { .. } => {
                    self.counts.sagas_started.fetch_add(1, Ordering::Relaxed);
                    self.of(&place).started.increment(1);
                }
                EventKind::CompensationStarted { .. } => self.of(&place).compensating.increment(1),
                EventKind::Stuck { .. } => self.of(&place).stuck.increment(1),
                EventKind::Ended { end, .. } => {
                    self.counts.sagas_ended.fetch_add(1, Ordering::Relaxed);
                    if let Some(node) = tree.saga(event.saga) {
                        let counters = self.of(&place);
                        counters.ended(*end, || self.compensated(&counters, node));
                        self.duration(&counters.definition, end.state(), event.at.since(node.started_at));
                    }
                }
                _ => self.step(&place),
            }
        }
    }

    fn of(&self, place: &Place<'_>) -> Arc<SagaCounters> {
        let node = place.tree.saga(place.event.saga);
        let definition = node.map_or_else(|| Arc::from(OTHER), |node| Arc::clone(&node.definition.name));
        let tenant: Arc<str> = Arc::from(place.tree.key.tenant.as_str());
        let mut sagas = self.sagas.lock();
        let is_known = sagas.contains_key(&(Arc::clone(&tenant), Arc::clone(&definition)));
        let key = if is_known || sagas.len() < LABELS_MAX {
            (tenant, definition)
        } else {
            (Arc::from(OTHER), Arc::from(OTHER))
        };
        let made = || Arc::new(SagaCounters::new(&key.0, &key.1));
        Arc::clone(sagas.entry(key.clone()).or_insert_with(made))
    }

    fn compensated(&self, of: &SagaCounters, node: &SagaNode) {
        let code = self.codes.of(node.failure.as_ref().map_or("", |failure| &*failure.code));
        let is_own = self.failures.has(&format!("{code} {} {}", of.definition, of.tenant));
        let (tenant, definition) = if is_own { (&*of.tenant, &*of.definition) } else { (OTHER, OTHER) };
        let (tenant, definition, code) = (tenant.to_owned(), definition.to_owned(), code.to_owned());
        counter!("tx_saga_compensated_total", "tenant" => tenant, "definition" => definition, "code" => code)
            .increment(1);
    }

    fn step(&self, place: &Place<'_>) {
        let (step, way, result, took) = match &place.event.what {
            EventKind::StepSucceeded { step, way, took_ms, .. } => (*step, *way, "succeeded", Some(*took_ms)),
            EventKind::StepFailed { step, way, retry_at, took_ms, .. } => {
                (*step, *way, if retry_at.is_some() { "retry" } else { "failed" }, Some(*took_ms))
            }
            EventKind::StepPending { step, took_ms, .. } => (*step, StepDirection::Execute, "pending", Some(*took_ms)),
            EventKind::StepReleased { step, way, scope, .. } => {
                (*step, *way, if scope.is_some() { "blocked" } else { "released" }, None)
            }
            EventKind::StepLost { step, way, .. } => (*step, *way, "lost", None),
            EventKind::StepUnknown { step, way, .. } => (*step, *way, "unknown", None),
            EventKind::StepSkipped { step, way, .. } => (*step, *way, "skipped", None),
            EventKind::LateResult { step, way, .. } => (*step, *way, "late", None),
            _ => return,
        };
        let Some((definition, defined)) = named(place, step) else { return };
        let kind = defined.action.kind();
        let mut results = self.results.lock();
        let made =
            || counter!("tx_saga_steps_total", "action" => kind, "direction" => way.as_str(), "result" => result);
        results.entry((kind, way, result)).or_insert_with(made).increment(1);
        drop(results);
        if let Some(took) = took
            && is_answer(&place.event.what, defined)
        {
            self.latency(Arc::clone(&definition.name), Arc::clone(&defined.name), way, took);
        }
    }

    fn duration(&self, definition: &str, state: SagaState, took: Duration) {
        let mut durations = self.durations.lock();
        let mut key: (Arc<str>, SagaState) = (Arc::from(definition), state);
        if !durations.contains_key(&key) && durations.len() >= LABELS_MAX {
            key = (Arc::from(OTHER), state);
        }
        let histogram = durations.entry(key).or_insert_with_key(|(definition, state)| {
            histogram!("tx_saga_duration_seconds", "definition" => definition.to_string(), "state" => state.word())
        });
        histogram.record(took.as_secs_f64());
    }

    fn latency(&self, definition: Arc<str>, step: Arc<str>, way: StepDirection, took_ms: u64) {
        let mut steps = self.steps.lock();
        let mut key = (definition, step, way);
        if !steps.contains_key(&key) && steps.len() >= LABELS_MAX {
            key = (Arc::from(OTHER), Arc::from(OTHER), way);
        }
        let histogram = steps.entry(key).or_insert_with_key(|(definition, step, way)| {
            let (definition, step) = (definition.to_string(), step.to_string());
            histogram!("tx_saga_step_latency_seconds", "definition" => definition, "step" => step, "direction" => way.as_str())
        });
        histogram.record(Duration::from_millis(took_ms).as_secs_f64());
    }

    pub fn commit(&self, took: Duration, size: CommitSize) {
        self.commit_seconds.record(took.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        {
            self.commit_sagas.record(size.sagas as f64);
            self.commit_rows.record(size.rows as f64);
        }
    }

    pub fn commit_failed(&self, code: Code) {
        counter!("tx_saga_commit_failures_total", "code" => code.as_str()).increment(1);
    }

    pub fn expired(&self, count: u64) {
        counter!("tx_saga_expired_total").increment(count);
    }

    /// What can't be read from counts when they are asked for.
    pub fn memory(&self, shard: ShardId, stats: &SagaStats, (running, waiting, held): (usize, usize, usize)) {
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        {
            gauge!("tx_saga_shard_running", "shard" => shard.to_string()).set(stats.running as f64);
            gauge!("tx_saga_calls").set(running as f64);
            gauge!("tx_saga_calls_waiting").set(waiting as f64);
            gauge!("tx_saga_held_targets").set(held as f64);
        }
    }
}

/// The definition and the step that an event is about.
fn named<'a>(place: &Place<'a>, step: StepNumber) -> Option<(&'a Definition, &'a Step)> {
    let node = place.tree.saga(place.event.saga)?;
    let definition = place.definitions.by_hash(&node.definition.hash)?;
    Some((definition, definition.step(step)?))
}

/// Whether an event comes of an answer to a call. Replies, signals, decisions, ends of sub-sagas and what failed before it was
/// called take no time that could be told.
fn is_answer(what: &EventKind, step: &Step) -> bool {
    let (way, plugin, took_ms, done) = match what {
        EventKind::StepSucceeded { way, plugin, took_ms, .. } => (*way, plugin, *took_ms, true),
        EventKind::StepFailed { way, plugin, took_ms, .. } => (*way, plugin, *took_ms, false),
        EventKind::StepPending { plugin, took_ms, .. } => (StepDirection::Execute, plugin, *took_ms, true),
        _ => return false,
    };
    let action = if way == StepDirection::Execute { Some(&step.action) } else { step.undo() };
    match action {
        Some(Action::Fn(_)) => plugin.is_some(),
        Some(Action::Http(_)) => done || took_ms > 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever may define sagas chooses these names.
    #[test]
    fn definitions_and_steps_past_the_bound_share_labels() {
        let meter = SagaMeter::new(Arc::default());
        let states = [SagaState::Completed, SagaState::Cancelled, SagaState::Failed];
        for number in 0..10_000 {
            let name = format!("definition-{number}");
            for state in states {
                meter.duration(&name, state, Duration::from_millis(1));
            }
            for way in [StepDirection::Execute, StepDirection::Compensate] {
                meter.latency(Arc::from(name.as_str()), Arc::from(name.as_str()), way, 1);
            }
        }
        let (durations, steps) = (meter.durations.lock(), meter.steps.lock());
        assert_eq!((durations.len(), steps.len()), (LABELS_MAX + 3, LABELS_MAX + 2));
        let has = |definition: &str, state| {
            let key: (Arc<str>, SagaState) = (Arc::from(definition), state);
            durations.contains_key(&key)
        };
        assert!(states.into_iter().all(|state| has(OTHER, state)));
        assert!(has("definition-0", SagaState::Failed), "the first keep their own");
    }
}
