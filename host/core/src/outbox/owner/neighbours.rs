//! Who goes before a message and who waits behind it, of its key, as far as it is in memory.

use super::Owner;
use super::inspect::WhyWaiting;
use super::keys::KeyQueue;
use crate::ids::{KeyHash, MessageId, Seq};
use crate::outbox::records::DeadLetter;
use crate::time::{Now, UnixMillis};

/// Neighbours told on each side: what a person looks at.
pub const NEIGHBOURS_MAX: usize = 5;

/// A message of the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    pub id: MessageId,
    pub seq: Seq,
    pub created_at: UnixMillis,
    pub attempts: u32,
    /// What it waits for; none = it is a dead letter that holds the key.
    pub why: Option<WhyWaiting>,
}

/// Both sides of a message, each in order, the nearest of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Those that go before it, the nearest last. Dead letters that hold the key are among them.
    pub before: Vec<Neighbour>,
    /// How many more in memory do.
    pub further_before: usize,
    /// Those behind it, the nearest first. Dead letters that hold the key are among them, too.
    pub behind: Vec<Neighbour>,
    /// How many more in memory are.
    pub further_behind: usize,
}

impl Owner {
    /// The neighbours of a place in the order of a key; the message itself needn't be in memory. Of what isn't nothing is told.
    pub fn neighbours(&self, key: KeyHash, of: Seq, now: Now) -> Neighbours {
        let seqs = self.keys.get(key).map(KeyQueue::seqs).unwrap_or_default();
        let (before, rest) = seqs.split_at(seqs.partition_point(|seq| *seq < of));
        let behind = rest.strip_prefix(&[of]).unwrap_or(rest);
        // Each list is in order; of both the nearest are wanted.
        let held_before = self.keys.held_by(key).filter(|dead| dead.place.seq() < of);
        let flowing = before.iter().rev().take(NEIGHBOURS_MAX).filter_map(|seq| self.neighbour(*seq, now));
        let mut nearest: Vec<Neighbour> = held_before.rev().take(NEIGHBOURS_MAX).map(holder).chain(flowing).collect();
        nearest.sort_by_key(|neighbour| neighbour.seq);
        let over = nearest.len().saturating_sub(NEIGHBOURS_MAX);
        nearest.drain(..over);
        let held_behind = self.keys.held_by(key).filter(|dead| dead.place.seq() > of);
        let flowing = behind.iter().take(NEIGHBOURS_MAX).filter_map(|seq| self.neighbour(*seq, now));
        let mut next: Vec<Neighbour> = held_behind.take(NEIGHBOURS_MAX).map(holder).chain(flowing).collect();
        next.sort_by_key(|neighbour| neighbour.seq);
        next.truncate(NEIGHBOURS_MAX);
        let all_before = before.len() + self.keys.held_by(key).filter(|dead| dead.place.seq() < of).count();
        let all_behind = behind.len() + self.keys.held_by(key).filter(|dead| dead.place.seq() > of).count();
        Neighbours {
            further_before: all_before.saturating_sub(nearest.len()),
            before: nearest,
            further_behind: all_behind.saturating_sub(next.len()),
            behind: next,
        }
    }

    fn neighbour(&self, seq: Seq, now: Now) -> Option<Neighbour> {
        let slot = self.slots.get(&seq)?;
        Some(Neighbour {
            id: slot.message.id.clone(),
            seq,
            created_at: slot.message.created_at,
            attempts: slot.attempts,
            why: self.why_waiting(seq, now),
        })
    }
}

/// A dead letter that holds the key.
fn holder(dead: &DeadLetter) -> Neighbour {
    Neighbour {
        id: dead.message.id.clone(),
        seq: dead.place.seq(),
        created_at: dead.message.created_at,
        attempts: dead.attempts,
        why: None,
    }
}
