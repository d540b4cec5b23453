//! Rows of sagas that rest or ended, dead letters, definitions.

use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::saga_store::{DefinitionPut, SagaStore};
use waybill_core::saga::id::DefinitionHash;
use waybill_core::saga::records::SagaWrite;
use waybill_store::SurrealStore;
use waybill_testkit::conformance::saga_samples::{after, completed, dead, definition, full, key, resting};
use waybill_testkit::conformance::samples::T0;

use super::support::{SHARD, Writer, done, find, put, take, ulid_at, with_input};

pub async fn a_saga_that_rests_is_found_by_its_id_until_its_row_is_removed(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    let row = resting(key("acme", &ulid_at(3, 1)), 3);
    let neighbour = resting(key("acme", &ulid_at(3, 2)), 3);
    writer.write(store, vec![put(&row), put(&neighbour)]).await;
    assert_eq!(find(store, SHARD, &row.summary.key).await, Some(row.clone()));
    assert_eq!(find(store, ShardId(1), &row.summary.key).await, None);
    assert_eq!(find(store, SHARD, &key("other", row.summary.key.id.as_str())).await, None);
    let gone = SagaWrite::DeleteRow(row.summary.key.clone());
    writer.write(store, vec![gone.clone(), SagaWrite::DeleteRow(key("acme", "never"))]).await;
    writer.write(store, vec![gone]).await;
    assert_eq!(find(store, SHARD, &row.summary.key).await, None);
    assert_eq!(find(store, SHARD, &neighbour.summary.key).await, Some(neighbour));
}

pub async fn an_id_that_does_not_tell_the_start_is_found_too(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    // The caller's own, and one that looks like the host's but tells another instant.
    for id in ["order/4711 ü", &ulid_at(99, 5)] {
        let row = resting(key("acme", id), 3);
        writer.write(store, vec![put(&row)]).await;
        assert_eq!(find(store, SHARD, &row.summary.key).await, Some(row.clone()));
        writer.write(store, vec![SagaWrite::DeleteRow(row.summary.key.clone())]).await;
        assert_eq!(find(store, SHARD, &row.summary.key).await, None);
    }
    assert!(take(store, SHARD, 1).await.rows.is_empty());
}

pub async fn a_row_that_grows_and_shrinks_comes_back_as_it_was_written_last(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    let row = resting(key("acme", "a"), 3);
    for bytes in [10, 100_000, 20, 5_000, 300_000] {
        let row = with_input(row.clone(), bytes);
        writer.write(store, vec![put(&row)]).await;
        assert_eq!(find(store, SHARD, &row.summary.key).await, Some(row.clone()));
        let found = take(store, SHARD, 1).await;
        writer.record = found.record;
        assert_eq!(found.rows.len(), 1);
        assert_eq!(*found.rows[0], row);
    }
    let mut row = row;
    row.tree = Arc::new(full(row.summary.key.clone()));
    writer.write(store, vec![put(&row)]).await;
    assert_eq!(find(store, SHARD, &row.summary.key).await, Some(row));
}

pub async fn a_row_that_is_written_and_removed_in_one_commit_is_gone(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    let row = with_input(resting(key("acme", "a"), 3), 10_000);
    let removed = SagaWrite::DeleteRow(row.summary.key.clone());
    writer.write(store, vec![put(&row), removed.clone()]).await;
    assert_eq!(find(store, SHARD, &row.summary.key).await, None);
    writer.write(store, vec![put(&row)]).await;
    writer.write(store, vec![removed, put(&row)]).await;
    assert_eq!(find(store, SHARD, &row.summary.key).await, Some(row));
}

pub async fn a_saga_that_rested_and_ended_is_found_among_the_ended(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    for id in ["mine", &ulid_at(3, 1)] {
        let rested = with_input(resting(key("acme", id), 3), 10_000);
        let ended = with_input(completed(key("acme", id), 3), 20_000);
        writer.write(store, vec![put(&rested)]).await;
        writer.write(store, vec![SagaWrite::DeleteRow(rested.summary.key.clone()), done(&ended)]).await;
        assert_eq!(find(store, SHARD, &ended.summary.key).await, Some(ended));
    }
    assert!(take(store, SHARD, 1).await.rows.is_empty());
}

pub async fn dead_letters_are_listed_marked_and_removed(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    let letters = [dead(key("acme", "a"), "HTTP.500"), dead(key("acme", "b"), "HTTP.400"), dead(key("zeta", "a"), "X")];
    let put = |dead| SagaWrite::PutDead(Arc::new(dead));
    writer.write(store, letters[..2].iter().cloned().map(put).collect()).await;
    Writer::new(store, ShardId(1), 1).await.write(store, vec![put(letters[2].clone())]).await;

    let everything = Filter::default();
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = store.dead_sagas(&everything, cursor.as_deref(), 1).await.unwrap();
        found.extend(page.items.iter().map(|dead| dead.as_ref().clone()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, letters);
    let filter = Filter::parse("tenant=acme code=HTTP.4* topic=saga:payment/*", T0).unwrap();
    assert_eq!(store.dead_sagas(&filter, None, 10).await.unwrap().items.len(), 1);

    let fenced = DeadState::Quarantined { note: "ask the bank".into(), at: after(7) };
    assert!(store.mark_dead_saga(SHARD, &letters[0].key, &fenced).await.unwrap());
    assert!(!store.mark_dead_saga(SHARD, &key("acme", "never"), &fenced).await.unwrap());
    assert_eq!(store.dead_saga(SHARD, &letters[0].key).await.unwrap().unwrap().state, fenced);
    assert!(store.mark_dead_saga(SHARD, &letters[0].key, &DeadState::Dead).await.unwrap());
    assert_eq!(*store.dead_saga(SHARD, &letters[0].key).await.unwrap().unwrap(), letters[0]);
    let gone = letters[..2].iter().map(|dead| SagaWrite::DeleteDead(dead.key.clone()));
    writer.write(store, gone.collect()).await;
    assert_eq!(store.dead_saga(SHARD, &letters[0].key).await.unwrap(), None);
    assert!(store.dead_sagas(&everything, Some("nonsense"), 1).await.is_err());
}

pub async fn a_version_of_a_definition_never_changes(store: &SurrealStore) {
    let first = definition("order", 1);
    assert_eq!(store.put_definition(&first).await.unwrap(), DefinitionPut::Created);
    let mut again = first.clone();
    again.created_by = "bob".into();
    assert_eq!(store.put_definition(&again).await.unwrap(), DefinitionPut::Same(first.clone()));
    let mut other = first.clone();
    other.reference.hash = DefinitionHash("f".repeat(64).into());
    assert_eq!(store.put_definition(&other).await.unwrap(), DefinitionPut::Taken(first.clone()));
    assert_eq!(store.definition("order", Some(1)).await.unwrap(), Some(first.clone()));
    let second = definition("order", 2);
    let (one, two) = tokio::join!(store.put_definition(&second), store.put_definition(&second));
    let created = [one.unwrap(), two.unwrap()].into_iter().filter(|put| *put == DefinitionPut::Created);
    assert_eq!(created.count(), 1);
}

pub async fn definitions_are_listed_by_name_and_falling_version(store: &SurrealStore) {
    for (name, version) in [("order", 2), ("orders", 1), ("order", 10), ("a", 1), ("order", 1), ("Zeta", 3)] {
        store.put_definition(&definition(name, version)).await.unwrap();
    }
    assert_eq!(store.definition("order", None).await.unwrap(), Some(definition("order", 10)));
    assert_eq!(store.definition("order", Some(3)).await.unwrap(), None);
    assert_eq!(store.definition("orde", None).await.unwrap(), None);
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = store.definitions(None, cursor.as_deref(), 2).await.unwrap();
        let names = page.items.into_iter().map(|found| (found.reference.name.to_string(), found.reference.version));
        found.extend(names);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let expected = [("Zeta", 3), ("a", 1), ("order", 10), ("order", 2), ("order", 1), ("orders", 1)];
    assert_eq!(found, expected.map(|(name, version)| (name.to_owned(), version)));
    let page = store.definitions(Some("order"), None, 10).await.unwrap();
    let versions: Vec<u32> = page.items.iter().map(|found| found.reference.version).collect();
    assert_eq!((versions, page.next_cursor), (vec![10, 2, 1], None));
    assert!(store.definitions(None, Some("nonsense"), 2).await.is_err());
}

pub async fn a_content_is_found_by_its_hash(store: &SurrealStore) {
    let wanted = definition("order", 2);
    for each in [definition("order", 1), wanted.clone(), definition("other", 2)] {
        store.put_definition(&each).await.unwrap();
    }
    assert_eq!(store.definition_by_hash(&wanted.reference.hash).await.unwrap(), Some(wanted));
    assert_eq!(store.definition_by_hash(&DefinitionHash("0".into())).await.unwrap(), None);
}
