//! The id of a saga whose row lies in quarantine isn't new: nobody begins another one with it, and what comes back is refused
//! when it has another one by then.

use std::sync::Arc;

use waybill_core::port::quarantine::{QuarantineStore, Restored};
use waybill_core::port::saga_store::{SagaStore, SagaTable};
use waybill_core::port::store::StoreError;
use waybill_core::saga::event::{Event, EventKind};
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{BrokenSaga, JournalEntry, SagaCommit, SagaShardRecord, SagaWrite};
use waybill_core::saga::state::SagaState;
use waybill_testkit::conformance::saga_samples::{after, completed, dead, key, reference, resting};

use super::sagas::{SHARD, commit, counts, define, take};
use super::{memory, sql};
use crate::SurrealStore;

/// An id that tells when its saga began, which is when the samples begin.
fn ulid_id() -> String {
    ulid::Ulid::from_parts(after(1).0, 7).to_string()
}

fn row(table: &str, of: SagaKey) -> SagaWrite {
    match table {
        "saga_done" => SagaWrite::PutDone(Arc::new(completed(of, 1))),
        _ => SagaWrite::PutRow(Arc::new(resting(of, 1))),
    }
}

async fn list_all(store: &SurrealStore) {
    for table in [SagaTable::Open, SagaTable::Done] {
        store.list_sagas(table, &SagaFilter::default(), None, 10).await.unwrap();
    }
}

/// How a saga stands.
async fn state(store: &SurrealStore, of: &SagaKey) -> Option<SagaState> {
    store.saga(SHARD, of).await.unwrap().map(|row| row.summary.state)
}

/// The row that lies in quarantine.
async fn only(store: &SurrealStore, table: &str) -> String {
    let page = store.quarantined(None, None, 10).await.unwrap();
    let [row] = page.items.as_slice() else { panic!("{table}: {page:?}") };
    assert_eq!(row.table, table);
    row.id.clone()
}

/// Damages the rows of a table, so that they lie in quarantine, and mends them there.
async fn moved(store: &SurrealStore, table: &str) -> String {
    sql(store, &format!("UPDATE {table} UNSET def_hash RETURN NONE")).await.unwrap();
    list_all(store).await;
    let hash = reference("order", 3).hash.0;
    let repair = format!("UPDATE outbox_quarantine SET row.def_hash = '{hash}' RETURN NONE");
    sql(store, &repair).await.unwrap();
    only(store, table).await
}

#[tokio::test]
async fn the_id_of_a_saga_in_quarantine_is_taken_until_it_is_dropped() {
    for (table, id) in [
        ("saga_start", "mine".to_owned()),
        ("saga", "mine".to_owned()),
        ("saga", ulid_id()),
        ("saga_done", "mine".to_owned()),
        ("saga_done", ulid_id()),
    ] {
        let (store, of) = (memory().await, key("acme", &id));
        commit(&store, &[], vec![row(table, of.clone())], 0).await;
        sql(&store, &format!("UPDATE {table} CONTENT {{ junk: 17 }} RETURN NONE")).await.unwrap();
        list_all(&store).await;
        // Twice: whoever meets it moves it away.
        for _ in 0..2 {
            let found = store.saga(SHARD, &of).await;
            assert!(matches!(found, Err(StoreError::Corrupt(_))), "{table} {id}: {found:?}");
        }
        let quarantined = only(&store, table).await;
        let refused = store.saga(SHARD, &of).await.unwrap_err().to_string();
        assert!(refused.contains(&quarantined), "{table} {id}: {refused}");
        list_all(&store).await;
        take(&store).await;
        assert_eq!(only(&store, table).await, quarantined, "its marker isn't one more");
        store.drop_row(&quarantined).await.unwrap().unwrap();
        assert_eq!(store.saga(SHARD, &of).await.unwrap(), None, "{table} {id}");
        assert_eq!(counts(&store, &["saga_start", "outbox_quarantine"]).await, [0, 0], "{table} {id}");
    }
}

#[tokio::test]
async fn a_row_that_is_put_back_is_found_by_its_id_again() {
    for (table, id) in
        [("saga", "mine".to_owned()), ("saga", ulid_id()), ("saga_done", "mine".to_owned()), ("saga_done", ulid_id())]
    {
        let (store, of) = (memory().await, key("acme", &id));
        define(&store).await;
        commit(&store, &[], vec![row(table, of.clone())], 0).await;
        let before = store.saga(SHARD, &of).await.unwrap().unwrap();
        let quarantined = moved(&store, table).await;
        assert!(store.saga(SHARD, &of).await.is_err(), "{table} {id}");
        assert_eq!(store.quarantined_row(&quarantined).await.unwrap().unwrap().unreadable, None, "{table} {id}");
        let (_, restored) = store.restore_row(&quarantined).await.unwrap().unwrap();
        assert_eq!(restored == Restored::AtTakeover, table == "saga", "{table} {id}");
        let found = store.saga(SHARD, &of).await.unwrap().unwrap();
        assert_eq!((&found.tree, found.summary.started_at), (&before.tree, after(1)), "{table} {id}");
        let notes = usize::from(id == "mine");
        assert_eq!(counts(&store, &["saga_start", "outbox_quarantine"]).await, [notes, 0], "{table} {id}");
    }
}

#[tokio::test]
async fn a_saga_that_went_on_without_its_row_ends_and_its_old_row_does_not_come_back() {
    for id in ["mine".to_owned(), ulid_id()] {
        let (store, of) = (memory().await, key("acme", &id));
        define(&store).await;
        commit(&store, &[], vec![row("saga", of.clone())], 0).await;
        let quarantined = moved(&store, "saga").await;
        let writes = vec![row("saga_done", of.clone()), SagaWrite::DeleteRow(of.clone())];
        commit(&store, &[], writes, 0).await;
        assert_eq!(state(&store, &of).await, Some(SagaState::Completed), "{id}");
        let refused = store.restore_row(&quarantined).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Exists(_)), "{id}: {refused:?}");
        assert!(take(&store).await.rows.is_empty(), "{id}");
        store.drop_row(&quarantined).await.unwrap().unwrap();
        assert_eq!(state(&store, &of).await, Some(SagaState::Completed), "{id}");
    }
}

#[tokio::test]
async fn a_row_whose_saga_runs_without_it_does_not_come_back() {
    for id in ["mine".to_owned(), ulid_id()] {
        let (store, of) = (memory().await, key("acme", &id));
        define(&store).await;
        commit(&store, &[id.as_str()], vec![row("saga", of.clone())], 0).await;
        let quarantined = moved(&store, "saga").await;
        assert_eq!(take(&store).await.journal.len(), 1, "{id}: it goes on from its journal");
        let refused = store.restore_row(&quarantined).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Exists(_)), "{id}: {refused:?}");
        // It ends before it has rested again, so nothing tells its writer to remove a row.
        let (shard, entry) = (SHARD, JournalEntry { key: of.clone(), from: 2, events: Vec::new(), ended: true });
        let stands = store.saga_shard(shard).await.unwrap();
        let record = SagaShardRecord { beat: stands.beat + 1, ..stands };
        let ending = SagaCommit {
            shard,
            expect_token: stands.token,
            expect_beat: stands.beat,
            record,
            journal: vec![entry],
            writes: vec![row("saga_done", of.clone())],
            events: Default::default(),
            messages: Vec::new(),
            door: Vec::new(),
        };
        store.commit_sagas(ending).await.unwrap();
        assert!(take(&store).await.rows.is_empty(), "{id}");
        assert_eq!(state(&store, &of).await, Some(SagaState::Completed), "{id}");
    }
}

#[tokio::test]
async fn dropping_an_old_row_leaves_the_dead_letter_of_the_saga_that_went_on() {
    for (goes_on, left) in [(true, 1), (false, 0)] {
        let (store, of) = (memory().await, key("acme", &ulid_id()));
        define(&store).await;
        let letter = || SagaWrite::PutDead(Arc::new(dead(of.clone(), "HTTP.500")));
        commit(&store, &[], vec![row("saga", of.clone()), letter()], 0).await;
        let quarantined = moved(&store, "saga").await;
        if goes_on {
            commit(&store, &[], vec![row("saga", of.clone()), letter()], 0).await;
            assert!(matches!(store.restore_row(&quarantined).await, Err(StoreError::Exists(_))));
        }
        store.drop_row(&quarantined).await.unwrap().unwrap();
        assert_eq!(counts(&store, &["saga", "saga_dead"]).await, [left, left]);
        assert_eq!(store.saga(SHARD, &of).await.unwrap().is_some(), goes_on);
    }
}

#[tokio::test]
async fn a_saga_whose_start_can_not_be_read_ends_and_leaves_no_row() {
    let (store, of) = (memory().await, key("acme", "mine"));
    commit(&store, &[], vec![row("saga", of.clone())], 0).await;
    sql(&store, "UPDATE saga_start CONTENT { junk: 17 } RETURN NONE").await.unwrap();
    let writes = vec![row("saga_done", of.clone()), SagaWrite::DeleteRow(of.clone())];
    commit(&store, &[], writes, 0).await;
    assert_eq!(counts(&store, &["saga", "saga_done"]).await, [0, 1]);
    assert_eq!(state(&store, &of).await, Some(SagaState::Completed));
}

#[tokio::test]
async fn a_damaged_row_comes_back_with_what_the_journal_held_behind_it() {
    let (store, of) = (memory().await, key("acme", "mine"));
    define(&store).await;
    commit(&store, &[], vec![row("saga", of.clone())], 0).await;
    sql(&store, "UPDATE saga UNSET def_hash RETURN NONE").await.unwrap();
    assert!(take(&store).await.rows.is_empty());
    let row = only(&store, "saga").await;
    let what = EventKind::Signalled { name: "paid".into(), data: Json::parse("[2]").unwrap(), step: None };
    let events = vec![Event { at: after(50), saga: 0, actor: None, what }];
    let entries = vec![JournalEntry { key: of.clone(), from: 4, events, ended: false }];
    let broken = BrokenSaga { key: of.clone(), reason: "its row is missing".to_owned(), row: None, entries };
    let floor = store.saga_shard(SHARD).await.unwrap().beat + 1;
    commit(&store, &[], vec![SagaWrite::SetAside(Arc::new(broken))], floor).await;
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [("saga".to_owned(), 2)]);

    let hash = reference("order", 3).hash.0;
    let repair = format!("UPDATE outbox_quarantine SET row.def_hash = '{hash}' WHERE row.def_name RETURN NONE");
    sql(&store, &repair).await.unwrap();
    assert_eq!(store.restore_row(&row).await.unwrap().unwrap().1, Restored::AtTakeover);
    assert!(store.quarantined_counts().await.unwrap().tables.is_empty());
    assert_eq!(take(&store).await.rows.remove(0).tree.events, 5);
}
