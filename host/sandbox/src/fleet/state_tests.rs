//! What a state folder keeps, and what it doesn't take.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use waybill_core::time::UnixMillis;

use super::state::{self, OthersBytes, StateFolder};
use crate::seal::Seal;
use crate::slot::{BAD_MAX, BadDigest, SlotMemory as _, Why};

fn open(folder: &Path) -> StateFolder {
    open_with(folder, folder)
}

/// The folder as the host has it whose key lies in `data`.
fn open_with(folder: &Path, data: &Path) -> StateFolder {
    StateFolder::open(folder, Arc::new(seal(data))).unwrap()
}

fn seal(data: &Path) -> Seal {
    let seal = Seal::open(&data.join("seal.key")).unwrap();
    seal.keep().unwrap();
    seal
}

/// File of what the host with this key remembers of a transport.
fn file(folder: &Path, data: &Path, transport: &str) -> PathBuf {
    folder.join(state::file(transport, &seal(data)))
}

/// File of a component that this host has kept.
fn component(folder: &Path, data: &Path, byte: char) -> PathBuf {
    let digest = format!("sha256:{}", byte.to_string().repeat(64));
    folder.join(state::component(&digest, &seal(data)).unwrap())
}

fn bad(name: &str) -> BadDigest {
    BadDigest { digest: format!("sha256:{name}"), why: Why::new("PLUGIN.TRAPPED", "it trapped"), at: UnixMillis(7) }
}

#[test]
fn bad_digests_survive_and_are_forgiven() {
    let folder = tempfile::tempdir().unwrap();
    let memory = open(&folder.path().join("state"));
    memory.now_bad("orders", &bad("a"));
    memory.now_bad("orders", &bad("b"));
    memory.now_bad("orders", &bad("a"));
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
    let memory = open(folder.path());
    (0..BAD_MAX + 9).for_each(|number| memory.now_bad("orders", &bad(&number.to_string())));
    assert_eq!(open(folder.path()).bad("orders").len(), BAD_MAX);
}

#[test]
fn a_damaged_file_counts_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(file(folder.path(), folder.path(), "orders"), b"{ half").unwrap();
    let memory = open(folder.path());
    assert!(memory.bad("orders").is_empty() && memory.read_good("orders", &[]).is_none());
}

/// Who can write to the folder but not read the key can't make the host forget, or believe, anything else.
#[test]
fn what_another_wrote_counts_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).now_bad("orders", &bad("a"));
    let file = |transport| file(folder.path(), folder.path(), transport);
    let (file, other) = (file("orders"), file("other"));
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, written.replace("sha256:a", "sha256:b")).unwrap();
    assert!(open(folder.path()).bad("orders").is_empty());
    std::fs::write(&file, &written).unwrap();
    assert_eq!(open(folder.path()).bad("orders"), [bad("a")]);
    std::fs::rename(&file, other).unwrap();
    assert!(open(folder.path()).bad("other").is_empty(), "it is another transport's");
}

#[test]
fn hosts_with_data_folders_of_their_own_remember_apart_in_one_folder() {
    let place = tempfile::tempdir().unwrap();
    let [folder, mine, yours] = ["state", "mine", "yours"].map(|name| place.path().join(name));
    open_with(&folder, &mine).now_bad("orders", &bad("a"));
    let kept = component(&folder, &mine, 'a');
    std::fs::write(&kept, b"a component").unwrap();
    let memory = open_with(&folder, &yours);
    assert!(memory.bad("orders").is_empty());
    memory.now_bad("orders", &bad("b"));
    assert!(kept.exists(), "it is for the other host to say which of its components are needed");
    assert_eq!(open_with(&folder, &mine).bad("orders"), [bad("a")]);
    assert_eq!(open_with(&folder, &yours).bad("orders"), [bad("b")]);
    open_with(&folder, &mine).now_bad("orders", &bad("c"));
    assert!(!kept.exists(), "no transport names it");
}

#[test]
fn of_what_other_hosts_left_that_goes_first_which_was_used_longest_ago() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let folder = at("state");
    for host in ["gone", "here", "mine"] {
        open_with(&folder, &at(host)).now_bad("orders", &bad(host));
        std::fs::write(component(&folder, &at(host), 'a'), b"a component").unwrap();
    }
    let long_ago = SystemTime::now() - Duration::from_secs(1_000);
    for entry in std::fs::read_dir(&folder).unwrap() {
        std::fs::File::open(entry.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
    }
    let files = ["gone", "here", "mine"].map(|host| file(&folder, &at(host), "orders"));
    // It starts again, and is therefore needed.
    open_with(&folder, &at("here"));
    let bytes = std::fs::metadata(&files[1]).unwrap().len();
    open_with(&folder, &at("mine")).sweep(OthersBytes { files: bytes, components: 0 }).unwrap();
    assert_eq!(files.map(|file| file.exists()), [false, true, true]);
    assert!(!component(&folder, &at("here"), 'a').exists());
}
