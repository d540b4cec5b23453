//! W5: NATS JetStream with acknowledgements. The component by itself beside the broker's own Rust client, both on one
//! connection with a window of 64 to a server of their own; and messages through a whole host.

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::process::Command;
use waybill_testkit::load::{Plan, batches};
use waybill_testkit::nats::{Client, Server};

use super::Bench;
use super::delivery::send;
use super::figure::Figure;
use super::host::Measured;
use super::native::told;

const STREAM: &str = "ORDERS";
const SUBJECT: &str = "orders.created";
/// Unacknowledged messages of the native client; the component's is in `tests/examples/alone.rs`.
const WINDOW: &str = "64";
const BATCH: u64 = 100;
const CLIENTS: usize = 4;

async fn server() -> Result<(Server, Client)> {
    let server = Server::start().await.context("starting nats-server: is it installed?")?;
    let mut client = server.client().await.context("connecting to nats-server")?;
    client.create_stream(STREAM, &["orders.>"], &json!({})).await.context("making the stream")?;
    Ok((server, client))
}

/// The component.
pub async fn component(bench: &Bench, messages: u64) -> Result<Figure> {
    let (server, mut client) = server().await?;
    let mut command = Command::new(&bench.alone);
    let figure = told(command.args(["nats", &messages.to_string(), &server.url()]), "nats", messages).await?;
    stored(&mut client, messages).await?;
    Ok(figure)
}

/// The broker's own client.
pub async fn native(bench: &Bench, messages: u64) -> Result<Figure> {
    let (server, mut client) = server().await?;
    let mut command = Command::new(&bench.natives);
    command.args(["nats", &server.url(), SUBJECT, &messages.to_string(), WINDOW]);
    let figure = told(&mut command, "async-nats", messages).await?;
    stored(&mut client, messages).await?;
    Ok(figure)
}

/// Through a host: enqueued over the API, committed, published, settled.
pub async fn through(bench: &Bench, messages: u64) -> Result<Figure> {
    let (server, mut client) = server().await?;
    let peer = server.url().replace("nats://", "tcp://");
    let config = format!(
        "[transport.nats]\nplugin = \"nats\"\nconfig = {{ servers = [\"{}\"] }}\nallow = {{ net = [\"{peer}\"] }}\n\
         [[route]]\nmatch = \"bus:orders.**\"\ntransport = \"nats\"\n",
        server.url()
    );
    let mut host = Measured::start(bench, &config).await?;
    let bodies = batches(&Plan::new(format!("bus:{SUBJECT}")), 0, messages, BATCH);
    host.mark()?;
    let began = Instant::now();
    let sent = send(host.api.base(), "/v1/messages", bodies, CLIENTS).await?;
    host.drained().await?;
    let figure = host.used(Figure::of_rate(messages, began.elapsed()).with_times(sent))?;
    stored(&mut client, messages).await?;
    host.end().await?;
    Ok(figure)
}

/// What was acknowledged is in the stream, once.
async fn stored(client: &mut Client, messages: u64) -> Result<()> {
    let info = client.api(&format!("STREAM.INFO.{STREAM}"), &json!({})).await.context("asking the stream")?;
    let stored = info.pointer("/state/messages").and_then(Value::as_u64).unwrap_or_default();
    anyhow::ensure!(stored == messages, "the stream holds {stored} of {messages} messages");
    Ok(())
}
