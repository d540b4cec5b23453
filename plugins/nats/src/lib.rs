//! The bundled NATS transport: publishes to JetStream with the message's id, and takes only JetStream's word for an answer.
//!
//! A call has a connection to itself, so two calls never wait for each other; the host never has two messages of one key under
//! way, and a key goes on only when the message before it is settled, so their order in the stream is that of the key.
//! What this doesn't do: core NATS without a stream, consuming.
//!
//! - `config`: what an operator may set; `encode`: what is written for a message
//! - `provision`: the stream, created or changed when the operator asks for it
//! - `publish`: a batch over a connection; `answer`: JetStream's word as the fate of a message
//!
//! The connection itself, logging in and JetStream's API are in `waybill-nats-wire`, which the source shares.

mod answer;
mod config;
mod encode;
mod provision;
mod publish;

use waybill_plugin::broker::Pool;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::Bounds;
use waybill_plugin::transport::{CallInfo, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Transport};

use crate::config::{Config, Keys};
use crate::publish::publish;

type Connection = waybill_nats_wire::Connection<Keys>;

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Nats);
waybill_plugin::export_provision!(Nats);

struct Nats {
    pool: Pool<Connection>,
}

impl Transport for Nats {
    type Config = Config;

    async fn open(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let pool = Pool::<Connection>::new(args, config)?;
        let mut connection = pool.connect(deadline).await?;
        let Config { common, own } = pool.config();
        let dedup_window = match &own.stream {
            Some(stream) => provision::dedup_window(&mut connection, stream, deadline).await,
            None => None,
        };
        let opened = Opened {
            peer: Some(format!("nats-server {}", connection.info().version)),
            max_payload_bytes: u32::try_from(connection.info().max_payload).ok(),
            max_concurrent_calls: common.connections,
            tick_every: Some(own.ping_every),
            dedup_window,
            ..Opened::new()
        };
        pool.put(connection, deadline).await;
        Ok((Self { pool }, opened))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let Config { common, own } = self.pool.config();
        let bounds = Bounds { silence: own.ack_timeout, deadline };
        let sent = publish(&mut connection, call, &batch, own.stream.as_deref(), common.window as usize, bounds).await;
        self.pool.give_back(connection, sent.lost.as_ref(), deadline).await;
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
