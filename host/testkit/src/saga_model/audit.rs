//! What has to hold at the end.

use std::collections::BTreeMap;

use waybill_core::saga::definition::Action;
use waybill_core::saga::event::{End, Event, StepDirection};
use waybill_core::saga::state::{Phase, SagaNode, StepState, Tree};

use super::calls::event_of;
use super::ledger::{NodeStory, story};
use super::world::World;

impl World {
    /// Looks at every saga; answers how many ended in which state.
    pub(super) fn audit(&mut self) -> BTreeMap<String, u64> {
        let mut ends: BTreeMap<String, u64> = BTreeMap::new();
        for wanted in std::mem::take(&mut self.wanted) {
            let key = (waybill_core::ids::ShardId(0), wanted.key.clone());
            let (row, open, dead) = self.store.read(|tables| {
                let sagas = &tables.sagas;
                (sagas.done.get(&key).cloned(), sagas.open.contains_key(&key), sagas.dead.contains_key(&key))
            });
            let Some(row) = row else {
                let tree = self.shard.as_ref().and_then(|shard| shard.tree(&wanted.key));
                let state = tree.map_or_else(|| "gone".to_owned(), |(tree, _)| format!("{:?}", tree.waiting()));
                self.ledger.violation(format!("{} never ended: {state}", wanted.key.id));
                self.wanted.push(wanted);
                continue;
            };
            if open || dead {
                self.ledger.violation(format!("{} ended, and a row or dead letter of it is left", wanted.key.id));
            }
            *ends.entry(row.summary.state.word().to_owned()).or_default() += 1;
            self.audit_tree(&row.tree);
            self.wanted.push(wanted);
        }
        ends
    }

    fn audit_tree(&mut self, tree: &Tree) {
        let did = |name: &'static str| self.acts.contains(&(tree.key.clone(), name));
        let allowed = match tree.end() {
            Some(End::Killed) => did("kill"),
            Some(End::Accepted) => did("accept"),
            Some(End::Skipped) => did("skip"),
            Some(_) => true,
            None => false,
        };
        if !allowed {
            self.ledger.violation(format!("{} ended as {:?}, and nobody asked for it", tree.key.id, tree.end()));
        }
        if tree.dropped > 0 {
            return;
        }
        let events: Vec<Event> = tree.events().cloned().collect();
        for (node, told) in tree.sagas.iter().zip(story(&tree.key, &events)) {
            self.audit_node(node, &told);
        }
    }

    fn has_event(&self, key: &str) -> bool {
        let append = event_of(key);
        let ids = append.events.iter().map(|event| (append.stream.tenant.clone(), event.id.clone()));
        self.store.read(|tables| ids.into_iter().all(|id| tables.streams.ids.contains_key(&id)))
    }

    fn audit_node(&mut self, node: &SagaNode, told: &NodeStory) {
        let Some(definition) = self.by_hash.get(&told.hash).cloned() else { return };
        let Phase::Ended(end) = node.phase else {
            return self.ledger.violation(format!("{} ended, and its part {} didn't", node.id.root_id(), node.id));
        };
        for (index, (record, step)) in node.steps.iter().zip(&definition.steps).enumerate() {
            let name = format!("{} step {}", node.id, step.name);
            let story = u16::try_from(index).ok().and_then(|index| told.steps.get(&index));
            let nested = matches!(step.action, Action::Saga { .. });
            let calls = matches!(step.action, Action::Fn(_) | Action::Bus(_));
            let key = |way: StepDirection| format!("{}/{}/{}", node.id, step.name, way.as_str());
            if story.is_some_and(|story| story.successes > 1 + story.resets) {
                self.ledger.violation(format!("{name} succeeded twice"));
            }
            if record.state == StepState::Succeeded
                && calls
                && !self.ledger.applied.contains(&key(StepDirection::Execute))
            {
                self.ledger.violation(format!("{name} succeeded, and nobody did it"));
            }
            let executed = key(StepDirection::Execute);
            let succeeded = story.is_some_and(|story| story.successes > 0);
            if self.ledger.left.contains(&executed) && succeeded != self.has_event(&executed) {
                self.ledger.violation(format!("{name}: success and event are apart, the first is there: {succeeded}"));
            }
            if record.state == StepState::Compensated
                && !nested
                && !self.ledger.applied.contains(&key(StepDirection::Compensate))
            {
                self.ledger.violation(format!("{name} is compensated, and nobody did it"));
            }
            let undone = record.state == StepState::Compensated;
            match end {
                End::Completed if !matches!(record.state, StepState::Succeeded | StepState::Skipped) => {
                    self.ledger.violation(format!("{name} is {:?} in a completed saga", record.state));
                }
                End::Cancelled if story.is_some_and(|story| story.effect) && step.undo().is_some() => {
                    self.ledger.violation(format!("{name} had its effect and isn't compensated"));
                }
                End::Cancelled | End::Skipped if undone && story.is_none_or(|story| !story.compensated) => {
                    self.ledger.violation(format!("{name} was compensated without having had an effect"));
                }
                End::Cancelled
                    if record.state == StepState::CompensationFailed || record.state == StepState::InFlight =>
                {
                    self.ledger.violation(format!("{name} is {:?} in a cancelled saga", record.state));
                }
                _ => {}
            }
        }
    }
}
