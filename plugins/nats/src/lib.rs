//! The bundled NATS transport: publishes to JetStream with the message's id, and takes only JetStream's word for an answer.
//!
//! A call has a connection to itself, so two calls never wait for each other; the host never has two messages of one key under
//! way, and a key goes on only when the message before it is settled, so their order in the stream is that of the key.
//! What this doesn't do: core NATS without a stream, consuming.
//!
//! - `config`: what an operator may set; `credentials`: who we are
//! - `codec`, `info`, `refusal`: what a server says; `encode`, `subject`: what is written for a message
//! - `connection`, `pool`: one connection, how many
//! - `provision`: the stream, created or changed when the operator asks for it
//! - `publish`: a batch over a connection; `answer`: JetStream's word as the fate of a message

mod answer;
mod codec;
mod config;
mod connection;
mod credentials;
mod encode;
mod info;
mod pool;
mod provision;
mod publish;
mod refusal;
mod subject;

use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::Bounds;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::secret;
use waybill_plugin::servers::Servers;
use waybill_plugin::transport::{
    CallInfo, Health, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError, Transport,
};

use crate::config::{Config, Order, SCHEME};
use crate::connection::Settings;
use crate::credentials::Credentials;
use crate::pool::Pool;
use crate::publish::publish;

waybill_plugin::manifest!();
waybill_plugin::export_transport!(Nats);
waybill_plugin::export_provision!(Nats);

/// Names of the secrets for TLS.
const TLS_CA: &str = "tls_ca";
const TLS_CERT: &str = "tls_cert";
const TLS_KEY: &str = "tls_key";

struct Nats {
    pool: Pool,
}

impl Transport for Nats {
    type Config = Config;

    async fn open(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let (calls, tick_every, stream) = (config.connections, config.ping_every, config.stream.clone());
        let pool = pool(args, config)?;
        let mut connection = pool.round(deadline).await?;
        let dedup_window = match stream {
            Some(stream) => provision::dedup_window(&mut connection, &stream, deadline).await,
            None => None,
        };
        let opened = Opened {
            peer: Some(format!("nats-server {}", connection.info().version)),
            max_payload_bytes: u32::try_from(connection.info().max_payload).ok(),
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
        let sent = publish(&mut connection, call, &batch, config.window as usize, bounds).await;
        self.pool.give_back(connection, sent.lost.as_ref());
        Ok(sent.outcomes)
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
    let mut servers = Servers::new(&SCHEME, config.addresses()?);
    if config.order == Order::Random {
        servers = servers.shuffled(|| getrandom::u64().unwrap_or_default());
    }
    let (credentials, tls) = (Credentials::read(config.auth)?, tls_options(&config)?);
    Ok(Pool::new(Settings { config, credentials, tls, name: format!("waybill {}", args.name) }, servers))
}

/// TLS by the secrets that are granted. Their values stay with the host; asking for them only tells which there are.
fn tls_options(config: &Config) -> Result<TlsOptions, PluginError> {
    let granted = |name: &str| Ok::<_, PluginError>(secret::bytes(name, "NATS.TLS")?.map(|_| name.to_owned()));
    let client_cert_secret = granted(TLS_CERT)?;
    Ok(TlsOptions {
        server_name: config.tls_server_name.clone(),
        ca_secret: granted(TLS_CA)?,
        client_key_secret: client_cert_secret.is_some().then(|| TLS_KEY.to_owned()),
        client_cert_secret,
        alpn: Vec::new(),
    })
}
