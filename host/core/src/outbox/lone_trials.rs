//! Which shard of a process may have a suspect on trial by itself.
//!
//! One at a time, or a crash would be held against two. And a shard whose suspect was alone at a crash goes before those whose
//! suspects weren't: a crash during another shard's trial takes back what is held against it, so two shards with a poison message
//! each would kill the host in turn for ever.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ids::ShardId;
use crate::time::Monotonic;

/// How much is held against the suspects of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Crashes that one of them was alone at, at most.
    pub alone: u32,
    /// By then it is on trial by itself, unless it can't be sent.
    pub until: Monotonic,
}

/// Who has suspects: the owner of a shard's outbox, or that of its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    Outbox(ShardId),
    Inbox(ShardId),
}

impl From<ShardId> for Party {
    fn from(shard: ShardId) -> Self {
        Self::Outbox(shard)
    }
}

/// The shards of a process and their suspects.
#[derive(Debug, Default)]
pub struct LoneTrials {
    turn: Mutex<Turn>,
}

#[derive(Debug, Default)]
struct Turn {
    holder: Option<Party>,
    standings: BTreeMap<Party, Standing>,
}

impl LoneTrials {
    /// Takes the turn, if no other shard has it or goes first. Whether this one has it now.
    pub(crate) fn begin(&self, party: impl Into<Party>, standing: Standing, now: Monotonic) -> bool {
        let party = party.into();
        let mut turn = self.turn();
        let mut others = turn.standings.iter().filter(|(other, _)| **other != party);
        let is_first = others.all(|(_, of)| of.alone <= standing.alone || now >= of.until);
        match standing.alone {
            0 => turn.standings.remove(&party),
            _ => turn.standings.insert(party, standing),
        };
        if turn.holder.is_none() && is_first {
            turn.holder = Some(party);
        }
        turn.holder == Some(party)
    }

    /// The shard has no suspect on trial by itself.
    pub(crate) fn end(&self, party: impl Into<Party>) {
        let party = party.into();
        let mut turn = self.turn();
        turn.holder = turn.holder.filter(|holder| *holder != party);
    }

    /// Nobody of this process owns the shard any more.
    pub fn leave(&self, party: impl Into<Party>) {
        let party = party.into();
        self.end(party);
        self.turn().standings.remove(&party);
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn one_shard_at_a_time_has_the_turn_until_it_ends_it() {
        let trials = LoneTrials::default();
        let begin = |shard| trials.begin(ShardId(shard), Standing::default(), at(1));
        assert!(begin(0) && begin(0));
        assert!(!begin(7));
        trials.end(ShardId(7));
        assert!(!begin(7), "who hasn't the turn can't end it");
        trials.end(ShardId(0));
        assert!(begin(7));
    }

    #[test]
    fn who_was_alone_at_a_crash_goes_first_until_its_time_is_over() {
        let trials = LoneTrials::default();
        let begin = |shard, alone, now| {
            let has_turn = trials.begin(ShardId(shard), Standing { alone, until: at(10) }, at(now));
            trials.end(ShardId(shard));
            has_turn
        };
        assert!(begin(0, 1, 1));
        assert!(!begin(7, 0, 2) && begin(7, 1, 3) && begin(7, 2, 4));
        assert!(!begin(0, 1, 5), "it was alone more often");
        assert!(begin(0, 1, 10), "its suspect can't be sent");
        trials.leave(ShardId(7));
        trials.leave(ShardId(0));
        assert!(begin(3, 0, 6));
    }
}
