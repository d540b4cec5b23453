//! Upkeep of a stream, by its owner: chunks are merged, trimmed from the front, compacted.
//!
//! Each act is decided over one snapshot and goes into one guarded commit, on chunks that the feed has named, never on a stream that this
//! commit numbers or seeks in. Nothing goes that a holding relay's checkpoint, read in the same snapshot, lacks.
//!
//! | file | holds |
//! |---|---|
//! | `merge` | small chunks become one |
//! | `trim` | retention: whole chunks from the front |
//! | `compact` | the last event of each resource stays |
//! | `due` | when the age of an idle stream is looked at |
//! | `index` | where in a stream a resource has events |

mod compact;
mod due;
mod index;
mod merge;
mod trim;

use std::sync::Arc;
use std::time::Duration;

pub use compact::{Latest, compact};
pub use due::due;
pub use index::Indexing;
pub use merge::{MergeSettings, Merged, merge, sealed_to, waiting};
pub use trim::trim;

use super::chunk::Chunk;
use super::name::StreamKey;
use super::records::{Checkpoint, StreamHead, StreamRest, StreamWrite};
use super::rules::{Rule, Rules};
use crate::port::stream_store::StreamSlice;
use crate::time::UnixMillis;

/// What of a stream is kept at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// So many of the latest events; none = it isn't counted.
    pub keep_count: Option<u64>,
    /// Events committed within so long.
    pub keep_age: Option<Duration>,
    /// So many bytes of the latest events.
    pub keep_bytes: Option<u64>,
}

/// Which events of a stream replace earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// How long a delete stays when nothing of its resource is left; none = for ever.
    pub tombstone_keep: Option<Duration>,
}

/// A stream as upkeep sees it, in one snapshot.
#[derive(Clone, Debug)]
pub struct UpkeepView {
    pub stream: StreamKey,
    /// Beat of the shard when it was read, with no commit out.
    pub beat: u64,
    pub head: StreamHead,
    pub rest: StreamRest,
    /// Chunks from the front, named by the feed, in order; without any that can't be read, and nothing behind one.
    pub chunks: Vec<Arc<Chunk>>,
    /// Everything up to here may go: what no holding relay lacks.
    pub free_to: u64,
}

impl UpkeepView {
    /// What was read of a stream from its front, with the checkpoints of the relays that hold it.
    pub fn new(stream: StreamKey, beat: u64, slice: &StreamSlice, holding: &[Checkpoint], rules: Rules) -> Self {
        let named_to = slice.rest.named_to(&slice.head);
        let mut chunks: Vec<Arc<Chunk>> = Vec::with_capacity(slice.chunks.len());
        for stored in &slice.chunks {
            match &stored.chunk {
                Ok(chunk) if chunk.is_named() && chunk.last <= named_to => chunks.push(Arc::clone(chunk)),
                _ => break,
            }
        }
        let held = holding.iter().map(|checkpoint| checkpoint.upto).min();
        let free_to = held.filter(|_| rules.kept(Rule::UpkeepHolds)).unwrap_or(u64::MAX);
        Self { stream, beat, head: slice.head, rest: slice.rest, chunks, free_to }
    }
}

/// One act of upkeep, for the next commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    pub stream: StreamKey,
    /// It is of no use once the shard stands at another beat.
    pub beat: u64,
    pub writes: Vec<StreamWrite>,
    pub events: u64,
}

impl Act {
    fn of(view: &UpkeepView, writes: Vec<StreamWrite>, events: u64) -> Self {
        Self { stream: view.stream.clone(), beat: view.beat, writes, events }
    }

    /// Whether it drops deletes, so that readers before them begin anew.
    pub fn raises_purged(&self, before: &StreamRest) -> bool {
        self.rest().is_some_and(|rest| rest.purged > before.purged)
    }

    /// Up to where the index of resources goes with it, if it goes further.
    pub fn indexed_to(&self, before: &StreamRest) -> Option<u64> {
        self.rest().map(|rest| rest.indexed).filter(|indexed| *indexed > before.indexed)
    }

    /// Chunks that it writes and that may be merged.
    pub fn small_chunks(&self, settings: MergeSettings) -> usize {
        let is_small =
            |write: &&StreamWrite| matches!(write, StreamWrite::PutChunk { chunk, .. } if !settings.is_sealed(chunk));
        self.writes.iter().filter(is_small).count()
    }

    /// What is kept of the stream after it, if that changes.
    pub(super) fn rest(&self) -> Option<StreamRest> {
        self.writes.iter().find_map(|write| match write {
            StreamWrite::PutRest { rest, .. } => Some(*rest),
            _ => None,
        })
    }
}

/// Whether an instant is at least so long before another.
fn is_older(at: UnixMillis, keep: Duration, now: UnixMillis) -> bool {
    at.plus(keep) <= now
}

#[cfg(test)]
mod fixtures {
    use super::*;
    use crate::streams::chunk::StoredEvent;
    use crate::streams::envelope;
    use crate::streams::event::tests::event;
    use crate::streams::event::{Event, Op};
    use crate::streams::fixtures::stream;

    /// An event of a resource; of one in upper case a delete.
    pub fn stored(seq: u64, resource: &str) -> StoredEvent {
        let op = if resource.chars().all(char::is_uppercase) { Op::DELETE } else { Op::UPDATE };
        let event = Event { resource_id: resource.to_lowercase(), op, ..event(&format!("e{seq}")) };
        StoredEvent { seq, pos: seq * 10, packed: envelope::pack(&event).into(), apart: 0 }
    }

    /// Chunks of resources, one after another from number 1 on.
    pub fn view(chunks: &[&[&str]]) -> UpkeepView {
        let (mut last, mut total, mut all) = (0, 0, Vec::new());
        for resources in chunks {
            let from = last;
            let mut events = Vec::new();
            for resource in *resources {
                last += 1;
                events.push(stored(last, resource));
            }
            let mut chunk = Chunk { from, last, total, at: UnixMillis(last * 1_000), events };
            chunk.total += chunk.bytes() as u64;
            total = chunk.total;
            all.push(Arc::new(chunk));
        }
        UpkeepView {
            stream: stream("a"),
            beat: 4,
            head: StreamHead { last, fed: last, bytes: total },
            rest: StreamRest { fed: last, ..StreamRest::default() },
            chunks: all,
            free_to: u64::MAX,
        }
    }

    /// Numbers of each chunk as an act leaves them, and what is kept.
    pub fn after(view: &UpkeepView, act: &Act) -> (Vec<(u64, u64, Vec<u64>)>, StreamRest) {
        let mut chunks: std::collections::BTreeMap<u64, Arc<Chunk>> =
            view.chunks.iter().map(|chunk| (chunk.last, Arc::clone(chunk))).collect();
        for write in &act.writes {
            match write {
                StreamWrite::PutChunk { key, chunk, .. } => drop(chunks.insert(*key, Arc::clone(chunk))),
                StreamWrite::DeleteChunk { key, .. } => assert!(chunks.remove(key).is_some(), "{key} isn't there"),
                StreamWrite::PutRest { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        let seqs = |chunk: &Chunk| chunk.events.iter().map(|event| event.seq).collect();
        let left = chunks.values().map(|chunk| (chunk.from, chunk.last, seqs(chunk))).collect();
        (left, act.rest().unwrap_or(view.rest))
    }
}
