//! What statements make the host hold. In a process of its own, whose peak memory is looked at.
#![cfg(target_os = "linux")]

use std::process::Command;

use waybill_core::port::transact::{Statement, TransactStore};

use super::super::memory;
use super::trials::{bindings, call};
use crate::SurrealStore;
use crate::guard::allowed;

/// Told to the child.
const CHILD: &str = "WAYBILL_TEST_STATEMENT_PEAKS";
/// What a request may take beside its own text.
const EXTRA_MAX: usize = 64 << 20;
/// How large arguments are.
const SIZES: [usize; 4] = [64, 8 << 10, 256 << 10, 2 << 20];

/// A field of `/proc/self/status`, in bytes.
fn status(field: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

type Bindings = serde_json::Map<String, serde_json::Value>;

/// What came of trying.
#[derive(Default)]
pub struct Peaks {
    pub ran: usize,
    pub refused: usize,
    pub highest: usize,
}

impl Peaks {
    /// Runs a transaction; answers whether it worked.
    pub async fn tries(&mut self, store: &SurrealStore, queries: &[String], given: &Bindings) -> bool {
        self.answers(store, queries, given).await.is_some()
    }

    /// Runs a transaction; answers its results, if it worked.
    pub async fn answers(
        &mut self,
        store: &SurrealStore,
        queries: &[String],
        given: &Bindings,
    ) -> Option<Vec<serde_json::Value>> {
        // Each statement comes with what it names, as a caller would send it.
        let of = |query: &String| {
            let named = given.iter().filter(|(name, _)| query.contains(&format!("${name}")));
            let bindings: serde_json::Map<_, _> = named.map(|(name, value)| (name.clone(), value.clone())).collect();
            Statement { query: query.clone(), bindings }
        };
        let statements: Vec<_> = queries.iter().map(of).collect();
        let own = statements.iter().map(|one| serde_json::to_string(one).unwrap().len()).sum::<usize>();
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = status("VmRSS:");
        let done = store.transact(statements, Vec::new(), Default::default(), None).await.ok().map(|done| done.results);
        let extra = status("VmHWM:").saturating_sub(before);
        self.highest = self.highest.max(extra);
        assert!(extra <= EXTRA_MAX + own, "{} MiB more, {own} bytes of text: {queries:?}", extra >> 20);
        match done {
            Some(_) => self.ran += 1,
            None => self.refused += 1,
        }
        done
    }
}

/// LETs each of which holds the one before several times.
fn chain(first: &str) -> Vec<String> {
    let mut all = vec![format!("LET $v0 = {first}")];
    all.extend((1..=12).map(|n| format!("LET $v{n} = [$v{0}, $v{0}, $v{0}, $v{0}]", n - 1)));
    all
}

async fn child() {
    let store = memory().await;
    store
        .transact(
            vec![Statement { query: "CREATE orders:1".to_owned(), bindings: serde_json::Map::new() }],
            Vec::new(),
            Default::default(),
            None,
        )
        .await
        .unwrap();
    let given = SIZES.map(bindings);
    let [small, _, middle, _] = &given;
    let mut peaks = Peaks::default();
    let (mut without, mut never) = (Vec::new(), Vec::new());
    for function in allowed() {
        let Some(call) = call(function) else {
            without.push(function);
            continue;
        };
        let grows = call.contains('$');
        if !peaks.tries(&store, &[format!("RETURN {call}")], small).await {
            never.push(call.clone());
        }
        for given in given.iter().skip(1).filter(|_| grows) {
            peaks.tries(&store, &[format!("RETURN {call}")], given).await;
            for query in [
                format!("RETURN array::map($few, |$n| {call})"),
                format!("RETURN {{ FOR $n IN 0..5 {{ LET $x = {call} }} }}"),
                format!("RETURN {{ LET $f = |$n| [{call}, {call}, {call}]; [$f(1), $f(2), $f(3)] }}"),
            ] {
                peaks.tries(&store, &[query], given).await;
            }
        }
        if grows {
            let nested = format!("RETURN array::map($few, |$n| array::map([1, 2, 3, 4], |$m| {call}))");
            peaks.tries(&store, &[nested], middle).await;
            peaks.tries(&store, &chain(&call), middle).await;
        }
    }
    assert_eq!(without, Vec::<&str>::new(), "functions that callers may call and that nobody tries");
    // They answer only in a search over an index, or of a sequence that the operator has defined.
    never.retain(|call| {
        !["vector::distance::knn", "search::score", "sequence::nextval"].iter().any(|own| call.starts_with(own))
    });
    assert_eq!(never, Vec::<String>::new(), "calls that fail whatever they are given: nothing is tried with them");
    for queries in [
        chain("'xxxxxxxx'"),
        chain("[1]"),
        vec!["RETURN <array> (0..1000000)".to_owned()],
        vec!["RETURN <array> (0..100000)".to_owned()],
        vec!["RETURN { LET $a = 'x'; FOR $i IN 0..30 { LET $a = $a + $a }; $a }".to_owned()],
        vec!["RETURN { FOR $i IN 0..1000 { CREATE big SET text = $text } }".to_owned()],
        vec!["RETURN array::map($list, |$x| $list)".to_owned()],
        vec!["RETURN { LET $f = |$x| $x + $x; $f($f($f($f($f($f($f($f($text)))))))) }".to_owned()],
        vec!["INSERT INTO many $rows RETURN NONE".to_owned(), "SELECT (SELECT * FROM many) AS a FROM many".to_owned()],
    ] {
        for given in &given {
            peaks.tries(&store, &queries, given).await;
        }
    }
    println!("{} ran, {} were refused, at most {} MiB more", peaks.ran, peaks.refused, peaks.highest >> 20);
    // Both happen, else nothing is tested.
    assert!(peaks.ran > 500 && peaks.refused > 100, "{} ran, {} were refused", peaks.ran, peaks.refused);
}

/// Runs a test of this file's kind in a process of its own, which finds `variable` set and tells how many `were refused`.
pub async fn in_a_child(name: &'static str, variable: &'static str) {
    let run = move || {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name, "--nocapture"]).env(variable, "1").output()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("were refused"), "{text}");
}

#[tokio::test]
async fn no_statement_that_passes_takes_more_than_64_mib_beside_its_text() {
    if std::env::var_os(CHILD).is_some() {
        return child().await;
    }
    in_a_child("tests::walls::peak::no_statement_that_passes_takes_more_than_64_mib_beside_its_text", CHILD).await;
}
