//! Look-ups, calls, and what handlers answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waybill_core::annotations::Annotations;
use waybill_core::ids::MessageId;
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::owner::Call;
use waybill_core::inbox::records::SagaDoorItem;
use waybill_core::inbox::settings::{ConsumerId, Target};
use waybill_core::inbox::verdict::{Leavings, Verdict};
use waybill_core::message::{Message, Payload};
use waybill_core::port::transport::Fault;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::streams::exact::ExactAppend;
use waybill_core::streams::joint::JointAppend;
use waybill_core::streams::records::Append;
use waybill_core::topic::Topic;

use super::broker::{Broker, State};
use super::host::Running;
use super::ledger::{CallFacts, Item};
use super::messages::{content_of, number_of};
use super::setup::{SHARD, STORED, WINDOW};
use super::world::World;
use crate::conformance::stream_samples::append;

/// What a message leaves in the outbox when it was processed.
pub(super) fn leaves_message(item: Item) -> bool {
    item.1.is_multiple_of(2)
}

pub(super) fn leaves_signal(item: Item) -> bool {
    item.1.is_multiple_of(4)
}

/// It leaves an event, too, for a stream that has to end where it did when the handler looked.
pub(super) fn leaves_event(item: Item) -> bool {
    item.1 % 5 < 2
}

/// The event that an item leaves, each time the same.
pub(super) fn event_of(item: Item) -> Append {
    append(&format!("s{}", item.1 % 2), &[&format!("{}-{}", item.0, item.1)])
}

/// The item that leaves an append.
pub(super) fn item_of(append: &Append) -> Option<Item> {
    let (consumer, number) = append.events.first()?.id.as_str().split_once('-')?;
    Some((consumer.parse().ok()?, number.parse().ok()?))
}

/// Key of a published message; none when there is no such message.
fn key_of(brokers: &[Broker; 2], id: u64) -> Option<Option<u8>> {
    let mut all = brokers.iter().flat_map(|broker| &broker.positions);
    all.find(|position| position.message.id == id).map(|position| position.message.key)
}

impl World {
    pub(super) fn handlers(&mut self, host: usize) {
        self.answer_calls(host);
        self.look_up(host);
        self.load(host);
        self.check_rows(host);
        self.call(host);
    }

    fn look_up(&mut self, host: usize) {
        let (now, clock) = (self.now, self.clock());
        let Some(life) = self.hosts[host].life.as_mut() else { return };
        let store = &self.store;
        let ask = |lookup: &waybill_core::inbox::owner::LookUp| {
            store.read(|tables| tables.inbox.seen(SHARD, &lookup.query)).map(|hit| hit.check)
        };
        for lookup in life.owner.take_lookups() {
            // It is read when it is asked, or when its answer comes.
            let found = self.rng.percent(50).then(|| ask(&lookup));
            life.lookups.push((now + self.rng.below(4), lookup, found));
        }
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut life.lookups).into_iter().partition(|(at, ..)| *at <= now);
        life.lookups = later;
        for (_, lookup, found) in due {
            if !self.calm && self.rng.percent(2) {
                life.owner.ask_again([lookup.seq]);
                continue;
            }
            let found = found.unwrap_or_else(|| ask(&lookup));
            life.owner.looked_up(lookup.seq, found, clock);
        }
    }

    fn load(&mut self, host: usize) {
        let clock = self.clock();
        let Some(life) = self.hosts[host].life.as_mut() else { return };
        for seq in life.owner.take_loads() {
            let row = if !self.calm && self.rng.percent(5) {
                Err(())
            } else {
                Ok(self.store.read(|tables| tables.inbox.rows.get(&(SHARD, seq)).cloned()))
            };
            life.owner.loaded(seq, row, clock);
        }
    }

    fn check_rows(&mut self, host: usize) {
        let Some(life) = self.hosts[host].life.as_ref() else { return };
        for consumer in 0..2 {
            let rows = life.owner.rows(ConsumerId(consumer));
            if rows > STORED + 4 * WINDOW + 4 {
                self.ledger.violation(format!("ROWS: {rows} of consumer {consumer}"));
            }
        }
    }

    fn call(&mut self, host: usize) {
        let clock = self.clock();
        let Some(life) = self.hosts[host].life.as_mut() else { return };
        let calls =
            life.owner.take_calls(clock, waybill_core::time::Monotonic(Duration::from_millis(life.lease_until)));
        for call in calls {
            let item = (call.consumer.0, number_of(&call.message));
            if call.target == Target::Forward {
                self.forward(host, &call, item);
                continue;
            }
            let (source, key) =
                (self.source_of(&call.message), call.message.key.as_ref().and(key_of(&self.brokers, item.1)).flatten());
            self.check_call(host, item, source, key);
            let was_touched = self.ledger.is_touched(item);
            let facts = CallFacts {
                item,
                told: call.maybe_handled,
                stale: self.hosts[host].life.as_ref().is_none_or(|life| life.token != self.lease.token),
                replays: self.setup.replays(source),
                same_key: if key.is_some() { self.same_key(item, source, key) } else { Vec::new() },
            };
            self.ledger.call(&facts);
            let is_killer = self.published(item.1, |message| message.killer);
            if is_killer {
                return self.crash(host);
            }
            let slow = self.rng.one_in(7);
            let until = self.now + 1 + self.rng.below(if slow { 120 } else { 8 });
            let content = content_of(&call.message);
            if let Some(life) = self.hosts[host].life.as_mut() {
                life.running.push(Running { seq: call.seq, item, key, content, until, was_touched });
            }
        }
    }

    fn source_of(&self, message: &InboundMessage) -> usize {
        usize::from(message.source.as_str() == super::setup::SOURCES[1])
    }

    fn published(&self, id: u64, is: impl Fn(&super::broker::Published) -> bool) -> bool {
        self.brokers
            .iter()
            .flat_map(|broker| &broker.positions)
            .any(|position| position.message.id == id && is(&position.message))
    }

    fn copies(&self, id: u64) -> [usize; 2] {
        [0, 1].map(|source: usize| {
            self.brokers[source].positions.iter().filter(|position| position.message.id == id).count()
        })
    }

    /// Other messages of a key that this source alone brings.
    fn same_key(&self, item: Item, source: usize, key: Option<u8>) -> Vec<Item> {
        let only_here = |id: u64| self.copies(id)[1 - source] == 0;
        if !only_here(item.1) {
            return Vec::new();
        }
        let positions = self.brokers[source].positions.iter();
        let others = positions.filter(|position| position.message.key == key && position.message.id != item.1);
        others.map(|position| position.message.id).filter(|id| only_here(*id)).map(|id| (item.0, id)).collect()
    }

    /// What must hold before a call, as its source and this host see it.
    fn check_call(&mut self, host: usize, item: Item, source: usize, key: Option<u8>) {
        let Some(life) = self.hosts[host].life.as_ref().filter(|life| life.token == self.lease.token) else { return };
        if key.is_none() {
            return;
        }
        let is_twin = |running: &&Running| running.item.0 == item.0 && running.key == key && running.item != item;
        if let Some(other) = life.running.iter().find(is_twin) {
            let other = other.item;
            self.ledger.violation(format!("TWO CALLS at once of key {key:?}: {item:?} and {other:?}"));
        }
        let is_single = |id: u64| self.copies(id).iter().sum::<usize>() == 1;
        if !self.setup.replays(source) || !is_single(item.1) || self.ledger.once_finished.contains(&item) {
            return;
        }
        let positions = &self.brokers[source].positions;
        let Some(mine) = positions.iter().position(|position| position.message.id == item.1) else { return };
        let earlier = positions[..mine].iter().find(|other| {
            other.group == positions[mine].group
                && other.message.key == key
                && is_single(other.message.id)
                && !self.ledger.once_finished.contains(&(item.0, other.message.id))
                && other.state != State::Gone
        });
        if let Some(earlier) = earlier.map(|earlier| earlier.message.id) {
            self.ledger.violation(format!("ORDER of source {source}: key {key:?} {item:?} is called before {earlier}"));
        }
    }

    fn forward(&mut self, host: usize, call: &Call, item: Item) {
        let verdict = Verdict::Processed(self.leavings(item, call.seq.0));
        let (clock, content) = (self.clock(), content_of(&call.message));
        if let Some(life) = self.hosts[host].life.as_mut() {
            life.answers.insert(item, content);
            life.owner.answered(call.seq, verdict, clock, 0.5);
        }
    }

    fn leavings(&mut self, item: Item, place: u64) -> Leavings {
        let mut leavings = Leavings::default();
        if leaves_message(item) {
            leavings.messages.push(self.outgoing(item, place));
        }
        if leaves_signal(item) {
            let id = SagaId::root(&format!("{}-{}", item.0, item.1)).unwrap();
            let key = SagaKey { tenant: waybill_core::ids::Tenant::unnamed(), id };
            let (name, by) = ("paid".to_owned(), "consumer".to_owned());
            leavings.sagas.push(SagaDoorItem::Signal { key, name, data: Json::null(), by });
        }
        leavings
    }

    fn outgoing(&self, item: Item, place: u64) -> Arc<Message> {
        let now = self.clock().wall;
        Arc::new(Message {
            id: MessageId::new(format!("out-{place}")).unwrap(),
            caller_id: false,
            tenant: waybill_core::ids::Tenant::unnamed(),
            topic: Topic::parse("bus:out").unwrap(),
            key: None,
            headers: vec![("item".to_owned(), format!("{}-{}", item.0, item.1))],
            payload: Payload::Inline(Bytes::new()),
            event_type: "out".to_owned(),
            event_version: 1,
            annotations: Annotations::default(),
            occurred_at: now,
            created_at: now,
            not_before: None,
            expires_at: None,
            statements: None,
            replays: 0,
            replayed_by: None,
        })
    }

    fn answer_calls(&mut self, host: usize) {
        let now = self.now;
        let Some(life) = self.hosts[host].life.as_mut() else { return };
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut life.running).into_iter().partition(|running| running.until <= now);
        life.running = later;
        for running in due {
            let verdict = self.verdict(host, &running);
            let random = f64::from(u32::try_from(self.rng.below(1 << 20)).unwrap()) / f64::from(1 << 20);
            let clock = self.clock();
            if let Some(life) = self.hosts[host].life.as_mut() {
                life.answers.insert(running.item, running.content);
                life.owner.answered(running.seq, verdict, clock, random);
            }
        }
    }

    fn verdict(&mut self, host: usize, running: &Running) -> Verdict {
        let item = running.item;
        let is_down = self.down[usize::from(item.0)] > self.now;
        let is_busy = !self.calm && self.published(item.1, |message| message.busy);
        let drawn = self.rng.below(100);
        let fault = |code: &str| Fault::new(code, "drawn");
        if is_down || is_busy || !self.calm && drawn >= 96 {
            let after = Some(Duration::from_millis(5 + self.rng.below(30)));
            let life = self.hosts[host].life.as_ref();
            let known = life.map_or((0, 0), |life| (life.token, life.owner.counts().processed));
            self.ledger.asks(item, is_down, running.was_touched, known);
            let fault = Fault { after, ..fault("TEST.BUSY") };
            return if is_down { Verdict::Blocked(fault) } else { Verdict::Busy(fault) };
        }
        let (processed, poison) = if self.calm { (90, 90) } else { (65, 70) };
        if drawn < processed {
            let mut leavings = self.leavings(item, running.seq.0);
            if leaves_event(item) {
                let append = event_of(item);
                let expected = self.store.read(|tables| tables.streams.head(&append.stream).last);
                leavings.events.list.push(JointAppend::Exact(ExactAppend::new(append, expected, 1)));
            }
            return Verdict::Processed(leavings);
        }
        if drawn < poison {
            return Verdict::Poison(fault("TEST.POISON"));
        }
        self.ledger.fails(item);
        Verdict::Failed(fault("TEST.FAILED"))
    }
}
