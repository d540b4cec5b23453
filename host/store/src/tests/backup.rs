//! Backups of a store on disk, and folders made of them.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use waybill_core::port::backup::{BackupError, BackupPieces, BackupStore, HeldFile};
use waybill_core::port::kv::{KvExpectation, KvQuota, KvStore};

use super::{memory, patient};
use crate::{Durability, RestoreError, Restored, SurrealStore, held_files, restore};

const QUOTA: KvQuota = KvQuota { entries_max: 10_000, value_bytes_max: 1 << 20, total_bytes_max: 1 << 30 };

async fn open(dir: &Path) -> SurrealStore {
    SurrealStore::open(patient(format!("surrealkv://{}", dir.display()))).await.unwrap()
}

async fn put(store: &SurrealStore, key: &str) {
    store.put("s", key, Bytes::from_static(b"value"), KvExpectation::Anything, QUOTA).await.unwrap();
}

async fn keys(store: &SurrealStore) -> Vec<String> {
    store.keys("s", "", None, 10_000).await.unwrap()
}

async fn taken(mut pieces: Box<dyn BackupPieces>) -> Vec<u8> {
    let mut backup = Vec::new();
    while let Some(piece) = pieces.next().await {
        backup.extend_from_slice(&piece.unwrap());
    }
    backup
}

async fn back_up(store: &SurrealStore, earlier: Vec<HeldFile>) -> Vec<u8> {
    taken(store.back_up(earlier, "ann").await.unwrap()).await
}

/// Restores into a folder below this one.
fn restored(backup: &[u8], earlier: &[&[u8]], dir: &Path) -> Result<Restored, RestoreError> {
    let earlier = earlier.iter().map(|backup| Box::new(std::io::Cursor::new(backup.to_vec())) as Box<dyn Read>);
    restore(backup, earlier.collect(), dir, true)
}

#[tokio::test]
async fn a_backup_has_what_was_committed_before_it_and_the_store_goes_on() {
    let top = tempfile::tempdir().unwrap();
    let (from, to) = (top.path().join("from"), top.path().join("to"));
    let store = open(&from).await;
    put(&store, "before").await;
    let incarnation = store.incarnation().await.unwrap();
    let pieces = store.back_up(Vec::new(), "ann").await.unwrap();
    // While nobody has taken any of it.
    put(&store, "after").await;
    assert!(matches!(store.back_up(Vec::new(), "ann").await, Err(BackupError::Busy)));
    let backup = taken(pieces).await;
    assert_eq!(keys(&store).await, ["after", "before"]);

    restored(&backup, &[], &to).unwrap();
    let copy = open(&to).await;
    assert_eq!(keys(&copy).await, ["before"]);
    put(&copy, "again").await;
    let new = copy.incarnation().await.unwrap();
    assert_ne!(new, incarnation);
    copy.close().await.unwrap();
    drop(copy);
    let copy = open(&to).await;
    assert_eq!((keys(&copy).await, copy.incarnation().await.unwrap()), (vec!["again".into(), "before".into()], new));
    copy.close().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_beside_a_writer_has_all_that_was_acknowledged_and_no_gap() {
    let top = tempfile::tempdir().unwrap();
    let store = open(&top.path().join("from")).await;
    let (acknowledged, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = tokio::spawn({
        let (store, acknowledged, ends) = (store.clone(), Arc::clone(&acknowledged), Arc::clone(&ends));
        async move {
            for number in 0..5_000 {
                put(&store, &format!("{number:06}")).await;
                acknowledged.store(number + 1, Ordering::SeqCst);
                if ends.load(Ordering::SeqCst) {
                    break;
                }
            }
        }
    });
    for round in 0..3 {
        let before = acknowledged.load(Ordering::SeqCst);
        let backup = back_up(&store, Vec::new()).await;
        let to = top.path().join(format!("to-{round}"));
        restored(&backup, &[], &to).unwrap();
        let copy = open(&to).await;
        let found = keys(&copy).await;
        let in_order: Vec<String> = (0..found.len()).map(|number| format!("{number:06}")).collect();
        assert_eq!(found, in_order, "round {round}");
        assert!(found.len() >= before, "round {round}: {} of {before}", found.len());
        copy.close().await.unwrap();
    }
    ends.store(true, Ordering::SeqCst);
    writer.await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_backup_leaves_out_what_an_earlier_one_has_and_is_restored_with_it() {
    let top = tempfile::tempdir().unwrap();
    let store = open(&top.path().join("from")).await;
    put(&store, "first").await;
    let first = back_up(&store, Vec::new()).await;
    let known = held_files(&first[..]).unwrap();
    put(&store, "second").await;
    let second = back_up(&store, known.clone()).await;
    store.close().await.unwrap();

    let missing = restored(&second, &[], &top.path().join("alone")).unwrap_err();
    assert!(matches!(missing, RestoreError::Missing { .. }), "{missing}");
    let to = top.path().join("to");
    let done = restored(&second, &[&first[..]], &to).unwrap();
    assert_eq!(done.files, held_files(&second[..]).unwrap().len() as u64);
    let copy = open(&to).await;
    assert_eq!(keys(&copy).await, ["first", "second"]);
    copy.close().await.unwrap();
}

#[tokio::test]
async fn nothing_is_written_over_and_half_a_folder_is_never_opened() {
    let top = tempfile::tempdir().unwrap();
    let from = top.path().join("from");
    let store = open(&from).await;
    put(&store, "a").await;
    let backup = back_up(&store, Vec::new()).await;
    store.close().await.unwrap();
    assert!(matches!(restored(&backup, &[], &from), Err(RestoreError::Used { .. })));

    let to = top.path().join("to");
    for length in [0, 16, backup.len() / 2, backup.len() - 1] {
        let cut = restored(&backup[..length], &[], &to).unwrap_err();
        assert!(matches!(cut, RestoreError::Unreadable { number: 1, .. }), "{length}: {cut}");
        let refused = SurrealStore::open(patient(format!("surrealkv://{}", to.display()))).await.unwrap_err();
        assert_eq!(refused.code().as_str(), "STORAGE.DIRECTORY");
    }
    restored(&backup, &[], &to).unwrap();
    assert!(matches!(restored(&backup, &[], &to), Err(RestoreError::Used { .. })));
    let copy = open(&to).await;
    assert_eq!(keys(&copy).await, ["a"]);
    copy.close().await.unwrap();
}

#[tokio::test]
async fn links_go_with_their_backup_and_with_the_next_start() {
    let top = tempfile::tempdir().unwrap();
    let links = top.path().join("waybill.snapshots");
    let store = open(top.path()).await;
    put(&store, "a").await;
    let pieces = store.back_up(Vec::new(), "ann").await.unwrap();
    assert!(links.exists());
    taken(pieces).await;
    // The channel is closed before the links go.
    drop(Arc::clone(store.backing_up()).lock_owned().await);
    assert!(!links.exists());
    store.close().await.unwrap();
    drop(store);
    std::fs::create_dir_all(links.join("sstables")).unwrap();
    let store = open(top.path()).await;
    assert!(!links.exists());
    assert_eq!(keys(&store).await, ["a"]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_not_on_disk_says_where_its_data_is() {
    let memory = memory().await;
    // As it is behind `ws://`, but for the server.
    let server = SurrealStore::over(Arc::clone(&memory.engine), false, Durability::Server, 1, None, 1 << 20);
    for (store, words) in [(memory, "memory"), (server, "surreal export")] {
        let Err(refused) = store.back_up(Vec::new(), "ann").await else { panic!("it has no files") };
        assert_eq!(refused.code().as_str(), "STORAGE.BACKUP_ELSEWHERE");
        assert!(refused.to_string().contains(words) && !refused.retryable(), "{refused}");
    }
}
