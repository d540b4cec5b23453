//! One connection to one broker, logged in.

use std::collections::VecDeque;
use std::time::Instant;

use waybill_plugin::broker::{Address, Codes, Link};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::net::Stream;
use waybill_plugin::transport::PluginError;

use crate::credentials::Credentials;
use crate::frame::{self, Frame};
use crate::incoming::Incoming;
use crate::proto::{Command, Connect, Connected, FeatureFlags, PartitionMetadata, Ping};
use crate::refusal::Refusal;
use crate::topic::shown;

/// What we say of ourselves.
pub(crate) const CLIENT_VERSION: &str = concat!("Waybill ", env!("CARGO_PKG_VERSION"));
/// The version of the protocol that has answers to acknowledgements, which is all that we need of newer ones.
pub(crate) const PROTOCOL_VERSION: i32 = 17;
/// Payload of a message, where the broker doesn't tell its own limit.
const MESSAGE_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Frames kept for whoever listens next. More come only by a broker that doesn't keep to what it was allowed.
const WAITING_MAX: usize = 65_536;
/// Bytes of their entries, for the same reason: several of the largest entries that brokers take.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a connection needs to log in.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// Who we are.
    pub credentials: Credentials,
    /// The broker behind the proxy that it is opened to, as `HOST:PORT`.
    pub behind_proxy: Option<&'a str>,
}

/// A broker's answer to one request, or its refusal.
pub type Answer = Result<Command, Refusal>;

/// A connection to a broker.
pub struct Connection {
    link: Link,
    /// What is said on it.
    pub incoming: Incoming,
    /// Frames that came beside an answer.
    waiting: VecDeque<Frame>,
    waiting_bytes: usize,
    next_request: u64,
    message_max: usize,
    peer: String,
}

impl Connection {
    /// Codes of what goes wrong below the protocol.
    pub const CODES: &'static Codes = &Codes {
        denied: "PULSAR.DENIED",
        tls: "PULSAR.TLS",
        unsupported: "PULSAR.UNSUPPORTED",
        resolve: "PULSAR.RESOLVE",
        refused: "PULSAR.REFUSED",
        timeout: "PULSAR.TIMEOUT",
        cancelled: "PULSAR.CANCELLED",
        limit: "PULSAR.LIMIT",
        lost: "PULSAR.LOST",
    };

    /// Logs in.
    ///
    /// # Errors
    /// The broker refuses us, or isn't one.
    pub async fn open(link: Link, login: Login<'_>, deadline: Deadline) -> Result<Self, PluginError> {
        let shown = login.credentials.show()?;
        let mut out = Vec::new();
        let connect = Connect {
            client_version: CLIENT_VERSION.to_owned(),
            auth_method_name: shown.as_ref().map(|shown| shown.method.to_owned()),
            auth_data: shown.map(|shown| shown.data),
            protocol_version: Some(PROTOCOL_VERSION),
            proxy_to_broker_url: login.behind_proxy.map(str::to_owned),
            feature_flags: Some(FeatureFlags { supports_auth_refresh: Some(true) }),
        };
        frame::command(&mut out, Command::Connect(connect));
        link.write(out, deadline).await?;
        let mut connection = Self {
            link,
            incoming: Incoming::new(login.credentials),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            next_request: 1,
            message_max: MESSAGE_BYTES_MAX,
            peer: String::new(),
        };
        match connection.receive(deadline).await?.command {
            Command::Connected(connected) => connection.greeted(&connected),
            answer => return Err(Refusal::of(&answer).map_or_else(not_greeted, |refusal| refusal.error())),
        }
        Ok(connection)
    }

    fn greeted(&mut self, connected: &Connected) {
        let told = connected.max_message_size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
        self.message_max = told.unwrap_or(MESSAGE_BYTES_MAX);
        self.incoming.allow(self.message_max);
        self.peer = shown(&connected.server_version);
    }

    /// The broker that it is connected to.
    pub fn address(&self) -> &Address {
        self.link.address()
    }

    /// The broker's name and version, for the host to show.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Most bytes of one entry that this broker takes.
    pub fn message_max(&self) -> usize {
        self.message_max
    }

    /// The parts that writing and reading at once need.
    pub fn split(&mut self) -> (&Stream, &mut Incoming) {
        (self.link.stream(), &mut self.incoming)
    }

    /// Asks, and waits for the answer. What else comes meanwhile is kept for [`Self::take`].
    ///
    /// # Errors
    /// The connection is gone, or the broker is silent.
    pub async fn ask(&mut self, make: impl FnOnce(u64) -> Command, deadline: Deadline) -> Result<Answer, PluginError> {
        let number = self.begin(make, deadline).await?;
        loop {
            if let Some(answer) = self.answer(number, deadline).await? {
                return Ok(answer);
            }
        }
    }

    /// Asks, and waits for the answer, or for word that there will be none: a frame that `is_void`, which is kept for [`Self::take`] too.
    ///
    /// # Errors
    /// The connection is gone, or the broker is silent.
    pub async fn ask_unless(
        &mut self,
        make: impl FnOnce(u64) -> Command,
        is_void: impl Fn(&Command) -> bool,
        deadline: Deadline,
    ) -> Result<Option<Answer>, PluginError> {
        if self.waiting.iter().any(|frame| is_void(&frame.command)) {
            return Ok(None);
        }
        let number = self.begin(make, deadline).await?;
        loop {
            if let Some(answer) = self.answer(number, deadline).await? {
                return Ok(Some(answer));
            }
            if self.waiting.back().is_some_and(|frame| is_void(&frame.command)) {
                return Ok(None);
            }
        }
    }

    /// The next frame, if it is the answer to this request; none: it is something else, and was kept.
    async fn answer(&mut self, number: u64, deadline: Deadline) -> Result<Option<Answer>, PluginError> {
        let frame = self.receive(deadline).await?;
        if frame.command.request() == Some(number) {
            return Ok(Some(Refusal::of(&frame.command).map_or(Ok(frame.command), Err)));
        }
        self.keep(frame)?;
        Ok(None)
    }

    /// Asks without waiting: the answer has this number.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn begin(&mut self, make: impl FnOnce(u64) -> Command, deadline: Deadline) -> Result<u64, PluginError> {
        let number = self.next_request;
        self.next_request += 1;
        self.write(deadline, |out| frame::command(out, make(number))).await?;
        Ok(number)
    }

    /// How many partitions a topic has; 0: it has none, and is one itself. `may_make_it`: where brokers make topics by themselves, the
    /// question makes this one.
    ///
    /// # Errors
    /// The connection is gone, or the broker is silent.
    pub async fn partitions(
        &mut self,
        topic: &str,
        may_make_it: bool,
        deadline: Deadline,
    ) -> Result<Result<u32, Refusal>, PluginError> {
        let ask = |request_id| {
            Command::PartitionMetadata(PartitionMetadata {
                topic: topic.to_owned(),
                request_id,
                metadata_auto_creation_enabled: Some(may_make_it),
            })
        };
        let answer = self.ask(ask, deadline).await?.map_err(|refusal| refusal.about(topic));
        Ok(answer.map(|answer| match answer {
            Command::PartitionMetadataResponse(answer) => answer.partitions.unwrap_or_default(),
            _ => 0,
        }))
    }

    /// Asks for a sign of life, and waits for one.
    ///
    /// # Errors
    /// The connection is gone, or the broker is silent.
    pub async fn ping(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let asked = Instant::now();
        self.write(deadline, |out| frame::command(out, Command::Ping(Ping {}))).await?;
        while self.incoming.is_silent_since(asked) {
            let bytes = self.link.receive(deadline).await?;
            self.note(bytes, deadline).await?;
        }
        Ok(())
    }

    /// Writes what is due, and what `add` adds behind it.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn write(&mut self, deadline: Deadline, add: impl FnOnce(&mut Vec<u8>)) -> Result<(), PluginError> {
        let mut out = self.incoming.due();
        add(&mut out);
        if out.is_empty() { Ok(()) } else { self.link.write(out, deadline).await }
    }

    /// Takes and answers what has come, without waiting for more. Frames are kept for [`Self::take`].
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn catch_up(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let bytes = self.link.receive_ready().await?;
        self.note(bytes, deadline).await
    }

    /// Waits until something has come and takes it. Answers whether it did in so many milliseconds.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn listen(&mut self, wait: u32, deadline: Deadline) -> Result<bool, PluginError> {
        let bytes = match self.link.receive(deadline.at_most(wait)).await {
            Ok(bytes) => bytes,
            Err(error) if error.fault.code == Self::CODES.timeout => return Ok(false),
            Err(error) => return Err(error),
        };
        self.note(bytes, deadline).await.map(|()| true)
    }

    async fn note(&mut self, bytes: Vec<u8>, deadline: Deadline) -> Result<(), PluginError> {
        self.incoming.push(bytes);
        while let Some(frame) = self.incoming.take()? {
            self.keep(frame)?;
        }
        self.write(deadline, |_| {}).await
    }

    /// The next frame that was kept.
    pub fn take(&mut self) -> Option<Frame> {
        let frame = self.waiting.pop_front()?;
        self.waiting_bytes -= frame.entry.len();
        Some(frame)
    }

    /// Says that nothing follows. The protocol has no other goodbye.
    pub async fn close(self) {
        self.link.finish().await;
    }

    fn keep(&mut self, frame: Frame) -> Result<(), PluginError> {
        let bytes = self.waiting_bytes + frame.entry.len();
        if self.waiting.len() >= WAITING_MAX || bytes > WAITING_BYTES_MAX {
            return Err(PluginError::unavailable("PULSAR.PROTOCOL", "the broker sends more than it was asked for"));
        }
        self.waiting_bytes = bytes;
        self.waiting.push_back(frame);
        Ok(())
    }

    async fn receive(&mut self, deadline: Deadline) -> Result<Frame, PluginError> {
        loop {
            if let Some(frame) = self.incoming.take()? {
                return Ok(frame);
            }
            self.write(deadline, |_| {}).await?;
            let bytes = self.link.receive(deadline).await?;
            self.incoming.push(bytes);
        }
    }
}

fn not_greeted() -> PluginError {
    PluginError::unavailable("PULSAR.PROTOCOL", "the broker answers the greeting with something else")
}
