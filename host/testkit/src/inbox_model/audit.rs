//! What has to hold at the end.

use std::collections::BTreeMap;

use waybill_core::ids::Seq;
use waybill_core::inbox::dlq;
use waybill_core::inbox::records::SagaDoorItem;
use waybill_core::inbox::settings::Target;

use super::broker::State;
use super::handlers::{event_of, leaves_event, leaves_message, leaves_signal};
use super::ledger::Item;
use super::trail::Trail;
use super::world::World;

impl World {
    pub(super) fn audit(&mut self) {
        if !self.is_settled() {
            return self.tell_stuck();
        }
        self.audit_ends();
        self.audit_leavings();
        self.audit_events();
        self.audit_dlq();
        self.audit_trail();
    }

    fn tell_stuck(&mut self) {
        let open: Vec<String> = self
            .brokers
            .iter()
            .flat_map(|broker| &broker.positions)
            .filter(|position| !matches!(position.state, State::Acked | State::Gone))
            .map(|position| format!("{} {:?}", position.message.id, position.state))
            .take(3)
            .collect();
        let kinds = self.setup.kinds;
        let (rows, takes) = self.store.read(|tables| {
            let rows: Vec<String> = tables.inbox.rows.values().take(3).map(|row| format!("{:?}", row.head())).collect();
            (rows, tables.inbox.takes.values().take(3).cloned().collect::<Vec<_>>())
        });
        let depths: Vec<_> =
            self.hosts.iter().filter_map(|host| host.life.as_ref()).map(|life| life.owner.depths()).collect();
        let places = (0..20_000).map(Seq);
        let owners = self.hosts.iter().filter_map(|host| host.life.as_ref()).map(|life| &life.owner);
        let waits: Vec<_> = owners
            .flat_map(|owner| places.clone().filter_map(|seq| owner.at(seq)))
            .map(|at| (at.seq.0, at.is_row, at.message.is_some(), at.waits_for))
            .collect();
        self.ledger.violation(format!(
            "STUCK: {kinds:?}, {depths:?}, {waits:?}, open {open:?}, rows {rows:?}, takes {takes:?}"
        ));
    }

    /// Every published content is at its end at every consumer.
    fn audit_ends(&mut self) {
        for source in 0..2 {
            for position in self.brokers[source].positions.clone() {
                let is_excused = position.state == State::Gone && !position.neglected;
                for consumer in self.setup.takers(source).to_vec() {
                    let (id, content) = (position.message.id, position.message.content);
                    if !is_excused && !self.ledger.done.contains(&((consumer.0, id), content)) {
                        self.ledger.violation(format!("LOST id {id} content {content} at consumer {}", consumer.0));
                    }
                }
            }
        }
    }

    /// What was left behind is there once for each time it was processed.
    fn audit_leavings(&mut self) {
        let mut messages: BTreeMap<String, u32> = BTreeMap::new();
        let mut signals: BTreeMap<String, u32> = BTreeMap::new();
        self.store.read(|tables| {
            for message in tables.door.values().flatten().flatten() {
                for (_, item) in message.headers.iter().filter(|(name, _)| name == "item") {
                    *messages.entry(item.clone()).or_default() += 1;
                }
            }
            for item in tables.inbox.saga_door.values() {
                if let SagaDoorItem::Signal { key, .. } = item {
                    *signals.entry(key.id.to_string()).or_default() += 1;
                }
            }
        });
        let name = |item: &Item| format!("{}-{}", item.0, item.1);
        for (item, times) in self.ledger.processed.clone() {
            let kinds = [("messages", leaves_message(item), &messages), ("signals", leaves_signal(item), &signals)];
            for (what, leaves, found) in kinds {
                let found = found.get(&name(&item)).copied().unwrap_or(0);
                if leaves && found != times {
                    self.ledger.violation(format!("LEFT by {item:?}: processed {times} times, {found} {what}"));
                }
            }
            // What is forwarded meets no handler.
            let is_handled = self.setup.settings.consumers[usize::from(item.0)].target == Target::Handler;
            if leaves_event(item) && is_handled && times > 0 && !self.has_event(item) {
                self.ledger.violation(format!("EVENT of {item:?}: processed {times} times, and it isn't there"));
            }
        }
    }

    fn has_event(&self, item: Item) -> bool {
        let append = event_of(item);
        let ids = append.events.iter().map(|event| (append.stream.tenant.clone(), event.id.clone()));
        self.store.read(|tables| ids.into_iter().all(|id| tables.streams.ids.contains_key(&id)))
    }

    /// Each event is of an item that was processed, and the numbers of a stream have no gap.
    fn audit_events(&mut self) {
        let (found, streams) = self.store.read(|tables| {
            let found: Vec<String> = tables.streams.ids.keys().map(|(_, id)| id.to_string()).collect();
            (found, tables.streams.heads.values().map(|head| head.last).sum::<u64>())
        });
        if found.len() as u64 != streams {
            self.ledger.violation(format!("EVENTS: {} ids, and {streams} numbers were given out", found.len()));
        }
        for id in found {
            let item = id.split_once('-').and_then(|(of, number)| Some((of.parse().ok()?, number.parse().ok()?)));
            if item.is_none_or(|item| self.ledger.processed.get(&item).is_none_or(|times| *times == 0)) {
                self.ledger.violation(format!("EVENT {id} is there, and its item wasn't processed"));
            }
        }
    }

    /// Each dead letter left its message.
    fn audit_dlq(&mut self) {
        let found = self.store.read(|tables| {
            let messages = tables.door.values().flatten().flatten();
            messages.filter(|message| message.event_type == dlq::EVENT_TYPE).count() as u64
        });
        let expected = self.ledger.dead_letters;
        if found != expected {
            self.ledger.violation(format!("DLQ: {expected} dead letters, {found} messages"));
        }
    }

    /// The audit trail has each retry, death and replay once, whatever became of the commits and of who made them.
    fn audit_trail(&mut self) {
        let mut found = Trail::default();
        self.store.read(|tables| tables.tx_events.values().for_each(|record| found.add_record(record)));
        if found != self.ledger.trail {
            let expected = &self.ledger.trail;
            let text = format!("TRAIL: {expected:?} went in, {found:?} is there");
            self.ledger.violation(text);
        }
    }
}
