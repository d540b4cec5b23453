//! The index of resources: where in a stream a resource has events, so that who reads of one resource needn't read all of its stream.
//!
//! A row a resource and chunk, under the number of its last event there, made by upkeep behind those who append. What lies behind the last
//! indexed chunk is read as it is. Chunks become one and shrink later, so a row says "here, or in what covers this number by now"; it goes
//! with its event.

use std::collections::BTreeMap;

use super::compact::resource;
use super::{Act, MergeSettings, UpkeepView};
use crate::streams::chunk::Chunk;
use crate::streams::limits::{INDEX_LOOKS_MAX, UPKEEP_ROWS_MAX};
use crate::streams::records::{Resource, StreamRest, StreamWrite};

/// Rows of what was seen of a stream behind where its index ends. Those of several looks go into one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexing {
    /// Where the index ends, as it is stored.
    stored: u64,
    /// Up to here all was seen.
    upto: u64,
    rows: Vec<(Resource, u64)>,
    looks: usize,
}

impl Indexing {
    /// One that goes on where the index of a stream ends, so a stream that has none gets one from its front.
    pub fn of(rest: &StreamRest) -> Self {
        Self { stored: rest.indexed, upto: begin(rest), rows: Vec::new(), looks: 0 }
    }

    /// Where the index ended when it began.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    pub fn upto(&self) -> u64 {
        self.upto
    }

    /// Whether the index still ends where it began.
    pub fn goes_on(&self, rest: &StreamRest) -> bool {
        self.stored == rest.indexed
    }

    /// The next part of the stream, of which nothing is to be merged as it is: up to its last sealed chunk, for nothing before that one ever
    /// will be; all of it if there is more behind.
    pub fn see(&mut self, view: &UpkeepView, settings: MergeSettings, is_all: bool) {
        // What went meanwhile is as if it was seen.
        self.upto = self.upto.max(view.rest.first.saturating_sub(1));
        let before = self.upto;
        let ripe = match is_all {
            true => view.chunks.iter().rposition(|chunk| settings.is_sealed(chunk)).map_or(0, |at| at + 1),
            false => view.chunks.len(),
        };
        for chunk in view.chunks.iter().take(ripe) {
            if chunk.last <= self.upto {
                continue;
            }
            if self.rows.len() >= UPKEEP_ROWS_MAX {
                break;
            }
            let rows = chunk.events.iter().map(|event| Some((resource(event)?.0, event.seq)));
            // Whose an event is that can't be read isn't known: who reads through it has to be told, so it isn't left out of anything.
            let rows: Option<BTreeMap<Resource, u64>> = rows.collect();
            let Some(rows) = rows.filter(|_| chunk.from <= self.upto) else {
                // Nothing behind is for this index: more looks would be in vain.
                self.looks = INDEX_LOOKS_MAX;
                break;
            };
            self.rows.extend(rows);
            self.upto = chunk.last;
        }
        self.looks += usize::from(self.upto > before);
        // What follows can't be read: what was seen isn't held back for that.
        if !is_all && view.chunks.is_empty() {
            self.looks = INDEX_LOOKS_MAX;
        }
    }

    /// It has as much as one commit makes.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= UPKEEP_ROWS_MAX || self.looks >= INDEX_LOOKS_MAX
    }

    /// It has seen something that the index lacks.
    pub fn is_ahead(&self, rest: &StreamRest) -> bool {
        self.upto > begin(rest)
    }

    /// Makes the rows of what is still kept.
    pub fn act(&self, view: &UpkeepView) -> Option<Act> {
        if !self.is_ahead(&view.rest) {
            return None;
        }
        let kept = self.rows.iter().filter(|(_, seq)| *seq >= view.rest.first).cloned();
        let put = |(resource, seq)| StreamWrite::PutResource { stream: view.stream.clone(), resource, seq };
        let mut writes: Vec<_> = kept.map(put).collect();
        let rest = StreamRest { indexed: self.upto, ..view.rest };
        writes.push(StreamWrite::PutRest { stream: view.stream.clone(), rest });
        Some(Act::of(view, writes, 0))
    }
}

/// In front of what is kept nothing is missing.
fn begin(rest: &StreamRest) -> u64 {
    rest.indexed.max(rest.first.saturating_sub(1))
}

/// The number of each resource's last event in a chunk.
pub(super) fn last_of_each(chunk: &Chunk) -> BTreeMap<Resource, u64> {
    chunk.events.iter().filter_map(|event| Some((resource(event)?.0, event.seq))).collect()
}

/// Takes away the rows of a chunk whose events don't stay where it goes, or becomes another one.
pub(super) fn unindex(view: &UpkeepView, chunk: &Chunk, stays: impl Fn(&Resource, u64) -> bool) -> Vec<StreamWrite> {
    if chunk.from >= view.rest.indexed {
        return Vec::new();
    }
    let rows = last_of_each(chunk).into_iter().filter(|(_, seq)| *seq <= view.rest.indexed);
    let gone = rows.filter(|(resource, seq)| !stays(resource, *seq));
    gone.map(|(resource, seq)| StreamWrite::DeleteResource { stream: view.stream.clone(), resource, seq }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::fixtures::view;
    use super::super::{Compaction, Latest, Retention, compact, merge, trim};
    use super::*;
    use crate::streams::rules::Rules;
    use crate::time::UnixMillis;

    const SETTINGS: MergeSettings = MergeSettings { fan: 2, sealed_events: 2, sealed_bytes: 1 << 20 };

    /// The act of one look.
    fn index(view: &UpkeepView, is_all: bool) -> Option<Act> {
        let mut indexing = Indexing::of(&view.rest);
        indexing.see(view, SETTINGS, is_all);
        indexing.act(view)
    }

    /// A stream with its index, as acts leave them.
    struct Kept {
        view: UpkeepView,
        rows: BTreeSet<(String, u64)>,
    }

    impl Kept {
        fn of(chunks: &[&[&str]]) -> Self {
            Self { view: view(chunks), rows: BTreeSet::new() }
        }

        fn apply(&mut self, act: Option<Act>) -> bool {
            let Some(act) = act else { return false };
            for write in act.writes {
                match write {
                    StreamWrite::PutChunk { chunk, .. } => {
                        self.view.chunks.retain(|old| old.last != chunk.last);
                        self.view.chunks.push(chunk);
                        self.view.chunks.sort_by_key(|chunk| chunk.last);
                    }
                    StreamWrite::DeleteChunk { key, .. } => self.view.chunks.retain(|old| old.last != key),
                    StreamWrite::PutRest { rest, .. } => self.view.rest = rest,
                    StreamWrite::PutResource { resource, seq, .. } => {
                        self.rows.insert((resource.1, seq));
                    }
                    StreamWrite::DeleteResource { resource, seq, .. } => {
                        assert!(self.rows.remove(&(resource.1, seq)), "{seq} has no row");
                    }
                    other => panic!("{other:?}"),
                }
            }
            true
        }

        /// One row a resource and indexed chunk, and no other.
        fn is_exact(&self) {
            let indexed = self.view.rest.indexed;
            let rows = self.view.chunks.iter().flat_map(|chunk| last_of_each(chunk));
            let rows: BTreeSet<_> =
                rows.filter(|(_, seq)| *seq <= indexed).map(|(resource, seq)| (resource.1, seq)).collect();
            assert_eq!(self.rows, rows, "{:?}", self.view.chunks);
        }
    }

    fn latest(chunks: &[Arc<Chunk>]) -> Latest {
        let mut latest = Latest::behind(None, usize::MAX);
        chunks.iter().for_each(|chunk| latest.see(chunk));
        latest
    }

    #[test]
    fn what_is_before_the_last_sealed_chunk_is_indexed_once_and_all_of_it_where_more_follows() {
        let mut kept = Kept::of(&[&["a", "b", "a"], &["b"], &["b", "c"], &["a"]]);
        assert!(kept.apply(index(&kept.view, true)));
        assert_eq!(kept.view.rest.indexed, 6);
        let row = |id: &str, seq| (id.to_owned(), seq);
        assert_eq!(kept.rows, [row("a", 3), row("b", 2), row("b", 4), row("b", 5), row("c", 6)].into());
        assert!(!kept.apply(index(&kept.view, true)), "it is done");
        assert!(kept.apply(index(&kept.view, false)));
        assert_eq!(kept.view.rest.indexed, 7);
        kept.is_exact();
    }

    #[test]
    fn it_goes_on_at_what_is_kept_and_never_over_a_gap_or_what_can_not_be_read() {
        let mut kept = Kept::of(&[&["a", "b"], &["c", "d"], &["e", "f"]]);
        kept.view.chunks.remove(0);
        assert_eq!(index(&kept.view, true), None, "what is before it isn't indexed");
        kept.view.rest.first = 3;
        let mut spoilt = kept.view.chunks[1].as_ref().clone();
        spoilt.events[0].packed = bytes::Bytes::from_static(&[0xFF]);
        kept.view.chunks[1] = Arc::new(spoilt);
        let mut indexing = Indexing::of(&kept.view.rest);
        indexing.see(&kept.view, SETTINGS, false);
        assert!(indexing.is_full(), "it waits for nothing behind that");
        assert!(kept.apply(indexing.act(&kept.view)));
        assert_eq!((kept.view.rest.indexed, kept.rows.len()), (4, 2));
    }

    #[test]
    fn several_looks_make_one_act_of_what_is_still_kept_then() {
        let mut all = Kept::of(&[&["a", "b"], &["c", "d"], &["e", "f"]]);
        let part = |at: usize| UpkeepView { chunks: vec![Arc::clone(&all.view.chunks[at])], ..all.view.clone() };
        let (one, two, three) = (part(0), part(1), part(2));
        let mut indexing = Indexing::of(&one.rest);
        indexing.see(&one, SETTINGS, false);
        indexing.see(&two, SETTINGS, false);
        assert!(!indexing.is_full() && indexing.is_ahead(&two.rest) && indexing.goes_on(&two.rest));
        // Between two looks the front was purged.
        let act =
            trim(&one, &Retention { keep_count: Some(4), ..Retention::default() }, UnixMillis(0), Rules::default());
        assert!(all.apply(act));
        let last = UpkeepView { rest: all.view.rest, ..three };
        indexing.see(&last, SETTINGS, true);
        assert!(all.apply(indexing.act(&last)));
        assert_eq!(all.view.rest.indexed, 6);
        all.is_exact();
        assert!(!indexing.goes_on(&all.view.rest), "what it has is written");
    }

    #[test]
    fn no_more_rows_are_made_at_once_than_the_bound_and_those_of_one_chunk() {
        let names: Vec<String> = (0..UPKEEP_ROWS_MAX).map(|number| format!("r{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (half, all) = (&names[..UPKEEP_ROWS_MAX / 2 + 1], &names[..]);
        let mut kept = Kept::of(&[half, all, half]);
        let mut indexing = Indexing::of(&kept.view.rest);
        indexing.see(&kept.view, SETTINGS, true);
        assert!(indexing.is_full() && indexing.upto() == (half.len() + all.len()) as u64);
        kept.apply(indexing.act(&kept.view));
        kept.apply(index(&kept.view, true));
        kept.is_exact();
        // Nor are more taken away.
        let none = Retention { keep_count: Some(0), ..Retention::default() };
        let mut acts = 0;
        while kept.apply(trim(&kept.view, &none, UnixMillis(0), Rules::default())) {
            acts += 1;
        }
        assert_eq!((acts, kept.rows.len(), kept.view.chunks.len()), (2, 0, 0));
    }

    #[test]
    fn a_row_goes_with_its_event_whatever_takes_it() {
        let chunks: [&[&str]; 5] = [&["a", "b", "a"], &["b"], &["b", "c"], &["a", "c"], &["d"]];
        let rules = Rules::default();
        let mut kept = Kept::of(&chunks);
        kept.apply(index(&kept.view, true));
        let six = Retention { keep_count: Some(6), ..Retention::default() };
        assert!(kept.apply(trim(&kept.view, &six, UnixMillis(0), rules)));
        kept.is_exact();

        let mut kept = Kept::of(&chunks);
        kept.apply(index(&kept.view, true));
        let compaction = Compaction { tombstone_keep: Some(Duration::ZERO) };
        let seen = latest(&kept.view.chunks);
        assert!(kept.apply(compact(&kept.view, &seen, &compaction, UnixMillis(100_000), rules)));
        kept.is_exact();
        assert_eq!(kept.rows.len(), 3, "{:?}", kept.rows);
        // What compaction has left is small again, and becomes one.
        let small = MergeSettings { fan: 3, sealed_events: 100, ..SETTINGS };
        assert!(kept.apply(merge(&kept.view, small, rules).map(|merged| merged.act)));
        kept.is_exact();
    }

    #[test]
    fn rows_are_not_held_back_before_what_cannot_be_read() {
        let seen = view(&[&["a"], &["b"]]);
        let mut indexing = Indexing::of(&seen.rest);
        indexing.see(&seen, SETTINGS, false);
        assert!(!indexing.is_full());
        indexing.see(&UpkeepView { chunks: Vec::new(), ..seen.clone() }, SETTINGS, false);
        assert!(indexing.is_full() && indexing.act(&seen).is_some());
    }

    #[test]
    fn chunks_that_become_one_have_one_row_a_resource() {
        let mut kept = Kept::of(&[&["a", "b"], &["a", "c"], &["a"]]);
        kept.apply(index(&kept.view, true));
        assert_eq!(kept.rows.len(), 4);
        let small = MergeSettings { fan: 3, sealed_events: 100, ..SETTINGS };
        assert!(kept.apply(merge(&kept.view, small, Rules::default()).map(|merged| merged.act)));
        kept.is_exact();
        assert_eq!(kept.view.chunks.len(), 1);
        assert_eq!(kept.rows.len(), 2, "that of a lies behind what is indexed, and is read as it is");
    }
}
