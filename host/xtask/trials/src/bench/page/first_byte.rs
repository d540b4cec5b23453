//! How soon views begin to come beside a thousand deliveries a second, and what those deliveries notice: the same load while nobody
//! reads and while eight readers do, in turn on one host.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use waybill_testkit::load::{Plan, Sink};

use super::load::{client, load};
use super::pairs::{Pairs, in_turn};
use super::scene::{Scene, View};
use crate::bench::all_arrived;
use crate::bench::figure::Figure;
use crate::bench::latency::{self, Pace};

/// Deliveries that are due in a second.
pub const RATE: u64 = 1_000;
const PACE: Pace = Pace { every: Duration::from_micros(1_000_000 / RATE), clients: 16 };
/// Deliveries of one run: twenty seconds.
const DELIVERIES: u64 = 20_000;
/// Deliveries before those that count.
const WARM_UP: u64 = 2_000;
pub const READERS: usize = 8;
/// From one view of a reader to the next: somebody who clicks without reading much.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Views that a reader loads in one run: it is done when the deliveries are.
const LOADS: usize = 20;
/// A host from which nothing comes for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Times to the first byte, by view.
#[derive(Debug)]
pub struct FirstBytes(Vec<(&'static str, Vec<Duration>)>);

#[derive(Serialize)]
struct JsonRecord<'a> {
    workload: &'a str,
    view: &'a str,
    #[serde(flatten)]
    figure: &'a Figure,
}

impl FirstBytes {
    fn of(views: &[View]) -> Self {
        Self(views.iter().map(|view| (view.name, Vec::new())).collect())
    }

    fn take(&mut self, view: &str, time: Duration) {
        if let Some((_, times)) = self.0.iter_mut().find(|(name, _)| *name == view) {
            times.push(time);
        }
    }

    /// Of each view, the loads for messages.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, Figure)> {
        self.0.iter().map(|(view, times)| {
            let figure = Figure { messages: times.len() as u64, ..Figure::default() };
            (*view, figure.with_times(times.clone()))
        })
    }

    /// A JSON line for each view.
    pub fn lines(&self, workload: &str) -> Result<Vec<String>> {
        let line = |(view, figure): (&str, Figure)| {
            serde_json::to_string(&JsonRecord { workload, view, figure: &figure }).context("a JSON line")
        };
        self.figures().map(line).collect()
    }
}

/// So many runs with nobody and with readers.
pub async fn measure(scene: &mut Scene, rounds: u32) -> Result<(FirstBytes, Pairs)> {
    let sink = Sink::start(true).await.context("starting the sink")?;
    let base = scene.host.api.base().to_owned();
    let (mut first_bytes, mut deliveries) = (FirstBytes::of(&scene.views), Pairs::default());
    let _warm = deliver(&base, &sink, WARM_UP).await?;
    for round in 1..=rounds {
        for with_readers in in_turn(round) {
            scene.host.mark()?;
            let began = Instant::now();
            let (ages, loads) = if with_readers {
                tokio::try_join!(deliver(&base, &sink, DELIVERIES), read(&base, &scene.views))?
            } else {
                (deliver(&base, &sink, DELIVERIES).await?, Vec::new())
            };
            let figure = Figure::of_rate(DELIVERIES, began.elapsed()).with_times(ages);
            let figure = scene.host.used(figure)?;
            let readers = if with_readers { READERS } else { 0 };
            eprintln!("page, {readers} readers, round {round} of {rounds}: {figure}");
            deliveries.take(with_readers, figure);
            for (view, time) in loads {
                first_bytes.take(view, time);
            }
        }
    }
    Ok((first_bytes, deliveries))
}

/// So many deliveries at the pace; how old each was when the sink had it, counted from the request that enqueued it.
async fn deliver(base: &str, sink: &Sink, count: u64) -> Result<Vec<Duration>> {
    let plan = Plan { timed: Some(sink.started()), ..Plan::new(sink.url("orders")) };
    let wanted = sink.arrived() + count;
    latency::send(base, "/v1/messages", count, &plan, PACE).await?;
    all_arrived(sink.wait_for(wanted, PATIENCE).await, sink.arrived(), wanted)?;
    Ok(sink.take_latencies())
}

/// What all readers load at once: which view, and how long its first byte took.
async fn read(base: &str, views: &Arc<[View]>) -> Result<Vec<(&'static str, Duration)>> {
    let begin = Instant::now();
    let mut readers = JoinSet::new();
    for number in 0..READERS {
        let spread = READ_EVERY * u32::try_from(number)? / u32::try_from(READERS)?;
        readers.spawn(load_in_turn(base.to_owned(), Arc::clone(views), number, begin + spread));
    }
    let mut all = Vec::new();
    while let Some(done) = readers.join_next().await {
        all.extend(done.context("a reader ended early")??);
    }
    Ok(all)
}

/// One reader, who begins with a view of their own.
async fn load_in_turn(
    base: String,
    views: Arc<[View]>,
    first: usize,
    begin: Instant,
) -> Result<Vec<(&'static str, Duration)>> {
    let client = client()?;
    let mut times = Vec::new();
    for (view, number) in views.iter().cycle().skip(first).take(LOADS).zip(0_u32..) {
        sleep_until(begin + READ_EVERY * number).await;
        let loaded = load(&client, &format!("{base}{}", view.path)).await?;
        times.push((view.name, loaded.first_byte));
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_read_for_as_long_as_deliveries_take() {
        assert_eq!(READ_EVERY * u32::try_from(LOADS).unwrap(), PACE.every * u32::try_from(DELIVERIES).unwrap());
    }

    #[test]
    fn times_are_those_of_their_view() {
        let view = |name| View { name, path: String::new() };
        let mut first_bytes = FirstBytes::of(&[view("overview"), view("messages")]);
        first_bytes.take("messages", Duration::from_millis(7));
        let figures: Vec<_> =
            first_bytes.figures().map(|(view, figure)| (view, figure.messages, figure.p99_ms)).collect();
        assert_eq!(figures, [("overview", 0, None), ("messages", 1, Some(7.0))]);
        assert_eq!(first_bytes.lines("page first byte").unwrap().len(), 2);
    }
}
