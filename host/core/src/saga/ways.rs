//! Ways out of a saga that waits for an operator: what may be done to it now, and what each act leads to.
//!
//! When an act is allowed is said nowhere here: each is done to a copy, by the rules that the shard's owner goes by, and what became of
//! the copy is told. Nothing is called, and the saga itself stays as it is.

use crate::port::saga::{RetryMode, SagaAct};
use crate::saga::definition::{Action, DefinitionSet, Step};
use crate::saga::event::{End, EventKind, SagaNumber, StepDirection, Wait};
use crate::saga::id::SagaId;
use crate::saga::limits::SagaLimits;
use crate::saga::machine::{Machine, Rules, Turn, Verdict};
use crate::saga::state::{Effect, Phase, SagaNode, StepRecord, StepState, StepWait, Tree};
use crate::time::UnixMillis;

/// Steps that may be left out and are told of: one waits mostly, and each costs a copy.
pub const SKIPS_MAX: usize = 16;

/// An act that is allowed now, and what it leads to. Steps are named as `<step>` or `<sub-saga's path>/<step>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayOut {
    pub act: SagaAct,
    /// The saga of the tree that it is done to.
    pub saga: SagaId,
    /// Steps that are called again, forward or back.
    pub again: Vec<String>,
    /// Steps whose effect is undone, the last first.
    pub undone: Vec<String>,
    /// Steps whose effect stays.
    pub stays: Vec<String>,
    /// Steps that may have had an effect, which stays if they had.
    pub unclear: Vec<String>,
    /// How it ends if nothing else fails; none = it waits for an operator still.
    pub end: Option<End>,
    /// It has ended by the act itself.
    pub at_once: bool,
}

/// What may be done to a saga that waits for an operator, or is held. None for others: they go on by themselves, or have ended.
pub fn ways_out(tree: &Tree, definitions: &DefinitionSet, now: UnixMillis) -> Vec<WayOut> {
    if !tree.needs_operator() {
        return Vec::new();
    }
    // What happened says nothing about what may, and is the most of it.
    let bare = Tree { history: Vec::new(), latest: std::collections::VecDeque::new(), ..tree.clone() };
    let root = bare.key.id.clone();
    let retry = |mode| SagaAct::Retry { step: None, mode };
    let of_root = [SagaAct::Resume, retry(RetryMode::Compensate), retry(RetryMode::Retry)].into_iter();
    let ends = [SagaAct::Cancel, SagaAct::Accept, SagaAct::Kill].into_iter();
    let of_root = of_root.filter(|act| is_of_its_own(act, &bare));
    let acts = of_root
        .map(|act| (root.clone(), act))
        .chain(skips(&bare, definitions))
        .chain(ends.map(|act| (root.clone(), act)));
    acts.filter_map(|(saga, act)| tried(&bare, definitions, now, saga, act)).collect()
}

/// The way in which a retry goes is of no account where nothing is stuck: one of the two is enough.
fn is_of_its_own(act: &SagaAct, tree: &Tree) -> bool {
    !matches!(act, SagaAct::Retry { mode: RetryMode::Retry, .. }) || tree.stuck().is_some()
}

/// Steps that wait, or whose undoing failed: those that somebody would leave out.
fn skips(tree: &Tree, definitions: &DefinitionSet) -> Vec<(SagaId, SagaAct)> {
    let open = tree.sagas.iter().filter(|saga| !saga.is_ended());
    let steps = open.filter_map(|saga| Some((saga, definitions.by_hash(&saga.definition.hash)?)));
    let steps = steps.flat_map(|(saga, definition)| {
        saga.steps.iter().zip(&definition.steps).map(move |(record, step)| (saga, record, step))
    });
    let waiting = steps.filter(|(_, record, _)| {
        matches!(record.state, StepState::InFlight | StepState::CompensationFailed) && !record.is_called()
    });
    let skip = |step: &Step| SagaAct::Skip { step: step.name.to_string() };
    waiting.map(|(saga, _, step)| (saga.id.clone(), skip(step))).take(SKIPS_MAX).collect()
}

/// Does an act to a copy; none where it is refused or would change nothing.
fn tried(tree: &Tree, definitions: &DefinitionSet, now: UnixMillis, saga: SagaId, act: SagaAct) -> Option<WayOut> {
    let mut copy = tree.clone();
    let now = now.max(copy.updated_at);
    let turn = Turn { now, random: 0.0, limits: SagaLimits::default(), rules: Rules::default() };
    let mut machine = Machine::new(&mut copy, definitions, turn, None);
    let changed = machine.act(&saga, &act, None).ok()? == Verdict::Changed;
    changed.then(|| Outlook { tree: &copy, definitions }.of(saga, act))
}

/// A tree after an act.
struct Outlook<'t> {
    tree: &'t Tree,
    definitions: &'t DefinitionSet,
}

impl Outlook<'_> {
    fn of(&self, saga: SagaId, act: SagaAct) -> WayOut {
        let end = self.end();
        let mut way = WayOut {
            act,
            saga,
            again: self.again(),
            undone: Vec::new(),
            stays: Vec::new(),
            unclear: Vec::new(),
            end,
            at_once: self.tree.is_ended(),
        };
        // Where it waits still, nothing is undone by this act alone.
        let undoes = end.is_some() && !way.at_once && self.goes_back();
        for (name, record, step) in self.leaves() {
            let goes = undoes && is_undone(record, step);
            match record.effect {
                _ if goes => way.undone.push(name),
                Effect::Done => way.stays.push(name),
                Effect::Unknown => way.unclear.push(name),
                Effect::None => {}
            }
        }
        way.undone.reverse();
        way
    }

    /// Whether something of it goes back: what is behind it follows, for a sub-saga that is undone has failed.
    fn goes_back(&self) -> bool {
        self.tree.sagas.iter().any(|saga| saga.phase == Phase::Back)
    }

    fn end(&self) -> Option<End> {
        if let Some(end) = self.tree.end() {
            return Some(end);
        }
        let mut open = self.tree.sagas.iter().filter(|saga| !saga.is_ended()).flat_map(|saga| &saga.steps);
        if self.tree.needs_operator() || open.any(|step| step.state == StepState::CompensationFailed) {
            return None;
        }
        let is_left_out = self.tree.sagas.iter().flat_map(|saga| &saga.steps).any(|step| step.compensation_skipped);
        Some(match (self.goes_back(), is_left_out) {
            (false, _) => End::Completed,
            (true, true) => End::Skipped,
            (true, false) => End::Cancelled,
        })
    }

    /// What the act has called again: the copy has no other events than its own.
    fn again(&self) -> Vec<String> {
        let goes_back = self.goes_back();
        let reset = self.tree.events().filter_map(|event| match event.what {
            // One that goes forward again isn't undone any more.
            EventKind::StepReset { step, way } if goes_back || way == StepDirection::Execute => {
                Some((event.saga, step))
            }
            _ => None,
        });
        let mut names: Vec<String> = reset.filter_map(|(saga, step)| self.name(saga, step)).collect();
        names.dedup();
        names
    }

    fn name(&self, saga: SagaNumber, step: u16) -> Option<String> {
        let definition = self.definitions.by_hash(&self.tree.saga(saga)?.definition.hash)?;
        Some(format!("{}{}", self.tree.path(saga), definition.step(step)?.name))
    }

    /// The steps that have an effect of their own, with their names, in order: of a sub-saga its steps, unless the step that began it has
    /// a compensation for all of it.
    fn leaves(&self) -> Vec<(String, &StepRecord, &Step)> {
        let mut leaves = Vec::new();
        self.leaves_of(0, &mut leaves);
        leaves
    }

    fn leaves_of<'a>(&'a self, saga: SagaNumber, leaves: &mut Vec<(String, &'a StepRecord, &'a Step)>) {
        let Some(node) = self.tree.saga(saga) else { return };
        for (number, (record, step)) in self.steps(node) {
            let child = self.tree.child_of(saga, number).filter(|_| step.compensation.is_none());
            match child {
                // A sub-saga comes behind the saga that began it.
                Some(child) if child > saga => self.leaves_of(child, leaves),
                _ if matches!(step.action, Action::Signal(_) | Action::Approval) => {}
                _ => leaves.push((format!("{}{}", self.tree.path(saga), step.name), record, step)),
            }
        }
    }

    fn steps<'a>(&'a self, node: &'a SagaNode) -> impl Iterator<Item = (u16, (&'a StepRecord, &'a Step))> {
        let definition = self.definitions.by_hash(&node.definition.hash);
        let steps = definition.map(|definition| definition.steps.as_slice()).unwrap_or_default();
        (0..u16::MAX).zip(node.steps.iter().zip(steps))
    }
}

/// Whether a saga that goes back undoes a step: it is being undone, has had an effect, or may have had one when its answer comes.
fn is_undone(record: &StepRecord, step: &Step) -> bool {
    if record.is_active(StepDirection::Compensate) || record.needs_undoing(step) {
        return true;
    }
    let is_open = match record.wait {
        Some(StepWait::For(Wait::Call | Wait::Reply | Wait::Child)) => true,
        Some(StepWait::Pending(_) | StepWait::Lost | StepWait::Operator) => true,
        _ => record.effect != Effect::None,
    };
    record.is_active(StepDirection::Execute) && is_open && step.undo().is_some()
}
