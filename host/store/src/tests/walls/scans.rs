//! What is looked through without being held. In a process of its own, as in [`super::peak`].
#![cfg(target_os = "linux")]

use serde_json::json;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{Statement, TransactStore};

use super::patient;
use super::peak::{Peaks, in_a_child};
use crate::{StoreConfig, SurrealStore};

/// Told to the child.
const CHILD: &str = "WAYBILL_TEST_SCAN_PEAKS";
/// Rows of the table: 40 MiB of them.
const ROWS: usize = 20_000;
/// Rows that are written in one transaction.
const ROWS_A_WRITE: usize = 2_500;
/// Text of a row.
const TEXT_BYTES: usize = 2_048;
/// Of so many rows one is rare.
const RARE: usize = 5_000;

async fn run(store: &SurrealStore, query: &str, bindings: serde_json::Value) -> Result<serde_json::Value, StoreError> {
    let serde_json::Value::Object(bindings) = bindings else { unreachable!("bindings are an object") };
    let statement = Statement { query: query.to_owned(), bindings };
    store.transact(vec![statement], Vec::new(), Default::default(), None).await.map(|mut done| done.results.remove(0))
}

async fn fill(store: &SurrealStore) {
    let text = "x".repeat(TEXT_BYTES);
    let row = |n: usize| json!({ "id": n, "n": n, "rare": i32::from(n.is_multiple_of(RARE)), "text": text });
    for first in (0..ROWS).step_by(ROWS_A_WRITE) {
        let rows: Vec<_> = (first..first + ROWS_A_WRITE).map(row).collect();
        run(store, "INSERT INTO log $rows RETURN NONE", json!({ "rows": rows })).await.unwrap();
    }
}

/// Statements that hold few of the rows that they read, and their answers, in order.
fn answered() -> Vec<(&'static str, serde_json::Value)> {
    vec![
        ("SELECT count() FROM log GROUP ALL", json!([{ "count": ROWS }])),
        ("SELECT count() FROM log WHERE n >= 10 GROUP ALL", json!([{ "count": ROWS - 10 }])),
        (
            "SELECT count() AS n, math::sum(n) AS sum FROM log GROUP ALL",
            json!([{ "n": ROWS, "sum": ROWS * (ROWS - 1) / 2 }]),
        ),
        ("SELECT VALUE n FROM log WHERE rare = 1", json!([0, 5_000, 10_000, 15_000])),
        (
            "SELECT VALUE n FROM log WHERE rare = $rare AND string::starts_with(text, 'x')",
            json!([0, 5_000, 10_000, 15_000]),
        ),
        (
            "SELECT n FROM log WHERE rare = 1 OR n = 7 ORDER BY n DESC LIMIT 2",
            json!([{ "n": 15_000 }, { "n": 10_000 }]),
        ),
        ("SELECT rare, count() AS n FROM log WHERE rare != 0 GROUP BY rare", json!([{ "rare": 1, "n": 4 }])),
        ("SELECT VALUE n FROM log WHERE rare = 1 LIMIT 1 START 3", json!([15_000])),
        ("SELECT VALUE n FROM log WHERE rare = 'one'", json!([])),
        ("SELECT VALUE n FROM log WHERE missing = 1 OR n < 2", json!([0, 1])),
        ("LET $few = (SELECT count() FROM log WHERE n < 100 GROUP ALL)", json!(null)),
        ("UPDATE log SET seen = true WHERE n < 10 RETURN NONE", json!([])),
        ("SELECT VALUE n FROM log WHERE seen = true AND n >= 8", json!([8, 9])),
        ("DELETE log WHERE n < 10 RETURN NONE", json!([])),
        ("DELETE log WHERE string::contains(text, 'y') OR n < 20", json!([])),
        ("SELECT count() FROM log GROUP ALL", json!([{ "count": ROWS - 20 }])),
    ]
}

/// Statements that hold all rows of the table.
const REFUSED: [&str; 9] = [
    "SELECT * FROM log",
    "SELECT * FROM log WHERE n >= 0",
    "SELECT n FROM log WHERE text = text",
    "SELECT array::group(text) AS texts FROM log GROUP ALL",
    "SELECT text, count() FROM log GROUP BY text",
    "UPDATE log SET seen = true WHERE n >= 0",
    "DELETE log WHERE n >= 0 RETURN BEFORE",
    // What reads rows beside the scan holds them.
    "SELECT count() FROM log WHERE n IN (SELECT VALUE n FROM log WHERE text = text) GROUP ALL",
    "UPDATE log SET texts = (SELECT VALUE text FROM log) WHERE n = 50 RETURN NONE",
];

async fn child() {
    let folder = tempfile::tempdir().unwrap();
    let disk = format!("surrealkv://{}", folder.path().display());
    let given = json!({ "rare": 1 }).as_object().cloned().unwrap();
    let mut peaks = Peaks::default();
    for url in ["mem://".to_owned(), disk] {
        // Everything stays in the write buffer: writing it into tables would be measured as well.
        let config = StoreConfig { memtable_bytes: 256 << 20, ..patient(url) };
        let store = SurrealStore::open(config).await.unwrap();
        fill(&store).await;
        for query in REFUSED {
            assert!(!peaks.tries(&store, &[query.to_owned()], &given).await, "{query} ran");
        }
        for (query, answer) in answered() {
            let found = peaks.answers(&store, &[query.to_owned()], &given).await;
            assert_eq!(found, Some(vec![answer]), "{query}");
        }
        let refused = run(&store, "SELECT n FROM log WHERE text = text", json!({})).await.unwrap_err();
        assert!(refused.to_string().contains("define an index on the field"), "{refused}");
        events(&store).await;
        fed(&store).await;
        computed(&store).await;
    }
    println!("{} ran, {} were refused, at most {} MiB more", peaks.ran, peaks.refused, peaks.highest >> 20);
}

async fn is_refused(store: &SurrealStore, query: &str) {
    let refused = run(store, query, json!({})).await.unwrap_err();
    assert!(refused.to_string().contains("bytes of memory"), "{query}: {refused}");
}

/// What an event reads isn't the scan of a statement that finds its rows by an index.
async fn events(store: &SurrealStore) {
    for query in [
        "DEFINE INDEX by_n ON log FIELDS n",
        "DEFINE EVENT looks ON log WHEN $event = 'DELETE' THEN { LET $texts = (SELECT VALUE text FROM log); }",
    ] {
        super::super::sql(store, query).await.unwrap();
    }
    is_refused(store, "DELETE log WHERE n = 100 RETURN NONE").await;
    for query in ["REMOVE EVENT looks ON log", "REMOVE INDEX by_n ON log"] {
        super::super::sql(store, query).await.unwrap();
    }
}

/// A changefeed keeps rows until the commit.
async fn fed(store: &SurrealStore) {
    super::super::sql(store, "DEFINE TABLE OVERWRITE log CHANGEFEED 1d INCLUDE ORIGINAL").await.unwrap();
    is_refused(store, "DELETE log RETURN NONE").await;
    super::super::sql(store, "DEFINE TABLE OVERWRITE log").await.unwrap();
}

/// Where a field is computed when it is read, what is stored doesn't tell which rows a WHERE lets through.
async fn computed(store: &SurrealStore) {
    super::super::sql(store, "DEFINE FIELD rare ON log COMPUTED 1").await.unwrap();
    is_refused(store, "SELECT text FROM log WHERE rare = 1").await;
}

#[tokio::test]
async fn a_large_table_is_looked_through_in_the_memory_of_its_answer() {
    if std::env::var_os(CHILD).is_some() {
        return child().await;
    }
    in_a_child("tests::walls::scans::a_large_table_is_looked_through_in_the_memory_of_its_answer", CHILD).await;
}
