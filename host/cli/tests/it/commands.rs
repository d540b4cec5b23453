//! Commands against a host with the real HTTP API: results, errors, exit codes, pipes.

use waybill_cli::exit::Exit;
use waybill_core::limits::DEAD_READS_MAX;
use waybill_core::new_message::NewMessage;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};
use waybill_core::port::service::MessageState;
use waybill_core::saga::state::SagaState;
use waybill_testkit::memory_host::message;

use crate::host::TestHost;
use crate::support::{Command, Done, waybill};

fn ask(host: &TestHost, arguments: &[&str]) -> Command {
    waybill(arguments).arg("--url").arg(&host.url)
}

/// Snapshot with what differs from run to run taken out.
fn snapshot(name: &str, done: &Done) {
    let filters = vec![
        (r"http://127\.0\.0\.1:\d+", "http://HOST"),
        (r"(?m)^  request [0-9A-Za-z-]+$", "  request ID"),
        (r"--cursor [0-9A-Za-z_-]+", "--cursor CURSOR"),
        // Ids that the host made, and places in its order.
        (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "ID"),
        (r"seq \d+", "seq SEQ"),
        (r#""seq":"\d+""#, r#""seq":"SEQ""#),
    ];
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/commands", omit_expression => true, filters => filters }, {
        insta::assert_snapshot!(name, done.all());
    });
}

#[test]
fn what_the_commands_write() {
    for (name, arguments) in [
        ("outbox-list", vec!["outbox", "list", "--limit", "3"]),
        ("outbox-list-jsonl", vec!["outbox", "list", "--limit", "1", "-o", "jsonl"]),
        ("outbox-show", vec!["outbox", "show", "m-1"]),
        ("outbox-show-json", vec!["outbox", "show", "m-1", "-o", "json"]),
        ("outbox-cancel", vec!["outbox", "cancel", "m-1"]),
        ("dead-list", vec!["dead", "list"]),
        ("dead-list-none", vec!["dead", "list", "--filter", "code=NONE"]),
        ("dead-show", vec!["dead", "show", "d-1"]),
        ("dead-groups", vec!["dead", "groups"]),
        ("dead-replay-dry-run", vec!["dead", "replay", "--filter", "code=HTTP.*", "--dry-run"]),
        ("dead-quarantine", vec!["dead", "quarantine", "d-1", "--note", "broken payload"]),
        ("dead-edit", vec!["dead", "edit", "d-1", "--payload", "{\"order\": 18}"]),
        ("transport-list", vec!["transport", "list"]),
        ("transport-pause", vec!["transport", "pause", "http"]),
        ("idempotency-list", vec!["idempotency", "list"]),
        ("idempotency-list-ids", vec!["idempotency", "list", "-o", "ids"]),
        ("idempotency-list-none", vec!["idempotency", "list", "--filter", "key=none-*"]),
        ("idempotency-show", vec!["idempotency", "show", "pay-1", "--tenant", "acme"]),
        ("idempotency-show-held", vec!["idempotency", "show", "order-17"]),
        ("idempotency-show-missing", vec!["idempotency", "show", "gone"]),
        ("idempotency-release", vec!["idempotency", "release", "order-17", "--yes", "--reason", "its client is gone"]),
        ("idempotency-release-finished", vec!["idempotency", "release", "mail-2", "--yes"]),
    ] {
        snapshot(name, &ask(&TestHost::shop(), &arguments).run());
    }
}

#[test]
fn what_commands_write_of_trouble() {
    let host = TestHost::troubled_shop();
    for (name, arguments) in [
        ("status", ["status"].as_slice()),
        ("outbox-stats", &["outbox", "stats"]),
        ("outbox-blocked", &["outbox", "blocked"]),
    ] {
        snapshot(name, &ask(&host, arguments).run());
    }
    let stuck = TestHost::sagas();
    snapshot("dead-list-sagas", &ask(&stuck, &["dead", "list", "--filter", "kind=saga"]).run());
    snapshot("dead-show-saga", &ask(&stuck, &["dead", "show", "order-17"]).run());
}

/// There are more dead letters than are counted.
#[test]
fn what_was_not_counted_to_the_end_says_so() {
    let host = TestHost::with(async |host| {
        host.dead(message("d-1")).await;
        host.copy_dead("default", "d-1", DEAD_READS_MAX).await;
    });
    snapshot("dead-groups-early", &ask(&host, &["dead", "groups", "--filter", "topic=*"]).run());
    let replay = ["dead", "replay", "--filter", "topic=*", "--dry-run"];
    snapshot("dead-replay-dry-run-early", &ask(&host, &replay).run());
    let stats = ask(&host, &["outbox", "stats"]).run();
    assert!(stats.out.contains("100,000"), "thousands are set apart: {}", stats.out);
}

#[test]
fn what_was_done_is_in_the_audit_trail() {
    let host = TestHost::shop();
    for id in ["d-1", "d-2"] {
        ask(&host, &["dead", "replay", id, "--reason", "shop is back"]).run();
    }
    snapshot("audit-list", &ask(&host, &["audit", "list"]).run());
}

/// A host with transports that say what is missing at their peers: something, nothing, and something that is in conflict.
fn provisioned() -> TestHost {
    let change =
        |target: &str, action, detail: &str| ProvisionChange { target: target.into(), action, detail: detail.into() };
    let keep = change("stream EVENTS", ProvisionAction::Keep, "");
    let create = change("stream ORDERS", ProvisionAction::Create, "subjects orders.>, 3 replicas");
    let conflict = change("queue mail", ProvisionAction::Conflict, "it is classic, wanted is quorum: move it by hand");
    TestHost::with_transports(&["nats", "ready", "mixed"], async move |_, transports| {
        let plans = [vec![keep.clone(), create.clone()], vec![keep.clone()], vec![keep, create, conflict]];
        for (transport, plan) in transports.iter().zip(plans) {
            transport.set_provisioned(Ok(plan));
        }
    })
}

#[test]
fn what_provisioning_writes() {
    for (name, arguments) in [
        ("transport-provision-dry-run", ["transport", "provision", "mixed", "--dry-run"].as_slice()),
        ("transport-provision", &["transport", "provision", "nats", "--yes"]),
        ("transport-provision-nothing", &["transport", "provision", "ready"]),
    ] {
        snapshot(name, &ask(&provisioned(), arguments).run());
    }
}

#[test]
fn rows_in_quarantine_are_put_back_and_dropped_by_their_names() {
    let host = TestHost::with(async |host| {
        host.unreadable_row().await;
        host.readable_row([message("a"), message("b")]).await;
        host.waiting_saga("acme", "order-1").await;
        host.set_aside_saga("acme", "order-1").await;
    });
    let ids = ask(&host, &["quarantine", "list", "-o", "ids"]).run();
    let rows: Vec<&str> = ids.out.lines().collect();
    let [bad, good, saga] = rows[..] else { panic!("{ids:?}") };
    let restored = ask(&host, &["quarantine", "restore", "-", "--reason", "new"]).input(&ids.out).run();
    assert_eq!(restored.exit, Exit::Partly, "{restored:?}");
    let told =
        format!("restored {saga}: the host takes it in when it takes the shard over, at the next start at the latest");
    assert!(restored.err.contains(&told), "{restored:?}");
    let declined = ask(&host, &["quarantine", "drop", bad]).interactive().input("n\n").run();
    assert_eq!(declined.exit, Exit::Failed);
    let dropped = ask(&host, &["quarantine", "drop", bad]).interactive().input("y\n").run();
    assert_eq!(dropped.exit, Exit::Done, "{dropped:?}");
    assert_eq!(
        host.acts(),
        [
            format!("QuarantineRestored default/{good} new"),
            format!("QuarantineRestored acme/{saga} new"),
            format!("QuarantineDropped {bad}"),
        ]
    );
    assert_eq!(ask(&host, &["quarantine", "drop", "gone", "--yes"]).run().exit, Exit::NotFound);
}

/// Of long ids, topics and errors too: an id that is broken over two lines can't be copied.
#[test]
fn a_table_fits_the_terminal_a_line_a_row() {
    let host = TestHost::troubled_shop();
    let sent = ask(&host, &["send", "--topic", "bus:a", "--payload", "1", "--not-before", "1h"]).run();
    assert_eq!(sent.out.trim().len(), 26, "an id that the host made: {}", sent.all());
    let stuck = TestHost::sagas();
    for (host, arguments, id) in [
        (&host, ["dead", "list"], "d-1"),
        (&host, ["dead", "groups"], "d-3"),
        (&host, ["outbox", "list"], sent.out.trim()),
        (&host, ["outbox", "stats"], "acme"),
        (&stuck, ["saga", "list"], "order-17"),
        (&stuck, ["saga", "definitions"], "shipment"),
    ] {
        let piped = ask(host, &arguments).run();
        for columns in [60, 80, 120] {
            let done = ask(host, &arguments).width(columns).run();
            for line in done.out.lines() {
                assert!(line.chars().count() <= usize::from(columns), "{columns}: {line:?}");
            }
            assert!(done.out.contains(id), "{arguments:?}, {columns}: {}", done.out);
            if columns >= 80 {
                assert_eq!(done.out.lines().count(), piped.out.lines().count(), "{columns}: {}", done.out);
            }
        }
    }
    snapshot("dead-list-80", &ask(&host, &["dead", "list"]).width(80).run());
    snapshot("outbox-blocked-80", &ask(&host, &["outbox", "blocked"]).width(80).run());
    snapshot("dead-list-30", &ask(&host, &["dead", "list", "--limit", "2"]).width(30).run());
    snapshot("saga-list-80", &ask(&stuck, &["saga", "list"]).width(80).run());
    let piped = ask(&host, &["dead", "list"]).run();
    let wide = ask(&host, &["dead", "list", "-o", "wide"]).width(60).run();
    assert_eq!(wide.out, piped.out, "a pipe gets whole lines, and so does who asks for them");
    assert!(piped.out.contains("2026-11-21T09:00:") && piped.err.is_empty(), "{}", piped.all());
    let told = ask(&host, &["dead", "list"]).width(60).run();
    assert!(told.err.contains("-o wide shows all of it"), "{}", told.all());
}

#[test]
fn errors_are_told_with_code_why_and_fix() {
    let host = TestHost::shop();
    for (name, arguments) in [
        ("error-not-found", vec!["outbox", "show", "gone"]),
        ("error-filter", vec!["dead", "list", "--filter", "colour=red"]),
        ("error-no-route", vec!["send", "--topic", "custom:nowhere", "--payload", "1"]),
        ("error-other-tenant", vec!["dead", "show", "d-1", "--tenant", "acme"]),
        ("error-transport", vec!["transport", "pause", "gone"]),
        ("error-no-provisioning", vec!["transport", "provision", "http"]),
        ("error-payload", vec!["send", "--topic", "bus:a", "--payload", "{order: 1}"]),
        ("error-nothing-to-send", vec!["send", "--topic", "bus:a"]),
        ("error-no-topic", vec!["send", "--payload", "1"]),
    ] {
        snapshot(name, &ask(&host, &arguments).run());
    }
    snapshot("error-conflict", &ask(&leased(), &["outbox", "cancel", "m-leased"]).run());
}

/// A host of whose messages a worker has one: `m-leased`.
fn leased() -> TestHost {
    TestHost::with(async |host| {
        host.offered(message("m-leased"), "out.memory").await;
        host.claimed("worker", "default").await;
    })
}

#[test]
fn exit_codes_tell_what_happened() {
    let host = TestHost::shop();
    let exit = |arguments: &[&str]| ask(&host, arguments).run().exit;
    assert_eq!(exit(&["outbox", "stats"]), Exit::Done);
    assert_eq!(exit(&["outbox", "show", "gone"]), Exit::NotFound);
    assert_eq!(ask(&leased(), &["outbox", "cancel", "m-leased"]).run().exit, Exit::Conflict);
    assert_eq!(exit(&["dead", "list", "--filter", "colour=red"]), Exit::Usage);
    assert_eq!(exit(&["outbox", "reschedule", "m-1"]), Exit::Usage);
    assert_eq!(exit(&["dead", "replay"]), Exit::Usage);
    assert_eq!(exit(&["dead", "replay", "--tenant", "acme"]), Exit::Usage);
    assert_eq!(exit(&["dead", "replay", "d-1", "--filter", "code=X"]), Exit::Usage);
    assert_eq!(exit(&["outbox", "reschedule", "m-1", "--at", "tomorrow"]), Exit::Usage);
    assert_eq!(exit(&["plugin", "inspect", "gone"]), Exit::NotFound);
    let locked = TestHost::locked();
    snapshot("error-no-token", &ask(&locked, &["outbox", "stats"]).run());
    let viewer = |arguments: &[&str]| ask(&locked, arguments).env("WAYBILL_TOKEN", "sesame-sesame-sesame").run();
    assert_eq!(viewer(&["outbox", "stats"]).exit, Exit::Done);
    assert_eq!(viewer(&["dead", "replay", "d-1"]).exit, Exit::NotAllowed);
    let unready = TestHost::with(async |host| host.engine.begin_drain());
    let status = ask(&unready, &["status"]).run();
    assert_eq!(status.exit, Exit::Failed);
    assert!(status.out.contains("the host is shutting down"), "{}", status.out);
    let send = ["send", "--topic", "bus:a", "--payload", "1", "--timeout", "200ms"];
    let waited = waybill(&send).arg("--url").arg(&silent()).run();
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

/// A server that takes connections and never answers; it ends with the test's process.
fn silent() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let held: Vec<_> = listener.incoming().map_while(Result::ok).collect();
        drop(held);
    });
    url
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
    let host = TestHost::locked();
    let acme = |arguments: &[&str]| ask(&host, arguments).env("WAYBILL_TOKEN", "acme-acme-acme-acme").run();
    let done = acme(&["dead", "show", "d-3", "-o", "ids"]);
    assert_eq!((done.exit, done.out.as_str()), (Exit::Done, "acme\td-3\n"), "{}", done.err);
    let missed = acme(&["dead", "show", "gone"]);
    assert!(missed.err.contains("in tenant \"acme\": name another with --tenant\n"), "{}", missed.err);
}

#[test]
fn the_environment_names_the_host_and_no_usage_line_asks_for_it() {
    let host = TestHost::shop();
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
    let host = TestHost::locked();
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
    let host = TestHost::shop();
    let ids = ask(&host, &["dead", "list", "-o", "ids"]).run();
    assert_eq!(ids.out, "acme\td-3\nd-2\nd-1\n", "the latest first");
    let replayed = ask(&host, &["dead", "replay", "-", "--reason", "shop is back"]).input(&ids.out).run();
    assert_eq!(replayed.exit, Exit::Done, "{}", replayed.err);
    let replay = |letter: &str| format!("TxReplayRequested {letter} shop is back");
    assert_eq!(host.acts(), ["acme/d-3", "default/d-2", "default/d-1"].map(replay));
}

/// Nobody chose what a list names: what was fenced off stays so, as with a filter.
#[test]
fn a_piped_replay_leaves_quarantined_letters_alone() {
    let host = TestHost::shop();
    assert_eq!(ask(&host, &["dead", "quarantine", "d-1", "--note", "ticket 1"]).run().exit, Exit::Done);
    let ids = ask(&host, &["dead", "list", "-o", "ids"]).run();
    assert!(ids.out.contains("d-1\n"), "{}", ids.out);
    let replays =
        || -> Vec<String> { host.acts().into_iter().filter(|act| act.starts_with("TxReplayRequested")).collect() };
    let dry = ask(&host, &["dead", "replay", "-", "--dry-run"]).input(&ids.out).run();
    assert!(!dry.out.contains("d-1"), "{}", dry.out);
    let piped = ask(&host, &["dead", "replay", "-"]).input(&ids.out).run();
    assert_eq!(piped.exit, Exit::Done, "{}", piped.err);
    for told in ["left d-1 alone: it is quarantined", "1 is quarantined and was left alone; --quarantined"] {
        assert!(piped.err.contains(told), "{}", piped.err);
    }
    assert_eq!(replays(), ["TxReplayRequested acme/d-3", "TxReplayRequested default/d-2"]);
    let told = ask(&host, &["dead", "replay", "-", "--quarantined"]).input("d-1\n").run();
    assert_eq!(told.exit, Exit::Done, "{}", told.err);
    assert_eq!(replays().len(), 3, "{:?}", replays());
    let host = TestHost::shop();
    ask(&host, &["dead", "quarantine", "d-1", "--note", "ticket 1"]).run();
    assert_eq!(ask(&host, &["dead", "replay", "d-1"]).run().exit, Exit::Done, "it was named");
    assert!(host.acts().contains(&"TxReplayRequested default/d-1".to_owned()), "{:?}", host.acts());
}

/// Earlier builds took them, and brokers bring them.
#[test]
fn a_payload_that_few_can_read_hides_nothing_of_its_message() {
    let host = TestHost::with(async |host| {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (id, payload) in [("number", "{\"n\":1e999}"), ("half", "\"\\ud800\""), ("deep", deep.as_str())] {
            host.dead(NewMessage { payload: payload.to_owned().into(), ..message(id) }).await;
        }
    });
    for (id, base64) in
        [("number", "base64:eyJuIjoxZTk5OX0="), ("half", "base64:Ilx1ZDgwMCI="), ("deep", "base64:W1tb")]
    {
        for arguments in [["dead", "show", id], ["outbox", "show", id]] {
            let shown = ask(&host, &arguments).run();
            assert_eq!(shown.exit, Exit::Done, "{arguments:?}: {}", shown.err);
            assert!(shown.out.contains(base64), "{}", shown.out);
        }
        let replayed = ask(&host, &["dead", "replay", id]).run();
        assert_eq!(replayed.exit, Exit::Done, "{}", replayed.err);
    }
    let refused = ask(&host, &["send", "--topic", "bus:a", "--payload", "{\"n\":1e999}"]).run();
    assert_eq!(refused.exit, Exit::Usage, "{}", refused.all());
}

#[test]
fn some_done_and_some_not_is_exit_7() {
    let host = TestHost::shop();
    let done = ask(&host, &["dead", "replay", "d-1", "gone", "d-2"]).run();
    assert_eq!(done.exit, Exit::Partly, "{}", done.err);
    assert!(done.err.contains("gone: ") && done.err.contains("2 done, 1 failed"), "{}", done.err);
    assert_eq!(host.acts().len(), 2);
    assert_eq!(ask(&host, &["dead", "replay", "gone", "gone-too"]).run().exit, Exit::NotFound);
    // The second one lies where none is, as somebody was faster.
    let half = TestHost::with(async |host| {
        host.dead(message("d-1")).await;
        host.copy_dead("default", "d-1", 1).await;
    });
    let done = ask(&half, &["dead", "replay", "--filter", "code=HTTP.*", "--yes"]).run();
    assert_eq!(done.exit, Exit::Partly, "{}", done.err);
}

#[test]
fn a_stuck_saga_is_replayed_as_a_message_is() {
    let host = TestHost::with(async |host| {
        for id in ["order-17", "order-18", "order-19", "both"] {
            host.stuck_saga("default", id).await;
        }
        for id in ["d-1", "both"] {
            host.dead(message(id)).await;
        }
    });
    let done =
        ask(&host, &["dead", "replay", "order-17", "--kind", "saga", "--mode", "retry", "--reason", "back"]).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    assert!(done.err.contains("replayed order-17"), "{}", done.err);
    let two = ask(&host, &["dead", "replay", "order-18", "d-1", "--reason", "back"]).run();
    assert_eq!(two.exit, Exit::Done, "{}", two.err);
    let replays: Vec<String> = host.acts().into_iter().filter(|act| act.starts_with("TxReplayRequested")).collect();
    let replay = |id: &str| format!("TxReplayRequested default/{id} back");
    assert_eq!(replays, ["order-17", "order-18", "d-1"].map(replay));
    host.ask(async |host| {
        host.until_saga("default", "order-17", SagaState::Completed).await;
        host.until_saga("default", "order-18", SagaState::Cancelled).await;
    });
    let either = ask(&host, &["dead", "replay", "both"]).run();
    assert_eq!(either.exit, Exit::Conflict);
    assert!(either.err.contains("--kind message or --kind saga"), "{}", either.err);
    let edited = ask(&host, &["dead", "edit", "order-19", "--payload", "1"]).run();
    assert_eq!(edited.exit, Exit::Conflict);
    assert!(edited.err.contains("DEAD.KIND"), "{}", edited.err);
    let purge = ask(&host, &["dead", "purge", "--filter", "kind=saga", "--yes"]).run();
    assert!(purge.exit == Exit::Conflict && purge.err.contains("waybill saga accept"), "{}", purge.err);
    let counted = ask(&host, &["dead", "replay", "--filter", "kind=saga", "--dry-run"]).run();
    assert!(
        counted.out.contains("would replay 2 dead letters") && counted.out.contains("saga:order/reserve"),
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
    let host = TestHost::shop();
    let replay = ["dead", "replay", "--filter", "code=HTTP.*", "--rate", "20", "--reason", "shop is back"];
    let refused = ask(&host, &replay).run();
    assert_eq!(refused.exit, Exit::Usage);
    assert!(refused.err.contains("replay 3 dead letters") && refused.err.contains("--yes"), "{}", refused.err);
    let declined = ask(&host, &replay).interactive().input("n\n").run();
    assert_eq!(declined.exit, Exit::Failed);
    assert!(host.acts().is_empty());
    let done = ask(&host, &replay).interactive().input("y\n").run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let latest = |host: &TestHost| host.ask(async |host| host.outbox.operations(None, 1).await.unwrap().remove(0));
    let operation = latest(&host);
    assert_eq!((operation.kind.as_str(), operation.filter.as_str()), ("replay", "code=HTTP.* state=dead"));
    assert_eq!((operation.rate, operation.reason.as_str(), operation.done), (20, "shop is back", 3));
    let none = ask(&host, &["dead", "replay", "--filter", "code=HTTP.*", "--yes"]).run();
    assert_eq!((none.exit, none.out.as_str()), (Exit::Done, ""), "none is left");
    let host = TestHost::shop();
    snapshot("dead-replay-by-filter", &ask(&host, &["dead", "replay", "--filter", "code=HTTP.*", "--yes"]).run());
    let host = TestHost::shop();
    let purge = ask(&host, &["dead", "purge", "--filter", "", "--yes"]).run();
    assert_eq!(purge.exit, Exit::Done, "{}", purge.err);
    let operation = latest(&host);
    assert_eq!((operation.kind.as_str(), operation.filter.as_str()), ("purge", "id=* kind=message"));
    assert_eq!(host.ask(async |host| host.view("acme", "d-3").await.state), MessageState::Purged);
}

#[test]
fn a_script_is_told_that_nothing_matches_if_it_asks_to_be() {
    let host = TestHost::shop();
    for arguments in [
        &["dead", "list", "--filter", "code=NONE"] as &[&str],
        &["dead", "list", "--filter", "code=NONE", "-o", "ids"],
        &["dead", "replay", "--filter", "code=NONE", "--dry-run"],
        &["dead", "replay", "--filter", "code=NONE", "--yes"],
        &["dead", "replay", "-"],
        &["outbox", "cancel", "--filter", "id=none", "--yes"],
        &["audit", "list", "--id", "none"],
    ] {
        let done = ask(&host, arguments).run();
        assert_eq!(done.exit, Exit::Done, "{arguments:?}: {}", done.err);
        let asked = ask(&host, arguments).arg("--exit-code").run();
        assert_eq!(asked.exit, Exit::NotFound, "{arguments:?}: {}", asked.err);
        assert_eq!(asked.out, done.out, "{arguments:?}");
    }
    let some = ask(&host, &["dead", "list", "--exit-code"]).run();
    assert_eq!(some.exit, Exit::Done, "{}", some.err);
}

#[test]
fn a_bulk_act_of_one_tenant_leaves_the_others_alone() {
    let host = TestHost::shop();
    let done = ask(&host, &["dead", "replay", "--filter", "code=HTTP.*", "--tenant", "other", "--yes"]).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    assert!(done.err.contains("no dead letter matches"), "{}", done.err);
    let done = ask(&host, &["dead", "replay", "--filter", "code=HTTP.*", "--tenant", "acme", "--yes"]).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let operation = host.ask(async |host| host.outbox.operations(None, 1).await.unwrap().remove(0));
    assert_eq!(operation.tenant.as_deref(), Some("acme"));
}

/// The plan first; nothing is applied without a yes, and a conflict is exit 4 whatever else was done.
#[test]
fn provisioning_is_planned_asked_for_and_applied() {
    let host = provisioned();
    let refused = ask(&host, &["transport", "provision", "nats"]).run();
    assert_eq!(refused.exit, Exit::Usage);
    assert!(refused.err.contains("apply 1 change") && refused.err.contains("--yes"), "{}", refused.err);
    let dry = ask(&host, &["transport", "provision", "mixed", "--dry-run"]).run();
    assert_eq!(dry.exit, Exit::Conflict, "{}", dry.err);
    let declined = ask(&host, &["transport", "provision", "nats"]).interactive().input("n\n").run();
    assert_eq!(declined.exit, Exit::Failed);
    assert!(declined.out.contains("stream ORDERS"), "the plan is shown: {}", declined.out);
    assert!(host.acts().is_empty(), "{:?}", host.acts());

    let done = ask(&host, &["transport", "provision", "nats"]).interactive().input("y\n").run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let mixed = ask(&host, &["transport", "provision", "mixed", "--yes", "-o", "json"]).run();
    assert_eq!(mixed.exit, Exit::Conflict, "{}", mixed.err);
    let told: serde_json::Value = serde_json::from_str(&mixed.out).unwrap();
    assert_eq!((&told["applied"], &told["changes"][2]["action"]), (&true.into(), &"conflict".into()));
    assert_eq!(host.acts(), ["TransportProvisioned nats", "TransportProvisioned mixed"]);
    let ids = ask(&host, &["transport", "provision", "nats", "--dry-run", "-o", "ids"]).run();
    assert_eq!(ids.out, "stream EVENTS\nstream ORDERS\n");
    let lines = ask(&host, &["transport", "provision", "nats", "--dry-run", "-o", "jsonl"]).run();
    assert_eq!(lines.out.lines().count(), 2, "{}", lines.out);
}

/// A release is looked at and asked for; a known outcome is forgotten only when that is said.
#[test]
fn a_key_is_released_with_a_yes_and_its_outcome_only_when_told() {
    let host = TestHost::shop();
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
    assert!(!done.out.contains("token"), "a token is its holder's");
    assert_eq!(host.acts(), ["IdempotencyReleased default/order-17 gone", "IdempotencyReleased acme/pay-1"]);
    assert_eq!(ask(&host, &["idempotency", "list", "--filter", "colour=red"]).run().exit, Exit::Usage);
}

#[test]
fn quiet_leaves_only_results_and_errors() {
    let host = TestHost::shop();
    let done = ask(&host, &["-q", "send", "--topic", "bus:a", "--payload", "1"]).run();
    assert_eq!((done.out.lines().count(), done.out.trim().len(), done.err.as_str()), (1, 26, ""));
    let failed = ask(&host, &["-q", "outbox", "show", "gone"]).run();
    assert!(failed.err.contains("OUTBOX.NOT_FOUND"));
}

/// A host with so many messages that wait: `m-00000` and on.
fn waiting(count: usize) -> TestHost {
    TestHost::with(async move |host| {
        host.outbox.pause("bus", "", "ann").await.unwrap();
        let named = |n: usize| NewMessage { topic: "bus:a".to_owned(), ..message(&format!("m-{n:05}")) };
        for from in (0..count).step_by(10_000) {
            let until = count.min(from + 10_000);
            host.outbox.enqueue((from..until).map(named).collect()).await.unwrap();
        }
    })
}

#[test]
fn lists_are_followed_page_by_page_and_cut_loudly() {
    let host = waiting(2_100);
    let all = ask(&host, &["outbox", "list", "--all", "-o", "ids"]).run();
    let expected: String = (0..2_100).map(|n| format!("m-{n:05}\n")).collect();
    assert_eq!((all.out == expected, all.err.as_str()), (true, ""), "{}", all.out.lines().count());
    let cut = ask(&host, &["outbox", "list", "--limit", "3", "-o", "ids"]).run();
    assert_eq!(cut.out, "m-00000\nm-00001\nm-00002\n");
    assert!(cut.err.contains("there are more"), "{}", cut.err);
    let rest = ask(&host, &["outbox", "list", "--all", "-o", "ids", "--cursor", &told_cursor(&cut)]).run();
    assert_eq!((rest.out.lines().next(), rest.out.lines().count()), (Some("m-00003"), 2_097));
    let elsewhere = ask(&host, &["outbox", "list", "--filter", "key=a", "--cursor", &told_cursor(&cut)]).run();
    assert_eq!(elsewhere.exit, Exit::Usage, "{}", elsewhere.err);
    let newest = ask(&host, &["outbox", "list", "--newest", "--limit", "2", "-o", "ids"]).run();
    assert_eq!(newest.out, "m-02099\nm-02098\n");
    let turned = ask(&host, &["outbox", "list", "--newest", "--cursor", &told_cursor(&cut)]).run();
    assert_eq!((turned.exit, turned.err.contains("order")), (Exit::Usage, true), "{}", turned.err);
}

/// A long list of which nothing matches, a bounded read a page.
#[test]
fn a_list_that_is_too_long_to_look_through_says_so() {
    let host = waiting(45_000);
    let rare = ask(&host, &["outbox", "list", "--filter", "id=rare*", "-o", "ids"]).run();
    assert_eq!((rare.exit, rare.out.as_str()), (Exit::Done, ""));
    assert!(rare.err.contains("not all was looked through") && rare.err.contains("--all"), "{}", rare.err);
    let on = ["outbox", "list", "--filter", "id=rare*", "--all", "--cursor", &told_cursor(&rare)];
    let on = ask(&host, &on).run();
    assert_eq!(
        (on.exit, on.out.as_str(), on.err.contains("not all")),
        (Exit::Done, "", false),
        "it went on to the end"
    );
}

/// Where a list that was cut says that it goes on.
fn told_cursor(cut: &Done) -> String {
    let (_, cursor) = cut.err.trim_end().rsplit_once("--cursor ").expect(&cut.err);
    cursor.to_owned()
}
