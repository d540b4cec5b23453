//! `waybill saga` against a host with the real HTTP API.

use waybill_cli::exit::Exit;

use crate::fake_host::{FakeHost, Mood};
use crate::support::{Command, Done, waybill};

fn ask(host: &FakeHost, arguments: &[&str]) -> Command {
    waybill(&["saga"]).args(arguments).arg("--url").arg(&host.url)
}

fn snapshot(name: &str, done: &Done) {
    let filters = vec![
        (r"http://127\.0\.0\.1:\d+", "http://HOST"),
        (r"(?m)^  request [0-9A-Za-z-]+$", "  request ID"),
        (r"[^ ]*/order\.", "order."),
    ];
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/sagas", omit_expression => true, filters => filters }, {
        insta::assert_snapshot!(name, done.all());
    });
}

#[test]
fn what_the_commands_write() {
    let host = FakeHost::start(Mood::default());
    for (name, arguments) in [
        ("definitions", vec!["definitions"]),
        ("definition", vec!["definitions", "order"]),
        ("definitions-ids", vec!["definitions", "-o", "ids"]),
        ("start", vec!["start", "order", "--input", "{\"order\": 17}", "--id", "order-17", "--deadline", "1h"]),
        ("start-again", vec!["start", "order", "--id", "again"]),
        ("list", vec!["list"]),
        ("list-filter", vec!["list", "--filter", "state=failed"]),
        ("list-ids", vec!["list", "-o", "ids"]),
        ("list-none", vec!["list", "--filter", "definition=none"]),
        ("show-history", vec!["show", "order-18", "--history"]),
        ("show-skipped", vec!["show", "order-16", "--tenant", "acme"]),
        ("show-json", vec!["show", "order-18", "-o", "json"]),
        ("pause", vec!["pause", "order-17", "--reason", "stop"]),
        ("pause-same", vec!["pause", "same"]),
        ("pause-json", vec!["pause", "order-17", "-o", "json"]),
        ("signal", vec!["signal", "order-18", "paid", "--data", "{\"n\": 1.10}"]),
        ("reply", vec!["reply", "order-18", "--step", "reserve"]),
    ] {
        snapshot(name, &ask(&host, &arguments).run());
    }
}

#[test]
fn a_saga_is_drawn_as_a_tree_that_fits_the_terminal() {
    let host = FakeHost::start(Mood::default());
    for (name, id, columns) in
        [("show-stuck", "order-17", 100), ("show-waiting", "order-18", 100), ("show-narrow", "order-17", 60)]
    {
        let done = ask(&host, &["show", id]).width(columns).run();
        snapshot(name, &done);
        for line in done.out.lines() {
            assert!(line.chars().count() <= usize::from(columns), "{columns}: {line:?}");
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
    let host = FakeHost::start(Mood::default());
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (good, bad) = (file("order.toml", "name = \"order\"\n"), file("order.json", "{\"action\": \"htp://x\"}"));
    snapshot("define", &ask(&host, &["define", &good]).run());
    snapshot("define-dry-run", &ask(&host, &["define", &good, "--dry-run"]).run());
    snapshot("error-definition", &ask(&host, &["define", &bad]).run());
    let piped = ask(&host, &["define", "-", "--format", "json", "-o", "ids"]).input("{}").run();
    assert_eq!((piped.exit, piped.out.as_str()), (Exit::Done, "order@2\n"), "{}", piped.err);
    assert_eq!(host.acts(), ["define Toml false 15", "define Toml true 15", "define Json false 2"]);
    assert_eq!(ask(&host, &["define", "-"]).run().exit, Exit::Usage, "in which language?");
    assert_eq!(ask(&host, &["define", "gone.toml"]).run().exit, Exit::Failed);
    let both = ask(&host, &["define", &good, &bad]).run();
    assert_eq!(both.exit, Exit::Usage, "{}", both.err);
}

#[test]
fn input_comes_from_the_command_line_a_file_or_stdin_as_it_is() {
    let host = FakeHost::start(Mood::default());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("input.json");
    std::fs::write(&path, "{\"n\": 12345678901234567890.10}\n").unwrap();
    let exit = |arguments: &[&str], input: &str| ask(&host, arguments).input(input).run().exit;
    assert_eq!(exit(&["start", "order", "--input", "{\"n\": 1.10}", "--header", "a=b"], ""), Exit::Done);
    assert_eq!(exit(&["start", "order", "--input", &format!("@{}", path.display())], ""), Exit::Done);
    assert_eq!(exit(&["start", "order", "--input", "-", "--version", "2", "--tenant", "acme"], "[1]"), Exit::Done);
    assert_eq!(exit(&["start", "order"], ""), Exit::Done);
    assert_eq!(exit(&["start", "order", "--input", "{order: 1}"], ""), Exit::Usage);
    assert_eq!(exit(&["start", "order", "--input", "@gone.json"], ""), Exit::Failed);
    assert_eq!(exit(&["start", "gone"], ""), Exit::NotFound);
    assert_eq!(
        host.acts(),
        [
            "start default order None {\"n\": 1.10} None [(\"a\", \"b\")]",
            "start default order None {\"n\": 12345678901234567890.10} None []",
            "start acme order Some(2) [1] None []",
            "start default order None null None []",
        ]
    );
}

#[test]
fn every_act_says_what_it_means() {
    let host = FakeHost::start(Mood::default());
    for arguments in [
        vec!["resume", "a"],
        vec!["cancel", "a", "b", "--reason", "over"],
        vec!["kill", "a", "--yes", "--reason", "test data"],
        vec!["retry", "a"],
        vec!["retry", "a", "--mode", "retry"],
        vec!["retry", "a", "--step", "charge"],
        vec!["skip", "a", "--step", "charge"],
        vec!["approve", "a", "--reason", "checked"],
        vec!["reject", "a", "--step", "release"],
        vec!["accept", "a", "--reason", "by hand"],
        vec!["signal", "a~b", "paid"],
        vec!["reply", "a", "--step", "s", "--direction", "compensate", "--attempt", "2", "--result", "[1]"],
        vec!["reply", "a", "--step", "s", "--error", "none left", "--code", "stock.none", "--retryable"],
    ] {
        let done = ask(&host, &arguments).run();
        assert_eq!(done.exit, Exit::Done, "{arguments:?}: {}", done.err);
    }
    assert_eq!(
        host.acts(),
        [
            "Resume None default/a",
            "Cancel Some(\"over\") default/a",
            "Cancel Some(\"over\") default/b",
            "Kill Some(\"test data\") default/a",
            "Retry { step: None, mode: Compensate } None default/a",
            "Retry { step: None, mode: Retry } None default/a",
            "Retry { step: Some(\"charge\"), mode: Compensate } None default/a",
            "Skip { step: \"charge\" } None default/a",
            "Approve { step: None, since: None } Some(\"checked\") default/a",
            "Reject { step: Some(\"release\"), since: None } None default/a",
            "Accept Some(\"by hand\") default/a",
            "signal paid null default/a~b",
            "reply s Compensate Some(2) Ok([1]) default/a",
            "reply s Execute None Err(ReplyFailure { failure: Failure { code: \"stock.none\", reason: \"none left\", \
             maybe_done: false }, retryable: true }) default/a",
        ]
    );
}

#[test]
fn links_for_an_approval_are_told_with_whom_and_until_when_they_serve() {
    let host = FakeHost::start(Mood::default());
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
    let host = FakeHost::start(Mood::default());
    snapshot("kill-without-terminal", &ask(&host, &["kill", "order-17"]).run());
    let no = ask(&host, &["kill", "order-17"]).interactive().input("n\n").run();
    assert_eq!(no.exit, Exit::Failed);
    assert!(no.err.contains("kill saga order-17, with nothing compensated? [y/N]"), "{}", no.err);
    assert!(host.acts().is_empty());
    let yes = ask(&host, &["kill", "order-17"]).interactive().input("y\n").run();
    assert_eq!(yes.exit, Exit::Done, "{}", yes.err);
    assert_eq!(host.acts(), ["Kill None default/order-17"]);
}

#[test]
fn ids_are_piped_with_their_tenants() {
    let host = FakeHost::start(Mood::default());
    let ids = ask(&host, &["list", "-o", "ids"]).run().out;
    assert_eq!(ids, "order-18\norder-17\nacme\torder-16\n");
    let done = ask(&host, &["pause", "-"]).input(&ids).run();
    assert_eq!(done.exit, Exit::Partly, "{}", done.err);
    assert!(done.err.contains("SAGA.ENDED"), "{}", done.err);
    assert_eq!(host.acts(), ["Pause None default/order-18", "Pause None default/order-17"]);
    assert_eq!(ask(&host, &["kill", "-", "--yes"]).input("").run().exit, Exit::Done);
    assert_eq!(ask(&host, &["pause", "gone", "order-16"]).run().exit, Exit::Conflict, "the last one's");
}

#[test]
fn many_are_acted_on_by_filter() {
    let host = FakeHost::start(Mood::default());
    let dry = ask(&host, &["pause", "--filter", "definition=order", "--dry-run"]).run();
    assert!(dry.out.starts_with("would pause 2 sagas\nthe first of them:\n"), "{}", dry.out);
    assert!(!dry.out.contains("order-16"), "it has ended: {}", dry.out);
    let ids = ask(&host, &["pause", "--filter", "definition=order", "--dry-run", "-o", "ids"]).run();
    assert_eq!(ids.out, "order-18\norder-17\n");
    let refused = ask(&host, &["pause", "--filter", "definition=order"]).run();
    assert_eq!(refused.exit, Exit::Usage);
    assert!(refused.err.contains("pause 2 sagas") && refused.err.contains("--yes"), "{}", refused.err);
    let no = ask(&host, &["kill", "--filter", "definition=order"]).interactive().input("n\n").run();
    assert_eq!(no.exit, Exit::Failed);
    assert!(no.err.contains("kill 2 sagas, with nothing compensated (definition=order)? [y/N]"), "{}", no.err);
    assert!(host.acts().is_empty());
    let done = ask(&host, &["retry", "--filter", "state=failed", "--mode", "retry", "--yes", "--reason", "back"]).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let acts = host.acts();
    assert_eq!(
        acts[..2],
        ["operation retry state=failed None back", "Retry { step: None, mode: Retry } Some(\"back\") default/order-17"]
    );
    assert!(
        acts[2..].iter().all(|act| act.starts_with("look at ")),
        "the host does it, and is asked how it goes: {acts:?}"
    );
    let left = ask(&host, &["pause", "--filter", "", "--yes", "--detach", "-o", "ids"]).run();
    assert_eq!((left.exit, left.out.as_str()), (Exit::Done, "01JD0000000000000000000001\n"), "{}", left.err);
    assert!(left.err.contains("is under way on the host") && !left.err.contains("paused"), "{}", left.err);
    assert!(host.acts().contains(&"operation pause id=* None ".to_owned()), "{:?}", host.acts());
    let none = ask(&host, &["cancel", "--filter", "definition=none"]).run();
    assert_eq!(none.exit, Exit::Done);
    assert!(none.err.contains("nothing to do"), "{}", none.err);
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
    let host = FakeHost::start(Mood::default());
    // The note makes the fake refuse that one.
    let done = ask(&host, &["accept", "--filter", "definition=order", "--reason", "refuse order-18", "--yes"]).run();
    assert_eq!(done.exit, Exit::Partly, "{}", done.err);
    for line in ["matched", "done", "unchanged", "refused"] {
        assert!(done.out.contains(line), "{}", done.out);
    }
    assert!(done.err.contains("SAGA.STATE: 1 refused, e.g. order-18: saga order-18 is running"), "{}", done.err);
    let json = ["accept", "--filter", "id=order-18", "--reason", "refuse order-18", "--yes", "-o", "json"];
    let none = ask(&host, &json).run();
    assert_eq!(none.exit, Exit::Conflict, "{}", none.err);
    let told: serde_json::Value = serde_json::from_str(&none.out).unwrap();
    assert_eq!((&told["matched"], &told["done"], &told["refused"]), (&1.into(), &0.into(), &1.into()));
    assert_eq!((&told["refusals"][0]["code"], &told["refusals"][0]["count"]), (&"SAGA.STATE".into(), &1.into()));
}

#[test]
fn following_ends_with_the_saga_and_its_exit_code() {
    let host = FakeHost::start(Mood::default());
    let completed = ask(&host, &["show", "order-16", "--tenant", "acme", "--follow"]).run();
    assert_eq!(completed.exit, Exit::Done, "{}", completed.err);
    snapshot("follow-cancelled", &ask(&host, &["show", "order-19", "--follow"]).run());
    snapshot("start-follow", &ask(&host, &["start", "order", "--tenant", "acme", "--follow"]).run());
    let stuck = ask(&host, &["show", "order-17", "--follow"]).run();
    assert_eq!(stuck.exit, Exit::Failed);
    assert!(stuck.err.contains("saga order-17 is failed and waits for an operator"), "{}", stuck.err);
    let lines = ask(&host, &["show", "order-19", "--follow", "-o", "jsonl"]).run();
    assert_eq!((lines.exit, lines.out.lines().count()), (Exit::Failed, 4), "three events and the whole: {}", lines.out);
}

#[test]
fn errors_are_told_with_code_why_and_fix() {
    let host = FakeHost::start(Mood::default());
    for (name, arguments) in [
        ("error-not-found", vec!["show", "gone"]),
        ("error-other-tenant", vec!["show", "order-17", "--tenant", "acme"]),
        ("error-no-definition", vec!["start", "gone"]),
        ("error-not-root", vec!["pause", "order-17~ship"]),
        ("error-ended", vec!["resume", "order-16"]),
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
