//! Part: what commits write of a relay, and how far its mark goes. Both cost what has changed, and not what is behind.

use super::Written;
use super::behind::Behind;
use super::of_shard::{Place, Relay};
use super::window::Window;
use crate::ids::RelayName;
use crate::streams::name::StreamKey;
use crate::streams::records::{Checkpoint, StreamDead, StreamShardRecord, StreamWrite};
use crate::streams::rules::Rule;

impl Relay {
    /// Writes checkpoints, dead letters and ranges that were overtaken; answers how far the mark goes.
    pub(super) fn draft(
        &self,
        beat: u64,
        record: &StreamShardRecord,
        writes: &mut Vec<StreamWrite>,
    ) -> (Vec<Written>, u64) {
        let mut written = Vec::new();
        let mut mark = match self.place {
            Place::Feed(pos) => pos,
            Place::All { .. } => mark_of(record, &self.settings.name),
        };
        for stream in &self.changed {
            let Some(window) = self.windows.get(stream) else { continue };
            let Some(next) = window.draft(stream, beat, self.settings.rules) else { continue };
            if window.is_seeking() {
                // Where the feed names what comes after it is known when it was read.
                mark = 0;
            } else {
                self.draft_words(stream, window, writes);
            }
            let (relay, stream, checkpoint) = (self.settings.name.clone(), stream.clone(), next.checkpoint.clone());
            writes.push(StreamWrite::PutCheckpoint { relay, stream, checkpoint });
            written.push(next);
        }
        for next in &written {
            if let Some(behind) = self.work.get(&next.stream) {
                mark = mark.min(self.may_mark(&next.stream, behind, Some(&next.checkpoint)));
            }
        }
        let streams: Vec<&StreamKey> = written.iter().map(|next| &next.stream).collect();
        let mark = mark.min(self.work.least_hold(&streams));
        (written, mark)
    }

    fn draft_words(&self, stream: &StreamKey, window: &Window, writes: &mut Vec<StreamWrite>) {
        for (seq, packed, why) in window.refusals() {
            let (relay, stream, why) = (self.settings.name.clone(), stream.clone(), why.clone());
            let dead = StreamDead::Relay { relay, stream, seq, packed: packed.clone(), why };
            writes.push(StreamWrite::PutDead(Box::new(dead)));
        }
        for range in window.overtaken() {
            let (relay, stream) = (self.settings.name.clone(), stream.clone());
            writes.push(StreamWrite::NoteOvertaken { relay, stream, from: range.from, to: range.to });
        }
    }

    /// How far a stream lets the mark go, with its checkpoint as it is, or as a commit leaves it.
    fn may_mark(&self, stream: &StreamKey, behind: Behind, next: Option<&Checkpoint>) -> u64 {
        let Behind { since, named_to, .. } = behind;
        let rules = self.settings.rules;
        let window = self.windows.get(stream);
        let unsettled = window.and_then(|window| match next {
            Some(next) => window.first_unsettled(next),
            None => window.first_unsettled(window.checkpoint()),
        });
        let upto = next.map(|next| next.upto).or_else(|| window.map(Window::upto)).unwrap_or(0);
        match unsettled {
            _ if !rules.kept(Rule::MarkWaits) => u64::MAX,
            Some(pos) => since.max(pos.saturating_sub(1)),
            // All that was named is settled. What was named since comes by the feed. A window that wasn't read says nothing: behind a seek
            // it isn't known yet what was named.
            None if upto >= named_to && !window.is_some_and(Window::is_fresh) => u64::MAX,
            // Nothing of it is in memory, perhaps because nothing of it is left: its checkpoint doesn't say so yet.
            None if !rules.kept(Rule::MarkWaitsForTrimmed) => u64::MAX,
            None => since,
        }
    }

    pub(super) fn applied(&mut self, written: Written) {
        let stream = written.stream.clone();
        let Some(window) = self.windows.get_mut(&stream) else { return };
        let was_seek = written.checkpoint.generation != window.checkpoint().generation;
        window.applied(written, self.settings.rules);
        if was_seek {
            // It may go back behind all that the feed still names.
            self.work.note(&stream, 0, 0);
            return self.note_standing(&stream);
        }
        self.note_unsettled(&stream);
    }

    /// A stream's first unsettled event lets the mark go further; a stream without one is done with.
    pub(super) fn note_unsettled(&mut self, stream: &StreamKey) {
        let Some(window) = self.windows.get(stream) else { return };
        if let Some(pos) = window.first_unsettled(window.checkpoint()) {
            self.work.first_unsettled(stream, pos);
        }
        let is_done = self.work.get(stream).is_none_or(|behind| window.upto() >= behind.named_to);
        if is_done && window.is_idle() && !window.is_fresh() {
            self.work.caught_up(stream);
            self.windows.remove(stream);
        }
        self.note_standing(stream);
    }

    /// Something of a stream has changed: how far it lets the mark go, and whether the next commit has something to write of it.
    pub(super) fn note_standing(&mut self, stream: &StreamKey) {
        if let Some(behind) = self.work.get(stream) {
            let hold = self.may_mark(stream, behind, None);
            self.work.hold(stream, hold);
        }
        if !self.has_to_record(stream) {
            self.changed.remove(stream);
        } else if !self.changed.contains(stream) {
            self.changed.insert(stream.clone());
        }
    }

    /// Whether the next commit has something to write of a stream.
    pub fn has_to_record(&self, stream: &StreamKey) -> bool {
        self.windows.get(stream).is_some_and(Window::is_changed)
    }
}

pub(super) fn mark_of(record: &StreamShardRecord, name: &RelayName) -> u64 {
    record.marks.get(name).copied().unwrap_or(0)
}
