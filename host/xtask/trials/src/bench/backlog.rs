//! W6: a million messages wait. What a claim costs then, how much memory the host takes, and whether tenants with little work
//! are served beside one that holds 95 %.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use serde_json::{Value, json};
use waybill_testkit::load::{Client, Plan, Sink, batches};

use super::Bench;
use super::delivery::send;
use super::figure::Figure;
use super::host::Measured;

/// Tenants; the first holds 95 % of the messages.
const TENANTS: u64 = 10;
const LARGE_SHARE: u64 = 95;
/// Messages of a request while the backlog grows.
const BATCH: u64 = 1_000;
const CLIENTS: usize = 4;
/// Claims that are timed, and those before them that aren't.
const CLAIMS: usize = 500;
const WARM_UP: usize = 20;
/// Messages of a claim: one, so that within the run no tenant runs out of messages, however few wait.
const CLAIMED: usize = 1;
/// A host that hands out nothing for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

const ROUTE: &str = "[[route]]\nmatch = \"bus:work.**\"\ntransport = \"external\"\n";

/// So many messages wait; a worker claims and acknowledges one at a time.
pub async fn claims(bench: &Bench, ready: u64) -> Result<Figure> {
    let mut host = Measured::start(bench, ROUTE).await?;
    fill(host.api.base(), ready, |_| "bus:work.item".to_owned()).await?;
    let mut client = Client::connect(host.api.base()).await?;
    // The first claim reads what nobody asked for so far.
    for _ in 0..WARM_UP {
        let _warm = claim_and_settle(&mut client).await?;
    }
    host.mark()?;
    let mut times = Vec::with_capacity(CLAIMS);
    let (began, mut messages) = (Instant::now(), 0);
    for _ in 0..CLAIMS {
        let (time, count) = claim_and_settle(&mut client).await?;
        times.push(time);
        messages += count;
    }
    let figure = host.used(Figure::of_rate(messages, began.elapsed()).with_times(times))?;
    host.end().await?;
    Ok(figure)
}

/// Tenants with little work beside the large one: p50 and p99 are the times from the resume until each of them has its first
/// message, and memory is that of a host with everything waiting.
pub async fn fairness(bench: &Bench, ready: u64) -> Result<Figure> {
    let sink = Sink::start(true).await.context("starting the sink")?;
    let mut host = Measured::start(bench, "").await?;
    host.act("/v1/transports/http/pause").await?;
    fill(host.api.base(), ready, |tenant| sink.url(&format!("t{tenant}"))).await?;
    host.mark()?;
    let resumed = Instant::now();
    host.act("/v1/transports/http/resume").await?;
    let small = ready * (100 - LARGE_SHARE) / 100 / (TENANTS - 1) * (TENANTS - 1);
    let served = async {
        loop {
            let paths = sink.paths();
            let done: u64 =
                (1..TENANTS).filter_map(|tenant| paths.get(&format!("/t{tenant}"))).map(|path| path.count).sum();
            if done >= small {
                return (paths, sink.arrived());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (paths, arrived) =
        tokio::time::timeout(PATIENCE * 20, served).await.context("the small tenants weren't served")?;
    let firsts = (1..TENANTS).filter_map(|tenant| paths.get(&format!("/t{tenant}")));
    let firsts: Vec<_> = firsts.map(|path| path.first.saturating_duration_since(resumed)).collect();
    let figure = host.used(Figure::of_rate(arrived, resumed.elapsed()).with_times(firsts))?;
    // What is left isn't waited for.
    host.end().await?;
    Ok(figure)
}

/// Enqueues so many over all tenants and 1,000 keys of each.
async fn fill(base: &str, ready: u64, topic: impl Fn(u64) -> String) -> Result<()> {
    let large = ready * LARGE_SHARE / 100;
    let small = (ready - large) / (TENANTS - 1);
    for tenant in 0..TENANTS {
        let plan = Plan { tenant: Some(format!("tenant-{tenant}")), ..Plan::new(topic(tenant)) };
        let count = if tenant == 0 { large } else { small };
        // In parts, so that the requests of a million messages don't lie in memory at once.
        for from in (0..count).step_by(100_000) {
            let bodies = batches(&plan, from, count.min(from + 100_000), BATCH);
            send(base, "/v1/messages", bodies, CLIENTS, None).await?;
        }
    }
    Ok(())
}

/// Time of the claim, and how many messages it gave.
pub async fn claim_and_settle(client: &mut Client) -> Result<(Duration, u64)> {
    let ask = Bytes::from(json!({ "worker_id": "bench", "limit": CLAIMED }).to_string());
    let deadline = Instant::now() + PATIENCE;
    let (time, items) = loop {
        let began = Instant::now();
        let answer = client.post("/v1/outbox/claim", ask.clone()).await?;
        let time = began.elapsed();
        let answer: Value = serde_json::from_slice(&answer).context("reading what was claimed")?;
        let items = answer.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        if !items.is_empty() {
            break (time, items);
        }
        if Instant::now() > deadline {
            bail!("nothing was handed out for {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let settled: Vec<Value> =
        items.iter().map(|item| json!({ "id": item.get("id"), "token": item.get("token"), "result": "ack" })).collect();
    let count = settled.len() as u64;
    let body = json!({ "worker_id": "bench", "items": settled });
    client.post("/v1/outbox/settle", Bytes::from(body.to_string())).await?;
    Ok((time, count))
}
