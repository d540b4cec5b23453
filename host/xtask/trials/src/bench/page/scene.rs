//! The host that is looked at: 100,000 dead letters of several tenants, topics and causes, and messages that a paused transport holds.
//!
//! A worker outside claims the messages and says of each that it failed for good: the shortest way to a dead letter, and the same one
//! that every settlement takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use waybill_testkit::load::{Client, Plan};

use super::load::{client, load};
use crate::bench::Bench;
use crate::bench::delivery::send;
use crate::bench::host::Measured;

const DEAD_LETTERS: u64 = 100_000;
/// Messages that the paused transport holds, and as many again later, so that the list begins with them: more than it shows.
const HELD: u64 = 200;
/// Keys of all of them: five dead letters have the same.
const KEYS: u64 = 20_000;
const TENANTS: [&str; 3] = ["acme", "globex", "initech"];
const SUBJECTS: [&str; 4] = ["orders.placed", "orders.cancelled", "invoices.due", "parcels.sent"];
/// Messages of a request, of a claim and of a settlement: the most that one takes.
const BATCH: usize = 1_000;
const CLIENTS: usize = 4;
/// How long a claim waits for messages, milliseconds.
const CLAIM_WAIT_MS: u64 = 200;
/// A host that hands out nothing for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Deliveries go as those of a host without a configuration.
const CONFIG: &str = r#"
[[route]]
match = "bus:work.**"
transport = "external"
[[route]]
match = "bus:held.**"
transport = "held"
[[route]]
match = "http:**"
transport = "http"
[transport.http]
plugin = "http"
allow = { http = ["http://127.0.0.1:*"] }
[transport.held]
plugin = "noop"
"#;

/// An address that readers load.
#[derive(Clone, Debug)]
pub struct View {
    pub name: &'static str,
    pub path: String,
}

pub struct Scene {
    pub host: Measured,
    pub views: Arc<[View]>,
}

impl Scene {
    pub async fn set(bench: &Bench) -> Result<Self> {
        let host = Measured::start(bench, CONFIG).await?;
        host.act("/v1/transports/held/pause").await?;
        hold(host.api.base()).await?;
        let began = Instant::now();
        fill(host.api.base()).await?;
        eprintln!("  {DEAD_LETTERS} dead letters in {:.0} s", began.elapsed().as_secs_f64());
        let views = views(&host).await?.into();
        Ok(Self { host, views })
    }

    /// Ends the host in good order; what it holds isn't waited for.
    pub async fn end(self) -> Result<()> {
        self.host.end().await
    }
}

/// Messages for the transport that is paused, newer than all others.
pub async fn hold(base: &str) -> Result<()> {
    send(base, "/v1/messages", mixed("held", HELD), 1, None).await.map(drop)
}

/// What is loaded in turn. Each has to show what its name says before it is measured.
async fn views(host: &Measured) -> Result<Vec<View>> {
    let dead: Value = host.api.read("/v1/dead-letters", &[("limit", "1")]).await?;
    let of = |name: &str| dead.pointer(&format!("/items/0/{name}")).and_then(Value::as_str);
    let (tenant, id) = of("tenant").zip(of("id")).with_context(|| format!("no dead letter in {dead}"))?;
    let all = [
        ("overview", "/ui".to_owned(), "data-causes="),
        ("dead letters", "/ui/dead-letters".to_owned(), "name=\"pick\""),
        ("dead letters by code", "/ui/dead-letters?filter=code%3DNATS.HEADER".to_owned(), "name=\"pick\""),
        // Wherever they lie: one in 20,000.
        ("dead letters by a rare key", "/ui/dead-letters?filter=key%3Dcustomer-7".to_owned(), "customer-7"),
        ("messages", "/ui/messages".to_owned(), "bus:held."),
        ("blocked", "/ui/blocked".to_owned(), "paused"),
        ("a message", format!("/ui/message?tenant={tenant}&id={id}"), id),
    ];
    let client = client()?;
    let mut views = Vec::new();
    for (name, path, shown) in all {
        let url = format!("{}{path}", host.api.base());
        let loaded = load(&client, &url).await?;
        ensure!(loaded.text.contains(shown), "GET {url} doesn't show {shown}");
        views.push(View { name, path });
    }
    Ok(views)
}

/// So many messages of several tenants and topics, in requests.
fn mixed(stage: &str, count: u64) -> Vec<Bytes> {
    let plan = |tenant: &str, subject: &str| Plan {
        tenant: Some(tenant.to_owned()),
        keys: KEYS,
        ..Plan::new(format!("bus:{stage}.{subject}"))
    };
    let mut plans = Vec::new();
    for tenant in TENANTS {
        plans.extend(SUBJECTS.map(|subject| plan(tenant, subject)));
    }
    let messages: Vec<String> =
        (0..count).zip(plans.iter().cycle()).map(|(number, plan)| plan.message(number)).collect();
    let requests = messages.chunks(BATCH);
    requests.map(|messages| Bytes::from(format!("{{\"messages\":[{}]}}", messages.join(",")))).collect()
}

/// Makes the dead letters.
async fn fill(base: &str) -> Result<()> {
    send(base, "/v1/messages", mixed("work", DEAD_LETTERS), CLIENTS, None).await?;
    let dead = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..CLIENTS {
        workers.spawn(fail_all(base.to_owned(), Arc::clone(&dead)));
    }
    while let Some(done) = workers.join_next().await {
        done.context("a worker ended early")??;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Claimed {
    items: Vec<Lease>,
}

#[derive(Deserialize)]
struct Lease {
    id: String,
    tenant: String,
    token: String,
}

#[derive(Deserialize)]
struct Settled {
    items: Vec<Settlement>,
}

#[derive(Deserialize)]
struct Settlement {
    applied: bool,
}

/// A worker for whom everything fails for good, until there are enough dead letters.
async fn fail_all(base: String, dead: Arc<AtomicU64>) -> Result<()> {
    let mut client = Client::connect(&base).await?;
    let ask = json!({ "worker_id": "bench", "limit": BATCH, "wait_ms": CLAIM_WAIT_MS });
    let ask = Bytes::from(ask.to_string());
    let (mut number, mut moved) = (0, Instant::now());
    while dead.load(Ordering::Relaxed) < DEAD_LETTERS {
        let answer = client.post("/v1/outbox/claim", ask.clone()).await?;
        let claimed: Claimed = serde_json::from_slice(&answer).context("reading what was claimed")?;
        if claimed.items.is_empty() {
            ensure!(moved.elapsed() < PATIENCE, "nothing was handed out for {} s", PATIENCE.as_secs());
            continue;
        }
        let items: Vec<Value> = claimed.items.iter().zip(number..).map(|(lease, at)| failed(lease, at)).collect();
        number += items.len();
        let body = json!({ "worker_id": "bench", "items": items });
        let answer = client.post("/v1/outbox/settle", Bytes::from(body.to_string())).await?;
        let settled: Settled = serde_json::from_slice(&answer).context("reading what was settled")?;
        let applied = settled.items.iter().filter(|item| item.applied).count();
        dead.fetch_add(applied as u64, Ordering::Relaxed);
        moved = Instant::now();
    }
    Ok(())
}

/// A settlement with one of four causes, six of ten with the first.
fn failed(lease: &Lease, number: usize) -> Value {
    let (code, reason) = match number % 10 {
        0..=5 => ("HTTP.422", format!("answered 422: order {number} has no field \"vat_number\"")),
        6 | 7 => ("HTTP.404", format!("answered 404: there is no customer \"customer-{number}\"")),
        8 => ("NATS.HEADER", format!("header \"x-order\" of message {number} has a line end in its value")),
        _ => ("EXTERNAL.FAILED", format!("the archive has no room for {number} more bytes")),
    };
    let error = json!({ "code": code, "reason": reason });
    json!({ "id": lease.id, "tenant": lease.tenant, "token": lease.token, "result": "dead", "error": error })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn messages_are_of_every_tenant_and_topic_and_each_key_is_rare() {
        let requests = mixed("work", 2_500);
        assert_eq!(requests.len(), 3);
        let mut pairs = BTreeSet::new();
        let mut keys = BTreeSet::new();
        for request in requests {
            let request: Value = serde_json::from_slice(&request).unwrap();
            for message in request["messages"].as_array().unwrap() {
                pairs.insert((message["tenant"].to_string(), message["topic"].to_string()));
                keys.insert(message["key"].to_string());
            }
        }
        assert_eq!((pairs.len(), keys.len()), (TENANTS.len() * SUBJECTS.len(), 2_500));
    }

    #[test]
    fn one_in_ten_has_the_code_that_is_filtered_by() {
        let lease = Lease { id: "m".into(), tenant: "acme".into(), token: "t".into() };
        let settlements: Vec<Value> = (0..1_000).map(|number| failed(&lease, number)).collect();
        let of = |code: &str| settlements.iter().filter(|item| item["error"]["code"] == code).count();
        assert_eq!((of("HTTP.422"), of("NATS.HEADER")), (600, 100));
    }
}
