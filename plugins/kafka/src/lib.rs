//! The bundled Kafka transport: writes each message to a partition of its topic, and takes only the word of all replicas in sync
//! for an answer.
//!
//! A call has a client to itself: connections to the servers that lead its partitions, and a producer's number by which
//! partitions know a batch that comes twice. Of one partition one batch is under way at a time, so messages of one key lie in
//! their order, many of them in one batch.
//! What this doesn't do: transactions, partitions by number, consuming.
//!
//! - `config`: what an operator may set; `topic`: which topic; `encode`: a message as a record
//! - `client`: connections and the producer's number, as the pool keeps them
//! - `places`: topics and partitions of a batch; `counts`: how many partitions clients agree on; `queue`: what goes to one partition; `runs`: keys that go to several;
//!   `publish`: rounds over all of them; `fill`: what goes next; `answer`: a partition's word as the fate of its messages;
//!   `next`: what follows from a refusal
//! - `provision`: topics, created when the operator asks for them
//!
//! The protocol, logging in and the cluster are in `waybill-kafka-wire`, which the source shares.

mod answer;
mod client;
mod config;
mod counts;
mod encode;
mod fill;
mod next;
mod places;
mod provision;
mod publish;
mod queue;
mod runs;
mod topic;

use waybill_plugin::broker::{Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{CallInfo, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Transport};

use crate::client::Client;
use crate::config::Config;
use crate::publish::publish;

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Kafka);
waybill_plugin::export_provision!(Kafka);

struct Kafka {
    pool: Pool<Client>,
}

impl Transport for Kafka {
    type Config = Config;

    async fn open(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let pool = Pool::<Client>::new(args, config)?;
        let client = pool.connect(deadline).await?;
        let opened = Opened {
            peer: Some(format!("kafka, {} servers, by {}", client.cluster.size(), client.address())),
            max_concurrent_calls: pool.config().common.connections,
            tick_every: Some(pool.config().own.ping_every),
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
        sent.outcomes
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
