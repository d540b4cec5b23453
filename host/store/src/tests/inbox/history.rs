//! History of the inbox, and its end.

use waybill_core::inbox::records::{InboxDone, InboxEnd};
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::time::UnixMillis;
use waybill_testkit::conformance::inbox_samples::{Writer, done, inbound_id};
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
    store.tidy_inbox(SHARD, OwnedAge(0), UnixMillis(before), limit).await.unwrap()
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
