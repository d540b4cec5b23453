//! A connection with what is written for a message on it.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};

use waybill_mqtt_wire::{self as wire, Beat, Credentials, Incoming, Login, Version, keys};
use waybill_plugin::broker::{Address, Codes, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::net::Stream;
use waybill_plugin::transport::{ErrorKind, Fault, OpenArgs, PluginError};

use crate::config::{Config, Keys};
use crate::encode::Encoder;
use crate::template::Template;

/// What every connection of an instance has in common.
pub(crate) struct Shared {
    /// Which version the servers were found to speak.
    found: Cell<Option<Version>>,
    template: Template,
    credentials: Credentials,
    /// Beginning of our clients' names.
    name: String,
}

/// A connection that is logged in.
pub(crate) struct Connection {
    wire: wire::Connection,
    encoder: Encoder,
}

impl Session for Connection {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = wire::Connection::CODES;

    fn share(args: &OpenArgs, config: &Config, _: &TlsOptions) -> Result<Shared, PluginError> {
        let name = config.own.client_id.clone().unwrap_or_else(|| format!("waybill-{}", args.name));
        Ok(Shared { found: Cell::default(), template: config.own.template()?, credentials: Credentials::read()?, name })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let (shared, own) = (endpoint.shared(), &endpoint.config().own);
        // A server lets only one client of a name in: each connection has its own.
        let client_id = format!("{}-{:016x}", shared.name, RandomState::new().hash_one(()));
        let login = Login {
            credentials: &shared.credentials,
            client_id: &client_id,
            clean: true,
            session_expiry: 0,
            receive_maximum: u16::MAX,
            keep_alive: keys::keep_alive_seconds(own.keep_alive),
        };
        let wire = wire::Connection::open(endpoint, address, own.version, &shared.found, &login, deadline).await?;
        if own.retain && !wire.limits().retains {
            let fault = Fault::new("MQTT.RETAIN", "the server retains nothing: leave `retain` out");
            return Err(PluginError::new(ErrorKind::Unsupported, fault));
        }
        let encoder = Encoder::new(own, shared.template.clone(), wire.version(), wire.limits());
        Ok(Self { wire, encoder })
    }

    fn address(&self) -> &Address {
        self.wire.address()
    }

    async fn catch_up(&mut self, _: Deadline) -> Result<(), PluginError> {
        if self.wire.listen(0).await? {
            self.wire.catch_up()?;
        }
        Ok(())
    }

    async fn ping(&mut self, _: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.wire.ping(deadline).await.map(|()| None)
    }

    fn ping_timeout(config: &Config) -> u32 {
        config.own.ack_timeout
    }

    async fn close(self, deadline: Deadline) {
        self.wire.close(deadline).await;
    }
}

impl Connection {
    pub(crate) fn wire(&self) -> &wire::Connection {
        &self.wire
    }

    /// The parts that writing and reading at once need.
    pub(crate) fn split(&mut self) -> (&Stream, &mut Encoder, &mut Incoming, &mut Beat) {
        let (stream, incoming, beat) = self.wire.split();
        (stream, &mut self.encoder, incoming, beat)
    }
}
