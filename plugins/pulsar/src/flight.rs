//! What goes to one broker, in conversation: entries go out in large writes while at most `window` messages wait for their receipt.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use waybill_plugin::exchange::Side;
use waybill_plugin::transport::{Fault, Outcome, PluginError, Receipt};
use waybill_pulsar_wire::proto::{Command, MessageIdData};
use waybill_pulsar_wire::{Incoming, Refusal};

use crate::client::Producer;
use crate::encode::{Prepared, Sender, entry};
use crate::publish::State;

/// Bytes after which a write begins. A larger entry goes out in a write of its own.
const CHUNK_BYTES: usize = 60 * 1024;
/// Number of the entry of a message that the broker had already, where it knows doubles.
const NO_ENTRY: u64 = u64::MAX;

/// Messages for one partition that may share entries.
pub(crate) struct Lane {
    pub(crate) topic: String,
    /// None: the topic has none.
    pub(crate) partition: Option<u32>,
    /// Name of the partition, or of the topic.
    pub(crate) name: String,
    /// Places in the batch, in order.
    pub(crate) queue: VecDeque<usize>,
    /// An entry of several was too large for the broker: each goes alone, so that only what is too large by itself is refused.
    pub(crate) alone: bool,
}

/// Bounds of a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Messages without a receipt.
    pub(crate) window: usize,
    /// Messages of an entry.
    pub(crate) messages: usize,
    /// Bytes of an entry after which no more are added.
    pub(crate) bytes: usize,
    /// Most bytes of an entry that the broker takes.
    pub(crate) message_max: usize,
    /// Milliseconds without a receipt.
    pub(crate) patience: u32,
}

/// Why what is under way, or waits, on a producer isn't sent.
pub(crate) fn moved() -> Fault {
    Fault::new("PULSAR.MOVED", "the broker gave the topic up: it is looked for anew")
}

/// An entry without a receipt.
struct Pending {
    lane: usize,
    places: Vec<usize>,
}

pub(crate) struct Flight<'a, 'b> {
    incoming: &'a mut Incoming,
    state: &'a mut State<'b>,
    lanes: &'a mut Vec<Lane>,
    producers: &'a mut HashMap<String, Producer>,
    limits: Limits,
    /// By producer and the number of the first message.
    pending: HashMap<(u64, u64), Pending>,
    waiting: usize,
    /// The lane whose turn it is.
    turn: usize,
    /// Producers that the broker has closed.
    closed: Vec<u64>,
    /// The last receipt, or the last write.
    moved: Instant,
}

impl<'a, 'b> Flight<'a, 'b> {
    pub(crate) fn new(
        incoming: &'a mut Incoming,
        state: &'a mut State<'b>,
        lanes: &'a mut Vec<Lane>,
        producers: &'a mut HashMap<String, Producer>,
        limits: Limits,
    ) -> Self {
        Self {
            incoming,
            state,
            lanes,
            producers,
            limits,
            pending: HashMap::new(),
            waiting: 0,
            turn: 0,
            closed: Vec::new(),
            moved: Instant::now(),
        }
    }

    /// Producers that the broker has closed meanwhile.
    pub(crate) fn end(self) -> Vec<u64> {
        self.closed
    }

    /// Adds as many entries as window and size let out, the lanes in turn.
    fn write(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut idle = 0;
        while idle < self.lanes.len() && out.len() - start < CHUNK_BYTES && self.waiting < self.limits.window {
            let lane = self.turn % self.lanes.len();
            self.turn = lane + 1;
            idle = if self.write_entry(lane, out) { 0 } else { idle + 1 };
        }
    }

    /// Adds the next entry of a lane. Answers whether there was one.
    fn write_entry(&mut self, number: usize, out: &mut Vec<u8>) -> bool {
        let Some(lane) = self.lanes.get_mut(number) else { return false };
        let Some(producer) = self.producers.get_mut(&lane.name).filter(|known| !self.closed.contains(&known.id)) else {
            return false;
        };
        let (mut places, mut prepared, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(place) = lane.queue.front().copied() {
            let Some(message) = self.state.batch.get(place).filter(|_| self.state.outcomes.is_open(place)) else {
                lane.queue.pop_front();
                continue;
            };
            // An entry is taken as a whole or not at all, so a key's messages may share one.
            let follows = self.state.runs.before(place).is_some_and(|before| places.contains(&before));
            let most = if lane.alone { 1 } else { self.limits.messages };
            let is_full = places.len() >= most || self.waiting + places.len() >= self.limits.window;
            if is_full || !(follows || self.state.runs.is_free(place)) {
                break;
            }
            match Prepared::of(message, self.limits.message_max) {
                Ok(next)
                    if !prepared.is_empty() && bytes + next.size > self.limits.bytes.min(self.limits.message_max) =>
                {
                    break;
                }
                Ok(next) => {
                    bytes += next.size;
                    places.push(place);
                    prepared.push(next);
                    lane.queue.pop_front();
                }
                Err(fault) => {
                    lane.queue.pop_front();
                    self.state.settle(place, Outcome::Permanent(fault));
                }
            }
        }
        if places.is_empty() {
            return false;
        }
        let sender = Sender { producer: producer.id, name: &producer.name, sequence: producer.sequence };
        producer.sequence += places.len() as u64;
        for place in &places {
            if let Some(written) = self.state.written.get_mut(*place) {
                *written = true;
            }
        }
        self.waiting += places.len();
        self.moved = Instant::now();
        let key = (sender.producer, sender.sequence);
        entry(out, prepared, sender);
        self.pending.insert(key, Pending { lane: number, places });
        true
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::SendReceipt(receipt) => {
                if let Some(pending) = self.answered((receipt.producer_id, receipt.sequence_id)) {
                    self.acknowledge(&pending, receipt.message_id.as_ref());
                }
            }
            Command::SendError(error) => {
                let key = self.refused((error.producer_id, error.sequence_id));
                if let Some(pending) = key.and_then(|key| self.answered(key)) {
                    self.refuse(pending, &Refusal::new(error.error, &error.message));
                }
            }
            Command::CloseProducer(closed) => self.close(closed.producer_id),
            _ => {}
        }
    }

    /// The entry that a refusal is about. A receipt has the number of the entry's first message; a refusal has that of its last.
    fn refused(&self, (producer, sequence): (u64, u64)) -> Option<(u64, u64)> {
        let is_meant = |(key, pending): &(&(u64, u64), &Pending)| {
            let last = key.1 + (pending.places.len() as u64).saturating_sub(1);
            key.0 == producer && (key.1 == sequence || last == sequence)
        };
        self.pending.iter().find(is_meant).map(|(key, _)| *key)
    }

    /// An entry that the broker doesn't take. One of several messages that is too large as a whole goes again, message by message.
    fn refuse(&mut self, pending: Pending, refusal: &Refusal) {
        let lane = self.lanes.get_mut(pending.lane).filter(|_| pending.places.len() > 1 && refusal.is_about_size());
        if let Some(lane) = lane {
            lane.alone = true;
            for place in pending.places.into_iter().rev() {
                if let Some(written) = self.state.written.get_mut(place) {
                    *written = false;
                }
                lane.queue.push_front(place);
            }
            return;
        }
        self.settle(pending, &refusal.fate());
    }

    /// Settles an entry from its end: settling one gives back what is behind it in its key as never sent, which these aren't.
    fn settle(&mut self, pending: Pending, outcome: &Outcome) {
        for place in pending.places.into_iter().rev() {
            self.state.settle(place, outcome.clone());
        }
    }

    fn answered(&mut self, key: (u64, u64)) -> Option<Pending> {
        let pending = self.pending.remove(&key)?;
        self.waiting -= pending.places.len();
        self.moved = Instant::now();
        Some(pending)
    }

    fn acknowledge(&mut self, pending: &Pending, id: Option<&MessageIdData>) {
        let Some(lane) = self.lanes.get(pending.lane) else { return };
        let is_batch = pending.places.len() > 1;
        for (index, place) in pending.places.iter().enumerate() {
            let mut receipt = Receipt::new();
            match id {
                Some(id) if id.entry_id == NO_ENTRY => receipt.duplicate = true,
                Some(id) if is_batch => receipt.broker_ref = Some(format!("{}:{}:{index}", id.ledger_id, id.entry_id)),
                Some(id) => receipt.broker_ref = Some(format!("{}:{}", id.ledger_id, id.entry_id)),
                None => {}
            }
            receipt.attributes.push(("stream".to_owned(), lane.topic.clone()));
            if let Some(partition) = lane.partition {
                receipt.attributes.push(("partition".to_owned(), partition.to_string()));
            }
            self.state.settle(*place, Outcome::Ack(receipt));
        }
    }

    /// The topic moves to another broker, or is deleted, or its backlog is full. What has no receipt by now gets none.
    fn close(&mut self, producer: u64) {
        let name = self.producers.iter().find(|(_, known)| known.id == producer).map(|(name, _)| name.clone());
        let Some(name) = name else { return };
        self.closed.push(producer);
        let fault = moved();
        let mut keys: Vec<_> = self.pending.keys().copied().filter(|(known, _)| *known == producer).collect();
        keys.sort_unstable();
        for key in keys {
            if let Some(pending) = self.answered(key) {
                self.settle(pending, &Outcome::Retryable(fault.clone().with_maybe_delivered(true)));
            }
        }
        for lane in self.lanes.iter_mut().filter(|lane| lane.name == name) {
            for place in std::mem::take(&mut lane.queue) {
                self.state.settle(place, Outcome::Release(fault.clone()));
            }
        }
    }
}

impl Side for Flight<'_, '_> {
    fn outgoing(&mut self) -> Vec<u8> {
        let mut piece = self.incoming.due();
        if !self.state.call.cancelled() {
            self.write(&mut piece);
        }
        piece
    }

    fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        self.incoming.push(bytes);
        while let Some(frame) = self.incoming.take()? {
            self.take(frame.command);
        }
        if !self.pending.is_empty() || self.lanes.iter().any(|lane| !lane.queue.is_empty()) {
            self.state.outcomes.tell_early();
        }
        Ok(())
    }

    fn pulse(&self) -> Option<u32> {
        Some(self.limits.patience)
    }

    fn overdue(&self) -> bool {
        let patience = Duration::from_millis(u64::from(self.limits.patience));
        !self.pending.is_empty() && self.moved.elapsed() > patience
    }
}

#[cfg(test)]
#[path = "flight_tests.rs"]
mod tests;
