//! How much goes into one commit, so that the store takes it: each part stops when the commit has so many bytes, and the rest goes
//! in the next one.

use super::Draftsman;
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
    /// Claims, evictions, and giving back.
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

impl Draftsman<'_> {
    pub(super) fn is_full(&self, part: Part) -> bool {
        self.bytes >= (self.owner.commit_bytes / 8).max(1) * part.eighths()
    }

    /// Adds a change.
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
