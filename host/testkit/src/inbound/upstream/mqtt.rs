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
    ordered: true,
    disturbances: &[
        Disturbance::HostKilled,
        Disturbance::SourceReplaced,
        Disturbance::HandlerKilled,
        Disturbance::HostKilled,
    ],
};
/// Of two instances that share the messages, which go to either as the server likes.
const SHARED: Load = Load {
    messages: 600,
    ordered: false,
    disturbances: &[Disturbance::SourceTrapped, Disturbance::HostKilled, Disturbance::SourceReplaced],
    ..LOAD
};
const TOPIC: &str = "orders/in";
/// The clients by whose names the server keeps the sessions: of the one instance, or of two.
const SESSIONS: [&str; 2] = ["ship", "ship-1"];
/// The group of the two.
const GROUP: &str = "ship";
/// A payload that no order has.
const END: &[u8] = b"end";
/// Between two messages of a sender, so that kills meet all of the work.
const PACE: Duration = Duration::from_millis(12);

/// Sessions that are subscribed to orders.
pub struct Mqtt {
    server: Server,
    is_shared: bool,
}

impl Mqtt {
    /// Starts a server with the session of one instance.
    ///
    /// # Errors
    /// It isn't installed, or doesn't start; the text says what to do.
    pub async fn start() -> io::Result<Self> {
        Self::with(false).await
    }

    /// Starts one with the sessions of two instances that share the messages.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn shared() -> io::Result<Self> {
        Self::with(true).await
    }

    /// What is published before there is a session, nobody gets.
    async fn with(is_shared: bool) -> io::Result<Self> {
        let mqtt = Self { server: Server::start().await?, is_shared };
        let filter = if is_shared { format!("$share/{GROUP}/{TOPIC}") } else { TOPIC.to_owned() };
        for name in mqtt.sessions() {
            let mut session = mqtt.server.session(name).await?;
            session.subscribe(&filter).await?;
            session.close().await?;
        }
        Ok(mqtt)
    }

    fn sessions(&self) -> impl Iterator<Item = &'static str> {
        SESSIONS.into_iter().take(if self.is_shared { 2 } else { 1 })
    }
}

#[async_trait]
impl Upstream for Mqtt {
    fn load(&self) -> Load {
        if self.is_shared { SHARED } else { LOAD }
    }

    fn source(&self) -> String {
        let (url, port, [first, _]) = (self.server.url(), self.server.port(), SESSIONS);
        let (instances, share) =
            if self.is_shared { (2, format!(", share = \"{GROUP}\"")) } else { (1, String::new()) };
        format!(
            "plugin = \"mqtt-source\"\ninstances = {instances}\n\
             allow = {{ net = [\"tcp://127.0.0.1:{port}\"], kv = \"64KiB\" }}\n\
             config = {{ servers = [\"{url}\"], topics = [\"{TOPIC}\"], client_id = \"{first}\"{share} }}\n"
        )
    }

    fn sender(&self) -> BoxFuture<'static, io::Result<u64>> {
        let (port, messages) = (self.server.port(), self.load().messages);
        async move { send_all(port, messages, 0, PACE).await }.boxed()
    }

    async fn send_large(&mut self, bytes: usize) -> io::Result<()> {
        send_all(self.server.port(), LOAD.keys, bytes, Duration::ZERO).await.map(drop)
    }

    async fn kill(&mut self) -> io::Result<()> {
        self.server.kill().await
    }

    async fn restart(&mut self) -> io::Result<()> {
        self.server.restart().await
    }

    async fn unsettled(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    async fn kept(&mut self) -> io::Result<u64> {
        let mut count = 0;
        for name in self.sessions() {
            let (mut session, end) = (self.server.session(name).await?, format!("end/{name}"));
            session.subscribe(&end).await?;
            // What the session has comes before what is published now.
            self.server.client().await?.publish(&end, END, &[]).await?;
            while session.receive_all(1).await?.iter().all(|message| message.payload != END) {
                count += 1;
            }
        }
        Ok(count)
    }
}

/// Sends the first so many messages, each with so many bytes more, this far apart.
async fn send_all(port: u16, messages: u64, bytes: usize, pace: Duration) -> io::Result<u64> {
    let mut client = Client::connect(port, &Login::default()).await?;
    let padding = "x".repeat(bytes);
    for number in 1..=messages {
        let (id, key) = (id_of(number), key_of(number, LOAD.keys));
        let payload = json!({ "order": number, "padding": padding }).to_string();
        let reason = client.publish(TOPIC, payload.as_bytes(), &[("id", &id), ("x-key", &key)]).await?;
        if reason != 0 {
            return Err(io::Error::other(format!("the server refused {id}: {reason:#x}")));
        }
        sleep(pace).await;
    }
    client.close().await?;
    Ok(messages)
}
