//! A saga's history as an event stream, `saga.{id}`. An event's number is its place in the history of its tree, from 1.
//!
//! It isn't stored as a stream: whoever reads it is given it from the tree. What a long history dropped between its first and its
//! latest events are numbers that the stream covers and doesn't hold, as where compaction took something.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::event::Event;
use super::id::SagaId;
use super::state::Tree;
use crate::error::InputResult;
use crate::ids::EventId;
use crate::port::stream_store::StreamSlice;
use crate::streams::chunk::{Chunk, StoredChunk, StoredEvent};
use crate::streams::records::{StreamHead, StreamRest};

/// The id of an event of a history, of its saga's and its place: it is the same whenever it is read, and no other saga of the tenant has it.
pub fn event_id(root: &SagaId, place: u64) -> InputResult<EventId> {
    let digest = Sha256::digest(format!("{root}#{place}"));
    let digest: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    EventId::new(format!("saga-{digest}"))
}

impl Tree {
    /// The events that are kept, oldest first, each with its place in the history, from 1. It keeps that for good.
    pub fn placed_events(&self) -> impl Iterator<Item = (u64, &Event)> {
        let behind = self.history.len() as u64 + u64::from(self.dropped);
        (1..).zip(&self.history).chain((behind + 1..).zip(&self.latest))
    }

    /// Its history behind a number, as its store shows that of a stream: up to about so many bytes, an event at least. Of the events
    /// only the first so many are `committed`, and the others might never be. `pack` makes the envelope of one, and says at which place
    /// it is.
    pub fn history_slice(
        &self,
        committed: u32,
        after: u64,
        bytes_max: usize,
        pack: impl Fn(u64, &Event) -> Bytes,
    ) -> StreamSlice {
        let last = u64::from(committed);
        let head = StreamHead { last, fed: last, bytes: self.weight as u64 };
        let rest = StreamRest { fed: last, ..StreamRest::default() };
        if after >= last {
            return StreamSlice { head, rest, chunks: Vec::new(), is_all: true };
        }
        let mut chunk = Chunk { from: after, last, total: head.bytes, at: self.updated_at, events: Vec::new() };
        let (mut bytes, mut is_all) = (0, true);
        for (seq, event) in self.placed_events().filter(|(seq, _)| (after + 1..=last).contains(seq)) {
            if let Some(before) = chunk.events.last().filter(|_| bytes >= bytes_max) {
                (chunk.last, is_all) = (before.seq, false);
                break;
            }
            let packed = pack(seq, event);
            bytes += packed.len();
            chunk.events.push(StoredEvent { seq, pos: 0, packed, apart: 0 });
        }
        let stored = StoredChunk { last: chunk.last, chunk: Ok(Arc::new(chunk)) };
        StreamSlice { head, rest, chunks: vec![stored], is_all }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Tenant;
    use crate::saga::definition::default_retry;
    use crate::saga::event::{EventKind, Started};
    use crate::saga::id::{DefinitionHash, DefinitionRef, SagaKey};
    use crate::saga::json::Json;
    use crate::saga::limits::{HISTORY_FIRST_MAX, HISTORY_LAST_MAX};
    use crate::streams::reading::{PageError, PageLimits, page};
    use crate::streams::rules::Rules;
    use crate::time::UnixMillis;

    const ALL: usize = HISTORY_FIRST_MAX + HISTORY_LAST_MAX;

    /// Signals that nobody waits for, behind a start; each has a time of its own.
    fn happened(number: u64) -> Event {
        let what = match number {
            1 => {
                let definition = DefinitionRef { name: "s".into(), version: 1, hash: DefinitionHash("00".into()) };
                EventKind::Started(Box::new(Started::new(definition, 1, Json::null(), default_retry())))
            }
            _ => EventKind::SignalTaken { name: Arc::from("x") },
        };
        Event { at: UnixMillis(number), saga: 0, actor: None, what }
    }

    fn tree(events: u64) -> Tree {
        let key = SagaKey { tenant: Tenant::unnamed(), id: SagaId::root("one").unwrap() };
        let mut tree = Tree::begin(key, &happened(1)).unwrap();
        (2..=events).for_each(|number| tree.apply(&happened(number)));
        tree
    }

    /// Of an event its time alone, so that it is known again.
    fn pack(_: u64, event: &Event) -> Bytes {
        Bytes::from(event.at.0.to_be_bytes().to_vec())
    }

    /// All that a reader gets, page by page, of pages of so many events and bytes.
    fn read(tree: &Tree, committed: u32, from: u64, limits: PageLimits) -> Vec<(u64, u64)> {
        let (mut after, mut all) = (from, Vec::new());
        loop {
            let slice = tree.history_slice(committed, after, limits.bytes, pack);
            let page = page(&slice, after, 0, limits, Rules::default()).unwrap();
            all.extend(page.events.iter().map(|event| {
                let at = <[u8; 8]>::try_from(&event.packed[..]).unwrap();
                (event.seq, u64::from_be_bytes(at))
            }));
            if page.is_end {
                return all;
            }
            assert!(page.upto > after, "it goes on");
            after = page.upto;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Each event was made with its place as its time, so the history itself says what is to be read.
        #[test]
        fn a_stream_has_what_its_saga_has_under_numbers_that_never_change(
            events in 1_u64..1_400,
            uncommitted in 0_u64..30,
            from in 0_u64..1_400,
            per_page in 1_usize..400,
            bytes in 1_usize..4_000,
        ) {
            let tree = tree(events);
            let committed = events.saturating_sub(uncommitted);
            let from = from.min(committed);
            let limits = PageLimits { events: per_page, bytes };
            let got = read(&tree, u32::try_from(committed).unwrap(), from, limits);
            let kept: Vec<u64> = tree.events().map(|event| event.at.0).collect();
            let wanted: Vec<(u64, u64)> =
                kept.into_iter().filter(|at| (from + 1..=committed).contains(at)).map(|at| (at, at)).collect();
            prop_assert_eq!(got, wanted);
        }
    }

    #[test]
    fn what_a_long_history_dropped_is_left_out_and_a_reader_goes_on_behind_it() {
        let long = tree(ALL as u64 + 50);
        assert_eq!(long.dropped, 50);
        let first = HISTORY_FIRST_MAX as u64;
        let seqs: Vec<u64> = long.placed_events().map(|(seq, _)| seq).collect();
        assert_eq!(seqs.len(), ALL);
        assert_eq!((seqs[HISTORY_FIRST_MAX - 1], seqs[HISTORY_FIRST_MAX]), (first, first + 51));
        // Its cursor is from before they were dropped.
        let within = read(&long, long.events, first + 7, PageLimits::default());
        assert_eq!(within.first(), Some(&(first + 51, first + 51)));
        // The end as far as it is committed lies among what is dropped.
        let committed = u32::try_from(first + 20).unwrap();
        assert_eq!(read(&long, committed, 0, PageLimits::default()).len(), HISTORY_FIRST_MAX);
    }

    #[test]
    fn events_have_ids_of_their_own() {
        let id = |saga: &str, place| event_id(&SagaId::root(saga).unwrap(), place).unwrap();
        let all = [id("one", 1), id("one", 2), id("two", 1), id("one#1", 2)];
        assert!(all.iter().enumerate().all(|(at, id)| !all[..at].contains(id)) && id("one", 1) == all[0]);
        assert!(event_id(&SagaId::root(&"x".repeat(128)).unwrap(), u64::MAX).is_ok());
    }

    #[test]
    fn nothing_behind_what_is_committed_is_read() {
        let tree = tree(5);
        let slice = tree.history_slice(3, 3, 1 << 20, pack);
        assert!(slice.chunks.is_empty() && slice.is_all);
        let ahead = page(&tree.history_slice(3, 4, 1 << 20, pack), 4, 0, PageLimits::default(), Rules::default());
        assert_eq!(ahead, Err(PageError::Ahead { after: 4, last: 3 }));
        assert_eq!(tree.history_slice(0, 0, 1 << 20, pack).head.last, 0, "as a stream that never had an event");
    }
}
