//! `saga.definitions`: what is stored of a folder.

use waybill_cli::saga_definitions::{NotDefined, define_all};
use waybill_core::saga::error::SagaError;

use crate::host::TestHost;

const ORDER: &str = r#"name = "order"
version = 1
[[steps]]
name = "pay"
action = "saga:payment"
"#;

#[test]
fn a_folders_files_are_stored_and_a_bad_one_stops_no_other() {
    let host = TestHost::empty();
    let dir = tempfile::tempdir().unwrap();
    let long = "#".repeat(300 * 1024);
    let payment = r#"{"name": "payment", "version": 1, "steps": [{"name": "charge", "action": "fn:orders/charge"}]}"#;
    for (name, text) in [
        // It needs the sub-saga that comes behind it.
        ("a-order.toml", ORDER),
        ("b-bad.json", r#"{"name": "bad", "version": 1, "steps": [{"name": "a", "action": "htp://x"}]}"#),
        ("c-long.toml", long.as_str()),
        ("d-payment.json", payment),
        ("notes.md", "not one of them"),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let results = host.ask(async |host| define_all(&*host.sagas, dir.path()).await);
    let told: Vec<(String, bool)> = results
        .iter()
        .map(|one| (one.file.file_name().unwrap().to_string_lossy().into_owned(), one.result.is_ok()))
        .collect();
    let expected = [("a-order.toml", true), ("b-bad.json", false), ("c-long.toml", false), ("d-payment.json", true)];
    assert_eq!(told, expected.map(|(name, ok)| (name.to_owned(), ok)));
    assert!(matches!(&results[1].result, Err(NotDefined::Refused(SagaError::Definition(_)))));
    assert!(matches!(&results[2].result, Err(NotDefined::TooLarge { .. })));
    assert_eq!(host.acts(), ["SagaDefined payment", "SagaDefined order"]);
    let gone = host.ask(async |host| define_all(&*host.sagas, &dir.path().join("gone")).await);
    assert!(matches!(gone.as_slice(), [one] if matches!(one.result, Err(NotDefined::Io(_)))));
}
