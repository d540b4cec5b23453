//! W1r: 200 messages a second, one by one, and how long each takes from the enqueue to the receiver.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use tokio::time::{MissedTickBehavior, interval};
use waybill_testkit::load::{Client, Plan, Sink};

use super::figure::Figure;
use super::host::Measured;
use super::{Bench, all_arrived};

/// Between two messages.
const EVERY: Duration = Duration::from_millis(5);
/// Messages before those that count.
const WARM_UP: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(30);

/// Through a host.
pub async fn trickle(bench: &Bench, messages: u64) -> Result<Figure> {
    let sink = Sink::start(true).await.context("starting the sink")?;
    let mut host = Measured::start(bench, "").await?;
    let plan = Plan { timed: Some(sink.started()), ..Plan::new(sink.url("orders")) };
    let mut client = Client::connect(host.api.base()).await?;
    send(&mut client, "/v1/messages", WARM_UP, |number| plan.message(number)).await?;
    all_arrived(sink.wait_for(WARM_UP, PATIENCE).await, sink.arrived(), WARM_UP)?;
    let _warm = sink.take_latencies();
    host.mark()?;
    let began = Instant::now();
    send(&mut client, "/v1/messages", messages, |number| plan.message(number)).await?;
    all_arrived(sink.wait_for(WARM_UP + messages, PATIENCE).await, sink.arrived(), WARM_UP + messages)?;
    let figure = Figure::of_rate(messages, began.elapsed()).with_times(sink.take_latencies());
    let figure = host.used(figure)?;
    host.end().await?;
    Ok(figure)
}

/// The reference: the same client posts the payload to the sink itself.
pub async fn direct(messages: u64) -> Result<Figure> {
    let sink = Sink::start(true).await.context("starting the sink")?;
    let plan = Plan { timed: Some(sink.started()), ..Plan::new("") };
    let mut client = Client::connect(&sink.url("")).await?;
    send(&mut client, "/orders", WARM_UP, |number| plan.message(number)).await?;
    let _warm = sink.take_latencies();
    let began = Instant::now();
    send(&mut client, "/orders", messages, |number| plan.message(number)).await?;
    all_arrived(sink.wait_for(WARM_UP + messages, PATIENCE).await, sink.arrived(), WARM_UP + messages)?;
    Ok(Figure::of_rate(messages, began.elapsed()).with_times(sink.take_latencies()))
}

async fn send(client: &mut Client, path: &str, count: u64, message: impl Fn(u64) -> String) -> Result<()> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..count {
        ticks.tick().await;
        // Made now: its age counts from here.
        client.post(path, Bytes::from(message(number))).await?;
    }
    Ok(())
}
