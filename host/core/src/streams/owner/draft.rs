//! A commit in the making, and the one that is out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::door::{Direct, Ticket};
use super::heads::Known;
use crate::ids::ShardId;
use crate::streams::chunk::Chunk;
use crate::streams::name::StreamKey;
use crate::streams::records::{
    EventIdKey, EventIdRecord, FeedPart, FeedRecord, StreamCommit, StreamShardRecord, StreamWrite,
};
use crate::streams::relay::RelayFlight;
use crate::time::UnixMillis;

/// What the caller of a direct append is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectAnswer {
    /// Numbers of its events in order; those at `duplicates` were there already, with the same content.
    Numbered { seqs: Vec<u64>, duplicates: Vec<usize> },
    /// Nothing was written: the id of this event, by place in the append, is that of another one.
    IdTaken(usize),
}

/// What one commit added, for those who listen: in the order of the feed record that it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub shard: ShardId,
    pub pos: u64,
    pub parts: Vec<PublishedPart>,
}

/// A part of a feed record with its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPart {
    pub part: FeedPart,
    /// The chunks that hold its events; none where one of them can't be read: readers look for themselves.
    pub chunks: Option<Vec<Arc<Chunk>>>,
}

/// The commit that is out.
#[derive(Debug)]
pub(super) struct Flight {
    pub record: StreamShardRecord,
    pub answers: Vec<(Ticket, DirectAnswer)>,
    /// The appends that these answer: they are queued again if it isn't in.
    pub directs: Vec<Direct>,
    pub published: Option<Published>,
    pub known: Vec<(StreamKey, Known)>,
    /// Where the streams that it numbers in end, as it takes them.
    pub heads: Vec<(StreamKey, u64)>,
    /// Events that it drops as repeats.
    pub duplicates: usize,
    /// The stream that went alone.
    pub alone: Option<StreamKey>,
    pub relay: RelayFlight,
    /// The store said that nothing of it was written.
    pub is_refused: bool,
    /// Barriers that were tried since it failed.
    pub barriers: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Draft {
    pub pos: u64,
    pub at: UnixMillis,
    pub writes: Vec<StreamWrite>,
    pub heads: Vec<(StreamKey, u64)>,
    pub parts: Vec<PublishedPart>,
    pub known: BTreeMap<StreamKey, Known>,
    /// Streams that are numbered or adopted in.
    pub touched: BTreeSet<StreamKey>,
    /// Ids that this commit numbers.
    pub ids: BTreeMap<EventIdKey, EventIdRecord>,
    pub answers: Vec<(Ticket, DirectAnswer)>,
    pub directs: Vec<Direct>,
    pub duplicates: usize,
    pub weight: usize,
}

impl Draft {
    pub fn new(record: &StreamShardRecord, at: UnixMillis) -> Self {
        Self {
            pos: record.pos + 1,
            at,
            writes: Vec::new(),
            heads: Vec::new(),
            parts: Vec::new(),
            known: BTreeMap::new(),
            touched: BTreeSet::new(),
            ids: BTreeMap::new(),
            answers: Vec::new(),
            directs: Vec::new(),
            duplicates: 0,
            weight: 0,
        }
    }

    pub fn write(&mut self, write: StreamWrite) {
        self.weight += write.weight();
        self.writes.push(write);
    }

    /// Names what was added to a stream, for the feed and for those who listen.
    pub fn name(&mut self, stream: &StreamKey, from: u64, to: u64, chunk: Option<Arc<Chunk>>) {
        let part = FeedPart { stream: stream.clone(), from, to };
        self.parts.push(PublishedPart { part, chunks: chunk.map(|chunk| vec![chunk]) });
    }

    /// Writes the feed record of what was named, and gives what is published.
    pub fn feed(&mut self, record: &mut StreamShardRecord, shard: ShardId) -> Option<Published> {
        if self.parts.is_empty() {
            return None;
        }
        let parts = std::mem::take(&mut self.parts);
        record.pos = self.pos;
        let names = parts.iter().map(|part| part.part.clone()).collect();
        self.write(StreamWrite::PutFeed(FeedRecord { pos: self.pos, at: self.at, parts: names }));
        Some(Published { shard, pos: self.pos, parts })
    }

    /// The commit of what is drafted.
    pub fn commit(&mut self, shard: ShardId, expect: &StreamShardRecord, record: StreamShardRecord) -> StreamCommit {
        StreamCommit {
            shard,
            expect_token: expect.token,
            expect_beat: expect.beat,
            record,
            heads: self.heads.clone(),
            writes: std::mem::take(&mut self.writes),
        }
    }
}
