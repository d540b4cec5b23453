//! The brokers that a run brings messages in from: what their sources are configured with, who sends to them, and how they are killed.

mod kafka;
mod mqtt;
mod nats;
mod pulsar;

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;

pub use self::kafka::Kafka;
pub use self::mqtt::Mqtt;
pub use self::nats::Nats;
pub use self::pulsar::Pulsar;

/// What happens to whom while messages flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The host is killed (`kill -9`) and started again.
    HostKilled,
    /// The handler ends with all its connections, and comes back.
    HandlerKilled,
    /// The broker is killed (`kill -9`) and started again.
    BrokerKilled,
    /// All instances of the source are dropped and made anew, by a configuration with another window.
    SourceReplaced,
    /// Messages that take more memory than the source's instances may have: these die by a trap, with what they have in hand, again and
    /// again until another configuration lets them have more.
    SourceTrapped,
}

/// How much is sent, and what happens meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Messages `m1`, `m2` and so on; key and place in its order follow from the number.
    pub messages: u64,
    pub keys: u64,
    /// Each sends every message, in the order of their numbers.
    pub senders: u64,
    /// A call of the handler takes so long.
    pub call: Duration,
    /// Whether the source keeps the order of each key.
    pub ordered: bool,
    /// One after the other, spread over the messages.
    pub disturbances: &'static [Disturbance],
}

/// A broker with a server that can be killed, and senders.
#[async_trait]
pub trait Upstream: Send + Sync {
    fn load(&self) -> Load;

    /// The lines of a source for it in the host's configuration, but for its window.
    fn source(&self) -> String;

    /// One who sends every message, also to a server that comes back; how many he has sent.
    fn sender(&self) -> BoxFuture<'static, io::Result<u64>>;

    /// Sends the first message of each key once more, with a payload of so many bytes.
    async fn send_large(&mut self, bytes: usize) -> io::Result<()> {
        Err(io::Error::other(format!("nobody sends {bytes} bytes to this broker")))
    }

    /// Kills the server (`kill -9`) and waits for its end.
    async fn kill(&mut self) -> io::Result<()>;

    /// Starts it again where it was, and waits until it answers.
    async fn restart(&mut self) -> io::Result<()>;

    /// What isn't settled there: waiting, or given out. None where the server doesn't tell while somebody reads.
    async fn unsettled(&self) -> io::Result<Option<u64>>;

    /// What it would give to the next who reads, once the host has ended.
    async fn kept(&mut self) -> io::Result<u64> {
        Ok(self.unsettled().await?.unwrap_or_default())
    }

    /// Deliveries that are given out and unsettled, where the server counts them.
    async fn given_out(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// The id of a message.
pub(super) fn id_of(number: u64) -> String {
    format!("m{number}")
}

/// The number of a message, by its id.
pub(super) fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix('m').and_then(|number| number.parse().ok())
}

/// The key of a message.
pub(super) fn key_of(number: u64, keys: u64) -> String {
    format!("order-{}", number % keys)
}
