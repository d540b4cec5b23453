//! What the store keeps of streams, and the commits that write it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::chunk::{Chunk, StoredChunk};
use super::event::{EventDigest, NewEvent};
use super::limits::RELAY_STOPS_KNOWN;
use super::name::StreamKey;
use crate::ids::{EventId, RelayName, ShardId, Tenant};
use crate::outbox::records::{DoorKey, Malformed};
use crate::time::UnixMillis;
use crate::tx_event::TxRecord;

/// `stream_shard:n`: who numbers the streams of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamShardRecord {
    /// Fencing token of the shard's owner.
    pub token: u64,
    /// Grows by one with every commit.
    pub beat: u64,
    /// Fresh random number with every commit: tells whose commit went in.
    pub nonce: u64,
    /// Number of the last feed record.
    pub pos: u64,
    /// Up to which feed record all events are settled, of each relay.
    pub marks: BTreeMap<RelayName, u64>,
    /// The feed record behind which a relay began that begins with the latest events, of each such relay.
    pub starts: BTreeMap<RelayName, u64>,
}

/// `stream:[tenant, stream]`: written by whoever gives out a number. A deleted stream keeps it, so numbers never start again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamHead {
    /// Highest number given out.
    pub last: u64,
    /// Up to where the feed names events, as far as who wrote this knew.
    pub fed: u64,
    /// Bytes of all events that it ever had.
    pub bytes: u64,
}

/// `stream_rest:[tenant, stream]`: written by adoption and upkeep, so that these never abort an exact append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRest {
    /// The first number that is kept.
    pub first: u64,
    /// Up to where the feed names events.
    pub fed: u64,
    /// The highest number of a tombstone that was dropped.
    pub purged: u64,
    /// The highest place in the feed of what was trimmed or dropped as a tombstone.
    pub gone: u64,
    /// The time of the row that says when its age is looked at; none = it has no row.
    pub due: Option<UnixMillis>,
    /// Up to where the index of resources tells of its events.
    pub indexed: u64,
}

impl Default for StreamRest {
    fn default() -> Self {
        Self { first: 1, fed: 0, purged: 0, gone: 0, due: None, indexed: 0 }
    }
}

impl StreamRest {
    /// Up to where the feed names the stream's events.
    pub fn named_to(&self, head: &StreamHead) -> u64 {
        self.fed.max(head.fed)
    }
}

/// A resource: its type and its id.
pub type Resource = (String, String);

/// What a commit added to a stream: from one number to another, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedPart {
    pub stream: StreamKey,
    pub from: u64,
    pub to: u64,
}

/// `stream_feed:[shard, pos]`: what one commit added. Numbered without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRecord {
    pub pos: u64,
    /// When it was written, by its writer's steady clock: it is kept for a time.
    pub at: UnixMillis,
    pub parts: Vec<FeedPart>,
}

/// Events of one append, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    pub stream: StreamKey,
    pub events: Vec<NewEvent>,
    /// Trace context of who appends, for spans of this process: it isn't stored.
    pub traceparent: Option<Arc<str>>,
}

impl Append {
    /// One that is part of no trace.
    pub fn new(stream: StreamKey, events: Vec<NewEvent>) -> Self {
        Self { stream, events, traceparent: None }
    }

    /// Bytes that it is counted with against a commit's bound.
    pub fn weight(&self) -> usize {
        self.events.iter().map(|event| event.packed.len() + 64).sum()
    }
}

/// An append for the doorstep of a shard of streams.
pub type DoorAppend = (ShardId, Arc<Append>);

/// What a row of the doorstep says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoorContent {
    Append(Arc<Append>),
    /// An exact append was made here: adopt it.
    Look(StreamKey),
}

impl DoorContent {
    pub fn stream(&self) -> &StreamKey {
        match self {
            Self::Append(append) => &append.stream,
            Self::Look(stream) => stream,
        }
    }
}

/// `stream_door:[shard, nanos, ordinal, ulid]`, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDoorRow {
    pub key: DoorKey,
    pub content: Result<DoorContent, Malformed>,
}

/// `event_id:[tenant, id]`: of ids that callers chose or that were derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventIdRecord {
    pub stream: StreamKey,
    pub seq: u64,
    pub digest: EventDigest,
    /// When it was recorded, by the steady clock of who numbered its event: it is known for a time.
    pub at: UnixMillis,
}

/// Key of an id in the index.
pub type EventIdKey = (Tenant, EventId);

/// `relay_at:[relay, tenant, stream]`: what a relay has done of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Everything up to this number is settled.
    pub upto: u64,
    /// Numbers beyond it that are settled.
    pub done: BTreeSet<u64>,
    /// Grows with each seek.
    pub generation: u64,
}

impl Checkpoint {
    /// Whether a number is settled.
    pub fn covers(&self, seq: u64) -> bool {
        seq <= self.upto || self.done.contains(&seq)
    }
}

/// What is said of a relay for every host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayWord {
    /// An operator has it pause.
    Pause,
    /// An operator has it go on, also if it has stopped.
    Resume,
    /// It has stopped by itself.
    Stop(RelayStop),
}

/// One stop of a relay by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayStop {
    /// By this it is known again when it is told again, because the answer to the first time was lost.
    pub key: u64,
    pub reason: String,
}

/// `relay/NAME`: what was said last of a relay, for every host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayNote {
    pub is_paused: bool,
    /// Why it has stopped by itself. A pause doesn't end that, a resume does.
    pub stopped: Option<String>,
    /// Grows with each word: a host knows by it whether it has heard the last one.
    pub number: u64,
    /// Keys of the last stops, the latest last.
    pub stops: Vec<u64>,
}

impl RelayNote {
    /// What is noted behind one more word. A stop that is noted already changes nothing: it may have been resumed since.
    #[must_use]
    pub fn after(self, word: &RelayWord) -> Self {
        let mut next = Self { number: self.number.saturating_add(1), ..self };
        match word {
            RelayWord::Pause => next.is_paused = true,
            RelayWord::Resume => (next.is_paused, next.stopped) = (false, None),
            RelayWord::Stop(stop) if next.stops.contains(&stop.key) => next.number = self.number,
            RelayWord::Stop(stop) => {
                next.stopped = Some(stop.reason.clone());
                let over = (next.stops.len() + 1).saturating_sub(RELAY_STOPS_KNOWN);
                next.stops.drain(..over);
                next.stops.push(stop.key);
            }
        }
        next
    }
}

/// Why a broker, or the numbering of the doorstep, refused an event for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: String,
    pub reason: String,
}

/// A dead letter of streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamDead {
    /// An event of the doorstep that can't be numbered.
    Door { key: DoorKey, stream: StreamKey, event: NewEvent, why: Refusal },
    /// An event that a relay's broker refused for good.
    Relay { relay: RelayName, stream: StreamKey, seq: u64, packed: bytes::Bytes, why: Refusal },
}

/// One change of what is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamWrite {
    PutHead {
        stream: StreamKey,
        head: StreamHead,
    },
    PutRest {
        stream: StreamKey,
        rest: StreamRest,
    },
    /// Writes a chunk, new or again. Its key is its last number.
    PutChunk {
        stream: StreamKey,
        key: u64,
        chunk: Arc<Chunk>,
    },
    DeleteChunk {
        stream: StreamKey,
        key: u64,
    },
    /// The payload of an event, beside its chunk ([`super::blob`]).
    PutBlob {
        stream: StreamKey,
        seq: u64,
        payload: bytes::Bytes,
    },
    DeleteBlob {
        stream: StreamKey,
        seq: u64,
    },
    /// Puts an id that isn't there; where it is, nothing of the commit is written ([`crate::port::store::StoreError::Exists`]).
    CreateId {
        id: EventIdKey,
        record: EventIdRecord,
    },
    PutFeed(FeedRecord),
    /// Removes the shard's feed records up to this one.
    TrimFeed(u64),
    /// Puts a row on a shard's doorstep, under the store's next stamp.
    PutDoor {
        shard: ShardId,
        content: DoorContent,
    },
    DeleteDoor(DoorKey),
    /// Moves a row that can't be read to quarantine.
    QuarantineDoor {
        key: DoorKey,
        reason: String,
    },
    PutDead(Box<StreamDead>),
    /// Writes what the audit trail says of the commit.
    PutTxEvents(Arc<TxRecord>),
    /// The stream has events of this node, and of this type: selectors find it.
    PutNode {
        stream: StreamKey,
        node: String,
    },
    PutType {
        stream: StreamKey,
        resource_type: String,
    },
    /// Puts the row that says in which chunk a resource has events, under the number of the last one there, and takes it away.
    PutResource {
        stream: StreamKey,
        resource: Resource,
        seq: u64,
    },
    DeleteResource {
        stream: StreamKey,
        resource: Resource,
        seq: u64,
    },
    /// Puts the row that says when the age of a stream is looked at, and takes it away.
    PutDue {
        shard: ShardId,
        at: UnixMillis,
        stream: StreamKey,
    },
    DeleteDue {
        shard: ShardId,
        at: UnixMillis,
        stream: StreamKey,
    },
    PutCheckpoint {
        relay: RelayName,
        stream: StreamKey,
        checkpoint: Checkpoint,
    },
    /// Retention took a range before the relay had it; for operators.
    NoteOvertaken {
        relay: RelayName,
        stream: StreamKey,
        from: u64,
        to: u64,
    },
}

impl StreamWrite {
    /// Bytes it is counted with against a commit's bound.
    pub fn weight(&self) -> usize {
        match self {
            Self::PutChunk { chunk, .. } => chunk.packed_bytes() + 24 * chunk.events.len() + 128,
            Self::PutBlob { payload, .. } => payload.len() + 128,
            Self::PutDead(dead) => match dead.as_ref() {
                StreamDead::Door { event, .. } => event.packed.len() + 256,
                StreamDead::Relay { packed, .. } => packed.len() + 256,
            },
            Self::PutFeed(record) => 64 + 96 * record.parts.len(),
            Self::PutTxEvents(record) => record.weight() + 128,
            _ => 128,
        }
    }
}

/// One transaction of the owner of a shard's streams. It goes in only if the stored record has `expect_token` and `expect_beat` and each
/// head stands at the number that is named here; the record is written every time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCommit {
    pub shard: ShardId,
    pub expect_token: u64,
    pub expect_beat: u64,
    /// The record to write: beat one higher, nonce fresh.
    pub record: StreamShardRecord,
    /// Last numbers of the streams that it numbers in.
    pub heads: Vec<(StreamKey, u64)>,
    pub writes: Vec<StreamWrite>,
}

/// What became of a commit that didn't fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamCommitted {
    Applied,
    /// Nothing was written: these heads stand elsewhere, at these numbers. Token and beat were as expected.
    Moved(Vec<(StreamKey, u64)>),
}

/// A stream as one snapshot shows it to who numbers or adopts in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamView {
    pub head: StreamHead,
    pub rest: StreamRest,
    /// Chunks that the feed hasn't named, in order: a first part of them where they have many bytes.
    pub unnamed: Vec<StoredChunk>,
}

impl StreamView {
    /// Bytes of events in it.
    pub fn bytes(&self) -> usize {
        self.unnamed.iter().map(|stored| stored.chunk.as_ref().map_or(0, |chunk| chunk.bytes())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_is_told_again_undoes_no_resume_and_another_one_stops() {
        let stop = |key| RelayWord::Stop(RelayStop { key, reason: "a refusal".to_owned() });
        let stopped = RelayNote::default().after(&stop(7));
        assert_eq!((stopped.stopped.as_deref(), stopped.number), (Some("a refusal"), 1));
        assert_eq!(stopped.clone().after(&stop(7)), stopped);
        let resumed = stopped.after(&RelayWord::Resume);
        assert_eq!(resumed.clone().after(&stop(7)), resumed);
        let again = resumed.after(&stop(8));
        assert_eq!((again.stopped.as_deref(), again.number), (Some("a refusal"), 3));
        // However many others stopped and were resumed in between, up to the bound.
        let others = (100..).take(RELAY_STOPS_KNOWN - 1);
        let later = others.fold(again, |note, key| note.after(&stop(key))).after(&RelayWord::Resume);
        assert_eq!(later.clone().after(&stop(8)), later);
        assert_eq!((later.stops.len(), later.stops.contains(&7)), (RELAY_STOPS_KNOWN, false));
    }
}
