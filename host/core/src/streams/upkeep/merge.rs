//! Small chunks become one: a single append makes a chunk of one event, and a page of those is many reads.

use std::ops::Range;
use std::sync::Arc;

use super::index::{last_of_each, unindex};
use super::{Act, UpkeepView};
use crate::streams::chunk::Chunk;
use crate::streams::exact::chunk_key;
use crate::streams::limits;
use crate::streams::records::StreamWrite;
use crate::streams::rules::Rules;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeSettings {
    /// So many neighbours become one.
    pub fan: usize,
    /// At so many events, or bytes, a chunk is sealed: it is merged no more.
    pub sealed_events: usize,
    pub sealed_bytes: usize,
}

impl Default for MergeSettings {
    fn default() -> Self {
        Self { fan: limits::MERGE_FAN, sealed_events: limits::SEALED_EVENTS, sealed_bytes: limits::SEALED_BYTES }
    }
}

impl MergeSettings {
    /// It is merged no more.
    pub fn is_sealed(&self, chunk: &Chunk) -> bool {
        chunk.events.len() >= self.sealed_events || chunk.bytes() >= self.sealed_bytes
    }

    /// Chunks of one size are merged with each other, so that each event is written twice more at most.
    fn size(&self, chunk: &Chunk) -> usize {
        usize::from(chunk.events.len() >= self.fan)
    }

    /// Neighbours of one size, neither sealed.
    fn is_like(&self, before: &Chunk, chunk: &Chunk) -> bool {
        before.last == chunk.from
            && self.size(before) == self.size(chunk)
            && !self.is_sealed(before)
            && !self.is_sealed(chunk)
    }
}

/// What a look makes of small chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    pub act: Act,
    /// Chunks at the end that wait for more of their size then.
    pub waiting: usize,
    /// Up to here all are sealed then, if any is.
    pub sealed_to: Option<u64>,
}

/// Runs of neighbours become one each, all that were read, and those again. A union lies under its last key, so whoever stands anywhere
/// before it finds it.
pub fn merge(view: &UpkeepView, settings: MergeSettings, rules: Rules) -> Option<Merged> {
    // What lies before the first run stays as it is, however much that is.
    let begin = long_run(&view.chunks, settings)?.start;
    let mut chunks = view.chunks.get(..view.chunks.len().min(begin + limits::MERGE_CHUNKS_MAX))?.to_vec();
    while let Some(run) = long_run(&chunks, settings) {
        let union = union(chunks.get(run.clone())?)?;
        chunks.splice(run, [Arc::new(union)]);
    }
    Some(Merged {
        act: becomes(view, &chunks, rules),
        waiting: last_run(&chunks, settings).len(),
        sealed_to: sealed_to(&chunks, settings),
    })
}

/// Chunks at the end that wait for more of their size, where there is nothing to merge.
pub fn waiting(view: &UpkeepView, settings: MergeSettings) -> usize {
    last_run(&view.chunks, settings).len()
}

/// Up to where all chunks are sealed, from the first one on.
pub fn sealed_to(chunks: &[Arc<Chunk>], settings: MergeSettings) -> Option<u64> {
    chunks.iter().take_while(|chunk| settings.is_sealed(chunk)).last().map(|chunk| chunk.last)
}

/// The first run of neighbours that is long enough.
fn long_run(chunks: &[Arc<Chunk>], settings: MergeSettings) -> Option<Range<usize>> {
    let fan = settings.fan.max(2);
    let mut start = 0;
    for (at, chunk) in chunks.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chunks.get(at));
        if settings.is_sealed(chunk) {
            start = at + 1;
        } else if !before.is_some_and(|before| settings.is_like(before, chunk)) {
            start = at;
        }
        if (at + 1).saturating_sub(start) >= fan {
            return Some(start..at + 1);
        }
    }
    None
}

/// The run of neighbours at the end.
fn last_run(chunks: &[Arc<Chunk>], settings: MergeSettings) -> &[Arc<Chunk>] {
    let is_split = |pair: &[Arc<Chunk>]| matches!(pair, [one, next] if !settings.is_like(one, next));
    let start = chunks.windows(2).rposition(is_split).map_or(0, |at| at + 1);
    let run = chunks.get(start..).unwrap_or_default();
    if run.last().is_some_and(|last| settings.is_sealed(last)) { &[] } else { run }
}

fn union(run: &[Arc<Chunk>]) -> Option<Chunk> {
    let (first, last) = (run.first()?, run.last()?);
    Some(Chunk {
        from: first.from,
        last: last.last,
        total: last.total,
        at: run.iter().map(|chunk| chunk.at).max()?,
        events: run.iter().flat_map(|chunk| chunk.events.iter().cloned()).collect(),
    })
}

/// The act that makes these of the chunks that were read.
fn becomes(view: &UpkeepView, chunks: &[Arc<Chunk>], rules: Rules) -> Act {
    let stream = || view.stream.clone();
    let mut writes = Vec::new();
    let mut read = view.chunks.iter().peekable();
    for chunk in chunks {
        let mut run = Vec::new();
        while let Some(part) = read.next_if(|part| part.last <= chunk.last) {
            run.push(part);
        }
        if run.iter().any(|part| Arc::ptr_eq(part, chunk)) {
            continue;
        }
        let key = chunk_key(chunk, rules);
        let gone = run.iter().map(|part| chunk_key(part, rules)).filter(|gone| *gone != key);
        writes.extend(gone.map(|key| StreamWrite::DeleteChunk { stream: stream(), key }));
        // Of a resource that has events in several of them one row stays: chunks that compaction made small again were indexed before.
        if chunk.from < view.rest.indexed {
            let last = last_of_each(chunk);
            let gone =
                run.iter().flat_map(|part| unindex(view, part, |resource, seq| last.get(resource) == Some(&seq)));
            writes.extend(gone);
        }
        writes.push(StreamWrite::PutChunk { stream: stream(), key, chunk: Arc::clone(chunk) });
    }
    Act::of(view, writes, 0)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{after, view};
    use super::*;

    const SETTINGS: MergeSettings = MergeSettings { fan: 3, sealed_events: 6, sealed_bytes: 1 << 20 };

    fn merged(view: &UpkeepView) -> Option<Vec<(u64, u64, Vec<u64>)>> {
        merge(view, SETTINGS, Rules::default()).map(|merged| after(view, &merged.act).0)
    }

    #[test]
    fn neighbours_of_one_size_become_one_under_the_last_key() {
        let view = view(&[&["a", "b", "c"], &["a"], &["b"], &["c"], &["d"]]);
        let left = merged(&view).unwrap();
        assert_eq!(left, [(0, 3, vec![1, 2, 3]), (3, 6, vec![4, 5, 6]), (6, 7, vec![7])]);
    }

    #[test]
    fn a_sealed_chunk_and_a_short_run_are_left_alone() {
        assert_eq!(merged(&view(&[&["a"], &["b"]])), None);
        assert_eq!(waiting(&view(&[&["a"], &["b"]]), SETTINGS), 2);
        assert_eq!(waiting(&view(&[&["a"], &["a", "b", "c"]]), SETTINGS), 1, "one that was merged waits for its like");
        assert_eq!(merged(&view(&[&["a"], &["b"], &["a", "b", "c", "d", "e", "f"], &["c"]])), None);
    }

    #[test]
    fn one_look_merges_all_that_was_read_and_what_comes_of_that() {
        let singles: [&[&str]; 11] = [&["a"]; 11];
        let view = view(&singles);
        let merged = merge(&view, SETTINGS, Rules::default()).unwrap();
        assert_eq!(merged.waiting, 2);
        let sizes: Vec<_> = after(&view, &merged.act).0.iter().map(|(from, last, _)| (*from, *last)).collect();
        assert_eq!(sizes, [(0, 9), (9, 10), (10, 11)], "three of three became one of nine");
        let deleted = merged.act.writes.iter().filter(|write| matches!(write, StreamWrite::DeleteChunk { .. })).count();
        assert_eq!((deleted, merged.act.writes.len()), (8, 9));
    }

    #[test]
    fn a_run_behind_more_chunks_than_an_act_takes_is_found() {
        let pairs: Vec<&[&str]> = [&["a"][..], &["a", "b", "c"]].repeat(limits::MERGE_CHUNKS_MAX);
        let view = view(&[pairs.as_slice(), &[&["a"], &["b"], &["c"]]].concat());
        let merged = merge(&view, SETTINGS, Rules::default()).unwrap();
        assert_eq!(merged.act.writes.len(), 3, "two go, and one lies in the place of the third");
    }

    #[test]
    fn nothing_is_merged_over_a_gap() {
        let mut view = view(&[&["a"], &["b"], &["c"], &["d"]]);
        view.chunks.remove(1);
        assert_eq!(merge(&view, SETTINGS, Rules::default()), None);
    }
}
