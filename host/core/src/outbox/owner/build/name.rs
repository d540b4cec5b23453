//! What the next commit says of crashes: who is named, and for how long the owner is cautious.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::settle::Verdict;
use super::super::slots::SlotState;
use super::CommitBuilder;
use crate::ids::Seq;
use crate::outbox::suspicion::Suspicion;

impl CommitBuilder<'_> {
    /// Names what is about to be sent, if the owner is cautious.
    pub(super) fn name(&mut self) {
        self.record.leaving = self.owner.releasing;
        if self.record.suspicion.is_empty() {
            return;
        }
        let now = self.now;
        let calling = if self.owner.naming.is_on() { self.calling() } else { BTreeSet::new() };
        let alone = self.owner.trial.alone().filter(|seq| calling.contains(seq));
        let lived = now.mono - self.owner.taken_at;
        let floor = self.record.floor;
        let suspicion = &mut self.record.suspicion;
        let cautious = now.mono < self.owner.cautious_until;
        let unclean = if lived >= self.owner.config.caution.forget { 0 } else { suspicion.unclean };
        let mut suspects = std::mem::take(&mut suspicion.suspects);
        // Nothing lies below the floor but parked messages, and those are in memory.
        suspects.retain(|seq, _| *seq >= floor || self.owner.slots.contains_key(seq));
        let longest_life = if unclean == 0 { Duration::ZERO } else { suspicion.longest_life };
        let is_watched = cautious || !suspects.is_empty();
        // What the last commit said: a later instant alone is no reason for another one.
        let lived = if is_watched { suspicion.lived } else { Duration::ZERO };
        *suspicion = Suspicion { unclean, cautious, calling, alone, suspects, lived, longest_life };
    }

    /// Says how long the owner has lived, where that may say how often it is killed: of a commit that is made anyway.
    pub(super) fn note_life(&mut self) {
        let lived = self.now.mono - self.owner.taken_at;
        let suspicion = &mut self.record.suspicion;
        if suspicion.cautious || !suspicion.suspects.is_empty() {
            suspicion.lived = self.owner.config.caution.life_told(lived);
        }
    }

    fn calling(&mut self) -> BTreeSet<Seq> {
        let mut calling = self.owner.choose_names(self.now);
        if self.owner.releasing {
            return calling;
        }
        // The next of a key whose message this commit settles is sent right after it.
        let settled: BTreeSet<Seq> = self.flight.settled.iter().map(|(seq, _)| *seq).collect();
        for (seq, parked) in &self.flight.settled {
            let Some(slot) = self.owner.slots.get(seq) else { continue };
            let frees = parked.is_none()
                && matches!(&slot.state, SlotState::Settling(settlement)
                    if !matches!(settlement.verdict, Verdict::Dead(_)) || !self.owner.config.dead_holds_key);
            let next = slot.key.filter(|_| frees).and_then(|key| self.owner.next_of_key(key, &settled));
            let is_claimed = |seq: &Seq| {
                let place = self.owner.slots.get(seq).map(|slot| slot.place.segment);
                place.is_some_and(|first| self.record.open.contains_key(&first))
            };
            calling.extend(next.filter(is_claimed));
        }
        calling
    }
}
