//! Mosquitto as the broker that messages come in from. It isn't killed: it writes to its disk after it has acknowledged.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::time::sleep;

use super::{Disturbance, Load, Upstream, id_of, key_of};
use crate::mqtt::{Client, Login, Server};

const LOAD: Load = Load {
    messages: 800,
    keys: 20,
    // Of a second one's nobody could tell when all of it has come.
    senders: 1,
    call: Duration::from_millis(20),
    disturbances: &[
        Disturbance::HostKilled,
        Disturbance::SourceReplaced,
        Disturbance::HandlerKilled,
        Disturbance::HostKilled,
    ],
};
const TOPIC: &str = "orders/in";
/// The client by whose name the server keeps the session.
const SESSION: &str = "ship";
/// A payload that no order has.
const END: &[u8] = b"end";
/// Between two messages of a sender, so that kills meet all of the work.
const PACE: Duration = Duration::from_millis(12);

/// A session that is subscribed to orders.
pub struct Mqtt(Server);

impl Mqtt {
    /// Starts a server with the session: what is published before there is one, nobody gets.
    ///
    /// # Errors
    /// It isn't installed, or doesn't start; the text says what to do.
    pub async fn start() -> io::Result<Self> {
        let server = Server::start().await?;
        let mut session = server.session(SESSION).await?;
        session.subscribe(TOPIC).await?;
        session.close().await?;
        Ok(Self(server))
    }
}

#[async_trait]
impl Upstream for Mqtt {
    fn load(&self) -> Load {
        LOAD
    }

    fn source(&self) -> String {
        let (url, port) = (self.0.url(), self.0.port());
        format!(
            "plugin = \"mqtt-source\"\nallow = {{ net = [\"tcp://127.0.0.1:{port}\"], kv = \"64KiB\" }}\n\
             config = {{ servers = [\"{url}\"], topics = [\"{TOPIC}\"], client_id = \"{SESSION}\" }}\n"
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
        Ok(None)
    }

    async fn kept(&mut self) -> io::Result<u64> {
        let mut session = self.0.session(SESSION).await?;
        // What the session has comes before what is published now.
        self.0.client().await?.publish(TOPIC, END, &[]).await?;
        let mut count = 0;
        while session.receive_all(1).await?.iter().all(|message| message.payload != END) {
            count += 1;
        }
        Ok(count)
    }
}

async fn send_all(port: u16) -> io::Result<u64> {
    let mut client = Client::connect(port, &Login::default()).await?;
    for number in 1..=LOAD.messages {
        let (id, key) = (id_of(number), key_of(number, LOAD.keys));
        let payload = json!({ "order": number }).to_string();
        let reason = client.publish(TOPIC, payload.as_bytes(), &[("id", &id), ("x-key", &key)]).await?;
        if reason != 0 {
            return Err(io::Error::other(format!("the server refused {id}: {reason:#x}")));
        }
        sleep(PACE).await;
    }
    client.close().await?;
    Ok(LOAD.messages)
}
