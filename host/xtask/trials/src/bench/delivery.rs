//! W1b and W1s: messages go in over the API and out by HTTP POST, as fast as they can.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use waybill_testkit::load::{Client, Plan, Sink, batches};

use super::figure::Figure;
use super::host::Measured;
use super::{Bench, all_arrived};

/// Messages of a request of W1b.
const BATCH: u64 = 100;
/// Connections that send W1b's requests: enough that one is always under way.
const BATCH_CLIENTS: usize = 4;
const SINGLE_CLIENTS: usize = 16;
/// A host from which nothing comes for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// W1b on a host with this configuration.
pub async fn in_batches(bench: &Bench, messages: u64, config: &str) -> Result<Figure> {
    through(bench, messages, (BATCH, BATCH_CLIENTS), config).await
}

pub async fn one_by_one(bench: &Bench, messages: u64) -> Result<Figure> {
    through(bench, messages, (1, SINGLE_CLIENTS), "").await
}

async fn through(bench: &Bench, messages: u64, (size, clients): (u64, usize), config: &str) -> Result<Figure> {
    let sink = Sink::start(false).await.context("starting the sink")?;
    let mut host = Measured::start(bench, config).await?;
    let figure = through_host(&mut host, &sink, messages, (size, clients)).await?;
    host.end().await?;
    Ok(figure)
}

/// W1b on a host that has started, to a sink that has had nothing yet.
pub async fn in_batches_through(host: &mut Measured, sink: &Sink, messages: u64) -> Result<Figure> {
    through_host(host, sink, messages, (BATCH, BATCH_CLIENTS)).await
}

async fn through_host(
    host: &mut Measured,
    sink: &Sink,
    messages: u64,
    (size, clients): (u64, usize),
) -> Result<Figure> {
    let bodies = batches(&Plan::new(sink.url("orders")), 0, messages, size);
    host.mark()?;
    let began = Instant::now();
    let sent = send(host.api.base(), "/v1/messages", bodies, clients, None).await?;
    all_arrived(sink.wait_for(messages, PATIENCE).await, sink.arrived(), messages)?;
    host.drained().await?;
    host.used(Figure::of_rate(messages, began.elapsed()).with_times(sent))
}

/// Sends all of them over so many connections; answers the time of each request. Every answer has to hold `wanted`.
pub async fn send(
    base: &str,
    path: &'static str,
    bodies: Vec<Bytes>,
    clients: usize,
    wanted: Option<&'static str>,
) -> Result<Vec<Duration>> {
    let count = bodies.len();
    let queue = Arc::new(Mutex::new(bodies.into_iter()));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (base, queue) = (base.to_owned(), Arc::clone(&queue));
        tasks.spawn(async move {
            let mut client = Client::connect(&base).await?;
            let mut times = Vec::new();
            loop {
                let next = queue.lock().next();
                let Some(body) = next else { return anyhow::Ok(times) };
                let began = Instant::now();
                let answer = client.post(path, body).await?;
                times.push(began.elapsed());
                if let Some(wanted) = wanted
                    && !std::str::from_utf8(&answer).is_ok_and(|answer| answer.contains(wanted))
                {
                    bail!("POST {path} answered {}", String::from_utf8_lossy(&answer));
                }
            }
        });
    }
    let mut times = Vec::with_capacity(count);
    while let Some(done) = tasks.join_next().await {
        times.extend(done.context("a client ended early")??);
    }
    Ok(times)
}
