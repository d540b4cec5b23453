//! A connection as the pool keeps it.

use waybill_plugin::broker::{Address, Codes, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::transport::{ErrorKind, OpenArgs, PluginError};
use waybill_redis_wire::command::Commands;
use waybill_redis_wire::resp::Reply;
use waybill_redis_wire::{self as wire, Login, refusal};

use crate::config::{Config, Keys};

/// What every connection of an instance has in common.
pub(crate) struct Shared {
    login: Login,
    /// Name that the server shows for this client.
    name: String,
}

pub(crate) struct Connection(wire::Connection);

impl Session for Connection {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = wire::Connection::CODES;

    fn share(args: &OpenArgs, _: &Config, _: &TlsOptions) -> Result<Shared, PluginError> {
        Ok(Shared { login: Login::read()?, name: wire::Connection::client_name(&args.name) })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let (shared, own) = (endpoint.shared(), &endpoint.config().own);
        let link = endpoint.connect(address, endpoint.wants_tls(address), deadline).await?;
        wire::Connection::open(link, &shared.login, &shared.name, own.db, deadline).await.map(Self)
    }

    fn address(&self) -> &Address {
        self.0.address()
    }

    async fn catch_up(&mut self, _: Deadline) -> Result<(), PluginError> {
        self.0.catch_up().await
    }

    async fn ping(&mut self, _: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.0.ping(deadline).await.map(|()| None)
    }

    fn ping_timeout(config: &Config) -> u32 {
        config.own.ack_timeout
    }

    async fn close(self, _: Deadline) {
        self.0.close().await;
    }
}

impl Connection {
    pub(crate) fn wire(&mut self) -> &mut wire::Connection {
        &mut self.0
    }

    /// Sends commands and takes a reply to each, by its place. A refusal is a reply.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(crate) async fn ask(
        &mut self,
        commands: Commands,
        deadline: Deadline,
        mut on: impl FnMut(usize, &Reply<'_>),
    ) -> Result<(), PluginError> {
        let replies = |place: usize, reply: &Reply<'_>| {
            on(place, reply);
            Ok(())
        };
        self.0.ask(commands, deadline, replies).await
    }
}

/// A refusal of the server as the failure of a call. A group that is missing comes again without anybody's help.
pub(crate) fn refused(text: &[u8]) -> PluginError {
    let refusal = refusal::sort(text);
    let error = refusal.error();
    if refusal.code() == "REDIS.NO_GROUP" { PluginError { kind: ErrorKind::Unavailable, ..error } } else { error }
}
