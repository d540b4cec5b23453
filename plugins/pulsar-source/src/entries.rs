//! What one session has delivered: entries as they came, messages of an opened one that wait to be handed over, and entries with messages
//! that aren't settled. An entry stays as it came, compressed, until its turn comes; it is acknowledged when all its messages are. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use waybill_pulsar_wire::batch::{self, Message};
use waybill_pulsar_wire::frame;
use waybill_pulsar_wire::proto::{Delivered, MessageIdData};

use crate::permits::{Permits, Window};

/// Bytes of a compressed entry's messages. One is opened at a time, beside the window that the sandbox has to hold.
const ENTRY_BYTES_MAX: usize = 16 * 1024 * 1024;

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
    /// It wasn't opened yet, and says that it has so many messages which aren't acknowledged.
    unopened: Option<u32>,
    /// Places of its messages that aren't settled, with those in the host's hands: kept for a release.
    open: BTreeMap<u32, Option<Held>>,
}

/// An entry as it came.
#[derive(Debug)]
struct Unopened {
    key: Key,
    /// Its messages that aren't acknowledged, as it says.
    count: u32,
    bytes: Vec<u8>,
    ack_set: Vec<i64>,
    /// How often it was delivered before.
    before: u32,
}

/// A session's entries. Its tokens hold for no other session.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    session: u64,
    /// In the order in which they came, behind all that is in `held`.
    unopened: VecDeque<Unopened>,
    held: VecDeque<Held>,
    held_bytes: usize,
    entries: HashMap<Key, Entry>,
    permits: Permits,
    /// Messages in the host's hands, and the bytes that are kept of them.
    handed: usize,
    handed_bytes: usize,
}

impl Entries {
    pub(crate) fn new(session: u64, window: Window) -> Self {
        Self { session, permits: Permits::new(window), ..Self::default() }
    }

    /// What may be sent.
    pub(crate) fn permits(&mut self) -> &mut Permits {
        &mut self.permits
    }

    /// Takes an entry that came.
    pub(crate) fn take(&mut self, delivered: Delivered, bytes: Vec<u8>) {
        let id = &delivered.message_id;
        let key = (delivered.consumer_id, id.ledger_id, id.entry_id);
        let all = frame::metadata(&bytes).map_or(1, |metadata| batch::count(&metadata));
        let count = open_of(&delivered.ack_set, all);
        if !self.permits.receive(delivered.consumer_id, count, bytes.len()) || self.entries.contains_key(&key) {
            // Of a consumer that is gone; or delivered again on the same one although it is here.
            return;
        }
        let entry = Entry { partition: id.partition, unopened: Some(count), open: BTreeMap::new() };
        self.permits.count(key.0, i64::from(count));
        self.held_bytes += bytes.len();
        self.entries.insert(key, entry);
        let before = delivered.redelivery_count.unwrap_or_default();
        self.unopened.push_back(Unopened { key, count, bytes, ack_set: delivered.ack_set, before });
    }

    /// Opens entries until there is a message to hand over.
    fn open(&mut self) {
        while self.held.is_empty() {
            let Some(unopened) = self.unopened.pop_front() else { return };
            let Unopened { key, count, bytes, ack_set, before } = unopened;
            self.held_bytes -= bytes.len();
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let read = frame::entry(&bytes)
                .and_then(|(metadata, payload)| batch::messages(metadata, payload, ENTRY_BYTES_MAX));
            let (messages, invalid) = match read {
                Ok(messages) => (messages, None),
                Err(why) => (vec![Message { payload: bytes, ..Message::default() }], Some(why.0)),
            };
            for message in messages {
                let place = message.index.unwrap_or_default();
                // What can't be read stands for all its messages, whichever of them are acknowledged.
                if invalid.is_none() && is_acknowledged(&ack_set, place) {
                    continue;
                }
                self.held_bytes += message.payload.len();
                entry.open.insert(place, None);
                self.held.push_back(Held { key, place, message, invalid, is_again: before > 0, before });
            }
            entry.unopened = None;
            self.permits.count(key.0, entry.count() - i64::from(count));
        }
    }

    /// Entries of which nothing is left to be settled, by consumer: to be acknowledged.
    pub(crate) fn done(&mut self) -> HashMap<u64, Vec<MessageIdData>> {
        let mut done: HashMap<u64, Vec<MessageIdData>> = HashMap::new();
        self.entries.retain(|(consumer, ledger, number), entry| {
            let is_done = entry.unopened.is_none() && entry.open.is_empty();
            if is_done {
                done.entry(*consumer).or_default().push(id(*ledger, *number, entry.partition));
            }
            !is_done
        });
        done
    }

    /// The next message that fits into so many bytes, and its token. The first of a pull always fits.
    pub(crate) fn next(&mut self, room: Option<usize>) -> Option<(Held, Vec<u8>)> {
        self.open();
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
        self.handed_bytes += held.message.payload.len();
        let token = self.token(held.key, held.place);
        Some((held, token))
    }

    /// Messages that wait, as far as entries that weren't opened tell.
    pub(crate) fn held(&self) -> usize {
        let unopened: usize = self.unopened.iter().map(|entry| usize::try_from(entry.count).unwrap_or_default()).sum();
        self.held.len() + unopened
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Bytes that wait or are in the host's hands.
    pub(crate) fn bytes(&self) -> usize {
        self.held_bytes + self.handed_bytes
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
        self.handed_bytes = self.handed_bytes.saturating_sub(held.message.payload.len());
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

    /// A consumer is gone: answers the tokens of what was handed over and can't be settled any more.
    pub(crate) fn remove_consumer(&mut self, consumer: u64) -> Vec<Vec<u8>> {
        let lost = self.tokens(|key| key.0 == consumer);
        self.revoke(consumer);
        self.permits.remove(consumer);
        lost
    }

    /// What a consumer has goes to another one. Answers whether it had something.
    pub(crate) fn revoke(&mut self, consumer: u64) -> bool {
        let keys: Vec<Key> = self.entries.keys().copied().filter(|key| key.0 == consumer).collect();
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
        self.permits.count(key.0, -entry.count());
        for held in entry.open.values().flatten() {
            self.handed = self.handed.saturating_sub(1);
            self.handed_bytes = self.handed_bytes.saturating_sub(held.message.payload.len());
        }
        let opened = self.held.iter().filter(|held| held.key == *key).map(|held| held.message.payload.len());
        let unopened = self.unopened.iter().filter(|entry| entry.key == *key).map(|entry| entry.bytes.len());
        self.held_bytes -= opened.chain(unopened).sum::<usize>();
        self.held.retain(|held| held.key != *key);
        self.unopened.retain(|entry| entry.key != *key);
    }

    fn close(&mut self, token: &[u8]) -> Option<()> {
        let (key, place) = self.named(token)?;
        let entry = self.entries.get_mut(&key)?;
        entry.open.get(&place)?.as_ref()?;
        let held = entry.open.remove(&place)??;
        self.handed = self.handed.saturating_sub(1);
        self.handed_bytes = self.handed_bytes.saturating_sub(held.message.payload.len());
        self.permits.count(key.0, -1);
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

impl Entry {
    /// Its messages that aren't settled.
    fn count(&self) -> i64 {
        self.unopened.map_or_else(|| i64::try_from(self.open.len()).unwrap_or(i64::MAX), i64::from)
    }
}

/// How many of so many messages aren't acknowledged. What the broker allowed is counted by that.
fn open_of(ack_set: &[i64], count: u32) -> u32 {
    let bits = || ack_set.iter().fold(0_u32, |bits, word| bits.saturating_add(word.count_ones()));
    if ack_set.is_empty() { count } else { count.min(bits()) }
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
