//! What a commit takes of the doorstep and of direct appends, stream by stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::StreamOwner;
use super::door::Direct;
use super::draft::Draft;
use crate::outbox::records::DoorKey;
use crate::port::stream_store::PassFound;
use crate::streams::name::StreamKey;
use crate::streams::records::{Append, DoorContent, StreamDoorRow, StreamWrite};
use crate::streams::rules::Rule;

/// Where an append came from.
#[derive(Debug)]
pub(super) enum Source {
    Door(DoorKey, Arc<Append>),
    Direct(Direct),
}

/// What is to be done in one stream.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Rows that say: look at this stream.
    pub looks: Vec<DoorKey>,
    /// Appends in the order in which they are numbered.
    pub sources: Vec<Source>,
}

/// All of a commit, and what it leaves.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub streams: BTreeMap<StreamKey, Work>,
    /// Streams of which something is left where it lies: nothing behind it is taken.
    pub blocked: BTreeSet<StreamKey>,
    /// Rows that are left.
    pub left: usize,
    events: usize,
    bytes: usize,
}

impl Taken {
    /// Whether an append still fits. A first one always does.
    fn has_room(&mut self, append: &Append, events_max: usize, bytes_max: usize) -> bool {
        let (events, bytes) = (self.events + append.events.len(), self.bytes + append.weight());
        let fits = self.events == 0 || (events <= events_max && bytes <= bytes_max);
        if fits {
            (self.events, self.bytes) = (events, bytes);
        }
        fits
    }
}

impl StreamOwner {
    pub(super) fn take_rows(&mut self, rows: Vec<StreamDoorRow>, draft: &mut Draft) -> Taken {
        let mut taken = Taken::default();
        for row in rows {
            let stamp = row.key.nanos;
            let content = match row.content {
                Ok(content) => content,
                Err(malformed) => {
                    draft.write(StreamWrite::QuarantineDoor { key: row.key, reason: malformed.reason });
                    self.counts.quarantined += 1;
                    continue;
                }
            };
            let stream = content.stream().clone();
            let shard = stream.shard(self.config.shards);
            if shard != self.config.shard {
                // The number of shards has grown since: it goes to its own doorstep.
                draft.write(StreamWrite::PutDoor { shard, content });
                draft.write(StreamWrite::DeleteDoor(row.key));
                continue;
            }
            let may = self.turn.takes(&stream) && !taken.blocked.contains(&stream);
            let fits = may
                && match &content {
                    DoorContent::Append(append) => taken.has_room(append, self.events_max, self.config.commit_bytes),
                    DoorContent::Look(_) => true,
                };
            if !fits {
                taken.left += 1;
                taken.blocked.insert(stream);
                continue;
            }
            self.door.low = stamp;
            let work = taken.streams.entry(stream).or_default();
            match content {
                DoorContent::Append(append) => work.sources.push(Source::Door(row.key, append)),
                DoorContent::Look(_) => work.looks.push(row.key),
            }
        }
        taken
    }

    /// Direct appends join behind a complete pass.
    pub(super) fn take_directs(&mut self, taken: &mut Taken, found: &PassFound) {
        let any_time = !self.is_rule_kept(Rule::DirectAfterPass);
        if !found.is_all && !any_time {
            return;
        }
        let (turn, planned, heads) = (&self.turn, &self.planned, &self.heads);
        let (events_max, bytes_max) = (self.events_max, self.config.commit_bytes);
        let directs = self.door.take(any_time, |direct| {
            let stream = &direct.append.stream;
            let is_known = heads.get(stream).is_some() || found.streams.contains_key(stream);
            (planned.contains(&direct.ticket) || any_time)
                && is_known
                && turn.takes(stream)
                && (!taken.blocked.contains(stream) || any_time)
                && taken.has_room(&direct.append, events_max, bytes_max)
        });
        for (place, direct) in directs.into_iter().enumerate() {
            let work = taken.streams.entry(direct.append.stream.clone()).or_default();
            let place = if any_time { place.min(work.sources.len()) } else { work.sources.len() };
            work.sources.insert(place, Source::Direct(direct));
        }
    }
}
