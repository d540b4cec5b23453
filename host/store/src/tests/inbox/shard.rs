//! A shard record of the inbox that can't be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waybill_core::ids::Seq;
use waybill_core::inbox::fingerprint::HashSecret;
use waybill_core::inbox::owner::{Candidate, takeover};
use waybill_core::inbox::records::{InboxCommit, InboxEnd, InboxWrite};
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::quarantine::QuarantineStore;
use waybill_core::port::store::StoreError;
use waybill_testkit::conformance::inbox_samples::{Writer, dead, done, inbound, row, takes};
use waybill_testkit::conformance::samples::SHARD;

use super::super::{memory, sql};
use super::SECRET;
use crate::SurrealStore;

/// A writer that finished something at an age, and has a row and a take.
async fn worked(store: &SurrealStore) -> Writer {
    let mut writer = Writer::new();
    writer
        .commit(store, |commit| {
            (commit.record.age, commit.record.secret, commit.record.last) = (OwnedAge(7_000), SECRET, Seq(9));
            commit.record.open.insert(1, BTreeSet::from([Seq(9)]));
            commit.writes = vec![takes(1, &[9]), InboxWrite::PutRow(Arc::new(row(4, inbound("m-4"))))];
            commit.done = vec![done("m", InboxEnd::Processed)];
        })
        .await;
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
    assert_eq!((rebuilt.last, rebuilt.age, rebuilt.secret), (Seq(9), OwnedAge(7_000), SECRET));
    assert_eq!(rebuilt.open, writer.record.open, "no take is lost");
    assert!(
        matches!(store.commit_inbox(writer.next()).await, Err(StoreError::Conflict(_))),
        "its writer is fenced off"
    );
    assert_eq!(store.inbox_shard(SHARD).await.unwrap(), rebuilt, "once");
    let mut writer = writer;
    writer.record = rebuilt;
    writer.write(&store, Vec::new()).await;
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [("inbox_shard".to_owned(), 1)]);
}

#[tokio::test]
async fn the_secret_is_kept_a_second_time_and_what_else_is_gone_is_found() {
    let store = memory().await;
    let writer = worked(&store).await;
    sql(&store, "UPSERT inbox_shard:0 CONTENT { junk: 17 } RETURN NONE").await.unwrap();
    assert!(matches!(store.commit_inbox(writer.next()).await, Err(StoreError::Corrupt(_))));
    let rebuilt = store.inbox_shard(SHARD).await.unwrap();
    assert!(rebuilt.token > 0 && rebuilt.beat > writer.record.beat);
    assert_eq!((rebuilt.secret, rebuilt.age), (SECRET, OwnedAge(7_000)));
    assert_eq!(rebuilt.last, Seq(9), "no seq is given out twice");
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
    store.commit_inbox(commit.clone()).await.unwrap();
    assert_eq!(store.inbox_shard(SHARD).await.unwrap(), commit.record);
}

/// Of takes of one commit some became rows or dead letters, and some wait: which the lost record said.
#[tokio::test]
async fn a_take_that_became_a_row_or_a_dead_letter_waits_for_nothing() {
    let store = memory().await;
    let mut writer = worked(&store).await;
    let stored = [
        InboxWrite::PutRow(Arc::new(row(11, inbound("m-11")))),
        InboxWrite::PutDead(Arc::new(dead(13, inbound("m-13"), "X"))),
    ];
    writer.write(&store, [takes(2, &[11, 12]), takes(3, &[13])].into_iter().chain(stored).collect()).await;
    damage(&store, "state = <bytes> 'junk'").await;
    let rebuilt = store.inbox_shard(SHARD).await.unwrap();
    let open = BTreeMap::from([(1, BTreeSet::from([Seq(9)])), (2, BTreeSet::from([Seq(12)]))]);
    assert_eq!(rebuilt.open, open);
    let beats: Vec<u64> = store.inbox_takeover(SHARD).await.unwrap().takes.iter().map(|record| record.beat).collect();
    assert_eq!(beats, [1, 2], "a record of which nothing is open is gone");
}
