//! W11: a stream of a million events is read from its beginning, by one client in a process of its own. CPU is the server's and the client's
//! together: what one doesn't do is left to the other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;
use waybill_testkit::grpc_subscriber::{After, Answers, Call};
use waybill_testkit::load::usage;
use waybill_testkit::subscriber::{Frame, Subscriber};

use super::Bench;
use super::append::{KEEP_ALL, Shape, append_all, fill_jetstream, jetstream, stream};
use super::figure::{Figure, Side};
use super::host::Measured;
use super::native::{apart, run_reference};

/// What is measured, in the order in which it is run in turn.
pub const PARTS: [(&str, Side); 4] =
    [("W11", Side::Waybill), ("W11", Side::Native), ("W11 codec", Side::Native), ("W11 sse", Side::Waybill)];
/// What a process by itself is asked for: to read over gRPC.
pub const BY_GRPC: &str = "subscribe";
/// The same over server-sent events.
pub const BY_SSE: &str = "subscribe-sse";
/// Events of a request while the stream is filled.
const FILL_BATCH: u64 = 1_000;

/// A subscriber of a whole host, which reads as this kind of process does.
pub async fn subscribed(bench: &Bench, kind: &str, events: u64) -> Result<Figure> {
    let mut host = Measured::start(bench, KEEP_ALL).await?;
    append_all(host.api.base(), Shape { under_way: 4, size: FILL_BATCH, streams: 1, events }).await?;
    host.mark()?;
    let target = format!("{} stream:{}", host.api.base(), stream(0));
    let client = apart(kind, &target, events).await?;
    let figure = host.used(client.clone())?;
    host.end().await?;
    let both = figure.cpu_s_per_10k.zip(client.cpu_s_per_10k).map(|(host, client)| host + client);
    Ok(Figure { cpu_s_per_10k: both, ..figure })
}

const NO_TARGET: &str = "the target is no BASE SELECTOR";

/// Reads so many events of `BASE SELECTOR`, which names one stream, and looks at the number of each.
pub async fn read(target: &str, events: u64) -> Result<Duration> {
    let (base, selector) = target.split_once(' ').context(NO_TARGET)?;
    let began = Instant::now();
    let mut answers = Answers::open(base, &Call::subscribe(selector, After::Nothing), None).await?;
    for expected in 1..=events {
        let seq = answers.next().await?.map(|event| event.seq());
        ensure!(seq == Some(expected), "{seq:?} came instead of {expected}");
    }
    Ok(began.elapsed())
}

/// The same over server-sent events.
pub async fn read_sse(target: &str, events: u64) -> Result<Duration> {
    let (base, selector) = target.split_once(' ').context(NO_TARGET)?;
    let began = Instant::now();
    let mut subscriber = Subscriber::open(base, selector, None).await?;
    for expected in 1..=events {
        match subscriber.next().await? {
            Some(Frame::Event { cursor, .. }) => {
                let seq = std::str::from_utf8(&cursor).ok().and_then(|seq| seq.parse::<u64>().ok());
                ensure!(seq == Some(expected), "{seq:?} came instead of {expected}");
            }
            // Silence, too: everything is there already.
            other => bail!("{} of {events} events came, and then {other:?}", expected - 1),
        }
    }
    Ok(began.elapsed())
}

/// A native client reads as many messages of JetStream: async-nats' ordered consumer, or a push consumer by a bare codec.
pub async fn consumed(bench: &Bench, job: &str, events: u64) -> Result<Figure> {
    let server = jetstream().await?;
    fill_jetstream(bench, &server, events).await?;
    let server_cpu = || {
        let pid = server.id().context("nats-server has ended by itself")?;
        anyhow::Ok(usage(pid).context("reading what nats-server used")?.cpu)
    };
    let before = server_cpu()?;
    let mut command = Command::new(&bench.natives);
    command.args([job, &events.to_string(), &server.url()]);
    let figure = run_reference(&mut command, job, events).await?;
    Ok(figure.with_more_cpu(server_cpu()?.saturating_sub(before)))
}
