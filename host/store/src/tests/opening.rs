//! Opening, closing, migrations.

use std::sync::Arc;

use waybill_core::port::store::{OwnerStore, StoreError, Write};
use waybill_testkit::conformance::samples::{Owner, SHARD, segment_of, seq};

use super::{memory, sql};
use crate::schema::{MIGRATIONS, Migration, migrate, tables_of};
use crate::{Durability, OpenError, StoreConfig, SurrealStore};

fn at(dir: &std::path::Path) -> StoreConfig {
    StoreConfig::new(format!("surrealkv://{}", dir.display()))
}

#[tokio::test]
async fn what_was_committed_is_there_after_opening_again() {
    let dir = tempfile::tempdir().unwrap();
    let written = segment_of(seq(0, 0), 200, 100);
    let store = SurrealStore::open(at(dir.path())).await.unwrap();
    assert_eq!(*store.durability(), Durability::EveryCommit);
    Owner::new().commit(&store, vec![Write::PutSegment(Arc::new(written.clone()))]).await;
    store.close().await.unwrap();
    drop(store);
    let store = SurrealStore::open(at(dir.path())).await.unwrap();
    let found = store.segments(SHARD, &[seq(0, 0)]).await.unwrap();
    assert_eq!(found[0].segment.clone().unwrap().as_ref(), &written);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_directory_in_use_names_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let store = SurrealStore::open(at(dir.path())).await.unwrap();
    let error = SurrealStore::open(at(dir.path())).await.unwrap_err();
    assert!(
        matches!(&error, OpenError::Locked { holder, .. } if holder.contains(&std::process::id().to_string())),
        "{error}"
    );
    assert_eq!(error.code().as_str(), "STORAGE.LOCKED");
    store.close().await.unwrap();
}

#[tokio::test]
async fn data_of_a_newer_host_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = SurrealStore::open(at(dir.path())).await.unwrap();
    sql(&store, "CREATE waybill_migration:99 SET number = 99, checksum = 'x', name = 'later'").await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let error = SurrealStore::open(at(dir.path())).await.unwrap_err();
    assert_eq!(error.code().as_str(), "STORAGE.NEWER_DATA", "{error}");
}

#[tokio::test]
async fn a_migration_is_applied_once_and_its_text_may_not_change() {
    let store = memory().await;
    migrate(store.engine.as_ref(), MIGRATIONS).await.unwrap();
    let next = Migration { number: 1000, name: "next", text: "CREATE note:1 SET n = 1;" };
    let all: Vec<Migration> = MIGRATIONS.iter().copied().chain([next]).collect();
    migrate(store.engine.as_ref(), &all).await.unwrap();
    migrate(store.engine.as_ref(), &all).await.unwrap();
    let changed: Vec<Migration> =
        MIGRATIONS.iter().copied().chain([Migration { text: "CREATE note:2 SET n = 2;", ..next }]).collect();
    let error = migrate(store.engine.as_ref(), &changed).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(text) if text.contains("1000")), "{error:?}");
}

/// A directory as it was before the inbox, in which an application has done something.
async fn before_the_inbox(dir: &std::path::Path, application: &str) {
    let store = SurrealStore::open(at(dir)).await.unwrap();
    let inbox = MIGRATIONS.iter().find(|migration| migration.number == 7).unwrap();
    for table in tables_of(inbox.text) {
        sql(&store, &format!("REMOVE TABLE {table}")).await.unwrap();
    }
    sql(&store, "DELETE waybill_migration:7").await.unwrap();
    sql(&store, application).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_table_of_an_application_that_has_a_name_of_ours_is_named() {
    let dir = tempfile::tempdir().unwrap();
    before_the_inbox(dir.path(), "CREATE inbox:1 SET subject = 'theirs'").await;
    for _ in 0..2 {
        let error = SurrealStore::open(at(dir.path())).await.unwrap_err();
        assert_eq!(error, OpenError::Table { table: "inbox" });
        assert_eq!(error.code().as_str(), "STORAGE.TABLE");
        assert!(error.to_string().contains("\"inbox\""), "{error}");
    }
}

#[tokio::test]
async fn an_empty_table_of_an_application_gives_its_name_up() {
    let dir = tempfile::tempdir().unwrap();
    let moved = "CREATE inbox:1 SET subject = 'theirs'; CREATE shop_inbox:1 SET subject = 'theirs'; DELETE inbox";
    before_the_inbox(dir.path(), moved).await;
    let store = SurrealStore::open(at(dir.path())).await.unwrap();
    let number = sql(&store, "SELECT VALUE number FROM waybill_migration:7").await.unwrap();
    assert!(matches!(&number[0], waybill_surreal::Value::Array(rows) if rows.0.len() == 1), "{number:?}");
    let theirs = sql(&store, "SELECT VALUE subject FROM shop_inbox").await.unwrap();
    assert!(matches!(&theirs[0], waybill_surreal::Value::Array(rows) if rows.0.len() == 1), "{theirs:?}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_behind() {
    let store = memory().await;
    let bad = Migration { number: 1000, name: "bad", text: "CREATE note:1 SET n = 1; THROW 'no';" };
    let all: Vec<Migration> = MIGRATIONS.iter().copied().chain([bad]).collect();
    migrate(store.engine.as_ref(), &all).await.unwrap_err();
    let left = sql(&store, "SELECT VALUE n FROM note; SELECT VALUE number FROM waybill_migration:1000").await;
    let empty = match left {
        Ok(answers) => {
            answers.iter().all(|answer| matches!(answer, waybill_surreal::Value::Array(rows) if rows.is_empty()))
        }
        Err(fault) => fault.to_string().contains("does not exist"),
    };
    assert!(empty);
}

#[tokio::test]
async fn bounds_of_the_configuration_are_checked() {
    for config in [
        StoreConfig { shards: Some(0), ..StoreConfig::new("mem://") },
        StoreConfig { shards: Some(257), ..StoreConfig::new("mem://") },
        StoreConfig { memtable_bytes: 1, ..StoreConfig::new("mem://") },
        StoreConfig::new("tikv://pd:2379"),
    ] {
        assert_eq!(SurrealStore::open(config).await.unwrap_err().code().as_str(), "CONFIG.STORE");
    }
}

#[tokio::test]
async fn a_transaction_may_fill_the_largest_request() {
    let dir = tempfile::tempdir().unwrap();
    let store = SurrealStore::open(at(dir.path())).await.unwrap();
    let writes = (0..128).map(|n| Write::PutSegment(Arc::new(segment_of(seq(n, 0), 4, 128 * 1024))));
    let mut owner = Owner::new();
    owner.commit(&store, writes.collect()).await;
    let refused = (0..256).map(|n| Write::PutSegment(Arc::new(segment_of(seq(1_000 + n, 0), 4, 128 * 1024))));
    let error = owner.try_commit(&store, refused.collect()).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("memtable") || error.to_string().contains("large"), "{error}");
    owner.commit(&store, Vec::new()).await;
    assert_eq!(store.directory(SHARD, seq(0, 0), 1_000).await.unwrap().len(), 128);
    store.close().await.unwrap();
}

async fn shards_of(dir: &std::path::Path, shards: Option<u16>) -> Result<u16, OpenError> {
    let store = SurrealStore::open(StoreConfig { shards, ..at(dir) }).await?;
    let shards = store.shards();
    store.close().await.unwrap();
    Ok(shards)
}

#[tokio::test]
async fn the_number_of_shards_is_that_of_the_first_start() {
    for (first, other) in [(4, 1), (1, 4)] {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(shards_of(dir.path(), Some(first)).await.unwrap(), first);
        let error = shards_of(dir.path(), Some(other)).await.unwrap_err();
        assert_eq!(error, OpenError::Shards { kept: first, configured: other });
        assert_eq!(error.code().as_str(), "CONFIG.SHARDS");
        assert!(error.to_string().contains(&format!("outbox.shards = {first}")), "{error}");
        // What was refused changed nothing, and who says no number takes what is there.
        assert_eq!(shards_of(dir.path(), Some(first)).await.unwrap(), first);
        assert_eq!(shards_of(dir.path(), None).await.unwrap(), first);
    }
}

#[tokio::test]
async fn hosts_on_one_store_agree_on_the_number_of_shards() {
    let store = memory().await;
    let keep = |configured| crate::shards::keep(store.engine.as_ref(), configured, 16);
    sql(&store, "DELETE waybill_meta").await.unwrap();
    let (one, other) = futures::join!(keep(Some(2)), keep(Some(3)));
    let kept = keep(None).await.unwrap();
    assert!([2, 3].contains(&kept));
    let configured = if kept == 2 { 3 } else { 2 };
    let refused = Err(OpenError::Shards { kept, configured });
    assert!([&one, &other].contains(&&Ok(kept)) && [&one, &other].contains(&&refused), "{one:?} {other:?}");
}

#[tokio::test]
async fn a_store_of_an_earlier_version_has_the_shards_that_something_lies_in() {
    // As its latest start said; more than that where something lies in a shard behind them, which nobody would look at.
    for (made, expected) in [
        ("UPSERT waybill_meta:limits SET shards = 4", 4),
        ("UPSERT waybill_meta:limits SET shards = 1; CREATE outbox_shard:3 SET token = 1", 4),
        ("UPSERT waybill_meta:limits SET shards = 2; CREATE saga_done:[6, 1, 'a', 'b'] SET x = 1", 7),
        ("CREATE parked:[2, 1] SET x = 1", 3),
        ("RETURN 1", 16),
    ] {
        let store = memory().await;
        sql(&store, "DELETE waybill_meta").await.unwrap();
        sql(&store, made).await.unwrap();
        assert_eq!(crate::shards::keep(store.engine.as_ref(), None, 16).await.unwrap(), expected, "{made}");
        let wrong = crate::shards::keep(store.engine.as_ref(), Some(200), 16).await;
        assert_eq!(wrong, Err(OpenError::Shards { kept: expected, configured: 200 }));
    }
}
