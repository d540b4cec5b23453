//! The bundled RabbitMQ transport: publishes over AMQP 0-9-1 to an exchange, and takes only a publisher confirm for an answer.
//!
//! A call has a connection to itself, so two calls never wait for each other; the host never has two messages of one key under
//! way, and a key goes on only when the message before it is settled, so their order in a queue is that of the key.
//! What this doesn't do: consuming, transactions.
//!
//! - `config`: what an operator may set; `credentials`: who we are; `routing`: exchange and routing key of a message
//! - `codec`, `refusal`: what a server says; `wire`, `encode`: what is written
//! - `connection`, `incoming`, `pool`: one connection, what is said on it, how many
//! - `provision`: exchange and queues, created when the operator asks for it
//! - `publish`: a batch over a connection; `suspects`: messages that may have closed a channel

mod codec;
mod config;
mod connection;
mod credentials;
mod encode;
mod incoming;
mod pool;
mod provision;
mod publish;
mod refusal;
mod routing;
mod suspects;
mod wire;

use waybill_plugin::deadline::Deadline;
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
waybill_plugin::export_transport!(Rabbitmq);
waybill_plugin::export_provision!(Rabbitmq);

/// Names of the secrets for TLS.
const TLS_CA: &str = "tls_ca";
const TLS_CERT: &str = "tls_cert";
const TLS_KEY: &str = "tls_key";

/// Between two looks at idle connections that have no heartbeats, in milliseconds.
const TICK_MS_WITHOUT_HEARTBEATS: u32 = 30_000;

struct Rabbitmq {
    pool: Pool,
}

impl Transport for Rabbitmq {
    type Config = Config;

    async fn open(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let (calls, max_payload_bytes) = (config.connections, config.max_message_bytes);
        let pool = pool(args, config)?;
        let connection = pool.round(deadline).await?;
        let half = connection.beat_every().and_then(|every| u32::try_from(every.as_millis() / 2).ok());
        let opened = Opened {
            peer: Some(connection.peer().to_owned()),
            max_payload_bytes,
            max_concurrent_calls: calls,
            tick_every: Some(half.unwrap_or(TICK_MS_WITHOUT_HEARTBEATS)),
            ..Opened::new()
        };
        pool.put(connection, deadline).await;
        Ok((Self { pool }, opened))
    }

    async fn send_batch(&self, call: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let sent = publish(&mut connection, &self.pool, call, &batch, deadline).await;
        let lost = match &sent {
            Ok(sent) => sent.lost.as_ref(),
            Err(error) => Some(error),
        };
        self.pool.give_back(connection, lost, deadline).await;
        sent.map(|sent| sent.outcomes)
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        match self.pool.refresh(Deadline::of_call(call.timeout)).await {
            Ok(report) => report,
            Err(error) => HealthReport::new(Health::Down, error.fault.reason),
        }
    }

    async fn tick(&self, call: &CallInfo) -> Result<(), PluginError> {
        self.pool.refresh(Deadline::of_call(call.timeout)).await.map(|_| ())
    }

    async fn close(&self, call: &CallInfo) {
        self.pool.close(Deadline::of_call(call.timeout)).await;
    }
}

/// Connections to be made by a configuration.
fn pool(args: &OpenArgs, config: Config) -> Result<Pool, PluginError> {
    config.check()?;
    let mut servers = Servers::new(&SCHEME, config.addresses()?);
    if config.order == Order::Random {
        servers = servers.shuffled(|| getrandom::u64().unwrap_or_default());
    }
    let (routing, tls) = (config.routing()?, tls_options(&config)?);
    let credentials = Credentials::read(config.auth, tls.client_cert_secret.is_some())?;
    let name = format!("waybill {}", args.name);
    Ok(Pool::new(Settings { config, routing, credentials, tls, name }, servers))
}

/// TLS by the secrets that are granted. Their values stay with the host; asking for them only tells which there are.
fn tls_options(config: &Config) -> Result<TlsOptions, PluginError> {
    let granted = |name: &str| Ok::<_, PluginError>(secret::bytes(name, "RABBITMQ.TLS")?.map(|_| name.to_owned()));
    let client_cert_secret = granted(TLS_CERT)?;
    Ok(TlsOptions {
        server_name: config.tls_server_name.clone(),
        ca_secret: granted(TLS_CA)?,
        client_key_secret: client_cert_secret.is_some().then(|| TLS_KEY.to_owned()),
        client_cert_secret,
        alpn: Vec::new(),
    })
}
