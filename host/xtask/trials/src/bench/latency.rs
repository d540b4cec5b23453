//! W1r: 200 messages a second, one by one, and how long each takes from the enqueue to the receiver.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use waybill_testkit::load::{Client, Plan, Sink};

use super::figure::Figure;
use super::host::Measured;
use super::{Bench, all_arrived};

/// How often a message is sent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub every: Duration,
    /// Connections that take turns, so that a slow answer doesn't hold up the messages behind it.
    pub clients: usize,
}

const PACE: Pace = Pace { every: Duration::from_millis(5), clients: 8 };
/// Messages before those that count.
const WARM_UP: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(30);

pub async fn trickle(bench: &Bench, messages: u64) -> Result<Figure> {
    let sink = Sink::start(true).await.context("starting the sink")?;
    let mut host = Measured::start(bench, "").await?;
    let plan = Plan { timed: Some(sink.started()), ..Plan::new(sink.url("orders")) };
    send(host.api.base(), "/v1/messages", WARM_UP, &plan, PACE).await?;
    all_arrived(sink.wait_for(WARM_UP, PATIENCE).await, sink.arrived(), WARM_UP)?;
    let _warm = sink.take_latencies();
    host.mark()?;
    let began = Instant::now();
    send(host.api.base(), "/v1/messages", messages, &plan, PACE).await?;
    all_arrived(sink.wait_for(WARM_UP + messages, PATIENCE).await, sink.arrived(), WARM_UP + messages)?;
    let figure = Figure::of_rate(messages, began.elapsed()).with_times(sink.take_latencies());
    let figure = host.used(figure)?;
    host.end().await?;
    Ok(figure)
}

/// The reference: the same clients post the payload to the sink itself.
pub async fn direct(messages: u64) -> Result<Figure> {
    let sink = Sink::start(true).await.context("starting the sink")?;
    let plan = Plan { timed: Some(sink.started()), ..Plan::new("http://sink.example/") };
    send(&sink.url(""), "/orders", WARM_UP, &plan, PACE).await?;
    let _warm = sink.take_latencies();
    let began = Instant::now();
    send(&sink.url(""), "/orders", messages, &plan, PACE).await?;
    all_arrived(sink.wait_for(WARM_UP + messages, PATIENCE).await, sink.arrived(), WARM_UP + messages)?;
    Ok(Figure::of_rate(messages, began.elapsed()).with_times(sink.take_latencies()))
}

/// Sends at fixed instants, whatever became of the messages before; a message that had to wait for its turn counts that too.
pub async fn send(base: &str, path: &'static str, count: u64, plan: &Plan, pace: Pace) -> Result<()> {
    let begin = Instant::now() + pace.every;
    let mut tasks = JoinSet::new();
    for client in 0..pace.clients as u64 {
        let (base, plan) = (base.to_owned(), plan.clone());
        tasks.spawn(async move {
            let mut connection = Client::connect(&base).await?;
            for number in (client..count).step_by(pace.clients) {
                let due = begin + pace.every * u32::try_from(number)?;
                // One whose turn came late counts from when it was due; how late a timer wakes is no part of it.
                let made = if Instant::now() > due {
                    due
                } else {
                    sleep_until(due).await;
                    Instant::now()
                };
                connection.post(path, Bytes::from(plan.message_at(number, made.into_std()))).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.context("a client ended early")??;
    }
    Ok(())
}
