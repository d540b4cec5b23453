//! What each event changes. Total: an event that doesn't fit changes nothing but the history.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::port::transport::PluginIdentity;
use crate::saga::event::{Event, Failure, SagaNumber, Started, StepNumber, Wait, Way, What};
use crate::saga::id::SagaKey;
use crate::saga::json::Json;
use crate::saga::limits::{HISTORY_FIRST_MAX, HISTORY_LAST_MAX};
use crate::saga::state::{Effect, Pause, Phase, SagaNode, StepRecord, StepState, StepWait, Tree};
use crate::time::UnixMillis;

impl Tree {
    /// The tree that a first event begins; none unless it is [`What::Started`].
    pub fn begin(key: SagaKey, event: &Event) -> Option<Self> {
        let What::Started(started) = &event.what else { return None };
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
            What::Started(_) => {}
            What::Paused { cause, note } => {
                self.paused =
                    Some(Pause { at: event.at, cause: *cause, actor: event.actor.clone(), note: note.clone() });
            }
            What::Resumed => self.paused = None,
            What::ChildStarted { .. } => self.add_child(event),
            _ => {
                if let Some(saga) = self.sagas.get_mut(usize::from(event.saga)) {
                    saga.apply(event);
                }
            }
        }
        self.remember(event);
    }

    fn add_child(&mut self, event: &Event) {
        let What::ChildStarted { step, id, definition, steps, input, deadline } = &event.what else { return };
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
            What::Signalled { name, data, step: None } => self.signals.push_back((Arc::clone(name), data.clone())),
            What::SignalTaken { name } => {
                if let Some(index) = self.signals.iter().position(|(kept, _)| kept == name) {
                    self.signals.remove(index);
                }
            }
            What::CompensationStarted { failure } => {
                self.phase = Phase::Back;
                self.failure = Some(failure.clone());
            }
            What::ForwardAgain => {
                self.phase = Phase::Forward;
                self.failure = None;
            }
            What::Stuck { .. } => self.phase = Phase::Stuck,
            What::Ended { end, .. } => {
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
                    What::StepReset { way: Way::Compensate, .. } | What::StepSkipped { way: Way::Compensate, .. }
                );
                if undoes && self.phase == Phase::Stuck {
                    self.phase = Phase::Back;
                }
            }
        }
    }
}

/// The step that an event is about.
pub(in crate::saga) fn step_of(what: &What) -> Option<StepNumber> {
    match what {
        What::StepBegan { step, .. }
        | What::ChildStarted { step, .. }
        | What::StepPending { step, .. }
        | What::StepSucceeded { step, .. }
        | What::StepFailed { step, .. }
        | What::StepReleased { step, .. }
        | What::StepLost { step, .. }
        | What::StepUnknown { step, .. }
        | What::LateResult { step, .. }
        | What::StepSkipped { step, .. }
        | What::StepReset { step, .. }
        | What::Stuck { step }
        | What::Decided { step, .. } => Some(*step),
        What::Signalled { step, .. } => *step,
        _ => None,
    }
}

impl StepRecord {
    fn apply(&mut self, event: &Event, at: UnixMillis) {
        match &event.what {
            What::StepBegan { way, attempt, input, wait, until, .. } => {
                self.begun(*way, *attempt, at);
                if input.is_some() {
                    self.input.clone_from(input);
                }
                self.waiting(StepWait::For(wait.clone()), *until, at);
            }
            What::StepPending { signal, until, data, plugin, .. } => {
                self.answered(plugin);
                self.doubt();
                self.output = Some(data.clone());
                self.waiting(StepWait::Pending(Arc::clone(signal)), *until, at);
            }
            What::StepSucceeded { way, output, plugin, .. } => self.succeeded(*way, output, plugin, at),
            What::StepFailed { way, failure, retry_at, plugin, .. } => {
                self.answered(plugin);
                self.failures = self.failures.saturating_add(1);
                self.failed(*way, failure);
                match retry_at {
                    Some(due) => {
                        self.delay_ms = u64::try_from(due.since(at).as_millis()).unwrap_or(u64::MAX);
                        self.way = Some(*way);
                        self.waiting(StepWait::Retry, Some(*due), at);
                    }
                    None if *way == Way::Execute => self.over(StepState::Failed, at),
                    None => self.over(StepState::CompensationFailed, at),
                }
            }
            What::StepReleased { scope, failure, retry_at, .. } => {
                self.released = self.released.saturating_add(1);
                self.attempt = self.attempt.saturating_sub(1);
                self.failure = Some(failure.clone());
                self.waiting(StepWait::Released(scope.clone()), Some(*retry_at), at);
            }
            What::StepLost { way, clean, until, .. } => {
                self.lost = self.lost.saturating_add(u32::from(!clean));
                if *way == Way::Execute {
                    self.doubt();
                }
                self.waiting(StepWait::Lost, *until, at);
            }
            What::StepUnknown { way, failure, .. } => {
                self.failed(*way, failure);
                self.waiting(StepWait::Operator, None, at);
            }
            What::LateResult { way: Way::Execute, output, .. } if self.state != StepState::Compensated => {
                self.effect = Effect::Done;
                self.output.clone_from(output);
            }
            What::StepSkipped { way, note, .. } => {
                self.over(StepState::Skipped, at);
                self.compensation_skipped |= *way == Way::Compensate;
                (self.actor, self.note) = (event.actor.clone(), note.clone());
            }
            What::StepReset { way, .. } => self.reset(*way),
            What::Decided { note, .. } => (self.actor, self.note) = (event.actor.clone(), note.clone()),
            _ => {}
        }
    }

    fn begun(&mut self, way: Way, attempt: u32, at: UnixMillis) {
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

    fn succeeded(&mut self, way: Way, output: &Option<Json>, plugin: &Option<Arc<PluginIdentity>>, at: UnixMillis) {
        self.answered(plugin);
        let was_told = matches!(self.wait, Some(StepWait::For(Wait::Signal(_) | Wait::Approval)));
        match way {
            Way::Execute => {
                if !was_told {
                    self.effect = Effect::Done;
                }
                self.output.clone_from(output);
                self.failure = None;
                self.over(StepState::Succeeded, at);
            }
            Way::Compensate => {
                self.effect = Effect::None;
                self.over(StepState::Compensated, at);
            }
        }
    }

    fn failed(&mut self, way: Way, failure: &Failure) {
        if failure.maybe_done && way == Way::Execute {
            self.doubt();
        }
        self.failure = Some(failure.clone());
    }

    fn doubt(&mut self) {
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
    fn reset(&mut self, way: Way) {
        (self.failures, self.lost, self.released, self.delay_ms) = (0, 0, 0, 0);
        (self.wait, self.until, self.since, self.ended_at) = (None, None, None, None);
        self.state = match (way, self.effect) {
            (Way::Execute, _) => StepState::Ready,
            (Way::Compensate, Effect::Done) => StepState::Succeeded,
            (Way::Compensate, _) => StepState::Failed,
        };
        if way == Way::Execute {
            self.input = None;
        }
    }
}
