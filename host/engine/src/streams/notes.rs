//! What upkeep remembers of streams, so that it needn't read them to know whether there is something to do.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tokio::time::Instant;
use waybill_core::streams::chunk::Chunk;
use waybill_core::streams::limits::{MERGE_FAN, UPKEEP_BYTES_MAX};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::records::Resource;
use waybill_core::streams::upkeep::{MergeSettings, Retention};
use waybill_core::time::UnixMillis;

/// Streams that are remembered. About 200 bytes each.
const NOTES_MAX: usize = 10_000;
/// Notes that are looked at to find one that may go.
const LOOKS_FOR_IDLE: usize = 32;
/// Bytes read to learn what the front of a stream is.
const FRONT_BYTES: usize = 32 * 1024;
/// Chunks at which a stream is looked at for merging at once. Fewer wait until the fronts are compared with the clock: a look holds up those
/// who append.
const MERGE_AT: usize = 4 * MERGE_FAN;

/// What a job is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The front: what is over the limits goes.
    Front { bytes_max: usize },
    /// What lies behind the sealed chunks.
    Merge,
    /// What lies behind the end of the index of resources.
    Index,
    /// A pass of compaction finds the latest events.
    Survey { after: u64 },
    /// It takes away what they replace.
    Compact { after: u64 },
    /// The front, as far as an operator said.
    Purge,
}

/// The first chunk of a stream, when it was looked at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Front {
    pub last: u64,
    pub at: UnixMillis,
    /// Bytes of all events up to its last.
    pub total: u64,
}

/// What is known of a stream.
#[derive(Debug, Default)]
pub(super) struct Note {
    pub last: u64,
    /// Bytes of all events that it ever had.
    pub bytes: u64,
    pub front: Option<Front>,
    /// Chunks that aren't sealed since the last look for merging.
    pub chunks: usize,
    /// Up to here all chunks are sealed.
    pub sealed_to: u64,
    /// Up to here there is nothing to see for the index.
    pub indexed_to: u64,
    /// Nothing is sealed that the index lacks, as far as is known.
    pub is_indexed: bool,
    /// Something was appended since the last pass of compaction began.
    pub is_dirty: bool,
    pub compacted_at: Option<Instant>,
    /// The last resource that the pass before was about: the next one goes on behind it. None = it begins with the first.
    pub compacted_to: Option<Resource>,
    /// A job of it waits or is under way.
    pub is_queued: bool,
    /// Its front was looked at and nothing of it could go: it isn't looked at again before this.
    pub rests_until: Option<Instant>,
}

/// Of all streams that were appended to of late.
#[derive(Debug, Default)]
pub(super) struct Notes {
    of: BTreeMap<StreamKey, Note>,
    /// The one that was forgotten last: they take turns.
    forgotten: Option<StreamKey>,
}

impl Notes {
    pub fn get(&self, stream: &StreamKey) -> Option<&Note> {
        self.of.get(stream)
    }

    pub fn get_mut(&mut self, stream: &StreamKey) -> Option<&mut Note> {
        self.of.get_mut(stream)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&StreamKey, &Note)> {
        self.of.iter()
    }

    /// The note of a stream that was appended to. Where there are too many, one without a job goes: it is looked at again when it is
    /// appended to. None: all that might go have one. Then upkeep is far behind, and what is in memory mustn't grow with that.
    pub fn take_in(&mut self, stream: &StreamKey) -> Option<&mut Note> {
        if self.of.len() >= NOTES_MAX && !self.of.contains_key(stream) {
            let idle = self.idle()?;
            self.of.remove(&idle);
            self.forgotten = Some(idle);
        }
        Some(self.of.entry(stream.clone()).or_insert_with(|| Note { chunks: MERGE_FAN / 2, ..Note::default() }))
    }

    /// Those that may have something the index lacks, in turn: from the one behind a stream on.
    pub fn unindexed(&self, behind: Option<&StreamKey>) -> impl Iterator<Item = &StreamKey> {
        let behind = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let turn = self.of.range((behind, Bound::Unbounded)).chain(&self.of).take(self.of.len());
        turn.filter(|(_, note)| !note.is_indexed && !note.is_queued).map(|(stream, _)| stream)
    }

    /// One without a job, of the few behind the one that was forgotten last: rather one of which nothing is lost with its note.
    fn idle(&self) -> Option<StreamKey> {
        let behind = self.forgotten.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let few = || self.of.range((behind, Bound::Unbounded)).chain(&self.of).take(LOOKS_FOR_IDLE);
        let has_nothing = few().find(|(_, note)| !note.is_queued && !note.has_work());
        has_nothing.or_else(|| few().find(|(_, note)| !note.is_queued)).map(|(stream, _)| stream.clone())
    }
}

impl Note {
    /// Something is to be merged or may be missing in the index, and nobody would know of it without this note.
    fn has_work(&self) -> bool {
        self.chunks >= MERGE_FAN || !self.is_indexed
    }

    /// Chunks came; none where it isn't known which.
    pub fn added(&mut self, chunks: Option<&[Arc<Chunk>]>) {
        let Some(chunks) = chunks else {
            (self.chunks, self.is_indexed) = (self.chunks + 1, false);
            return;
        };
        for chunk in chunks {
            if !MergeSettings::default().is_sealed(chunk) {
                self.chunks += 1;
                continue;
            }
            self.is_indexed = false;
            if self.sealed_to == chunk.from {
                self.sealed_to = chunk.last;
            }
        }
    }

    /// Compaction made so many chunks behind a number small again, sealed ones perhaps among them: they are looked at for merging with what
    /// comes.
    pub fn made_small(&mut self, after: u64, chunks: usize) {
        self.chunks = self.chunks.saturating_add(chunks);
        self.sealed_to = self.sealed_to.min(after);
    }

    /// What is to be done, as far as is known. Without `now` ages aren't looked at.
    pub fn due(&self, retention: &Retention, now: Option<UnixMillis>) -> Option<Stage> {
        let Some(front) = self.front else { return Some(Stage::Front { bytes_max: FRONT_BYTES }) };
        let by_count = retention.keep_count.is_some_and(|keep| self.last.saturating_sub(front.last) >= keep);
        let by_bytes = retention.keep_bytes.is_some_and(|keep| self.bytes.saturating_sub(front.total) >= keep);
        let by_age = retention.keep_age.zip(now).is_some_and(|(keep, now)| front.at.plus(keep) <= now);
        let rests = self.rests_until.is_some_and(|until| Instant::now() < until);
        if (by_count || by_bytes || by_age) && !rests {
            return Some(Stage::Front { bytes_max: UPKEEP_BYTES_MAX });
        }
        let merge_at = if now.is_some() { MERGE_FAN } else { MERGE_AT };
        (self.chunks >= merge_at).then_some(Stage::Merge)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use waybill_core::ids::Tenant;
    use waybill_core::streams::name::StreamName;

    use super::*;

    fn stream(number: usize) -> StreamKey {
        let name = StreamName::new(format!("s{number:06}")).unwrap();
        StreamKey { tenant: Tenant::new("acme").unwrap(), name }
    }

    #[tokio::test]
    async fn no_more_are_remembered_than_the_bound_and_none_with_a_job_goes() {
        let mut notes = Notes::default();
        for number in 0..NOTES_MAX + 100 {
            notes.take_in(&stream(number)).unwrap();
        }
        assert_eq!(notes.iter().count(), NOTES_MAX);
        assert!(notes.get(&stream(0)).is_none() && notes.get(&stream(NOTES_MAX)).is_some());
        notes.of.values_mut().for_each(|note| note.is_queued = true);
        assert!(notes.take_in(&stream(NOTES_MAX + 100)).is_none(), "all have something to do");
        assert!(notes.take_in(&stream(NOTES_MAX + 99)).is_some());
        assert_eq!(notes.iter().count(), NOTES_MAX);
    }

    #[test]
    fn a_note_of_which_nothing_is_lost_goes_before_one_that_knows_of_work() {
        let mut notes = Notes::default();
        for number in 0..NOTES_MAX {
            notes.take_in(&stream(number)).unwrap();
        }
        for (number, chunks, is_indexed) in [(0, 0, false), (1, MERGE_FAN, true), (2, MERGE_FAN - 1, true)] {
            let note = notes.get_mut(&stream(number)).unwrap();
            (note.chunks, note.is_indexed) = (chunks, is_indexed);
        }
        notes.take_in(&stream(NOTES_MAX)).unwrap();
        let left = |notes: &Notes| [0, 1, 2, 3].map(|number| notes.get(&stream(number)).is_some());
        assert_eq!(left(&notes), [true, true, false, true]);
        // All others know of work: the next one goes.
        notes.take_in(&stream(NOTES_MAX + 1)).unwrap();
        assert_eq!(left(&notes), [true, true, false, false]);
    }

    #[tokio::test]
    async fn what_is_over_a_limit_is_due_and_what_was_just_looked_at_rests() {
        let keep_bytes = Retention { keep_bytes: Some(100), ..Retention::default() };
        let mut note = Note { last: 9, bytes: 250, ..Note::default() };
        assert_eq!(note.due(&keep_bytes, None), Some(Stage::Front { bytes_max: FRONT_BYTES }), "its front isn't known");
        let front = Front { last: 4, at: UnixMillis(1_000), total: 150 };
        note.front = Some(front);
        let over = Some(Stage::Front { bytes_max: UPKEEP_BYTES_MAX });
        assert_eq!(note.due(&keep_bytes, None), over);
        note.front = Some(Front { total: 151, ..front });
        assert_eq!(note.due(&keep_bytes, None), None);
        let keep_count = Retention { keep_count: Some(5), ..Retention::default() };
        assert_eq!(note.due(&keep_count, None), over);
        let keep_age = Retention { keep_age: Some(std::time::Duration::from_secs(2)), ..Retention::default() };
        assert_eq!((note.due(&keep_age, Some(UnixMillis(2_999))), note.due(&keep_age, None)), (None, None));
        assert_eq!(note.due(&keep_age, Some(UnixMillis(3_000))), over);
        note.rests_until = Some(Instant::now() + std::time::Duration::from_secs(1));
        note.chunks = MERGE_FAN;
        assert_eq!(note.due(&keep_count, None), None, "a few wait for the next look at the clock");
        assert_eq!(note.due(&keep_count, Some(UnixMillis(0))), Some(Stage::Merge));
        note.chunks = MERGE_AT;
        assert_eq!(note.due(&keep_count, None), Some(Stage::Merge));
    }
}
