//! What is durable, what participants saw, and what has to hold at each call.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use waybill_core::saga::call::Call;
use waybill_core::saga::definition::Definition;
use waybill_core::saga::event::{Event, EventKind, StepDirection, Wait};
use waybill_core::saga::id::{DefinitionHash, SagaId, SagaKey};
use waybill_core::saga::records::{SagaCommit, SagaWrite};
use waybill_core::time::UnixMillis;

pub(super) type Definitions = HashMap<DefinitionHash, Arc<Definition>>;

/// One saga of a tree, as its durable events tell.
#[derive(Debug)]
pub(super) struct NodeStory {
    pub id: SagaId,
    pub hash: DefinitionHash,
    pub goes_back: bool,
    pub ended: bool,
    pub steps: HashMap<u16, StepStory>,
}

/// One step of it.
#[derive(Debug, Default)]
pub(super) struct StepStory {
    /// Its action had an effect, or may have had one.
    pub effect: bool,
    pub successes: u32,
    pub resets: u32,
    pub compensated: bool,
    /// Its compensation was skipped.
    pub left: bool,
    pub skipped: bool,
    /// Waits, so it has no effect.
    told: bool,
    /// Attempts begun, with the end of their time.
    pub begun: HashMap<(StepDirection, u32), Option<UnixMillis>>,
    /// Attempts of which it is known that they had no effect.
    pub settled: HashSet<(StepDirection, u32)>,
}

/// A tree's nodes, from its events.
pub(super) fn story(key: &SagaKey, events: &[Event]) -> Vec<NodeStory> {
    let mut nodes: Vec<NodeStory> = Vec::new();
    for event in events {
        match &event.what {
            EventKind::Started(started) => nodes.push(node(key.id.clone(), started.definition.hash.clone())),
            EventKind::ChildStarted { id, definition, .. } => nodes.push(node(id.clone(), definition.hash.clone())),
            _ => {}
        }
        let Some(node) = nodes.get_mut(usize::from(event.saga)) else { continue };
        match &event.what {
            EventKind::CompensationStarted { .. } => (node.goes_back, node.ended) = (true, false),
            EventKind::ForwardAgain => node.goes_back = false,
            EventKind::Ended { .. } => node.ended = true,
            what => node.take(what),
        }
    }
    nodes
}

fn node(id: SagaId, hash: DefinitionHash) -> NodeStory {
    NodeStory { id, hash, goes_back: false, ended: false, steps: HashMap::new() }
}

impl NodeStory {
    fn take(&mut self, what: &EventKind) {
        match what {
            EventKind::StepBegan { step, way, attempt, wait, until, .. } => {
                let step = self.steps.entry(*step).or_default();
                step.told = matches!(wait, Wait::Signal(_) | Wait::Approval);
                step.begun.insert((*way, *attempt), *until);
            }
            EventKind::StepSucceeded { step, way: StepDirection::Execute, .. } => {
                let step = self.steps.entry(*step).or_default();
                step.successes += 1;
                step.effect |= !step.told;
            }
            EventKind::StepSucceeded { step, way: StepDirection::Compensate, .. } => {
                let step = self.steps.entry(*step).or_default();
                (step.compensated, step.effect) = (true, false);
            }
            EventKind::StepFailed { step, way, attempt, failure, .. } => {
                let step = self.steps.entry(*step).or_default();
                step.effect |= failure.maybe_done && *way == StepDirection::Execute;
                if !failure.maybe_done {
                    step.settled.insert((*way, *attempt));
                }
            }
            EventKind::StepReleased { step, way, .. } => {
                let step = self.steps.entry(*step).or_default();
                // It wasn't made, so its number is used again.
                let last = step.begun.keys().filter(|(of, _)| of == way).map(|(_, attempt)| *attempt).max();
                step.settled.extend(last.map(|last| (*way, last)));
            }
            EventKind::StepLost { step, way: StepDirection::Execute, .. }
            | EventKind::StepUnknown { step, way: StepDirection::Execute, .. }
            | EventKind::StepPending { step, .. }
            | EventKind::LateResult { step, way: StepDirection::Execute, .. } => {
                let step = self.steps.entry(*step).or_default();
                step.effect |= !step.compensated;
            }
            EventKind::StepReset { step, way } => {
                let step = self.steps.entry(*step).or_default();
                step.resets += 1;
                let begun: Vec<_> = step.begun.keys().filter(|(of, _)| of == way).copied().collect();
                step.settled.extend(begun);
            }
            EventKind::StepSkipped { step, way, .. } => {
                let step = self.steps.entry(*step).or_default();
                step.skipped |= *way == StepDirection::Execute;
                step.left |= *way == StepDirection::Compensate;
            }
            _ => {}
        }
    }
}

/// What participants and the store know.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub violations: Vec<String>,
    pub calls: u64,
    durable: HashMap<SagaKey, Vec<Event>>,
    /// Keys whose effect was had.
    pub applied: HashSet<String>,
    /// Latest attempt that was made, by idempotency key.
    made: HashMap<String, u32>,
    /// Calls that weren't answered, by root, saga, step and attempt: actions only.
    pub open: HashSet<(SagaKey, u16, u16, u32)>,
    /// Keys of steps whose successes leave an event that numbers itself. Whether they count, the commit says.
    pub left: HashSet<String>,
    /// Keys of steps that a signal may end instead.
    pub pended: HashSet<String>,
    /// Other successes that were handed in: by key, in which life of the host, and how many attempts had been begun.
    pub told: HashMap<String, (u64, u32)>,
}

impl Ledger {
    pub fn violation(&mut self, text: String) {
        if self.violations.len() < 20 {
            self.violations.push(text);
        }
    }

    /// A commit went in.
    pub fn committed(&mut self, commit: &SagaCommit) {
        for entry in &commit.journal {
            self.extend(&entry.key, entry.from as usize, entry.events.iter());
        }
        for write in &commit.writes {
            if let SagaWrite::PutRow(row) | SagaWrite::PutDone(row) = write
                && row.tree.dropped == 0
            {
                self.extend(&row.tree.key, 0, row.tree.events());
            }
        }
    }

    fn extend<'e>(&mut self, key: &SagaKey, from: usize, events: impl Iterator<Item = &'e Event>) {
        let known = self.durable.entry(key.clone()).or_default();
        let skip = known.len().saturating_sub(from);
        known.extend(events.skip(skip).cloned());
    }

    pub fn story(&self, key: &SagaKey) -> Vec<NodeStory> {
        self.durable.get(key).map(|events| story(key, events)).unwrap_or_default()
    }

    /// Judges a call as it is made.
    pub fn call(&mut self, call: &Call, definitions: &Definitions, now: UnixMillis, life: u64) {
        self.calls += 1;
        let reference = &call.reference;
        let (saga, step, way, attempt) = (reference.saga, reference.step, reference.way, reference.attempt);
        let nodes = self.story(&reference.key);
        let what = format!("{} step {step} of saga {saga}, {} attempt {attempt}", reference.key.id, way.as_str());
        let Some(node) = nodes.get(usize::from(saga)) else {
            return self.violation(format!("{what}: called before its saga was durable"));
        };
        let story = node.steps.get(&step);
        if !story.is_some_and(|story| story.begun.contains_key(&(way, attempt))) {
            self.violation(format!("{what}: called before that was durable"));
        }
        if nodes.first().is_some_and(|root| root.ended) || node.ended {
            self.violation(format!("{what}: called after its saga ended"));
        }
        let Some(definition) = definitions.get(&node.hash) else { return };
        let defined = &definition.steps[usize::from(step)];
        let key = format!("{}/{}/{}", node.id, defined.name, way.as_str());
        if call.context.idempotency_key(way.direction()) != key {
            self.violation(format!("{what}: its idempotency key isn't {key}"));
        }
        let before = self.made.insert(key.clone(), attempt);
        let settled = |before| story.is_some_and(|story| story.settled.contains(&(way, before)));
        if let Some(before) = before
            && !defined.idempotent
            && !settled(before)
        {
            self.violation(format!("{what}: not idempotent, and the result of attempt {before} is unknown"));
        }
        match way {
            StepDirection::Execute => {
                if node.goes_back {
                    self.violation(format!("{what}: called while its saga goes back"));
                }
                if self.told.get(&key).is_some_and(|(of, begun)| *of == life && attempt > *begun)
                    && story.is_none_or(|story| story.resets == 0)
                {
                    self.violation(format!("{what}: called again after it had succeeded"));
                }
                self.open.insert((reference.key.clone(), saga, step, attempt));
            }
            StepDirection::Compensate => self.order(&what, call, node, definition, now),
        }
    }

    /// Compensations go in reverse, and wait for calls of their group.
    fn order(&mut self, what: &str, call: &Call, node: &NodeStory, definition: &Definition, now: UnixMillis) {
        let step = usize::from(call.reference.step);
        let Some(group) = definition.groups.iter().find(|group| group.contains(&step)) else { return };
        for later in group.end..definition.steps.len() {
            let Some(story) = u16::try_from(later).ok().and_then(|later| node.steps.get(&later)) else { continue };
            if story.effect && !story.left && definition.steps[later].undo().is_some() {
                self.violation(format!("{what}: step {later} comes first, which isn't undone"));
            }
        }
        for other in group.clone() {
            let other = u16::try_from(other).unwrap_or(u16::MAX);
            // A late answer of an earlier attempt may have completed it while the next one is under way.
            let Some(story) = node.steps.get(&other).filter(|story| story.successes == 0) else { continue };
            for ((way, attempt), until) in &story.begun {
                let of = (call.reference.key.clone(), call.reference.saga, other, *attempt);
                if *way == StepDirection::Execute && until.is_none_or(|until| now < until) && self.open.contains(&of) {
                    self.violation(format!("{what}: step {other} of its group is still being called"));
                }
            }
        }
    }
}
