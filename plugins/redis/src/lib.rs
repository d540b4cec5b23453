//! The bundled Redis transport: adds each message to a stream, and takes only the server's word for an answer.
//!
//! A call has a connection to itself, so two calls never wait for each other; the host never has two messages of one key under
//! way but in one call, and there a key goes on only when the message before it is acknowledged, so their order in the stream is that of
//! the key.
//! What this doesn't do: Sentinel, redirects of a cluster, other structures than streams, consuming.
//!
//! - `config`: what an operator may set; `template`: which stream; `encode`, `dedup`: what is written for a message
//! - `publish`: a batch over a `connection`, with `runs` of one key; `answer`: the server's word as the fate of a message
//! - `provision`: consumer groups, created when the operator asks for them
//!
//! The protocol, logging in and groups are in `waybill-redis-wire`, which the source shares.

mod answer;
mod config;
mod connection;
mod dedup;
mod encode;
mod provision;
mod publish;
mod runs;
mod template;

use waybill_plugin::broker::Pool;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::Bounds;
use waybill_plugin::transport::{CallInfo, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Transport};
use waybill_redis_wire as wire;
use waybill_redis_wire::command::Commands;
use waybill_redis_wire::resp::Reply;

use crate::config::Config;
use crate::connection::Connection;
use crate::publish::publish;

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Redis);
waybill_plugin::export_provision!(Redis);

struct Redis {
    pool: Pool<Connection>,
}

impl Transport for Redis {
    type Config = Config;

    async fn open(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let pool = Pool::<Connection>::new(args, config)?;
        let mut connection = pool.connect(deadline).await?;
        warn_of_loss(connection.wire(), deadline).await?;
        let Config { common, own } = pool.config();
        let wire = connection.wire();
        let opened = Opened {
            peer: Some(wire.version().map_or("redis".to_owned(), |version| format!("redis {version}"))),
            max_payload_bytes: u32::try_from(wire.max_payload()).ok(),
            max_concurrent_calls: common.connections,
            tick_every: Some(own.ping_every),
            dedup_window: own.remembers(),
            features: vec!["key-runs".to_owned()],
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

/// Tells the operator of settings by which the server loses what it has acknowledged. Not every user may ask for them.
async fn warn_of_loss(connection: &mut wire::Connection, deadline: Deadline) -> Result<(), PluginError> {
    let settings = ["appendonly", "maxmemory-policy"];
    let mut commands = Commands::default();
    for setting in settings {
        commands.add(&["CONFIG", "GET", setting]);
    }
    connection
        .ask(commands, deadline, |place, reply| {
            let told = settings.get(place).and_then(|setting| reply.get(setting)).and_then(Reply::text);
            match told {
                Some("no") => waybill_plugin::warn!(
                    "the server keeps no append-only file (`appendonly no`): what it acknowledged since its last snapshot is lost when it ends"
                ),
                Some(policy) if policy.starts_with("allkeys") => waybill_plugin::warn!(
                    "the server deletes whole streams when its memory is full (`maxmemory-policy {policy}`): set `noeviction`"
                ),
                _ => {}
            }
            Ok(())
        })
        .await
}
