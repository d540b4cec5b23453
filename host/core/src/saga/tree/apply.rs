//! What each event changes. Total: an event that doesn't fit changes nothing but the history.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::port::transport::PluginIdentity;
use crate::saga::event::{Event, EventKind, Failure, SagaNumber, Started, StepDirection, StepNumber, Wait};
use crate::saga::id::SagaKey;
use crate::saga::json::Json;
use crate::saga::limits::{HISTORY_FIRST_MAX, HISTORY_LAST_MAX};
use crate::saga::state::{Effect, Pause, Phase, SagaNode, StepRecord, StepState, StepWait, Tree};
use crate::time::UnixMillis;

impl Tree {
    /// The tree that a first event begins; none unless it is [`EventKind::Started`].
    pub fn begin(key: SagaKey, event: &Event) -> Option<Self> {
        let EventKind::Started(started) = &event.what else { return None };
        let root = SagaNode {
            id: key.id.clone(),
            parent: None,
            definition: started.definition.clone(),
            input: started.input.clone(),
            deadline: started.deadline,
            phase: Phase::Forward,
            failure: None,
            steps: vec![StepRecord::default(); usize::from(started.steps)],
            signals: VecDeque::new(),
            started_at: event.at,
            ended_at: None,
        };
        let started = Started { input: Json::null(), ..(**started).clone() };
        let mut tree = Self {
            key,
            events: 0,
            started,
            sagas: vec![root],
            paused: None,
            updated_at: event.at,
            weight: 0,
            history: Vec::new(),
            dropped: 0,
            latest: VecDeque::new(),
        };
        tree.remember(event);
        Some(tree)
    }

    /// Changes the tree by an event.
    pub fn apply(&mut self, event: &Event) {
        match &event.what {
            EventKind::Started(_) => {}
            EventKind::Paused { cause, note } => {
                self.paused =
                    Some(Pause { at: event.at, cause: *cause, actor: event.actor.clone(), note: note.clone() });
            }
            EventKind::Resumed => self.paused = None,
            EventKind::ChildStarted { .. } => self.add_child(event),
            _ => {
                if let Some(saga) = self.sagas.get_mut(usize::from(event.saga)) {
                    saga.apply(event);
                }
            }
        }
        self.remember(event);
    }

    fn add_child(&mut self, event: &Event) {
        let EventKind::ChildStarted { step, id, definition, steps, input, deadline } = &event.what else { return };
        self.sagas.push(SagaNode {
            id: id.clone(),
            parent: Some((event.saga as SagaNumber, *step)),
            definition: definition.clone(),
            input: input.clone(),
            deadline: *deadline,
            phase: Phase::Forward,
            failure: None,
            steps: vec![StepRecord::default(); usize::from(*steps)],
            signals: VecDeque::new(),
            started_at: event.at,
            ended_at: None,
        });
    }

    /// Keeps the first and the latest events.
    fn remember(&mut self, event: &Event) {
        self.events = self.events.saturating_add(1);
        self.updated_at = event.at;
        self.weight += event.what.weight();
        if self.history.len() < HISTORY_FIRST_MAX {
            self.history.push(event.clone());
            return;
        }
        if self.latest.len() >= HISTORY_LAST_MAX
            && let Some(old) = self.latest.pop_front()
        {
            self.dropped = self.dropped.saturating_add(1);
            self.weight = self.weight.saturating_sub(old.what.weight());
        }
        self.latest.push_back(event.clone());
    }
}

impl SagaNode {
    fn apply(&mut self, event: &Event) {
        let at = event.at;
        match &event.what {
            EventKind::Signalled { name, data, step: None } => self.signals.push_back((Arc::clone(name), data.clone())),
            EventKind::SignalTaken { name } => {
                if let Some(index) = self.signals.iter().position(|(kept, _)| kept == name) {
                    self.signals.remove(index);
                }
            }
            EventKind::CompensationStarted { failure } => {
                self.phase = Phase::Back;
                self.failure = Some(failure.clone());
            }
            EventKind::ForwardAgain => {
                self.phase = Phase::Forward;
                self.failure = None;
            }
            EventKind::Stuck { .. } => self.phase = Phase::Stuck,
            EventKind::Ended { end, .. } => {
                self.phase = Phase::Ended(*end);
                self.ended_at = Some(at);
            }
            what => {
                let Some(number) = step_of(what) else { return };
                if let Some(step) = self.steps.get_mut(usize::from(number)) {
                    step.apply(event, at);
                }
                let undoes = matches!(
                    what,
                    EventKind::StepReset { way: StepDirection::Compensate, .. }
                        | EventKind::StepSkipped { way: StepDirection::Compensate, .. }
                );
                if undoes && self.phase == Phase::Stuck {
                    self.phase = Phase::Back;
                }
            }
        }
    }
}

/// The step that an event is about.
pub fn step_of(what: &EventKind) -> Option<StepNumber> {
    match what {
        EventKind::StepBegan { step, .. }
        | EventKind::ChildStarted { step, .. }
        | EventKind::StepPending { step, .. }
        | EventKind::StepSucceeded { step, .. }
        | EventKind::StepFailed { step, .. }
        | EventKind::StepReleased { step, .. }
        | EventKind::StepLost { step, .. }
        | EventKind::StepUnknown { step, .. }
        | EventKind::LateResult { step, .. }
        | EventKind::StepSkipped { step, .. }
        | EventKind::StepReset { step, .. }
        | EventKind::Stuck { step }
        | EventKind::Decided { step, .. } => Some(*step),
        EventKind::Signalled { step, .. } => *step,
        _ => None,
    }
}

impl StepRecord {
    fn apply(&mut self, event: &Event, at: UnixMillis) {
        match &event.what {
            EventKind::StepBegan { way, attempt, input, wait, until, .. } => {
                self.begun(*way, *attempt, at);
                if input.is_some() {
                    self.input.clone_from(input);
                }
                self.waiting(StepWait::For(wait.clone()), *until, at);
            }
            EventKind::StepPending { signal, until, data, plugin, .. } => {
                self.answered(plugin);
                self.mark_effect_unknown();
                self.output = Some(data.clone());
                self.waiting(StepWait::Pending(Arc::clone(signal)), *until, at);
            }
            EventKind::StepSucceeded { way, output, plugin, .. } => self.succeeded(*way, output, plugin, at),
            EventKind::StepFailed { way, failure, retry_at, plugin, .. } => {
                self.answered(plugin);
                self.failures = self.failures.saturating_add(1);
                self.failed(*way, failure);
                match retry_at {
                    Some(due) => {
                        self.delay_ms = u64::try_from(due.since(at).as_millis()).unwrap_or(u64::MAX);
                        self.way = Some(*way);
                        self.waiting(StepWait::Retry, Some(*due), at);
                    }
                    None if *way == StepDirection::Execute => self.over(StepState::Failed, at),
                    None => self.over(StepState::CompensationFailed, at),
                }
            }
            EventKind::StepReleased { scope, failure, retry_at, .. } => {
                self.released = self.released.saturating_add(1);
                self.attempt = self.attempt.saturating_sub(1);
                self.failure = Some(failure.clone());
                self.waiting(StepWait::Released(scope.clone()), Some(*retry_at), at);
            }
            EventKind::StepLost { way, clean, until, .. } => {
                self.lost = self.lost.saturating_add(u32::from(!clean));
                if *way == StepDirection::Execute {
                    self.mark_effect_unknown();
                }
                self.waiting(StepWait::Lost, *until, at);
            }
            EventKind::StepUnknown { way, failure, .. } => {
                self.failed(*way, failure);
                self.waiting(StepWait::Operator, None, at);
            }
            EventKind::LateResult { way: StepDirection::Execute, output, .. }
                if self.state != StepState::Compensated =>
            {
                self.effect = Effect::Done;
                self.output.clone_from(output);
            }
            EventKind::StepSkipped { way, note, .. } => {
                self.over(StepState::Skipped, at);
                self.compensation_skipped |= *way == StepDirection::Compensate;
                (self.actor, self.note) = (event.actor.clone(), note.clone());
            }
            EventKind::StepReset { way, .. } => self.reset(*way),
            EventKind::Decided { note, .. } => (self.actor, self.note) = (event.actor.clone(), note.clone()),
            _ => {}
        }
    }

    fn begun(&mut self, way: StepDirection, attempt: u32, at: UnixMillis) {
        if self.way != Some(way) {
            (self.failures, self.lost, self.released, self.delay_ms) = (0, 0, 0, 0);
            self.failure = None;
        }
        self.way = Some(way);
        self.attempt = attempt;
        self.ended_at = None;
        self.began_at.get_or_insert(at);
    }

    fn waiting(&mut self, wait: StepWait, until: Option<UnixMillis>, at: UnixMillis) {
        self.state = StepState::InFlight;
        self.wait = Some(wait);
        self.until = until;
        self.since = Some(at);
    }

    fn answered(&mut self, plugin: &Option<Arc<PluginIdentity>>) {
        (self.lost, self.released) = (0, 0);
        if plugin.is_some() {
            self.plugin.clone_from(plugin);
        }
    }

    fn succeeded(
        &mut self,
        way: StepDirection,
        output: &Option<Json>,
        plugin: &Option<Arc<PluginIdentity>>,
        at: UnixMillis,
    ) {
        self.answered(plugin);
        let was_told = matches!(self.wait, Some(StepWait::For(Wait::Signal(_) | Wait::Approval)));
        match way {
            StepDirection::Execute => {
                if !was_told {
                    self.effect = Effect::Done;
                }
                self.output.clone_from(output);
                self.failure = None;
                self.over(StepState::Succeeded, at);
            }
            StepDirection::Compensate => {
                self.effect = Effect::None;
                self.over(StepState::Compensated, at);
            }
        }
    }

    fn failed(&mut self, way: StepDirection, failure: &Failure) {
        if failure.maybe_done && way == StepDirection::Execute {
            self.mark_effect_unknown();
        }
        self.failure = Some(failure.clone());
    }

    fn mark_effect_unknown(&mut self) {
        if self.effect == Effect::None {
            self.effect = Effect::Unknown;
        }
    }

    fn over(&mut self, state: StepState, at: UnixMillis) {
        self.state = state;
        self.wait = None;
        self.until = None;
        self.since = None;
        self.ended_at = Some(at);
    }

    /// Begun anew. The number of attempts goes on, so that late answers of earlier ones are known as such.
    fn reset(&mut self, way: StepDirection) {
        (self.failures, self.lost, self.released, self.delay_ms) = (0, 0, 0, 0);
        (self.wait, self.until, self.since, self.ended_at) = (None, None, None, None);
        self.state = match (way, self.effect) {
            (StepDirection::Execute, _) => StepState::Ready,
            (StepDirection::Compensate, Effect::Done) => StepState::Succeeded,
            (StepDirection::Compensate, _) => StepState::Failed,
        };
        if way == StepDirection::Execute {
            self.input = None;
        }
    }
}
