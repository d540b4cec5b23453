//! The guard of a commit, takeover, journal and doorstep.

use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::message::Message;
use waybill_core::outbox::records::{IdRecord, IdState};
use waybill_core::port::saga_store::{Acquired, SagaStore};
use waybill_core::port::store::{OwnerStore, StoreError, Write};
use waybill_core::port::transact::DoorGroup;
use waybill_core::saga::records::{SagaCommit, SagaShardRecord, SagaWrite};
use waybill_store::SurrealStore;
use waybill_testkit::conformance::saga_samples::{dead, key, resting};
use waybill_testkit::conformance::samples::{Owner, message};

use super::support::{SHARD, Writer, entry, put, take, ulid_at};

pub async fn a_shard_that_nobody_wrote_is_the_default_record(store: &SurrealStore) {
    assert_eq!(store.saga_shard(SHARD).await.unwrap(), SagaShardRecord::default());
    let taken = take(store, SHARD, 4).await;
    assert_eq!(taken.record, SagaShardRecord { token: 4, beat: 1, nonce: 4_000, floor: 0 });
    assert_eq!(store.saga_shard(SHARD).await.unwrap(), taken.record);
    assert_eq!(store.saga_shard(ShardId(1)).await.unwrap(), SagaShardRecord::default());
}

pub async fn a_token_counts_as_long_as_no_higher_one_was_taken(store: &SurrealStore) {
    let first = take(store, SHARD, 4).await.record;
    let again = take(store, SHARD, 4).await.record;
    assert_eq!((again.token, again.beat), (4, first.beat + 1));
    let higher = take(store, SHARD, 9).await.record;
    assert_eq!(store.acquire(SHARD, 8, 1).await.unwrap(), Acquired::Lost { token: 9 });
    assert_eq!(store.saga_shard(SHARD).await.unwrap(), higher);
    assert_eq!(take(store, ShardId(1), 2).await.record.token, 2);
}

pub async fn a_commit_of_an_earlier_writer_changes_nothing(store: &SurrealStore) {
    let mut earlier = Writer::new(store, SHARD, 1).await;
    let row = resting(key("acme", "a"), 5);
    let same_token = Writer::new(store, SHARD, 1).await;
    let commit = earlier.next(vec![entry("a", 5, 0)], vec![put(&row)]);
    let error = earlier.try_commit(store, commit.clone()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Conflict(text) if text.contains("token 1 beat 2")), "{error}");
    let higher = Writer::new(store, SHARD, 2).await;
    let error = earlier.try_commit(store, SagaCommit { expect_beat: same_token.record.beat, ..commit.clone() }).await;
    // Its record doesn't raise the beat that it expects.
    assert!(matches!(error, Err(StoreError::Other(_) | StoreError::Conflict(_))));
    assert_eq!(store.saga_shard(SHARD).await.unwrap(), higher.record);
    let found = take(store, SHARD, 2).await;
    assert!(found.rows.is_empty() && found.journal.is_empty());
}

pub async fn of_two_commits_at_once_exactly_one_goes_in(store: &SurrealStore) {
    let writer = Writer::new(store, SHARD, 1).await;
    for round in 0..20_u64 {
        let stands = store.saga_shard(SHARD).await.unwrap();
        let commit = |nonce: u64| SagaCommit {
            expect_beat: stands.beat,
            record: SagaShardRecord { beat: stands.beat + 1, nonce, ..stands },
            ..writer.next(vec![entry("a", round, 0)], Vec::new())
        };
        let (one, other) = tokio::join!(store.commit_sagas(commit(1)), store.commit_sagas(commit(2)));
        let nonce = store.saga_shard(SHARD).await.unwrap().nonce;
        match (one, other) {
            (Ok(()), Err(StoreError::Conflict(_))) => assert_eq!(nonce, 1),
            (Err(StoreError::Conflict(_)), Ok(())) => assert_eq!(nonce, 2),
            both => panic!("{both:?}"),
        }
    }
}

pub async fn of_two_takeovers_at_once_one_writes_on(store: &SurrealStore) {
    let (one, other) = tokio::join!(store.acquire(SHARD, 5, 50), store.acquire(SHARD, 6, 60));
    let Acquired::Taken(other) = other.unwrap() else { panic!("the higher token wins") };
    let mut winner = Writer { shard: SHARD, record: other.record };
    winner.journal(store, vec![entry("a", 0, 0)]).await;
    if let Acquired::Taken(one) = one.unwrap() {
        let mut loser = Writer { shard: SHARD, record: one.record };
        let commit = loser.next(Vec::new(), Vec::new());
        assert!(matches!(loser.try_commit(store, commit).await, Err(StoreError::Conflict(_))));
    }
}

pub async fn a_takeover_finds_rows_journal_and_dead_letters(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    let mut rows = vec![resting(key("acme", &ulid_at(1, 1)), 1), resting(key("beta", "mine"), 2)];
    let letter = dead(key("beta", "mine"), "HTTP.500");
    let mut writes: Vec<SagaWrite> = rows.iter().map(put).collect();
    writes.push(SagaWrite::PutDead(Arc::new(letter.clone())));
    writer.write(store, writes).await;
    let entries = [vec![entry("a", 3, 0), entry("b", 4, 0)], vec![entry("a", 3, 1)]];
    for journal in &entries {
        writer.journal(store, journal.clone()).await;
    }
    Writer::new(store, ShardId(1), 1).await.journal(store, vec![entry("c", 3, 0)]).await;

    let found = take(store, SHARD, 2).await;
    let mut found_rows: Vec<_> = found.rows.iter().map(|row| row.as_ref().clone()).collect();
    found_rows.sort_by_key(|row| row.summary.started_at);
    rows.sort_by_key(|row| row.summary.started_at);
    assert_eq!(found_rows, rows);
    let journal: Vec<_> = found.journal.iter().map(|record| (record.beat, record.entries.clone())).collect();
    let beat = writer.record.beat;
    assert_eq!(journal, [(beat - 1, entries[0].clone()), (beat, entries[1].clone())]);
    assert_eq!(found.dead, [letter.key]);
    assert_eq!(found.record.beat, beat + 1);
}

pub async fn journal_records_below_the_floor_are_not_found_again(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    for number in 0..600 {
        writer.journal(store, vec![entry(&format!("s{number}"), number, 0)]).await;
    }
    // More than goes in one commit.
    let floor = writer.record.beat - 2;
    for _ in 0..2 {
        let mut commit = writer.next(Vec::new(), Vec::new());
        commit.record.floor = floor;
        writer.try_commit(store, commit).await.unwrap();
        let found = take(store, SHARD, 1).await;
        writer.record = found.record;
        let beats: Vec<u64> = found.journal.iter().map(|record| record.beat).collect();
        assert_eq!(beats, [floor, floor + 1, floor + 2]);
        assert_eq!(found.record.floor, floor);
    }
}

pub async fn an_empty_commit_only_moves_the_record(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    let commit = writer.next(Vec::new(), Vec::new());
    let same_beat =
        SagaCommit { record: SagaShardRecord { beat: commit.expect_beat, ..commit.record }, ..commit.clone() };
    assert!(store.commit_sagas(same_beat).await.is_err());
    writer.try_commit(store, commit).await.unwrap();
    assert_eq!(store.saga_shard(SHARD).await.unwrap(), writer.record);
    assert!(take(store, SHARD, 1).await.journal.is_empty());
}

fn named(name: &str) -> Message {
    Message { caller_id: true, ..message(name) }
}

async fn at_the_door(store: &SurrealStore, shard: ShardId) -> Vec<String> {
    let rows = store.door(shard, 0, u64::MAX >> 1, None, 100).await.unwrap();
    rows.into_iter().flat_map(|row| row.content.unwrap()).map(|message| message.id.to_string()).collect()
}

pub async fn messages_lie_on_their_doorsteps_in_order_but_not_twice(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    let taken = named("taken");
    let record = IdRecord {
        tenant: taken.tenant.clone(),
        id: taken.id.clone(),
        state: IdState::Scheduled { shard: SHARD, due: waybill_core::time::UnixMillis(9) },
        content: None,
        origin: waybill_core::outbox::records::IdOrigin::Unknown,
    };
    Owner::new().commit(store, vec![Write::PutId { record: Arc::new(record), create: true }]).await;
    let group = |shard: u16, names: &[&str]| DoorGroup {
        shard: ShardId(shard),
        messages: names.iter().map(|name| Arc::new(named(name))).collect(),
    };
    writer.messages(store, vec![group(0, &["a", "b"]), group(1, &["c"]), group(0, &["d"])]).await;
    writer.messages(store, vec![group(1, &["taken"]), group(0, &["b", "taken", "e"])]).await;
    assert_eq!(at_the_door(store, ShardId(0)).await, ["a", "b", "d", "e"]);
    assert_eq!(at_the_door(store, ShardId(1)).await, ["c"]);

    let stale = Writer { shard: SHARD, record: SagaShardRecord { beat: 1, ..writer.record } };
    let commit = SagaCommit { messages: vec![group(0, &["never"])], ..stale.next(Vec::new(), Vec::new()) };
    assert!(matches!(store.commit_sagas(commit).await, Err(StoreError::Conflict(_))));
    assert_eq!(at_the_door(store, ShardId(0)).await.len(), 4);
}
