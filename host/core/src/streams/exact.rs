//! An append at an expected number: what anyone does in his own transaction, without the owner.
//!
//! Everything is checked before anything is written, so that a refusal in a transaction that a client drives statement by statement leaves
//! nothing of the append. The head is written, so whoever gives out a number meanwhile makes one of the two fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::blob;
use super::chunk::{Chunk, StoredEvent};
use super::event::NewEvent;
use super::name::StreamKey;
use super::records::{Append, DoorContent, EventIdRecord, StreamHead, StreamRest, StreamWrite};
use super::rules::{Rule, Rules};
use crate::code::Code;
use crate::ids::EventId;
use crate::port::transport::Fault;
use crate::time::UnixMillis;

/// Events that are appended only if the stream ends at a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactAppend {
    pub append: Append,
    /// 0 = the stream has never had an event.
    pub expected: u64,
    pub shards: u16,
    /// Of events that have numbers from elsewhere: how many numbers are left out before each of them, in order; empty = none are.
    pub skips: Vec<u64>,
}

impl ExactAppend {
    /// Events with the numbers that come next.
    pub fn new(append: Append, expected: u64, shards: u16) -> Self {
        Self { append, expected, shards, skips: Vec::new() }
    }
}

/// What the transaction reads before it decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExactView {
    pub head: StreamHead,
    /// What the index has of each event's id, in order; none for events whose ids aren't indexed.
    pub ids: Vec<Option<EventIdRecord>>,
}

/// What the caller is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactAnswer {
    /// Numbers of the events, in order.
    pub seqs: Vec<u64>,
    /// They were there already, with the same content: it is a repeat, and nothing was written.
    pub is_repeat: bool,
}

/// Why nothing is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExactRefusal {
    #[error("stream {stream} ends at {actual}, not at {expected}: nothing was written")]
    ExpectedSeq { stream: StreamKey, expected: u64, actual: u64 },
    #[error("event id {id} was used before with other content or beside other events: nothing was written")]
    IdTaken { id: EventId },
    #[error("the append has no event")]
    Empty,
    #[error("stream {stream} has no numbers left")]
    Full { stream: StreamKey },
}

impl ExactRefusal {
    pub fn code(&self) -> Code {
        match self {
            Self::ExpectedSeq { .. } => Code::STREAM_EXPECTED_SEQ,
            Self::IdTaken { .. } => Code::EVENT_ID_TAKEN,
            Self::Empty => Code::SCHEMA_VALIDATION_FAILED,
            Self::Full { .. } => Code::STREAM_FULL,
        }
    }

    /// Whether who asked may ask again, once he has read the stream.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::ExpectedSeq { .. })
    }

    /// Why a call that left these events has failed. It has answered, so it may have done something.
    pub fn fault(&self) -> Fault {
        let reason = format!("of the events that it left: {self}");
        Fault { maybe_delivered: true, ..Fault::new(self.code(), reason) }
    }
}

/// What the transaction writes, and what is answered when it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactWrites {
    pub answer: ExactAnswer,
    /// Nothing for a repeat.
    pub writes: Vec<StreamWrite>,
}

/// Decides an append. An id that is there with the same content answers the first result before `expected` is compared.
pub fn decide(
    exact: &ExactAppend,
    view: &ExactView,
    now: UnixMillis,
    rules: Rules,
) -> Result<ExactWrites, ExactRefusal> {
    let Append { stream, events, .. } = &exact.append;
    if events.is_empty() {
        return Err(ExactRefusal::Empty);
    }
    let is_same = |slot: usize, record: &EventIdRecord| {
        record.stream == *stream && events.get(slot).is_some_and(|event| event.digest == record.digest)
    };
    let mut found = Vec::new();
    for (slot, record) in view.ids.iter().enumerate().filter_map(|(slot, id)| Some((slot, id.as_ref()?))) {
        match events.get(slot) {
            Some(event) if !is_same(slot, record) => return Err(ExactRefusal::IdTaken { id: event.id.clone() }),
            _ => found.push(record.seq),
        }
    }
    let mut ids = BTreeSet::new();
    if let Some(event) = events.iter().find(|event| event.is_indexed && !ids.insert(&event.id)) {
        return Err(ExactRefusal::IdTaken { id: event.id.clone() });
    }
    if found.len() == events.len() {
        return Ok(ExactWrites { answer: ExactAnswer { seqs: found, is_repeat: true }, writes: Vec::new() });
    }
    if let Some(event) = events.iter().find(|event| event.is_indexed).filter(|_| !found.is_empty()) {
        // A repeat has all of them: this is another append that borrows an id.
        return Err(ExactRefusal::IdTaken { id: event.id.clone() });
    }
    let (expected, actual) = (exact.expected, view.head.last);
    if expected != actual {
        return Err(ExactRefusal::ExpectedSeq { stream: stream.clone(), expected, actual });
    }
    write(exact, view, now, rules)
}

fn write(exact: &ExactAppend, view: &ExactView, now: UnixMillis, rules: Rules) -> Result<ExactWrites, ExactRefusal> {
    let Append { stream, events, .. } = &exact.append;
    let (mut last, mut seqs) = (view.head.last, Vec::with_capacity(events.len()));
    for place in 0..events.len() {
        let step = exact.skips.get(place).copied().unwrap_or(0).checked_add(1);
        let next = step.and_then(|step| last.checked_add(step)).filter(|next| *next < u64::MAX);
        last = next.ok_or_else(|| ExactRefusal::Full { stream: stream.clone() })?;
        seqs.push(last);
    }
    // What lies before the first event that a stream ever has was trimmed elsewhere; what is left out behind it, compaction took there.
    let first = seqs.first().copied().filter(|first| view.head.last == 0 && *first > 1);
    let from = first.map_or(view.head.last, |first| first - 1);
    let of =
        |(event, seq): (&NewEvent, &u64)| StoredEvent { seq: *seq, pos: 0, packed: event.packed.clone(), apart: 0 };
    let stored = events.iter().zip(&seqs).map(of);
    let mut chunk = Chunk { from, last, total: view.head.bytes, at: now, events: stored.collect() };
    chunk.total += chunk.bytes() as u64;
    let mut writes = Vec::with_capacity(events.len() + 3);
    if rules.kept(Rule::ExactWritesHead) {
        let head = StreamHead { last, bytes: chunk.total, ..view.head };
        writes.push(StreamWrite::PutHead { stream: stream.clone(), head });
    }
    if let Some(first) = first {
        // Nobody else writes it before the stream has had an event, and who gives it one writes the head.
        let rest = StreamRest { first, ..StreamRest::default() };
        writes.push(StreamWrite::PutRest { stream: stream.clone(), rest });
    }
    let key = chunk_key(&chunk, rules);
    writes.extend(blob::put_chunk(stream, key, &Arc::new(chunk)));
    for (event, seq) in events.iter().zip(&seqs).filter(|(event, _)| event.is_indexed) {
        let id = (stream.tenant.clone(), event.id.clone());
        let record = EventIdRecord { stream: stream.clone(), seq: *seq, digest: event.digest, at: now };
        writes.push(StreamWrite::CreateId { id, record });
    }
    let (shard, content) = (stream.shard(exact.shards), DoorContent::Look(stream.clone()));
    writes.push(StreamWrite::PutDoor { shard, content });
    Ok(ExactWrites { answer: ExactAnswer { seqs, is_repeat: false }, writes })
}

/// The key of a chunk: its last number.
pub(super) fn chunk_key(chunk: &Chunk, rules: Rules) -> u64 {
    if rules.kept(Rule::KeyedByLast) { chunk.last } else { chunk.from + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::fixtures::{append, stream};

    fn exact(ids: &[&str], expected: u64) -> ExactAppend {
        ExactAppend::new(append("a", ids), expected, 1)
    }

    fn view(last: u64, ids: Vec<Option<EventIdRecord>>) -> ExactView {
        ExactView { head: StreamHead { last, fed: 2, bytes: 100 }, ids }
    }

    fn record(ids: &[&str], slot: usize, seq: u64) -> Option<EventIdRecord> {
        let digest = append("a", ids).events[slot].digest;
        Some(EventIdRecord { stream: stream("a"), seq, digest, at: UnixMillis(1) })
    }

    fn decided(exact: &ExactAppend, view: &ExactView) -> Result<ExactWrites, ExactRefusal> {
        decide(exact, view, UnixMillis(9), Rules::default())
    }

    #[test]
    fn it_numbers_itself_after_the_expected_end() {
        let done = decided(&exact(&["x", "y"], 7), &view(7, vec![None, None])).unwrap();
        assert_eq!(done.answer, ExactAnswer { seqs: vec![8, 9], is_repeat: false });
        let StreamWrite::PutHead { head, .. } = &done.writes[0] else { panic!("{:?}", done.writes) };
        let StreamWrite::PutChunk { key: 9, chunk, .. } = &done.writes[1] else { panic!("{:?}", done.writes) };
        assert_eq!((head.last, head.fed, head.bytes), (9, 2, 100 + chunk.bytes() as u64));
        assert_eq!((chunk.from, chunk.last, chunk.is_named()), (7, 9, false));
        assert!(
            matches!(done.writes[4], StreamWrite::PutDoor { content: DoorContent::Look(_), .. }),
            "the owner is told"
        );
        assert_eq!(done.writes.len(), 5);
    }

    #[test]
    fn numbers_from_elsewhere_keep_their_holes_and_the_first_of_all_is_the_first_that_is_kept() {
        let skipping = |expected, skips: &[u64]| ExactAppend { skips: skips.to_vec(), ..exact(&["x", "y"], expected) };
        let of = |done: &ExactWrites| {
            let chunk = done.writes.iter().find_map(|write| match write {
                StreamWrite::PutChunk { key, chunk, .. } => Some((*key, chunk.from, chunk.last)),
                _ => None,
            });
            let first = done.writes.iter().find_map(|write| match write {
                StreamWrite::PutRest { rest, .. } => Some(rest.first),
                _ => None,
            });
            (done.answer.seqs.clone(), chunk, first)
        };
        let trimmed = decided(&skipping(0, &[6, 2]), &view(0, vec![None, None])).unwrap();
        assert_eq!(of(&trimmed), (vec![7, 10], Some((10, 6, 10)), Some(7)));
        let compacted = decided(&skipping(0, &[0, 3]), &view(0, vec![None, None])).unwrap();
        assert_eq!(of(&compacted), (vec![1, 5], Some((5, 0, 5)), None));
        let behind = decided(&skipping(7, &[1]), &view(7, vec![None, None])).unwrap();
        assert_eq!(of(&behind), (vec![9, 10], Some((10, 7, 10)), None));
        let full = decided(&skipping(7, &[0, u64::MAX]), &view(7, vec![None, None]));
        assert!(matches!(full, Err(ExactRefusal::Full { .. })));
    }

    #[test]
    fn another_end_is_told_with_both_numbers() {
        let refused = decided(&exact(&["x"], 6), &view(7, vec![None]));
        assert_eq!(refused, Err(ExactRefusal::ExpectedSeq { stream: stream("a"), expected: 6, actual: 7 }));
    }

    #[test]
    fn a_repeat_answers_the_first_result_though_the_stream_has_grown() {
        let ids = ["x", "y"];
        let found = vec![record(&ids, 0, 3), record(&ids, 1, 4)];
        let done = decided(&exact(&ids, 2), &view(7, found)).unwrap();
        assert_eq!(done.answer, ExactAnswer { seqs: vec![3, 4], is_repeat: true });
        assert!(done.writes.is_empty());
    }

    #[test]
    fn an_id_with_other_content_or_other_company_is_refused() {
        let ids = ["x", "y"];
        let other = EventIdRecord { digest: Default::default(), ..record(&ids, 0, 3).unwrap() };
        let elsewhere = EventIdRecord { stream: stream("b"), ..record(&ids, 0, 3).unwrap() };
        for first in [other, elsewhere, record(&ids, 0, 3).unwrap()] {
            let refused = decided(&exact(&ids, 7), &view(7, vec![Some(first), None]));
            assert!(matches!(refused, Err(ExactRefusal::IdTaken { .. })), "{refused:?}");
        }
        assert!(matches!(
            decided(&exact(&["x", "x"], 7), &view(7, vec![None, None])),
            Err(ExactRefusal::IdTaken { .. })
        ));
        assert_eq!(decided(&exact(&[], 7), &view(7, vec![])), Err(ExactRefusal::Empty));
    }

    #[test]
    fn numbers_end_before_they_would_begin_again() {
        let refused = decided(&exact(&["x"], u64::MAX - 1), &view(u64::MAX - 1, vec![None]));
        assert!(matches!(refused, Err(ExactRefusal::Full { .. })));
    }
}
