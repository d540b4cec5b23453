//! What a store on disk does when its disk fails: no acknowledged commit is missing, whatever call fails, and wherever the power is lost.
//!
//! A program of its own (one of the tests, run by the others) commits transactions through a reopening or two, with a library between it
//! and its disk that lets a call fail or writes down what happens (`shim.c`). It ends without closing the store, as a crash would.

// The library is written for Linux.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::json;
use waybill_core::port::transact::{Statement, TransactStore};
use waybill_store::{OpenError, StoreConfig, SurrealStore};

use trace::{Disk, Draw};

/// Variables: the folder of the workload; how long the checks go on (`cargo xtask chaos` sets them), and with which seed.
const ROOT: &str = "DISK_ROOT";
const FAULTS: &str = "WAYBILL_DISK_FAULTS";
const IMAGES: &str = "WAYBILL_DISK_IMAGES";
const SEED: &str = "WAYBILL_DISK_SEED";
/// Faults and images in the suite.
const FAULTS_DEFAULT: usize = 20;
const IMAGES_DEFAULT: usize = 40;

/// The smallest write buffer that may be configured: the database is opened again each time that so much was written.
const BUFFER: u64 = 8 * 1024 * 1024;
const CLIENTS: usize = 3;
/// Transactions of a client, one after the other.
const ROUNDS: usize = 16;
/// Every other one writes as much; all together more than the buffer.
const LARGE: usize = 500_000;
/// Rows whose ids are read at once: 4 MB of the large ones.
const IDS_A_PAGE: usize = 8;
/// A workload that hangs mustn't hang the suite.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the workload ends with when the store can't be opened, and when it takes nothing more.
const REFUSED: i32 = 3;
const STUCK: i32 = 4;

async fn open(dir: &Path) -> Result<SurrealStore, OpenError> {
    let url = format!("surrealkv://{}", dir.display());
    SurrealStore::open(StoreConfig { memtable_bytes: BUFFER, ..StoreConfig::new(url) }).await
}

/// Two rows in one transaction.
async fn commit(store: &SurrealStore, id: &str, bytes: usize) -> bool {
    let statement = |table: &str, bytes: usize| {
        let bindings = json!({ "row": { "id": id, "text": "x".repeat(bytes) } }).as_object().cloned().unwrap();
        Statement { query: format!("CREATE {table} CONTENT $row"), bindings }
    };
    let done = store
        .transact(vec![statement("large", bytes), statement("small", 10)], Vec::new(), Default::default(), None)
        .await;
    if let Err(error) = &done {
        eprintln!("{id}: {error}");
    }
    done.is_ok()
}

/// A page at a time: what a statement reads is bounded. By START: of a range SurrealDB reads all rows, whatever LIMIT says.
async fn ids(store: &SurrealStore, table: &str) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = BTreeSet::new();
    loop {
        let query = format!("SELECT VALUE record::id(id) FROM {table} LIMIT {IDS_A_PAGE} START {}", all.len());
        let done = store
            .transact(vec![Statement { query, bindings: serde_json::Map::new() }], Vec::new(), Default::default(), None)
            .await;
        let page: Vec<String> = serde_json::from_value(done.unwrap().results[0].clone()).unwrap();
        let last = page.len() < IDS_A_PAGE;
        all.extend(page);
        if last {
            return all;
        }
    }
}

/// Commits what the clients have to, writes down whose commits were acknowledged, and answers what to end with.
async fn work(root: &Path, close: bool) -> i32 {
    let acknowledged = fs::OpenOptions::new().create(true).append(true).open(root.join("acknowledged"));
    let Ok(acknowledged) = acknowledged else { return REFUSED };
    let acknowledged = Arc::new(Mutex::new(acknowledged));
    let store = match open(&root.join("data")).await {
        Ok(store) => store,
        Err(error) => {
            eprintln!("{error}");
            return REFUSED;
        }
    };
    let clients = (0..CLIENTS).map(|client| {
        let (store, acknowledged) = (store.clone(), Arc::clone(&acknowledged));
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                let id = format!("{client}-{round:02}");
                if commit(&store, &id, if round % 2 == 0 { LARGE } else { 100 }).await {
                    writeln!(acknowledged.lock().unwrap(), "{id}").unwrap();
                }
            }
            // Whatever has failed: it goes on.
            for number in 0..1_000 {
                let id = format!("{client}-last-{number:03}");
                if commit(&store, &id, 100).await {
                    writeln!(acknowledged.lock().unwrap(), "{id}").unwrap();
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            false
        })
    });
    let all = tokio::time::timeout(PATIENCE, futures::future::try_join_all(clients)).await;
    if close {
        store.close().await.unwrap();
    }
    if matches!(all, Ok(Ok(went_on)) if went_on.iter().all(|one| *one)) { 0 } else { STUCK }
}

/// By itself a test; run by the others, as a program of its own, it is what they watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_well_keeps_everything() {
    if let Some(root) = std::env::var_os(ROOT) {
        std::process::exit(work(Path::new(&root), false).await);
    }
    let root = tempfile::tempdir().unwrap();
    assert_eq!(work(root.path(), true).await, 0);
    let acknowledged = fs::read_to_string(root.path().join("acknowledged")).unwrap();
    assert!(acknowledged.lines().count() >= CLIENTS * ROUNDS, "{acknowledged}");
    judge(&root.path().join("data"), &acknowledged).await.unwrap();
}

/// The library, compiled once.
fn shim() -> &'static Path {
    static SHIM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = SHIM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("shim.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disk/shim.c");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).args(["-ldl", "-lpthread"]);
        assert!(cc.status().expect("this test needs a C compiler, as linking does").success());
        (folder, library)
    });
    path
}

/// What a workload ended with, and what it said.
struct Ended {
    status: Option<i32>,
    said: String,
}

fn run(root: &Path, variables: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "a_disk_that_is_well_keeps_everything", "--nocapture"])
        .env("LD_PRELOAD", shim())
        .env(ROOT, root);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    Ended { status: output.status.code(), said: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// How many calls there are without a fault.
fn counts() -> BTreeMap<String, usize> {
    let root = tempfile::tempdir().unwrap();
    let at = tempfile::NamedTempFile::new().unwrap();
    let ended = run(root.path(), &[("DISK_COUNTS", at.path().to_str().unwrap())]);
    assert_eq!(ended.status, Some(0), "{}", ended.said);
    let text = fs::read_to_string(at.path()).unwrap();
    let counts = text.lines().map(|line| line.split_once(' ').unwrap());
    counts.map(|(call, count)| (call.to_owned(), count.parse().unwrap())).collect()
}

/// What is wrong with a store after all, where so much was acknowledged.
async fn judge(dir: &Path, acknowledged: &str) -> Result<(), String> {
    let store = open(dir).await.map_err(|error| format!("it isn't opened any more: {error}"))?;
    if !commit(&store, "after", 100).await {
        return Err("it takes nothing more".into());
    }
    let (large, small) = (ids(&store, "large").await, ids(&store, "small").await);
    let missing: Vec<&str> = acknowledged.lines().filter(|id| !small.contains(*id)).collect();
    let problem = if !missing.is_empty() {
        Err(format!("acknowledged and missing: {missing:?}"))
    } else if large != small {
        Err(format!("half a transaction: {:?}", large.symmetric_difference(&small).collect::<Vec<_>>()))
    } else {
        Ok(())
    };
    store.close().await.map_err(|error| format!("it can't be closed: {error}"))?;
    problem
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_commit_is_missing_after_a_call_that_failed() {
    let counts = counts();
    // Numbers of ENOSPC, EIO and EMFILE.
    let kinds = [
        ("open", 5),
        ("write", 28),
        ("sync", 5),
        ("rename", 5),
        ("open", 24),
        ("write", 5),
        ("sync", 28),
        ("open", 28),
        ("rename", 28),
        ("unlink", 5),
    ];
    let mut draw = Draw(number(SEED, 1) as u64);
    let mut problems = Vec::new();
    for fault in 0..number(FAULTS, FAULTS_DEFAULT) {
        let (call, error) = kinds[fault % kinds.len()];
        // Once, or until somebody has tried again.
        let (first, times) = (1 + draw.upto(counts[call] - 1), [1, 3][draw.upto(1)]);
        let injected = format!("{call}:{first}:{times}:{error}");
        let root = tempfile::tempdir().unwrap();
        let ended = run(root.path(), &[("DISK_FAULT", &injected)]);
        let acknowledged = fs::read_to_string(root.path().join("acknowledged")).unwrap_or_default();
        let judged = match ended.status {
            Some(0 | REFUSED) => judge(&root.path().join("data"), &acknowledged).await,
            status => Err(format!("the workload ended with {status:?}")),
        };
        if let Err(problem) = judged {
            problems.push(format!("{injected}: {problem}\n{}", ended.said));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Loses the power at so many points of a run.
async fn lose_power(fault: Option<String>, images: usize, draw: &mut Draw) {
    let (root, at) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let root = root.path().canonicalize().unwrap();
    let mut variables = vec![("DISK_TRACE", at.path().to_str().unwrap())];
    if let Some(fault) = &fault {
        variables.push(("DISK_FAULT", fault.as_str()));
    }
    let ended = run(&root, &variables);
    assert_eq!(ended.status, Some(0), "{fault:?}: {}", ended.said);
    let entries = trace::read(at.path());
    // Just before a sync has come back, when most is unsure, and just after somebody was told.
    let points: Vec<usize> =
        (0..entries.len()).filter(|place| matches!(entries[*place].kind, b'F' | b'f' | b'A')).collect();
    let (mut disk, mut happened, mut problems) = (Disk::new(&root), 0, Vec::new());
    for image in 0..images {
        let point = points[(image * points.len() + draw.upto(points.len() - 1)) / images];
        let until = point + usize::from(entries[point].kind == b'A');
        entries[happened..until.max(happened)].iter().for_each(|entry| disk.happen(entry));
        happened = until.max(happened);
        let after = tempfile::tempdir().unwrap();
        let sure_only = image % 4 == 0;
        disk.lose_power(&root, after.path(), (!sure_only).then_some(&mut *draw));
        if let Err(problem) = judge(&after.path().join("data"), &disk.acknowledged).await {
            problems.push(format!("power lost at {happened} of {}, {image}: {problem}", entries.len()));
        }
    }
    assert!(disk.acknowledged.lines().count() >= CLIENTS * ROUNDS / 2, "little was acknowledged: {}", ended.said);
    assert!(problems.is_empty(), "{fault:?}:\n{}\n{}", problems.join("\n"), ended.said);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_commit_is_missing_after_a_power_loss() {
    let mut draw = Draw(number(SEED, 1) as u64);
    lose_power(None, number(IMAGES, IMAGES_DEFAULT), &mut draw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_commit_is_missing_after_a_sync_that_failed_and_a_power_loss() {
    let syncs = counts()["sync"];
    let mut draw = Draw(number(SEED, 2) as u64);
    let images = number(IMAGES, IMAGES_DEFAULT) / 2;
    // Not one of those at the beginning: then nothing was committed, and a host that isn't opened tells so.
    for _ in 0..2 {
        let first = syncs / 2 + draw.upto(syncs / 2 - 1);
        lose_power(Some(format!("sync:{first}:1:5")), images / 2, &mut draw).await;
    }
}
