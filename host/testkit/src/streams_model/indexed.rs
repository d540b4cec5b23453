//! The index of resources under all that upkeep does, in an order that the seed draws: after each act a read by each resource has all of its
//! events, and each resource has one row a chunk that is indexed, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use waybill_core::streams::chunk::Chunk;
use waybill_core::streams::event::{Event, Op};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::records::{StreamHead, StreamWrite};
use waybill_core::streams::rules::Rules;
use waybill_core::streams::upkeep::{
    Act, Compaction, Indexing, Latest, MergeSettings, Retention, UpkeepView, compact, merge, trim,
};
use waybill_core::time::UnixMillis;

use super::events::EventSeen;
use super::ledger::events_in;
use crate::conformance::stream_resources::{one, read};
use crate::conformance::stream_samples::{ALL_BYTES, Writer, admitted, chunk, event, put_chunk, stream};
use crate::memory_store::MemoryStore;
use crate::model::rng::Rng;

const RESOURCES: u64 = 5;
const LATER: UnixMillis = UnixMillis(4_000_000_000_000);

struct Scene {
    store: MemoryStore,
    writer: Writer,
    rng: Rng,
    of: StreamKey,
    /// Rows of several looks that no commit has made yet, and up to where those went.
    indexing: Option<(Indexing, u64)>,
}

impl Scene {
    async fn new(seed: u64) -> Self {
        let (store, mut writer, of) = (MemoryStore::new(), Writer::new(), stream("s"));
        let put = StreamWrite::PutType { stream: of.clone(), resource_type: "TASK".into() };
        writer.write(&store, vec![put]).await;
        Self { store, writer, rng: Rng::new(seed), of, indexing: None }
    }

    async fn append(&mut self) {
        let head = self.store.read(|tables| tables.streams.head(&self.of));
        let ids: Vec<String> = (1..=1 + self.rng.below(5)).map(|number| format!("e{}", head.last + number)).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut chunk = chunk(head.last, self.writer.record.beat + 1, &ids);
        for stored in &mut chunk.events {
            let op = if self.rng.percent(20) { Op::DELETE } else { Op::UPDATE };
            let resource_id = format!("r{}", self.rng.below(RESOURCES));
            let event = Event { resource_id, op, ..event(&format!("e{}", stored.seq)) };
            stored.packed = admitted(event, false).packed;
        }
        let head = StreamHead { last: chunk.last, fed: chunk.last, bytes: chunk.total };
        let put = StreamWrite::PutHead { stream: self.of.clone(), head };
        self.writer.write(&self.store, vec![put_chunk(&self.of, &chunk), put]).await;
    }

    fn view(&self, after: u64) -> UpkeepView {
        let slice = self.store.read(|tables| tables.streams.slice(&self.of, after, ALL_BYTES));
        UpkeepView::new(self.of.clone(), self.writer.record.beat, &slice, &[], Rules::default())
    }

    /// One act of upkeep, if there is something to do.
    fn draw_act(&mut self) -> Option<Act> {
        let (rules, view) = (Rules::default(), self.view(0));
        let settings =
            MergeSettings { fan: 2 + self.rng.index(2), sealed_events: 4 + self.rng.index(8), sealed_bytes: 1 << 20 };
        match self.rng.below(8) {
            0 | 1 => {
                // Whoever merges what an index has seen begins that again.
                self.indexing = None;
                merge(&view, settings, rules).map(|merged| merged.act)
            }
            2 => {
                let keep = Retention { keep_count: Some(self.rng.below(40)), ..Retention::default() };
                trim(&view, &keep, LATER, rules)
            }
            3 => {
                self.indexing = None;
                let mut latest = Latest::behind(None, 1 + self.rng.index(6));
                let seen = 1 + self.rng.index(view.chunks.len().max(1));
                view.chunks.iter().take(seen).for_each(|chunk| latest.see(chunk));
                let purges = self.rng.percent(40);
                compact(&view, &latest, &Compaction { tombstone_keep: purges.then_some(Duration::ZERO) }, LATER, rules)
            }
            _ => self.index(settings),
        }
    }

    /// A look of an index, at some chunks behind the look before. What it has may be lost, as by a crash.
    fn index(&mut self, settings: MergeSettings) -> Option<Act> {
        if self.rng.percent(20) {
            self.indexing = None;
        }
        let after = self.indexing.as_ref().map_or(0, |(_, after)| *after);
        let mut view = self.view(after);
        let (mut indexing, _) = self.indexing.take().unwrap_or_else(|| (Indexing::of(&view.rest), 0));
        let is_all = self.rng.percent(50);
        if !is_all {
            view.chunks.truncate(1 + self.rng.index(4));
        }
        indexing.see(&view, settings, is_all);
        let act = indexing.act(&view).filter(|_| self.rng.percent(50));
        let last = view.chunks.last().map_or(after, |chunk| chunk.last);
        self.indexing = (act.is_none() && !is_all).then_some((indexing, last));
        act
    }

    async fn check(&self, what: &str) {
        let (rest, chunks, events, rows) = self.store.read(|tables| {
            let streams = &tables.streams;
            let chunks: Vec<_> = streams.chunks_after(&self.of, 0).map(|stored| stored.chunk.unwrap()).collect();
            let rows: BTreeSet<(String, u64)> =
                streams.resources.iter().map(|(_, (_, id), seq)| (id.clone(), *seq)).collect();
            (streams.rest(&self.of), chunks, events_in(streams, &self.of), rows)
        });
        let of_chunk = |chunk: &Chunk| {
            let last = chunk.events.iter().map(EventSeen::of).map(|seen| (seen.resource, seen.seq));
            let last: BTreeMap<_, _> = last.collect();
            last.into_iter().map(|(resource, seq)| (format!("r{resource}"), seq)).collect::<Vec<_>>()
        };
        let wanted: BTreeSet<(String, u64)> =
            chunks.iter().flat_map(|chunk| of_chunk(chunk)).filter(|(_, seq)| *seq <= rest.indexed).collect();
        assert_eq!(rows, wanted, "rows {what}, up to {}", rest.indexed);
        for resource in 0..RESOURCES {
            let wanted: Vec<u64> =
                events.iter().filter(|seen| u64::from(seen.resource) == resource).map(|seen| seen.seq).collect();
            let small = (resource == 0).then_some(1);
            for bytes_max in small.into_iter().chain([ALL_BYTES]) {
                let (found, _) = read(&self.store, &self.of, &one(&format!("r{resource}")), bytes_max).await;
                assert_eq!(found, wanted, "r{resource} {what}, indexed up to {}", rest.indexed);
            }
        }
    }
}

#[tokio::test]
async fn a_read_by_resource_has_all_of_its_events_whatever_upkeep_does() {
    let (mut acts, mut indexed) = (0, 0);
    for seed in 1..=40 {
        let mut scene = Scene::new(seed).await;
        for step in 0..100 {
            if scene.rng.percent(35) || step == 0 {
                scene.append().await;
            } else if let Some(act) = scene.draw_act() {
                acts += 1;
                indexed += usize::from(act.writes.iter().any(|write| matches!(write, StreamWrite::PutResource { .. })));
                scene.writer.write(&scene.store, act.writes).await;
            }
            scene.check(&format!("in step {step} of seed {seed}")).await;
        }
    }
    assert!(acts > 500 && indexed > 150, "{acts} acts, {indexed} of an index prove little");
}
