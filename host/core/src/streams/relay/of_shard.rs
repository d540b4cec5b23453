//! One relay of one shard.

use std::collections::{BTreeMap, BTreeSet};

use super::behind::Work;
use super::record::mark_of;
use super::window::{OrderBy, Overtaken, RelayOutcome, RelaySend, Window};
use crate::ids::{RelayName, Tenant};
use crate::port::stream_store::{RelayPage, RelaySlice, StreamSlice};
use crate::streams::limits;
use crate::streams::name::{StreamKey, StreamPattern};
use crate::streams::records::{Checkpoint, FeedRecord, StreamShardRecord};
use crate::streams::rules::Rules;
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
    /// Most streams that have something in memory.
    pub windows_max: usize,
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
            windows_max: limits::RELAY_WINDOWS_MAX,
            read_bytes: limits::UPKEEP_BYTES_MAX,
            parked_max: limits::RELAY_PARKED_MAX,
            rules: Rules::default(),
        }
    }
}

/// Where the relay stands in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
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
    pub(super) place: Place,
    /// Events that the feed names up to here are left out, but in streams where an operator has sought.
    start: u64,
    pub(super) work: Work,
    pub(super) windows: BTreeMap<StreamKey, Window>,
    /// Streams of whose windows a commit has something to write.
    pub(super) changed: BTreeSet<StreamKey>,
    /// The stream that was served last: they take turns.
    served: Option<StreamKey>,
    /// The stream that was read last: those behind it are read next, so that none waits for as long as others have something new.
    pub(super) read: Option<StreamKey>,
    /// Events that retention took before it had them.
    overtaken: u64,
    /// Most events of a key that are sent together, behind each other in one call.
    run_max: usize,
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
            changed: BTreeSet::new(),
            served: None,
            read: None,
            overtaken: 0,
            run_max: 1,
        }
    }

    /// Most events of a key that are sent together: whoever takes them keeps their order, and has none behind one that it doesn't take.
    pub fn set_run_max(&mut self, run_max: usize) {
        self.run_max = run_max;
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
            for part in &next.parts {
                if self.takes(&part.stream) {
                    self.work.named(&part.stream, next.pos, part.to);
                    self.note_standing(&part.stream);
                }
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
        let Place::All { then, .. } = self.place else { return };
        let since = mark_of(record, &self.settings.name);
        for found in &page.streams {
            if self.takes(&found.stream) && found.checkpoint.upto < found.named_to {
                self.work.note(&found.stream, since, found.named_to);
                self.note_standing(&found.stream);
            }
        }
        self.place = match &page.last {
            Some(last) => Place::All { behind: Some(last.clone()), then },
            None => Place::Feed(then),
        };
    }

    /// Takes what was read of a stream. Answers what retention took before the relay had it.
    pub fn take_window(&mut self, stream: &StreamKey, read: &RelaySlice) -> Option<Overtaken> {
        self.read = Some(stream.clone());
        let window = self.windows.entry(stream.clone()).or_insert_with(|| Window::new(read.checkpoint.clone()));
        if window.is_seeking() {
            return None;
        }
        let overtaken = window.load(read, self.settings.order_by, self.start, self.settings.rules);
        self.overtaken += overtaken.map_or(0, |range| range.lost);
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
            let some = window.sends(stream, now, room, self.run_max, self.settings.rules);
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
        let Some(window) = self.windows.get_mut(stream) else { return false };
        let is_of_use = window.answer(seq, generation, outcome, self.settings.rules);
        self.note_standing(stream);
        is_of_use
    }

    /// How often an event failed that isn't settled.
    pub fn failures(&self, stream: &StreamKey, seq: u64) -> u32 {
        self.windows.get(stream).map_or(0, |window| window.failures(seq))
    }

    /// Whoever has it go on has what failed tried anew.
    pub fn forget_failures(&mut self) {
        self.windows.values_mut().for_each(Window::forget_failures);
    }

    /// When something that failed may be sent again.
    pub fn next_due(&self, now: Monotonic) -> Option<Monotonic> {
        self.windows.values().filter_map(|window| window.next_due(now)).min()
    }

    /// An operator's wish: the stream goes on after `upto`, with its checkpoint as it is stored. What is in flight ends first.
    pub fn seek(&mut self, stream: &StreamKey, checkpoint: &Checkpoint, upto: u64) {
        let window = self.windows.entry(stream.clone()).or_insert_with(|| Window::new(checkpoint.clone()));
        window.seek_to(upto);
        self.note_standing(stream);
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
            self.note_standing(stream);
        }
    }

    pub(super) fn is_seeking(&self, stream: &StreamKey) -> bool {
        self.windows.get(stream).is_some_and(Window::is_seeking)
    }
}
