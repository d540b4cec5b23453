//! What W1b notices of an open page: an overview whose numbers change, which a person loads again once a second.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use reqwest::Response;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use waybill_testkit::load::Sink;

use super::load::{attribute, client, load};
use super::pairs::{Pairs, in_turn};
use crate::bench::Bench;
use crate::bench::delivery;
use crate::bench::host::Measured;

const RELOAD_EVERY: Duration = Duration::from_secs(1);
/// A host that tells an open page nothing for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// So many runs of W1b without and with an open page, each on a host of its own.
pub async fn measure(bench: &Bench, rounds: u32, messages: u64) -> Result<Pairs> {
    let mut pairs = Pairs::default();
    for round in 1..=rounds {
        for with_page in in_turn(round) {
            let sink = Sink::start(false).await.context("starting the sink")?;
            let mut host = Measured::start(bench, "").await?;
            let page = if with_page { Some(OpenPage::open(host.api.base()).await?) } else { None };
            let figure = delivery::in_batches_through(&mut host, &sink, messages).await?;
            let beside = match page {
                Some(page) => page.close()?,
                None => "no page".to_owned(),
            };
            host.end().await?;
            eprintln!("page W1b, {beside}, round {round} of {rounds}: {figure}");
            pairs.take(with_page, figure);
        }
    }
    Ok(pairs)
}

/// A page that somebody has open.
struct OpenPage {
    tasks: JoinSet<Result<Infallible>>,
    loads: Arc<AtomicU64>,
    events: Arc<AtomicU64>,
}

impl OpenPage {
    /// Opens it: its first numbers have come.
    async fn open(base: &str) -> Result<Self> {
        let (client, overview) = (client()?, format!("{base}/ui"));
        let loaded = load(&client, &overview).await?;
        let source = attribute(&loaded.text, "data-source").context("the overview names no source of its numbers")?;
        let source = format!("{base}{source}");
        let mut numbers = client.get(&source).send().await.with_context(|| format!("GET {source}"))?;
        ensure!(numbers.status().is_success(), "GET {source} answered {}", numbers.status());
        let first = timeout(PATIENCE, numbers.chunk()).await.context("the source of numbers says nothing")?;
        first.context("reading the first numbers")?.context("the source of numbers ended before the first")?;
        let (loads, events) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        tasks.spawn(hear(numbers, Arc::clone(&events)));
        tasks.spawn(reload(client, overview, Arc::clone(&loads)));
        Ok(Self { tasks, loads, events })
    }

    /// Closes it, and tells what it had: a page of which nothing came isn't one that was open.
    fn close(mut self) -> Result<String> {
        if let Some(ended) = self.tasks.try_join_next() {
            match ended.context("the open page ended early")?.context("the open page ended early")? {}
        }
        let loads = self.loads.load(Ordering::Relaxed);
        if loads == 0 {
            bail!("the overview wasn't loaded once: what was measured isn't what it says");
        }
        let events = self.events.load(Ordering::Relaxed);
        Ok(format!("a page that was loaded {loads} times and heard {events} messages"))
    }
}

/// Hears the numbers as they change.
async fn hear(mut numbers: Response, events: Arc<AtomicU64>) -> Result<Infallible> {
    loop {
        let heard = numbers.chunk().await.context("hearing how numbers change")?;
        heard.context("the source of numbers ended")?;
        events.fetch_add(1, Ordering::Relaxed);
    }
}

/// Loads an address again and again.
async fn reload(client: reqwest::Client, url: String, loads: Arc<AtomicU64>) -> Result<Infallible> {
    let mut ticks = interval(RELOAD_EVERY);
    loop {
        ticks.tick().await;
        load(&client, &url).await?;
        loads.fetch_add(1, Ordering::Relaxed);
    }
}
