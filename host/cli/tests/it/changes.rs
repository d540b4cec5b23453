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
