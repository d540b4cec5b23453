//! Idempotency keys on the release binary: many clients on the same keys, of which some die or stall with a key in hand, while the
//! host is killed with `kill -9` again and again. Leases are short, so that takeovers happen all the time.
//!
//! Three kinds of keys: those whose work clients do themselves (begin, finish), transactions and messages with the
//! `Idempotency-Key` header. Each has to be executed exactly once, and everybody has to hear the same outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::api::{Api, Reply};
use waybill_testkit::idempotency_model::{run, steps};
use waybill_testkit::process::{Host, Launch, binary};

const CLIENTS: u64 = 64;
const KEYS: usize = 500;
const KILLS: u32 = 8;
/// What clients do. What the machine makes of it differs from run to run all the same.
const SEED: u64 = 5;
/// Short beside a restart, so that what a crash leaves is taken over within the test.
const LEASE: Duration = Duration::from_millis(300);
/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(900);
const PAUSE: Duration = Duration::from_millis(15);

const CONFIG: &str = "[idempotency]\nlease = \"300ms\"\nresult_max_bytes = 4096\n\
    [[route]]\nmatch = \"bus:**\"\ntransport = \"external\"\n";

/// What clients did and heard, by key.
#[derive(Default)]
struct Ledger {
    /// Results whose finish was accepted.
    finished: Mutex<BTreeMap<usize, Vec<Value>>>,
    /// Outcomes that anybody heard.
    heard: Mutex<BTreeMap<usize, Vec<Value>>>,
    crashes: AtomicU64,
    takeovers: AtomicU64,
    lost: AtomicU64,
    busy: AtomicU64,
    mismatches: AtomicU64,
    unknown: AtomicU64,
}

impl Ledger {
    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn name(key: usize) -> String {
    format!("k{key}")
}

/// One client on one key, over whatever host there is at the moment.
struct Visit<'a> {
    key: usize,
    client: u64,
    host: &'a watch::Receiver<Api>,
    ledger: &'a Ledger,
}

impl Visit<'_> {
    async fn post(&self, path: &str, body: &Value) -> Option<Reply> {
        let api = self.host.borrow().clone();
        self.taken(api.post(path, body).await.ok())
    }

    async fn post_once(&self, path: &str, body: &Value) -> Option<Reply> {
        let api = self.host.borrow().clone();
        self.taken(api.post_once(path, &name(self.key), body).await.ok())
    }

    /// An answer that says something; none when the same has to be asked again.
    fn taken(&self, reply: Option<Reply>) -> Option<Reply> {
        let reply = reply.filter(|reply| reply.status != 429 && reply.status < 500);
        if reply.is_none() {
            Ledger::count(&self.ledger.unknown);
        }
        reply
    }

    fn hears(&self, outcome: Value) {
        self.ledger.heard.lock().entry(self.key).or_default().push(outcome);
    }

    /// Begins, works and finishes, unless somebody else does; `luck` below a tenth dies with the key, below a fifth stalls.
    async fn by_api(&self, luck: f64) {
        let begin = json!({ "key": name(self.key), "hash": format!("hash-{}", self.key) });
        loop {
            let Some(reply) = self.post("/v1/idempotency/begin", &begin).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            match reply.status {
                200 => return self.hears(reply.body["result"].clone()),
                409 => {
                    assert_eq!(reply.code(), Some("TX.IDEMPOTENT_BUSY"), "{reply:?}");
                    Ledger::count(&self.ledger.busy);
                    tokio::time::sleep(PAUSE).await;
                }
                201 => {
                    if reply.body["begun"].as_u64().unwrap() > 1 {
                        Ledger::count(&self.ledger.takeovers);
                    }
                    if luck < 0.1 {
                        return Ledger::count(&self.ledger.crashes);
                    }
                    if luck < 0.2 {
                        tokio::time::sleep(LEASE + PAUSE).await;
                    }
                    if self.finish(reply.body["token"].as_str().unwrap()).await {
                        return;
                    }
                }
                _ => panic!("a begin was answered {reply:?}"),
            }
        }
    }

    /// Whether the finish counts. An unknown outcome is asked for again with the same words.
    async fn finish(&self, token: &str) -> bool {
        let result = json!({ "client": self.client, "token": token });
        let finish = json!({ "key": name(self.key), "token": token, "result": result });
        loop {
            let Some(reply) = self.post("/v1/idempotency/finish", &finish).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            if reply.status == 200 {
                self.ledger.finished.lock().entry(self.key).or_default().push(result);
                return true;
            }
            assert_eq!(reply.code(), Some("TX.LEASE_LOST"), "{reply:?}");
            Ledger::count(&self.ledger.lost);
            return false;
        }
    }

    /// The same request until it is answered with its outcome.
    async fn by_header(&self, path: &str, body: &Value) {
        loop {
            match self.post_once(path, body).await {
                Some(reply) if reply.is_ok() => return self.hears(reply.body),
                Some(reply) => {
                    let again = ["TX.IDEMPOTENT_BUSY", "TX.LEASE_LOST", "STORAGE.CONFLICT"];
                    assert!(reply.code().is_some_and(|code| again.contains(&code)), "{reply:?}");
                    Ledger::count(&self.ledger.busy);
                }
                None => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Something else under a key that is begun for sure.
    async fn other(&self) {
        let body = json!({ "key": name(self.key), "hash": "something else" });
        if let Some(reply) = self.post("/v1/idempotency/begin", &body).await {
            assert_eq!((reply.status, reply.code()), (422, Some("TX.IDEMPOTENT_MISMATCH")), "{reply:?}");
            Ledger::count(&self.ledger.mismatches);
        }
    }

    async fn run(&self, random: &mut StdRng, calm: bool) {
        match self.key % 3 {
            0 => self.by_api(if calm { 1.0 } else { random.random() }).await,
            1 => {
                let statement = format!("UPSERT counter:{} SET n += 1", name(self.key));
                self.by_header("/v1/transactions", &json!({ "statements": [{ "query": statement }] })).await;
            }
            _ => {
                let message = json!({ "topic": "bus:out", "key": name(self.key), "payload": { "key": self.key } });
                self.by_header("/v1/messages", &message).await;
            }
        }
        if random.random_range(0..20) == 0 {
            self.other().await;
        }
    }
}

async fn client(number: u64, host: watch::Receiver<Api>, ledger: Arc<Ledger>, calm: bool) {
    let mut random = StdRng::seed_from_u64(SEED * 1_000 + number);
    let mut keys: Vec<usize> = (0..KEYS).collect();
    keys.shuffle(&mut random);
    for key in keys {
        let visit = Visit { key, client: number, host: &host, ledger: &ledger };
        visit.run(&mut random, calm).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_executes_once_whoever_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!("[store]\nurl = \"surrealkv://{}\"\n{CONFIG}", dir.path().join("data").display());
    let launch = Launch::prepare(binary().unwrap(), dir.path(), &config).unwrap();
    let (mut host, api) = Host::ready(&launch).await.unwrap();
    let (tell, hear) = watch::channel(api);
    let ledger = Arc::new(Ledger::default());
    let clients: Vec<_> =
        (0..CLIENTS).map(|number| tokio::spawn(client(number, hear.clone(), Arc::clone(&ledger), false))).collect();
    let mut kills = 0;
    let mut random = StdRng::seed_from_u64(SEED);
    while kills < KILLS && clients.iter().any(|client| !client.is_finished()) {
        tokio::time::sleep(Duration::from_millis(random.random_range(200..1_500))).await;
        assert!(host.kill().await.unwrap(), "the host had ended by itself");
        kills += 1;
        let started = Host::ready(&launch).await.unwrap();
        host = started.0;
        tell.send(started.1).unwrap();
    }
    let working = async {
        for client in clients {
            client.await.unwrap();
        }
        // What the last visitor of a key died with is taken over.
        client(CLIENTS, hear.clone(), Arc::clone(&ledger), true).await;
    };
    assert!(tokio::time::timeout(PATIENCE, working).await.is_ok(), "the clients never came to their end");
    judge(&hear.borrow().clone(), &ledger).await;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    say(&format!(
        "{KEYS} keys, {CLIENTS} clients, {kills} kills of the host: {} crashes with a key in hand, {} takeovers, {} stale \
         finishes refused, {} times busy, {} mismatches, {} requests without an answer; every key executed once",
        count(&ledger.crashes),
        count(&ledger.takeovers),
        count(&ledger.lost),
        count(&ledger.busy),
        count(&ledger.mismatches),
        count(&ledger.unknown),
    ));
    assert!(kills > 0 && count(&ledger.crashes) > 0 && count(&ledger.takeovers) > 0 && count(&ledger.mismatches) > 0);
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}

async fn judge(api: &Api, ledger: &Ledger) {
    let (finished, heard) = (ledger.finished.lock().clone(), ledger.heard.lock().clone());
    for key in 0..KEYS {
        let outcomes: BTreeSet<String> = heard.get(&key).into_iter().flatten().map(Value::to_string).collect();
        assert_eq!(outcomes.len(), 1, "key {key}: everybody hears the same: {outcomes:?}");
        if key % 3 == 0 {
            let accepted: BTreeSet<String> = finished[&key].iter().map(Value::to_string).collect();
            assert_eq!(finished[&key].len(), 1, "key {key}: one finish counts: {accepted:?}");
            assert_eq!(accepted, outcomes, "key {key}");
        }
    }
    let counters = api.query("SELECT VALUE n FROM counter").await.unwrap();
    let counters: Vec<u64> = counters.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!(counters, vec![1; (0..KEYS).filter(|key| key % 3 == 1).count()], "each statement ran once");
    let mut enqueued: BTreeMap<String, usize> = BTreeMap::new();
    for state in ["pending", "leased", "done"] {
        for message in api.messages(state).await.unwrap() {
            *enqueued.entry(message.id).or_default() += 1;
        }
    }
    let told: BTreeSet<String> =
        (0..KEYS).filter(|key| key % 3 == 2).map(|key| heard[&key][0]["ids"][0].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        enqueued.keys().cloned().collect::<BTreeSet<_>>(),
        told,
        "each message is there once, by the id that was told"
    );
    assert!(enqueued.values().all(|count| *count == 1), "{enqueued:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_forgotten_after_its_time_and_survives_a_kill_until_then() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!("[store]\nurl = \"surrealkv://{}\"\n{CONFIG}", dir.path().join("data").display());
    let launch = Launch::prepare(binary().unwrap(), dir.path(), &config).unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();
    let begin = async |api: &Api, key: &str, ttl_ms: u64| {
        let body = json!({ "key": key, "hash": "h", "ttl_ms": ttl_ms, "lease_ms": 3_000 });
        api.post("/v1/idempotency/begin", &body).await.unwrap()
    };
    for (key, ttl_ms) in [("short", 5_000), ("long", 3_600_000)] {
        let begun = begin(&api, key, ttl_ms).await;
        assert_eq!(begun.status, 201, "{begun:?}");
        let body = json!({ "key": key, "token": begun.body["token"], "result": ttl_ms });
        assert!(api.post("/v1/idempotency/finish", &body).await.unwrap().is_ok());
    }
    assert!(host.kill().await.unwrap());
    let (host, api) = Host::ready(&launch).await.unwrap();
    assert_eq!(begin(&api, "long", 3_600_000).await.body["result"], 3_600_000);
    let forgotten = async {
        while begin(&api, "short", 3_600_000).await.status != 201 {
            tokio::time::sleep(PAUSE).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, forgotten).await.is_ok(), "the key was never forgotten");
    let shown = api.get("/v1/idempotency", &[("key", "short")]).await.unwrap();
    assert_eq!((&shown.body["state"], &shown.body["begun"]), (&json!("in_flight"), &json!(1)));
    let metrics = api.get("/metrics", &[]).await.unwrap().body;
    let metrics = metrics.as_str().unwrap();
    for metric in ["tx_idempo_hits_total", "tx_idempo_begun_total", "tx_idempo_commit_seconds"] {
        assert!(metrics.contains(metric), "{metric} isn't in {metrics}");
    }
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}

/// The model of `waybill_testkit::idempotency_model` on SurrealDB.
#[tokio::test]
async fn keys_live_as_promised_on_surrealdb() {
    for seed in 0..40 {
        let store = SurrealStore::open(StoreConfig::new("mem://")).await.unwrap();
        run(&store, &steps(seed, 150)).await;
        store.close().await.unwrap();
    }
}

/// To stderr itself, which the test harness doesn't capture: what came up is worth seeing.
fn say(text: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}
