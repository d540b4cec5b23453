//! Taking a shard's streams over: the first commit of a new owner.

use crate::ids::ShardId;
use crate::streams::records::{StreamCommit, StreamShardRecord};

/// The commit that takes over, from the record as it was just read; none when a higher token stands. `token` is the outbox shard's,
/// `nonce` fresh and random with each try. When it is known to be in (the stored record has its nonce), the owner begins with what it
/// wrote. After an error that proves nothing, the record is read again, and another commit is made of it.
pub fn takeover(shard: ShardId, token: u64, nonce: u64, stored: &StreamShardRecord) -> Option<StreamCommit> {
    (stored.token <= token).then(|| StreamCommit {
        shard,
        expect_token: stored.token,
        expect_beat: stored.beat,
        record: StreamShardRecord { token, beat: stored.beat + 1, nonce, ..stored.clone() },
        heads: Vec::new(),
        writes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_token_wins_and_the_feed_goes_on() {
        let stored = StreamShardRecord { token: 6, beat: 40, nonce: 1, pos: 9, ..StreamShardRecord::default() };
        assert!(takeover(ShardId(2), 5, 11, &stored).is_none());
        let commit = takeover(ShardId(2), 7, 11, &stored).unwrap();
        assert_eq!((commit.expect_token, commit.expect_beat), (6, 40));
        assert_eq!((commit.record.token, commit.record.beat, commit.record.nonce), (7, 41, 11));
        assert_eq!(commit.record.pos, 9);
    }
}
