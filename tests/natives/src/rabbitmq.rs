//! lapin, publishing persistent and mandatory messages with publisher confirms.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Context, Result};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Confirmation, Connection, ConnectionProperties, PublisherConfirm};

use crate::{DESTINATION, PAYLOAD, Run, cpu};

/// Every server has it.
const EXCHANGE: &str = "amq.topic";

/// Publishes with a sliding window.
pub async fn run(url: &str, messages: u64, window: usize) -> Result<Run> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.context("connecting")?;
    let channel = connection.create_channel().await.context("opening a channel")?;
    channel.confirm_select(ConfirmSelectOptions::default()).await.context("asking for confirms")?;
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let payload = vec![b'x'; PAYLOAD];
    let mut pending = VecDeque::with_capacity(window);
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 0);
    for number in 0..messages {
        if pending.len() >= window
            && let Some(oldest) = pending.pop_front()
        {
            acknowledged += u64::from(settled(oldest).await);
        }
        let sent = channel.basic_publish(EXCHANGE.into(), DESTINATION.into(), options, &payload, properties(number));
        pending.push_back(sent.await.context("publishing")?);
    }
    for sent in pending {
        acknowledged += u64::from(settled(sent).await);
    }
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

/// Confirmed, and not returned.
async fn settled(sent: PublisherConfirm) -> bool {
    matches!(sent.await, Ok(Confirmation::Ack(None)))
}

/// Those that a delivery by Waybill has.
fn properties(number: u64) -> BasicProperties {
    let mut headers = FieldTable::default();
    let mut text = |name: &str, value: &str| {
        headers.insert(name.into(), AMQPValue::LongString(LongString::from(value)));
    };
    text("x-tenant", "default");
    text("x-topic", "bus:orders.created");
    text("x-key", &format!("customer-{}", number % 1_000));
    text("x-event-version", "1");
    text("x-seq", &number.to_string());
    text("x-occurred-at", "2026-01-01T00:00:00.000Z");
    text("x-created-at", "2026-01-01T00:00:00.000Z");
    for name in ["x-attempt", "x-lease-epoch"] {
        headers.insert(name.into(), AMQPValue::LongLongInt(1));
    }
    BasicProperties::default()
        .with_content_type("application/json".into())
        .with_headers(headers)
        .with_delivery_mode(2)
        .with_message_id(format!("01K{number:023}").into())
        .with_timestamp(1_767_225_600)
        .with_type("orders.created".into())
}
