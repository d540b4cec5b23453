//! Callers' transactions.

use std::sync::Arc;

use serde_json::json;
use waybill_core::ids::ShardId;
use waybill_core::message::Message;
use waybill_core::port::store::{OwnerStore, StoreError};
use waybill_core::port::stream_store::StreamStore;
use waybill_core::port::transact::{DoorGroup, Statement, TransactStore, statements_digest};
use waybill_core::streams::joint::{JointAppend, JointAppends};
use waybill_testkit::conformance::samples::{Owner, SHARD, T0, message};
use waybill_testkit::conformance::stream_samples::{exact, stream};

use super::{door, memory, messages};
use crate::{StoreConfig, SurrealStore};

fn statement(query: &str, bindings: serde_json::Value) -> Statement {
    Statement { query: query.into(), bindings: bindings.as_object().cloned().unwrap() }
}

fn plain(query: &str) -> Statement {
    statement(query, json!({}))
}

fn group(name: &str) -> Vec<DoorGroup> {
    vec![DoorGroup { shard: SHARD, messages: vec![Arc::new(message(name))] }]
}

#[tokio::test]
async fn statements_and_messages_commit_together() {
    let store = memory().await;
    let statements = vec![
        statement(
            "CREATE type::record('orders', $id) SET total = $total, tags = $tags",
            json!({ "id": 7, "total": 12.5, "tags": ["a", null] }),
        ),
        statement("LET $sum = (SELECT VALUE total FROM orders)", json!({})),
        statement("RETURN { sum: math::sum($sum), id: $id }", json!({ "id": "own binding" })),
        plain("UPDATE orders:7 SET sums = $sum RETURN VALUE sums;"),
    ];
    let done = store.transact(statements, group("m"), Default::default(), None).await.unwrap();
    assert_eq!(done.results[0][0]["tags"], json!(["a", null]));
    assert_eq!(done.results[1], json!(null));
    assert_eq!(done.results[2], json!({ "sum": 12.5, "id": "own binding" }));
    assert_eq!(done.results[3], json!([[12.5]]));
    assert_eq!(messages(&store, SHARD).await.len(), 1);
}

/// An append of `ids` where the stream has to end.
fn events(to: &str, ids: &[&str], expected: u64) -> JointAppends {
    JointAppends { list: vec![JointAppend::Exact(exact(to, ids, expected))], at: T0 }
}

async fn end_of(store: &SurrealStore, of: &str) -> u64 {
    store.stream_slice(&stream(of), 0, 1 << 20).await.unwrap().head.last
}

#[tokio::test]
async fn rows_messages_and_events_are_there_together_or_not_at_all() {
    let store = memory().await;
    let create = |id: u32| vec![plain(&format!("CREATE orders:{id} SET total = 1"))];
    let count = || plain("RETURN count(SELECT * FROM orders)");
    let done = store.transact(create(1), group("m"), events("a", &["x", "y"], 0), None).await.unwrap();
    assert_eq!((done.results.len(), done.seqs), (1, vec![Some(vec![1, 2])]));
    assert_eq!((messages(&store, SHARD).await.len(), end_of(&store, "a").await), (1, 2));

    // The stream ends elsewhere: neither row nor message.
    let error = store.transact(create(2), group("n"), events("a", &["z"], 1), None).await.unwrap_err();
    assert!(matches!(error, StoreError::Append(_)), "{error:?}");
    // A statement fails: no event, though its number would have been right.
    let bad = vec![plain("CREATE orders:3"), plain("CREATE orders:1")];
    let error = store.transact(bad, group("n"), events("a", &["z"], 2), None).await.unwrap_err();
    assert!(matches!(error, StoreError::Statement(_)), "{error:?}");
    // A repeat runs nothing, though its statement would fail now.
    let again = store.transact(create(1), group("made-anew"), events("a", &["x", "y"], 0), None).await.unwrap();
    assert_eq!((again.is_repeat, again.results.len(), again.seqs), (true, 0, vec![Some(vec![1, 2])]));
    let left = store.transact(vec![count()], Vec::new(), Default::default(), None).await.unwrap();
    assert_eq!(left.results[0], json!(1));
    assert_eq!((messages(&store, SHARD).await.len(), end_of(&store, "a").await), (1, 2));
    assert!(store.transact(create(4), group("n"), events("a", &["z"], 2), None).await.is_ok(), "its id is free");
}

#[tokio::test]
async fn a_failed_statement_leaves_neither_rows_nor_messages() {
    let store = memory().await;
    for bad in ["CREATE orders:1 SET a = 2", "RETURN { THROW 'no' }", "UPDATE orders:1 SET a = 1 + {}", "SELECT * FROM"]
    {
        let error = store
            .transact(vec![plain("CREATE orders:1 SET a = 1"), plain(bad)], group("m"), Default::default(), None)
            .await
            .unwrap_err();
        assert!(matches!(&error, StoreError::Statement(text) if text.starts_with("statement 2: ")), "{bad}: {error:?}");
        assert!(door(&store, SHARD).await.is_empty(), "{bad}");
        let left = store
            .transact(vec![plain("RETURN record::exists(orders:1)")], Vec::new(), Default::default(), None)
            .await
            .unwrap();
        assert_eq!(left.results[0], json!(false), "{bad}");
    }
}

#[tokio::test]
async fn a_thrown_text_that_reads_like_a_fault_of_the_store_is_the_callers() {
    let store = memory().await;
    for text in [
        "Transaction conflict: stock. This transaction can be retried",
        "Transaction write conflict",
        "snapshot is older than the commit oracle's GC window",
        "No space left on device (os error 28)",
        "StorageFull",
        "checksum verification failed: Corrupted",
        "commit outcome is unknown",
        "The transaction is too large",
    ] {
        let thrown = statement("RETURN { THROW $text }", json!({ "text": text }));
        let error = store
            .transact(vec![plain("CREATE orders:1"), thrown], group("m"), Default::default(), None)
            .await
            .unwrap_err();
        let is_theirs =
            matches!(&error, StoreError::Statement(told) if told.starts_with("statement 2: ") && told.contains(text));
        assert!(is_theirs, "{text}: {error:?}");
        assert!(door(&store, SHARD).await.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn own_tables_are_refused_before_anything_runs() {
    let store = memory().await;
    Owner::new().commit(&store, Vec::new()).await;
    let before = store.shard(SHARD).await.unwrap();
    for bad in [
        "UPDATE outbox_shard:0 SET token = 99",
        "DELETE outbox_shard",
        "INSERT INTO outbox_shard { id: 0, token: 99 }",
        "SELECT * FROM waybill_meta",
        "RETURN fn::waybill::enqueue({ topic: 'bus:x', payload: 1 })",
    ] {
        let error = store
            .transact(vec![plain("CREATE orders:1"), plain(bad)], group("m"), Default::default(), None)
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::OwnTable { .. }), "{bad}: {error:?}");
        assert_eq!(error.code().as_str(), "AUTH.TABLE");
    }
    assert_eq!(store.shard(SHARD).await.unwrap(), before);
    assert!(door(&store, SHARD).await.is_empty());
}

#[tokio::test]
async fn a_text_never_becomes_a_record_of_ours_while_it_runs() {
    // What the guard lets pass is run for real: a binding that looks like one of our records stays a text.
    let store = memory().await;
    Owner::new().commit(&store, Vec::new()).await;
    let before = store.shard(SHARD).await.unwrap();
    let bindings = json!({ "s": "outbox_shard:0", "rows": [{ "id": "outbox_shard:0", "token": 9 }], "o": { "id": "outbox_shard:0" } });
    for query in [
        "UPDATE $s SET token = 9",
        "DELETE $s",
        "UPSERT $s SET token = 9",
        "CREATE $s SET token = 9",
        "INSERT $rows",
        "INSERT INTO orders $rows",
        "CREATE orders CONTENT $o",
        "UPSERT orders:1 CONTENT { link: $s }",
        "UPDATE orders:1.link SET token = 9",
        "RELATE $s->knows->$s",
        "SELECT * FROM $s",
        "RETURN $s.token",
    ] {
        let done = store.transact(vec![statement(query, bindings.clone())], Vec::new(), Default::default(), None).await;
        if let Ok(done) = done {
            assert!(!done.results[0].to_string().contains("beat"), "{query} read {}", done.results[0]);
        }
        assert_eq!(store.shard(SHARD).await.unwrap(), before, "{query}");
    }
}

#[tokio::test]
async fn of_two_transactions_on_one_record_one_conflicts_and_leaves_nothing() {
    let store = memory().await;
    store.transact(vec![plain("CREATE counter:1 SET n = 0")], Vec::new(), Default::default(), None).await.unwrap();
    let add = || store.transact(vec![plain("UPDATE counter:1 SET n += 1")], group("m"), Default::default(), None);
    let mut applied = 0;
    for _ in 0..50 {
        let (one, other) = futures::join!(add(), add());
        for result in [one, other] {
            match result {
                Ok(_) => applied += 1,
                Err(error) => assert!(matches!(error, StoreError::Conflict(_)), "{error:?}"),
            }
        }
    }
    let count = store.transact(vec![plain("RETURN counter:1.n")], Vec::new(), Default::default(), None).await.unwrap();
    assert_eq!(count.results[0], json!(applied));
    assert_eq!(door(&store, SHARD).await.len(), applied);
}

#[tokio::test]
async fn a_hundred_business_transactions_at_once_all_commit() {
    let dir = tempfile::tempdir().unwrap();
    let store = SurrealStore::open(StoreConfig::new(format!("surrealkv://{}", dir.path().display()))).await.unwrap();
    store.transact(vec![plain("CREATE orders:0")], Vec::new(), Default::default(), None).await.unwrap();
    let work = (1..=100).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let statements = vec![statement("CREATE type::record('orders', $n) SET n = $n", json!({ "n": n }))];
            store.transact(statements, group(&format!("m{n}")), Default::default(), None).await.unwrap();
        })
    });
    for done in futures::future::join_all(work).await {
        done.unwrap();
    }
    let count = store
        .transact(vec![plain("RETURN count(SELECT VALUE id FROM orders)")], Vec::new(), Default::default(), None)
        .await
        .unwrap();
    assert_eq!(count.results[0], json!(101));
    assert_eq!(messages(&store, ShardId(0)).await.len(), 100);
    store.close().await.unwrap();
}

/// A message with an id of its caller's, as the engine hands it on with these statements.
fn named(name: &str, statements: &[Statement]) -> Vec<DoorGroup> {
    let statements = statements_digest(statements).map(Box::new);
    let message = Message { caller_id: true, statements, ..message(name) };
    vec![DoorGroup { shard: SHARD, messages: vec![Arc::new(message)] }]
}

fn add() -> Vec<Statement> {
    vec![plain("UPDATE account:1 SET n += 1")]
}

async fn account(store: &SurrealStore) -> serde_json::Value {
    let mut done =
        store.transact(vec![plain("RETURN account:1.n")], Vec::new(), Default::default(), None).await.unwrap();
    done.results.remove(0)
}

#[tokio::test]
async fn of_equal_transactions_at_once_one_runs() {
    let store = memory().await;
    store.transact(vec![plain("CREATE account:1 SET n = 0")], Vec::new(), Default::default(), None).await.unwrap();
    for round in 1..=20 {
        let all =
            (0..4).map(|_| store.transact(add(), named(&format!("order-{round}"), &add()), Default::default(), None));
        let (done, refused): (Vec<_>, Vec<_>) =
            futures::future::join_all(all).await.into_iter().partition(Result::is_ok);
        assert_eq!(done.len(), 1);
        assert!(refused.iter().all(|refused| matches!(refused, Err(StoreError::Exists(_)))), "{refused:?}");
        assert_eq!(account(&store).await, json!(round));
    }
    assert_eq!(messages(&store, SHARD).await.len(), 20);
}

#[tokio::test]
async fn a_repeat_after_a_crash_runs_nothing_before_the_first_is_taken_in() {
    let dir = tempfile::tempdir().unwrap();
    let open = || SurrealStore::open(StoreConfig::new(format!("surrealkv://{}", dir.path().display())));
    let store = open().await.unwrap();
    store.transact(vec![plain("CREATE account:1 SET n = 0")], Vec::new(), Default::default(), None).await.unwrap();
    store.transact(add(), named("order-1", &add()), Default::default(), None).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let store = open().await.unwrap();
    for name in ["order-1", "order-2", "order-2"] {
        let done = store.transact(add(), named(name, &add()), Default::default(), None).await;
        let is_refused = matches!(&done, Err(StoreError::Exists(text)) if text.contains("order-"));
        assert!(done.is_ok() || is_refused, "{name}: {done:?}");
    }
    assert_eq!(account(&store).await, json!(2));
    assert_eq!(messages(&store, SHARD).await.len(), 2);
    store.close().await.unwrap();
}

#[tokio::test]
async fn nothing_runs_while_the_doorstep_is_too_long_to_be_looked_through() {
    let store = memory().await;
    store.transact(vec![plain("CREATE account:1 SET n = 0")], Vec::new(), Default::default(), None).await.unwrap();
    let many = (0..1_100).flat_map(|n| group(&format!("m{n}"))).collect();
    store.transact(Vec::new(), many, Default::default(), None).await.unwrap();
    let error = store.transact(add(), named("order-1", &add()), Default::default(), None).await.unwrap_err();
    assert!(matches!(&error, StoreError::Exists(text) if text.contains("doorstep of shard 0")), "{error:?}");
    assert_eq!(account(&store).await, json!(0));
    // One without ids doesn't ask.
    store.transact(add(), group("free"), Default::default(), None).await.unwrap();
    assert_eq!(account(&store).await, json!(1));
}
