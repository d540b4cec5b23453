//! W9 of Kafka, Pulsar and MQTT: messages that a broker keeps, through the inbox to a component that does nothing, beside the broker's own
//! client that only reads and acknowledges. The native client of W5 has written them before; they have 1,000 keys.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::process::Command;
use waybill_testkit::brokers::{ALL, Broker, Measured as Server};
use waybill_testkit::outage::DESTINATION;
use waybill_testkit::pulsar;

use super::figure::{Figure, Side};
use super::host::Measured;
use super::inbound::{SOURCE, WINDOW, idle};
use super::native::run_reference;
use super::{Bench, all_arrived};

/// What is measured, in the order in which it is run in turn.
pub const PARTS: [(&str, Side); 6] = [
    ("W9 kafka", Side::Waybill),
    ("W9 kafka", Side::Native),
    ("W9 pulsar", Side::Waybill),
    ("W9 pulsar", Side::Native),
    ("W9 mqtt", Side::Waybill),
    ("W9 mqtt", Side::Native),
];

/// Group or subscription of the host's source; the subscription is also the native client's.
const GROUP: &str = "bench";
/// The client whose session Mosquitto keeps when it is started to be measured.
const SESSION: &str = "waybill-counter";
/// Nothing is settled for this long: it is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at the host's counts: each costs it a millisecond.
const POLL: Duration = Duration::from_millis(50);

/// A broker's source in a host, or its own client, with a new server.
pub async fn measure(bench: &Bench, measured: &str, side: Side, messages: u64) -> Result<Figure> {
    let broker = ALL.iter().find(|broker| measured == format!("W9 {}", broker.name));
    let broker = broker.with_context(|| format!("{measured} is measured by nobody"))?;
    let server = start(broker).await.with_context(|| format!("starting {}: is it installed?", broker.name))?;
    let url = server.url();
    match side {
        Side::Waybill => consumed(bench, broker, &url, messages).await,
        Side::Native => {
            fill(bench, broker, &url, messages).await?;
            let job = format!("fetch-{}", broker.name);
            let mut command = Command::new(&bench.natives);
            command.args([&job, &messages.to_string(), &url, &WINDOW.to_string()]);
            run_reference(&mut command, &job, messages).await
        }
        Side::Store => bail!("{measured} has no side {side}"),
    }
}

/// A server that keeps what comes from now on.
async fn start(broker: &Broker) -> io::Result<Box<dyn Server>> {
    if broker.name != "pulsar" {
        return (broker.start)().await;
    }
    let server = pulsar::Server::start().await?;
    server.create_topic(DESTINATION, 0).await?;
    let path = format!("persistent/public/default/{DESTINATION}/subscription/{GROUP}");
    server.admin("PUT", &path, "").await?;
    Ok(Box::new(server))
}

async fn fill(bench: &Bench, broker: &Broker, url: &str, messages: u64) -> Result<()> {
    let mut command = Command::new(&bench.natives);
    command.args([broker.name, &messages.to_string(), url, &broker.window.to_string()]);
    run_reference(&mut command, broker.name, messages).await.map(drop)
}

/// Everything that is kept, from the resume until the last message is settled.
async fn consumed(bench: &Bench, broker: &Broker, url: &str, messages: u64) -> Result<Figure> {
    let mut host = Measured::start(bench, &config(bench, broker, url)?).await?;
    host.act("/v1/sources/orders/pause").await?;
    fill(bench, broker, url, messages).await?;
    host.mark()?;
    let began = Instant::now();
    host.act("/v1/sources/orders/resume").await?;
    let (mut seen, mut moved) = (0, Instant::now());
    while seen < messages {
        let now = settled(&host).await?;
        if now > seen {
            (seen, moved) = (now, Instant::now());
        }
        all_arrived(moved.elapsed() < PATIENCE, seen, messages)?;
        tokio::time::sleep(POLL).await;
    }
    let figure = host.used(Figure::of_rate(messages, began.elapsed()))?;
    host.end().await?;
    Ok(figure)
}

fn config(bench: &Bench, broker: &Broker, url: &str) -> Result<String> {
    let (_, peer) = url.split_once("://").context("the URL has no scheme")?;
    let what = match broker.name {
        "kafka" => format!("topics = [\"{DESTINATION}\"], group = \"{GROUP}\""),
        "pulsar" => format!("topic = \"{DESTINATION}\", subscription = \"{GROUP}\""),
        "mqtt" => format!("topics = [\"{DESTINATION}\"], client_id = \"{SESSION}\""),
        other => bail!("{other} is read by W9 itself"),
    };
    let kv = if broker.name == "mqtt" { ", kv = \"64KiB\"" } else { "" };
    Ok(format!(
        "[source.{SOURCE}]\nplugin = \"{}\"\nwindow = {WINDOW}\nconfig = {{ servers = [\"{url}\"], {what} }}\n\
         allow = {{ net = [\"tcp://{peer}\"]{kv} }}\n[consumer.{GROUP}]\nsource = \"{SOURCE}\"\n{}\n",
        broker.name,
        idle(bench)
    ))
}

/// Deliveries that the source has acknowledged.
async fn settled(host: &Measured) -> Result<u64> {
    let text = match host.api.get("/metrics", &[]).await {
        Ok(reply) => reply.body.as_str().map(str::to_owned).context("metrics that are no text")?,
        Err(error) => bail!("the metrics weren't answered: {error:?}"),
    };
    Ok(acknowledged(&text))
}

fn acknowledged(metrics: &str) -> u64 {
    let is_one =
        |line: &&str| line.starts_with("waybill_source_settlements_total{") && line.contains("disposition=\"ack\"");
    metrics.lines().filter(is_one).filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_counted_and_nothing_else_is() {
        let line = |disposition: &str, count: u64| {
            format!("waybill_source_settlements_total{{source=\"orders\",disposition=\"{disposition}\"}} {count}")
        };
        assert_eq!(acknowledged(&[line("ack", 7), line("release", 3), String::new()].join("\n")), 7);
    }
}
