//! What is appended, and what is known of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::EventId;
use waybill_core::streams::chunk::StoredEvent;
use waybill_core::streams::envelope::EventHead;
use waybill_core::streams::event::{Body, Event, EventLimits, NewEvent, Op};
use waybill_core::streams::records::Append;
use waybill_core::time::UnixMillis;

use super::setup::{COMPACTED, WALL_START};
use super::world::World;

/// Number of an event over all streams.
pub(super) type Id = usize;

/// An event as the books have it.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub stream: usize,
    pub resource: u8,
    pub node: u8,
    pub is_delete: bool,
    /// When its append began, and when it was acknowledged.
    pub begin: u64,
    pub acknowledged: Option<u64>,
    /// It went over the doorstep or straight to an owner.
    pub is_plain: bool,
    /// Of a transaction or a call: its events keep their order.
    pub transaction: u64,
    pub index: usize,
    pub seq: Option<u64>,
    /// Compaction replaced it; an operator's seek, or where the relay began, skipped it; it was overtaken; it is a dead letter.
    pub dropped: bool,
    pub skipped: bool,
    pub lost: bool,
    pub dead: bool,
    pub packed: Option<NewEvent>,
}

/// What a stored event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventSeen {
    pub seq: u64,
    pub id: Id,
    pub resource: u8,
    pub is_delete: bool,
}

impl EventSeen {
    pub fn of(event: &StoredEvent) -> Self {
        let head = EventHead::of(&event.packed).unwrap();
        Self {
            seq: event.seq,
            id: head.id[1..].parse().unwrap(),
            resource: head.resource_id[1..].parse().unwrap(),
            is_delete: head.op == Op::DELETE,
        }
    }
}

impl EventSeen {
    /// For words of violations.
    pub fn described(&self) -> String {
        format!("{} (event {})", self.seq, self.id)
    }
}

/// A node by its number: most events are of the first one.
pub(super) fn node_name(node: u8) -> String {
    format!("n{node}")
}

/// State that is folded from a compacted stream: of each resource its last event.
pub(super) type Folded = BTreeMap<u8, u64>;

pub(super) fn fold(state: &mut Folded, seen: &EventSeen) {
    if seen.is_delete {
        state.remove(&seen.resource);
    } else {
        state.insert(seen.resource, seen.seq);
    }
}

impl World {
    /// A new event, not sent yet. `is_indexed`: its id is the caller's.
    pub(super) fn new_event(
        &mut self,
        stream: usize,
        is_plain: bool,
        transaction: u64,
        index: usize,
        is_indexed: bool,
    ) -> Id {
        let resource = u8::try_from(self.rng.below(3)).unwrap();
        let node = u8::from(self.rng.one_in(8));
        let is_delete = stream == COMPACTED && self.rng.percent(30);
        let id = self.ledger.events.len();
        let event = Event {
            id: EventId::new(format!("e{id}")).unwrap(),
            ts: UnixMillis(WALL_START + self.now),
            resource_type: "TASK".into(),
            resource_id: format!("r{resource}"),
            op: if is_delete { Op::DELETE } else { Op::UPDATE },
            schema_version: 1,
            node_uuid: Some(node_name(node)),
            correlation_id: None,
            cause: None,
            headers: BTreeMap::new(),
            content_type: None,
            body: Body::Bytes(Bytes::from(vec![7; id % 5])),
        };
        let packed = event.admit(&self.setup.stream(stream).name, &EventLimits::default(), is_indexed).unwrap();
        self.ledger.events.push(Known {
            stream,
            resource,
            node,
            is_delete,
            begin: self.now,
            is_plain,
            transaction,
            index,
            packed: Some(packed),
            ..Known::default()
        });
        id
    }

    pub(super) fn append_of(&self, stream: usize, ids: &[Id]) -> Arc<Append> {
        let events = ids.iter().map(|id| self.ledger.events[*id].packed.clone().unwrap());
        Arc::new(Append::new(self.setup.stream(stream).clone(), events.collect()))
    }
}
