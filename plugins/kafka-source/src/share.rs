//! A partition that is ours: how far it was fetched, what is held, what is in hand, how far it may be committed.

use std::collections::{BTreeMap, VecDeque};

use waybill_kafka_wire::Uuid;
use waybill_plugin::source::Delivery;

use crate::offsets::Place;

/// Most offsets that are remembered of one partition behind a gap.
const REMEMBERED_MAX: usize = 65_536;

#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) place: Place,
    /// The topic's id: another one when it was made anew.
    pub(crate) topic: Uuid,
    /// Counts shares of this instance: what was handed over of an earlier one can't be settled.
    pub(crate) born: u64,
    /// What is fetched next.
    pub(crate) position: i64,
    /// Fetched and not handed over.
    held: VecDeque<(i64, Delivery)>,
    /// Handed over: bytes while it isn't settled, none once it is.
    in_hand: BTreeMap<i64, Option<usize>>,
    /// What the group has.
    pub(crate) committed: i64,
    /// The end as the server told it last; none until it did.
    pub(crate) end: Option<i64>,
    /// The position at which a batch came broken: it is fetched once more before it is given up.
    pub(crate) broken_at: Option<i64>,
}

impl Share {
    pub(crate) fn new(place: Place, topic: Uuid, born: u64, position: i64, committed: i64) -> Self {
        Self {
            place,
            topic,
            born,
            position,
            held: VecDeque::new(),
            in_hand: BTreeMap::new(),
            committed,
            end: None,
            broken_at: None,
        }
    }

    /// What is ordered and revoked together.
    pub(crate) fn group(&self) -> String {
        format!("{}/{}", self.place.0, self.place.1)
    }

    /// Names one of its deliveries.
    pub(crate) fn token(&self, offset: i64) -> Vec<u8> {
        format!("{}/{}/{}/{offset}", self.born, self.place.0, self.place.1).into_bytes()
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether this offset was fetched for the first time, or was given back.
    pub(crate) fn is_new(&self, offset: i64) -> bool {
        offset >= self.position && !self.in_hand.contains_key(&offset)
    }

    /// Holds what was fetched, in order.
    pub(crate) fn hold(&mut self, offset: i64, delivery: Delivery) {
        self.held.push_back((offset, delivery));
    }

    /// The next delivery, if it isn't larger than that; the caller decides about the first.
    pub(crate) fn hand_over(&mut self, room: usize) -> Option<Delivery> {
        if self.in_hand.len() >= REMEMBERED_MAX {
            return None;
        }
        let bytes = self.held.front().map(|(_, delivery)| size(delivery))?;
        if bytes > room {
            return None;
        }
        let (offset, delivery) = self.held.pop_front()?;
        self.in_hand.insert(offset, Some(bytes));
        Some(delivery)
    }

    /// Bytes of the next delivery.
    pub(crate) fn next_size(&self) -> Option<usize> {
        self.held.front().map(|(_, delivery)| size(delivery))
    }

    /// How many are unsettled, and their bytes.
    pub(crate) fn unsettled(&self) -> (usize, usize) {
        self.in_hand.values().flatten().fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
    }

    /// One was handled. False if it isn't in hand.
    pub(crate) fn acknowledge(&mut self, offset: i64) -> bool {
        let Some(slot) = self.in_hand.get_mut(&offset) else { return offset < self.upto() };
        *slot = None;
        let upto = self.upto();
        self.in_hand = self.in_hand.split_off(&upto);
        true
    }

    /// One comes again: it is fetched once more, with what is behind it and wasn't handed over.
    pub(crate) fn release(&mut self, offset: i64) -> bool {
        if self.in_hand.remove(&offset).is_none() {
            return false;
        }
        self.held.clear();
        // Whatever was fetched behind it and is in hand is passed over then.
        self.position = self.position.min(offset);
        true
    }

    /// Gives back all that is held.
    pub(crate) fn drop_held(&mut self) {
        if let Some((offset, _)) = self.held.front() {
            self.position = self.position.min(*offset);
        }
        self.held.clear();
    }

    /// Up to which offset all are handled: the first gap.
    pub(crate) fn upto(&self) -> i64 {
        let open = self.in_hand.iter().find(|(_, bytes)| bytes.is_some()).map(|(offset, _)| *offset);
        let held = self.held.front().map(|(offset, _)| *offset);
        [open, held].into_iter().flatten().fold(self.position, i64::min)
    }

    /// How many wait behind what was handed over.
    pub(crate) fn lag(&self) -> u64 {
        let behind = u64::try_from(self.end.unwrap_or(self.position).saturating_sub(self.position)).unwrap_or(0);
        behind + self.held.len() as u64
    }
}

/// What a delivery weighs.
fn size(delivery: &Delivery) -> usize {
    delivery.payload.len()
}

/// The parts of a token.
pub(crate) fn parse(token: &[u8]) -> Option<(u64, Place, i64)> {
    let mut parts = std::str::from_utf8(token).ok()?.split('/');
    let (born, topic, number, offset) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some((born.parse().ok()?, (topic.to_owned(), number.parse().ok()?), offset.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn share(offsets: std::ops::Range<i64>) -> Share {
        let mut share = Share::new(("orders".to_owned(), 3), Uuid::nil(), 7, offsets.start, offsets.start);
        for offset in offsets.clone() {
            let token = share.token(offset);
            share.hold(offset, Delivery::new(token, "orders", *b"{}"));
        }
        share.position = offsets.end;
        share
    }

    #[test]
    fn it_is_committed_up_to_the_first_gap() {
        let mut share = share(10..15);
        for _ in 0..4 {
            share.hand_over(100).unwrap();
        }
        assert_eq!(share.upto(), 10);
        assert!(share.acknowledge(12) && share.acknowledge(11));
        assert_eq!(share.upto(), 10);
        assert!(share.acknowledge(10));
        assert_eq!((share.upto(), share.unsettled()), (13, (1, 2)));
        assert!(share.acknowledge(13));
        assert_eq!(share.upto(), 14, "the one that is held is open");
        share.hand_over(100).unwrap();
        assert!(share.acknowledge(14));
        assert_eq!((share.upto(), share.in_hand.len()), (15, 0));
        assert!(share.acknowledge(14), "told twice");
        assert!(!share.acknowledge(15));
    }

    #[test]
    fn what_is_given_back_comes_again_and_nothing_that_is_in_hand() {
        let mut share = share(0..4);
        for _ in 0..3 {
            share.hand_over(100).unwrap();
        }
        assert!(share.acknowledge(2) && share.release(1));
        assert_eq!((share.position, share.upto()), (1, 0));
        let again: Vec<i64> = (1..4).filter(|offset| share.is_new(*offset)).collect();
        assert_eq!(again, [1, 3]);
        assert!(share.acknowledge(0));
        assert_eq!(share.upto(), 1, "what was given back is a gap");
        assert!(!share.release(1));
    }

    #[test]
    fn a_token_names_its_delivery() {
        let share = share(0..1);
        assert_eq!(parse(&share.token(42)), Some((7, ("orders".to_owned(), 3), 42)));
        assert_eq!((parse(b"7/orders/3"), parse(b"\xff")), (None, None));
        assert_eq!(share.group(), "orders/3");
    }
}
