//! async-nats' ordered consumer, reading a stream from its beginning.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use async_nats::jetstream;
use async_nats::jetstream::consumer::pull;
use futures::StreamExt as _;

use crate::{Run, cpu};

/// The stream that holds the events, as the bench makes it.
pub const STREAM: &str = "EVENTS";

pub async fn run(url: &str, messages: u64) -> Result<Run> {
    let (began, before) = (Instant::now(), cpu()?);
    let client = async_nats::connect(url).await.context("connecting")?;
    let stream = jetstream::new(client).get_stream(STREAM).await.context("asking for the stream")?;
    let consumer = stream.create_consumer(pull::OrderedConfig::default()).await.context("making the consumer")?;
    let mut arriving = consumer.messages().await.context("reading")?;
    let mut read = 0;
    while read < messages {
        let Some(message) = arriving.next().await else { bail!("the stream of messages ended") };
        message.context("reading")?;
        read += 1;
    }
    Ok(Run { acknowledged: read, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}
