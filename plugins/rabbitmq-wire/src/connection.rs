//! One connection: the greeting, and questions about exchanges and queues.
//!
//! Messages go over channel 1. Questions go over channel 2, which the server closes to say no: that never
//! costs a message anything.

use std::time::Duration;

use waybill_plugin::broker::{Address, Codes, Link};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::net::Stream;
use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

use crate::codec::{FRAME_BYTES_MAX, Method, Table, Value};
use crate::credentials::Credentials;
use crate::incoming::{Alarms, Beat, Incoming};
use crate::refusal::{Refusal, Scope};
use crate::text::shown;
use crate::wire::{self, flag_entry, long, method, short, table, text_entry};

/// The channel for messages.
pub const CHANNEL: u16 = 1;
/// The channel for questions.
pub(crate) const ASIDE: u16 = 2;
/// Smallest frame that each side takes (section 4.2.3).
const FRAME_BYTES_MIN: usize = 4096;
/// An exchange that every server has.
const EVERYWHERE: &str = "amq.direct";

const START_OK: (u16, u16) = (10, 11);
const TUNE_OK: (u16, u16) = (10, 31);
const OPEN: (u16, u16) = (10, 40);
const CLOSE: (u16, u16) = (10, 50);
const CHANNEL_OPEN: (u16, u16) = (20, 10);
const EXCHANGE_DECLARE: (u16, u16) = (40, 10);
const QUEUE_DECLARE: (u16, u16) = (50, 10);

/// What a connection is opened with.
pub struct Login<'a> {
    /// Who we are.
    pub credentials: &'a Credentials,
    /// Name that the server shows for this client.
    pub name: &'a str,
    /// The virtual host to work in.
    pub vhost: &'a str,
    /// Seconds between two heartbeats that we propose; 0 = none.
    pub heartbeat: u16,
    /// A server without publisher confirms is of no use.
    pub needs_confirms: bool,
}

/// The server's word on a question.
pub type Answer = Result<(), Refusal>;

/// A connection that is logged in, with no channel open yet.
pub struct Connection {
    link: Link,
    /// What is said on it.
    pub incoming: Incoming,
    /// Who answers, with its version.
    peer: String,
    frame_max: usize,
    /// The channel for questions is open.
    aside: bool,
}

impl Connection {
    /// Codes of what goes wrong below the protocol.
    pub const CODES: &'static Codes = &Codes {
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

    /// Greets the server behind this link and logs in.
    ///
    /// # Errors
    /// It speaks another protocol, or refuses us.
    pub async fn open(link: Link, login: &Login<'_>, alarms: Alarms, deadline: Deadline) -> Result<Self, PluginError> {
        link.write(wire::HELLO.to_vec(), deadline).await?;
        let mut incoming = Incoming::new(alarms);
        let start = incoming.wait(&link, deadline, |_, method| match method {
            Method::Start { properties, mechanisms } => Some((Peer::new(*properties), mechanisms.to_vec())),
            _ => None,
        });
        let (peer, mechanisms) = start.await?;
        if login.needs_confirms && !peer.confirms {
            let reason = "the server knows no publisher confirms, and without them nobody knows what arrived";
            return Err(PluginError::new(ErrorKind::Unsupported, Fault::new("RABBITMQ.NO_CONFIRMS", reason)));
        }
        let response = login.credentials.login(&String::from_utf8_lossy(&mechanisms))?;
        let mut out = Vec::new();
        method(&mut out, 0, START_OK, |out| {
            table(out, |out| client_properties(out, login.name));
            short(out, response.mechanism);
            long(out, &response.response);
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
        let wanted = login.heartbeat;
        let heartbeat = if wanted == 0 || heartbeat == 0 { wanted } else { wanted.min(heartbeat) };
        incoming.beat = Beat::every(heartbeat);
        let mut out = Vec::new();
        method(&mut out, 0, TUNE_OK, |out| {
            out.extend_from_slice(&ASIDE.to_be_bytes());
            out.extend_from_slice(&u32::try_from(frame_max).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(&heartbeat.to_be_bytes());
        });
        method(&mut out, 0, OPEN, |out| {
            short(out, login.vhost);
            out.extend_from_slice(&[0, 0]);
        });
        link.write(out, deadline).await?;
        incoming.wait(&link, deadline, |_, method| matches!(method, Method::Opened).then_some(())).await?;
        Ok(Self { link, incoming, peer: peer.name, frame_max, aside: false })
    }

    /// Opens the channel for messages and says what `write` adds there, until `pick` finds the answer that it wants.
    ///
    /// # Errors
    /// The server refuses (see [`Incoming::refusal`]), or the connection is gone.
    pub async fn begin(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>),
        pick: impl FnMut(&Method<'_>) -> bool,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let open = |out: &mut Vec<u8>| {
            method(out, CHANNEL, CHANNEL_OPEN, |out| out.push(0));
            write(out);
        };
        self.on_channel(open, pick, deadline).await
    }

    /// Says what `write` adds on the channel for messages, until `pick` finds the answer that it wants.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn on_channel(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>),
        mut pick: impl FnMut(&Method<'_>) -> bool,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let mut out = self.incoming.due();
        write(&mut out);
        self.link.write(out, deadline).await?;
        let is_answer = |channel: u16, method: &Method<'_>| (channel == CHANNEL && pick(method)).then_some(());
        self.incoming.wait(&self.link, deadline, is_answer).await
    }

    /// The server that it is connected to.
    pub fn address(&self) -> &Address {
        self.link.address()
    }

    /// The stream below, with the codes of its failures.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The server's product and version, for the host to show.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Most bytes of a frame, with what is around its payload.
    pub fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// How often the server wants a sign of life.
    pub fn beat_every(&self) -> Option<Duration> {
        self.incoming.beat.every
    }

    /// The parts that writing and reading at once need.
    pub fn split(&mut self) -> (&Stream, &mut Incoming) {
        (self.link.stream(), &mut self.incoming)
    }

    /// Takes and answers what has come while nobody listened. What it says of messages is for those given up before.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn catch_up(&mut self, deadline: Deadline) -> Result<(), PluginError> {
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

    /// Says goodbye: nothing is unsent.
    pub async fn close(mut self, deadline: Deadline) {
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

    /// Asks whether an exchange is there, which also shows that the server answers. The default one is always there.
    ///
    /// # Errors
    /// The connection is gone, or the server is silent.
    pub async fn has_exchange(&mut self, name: &str, deadline: Deadline) -> Result<Answer, PluginError> {
        let name = if name.is_empty() { EVERYWHERE } else { name };
        self.ask(deadline, |out| passive_exchange(out, name)).await
    }

    /// Asks how many messages wait in a queue, which also shows that it is there.
    ///
    /// # Errors
    /// The connection is gone, or the server is silent.
    pub async fn queue_depth(&mut self, name: &str, deadline: Deadline) -> Result<Result<u32, Refusal>, PluginError> {
        let depth = |method: &Method<'_>| match method {
            Method::Queue { messages, .. } => Some(*messages),
            _ => None,
        };
        self.ask_for(deadline, |out| passive_queue(out, name), depth).await
    }

    /// Asks the same without waiting: the answer is a [`Event::Reply`] on [`Connection::ASIDE`] behind what else is on its way.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn ask_queue_depth(&mut self, name: &str, deadline: Deadline) -> Result<(), PluginError> {
        self.question(|out| passive_queue(out, name), deadline).await
    }

    /// Asks over the channel for questions; `write` adds one method on channel [`Connection::ASIDE`].
    ///
    /// # Errors
    /// The connection is gone, or the server is silent.
    pub async fn ask(&mut self, deadline: Deadline, write: impl FnOnce(&mut Vec<u8>)) -> Result<Answer, PluginError> {
        let is_done = |method: &Method<'_>| matches!(method, Method::Done | Method::Queue { .. }).then_some(());
        self.ask_for(deadline, write, is_done).await
    }

    async fn ask_for<T>(
        &mut self,
        deadline: Deadline,
        write: impl FnOnce(&mut Vec<u8>),
        mut pick: impl FnMut(&Method<'_>) -> Option<T>,
    ) -> Result<Result<T, Refusal>, PluginError> {
        self.question(write, deadline).await?;
        let answer = self.incoming.wait(&self.link, deadline, |channel, method| match method {
            Method::ChannelClose(closing) if channel == ASIDE => Some(Err(Refusal::new(Scope::Channel, closing))),
            method if channel == ASIDE => pick(method).map(Ok),
            _ => None,
        });
        answer.await
    }

    /// Writes a question on its channel, which is opened if it isn't open.
    async fn question(&mut self, write: impl FnOnce(&mut Vec<u8>), deadline: Deadline) -> Result<(), PluginError> {
        let is_open = self.aside && !self.incoming.take_aside_ended();
        let mut out = self.incoming.due();
        if !is_open {
            method(&mut out, ASIDE, CHANNEL_OPEN, |out| out.push(0));
            self.aside = true;
        }
        write(&mut out);
        self.link.write(out, deadline).await
    }

    /// The channel for questions.
    pub const ASIDE: u16 = ASIDE;
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

/// Bit of a declaration that only asks.
const PASSIVE: u8 = 1;

/// Adds the question whether a queue is there.
fn passive_queue(out: &mut Vec<u8>, name: &str) {
    method(out, ASIDE, QUEUE_DECLARE, |out| {
        out.extend_from_slice(&[0, 0]);
        short(out, name);
        out.push(PASSIVE);
        table(out, |_| {});
    });
}

/// Adds the question whether an exchange is there.
fn passive_exchange(out: &mut Vec<u8>, name: &str) {
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
        for capability in [
            "publisher_confirms",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "authentication_failure_close",
        ] {
            flag_entry(out, capability, true);
        }
    });
}
