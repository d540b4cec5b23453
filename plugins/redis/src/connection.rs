//! A connection with what is written for a message on it.

use waybill_plugin::broker::{Address, Codes, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::net::{Input, Stream};
use waybill_plugin::transport::{OpenArgs, PluginError};
use waybill_redis_wire::{self as wire, Login};

use crate::config::{Config, Keys};
use crate::encode::Encoder;
use crate::template::Template;

/// What every connection of an instance has in common.
pub(crate) struct Shared {
    template: Template,
    login: Login,
    /// Name that the server shows for this client.
    name: String,
}

/// A connection to a server that takes writes.
pub(crate) struct Connection {
    wire: wire::Connection,
    encoder: Encoder,
}

impl Session for Connection {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = wire::Connection::CODES;

    fn share(args: &OpenArgs, config: &Config, _: &TlsOptions) -> Result<Shared, PluginError> {
        Ok(Shared {
            template: config.own.template()?,
            login: Login::read()?,
            name: wire::Connection::client_name(&args.name),
        })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let (shared, own) = (endpoint.shared(), &endpoint.config().own);
        let link = endpoint.connect(address, endpoint.wants_tls(address), deadline).await?;
        let wire = wire::Connection::open(link, &shared.login, &shared.name, own.db, deadline).await?;
        let encoder = Encoder::new(own, shared.template.clone(), wire.max_payload());
        Ok(Self { wire, encoder })
    }

    fn address(&self) -> &Address {
        self.wire.address()
    }

    async fn catch_up(&mut self, _: Deadline) -> Result<(), PluginError> {
        self.wire.catch_up().await
    }

    async fn ping(&mut self, _: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.wire.ping(deadline).await.map(|()| None)
    }

    fn ping_timeout(config: &Config) -> u32 {
        config.own.ack_timeout
    }

    async fn close(self, _: Deadline) {
        self.wire.close().await;
    }
}

impl Connection {
    pub(crate) fn wire(&mut self) -> &mut wire::Connection {
        &mut self.wire
    }

    /// The parts that writing and reading at once need.
    pub(crate) fn split(&mut self) -> (&Stream, &mut Encoder, &mut Input) {
        let (stream, input) = self.wire.split();
        (stream, &mut self.encoder, input)
    }
}
