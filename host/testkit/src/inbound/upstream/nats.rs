//! JetStream as the broker that messages come in from.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Disturbance, Load, Upstream, id_of, key_of};
use crate::nats::{Client, Login, Server};

const LOAD: Load = Load {
    messages: 60,
    keys: 6,
    senders: 64,
    call: Duration::from_millis(120),
    ordered: true,
    disturbances: &[
        Disturbance::HostKilled,
        Disturbance::HandlerKilled,
        Disturbance::BrokerKilled,
        Disturbance::HostKilled,
        Disturbance::HandlerKilled,
        Disturbance::BrokerKilled,
    ],
};
/// Header that has the id: `Nats-Msg-Id` would let the server remove repeats by itself.
const ID: &str = "order-id";
/// Header that has the key.
const KEY: &str = "order-key";
/// Between two messages of a sender, so that kills meet all of the work.
const PACE: Duration = Duration::from_millis(200);
/// A sender waits so long before it tries again at a server that is away.
const AWAY_PAUSE: Duration = Duration::from_millis(200);
/// What the server may have given out at most: more than hosts can have, so that it isn't the server that keeps the window.
const ACK_PENDING_MAX: u32 = 300;

pub struct Nats(Server);

impl Nats {
    /// Starts a server with the stream.
    ///
    /// # Errors
    /// It isn't installed, or doesn't start; the text says what to do.
    pub async fn start() -> io::Result<Self> {
        let server = Server::start().await?;
        server.client().await?.create_stream("ORDERS", &["orders.>"], &json!({})).await?;
        Ok(Self(server))
    }

    async fn count(&self, name: &str) -> io::Result<u64> {
        let info = self.0.client().await?.api("CONSUMER.INFO.ORDERS.ship", &json!({})).await?;
        info.get(name).and_then(Value::as_u64).ok_or_else(|| io::Error::other(info.to_string()))
    }
}

#[async_trait]
impl Upstream for Nats {
    fn load(&self) -> Load {
        LOAD
    }

    fn source(&self) -> String {
        let (url, peer) = (self.0.url(), self.0.url().replace("nats://", "tcp://"));
        format!(
            "plugin = \"nats\"\nprovision = true\nallow = {{ net = [\"{peer}\"] }}\n\
             config = {{ servers = [\"{url}\"], stream = \"ORDERS\", durable = \"ship\", ack_wait = \"3s\", \
             max_ack_pending = {ACK_PENDING_MAX} }}\n\
             map = {{ id = \"{ID}\", key = \"{KEY}\" }}\n"
        )
    }

    fn sender(&self) -> BoxFuture<'static, io::Result<u64>> {
        send_all(self.0.port()).boxed()
    }

    async fn kill(&mut self) -> io::Result<()> {
        self.0.kill().await
    }

    async fn restart(&mut self) -> io::Result<()> {
        self.0.restart().await
    }

    async fn unsettled(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.count("num_pending").await? + self.count("num_ack_pending").await?))
    }

    async fn given_out(&self) -> io::Result<Option<u64>> {
        self.count("num_ack_pending").await.map(Some)
    }
}

async fn send_all(port: u16) -> io::Result<u64> {
    let mut client = None;
    for number in 1..=LOAD.messages {
        let (id, key) = (id_of(number), key_of(number, LOAD.keys));
        let payload = json!({ "order": number }).to_string();
        loop {
            // A message whose place nobody told is sent again: that is what ids are for.
            let connected = match client.take() {
                Some(client) => Ok(client),
                None => Client::connect(port, &Login::default()).await,
            };
            let Ok(mut connected) = connected else {
                sleep(AWAY_PAUSE).await;
                continue;
            };
            let headers = [(ID, id.as_str()), (KEY, key.as_str()), ("content-type", "application/json")];
            if connected.publish_with("orders.in", &headers, payload.as_bytes()).await.is_ok() {
                client = Some(connected);
                break;
            }
        }
        sleep(PACE).await;
    }
    Ok(LOAD.messages)
}
