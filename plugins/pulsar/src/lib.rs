//! The bundled Pulsar transport: sends each message to a topic over the binary protocol, and takes only the broker's receipt for an answer.
//!
//! A call has a session to itself, so two calls never wait for each other; the host never has two messages of one key under way but in one
//! call. There they share an entry, which the broker takes as a whole, or one waits for the receipt of the other: their order in the
//! partition is that of the key.
//! What this doesn't do: consuming, transactions, schemas, encryption, compression, sequence ids that outlive a session.
//!
//! - `config`: what an operator may set; `template`: which topic; `encode`: what is written for messages
//! - `client`: a session with a cluster and its producers
//! - `publish`: a batch over a session, a `flight` for each broker, with `runs` of one key
//! - `provision`: namespaces, topics and subscriptions, created when the operator asks for them
//!
//! The protocol, finding brokers and logging in are in `waybill-pulsar-wire`, which the source shares.

mod client;
mod config;
mod encode;
mod flight;
mod provision;
mod publish;
mod runs;
mod template;

use waybill_plugin::broker::Pool;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{CallInfo, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Transport};

use crate::client::Client;
use crate::config::Config;
use crate::publish::publish;

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Pulsar);
waybill_plugin::export_provision!(Pulsar);

/// Between two looks at idle connections, in milliseconds. A broker asks for a sign of life every 30 s and hangs up at the second one
/// without it.
const TICK_MS: u32 = 10_000;

struct Pulsar {
    pool: Pool<Client>,
}

impl Transport for Pulsar {
    type Config = Config;

    async fn open(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let pool = Pool::<Client>::new(args, config)?;
        let mut client = pool.connect(deadline).await?;
        let (peer, message_max) = client.peer();
        let opened = Opened {
            peer: Some(peer),
            max_payload_bytes: u32::try_from(message_max).ok(),
            max_concurrent_calls: pool.config().common.connections,
            tick_every: Some(TICK_MS),
            features: vec!["key-runs".to_owned()],
            ..Opened::new()
        };
        pool.put(client, deadline).await;
        Ok((Self { pool }, opened))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut client = self.pool.take(call, deadline).await?;
        let sent = publish(&mut client, self.pool.endpoint(), call, &batch, deadline).await;
        self.pool.give_back(client, sent.lost.as_ref(), deadline).await;
        Ok(sent.outcomes)
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        self.pool.health(call).await
    }

    async fn tick(&self, call: &CallInfo) -> Result<(), PluginError> {
        self.pool.tick(call).await
    }

    async fn close(&self, call: &CallInfo) {
        self.pool.close(call).await;
    }
}
