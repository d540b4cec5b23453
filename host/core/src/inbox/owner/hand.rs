//! Part: deliveries that their sources still hold.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::ids::Seq;
use crate::inbox::settings::SourceId;
use crate::port::transport::Fault;
use crate::time::Monotonic;

/// One delivery of a source, for as long as this owner lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// What its source is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleAs {
    Ack,
    Extend,
    /// Not handled: back to the source at once.
    Release,
    /// Never again, to the source's own place for such.
    Reject(Fault),
}

/// One order to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    pub delivery: DeliveryId,
    pub token: Bytes,
    pub settle_as: SettleAs,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleResult {
    Done,
    /// No longer ours: its source delivers it again.
    Lost,
    /// It may be tried again.
    Failed,
}

/// A delivery in hand.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub source: SourceId,
    pub token: Bytes,
    pub position: Option<Arc<str>>,
    pub group: Option<Arc<str>>,
    /// Its messages that are neither finished nor stored and released, one a consumer.
    pub open: Vec<Seq>,
    pub settle_within: Duration,
    pub until: Monotonic,
    /// Of its payload.
    bytes: usize,
    state: State,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Open,
    Extending,
    Queued,
    /// Told to its source, which hasn't answered.
    Settling(SettleAs),
}

#[derive(Debug, Default)]
pub(super) struct Hand {
    held: BTreeMap<DeliveryId, Held>,
    positions: HashMap<(SourceId, Arc<str>), DeliveryId>,
    queue: BTreeMap<SourceId, VecDeque<(DeliveryId, SettleAs)>>,
    /// Payload bytes of all that is held.
    bytes: BTreeMap<SourceId, usize>,
    last: u64,
}

impl Hand {
    pub fn take(
        &mut self,
        source: SourceId,
        token: Bytes,
        position: Option<Arc<str>>,
        group: Option<Arc<str>>,
        settle_within: Duration,
        until: Monotonic,
    ) -> DeliveryId {
        self.last += 1;
        let id = DeliveryId(self.last);
        if let Some(position) = &position {
            self.positions.insert((source, Arc::clone(position)), id);
        }
        let (open, bytes, state) = (Vec::new(), 0, State::Open);
        self.held.insert(id, Held { source, token, position, group, open, settle_within, until, bytes, state });
        id
    }

    /// How large the payload of a delivery is.
    pub fn weigh(&mut self, id: DeliveryId, bytes: usize) {
        let Some(held) = self.held.get_mut(&id) else { return };
        let sum = self.bytes.entry(held.source).or_default();
        *sum = (*sum + bytes).saturating_sub(held.bytes);
        held.bytes = bytes;
    }

    /// Payload bytes of what is held of a source.
    pub fn bytes(&self, source: SourceId) -> usize {
        self.bytes.get(&source).copied().unwrap_or_default()
    }

    pub fn get(&self, id: DeliveryId) -> Option<&Held> {
        self.held.get(&id)
    }

    /// The delivery of the same position that is still in hand.
    pub fn at(&self, source: SourceId, position: &str) -> Option<DeliveryId> {
        self.positions.get(&(source, Arc::from(position))).copied()
    }

    pub fn of(&self, source: SourceId) -> impl Iterator<Item = (DeliveryId, &Held)> {
        self.held.iter().filter(move |(_, held)| held.source == source).map(|(id, held)| (*id, held))
    }

    pub fn count(&self, source: SourceId) -> usize {
        self.of(source).count()
    }

    /// A message that has to be finished, or stored and released, before it is acknowledged.
    pub fn wait_for(&mut self, id: DeliveryId, seq: Seq) {
        if let Some(held) = self.held.get_mut(&id)
            && !held.open.contains(&seq)
        {
            held.open.push(seq);
        }
    }

    /// A message is finished, or stored and released. `enough`: whatever the others are.
    pub fn done_with(&mut self, id: DeliveryId, seq: Seq, enough: bool) {
        let Some(held) = self.held.get_mut(&id) else { return };
        held.open.retain(|other| *other != seq);
        if held.open.is_empty() || enough {
            self.settle(id, SettleAs::Ack);
        }
    }

    /// Queues an order, unless the delivery has one already.
    pub fn settle(&mut self, id: DeliveryId, settle_as: SettleAs) {
        let Some(held) = self.held.get_mut(&id) else { return };
        if matches!(held.state, State::Open | State::Extending) {
            held.state = State::Queued;
            self.queue.entry(held.source).or_default().push_back((id, settle_as));
        }
    }

    /// It is gone: its message isn't settled by it.
    pub fn drop_delivery(&mut self, id: DeliveryId) -> Option<Held> {
        self.weigh(id, 0);
        let held = self.held.remove(&id)?;
        if let Some(position) = &held.position {
            let key = (held.source, Arc::clone(position));
            if self.positions.get(&key) == Some(&id) {
                self.positions.remove(&key);
            }
        }
        Some(held)
    }

    /// Orders for a source: what is queued, and what is to be extended.
    pub fn take_orders(&mut self, source: SourceId, extend_part: Option<u32>, now: Monotonic) -> Vec<Settle> {
        let mut orders = Vec::new();
        for (id, settle_as) in self.queue.remove(&source).unwrap_or_default() {
            let Some(held) = self.held.get_mut(&id).filter(|held| held.state == State::Queued) else { continue };
            held.state = State::Settling(settle_as.clone());
            orders.push(Settle { delivery: id, token: held.token.clone(), settle_as });
        }
        if let Some(part) = extend_part {
            for (id, held) in self.held.iter_mut().filter(|(_, held)| held.source == source) {
                if held.state == State::Open && held.until - now < held.settle_within / part.max(1) {
                    held.state = State::Extending;
                    orders.push(Settle { delivery: *id, token: held.token.clone(), settle_as: SettleAs::Extend });
                }
            }
        }
        orders
    }

    /// A source answered. The delivery that isn't in hand any more, if so.
    pub fn settled(
        &mut self,
        id: DeliveryId,
        settle_as: &SettleAs,
        result: SettleResult,
        now: Monotonic,
    ) -> Option<Held> {
        let held = self.held.get_mut(&id)?;
        match (settle_as, result) {
            (SettleAs::Extend, SettleResult::Done) => {
                held.until = now + held.settle_within;
                if held.state == State::Extending {
                    held.state = State::Open;
                }
                None
            }
            (SettleAs::Extend, SettleResult::Failed) => {
                if held.state == State::Extending {
                    held.state = State::Open;
                }
                None
            }
            (_, SettleResult::Failed) => {
                held.state = State::Open;
                self.settle(id, settle_as.clone());
                None
            }
            _ => self.drop_delivery(id),
        }
    }

    /// Whether orders for a source wait.
    pub fn has_orders(&self, source: SourceId) -> bool {
        self.queue.get(&source).is_some_and(|queue| !queue.is_empty())
    }
}
