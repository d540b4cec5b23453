//! Part: what is known of streams from commits before, so that they needn't be read again. Never trusted: each commit says which heads
//! it takes to stand, and the store compares.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::streams::name::StreamKey;
use crate::streams::records::{StreamHead, StreamRest};

/// What is known of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub head: StreamHead,
    pub rest: StreamRest,
    /// Nodes and types under which selectors find it already, as far as this owner wrote them.
    pub nodes: BTreeSet<String>,
    pub types: BTreeSet<String>,
}

/// Nodes and types remembered of one stream; past it they are written again.
const SELECTORS_KNOWN_MAX: usize = 32;

impl Known {
    /// Whether a row for a node is to be written.
    pub fn is_new_node(&mut self, node: &str) -> bool {
        insert(&mut self.nodes, node)
    }

    /// Whether a row for a type is to be written.
    pub fn is_new_type(&mut self, resource_type: &str) -> bool {
        insert(&mut self.types, resource_type)
    }
}

fn insert(known: &mut BTreeSet<String>, word: &str) -> bool {
    if word.is_empty() || known.contains(word) {
        return false;
    }
    if known.len() >= SELECTORS_KNOWN_MAX {
        known.clear();
    }
    known.insert(word.to_owned())
}

/// What is known of the streams of a shard, the latest ones.
#[derive(Debug, Default)]
pub(super) struct Heads {
    known: BTreeMap<StreamKey, (u64, Known)>,
    /// By when they were learnt; an entry that was learnt again since has another number.
    order: VecDeque<(u64, StreamKey)>,
    number: u64,
}

impl Heads {
    pub fn get(&self, stream: &StreamKey) -> Option<&Known> {
        self.known.get(stream).map(|(_, known)| known)
    }

    pub fn forget(&mut self, stream: &StreamKey) {
        self.known.remove(stream);
    }

    pub fn learn(&mut self, stream: StreamKey, known: Known, count_max: usize) {
        self.number += 1;
        self.order.push_back((self.number, stream.clone()));
        self.known.insert(stream, (self.number, known));
        // The order holds at most one outdated entry for each that counts.
        while self.known.len() > count_max || self.order.len() > 2 * count_max.max(1) {
            let Some((number, oldest)) = self.order.pop_front() else { break };
            match self.known.get(&oldest) {
                Some((latest, _)) if *latest == number => {
                    self.known.remove(&oldest);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::fixtures::stream;

    #[test]
    fn the_latest_are_remembered_and_no_more_than_the_bound() {
        let mut heads = Heads::default();
        for number in 0..100 {
            heads.learn(stream("hot"), Known::default(), 3);
            heads.learn(stream(&format!("s{number}")), Known::default(), 3);
        }
        assert!(heads.get(&stream("hot")).is_some() && heads.get(&stream("s99")).is_some());
        assert!(heads.get(&stream("s90")).is_none() && heads.order.len() <= 6);
        heads.forget(&stream("hot"));
        assert!(heads.get(&stream("hot")).is_none());
    }

    #[test]
    fn a_selector_is_written_once() {
        let mut known = Known::default();
        assert!(known.is_new_type("TASK") && !known.is_new_type("TASK") && !known.is_new_node(""));
        assert!((0..40).all(|number| known.is_new_node(&number.to_string())) && known.nodes.len() <= 32);
    }
}
