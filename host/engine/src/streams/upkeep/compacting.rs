//! Passes of compaction over a stream: one sees which events are the latest, and goes behind itself to take away what they replace.

use tokio::time::Instant;
use waybill_core::port::stream_store::StreamSlice;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::settings::StreamsSettings;
use waybill_core::streams::upkeep::{Latest, UpkeepView};
use waybill_core::time::UnixMillis;

use super::{Job, Stage, Upkeep};

impl Upkeep {
    /// Sees what lies deep enough under the end of a stream; then it is compacted from the front. Of a stream with more resources than one
    /// pass may hold, the passes go on one behind another until one has reached the last of them.
    pub(super) fn survey(
        &mut self,
        view: &UpkeepView,
        slice: &StreamSlice,
        after: u64,
        now: UnixMillis,
        settings: &StreamsSettings,
    ) {
        let stream = view.stream.clone();
        let Some((_, lag)) = settings.compaction(&stream.name) else { return self.end(&stream) };
        if after == 0 {
            let mut behind = None;
            if let Some(note) = self.notes.get_mut(&stream) {
                behind.clone_from(&note.compacted_to);
                note.compacted_at = Some(Instant::now());
                // What was appended since the first of several passes is for another round.
                note.is_dirty &= behind.is_some();
            }
            self.latest = Some((stream.clone(), Latest::behind(behind, self.resources_max)));
        }
        let Some((_, latest)) = self.latest.as_mut().filter(|(of, _)| *of == stream) else { return self.end(&stream) };
        let mut goes_on = !slice.is_all;
        for chunk in &view.chunks {
            if chunk.at.plus(lag) > now {
                goes_on = false;
                // What lies behind is for another pass.
                self.notes.get_mut(&stream).into_iter().for_each(|note| note.is_dirty = true);
                break;
            }
            latest.see(chunk);
        }
        let is_empty = latest.is_empty();
        let next = match view.chunks.last() {
            Some(last) if goes_on => Stage::Survey { after: last.last },
            _ if is_empty => return self.pass_over(stream),
            _ => Stage::Compact { after: 0 },
        };
        self.queue.push_front(Job { stream, stage: next });
    }

    /// A pass of compaction is through. What it couldn't hold is for the next one, which other streams go before.
    pub(super) fn pass_over(&mut self, stream: StreamKey) {
        let end = self.latest.take().and_then(|(_, latest)| latest.end().cloned());
        self.end(&stream);
        let next = end.is_some().then_some(Stage::Survey { after: 0 });
        if let Some(note) = self.notes.get_mut(&stream) {
            note.compacted_to = end;
        }
        self.queue(stream, next);
    }

    /// A pass of compaction can't go on.
    pub(super) fn end(&mut self, stream: &StreamKey) {
        self.latest = None;
        if let Some(note) = self.notes.get_mut(stream) {
            note.is_queued = false;
        }
    }
}
