//! Events and commits of streams to write and compare.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{EventId, RelayName, ShardId};
use waybill_core::port::stream_store::{DoorQuery, PassFound, PassQuery, StreamStore};
use waybill_core::streams::chunk::{Chunk, StoredChunk, StoredEvent};
use waybill_core::streams::event::{Body, Event, EventLimits, NewEvent, Op};
use waybill_core::streams::exact::ExactAppend;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::records::{
    Append, EventIdRecord, FeedPart, FeedRecord, StreamCommit, StreamCommitted, StreamHead, StreamShardRecord,
    StreamView, StreamWrite,
};
use waybill_core::time::UnixMillis;

use super::samples::{SHARD, T0, tenant};

/// More than any sample has.
pub const ALL_BYTES: usize = 1 << 20;

pub fn name(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

pub fn stream(text: &str) -> StreamKey {
    StreamKey { tenant: tenant("acme"), name: name(text) }
}

pub fn event_id(text: &str) -> EventId {
    EventId::new(text).unwrap()
}

pub fn relay(text: &str) -> RelayName {
    RelayName::new(text).unwrap()
}

/// An event with every field set.
pub fn full_event(id: &str) -> Event {
    Event {
        node_uuid: Some("node-1".into()),
        correlation_id: Some("correlation".into()),
        cause: Some("scheduling".into()),
        headers: BTreeMap::from([("a".into(), "1".into()), ("größe".into(), String::new())]),
        body: Body::Any { type_url: "types/Task".into(), value: Bytes::from_static(&[0, 255, 10, 13, 0]) },
        op: Op(41),
        schema_version: u32::MAX,
        ..event(id)
    }
}

/// An event with few fields set.
pub fn event(id: &str) -> Event {
    Event {
        id: event_id(id),
        ts: T0,
        resource_type: "TASK".into(),
        resource_id: "t-1".into(),
        op: Op::UPDATE,
        schema_version: 1,
        node_uuid: None,
        correlation_id: None,
        cause: None,
        headers: BTreeMap::new(),
        content_type: Some("application/json".into()),
        body: Body::Bytes(Bytes::from(format!("{{\"id\":\"{id}\"}}"))),
    }
}

pub fn admitted(event: Event, is_indexed: bool) -> NewEvent {
    event.admit(&name("a"), &EventLimits::default(), is_indexed).unwrap()
}

/// Events with ids that callers chose.
pub fn append(to: &str, ids: &[&str]) -> Append {
    Append::new(stream(to), ids.iter().map(|id| admitted(event(id), true)).collect())
}

pub fn exact(to: &str, ids: &[&str], expected: u64) -> ExactAppend {
    ExactAppend::new(append(to, ids), expected, 1)
}

/// Consecutive events behind a number, named at a place in the feed.
pub fn chunk(from: u64, pos: u64, ids: &[&str]) -> Chunk {
    let events = (from + 1..).zip(ids).map(|(seq, id)| {
        let packed = admitted(event(id), false).packed;
        StoredEvent { seq, pos, packed, apart: 0 }
    });
    let events: Vec<StoredEvent> = events.collect();
    let total = 1_000 + from;
    Chunk { from, last: from + events.len() as u64, total, at: T0, events }
}

pub fn put_chunk(stream: &StreamKey, chunk: &Chunk) -> StreamWrite {
    StreamWrite::PutChunk { stream: stream.clone(), key: chunk.last, chunk: Arc::new(chunk.clone()) }
}

pub fn stored(chunk: &Chunk) -> StoredChunk {
    StoredChunk { last: chunk.last, chunk: Ok(Arc::new(chunk.clone())) }
}

pub fn id_of(append: &Append, slot: usize, seq: u64) -> StreamWrite {
    let event = &append.events[slot];
    let record = EventIdRecord { stream: append.stream.clone(), seq, digest: event.digest, at: at(seq) };
    StreamWrite::CreateId { id: (append.stream.tenant.clone(), event.id.clone()), record }
}

/// The owner of a shard's streams, who remembers its record.
pub struct Writer {
    pub shard: ShardId,
    pub record: StreamShardRecord,
}

impl Writer {
    pub fn new() -> Self {
        Self::of(SHARD)
    }

    pub fn of(shard: ShardId) -> Self {
        Self { shard, record: StreamShardRecord::default() }
    }

    /// A commit that goes in behind the last one.
    pub fn next(&self) -> StreamCommit {
        let record = StreamShardRecord {
            token: self.record.token.max(1),
            beat: self.record.beat + 1,
            // A number that is negative for a signed integer.
            nonce: u64::MAX - self.record.beat,
            ..self.record.clone()
        };
        StreamCommit {
            shard: self.shard,
            expect_token: self.record.token,
            expect_beat: self.record.beat,
            record,
            heads: Vec::new(),
            writes: Vec::new(),
        }
    }

    pub async fn commit(&mut self, store: &impl StreamStore, change: impl FnOnce(&mut StreamCommit)) {
        let mut commit = self.next();
        change(&mut commit);
        let record = commit.record.clone();
        assert_eq!(store.commit_streams(commit).await.unwrap(), StreamCommitted::Applied);
        self.record = record;
    }

    pub async fn write(&mut self, store: &impl StreamStore, writes: Vec<StreamWrite>) {
        self.commit(store, |commit| commit.writes = writes).await;
    }

    /// A commit that numbers events behind the end of a stream as it was found, and names them.
    pub fn numbering(&self, head: StreamHead, to: &StreamKey, ids: &[&str]) -> StreamCommit {
        let mut commit = self.next();
        commit.record.pos += 1;
        let chunk = chunk(head.last, commit.record.pos, ids);
        let head_then = StreamHead { last: chunk.last, fed: chunk.last, bytes: chunk.total };
        let part = FeedPart { stream: to.clone(), from: head.last + 1, to: chunk.last };
        commit.heads = vec![(to.clone(), head.last)];
        commit.writes = vec![
            StreamWrite::PutHead { stream: to.clone(), head: head_then },
            put_chunk(to, &chunk),
            StreamWrite::PutFeed(FeedRecord { pos: commit.record.pos, at: at(commit.record.pos), parts: vec![part] }),
        ];
        commit
    }

    /// Numbers events of a stream that nobody else appends to.
    pub async fn number(&mut self, store: &impl StreamStore, to: &StreamKey, ids: &[&str]) {
        let head = store.stream_slice(to, 0, 0).await.unwrap().head;
        let numbering = self.numbering(head, to, ids);
        self.commit(store, |commit| *commit = numbering).await;
    }
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

/// When the samples' feed records are written.
pub fn at(pos: u64) -> UnixMillis {
    UnixMillis(T0.0 + 1_000 * pos)
}

/// All that lies on a doorstep.
pub async fn all_at_door(store: &impl StreamStore, shard: ShardId) -> PassFound {
    let door = DoorQuery { until: None, from: 0, limit: 1_000 };
    let query = PassQuery { door: Some(door), unnamed_bytes_max: ALL_BYTES, ..PassQuery::default() };
    store.stream_pass(shard, &query).await.unwrap()
}

/// What an owner finds of one stream.
pub async fn found(store: &impl StreamStore, of: &StreamKey) -> StreamView {
    let query = PassQuery { streams: vec![of.clone()], unnamed_bytes_max: ALL_BYTES, ..PassQuery::default() };
    store.stream_pass(SHARD, &query).await.unwrap().streams.remove(of).unwrap()
}
