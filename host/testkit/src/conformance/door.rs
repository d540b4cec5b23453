//! The doorstep.

use std::collections::BTreeSet;
use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::message::Message;
use waybill_core::outbox::records::{DoorKey, DoorRow, IdOrigin, IdRecord, IdState};
use waybill_core::port::store::{StoreError, Write};
use waybill_core::port::transact::DoorGroup;

use super::Store;
use super::samples::{Owner, SHARD, full_message, id, message, place, seq, tenant};

pub(super) fn group(shard: ShardId, messages: Vec<Message>) -> DoorGroup {
    DoorGroup { shard, messages: messages.into_iter().map(Arc::new).collect() }
}

async fn put(store: &impl Store, shard: ShardId, names: &[&str]) {
    let messages = names.iter().map(|name| message(name)).collect();
    store.transact(Vec::new(), vec![group(shard, messages)], Default::default(), None).await.unwrap();
}

async fn all(store: &impl Store, shard: ShardId) -> Vec<DoorRow> {
    store.door(shard, 0, u64::MAX, None, 10_000).await.unwrap()
}

fn names(rows: &[DoorRow]) -> Vec<String> {
    let messages = rows.iter().flat_map(|row| row.content.clone().unwrap());
    messages.map(|message| message.id.as_str().to_owned()).collect()
}

pub async fn a_group_comes_back_in_order_with_all_fields(store: &impl Store) {
    let messages = vec![full_message("z"), message("a"), full_message("m")];
    store.transact(Vec::new(), vec![group(SHARD, messages.clone())], Default::default(), None).await.unwrap();
    let found: Vec<Message> = all(store, SHARD)
        .await
        .iter()
        .flat_map(|row| row.content.clone().unwrap())
        .map(|message| message.as_ref().clone())
        .collect();
    assert_eq!(found, messages);
}

pub async fn rows_come_in_key_order_and_in_pages(store: &impl Store) {
    for n in 0..25 {
        put(store, SHARD, &[&format!("m{n:02}")]).await;
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.door(SHARD, 0, u64::MAX, after.clone(), 10).await.unwrap();
        assert!(page.len() <= 10);
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        found.extend(page);
    }
    assert!(found.is_sorted_by(|one, two| one.key < two.key));
    assert_eq!(names(&found), (0..25).map(|n| format!("m{n:02}")).collect::<Vec<_>>());
}

pub async fn the_range_of_stamps_is_inclusive(store: &impl Store) {
    for name in ["a", "b", "c"] {
        put(store, SHARD, &[name]).await;
        // Stamps of their own: a clock need not move between two calls.
        let before = store.door_clock().await.unwrap();
        while store.door_clock().await.unwrap() == before {
            tokio::task::yield_now().await;
        }
    }
    let stamps: Vec<u64> = all(store, SHARD).await.iter().map(|row| row.key.nanos).collect();
    let found = store.door(SHARD, stamps[1], stamps[1], None, 10).await.unwrap();
    assert_eq!(names(&found), ["b"]);
    assert_eq!(names(&store.door(SHARD, stamps[1], u64::MAX, None, 10).await.unwrap()), ["b", "c"]);
    assert_eq!(names(&store.door(SHARD, 0, stamps[1] - 1, None, 10).await.unwrap()), ["a"]);
    assert!(store.door(SHARD, stamps[2] + 1, u64::MAX, None, 10).await.unwrap().is_empty());
}

pub async fn a_deleted_row_is_gone(store: &impl Store) {
    put(store, SHARD, &["a"]).await;
    put(store, SHARD, &["b"]).await;
    let rows = all(store, SHARD).await;
    Owner::new().commit(store, vec![Write::DeleteDoor(rows[0].key.clone())]).await;
    assert_eq!(names(&all(store, SHARD).await), ["b"]);
}

pub async fn a_forwarded_row_lies_on_the_other_shard(store: &impl Store) {
    put(store, SHARD, &["a", "b"]).await;
    let row = all(store, SHARD).await.remove(0);
    let write = Write::ForwardDoor { shard: ShardId(4), key: row.key.clone(), messages: row.content.clone().unwrap() };
    Owner::new().commit(store, vec![Write::DeleteDoor(row.key.clone()), write]).await;
    assert!(all(store, SHARD).await.is_empty());
    assert_eq!(all(store, ShardId(4)).await, [row]);
}

pub async fn stamps_do_not_run_ahead_of_the_door_clock(store: &impl Store) {
    let before = store.door_clock().await.unwrap();
    put(store, SHARD, &["a"]).await;
    let after = store.door_clock().await.unwrap();
    let stamp = all(store, SHARD).await[0].key.nanos;
    assert!(before <= stamp && stamp <= after, "{before} {stamp} {after}");
}

pub async fn the_newest_stamp_is_that_of_the_last_row(store: &impl Store) {
    assert_eq!(store.door_newest(SHARD).await.unwrap(), None);
    put(store, SHARD, &["a"]).await;
    put(store, SHARD, &["b"]).await;
    let ahead = DoorKey { nanos: 9_000_000_000_000_000_000, ordinal: 0, ulid: "x".to_owned() };
    let message = Arc::new(message("ahead"));
    let forward =
        |key: &DoorKey, shard| Write::ForwardDoor { shard, key: key.clone(), messages: vec![message.clone()] };
    let mut owner = Owner::new();
    owner.commit(store, vec![forward(&ahead, SHARD)]).await;
    assert_eq!(store.door_newest(SHARD).await.unwrap(), Some(ahead.nanos));
    assert_eq!(store.door_newest(ShardId(4)).await.unwrap(), None);
    let found = store.door(SHARD, 0, ahead.nanos, None, 10).await.unwrap();
    assert_eq!(names(&found), ["a", "b", "ahead"]);
}

pub async fn a_taken_id_refuses_the_whole_transaction(store: &impl Store) {
    let taken = full_message("taken");
    let state = IdState::At(place(seq(0, 0), 0));
    let record =
        IdRecord { tenant: taken.tenant.clone(), id: taken.id.clone(), state, content: None, origin: IdOrigin::Alone };
    Owner::new().commit(store, vec![Write::PutId { record: Arc::new(record), create: true }]).await;
    let mut stranger = full_message("taken");
    stranger.tenant = tenant("other");
    store.transact(Vec::new(), vec![group(SHARD, vec![stranger])], Default::default(), None).await.unwrap();
    let error = store
        .transact(Vec::new(), vec![group(SHARD, vec![message("free"), taken])], Default::default(), None)
        .await
        .unwrap_err();
    assert!(matches!(&error, StoreError::Exists(text) if text.contains("taken")), "{error:?}");
    assert_eq!(all(store, SHARD).await.len(), 1);
    assert_eq!(store.id(&tenant("other"), &id("taken")).await.unwrap(), None);
}

pub async fn an_id_on_the_doorstep_refuses_a_transaction_with_statements(store: &impl Store) {
    let of = |name: &str, with_statements: bool| {
        let statements = if with_statements { full_message(name).statements } else { None };
        vec![group(SHARD, vec![Message { statements, ..full_message(name) }])]
    };
    store.transact(Vec::new(), of("with", true), Default::default(), None).await.unwrap();
    store.transact(Vec::new(), of("without", false), Default::default(), None).await.unwrap();
    for name in ["with", "without"] {
        let error = store.transact(Vec::new(), of(name, true), Default::default(), None).await.unwrap_err();
        assert!(matches!(&error, StoreError::Exists(text) if text.contains(name)), "{error:?}");
    }
    // Another tenant's is another, and without statements nothing runs twice: the owner sorts it out.
    let stranger = Message { tenant: tenant("other"), ..full_message("with") };
    store.transact(Vec::new(), vec![group(SHARD, vec![stranger])], Default::default(), None).await.unwrap();
    store.transact(Vec::new(), of("with", false), Default::default(), None).await.unwrap();
    assert_eq!(names(&all(store, SHARD).await), ["with", "without", "with", "with"]);
    // Rows that are taken in don't hide what lies behind them.
    let rows = all(store, SHARD).await;
    Owner::new().commit(store, vec![Write::DeleteDoor(rows[0].key.clone())]).await;
    for name in ["with", "without"] {
        let error = store.transact(Vec::new(), of(name, true), Default::default(), None).await.unwrap_err();
        assert!(matches!(error, StoreError::Exists(_)), "{error:?}");
    }
    store.transact(Vec::new(), of("new", true), Default::default(), None).await.unwrap();
    let error = store.transact(Vec::new(), of("new", true), Default::default(), None).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists(_)), "{error:?}");
}

pub async fn groups_of_several_shards_commit_together(store: &impl Store) {
    let groups = (0..5_u16).map(|n| group(ShardId(n), vec![message(&format!("m{n}"))])).collect();
    store.transact(Vec::new(), groups, Default::default(), None).await.unwrap();
    for n in 0..5_u16 {
        assert_eq!(names(&all(store, ShardId(n)).await), [format!("m{n}")]);
    }
}

pub async fn a_hundred_transactions_at_once_all_arrive(store: &impl Store) {
    let work = (0..100).map(|n| async move { put(store, SHARD, &[&format!("m{n}"), &format!("n{n}")]).await });
    futures::future::join_all(work).await;
    let rows = all(store, SHARD).await;
    let keys: BTreeSet<DoorKey> = rows.iter().map(|row| row.key.clone()).collect();
    assert_eq!((keys.len(), names(&rows).len()), (100, 200));
    assert_eq!(names(&rows).into_iter().collect::<BTreeSet<_>>().len(), 200);
}
