//! `waybill stream` and `waybill relay` against a host with the real HTTP API.

use std::sync::Arc;

use serde_json::{Value, json};
use waybill_cli::exit::Exit;
use waybill_core::port::service::streams::{StreamError, SubscriptionEnd};
use waybill_core::streams::event::{Body, Op};
use waybill_testkit::fake_streams::{FakeStreams, piece};

use crate::host::TestHost;
use crate::support::{Command, waybill};

fn streaming() -> (TestHost, Arc<FakeStreams>) {
    let streams = Arc::new(FakeStreams::listing(vec![vec!["task"]]));
    (TestHost::streaming(streams.clone()), streams)
}

fn ask(host: &TestHost, arguments: &[&str]) -> Command {
    waybill(arguments).arg("--url").arg(&host.url)
}

/// The cells of the first line that begins with this.
fn line(text: &str, start: &str) -> Vec<String> {
    let found = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start:?} in {text}"));
    found.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn streams_are_listed_and_shown() {
    let (host, _) = streaming();
    let table = ask(&host, &["stream", "list"]).run();
    assert_eq!(table.exit, Exit::Done, "{table:?}");
    assert_eq!(line(&table.out, "task")[..4], ["task", "default", "3", "5"]);
    assert_eq!(ask(&host, &["stream", "list", "--prefix", "ta", "-o", "ids"]).run().out, "task\n");
    let none = ask(&host, &["stream", "list", "--prefix", "x"]).run();
    assert!(none.out.is_empty() && none.err.contains("there is no stream"), "{none:?}");
    let shown = ask(&host, &["stream", "show", "task"]).run();
    assert!(shown.out.contains("relay bus") && shown.out.contains("up to 4"), "{shown:?}");
    let json: Value = serde_json::from_str(&ask(&host, &["stream", "show", "task", "-o", "json"]).run().out).unwrap();
    assert_eq!((&json["shard"], &json["settings"]), (&json!(3), &json!("task.**")));
    let gone = ask(&host, &["stream", "show", "gone", "--tenant", "acme"]).run();
    assert!(gone.exit == Exit::NotFound && gone.err.contains("acme"), "{gone:?}");
}

#[test]
fn the_screen_of_the_host_tells_how_streams_readers_and_relays_do() {
    let (host, _) = streaming();
    let status = ask(&host, &["status"]).run();
    for words in [
        "1 stream of tenant default: 3 events kept, 900 bytes in all since they began",
        "2 appends wait, 3 appends of transactions lie on the doorstep, the oldest for 5s; this host numbers 4 of 16 shards",
        "7 of 7,500 there may be, 30 KiB held for them, 1 lagged",
        "1 of 1 behind, 1,234 events aren't sent, the oldest for 1m30s",
    ] {
        assert!(status.out.contains(words), "{words}: {status:?}");
    }
    let json: Value = serde_json::from_str(&ask(&host, &["status", "-o", "json"]).run().out).unwrap();
    assert_eq!((&json["streams"]["host"]["door_age_ms"], &json["relays"][0]["name"]), (&json!(5_000), &json!("bus")));
}

#[test]
fn a_host_without_event_streams_says_nothing_of_them() {
    let host = TestHost::shop();
    let status = ask(&host, &["status"]).run();
    assert!(!status.out.contains("streams") && !status.out.contains("relays"), "{status:?}");
    let json: Value = serde_json::from_str(&ask(&host, &["status", "-o", "json"]).run().out).unwrap();
    assert_eq!((&json["streams"], &json["relays"]), (&Value::Null, &json!([])));
}

#[test]
fn an_event_is_appended_from_flags_and_many_from_a_file() {
    let (host, streams) = streaming();
    let one = ["stream", "append", "task", "--resource", "TASK/a/b", "--op", "CREATE", "--data", "{\"a\": 1}"];
    let done = ask(&host, &one).run();
    assert!(done.exit == Exit::Done && done.err.contains("1 event is appended, number 6"), "{done:?}");
    assert_eq!(streams.calls(), ["append default/task 1 None"]);
    let first = streams.appended().remove(0);
    assert_eq!((first.resource_id.as_str(), first.op), ("a/b", Op::CREATE));
    assert_eq!(first.body, Body::Bytes(r#"{"a": 1}"#.into()));
    let event = r#"{"resource_type":"TASK","resource_id":"t","op":"DELETE","schema_version":1}"#;
    let lines = format!("{event}\n\n{event}\n");
    let many = ["stream", "append", "task", "--file", "-", "--tenant", "acme", "-o", "ids"];
    assert_eq!(ask(&host, &many).input(&lines).run().out, "made-0\nmade-1\n");
    assert_eq!(streams.calls(), ["append acme/task 2 None"]);
    let last = streams.appended().remove(1);
    assert_eq!((last.resource_id.as_str(), last.op, last.body), ("t", Op::DELETE, Body::None));
    let bad = ask(&host, &many).input(&format!("{event}\nnonsense\n")).run();
    assert!(bad.exit == Exit::Usage && bad.err.contains("stdin:2"), "{bad:?}");
    assert!(streams.calls().is_empty());
    let elsewhere = ask(&host, &["stream", "append", "task", "--resource", "TASK/a", "--expected-seq", "4"]).run();
    assert!(elsewhere.exit == Exit::Conflict && elsewhere.err.contains("ends at 5"), "{elsewhere:?}");
    assert_eq!(ask(&host, &["stream", "append", "task", "--resource", "TASK"]).run().exit, Exit::Usage);
    assert_eq!(ask(&host, &["stream", "append", "task"]).run().exit, Exit::Usage);
}

#[test]
fn what_is_stored_is_read_page_by_page() {
    let (host, streams) = streaming();
    let all = ask(&host, &["stream", "read", "task", "-o", "ids"]).run();
    assert_eq!(all.out, "e-3\ne-4\ne-5\n", "{all:?}");
    assert_eq!(streams.calls(), ["read_stream default/task None 50", r#"read_stream default/task Some("4~5") 48"#]);
    let two = ask(&host, &["stream", "read", "task", "--limit", "2"]).run();
    assert!(two.err.contains("--after 4~5") && line(&two.out, "task")[..2] == ["task", "3"], "{two:?}");
    let after = ask(&host, &["stream", "read", "task", "--after", "4~5", "--all", "-o", "jsonl"]).run();
    let event: Value = serde_json::from_str(&after.out).unwrap();
    assert_eq!((&event["seq"], &event["payload_bytes"]), (&json!("5"), &json!("ewp9")));
    streams.calls();
    ask(&host, &["stream", "read", "--prefix", "t"]).run();
    ask(&host, &["stream", "read", "--resource", "TASK/t-1", "--tenant", "acme"]).run();
    let calls = streams.calls();
    assert!(calls[0].starts_with(r#"read_many default Prefix("t") None"#), "{calls:?}");
    assert!(calls[1].starts_with("read_many acme OneResource") && calls[1].contains("t-1"), "{calls:?}");
    for wrong in [&["stream", "read"] as &[&str], &["stream", "read", "a", "--prefix", "b"]] {
        assert_eq!(ask(&host, wrong).run().exit, Exit::Usage, "{wrong:?}");
    }
}

#[test]
fn a_tail_that_lagged_goes_on_behind_the_last_event() {
    let (host, streams) = streaming();
    streams.plays([Ok(vec![piece("default", "task", 3)]), Err(SubscriptionEnd::Lagged)]);
    streams.plays([Ok(vec![piece("default", "task", 4)])]);
    let tail = ask(&host, &["stream", "tail", "task", "--limit", "2"]).run();
    assert_eq!(tail.exit, Exit::Done, "{tail:?}");
    let seqs: Vec<&str> = tail.out.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(seqs, ["3", "4"]);
    assert!(tail.err.contains("watch lagged; resync required") && tail.err.contains("--cursor 3"), "{tail:?}");
    let calls = streams.calls();
    assert!(calls[0].ends_with("Earliest") && calls[1].ends_with(r#"Cursor("3")"#), "{calls:?}");
}

#[test]
fn a_tail_ends_where_events_are_gone() {
    let (host, streams) = streaming();
    let expired = SubscriptionEnd::Failed(StreamError::Expired.into());
    streams.plays([Ok(vec![piece("default", "task", 8)]), Err(expired)]);
    let tail = ask(&host, &["stream", "tail", "--prefix", "t", "--cursor", "7", "-o", "jsonl"]).run();
    assert!(tail.exit == Exit::Failed && tail.err.contains("EVENT.CURSOR_EXPIRED"), "{tail:?}");
    assert_eq!(serde_json::from_str::<Value>(&tail.out).unwrap()["seq"], "8");
    assert_eq!(streams.calls(), [r#"subscribe default Many(Prefix("t")) Cursor("7")"#]);
    assert_eq!(ask(&host, &["stream", "tail", "a b"]).run().exit, Exit::Usage);
}

#[test]
fn what_is_taken_away_is_told_before() {
    let (host, streams) = streaming();
    let plan = ask(&host, &["stream", "purge", "task", "--before", "5", "--dry-run"]).run();
    assert!(plan.exit == Exit::Done && plan.err.contains("2 events would go"), "{plan:?}");
    assert_eq!(ask(&host, &["stream", "delete", "task"]).run().exit, Exit::Usage, "there is nobody to ask");
    assert_eq!(
        streams.calls(),
        ["purge default/task Some(5) plan true [] local", "delete default/task plan true [] local"]
    );
    let gone = ask(&host, &["stream", "delete", "task", "--yes", "--reason", "over", "--tenant", "acme"]).run();
    assert!(gone.exit == Exit::Done && gone.err.contains("3 events went"), "{gone:?}");
    ask(&host, &["stream", "purge", "task", "--yes"]).run();
    assert_eq!(
        streams.calls(),
        ["delete acme/task plan false [over] local", "purge default/task None plan false [] local"]
    );
    assert_eq!(ask(&host, &["stream", "purge", "gone", "--yes"]).run().exit, Exit::NotFound);
}

#[test]
fn a_file_is_imported_stream_by_stream_with_its_numbers() {
    let (host, streams) = streaming();
    let event = |stream: &str, seq: u64| {
        json!({"event_id": format!("{stream}-{seq}"), "ts_ms": 1_700_000_000_123_u64, "stream": stream, "seq": seq,
            "resource_type": "TASK", "resource_id": "t", "op": "CREATE", "schema_version": 1})
        .to_string()
    };
    let mixed = [event("a", 1), event("b", 1), event("a", 2)].join("\n");
    let plan = ask(&host, &["stream", "import", "-", "--dry-run"]).input(&mixed).run();
    assert!(plan.err.contains("3 events are in it") && streams.calls().is_empty(), "{plan:?}");
    let done = ask(&host, &["stream", "import", "-", "--reason", "old", "-o", "ids"]).input(&mixed).run();
    assert_eq!((done.exit, done.out.as_str()), (Exit::Done, "a\nb\n"), "{done:?}");
    assert_eq!(streams.calls(), ["import default/a [1, 2] [old] local", "import default/b [1] [old] local"]);
    let falling = [event("a", 2), event("a", 2)].join("\n");
    for (lines, words) in
        [(falling, "where 3 comes next"), (event("a", 0), "where 1 comes next"), ("{}".to_owned(), "stdin:1")]
    {
        let bad = ask(&host, &["stream", "import", "-"]).input(&lines).run();
        assert!(bad.exit == Exit::Usage && bad.err.contains(words), "{bad:?}");
    }
    assert!(streams.calls().is_empty());
    let holes = [event("a", 3), event("a", 7)].join("\n");
    let later = ask(&host, &["stream", "import", "-"]).input(&holes).run();
    assert_eq!(later.exit, Exit::Done, "one that broke off goes on, and what was compacted is left out: {later:?}");
    assert!(later.err.contains("a: compaction took events between these"), "{later:?}");
    assert!(!done.err.contains("compaction"), "{done:?}");
    assert_eq!(streams.calls(), ["import default/a [3, 7] [] local"]);
}

#[test]
fn relays_are_listed_shown_paused_resumed_and_sent_elsewhere() {
    let (host, streams) = streaming();
    let list = ask(&host, &["relay", "list"]).run();
    assert!(list.out.contains("1,234") && line(&list.out, "bus")[..3] == ["bus", "running", "task.**"], "{list:?}");
    assert_eq!(ask(&host, &["relay", "list", "-o", "ids"]).run().out, "bus\n");
    let shown = ask(&host, &["relay", "show", "bus"]).run();
    assert_eq!(line(&shown.out, "task"), ["task", "acme", "4", "5", "1"]);
    assert_eq!(ask(&host, &["relay", "show", "gone"]).run().exit, Exit::NotFound);
    let paused = ask(&host, &["relay", "pause", "bus", "--reason", "it moves"]).run();
    assert!(paused.err.contains("bus is paused") && paused.out.contains("paused"), "{paused:?}");
    ask(&host, &["relay", "resume", "bus"]).run();
    let seek = ask(&host, &["relay", "seek", "bus", "task", "--after", "2"]).run();
    assert!(seek.err.contains("bus goes on in task behind 2"), "{seek:?}");
    ask(&host, &["relay", "seek", "bus", "task", "--to", "latest", "--tenant", "acme", "--reason", "skip"]).run();
    assert_eq!(
        streams.calls(),
        [
            "pause_relay bus [it moves] local",
            "resume_relay bus [] local",
            "seek_relay bus default/task After(2) [] local",
            "seek_relay bus acme/task Latest [skip] local",
        ]
    );
    assert_eq!(ask(&host, &["relay", "seek", "bus", "task"]).run().exit, Exit::Usage);
}

#[test]
fn what_a_relay_never_had_and_what_its_broker_refused_are_listed() {
    let (host, streams) = streaming();
    let ranges = ask(&host, &["relay", "overtaken", "bus", "--limit", "7"]).run();
    assert_eq!(line(&ranges.out, "task")[..4], ["task", "acme", "1", "3"]);
    ask(&host, &["relay", "overtaken", "bus", "--tenant", "acme"]).run();
    assert_eq!(streams.calls(), ["overtaken bus of all None 7", "overtaken bus of acme None 50"]);
    let dead = ask(&host, &["relay", "dead", "bus"]).run();
    assert!(dead.exit == Exit::Done && dead.err.contains("no dead letter matches"), "{dead:?}");
    assert_eq!(ask(&host, &["relay", "dead"]).run().exit, Exit::Usage);
}
