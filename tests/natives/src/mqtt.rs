//! The `rumqttc` crate, publishing by MQTT 5 with quality of service 1, and reading a session.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rumqttc::Outgoing;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, PublishProperties};
use rumqttc::v5::{AsyncClient, Event, MqttOptions};

use crate::{DESTINATION, PAYLOAD, Run, cpu};

/// The client whose session the server keeps.
const SESSION: &str = "waybill-counter";
/// How long the server keeps it without a connection, in seconds.
const SESSION_EXPIRY: u32 = 3_600;

/// Reads what the server keeps for a session and acknowledges, with `window` messages on their way.
pub async fn fetch(url: &str, messages: u64, window: usize) -> Result<Run> {
    let (host, port) = url.trim_start_matches("mqtt://").split_once(':').context("the URL has no port")?;
    let mut options = MqttOptions::new(SESSION, host, port.parse().context("the port")?);
    options.set_keep_alive(Duration::from_secs(60));
    options.set_clean_start(false);
    options.set_session_expiry_interval(Some(SESSION_EXPIRY));
    options.set_receive_maximum(Some(u16::try_from(window).unwrap_or(u16::MAX)));
    // Dropping the client would end the connection.
    let (_client, mut events) = AsyncClient::new(options, window);
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 0);
    while acknowledged < messages {
        if let Event::Outgoing(Outgoing::PubAck(_)) = events.poll().await.context("reading")? {
            acknowledged += 1;
        }
    }
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

/// Publishes with `window` messages without acknowledgement, or as many as the server takes.
pub async fn run(url: &str, messages: u64, window: usize) -> Result<Run> {
    let (host, port) = url.trim_start_matches("mqtt://").split_once(':').context("the URL has no port")?;
    let mut options = MqttOptions::new("waybill-native", host, port.parse().context("the port")?);
    options.set_keep_alive(Duration::from_secs(60));
    options.set_outgoing_inflight_upper_limit(u16::try_from(window).unwrap_or(u16::MAX));
    let (client, mut events) = AsyncClient::new(options, window);
    let payload = vec![b'x'; PAYLOAD];
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 0);
    let publisher = tokio::spawn(async move {
        for number in 0..messages {
            let properties = properties(number);
            client
                .publish_with_properties(DESTINATION, QoS::AtLeastOnce, false, payload.clone(), properties)
                .await
                .context("publishing")?;
        }
        // Dropping it would end the connection.
        Ok::<_, anyhow::Error>(client)
    });
    while acknowledged < messages {
        if let Event::Incoming(Packet::PubAck(_)) = events.poll().await.context("waiting for an acknowledgement")? {
            acknowledged += 1;
        }
    }
    let run = Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) };
    publisher.await??;
    Ok(run)
}

/// Those that a delivery by Waybill has.
fn properties(number: u64) -> PublishProperties {
    let user = [
        ("id", format!("01K{number:023}")),
        ("x-tenant", "default".to_owned()),
        ("x-topic", "bus:orders.created".to_owned()),
        ("x-key", format!("customer-{}", number % 1_000)),
        ("x-event-type", "orders.created".to_owned()),
        ("x-event-version", "1".to_owned()),
        ("x-seq", number.to_string()),
        ("x-occurred-at", "2026-01-01T00:00:00.000Z".to_owned()),
        ("x-created-at", "2026-01-01T00:00:00.000Z".to_owned()),
        ("x-attempt", "1".to_owned()),
        ("x-lease-epoch", "1".to_owned()),
    ];
    PublishProperties {
        content_type: Some("application/json".to_owned()),
        user_properties: user.map(|(name, value)| (name.to_owned(), value)).into(),
        ..PublishProperties::default()
    }
}
