//! Crashes at the bad moments of the embedded database: in the middle of a write to the log, and after its write buffer was
//! full. What was acknowledged stays.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{Statement, TransactStore};
use waybill_store::{BusinessError, OpenError, StoreConfig, SurrealStore};

use super::image::{LOG, crash_image};

/// There while every commit succeeded.
const MARK: &str = "waybill.log-trusted";
/// The log's block size: a record over several blocks is written in several pieces.
const BLOCK: usize = 32 * 1024;

/// The smallest write buffer that may be configured.
const BUFFER: u64 = 8 * 1024 * 1024;
/// Rows that fill it soon.
const ROW: usize = 40_000;
/// Rows whose ids are read at once: 4 MB of the large ones.
const IDS_A_PAGE: usize = 100;
/// Who waits for so long waits for ever, also on a slow disk.
const PATIENCE: Duration = Duration::from_secs(120);

/// With the smallest write buffer.
fn small(dir: &Path) -> StoreConfig {
    StoreConfig { memtable_bytes: BUFFER, ..StoreConfig::new(format!("surrealkv://{}", dir.display())) }
}

async fn open(dir: &Path) -> Result<SurrealStore, OpenError> {
    SurrealStore::open(StoreConfig::new(format!("surrealkv://{}", dir.display()))).await
}

async fn write(store: &SurrealStore, id: &str, bytes: usize) {
    let row = json!({ "id": id, "text": "x".repeat(bytes) });
    let bindings = json!({ "row": row }).as_object().cloned().unwrap();
    let statement = Statement { query: "CREATE item CONTENT $row".into(), bindings };
    transact(store, statement).await;
}

/// Until it is in: on a busy machine it may be open for so long that it has to give way.
async fn transact(store: &SurrealStore, statement: Statement) {
    while let Err(error) = store.transact(vec![statement.clone()], Vec::new(), Default::default(), None).await {
        assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    }
}

async fn ids(store: &SurrealStore) -> Vec<String> {
    ids_by(store, IDS_A_PAGE).await
}

/// A page at a time: what a statement reads is bounded. By START: of a range SurrealDB reads all rows, whatever LIMIT says.
async fn ids_by(store: &SurrealStore, page_rows: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let query = format!("SELECT VALUE record::id(id) FROM item LIMIT {page_rows} START {}", all.len());
        let statement = Statement { query, bindings: serde_json::Map::new() };
        let done = store.transact(vec![statement], Vec::new(), Default::default(), None).await.unwrap();
        let page: Vec<String> = serde_json::from_value(done.results[0].clone()).unwrap();
        let last = page.len() < page_rows;
        all.extend(page);
        if last {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_torn_by_a_crash_takes_nothing_acknowledged_with_it() {
    let root = tempfile::tempdir().unwrap();
    let dir = |name: &str| root.path().join(name);
    let store = open(&dir("living")).await.unwrap();
    write(&store, "before", 100).await;
    let whole = usize::try_from(fs::metadata(dir("living").join(LOG)).unwrap().len()).unwrap();
    // The commit that the crash tears: its record spans several blocks.
    write(&store, "torn", 3 * BLOCK).await;
    crash_image(&dir("living"), &dir("after"));
    let log = fs::read(dir("after").join(LOG)).unwrap();
    drop(store);
    assert!(log.len() > whole + 3 * BLOCK, "the record went elsewhere: {} bytes of log", log.len());

    let boundary = whole.next_multiple_of(BLOCK);
    for cut in [whole + 3, whole + 50, boundary - 4, boundary, boundary + 3, boundary + BLOCK, log.len() - 1] {
        let torn = dir(&format!("torn-{cut}"));
        crash_image(&dir("after"), &torn);
        fs::write(torn.join(LOG), &log[..cut]).unwrap();

        let store = open(&torn).await.unwrap();
        assert_eq!(ids(&store).await, ["before"], "cut at {cut}");
        write(&store, "later", 100).await;
        write(&store, "later-and-long", 2 * BLOCK).await;
        let second = dir(&format!("second-{cut}"));
        crash_image(&torn, &second);
        drop(store);

        let store = open(&second).await.unwrap();
        assert_eq!(ids(&store).await, ["before", "later", "later-and-long"], "cut at {cut}, after the next crash");
    }
}

/// A sync that failed may have left pages of the log that no later one writes: what lay behind them would go with the power.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_appended_to_a_log_in_which_a_commit_failed() {
    let root = tempfile::tempdir().unwrap();
    let dir = |name: &str| root.path().join(name);
    let store = open(&dir("living")).await.unwrap();
    write(&store, "before", 100).await;
    crash_image(&dir("living"), &dir("trusted"));
    crash_image(&dir("living"), &dir("doubted"));
    drop(store);
    fs::remove_file(dir("doubted").join(MARK)).unwrap();

    for (name, appended) in [("trusted", true), ("doubted", false)] {
        let left = fs::read(dir(name).join(LOG)).unwrap();
        let store = open(&dir(name)).await.unwrap();
        write(&store, "later", 100).await;
        assert_eq!(ids(&store).await, ["before", "later"], "{name}");
        let log = fs::read(dir(name).join(LOG)).unwrap_or_default();
        assert_eq!(log.len() > left.len() && log.starts_with(&left), appended, "{name}");
        assert!(dir(name).join(MARK).exists(), "{name}");
        drop(store);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_damaged_in_the_middle_is_refused_with_its_name_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let (living, damaged) = (root.path().join("living"), root.path().join("damaged"));
    let store = open(&living).await.unwrap();
    write(&store, "a", 100).await;
    write(&store, "b", 100).await;
    crash_image(&living, &damaged);
    drop(store);
    let mut log = fs::read(damaged.join(LOG)).unwrap();
    let middle = log.len() / 2;
    log[middle] ^= 0x40;
    fs::write(damaged.join(LOG), &log).unwrap();

    let error = open(&damaged).await.err().unwrap();
    assert_eq!(error.code().as_str(), "STORAGE.CORRUPT");
    assert!(error.to_string().contains("00000000000000000000.wal"), "{error}");
    assert_eq!(fs::read(damaged.join(LOG)).unwrap(), log);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_table_is_refused_and_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path()).await.unwrap();
    write(&store, "a", 100).await;
    store.close().await.unwrap();
    let table = fs::read_dir(root.path().join("sstables")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&table).unwrap();
    bytes[100..107].fill(b'X');
    fs::write(&table, bytes).unwrap();

    let error = open(root.path()).await.err().unwrap();
    assert_eq!(error.code().as_str(), "STORAGE.CORRUPT");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commit_that_fills_the_write_buffer_survives_a_crash() {
    let root = tempfile::tempdir().unwrap();
    let (living, image) = (root.path().join("living"), root.path().join("image"));
    let store = SurrealStore::open(small(&living)).await.unwrap();
    let mut written = Vec::new();
    // Twice as much as the buffer holds, so that it was full at least once; a crash after every commit from there on.
    while (written.len() * ROW) as u64 <= 2 * BUFFER {
        let id = format!("{:04}", written.len());
        write(&store, &id, ROW).await;
        written.push(id);
        if (written.len() * ROW) as u64 > BUFFER - BUFFER / 8 && written.len() % 8 == 0 {
            let image = root.path().join(format!("image-{}", written.len()));
            crash_image(&living, &image);
            let after = SurrealStore::open(small(&image)).await.unwrap();
            assert_eq!(ids(&after).await, written);
        }
    }
    crash_image(&living, &image);
    drop(store);
    let store = SurrealStore::open(small(&image)).await.unwrap();
    assert_eq!(ids(&store).await, written);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_who_go_away_while_the_write_buffer_is_full_take_nothing_with_them() {
    let root = tempfile::tempdir().unwrap();
    let (living, image) = (root.path().join("living"), root.path().join("image"));
    let store = SurrealStore::open(small(&living)).await.unwrap();
    let mut acknowledged = Vec::new();
    let micros = Duration::from_micros;
    for number in 0..600_u64 {
        let id = format!("{number:04}");
        // Some wait for the end, some go away at the beginning, some in the middle.
        let patience = [PATIENCE, micros(20), micros(200), micros(900)][(number % 4) as usize];
        let write = write(&store, &id, ROW);
        if tokio::time::timeout(patience, write).await.is_ok() {
            acknowledged.push(id);
        }
    }
    let all = tokio::time::timeout(PATIENCE, ids(&store)).await.expect("the store still answers");
    assert!(acknowledged.len() >= 150 && acknowledged.iter().all(|id| all.contains(id)));
    crash_image(&living, &image);
    let after = SurrealStore::open(small(&image)).await.unwrap();
    let after = ids(&after).await;
    assert!(all.iter().all(|id| after.contains(id)), "what was read before a crash is there after it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_left_open_gives_way_when_the_write_buffer_is_full() {
    let root = tempfile::tempdir().unwrap();
    let store = SurrealStore::open(small(root.path())).await.unwrap();
    let mut long = store.begin_business().await.unwrap();
    let long = tokio::spawn(async move {
        loop {
            let nothing = Statement { query: "RETURN 1".into(), bindings: serde_json::Map::new() };
            if let Err(error) = long.run(&nothing).await {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let fill = async {
        for number in 0..300 {
            write(&store, &format!("{number:04}"), ROW).await;
        }
    };
    // The long one never ends by itself.
    tokio::time::timeout(PATIENCE, fill).await.expect("nobody waits for the long one");
    let gave_way = long.await.unwrap();
    assert!(matches!(gave_way, BusinessError::Store(StoreError::Conflict(_))), "{gave_way:?}");
}

/// Segments of the log, and nothing else of its folder.
fn segments(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("wal")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.ends_with(".wal")).collect()
}

async fn insert(store: &SurrealStore, first: usize, count: usize) {
    let rows: Vec<_> = (first..first + count).map(|number| json!({ "id": format!("{number:06}") })).collect();
    let bindings = json!({ "rows": rows }).as_object().cloned().unwrap();
    let statement = Statement { query: "INSERT INTO item $rows RETURN NONE".into(), bindings };
    transact(store, statement).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_commit_rotates_the_log_however_small_its_entries_are() {
    let root = tempfile::tempdir().unwrap();
    let (living, image) = (root.path().join("living"), root.path().join("image"));
    let store = SurrealStore::open(small(&living)).await.unwrap();
    let begun = segments(&living);
    assert_eq!(begun.len(), 1);
    let (done, mut stop) = tokio::sync::oneshot::channel();
    let watched = living.clone();
    let watch = tokio::task::spawn_blocking(move || {
        let mut most = 0;
        while stop.try_recv().is_err() {
            most = most.max(segments(&watched).len());
            std::thread::sleep(Duration::from_millis(1));
        }
        most
    });
    // Entries of which a buffer of this size holds some 40,000, from two clients at once: enough to fill it once, in few commits.
    const ROUNDS: usize = 20;
    const ROWS: usize = 2_000;
    let clients = (0..2_usize).map(|client| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                insert(&store, (client * ROUNDS + round) * ROWS, ROWS).await;
            }
        })
    });
    futures::future::try_join_all(clients).await.unwrap();
    done.send(()).unwrap();
    assert_eq!(watch.await.unwrap(), 1, "segments at once");
    assert_ne!(segments(&living), begun, "the buffer was never full: this test shows nothing");
    crash_image(&living, &image);
    assert_eq!(ids_by(&SurrealStore::open(small(&image)).await.unwrap(), ROWS).await.len(), 2 * ROUNDS * ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_too_large_is_refused_and_stops_nobody() {
    let root = tempfile::tempdir().unwrap();
    let store = SurrealStore::open(small(root.path())).await.unwrap();
    insert(&store, 0, 100).await;
    let begun = segments(root.path());
    // A small text, and more than the buffer once it is in every row.
    let bindings = json!({ "text": "x".repeat(100_000) }).as_object().cloned().unwrap();
    let update = Statement { query: "UPDATE item SET text = $text RETURN NONE".into(), bindings };
    let error = store.transact(vec![update], Vec::new(), Default::default(), None).await.unwrap_err();
    assert_eq!(error.code().as_str(), "STORAGE.TOO_LARGE", "{error}");
    write(&store, "after", 100).await;
    assert_eq!(ids(&store).await.len(), 101);
    assert_eq!(segments(root.path()), begun, "nothing was opened again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_beside_which_the_log_was_rotated_is_told_as_unknown() {
    let root = tempfile::tempdir().unwrap();
    let store = SurrealStore::open(small(root.path())).await.unwrap();
    write(&store, "before", 100).await;
    // As if SurrealKV had begun another segment, which it never does here.
    fs::write(root.path().join("wal/00000000000000000001.wal"), "").unwrap();
    let row = json!({ "row": { "id": "beside" } }).as_object().cloned().unwrap();
    let create = Statement { query: "CREATE item CONTENT $row".into(), bindings: row };
    let told = store.transact(vec![create], Vec::new(), Default::default(), None).await.unwrap_err();
    assert!(matches!(&told, StoreError::Unavailable(text) if text.contains("rotated")), "{told:?}");
    // It goes on by itself, as soon as the database is open again.
    let again = async {
        let look = Statement { query: "RETURN 1".into(), bindings: serde_json::Map::new() };
        while store.transact(vec![look.clone()], Vec::new(), Default::default(), None).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("the store is open again");
    write(&store, "after", 100).await;
    let found = ids(&store).await;
    assert!(found.contains(&"before".to_owned()) && found.contains(&"after".to_owned()), "{found:?}");
}
