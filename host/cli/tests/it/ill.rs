//! `waybill status` while the host is ill: that is when it is looked at.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};
use waybill_cli::exit::Exit;

use crate::support::waybill;

/// What a host with a full disk answers, by path: status and body.
fn full_disk(path: &str) -> (u16, Value) {
    let list = |items: Value| (200, json!({ "items": items, "next_cursor": null }));
    let full = json!({
        "type": "/errors/STORAGE.DISK_FULL", "title": "The disk is full", "status": 507, "code": "STORAGE.DISK_FULL",
        "detail": "24 MB are needed", "request_id": "r-1", "retryable": true,
    });
    match path {
        "/readyz" => {
            let checks = json!([
                { "name": "outbox", "status": "fail", "detail": "STORAGE.DISK_FULL: the host goes on by itself" },
                { "name": "durability", "status": "ok", "detail": "every commit is on disk" },
            ]);
            (503, json!({ "status": "fail", "checks": checks }))
        }
        "/v1/outbox/stats" => list(json!([{
            "tenant": "default", "transport": "http", "ready": 3, "leased": 0, "parked": 2, "scheduled": 0, "dead": 0,
            "oldest_ready_ms": 61_000,
        }])),
        "/v1/transports" => list(json!([{
            "name": "http", "state": "ready", "breaker": "closed", "in_flight": 0, "lanes": 1, "health_detail": "",
        }])),
        "/v1/outbox/blocked" | "/v1/plugins" | "/v1/relays" => list(json!([])),
        _ => (507, full),
    }
}

/// A host that answers each path as told; it ends with the test's process.
pub fn host(answers: fn(&str) -> (u16, Value)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |stream: TcpStream| -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let request = lines.next().transpose()?.unwrap_or_default();
        for line in lines {
            if line?.is_empty() {
                break;
            }
        }
        let path = request.split([' ', '?']).nth(1).unwrap_or_default();
        let (status, body) = answers(path);
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        (&stream).write_all((head + &body).as_bytes())
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that is gone takes nothing.
            let _gone = answer(stream);
        }
    });
    url
}

#[test]
fn a_part_that_an_ill_host_cannot_tell_costs_a_line() {
    let url = host(full_disk);
    let done = waybill(&["status", "--url", &url]).run();
    assert_eq!(done.exit, Exit::Failed, "{}", done.all());
    for told in [
        "outbox: STORAGE.DISK_FULL: the host goes on by itself",
        "stuck sagas: STORAGE.DISK_FULL: 24 MB are needed",
        "inbox: STORAGE.DISK_FULL",
        "5 (2 for a retry)",
        "1m1s",
        "closed",
    ] {
        assert!(done.out.contains(told), "{told}: {}", done.all());
    }
    assert_eq!(done.err, "error: 1 of 2 checks failed\n");
    let json = waybill(&["status", "-o", "json", "--url", &url]).run();
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["stuck_sagas"], Value::Null, "nobody knows it");
    assert_eq!(
        (&json["unknown"][0]["part"], &json["unknown"][0]["code"]),
        (&"stuck sagas".into(), &"STORAGE.DISK_FULL".into())
    );
    assert_eq!(json["checks"].as_array().unwrap().len(), 2);
}

/// A host that is ready and can't tell a part isn't well.
#[test]
fn a_part_that_is_not_known_is_a_failure_of_its_own() {
    let url = host(|path| match path {
        "/readyz" => (200, json!({ "status": "ok", "checks": [] })),
        "/v1/outbox/blocked" => full_disk("/v1/dead-letters"),
        "/v1/dead-letters" => (200, json!({ "items": [], "next_cursor": null, "count": 0 })),
        "/v1/inbox/stats" | "/v1/events/stats" => (200, Value::Null),
        path => full_disk(path),
    });
    let done = waybill(&["status", "--url", &url]).run();
    assert_eq!(done.exit, Exit::Failed, "{}", done.all());
    assert_eq!(done.err, "error: the host couldn't tell 1 part of its status\n");
    assert!(done.out.contains("ready") && done.out.contains("what is held back: STORAGE.DISK_FULL"), "{}", done.out);
}
