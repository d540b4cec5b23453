//! Compaction: the last event of each (type, id) stays. A delete is kept for a time, so that whoever has the resource hears of it; when it
//! is dropped, the mark of dropped ones is raised in the same commit, and who stands before it has to begin anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::index::unindex;
use super::{Act, Compaction, UpkeepView, is_older};
use crate::streams::blob;
use crate::streams::chunk::{Chunk, StoredEvent};
use crate::streams::envelope::EventHead;
use crate::streams::event::Op;
use crate::streams::exact::chunk_key;
use crate::streams::limits::UPKEEP_ROWS_MAX;
use crate::streams::records::{Resource, StreamRest, StreamWrite};
use crate::streams::rules::{Rule, Rules};
use crate::time::UnixMillis;

/// Compacts what was read of a stream, by the latest events that a pass over it has seen, up to the last number of a chunk. What lies beyond
/// is left as it is. A pass goes from the front to the back, so what a delete replaces is gone before the delete may go.
pub fn compact(
    view: &UpkeepView,
    latest: &Latest,
    compaction: &Compaction,
    now: UnixMillis,
    rules: Rules,
) -> Option<Act> {
    let end = latest.upto;
    if latest.is_held(view) || view.chunks.is_empty() {
        return None;
    }
    let pass = Pass { latest, compaction, now, rules };
    let (mut rest, mut writes, mut gone) = (view.rest, Vec::new(), 0);
    // Where the range of chunks begins that were emptied: the next one covers it.
    let mut carried: Option<u64> = None;
    let newest = view.chunks.last().map(|chunk| chunk.last);
    for chunk in &view.chunks {
        // What follows is for the next act.
        if carried.is_none() && writes.len() >= UPKEEP_ROWS_MAX {
            break;
        }
        let from = carried.take().unwrap_or(chunk.from);
        if chunk.last > end && from == chunk.from {
            break;
        }
        let kept = if chunk.last > end { chunk.events.clone() } else { pass.kept(chunk, &mut rest) };
        gone += (chunk.events.len() - kept.len()) as u64;
        if kept.len() != chunk.events.len() {
            let is_kept = |seq: u64| kept.binary_search_by_key(&seq, |event| event.seq).is_ok();
            writes.extend(blob::delete_of(&view.stream, chunk.events.iter().filter(|event| !is_kept(event.seq))));
            writes.extend(unindex(view, chunk, |_: &Resource, seq: u64| is_kept(seq)));
        }
        let key = chunk_key(chunk, rules);
        if kept.is_empty() && Some(chunk.last) != newest {
            carried = Some(from);
            writes.push(StreamWrite::DeleteChunk { stream: view.stream.clone(), key });
        } else if kept.len() != chunk.events.len() || from != chunk.from {
            let chunk = Arc::new(Chunk { from, events: kept, ..chunk.as_ref().clone() });
            writes.push(StreamWrite::PutChunk { stream: view.stream.clone(), key, chunk });
        }
    }
    if writes.is_empty() {
        return None;
    }
    if rest != view.rest {
        writes.push(StreamWrite::PutRest { stream: view.stream.clone(), rest });
    }
    Some(Act::of(view, writes, gone))
}

/// The number of each resource's latest event, of all that a pass has seen. It holds no more than a bound: where a stream has more resources,
/// the pass is about the first of them in the order of their names, and the next one about those behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latest {
    of: BTreeMap<Resource, u64>,
    upto: u64,
    count_max: usize,
    /// Resources up to this one aren't looked at.
    behind: Option<Resource>,
    /// The last one that is; none = there is none behind it.
    end: Option<Resource>,
}

impl Latest {
    /// A pass that is about resources behind this one, so many at most.
    pub fn behind(behind: Option<Resource>, count_max: usize) -> Self {
        Self { of: BTreeMap::new(), upto: 0, count_max: count_max.max(1), behind, end: None }
    }

    /// The next chunk of the stream, in order.
    pub fn see(&mut self, chunk: &Chunk) {
        self.upto = chunk.last;
        for event in &chunk.events {
            let Some((resource, _)) = resource(event) else { continue };
            if !self.takes(&resource) {
                continue;
            }
            self.of.insert(resource, event.seq);
            if self.of.len() > self.count_max {
                self.narrow();
            }
        }
    }

    /// Half of them is left for the next pass: what stays is all that was seen of a smaller range.
    fn narrow(&mut self) {
        if let Some(left) = self.of.keys().nth(self.of.len() / 2).cloned() {
            drop(self.of.split_off(&left));
        }
        self.end = self.of.keys().next_back().cloned();
    }

    /// Whether a resource is in the range that the pass is about.
    fn takes(&self, resource: &Resource) -> bool {
        self.behind.as_ref().is_none_or(|behind| resource > behind)
            && self.end.as_ref().is_none_or(|end| resource <= end)
    }

    /// Behind which resource the next pass goes on; none = this one was the last.
    pub fn end(&self) -> Option<&Resource> {
        self.end.as_ref()
    }

    /// Whether a holding relay lacks some of what the pass has seen: then nothing of it goes.
    pub fn is_held(&self, view: &UpkeepView) -> bool {
        self.upto > view.free_to
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

/// Whose event it is, and whether it deletes that; none = it can't be read.
pub(super) fn resource(event: &StoredEvent) -> Option<(Resource, bool)> {
    let head = EventHead::of(&event.packed).ok()?;
    Some(((head.resource_type.to_owned(), head.resource_id.to_owned()), head.op == Op::DELETE))
}

struct Pass<'a> {
    latest: &'a Latest,
    compaction: &'a Compaction,
    now: UnixMillis,
    rules: Rules,
}

impl Pass<'_> {
    /// What stays of a chunk.
    fn kept(&self, chunk: &Chunk, rest: &mut StreamRest) -> Vec<StoredEvent> {
        let is_old = self.compaction.tombstone_keep.is_some_and(|keep| is_older(chunk.at, keep, self.now));
        let mut kept = Vec::with_capacity(chunk.events.len());
        for event in &chunk.events {
            let Some((resource, is_delete)) = resource(event) else {
                // What can't be read replaces nothing and is replaced by nothing.
                kept.push(event.clone());
                continue;
            };
            if !self.latest.takes(&resource) {
                kept.push(event.clone());
                continue;
            }
            if self.latest.of.get(&resource) != Some(&event.seq) {
                continue;
            }
            // The very last one stays, so that a stream always shows how far it went.
            if is_delete && is_old && event.seq < self.latest.upto {
                if self.rules.kept(Rule::RaisePurged) {
                    rest.purged = rest.purged.max(event.seq);
                    rest.gone = rest.gone.max(event.pos);
                }
                continue;
            }
            kept.push(event.clone());
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fixtures::{after, view};
    use super::*;

    type Left = (Vec<(u64, u64, Vec<u64>)>, StreamRest);

    fn compacted(view: &UpkeepView, keep: Option<u64>, end: u64) -> Option<Left> {
        let compaction = Compaction { tombstone_keep: keep.map(Duration::from_millis) };
        let mut latest = Latest::behind(None, usize::MAX);
        view.chunks.iter().filter(|chunk| chunk.last <= end).for_each(|chunk| latest.see(chunk));
        let act = compact(view, &latest, &compaction, UnixMillis(100_000), Rules::default())?;
        Some(after(view, &act))
    }

    #[test]
    fn the_last_event_of_each_resource_stays_and_chunks_still_cover_everything() {
        let view = view(&[&["a", "b"], &["a", "c"], &["b", "a"], &["c"]]);
        let (left, rest) = compacted(&view, None, 6).unwrap();
        assert_eq!(left, [(0, 4, vec![4]), (4, 6, vec![5, 6]), (6, 7, vec![7])]);
        assert_eq!(rest, view.rest);
    }

    #[test]
    fn what_lies_beyond_the_end_is_left_but_for_the_range_that_it_takes_over() {
        let view = view(&[&["a", "a"], &["b"], &["A", "B"], &["c", "c"]]);
        let (left, rest) = compacted(&view, Some(0), 5).unwrap();
        // The delete of a is dropped; that of b is the last event up to the end.
        assert_eq!(left, [(0, 5, vec![5]), (5, 7, vec![6, 7])]);
        assert_eq!((rest.purged, rest.gone), (4, 40));
    }

    #[test]
    fn a_delete_stays_for_its_time() {
        let view = view(&[&["a", "A", "b"], &["c"]]);
        let (left, rest) = compacted(&view, Some(97_001), 3).unwrap();
        assert_eq!((left[0].clone(), rest.purged), ((0, 3, vec![2, 3]), 0));
        let (left, rest) = compacted(&view, Some(97_000), 3).unwrap();
        assert_eq!((left[0].clone(), rest.purged), ((0, 3, vec![3]), 2));
    }

    #[test]
    fn more_resources_than_a_pass_may_hold_are_compacted_range_by_range() {
        let mut view = view(&[&["d", "b", "c"], &["a", "e", "b"], &["d", "A", "e"], &["c", "f"]]);
        let once = compacted(&view, Some(0), 11).unwrap();
        let compaction = Compaction { tombstone_keep: Some(Duration::ZERO) };
        let (mut behind, mut passes) = (None, 0);
        loop {
            let mut latest = Latest::behind(behind, 2);
            for chunk in &view.chunks {
                latest.see(chunk);
                assert!(latest.of.len() <= 2, "{latest:?}");
            }
            passes += 1;
            if let Some(act) = compact(&view, &latest, &compaction, UnixMillis(100_000), Rules::default()) {
                for write in &act.writes {
                    match write {
                        StreamWrite::PutChunk { key, chunk, .. } => {
                            view.chunks
                                .iter_mut()
                                .filter(|old| old.last == *key)
                                .for_each(|old| *old = Arc::clone(chunk));
                        }
                        StreamWrite::DeleteChunk { key, .. } => view.chunks.retain(|old| old.last != *key),
                        _ => {}
                    }
                }
                view.rest = act.rest().unwrap_or(view.rest);
            }
            behind = latest.end().cloned();
            if behind.is_none() {
                break;
            }
        }
        let seqs = |chunk: &Arc<Chunk>| chunk.events.iter().map(|event| event.seq).collect();
        let left: Vec<_> = view.chunks.iter().map(|chunk| (chunk.from, chunk.last, seqs(chunk))).collect();
        assert_eq!((left, view.rest), once);
        assert!(passes > 2, "{passes}");
    }

    #[test]
    fn nothing_is_compacted_that_a_holding_relay_lacks_and_nothing_twice() {
        let held = UpkeepView { free_to: 2, ..view(&[&["a", "a", "b"]]) };
        assert_eq!(compacted(&held, None, 3), None);
        assert_eq!(compacted(&view(&[&["a", "b"]]), None, 2), None);
    }
}
