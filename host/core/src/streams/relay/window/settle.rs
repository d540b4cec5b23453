//! Part: what a commit keeps of it. A seek is a checkpoint, too.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Overtaken, Seek, Window};
use crate::port::stream_store::StreamSlice;
use crate::streams::name::StreamKey;
use crate::streams::records::{Checkpoint, Refusal};
use crate::streams::relay::Written;
use crate::streams::rules::{Rule, Rules};

impl Window {
    /// The longest settled run from the checkpoint on. It goes over what is covered and not there: compaction took it, or retention did,
    /// aloud.
    fn run_end(&self) -> u64 {
        self.events.keys().find(|seq| !self.is_settled(**seq)).map_or(self.covered, |seq| seq - 1)
    }

    /// Whether a commit has something to write of it, as far as it alone is concerned.
    pub fn is_changed(&self) -> bool {
        match self.seek {
            Some(seek) => seek.first.is_some(),
            None => self.has_words() || self.run_end() > self.checkpoint.upto,
        }
    }

    /// An operator wants it to go on after `upto`.
    pub fn seek_to(&mut self, upto: u64) {
        self.seeks += 1;
        self.seek = Some(Seek { upto, number: self.seeks, first: None });
    }

    /// A seek waits for a look at what is kept.
    pub fn wants_seek(&self, rules: Rules) -> bool {
        self.seek.is_some() && (self.in_flight.is_empty() || !rules.kept(Rule::SeekWaits))
    }

    /// What is kept, read behind this beat.
    pub fn seek_look(&mut self, slice: &StreamSlice, beat: u64) {
        if let Some(seek) = &mut self.seek {
            seek.first = Some((slice.rest.first, beat));
        }
    }

    /// The next checkpoint; none = as it is. `beat` is the shard's as last committed.
    pub fn draft(&self, stream: &StreamKey, beat: u64, rules: Rules) -> Option<Written> {
        if let Some(seek) = self.seek {
            let (first, read_at) = seek.first?;
            let may = self.in_flight.is_empty() || !rules.kept(Rule::SeekWaits);
            if !may || read_at != beat {
                return None;
            }
            let upto = seek.upto.max(first.saturating_sub(1));
            let checkpoint = Checkpoint { upto, done: BTreeSet::new(), generation: self.checkpoint.generation + 1 };
            return Some(self.written(stream, checkpoint, BTreeSet::new()));
        }
        let took: BTreeSet<u64> = self.acknowledged.iter().chain(self.refused.keys()).copied().collect();
        let mut done: BTreeSet<u64> = self.checkpoint.done.union(&took).copied().collect();
        let run_end =
            if rules.kept(Rule::LongestSettledRun) { self.run_end() } else { done.last().copied().unwrap_or(0) };
        let upto = self.checkpoint.upto.max(run_end);
        done = done.split_off(&(upto + 1));
        let checkpoint = Checkpoint { upto, done, generation: self.checkpoint.generation };
        (checkpoint != self.checkpoint).then(|| self.written(stream, checkpoint, took))
    }

    fn written(&self, stream: &StreamKey, checkpoint: Checkpoint, took: BTreeSet<u64>) -> Written {
        let seek = self.seek.map(|seek| seek.number);
        Written { stream: stream.clone(), checkpoint, took, overtaken: self.overtaken.len(), seek }
    }

    /// Refusals whose dead letters a checkpoint goes with.
    pub fn refusals(&self) -> impl Iterator<Item = (u64, &Bytes, &Refusal)> {
        self.refused.iter().filter_map(|(seq, why)| Some((*seq, &self.events.get(seq)?.packed, why)))
    }

    /// Ranges that were overtaken and aren't recorded.
    pub fn overtaken(&self) -> &[Overtaken] {
        &self.overtaken
    }

    /// Where the feed names the first event that a checkpoint doesn't cover; none = nothing of it is in memory.
    pub fn first_unsettled(&self, checkpoint: &Checkpoint) -> Option<u64> {
        self.events.iter().find(|(seq, _)| !checkpoint.covers(**seq)).map(|(_, event)| event.pos)
    }

    /// A checkpoint is durable.
    pub fn applied(&mut self, written: Written, rules: Rules) {
        if written.checkpoint.generation != self.checkpoint.generation {
            let in_flight = std::mem::take(&mut self.in_flight);
            // One that came meanwhile looks at what is kept anew.
            let later = self.seek.filter(|seek| written.seek != Some(seek.number));
            let seek = later.map(|seek| Seek { first: None, ..seek });
            *self = Self { seek, seeks: self.seeks, ..Self::new(written.checkpoint) };
            if !rules.kept(Rule::SeekWaits) {
                self.in_flight = in_flight;
            }
            return;
        }
        self.checkpoint = written.checkpoint;
        for seq in &written.took {
            self.acknowledged.remove(seq);
            self.refused.remove(seq);
        }
        self.overtaken.drain(..written.overtaken.min(self.overtaken.len()));
        let checkpoint = &self.checkpoint;
        self.events.retain(|seq, _| !checkpoint.covers(*seq));
        self.bytes = self.events.values().map(|event| event.packed.len()).sum();
    }
}
