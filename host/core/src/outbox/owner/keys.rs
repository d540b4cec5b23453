//! The order of keys: which message of a key goes first, and which keys a dead letter holds.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::spread::Spread;
use crate::ids::{KeyHash, Seq};
use crate::outbox::records::DeadLetter;

/// Messages of one key in memory.
///
/// At most one of them is being sent or settled: the key is busy with it. Another one may come to lie before it meanwhile.
#[derive(Debug, Default)]
pub(super) struct KeyQueue {
    seqs: Vec<Seq>,
    busy: Option<Seq>,
}

impl KeyQueue {
    pub fn seqs(&self) -> &[Seq] {
        &self.seqs
    }
    pub fn head(&self) -> Option<Seq> {
        self.seqs.first().copied()
    }
    /// The one that is being sent or settled.
    pub fn busy(&self) -> Option<Seq> {
        self.busy
    }
    fn insert(&mut self, seq: Seq) {
        if let Err(at) = self.seqs.binary_search(&seq) {
            self.seqs.insert(at, seq);
        }
    }
    fn remove(&mut self, seq: Seq) {
        if let Ok(at) = self.seqs.binary_search(&seq) {
            self.seqs.remove(at);
        }
        self.free(seq);
    }
    fn free(&mut self, seq: Seq) {
        self.busy = self.busy.filter(|busy| *busy != seq);
    }
    fn is_unused(&self) -> bool {
        self.seqs.is_empty() && self.busy.is_none()
    }
}

/// The keys with messages in memory, and those that dead letters hold (`hold_key`).
///
/// A queue is kept only while it has a message, and so is the list of a key's dead letters.
#[derive(Debug, Default)]
pub(super) struct Keys {
    queues: HashMap<KeyHash, KeyQueue, Spread>,
    holders: HashMap<KeyHash, BTreeMap<Seq, Arc<DeadLetter>>>,
}

impl Keys {
    pub fn get(&self, key: KeyHash) -> Option<&KeyQueue> {
        self.queues.get(&key)
    }

    /// Whether anything of a key is in memory.
    pub fn contains(&self, key: KeyHash) -> bool {
        self.queues.contains_key(&key)
    }

    /// How many messages of a key are in memory.
    pub fn len_of(&self, key: KeyHash) -> usize {
        self.get(key).map_or(0, |queue| queue.seqs.len())
    }

    pub fn iter(&self) -> impl Iterator<Item = (KeyHash, &KeyQueue)> {
        self.queues.iter().map(|(key, queue)| (*key, queue))
    }

    /// The message that goes first.
    pub fn head(&self, key: KeyHash) -> Option<Seq> {
        self.get(key)?.head()
    }

    /// A message comes to memory. The one that went first before.
    pub fn insert(&mut self, key: KeyHash, seq: Seq) -> Option<Seq> {
        let queue = self.queues.entry(key).or_default();
        let head = queue.head();
        queue.insert(seq);
        head
    }

    /// A message leaves memory. True when it was the last of its key.
    pub fn remove(&mut self, key: KeyHash, seq: Seq) -> bool {
        let Some(queue) = self.queues.get_mut(&key) else { return false };
        queue.remove(seq);
        let is_unused = queue.is_unused();
        if is_unused {
            self.queues.remove(&key);
        }
        is_unused
    }

    /// A message is being sent or settled from now on.
    pub fn begin(&mut self, key: Option<KeyHash>, seq: Seq) {
        if let Some(queue) = key.and_then(|key| self.queues.get_mut(&key)) {
            queue.busy = Some(seq);
        }
    }

    /// The message that was being sent comes back. The one that goes first now.
    pub fn put_back(&mut self, key: Option<KeyHash>) -> Option<Seq> {
        let queue = self.queues.get_mut(&key?)?;
        queue.busy = None;
        queue.head()
    }

    /// The message that was being settled left or moved. The one that goes first now.
    pub fn free(&mut self, key: KeyHash, seq: Seq) -> Option<Seq> {
        let queue = self.queues.get_mut(&key)?;
        queue.free(seq);
        let head = queue.head();
        if queue.is_unused() {
            self.queues.remove(&key);
        }
        head
    }

    /// A dead letter holds its key, if it has one.
    pub fn hold(&mut self, dead: Arc<DeadLetter>) {
        if let Some(key) = key_of(&dead) {
            self.holders.entry(key).or_default().insert(dead.place.seq(), dead);
        }
    }

    /// A dead letter holds its key no longer, if it did. Its key, if so.
    pub fn release(&mut self, dead: &DeadLetter) -> Option<KeyHash> {
        let key = key_of(dead)?;
        let holders = self.holders.get_mut(&key)?;
        holders.remove(&dead.place.seq())?;
        if holders.is_empty() {
            self.holders.remove(&key);
        }
        Some(key)
    }

    /// The first dead letter that holds a key.
    pub fn holder(&self, key: KeyHash) -> Option<&DeadLetter> {
        self.holders.get(&key)?.values().next().map(Arc::as_ref)
    }

    /// The dead letters that hold a key, in order.
    pub fn held_by(&self, key: KeyHash) -> impl DoubleEndedIterator<Item = &DeadLetter> {
        self.holders.get(&key).into_iter().flat_map(BTreeMap::values).map(Arc::as_ref)
    }

    /// The first dead letter of each key that is held.
    pub fn holders(&self) -> impl Iterator<Item = (KeyHash, &DeadLetter)> {
        self.holders.iter().filter_map(|(key, dead)| Some((*key, dead.values().next()?.as_ref())))
    }

    /// Whether a dead letter before it holds its key.
    pub fn is_fenced(&self, key: KeyHash, seq: Seq) -> bool {
        self.holder(key).is_some_and(|dead| dead.place.seq() < seq)
    }
}

fn key_of(dead: &DeadLetter) -> Option<KeyHash> {
    dead.message.key.as_ref().map(|key| KeyHash::of(&dead.message.tenant, key))
}
