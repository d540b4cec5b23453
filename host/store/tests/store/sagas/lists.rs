//! Lists, counts and expiry.

use std::time::Duration;

use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::{Expired, SagaStore, SagaTable};
use waybill_core::port::store::StoreError;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::records::SagaWrite;
use waybill_store::SurrealStore;
use waybill_testkit::conformance::saga_samples::{after, completed, key, resting};

use super::support::{SHARD, Writer, done, ended, find, put, ulid_at, with_input};

/// All that match, read in pages.
async fn all(store: &SurrealStore, table: SagaTable, filter: &SagaFilter, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = store.list_sagas(table, filter, cursor.as_deref(), limit).await.unwrap();
        assert!(page.items.len() <= limit);
        found.extend(page.items.into_iter().map(|saga| format!("{}/{}", saga.key.tenant, saga.key.id)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

pub async fn sagas_are_listed_newest_first_over_all_shards(store: &SurrealStore) {
    let shards = [0, 1, 7].map(ShardId);
    let ids = [("acme", "b", 5), ("acme", "a", 5), ("beta", "a", 5), ("acme", "old", 1), ("acme", "new", 9_000)];
    for (number, (tenant, id, at)) in ids.into_iter().enumerate() {
        let mut writer = Writer::new(store, shards[number % shards.len()], 1).await;
        writer
            .write(
                store,
                vec![put(&resting(key(tenant, id), at)), done(&completed(key(tenant, &format!("{id}2")), at))],
            )
            .await;
    }
    let everything = SagaFilter::default();
    let open = ["acme/new", "beta/a", "acme/b", "acme/a", "acme/old"];
    for limit in [1, 2, 3, 100] {
        assert_eq!(all(store, SagaTable::Open, &everything, limit).await, open);
    }
    let ended = ["acme/new2", "beta/a2", "acme/b2", "acme/a2", "acme/old2"];
    assert_eq!(all(store, SagaTable::Done, &everything, 2).await, ended);
    assert_eq!(store.count_sagas(SagaTable::Open, &everything).await.unwrap(), 5);
    let page = store.list_sagas(SagaTable::Open, &everything, None, 1).await.unwrap();
    assert_eq!(page.items, [resting(key("acme", "new"), 9_000).summary]);
}

pub async fn a_filter_looks_at_the_columns(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    let mut failed = resting(key("acme", "failed"), 1);
    failed.summary.code = Some("HTTP.500".into());
    failed.summary.reason = Some("it failed 3 times".into());
    failed.summary.waiting_for = None;
    let rows = [failed, resting(key("acme", "waits"), 2), resting(key("beta", "waits"), 3)];
    writer.write(store, rows.iter().map(put).collect()).await;
    for (text, expected) in [
        ("tenant=acme", vec!["acme/waits", "acme/failed"]),
        ("waiting_for=approval", vec!["beta/waits", "acme/waits"]),
        ("code=HTTP.* error=*failed*", vec!["acme/failed"]),
        ("definition=order version=3 step=approve id=wai*", vec!["beta/waits", "acme/waits"]),
        ("state=failed", vec![]),
    ] {
        let filter = SagaFilter::parse(text, after(0)).unwrap();
        assert_eq!(all(store, SagaTable::Open, &filter, 10).await, expected, "{text}");
        assert_eq!(store.count_sagas(SagaTable::Open, &filter).await.unwrap(), expected.len() as u64, "{text}");
    }
}

pub async fn a_page_that_looked_at_too_much_goes_on_behind_its_cursor(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    for block in 0..5_u64 {
        let rows = (0..500)
            .map(|number| done(&completed(key("acme", &ulid_at(block * 500 + number, 1)), block * 500 + number)));
        writer.write(store, rows.collect()).await;
    }
    writer.write(store, vec![done(&completed(key("rare", "one"), 3))]).await;
    let filter = SagaFilter::parse("tenant=rare", after(0)).unwrap();
    let first = store.list_sagas(SagaTable::Done, &filter, None, 10).await.unwrap();
    assert!(first.items.is_empty() && first.next_cursor.is_some(), "a bounded number of rows is read");
    assert_eq!(all(store, SagaTable::Done, &filter, 10).await, ["rare/one"]);
    assert_eq!(all(store, SagaTable::Done, &SagaFilter::default(), 700).await.len(), 2_501);
}

pub async fn a_cursor_of_another_list_is_refused(store: &SurrealStore) {
    for cursor in ["", "1", "0.5.99/acme", "0.1.1/é", "0.1.4/acmex\n", "a.b.c/d"] {
        let listed = store.list_sagas(SagaTable::Open, &SagaFilter::default(), Some(cursor), 1).await;
        assert!(matches!(listed, Err(StoreError::Statement(_))), "{cursor:?}: {listed:?}");
    }
}

pub async fn what_ended_long_ago_is_removed_oldest_first(store: &SurrealStore) {
    let (mut one, mut other) = (Writer::new(store, SHARD, 1).await, Writer::new(store, ShardId(1), 1).await);
    // In one commit, in another order than they ended, overlapping with another shard's.
    let ends = |ends: &[u64]| -> Vec<SagaWrite> {
        ends.iter().map(|end| done(&ended(key("acme", &format!("e{end}")), 0, *end))).collect()
    };
    one.write(store, ends(&[300, 100, 500])).await;
    other.write(store, ends(&[200, 400])).await;
    one.write(store, ends(&[50])).await;
    let left = async || {
        let mut left = all(store, SagaTable::Done, &SagaFilter::default(), 10).await;
        left.sort();
        left.join(" ")
    };
    assert_eq!(store.expire_sagas(after(50), Duration::ZERO, 10).await.unwrap().removed, 0);
    assert_eq!(store.expire_sagas(after(1_000), Duration::ZERO, 2).await.unwrap().removed, 2);
    assert_eq!(left().await, "acme/e200 acme/e300 acme/e400 acme/e500");
    assert_eq!(store.expire_sagas(after(400), Duration::ZERO, 10).await.unwrap().removed, 2);
    assert_eq!(left().await, "acme/e400 acme/e500");
    assert_eq!(store.expire_sagas(after(400), Duration::ZERO, 10).await.unwrap().removed, 0);
    assert_eq!(store.expire_sagas(after(1_000), Duration::ZERO, 0).await.unwrap().removed, 0);
    assert_eq!(store.expire_sagas(after(1_000), Duration::ZERO, 10).await.unwrap().removed, 2);
    assert_eq!(left().await, "");
}

/// Sagas of one commit, of which some have ids of idempotency keys: these are put off once, and each goes when its time is up.
pub async fn what_has_an_id_of_an_idempotency_key_is_put_off_beside_what_is_not(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    let id = |end: u64| format!("{end:032x}");
    let derived = [10, 30].map(|end| with_input(ended(key("acme", &id(end)), 0, end), 50_000));
    let callers = [20, 900].map(|end| ended(key("acme", &format!("mine{end}")), 0, end));
    writer.write(store, derived.iter().chain(&callers).map(done).collect()).await;
    let expire = async |before: u64, limit: usize| {
        let longer = Duration::from_millis(500);
        let Expired { removed, put_off } = store.expire_sagas(after(before), longer, limit).await.unwrap();
        (removed, put_off)
    };
    assert_eq!(expire(100, 2).await, (1, 1));
    assert_eq!(expire(100, 2).await, (0, 1));
    assert_eq!(expire(100, 2).await, (0, 0), "what was put off isn't looked at before its time");
    assert_eq!(expire(510, 10).await, (0, 0));
    for row in derived.iter().chain(&callers[1..]) {
        assert_eq!(find(store, SHARD, &row.summary.key).await.as_ref(), Some(row));
    }
    assert_eq!(expire(511, 10).await, (1, 0));
    assert_eq!(expire(800, 10).await, (1, 0));
    assert_eq!(expire(901, 10).await, (1, 0));
    for row in derived.iter().chain(&callers) {
        assert_eq!(find(store, SHARD, &row.summary.key).await, None);
    }
    assert_eq!(expire(9_000, 10).await, (0, 0));
}

pub async fn removing_takes_large_trees_and_starts_along(store: &SurrealStore) {
    let mut writer = Writer::new(store, SHARD, 1).await;
    let rows = [
        with_input(ended(key("acme", "mine"), 3, 10), 50_000),
        with_input(ended(key("acme", &ulid_at(3, 1)), 3, 10), 50_000),
    ];
    writer.write(store, rows.iter().map(done).collect()).await;
    assert_eq!(store.expire_sagas(after(11), Duration::ZERO, 10).await.unwrap().removed, 2);
    for row in &rows {
        assert_eq!(find(store, SHARD, &row.summary.key).await, None);
    }
    // The same id may be used again.
    let again = ended(key("acme", "mine"), 40, 50);
    writer.write(store, vec![done(&again)]).await;
    assert_eq!(find(store, SHARD, &again.summary.key).await, Some(again));
    assert_eq!(store.expire_sagas(after(45), Duration::ZERO, 10).await.unwrap().removed, 0);
}
