//! What one connection has brought: what waits to be handed over, what is in hand, and which acknowledgements may go out.
//!
//! The protocol wants acknowledgements in the order of arrival. So one that is settled waits for all that came before it; what a
//! connection takes with it of those comes again and is known by its id. The protocol has no word for giving back either: what
//! is given back is kept here, and handed over once more.

use std::collections::{BTreeSet, VecDeque};

use waybill_plugin::source::{Delivery, Disposition, Settled, Settlement};

/// Bytes that a header costs the host beside its texts.
const HEADER_BYTES: usize = 48;

/// What a delivery weighs, in bytes: its payload and the texts that a sender makes as large as it likes.
pub(crate) fn weight(delivery: &Delivery) -> usize {
    delivery.topic.len() + delivery.payload.len() + headers_weight(delivery)
}

/// What the headers of a delivery weigh, in bytes.
pub(crate) fn headers_weight(delivery: &Delivery) -> usize {
    delivery.headers.iter().map(|(name, value)| name.len() + value.len() + HEADER_BYTES).sum()
}

/// A message that came.
struct Arrival {
    /// Id to acknowledge it by; 0 = it isn't acknowledged.
    id: u16,
    /// None: it is settled, or nobody wants it.
    delivery: Option<Delivery>,
    /// What it weighs while it is kept.
    weight: usize,
    in_hand: bool,
}

/// A connection's messages. Its tokens hold for no other one.
pub(crate) struct Arrivals {
    session: u64,
    /// Messages that may be unsettled.
    window: usize,
    /// Bytes that are kept before no more are taken.
    window_bytes: usize,
    /// In the order of arrival: all from the first on that isn't acknowledged.
    all: VecDeque<Arrival>,
    /// Number of the first of them.
    first: u64,
    /// Numbers of those that wait to be handed over.
    waiting: BTreeSet<u64>,
    bytes: usize,
}

impl Arrivals {
    pub(crate) fn new(session: u64, window: u32, window_bytes: u32) -> Self {
        Self {
            session,
            window: (window as usize).max(1),
            window_bytes: window_bytes as usize,
            all: VecDeque::new(),
            first: 0,
            waiting: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// Whether one more may be taken. One alone is never too large.
    pub(crate) fn has_room(&self) -> bool {
        self.all.len() < self.window && (self.bytes < self.window_bytes || self.bytes == 0)
    }

    /// How many wait to be handed over.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Keeps one that came; none = nobody wants it, and it is acknowledged in its turn.
    pub(crate) fn push(&mut self, id: u16, delivery: Option<Delivery>) {
        let number = self.first + self.all.len() as u64;
        let weight = delivery.as_ref().map_or(0, weight);
        self.bytes += weight;
        if delivery.is_some() {
            self.waiting.insert(number);
        }
        self.all.push_back(Arrival { id, delivery, weight, in_hand: false });
    }

    fn get(&mut self, number: u64) -> Option<&mut Arrival> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.all.get_mut(place)
    }

    /// The next one that fits into so many bytes. The first of a pull always fits; of one whose payload is larger than `most`
    /// bytes only the size is handed over.
    pub(crate) fn next(&mut self, room: Option<usize>, most: usize) -> Option<Delivery> {
        let number = *self.waiting.first()?;
        let token = self.token(number);
        let arrival = self.get(number)?;
        let delivery = arrival.delivery.as_mut()?;
        let is_large = delivery.payload.len() > most;
        let weight = if is_large { arrival.weight - delivery.payload.len() } else { arrival.weight };
        if room.is_some_and(|room| weight > room) {
            return None;
        }
        delivery.token = token;
        arrival.in_hand = true;
        // The payload is copied where it is handed over, and nowhere else.
        let payload = std::mem::take(&mut delivery.payload);
        let mut handed = delivery.clone();
        if is_large {
            handed.omitted = Some(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        } else {
            handed.payload.clone_from(&payload);
        }
        delivery.payload = payload;
        // It has come before if it comes once more.
        delivery.redelivered = true;
        self.waiting.remove(&number);
        Some(handed)
    }

    fn token(&self, number: u64) -> Vec<u8> {
        [self.session.to_be_bytes(), number.to_be_bytes()].concat()
    }

    /// The number in a token of this connection that is in hand.
    fn number(&mut self, token: &[u8]) -> Option<u64> {
        let (session, number) = token.split_first_chunk::<8>()?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        let is_ours = u64::from_be_bytes(*session) == self.session;
        self.get(number).filter(|arrival| is_ours && arrival.in_hand).map(|_| number)
    }

    /// Notes what became of these, one answer an item. [`Self::acknowledge`] says what may go out then.
    pub(crate) fn settle(&mut self, items: &[Settlement]) -> Vec<Settled> {
        items.iter().map(|item| self.settle_one(item)).collect()
    }

    fn settle_one(&mut self, item: &Settlement) -> Settled {
        let Some(number) = self.number(&item.token) else { return Settled::Lost };
        match item.disposition {
            Disposition::Ack => {
                let freed = self.get(number).map_or(0, |arrival| {
                    (arrival.in_hand, arrival.delivery) = (false, None);
                    std::mem::take(&mut arrival.weight)
                });
                self.bytes -= freed;
            }
            Disposition::Release | Disposition::Nack(None) => {
                if let Some(arrival) = self.get(number) {
                    arrival.in_hand = false;
                }
                self.waiting.insert(number);
            }
            // The server waits for as long as the connection lasts.
            Disposition::Extend => {}
            Disposition::Nack(Some(_)) | Disposition::Reject(_) => return Settled::unsupported(),
        }
        Settled::Done
    }

    /// Ids to acknowledge now: of all that are settled before the first that isn't.
    pub(crate) fn acknowledge(&mut self) -> Vec<u16> {
        let mut ids = Vec::new();
        while self.all.front().is_some_and(|arrival| arrival.delivery.is_none()) {
            let Some(arrival) = self.all.pop_front() else { break };
            self.first += 1;
            if arrival.id != 0 {
                ids.push(arrival.id);
            }
        }
        ids
    }

    /// Tokens of what was handed over and can't be settled any more.
    pub(crate) fn lost(self) -> Vec<Vec<u8>> {
        let numbered = self.all.iter().zip(self.first..);
        numbered.filter(|(arrival, _)| arrival.in_hand).map(|(_, number)| self.token(number)).collect()
    }
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
