//! What happened at a host: its changes, its last hour, and why an act was done.

use waybill_cli::exit::Exit;

use crate::host::TestHost;
use crate::support::{Command, waybill};

fn ask(host: &TestHost, arguments: &[&str]) -> Command {
    waybill(arguments).arg("--url").arg(&host.url)
}

#[test]
fn what_changed_and_how_the_last_hour_was_is_shown() {
    let host = TestHost::empty();
    ask(&host, &["transport", "pause", "http", "--reason", "the shop is moved"]).run();
    let changes = ask(&host, &["changes"]).run();
    for shown in ["2026-11-21T09:00:00Z", "transport_paused", "http", "local", "the shop is moved"] {
        assert!(changes.out.contains(shown), "{shown} isn't in\n{}", changes.out);
    }
    assert!(changes.err.contains("all that changed since 2026-11-21T09:00:00Z is known"), "{}", changes.err);
    let whole = ask(&host, &["changes", "-o", "json", "--since", "2026-11-21"]).run();
    assert!(whole.out.contains(r#""kind":"transport_paused""#) && whole.out.contains(r#""since":"#), "{}", whole.out);
    let history = ask(&host, &["history", "delivered"]).run();
    assert!(history.out.contains("delivered") && history.out.contains("LAST HOUR"), "{}", history.out);
    assert_eq!(ask(&host, &["history", "-o", "ids"]).run().out.lines().next(), Some("enqueued"));
    assert_eq!(ask(&host, &["history", "deliverd"]).run().exit, Exit::Usage);
}

#[test]
fn why_a_dead_letter_was_edited_is_in_the_audit() {
    let host = TestHost::shop();
    let edit = ["dead", "edit", "d-1", "--payload", "{\"order\": 18}", "--reason", "it was 18"];
    assert_eq!(ask(&host, &edit).run().exit, Exit::Done);
    let acts = host.acts();
    assert!(acts.contains(&"TxReplayRequested default/d-1 it was 18".to_owned()), "{acts:?}");
}

#[test]
fn a_file_is_the_payload_of_an_edited_copy_as_it_is() {
    let host = TestHost::shop();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("logo");
    std::fs::write(&file, b"\xff\xfe").unwrap();
    let edit = ["dead", "edit", "d-1", "--raw", "--file", file.to_str().unwrap(), "-o", "ids"];
    let edited = ask(&host, &edit).run();
    assert_eq!(edited.exit, Exit::Done, "{}", edited.err);
    let copy = ask(&host, &["outbox", "show", edited.out.trim(), "-o", "json"]).run();
    assert!(copy.out.contains(r#""payload_base64":"//4=""#), "{}", copy.out);
    assert_eq!(ask(&host, &["dead", "edit", "d-1", "--raw"]).run().exit, Exit::Usage);
}
