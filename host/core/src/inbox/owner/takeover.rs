//! Taking a shard's inbox over: the first commit of a new owner.

use crate::ids::ShardId;
use crate::inbox::fingerprint::HashSecret;
use crate::inbox::records::{InboxCommit, InboxShardRecord};
use crate::inbox::seen::OwnedAge;

/// Who takes a shard's inbox over.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub shard: ShardId,
    /// Token of the outbox shard.
    pub token: u64,
    /// The process of the last owner died. False when it had begun to end, gave the shard back, or lives.
    pub died: bool,
    /// Fresh and random with each try.
    pub nonce: u64,
    /// Fresh and random: the shard's secret if it has none yet.
    pub secret: HashSecret,
}

/// The commit that takes over, from the record as it was just read; none when a higher token stands. When it is known to be in (the
/// stored record has its nonce), what is there is read and `InboxOwner::restore` goes on. After an error that proves nothing, the
/// record is read again, and another commit is made of it.
pub fn takeover(candidate: Candidate, stored: &InboxShardRecord) -> Option<InboxCommit> {
    if stored.token > candidate.token {
        return None;
    }
    let is_first = stored.token == 0;
    // With an equal token this process took over before: it lives.
    let died = candidate.died && stored.token < candidate.token && !is_first;
    let suspicion = stored.suspicion.clone();
    let record = InboxShardRecord {
        token: candidate.token,
        beat: stored.beat + 1,
        nonce: candidate.nonce,
        // No mark is as old as zero, so what is forgotten up to that age is nothing. A record that was made anew without its secret has
        // no owner either, and its age, which no commit may lower.
        age: stored.age.max(OwnedAge(1)),
        secret: if is_first { candidate.secret } else { stored.secret },
        suspicion: if died { suspicion.after_crash() } else { suspicion.after_clean_end() },
        ..stored.clone()
    };
    Some(InboxCommit {
        shard: candidate.shard,
        expect_token: stored.token,
        expect_beat: stored.beat,
        record,
        writes: Vec::new(),
        seen: Vec::new(),
        done: Vec::new(),
        messages: Vec::new(),
        sagas: Vec::new(),
        events: Default::default(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::inbox::fingerprint::Fingerprint;

    const CANDIDATE: Candidate =
        Candidate { shard: ShardId(2), token: 7, died: true, nonce: 11, secret: HashSecret(99) };

    fn stored(token: u64) -> InboxShardRecord {
        let mut record = InboxShardRecord { token, beat: 40, secret: HashSecret(5), ..InboxShardRecord::default() };
        record.suspicion.calling.insert(Fingerprint([1; 10]));
        record
    }

    #[test]
    fn a_higher_token_wins() {
        assert!(takeover(CANDIDATE, &stored(8)).is_none());
        let commit = takeover(CANDIDATE, &stored(6)).unwrap();
        assert_eq!((commit.expect_token, commit.expect_beat), (6, 40));
        assert_eq!((commit.record.token, commit.record.beat, commit.record.nonce), (7, 41, 11));
    }

    #[test]
    fn what_was_called_when_a_process_died_is_suspect_and_once_only() {
        let taken = takeover(CANDIDATE, &stored(6)).unwrap().record;
        assert!(taken.suspicion.calling.is_empty() && taken.suspicion.cautious);
        assert_eq!(taken.suspicion.suspects.len(), 1);
        let again = takeover(Candidate { nonce: 12, ..CANDIDATE }, &taken).unwrap().record;
        assert_eq!((again.suspicion.suspects.clone(), again.suspicion.unclean), (taken.suspicion.suspects, 1));
        let lived = takeover(Candidate { died: false, ..CANDIDATE }, &stored(6)).unwrap().record;
        assert!(lived.suspicion.is_empty());
    }

    #[test]
    fn the_first_owner_chooses_the_secret_and_nobody_else() {
        assert_eq!(takeover(CANDIDATE, &stored(6)).unwrap().record.secret, HashSecret(5));
        let first = takeover(CANDIDATE, &InboxShardRecord::default()).unwrap().record;
        assert_eq!((first.secret, first.suspicion.cautious, first.age), (HashSecret(99), false, OwnedAge(1)));
    }

    #[test]
    fn no_takeover_lowers_the_age_not_even_of_a_record_that_lost_its_owner() {
        for token in [0, 6] {
            let stored = InboxShardRecord { age: OwnedAge(7_000), ..stored(token) };
            assert_eq!(takeover(CANDIDATE, &stored).unwrap().record.age, OwnedAge(7_000), "token {token}");
        }
    }
}
