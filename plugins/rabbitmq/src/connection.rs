//! A connection with publisher confirms, and the exchanges that are known to be there.

use std::collections::HashSet;

use waybill_plugin::broker::{Address, Codes, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::net::Stream;
use waybill_plugin::transport::{OpenArgs, PluginError};
use waybill_rabbitmq_wire::codec::Method;
use waybill_rabbitmq_wire::{self as wire, Alarms, Answer, CHANNEL, Credentials, Incoming, Login, asked_to_wait};

use crate::config::{Config, Keys};
use crate::encode::Encoder;
use crate::routing::Routing;
use crate::suspects::Suspects;

/// Exchanges known to exist, so that each is asked for once.
const KNOWN_MAX: usize = 1_024;

const SELECT: (u16, u16) = (85, 10);

/// What every connection of an instance has in common.
pub(crate) struct Shared {
    pub(crate) routing: Routing,
    credentials: Credentials,
    /// Name that the server shows for this client.
    name: String,
    pub(crate) alarms: Alarms,
    pub(crate) suspects: Suspects,
}

pub(crate) struct Connection {
    wire: wire::Connection,
    persistent: bool,
    /// Number of the next message on its channel.
    pub(crate) next: u64,
    /// Something was confirmed on it.
    pub(crate) proven: bool,
    /// The server closed the channel for messages.
    pub(crate) channel_closed: bool,
    known: HashSet<String>,
}

impl Session for Connection {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = wire::Connection::CODES;

    fn share(args: &OpenArgs, config: &Config, tls: &TlsOptions) -> Result<Shared, PluginError> {
        Ok(Shared {
            routing: config.own.routing()?,
            credentials: Credentials::read(config.own.auth, tls.client_cert_secret.is_some())?,
            name: format!("waybill {}", args.name),
            alarms: Alarms::default(),
            suspects: Suspects::default(),
        })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let (shared, own) = (endpoint.shared(), &endpoint.config().own);
        let link = endpoint.connect(address, endpoint.wants_tls(address), deadline).await?;
        let login = Login {
            credentials: &shared.credentials,
            name: &shared.name,
            vhost: &own.vhost,
            heartbeat: own.heartbeat_seconds(),
            needs_confirms: true,
        };
        let mut wire = wire::Connection::open(link, &login, shared.alarms.clone(), deadline).await?;
        let select = |out: &mut Vec<u8>| wire::wire::method(out, CHANNEL, SELECT, |out| out.push(0));
        wire.begin(select, |method| matches!(method, Method::Selected), deadline).await?;
        Ok(Self {
            wire,
            persistent: own.persistent,
            next: 1,
            proven: false,
            channel_closed: false,
            known: HashSet::new(),
        })
    }

    fn address(&self) -> &Address {
        self.wire.address()
    }

    async fn catch_up(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        self.wire.catch_up(deadline).await
    }

    /// Asks for the exchange. A server doesn't read what comes over a connection that it has asked to wait.
    async fn ping(&mut self, endpoint: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.catch_up(deadline).await?;
        if self.wire.incoming.blocked().is_some() {
            return Ok(None);
        }
        let answer = self.has_exchange(endpoint.shared().routing.exchange(), deadline).await?;
        Ok(answer.err().map(|refusal| refusal.error().fault.reason))
    }

    async fn close(self, deadline: Deadline) {
        self.wire.close(deadline).await;
    }

    fn is_server_well(&self) -> bool {
        // One message wasn't.
        self.channel_closed
    }

    fn asked_to_wait(shared: &Shared, idle: &[Self]) -> Option<PluginError> {
        let why = || idle.iter().find_map(|connection| connection.wire.incoming.blocked()).unwrap_or_default();
        shared.alarms.any().then(|| asked_to_wait(why()))
    }
}

impl Connection {
    pub(crate) fn wire(&mut self) -> &mut wire::Connection {
        &mut self.wire
    }

    /// The parts that writing and reading at once need.
    pub(crate) fn split(&mut self) -> (&Stream, Encoder, &mut Incoming) {
        let encoder = Encoder { frame_max: self.wire.frame_max(), persistent: self.persistent };
        let (stream, incoming) = self.wire.split();
        (stream, encoder, incoming)
    }

    /// Asks whether the exchange is there, which also shows that the server answers.
    ///
    /// # Errors
    /// The connection is gone, or the server is silent.
    pub(crate) async fn has_exchange(&mut self, name: &str, deadline: Deadline) -> Result<Answer, PluginError> {
        let answer = self.wire.has_exchange(name, deadline).await?;
        if answer.is_ok() && self.known.len() < KNOWN_MAX {
            self.known.insert(name.to_owned());
        } else {
            self.known.remove(name);
        }
        Ok(answer)
    }

    /// Whether an exchange was there when it was asked for. The default one is always there.
    pub(crate) fn knows(&self, exchange: &str) -> bool {
        exchange.is_empty() || self.known.contains(exchange)
    }
}
