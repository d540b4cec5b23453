//! The bundled Redis transport: adds each message to a stream, and takes only the server's word for an answer.
//!
//! A call has a connection to itself, so two calls never wait for each other; the host never has two messages of one key under
//! way, and a key goes on only when the message before it is settled, so their order in the stream is that of the key.
//! What this doesn't do: Sentinel, redirects of a cluster, other structures than streams, consuming.
//!
//! - `config`: what an operator may set; `template`: which stream; `login`: who we are
//! - `resp`: what a server says; `command`, `encode`, `dedup`: what is written for a message
//! - `connection`, `pool`: one connection, how many
//! - `publish`: a batch over a connection; `answer`, `refusal`: the server's word as the fate of a message
//! - `provision`: consumer groups, created when the operator asks for them

mod answer;
mod command;
mod config;
mod connection;
mod dedup;
mod encode;
mod login;
mod pool;
mod provision;
mod publish;
mod refusal;
mod resp;
mod template;

use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::Bounds;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::secret;
use waybill_plugin::servers::Servers;
use waybill_plugin::transport::{
    CallInfo, Health, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Transport,
};

use crate::command::Commands;
use crate::config::{Config, SCHEME};
use crate::connection::{Connection, Settings};
use crate::login::Login;
use crate::pool::Pool;
use crate::publish::publish;
use crate::resp::Reply;

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Redis);
waybill_plugin::export_provision!(Redis);

/// Names of the secrets for TLS.
const TLS_CA: &str = "tls_ca";
const TLS_CERT: &str = "tls_cert";
const TLS_KEY: &str = "tls_key";

struct Redis {
    pool: Pool,
}

impl Transport for Redis {
    type Config = Config;

    async fn open(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let (calls, tick_every, dedup_window) = (config.connections, config.ping_every, config.remembers());
        let pool = pool(args, config)?;
        let mut connection = pool.round(deadline).await?;
        warn_of_loss(&mut connection, deadline).await?;
        let opened = Opened {
            peer: Some(connection.version().map_or("redis".to_owned(), |version| format!("redis {version}"))),
            max_payload_bytes: u32::try_from(connection.max_payload()).ok(),
            max_concurrent_calls: calls,
            tick_every: Some(tick_every),
            dedup_window,
            ..Opened::new()
        };
        pool.put(connection);
        Ok((Self { pool }, opened))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let config = &self.pool.settings().config;
        let bounds = Bounds { silence: config.ack_timeout, deadline };
        let sent = publish(&mut connection, call, &batch, config, bounds).await;
        self.pool.give_back(connection, sent.lost.as_ref());
        sent.outcomes
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        match self.pool.refresh(Deadline::of_call(call.timeout)).await {
            Ok(peer) => HealthReport::new(Health::Ready, peer),
            Err(error) => HealthReport::new(Health::Down, error.fault.reason),
        }
    }

    async fn tick(&self, call: &CallInfo) -> Result<(), PluginError> {
        self.pool.refresh(Deadline::of_call(call.timeout)).await.map(|_| ())
    }

    async fn close(&self, _: &CallInfo) {
        self.pool.close().await;
    }
}

/// Connections to be made by a configuration.
fn pool(args: &OpenArgs, config: Config) -> Result<Pool, PluginError> {
    config.check()?;
    let servers = Servers::new(&SCHEME, config.addresses()?);
    let (template, login, tls) = (config.template()?, Login::read()?, tls_options(&config)?);
    // Redis takes no spaces in it.
    let name = format!("waybill-{}", args.name).replace(|letter: char| !letter.is_ascii_graphic(), "-");
    Ok(Pool::new(Settings { config, template, login, tls, name }, servers))
}

/// TLS by the secrets that are granted. Their values stay with the host; asking for them only tells which there are.
fn tls_options(config: &Config) -> Result<TlsOptions, PluginError> {
    let granted = |name: &str| Ok::<_, PluginError>(secret::bytes(name, "REDIS.TLS")?.map(|_| name.to_owned()));
    let client_cert_secret = granted(TLS_CERT)?;
    Ok(TlsOptions {
        server_name: config.tls_server_name.clone(),
        ca_secret: granted(TLS_CA)?,
        client_key_secret: client_cert_secret.is_some().then(|| TLS_KEY.to_owned()),
        client_cert_secret,
        alpn: Vec::new(),
    })
}

/// Tells the operator of settings by which the server loses what it has acknowledged. Not every user may ask for them.
async fn warn_of_loss(connection: &mut Connection, deadline: Deadline) -> Result<(), PluginError> {
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
