//! Commands against a host with the real HTTP API: results, errors, exit codes, pipes.

use std::time::Duration;

use waybill_cli::exit::Exit;
use waybill_core::annotation::Annotation;

use crate::fake_host::{FakeHost, Mood};
use crate::support::{Command, Done, waybill};

fn ask(host: &FakeHost, arguments: &[&str]) -> Command {
    waybill(arguments).arg("--url").arg(&host.url)
}

/// Snapshot with what differs from run to run taken out.
fn snapshot(name: &str, done: &Done) {
    let filters = vec![
        (r"http://127\.0\.0\.1:\d+", "http://HOST"),
        (r"(?m)^  request [0-9A-Za-z-]+$", "  request ID"),
        (r"--cursor [0-9A-Za-z_-]+", "--cursor CURSOR"),
    ];
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/commands", omit_expression => true, filters => filters }, {
        insta::assert_snapshot!(name, done.all());
    });
}

#[test]
fn what_the_commands_write() {
    let host = FakeHost::start(Mood::default());
    for (name, arguments) in [
        ("status", vec!["status"]),
        ("outbox-list", vec!["outbox", "list", "--limit", "3"]),
        ("outbox-list-jsonl", vec!["outbox", "list", "--limit", "1", "-o", "jsonl"]),
        ("outbox-show", vec!["outbox", "show", "m-1"]),
        ("outbox-show-json", vec!["outbox", "show", "m-1", "-o", "json"]),
        ("outbox-stats", vec!["outbox", "stats"]),
        ("outbox-blocked", vec!["outbox", "blocked"]),
        ("outbox-cancel", vec!["outbox", "cancel", "m-1"]),
        ("dead-list", vec!["dead", "list"]),
        ("dead-list-none", vec!["dead", "list", "--filter", "code=NONE"]),
        ("dead-show", vec!["dead", "show", "d-1"]),
        ("dead-list-sagas", vec!["dead", "list", "--filter", "kind=saga"]),
        ("dead-show-saga", vec!["dead", "show", "order-17"]),
        ("dead-groups", vec!["dead", "groups"]),
        ("dead-groups-early", vec!["dead", "groups", "--filter", "topic=*"]),
        ("dead-replay-dry-run-early", vec!["dead", "replay", "--filter", "topic=*", "--dry-run"]),
        ("dead-replay-dry-run", vec!["dead", "replay", "--filter", "code=HTTP.*", "--dry-run"]),
        ("dead-quarantine", vec!["dead", "quarantine", "d-1", "--note", "broken payload"]),
        ("dead-edit", vec!["dead", "edit", "d-1", "--payload", "{\"order\": 18}"]),
        ("transport-list", vec!["transport", "list"]),
        ("transport-pause", vec!["transport", "pause", "http"]),
        ("transport-provision-dry-run", vec!["transport", "provision", "mixed", "--dry-run"]),
        ("transport-provision", vec!["transport", "provision", "nats", "--yes"]),
        ("transport-provision-nothing", vec!["transport", "provision", "ready"]),
        ("audit-list", vec!["audit", "list"]),
        ("idempotency-list", vec!["idempotency", "list"]),
        ("idempotency-list-ids", vec!["idempotency", "list", "-o", "ids"]),
        ("idempotency-list-none", vec!["idempotency", "list", "--filter", "key=none-*"]),
        ("idempotency-show", vec!["idempotency", "show", "pay-1", "--tenant", "acme"]),
        ("idempotency-show-held", vec!["idempotency", "show", "order-17"]),
        ("idempotency-show-missing", vec!["idempotency", "show", "gone"]),
        ("idempotency-release", vec!["idempotency", "release", "order-17", "--yes", "--reason", "its client is gone"]),
        ("idempotency-release-finished", vec!["idempotency", "release", "mail-2", "--yes"]),
    ] {
        snapshot(name, &ask(&host, &arguments).run());
    }
}

#[test]
fn rows_in_quarantine_are_put_back_and_dropped_by_their_names() {
    let host = FakeHost::start(Mood::default());
    let ids = ask(&host, &["quarantine", "list", "-o", "ids"]).run();
    let restored = ask(&host, &["quarantine", "restore", "-", "--reason", "new"]).input(&ids.out).run();
    assert_eq!(restored.exit, Exit::Partly, "{restored:?}");
    let told = "restored q-3: the host takes it in when it takes the shard over, at the next start at the latest";
    assert!(restored.err.contains(told), "{restored:?}");
    let declined = ask(&host, &["quarantine", "drop", "q-1"]).interactive().input("n\n").run();
    assert_eq!(declined.exit, Exit::Failed);
    let dropped = ask(&host, &["quarantine", "drop", "q-1"]).interactive().input("y\n").run();
    assert_eq!(dropped.exit, Exit::Done, "{dropped:?}");
    assert_eq!(host.acts(), ["restore q-2 [new] local", "restore q-3 [new] local", "drop q-1 [] local"]);
    assert_eq!(ask(&host, &["quarantine", "drop", "gone", "--yes"]).run().exit, Exit::NotFound);
}

#[test]
fn a_table_fits_the_terminal() {
    let host = FakeHost::start(Mood::default());
    for columns in [60, 80, 120] {
        let done = ask(&host, &["dead", "list"]).width(columns).run();
        for line in done.out.lines() {
            assert!(line.chars().count() <= usize::from(columns), "{columns}: {line:?}");
        }
        assert!(done.out.contains("d-1"));
    }
    let piped = ask(&host, &["dead", "list"]).run();
    assert_eq!(piped.out.lines().count(), 4, "one line each in a pipe: {}", piped.out);
}

#[test]
fn errors_are_told_with_code_why_and_fix() {
    let host = FakeHost::start(Mood::default());
    for (name, arguments) in [
        ("error-not-found", vec!["outbox", "show", "gone"]),
        ("error-filter", vec!["dead", "list", "--filter", "colour=red"]),
        ("error-conflict", vec!["outbox", "cancel", "m-leased"]),
        ("error-no-route", vec!["send", "--topic", "bus:nowhere", "--payload", "1"]),
        ("error-other-tenant", vec!["dead", "show", "d-1", "--tenant", "acme"]),
        ("error-transport", vec!["transport", "pause", "gone"]),
        ("error-no-provisioning", vec!["transport", "provision", "http"]),
        ("error-payload", vec!["send", "--topic", "bus:a", "--payload", "{order: 1}"]),
        ("error-nothing-to-send", vec!["send", "--topic", "bus:a"]),
        ("error-no-topic", vec!["send", "--payload", "1"]),
    ] {
        snapshot(name, &ask(&host, &arguments).run());
    }
}

#[test]
fn exit_codes_tell_what_happened() {
    let host = FakeHost::start(Mood::default());
    let exit = |arguments: &[&str]| ask(&host, arguments).run().exit;
    assert_eq!(exit(&["outbox", "stats"]), Exit::Done);
    assert_eq!(exit(&["outbox", "show", "gone"]), Exit::NotFound);
    assert_eq!(exit(&["outbox", "cancel", "m-leased"]), Exit::Conflict);
    assert_eq!(exit(&["dead", "list", "--filter", "colour=red"]), Exit::Usage);
    assert_eq!(exit(&["outbox", "reschedule", "m-1"]), Exit::Usage);
    assert_eq!(exit(&["dead", "replay"]), Exit::Usage);
    assert_eq!(exit(&["dead", "replay", "--tenant", "acme"]), Exit::Usage);
    assert_eq!(exit(&["dead", "replay", "d-1", "--filter", "code=X"]), Exit::Usage);
    assert_eq!(exit(&["outbox", "reschedule", "m-1", "--at", "tomorrow"]), Exit::Usage);
    assert_eq!(exit(&["plugin", "inspect", "gone"]), Exit::NotFound);
    let locked = FakeHost::start(Mood { auth: true, ..Mood::default() });
    snapshot("error-no-token", &ask(&locked, &["outbox", "stats"]).run());
    let viewer = |arguments: &[&str]| ask(&locked, arguments).env("WAYBILL_TOKEN", "sesame-sesame-sesame").run();
    assert_eq!(viewer(&["outbox", "stats"]).exit, Exit::Done);
    assert_eq!(viewer(&["dead", "replay", "d-1"]).exit, Exit::NotAllowed);
    let unready = FakeHost::start(Mood { unready: true, ..Mood::default() });
    let status = ask(&unready, &["status"]).run();
    assert_eq!(status.exit, Exit::Failed);
    assert!(status.out.contains("another host holds it"), "{}", status.out);
    let slow = FakeHost::start(Mood { slow: Duration::from_secs(60), ..Mood::default() });
    let waited = ask(&slow, &["send", "--topic", "bus:a", "--payload", "1", "--timeout", "200ms"]).run();
    assert_eq!(waited.exit, Exit::TimedOut);
    assert!(waited.err.contains("CLIENT.TIMEOUT"), "{}", waited.err);
}

#[test]
fn what_answers_but_is_no_host_passes_for_none() {
    let url = any_json();
    for arguments in [
        vec!["status"],
        vec!["outbox", "list"],
        vec!["outbox", "show", "m-1"],
        vec!["outbox", "stats"],
        vec!["outbox", "blocked"],
        vec!["outbox", "cancel", "m-1"],
        vec!["dead", "list"],
        vec!["dead", "groups"],
        vec!["dead", "replay", "d-1"],
        vec!["dead", "replay", "--filter", "", "--yes"],
        vec!["dead", "edit", "d-1", "--payload", "1"],
        vec!["transport", "list"],
        vec!["transport", "pause", "http"],
        vec!["transport", "provision", "nats"],
        vec!["audit", "list"],
        vec!["send", "--topic", "bus:a", "--payload", "1"],
    ] {
        let done = waybill(&arguments).arg("--url").arg(&url).run();
        assert_eq!((done.exit, done.out.as_str()), (Exit::Failed, ""), "{arguments:?}: {}", done.err);
        assert!(done.err.contains("CLIENT.ANSWER"), "{arguments:?}: {}", done.err);
    }
}

/// A redirect would carry the token along, to whatever it leads to.
#[test]
fn a_redirect_is_not_followed() {
    for (status, method) in
        [("302 Found", "GET"), ("307 Temporary Redirect", "POST"), ("308 Permanent Redirect", "GET")]
    {
        let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let location = format!("http://{}/v1/whoami", elsewhere.local_addr().unwrap());
        let url = answering(format!(
            "HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        ));
        let arguments: &[&str] = match method {
            "GET" => &["outbox", "stats"],
            _ => &["send", "--topic", "bus:a", "--payload", "1"],
        };
        let command = waybill(arguments).args(&["--url", &url, "--timeout", "60s"]);
        let done = command.env("WAYBILL_TOKEN", "sesame-sesame-sesame").run();
        assert_eq!(done.exit, Exit::Failed, "{}", done.all());
        for words in ["CLIENT.ANSWER", &status[..3], &location, "--url"] {
            assert!(done.err.contains(words), "{}", done.err);
        }
        elsewhere.set_nonblocking(true).unwrap();
        assert!(elsewhere.accept().is_err(), "it went there with the token");
    }
}

/// A server that answers everything with `{"status":"ok"}`; it ends with the test's process.
pub fn any_json() -> String {
    answering("HTTP/1.1 200 OK\r\ncontent-length: 15\r\nconnection: close\r\n\r\n{\"status\":\"ok\"}".to_owned())
}

/// A server that answers everything with this; it ends with the test's process.
fn answering(answer: String) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || {
                use std::io::{Read, Write};
                let (mut stream, mut request) = (stream, [0; 4096]);
                while stream.read(&mut request).is_ok_and(|read| read > 0) {
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

#[test]
fn a_token_of_one_tenant_needs_no_tenant_named() {
    let host = FakeHost::start(Mood { auth: true, ..Mood::default() });
    let acme = |arguments: &[&str]| ask(&host, arguments).env("WAYBILL_TOKEN", "acme-acme-acme-acme").run();
    let done = acme(&["dead", "show", "d-3", "-o", "ids"]);
    assert_eq!((done.exit, done.out.as_str()), (Exit::Done, "acme\td-3\n"), "{}", done.err);
    let missed = acme(&["dead", "show", "gone"]);
    assert!(missed.err.contains("in tenant \"acme\": name another with --tenant\n"), "{}", missed.err);
}

#[test]
fn the_environment_names_the_host_and_no_usage_line_asks_for_it() {
    let host = FakeHost::start(Mood::default());
    let of_env = |arguments: &[&str]| waybill(arguments).env("WAYBILL_URL", &host.url).run();
    let done = of_env(&["outbox", "stats"]);
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    snapshot("error-which-letters", &of_env(&["dead", "replay"]));
    snapshot("error-which-time", &of_env(&["outbox", "reschedule", "m-1"]));
}

#[test]
fn nobody_there_is_exit_6_with_the_fix() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let done = waybill(&["outbox", "stats", "--url", &format!("http://127.0.0.1:{port}")]).run();
    assert_eq!(done.exit, Exit::Unreachable);
    assert!(done.err.contains("CLIENT.UNREACHABLE") && done.err.contains("waybill serve"), "{}", done.err);
    for url in ["127.0.0.1:7070", "ftp://x", "http://a:b@x"] {
        let done = waybill(&["outbox", "stats", "--url", url]).run();
        assert_eq!(done.exit, Exit::Usage, "{url}: {}", done.err);
    }
}

#[test]
fn a_token_comes_from_a_file_and_is_never_told() {
    let host = FakeHost::start(Mood { auth: true, ..Mood::default() });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "sesame-sesame-sesame\n").unwrap();
    let good = ask(&host, &["outbox", "stats", "--token-file", file.to_str().unwrap()]).run();
    assert_eq!(good.exit, Exit::Done, "{}", good.err);
    std::fs::write(&file, "two words").unwrap();
    let bad = ask(&host, &["outbox", "stats", "--token-file", file.to_str().unwrap()]).run();
    assert_eq!(bad.exit, Exit::Usage);
    assert!(bad.err.contains("CLIENT.TOKEN") && !bad.err.contains("two words"), "{}", bad.err);
    let wrong = ask(&host, &["outbox", "stats"]).env("WAYBILL_TOKEN", "wrong-wrong-wrong-wrong").run();
    assert_eq!(wrong.exit, Exit::NotAllowed);
    assert!(!wrong.err.contains("wrong-wrong"), "{}", wrong.err);
}

#[test]
fn ids_flow_through_a_pipe_with_their_tenants() {
    let host = FakeHost::start(Mood::default());
    let ids = ask(&host, &["dead", "list", "-o", "ids"]).run();
    assert_eq!(ids.out, "d-1\nd-2\nacme\td-3\n");
    let replayed = ask(&host, &["dead", "replay", "-", "--reason", "shop is back"]).input(&ids.out).run();
    assert_eq!(replayed.exit, Exit::Done, "{}", replayed.err);
    assert_eq!(
        host.acts(),
        ["replay default/d-1 shop is back", "replay default/d-2 shop is back", "replay acme/d-3 shop is back"]
    );
}

#[test]
fn some_done_and_some_not_is_exit_7() {
    let host = FakeHost::start(Mood::default());
    let done = ask(&host, &["dead", "replay", "d-1", "gone", "d-2"]).run();
    assert_eq!(done.exit, Exit::Partly, "{}", done.err);
    assert!(done.err.contains("gone: ") && done.err.contains("2 done, 1 failed"), "{}", done.err);
    assert_eq!(host.acts().len(), 2);
    assert_eq!(ask(&host, &["dead", "replay", "gone", "gone-too"]).run().exit, Exit::NotFound);
    let half = FakeHost::start(Mood { half: true, ..Mood::default() });
    let done = ask(&half, &["dead", "replay", "--filter", "code=HTTP.*", "--yes"]).run();
    assert_eq!(done.exit, Exit::Partly, "{}", done.err);
}

#[test]
fn a_stuck_saga_is_replayed_as_a_message_is() {
    let host = FakeHost::start(Mood::default());
    let done =
        ask(&host, &["dead", "replay", "order-17", "--kind", "saga", "--mode", "retry", "--reason", "back"]).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    assert!(done.err.contains("replayed order-17"), "{}", done.err);
    let both = ask(&host, &["dead", "replay", "order-17", "d-1", "--reason", "back"]).run();
    assert_eq!(both.exit, Exit::Done, "{}", both.err);
    assert_eq!(
        host.acts(),
        ["replay default/order-17 Retry back", "replay default/order-17 back", "replay default/d-1 back"]
    );
    let either = ask(&host, &["dead", "replay", "both"]).run();
    assert_eq!(either.exit, Exit::Conflict);
    assert!(either.err.contains("--kind message or --kind saga"), "{}", either.err);
    let edited = ask(&host, &["dead", "edit", "order-17", "--payload", "1"]).run();
    assert_eq!(edited.exit, Exit::Conflict);
    assert!(edited.err.contains("DEAD.KIND"), "{}", edited.err);
    let purge = ask(&host, &["dead", "purge", "--filter", "kind=saga", "--yes"]).run();
    assert!(purge.exit == Exit::Conflict && purge.err.contains("waybill saga accept"), "{}", purge.err);
    let counted = ask(&host, &["dead", "replay", "--filter", "kind=saga", "--dry-run"]).run();
    assert!(
        counted.out.contains("would replay 1 dead letter") && counted.out.contains("saga:order/charge"),
        "{}",
        counted.out
    );
    for bad in [["--mode", "retry"], ["--kind", "saga"]] {
        let done = ask(&host, &["dead", "replay", "--filter", "kind=saga"]).args(&bad).run();
        assert_eq!(done.exit, Exit::Usage, "{bad:?}");
    }
}

#[test]
fn a_bulk_act_is_counted_asked_for_and_watched() {
    let host = FakeHost::start(Mood::default());
    let replay = ["dead", "replay", "--filter", "code=HTTP.*", "--rate", "20", "--reason", "shop is back"];
    let refused = ask(&host, &replay).run();
    assert_eq!(refused.exit, Exit::Usage);
    assert!(refused.err.contains("replay 3 dead letters") && refused.err.contains("--yes"), "{}", refused.err);
    let declined = ask(&host, &replay).interactive().input("n\n").run();
    assert_eq!(declined.exit, Exit::Failed);
    assert!(host.acts().is_empty());
    let done = ask(&host, &replay).interactive().input("y\n").run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    assert_eq!(host.acts()[0], "operation replay code=HTTP.* state=dead Some(20) shop is back");
    snapshot("dead-replay-by-filter", &ask(&host, &["dead", "replay", "--filter", "code=HTTP.*", "--yes"]).run());
    let none = ask(&host, &["dead", "replay", "--filter", "code=NONE", "--yes"]).run();
    assert_eq!((none.exit, none.out.as_str()), (Exit::Done, ""));
    let purge = ask(&host, &["dead", "purge", "--filter", "", "--yes"]).run();
    assert_eq!(purge.exit, Exit::Done, "{}", purge.err);
    assert!(host.acts().iter().any(|act| act.starts_with("operation purge id=*")), "{:?}", host.acts());
}

/// The plan first; nothing is applied without a yes, and a conflict is exit 4 whatever else was done.
#[test]
fn provisioning_is_planned_asked_for_and_applied() {
    let host = FakeHost::start(Mood::default());
    let refused = ask(&host, &["transport", "provision", "nats"]).run();
    assert_eq!(refused.exit, Exit::Usage);
    assert!(refused.err.contains("apply 1 change") && refused.err.contains("--yes"), "{}", refused.err);
    let dry = ask(&host, &["transport", "provision", "mixed", "--dry-run"]).run();
    assert_eq!(dry.exit, Exit::Conflict, "{}", dry.err);
    let declined = ask(&host, &["transport", "provision", "nats"]).interactive().input("n\n").run();
    assert_eq!(declined.exit, Exit::Failed);
    assert!(declined.out.contains("stream ORDERS"), "the plan is shown: {}", declined.out);
    assert!(!host.acts().iter().any(|act| act.ends_with("true")), "{:?}", host.acts());

    let done = ask(&host, &["transport", "provision", "nats"]).interactive().input("y\n").run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let mixed = ask(&host, &["transport", "provision", "mixed", "--yes", "-o", "json"]).run();
    assert_eq!(mixed.exit, Exit::Conflict, "{}", mixed.err);
    let told: serde_json::Value = serde_json::from_str(&mixed.out).unwrap();
    assert_eq!((&told["applied"], &told["changes"][2]["action"]), (&true.into(), &"conflict".into()));
    let applied: Vec<String> = host.acts().into_iter().filter(|act| act.ends_with("true")).collect();
    assert_eq!(applied, ["provision nats true", "provision mixed true"]);
    let ids = ask(&host, &["transport", "provision", "nats", "--dry-run", "-o", "ids"]).run();
    assert_eq!(ids.out, "stream EVENTS\nstream ORDERS\n");
    let lines = ask(&host, &["transport", "provision", "nats", "--dry-run", "-o", "jsonl"]).run();
    assert_eq!(lines.out.lines().count(), 2, "{}", lines.out);
}

/// The fake host has no keys: that it was asked for one proves that the header went along.
#[test]
fn a_send_under_a_key_says_so_to_the_host() {
    let host = FakeHost::start(Mood::default());
    let send = ["send", "--topic", "bus:a", "--payload", "1", "--idempotency-key", "order-17"];
    let refused = ask(&host, &send).run();
    assert_eq!(refused.exit, Exit::Unreachable);
    assert!(refused.err.contains("no key is begun here"), "{}", refused.err);
    let unusable = ask(&host, &["send", "--topic", "bus:a", "--payload", "1", "--idempotency-key", ""]).run();
    assert_eq!(unusable.exit, Exit::Usage);
    assert!(unusable.err.contains("TX.IDEMPOTENCY_KEY"), "{}", unusable.err);
    assert_eq!(ask(&host, &send[..5]).run().exit, Exit::Done);
}

/// A release is looked at and asked for; a known outcome is forgotten only when that is said.
#[test]
fn a_key_is_released_with_a_yes_and_its_outcome_only_when_told() {
    let host = FakeHost::start(Mood::default());
    let release = |more: &[&str]| {
        let arguments: Vec<&str> = ["idempotency", "release"].iter().chain(more).copied().collect();
        ask(&host, &arguments)
    };
    let refused = release(&["order-17"]).run();
    assert_eq!(refused.exit, Exit::Usage);
    assert!(refused.err.contains("--dry-run") && refused.err.contains("--yes"), "{}", refused.err);
    assert_eq!(release(&["order-17", "--dry-run"]).run().exit, Exit::Done);
    assert_eq!(release(&["order-17"]).interactive().input("n\n").run().exit, Exit::Failed);
    assert_eq!(release(&["gone", "--yes"]).run().exit, Exit::NotFound);
    assert_eq!(release(&["pay-1", "--tenant", "acme", "--yes"]).run().exit, Exit::Conflict);
    assert!(host.acts().is_empty());
    assert_eq!(release(&["order-17", "--reason", "gone"]).interactive().input("y\n").run().exit, Exit::Done);
    let done = release(&["pay-1", "--tenant", "acme", "--yes", "--finished", "-o", "json"]).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let told: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(told["outcome"]["result"]["charged"], 990);
    assert!(!done.out.contains("secret-token"));
    assert_eq!(host.acts(), ["forget default order-17 false gone", "forget acme pay-1 true "]);
    assert_eq!(ask(&host, &["idempotency", "list", "--filter", "colour=red"]).run().exit, Exit::Usage);
}

#[test]
fn lines_are_sent_in_order_with_their_bytes() {
    let host = FakeHost::start(Mood::default());
    let lines = "{\"topic\":\"bus:a\",\"payload\":{\"z\": 1.10,\"a\":12345678901234567890123}}\n\n{\"payload\":2,\"key\":\"mine\"}\n{\"routing_key\":\"b\",\"payload\":3,\"id\":\"again\"}\n";
    let done = ask(&host, &["send", "--topic", "bus:default", "--key", "k", "--header", "source=test", "-"])
        .input(lines)
        .run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    assert_eq!(done.out, "id-0\nid-1\nagain\n");
    assert!(done.err.contains("2 messages committed, 1 was there before"), "{}", done.err);
    let seen = host.seen.lock().unwrap();
    let sent: Vec<(&str, &[u8], Option<&str>)> = seen
        .enqueued
        .iter()
        .map(|message| (message.topic.as_str(), message.payload.as_ref(), message.key.as_deref()))
        .collect();
    assert_eq!(
        sent,
        [
            ("bus:a", b"{\"z\": 1.10,\"a\":12345678901234567890123}".as_slice(), Some("k")),
            ("bus:default", b"2".as_slice(), Some("mine")),
            ("bus:b", b"3".as_slice(), Some("k")),
        ]
    );
    assert_eq!(seen.enqueued[0].headers, [("source".to_owned(), "test".to_owned())]);
}

#[test]
fn many_lines_go_in_groups_and_a_bad_one_is_named() {
    let host = FakeHost::start(Mood::default());
    let lines: String = (0..1201).map(|n| format!("{{\"topic\":\"bus:a\",\"payload\":{n}}}\n")).collect();
    let done = ask(&host, &["send", "-", "-o", "jsonl"]).input(&lines).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    assert_eq!(done.out.lines().count(), 3);
    assert_eq!(host.seen.lock().unwrap().enqueued.len(), 1201);
    let bad = ask(&host, &["send", "-"]).input("{\"topic\":\"bus:a\",\"payload\":1}\nnot json\n").run();
    assert_eq!(bad.exit, Exit::Usage);
    assert!(bad.err.contains("stdin:2"), "{}", bad.err);
    assert_eq!(host.seen.lock().unwrap().enqueued.len(), 1201, "nothing of the group is sent");
}

#[test]
fn a_line_that_stops_a_list_is_named_and_what_went_before_is_told() {
    let host = FakeHost::start(Mood::default());
    let good = "{\"topic\":\"bus:a\",\"payload\":1}\n";
    let bad = "{\"topic\":\"bus:nowhere\",\"payload\":2}\n";
    let send = |lines: &str, format: &str| ask(&host, &["send", "-", "-o", format]).input(lines).run();
    let none = send(&format!("{good}\n\n{bad}"), "table");
    assert_eq!((none.exit, none.out.as_str()), (Exit::Usage, ""), "{}", none.err);
    assert!(none.err.contains("OUTBOX.NO_ROUTE") && none.err.contains("  at  stdin:4\n"), "{}", none.err);
    let field = send(&format!("{good}\n{{\"topic\":\"bus:a\",\"payload\":2,\"kee\":3}}\n"), "table");
    assert!(field.err.contains("  at  stdin:3, kee\n"), "{}", field.err);
    for last in [bad, "no json\n"] {
        let some = send(&format!("{}\n{good}{last}", good.repeat(500)), "json");
        assert_eq!(some.exit, Exit::Partly, "{}", some.err);
        assert!(some.err.contains("stdin:503"), "{}", some.err);
        assert!(some.err.contains("500 messages were committed, up to stdin:500, before this"), "{}", some.err);
        let told: serde_json::Value = serde_json::from_str(&some.out).unwrap();
        assert_eq!(told["ids"].as_array().unwrap().len(), 500);
    }
}

#[test]
fn a_repeat_is_told_alike_in_each_format_and_commits_nothing() {
    let host = FakeHost::start(Mood::default());
    for format in ["json", "jsonl"] {
        let done = ask(&host, &["send", "--topic", "bus:a", "--payload", "1", "--id", "again", "-o", format]).run();
        assert_eq!(done.exit, Exit::Done, "{}", done.err);
        assert_eq!(done.err, "nothing new: 1 message was there before\n");
        let told: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(told, serde_json::json!({ "ids": ["again"], "duplicates": ["again"] }));
    }
}

#[test]
fn a_file_is_sent_raw_as_one_payload() {
    let host = FakeHost::start(Mood::default());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("logo.png");
    std::fs::write(&file, [0, 159, 146, 150]).unwrap();
    let arguments =
        ["send", "--topic", "bus:files", "--raw", "--content-type", "image/png", "--file", file.to_str().unwrap()];
    let done = ask(&host, &arguments).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let seen = host.seen.lock().unwrap();
    assert_eq!(seen.enqueued[0].payload.as_ref(), [0, 159, 146, 150]);
    assert_eq!(seen.enqueued[0].annotations.get(Annotation::ContentType), Some("image/png"));
}

#[test]
fn quiet_leaves_only_results_and_errors() {
    let host = FakeHost::start(Mood::default());
    let done = ask(&host, &["-q", "send", "--topic", "bus:a", "--payload", "1"]).run();
    assert_eq!((done.out.as_str(), done.err.as_str()), ("id-0\n", ""));
    let failed = ask(&host, &["-q", "outbox", "show", "gone"]).run();
    assert!(failed.err.contains("OUTBOX.NOT_FOUND"));
}

#[test]
fn lists_are_followed_page_by_page_and_cut_loudly() {
    let host = FakeHost::start(Mood::default());
    let all = ask(&host, &["outbox", "list", "--all", "-o", "ids"]).run();
    assert_eq!(all.out, "m-0\nm-1\nm-2\nm-3\nm-4\n");
    assert_eq!(all.err, "");
    let cut = ask(&host, &["outbox", "list", "--limit", "3", "-o", "ids"]).run();
    assert_eq!(cut.out.lines().count(), 3);
    assert!(cut.err.contains("there are more"), "{}", cut.err);
    let rest = ask(&host, &["outbox", "list", "-o", "ids", "--cursor", &told_cursor(&cut)]).run();
    assert_eq!((rest.out.as_str(), rest.err.as_str()), ("m-3\nm-4\n", ""));
    let elsewhere = ask(&host, &["outbox", "list", "--filter", "key=a", "--cursor", &told_cursor(&cut)]).run();
    assert_eq!(elsewhere.exit, Exit::Usage, "{}", elsewhere.err);
    let rare = ask(&host, &["outbox", "list", "--filter", "id=rare", "-o", "ids"]).run();
    assert_eq!((rare.exit, rare.out.as_str()), (Exit::Done, ""));
    assert!(rare.err.contains("not all was looked through") && rare.err.contains("--all"), "{}", rare.err);
    let on = ask(&host, &["outbox", "list", "--filter", "id=rare", "--cursor", &told_cursor(&rare)]).run();
    assert_ne!(told_cursor(&on), told_cursor(&rare), "it went on from there");
}

/// Where a list that was cut says that it goes on.
fn told_cursor(cut: &Done) -> String {
    let (_, cursor) = cut.err.trim_end().rsplit_once("--cursor ").expect(&cut.err);
    cursor.to_owned()
}

#[test]
fn bundled_plugins_are_listed_and_inspected_without_a_host() {
    let list = waybill(&["plugin", "list", "--bundled", "-o", "ids"]).run();
    assert_eq!(list.exit, Exit::Done, "{}", list.err);
    let bundled = waybill_bundled::all().iter().map(|bundled| bundled.name);
    assert_eq!(list.out.lines().collect::<Vec<_>>(), bundled.collect::<Vec<_>>());
    let http = waybill(&["plugin", "inspect", "http", "-o", "json"]).run();
    let http: serde_json::Value = serde_json::from_str(&http.out).unwrap();
    assert_eq!((http["world"].as_str(), http["asks"]["secrets"][0].as_str()), (Some("transport"), Some("signing")));
    assert!(http["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(http["asks"]["required"], serde_json::json!(["http"]));
    let limits = http["limits"].as_array().unwrap();
    let limit =
        |name: &str| limits.iter().find(|limit| limit["name"] == name).unwrap_or_else(|| panic!("no limit {name}"));
    assert_eq!((limit("memory")["value"].as_u64(), limit("memory")["unit"].as_str()), (Some(64 << 20), Some("bytes")));
    assert_eq!((limit("cpu")["value"].as_u64(), limit("cpu")["setting"].as_str()), (Some(2_000), Some("cpu_per_call")));
    assert!(limits.iter().filter(|limit| limit["counted"] == true).count() >= 15);
    let table = waybill(&["plugin", "inspect", "http"]).run();
    assert!(table.out.contains("memory 64MiB") && table.out.contains("[cpu_per_call]"), "{}", table.out);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.wasm");
    std::fs::write(&file, b"\0asm\x01\0\0\0").unwrap();
    let module = waybill(&["plugin", "inspect", file.to_str().unwrap()]).run();
    assert_eq!(module.exit, Exit::Failed);
    assert!(module.err.contains("PLUGIN.CORE_MODULE"), "{}", module.err);
}

#[test]
fn a_configuration_is_checked_with_its_plugins() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("waybill.toml");
    let cache = dir.path().join("cache");
    let check = |text: &str| {
        let cache = cache.display();
        std::fs::write(&file, format!("[store]\nurl = \"mem://\"\n[plugins]\ncache = \"{cache}\"\n{text}")).unwrap();
        waybill(&["config", "check", "--config", file.to_str().unwrap()]).run()
    };
    let noop = "[[route]]\nmatch = \"bus:**\"\ntransport = \"a\"\n[transport.a]\nplugin = \"noop\"\n";
    let good = check(noop);
    assert_eq!(good.exit, Exit::Done, "{}", good.err);
    assert!(good.out.contains("1 transport, 1 route, 0 warnings"), "{}", good.out);
    for (text, code, words) in [
        (format!("{noop}config = {{ speed = 9 }}\n"), "PLUGIN.CONFIG", "takes no configuration"),
        ("[transport.a]\nplugin = \"backoff-fibonacci\"\n".to_owned(), "PLUGIN.OTHER_WORLD", "[transport.a]"),
        ("[outbox.backoff]\nplugin = \"noop\"\n".to_owned(), "PLUGIN.OTHER_WORLD", "outbox.backoff"),
        ("[transport.a]\nplugin = \"http\"\nallow = { net = [\"tcp://broker\"] }\n".to_owned(), "PLUGIN.GRANT", "port"),
        (
            "[transport.a]\nplugin = \"http\"\n".to_owned(),
            "PLUGIN.GRANT_MISSING",
            "allow.http = [\"https://HOST:PORT\"]",
        ),
        ("[transport.a]\nplugin = \"waybill.toml.wasm\"\n".to_owned(), "CONFIG.PLUGIN_MISSING", "No such file"),
    ] {
        let done = check(&text);
        assert_eq!(done.exit, Exit::Usage, "{text}{}", done.err);
        assert!(done.err.contains(code) && done.err.contains(words), "{text}{}", done.err);
    }
    std::fs::write(dir.path().join("text.wasm"), "hello").unwrap();
    let text = check("[transport.a]\nplugin = \"./text.wasm\"\n");
    assert!(text.err.contains("PLUGIN.NOT_A_COMPONENT"), "{}", text.err);
    let useless = check("[transport.a]\nplugin = \"noop\"\nallow = { net = [\"tcp://x:1\"] }\n");
    assert_eq!(useless.exit, Exit::Done, "{}", useless.err);
    assert!(useless.err.contains("opens nothing") && useless.err.contains("no [[route]]"), "{}", useless.err);
}

#[test]
fn settings_are_shown_with_their_origin_and_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("waybill.toml");
    std::fs::write(&file, "[store]\nurl = \"ws://db:8000\"\nuser = \"waybill\"\npassword = \"env:DB_PASSWORD\"\n[outbox]\nlease_ms = 15000\n").unwrap();
    let arguments = ["config", "show", "--origin", "--config", file.to_str().unwrap()];
    let done = waybill(&arguments).env("DB_PASSWORD", "hunter2").env("WAYBILL_OUTBOX_BATCH", "9").run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let line =
        |key: &str| done.out.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap_or_default().to_owned();
    assert!(
        line("outbox.owner_ttl").contains("15s") && line("outbox.owner_ttl").contains("waybill.toml:6:12"),
        "{}",
        done.out
    );
    assert!(line("outbox.batch").contains("environment WAYBILL_OUTBOX_BATCH"), "{}", done.out);
    assert!(line("store.password").contains("env:DB_PASSWORD"), "{}", done.out);
    assert!(line("outbox.max_attempts").contains("default"), "{}", done.out);
    assert!(!done.out.contains("hunter2"));
}

#[test]
fn the_path_of_a_file_to_be_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = |format: &str| {
        waybill(&["config", "path", "-o", format]).env("WAYBILL_DATA", dir.path().to_str().unwrap()).run()
    };
    let here = std::env::current_dir().unwrap().join("waybill.toml").display().to_string();
    assert_eq!(path("ids").out, format!("{here}\n"));
    let table = path("table").out;
    assert!(table.contains(&format!("{here} isn't there")) && table.contains(dir.path().to_str().unwrap()), "{table}");
}

#[test]
fn a_data_folder_that_cannot_be_used_is_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let data = file.to_str().unwrap();
    let check = waybill(&["config", "check", "--data", data]).run();
    assert!(
        check.err.contains("STORAGE.DIRECTORY") && check.err.contains("is a file: choose another"),
        "{}",
        check.err
    );
    let doctor = waybill(&["doctor", "--data", data]).run();
    assert!(doctor.out.contains("is a file: choose another") && !doctor.out.contains("cache"), "{}", doctor.out);
    let fresh = dir.path().join("fresh");
    let doctor = waybill(&["doctor", "--data", fresh.to_str().unwrap(), "-o", "jsonl"]).run();
    assert!(!fresh.join("store").exists(), "the doctor only looks: {}", doctor.out);
}

#[test]
fn the_doctor_tells_what_would_keep_a_host_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let file = dir.path().join("waybill.toml");
    let listen = taken.local_addr().unwrap();
    let text = format!(
        "[store]\nurl = \"surrealkv://./data\"\n[plugins]\ncache = \"./cache\"\n[server]\nlisten = \"{listen}\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let sick = waybill(&["doctor", "--config", file.to_str().unwrap(), "-o", "jsonl"]).run();
    assert_eq!(sick.exit, Exit::Failed, "{}", sick.out);
    let status = |out: &str, name: &str| {
        out.lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .find(|check| check["name"] == name)
            .map(|check| check["status"].as_str().unwrap().to_owned())
    };
    assert_eq!(status(&sick.out, "port").as_deref(), Some("fail"));
    assert_eq!(status(&sick.out, "data folder").as_deref(), Some("ok"));
    assert_eq!(status(&sick.out, "plugins").as_deref(), Some("ok"));
    drop(taken);
    let well = waybill(&["doctor", "--config", file.to_str().unwrap(), "-o", "jsonl"]).run();
    assert_eq!(status(&well.out, "port").as_deref(), Some("ok"), "{}", well.out);
    std::fs::write(&file, "[outbox]\nbach = 1\n").unwrap();
    let wrong = waybill(&["doctor", "--config", file.to_str().unwrap()]).run();
    assert_eq!(wrong.exit, Exit::Failed);
    assert!(wrong.out.contains("CONFIG.UNKNOWN_KEY"), "{}", wrong.out);
}
