//! async-nats, reading a stream and acknowledging: what a consumer can't do without.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::{Client, jetstream};
use futures::StreamExt as _;

use crate::{Run, cpu};

/// Stream and durable consumer.
const STREAM: &str = "ORDERS";
const DURABLE: &str = "by-hand";
/// As the bundled source makes its consumers.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// The durable consumer, with so many messages unsettled at most.
pub async fn consumer(url: &str, window: usize) -> Result<(Client, PullConsumer)> {
    let client = async_nats::connect(url).await.context("connecting to NATS")?;
    let stream = jetstream::new(client.clone()).get_stream(STREAM).await.context("asking for the stream")?;
    let config = pull::Config {
        durable_name: Some(DURABLE.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: i64::try_from(window)?,
        ..pull::Config::default()
    };
    let consumer = stream.get_or_create_consumer(DURABLE, config).await.context("making the consumer")?;
    Ok((client, consumer))
}

/// Reads and acknowledges; ends when the server has every acknowledgement.
pub async fn run(url: &str, messages: u64, window: usize) -> Result<Run> {
    let (client, mut consumer) = consumer(url, window).await?;
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 0);
    let mut arriving = consumer.stream().max_messages_per_batch(window).messages().await?;
    while acknowledged < messages {
        let Some(message) = arriving.next().await else { bail!("the stream of messages ended") };
        if let Err(error) = message.context("reading")?.ack().await {
            bail!("acknowledging: {error}");
        }
        acknowledged += 1;
    }
    client.flush().await.context("flushing")?;
    while consumer.info().await.context("asking for the consumer")?.num_ack_pending > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}
