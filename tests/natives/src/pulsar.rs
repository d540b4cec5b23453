//! The `pulsar` crate, sending over the binary protocol in batches, and reading a subscription.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures::StreamExt as _;
use pulsar::producer::{Message, ProducerOptions, SendFuture};
use pulsar::{Consumer, Pulsar, SubType, TokioExecutor};

use crate::{DESTINATION, PAYLOAD, Run, cpu};

/// The subscription that is read. It was made before there were messages.
const SUBSCRIPTION: &str = "bench";
/// Messages of an entry: as many of one call to the component share one key at most.
const BATCH: u32 = 1_000;
/// Bytes of an entry, as the component has them.
const BATCH_BYTES: usize = 131_072;

/// Sends with at most `window` messages without a receipt.
pub async fn run(url: &str, messages: u64, window: usize) -> Result<Run> {
    let client: Pulsar<TokioExecutor> = Pulsar::builder(url, TokioExecutor).build().await.context("connecting")?;
    let options =
        ProducerOptions { batch_size: Some(BATCH), batch_byte_size: Some(BATCH_BYTES), ..ProducerOptions::default() };
    let topic = format!("persistent://public/default/{DESTINATION}");
    let mut producer =
        client.producer().with_topic(topic).with_options(options).build().await.context("making a producer")?;
    let payload = vec![b'x'; PAYLOAD];
    let mut pending: VecDeque<SendFuture> = VecDeque::with_capacity(window);
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 0);
    for number in 0..messages {
        if pending.len() >= window {
            producer.send_batch().await.context("sending a batch")?;
            for sent in pending.drain(..) {
                acknowledged += u64::from(sent.await.is_ok());
            }
        }
        pending.push_back(producer.send_non_blocking(message(number, payload.clone())).await.context("sending")?);
    }
    producer.send_batch().await.context("sending the last batch")?;
    for sent in pending {
        acknowledged += u64::from(sent.await.is_ok());
    }
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

/// Reads and acknowledges, with room for `window` messages on their way.
pub async fn fetch(url: &str, messages: u64, window: usize) -> Result<Run> {
    let client: Pulsar<TokioExecutor> = Pulsar::builder(url, TokioExecutor).build().await.context("connecting")?;
    let consumer = client
        .consumer()
        .with_topic(format!("persistent://public/default/{DESTINATION}"))
        .with_subscription(SUBSCRIPTION)
        .with_subscription_type(SubType::Failover)
        .with_batch_size(u32::try_from(window)?);
    let mut consumer: Consumer<Vec<u8>, TokioExecutor> = consumer.build().await.context("making a consumer")?;
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 0);
    while acknowledged < messages {
        let Some(message) = consumer.next().await else { bail!("the stream of messages ended") };
        consumer.ack(&message.context("reading")?).await.context("acknowledging")?;
        acknowledged += 1;
    }
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

/// With the properties that a delivery by Waybill has.
fn message(number: u64, payload: Vec<u8>) -> Message {
    let key = format!("customer-{}", number % 1_000);
    let properties = [
        ("id", format!("01K{number:023}")),
        ("x-tenant", "default".to_owned()),
        ("x-topic", "bus:orders.created".to_owned()),
        ("x-key", key.clone()),
        ("x-event-type", "orders.created".to_owned()),
        ("x-event-version", "1".to_owned()),
        ("x-seq", number.to_string()),
        ("x-occurred-at", "2026-01-01T00:00:00.000Z".to_owned()),
        ("x-created-at", "2026-01-01T00:00:00.000Z".to_owned()),
        ("x-attempt", "1".to_owned()),
        ("x-lease-epoch", "1".to_owned()),
        ("content-type", "application/json".to_owned()),
    ];
    Message {
        payload,
        properties: properties.map(|(name, value)| (name.to_owned(), value)).into(),
        partition_key: Some(key.clone()),
        ordering_key: Some(key.into_bytes()),
        ..Message::default()
    }
}
