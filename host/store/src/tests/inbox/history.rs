//! History of the inbox, and its end.

use std::sync::Arc;

use waybill_core::ids::Seq;
use waybill_core::inbox::records::{InboxDead, InboxDone, InboxEnd, InboxWrite};
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::port::inbox_store::{InboxFilter, InboxStore};
use waybill_core::port::quarantine::QuarantineStore;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_testkit::conformance::inbox_samples::{Writer, dead, done, inbound, inbound_id, mark, query};
use waybill_testkit::conformance::samples::SHARD;

use super::super::{memory, sql};
use super::ship;
use crate::SurrealStore;

async fn history(store: &SurrealStore, name: &str) -> Vec<u32> {
    let found: Vec<InboxDone> = store.inbox_done(SHARD, &ship(), &inbound_id(name)).await.unwrap();
    found.into_iter().map(|one| one.attempts).collect()
}

/// Commits that finish one message each, at these instants.
async fn written_at(store: &SurrealStore, instants: &[u64]) {
    let mut writer = Writer::new();
    for (number, _) in (0..).zip(instants) {
        let one = InboxDone { attempts: number, ..done("m", InboxEnd::Processed) };
        writer
            .commit(store, |commit| {
                commit.record.age = OwnedAge(u64::from(number));
                commit.done = vec![one];
            })
            .await;
    }
    for (beat, at) in (1..).zip(instants) {
        let at = format!("UPDATE inbox_done:[0, {beat}] SET at = {at} RETURN NONE");
        sql(store, &at).await.unwrap();
    }
}

async fn purge(store: &SurrealStore, before: u64, limit: usize) -> usize {
    store.tidy_inbox(SHARD, OwnedAge(0), UnixMillis(before), limit).await.unwrap().purged
}

#[tokio::test]
async fn history_goes_when_it_is_old_and_no_earlier() {
    let store = memory().await;
    written_at(&store, &[100, 200, 300, 400]).await;
    assert_eq!(purge(&store, 100, 10).await, 0);
    assert_eq!(history(&store, "m").await, [3, 2, 1, 0], "the latest first");
    assert_eq!(purge(&store, 300, 10).await, 2);
    assert_eq!(history(&store, "m").await, [3, 2]);
    assert_eq!(purge(&store, 500, 1).await, 1);
    assert_eq!(purge(&store, 500, 10).await, 1);
    assert_eq!((purge(&store, 500, 10).await, history(&store, "m").await.len()), (0, 0));
}

/// `INVALID_TIMESTAMP`: no host writes such records, so somebody has changed them.
#[tokio::test]
async fn what_ended_before_it_was_received_goes_to_quarantine_with_its_code_and_is_lost_nowhere() {
    let store = memory().await;
    let mut writer = Writer::new();
    let too_early = InboxDone { processed_at: UnixMillis(5), ..done("wrong", InboxEnd::Processed) };
    writer
        .commit(&store, |commit| {
            commit.record.age = OwnedAge(1_000);
            commit.done = vec![done("right", InboxEnd::Processed)];
        })
        .await;
    writer
        .commit(&store, |commit| {
            commit.record.age = OwnedAge(2_000);
            (commit.done, commit.seen) = (vec![too_early], vec![mark("ship", "wrong", 5)]);
            let died_early = InboxDead { died_at: UnixMillis(5), ..dead(7, inbound("dead"), "HTTP.422") };
            commit.writes = vec![
                InboxWrite::PutDead(Arc::new(dead(6, inbound("sound"), "HTTP.422"))),
                InboxWrite::PutDead(Arc::new(died_early)),
            ];
        })
        .await;
    assert_eq!((history(&store, "wrong").await.len(), history(&store, "right").await.len()), (0, 1));
    let listed = store.inbox_dead(&InboxFilter::default(), None, 10).await.unwrap().items;
    assert_eq!(listed.iter().map(|(_, dead)| dead.seq).collect::<Vec<_>>(), [Seq(6)], "its neighbour is listed");
    for table in ["inbox_done", "inbox_dead"] {
        let row = store.quarantined(Some(table), None, 10).await.unwrap().items.remove(0);
        assert!(row.reason.contains("INVALID_TIMESTAMP"), "{table}: {}", row.reason);
        let shown = store.quarantined_row(&row.id).await.unwrap().unwrap();
        assert!(shown.columns["data"].is_string(), "{table}: its bytes are kept");
        assert!(matches!(store.restore_row(&row.id).await, Err(StoreError::Corrupt(_))), "{table}: it is still wrong");
    }
    // It isn't handled again for it: what was seen lies apart.
    let seen = store.inbox_seen(SHARD, &[query("ship", "wrong")]).await.unwrap();
    assert!(seen.iter().all(Option::is_some), "{seen:?}");
}

#[tokio::test]
async fn records_of_a_clock_that_was_ahead_go_with_those_behind_them() {
    let store = memory().await;
    let instants = [&[100][..], &[4_000_000_000_000; 5], &[200; 10], &[300]].concat();
    written_at(&store, &instants).await;
    let mut removed = 0;
    while removed < 16 {
        // Two at a time: the first page alone doesn't tell that they are old.
        let now = purge(&store, 250, 2).await;
        assert!(now > 0, "{removed} are gone, and no more");
        removed += now;
    }
    assert_eq!(history(&store, "m").await, [16]);
    assert_eq!(purge(&store, 250, 2).await, 0);
}
