//! New sagas, and repeats of a start.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::commands::{NewSaga, SagaReply};
use super::{Batch, SagaShard};
use crate::port::store::StoreError;
use crate::saga::error::SagaError;
use crate::saga::event::{Event, EventKind, Started};
use crate::saga::id::SagaKey;
use crate::saga::json::Json;
use crate::saga::limits::RECENT_MAX;
use crate::saga::machine::Turn;
use crate::saga::state::Tree;

/// What makes a repeated start the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    name: Arc<str>,
    version: u32,
    input: [u8; 32],
}

impl Identity {
    fn of(tree: &Tree) -> Option<Self> {
        let definition = &tree.started.definition;
        let input = sha256(&tree.root()?.input);
        Some(Self { name: Arc::clone(&definition.name), version: definition.version, input })
    }

    fn is(&self, name: &str, version: Option<u32>, input: &Json) -> bool {
        *self.name == *name && version.is_none_or(|version| version == self.version) && self.input == sha256(input)
    }
}

fn sha256(json: &Json) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(json.as_str().as_bytes()).into()
}

/// Whether a start with this definition (version as the caller named it) and input is a repeat of the one that began `tree`.
pub fn is_same_start(tree: &Tree, name: &str, version: Option<u32>, input: &Json) -> bool {
    Identity::of(tree).is_some_and(|identity| identity.is(name, version, input))
}

/// Sagas that left memory lately: a start whose id was looked up before that must not begin a second one.
#[derive(Debug)]
pub(super) struct Recent {
    order: VecDeque<(u64, SagaKey)>,
    known: HashMap<SagaKey, Identity>,
    /// Ends up to this beat may have been forgotten.
    floor: u64,
}

impl Recent {
    pub fn new(floor: u64) -> Self {
        Self { order: VecDeque::new(), known: HashMap::new(), floor }
    }

    /// Lookups before this beat don't count any more.
    pub fn raise(&mut self, beat: u64) {
        self.floor = self.floor.max(beat);
    }

    /// A tree with a caller's id ended with the commit of this beat.
    pub fn push(&mut self, beat: u64, tree: &Tree) {
        let Some(identity) = Identity::of(tree) else { return };
        if self.order.len() >= RECENT_MAX
            && let Some((beat, key)) = self.order.pop_front()
        {
            self.floor = self.floor.max(beat);
            self.known.remove(&key);
        }
        self.order.push_back((beat, tree.key.clone()));
        self.known.insert(tree.key.clone(), identity);
    }
}

impl SagaShard {
    pub(super) fn start(&mut self, new: NewSaga, turn: Turn) -> (Option<u64>, Result<SagaReply, SagaError>) {
        if new.caller_id {
            match self.known(&new) {
                Ok(Some(slot)) => return (slot, Ok(SagaReply::Started { id: new.key.id, duplicate: true })),
                Ok(None) => {}
                Err((slot, error)) => return (slot, Err(error)),
            }
        }
        if let Err(error) = self.has_room(&new) {
            return (None, Err(error));
        }
        let id = new.key.id.clone();
        let event = first_event(&new, turn);
        let Some(tree) = Tree::begin(new.key, &event) else { return (None, Err(SagaError::LookAgain)) };
        let slot = self.insert(tree, new.definitions);
        let entry = Batch::entry(&mut self.waiting, slot, 0);
        entry.weight += event.what.weight();
        entry.events.push(event);
        self.work(slot, turn, None, |machine| machine.started());
        (Some(slot), Ok(SagaReply::Started { id, duplicate: false }))
    }

    /// Whether the id is taken: by the same start (then where it is), or by another.
    fn known(&self, new: &NewSaga) -> Result<Option<Option<u64>>, (Option<u64>, SagaError)> {
        let name = &new.definitions.root().name;
        let taken = || SagaError::IdTaken { id: new.key.id.to_string() };
        if let Some(slot) = self.slots.get(&new.key) {
            let tree = self.running.get(slot).map(|running| &running.tree);
            let same = tree.is_some_and(|tree| is_same_start(tree, name, new.version, &new.input));
            return if same { Ok(Some(Some(*slot))) } else { Err((Some(*slot), taken())) };
        }
        if let Some(identity) = self.recent.known.get(&new.key) {
            let same = identity.is(name, new.version, &new.input);
            return if same { Ok(Some(None)) } else { Err((None, taken())) };
        }
        let out = self.flight.iter().flat_map(|flight| &flight.aside);
        if self.aside.iter().chain(&self.unmovable).chain(out).any(|broken| broken.key == new.key) {
            let reason = format!("saga {} can't be restored and is being moved to quarantine", new.key);
            return Err((None, SagaError::Store(StoreError::Corrupt(reason))));
        }
        if new.looked_up.is_none_or(|beat| beat < self.recent.floor) {
            return Err((None, SagaError::LookAgain));
        }
        Ok(None)
    }

    fn has_room(&self, new: &NewSaga) -> Result<(), SagaError> {
        let limits = &self.config.limits;
        let (bytes, bytes_max) = (new.input.len(), limits.input_bytes_max);
        if bytes > bytes_max {
            return Err(SagaError::InputTooLarge { bytes, bytes_max });
        }
        let full = |what, count, count_max| Err(SagaError::Busy { what, count, count_max });
        if self.running.len() >= limits.running_max {
            return full("sagas", self.running.len(), limits.running_max);
        }
        if self.weight >= limits.running_bytes_max {
            return full("bytes", self.weight, limits.running_bytes_max);
        }
        Ok(())
    }
}

fn first_event(new: &NewSaga, turn: Turn) -> Event {
    let at = new.at.unwrap_or(turn.now);
    let root = new.definitions.root();
    let pinned = new.definitions.pinned().iter();
    let started = Started {
        definition: root.reference(),
        pinned: pinned.map(|(uri, definition)| (Arc::clone(uri), definition.reference())).collect(),
        steps: u16::try_from(root.steps.len()).unwrap_or(u16::MAX),
        caller_id: new.caller_id,
        input: new.input.clone(),
        deadline: new.deadline.or_else(|| root.deadline.map(|deadline| at.plus(deadline))),
        headers: new.headers.clone(),
        envelope_id: new.envelope_id.clone(),
        correlation_id: new.correlation_id.clone(),
        traceparent: new.traceparent.clone(),
        plugins: new.plugins.clone(),
        default_retry: new.default_retry,
    };
    Event { at, saga: 0, actor: new.actor.clone(), what: EventKind::Started(Box::new(started)) }
}
