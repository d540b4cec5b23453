//! One relay of one shard.

use std::collections::BTreeMap;

use super::Written;
use super::behind::Work;
use super::window::{OrderBy, Overtaken, RelayOutcome, RelaySend, Window};
use crate::ids::{RelayName, Tenant};
use crate::port::stream_store::{RelayPage, RelaySlice, StreamSlice};
use crate::streams::limits;
use crate::streams::name::{StreamKey, StreamPattern};
use crate::streams::records::{Checkpoint, FeedRecord, StreamDead, StreamShardRecord, StreamWrite};
use crate::streams::rules::{Rule, Rules};
use crate::time::Monotonic;

#[derive(Clone, Debug)]
pub struct RelaySettings {
    pub name: RelayName,
    /// Streams that it takes, of every tenant.
    pub streams: StreamPattern,
    pub order_by: OrderBy,
    /// Where it never ran, it begins with what is appended from then on.
    pub from_latest: bool,
    /// Retention and compaction wait for it.
    pub holds: bool,
    /// Most events in flight, in this shard.
    pub in_flight_max: usize,
    /// Bounds of one stream's window, in events beyond its checkpoint, and of all of them in bytes.
    pub window_events: usize,
    pub window_bytes: usize,
    /// What one read brings, but for a chunk that has more by itself.
    pub read_bytes: usize,
    /// Most streams that gave their room up.
    pub parked_max: usize,
    /// Every rule holds, but in the model's mutations.
    pub rules: Rules,
}

impl RelaySettings {
    /// With the default bounds.
    pub fn new(name: RelayName, streams: StreamPattern) -> Self {
        Self {
            name,
            streams,
            order_by: OrderBy::default(),
            from_latest: false,
            holds: true,
            in_flight_max: limits::RELAY_INFLIGHT_DEFAULT,
            window_events: limits::RELAY_WINDOW_EVENTS,
            window_bytes: limits::RELAY_WINDOW_BYTES,
            read_bytes: limits::UPKEEP_BYTES_MAX,
            parked_max: limits::RELAY_PARKED_MAX,
            rules: Rules::default(),
        }
    }
}

/// Where the relay stands in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// It has taken the feed up to this record.
    Feed(u64),
    /// What it would read next was trimmed: it goes through all streams of the shard, and takes the feed up again after `then`. The mark
    /// stays where it is meanwhile.
    All { behind: Option<StreamKey>, then: u64 },
}

/// What became of feed records that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedTaken {
    Taken,
    /// The next one isn't there any more: [`Relay::streams_wanted`] follows.
    Trimmed,
}

/// A relay of a shard's streams.
#[derive(Debug)]
pub struct Relay {
    pub(super) settings: RelaySettings,
    place: Place,
    /// Events that the feed names up to here are left out, but in streams where an operator has sought.
    start: u64,
    pub(super) work: Work,
    pub(super) windows: BTreeMap<StreamKey, Window>,
    /// The stream that was served last: they take turns.
    served: Option<StreamKey>,
    /// The stream that was read last: those behind it are read next, so that none waits for as long as others have something new.
    pub(super) read: Option<StreamKey>,
    /// Events that retention took before it had them.
    overtaken: u64,
}

impl Relay {
    /// A relay at a shard's new owner: it begins at its mark.
    pub fn new(settings: RelaySettings, record: &StreamShardRecord) -> Self {
        let mark = record.marks.get(&settings.name).copied();
        // One that ran before has what it began with, also where that was the earliest.
        let begins_now = settings.from_latest && mark.is_none();
        let start = record.starts.get(&settings.name).copied().or_else(|| begins_now.then_some(record.pos));
        Self {
            settings,
            place: Place::Feed(mark.unwrap_or(0)),
            start: start.unwrap_or(0),
            work: Work::default(),
            windows: BTreeMap::new(),
            served: None,
            read: None,
            overtaken: 0,
        }
    }

    pub fn name(&self) -> &RelayName {
        &self.settings.name
    }

    pub fn settings(&self) -> &RelaySettings {
        &self.settings
    }

    pub fn takes(&self, stream: &StreamKey) -> bool {
        self.settings.streams.matches(&stream.name)
    }

    /// Behind which feed record it began; 0 = with the earliest events.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Events that retention took before it had them, as far as this owner noticed.
    pub fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// Streams that may have unsettled events.
    pub fn streams_behind(&self) -> usize {
        self.work.len()
    }

    /// The tenants of those, each as often as it has such streams.
    pub fn tenants_behind(&self) -> impl Iterator<Item = &Tenant> {
        self.work.iter().map(|(stream, _)| &stream.tenant)
    }

    pub fn in_flight(&self) -> usize {
        self.windows.values().map(Window::in_flight).sum()
    }

    /// After which feed record to read; none = it has taken what there is.
    pub fn feed_wanted(&self, record: &StreamShardRecord) -> Option<u64> {
        match self.place {
            Place::Feed(pos) if pos < record.pos => Some(pos),
            _ => None,
        }
    }

    /// Takes feed records, read after [`Self::feed_wanted`].
    pub fn take_feed(&mut self, feed: &[FeedRecord], record: &StreamShardRecord) -> FeedTaken {
        for next in feed {
            match &mut self.place {
                Place::Feed(pos) if next.pos == *pos + 1 => *pos = next.pos,
                _ => break,
            }
            for part in next.parts.iter().filter(|part| self.settings.streams.matches(&part.stream.name)) {
                self.work.named(&part.stream, next.pos, part.to);
            }
        }
        match self.place {
            Place::Feed(pos) if pos < record.pos && feed.first().is_none_or(|first| first.pos > pos + 1) => {
                self.place = Place::All { behind: None, then: record.pos };
                FeedTaken::Trimmed
            }
            _ => FeedTaken::Taken,
        }
    }

    /// Behind which stream to list all of them; none = there is no need to.
    pub fn streams_wanted(&self) -> Option<Option<&StreamKey>> {
        match &self.place {
            Place::All { behind, .. } => Some(behind.as_ref()),
            Place::Feed(_) => None,
        }
    }

    /// Takes a page of all streams.
    pub fn take_streams(&mut self, page: &RelayPage, record: &StreamShardRecord) {
        let Place::All { behind, then } = &mut self.place else { return };
        let since = mark_of(record, &self.settings.name);
        for found in &page.streams {
            if self.settings.streams.matches(&found.stream.name) && found.checkpoint.upto < found.named_to {
                self.work.note(&found.stream, since, found.named_to);
            }
        }
        match &page.last {
            Some(last) => *behind = Some(last.clone()),
            None => self.place = Place::Feed(*then),
        }
    }

    /// Takes what was read of a stream. Answers what retention took before the relay had it.
    pub fn take_window(&mut self, stream: &StreamKey, read: &RelaySlice) -> Option<Overtaken> {
        self.read = Some(stream.clone());
        let window = self.windows.entry(stream.clone()).or_insert_with(|| Window::new(read.checkpoint.clone()));
        if window.is_seeking() {
            return None;
        }
        let overtaken = window.load(read, self.settings.order_by, self.start, self.settings.rules);
        self.overtaken += overtaken.map_or(0, |range| range.to - range.from + 1);
        self.work.reaches(stream, read.slice.rest.named_to(&read.slice.head));
        self.note_unsettled(stream);
        overtaken
    }

    /// What is to be sent now, streams in turn. It is in flight from here on.
    pub fn sends(&mut self, now: Monotonic, count_max: usize) -> Vec<RelaySend> {
        let mut room = self.settings.in_flight_max.saturating_sub(self.in_flight()).min(count_max);
        let (mut first, mut rest): (Vec<_>, Vec<_>) =
            self.windows.iter_mut().partition(|(stream, _)| self.served.as_ref().is_none_or(|served| *stream > served));
        first.append(&mut rest);
        let (mut sends, mut served) = (Vec::new(), None);
        for (stream, window) in first {
            if room == 0 {
                break;
            }
            let some = window.sends(stream, now, room, self.settings.rules);
            room -= some.len();
            if !some.is_empty() {
                served = Some(stream.clone());
            }
            sends.extend(some);
        }
        if served.is_some() {
            self.served = served;
        }
        sends
    }

    /// Takes what became of a send. False: the word is of no use any more.
    pub fn answer(&mut self, stream: &StreamKey, seq: u64, generation: u64, outcome: RelayOutcome) -> bool {
        let rules = self.settings.rules;
        self.windows.get_mut(stream).is_some_and(|window| window.answer(seq, generation, outcome, rules))
    }

    /// When something that failed may be sent again.
    pub fn next_due(&self) -> Option<Monotonic> {
        self.windows.values().filter_map(Window::next_due).min()
    }

    /// An operator's wish: the stream goes on after `upto`, with its checkpoint as it is stored. What is in flight ends first.
    pub fn seek(&mut self, stream: &StreamKey, checkpoint: &Checkpoint, upto: u64) {
        let window = self.windows.entry(stream.clone()).or_insert_with(|| Window::new(checkpoint.clone()));
        window.seek_to(upto);
    }

    /// Streams in which a seek waits for nothing but a look at what is kept ([`Self::seek_look`]).
    pub fn seeks_wanted(&self) -> Vec<StreamKey> {
        let ready = self.windows.iter().filter(|(_, window)| window.wants_seek(self.settings.rules));
        ready.map(|(stream, _)| stream.clone()).collect()
    }

    /// What is kept of a stream in which a seek waits, read when the shard stood at `beat`. The seek goes into the next commit, or is
    /// looked at again.
    pub fn seek_look(&mut self, stream: &StreamKey, slice: &StreamSlice, beat: u64) {
        if let Some(window) = self.windows.get_mut(stream) {
            window.seek_look(slice, beat);
        }
    }

    pub(super) fn is_seeking(&self, stream: &StreamKey) -> bool {
        self.windows.get(stream).is_some_and(Window::is_seeking)
    }

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
        for (stream, window) in &self.windows {
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
        for (stream, behind) in self.work.iter() {
            let next = written.iter().find(|next| next.stream == *stream).map(|next| &next.checkpoint);
            mark = mark.min(self.may_mark(stream, behind.since, behind.named_to, next));
        }
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

    /// How far a stream lets the mark go, with its checkpoint as the commit leaves it.
    fn may_mark(&self, stream: &StreamKey, since: u64, named_to: u64, next: Option<&Checkpoint>) -> u64 {
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
            return;
        }
        self.note_unsettled(&stream);
    }

    /// A stream's first unsettled event lets the mark go further; a stream without one is done with.
    fn note_unsettled(&mut self, stream: &StreamKey) {
        let Some(window) = self.windows.get(stream) else { return };
        if let Some(pos) = window.first_unsettled(window.checkpoint()) {
            self.work.first_unsettled(stream, pos);
        }
        let is_done = self.work.get(stream).is_none_or(|behind| window.upto() >= behind.named_to);
        if is_done && window.is_idle() && !window.is_fresh() {
            self.work.caught_up(stream);
            self.windows.remove(stream);
        }
    }
}

fn mark_of(record: &StreamShardRecord, name: &RelayName) -> u64 {
    record.marks.get(name).copied().unwrap_or(0)
}
