//! Part: deliveries that their sources still hold.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
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

/// What is held of one source, by when it ends: the owner asks for what ends next with every step it makes, and goes through a whole
/// window for it else.
#[derive(Debug, Default)]
struct Ends {
    all: BTreeSet<(Monotonic, DeliveryId)>,
    /// Those with open messages.
    open: BTreeSet<(Monotonic, DeliveryId)>,
    /// No `settle-within` of them is longer.
    longest: Duration,
    bytes: usize,
}

impl Ends {
    /// A delivery ends at another time.
    fn moved(&mut self, id: DeliveryId, from: Monotonic, to: Monotonic) {
        for ends in [&mut self.all, &mut self.open] {
            if ends.remove(&(from, id)) {
                ends.insert((to, id));
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Hand {
    held: BTreeMap<DeliveryId, Held>,
    positions: HashMap<(SourceId, Arc<str>), DeliveryId>,
    queue: BTreeMap<SourceId, VecDeque<(DeliveryId, SettleAs)>>,
    ends: BTreeMap<SourceId, Ends>,
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
        let ends = self.ends.entry(source).or_default();
        ends.all.insert((until, id));
        ends.longest = ends.longest.max(settle_within);
        let (open, bytes, state) = (Vec::new(), 0, State::Open);
        self.held.insert(id, Held { source, token, position, group, open, settle_within, until, bytes, state });
        id
    }

    /// How large the payload of a delivery is.
    pub fn weigh(&mut self, id: DeliveryId, bytes: usize) {
        let Some(held) = self.held.get_mut(&id) else { return };
        let sum = &mut self.ends.entry(held.source).or_default().bytes;
        *sum = (*sum + bytes).saturating_sub(held.bytes);
        held.bytes = bytes;
    }

    /// Payload bytes of what is held of a source.
    pub fn bytes(&self, source: SourceId) -> usize {
        self.ends.get(&source).map_or(0, |ends| ends.bytes)
    }

    pub fn get(&self, id: DeliveryId) -> Option<&Held> {
        self.held.get(&id)
    }

    /// The delivery of the same position that is still in hand.
    pub fn at(&self, source: SourceId, position: &Arc<str>) -> Option<DeliveryId> {
        self.positions.get(&(source, Arc::clone(position))).copied()
    }

    pub fn of(&self, source: SourceId) -> impl Iterator<Item = (DeliveryId, &Held)> {
        self.held.iter().filter(move |(_, held)| held.source == source).map(|(id, held)| (*id, held))
    }

    pub fn count(&self, source: SourceId) -> usize {
        self.ends.get(&source).map_or(0, |ends| ends.all.len())
    }

    /// What ends before an instant, the first first.
    pub fn ending_before(&self, source: SourceId, at: Monotonic) -> impl Iterator<Item = (DeliveryId, &Held)> {
        let ids = self.ends.get(&source).into_iter().flat_map(move |ends| ends.all.range(..(at, DeliveryId(0))));
        ids.filter_map(|(_, id)| Some((*id, self.held.get(id)?)))
    }

    /// What has open messages, the first that ends first.
    pub fn open_by_end(&self, source: SourceId) -> impl Iterator<Item = &Held> {
        let ids = self.ends.get(&source).into_iter().flat_map(|ends| &ends.open);
        ids.filter_map(|(_, id)| self.held.get(id))
    }

    /// No `settle-within` of what is held of a source is longer.
    pub fn longest(&self, source: SourceId) -> Duration {
        self.ends.get(&source).map_or(Duration::ZERO, |ends| ends.longest)
    }

    /// A message that has to be finished, or stored and released, before it is acknowledged.
    pub fn wait_for(&mut self, id: DeliveryId, seq: Seq) {
        if let Some(held) = self.held.get_mut(&id)
            && !held.open.contains(&seq)
        {
            held.open.push(seq);
            self.ends.entry(held.source).or_default().open.insert((held.until, id));
        }
    }

    /// A message is finished, or stored and released. `enough`: whatever the others are.
    pub fn done_with(&mut self, id: DeliveryId, seq: Seq, enough: bool) {
        let Some(held) = self.held.get_mut(&id) else { return };
        held.open.retain(|other| *other != seq);
        if held.open.is_empty()
            && let Some(ends) = self.ends.get_mut(&held.source)
        {
            ends.open.remove(&(held.until, id));
        }
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
        if let Some(ends) = self.ends.get_mut(&held.source) {
            ends.all.remove(&(held.until, id));
            ends.open.remove(&(held.until, id));
            if ends.all.is_empty() {
                ends.longest = Duration::ZERO;
            }
        }
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
        if let Some(part) = extend_part.map(|part| part.max(1)) {
            let mut near: Vec<DeliveryId> =
                self.ending_before(source, now + self.longest(source) / part).map(|(id, _)| id).collect();
            near.sort_unstable();
            for id in near {
                let Some(held) = self.held.get_mut(&id) else { continue };
                if held.state == State::Open && held.until - now < held.settle_within / part {
                    held.state = State::Extending;
                    orders.push(Settle { delivery: id, token: held.token.clone(), settle_as: SettleAs::Extend });
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
                let before = std::mem::replace(&mut held.until, now + held.settle_within);
                self.ends.entry(held.source).or_default().moved(id, before, held.until);
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

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: SourceId = SourceId(0);

    fn at(seconds: u64) -> Monotonic {
        Monotonic(Duration::from_secs(seconds))
    }

    fn take(hand: &mut Hand, within: u64, until: u64) -> DeliveryId {
        hand.take(SOURCE, Bytes::from_static(b"t"), None, None, Duration::from_secs(within), at(until))
    }

    fn ends(hand: &Hand) -> Vec<Monotonic> {
        hand.open_by_end(SOURCE).map(|held| held.until).collect()
    }

    #[test]
    fn what_is_listed_by_its_end_is_what_is_held() {
        let mut hand = Hand::default();
        let (first, second) = (take(&mut hand, 30, 30), take(&mut hand, 10, 12));
        hand.wait_for(first, Seq(1));
        hand.wait_for(second, Seq(2));
        assert_eq!(ends(&hand), [at(12), at(30)]);
        let before = |at| hand.ending_before(SOURCE, at).count();
        assert_eq!((before(at(12)), before(at(13)), before(at(31))), (0, 1, 2));
        let orders = hand.take_orders(SOURCE, Some(2), at(8));
        assert_eq!(orders.iter().map(|order| order.delivery).collect::<Vec<_>>(), [second], "half its time is over");
        assert!(hand.settled(second, &SettleAs::Extend, SettleResult::Done, at(25)).is_none());
        assert_eq!(ends(&hand), [at(30), at(35)]);
        hand.done_with(first, Seq(1), false);
        assert_eq!((ends(&hand), hand.count(SOURCE)), (vec![at(35)], 2), "it is held until it is acknowledged");
        assert!(hand.take_orders(SOURCE, Some(2), at(34)).len() == 2 && hand.drop_delivery(first).is_some());
        assert!(hand.drop_delivery(second).is_some() && ends(&hand).is_empty());
        assert_eq!((hand.count(SOURCE), hand.longest(SOURCE)), (0, Duration::ZERO));
    }
}
