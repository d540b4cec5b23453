//! The id index.

use std::sync::Arc;

use waybill_core::outbox::records::{IdOrigin, IdRecord, IdState};
use waybill_core::port::store::{StoreError, Write};

use super::Store;
use super::samples::{Owner, SHARD, T0, id, place, segment, seq, tenant};

fn record(name: &str, index: u16) -> IdRecord {
    IdRecord {
        tenant: tenant("acme"),
        id: id(name),
        state: IdState::At(place(seq(0, 0), index)),
        content: Some([7; 32]),
        origin: IdOrigin::Transaction([8; 32]),
    }
}

fn put(record: &IdRecord, create: bool) -> Write {
    Write::PutId { record: Arc::new(record.clone()), create }
}

pub async fn id_rows_come_back_slot_by_slot(store: &impl Store) {
    let one = record("one", 1);
    let waiting =
        IdRecord { state: IdState::Scheduled { shard: SHARD, due: T0 }, content: None, ..record("ünï/:code⟩", 0) };
    let alone = IdRecord { origin: IdOrigin::Alone, ..record("alone", 3) };
    let old = IdRecord { origin: IdOrigin::Unknown, ..record("old", 4) };
    Owner::new().commit(store, vec![put(&one, true), put(&waiting, true), put(&alone, true), put(&old, true)]).await;
    for record in [&alone, &old] {
        assert_eq!(store.id(&tenant("acme"), &record.id).await.unwrap().as_ref(), Some(record));
    }
    let asked = [&waiting.id, &id("none"), &one.id].map(|id| (tenant("acme"), id.clone()));
    assert_eq!(store.ids(&asked).await.unwrap(), [Some(waiting), None, Some(one.clone())]);
    assert_eq!(store.id(&tenant("acme"), &one.id).await.unwrap(), Some(one));
}

pub async fn a_taken_id_fails_the_whole_commit(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, vec![put(&record("one", 1), true)]).await;
    let writes = vec![
        Write::PutSegment(Arc::new(segment(seq(0, 0), 1))),
        put(&record("two", 2), true),
        put(&record("one", 3), true),
    ];
    let error = owner.try_commit(store, writes).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists(_)), "{error:?}");
    assert_eq!(store.shard(SHARD).await.unwrap(), owner.record);
    assert_eq!(store.id(&tenant("acme"), &id("two")).await.unwrap(), None);
    assert_eq!(store.id(&tenant("acme"), &id("one")).await.unwrap(), Some(record("one", 1)));
    assert!(store.directory(SHARD, seq(0, 0), 10).await.unwrap().is_empty());
    owner.commit(store, Vec::new()).await;
}

pub async fn an_id_row_may_be_written_over_without_create(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, vec![put(&record("one", 1), true)]).await;
    owner.commit(store, vec![put(&record("one", 2), false)]).await;
    assert_eq!(store.id(&tenant("acme"), &id("one")).await.unwrap(), Some(record("one", 2)));
    let delete = Write::DeleteId { tenant: tenant("acme"), id: id("one") };
    owner.commit(store, vec![delete, put(&record("one", 3), true)]).await;
    assert_eq!(store.id(&tenant("acme"), &id("one")).await.unwrap(), Some(record("one", 3)));
}

pub async fn ids_of_two_tenants_are_two_ids(store: &impl Store) {
    let other = IdRecord { tenant: tenant("other"), ..record("one", 2) };
    Owner::new().commit(store, vec![put(&record("one", 1), true), put(&other, true)]).await;
    assert_eq!(store.id(&tenant("other"), &id("one")).await.unwrap(), Some(other));
}
