//! The guard of an owner's commit.

use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::store::{OwnerCommit, StoreError, Write};

use super::Store;
use super::samples::{Owner, SHARD, full_record, parked, segment, seq};

pub async fn a_shard_without_a_record_is_the_default_record(store: &impl Store) {
    assert_eq!(store.shard(SHARD).await.unwrap(), ShardRecord::default());
}

pub async fn the_first_commit_makes_the_record(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, Vec::new()).await;
    assert_eq!(store.shard(SHARD).await.unwrap(), owner.record);
}

pub async fn a_record_comes_back_as_it_was_written(store: &impl Store) {
    let record = full_record();
    let commit =
        OwnerCommit { shard: SHARD, expect_token: 0, expect_beat: 0, record: record.clone(), writes: Vec::new() };
    store.commit(commit).await.unwrap();
    assert_eq!(store.shard(SHARD).await.unwrap(), record);
}

async fn refused(store: &impl Store, owner: &Owner, commit: OwnerCommit) {
    let error = store.commit(commit).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    assert_eq!(store.shard(SHARD).await.unwrap(), owner.record);
    assert!(store.directory(SHARD, seq(0, 0), 10).await.unwrap().is_empty());
    assert!(store.parked(SHARD, None, 10).await.unwrap().is_empty());
}

fn writes() -> Vec<Write> {
    vec![Write::PutSegment(Arc::new(segment(seq(0, 0), 3))), Write::PutParked(Arc::new(parked(seq(1, 0), 0)))]
}

pub async fn a_commit_with_a_stale_token_changes_nothing(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, Vec::new()).await;
    let mut stale = owner.next(writes());
    let mut takeover = owner.next(Vec::new());
    takeover.record.token += 1;
    owner.record = takeover.record.clone();
    store.commit(takeover).await.unwrap();
    stale.expect_beat = owner.record.beat;
    stale.record.beat = owner.record.beat + 1;
    refused(store, &owner, stale).await;
}

pub async fn a_commit_with_a_stale_beat_changes_nothing(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, Vec::new()).await;
    let stale = owner.next(writes());
    owner.commit(store, Vec::new()).await;
    refused(store, &owner, stale).await;
}

pub async fn a_commit_has_to_raise_the_beat(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, Vec::new()).await;
    let mut commit = owner.next(writes());
    commit.record.beat = owner.record.beat;
    store.commit(commit).await.unwrap_err();
    assert_eq!(store.shard(SHARD).await.unwrap(), owner.record);
}

pub async fn of_two_commits_at_once_exactly_one_goes_in(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, Vec::new()).await;
    for round in 0..20 {
        let one = owner.next(vec![Write::PutSegment(Arc::new(segment(seq(round, 0), 1)))]);
        let mut other = owner.next(vec![Write::PutSegment(Arc::new(segment(seq(round, 1), 1)))]);
        other.record.nonce = 999_999 + round;
        let (one_nonce, other_nonce) = (one.record.nonce, other.record.nonce);
        let (first, second) = futures::join!(store.commit(one), store.commit(other));
        let stored = store.shard(SHARD).await.unwrap();
        let winner = if first.is_ok() { one_nonce } else { other_nonce };
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
        assert_eq!(stored.nonce, winner);
        owner.record = stored;
    }
    assert_eq!(store.directory(SHARD, seq(0, 0), 100).await.unwrap().len(), 20);
}

pub async fn of_two_first_commits_at_once_exactly_one_goes_in(store: &impl Store) {
    for shard in 1..20 {
        let owner = Owner::of(ShardId(shard));
        let (first, second) =
            futures::join!(store.commit(owner.next(Vec::new())), store.commit(owner.next(Vec::new())));
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    }
}

pub async fn shards_do_not_disturb_each_other(store: &impl Store) {
    let (mut one, mut two) = (Owner::of(ShardId(1)), Owner::of(ShardId(2)));
    one.commit(store, vec![Write::PutSegment(Arc::new(segment(seq(0, 0), 1)))]).await;
    two.commit(store, vec![Write::PutSegment(Arc::new(segment(seq(0, 0), 2)))]).await;
    one.commit(store, vec![Write::DeleteSegment(seq(0, 0))]).await;
    assert!(store.directory(ShardId(1), seq(0, 0), 10).await.unwrap().is_empty());
    let left = store.directory(ShardId(2), seq(0, 0), 10).await.unwrap();
    assert_eq!(left.iter().map(|info| info.messages).collect::<Vec<_>>(), [2]);
}
