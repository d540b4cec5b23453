//! The bundled RabbitMQ transport: publishes over AMQP 0-9-1 to an exchange, and takes only a publisher confirm for an answer.
//!
//! A call has a connection to itself, so two calls never wait for each other; the host never has two messages of one key under
//! way, and a key goes on only when the message before it is settled, so their order in a queue is that of the key.
//! What this doesn't do: consuming, transactions.
//!
//! - `config`: what an operator may set; `routing`: exchange and routing key of a message; `encode`: what is written for it
//! - `connection`: one connection with confirms
//! - `provision`: exchange and queues, created when the operator asks for it
//! - `publish`: a batch over a connection; `suspects`: messages that may have closed a channel
//!
//! The protocol, logging in, exchanges and queues are in `waybill-rabbitmq-wire`, which the source shares.

mod config;
mod connection;
mod encode;
mod provision;
mod publish;
mod routing;
mod suspects;

use waybill_plugin::broker::Pool;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{CallInfo, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Transport};

use crate::config::Config;
use crate::connection::Connection;
use crate::publish::publish;

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Rabbitmq);
waybill_plugin::export_provision!(Rabbitmq);

/// Between two looks at idle connections that have no heartbeats, in milliseconds.
const TICK_MS_WITHOUT_HEARTBEATS: u32 = 30_000;

struct Rabbitmq {
    pool: Pool<Connection>,
}

impl Transport for Rabbitmq {
    type Config = Config;

    async fn open(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let pool = Pool::<Connection>::new(args, config)?;
        let mut connection = pool.connect(deadline).await?;
        let half = connection.wire().beat_every().and_then(|every| u32::try_from(every.as_millis() / 2).ok());
        let Config { common, own } = pool.config();
        let opened = Opened {
            peer: Some(connection.wire().peer().to_owned()),
            max_payload_bytes: own.max_message_bytes,
            max_concurrent_calls: common.connections,
            tick_every: Some(half.unwrap_or(TICK_MS_WITHOUT_HEARTBEATS)),
            ..Opened::new()
        };
        pool.put(connection, deadline).await;
        Ok((Self { pool }, opened))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let sent = publish(&mut connection, self.pool.endpoint(), call, &batch, deadline).await;
        let lost = match &sent {
            Ok(sent) => sent.lost.as_ref(),
            Err(error) => Some(error),
        };
        self.pool.give_back(connection, lost, deadline).await;
        sent.map(|sent| sent.outcomes)
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
