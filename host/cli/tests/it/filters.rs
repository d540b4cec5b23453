//! Filters match what is shown and what was typed; acts on messages that wait, by id and by filter.

use std::time::Duration;

use waybill_cli::exit::Exit;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::{Fault, Outcome};
use waybill_testkit::memory_host::message;

use crate::host::TestHost;
use crate::support::{Command, waybill};

const HOUR: Duration = Duration::from_secs(3_600);

fn ask(host: &TestHost, arguments: &[&str]) -> Command {
    waybill(arguments).arg("--url").arg(&host.url)
}

/// Ids of what a list takes by a filter.
fn found(host: &TestHost, list: [&str; 2], filter: &str) -> Vec<String> {
    let done = ask(host, &[list[0], list[1], "--filter", filter, "--all", "-o", "ids"]).run();
    assert_eq!(done.exit, Exit::Done, "{filter}: {}", done.err);
    let mut ids: Vec<String> = done.out.lines().map(str::to_owned).collect();
    ids.sort();
    ids
}

/// A dead letter as in the table: `HTTP.422: http://127.0.0.1:17810 answered 422`.
fn refused() -> TestHost {
    TestHost::with(async |host| {
        let refusal = || Outcome::Permanent(Fault::new("HTTP.422", "http://127.0.0.1:17810 answered 422"));
        host.sent(NewMessage { topic: "http://shop.example/refuse".into(), ..message("d-1") }, [refusal()]).await;
        host.dead(message("d-2")).await;
    })
}

#[test]
fn a_dead_letter_is_found_by_what_is_shown_and_by_what_was_typed() {
    let host = refused();
    for filter in [
        "topic=http://shop.example/refuse",
        "topic=http:http://shop.example/refuse",
        "topic=http://shop.example/ref*",
        "error=*422*",
        "error=HTTP.422*",
        "error=\"http://127.0.0.1:17810 answered 422\"",
        "error=\"HTTP.422: http://127.0.0.1:17810 answered 422\"",
        "error='http://127.0.0.1:17810 answered #'",
        "code=HTTP.422 since=2000-01-01",
    ] {
        assert_eq!(found(&host, ["dead", "list"], filter), ["d-1"], "{filter}");
    }
    assert_eq!(found(&host, ["dead", "list"], "until=2000-01-01"), [""; 0]);
    let table = ask(&host, &["dead", "list", "--filter", "id=d-1"]).run();
    assert!(table.out.contains(" http://shop.example/refuse ") && !table.out.contains("http:http"), "{}", table.out);
    let words = ask(&host, &["dead", "list", "--filter", "error=http://127.0.0.1:17810 answered 422"]).run();
    assert_eq!(words.exit, Exit::Usage);
    assert!(words.err.contains("a value with spaces stands in quotes"), "{}", words.err);
}

#[test]
fn a_filter_that_takes_nothing_says_which_condition_it_was_and_what_there_is() {
    let host = refused();
    for (filter, told) in [
        (
            "code=HTTP.42",
            vec!["no dead letter matches: code=HTTP.42\n", "nothing has code=HTTP.42; there is HTTP.422, HTTP.400\n"],
        ),
        ("tenant=acme code=HTTP.422", vec!["nothing has tenant=acme; there is default\n"]),
        ("id=d-2 code=HTTP.422", vec!["each condition takes some by itself, and nothing meets all of them\n"]),
        ("key=17", vec!["nothing has key=17\n"]),
    ] {
        let done = ask(&host, &["dead", "list", "--filter", filter]).run();
        assert_eq!((done.exit, done.out.as_str()), (Exit::Done, ""), "{filter}: {}", done.err);
        for told in told {
            assert!(done.err.contains(told), "{filter}: {}", done.err);
        }
    }
    let empty = ask(&TestHost::empty(), &["outbox", "list", "--filter", "id=x"]).run();
    assert_eq!(empty.err, "no message matches: id=x\nnothing has id=x\n");
}

/// What waits for its time: `s-1`, `s-2`; for a retry: `r-1`; a delivered one: `m-1`.
fn waiting() -> TestHost {
    TestHost::with(async |host| {
        host.delivered(message("m-1")).await;
        host.parked(message("r-1")).await;
        for id in ["s-1", "s-2"] {
            host.scheduled(message(id), HOUR).await;
        }
    })
}

fn state(host: &TestHost, id: &'static str) -> MessageState {
    host.ask(async move |host| host.view("default", id).await.state)
}

#[test]
fn what_a_message_waits_for_is_a_condition() {
    let host = waiting();
    for (filter, ids) in [
        ("waits=schedule", vec!["s-1", "s-2"]),
        ("waiting=retry", vec!["r-1"]),
        ("waits=* state=pending", vec!["r-1", "s-1", "s-2"]),
        ("waits=key", vec![]),
        ("waits=schedule id=s-2", vec!["s-2"]),
    ] {
        assert_eq!(found(&host, ["outbox", "list"], filter), ids, "{filter}");
    }
    let scheduled = ask(&host, &["outbox", "list", "--filter", "state=scheduled"]).run();
    assert!(scheduled.exit == Exit::Usage && scheduled.err.contains("write waits=schedule"), "{}", scheduled.err);
}

#[test]
fn messages_are_taken_back_by_ids_and_by_a_filter() {
    let host = waiting();
    let dry = ask(&host, &["outbox", "cancel", "s-1", "r-1", "--dry-run"]).run();
    assert_eq!(dry.out, "would cancel s-1 (pending)\nwould cancel r-1 (pending)\n", "{}", dry.err);
    assert!(host.acts().is_empty());
    let some = ask(&host, &["outbox", "cancel", "s-1", "m-1", "--reason", "by mistake"]).run();
    assert_eq!(some.exit, Exit::Partly, "{}", some.err);
    assert_eq!(host.acts(), ["MessageCancelled default/s-1 by mistake"]);
    let host = waiting();
    let piped = ask(&host, &["outbox", "cancel", "-"]).input("s-1\ns-2\n").run();
    assert_eq!((piped.exit, state(&host, "s-2")), (Exit::Done, MessageState::Cancelled), "{}", piped.err);

    let host = waiting();
    let by_filter = ["outbox", "cancel", "--filter", "waits=schedule", "--rate", "50", "--reason", "by mistake"];
    let counted = ask(&host, &by_filter).arg("--dry-run").run();
    assert!(counted.out.starts_with("would cancel 2 messages\n") && host.acts().is_empty(), "{}", counted.all());
    let refused = ask(&host, &by_filter).run();
    assert!(refused.exit == Exit::Usage && refused.err.contains("cancel 2 messages"), "{}", refused.err);
    let done = ask(&host, &by_filter).arg("--yes").run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let operation = host.ask(async |host| host.outbox.operations(None, 1).await.unwrap().remove(0));
    assert_eq!((operation.kind.as_str(), operation.rate), ("cancel_messages", 50));
    assert_eq!((operation.matched, operation.done, operation.failed), (2, 2, 0));
    let states = ["m-1", "r-1", "s-1", "s-2"].map(|id| state(&host, id));
    let cancelled = MessageState::Cancelled;
    assert_eq!(states, [MessageState::Done, MessageState::Pending, cancelled, cancelled]);
    let acts = host.acts();
    for id in ["s-1", "s-2"] {
        assert!(acts.contains(&format!("MessageCancelled default/{id} by mistake")), "{acts:?}");
    }
    let none = ask(&host, &by_filter).arg("--yes").run();
    assert!(none.exit == Exit::Done && none.err.contains("no message that waits matches"), "{}", none.err);
    let sent = ask(&host, &["outbox", "cancel", "--filter", "state=done", "--yes"]).run();
    assert!(sent.exit == Exit::Usage && sent.err.contains("only messages that wait"), "{}", sent.err);
}

#[test]
fn messages_are_moved_by_ids_and_by_a_filter() {
    let host = waiting();
    let at = "2030-01-01T00:00:00Z";
    let done = ask(&host, &["outbox", "reschedule", "s-1", "r-1", "--at", at, "--reason", "shop is away"]).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let moved = ["MessageRescheduled default/s-1 shop is away", "MessageRescheduled default/r-1 shop is away"];
    assert_eq!(host.acts(), moved);
    let host = waiting();
    let done =
        ask(&host, &["outbox", "reschedule", "--filter", "topic=http://shop.example/*", "--at", at, "--yes"]).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    for id in ["r-1", "s-1", "s-2"] {
        let due = host.ask(async move |host| host.view("default", id).await.not_before);
        assert_eq!(due.map(|due| due.0.to_string()).as_deref(), Some("2030-01-01T00:00:00.000Z"), "{id}");
    }
    let operation = host.ask(async |host| host.outbox.operations(None, 1).await.unwrap().remove(0));
    assert_eq!((operation.kind.as_str(), operation.matched, operation.done), ("reschedule_messages", 3, 3));
    // All of them are there already.
    let again = ask(&host, &["outbox", "reschedule", "--filter", "", "--at", at, "--yes"]).run();
    assert!(again.err.contains("nothing to do"), "{}", again.err);
}

#[test]
fn the_audit_trail_is_read_by_who_what_and_when() {
    let host = waiting();
    ask(&host, &["outbox", "cancel", "s-1"]).run();
    ask(&host, &["transport", "pause", "http", "--reason", "it is being moved"]).run();
    assert_eq!(host.acts()[1], "TransportPaused http it is being moved");
    let objects = |filter: &str| {
        let done = ask(&host, &["audit", "list", "--filter", filter, "-o", "ids"]).run();
        assert_eq!(done.exit, Exit::Done, "{filter}: {}", done.err);
        done.out
    };
    assert_eq!(objects("kind=Message*"), "s-1\n");
    assert_eq!(objects("actor=local object=http since=2000-01-01"), "http\n");
    assert_eq!(objects("kind=Message* until=2000-01-01"), "");
    assert_eq!(objects("actor=nobody"), "");
    let wrong = ask(&host, &["audit", "list", "--filter", "who=ann"]).run();
    assert!(wrong.exit == Exit::Usage && wrong.err.contains("actor, kind, object"), "{}", wrong.err);
}

#[test]
fn a_name_that_urls_lose_is_not_asked_for() {
    let host = TestHost::empty();
    for id in [".", ".."] {
        let shown = ask(&host, &["outbox", "show", id]).run();
        assert_eq!(shown.exit, Exit::Usage);
        assert!(
            shown.err.contains("CLIENT.URL") && shown.err.contains(&format!("--filter 'id={id}'")),
            "{}",
            shown.err
        );
        let sent = ask(&host, &["send", "--topic", "bus:a", "--payload", "1", "--id", id]).run();
        assert!(sent.exit == Exit::Usage && sent.err.contains("taken out of every URL"), "{}", sent.err);
    }
}
