//! How much goes into one commit, so that the store takes it: each part stops when the commit has so many bytes, and the rest goes
//! in the next one.

use super::CommitBuilder;
use crate::ids::Seq;
use crate::outbox::records::Done;
use crate::outbox::weight;
use crate::port::store::Write;

/// What enters a commit, in order. Each part leaves room for those behind it, so that none waits for ever.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Settlements,
    Commands,
    /// History of segments that are finished.
    Finished,
    /// The first direct request, when it doesn't fit any more: it goes all the same, for it may be larger than a commit.
    Request,
    /// Due scheduled messages, the doorstep, direct requests.
    Entering,
    /// Claims, evictions, and giving back. However much entered, some of them go with every commit, until the store refuses one.
    Claims,
}

impl Part {
    /// Eighths of a commit's bytes from which on nothing more of it goes in.
    fn eighths(self) -> usize {
        match self {
            Self::Settlements => 2,
            Self::Commands => 3,
            Self::Finished => 4,
            Self::Request => 6,
            Self::Entering => 8,
            Self::Claims => 10,
        }
    }
}

impl CommitBuilder<'_> {
    pub(super) fn is_full(&self, part: Part) -> bool {
        let eighth = (self.owner.next.bytes.get() / 8).max(1);
        let share = eighth * part.eighths();
        let end = match part {
            // Large requests one behind the other would leave no room ever. But what is large may fit only by itself.
            Part::Claims if !self.owner.next.bytes.is_cut() => share.max(self.claims_from + eighth),
            _ => share,
        };
        self.bytes >= end
    }

    /// What comes from here on are claims.
    pub(super) fn begin_claims(&mut self) {
        self.claims_from = self.bytes;
    }

    /// All claims are in that go with this commit.
    pub(super) fn end_claims(&mut self) {
        let share = (self.owner.next.bytes.get() / 8).max(1) * Part::Claims.eighths();
        self.flight.is_crowded = self.claims_from >= share && self.bytes > self.claims_from;
    }

    pub(super) fn put(&mut self, write: Write) {
        self.bytes += write.weight();
        self.writes.push(write);
    }

    /// Adds to the history of a segment.
    pub(super) fn put_done(&mut self, first: Seq, done: Done) {
        self.bytes += weight::of_done(&done);
        self.history.entry(first).or_default().push(done);
    }
}
