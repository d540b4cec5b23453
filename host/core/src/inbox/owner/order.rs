//! Part: which message of a key goes first.

use std::collections::{BTreeSet, HashMap};

use crate::ids::Seq;
use crate::inbox::fingerprint::OrderTag;

/// All messages in memory with a key, in order.
#[derive(Debug, Default)]
pub(super) struct Order {
    keys: HashMap<OrderTag, BTreeSet<Seq>>,
}

impl Order {
    pub fn insert(&mut self, tag: OrderTag, seq: Seq) {
        self.keys.entry(tag).or_default().insert(seq);
    }

    pub fn remove(&mut self, tag: OrderTag, seq: Seq) {
        if let Some(seqs) = self.keys.get_mut(&tag) {
            seqs.remove(&seq);
            if seqs.is_empty() {
                self.keys.remove(&tag);
            }
        }
    }

    pub fn head(&self, tag: OrderTag) -> Option<Seq> {
        self.keys.get(&tag)?.first().copied()
    }

    /// Everything of a key before a place, in order.
    pub fn before(&self, tag: OrderTag, seq: Seq) -> impl Iterator<Item = Seq> + use<'_> {
        self.keys.get(&tag).into_iter().flat_map(move |seqs| seqs.range(..seq)).copied()
    }

    /// Everything of a key, in order.
    pub fn all(&self, tag: OrderTag) -> Vec<Seq> {
        self.keys.get(&tag).into_iter().flatten().copied().collect()
    }
}
