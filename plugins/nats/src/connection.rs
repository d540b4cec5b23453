//! One connection: the greeting, pings, and what a server says between answers.

use serde::Serialize;
use waybill_plugin::broker::{Address, Codes, Endpoint, Link, Session, Tls};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::net::{Input, Stream};
use waybill_plugin::transport::{ErrorKind, Fault, OpenArgs, PluginError};

use crate::codec::{self, Operation};
use crate::config::{Config, Keys};
use crate::credentials::{Credentials, Login};
use crate::encode::Encoder;
use crate::info::Info;
use crate::refusal::{self, Refusal};

/// Number of our one subscription.
const SUBSCRIPTION: &str = "1";

/// Subject prefix of JetStream's API.
const API: &str = "$JS.API.";

const PING: &[u8] = b"PING\r\n";
pub(crate) const PONG: &[u8] = b"PONG\r\n";

/// What every connection of an instance has in common.
pub(crate) struct Shared {
    credentials: Credentials,
    /// Name that the server shows for this client.
    name: String,
}

/// Whether TLS has to follow INFO.
fn needs_tls(endpoint: &Endpoint<Connection>, address: &Address, info: &Info) -> Result<bool, PluginError> {
    if endpoint.config().common.tls == Tls::Off {
        if info.tls_required {
            let reason = "the server requires TLS and `tls` is off: set it to \"auto\"";
            return Err(PluginError::denied("NATS.TLS", reason));
        }
        return Ok(false);
    }
    let wanted = endpoint.wants_tls(address) || info.tls_required;
    if wanted && !info.tls_required && !info.tls_available {
        let reason = "TLS is wanted and the server offers none: nothing was sent to it";
        return Err(PluginError::denied("NATS.TLS", reason));
    }
    Ok(wanted)
}

#[derive(Serialize)]
struct Connect<'a> {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    name: &'a str,
    lang: &'a str,
    version: &'a str,
    protocol: u8,
    echo: bool,
    headers: bool,
    no_responders: bool,
    #[serde(flatten)]
    login: Login,
}

/// What a server said that its caller has to look at.
pub(crate) enum Event<'a> {
    /// A message in our inbox: its number and what it holds.
    Answer(u64, codec::Message<'a>),
    /// The answer to our ping.
    Pong,
    /// We may not publish to this subject.
    NoPublish(String),
}

/// An authenticated connection with its inbox.
pub(crate) struct Connection {
    link: Link,
    encoder: Encoder,
    incoming: Incoming,
    /// Number of the next message, so that a late answer is never taken for another's.
    pub(crate) next: u64,
    /// Its server is about to shut down, and no other took us when they were asked.
    stays: bool,
}

impl Session for Connection {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = &Codes {
        denied: "NATS.DENIED",
        tls: "NATS.TLS",
        unsupported: "NATS.UNSUPPORTED",
        resolve: "NATS.RESOLVE",
        refused: "NATS.REFUSED",
        timeout: "NATS.TIMEOUT",
        cancelled: "NATS.CANCELLED",
        limit: "NATS.LIMIT",
        lost: "NATS.LOST",
    };

    fn share(args: &OpenArgs, config: &Config, _: &TlsOptions) -> Result<Shared, PluginError> {
        Ok(Shared { credentials: Credentials::read(config.own.auth)?, name: format!("waybill {}", args.name) })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let own = &endpoint.config().own;
        let mut secure = endpoint.config().common.tls == Tls::First;
        let link = endpoint.connect(address, secure, deadline).await?;
        let mut incoming = Incoming::new(inbox(&own.inbox_prefix)?);
        let mut told = 0;
        while !incoming.has_news {
            incoming.receive(&link, deadline).await?;
            told += incoming.drain(|_| {})?;
        }
        if !secure && needs_tls(endpoint, address, &incoming.info)? {
            if told > 1 || !incoming.input.unread().is_empty() {
                // It would be taken for the server's word, which nobody has proved to be one yet.
                let reason = "there is more than INFO before TLS: somebody on the way may have put it in";
                return Err(PluginError::denied("NATS.TLS", reason));
            }
            endpoint.start_tls(&link, deadline).await?;
            secure = true;
        }
        if !incoming.info.headers {
            let reason = "the server takes no headers, and a message's id is one: use nats-server 2.2 or newer";
            return Err(PluginError::new(ErrorKind::Unsupported, Fault::new("NATS.NO_HEADERS", reason)));
        }
        link.write(hello(endpoint.shared(), &incoming, secure)?, deadline).await?;
        let encoder = Encoder::new(incoming.inbox.clone(), own.stream.clone(), incoming.info.max_payload);
        let mut connection = Self { link, encoder, incoming, next: 0, stays: false };
        // What is wrong with CONNECT is told before the answer to the ping behind it.
        connection.until_pong(deadline).await?;
        Ok(connection)
    }

    fn address(&self) -> &Address {
        self.link.address()
    }

    async fn catch_up(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let bytes = self.link.receive_ready().await?;
        if !bytes.is_empty() {
            self.incoming.push(bytes);
            // Answers that come now are to messages given up before.
            self.incoming.drain(|_| {})?;
        }
        self.encoder.max_payload = self.incoming.info.max_payload;
        if self.incoming.take_pong_due() {
            self.link.write(PONG.to_vec(), deadline).await?;
        }
        Ok(())
    }

    async fn ping(&mut self, _: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.catch_up(deadline).await?;
        self.link.write(PING.to_vec(), deadline).await?;
        self.until_pong(deadline).await.map(|()| None)
    }

    fn ping_timeout(config: &Config) -> u32 {
        config.own.ack_timeout
    }

    async fn close(self, _: Deadline) {
        self.link.finish().await;
    }

    fn take_discovered(&mut self, endpoint: &Endpoint<Self>) -> Option<Vec<String>> {
        let has_news = std::mem::take(&mut self.incoming.has_news);
        (has_news && endpoint.config().own.discover).then(|| self.incoming.info.connect_urls.clone())
    }

    fn is_leaving(&self) -> bool {
        self.incoming.info.ldm
    }

    fn stays(&self) -> bool {
        self.stays
    }

    fn set_stays(&mut self, stays: bool) {
        self.stays = stays;
    }
}

impl Connection {
    /// The server as it describes itself.
    pub(crate) fn info(&self) -> &Info {
        &self.incoming.info
    }

    /// The parts that writing and reading at once need.
    pub(crate) fn split(&mut self) -> (&Stream, &mut Encoder, &mut Incoming) {
        (self.link.stream(), &mut self.encoder, &mut self.incoming)
    }

    /// Asks JetStream's API and answers its JSON, an error of it included.
    ///
    /// # Errors
    /// We may not ask, nobody answers, or the connection is gone.
    pub(crate) async fn ask(&mut self, request: &str, body: &str, deadline: Deadline) -> Result<Vec<u8>, PluginError> {
        let (number, subject) = (self.next, format!("{API}{request}"));
        self.next += 1;
        let line = format!("PUB {subject} {}{number} {}\r\n{body}\r\n", self.incoming.inbox, body.len());
        self.link.write(line.into_bytes(), deadline).await?;
        let mut answer = None;
        loop {
            self.incoming.drain(|event| match event {
                Event::Answer(other, message) if other == number => {
                    let nobody = || {
                        PluginError::unavailable(
                            "NATS.JETSTREAM_OFF",
                            "JetStream doesn't answer: enable it at the server",
                        )
                    };
                    answer =
                        Some(if message.status().is_some() { Err(nobody()) } else { Ok(message.payload.to_vec()) });
                }
                Event::NoPublish(refused) if refused == subject => {
                    answer = Some(Err(PluginError::denied("NATS.PERMISSIONS", refusal::no_publish(&refused))));
                }
                _ => {}
            })?;
            if let Some(answer) = answer {
                return answer;
            }
            self.incoming.receive(&self.link, deadline).await?;
        }
    }

    async fn until_pong(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let mut answered = false;
        loop {
            self.incoming.drain(|event| answered |= matches!(event, Event::Pong))?;
            if answered {
                return Ok(());
            }
            self.incoming.receive(&self.link, deadline).await?;
        }
    }
}

/// What comes in, and what of it concerns the connection itself.
pub(crate) struct Incoming {
    input: Input,
    info: Info,
    /// Subject prefix of our inbox, with its final dot.
    inbox: String,
    pong_due: bool,
    has_news: bool,
}

impl Incoming {
    fn new(inbox: String) -> Self {
        Self { input: Input::new(), info: Info::default(), inbox, pong_due: false, has_news: false }
    }

    /// Takes what was read.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) {
        self.input.push(bytes);
    }

    /// Most bytes of headers and payload of one message, as the server told last.
    pub(crate) fn max_payload(&self) -> usize {
        self.info.max_payload
    }

    /// Whether the server pinged and wants its answer; asked once.
    pub(crate) fn take_pong_due(&mut self) -> bool {
        std::mem::take(&mut self.pong_due)
    }

    async fn receive(&mut self, link: &Link, deadline: Deadline) -> Result<(), PluginError> {
        self.input.push(link.receive(deadline).await?);
        Ok(())
    }

    /// Goes through everything that is there whole; answers how many operations that were.
    ///
    /// # Errors
    /// The server ended the connection, or speaks no NATS.
    pub(crate) fn drain(&mut self, mut on: impl FnMut(Event<'_>)) -> Result<usize, PluginError> {
        let Self { input, info, inbox, pong_due, has_news } = self;
        let mut count = 0;
        while let Some((operation, length)) =
            codec::next(input.unread()).map_err(|codec::Garbage(what)| no_nats(what))?
        {
            match operation {
                Operation::Message(message) => {
                    if let Some(number) = message.subject.strip_prefix(inbox.as_bytes()).and_then(codec::number) {
                        on(Event::Answer(number, message));
                    }
                }
                Operation::Info(json) => {
                    *info = Info::parse(json).ok_or_else(|| no_nats("an INFO that is no JSON"))?;
                    *has_news = true;
                }
                Operation::Ping => *pong_due = true,
                Operation::Pong => on(Event::Pong),
                Operation::Fine => {}
                Operation::Error(text) => match refusal::sort(text) {
                    Refusal::Publish(subject) => on(Event::NoPublish(subject)),
                    refusal @ Refusal::Connection { .. } => return Err(refusal.error()),
                },
            }
            input.consume(length);
            count += 1;
        }
        Ok(count)
    }
}

/// CONNECT, our subscription, and a ping whose answer says that both were taken.
fn hello(shared: &Shared, incoming: &Incoming, secure: bool) -> Result<Vec<u8>, PluginError> {
    let connect = Connect {
        verbose: false,
        pedantic: false,
        tls_required: secure,
        name: &shared.name,
        lang: "waybill",
        version: env!("CARGO_PKG_VERSION"),
        protocol: 1,
        echo: false,
        headers: true,
        no_responders: true,
        login: shared.credentials.login(incoming.info.nonce.as_deref())?,
    };
    let connect = serde_json::to_string(&connect).map_err(|error| PluginError::internal(error.to_string()))?;
    Ok(format!("CONNECT {connect}\r\nSUB {}* {SUBSCRIPTION}\r\nPING\r\n", incoming.inbox).into_bytes())
}

/// A subject prefix that nobody else can guess.
fn inbox(prefix: &str) -> Result<String, PluginError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| PluginError::internal(format!("no randomness: {error}")))?;
    Ok(format!("{prefix}.{}.", data_encoding::BASE32_NOPAD.encode(&bytes)))
}

fn no_nats(what: &str) -> PluginError {
    PluginError::unavailable("NATS.PROTOCOL", format!("who answers there isn't a NATS server: {what}"))
}
