//! Small chunks become one: a single append makes a chunk of one event, and a page of those is many reads.

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
    pub(super) fn is_sealed(&self, chunk: &Chunk) -> bool {
        chunk.events.len() >= self.sealed_events || chunk.bytes() >= self.sealed_bytes
    }

    /// Chunks of one size are merged with each other, so that each event is written twice more at most.
    fn size(&self, chunk: &Chunk) -> usize {
        usize::from(chunk.events.len() >= self.fan)
    }
}

/// The first run of neighbours that become one. The union lies under the last key, so whoever stands anywhere before it finds it.
pub fn merge(view: &UpkeepView, settings: MergeSettings, rules: Rules) -> Option<Act> {
    let run = run(view, settings);
    if run.len() >= settings.fan.max(2) { union(view, &run, rules) } else { None }
}

/// Chunks at the end that wait for more of their size, where there is nothing to merge.
pub fn waiting(view: &UpkeepView, settings: MergeSettings) -> usize {
    run(view, settings).len()
}

/// The first run of neighbours that is long enough; else the one at the end.
fn run(view: &UpkeepView, settings: MergeSettings) -> Vec<&Arc<Chunk>> {
    let mut run: Vec<&Arc<Chunk>> = Vec::new();
    for chunk in &view.chunks {
        let follows =
            run.last().is_none_or(|before| before.last == chunk.from && settings.size(before) == settings.size(chunk));
        if settings.is_sealed(chunk) {
            run.clear();
            continue;
        }
        if !follows {
            run.clear();
        }
        run.push(chunk);
        if run.len() >= settings.fan.max(2) {
            break;
        }
    }
    run
}

fn union(view: &UpkeepView, run: &[&Arc<Chunk>], rules: Rules) -> Option<Act> {
    let (first, last) = (run.first()?, run.last()?);
    let union = Chunk {
        from: first.from,
        last: last.last,
        total: last.total,
        at: run.iter().map(|chunk| chunk.at).max()?,
        events: run.iter().flat_map(|chunk| chunk.events.iter().cloned()).collect(),
    };
    let key = chunk_key(&union, rules);
    let gone = run.iter().map(|chunk| chunk_key(chunk, rules)).filter(|gone| *gone != key);
    let mut writes: Vec<_> = gone.map(|key| StreamWrite::DeleteChunk { stream: view.stream.clone(), key }).collect();
    // Of a resource that has events in several of them one row stays: chunks that compaction made small again were indexed before.
    if union.from < view.rest.indexed {
        let last = last_of_each(&union);
        let gone = run.iter().flat_map(|chunk| unindex(view, chunk, |resource, seq| last.get(resource) == Some(&seq)));
        writes.extend(gone);
    }
    writes.push(StreamWrite::PutChunk { stream: view.stream.clone(), key, chunk: Arc::new(union) });
    Some(Act::of(view, writes, 0))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{after, view};
    use super::*;

    const SETTINGS: MergeSettings = MergeSettings { fan: 3, sealed_events: 6, sealed_bytes: 1 << 20 };

    fn merged(view: &UpkeepView) -> Option<Vec<(u64, u64, Vec<u64>)>> {
        merge(view, SETTINGS, Rules::default()).map(|act| after(view, &act).0)
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
    fn nothing_is_merged_over_a_gap() {
        let mut view = view(&[&["a"], &["b"], &["c"], &["d"]]);
        view.chunks.remove(1);
        assert_eq!(merge(&view, SETTINGS, Rules::default()), None);
    }
}
