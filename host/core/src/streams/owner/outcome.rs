//! The fate of a commit: applied, moved, not applied, unknown, or the shard is lost.

use super::StreamOwner;
use super::door::Ticket;
use super::draft::{DirectAnswer, Flight, Published};
use crate::commit::{self, Step, StoreAnswer, Writer};
use crate::port::store::StoreError;
use crate::streams::records::{StreamCommit, StreamCommitted, StreamShardRecord};
use crate::streams::rules::Rule;
use crate::time::Now;

/// What followed from a commit that went in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub answers: Vec<(Ticket, DirectAnswer)>,
    /// For those who listen, behind the answers.
    pub published: Option<Published>,
}

/// [`commit::take_answer`] of an owner of streams, whose commit the store may answer with heads that moved.
pub fn take_answer(
    owner: &mut StreamOwner,
    answer: StoreAnswer<StreamShardRecord>,
    now: Now,
    nonce: impl FnOnce() -> u64,
) -> Step<StreamOwner> {
    if let StoreAnswer::Committed(Err(error)) = &answer {
        owner.note_error(error);
    }
    commit::take_answer(owner, answer, now, nonce)
}

impl Writer for StreamOwner {
    type Commit = StreamCommit;
    type Record = StreamShardRecord;
    type Applied = Applied;
    type NotApplied = ();
    type TooLarge = ();

    fn committed(&mut self, _: Now) -> Applied {
        self.flight.take().map(|flight| self.apply(flight)).unwrap_or_default()
    }

    /// What it held goes in smaller commits.
    fn too_large(&mut self, _: Now) {
        self.events_max = (self.events_max / 2).max(1);
        if let Some(flight) = self.flight.take() {
            self.undo(flight);
        }
    }

    fn resolve(&mut self, stored: &StreamShardRecord, _: Now, nonce: u64) -> Step<Self> {
        let (known, found) = ((self.record.token, self.record.beat), (stored.token, stored.beat));
        // At the same place stands another commit when what was lost has been written over.
        if found < known || (found == known && stored.nonce != self.record.nonce) {
            return Step::WentBack(StoreError::WentBack { shard: self.config.shard, known, found });
        }
        if stored.token != self.record.token {
            return Step::Lost;
        }
        let Some(mut flight) = self.flight.take() else { return Step::NotApplied(()) };
        if stored.nonce == flight.record.nonce && found > known {
            return Step::Applied(self.apply(flight));
        }
        // The store said that nothing was written, and nobody else has this token.
        let is_refused = flight.is_refused && found == known;
        if is_refused || flight.barriers.contains(&stored.nonce) || !self.is_rule_kept(Rule::Barrier) {
            (self.record.beat, self.record.nonce) = (stored.beat, stored.nonce);
            self.undo(flight);
            return Step::NotApplied(());
        }
        flight.barriers.push(nonce);
        self.flight = Some(flight);
        Step::Barrier(Box::new(StreamCommit {
            shard: self.config.shard,
            expect_token: stored.token,
            expect_beat: stored.beat,
            record: StreamShardRecord { beat: stored.beat + 1, nonce, ..stored.clone() },
            heads: Vec::new(),
            writes: Vec::new(),
        }))
    }
}

impl StreamOwner {
    /// The store found heads elsewhere and wrote nothing. Those streams go alone, and all of it is looked at again.
    pub fn moved(&mut self, heads: Vec<(crate::streams::name::StreamKey, u64)>) {
        self.counts.moved += 1;
        for (stream, _) in heads {
            self.turn.moved(stream);
        }
        if let Some(flight) = self.flight.take() {
            self.undo(flight);
        }
    }

    /// [`Self::moved`] or the answer to go on with, of what the store said of a commit.
    pub fn take_committed(
        &mut self,
        committed: Result<StreamCommitted, StoreError>,
    ) -> Option<StoreAnswer<StreamShardRecord>> {
        match committed {
            Ok(StreamCommitted::Applied) => Some(StoreAnswer::Committed(Ok(()))),
            Ok(StreamCommitted::Moved(heads)) => {
                self.moved(heads);
                None
            }
            Err(error) => Some(StoreAnswer::Committed(Err(error))),
        }
    }

    fn note_error(&mut self, error: &StoreError) {
        let Some(flight) = &mut self.flight else { return };
        flight.is_refused = commit::is_refusal(error);
        if flight.is_refused {
            self.suspects.extend(flight.heads.iter().cloned());
        }
    }

    fn apply(&mut self, flight: Flight) -> Applied {
        self.record = flight.record;
        self.lease_until = self.lease_begun + self.config.owner_ttl;
        self.events_max = (self.events_max + self.config.commit_events.div_ceil(64)).min(self.config.commit_events);
        self.counts.duplicates += flight.duplicates as u64;
        if let Some(stream) = &flight.alone {
            self.turn.settled(stream);
        }
        self.suspects.clear();
        for (stream, known) in flight.known {
            self.heads.learn(stream, known, self.config.heads_known);
        }
        self.relays.applied(flight.relay);
        Applied { answers: flight.answers, published: flight.published }
    }

    /// The commit never went in: what it held goes into the next one, behind a new look at everything.
    fn undo(&mut self, flight: Flight) {
        for (stream, _) in &flight.known {
            self.heads.forget(stream);
        }
        self.door.push_back(flight.directs);
        self.door.end();
    }
}
