//! `waybill saga` against a host with the real HTTP API.

use waybill_cli::exit::Exit;
use waybill_core::port::saga::SagaAct;
use waybill_core::saga::state::SagaState;

use crate::host::TestHost;
use crate::support::{Command, Done, waybill};

/// A step that waits for the reply to a message, and so does its compensation.
const STOCK: &str = "[[steps]]\nname = \"s\"\naction = \"bus:stock.reserve\"\ncompensation = \"bus:stock.free\"\n";

fn ask(host: &TestHost, arguments: &[&str]) -> Command {
    waybill(&["saga"]).args(arguments).arg("--url").arg(&host.url)
}

fn snapshot(name: &str, done: &Done) {
    let filters = vec![
        (r"http://127\.0\.0\.1:\d+", "http://HOST"),
        (r"(?m)^  request [0-9A-Za-z-]+$", "  request ID"),
        (r"[^ ]*/order\.", "order."),
        // Digests of definitions, whole and short.
        (r"\b[0-9a-f]{64}\b", "DIGEST"),
        (r"\b(order|shipment|collection)( v| version )(\d+) \([0-9a-f]{12}\)", "$1$2$3 (HASH)"),
        (r"(?m)^(\w+ +\d+ +)[0-9a-f]{12} ", "${1}HASH         "),
    ];
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/sagas", omit_expression => true, filters => filters }, {
        insta::assert_snapshot!(name, done.all());
    });
}

#[test]
fn what_the_commands_write() {
    let host = TestHost::sagas();
    for (name, arguments) in [
        ("definitions", vec!["definitions"]),
        ("definition", vec!["definitions", "order", "--version", "1"]),
        ("definitions-ids", vec!["definitions", "-o", "ids"]),
        ("start", vec!["start", "order", "--input", "{\"order\": 20}", "--id", "order-20", "--deadline", "1h"]),
        ("start-again", vec!["start", "order", "--input", "{\"order\": 20}", "--id", "order-20", "--deadline", "1h"]),
    ] {
        snapshot(name, &ask(&host, &arguments).run());
    }
    let host = TestHost::sagas();
    for (name, arguments) in [
        ("list", vec!["list"]),
        ("list-filter", vec!["list", "--filter", "state=failed"]),
        ("list-ids", vec!["list", "-o", "ids"]),
        ("list-none", vec!["list", "--filter", "definition=none"]),
        ("show-history", vec!["show", "order-18", "--history"]),
        ("show-skipped", vec!["show", "order-16", "--tenant", "acme"]),
        ("show-json", vec!["show", "order-18", "-o", "json"]),
        ("signal", vec!["signal", "order-18", "paid", "--data", "{\"n\": 1.10}"]),
        ("pause", vec!["pause", "order-18", "--reason", "stop"]),
        ("pause-same", vec!["pause", "order-18"]),
        ("pause-json", vec!["pause", "order-18", "-o", "json"]),
        ("reply", vec!["reply", "pick-1", "--step", "reserve"]),
    ] {
        snapshot(name, &ask(&host, &arguments).run());
    }
}

#[test]
fn a_saga_is_drawn_as_a_tree_that_fits_the_terminal() {
    let host = TestHost::sagas();
    for (name, id, columns) in
        [("show-stuck", "order-17", 100), ("show-waiting", "order-18", 100), ("show-narrow", "order-17", 60)]
    {
        let done = ask(&host, &["show", id]).width(columns).run();
        snapshot(name, &done);
        for line in done.out.lines() {
            // A command is pasted: it isn't broken.
            let is_command = line.contains("waybill saga ");
            assert!(is_command || line.chars().count() <= usize::from(columns), "{columns}: {line:?}");
        }
        assert!(!done.out.contains('\u{1b}'), "a stored text draws nothing, and nobody asked for colours");
    }
    let colored = ask(&host, &["show", "order-17"]).width(100).color().run();
    assert!(colored.out.contains("\u{1b}[31mcompensation failed"), "{}", colored.out);
    let piped = ask(&host, &["show", "order-17"]).run();
    assert!(piped.out.contains("whether it was done") || piped.out.contains("error HTTP.STATUS"), "{}", piped.out);
}

#[test]
fn a_definition_is_checked_and_stored_from_files_and_stdin() {
    let host = TestHost::waiting_saga();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let good = file(
        "order.toml",
        "name = \"order\"\nversion = 3\n\n[[steps]]\nname = \"charge\"\naction = \"https://pay.example/charges\"\nidempotent = false\n",
    );
    let bad = file(
        "order.json",
        "{\n  \"name\": \"order\",\n  \"version\": 4,\n  \"steps\": [\n    {\"name\": \"reserve\", \"action\": \"htp://x\"},\n    \
         {\"name\": \"charge\", \"action\": \"https://pay.example/charges\", \"input\": {\"id\": \"${ steps.resrve.output.id }\"}}\n  ]\n}\n",
    );
    snapshot("define-dry-run", &ask(&host, &["define", &good, "--dry-run"]).run());
    assert!(host.acts().is_empty(), "it was only checked");
    snapshot("define", &ask(&host, &["define", &good]).run());
    snapshot("error-definition", &ask(&host, &["define", &bad]).run());
    let json = r#"{"name": "piped", "version": 1, "steps": [{"name": "a", "action": "wait:signal"}]}"#;
    let piped = ask(&host, &["define", "-", "--format", "json", "-o", "ids"]).input(json).run();
    assert_eq!((piped.exit, piped.out.as_str()), (Exit::Done, "piped@1\n"), "{}", piped.err);
    assert_eq!(host.acts(), ["SagaDefined order", "SagaDefined piped"]);
    assert_eq!(ask(&host, &["define", "-"]).run().exit, Exit::Usage, "in which language?");
    assert_eq!(ask(&host, &["define", "gone.toml"]).run().exit, Exit::Failed);
    let below =
        file("below.toml", "name = \"below\"\nversion = 1\n\n[[steps]]\nname = \"a\"\naction = \"wait:signal\"\n");
    let above =
        file("above.toml", "name = \"above\"\nversion = 1\n\n[[steps]]\nname = \"a\"\naction = \"saga:below\"\n");
    let dry = ask(&host, &["define", &below, &above, "--dry-run"]).run();
    assert_eq!(dry.exit, Exit::Done, "a file may name what one before it defines: {}", dry.err);
    let missed = ask(&host, &["define", &above, &below, "--dry-run"]).run();
    assert!(missed.err.contains("isn't there"), "{}", missed.all());
    let both = ask(&host, &["define", &good, &bad]).run();
    assert_eq!(both.exit, Exit::Usage, "{}", both.err);
}

#[test]
fn input_comes_from_the_command_line_a_file_or_stdin_as_it_is() {
    let host = TestHost::definitions();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("input.json");
    std::fs::write(&path, "{\"n\": 12345678901234567890.10}\n").unwrap();
    let file = format!("@{}", path.display());
    for (id, tenant, arguments, stdin, input) in [
        ("a", "default", vec!["--input", "{\"n\": 1.10}", "--header", "a=b"], "", "{\"n\":1.10}"),
        ("b", "default", vec!["--input", &file], "", "{\"n\":12345678901234567890.10}"),
        ("c", "acme", vec!["--input", "-", "--version", "1", "--tenant", "acme"], "[1]", "[1]"),
        ("d", "default", vec![], "", "null"),
    ] {
        let started = ask(&host, &["start", "order", "--id", id]).args(&arguments).input(stdin).run();
        assert_eq!(started.exit, Exit::Done, "{}", started.err);
        let saga = host.ask(async |host| host.saga(tenant, id).await);
        assert_eq!(saga.saga.unwrap().input.get().replace(' ', ""), input, "{id}");
        assert_eq!(saga.version, if id == "c" { 1 } else { 2 });
        let headers = saga.headers.map(|headers| headers.0).unwrap_or_default();
        assert_eq!(headers.len(), usize::from(id == "a"), "{headers:?}");
    }
    let exit = |arguments: &[&str]| ask(&host, arguments).run().exit;
    assert_eq!(exit(&["start", "order", "--input", "{order: 1}"]), Exit::Usage);
    assert_eq!(exit(&["start", "order", "--input", "@gone.json"]), Exit::Failed);
    assert_eq!(exit(&["start", "gone"]), Exit::NotFound);
    let all = ask(&host, &["list", "-o", "ids"]).run();
    assert_eq!(all.out.lines().count(), 4, "nothing else was started: {}", all.out);
}

#[test]
fn every_act_says_what_it_means() {
    let host = TestHost::with(async |host| {
        for id in ["held", "back", "back-too", "gone", "yes", "no", "signalled"] {
            host.waiting_saga("default", id).await;
        }
        host.act("default", "held", SagaAct::Pause).await;
        host.paused_saga("default", "from").await;
        for id in ["again", "forward", "skipped", "accepted"] {
            host.stuck_saga("default", id).await;
        }
        host.define(&format!("name = \"stock\"\nversion = 1\n{STOCK}")).await;
        for id in ["answered", "refused"] {
            host.begin("stock", "default", id).await;
            host.until_waiting("default", id, "reply").await;
        }
    });
    for arguments in [
        vec!["resume", "held"],
        vec!["cancel", "back", "back-too", "--reason", "over"],
        vec!["kill", "gone", "--yes", "--reason", "test data"],
        vec!["retry", "again"],
        vec!["retry", "forward", "--mode", "retry"],
        vec!["retry", "from", "--step", "reserve"],
        vec!["skip", "skipped", "--step", "reserve"],
        vec!["approve", "yes", "--reason", "checked"],
        vec!["reject", "no", "--step", "release"],
        vec!["accept", "accepted", "--reason", "by hand", "--yes"],
        vec!["signal", "signalled", "paid"],
        vec!["reply", "answered", "--step", "s", "--attempt", "1", "--result", "[1]"],
        vec!["reply", "refused", "--step", "s", "--error", "none left", "--code", "stock.none", "--retryable"],
    ] {
        let done = ask(&host, &arguments).run();
        assert_eq!(done.exit, Exit::Done, "{arguments:?}: {}", done.err);
    }
    assert_eq!(
        host.acts(),
        [
            "SagaResumed default/held",
            "SagaCancelled default/back over",
            "SagaCancelled default/back-too over",
            "SagaKilled default/gone test data",
            "SagaRetried default/again",
            "SagaRetried default/forward",
            "SagaRetried default/from",
            "SagaStepSkipped default/skipped",
            "SagaStepApproved default/yes checked",
            "SagaStepRejected default/no",
            "SagaAccepted default/accepted by hand",
            "SagaSignalled default/signalled",
        ]
    );
    host.ask(async |host| {
        for (id, state) in [
            ("back", SagaState::Cancelled),
            ("back-too", SagaState::Cancelled),
            ("gone", SagaState::Failed),
            ("again", SagaState::Cancelled),
            ("forward", SagaState::Completed),
            ("skipped", SagaState::Failed),
            ("yes", SagaState::Completed),
            ("no", SagaState::Cancelled),
            ("accepted", SagaState::Failed),
            ("answered", SagaState::Completed),
        ] {
            host.until_saga("default", id, state).await;
        }
        let output = host.step("default", "answered", "s").await.output.unwrap();
        assert_eq!(output.get(), "[1]");
        let failure = host.step("default", "refused", "s").await.failure.unwrap();
        assert_eq!((failure.code.as_str(), failure.reason.as_str()), ("stock.none", "none left"));
        assert_eq!(host.saga("default", "refused").await.state, SagaState::Running, "it may be tried again");
        assert_eq!(host.saga("default", "signalled").await.saga.unwrap().signals, ["paid"]);
        host.until_waiting("default", "from", "approval").await;
        assert_eq!(host.step("default", "from", "reserve").await.attempts, 2);
    });
}

#[test]
fn a_reply_may_be_about_a_compensation() {
    let host = TestHost::with(async |host| {
        let asks = "[[steps]]\nname = \"release\"\naction = \"wait:approval\"\n";
        host.define(&format!("name = \"stock\"\nversion = 1\n{STOCK}{asks}")).await;
        host.begin("stock", "default", "a").await;
        host.until_waiting("default", "a", "reply").await;
    });
    for (arguments, waits_for) in [(vec!["reply", "a", "--step", "s"], "approval"), (vec!["cancel", "a"], "reply")] {
        let done = ask(&host, &arguments).run();
        assert_eq!(done.exit, Exit::Done, "{arguments:?}: {}", done.err);
        host.ask(async |host| host.until_waiting("default", "a", waits_for).await);
    }
    let undone = ask(&host, &["reply", "a", "--step", "s", "--direction", "compensate", "--attempt", "1"]).run();
    assert_eq!(undone.exit, Exit::Done, "{}", undone.err);
    host.ask(async |host| host.until_saga("default", "a", SagaState::Cancelled).await);
}

#[test]
fn links_for_an_approval_are_told_with_whom_and_until_when_they_serve() {
    let host = TestHost::sagas();
    let done = ask(&host, &["link", "order-18", "--by", "ann"]).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    assert!(done.err.contains("for ann, about step release of order-18, until "), "{}", done.err);
    let lines: Vec<(&str, &str)> = done.out.lines().filter_map(|line| line.split_once(' ')).collect();
    let prefix = "https://waybill.example/v1/approvals/";
    assert_eq!(lines.iter().map(|(decision, _)| *decision).collect::<Vec<_>>(), ["approve", "reject"]);
    assert!(lines.iter().all(|(_, url)| url.trim().starts_with(prefix)), "{}", done.out);
    let json = ask(&host, &["link", "order-18", "--by", "ann", "--step", "release", "-o", "json"]).run();
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["step"], "release");
    for (arguments, code) in [
        (vec!["link", "order-17", "--by", "ann"], "SAGA.STATE"),
        (vec!["link", "order-18", "--by", "ann", "--step", "reserve"], "SAGA.NOT_WAITING"),
        (vec!["link", "order-18", "--by", "ann", "--expires", "1ms"], "SCHEMA.VALIDATION_FAILED"),
        (vec!["link", "gone", "--by", "ann"], "SAGA.NOT_FOUND"),
    ] {
        let refused = ask(&host, &arguments).run();
        assert!(refused.err.contains(code), "{arguments:?}: {}", refused.err);
    }
    assert_eq!(ask(&host, &["link", "order-18"]).run().exit, Exit::Usage, "for whom?");
    assert!(host.acts().is_empty(), "nothing was decided");
}

#[test]
fn killing_asks_first() {
    let host = TestHost::waiting_saga();
    snapshot("kill-without-terminal", &ask(&host, &["kill", "order-18"]).run());
    let no = ask(&host, &["kill", "order-18"]).interactive().input("n\n").run();
    assert_eq!(no.exit, Exit::Failed);
    assert!(no.err.contains("kill saga order-18, with nothing compensated? [y/N]"), "{}", no.err);
    assert!(host.acts().is_empty());
    let yes = ask(&host, &["kill", "order-18"]).interactive().input("y\n").run();
    assert_eq!(yes.exit, Exit::Done, "{}", yes.err);
    assert_eq!(host.acts(), ["SagaKilled default/order-18"]);
}

/// Accepting leaves done what skipping would have undone: the question says what, and how that is had.
#[test]
fn accepting_names_what_stays_done_and_asks_first() {
    let host = TestHost::sagas();
    snapshot("accept-without-terminal", &ask(&host, &["accept", "order-17", "--reason", "by hand"]).run());
    let no = ask(&host, &["accept", "order-17", "--reason", "by hand"]).interactive().input("n\n").run();
    assert_eq!(no.exit, Exit::Failed);
    for told in [
        "order-17: these steps stay done: reserve\n",
        "waybill saga skip order-17 --step charge",
        "accept saga order-17, with nothing more compensated? [y/N]",
    ] {
        assert!(no.err.contains(told), "{}", no.err);
    }
    let piped = ask(&host, &["accept", "-", "--reason", "by hand"]).interactive().input("order-17\n").run();
    assert_eq!(piped.exit, Exit::Usage, "{}", piped.err);
    assert!(host.acts().is_empty());
    let yes = ask(&host, &["accept", "order-17", "--reason", "by hand", "--yes"]).run();
    assert_eq!(yes.exit, Exit::Done, "{}", yes.err);
    assert!(yes.err.contains("these steps stay done: reserve"), "{}", yes.err);
    assert_eq!(host.acts(), ["SagaAccepted default/order-17 by hand"]);
}

#[test]
fn ids_are_piped_with_their_tenants() {
    let host = TestHost::sagas();
    let ids = ask(&host, &["list", "--filter", "definition=order", "-o", "ids"]).run().out;
    let mut told: Vec<&str> = ids.lines().collect();
    told.sort_unstable();
    assert_eq!(told, ["acme\torder-16", "order-17", "order-18", "order-19"]);
    let done = ask(&host, &["pause", "-"]).input(&ids).run();
    assert_eq!(done.exit, Exit::Partly, "{}", done.err);
    assert!(done.err.contains("SAGA.ENDED"), "{}", done.err);
    let mut acts = host.acts();
    acts.sort_unstable();
    assert_eq!(acts, ["SagaPaused default/order-17", "SagaPaused default/order-18"]);
    assert_eq!(ask(&host, &["kill", "-", "--yes"]).input("").run().exit, Exit::Done);
    assert_eq!(ask(&host, &["pause", "gone", "order-19"]).run().exit, Exit::Conflict, "the last one's");
}

#[test]
fn many_are_acted_on_by_filter() {
    let host = TestHost::sagas();
    let dry = ask(&host, &["pause", "--filter", "definition=order", "--dry-run"]).run();
    assert!(dry.out.starts_with("would pause 2 sagas\nthe first of them:\n"), "{}", dry.out);
    assert!(!dry.out.contains("order-16"), "it has ended: {}", dry.out);
    let ids = ask(&host, &["pause", "--filter", "definition=order", "--dry-run", "-o", "ids"]).run();
    let mut told: Vec<&str> = ids.out.lines().collect();
    told.sort_unstable();
    assert_eq!(told, ["order-17", "order-18"]);
    let refused = ask(&host, &["pause", "--filter", "definition=order"]).run();
    assert_eq!(refused.exit, Exit::Usage);
    assert!(refused.err.contains("pause 2 sagas") && refused.err.contains("--yes"), "{}", refused.err);
    let no = ask(&host, &["kill", "--filter", "definition=order"]).interactive().input("n\n").run();
    assert_eq!(no.exit, Exit::Failed);
    assert!(no.err.contains("kill 2 sagas, with nothing compensated (definition=order)? [y/N]"), "{}", no.err);
    assert!(host.acts().is_empty());
    let retry = ["retry", "--filter", "state=failed", "--mode", "compensate", "--yes", "--reason", "back"];
    let done = ask(&host, &retry).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    host.ask(async |host| {
        let operation = host.outbox.operations(None, 1).await.unwrap().remove(0);
        assert_eq!((operation.kind.as_str(), operation.filter.as_str()), ("retry", "state=failed"));
        assert_eq!((operation.matched, operation.done, operation.reason.as_str()), (1, 1, "back"));
        host.until_saga("default", "order-17", SagaState::Cancelled).await;
    });
    let left = ask(&host, &["pause", "--filter", "", "--yes", "--detach", "-o", "ids"]).run();
    let latest = host.ask(async |host| host.outbox.operations(None, 1).await.unwrap().remove(0));
    assert_eq!((left.exit, left.out.trim()), (Exit::Done, latest.id.as_str()), "{}", left.err);
    assert_eq!((latest.kind.as_str(), latest.filter.as_str()), ("pause", "id=*"));
    assert!(left.err.contains("is under way on the host") && !left.err.contains("paused"), "{}", left.err);
    host.ask(async |host| host.until_saga("default", "order-18", SagaState::Paused).await);
    let none = ask(&host, &["cancel", "--filter", "definition=none"]).run();
    assert_eq!(none.exit, Exit::Done);
    assert!(none.err.contains("nothing to do"), "{}", none.err);
    for act in [
        &["cancel", "--filter", "definition=none", "--exit-code"] as &[&str],
        &["cancel", "--filter", "definition=none", "--exit-code", "--dry-run"],
        &["list", "--filter", "definition=none", "--exit-code"],
    ] {
        assert_eq!(ask(&host, act).run().exit, Exit::NotFound, "{act:?}");
    }
    for bad in [
        vec!["pause", "a", "--filter", "id=a"],
        vec!["pause", "a", "--dry-run"],
        vec!["kill", "a", "--dry-run"],
        vec!["pause", "a", "--rate", "5"],
        vec!["pause", "a", "--detach"],
        vec!["skip", "--filter", "id=a"],
    ] {
        assert_eq!(ask(&host, &bad).run().exit, Exit::Usage, "{bad:?}");
    }
}

#[test]
fn what_was_refused_is_counted_and_told_with_why() {
    let host = TestHost::sagas();
    // Only the stuck one can be accepted.
    let done = ask(&host, &["accept", "--filter", "definition=order", "--reason", "by hand", "--yes"]).run();
    assert_eq!(done.exit, Exit::Partly, "{}", done.err);
    for line in ["matched", "done", "unchanged", "refused"] {
        assert!(done.out.contains(line), "{}", done.out);
    }
    assert!(done.err.contains("SAGA.STATE: 1 refused, e.g. order-18: saga order-18 is running"), "{}", done.err);
    let json = ["accept", "--filter", "id=order-18", "--reason", "by hand", "--yes", "-o", "json"];
    let none = ask(&host, &json).run();
    assert_eq!(none.exit, Exit::Conflict, "{}", none.err);
    let told: serde_json::Value = serde_json::from_str(&none.out).unwrap();
    assert_eq!((&told["matched"], &told["done"], &told["refused"]), (&1.into(), &0.into(), &1.into()));
    assert_eq!((&told["refusals"][0]["code"], &told["refusals"][0]["count"]), (&"SAGA.STATE".into(), &1.into()));
}

#[test]
fn following_ends_with_the_saga_and_its_exit_code() {
    let host = TestHost::sagas();
    let completed = ask(&host, &["show", "order-16", "--tenant", "acme", "--follow"]).run();
    assert_eq!(completed.exit, Exit::Done, "{}", completed.err);
    snapshot("follow-cancelled", &ask(&host, &["show", "order-19", "--follow"]).run());
    let stuck = ask(&host, &["show", "order-17", "--follow"]).run();
    assert_eq!(stuck.exit, Exit::Failed);
    assert!(stuck.err.contains("saga order-17 is failed and waits for an operator"), "{}", stuck.err);
    let events = host.ask(async |host| host.saga("default", "order-19").await.history.unwrap().len());
    let lines = ask(&host, &["show", "order-19", "--follow", "-o", "jsonl"]).run();
    assert_eq!(
        (lines.exit, lines.out.lines().count()),
        (Exit::Failed, events + 1),
        "each event and the whole: {}",
        lines.out
    );
    snapshot(
        "start-follow",
        &ask(&host, &["start", "shipment", "--id", "ship-1", "--tenant", "acme", "--follow"]).run(),
    );
}

#[test]
fn errors_are_told_with_code_why_and_fix() {
    let host = TestHost::sagas();
    for (name, arguments) in [
        ("error-not-found", vec!["show", "gone"]),
        ("error-other-tenant", vec!["show", "order-17", "--tenant", "acme"]),
        ("error-no-definition", vec!["start", "gone"]),
        ("error-not-root", vec!["pause", "order-17~ship"]),
        ("error-ended", vec!["resume", "order-16", "--tenant", "acme"]),
        ("error-filter", vec!["list", "--filter", "state=happy"]),
        ("error-input", vec!["start", "order", "--input", "{order: 1}"]),
    ] {
        snapshot(name, &ask(&host, &arguments).run());
    }
    for arguments in [vec!["skip", "a"], vec!["accept", "a"], vec!["pause"], vec!["reply", "a"], vec!["define"]] {
        assert_eq!(ask(&host, &arguments).run().exit, Exit::Usage, "{arguments:?}");
    }
}

#[test]
fn what_answers_but_is_no_host_passes_for_none() {
    let url = crate::commands::any_json();
    for arguments in [
        vec!["show", "a"],
        vec!["list"],
        vec!["definitions"],
        vec!["definitions", "order"],
        vec!["start", "order"],
        vec!["pause", "a"],
        vec!["signal", "a", "b"],
        vec!["link", "a", "--by", "ann"],
    ] {
        let done = waybill(&["saga"]).args(&arguments).arg("--url").arg(&url).run();
        assert_eq!((done.exit, done.out.as_str()), (Exit::Failed, ""), "{arguments:?}: {}", done.err);
        assert!(done.err.contains("CLIENT.ANSWER"), "{arguments:?}: {}", done.err);
    }
}
