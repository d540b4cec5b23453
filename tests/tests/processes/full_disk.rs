//! A disk that is really full: a small tmpfs, in a namespace of its own so that no rights are needed to mount it.
//!
//! What was acknowledged arrives, what can't be taken is told so (507), the host goes on by itself when there is room
//! again, and one that was killed with its disk full finds everything again.

// Elsewhere a small disk can't be had without rights.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use waybill_testkit::api::Api;
use waybill_testkit::process::{Disk, Host, Launch, binary};
use waybill_testkit::receiver::{Answer, Delivered, Receiver};

/// Room for the store and its write buffers several times over; little enough to fill at once.
const DISK_BYTES: usize = 96 * 1024 * 1024;
/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);
/// Size of one payload; a commit doesn't fit into what a filled disk has left over.
const PAYLOAD_BYTES: usize = 48 * 1024;

/// A program that runs the binary where the disk is.
fn runner(disk: &Disk, binary: &Path, at: PathBuf) -> PathBuf {
    let enter = disk.enter().unwrap().join(" ");
    super::script::write(&at, &format!("#!/bin/sh\nexec {enter} '{}' \"$@\"\n", binary.display()));
    at
}

/// A client that remembers what it was promised.
struct Client {
    topic: String,
    next: usize,
    acknowledged: BTreeSet<String>,
}

impl Client {
    /// One message with its business row. Status and code of the answer.
    async fn send(&mut self, api: &Api) -> (u16, Option<String>) {
        let id = format!("m{:04}", self.next);
        self.next += 1;
        let body = json!({
            "statements": [{ "query": "CREATE type::record('paid', $id)", "bindings": { "id": id } }],
            "messages": [{ "id": id, "topic": self.topic, "payload": "x".repeat(PAYLOAD_BYTES) }],
        });
        let reply = api.post("/v1/transactions", &body).await.expect("the host answers whatever the disk does");
        if reply.is_ok() {
            self.acknowledged.insert(id);
        }
        (reply.status, reply.code().map(str::to_owned))
    }

    /// Sends until the host says that the disk is full; it may say nothing else.
    async fn send_until_full(&mut self, api: &Api) {
        for _ in 0..2 * DISK_BYTES / PAYLOAD_BYTES {
            let (status, code) = self.send(api).await;
            // On a busy machine it may be open for so long that it has to give way when the write buffer is full.
            if code.as_deref() == Some("STORAGE.CONFLICT") {
                continue;
            }
            if status != 200 && status != 202 && status != 201 {
                assert_eq!((status, code.as_deref()), (507, Some("STORAGE.DISK_FULL")));
                return;
            }
        }
        panic!("the disk was never full");
    }

    /// Sends until the host takes messages again.
    async fn send_until_taken(&mut self, api: &Api) {
        let before = self.acknowledged.len();
        let again = async {
            while self.acknowledged.len() == before {
                self.send(api).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, again).await.expect("the host takes messages when there is room again");
    }
}

async fn everything_arrives(receiver: &Receiver, client: &Client) {
    let arrived =
        || -> BTreeSet<String> { receiver.arrivals().into_iter().map(|arrival| arrival.delivered.id).collect() };
    let all = async {
        while !client.acknowledged.is_subset(&arrived()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        let arrived = arrived();
        panic!("acknowledged and not delivered: {:?}", client.acknowledged.difference(&arrived).collect::<Vec<_>>());
    }
}

/// While it is so each check is told, whatever the store doesn't answer, and the log isn't filled with it.
async fn is_told_calmly(host: &Host, api: &Api) {
    let lines = || fs::read_to_string(host.log()).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    // What it tells once.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = lines().len();
    for _ in 0..30 {
        let reply = api.get("/readyz", &[]).await.unwrap();
        let checks = reply.body["checks"].as_array().unwrap();
        assert!(checks.iter().any(|check| check["name"] == "durability"), "{}", reply.body);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let said = lines().split_off(before);
    assert!(said.len() < 15, "{said:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_is_told_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::mount(&dir.path().join("disk"), DISK_BYTES).await.unwrap();
    let receiver = Receiver::start(|_: &Delivered| Answer::status(200)).await.unwrap();
    let data = dir.path().join("disk/data");
    let config = format!("[store]\nurl = \"surrealkv://{}\"\nmemtable = \"8MiB\"\n", data.display());
    let program = runner(&disk, &binary().unwrap(), dir.path().join("run"));
    let launch = Launch::prepare(program, dir.path(), &config).unwrap();
    let mut client = Client { topic: receiver.url("orders"), next: 0, acknowledged: BTreeSet::new() };

    let (host, api) = Host::ready(&launch).await.unwrap();
    for _ in 0..20 {
        client.send(&api).await;
    }
    assert_eq!(client.acknowledged.len(), 20);

    // Full, and room again: the same process goes on.
    disk.fill().unwrap();
    client.send_until_full(&api).await;
    is_told_calmly(&host, &api).await;
    disk.make_room().unwrap();
    client.send_until_taken(&api).await;
    everything_arrives(&receiver, &client).await;

    // Full and killed: the next one finds everything.
    disk.fill().unwrap();
    client.send_until_full(&api).await;
    host.kill().await.unwrap();
    disk.make_room().unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();
    client.send_until_taken(&api).await;
    everything_arrives(&receiver, &client).await;

    // A row is there exactly if its message is.
    let rows = api.row_ids("paid").await.unwrap();
    assert!(rows.values().all(|times| *times == 1));
    let arrived = receiver.arrivals().into_iter().map(|arrival| arrival.delivered.id).collect::<BTreeSet<_>>();
    assert_eq!(rows.into_keys().collect::<BTreeSet<_>>(), arrived);
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}
