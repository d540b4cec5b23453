//! `saga.definitions`: what is stored of a folder.

use std::sync::{Arc, Mutex};

use waybill_cli::saga_definitions::{NotDefined, define_all};
use waybill_core::saga::error::SagaError;

use crate::fake_host::Recorded;
use crate::fake_sagas::Sagas;

#[test]
fn a_folders_files_are_stored_and_a_bad_one_stops_no_other() {
    let seen = Arc::new(Mutex::new(Recorded::default()));
    let sagas = Sagas(Arc::clone(&seen));
    let dir = tempfile::tempdir().unwrap();
    let long = "#".repeat(300 * 1024);
    for (name, text) in [
        // It needs the sub-saga that comes behind it.
        ("a-order.toml", "needs = \"payment\""),
        ("b-bad.json", "{\"action\": \"htp://x\"}"),
        ("c-long.toml", long.as_str()),
        ("d-payment.json", "{\"name\": \"payment\"}"),
        ("notes.md", "not one of them"),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let results = runtime.block_on(define_all(&sagas, dir.path()));
    let told: Vec<(String, bool)> = results
        .iter()
        .map(|one| (one.file.file_name().unwrap().to_string_lossy().into_owned(), one.result.is_ok()))
        .collect();
    let expected = [("a-order.toml", true), ("b-bad.json", false), ("c-long.toml", false), ("d-payment.json", true)];
    assert_eq!(told, expected.map(|(name, ok)| (name.to_owned(), ok)));
    assert!(matches!(&results[1].result, Err(NotDefined::Refused(SagaError::Definition(_)))));
    assert!(matches!(&results[2].result, Err(NotDefined::TooLarge { .. })));
    assert_eq!(seen.lock().unwrap().acts, ["define Json false 19", "define Toml false 17"]);
    let gone = runtime.block_on(define_all(&sagas, &dir.path().join("gone")));
    assert!(matches!(gone.as_slice(), [one] if matches!(one.result, Err(NotDefined::Io(_)))));
}
