//! What statements make the host hold that read large rows, written in many transactions. In a process of its own, as in
//! [`super::peak`].
#![cfg(target_os = "linux")]

use serde_json::json;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{Statement, TransactStore};

use super::patient;
use super::peak::{Peaks, in_a_child};
use crate::{StoreConfig, SurrealStore};

/// Told to the child.
const CHILD: &str = "WAYBILL_TEST_ROW_PEAKS";
/// Rows of each table: 76 MiB of them.
const ROWS: usize = 40;
/// Text of a row: with its key and name just below the largest row.
const TEXT_BYTES: usize = 1_900 * 1024;
/// Values of a row of small ones: few bytes where they are stored, many in memory.
const VALUES: usize = 60_000;

async fn run(store: &SurrealStore, query: &str, bindings: serde_json::Value) -> Result<serde_json::Value, StoreError> {
    let serde_json::Value::Object(bindings) = bindings else { unreachable!("bindings are an object") };
    let statement = Statement { query: query.to_owned(), bindings };
    store.transact(vec![statement], Vec::new(), Default::default(), None).await.map(|mut done| done.results.remove(0))
}

/// Writes one row a transaction: texts, lists of small values, and links to one large row.
async fn fill(store: &SurrealStore) {
    for n in 0..ROWS {
        let text = json!({ "n": n, "text": "x".repeat(TEXT_BYTES) });
        run(store, "CREATE type::record('big', $n) SET n = $n, text = $text RETURN NONE", text).await.unwrap();
        let list = json!({ "n": n, "list": vec![(); VALUES] });
        run(store, "CREATE type::record('wide', $n) SET n = $n, list = $list RETURN NONE", list).await.unwrap();
        let link = json!({ "n": n });
        run(store, "CREATE type::record('link', $n) SET n = $n, to = big:1 RETURN NONE", link).await.unwrap();
    }
    for n in 0..ROWS {
        run(store, &format!("RELATE link:1->holds->big:{n} RETURN NONE"), json!({})).await.unwrap();
    }
}

async fn child() {
    let folder = tempfile::tempdir().unwrap();
    let disk = format!("surrealkv://{}", folder.path().display());
    let mut peaks = Peaks::default();
    for url in ["mem://".to_owned(), disk] {
        // Everything stays in the write buffer: writing it into tables would be measured as well.
        let config = StoreConfig { memtable_bytes: 256 << 20, ..patient(url) };
        let store = SurrealStore::open(config).await.unwrap();
        fill(&store).await;
        for query in [
            "SELECT * FROM big",
            "SELECT * FROM wide",
            "SELECT * FROM big ORDER BY text",
            "SELECT text, count() FROM big GROUP BY text",
            "SELECT text FROM big START 30",
            "SELECT * FROM big ORDER BY id DESC LIMIT 1000",
            "SELECT math::sum(array::len(list)) FROM wide GROUP ALL",
            "SELECT text, text, text, text, text, text, text FROM big:1",
            "SELECT [text, text], [text, text], [text, text], [text, text] FROM big:1",
            "SELECT *, to.* FROM link",
            "SELECT * FROM link FETCH to",
            "SELECT ->holds->big.* FROM link:1",
            "SELECT *, (SELECT * FROM big:2) AS one FROM link LIMIT 5",
            "SELECT *, (SELECT text FROM big LIMIT 1) AS one FROM link LIMIT 5",
            "SELECT * FROM big, wide",
            "SELECT * FROM big:1..30",
            "UPDATE big SET n += 1",
            "UPDATE wide SET list = array::concat(list, list) RETURN NONE",
            "DELETE wide RETURN BEFORE",
            "RETURN array::map([1, 2, 3], |$n| big:1.*)",
            "SELECT ->holds->big AS all FROM link:1",
            "SELECT VALUE string::len(text) FROM big:7",
            "SELECT VALUE n FROM big LIMIT 3",
            "SELECT count() FROM big GROUP ALL",
            "RETURN { FOR $n IN 0..1000 { LET $x = (SELECT * FROM big:1) } }",
        ] {
            peaks.tries(&store, &[query.to_owned()], &serde_json::Map::new()).await;
        }
        let held = [
            "LET $a = (SELECT VALUE text FROM big LIMIT 3)",
            "LET $b = (SELECT * FROM big LIMIT 2)",
            "SELECT * FROM wide",
        ];
        peaks.tries(&store, &held.map(str::to_owned), &serde_json::Map::new()).await;
        // Past the bound it is told so, within it all is answered.
        let refused = run(&store, "SELECT * FROM big", json!({})).await.unwrap_err();
        let StoreError::Statement(cause) = &refused else { unreachable!("{refused:?}") };
        assert!(cause.contains("bytes of memory, as many as it may read"), "{cause}");
        let refused = run(&store, "SELECT * FROM wide", json!({})).await.unwrap_err();
        assert!(refused.to_string().contains("as many as it may read"), "{refused}");
        let row = run(&store, "SELECT VALUE string::len(text) FROM big:7", json!({})).await.unwrap();
        assert_eq!(row, json!([TEXT_BYTES]));
        let rows = run(&store, "SELECT VALUE n FROM big LIMIT 3", json!({})).await.unwrap();
        assert_eq!(rows.as_array().map(Vec::len), Some(3));
        let count = run(&store, "SELECT count() FROM big GROUP ALL", json!({})).await.unwrap();
        assert_eq!(count, json!([{ "count": ROWS }]));
    }
    println!("{} ran, {} were refused, at most {} MiB more", peaks.ran, peaks.refused, peaks.highest >> 20);
    assert!(peaks.ran > 5 && peaks.refused > 10, "{} ran, {} were refused", peaks.ran, peaks.refused);
}

#[tokio::test]
async fn no_statement_takes_more_than_64_mib_of_rows_however_large_they_are() {
    if std::env::var_os(CHILD).is_some() {
        return child().await;
    }
    in_a_child("tests::walls::rows::no_statement_takes_more_than_64_mib_of_rows_however_large_they_are", CHILD).await;
}

#[tokio::test]
async fn rows_and_keys_past_their_bound_are_not_written() {
    let store = super::super::memory().await;
    let text = |bytes: usize| json!({ "text": "x".repeat(bytes) });
    for (query, given) in [
        ("CREATE big SET text = $text RETURN NONE", text(2 << 20)),
        ("CREATE type::record('big', $text) RETURN NONE", text(16 << 10)),
    ] {
        assert_eq!(run(&store, query, given).await.unwrap_err(), StoreError::TooLarge, "{query}");
    }
    run(&store, "CREATE big SET text = $text RETURN NONE", text((2 << 20) - 1024)).await.unwrap();
    run(&store, "CREATE type::record('big', $text) RETURN NONE", text(15 << 10)).await.unwrap();
}

/// Many small rows are read a page at a time, in order and each once.
#[tokio::test]
async fn pages_of_rows_make_up_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let disk = format!("surrealkv://{}", folder.path().display());
    for url in ["mem://".to_owned(), disk] {
        let store = SurrealStore::open(patient(url)).await.unwrap();
        let rows: Vec<_> = (0..1_203).map(|n| json!({ "id": n, "n": n })).collect();
        run(&store, "INSERT INTO many $rows RETURN NONE", json!({ "rows": rows })).await.unwrap();
        let all: Vec<i32> = (0..1_203).collect();
        assert_eq!(run(&store, "SELECT VALUE n FROM many", json!({})).await.unwrap(), json!(all));
        let back: Vec<i32> = (3..1_201).rev().collect();
        let query = "SELECT VALUE n FROM many ORDER BY id DESC LIMIT 1198 START 2";
        assert_eq!(run(&store, query, json!({})).await.unwrap(), json!(back));
        let some = run(&store, "SELECT VALUE n FROM many:7..600 LIMIT 501 START 3", json!({})).await.unwrap();
        assert_eq!(some, json!((10..511).collect::<Vec<i32>>()));
        let ids = run(&store, "SELECT VALUE record::id(id) FROM many", json!({})).await.unwrap();
        assert_eq!(ids, json!(all));
        run(&store, "DELETE many WHERE n >= 600 RETURN NONE", json!({})).await.unwrap();
        let count = run(&store, "SELECT count() FROM many GROUP ALL", json!({})).await.unwrap();
        assert_eq!(count, json!([{ "count": 600 }]));
    }
}
