//! W5: brokers with acknowledgements. Each bundled transport by itself beside the broker's own Rust client, both on one connection
//! with the same window of unacknowledged messages, to a server of their own; and each through a whole host.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokio::process::Command;
use waybill_testkit::brokers::{ALL, Broker, Measured};
use waybill_testkit::load::{Plan, batches};
use waybill_testkit::outage::DESTINATION;

use super::Bench;
use super::delivery::send;
use super::figure::{Figure, Side};
use super::host;
use super::native::run_reference;

const BATCH: u64 = 100;
const CLIENTS: usize = 4;

/// Names of what is measured of each broker: its component by itself, and through a host.
pub fn names() -> impl Iterator<Item = (String, String)> {
    ALL.iter().map(|broker| (alone(broker), hosted(broker)))
}

fn alone(broker: &Broker) -> String {
    format!("W5 {}", broker.name)
}

fn hosted(broker: &Broker) -> String {
    format!("W5 {} host", broker.name)
}

/// A broker's component, by itself or through a host, or its own client, with a new server.
pub async fn measure(bench: &Bench, measured: &str, side: Side, messages: u64) -> Result<Figure> {
    if let Some(broker) = ALL.iter().find(|broker| hosted(broker) == measured) {
        return through(bench, broker, messages).await;
    }
    let program = match side {
        Side::Waybill => &bench.alone,
        Side::Native => &bench.natives,
        Side::Store => bail!("{measured} has no side {side}"),
    };
    let Some(broker) = ALL.iter().find(|broker| alone(broker) == measured) else {
        bail!("{measured} is measured by nobody");
    };
    let mut server = start(broker).await?;
    let mut command = Command::new(program);
    command.args([broker.name, &messages.to_string(), &server.url(), &broker.window.to_string()]);
    let figure = run_reference(&mut command, broker.name, messages).await?;
    check(server.as_mut(), messages).await?;
    Ok(figure)
}

async fn start(broker: &Broker) -> Result<Box<dyn Measured>> {
    (broker.start)().await.with_context(|| format!("starting {}: is it installed?", broker.name))
}

/// What was acknowledged is there, once.
async fn check(server: &mut dyn Measured, messages: u64) -> Result<()> {
    let stored = server.stored().await.context("asking the broker what it holds")?;
    anyhow::ensure!(stored == messages, "the broker holds {stored} of {messages} messages");
    Ok(())
}

/// Through a host: enqueued over the API, committed, published, settled; in calls and entries as the component by itself has them.
async fn through(bench: &Bench, broker: &Broker, messages: u64) -> Result<Figure> {
    let mut server = start(broker).await?;
    let (url, name) = (server.url(), broker.name);
    let batch = broker.batch().max(BATCH);
    let (_, peer) = url.split_once("://").context("the server's URL has no scheme")?;
    let settings: String =
        broker.settings().iter().map(|(setting, value)| format!(", {setting} = \"{value}\"")).collect();
    let config = format!(
        "[transport.{name}]\nplugin = \"{name}\"\nconfig = {{ servers = [\"{url}\"]{settings} }}\n\
         allow = {{ net = [\"tcp://{peer}\"] }}\nmax_batch = {batch}\n[[route]]\nmatch = \"bus:orders.**\"\ntransport = \"{name}\"\n"
    );
    let mut host = host::Measured::start(bench, &config).await?;
    let bodies = batches(&Plan::new(format!("bus:{DESTINATION}")), 0, messages, BATCH);
    host.mark()?;
    let began = Instant::now();
    let sent = send(host.api.base(), "/v1/messages", bodies, CLIENTS, None).await?;
    host.drained().await?;
    let figure = host.used(Figure::of_rate(messages, began.elapsed()).with_times(sent))?;
    check(server.as_mut(), messages).await?;
    host.end().await?;
    Ok(figure)
}
