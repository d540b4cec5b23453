//! `waybill send` against a host with the real HTTP API.

use waybill_cli::exit::Exit;
use waybill_core::annotation::Annotation;

use crate::host::TestHost;
use crate::support::{Command, waybill};

fn ask(host: &TestHost, arguments: &[&str]) -> Command {
    waybill(arguments).arg("--url").arg(&host.url)
}

#[test]
fn a_send_under_a_key_is_done_once() {
    let host = TestHost::empty();
    let send = ["send", "--topic", "bus:a", "--payload", "1", "--idempotency-key", "order-17"];
    let first = ask(&host, &send).run();
    assert_eq!(first.exit, Exit::Done, "{}", first.err);
    let again = ask(&host, &send).run();
    assert_eq!((again.exit, &again.out), (Exit::Done, &first.out), "{}", again.err);
    let keys = ask(&host, &["idempotency", "list", "-o", "ids"]).run();
    assert_eq!(keys.out, "order-17\n");
    let other = ask(&host, &send).args(&["--key", "k"]).run();
    assert!(other.err.contains("TX.IDEMPOTENT_MISMATCH"), "another message under the same key: {}", other.err);
    let unusable = ask(&host, &["send", "--topic", "bus:a", "--payload", "1", "--idempotency-key", ""]).run();
    assert_eq!(unusable.exit, Exit::Usage);
    assert!(unusable.err.contains("TX.IDEMPOTENCY_KEY"), "{}", unusable.err);
    let without = ask(&host, &send[..5]).run();
    assert_eq!(without.exit, Exit::Done);
    assert_ne!(without.out, first.out);
}

#[test]
fn lines_are_sent_in_order_with_their_bytes() {
    let host = TestHost::empty();
    let send = ["send", "--topic", "bus:default", "--key", "k", "--header", "source=test", "-"];
    let last = "{\"routing_key\":\"b\",\"payload\":3,\"id\":\"again\"}\n";
    assert_eq!(ask(&host, &send).input(last).run().exit, Exit::Done);
    let lines = format!(
        "{{\"topic\":\"bus:a\",\"payload\":{{\"z\": 1.10,\"a\":12345678901234567890123}}}}\n\n{{\"payload\":2,\"key\":\"mine\"}}\n{last}"
    );
    let done = ask(&host, &send).input(&lines).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let ids: Vec<&str> = done.out.lines().collect();
    let [first, second, "again"] = ids[..] else { panic!("{}", done.out) };
    assert!(done.err.contains("2 messages committed, 1 was there before"), "{}", done.err);
    for (id, topic, payload, key) in [
        (first, "bus:a", "{\"z\": 1.10,\"a\":12345678901234567890123}", "k"),
        (second, "bus:default", "2", "mine"),
        ("again", "bus:b", "3", "k"),
    ] {
        let sent = host.ask(async |host| host.view("default", id).await);
        assert_eq!((sent.topic.as_str(), sent.key.as_deref()), (topic, Some(key)));
        assert_eq!(sent.payload.as_ref().map(|payload| payload.get()), Some(payload));
        assert_eq!(sent.headers.0, [("source".to_owned(), "test".to_owned())]);
    }
    let seqs = [first, second].map(|id| host.ask(async |host| host.view("default", id).await.seq));
    assert!(seqs[0] < seqs[1], "in the order of the lines");
}

#[test]
fn many_lines_go_in_groups_and_a_bad_one_is_named() {
    let host = TestHost::empty();
    let lines: String = (0..1201).map(|n| format!("{{\"topic\":\"bus:a\",\"payload\":{n}}}\n")).collect();
    let done = ask(&host, &["send", "-", "-o", "jsonl"]).input(&lines).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    assert_eq!(done.out.lines().count(), 3);
    let sent = || host.ask(async |host| host.bus.until_sent(1201).await.sent.len());
    assert_eq!(sent(), 1201);
    let bad = ask(&host, &["send", "-"]).input("{\"topic\":\"bus:a\",\"payload\":1}\nnot json\n").run();
    assert_eq!(bad.exit, Exit::Usage);
    assert!(bad.err.contains("stdin:2"), "{}", bad.err);
    assert_eq!(sent(), 1201, "nothing of the group is sent");
}

#[test]
fn a_line_that_stops_a_list_is_named_and_what_went_before_is_told() {
    let host = TestHost::empty();
    let good = "{\"topic\":\"bus:a\",\"payload\":1}\n";
    let bad = "{\"topic\":\"custom:nowhere\",\"payload\":2}\n";
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
    let host = TestHost::empty();
    let send = ["send", "--topic", "bus:a", "--payload", "1", "--id", "again"];
    assert_eq!(ask(&host, &send).run().exit, Exit::Done);
    for format in ["json", "jsonl"] {
        let done = ask(&host, &send).args(&["-o", format]).run();
        assert_eq!(done.exit, Exit::Done, "{}", done.err);
        assert_eq!(done.err, "nothing new: 1 message was there before\n");
        let told: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(told, serde_json::json!({ "ids": ["again"], "duplicates": ["again"] }));
    }
}

#[test]
fn a_file_is_sent_raw_as_one_payload() {
    let host = TestHost::empty();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("logo.png");
    std::fs::write(&file, [0, 159, 146, 150]).unwrap();
    let arguments =
        ["send", "--topic", "bus:files", "--raw", "--content-type", "image/png", "--file", file.to_str().unwrap()];
    let done = ask(&host, &arguments).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let sent = host.ask(async |host| host.view("default", done.out.trim()).await);
    assert_eq!(sent.bytes.as_deref(), Some([0, 159, 146, 150].as_slice()));
    assert_eq!(sent.annotations.get(Annotation::ContentType), Some("image/png"));
}
