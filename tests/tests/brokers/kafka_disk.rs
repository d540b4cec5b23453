//! The bundled `kafka` and a server whose disk is full. Linux has small disks for everybody.
#![cfg(target_os = "linux")]

use std::collections::{HashMap, HashSet};
use std::io::{self, Write as _};
use std::path::Path;

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::watch;
use waybill_core::message::Delivery;
use waybill_core::port::transport::Outcome;
use waybill_testkit::kafka::{Durable, Options, Server};
use waybill_testkit::outage::{Broker, Plan, Progress, Stored, run};
use waybill_testkit::process::{Disk, binary};
use waybill_tests::transport::{acknowledged, batch, send};

use super::kafka::{codes, of_few_keys, send_until_acknowledged, to};

/// Little enough to fill at once; what the tests write has room in it.
const DISK_BYTES: usize = 16 * 1024 * 1024;
const TOPIC: &str = "orders.created";

/// A disk in this folder, and a server with these lines that sees it.
async fn server(dir: &Path, config: String) -> (Disk, Server) {
    let disk = Disk::mount(&dir.join("disk"), DISK_BYTES).await.unwrap();
    let enter = disk.enter().unwrap();
    let server = Server::start_with(Options { config, enter, ..Options::default() }).await.unwrap();
    (disk, server)
}

/// A server that ends because its disk is full, and is started again when there is room.
struct OnSmallDisk {
    broker: Durable,
    disk: Disk,
}

#[async_trait]
impl Broker for OnSmallDisk {
    fn name(&self) -> &'static str {
        self.broker.name()
    }

    fn transport(&self) -> String {
        self.broker.transport()
    }

    async fn prepare(&mut self) -> io::Result<()> {
        self.broker.prepare().await
    }

    fn freeze(&self) -> io::Result<()> {
        self.broker.freeze()
    }

    /// It dies of what was sent meanwhile: nothing more is needed.
    async fn kill(&mut self) -> io::Result<()> {
        self.broker.freeze()?;
        self.disk.fill()?;
        self.broker.server.thaw()?;
        self.broker.server.ended().await
    }

    async fn restart(&mut self) -> io::Result<()> {
        self.disk.make_room()?;
        self.broker.restart().await
    }

    async fn read_all(&mut self) -> io::Result<Vec<Stored>> {
        self.broker.read_all().await
    }
}

/// The release binary delivers to a server that has one disk, and ends when that is full. Some 20 seconds, mostly of waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_kafka_server_that_ends_with_its_disk_full_costs_neither_messages_nor_order() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!("log.dirs={}\n", dir.path().join("disk/data").display());
    let (disk, server) = server(dir.path(), config).await;
    let plan = Plan { messages: 20_000, keys: 200, kills: 1 };
    let (progress, _keep) = watch::channel(Progress::default());
    let mut broker = OnSmallDisk { broker: Durable { server }, disk };
    let report = run(plan, &mut broker, &binary().unwrap(), dir.path(), &progress).await.unwrap();
    let _ = write!(io::stderr(), "{report}");
    assert!(report.passed(), "{report}");
    assert_eq!(progress.borrow().kills, plan.kills);
    assert!(broker.broker.server.log().contains("No space left on device"), "{}", broker.broker.server.log());
}

/// A server with two disks goes on with the other one. What the full one has waits until there is room and the server was started again, as
/// Kafka wants it. Some 30 seconds, mostly of waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_of_two_stops_its_partitions_alone_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let (small, rest) = (dir.path().join("disk/data"), dir.path().join("rest"));
    let config = format!("log.dirs={},{}\nmetadata.log.dir={}\n", small.display(), rest.display(), rest.display());
    let (disk, mut server) = server(dir.path(), config).await;
    server.client().await.unwrap().create(TOPIC, 4).await.unwrap();
    let transport = to(&server, json!({})).await;
    // Several batches a partition: its index has its place on the disk.
    for from in [0, 100, 200] {
        send_until_acknowledged(&transport, || of_few_keys(batch(from, from + 100, TOPIC))).await;
    }
    disk.fill().unwrap();
    let outcomes = send(&transport, of_few_keys(batch(300, 400, TOPIC))).await;
    let codes: HashSet<String> = codes(&outcomes).into_iter().collect();
    let known = |code: &String| code == "+" || code.ends_with(" KAFKA.STORAGE") || code.ends_with(" KAFKA.NO_LEADER");
    assert!(codes.iter().all(known), "{codes:?}");
    let left: Vec<Delivery> = of_few_keys(batch(300, 400, TOPIC))
        .into_iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| !matches!(outcome, Outcome::Ack(_)))
        .map(|(delivery, _)| delivery)
        .collect();
    assert!(acknowledged(&outcomes) > 0 && !left.is_empty(), "{} wait, of 100", left.len());
    assert!(!outcomes.iter().any(|outcome| matches!(outcome, Outcome::Permanent(_))), "{codes:?}");

    disk.make_room().unwrap();
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    send_until_acknowledged(&transport, || left.clone()).await;
    let all = server.client().await.unwrap().read(TOPIC, i32::MAX as usize).await.unwrap();
    let (mut ids, mut last) = (HashSet::new(), HashMap::new());
    for record in &all {
        let id = record.header("id").unwrap();
        let number: u64 = id[1..].parse().unwrap();
        if ids.insert(id) {
            let before = last.insert(record.key.as_str(), number);
            assert!(before.is_none_or(|before| before < number), "{id} of {} comes after {before:?}", record.key);
        }
    }
    assert_eq!(ids.len(), 400);
}
