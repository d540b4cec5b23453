//! What one session has delivered: messages that wait to be handed over, entries with messages that aren't settled, and what the broker
//! may still send. An entry is acknowledged when all its messages are. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use waybill_pulsar_wire::batch::{self, Message};
use waybill_pulsar_wire::frame;
use waybill_pulsar_wire::proto::{Delivered, MessageIdData};

/// A message's bytes that can't be one are handed over up to so many.
const ENTRY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Names an entry: its consumer, its ledger and its number there.
pub(crate) type Key = (u64, u64, u64);

/// A message that waits to be handed over.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) key: Key,
    /// Its place among those of its entry.
    pub(crate) place: u32,
    pub(crate) message: Message,
    /// Why it can't be one.
    pub(crate) invalid: Option<&'static str>,
    /// It was given back, or the broker says that it delivered it before.
    pub(crate) is_again: bool,
    /// How often its entry was delivered before.
    pub(crate) before: u32,
}

/// An entry that isn't acknowledged yet.
#[derive(Debug, Default)]
struct Entry {
    partition: Option<i32>,
    /// Places of its messages that aren't settled, with those in the host's hands: kept for a release.
    open: BTreeMap<u32, Option<Held>>,
}

/// What the broker may send to one consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Permits {
    /// Messages that may be unsettled.
    share: i64,
    /// Messages that it was allowed and hasn't sent; below zero after a batch that was larger.
    allowed: i64,
    /// Messages that came and aren't settled.
    unsettled: i64,
}

/// A session's entries. Its tokens hold for no other session.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    session: u64,
    held: VecDeque<Held>,
    held_bytes: usize,
    entries: HashMap<Key, Entry>,
    permits: HashMap<u64, Permits>,
    /// Messages in the host's hands.
    handed: usize,
}

impl Entries {
    pub(crate) fn new(session: u64) -> Self {
        Self { session, ..Self::default() }
    }

    /// A consumer that may have so many messages unsettled.
    pub(crate) fn add_consumer(&mut self, consumer: u64, share: u32) {
        self.permits.insert(consumer, Permits { share: i64::from(share.max(1)), allowed: 0, unsettled: 0 });
    }

    /// Takes an entry that came.
    pub(crate) fn take(&mut self, delivered: &Delivered, bytes: &[u8]) {
        let id = &delivered.message_id;
        let key = (delivered.consumer_id, id.ledger_id, id.entry_id);
        let before = delivered.redelivery_count.unwrap_or_default();
        let (count, read) = match frame::entry(bytes) {
            Ok((metadata, payload)) => (batch::count(&metadata), batch::messages(metadata, payload, ENTRY_BYTES_MAX)),
            Err(why) => (1, Err(why)),
        };
        let Some(permits) = self.permits.get_mut(&delivered.consumer_id) else { return };
        let counted = (0..count).filter(|place| !is_acknowledged(&delivered.ack_set, *place)).count();
        permits.allowed -= i64::try_from(counted).unwrap_or(i64::MAX);
        if self.entries.contains_key(&key) {
            // Delivered again on the same consumer although it is here.
            return;
        }
        let (messages, invalid) = match read {
            Ok(messages) => (messages, None),
            Err(why) => (vec![Message { payload: bytes.to_vec(), ..Message::default() }], Some(why.0)),
        };
        let mut entry = Entry { partition: id.partition, open: BTreeMap::new() };
        for message in messages {
            let place = message.index.unwrap_or_default();
            if is_acknowledged(&delivered.ack_set, place) {
                continue;
            }
            self.held_bytes += message.payload.len();
            entry.open.insert(place, None);
            self.held.push_back(Held { key, place, message, invalid, is_again: before > 0, before });
        }
        permits.unsettled += i64::try_from(entry.open.len()).unwrap_or(i64::MAX);
        self.entries.insert(key, entry);
    }

    /// Entries of which nothing is left to be settled, by consumer: to be acknowledged.
    pub(crate) fn done(&mut self) -> HashMap<u64, Vec<MessageIdData>> {
        let mut done: HashMap<u64, Vec<MessageIdData>> = HashMap::new();
        self.entries.retain(|(consumer, ledger, number), entry| {
            if entry.open.is_empty() {
                done.entry(*consumer).or_default().push(id(*ledger, *number, entry.partition));
            }
            !entry.open.is_empty()
        });
        done
    }

    /// The next message that fits into so many bytes, and its token. The first of a pull always fits.
    pub(crate) fn next(&mut self, room: Option<usize>) -> Option<(Held, Vec<u8>)> {
        let front = self.held.front()?;
        if room.is_some_and(|room| front.message.payload.len() > room) {
            return None;
        }
        let held = self.held.pop_front()?;
        self.held_bytes -= held.message.payload.len();
        if let Some(slot) = self.entries.get_mut(&held.key).and_then(|entry| entry.open.get_mut(&held.place)) {
            *slot = Some(held.clone());
        }
        self.handed += 1;
        let token = self.token(held.key, held.place);
        Some((held, token))
    }

    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(crate) fn handed(&self) -> usize {
        self.handed
    }

    /// Settles one for good. Answers whether it was ours to settle.
    pub(crate) fn settle(&mut self, token: &[u8]) -> bool {
        self.close(token).is_some()
    }

    /// Takes one back, to be handed over again before anything else of its partition.
    pub(crate) fn release(&mut self, token: &[u8]) -> bool {
        let Some((key, place)) = self.named(token) else { return false };
        let slot = self.entries.get_mut(&key).and_then(|entry| entry.open.get_mut(&place));
        let Some(mut held) = slot.and_then(Option::take) else { return false };
        self.handed = self.handed.saturating_sub(1);
        self.held_bytes += held.message.payload.len();
        held.is_again = true;
        // Before what is behind it in its partition.
        let order = |held: &Held| (held.key.1, held.key.2, held.place);
        let is_behind = |other: &Held| other.key.0 == held.key.0 && order(other) > order(&held);
        let at = self.held.iter().position(is_behind).unwrap_or(self.held.len());
        self.held.insert(at, held);
        true
    }

    /// Entries of which nothing is in the host's hands, by consumer: they go back to the broker.
    pub(crate) fn give_back(&mut self) -> HashMap<u64, Vec<MessageIdData>> {
        let mut back: HashMap<u64, Vec<MessageIdData>> = HashMap::new();
        let mut gone = BTreeSet::new();
        for (key, entry) in &self.entries {
            if entry.open.values().all(Option::is_none) {
                gone.insert(*key);
                back.entry(key.0).or_default().push(id(key.1, key.2, entry.partition));
            }
        }
        for key in &gone {
            self.forget(key);
        }
        back
    }

    /// How many more messages each consumer may be sent. Told in large steps, each is a frame.
    pub(crate) fn grants(&mut self) -> Vec<(u64, u32)> {
        let mut grants = Vec::new();
        for (consumer, permits) in &mut self.permits {
            let more = permits.share - permits.unsettled - permits.allowed;
            if more > 0 && (permits.allowed <= 0 || more >= permits.share / 2) {
                permits.allowed += more;
                grants.push((*consumer, u32::try_from(more).unwrap_or(u32::MAX)));
            }
        }
        grants
    }

    /// A consumer is gone: answers the tokens of what was handed over and can't be settled any more.
    pub(crate) fn remove_consumer(&mut self, consumer: u64) -> Vec<Vec<u8>> {
        let lost = self.tokens(|key| key.0 == consumer);
        self.revoke(consumer);
        self.permits.remove(&consumer);
        lost
    }

    /// What a consumer has goes to another one. Answers whether it had something.
    pub(crate) fn revoke(&mut self, consumer: u64) -> bool {
        let keys: Vec<Key> = self.entries.keys().copied().filter(|key| key.0 == consumer).collect();
        self.handed = self.handed.saturating_sub(self.tokens(|key| key.0 == consumer).len());
        for key in &keys {
            self.forget(key);
        }
        !keys.is_empty()
    }

    /// Tokens of all that was handed over and isn't settled: the session is gone.
    pub(crate) fn lost(&self) -> Vec<Vec<u8>> {
        self.tokens(|_| true)
    }

    fn tokens(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<Vec<u8>> {
        let mut tokens = Vec::new();
        for (key, entry) in self.entries.iter().filter(|(key, _)| is_meant(key)) {
            let handed = entry.open.iter().filter(|(_, held)| held.is_some());
            tokens.extend(handed.map(|(place, _)| self.token(*key, *place)));
        }
        tokens
    }

    fn forget(&mut self, key: &Key) {
        let Some(entry) = self.entries.remove(key) else { return };
        if let Some(permits) = self.permits.get_mut(&key.0) {
            permits.unsettled -= i64::try_from(entry.open.len()).unwrap_or_default();
        }
        let bytes: usize =
            self.held.iter().filter(|held| held.key == *key).map(|held| held.message.payload.len()).sum();
        self.held_bytes -= bytes;
        self.held.retain(|held| held.key != *key);
    }

    fn close(&mut self, token: &[u8]) -> Option<()> {
        let (key, place) = self.named(token)?;
        let entry = self.entries.get_mut(&key)?;
        entry.open.get(&place)?.as_ref()?;
        entry.open.remove(&place);
        self.handed = self.handed.saturating_sub(1);
        if let Some(permits) = self.permits.get_mut(&key.0) {
            permits.unsettled -= 1;
        }
        Some(())
    }

    fn token(&self, key: Key, place: u32) -> Vec<u8> {
        let numbers = [self.session, key.0, key.1, key.2, u64::from(place)];
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    fn named(&self, token: &[u8]) -> Option<(Key, u32)> {
        let (numbers, []) = token.as_chunks::<8>() else { return None };
        let [session, consumer, ledger, entry, place] = numbers else { return None };
        let number = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
        let place = u32::try_from(number(place)).ok()?;
        (number(session) == self.session).then(|| ((number(consumer), number(ledger), number(entry)), place))
    }
}

/// Whether a bit of the batch is off in what the broker tells of an entry that it delivers again. It tells nothing of one that is whole.
fn is_acknowledged(ack_set: &[i64], place: u32) -> bool {
    let Ok(at) = usize::try_from(place) else { return false };
    !ack_set.is_empty() && ack_set.get(at / 64).is_none_or(|word| word >> (at % 64) & 1 == 0)
}

fn id(ledger: u64, entry: u64, partition: Option<i32>) -> MessageIdData {
    MessageIdData { ledger_id: ledger, entry_id: entry, partition, ..MessageIdData::default() }
}

#[cfg(test)]
#[path = "entries_tests.rs"]
mod tests;
