//! A reader of one named stream. Its cursor is the number of the last event that it had.

use super::super::chunk::StoredEvent;
use super::super::name::StreamKey;
use super::super::records::StreamRest;
use super::super::rules::{Rule, Rules};
use super::page::{Page, PageError, PageLimits, page};
use super::ring::{LivePart, Looked, Ring};
use crate::port::stream_store::StreamSlice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Pages, the ring isn't joined.
    Replay,
    /// It has joined, and looks once more.
    Catch,
    /// A mutation of the model: at the end of what is stored, and not joined yet.
    Late,
    Live,
}

/// What a reader needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedWants {
    /// What is stored after this number: [`NamedReader::take_slice`].
    Slice(u64),
    Live,
}

/// A reader of one stream.
#[derive(Clone, Debug)]
pub struct NamedReader {
    stream: StreamKey,
    position: u64,
    /// The mark of dropped tombstones when it began with nothing.
    base: u64,
    phase: Phase,
    /// Its place in the ring.
    place: u64,
    /// The call of the ring that it has followed.
    called: u64,
    limits: PageLimits,
    /// The ring's entry has something that only the store has.
    fills: bool,
    rules: Rules,
}

impl NamedReader {
    /// One that begins with the earliest event that is kept.
    pub fn from_earliest(stream: StreamKey, rest: &StreamRest, limits: PageLimits, rules: Rules) -> Self {
        Self { base: rest.purged, ..Self::after(stream, rest.first.saturating_sub(1), limits, rules) }
    }

    /// One that had everything up to a number.
    pub fn after(stream: StreamKey, position: u64, limits: PageLimits, rules: Rules) -> Self {
        Self { stream, position, base: 0, phase: Phase::Replay, place: 0, called: 0, limits, fills: false, rules }
    }

    /// The same with the mark that its cursor carries (`seq~purged`): dropped tombstones up to it concern it not.
    #[must_use]
    pub fn with_base(self, base: u64) -> Self {
        Self { base, ..self }
    }

    /// Everything up to here was read, and handed on or replaced.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The mark that its cursor carries; none once it is behind it.
    pub fn base(&self) -> Option<u64> {
        (self.position < self.base).then_some(self.base)
    }

    pub fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    pub fn stream(&self) -> &StreamKey {
        &self.stream
    }

    /// It is live and has had all that was published.
    pub fn is_idle(&self, ring: &Ring) -> bool {
        self.is_live() && !self.fills && self.place == ring.next() && self.called == ring.calls()
    }

    pub fn wants(&self) -> NamedWants {
        match self.phase {
            Phase::Live if !self.fills => NamedWants::Live,
            Phase::Late => NamedWants::Live,
            _ => NamedWants::Slice(self.position),
        }
    }

    /// Takes what was read after its position, and goes on. `ring` is that of the stream.
    pub fn take_slice(&mut self, slice: &StreamSlice, ring: &Ring) -> Result<Vec<StoredEvent>, PageError> {
        let Page { events, upto, is_end } = page(slice, self.position, self.base, self.limits, self.rules)?;
        self.position = upto;
        if self.fills {
            self.fills = false;
        } else if is_end {
            self.phase = match self.phase {
                Phase::Replay if !self.rules.kept(Rule::JoinBeforeLastLook) => Phase::Late,
                Phase::Replay => {
                    (self.place, self.called) = (ring.next(), ring.calls());
                    Phase::Catch
                }
                _ => Phase::Live,
            };
        }
        Ok(events)
    }

    /// Takes the next entry of the ring: what there is to hand on. None = it was passed: `watch lagged; resync required`.
    pub fn take_live(&mut self, ring: &Ring) -> Option<Vec<StoredEvent>> {
        if self.phase == Phase::Late {
            (self.place, self.called, self.phase) = (ring.next(), ring.calls(), Phase::Live);
            return Some(Vec::new());
        }
        let entry = match ring.at(self.place) {
            Looked::Lagged => return None,
            Looked::Nothing => {
                if self.called != ring.calls() {
                    (self.called, self.phase) = (ring.calls(), Phase::Catch);
                }
                return Some(Vec::new());
            }
            Looked::Entry(entry) => entry,
        };
        let mut events = Vec::new();
        for (_, part) in &entry.parts {
            if part.stream == self.stream && !self.take_part(part, &mut events) {
                // The entry stays, and is looked at again behind a look at the store.
                self.fills = true;
                return Some(events);
            }
        }
        self.place += 1;
        Some(events)
    }

    /// False: the store has to be looked at first.
    fn take_part(&mut self, part: &LivePart, events: &mut Vec<StoredEvent>) -> bool {
        let is_hint = self.rules.kept(Rule::RingIsAHint);
        if part.to <= self.position && is_hint {
            return true;
        }
        let is_blind = !is_hint || !self.rules.kept(Rule::JoinBeforeLastLook);
        let is_next = part.from <= self.position + 1;
        match &part.events {
            Some(here) if is_next || is_blind => {
                let new = here.iter().filter(|event| event.seq > self.position || !is_hint);
                events.extend(new.cloned());
                self.position = self.position.max(part.to);
                true
            }
            _ => is_blind,
        }
    }

    /// The look of every second: whether it lacks something that the ring doesn't know of.
    pub fn look_again(&mut self, ring: &Ring) {
        let looks = self.rules.kept(Rule::JoinBeforeLastLook) && self.rules.kept(Rule::RingIsAHint);
        if self.is_idle(ring) && looks {
            self.phase = Phase::Catch;
        }
    }
}
