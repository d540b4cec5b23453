//! Sagas that can't be restored: set aside in a commit of their writer, kept until an operator decides.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::port::quarantine::{QuarantinedRow, Restored};
use waybill_core::port::saga::DefinitionFormat;
use waybill_core::port::store::StoreError;
use waybill_core::saga::definition::parse;
use waybill_core::saga::event::{Event, EventKind};
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{BrokenSaga, JournalEntry, SagaCommit, SagaWrite, StoredDefinition};
use waybill_core::saga::state::SagaState;

use super::SagaPorts as Store;
use super::sagas::{dead, entry, key, next, reference, row, take};
use super::samples::{SHARD, T0};

/// A row of [`row`] holds so many events.
const EVENTS: u32 = 4;

/// What a saga did after its row was written.
fn later(id: &str, from: u32) -> JournalEntry {
    let what = EventKind::Signalled { name: "paid".into(), data: Json::parse("[2]").unwrap(), step: None };
    let event = Event { at: T0.plus(Duration::from_millis(50)), saga: 0, actor: None, what };
    JournalEntry { key: key(id), from, events: vec![event], ended: false }
}

/// Puts the definitions that [`row`] runs on.
async fn define(store: &impl Store) {
    for (name, version) in [("order", 2), ("pay", 1)] {
        let step = |step: &str| format!("[[steps]]\nname = \"{step}\"\naction = \"fn:shop/{step}\"\n");
        let text = format!("name = \"{name}\"\nversion = {version}\n{}{}{}", step("a"), step("b"), step("c"));
        let canonical = parse(&text, DefinitionFormat::Toml).unwrap().definition.canonical;
        let reference = reference(name, version);
        let stored = StoredDefinition { reference, canonical, created_at: T0, created_by: "ann".into() };
        store.put_definition(&stored).await.unwrap();
    }
}

async fn commit(store: &impl Store, journal: Vec<JournalEntry>, writes: Vec<SagaWrite>) {
    let record = store.saga_shard(SHARD).await.unwrap();
    store.commit_sagas(SagaCommit { journal, writes, ..next(&record) }).await.unwrap();
}

/// Sets a saga aside with its row, if it has one.
async fn set_aside(store: &impl Store, id: &str, has_row: bool, entries: Vec<JournalEntry>) {
    let row = has_row.then(|| row(id, 5, SagaState::Running));
    let broken = BrokenSaga { key: key(id), reason: format!("no saga {id}"), row, entries };
    let journal = vec![JournalEntry { events: Vec::new(), ended: true, ..later(id, EVENTS) }];
    commit(store, journal, vec![SagaWrite::SetAside(Arc::new(broken))]).await;
}

async fn kept(store: &impl Store) -> Vec<QuarantinedRow> {
    store.quarantined(Some("saga"), None, 10).await.unwrap().items
}

pub async fn a_saga_that_is_set_aside_is_read_by_nobody_until_it_is_put_back(store: &impl Store) {
    take(store, SHARD, 1).await;
    commit(store, vec![entry("b", 0, false)], vec![SagaWrite::PutRow(row("a", 5, SagaState::Running))]).await;
    set_aside(store, "a", true, vec![later("a", EVENTS)]).await;
    set_aside(store, "b", false, vec![entry("b", 0, false)]).await;
    assert!(take(store, SHARD, 1).await.rows.is_empty());
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [("saga".to_owned(), 2)]);
    for id in ["a", "b"] {
        let found = store.saga(SHARD, &key(id)).await;
        assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}");
        let rows = kept(store).await;
        let quarantined = rows.iter().find(|row| row.key[3] == id).unwrap();
        assert_eq!((quarantined.tenant.as_deref(), &*quarantined.reason), (Some("acme"), &*format!("no saga {id}")));
        let shown = store.quarantined_row(&quarantined.id).await.unwrap().unwrap();
        assert!(shown.unreadable.is_some_and(|reason| reason.contains("definition")));
        assert!(!shown.columns["journal"].is_null() && (id == "b" || !shown.columns["data"].is_null()));
        let refused = store.restore_row(&quarantined.id).await.unwrap_err();
        assert!(matches!(refused, StoreError::Corrupt(_)), "{refused:?}");
    }
    define(store).await;
    for quarantined in kept(store).await {
        let shown = store.quarantined_row(&quarantined.id).await.unwrap().unwrap();
        assert_eq!(shown.unreadable, None);
        let (_, restored) = store.restore_row(&quarantined.id).await.unwrap().unwrap();
        assert_eq!(restored, Restored::AtTakeover);
        assert!(store.restore_row(&quarantined.id).await.unwrap().is_none());
    }
    assert!(store.quarantined_counts().await.unwrap().tables.is_empty());
    let mut rows = take(store, SHARD, 1).await.rows;
    rows.sort_by(|a, b| a.tree.key.cmp(&b.tree.key));
    let found: Vec<_> = rows.iter().map(|row| (row.tree.key.clone(), row.tree.events)).collect();
    assert_eq!(found, [(key("a"), EVENTS + 1), (key("b"), EVENTS)]);
    assert_eq!(rows[0].summary.started_at, T0.plus(Duration::from_millis(5)));
    assert_eq!(store.saga(SHARD, &key("b")).await.unwrap().as_ref(), Some(&rows[1]));
}

pub async fn all_that_was_set_aside_of_a_saga_comes_back_together(store: &impl Store) {
    take(store, SHARD, 1).await;
    define(store).await;
    commit(store, Vec::new(), vec![SagaWrite::PutRow(row("a", 5, SagaState::Running))]).await;
    set_aside(store, "a", true, vec![later("a", EVENTS + 1)]).await;
    let first = kept(store).await.remove(0).id;
    let shown = store.quarantined_row(&first).await.unwrap().unwrap();
    assert!(shown.unreadable.is_some_and(|reason| reason.contains("gap")));
    set_aside(store, "a", false, vec![later("a", EVENTS)]).await;
    assert_eq!(kept(store).await.len(), 2);
    assert_eq!(store.quarantined_row(&first).await.unwrap().unwrap().unreadable, None);
    store.restore_row(&first).await.unwrap().unwrap();
    assert!(store.quarantined_counts().await.unwrap().tables.is_empty());
    assert_eq!(store.saga(SHARD, &key("a")).await.unwrap().unwrap().tree.events, EVENTS + 2);
}

pub async fn what_is_dropped_of_a_saga_is_gone_with_its_dead_letter(store: &impl Store) {
    take(store, SHARD, 1).await;
    let writes = vec![SagaWrite::PutRow(row("a", 5, SagaState::Failed)), SagaWrite::PutDead(dead("a"))];
    commit(store, Vec::new(), writes).await;
    set_aside(store, "a", true, Vec::new()).await;
    set_aside(store, "a", false, vec![later("a", EVENTS)]).await;
    let [first, second] = <[_; 2]>::try_from(kept(store).await).unwrap();
    store.drop_row(&first.id).await.unwrap().unwrap();
    let found = store.saga(SHARD, &key("a")).await;
    assert!(matches!(found, Err(StoreError::Corrupt(_))), "a part of it is still there: {found:?}");
    assert_eq!(store.dead_saga(SHARD, &key("a")).await.unwrap(), Some(dead("a")));
    store.drop_row(&second.id).await.unwrap().unwrap();
    assert_eq!(store.saga(SHARD, &key("a")).await.unwrap(), None);
    assert_eq!(store.dead_saga(SHARD, &key("a")).await.unwrap(), None);
    assert!(take(store, SHARD, 1).await.rows.is_empty() && kept(store).await.is_empty());
}

pub async fn a_stale_commit_sets_no_saga_aside(store: &impl Store) {
    let old = take(store, SHARD, 1).await.record;
    commit(store, Vec::new(), vec![SagaWrite::PutRow(row("a", 5, SagaState::Running))]).await;
    let row = Some(row("a", 5, SagaState::Running));
    let broken = BrokenSaga { key: key("a"), reason: "late".into(), row, entries: Vec::new() };
    let stale = SagaCommit { writes: vec![SagaWrite::SetAside(Arc::new(broken))], ..next(&old) };
    let error = store.commit_sagas(stale).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    assert!(kept(store).await.is_empty());
    assert_eq!(take(store, SHARD, 1).await.rows.len(), 1);
}
