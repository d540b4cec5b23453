//! What a state folder keeps, and what it doesn't take.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use waybill_core::time::UnixMillis;

use super::StateFolder;
use crate::seal::Seal;
use crate::slot::{BAD_MAX, BadDigest, SlotMemory as _, Why};

fn open(folder: &Path) -> StateFolder {
    let seal = Seal::open(&folder.join("seal.key")).unwrap();
    seal.keep().unwrap();
    StateFolder::open(folder, Arc::new(seal)).unwrap()
}

fn bad(name: &str) -> BadDigest {
    BadDigest { digest: format!("sha256:{name}"), why: Why::new("PLUGIN.TRAPPED", "it trapped"), at: UnixMillis(7) }
}

#[test]
fn bad_digests_survive_and_are_forgiven() {
    let folder = tempfile::tempdir().unwrap();
    let state = open(&folder.path().join("state"));
    state.now_bad("orders", &bad("a"));
    state.now_bad("orders", &bad("b"));
    state.now_bad("orders", &bad("a"));
    let again = open(&folder.path().join("state"));
    assert_eq!(again.bad("orders"), [bad("b"), bad("a")]);
    assert_eq!(again.find_bad("orders", "sha256:b"), Some(bad("b")));
    assert_eq!(again.find_bad("other", "sha256:b"), None);
    again.bad_no_more("orders", "sha256:b");
    let again = open(&folder.path().join("state"));
    assert_eq!(again.bad("orders"), [bad("a")]);
}

#[test]
fn they_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let state = open(folder.path());
    (0..BAD_MAX + 9).for_each(|number| state.now_bad("orders", &bad(&number.to_string())));
    assert_eq!(open(folder.path()).bad("orders").len(), BAD_MAX);
}

#[test]
fn a_damaged_file_counts_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("orders.json"), b"{ half").unwrap();
    let state = open(folder.path());
    assert!(state.bad("orders").is_empty() && state.read_good("orders", &[]).is_none());
}

/// Who can write to the folder but not read the key can't make the host forget, or believe, anything else.
#[test]
fn what_another_wrote_counts_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).now_bad("orders", &bad("a"));
    let file = folder.path().join("orders.json");
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, written.replace("sha256:a", "sha256:b")).unwrap();
    assert!(open(folder.path()).bad("orders").is_empty());
    std::fs::write(&file, &written).unwrap();
    assert_eq!(open(folder.path()).bad("orders"), [bad("a")]);
    std::fs::rename(&file, folder.path().join("other.json")).unwrap();
    assert!(open(folder.path()).bad("other").is_empty(), "it is another transport's");
}
