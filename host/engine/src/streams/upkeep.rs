//! Which streams are merged, trimmed and compacted next. What an act takes is decided by the pure [`waybill_core::streams::upkeep`]; here
//! is when a stream is looked at.
//!
//! A stream is looked at when enough was appended to it, or when its front is over its limits: what its front was is remembered from the
//! look before.

mod compacting;
mod indexing;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::StreamActed;
use waybill_core::port::stream_store::{DueStream, StreamSlice};
use waybill_core::streams::limits::{COMPACT_RESOURCES_MAX, MERGE_CHUNKS_MAX, MERGE_FAN, UPKEEP_BYTES_MAX};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::owner::Published;
use waybill_core::streams::records::Checkpoint;
use waybill_core::streams::rules::Rules;
use waybill_core::streams::settings::StreamsSettings;
use waybill_core::streams::upkeep::{
    Act, Indexing, Latest, MergeSettings, Retention, UpkeepView, compact, due, merge, sealed_to, trim, waiting,
};
use waybill_core::time::UnixMillis;

use super::due::DueLooks;
use super::mail::PurgeAsk;
use super::meter::StreamMeter;
use super::notes::{Front, Notes, Stage};

/// How often the fronts are compared with the clock.
const AGES_EVERY: Duration = Duration::from_secs(1);
/// A compacted stream that was appended to is gone through this often at most.
const COMPACT_EVERY: Duration = Duration::from_secs(60);
/// What is to be read for the next act.
pub(super) enum UpkeepAsk {
    /// A stream behind a number.
    Stream { stream: StreamKey, after: u64, bytes_max: usize },
    /// Which streams are due for a look at their age.
    Due,
}

#[derive(Clone, Debug)]
struct Job {
    stream: StreamKey,
    stage: Stage,
}

/// An act that is in the commit under way, or about to be.
struct Out {
    job: Job,
    events: u64,
    /// Up to where the index goes with it.
    indexed_to: Option<u64>,
    merged: Option<Leftover>,
    /// Chunks that it writes and that may become one with others.
    small: usize,
    /// There is more of the stream than was read for it.
    goes_on: bool,
}

struct Leftover {
    waiting: usize,
    sealed_to: Option<u64>,
}

pub(super) struct Upkeep {
    notes: Notes,
    queue: VecDeque<Job>,
    purges: VecDeque<(PurgeAsk, StreamActed)>,
    latest: Option<(StreamKey, Latest)>,
    /// Rows of the index that no commit has made yet.
    indexing: Option<(StreamKey, Indexing)>,
    /// The stream whose turn at the index was last.
    indexed: Option<StreamKey>,
    /// When something was appended last.
    appended_at: Option<Instant>,
    /// Resources that one pass of compaction holds in memory at most.
    resources_max: usize,
    current: Option<Job>,
    out: Option<Out>,
    aged_at: Instant,
    due: DueLooks,
}

impl Upkeep {
    pub fn new(due: DueLooks) -> Self {
        Self {
            notes: Notes::default(),
            queue: VecDeque::new(),
            purges: VecDeque::new(),
            latest: None,
            indexing: None,
            indexed: None,
            appended_at: None,
            resources_max: COMPACT_RESOURCES_MAX,
            current: None,
            out: None,
            aged_at: Instant::now(),
            due,
        }
    }

    /// A commit added to streams.
    pub fn published(&mut self, published: &Published, settings: &StreamsSettings) {
        self.appended_at = Some(Instant::now());
        for part in &published.parts {
            let stream = &part.part.stream;
            let Some(note) = self.notes.take_in(stream) else { continue };
            note.last = note.last.max(part.part.to);
            let total = part.chunks.iter().flatten().map(|chunk| chunk.total).max();
            note.bytes = note.bytes.max(total.unwrap_or(0));
            note.is_dirty = true;
            note.added(part.chunks.as_deref());
            let stage = note.due(&settings.retention(&stream.name), None);
            self.queue(stream.clone(), stage);
        }
    }

    fn queue(&mut self, stream: StreamKey, stage: Option<Stage>) {
        let Some(stage) = stage else { return };
        match self.notes.get_mut(&stream) {
            Some(note) if note.is_queued => {}
            Some(note) => {
                note.is_queued = true;
                self.queue.push_back(Job { stream, stage });
            }
            None => {}
        }
    }

    pub fn purge(&mut self, ask: PurgeAsk) {
        self.purges.push_back((ask, StreamActed::default()));
    }

    /// What is to be read next, if anything.
    pub fn next(&mut self, now: UnixMillis, settings: &StreamsSettings) -> Option<UpkeepAsk> {
        if self.out.is_some() || self.current.is_some() {
            return None;
        }
        self.look_at_ages(now, settings);
        if self.purges.is_empty() && self.due.is_due(now) {
            return Some(UpkeepAsk::Due);
        }
        let job = match self.purges.front() {
            Some((ask, _)) => Job { stream: ask.stream.clone(), stage: Stage::Purge },
            None => self.queue.pop_front()?,
        };
        let note = self.notes.get(&job.stream);
        let (sealed_to, indexed_to) = note.map_or((0, 0), |note| (note.sealed_to, note.indexed_to));
        let (after, bytes_max) = match job.stage {
            Stage::Front { bytes_max } => (0, bytes_max),
            Stage::Purge => (0, UPKEEP_BYTES_MAX),
            Stage::Merge => (sealed_to, UPKEEP_BYTES_MAX),
            Stage::Index => (indexed_to, UPKEEP_BYTES_MAX),
            Stage::Survey { after } | Stage::Compact { after } => (after, UPKEEP_BYTES_MAX),
        };
        let stream = job.stream.clone();
        self.current = Some(job);
        Some(UpkeepAsk::Stream { stream, after, bytes_max })
    }

    fn look_at_ages(&mut self, now: UnixMillis, settings: &StreamsSettings) {
        if self.aged_at.elapsed() < AGES_EVERY {
            return;
        }
        self.aged_at = Instant::now();
        self.index_in_turn();
        let mut due = Vec::new();
        for (stream, note) in self.notes.iter() {
            let stage = note.due(&settings.retention(&stream.name), Some(now));
            let compacts = settings.compaction(&stream.name).is_some();
            let compacts =
                compacts && note.is_dirty && note.compacted_at.is_none_or(|at| at.elapsed() >= COMPACT_EVERY);
            due.extend(stage.or(compacts.then_some(Stage::Survey { after: 0 })).map(|stage| (stream.clone(), stage)));
        }
        for (stream, stage) in due {
            self.queue(stream, Some(stage));
        }
    }

    /// Takes up the streams whose rows say that they are due. Answers the act for rows that lie wrong.
    pub fn found_due(&mut self, rows: Vec<DueStream>, beat: u64, now: UnixMillis) -> Option<Act> {
        let (streams, act) = self.due.found(rows, beat, now);
        for stream in streams {
            // Without room for a note it is found again.
            if self.notes.take_in(&stream).is_some() {
                self.queue(stream, Some(Stage::Front { bytes_max: UPKEEP_BYTES_MAX }));
            }
        }
        act
    }

    /// The act for what was read, if any. Without one the stream goes on to what follows.
    pub fn decide(
        &mut self,
        slice: &StreamSlice,
        holding: &[Checkpoint],
        beat: u64,
        now: UnixMillis,
        settings: &StreamsSettings,
    ) -> Option<Act> {
        let job = self.current.take()?;
        let (stream, rules) = (job.stream.clone(), Rules::default());
        let view = UpkeepView::new(stream.clone(), beat, slice, holding, rules);
        let (mut goes_on, mut merged) = (!slice.is_all, None);
        let act = match job.stage {
            Stage::Front { .. } => {
                let retention = settings.retention(&stream.name);
                trim(&view, &retention, now, rules).or_else(|| due(&view, self.due.shard(), &retention, now))
            }
            Stage::Merge => merge(&view, MergeSettings::default(), rules).map(|found| {
                self.merges(&view);
                goes_on |= view.chunks.len() > MERGE_CHUNKS_MAX;
                merged = Some(Leftover { waiting: found.waiting, sealed_to: found.sealed_to });
                found.act
            }),
            Stage::Index => {
                let (act, is_full) = self.index(&view, slice.is_all);
                goes_on |= is_full;
                act
            }
            Stage::Survey { after } => {
                self.survey(&view, slice, after, now, settings);
                return None;
            }
            Stage::Compact { .. } => {
                let compaction = settings.compaction(&stream.name).map(|(compaction, _)| compaction);
                let latest = self.latest.as_ref().filter(|(of, _)| *of == stream).map(|(_, latest)| latest);
                if latest.is_some_and(|latest| latest.is_held(&view)) {
                    // It is gone through again in a while, also if nothing is appended meanwhile.
                    self.notes.get_mut(&stream).into_iter().for_each(|note| note.is_dirty = true);
                    self.end(&stream);
                    return None;
                }
                compaction.zip(latest).and_then(|(compaction, latest)| compact(&view, latest, &compaction, now, rules))
            }
            Stage::Purge => {
                let before = self.purges.front().and_then(|(ask, _)| ask.before);
                let named_to = view.rest.named_to(&view.head);
                let keep = before.map_or(0, |before| (named_to + 1).saturating_sub(before));
                let all = Retention { keep_count: Some(keep), ..Retention::default() };
                trim(&view, &all, now, rules)
            }
        };
        match act {
            Some(act) => {
                self.due.acts(&act);
                let (indexed_to, small) = (act.indexed_to(&view.rest), act.small_chunks(MergeSettings::default()));
                self.out = Some(Out { job, events: act.events, indexed_to, merged, small, goes_on });
                Some(act)
            }
            None => {
                self.nothing_to_do(job, &view, slice, settings);
                None
            }
        }
    }

    /// Nothing of a stream is to be done at this stage.
    fn nothing_to_do(&mut self, job: Job, view: &UpkeepView, slice: &StreamSlice, settings: &StreamsSettings) {
        let Job { stream, stage } = job;
        let last = view.chunks.last().map(|chunk| chunk.last);
        match stage {
            Stage::Front { .. } => {
                let front =
                    view.chunks.first().map(|chunk| Front { last: chunk.last, at: chunk.at, total: chunk.total });
                let Some(note) = self.notes.get_mut(&stream) else { return };
                note.bytes = note.bytes.max(view.head.bytes);
                // Of a stream without a front nothing is over any limit.
                let none = Front { last: note.last, at: UnixMillis(u64::MAX), total: note.bytes };
                (note.front, note.is_queued) = (front.or(Some(none)), false);
                note.rests_until = Some(Instant::now() + AGES_EVERY);
                let next = (note.chunks >= MERGE_FAN).then_some(Stage::Merge);
                self.queue(stream, next);
            }
            Stage::Merge => {
                let Some(note) = self.notes.get_mut(&stream) else { return };
                let sealed = sealed_to(&view.chunks, MergeSettings::default());
                note.sealed_to = sealed.unwrap_or(note.sealed_to);
                note.is_queued = false;
                match last {
                    // Of what was read nothing is merged as it lies, and there is more behind it.
                    Some(last) if !slice.is_all => {
                        note.sealed_to = last;
                        self.queue(stream, Some(Stage::Merge));
                    }
                    _ => {
                        // They count with what comes: only then are no more left than become one.
                        note.chunks = waiting(view, MergeSettings::default());
                        let stage = note.due(&settings.retention(&stream.name), None);
                        self.queue(stream, stage);
                    }
                }
            }
            Stage::Index => self.index_behind(stream, view, slice.is_all),
            Stage::Compact { .. } => match last {
                Some(last) if !slice.is_all => {
                    self.queue.push_front(Job { stream, stage: Stage::Compact { after: last } })
                }
                _ => self.pass_over(stream),
            },
            Stage::Survey { .. } => self.end(&stream),
            Stage::Purge => {
                if let Some((ask, acted)) = self.purges.pop_front() {
                    let acted = StreamActed { first: view.rest.first, last: view.head.last, ..acted };
                    let _gone = ask.reply.send(Ok(acted));
                }
            }
        }
    }

    /// The act is in: the stream is looked at again, for perhaps there is more to do.
    pub fn applied(&mut self, meter: &StreamMeter) {
        let Some(Out { mut job, events, indexed_to, merged, small, goes_on }) = self.out.take() else { return };
        if let Some(upto) = indexed_to {
            self.indexed(&job.stream, upto);
        }
        match &mut job.stage {
            Stage::Front { bytes_max } => {
                *bytes_max = UPKEEP_BYTES_MAX;
                meter.trimmed(events);
            }
            Stage::Purge => {
                meter.trimmed(events);
                if let Some((_, acted)) = self.purges.front_mut() {
                    acted.events += events;
                }
                return;
            }
            Stage::Compact { after } => {
                meter.compacted(events);
                if let Some(note) = self.notes.get_mut(&job.stream) {
                    note.made_small(*after, small);
                }
            }
            Stage::Merge | Stage::Index | Stage::Survey { .. } => {}
        }
        if let (Some(merged), Some(note)) = (merged, self.notes.get_mut(&job.stream)) {
            (note.chunks, note.is_indexed) = (merged.waiting, false);
            note.sealed_to = merged.sealed_to.unwrap_or(note.sealed_to);
        }
        match job.stage {
            // A pass of compaction isn't mixed with another one's.
            Stage::Compact { .. } => self.queue.push_front(job),
            Stage::Merge if !goes_on => {
                self.notes.get_mut(&job.stream).into_iter().for_each(|note| note.is_queued = false)
            }
            Stage::Index => self.index_goes_on(job, goes_on),
            _ => self.queue.push_back(job),
        }
    }

    /// The act isn't in, or couldn't be decided: it is tried again.
    pub fn not_applied(&mut self) {
        let job = self.out.take().map(|out| out.job).or_else(|| self.current.take());
        // A purge stands at the front of its own queue.
        self.queue.extend(job.filter(|job| job.stage != Stage::Purge));
    }

    /// Who waits for a purge is told that it isn't known.
    pub fn refuse_all(&mut self, reason: &str) {
        for (ask, _) in self.purges.drain(..) {
            let _gone = ask.reply.send(Err(ServiceError::Unavailable(reason.to_owned())));
        }
    }
}
