//! What a state folder keeps, and what it doesn't take.
#![allow(clippy::unwrap_used)]

use waybill_core::time::UnixMillis;

use super::StateFolder;
use crate::slot::{BAD_MAX, BadDigest, SlotMemory as _, Why};

fn bad(name: &str) -> BadDigest {
    BadDigest { digest: format!("sha256:{name}"), why: Why::new("PLUGIN.TRAPPED", "it trapped"), at: UnixMillis(7) }
}

#[test]
fn bad_digests_survive_and_are_forgiven() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFolder::open(folder.path().join("state")).unwrap();
    state.now_bad("orders", &bad("a"));
    state.now_bad("orders", &bad("b"));
    state.now_bad("orders", &bad("a"));
    let again = StateFolder::open(folder.path().join("state")).unwrap();
    assert_eq!(again.bad("orders"), [bad("b"), bad("a")]);
    assert_eq!(again.find_bad("orders", "sha256:b"), Some(bad("b")));
    assert_eq!(again.find_bad("other", "sha256:b"), None);
    again.bad_no_more("orders", "sha256:b");
    let again = StateFolder::open(folder.path().join("state")).unwrap();
    assert_eq!(again.bad("orders"), [bad("a")]);
}

#[test]
fn they_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateFolder::open(folder.path().to_owned()).unwrap();
    (0..BAD_MAX + 9).for_each(|number| state.now_bad("orders", &bad(&number.to_string())));
    assert_eq!(StateFolder::open(folder.path().to_owned()).unwrap().bad("orders").len(), BAD_MAX);
}

#[test]
fn a_damaged_file_counts_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("orders.json"), b"{ half").unwrap();
    let state = StateFolder::open(folder.path().to_owned()).unwrap();
    assert!(state.bad("orders").is_empty() && state.read_good("orders", &[]).is_none());
}
