//! Looks for what a manifest names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use waybill_core::ids::{ConsumerName, InboundId, ShardId, SourceName};
use waybill_core::inbox::seen::{SeenPlace, SeenQuery};
use waybill_core::port::direct_store::DirectStore as _;
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::kv::KvStore;
use waybill_testkit::api::{Api, Reply};
use waybill_testkit::process::{Host, Launch, binary};

use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::golden::{ARCHIVE, Ask, MANIFEST, Manifest, Step, config, holds};

/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);
/// Messages claimed at once.
const CLAIM: usize = 100;

/// Opens a copy of a directory with the binary of today and looks for everything that its manifest names; answers how much
/// that was.
pub async fn check(golden: &Path) -> usize {
    let manifest: Manifest = serde_json::from_slice(&std::fs::read(golden.join(MANIFEST)).unwrap()).unwrap();
    let (dir, data) = unpacked(golden);
    for step in &manifest.steps {
        if let Step::Inbox { consumer, seen, done, takes, positions } = step {
            // A copy of its own: the host is to find the data as the killed one left it.
            let (_dir, data) = unpacked(golden);
            let store = SurrealStore::open(StoreConfig::new(format!("surrealkv://{}", data.display()))).await.unwrap();
            inbox(&store, &ConsumerName::new(consumer).unwrap(), (seen.as_slice(), done.as_slice()), *takes).await;
            let kept = store.inbox_shard(ShardId(0)).await.unwrap().positions;
            for (source, position) in positions {
                let found = kept.get(&SourceName::new(source).unwrap()).map(|kept| &kept.position);
                assert_eq!(found, Some(position), "where source {source} begins again");
            }
            store.close().await.unwrap();
        }
    }
    let launch = Launch::prepare(binary().unwrap(), dir.path(), &config(&data, "plugin = \"noop\"")).unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();
    let found = Found { version: manifest.version, api };
    for step in &manifest.steps {
        match step {
            Step::Ask(ask) => found.ask(ask).await,
            Step::Take { topic, keys } => found.take(topic, keys).await,
            Step::Quarantined { table, count } => found.quarantined(table, *count).await,
            Step::Large { path, group, times } => found.large(path, group, *times).await,
            Step::Kept { .. } | Step::Inbox { .. } | Step::Table { .. } => {}
        }
    }
    assert!(host.terminate(PATIENCE).await.unwrap().success(), "the host didn't end well");
    let store = SurrealStore::open(StoreConfig::new(format!("surrealkv://{}", data.display()))).await.unwrap();
    for step in &manifest.steps {
        match step {
            Step::Kept { scope, key, value } => {
                let kept = KvStore::get(&store, scope, key).await.unwrap();
                assert_eq!(kept.map(|entry| entry.value), Some(value.clone().into()), "{scope}/{key}");
            }
            Step::Table { host, source, calling } => {
                let record = store.direct_record(host, &SourceName::new(source).unwrap()).await.unwrap();
                let found: Vec<String> = record.calling.iter().map(|row| row.0.to_string()).collect();
                assert_eq!(found, *calling, "what {host} was about to send of {source}");
            }
            Step::Ask(_) | Step::Take { .. } | Step::Inbox { .. } | Step::Quarantined { .. } | Step::Large { .. } => {}
        }
    }
    store.close().await.unwrap();
    manifest.steps.len()
}

/// A copy of the data that goes with the folder.
fn unpacked(golden: &Path) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let unpacked = Command::new("tar").arg("xzf").arg(golden.join(ARCHIVE)).arg("-C").arg(dir.path()).status();
    assert!(unpacked.expect("this test needs `tar`").success(), "{} can't be unpacked", golden.display());
    let data = dir.path().join("data");
    (dir, data)
}

/// Looks for what the inbox has of a consumer.
async fn inbox(store: &SurrealStore, consumer: &ConsumerName, (seen, done): (&[String], &[String]), takes: usize) {
    let shard = ShardId(0);
    let secret = store.inbox_shard(shard).await.unwrap().secret;
    let id_of = |id: &String| InboundId::new(id).unwrap();
    let places = |id: &String| SeenPlace::all_of(id, secret.of_id(consumer, &id_of(id)), None);
    let queries: Vec<SeenQuery> =
        seen.iter().map(|id| SeenQuery { consumer: consumer.clone(), places: places(id) }).collect();
    for (id, hit) in seen.iter().zip(store.inbox_seen(shard, &queries).await.unwrap()) {
        assert!(hit.is_some(), "{consumer} hasn't seen {id}");
    }
    for id in done {
        let ends = store.inbox_done(shard, consumer, &id_of(id)).await.unwrap();
        assert!(!ends.is_empty(), "the end of {id} isn't in the history of {consumer}");
    }
    let found = store.inbox_takeover(shard).await.unwrap();
    assert_eq!(found.takes.iter().map(|record| record.takes.len()).sum::<usize>(), takes, "takes: {found:?}");
}

/// A host on the directory.
struct Found {
    version: String,
    api: Api,
}

impl Found {
    async fn answer(&self, ask: &Ask) -> Reply {
        let reply = match (&ask.post, &ask.key) {
            (None, _) => self.api.get(&ask.path, &[]).await,
            (Some(body), None) => self.api.post(&ask.path, body).await,
            (Some(body), Some(key)) => self.api.post_once(&ask.path, key, body).await,
        };
        reply.unwrap_or_else(|error| panic!("{}: {error:?}", ask.what))
    }

    async fn ask(&self, ask: &Ask) {
        let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
        if ask.until.is_some_and(|until| now > until) {
            return;
        }
        let mut last = self.answer(ask).await;
        let is_so = |reply: &Reply| reply.status == ask.status && holds(&ask.answer, &reply.body);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while ask.patient && !is_so(&last) && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(PAUSE).await;
            last = self.answer(ask).await;
        }
        let Self { version, .. } = self;
        assert!(
            is_so(&last),
            "data of {version}: {}: {} answered {} {}, expected {} {}",
            ask.what,
            ask.path,
            last.status,
            last.body,
            ask.status,
            ask.answer
        );
    }

    async fn take(&self, topic: &str, keys: &[Vec<String>]) {
        let wanted: BTreeSet<&String> = keys.iter().flatten().collect();
        let mut taken: Vec<String> = Vec::new();
        let claim = json!({ "worker_id": "golden", "topic": topic, "limit": CLAIM, "wait_ms": 1_000 });
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !wanted.iter().all(|id| taken.contains(id)) {
            let late = tokio::time::Instant::now() > deadline;
            assert!(!late, "data of {}: of {wanted:?} {topic} only gave {taken:?}", self.version);
            let reply = self.api.post("/v1/outbox/claim", &claim).await.unwrap();
            assert!(reply.is_ok(), "{reply:?}");
            let items: Vec<Value> = reply.body["items"].as_array().cloned().unwrap_or_default();
            for item in &items {
                let (id, tenant) = (item["id"].as_str().unwrap(), item["tenant"].as_str().unwrap());
                let ack = json!({ "id": id, "tenant": tenant, "token": item["token"], "result": "ack" });
                let settled = self.api.post("/v1/outbox/settle", &json!({ "items": [ack] })).await.unwrap();
                assert_eq!(settled.body["items"][0]["applied"], true, "{settled:?}");
                taken.push(id.to_owned());
            }
        }
        for key in keys {
            let came: Vec<&String> = taken.iter().filter(|id| key.contains(id)).collect();
            assert_eq!(came, key.iter().collect::<Vec<_>>(), "data of {}: the order of a key", self.version);
        }
    }

    async fn large(&self, path: &str, group: &str, times: usize) {
        let page = self.api.get(path, &[]).await.unwrap();
        let items = page.body["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let [event] = items else { panic!("data of {}: {path} has {} events", self.version, items.len()) };
        let payload = event["payload_bytes"].as_str().unwrap_or_default();
        assert!(payload == group.repeat(times), "data of {}: {path} has {} bytes", self.version, payload.len());
    }

    async fn quarantined(&self, table: &str, count: usize) {
        let rows: Vec<Value> = self.api.list("/v1/quarantine", &[("table", table)]).await.unwrap();
        assert_eq!(rows.len(), count, "data of {}: rows of {table} in quarantine: {rows:?}", self.version);
    }
}
