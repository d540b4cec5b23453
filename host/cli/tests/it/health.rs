//! `waybill health`: one question, one line, and 0 or 1.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread::JoinHandle;

use serde_json::{Value, json};
use waybill_cli::exit::Exit;

use crate::host::TestHost;
use crate::ill::host;
use crate::support::{Command, Done, waybill};

/// What a host answers that lives and can't work.
fn draining(path: &str) -> (u16, Value) {
    let checks = json!([
        { "name": "outbox", "status": "ok", "detail": "" },
        { "name": "server", "status": "fail", "detail": "the host is draining" },
        { "name": "inbox", "status": "fail", "detail": "" },
        { "name": "clock", "status": "warn", "detail": "it jumped" },
    ]);
    match path {
        "/livez" => (200, json!({ "status": "ok" })),
        "/readyz" => (503, json!({ "status": "fail", "checks": checks })),
        _ => (404, json!({})),
    }
}

fn well(done: &Done, line: &str) {
    assert_eq!((done.exit, done.out.as_str(), done.err.as_str()), (Exit::Done, format!("{line}\n").as_str(), ""));
}

/// One line says it, on stderr.
fn unwell(done: &Done) -> String {
    assert_eq!((done.exit, done.out.as_str(), done.err.lines().count()), (Exit::Failed, "", 1), "{}", done.all());
    done.err.clone()
}

#[test]
fn who_lives_is_well_and_ready_only_if_it_can_work() {
    let url = host(draining);
    well(&waybill(&["health", "--url", &url]).run(), &format!("ok: {url}/livez"));
    well(&waybill(&["health"]).env("WAYBILL_URL", &url).run(), &format!("ok: {url}/livez"));
    well(&waybill(&["health", "-o", "ids", "--url", &url]).run(), &url);
    let said = unwell(&waybill(&["health", "--ready", "--url", &url]).run());
    assert_eq!(said, format!("error: fail: {url}/readyz: server: the host is draining; inbox\n"));
    let json = waybill(&["health", "--ready", "-o", "json", "--url", &url]).run();
    assert_eq!((json.exit, json.out.lines().count()), (Exit::Failed, 1), "{}", json.all());
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["status"], json["checks"].as_array().unwrap().len()), (&"fail".into(), 4));
}

#[test]
fn a_warning_is_said_and_fails_nothing() {
    let url = host(|_| {
        let checks = json!([
            { "name": "outbox", "status": "ok", "detail": "" },
            { "name": "dead letters", "status": "warn", "detail": "100 wait\u{1b}[31m" },
        ]);
        (200, json!({ "status": "warn", "checks": checks }))
    });
    let done = waybill(&["health", "--ready", "--url", &url]).run();
    assert_eq!(done.exit, Exit::Done, "{}", done.all());
    assert!(done.out.starts_with(&format!("warn: {url}/readyz: dead letters: 100 wait")), "{}", done.out);
    assert!(done.out.lines().count() == 1 && !done.out.contains('\u{1b}'), "{:?}", done.out);
}

#[test]
fn a_host_that_refuses_lives() {
    let url = host(|_| {
        let detail = "4096 connections are open";
        (
            503,
            json!({ "type": "/errors/HTTP.OVERLOADED", "title": "x", "status": 503, "code": "HTTP.OVERLOADED", "detail": detail }),
        )
    });
    well(&waybill(&["health", "--url", &url]).run(), &format!("ok: {url}/livez: HTTP.OVERLOADED"));
    assert!(unwell(&waybill(&["health", "--ready", "--url", &url]).run()).contains("HTTP.OVERLOADED"));
}

#[test]
fn nobody_and_strangers_are_unwell_in_one_line() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = unwell(&waybill(&["health", "--url", &format!("http://{closed}")]).run());
    assert!(said.contains("CLIENT.UNREACHABLE") && said.contains("; fix "), "{said}");
    for stranger in [host(|_| (200, json!({ "hello": 1 }))), host(|_| (404, json!("none")))] {
        assert!(unwell(&waybill(&["health", "--url", &stranger]).run()).contains("CLIENT.ANSWER"));
    }
    assert!(unwell(&waybill(&["health", "--url", "nonsense"]).run()).contains("CLIENT.URL"));
    assert_eq!(waybill(&["health", "--redy"]).run().exit, Exit::Usage);
}

/// A server that answers one request, and what it was asked.
fn overheard() -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
        let head: Vec<String> = lines.collect();
        let answer = "HTTP/1.1 200 X\r\ncontent-length: 15\r\nconnection: close\r\n\r\n{\"status\":\"ok\"}";
        (&stream).write_all(answer.as_bytes()).unwrap();
        head.join("\n")
    });
    (url, asked)
}

#[test]
fn no_token_is_needed_and_none_is_sent() {
    let locked = TestHost::locked();
    well(&waybill(&["health", "--url", &locked.url]).run(), &format!("ok: {}/livez", locked.url));
    assert_eq!(waybill(&["health", "--ready", "--url", &locked.url]).run().exit, Exit::Done);
    let (url, asked) = overheard();
    well(
        &waybill(&["health", "--url", &url]).env("WAYBILL_TOKEN", "sesame-sesame-sesame").run(),
        &format!("ok: {url}/livez"),
    );
    let head = asked.join().unwrap();
    assert!(head.starts_with("GET /livez HTTP/1.1\n") && !head.contains("sesame"), "{head}");
}

/// The command with a configuration of these lines.
fn configured(dir: &Path, text: &str) -> Command {
    let file = dir.join("waybill.toml");
    std::fs::write(&file, text).unwrap();
    waybill(&["health", "--config", file.to_str().unwrap()])
}

#[test]
fn without_an_address_it_is_where_the_configuration_listens() {
    let dir = tempfile::tempdir().unwrap();
    let url = host(draining);
    let port = url.rsplit(':').next().unwrap();
    let listens = |address: &str| format!("[server]\nlisten = \"{address}:{port}\"\n");
    well(&configured(dir.path(), &listens("127.0.0.1")).run(), &format!("ok: {url}/livez"));
    // All addresses are asked by one of this machine, and what others may reach needs tokens to start, not to be asked.
    for all in ["0.0.0.0", "[::]"] {
        well(&configured(dir.path(), &listens(all)).run(), &format!("ok: http://localhost:{port}/livez"));
    }
    let elsewhere = configured(dir.path(), &listens("127.0.0.1")).env("WAYBILL_SERVER_LISTEN", "127.0.0.1:1").run();
    assert!(unwell(&elsewhere).contains("http://127.0.0.1:1:"), "{}", elsewhere.err);
    let file = dir.path().join("waybill.toml").display().to_string();
    well(&waybill(&["health"]).env("WAYBILL_CONFIG", &file).run(), &format!("ok: {url}/livez"));
}

/// A host goes on with what it has read when its file is made wrong: it mustn't be killed for it.
#[test]
fn a_configuration_that_was_made_wrong_since_is_no_illness() {
    let dir = tempfile::tempdir().unwrap();
    let url = host(draining);
    let address = url.strip_prefix("http://").unwrap();
    let wrong = format!("[server]\nlisten = \"{address}\"\n[outbox]\nbatsh = \"many\"\n[nonsense]\n");
    well(&configured(dir.path(), &wrong).run(), &format!("ok: {url}/livez"));
    let broken = || configured(dir.path(), "[server\nlisten =");
    well(&broken().env("WAYBILL_SERVER_LISTEN", address).run(), &format!("ok: {url}/livez"));
    let said = unwell(&broken().env("WAYBILL_SERVER_LISTEN", "127.0.0.1:1").run());
    assert!(said.contains("CLIENT.UNREACHABLE") && said.contains("CONFIG.SYNTAX"), "{said}");
}
