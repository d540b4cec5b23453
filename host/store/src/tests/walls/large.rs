//! Small requests that once made the host hold gigabytes. In a process of its own, as in [`super::peak`].
#![cfg(target_os = "linux")]

use serde_json::json;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{Statement, TransactStore};

use super::peak::{Peaks, in_a_child};
use crate::SurrealStore;

/// Told to the child.
const CHILD: &str = "WAYBILL_TEST_LARGE_PEAKS";
/// Tiny rows of a table.
const TINY: usize = 20_000;

async fn run(store: &SurrealStore, query: &str, bindings: serde_json::Value) -> Result<serde_json::Value, StoreError> {
    let serde_json::Value::Object(bindings) = bindings else { unreachable!("bindings are an object") };
    let statement = Statement { query: query.to_owned(), bindings };
    store.transact(vec![statement], Vec::new(), Default::default(), None).await.map(|mut done| done.results.remove(0))
}

fn given() -> serde_json::Map<String, serde_json::Value> {
    let all = json!({
        "t": "x".repeat(512 << 10), "r": vec![json!({}); 5_000], "b": { "rows": vec![0; 5_000] }, "list": vec![0; 5_000],
        "s": "s".repeat(4 << 10), "c": "\u{1}".repeat(100 << 10), "id": format!("t:[{}]", patterns(500)), "path": patterns(500),
        "pattern": "%+".repeat(400_000), "text": "x".repeat(4 << 20),
        "split": { "t": "t".repeat(512 << 10), "l": vec![0; 5_000] },
    });
    let serde_json::Value::Object(all) = all else { unreachable!("it is an object") };
    all
}

/// Regular expressions, each of which takes megabytes.
fn patterns(count: usize) -> String {
    (0..count).map(|n| format!("/a{{200000}}{n}/")).collect::<Vec<_>>().join(", ")
}

/// A shape of so many points.
fn line(points: usize) -> String {
    format!("{{ type: 'LineString', coordinates: [{}] }}", vec!["[1, 2]"; points].join(", "))
}

async fn fill(store: &SurrealStore) {
    for page in 0..TINY / 1_000 {
        let rows: Vec<_> = (0..1_000).map(|n| json!({ "id": page * 1_000 + n })).collect();
        run(store, "INSERT INTO tiny $rows RETURN NONE", json!({ "rows": rows })).await.unwrap();
    }
    let links = "CREATE t:1 SET next = array::map(<array> (0..2000), |$i| t:1) RETURN NONE";
    run(store, links, json!({})).await.unwrap();
    for _ in 0..4 {
        let edges = "RETURN { FOR $n IN 0..500 { RELATE tiny:1->e->tiny:2 RETURN NONE } }";
        run(store, edges, json!({})).await.unwrap();
    }
}

/// What is refused, before it runs or while it does.
fn refused() -> Vec<String> {
    let mut all: Vec<String> = [
        // Regular expressions, wherever SurrealDB parses a text.
        "RETURN array::map($b.rows, |$x, $i| (<regex> ('a{200000}' + <string> $i)) = 1)",
        "RETURN type::record($id)",
        "RETURN <record> $id",
        "RETURN string::is_record($id)",
        "RETURN $id.is_record()",
        "RETURN string::matches('a', $path)",
        "SELECT * FROM tiny FETCH $path",
        "SELECT * OMIT $path FROM tiny",
        // Items of values that a path or a function has taken out of others.
        "RETURN array::map($b.rows, |$x| $t)",
        "SELECT VALUE $t FROM $b.rows",
        "RETURN array::map([$list][0], |$x| $t)",
        "RETURN array::map(array::flatten([$list]), |$x| $t)",
        "RETURN [<array> ([0..1000000][0]), <array> ([0..1000000][0]), <array> ([0..1000000][0])]",
        "RETURN <array> <range> [0, 1000000]",
        // Fields of its own in what a write answers.
        "INSERT INTO junk $r RETURN VALUE $t",
        "UPSERT tiny SET n = 1 RETURN $t AS a",
        "DELETE tiny RETURN $t AS a",
        "UPDATE tiny SET l = $list",
        // LIMIT behind GROUP and ORDER.
        "SELECT array::group($t) AS g FROM $r GROUP ALL LIMIT 1",
        "SELECT $t + <string> n AS b FROM $r ORDER BY b LIMIT 1 START 2000",
        "SELECT $t AS b FROM $r LIMIT 1 START 4000",
        // SPLIT makes all rows before LIMIT takes some.
        "SELECT * FROM $split SPLIT l LIMIT 1",
        // More rows than were counted.
        "SELECT $s AS x FROM tiny",
        "SELECT VALUE [$s, $s] FROM tiny",
        // What WHERE answers for every row of a batch.
        "SELECT VALUE 1 FROM tiny WHERE string::concat($t, 'x')",
        // Links that fan out.
        "RETURN t:1.next.next",
        "RETURN t:1.next.next.next",
        "SELECT * FROM t:1 FETCH next, next.next",
        "RETURN t:1.{1..8}.next",
        // JSON of an answer, and bytes in it.
        "RETURN array::map(<array> (0..100), |$i| $c)",
        "RETURN <bytes> $text",
        "RETURN time::format(time::now(), $pattern)",
    ]
    .map(str::to_owned)
    .into();
    // A shape takes as much as its points.
    all.push(format!("RETURN array::map(<array> (0..150), |$i| {})", line(10_000)));
    all.push(format!("RETURN [{}]", patterns(500)));
    all.push(format!("INSERT INTO junk {}", patterns(1)));
    let explained: Vec<String> = (0..500).map(|n| format!("EXPLAIN ANALYZE /a{{200000}}{n}/")).collect();
    all.push(format!("RETURN [{}]", explained.join(", ")));
    all.push(format!("RETURN r't:[{}]'", patterns(500)));
    all.push(format!("CREATE {} RETURN $t AS a", (0..500).map(|n| format!("junk:{n}")).collect::<Vec<_>>().join(", ")));
    all
}

async fn child() {
    let store = super::super::memory().await;
    fill(&store).await;
    let given = given();
    let mut peaks = Peaks::default();
    for query in refused() {
        let shown: String = query.chars().take(100).collect();
        assert!(!peaks.tries(&store, &[query], &given).await, "{shown} ran");
    }
    // These may run, within the bound.
    for query in [
        "SELECT ->(SELECT $s AS x FROM e) FROM tiny:1",
        "SELECT *, ->e->tiny AS to FROM tiny:1",
        "SELECT $s AS x FROM tiny LIMIT 1000",
        // Subqueries of many rows: what each makes on its way is gone before the next.
        "SELECT VALUE (SELECT VALUE array::len([$t + 'x', (SELECT VALUE 1 FROM tiny LIMIT 1)]) FROM 1) FROM $r",
        "UPDATE tiny SET n = 1",
        "DELETE e RETURN NONE",
        "DELETE tiny RETURN NONE",
    ] {
        peaks.tries(&store, &[query.to_owned()], &given).await;
    }
    // A shape of a LET is held as what it is answered as.
    let mut shapes = vec![format!("LET $line = {}", line(20_000))];
    assert!(peaks.tries(&store, &shapes, &given).await, "a shape of 20,000 points is refused");
    shapes.push("RETURN array::map(<array> (0..150), |$i| $line)".to_owned());
    assert!(!peaks.tries(&store, &shapes, &given).await, "150 shapes of 20,000 points are answered");
    // All of them parsed at once would take sixteen times their text.
    let many = format!("RETURN array::len([1{}])", ",1".repeat(120 << 10));
    let many: Vec<String> = std::iter::repeat_n(many, 40).collect();
    peaks.tries(&store, &many, &given).await;
    println!("{} ran, {} were refused, at most {} MiB more", peaks.ran, peaks.refused, peaks.highest >> 20);
    assert!(peaks.ran > 2, "{} ran", peaks.ran);
}

#[tokio::test]
async fn no_small_request_takes_more_than_64_mib() {
    if std::env::var_os(CHILD).is_some() {
        return child().await;
    }
    in_a_child("tests::walls::large::no_small_request_takes_more_than_64_mib", CHILD).await;
}

/// What is removed is kept until the commit as what is written is.
#[tokio::test]
async fn removals_count_as_writes() {
    let store = super::super::memory().await;
    let churn = |rounds: usize| {
        format!(
            "RETURN {{ FOR $n IN 0..{rounds} {{ CREATE type::record('gone', $long) RETURN NONE; \
             DELETE type::record('gone', $long) RETURN NONE }} }}"
        )
    };
    let long = || json!({ "long": "x".repeat(15 << 10) });
    run(&store, &churn(100), long()).await.unwrap();
    assert_eq!(run(&store, &churn(600), long()).await.unwrap_err(), StoreError::TooLarge);
}

/// What a statement writes counts as it lies in memory: a list of nulls is stored in few bytes.
#[tokio::test]
async fn small_values_count_as_the_memory_that_they_take() {
    let store = super::super::memory().await;
    let list = || json!({ "list": vec![(); 20_000] });
    let fill = |rows: usize| format!("RETURN {{ FOR $n IN 0..{rows} {{ CREATE wide SET list = $list RETURN NONE }} }}");
    run(&store, &fill(5), list()).await.unwrap();
    assert_eq!(run(&store, &fill(20), list()).await.unwrap_err(), StoreError::TooLarge);
}
