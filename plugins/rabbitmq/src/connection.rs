//! One connection: the greeting, and questions about exchanges and queues.
//!
//! Messages go over channel 1, which has confirms. Questions go over channel 2, which the server closes to say no: that never
//! costs a message anything.

use std::collections::HashSet;
use std::time::Duration;

use waybill_plugin::broker::{Address, Codes, Endpoint, Link, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::net::Stream;
use waybill_plugin::transport::{ErrorKind, Fault, OpenArgs, PluginError};

use crate::codec::{FRAME_BYTES_MAX, Method, Table, Value};
use crate::config::{Config, Keys};
use crate::credentials::Credentials;
use crate::encode::{CHANNEL, Encoder, shown};
use crate::incoming::{Alarms, Beat, Incoming, asked_to_wait};
use crate::refusal::{Refusal, Scope};
use crate::routing::Routing;
use crate::suspects::Suspects;
use crate::wire::{self, bare, flag_entry, long, method, short, table, text_entry};

/// The channel for questions.
const ASIDE: u16 = 2;
/// Smallest frame that each side takes (section 4.2.3).
const FRAME_BYTES_MIN: usize = 4096;
/// Exchanges known to exist, so that each is asked for once.
const KNOWN_MAX: usize = 1_024;
/// An exchange that every server has.
const EVERYWHERE: &str = "amq.direct";

const START_OK: (u16, u16) = (10, 11);
const TUNE_OK: (u16, u16) = (10, 31);
const OPEN: (u16, u16) = (10, 40);
const CLOSE: (u16, u16) = (10, 50);
const CHANNEL_OPEN: (u16, u16) = (20, 10);
const CHANNEL_CLOSE_OK: (u16, u16) = (20, 41);
const EXCHANGE_DECLARE: (u16, u16) = (40, 10);
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

/// The server's word on a question.
pub(crate) type Answer = Result<(), Refusal>;

pub(crate) struct Connection {
    link: Link,
    incoming: Incoming,
    encoder: Encoder,
    /// Who answers, with its version.
    peer: String,
    /// Number of the next message on its channel.
    pub(crate) next: u64,
    /// Something was confirmed on it.
    pub(crate) proven: bool,
    /// The server closed the channel for messages.
    pub(crate) channel_closed: bool,
    known: HashSet<String>,
    aside: bool,
}

impl Session for Connection {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = &Codes {
        denied: "RABBITMQ.DENIED",
        tls: "RABBITMQ.TLS",
        unsupported: "RABBITMQ.UNSUPPORTED",
        resolve: "RABBITMQ.RESOLVE",
        refused: "RABBITMQ.REFUSED",
        timeout: "RABBITMQ.TIMEOUT",
        cancelled: "RABBITMQ.CANCELLED",
        limit: "RABBITMQ.LIMIT",
        lost: "RABBITMQ.LOST",
    };

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
        link.write(wire::HELLO.to_vec(), deadline).await?;
        let mut incoming = Incoming::new(shared.alarms.clone());
        let start = incoming.wait(&link, deadline, |_, method| match method {
            Method::Start { properties, mechanisms } => Some((Peer::new(*properties), mechanisms.to_vec())),
            _ => None,
        });
        let (peer, mechanisms) = start.await?;
        if !peer.confirms {
            let reason = "the server knows no publisher confirms, and without them nobody knows what arrived";
            return Err(PluginError::new(ErrorKind::Unsupported, Fault::new("RABBITMQ.NO_CONFIRMS", reason)));
        }
        let login = shared.credentials.login(&String::from_utf8_lossy(&mechanisms))?;
        let mut out = Vec::new();
        method(&mut out, 0, START_OK, |out| {
            table(out, |out| client_properties(out, &shared.name));
            short(out, login.mechanism);
            long(out, &login.response);
            short(out, "en_US");
        });
        link.write(out, deadline).await?;
        let tune = incoming.wait(&link, deadline, |_, method| match method {
            Method::Tune { frame_max, heartbeat } => Some((*frame_max, *heartbeat)),
            _ => None,
        });
        let (frame_max, heartbeat) = tune.await?;
        let frame_max = match frame_max as usize {
            0 => FRAME_BYTES_MAX,
            told => told.clamp(FRAME_BYTES_MIN, FRAME_BYTES_MAX),
        };
        let wanted = own.heartbeat_seconds();
        let heartbeat = if wanted == 0 || heartbeat == 0 { wanted } else { wanted.min(heartbeat) };
        incoming.beat = Beat::every(heartbeat);
        let mut out = Vec::new();
        method(&mut out, 0, TUNE_OK, |out| {
            out.extend_from_slice(&ASIDE.to_be_bytes());
            out.extend_from_slice(&u32::try_from(frame_max).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(&heartbeat.to_be_bytes());
        });
        method(&mut out, 0, OPEN, |out| {
            short(out, &own.vhost);
            out.extend_from_slice(&[0, 0]);
        });
        link.write(out, deadline).await?;
        incoming.wait(&link, deadline, |_, method| matches!(method, Method::Opened).then_some(())).await?;
        let mut out = Vec::new();
        method(&mut out, CHANNEL, CHANNEL_OPEN, |out| out.push(0));
        method(&mut out, CHANNEL, SELECT, |out| out.push(0));
        link.write(out, deadline).await?;
        incoming.wait(&link, deadline, |_, method| matches!(method, Method::Selected).then_some(())).await?;
        let encoder = Encoder { frame_max, persistent: own.persistent };
        Ok(Self {
            link,
            incoming,
            encoder,
            peer: peer.name,
            next: 1,
            proven: false,
            channel_closed: false,
            known: HashSet::new(),
            aside: false,
        })
    }

    fn address(&self) -> &Address {
        self.link.address()
    }

    /// Late confirms are for messages given up before.
    async fn catch_up(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let bytes = self.link.receive_ready().await?;
        self.incoming.push(bytes);
        self.incoming.drain(|_| {})?;
        if self.incoming.beat.is_dead() {
            return Err(PluginError::unavailable("RABBITMQ.STALE", "the server sends no heartbeats any more"));
        }
        let due = self.incoming.due();
        if !due.is_empty() {
            self.link.write(due, deadline).await?;
        }
        Ok(())
    }

    /// Asks for the exchange. A server doesn't read what comes over a connection that it has asked to wait.
    async fn ping(&mut self, endpoint: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.catch_up(deadline).await?;
        if self.incoming.blocked().is_some() {
            return Ok(None);
        }
        let answer = self.has_exchange(endpoint.shared().routing.exchange(), deadline).await?;
        Ok(answer.err().map(|refusal| refusal.error().fault.reason))
    }

    async fn close(mut self, deadline: Deadline) {
        let mut out = self.incoming.due();
        method(&mut out, 0, CLOSE, |out| {
            out.extend_from_slice(&200_u16.to_be_bytes());
            short(out, "goodbye");
            out.extend_from_slice(&[0; 4]);
        });
        // A connection that is broken already needs no goodbye, and a server that doesn't answer it gets none.
        if self.link.write(out, deadline).await.is_ok() {
            let is_answer = |_, method: &Method<'_>| matches!(method, Method::CloseOk).then_some(());
            let _ = self.incoming.wait(&self.link, deadline, is_answer).await;
        }
    }

    fn is_server_well(&self) -> bool {
        // One message wasn't.
        self.channel_closed
    }

    fn asked_to_wait(shared: &Shared, idle: &[Self]) -> Option<PluginError> {
        let why = || idle.iter().find_map(|connection| connection.incoming.blocked()).unwrap_or_default();
        shared.alarms.any().then(|| asked_to_wait(why()))
    }
}

impl Connection {
    /// The server's product and version, for the host to show.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// How often the server wants a sign of life.
    pub(crate) fn beat_every(&self) -> Option<Duration> {
        self.incoming.beat.every
    }

    /// The parts that writing and reading at once need.
    pub(crate) fn split(&mut self) -> (&Stream, Encoder, &mut Incoming) {
        (self.link.stream(), self.encoder, &mut self.incoming)
    }

    /// Asks whether the exchange is there, which also shows that the server answers. The default one is always there.
    ///
    /// # Errors
    /// The connection is gone, or the server is silent.
    pub(crate) async fn has_exchange(&mut self, name: &str, deadline: Deadline) -> Result<Answer, PluginError> {
        let name = if name.is_empty() { EVERYWHERE } else { name };
        let answer = self.ask(deadline, |out| passive_exchange(out, name)).await?;
        if answer.is_ok() && self.known.len() < KNOWN_MAX {
            self.known.insert(name.to_owned());
        } else {
            self.known.remove(name);
        }
        Ok(answer)
    }

    /// Whether an exchange was there when it was asked for.
    pub(crate) fn knows(&self, exchange: &str) -> bool {
        exchange.is_empty() || self.known.contains(exchange)
    }

    /// Asks over the channel for questions; `write` adds one method on channel [`Connection::ASIDE`].
    ///
    /// # Errors
    /// The connection is gone, or the server is silent.
    pub(crate) async fn ask(
        &mut self,
        deadline: Deadline,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Answer, PluginError> {
        let mut out = self.incoming.due();
        if !self.aside {
            method(&mut out, ASIDE, CHANNEL_OPEN, |out| out.push(0));
            self.aside = true;
        }
        write(&mut out);
        self.link.write(out, deadline).await?;
        let answer = self.incoming.wait(&self.link, deadline, |channel, method| match method {
            Method::Done if channel == ASIDE => Some(Ok(())),
            Method::ChannelClose(closing) if channel == ASIDE => Some(Err(Refusal::new(Scope::Channel, closing))),
            _ => None,
        });
        let answer = answer.await?;
        if answer.is_err() {
            self.aside = false;
            bare(&mut self.incoming.due, ASIDE, CHANNEL_CLOSE_OK);
        }
        Ok(answer)
    }

    /// The channel for questions.
    pub(crate) const ASIDE: u16 = ASIDE;
}

/// What the server says of itself.
struct Peer {
    name: String,
    confirms: bool,
}

impl Peer {
    fn new(properties: Table<'_>) -> Self {
        let text = |name: &str| properties.text(name).map(|text| shown(&text)).unwrap_or_default();
        let confirms = match properties.get("capabilities") {
            Some(Value::Table(capabilities)) => capabilities.get("publisher_confirms") == Some(Value::Flag(true)),
            _ => false,
        };
        Self { name: format!("{} {}", text("product"), text("version")).trim().to_owned(), confirms }
    }
}

/// Adds the question whether an exchange is there.
fn passive_exchange(out: &mut Vec<u8>, name: &str) {
    const PASSIVE: u8 = 1;
    method(out, ASIDE, EXCHANGE_DECLARE, |out| {
        out.extend_from_slice(&[0, 0]);
        short(out, name);
        short(out, "topic");
        out.push(PASSIVE);
        table(out, |_| {});
    });
}

fn client_properties(out: &mut Vec<u8>, name: &str) {
    for (key, value) in [
        ("product", "Waybill"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("platform", "WebAssembly"),
        ("connection_name", name),
    ] {
        text_entry(out, key, value);
    }
    short(out, "capabilities");
    out.push(b'F');
    table(out, |out| {
        for capability in ["publisher_confirms", "basic.nack", "connection.blocked", "authentication_failure_close"] {
            flag_entry(out, capability, true);
        }
    });
}
