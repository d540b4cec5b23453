//! The bundled MQTT transport: publishes each message with quality of service 1, and takes only the server's acknowledgement for an answer.
//!
//! A call has a connection to itself, so two calls never wait for each other; the host never has two messages of one key under
//! way, so their order at the server is that of the key. The session ends with its connection: what it holds is the host's to
//! send again.
//! What this doesn't do: quality of service 0 or 2, wills, topic aliases, subscribing.
//!
//! - `config`: what an operator may set; `template`: which topic; `encode`: what is written for a message
//! - `publish`: a batch over a `connection`
//!
//! The protocol and logging in are in `waybill-mqtt-wire`, which the source shares.

mod config;
mod connection;
mod encode;
mod publish;
mod template;

use waybill_plugin::broker::Pool;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::Bounds;
use waybill_plugin::transport::{CallInfo, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Transport};

use crate::config::Config;
use crate::connection::Connection;
use crate::publish::publish;

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Mqtt);

struct Mqtt {
    pool: Pool<Connection>,
}

impl Transport for Mqtt {
    type Config = Config;

    async fn open(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let pool = Pool::<Connection>::new(args, config)?;
        let connection = pool.connect(deadline).await?;
        let Config { common, own } = pool.config();
        let wire = connection.wire();
        // How large a packet may be is each server's to say: the encoder of each connection goes by it.
        let opened = Opened {
            peer: Some(wire.version().name().to_owned()),
            max_concurrent_calls: common.connections,
            tick_every: Some(wire.beat.every().unwrap_or(own.keep_alive)),
            ..Opened::new()
        };
        pool.put(connection, deadline).await;
        Ok((Self { pool }, opened))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let config = self.pool.config();
        let bounds = Bounds { silence: config.own.ack_timeout, deadline };
        let sent = publish(&mut connection, call, &batch, config, bounds).await;
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
