//! A shard record of the inbox that can't be read.

use std::collections::BTreeSet;
use std::sync::Arc;

use waybill_core::inbox::fingerprint::{HashSecret, OrderTag};
use waybill_core::inbox::owner::{Candidate, takeover};
use waybill_core::inbox::records::{InboxCommit, InboxWrite, Take, TakeRecord};
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::quarantine::QuarantineStore;
use waybill_core::port::store::StoreError;
use waybill_testkit::conformance::samples::{SHARD, seq};

use super::super::{memory, sql};
use super::{SECRET, Writer, consumer, done, id, row, tried};
use crate::SurrealStore;

/// A writer that finished something at an age, and has a row and a take.
async fn worked(store: &SurrealStore) -> Writer {
    let mut writer = Writer::new();
    let mut commit = writer.next(7_000);
    let source = row(1, 0).message.source.clone();
    let take = Take { seq: seq(3, 0), fingerprint: SECRET.of_id(&consumer(), &id("t")), order: OrderTag(1), source };
    commit.record.last = seq(3, 0);
    commit.record.open.insert(commit.record.beat, BTreeSet::from([take.seq]));
    commit.writes = vec![
        InboxWrite::PutTakes(TakeRecord { beat: commit.record.beat, takes: vec![take] }),
        InboxWrite::PutRow(Arc::new(row(2, 0))),
    ];
    commit.done = vec![done("m")];
    writer.commit(store, commit).await;
    writer
}

async fn damage(store: &SurrealStore, what: &str) {
    sql(store, &format!("UPDATE inbox_shard SET {what} RETURN NONE")).await.unwrap();
}

#[tokio::test]
async fn another_record_takes_its_place_with_all_that_can_be_known() {
    let store = memory().await;
    let writer = worked(&store).await;
    damage(&store, "state = <bytes> 'junk'").await;
    // Of one that still says its token and its beat the writer hears nothing: what it writes is whole again. Before it does:
    let rebuilt = store.inbox_shard(SHARD).await.unwrap();
    assert_eq!((rebuilt.token, rebuilt.beat), (writer.record.token, writer.record.beat + 1));
    assert_eq!((rebuilt.last, rebuilt.age, rebuilt.secret), (seq(3, 0), OwnedAge(7_000), SECRET));
    assert_eq!(rebuilt.open, writer.record.open, "no take is lost");
    assert!(
        matches!(tried(&store, writer.next(8_000)).await, Err(StoreError::Conflict(_))),
        "its writer is fenced off"
    );
    assert_eq!(store.inbox_shard(SHARD).await.unwrap(), rebuilt, "once");
    let mut writer = Writer { record: rebuilt };
    let commit = writer.next(9_000);
    writer.commit(&store, commit).await;
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [("inbox_shard".to_owned(), 1)]);
}

#[tokio::test]
async fn the_secret_is_kept_a_second_time_and_what_else_is_gone_is_found() {
    let store = memory().await;
    let writer = worked(&store).await;
    sql(&store, "UPSERT inbox_shard:0 CONTENT { junk: 17 } RETURN NONE").await.unwrap();
    assert!(matches!(tried(&store, writer.next(8_000)).await, Err(StoreError::Corrupt(_))));
    let rebuilt = store.inbox_shard(SHARD).await.unwrap();
    assert!(rebuilt.token > 0 && rebuilt.beat > writer.record.beat);
    assert_eq!((rebuilt.secret, rebuilt.age), (SECRET, OwnedAge(7_000)));
    assert_eq!(rebuilt.last, seq(3, 0), "no seq is given out twice");
    assert_eq!(rebuilt.open, writer.record.open);
}

#[tokio::test]
async fn without_any_secret_the_next_owner_chooses_one() {
    let store = memory().await;
    worked(&store).await;
    sql(&store, "UPSERT inbox_shard:0 CONTENT { junk: 17 } RETURN NONE").await.unwrap();
    sql(&store, "DELETE waybill_meta:['inbox_secret', 0]").await.unwrap();
    let rebuilt = store.inbox_shard(SHARD).await.unwrap();
    let candidate = Candidate { shard: SHARD, token: 3, died: true, nonce: 5, secret: HashSecret(77) };
    let commit: InboxCommit = takeover(candidate, &rebuilt).unwrap();
    assert_eq!(commit.record.secret, HashSecret(77));
    tried(&store, commit.clone()).await.unwrap();
    assert_eq!(store.inbox_shard(SHARD).await.unwrap(), commit.record);
}
