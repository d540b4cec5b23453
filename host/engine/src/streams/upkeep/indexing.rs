//! The index of resources. A stream is gone through for it behind those who append: while they do, one stream at a time, a commit a second.
//! The rows of several looks go into one commit, for also a commit that makes nothing but rows holds up those who append.

use waybill_core::streams::name::StreamKey;
use waybill_core::streams::upkeep::{Act, Indexing, MergeSettings, UpkeepView};

use super::{AGES_EVERY, Job, Stage, Upkeep};

impl Upkeep {
    /// Streams of which something may be sealed that the index lacks are looked at; one of them while something is appended.
    pub(super) fn index_in_turn(&mut self) {
        let most = if self.is_busy() { 1 } else { usize::MAX };
        let turn: Vec<StreamKey> = self.notes.unindexed(self.indexed.as_ref()).take(most).cloned().collect();
        for stream in turn {
            self.queue(stream.clone(), Some(Stage::Index));
            self.indexed = Some(stream);
        }
    }

    fn is_busy(&self) -> bool {
        self.appended_at.is_some_and(|at| at.elapsed() < AGES_EVERY)
    }

    /// Goes on with the index of a stream. Answers the act, if it is time for one, and whether it left something of what was read.
    pub(super) fn index(&mut self, view: &UpkeepView, is_all: bool) -> (Option<Act>, bool) {
        let mut indexing = self.taken_up(view);
        indexing.see(view, MergeSettings::default(), is_all);
        let is_full = indexing.is_full();
        let act = if is_all || is_full { indexing.act(view) } else { None };
        // Until they are in, the rows stay at hand.
        self.indexing = indexing.is_ahead(&view.rest).then(|| (view.stream.clone(), indexing));
        (act, is_full)
    }

    fn taken_up(&mut self, view: &UpkeepView) -> Indexing {
        let goes_on = |(of, indexing): &(StreamKey, Indexing)| *of == view.stream && indexing.goes_on(&view.rest);
        if !self.indexing.as_ref().is_some_and(goes_on) {
            self.forget_indexing();
        }
        self.indexing.take().map_or_else(|| Indexing::of(&view.rest), |(_, indexing)| indexing)
    }

    /// Something of a stream is merged. What the index has seen of that is another chunk then.
    pub(super) fn merges(&mut self, view: &UpkeepView) {
        let begin = view.chunks.first().map_or(0, |chunk| chunk.from);
        if self.indexing.as_ref().is_some_and(|(of, indexing)| *of == view.stream && begin < indexing.upto()) {
            self.forget_indexing();
        }
    }

    /// What was seen and isn't written is read again.
    fn forget_indexing(&mut self) {
        let Some((stream, indexing)) = self.indexing.take() else { return };
        if let Some(note) = self.notes.get_mut(&stream) {
            note.indexed_to = note.indexed_to.min(indexing.stored());
        }
    }

    /// Nothing is written yet of what was read: the rows go into a commit with what lies behind, if anything does.
    pub(super) fn index_behind(&mut self, stream: StreamKey, view: &UpkeepView, is_all: bool) {
        let mine = self.indexing.as_ref().filter(|(of, _)| *of == stream);
        let upto = mine.map_or_else(|| Indexing::of(&view.rest).upto(), |(_, indexing)| indexing.upto());
        // It can't go on over what can't be read, or isn't named yet.
        let goes_on = !is_all && view.chunks.last().is_some_and(|last| upto >= last.last);
        let Some(note) = self.notes.get_mut(&stream) else { return };
        (note.indexed_to, note.is_indexed, note.is_queued) = (upto, !goes_on, goes_on);
        if goes_on {
            self.queue.push_front(Job { stream, stage: Stage::Index });
        }
    }

    /// The rows are in.
    pub(super) fn indexed(&mut self, stream: &StreamKey, upto: u64) {
        self.indexing = None;
        if let Some(note) = self.notes.get_mut(stream) {
            note.indexed_to = note.indexed_to.max(upto);
        }
    }

    /// What lies behind is indexed at once, or when it is the stream's turn again.
    pub(super) fn index_goes_on(&mut self, job: Job, goes_on: bool) {
        if goes_on && !self.is_busy() {
            return self.queue.push_back(job);
        }
        if let Some(note) = self.notes.get_mut(&job.stream) {
            (note.is_indexed, note.is_queued) = (!goes_on, false);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;
    use waybill_core::port::stream_store::{ScanFrom, ScanQuery, StreamStore};
    use waybill_core::streams::event::{Body, Event};
    use waybill_core::streams::limits::MERGE_FAN;
    use waybill_core::streams::name::StreamPattern;
    use waybill_core::streams::owner::{Published, PublishedPart};
    use waybill_core::streams::reading::Selector;
    use waybill_core::streams::records::{FeedPart, StreamHead, StreamRest, StreamWrite};
    use waybill_core::streams::rules::Rules;
    use waybill_core::streams::settings::{PatternSettings, StreamsSettings};
    use waybill_core::time::UnixMillis;
    use waybill_testkit::conformance::samples::SHARD;
    use waybill_testkit::conformance::stream_samples::{ALL_BYTES, Writer, admitted, chunk, event, put_chunk, stream};
    use waybill_testkit::memory_store::MemoryStore;

    use super::super::UpkeepAsk;
    use super::*;
    use crate::streams::due::DueLooks;
    use crate::streams::meter::StreamMeter;

    const NOW: UnixMillis = UnixMillis(4_000_000_000_000);

    /// A stream in a store, and who keeps it up.
    struct Kept {
        store: MemoryStore,
        writer: Writer,
        upkeep: Upkeep,
        meter: StreamMeter,
        settings: StreamsSettings,
        last: u64,
    }

    impl Kept {
        /// Of chunks of events of these resources, with bodies of so many bytes. Nobody has looked at it.
        async fn with(chunks: &[Vec<String>], body: usize) -> Self {
            let (store, mut writer, of) = (MemoryStore::new(), Writer::new(), stream("a"));
            let (mut last, mut writes) = (0, Vec::new());
            for resources in chunks {
                let mut chunk = chunk(last, 1, &vec!["x"; resources.len()]);
                for (stored, id) in chunk.events.iter_mut().zip(resources) {
                    let body = Body::Bytes(Bytes::from(vec![b'1'; body]));
                    let event = Event { resource_id: id.clone(), body, ..event(&format!("e{}", stored.seq)) };
                    stored.packed = admitted(event, false).packed;
                }
                last = chunk.last;
                writes.push(put_chunk(&of, &chunk));
            }
            writes.push(StreamWrite::PutHead { stream: of.clone(), head: StreamHead { last, fed: last, bytes: 1 } });
            writes.push(StreamWrite::PutType { stream: of, resource_type: "TASK".into() });
            writer.write(&store, writes).await;
            let upkeep = Upkeep::new(DueLooks::new(SHARD, 1));
            let (meter, settings) = (StreamMeter::new(), StreamsSettings::default());
            Self { store, writer, upkeep, meter, settings, last }
        }

        /// An owner who knows nothing, and what makes it look at the stream.
        fn begin(&mut self) {
            self.upkeep = Upkeep::new(DueLooks::new(SHARD, 1));
            for _ in 0..MERGE_FAN {
                let part = FeedPart { stream: stream("a"), from: 1, to: self.last };
                let parts = vec![PublishedPart { part, chunks: None }];
                self.upkeep.published(&Published { shard: SHARD, pos: 1, parts }, &self.settings);
            }
        }

        /// One look, and the act that comes of it, which goes in or doesn't. Whether there was one.
        async fn turn(&mut self, goes_in: bool) -> bool {
            tokio::time::advance(AGES_EVERY).await;
            match self.upkeep.next(NOW, &self.settings) {
                Some(UpkeepAsk::Stream { stream, after, bytes_max }) => {
                    let (slice, _) = self.store.upkeep_slice(&stream, &[], after, bytes_max).await.unwrap();
                    let beat = self.writer.record.beat;
                    let Some(act) = self.upkeep.decide(&slice, &[], beat, NOW, &self.settings) else { return false };
                    if goes_in {
                        self.writer.write(&self.store, act.writes).await;
                        self.upkeep.applied(&self.meter);
                    } else {
                        self.upkeep.not_applied();
                    }
                    true
                }
                Some(UpkeepAsk::Due) => self.upkeep.found_due(Vec::new(), self.writer.record.beat, NOW).is_some(),
                None => false,
            }
        }

        /// So many looks; how many acts came of them.
        async fn turns(&mut self, count: usize) -> usize {
            let mut acts = 0;
            for _ in 0..count {
                acts += usize::from(self.turn(true).await);
            }
            acts
        }

        fn rest(&self) -> StreamRest {
            self.store.read(|tables| tables.streams.rest(&stream("a")))
        }

        /// The rows, as ids and numbers.
        fn rows(&self) -> BTreeSet<(String, u64)> {
            let rows = |(_, (_, id), seq): &(StreamKey, (String, String), u64)| (id.clone(), *seq);
            self.store.read(|tables| tables.streams.resources.iter().map(rows).collect())
        }

        /// Numbers of a resource's events as they are read by it, and how many chunks were read for that.
        async fn read(&self, id: &str) -> (Vec<u64>, usize) {
            let selector = Selector::OneResource { resource_type: "TASK".into(), resource_id: id.to_owned() };
            let query = ScanQuery {
                tenant: stream("a").tenant,
                selector: selector.clone(),
                from: ScanFrom::Behind(None),
                since: Vec::new(),
                bytes_max: ALL_BYTES,
            };
            let (_, slice) = self.store.scan_streams(&query).await.unwrap().unwrap();
            let chunks = slice.chunks.iter().map(|stored| stored.chunk.as_ref().unwrap());
            let chunks: Vec<_> = chunks.filter(|chunk| !chunk.events.is_empty()).collect();
            let events = chunks.iter().flat_map(|chunk| chunk.events.iter().filter(|event| selector.takes(event)));
            (events.map(|event| event.seq).collect(), chunks.len())
        }
    }

    /// Ids of a chunk's worth of events, each another one.
    fn ids(chunk: usize) -> Vec<String> {
        (0..64).map(|number| format!("r{chunk}-{number}")).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_index_is_made_in_parts_and_goes_on_after_a_restart_and_nothing_is_missed_meanwhile() {
        let chunks: Vec<Vec<String>> = (0..40).map(ids).chain([vec!["tail".to_owned(), "r0-0".to_owned()]]).collect();
        let mut kept = Kept::with(&chunks, 1).await;
        let wanted: [(&str, Vec<u64>); 4] =
            [("r0-0", vec![1, 2_562]), ("r39-63", vec![2_560]), ("tail", vec![2_561]), ("none", vec![])];
        let is_read = async |kept: &Kept| {
            for (id, seqs) in &wanted {
                assert_eq!(kept.read(id).await.0, *seqs, "{id} at {}", kept.rest().indexed);
            }
        };
        is_read(&kept).await;
        kept.begin();
        while !kept.turn(false).await {}
        assert_eq!(kept.rest().indexed, 0, "it didn't go in");
        while kept.turns(1).await == 0 {}
        let half = kept.rest().indexed;
        assert!(half > 0 && half < 2_560, "{half}");
        is_read(&kept).await;
        // The next owner looks at nothing of an idle stream.
        kept.upkeep = Upkeep::new(DueLooks::new(SHARD, 1));
        assert_eq!((kept.turns(20).await, kept.rest().indexed), (0, half));
        kept.begin();
        assert_eq!(kept.turns(20).await, 1);
        assert_eq!(kept.rest().indexed, 2_560);
        let all: BTreeSet<(String, u64)> = chunks.iter().flatten().cloned().zip(1..=2_560).collect();
        assert_eq!(kept.rows(), all);
        is_read(&kept).await;
        assert_eq!(kept.read("r39-63").await.1, 2, "one of forty, and the one that isn't sealed");
        assert!(kept.upkeep.indexing.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_rows_of_several_looks_go_into_one_commit() {
        let chunks = vec![vec!["r".to_owned(); 64]; 9];
        let mut kept = Kept::with(&chunks, 8_000).await;
        kept.begin();
        assert_eq!(kept.turns(20).await, 1, "four megabytes are more than a look reads");
        assert_eq!((kept.rest().indexed, kept.rows().len()), (576, 9));
    }

    #[tokio::test(start_paused = true)]
    async fn a_merge_of_what_the_index_has_seen_is_seen_again() {
        let chunks: Vec<Vec<String>> = (0..2).map(ids).collect();
        let mut kept = Kept::with(&chunks, 1).await;
        kept.begin();
        while !kept.turn(false).await {}
        assert!(kept.upkeep.indexing.is_some());
        let slice = kept.store.read(|tables| tables.streams.slice(&stream("a"), 0, ALL_BYTES));
        let all = UpkeepView::new(stream("a"), 1, &slice, &[], Rules::default());
        let behind = UpkeepView { chunks: vec![Arc::new(chunk(128, 1, &["x"]))], ..all.clone() };
        kept.upkeep.merges(&behind);
        assert!(kept.upkeep.indexing.is_some(), "of that it has seen nothing");
        kept.upkeep.merges(&all);
        assert!(kept.upkeep.indexing.is_none());
        assert_eq!(kept.turns(20).await, 1);
        assert_eq!(kept.rows().len(), 128);
    }

    #[tokio::test(start_paused = true)]
    async fn compaction_takes_the_rows_of_what_it_takes_and_reads_go_on() {
        let chunks: Vec<Vec<String>> = [0, 1, 0, 2].map(ids).into();
        let mut kept = Kept::with(&chunks, 1).await;
        kept.begin();
        kept.turns(20).await;
        assert_eq!((kept.rest().indexed, kept.rows().len()), (256, 256));
        assert_eq!(kept.read("r0-5").await, (vec![6, 134], 2));
        let mut pattern = PatternSettings::new(StreamPattern::parse("**").unwrap());
        pattern.compact_lag = Some(Duration::ZERO);
        kept.settings.patterns = vec![pattern];
        kept.begin();
        kept.turns(20).await;
        assert_eq!(kept.rows().len(), 192, "of each resource the last one");
        assert_eq!(kept.read("r0-5").await.0, [134]);
        assert_eq!(kept.read("r1-5").await.0, [70]);
    }
}
