//! W7 and W9: messages of a JetStream stream through the inbox.
//!
//! W7 hands each to an HTTP handler, beside source document 5's worker by hand (`tests/natives/src/worker.rs`), whose inbox
//! table lies in PostgreSQL; CPU counts both. W9 hands them to a component that does nothing (`tests/idle-handler`), beside a client
//! that only reads and acknowledges (`tests/natives/src/fetch.rs`). What is read is in the stream before anything begins.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::sleep_until;
use waybill_testkit::load::{LATENCY_FIELD, Sink, family_cpu};
use waybill_testkit::outage::{Broker as _, DESTINATION};
use waybill_testkit::{nats, postgres};
use xtask::cargo::{Repository, run};
use xtask::setup::GUEST_TARGET;

use super::figure::{Figure, Side};
use super::host::Measured;
use super::native::run_reference;
use super::{Bench, all_arrived};

/// What is measured, in the order in which it is run in turn.
pub const W7: [(&str, Side); 5] = [
    ("W7", Side::Waybill),
    ("W7", Side::Native),
    ("W7 200/s", Side::Waybill),
    ("W7 200/s", Side::Native),
    ("W7 no source", Side::Waybill),
];
pub const W9: [(&str, Side); 3] = [("W9", Side::Waybill), ("W9", Side::Native), ("W9 keys", Side::Waybill)];

/// Messages that may be unsettled, on both sides.
pub const WINDOW: u64 = 512;
/// Calls of a handler over HTTP at once, as many as the worker by hand posts.
const CALLS: u64 = 64;
/// Messages that a component may have at once. It gets them in batches: whatever waits goes with the next call.
const HANDED_OVER: u64 = WINDOW;
/// Keys of `W9 keys`.
const KEYS: u64 = 1_000;
/// Messages without acknowledgement while a stream is filled.
const FILL_WINDOW: &str = "1000";
/// The stream, and the consumer of the host's source.
pub const STREAM: &str = "ORDERS";
pub const DURABLE: &str = "bench";
/// The source, which is its consumers' home, and its consumer.
pub const SOURCE: &str = "orders";
pub const CONSUMER: &str = "bench";
/// Messages of `W7 200/s`: those before the ones that count, those that count, and the time between two.
const WARM_UP: u64 = 200;
const TRICKLE: u64 = 2_000;
const EVERY: Duration = Duration::from_millis(5);
/// Bytes that make a payload about as long as those of other workloads.
const PADDING: usize = 260;
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// How long a host without a source is left alone before its memory is read.
const REST: Duration = Duration::from_secs(5);

/// Builds the handler that does nothing.
pub fn idle_handler(repository: &Repository) -> Result<PathBuf> {
    let target = repository.target.join("idle");
    let manifest = "tests/idle-handler/Cargo.toml";
    let mut build = repository.cargo(["build", "--release", "--locked", "--manifest-path", manifest]);
    run(build.args(["--target", GUEST_TARGET, "--target-dir"]).arg(&target))?;
    Ok(target.join(GUEST_TARGET).join("release").join("idle_handler.wasm"))
}

async fn stream() -> Result<nats::Server> {
    let mut server = nats::Server::start().await.context("starting nats-server: is it installed?")?;
    server.prepare().await?;
    Ok(server)
}

async fn fill(bench: &Bench, server: &nats::Server, messages: u64, keys: u64) -> Result<()> {
    let mut command = Command::new(&bench.natives);
    command.args(["fill", &messages.to_string(), &server.url(), FILL_WINDOW, &keys.to_string()]);
    run_reference(&mut command, "fill", messages).await.map(drop)
}

/// A host whose source reads the stream; `consumer` says what it does with messages.
async fn host(bench: &Bench, server: &nats::Server, consumer: &str) -> Result<Measured> {
    Measured::start(bench, &config(server, "", consumer)).await
}

/// Its configuration, with more lines for the source.
pub fn config(server: &nats::Server, source: &str, consumer: &str) -> String {
    let url = server.url();
    format!(
        "[source.{SOURCE}]\nplugin = \"nats\"\nwindow = {WINDOW}\nprovision = true\n\
         config = {{ servers = [\"{url}\"], stream = \"{STREAM}\", durable = \"{DURABLE}\", ack_wait = \"30s\" }}\n\
         allow = {{ net = [\"{}\"] }}\n{source}\n\
         [consumer.{CONSUMER}]\nsource = \"{SOURCE}\"\n{consumer}\n",
        url.replace("nats://", "tcp://")
    )
}

/// What hands each message to a component that does nothing.
pub fn idle(bench: &Bench) -> String {
    let plugin = toml::Value::String(bench.idle_handler.display().to_string());
    format!("concurrency = {HANDED_OVER}\nhandler = \"fn:idle-handler\"\nplugin = {plugin}")
}

fn posted_to(sink: &Sink) -> String {
    format!("concurrency = {CALLS}\nhandler = \"{}\"", sink.url("handle"))
}

/// Everything in the stream, from the resume until JetStream has the last acknowledgement.
async fn drained(host: &mut Measured, server: &nats::Server, messages: u64) -> Result<Figure> {
    let mut client = server.client().await?;
    host.mark()?;
    let began = Instant::now();
    host.act("/v1/sources/orders/resume").await?;
    let (mut seen, mut moved) = (u64::MAX, Instant::now());
    loop {
        let left = left(&mut client).await?;
        if left == 0 {
            break;
        }
        if left != seen {
            (seen, moved) = (left, Instant::now());
        }
        all_arrived(moved.elapsed() < PATIENCE, messages.saturating_sub(left), messages)?;
        tokio::time::sleep(POLL).await;
    }
    host.used(Figure::of_rate(messages, began.elapsed()))
}

/// Messages of the stream that aren't acknowledged.
pub async fn left(client: &mut nats::Client) -> Result<u64> {
    let info = client.api(&format!("CONSUMER.INFO.{STREAM}.{DURABLE}"), &json!({})).await?;
    let count = |name: &str| info.get(name).and_then(Value::as_u64).with_context(|| format!("no {name} in {info}"));
    Ok(count("num_pending")? + count("num_ack_pending")?)
}

/// A host and a stream that is filled while its source is paused.
async fn paused(bench: &Bench, server: &nats::Server, consumer: &str, messages: u64, keys: u64) -> Result<Measured> {
    let host = host(bench, server, consumer).await?;
    host.act("/v1/sources/orders/pause").await?;
    fill(bench, server, messages, keys).await?;
    Ok(host)
}

/// W7: each message is one POST.
pub async fn handled(bench: &Bench, messages: u64) -> Result<Figure> {
    let (server, sink) = (stream().await?, Sink::start(false).await.context("starting the sink")?);
    let mut host = paused(bench, &server, &posted_to(&sink), messages, 0).await?;
    let figure = drained(&mut host, &server, messages).await?;
    ensure!(sink.arrived() == messages, "{} calls came for {messages} messages", sink.arrived());
    host.end().await?;
    Ok(figure)
}

/// The worker by hand.
pub async fn worked(bench: &Bench, messages: u64) -> Result<Figure> {
    let (server, sink) = (stream().await?, Sink::start(false).await.context("starting the sink")?);
    let database = postgres::Server::start().await.context("starting PostgreSQL: is it installed?")?;
    fill(bench, &server, messages, 0).await?;
    let before = cpu(&database)?;
    let figure = run_reference(&mut worker(bench, &server, &database, &sink, messages), "worker", messages).await?;
    let figure = figure.with_more_cpu(cpu(&database)?.saturating_sub(before));
    ensure!(sink.arrived() == messages, "{} calls came for {messages} messages", sink.arrived());
    Ok(figure)
}

fn worker(bench: &Bench, server: &nats::Server, database: &postgres::Server, sink: &Sink, messages: u64) -> Command {
    let mut command = Command::new(&bench.natives);
    command.args(["worker", &messages.to_string(), &server.url(), &WINDOW.to_string()]);
    command.args([database.url(), sink.url("handle")]);
    command
}

fn cpu(database: &postgres::Server) -> Result<Duration> {
    let pid = database.id().context("PostgreSQL has ended by itself")?;
    family_cpu(pid).context("reading what PostgreSQL used")
}

/// W7 200/s: how long from the publication to the handler.
pub async fn trickled(bench: &Bench) -> Result<Figure> {
    let (server, sink) = (stream().await?, Sink::start(true).await.context("starting the sink")?);
    let mut host = host(bench, &server, &posted_to(&sink)).await?;
    let mut publisher = Publisher::connect(&server).await?;
    publisher.warm_up(&sink).await?;
    host.mark()?;
    let began = Instant::now();
    publisher.publish(&sink, TRICKLE).await?;
    let figure = Figure::of_rate(TRICKLE, began.elapsed()).with_times(sink.take_latencies());
    let figure = host.used(figure)?;
    host.end().await?;
    Ok(figure)
}

/// The same for the worker by hand.
pub async fn worked_trickle(bench: &Bench) -> Result<Figure> {
    let (server, sink) = (stream().await?, Sink::start(true).await.context("starting the sink")?);
    let database = postgres::Server::start().await.context("starting PostgreSQL: is it installed?")?;
    let (before, total) = (cpu(&database)?, WARM_UP + TRICKLE);
    let mut command = worker(bench, &server, &database, &sink, total);
    let working = run_reference(&mut command, "worker", total);
    let publishing = async {
        let mut publisher = Publisher::connect(&server).await?;
        publisher.warm_up(&sink).await?;
        publisher.publish(&sink, TRICKLE).await
    };
    let (figure, ()) = tokio::try_join!(working, publishing)?;
    let figure = figure.with_more_cpu(cpu(&database)?.saturating_sub(before));
    Ok(figure.with_times(sink.take_latencies()))
}

/// Publishes at fixed instants, whatever became of the messages before.
struct Publisher {
    client: nats::Client,
    published: u64,
}

impl Publisher {
    async fn connect(server: &nats::Server) -> Result<Self> {
        Ok(Self { client: server.client().await?, published: 0 })
    }

    /// What comes first opens connections and compiles statements.
    async fn warm_up(&mut self, sink: &Sink) -> Result<()> {
        self.publish(sink, WARM_UP).await?;
        let _warm = sink.take_latencies();
        Ok(())
    }

    /// So many more; ends when the handler has had them.
    async fn publish(&mut self, sink: &Sink, count: u64) -> Result<()> {
        let begin = tokio::time::Instant::now() + EVERY;
        let padding = "x".repeat(PADDING);
        for number in 0..count {
            let due = begin + EVERY * u32::try_from(number)?;
            // One whose turn came late counts from when it was due; how late a timer wakes is no part of it.
            let made = if tokio::time::Instant::now() > due {
                due
            } else {
                sleep_until(due).await;
                tokio::time::Instant::now()
            };
            let age = made.into_std().duration_since(sink.started()).as_nanos();
            let payload = format!("{{{LATENCY_FIELD}{age},\"p\":\"{padding}\"}}");
            let id = format!("order-{}", self.published);
            let headers = [("Nats-Msg-Id", id.as_str()), ("content-type", "application/json")];
            self.client.publish_with(DESTINATION, &headers, payload.as_bytes()).await?;
            self.published += 1;
        }
        all_arrived(sink.wait_for(self.published, PATIENCE).await, sink.arrived(), self.published)
    }
}

/// What a host takes that has nothing to do: memory.
pub async fn at_rest(bench: &Bench) -> Result<Figure> {
    let host = Measured::start(bench, "").await?;
    tokio::time::sleep(REST).await;
    let figure = host.used(Figure::default())?;
    host.end().await?;
    Ok(Figure { cpu_s_per_10k: None, ..figure })
}

/// W9: a component that does nothing has each message; of so many keys, or of none.
pub async fn consumed(bench: &Bench, messages: u64, with_keys: bool) -> Result<Figure> {
    let server = stream().await?;
    let keys = if with_keys { KEYS } else { 0 };
    let mut host = paused(bench, &server, &idle(bench), messages, keys).await?;
    let figure = drained(&mut host, &server, messages).await?;
    host.end().await?;
    Ok(figure)
}

/// A client that reads and acknowledges.
pub async fn fetched(bench: &Bench, messages: u64) -> Result<Figure> {
    let server = stream().await?;
    fill(bench, &server, messages, 0).await?;
    let mut command = Command::new(&bench.natives);
    command.args(["fetch", &messages.to_string(), &server.url(), &WINDOW.to_string()]);
    run_reference(&mut command, "fetch", messages).await
}
