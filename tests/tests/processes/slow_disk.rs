//! A disk that stalls for seconds: every few syncs of the real host are held up by `strace`.
//!
//! The host waits, sends nothing past its own lease, and goes on: what was acknowledged arrives once and in order, nobody takes
//! the shard over, and `/readyz` says what is slow.

// Elsewhere a sync can't be held up from outside.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use waybill_testkit::api::Api;
use waybill_testkit::process::{Host, Launch, binary};
use waybill_testkit::receiver::{Answer, Delivered, Receiver};

/// Far longer than all the stalls together: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a sync is held up, in microseconds: longer than the owner's TTL.
const STALL_US: u32 = 2_500_000;
/// Clients, and the messages that each sends one after the other, with a key of its own.
const CLIENTS: usize = 4;
const MESSAGES: usize = 5;

/// A program that runs `binary` with every third sync of a thread held up. The process is the host's own, the tracer a
/// grandchild.
fn runner(binary: &Path, dir: &Path) -> PathBuf {
    let log = dir.join("strace.log");
    let script = format!(
        "#!/bin/sh\nexec strace -D -f -qq -o '{}' -e trace=fsync,fdatasync \
         -e inject=fsync,fdatasync:delay_enter={STALL_US}:when=3+3 '{}' \"$@\"\n",
        log.display(),
        binary.display()
    );
    let at = dir.join("run");
    super::script::write(&at, &script);
    at
}

/// Asks `/readyz` until it is told to stop; every status of the check of the outbox that it saw.
async fn watch_readiness(api: Api, mut stop: tokio::sync::oneshot::Receiver<()>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    while stop.try_recv().is_err() {
        let reply = api.get("/readyz", &[]).await.expect("a host that waits for its disk answers all the same");
        let checks = reply.body["checks"].as_array().cloned().unwrap_or_default();
        let outbox = checks.iter().find(|check| check["name"] == "outbox").expect("the outbox is checked");
        let (status, detail) = (outbox["status"].as_str().unwrap(), outbox["detail"].as_str().unwrap());
        assert_eq!(reply.status, 200, "a slow disk is no reason to send callers away: {detail}");
        assert!(status == "ok" || detail.contains("slow"), "{status}: {detail}");
        seen.insert(status.to_owned());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn syncs_that_stall_for_seconds_delay_and_do_nothing_else() {
    let traced = std::process::Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    assert!(
        traced.is_ok_and(|status| status.success()),
        "this test needs strace, and the right to trace: `cargo xtask test` says how to get it"
    );
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(|_: &Delivered| Answer::status(200)).await.unwrap();
    let config =
        format!("[store]\nurl = \"surrealkv://{}\"\n[outbox]\nowner_ttl = \"2s\"\n", dir.path().join("data").display());
    let launch = Launch::prepare(runner(&binary().unwrap(), dir.path()), dir.path(), &config).unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();
    let (done, stop) = tokio::sync::oneshot::channel();
    let readiness = tokio::spawn(watch_readiness(api.clone(), stop));

    let clients = (0..CLIENTS).map(|client| {
        let (api, topic) = (api.clone(), receiver.url("orders"));
        tokio::spawn(async move {
            for number in 0..MESSAGES {
                let body = json!({ "topic": topic, "id": format!("{client}-{number}"), "key": format!("k{client}"), "payload": number });
                let reply = api.post("/v1/messages", &body).await.expect("a slow disk is waited for");
                assert!(reply.is_ok(), "{reply:?}");
            }
        })
    });
    futures::future::try_join_all(clients).await.unwrap();

    let all = async {
        while receiver.arrivals().len() < CLIENTS * MESSAGES {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("everything that was acknowledged arrives");
    let settled = async {
        while api.depths().await.unwrap().iter().any(|depth| depth.on_the_way() > 0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.expect("everything is settled");
    done.send(()).unwrap();
    let statuses = readiness.await.unwrap();

    let log = fs::read_to_string(dir.path().join("strace.log")).unwrap();
    let stalls = log.lines().filter(|line| line.contains("DELAYED")).count();
    assert!(stalls >= 3, "{stalls} syncs were held up");
    assert!(statuses.contains("warn"), "{stalls} stalls, and /readyz only said {statuses:?}");
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals.len(), CLIENTS * MESSAGES, "something arrived twice");
    let mut latest: BTreeMap<String, usize> = BTreeMap::new();
    for arrival in &arrivals {
        let (client, number) = arrival.delivered.id.split_once('-').unwrap();
        let number: usize = number.parse().unwrap();
        let before = latest.insert(client.to_owned(), number);
        assert_eq!(number, before.map_or(0, |before| before + 1), "client {client} out of order");
        assert_eq!((arrival.delivered.attempt, arrival.delivered.epoch), (1, arrivals[0].delivered.epoch));
    }
    let metrics = api.get("/metrics", &[]).await.unwrap().body;
    let takeovers: Vec<&str> =
        metrics.as_str().unwrap().lines().filter(|line| line.starts_with("waybill_takeovers_total")).collect();
    assert!(takeovers.iter().all(|line| line.ends_with(" 1")), "{takeovers:?}");
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}
