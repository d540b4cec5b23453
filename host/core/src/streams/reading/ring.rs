//! What was published of late, for those who listen: one ring a selector, while it has a reader.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::chunk::{Chunk, StoredChunk, StoredEvent};
use super::super::name::StreamKey;
use super::super::owner::Published;
use super::super::rules::{Rule, Rules};
use super::page::{APART, LOST};
use crate::ids::ShardId;
use crate::port::stream_store::FeedSlice;

/// Events that one commit added to one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivePart {
    pub stream: StreamKey,
    /// First and last number.
    pub from: u64,
    pub to: u64,
    /// None: readers look into the store.
    pub events: Option<Vec<StoredEvent>>,
}

/// What one commit added, as far as the ring's readers want it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEntry {
    pub shard: ShardId,
    /// Number of its feed record.
    pub pos: u64,
    /// Parts with their places in the feed record.
    pub parts: Vec<(usize, LivePart)>,
}

impl LiveEntry {
    /// What a commit published, without the streams that `wants` doesn't want. It may have no part: readers of many streams go by its
    /// number.
    pub fn of(published: &Published, wants: impl Fn(&StreamKey) -> bool) -> Self {
        let parts = published.parts.iter().enumerate().filter(|(_, part)| wants(&part.part.stream));
        let parts = parts.map(|(place, part)| {
            let (stream, from, to) = (part.part.stream.clone(), part.part.from, part.part.to);
            let events = part.chunks.as_ref().and_then(|chunks| events_of(chunks, from, to));
            (place, LivePart { stream, from, to, events })
        });
        Self { shard: published.shard, pos: published.pos, parts: parts.collect() }
    }

    /// The same of a feed record of another host. What isn't whole any more has no events: its readers look for themselves.
    pub fn of_slice(shard: ShardId, slice: &FeedSlice, wants: impl Fn(&StreamKey) -> bool) -> Self {
        let parts = slice.record.parts.iter().zip(&slice.parts).enumerate();
        let parts = parts.filter(|(_, (part, _))| wants(&part.stream)).map(|(place, (part, (rest, chunks)))| {
            let is_whole = rest.first <= part.from && rest.purged < part.from;
            let chunks: Option<Vec<_>> = chunks.iter().map(|stored| stored.chunk.clone().ok()).collect();
            let events = chunks.filter(|chunks| is_whole && covers(chunks, part.from, part.to));
            let events = events.and_then(|chunks| events_of(&chunks, part.from, part.to));
            (place, LivePart { stream: part.stream.clone(), from: part.from, to: part.to, events })
        });
        Self { shard, pos: slice.record.pos, parts: parts.collect() }
    }

    fn bytes(&self) -> usize {
        let events = self.parts.iter().filter_map(|(_, part)| part.events.as_ref()).flatten();
        events.map(|event| event.packed.len() + 64).sum::<usize>() + 64
    }
}

/// Whether chunks, in order, hold all of a range, or say what compaction left of it: none of them was lost.
fn covers(chunks: &[Arc<Chunk>], from: u64, to: u64) -> bool {
    let reached = |upto: u64, chunk: &Arc<Chunk>| if chunk.from <= upto { upto.max(chunk.last) } else { upto };
    chunks.iter().fold(from.saturating_sub(1), reached) >= to
}

/// Their events of a range; none where a payload lies apart that wasn't read with them.
fn events_of(chunks: &[Arc<Chunk>], from: u64, to: u64) -> Option<Vec<StoredEvent>> {
    let events = chunks.iter().flat_map(|chunk| &chunk.events).filter(|event| (from..=to).contains(&event.seq));
    events.map(|event| (event.apart == 0).then(|| event.clone())).collect()
}

/// The events of a range that is kept, or why they can't be read. A chunk that is unreadable or was lost isn't one that was trimmed: who
/// began anew would meet it again.
pub(super) fn kept_events(
    chunks: &[StoredChunk],
    from: u64,
    to: u64,
    rules: Rules,
) -> Result<Vec<StoredEvent>, String> {
    let chunks: Vec<Arc<Chunk>> = chunks.iter().map(|stored| stored.chunk.clone()).collect::<Result<_, _>>()?;
    if !covers(&chunks, from, to) && rules.kept(Rule::CompareCoverage) {
        return Err(LOST.to_owned());
    }
    events_of(&chunks, from, to).ok_or_else(|| APART.to_owned())
}

/// What a reader finds at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    Entry(Arc<LiveEntry>),
    /// It has had everything.
    Nothing,
    /// The ring has passed it.
    Lagged,
}

/// The latest entries, and what number the next one gets.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    next: u64,
    entries: VecDeque<Arc<LiveEntry>>,
    bytes: usize,
    calls: u64,
}

impl Ring {
    /// Adds an entry; the oldest leave when there are more than the bounds allow.
    pub fn push(&mut self, entry: Arc<LiveEntry>, entries_max: usize, bytes_max: usize) {
        self.next += 1;
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        while self.entries.len() > entries_max || (self.bytes > bytes_max && self.entries.len() > 1) {
            if let Some(oldest) = self.entries.pop_front() {
                self.bytes -= oldest.bytes();
            }
        }
    }

    /// Something was published that isn't known here: whoever is live looks into the store.
    pub fn lose(&mut self) {
        self.next += self.entries.len() as u64 + 1;
        self.entries.clear();
        self.bytes = 0;
    }

    /// There is something new, and it isn't in the ring: whoever has had everything looks for it, once.
    pub fn call(&mut self) {
        self.calls += 1;
    }

    /// How often readers were called.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Where a reader joins.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn at(&self, place: u64) -> Looked {
        let low = self.next - self.entries.len() as u64;
        if place < low {
            return Looked::Lagged;
        }
        let at = usize::try_from(place - low).unwrap_or(usize::MAX);
        self.entries.get(at).map_or(Looked::Nothing, |entry| Looked::Entry(Arc::clone(entry)))
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
