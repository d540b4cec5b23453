//! One connection: the greeting, pings, and what a server says between answers.

use serde::Serialize;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::{NetError, TlsOptions};
use waybill_plugin::net::{Input, Options, Stream, failure};
use waybill_plugin::servers::Address;
use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

use crate::codec::{self, Operation};
use crate::config::{Config, Tls};
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

/// What every connection of an endpoint has in common.
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) credentials: Credentials,
    /// Names of granted secrets for TLS.
    pub(crate) tls: TlsOptions,
    /// Name that the server shows for this client.
    pub(crate) name: String,
}

impl Settings {
    /// Whether TLS has to follow INFO.
    fn needs_tls(&self, address: &Address, info: &Info) -> Result<bool, PluginError> {
        let granted = self.tls.ca_secret.is_some() || self.tls.client_cert_secret.is_some();
        let wanted = match self.config.tls {
            Tls::Off if info.tls_required => {
                return Err(PluginError::denied(
                    "NATS.TLS",
                    "the server requires TLS and `tls` is off: set it to \"auto\"",
                ));
            }
            Tls::Off => false,
            Tls::Auto => address.tls || granted || info.tls_required,
            Tls::Required | Tls::First => true,
        };
        if wanted && !info.tls_required && !info.tls_available {
            let reason = "TLS is wanted and the server offers none: nothing was sent to it";
            return Err(PluginError::denied("NATS.TLS", reason));
        }
        Ok(wanted)
    }

    fn tls_options(&self, address: &Address) -> TlsOptions {
        let mut options = self.tls.clone();
        options.server_name.get_or_insert_with(|| address.verified().to_owned());
        options
    }
}

/// `CONNECT`.
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
    stream: Stream,
    address: Address,
    encoder: Encoder,
    incoming: Incoming,
    /// Number of the next message, so that a late answer is never taken for another's.
    pub(crate) next: u64,
    /// Its server is about to shut down, and no other took us when they were asked.
    pub(crate) stays: bool,
}

impl Connection {
    /// Connects to one server and authenticates.
    ///
    /// # Errors
    /// Not reachable, not NATS, refused.
    pub(crate) async fn open(address: &Address, settings: &Settings, deadline: Deadline) -> Result<Self, PluginError> {
        Self::greet(address, settings, deadline).await.map_err(|mut error| {
            error.fault.reason = format!("{address}: {}", error.fault.reason);
            error
        })
    }

    async fn greet(address: &Address, settings: &Settings, deadline: Deadline) -> Result<Self, PluginError> {
        let first = (settings.config.tls == Tls::First).then(|| settings.tls_options(address));
        let mut secure = first.is_some();
        let options = Options { timeout: left(deadline)?, tls: first };
        let stream = Stream::connect(&address.uri(), options).await.map_err(lost)?;
        let mut incoming = Incoming::new(inbox(&settings.config.inbox_prefix)?);
        let mut told = 0;
        while !incoming.has_news {
            incoming.receive(&stream, deadline).await?;
            told += incoming.drain(|_| {})?;
        }
        if !secure && settings.needs_tls(address, &incoming.info)? {
            if told > 1 || !incoming.input.unread().is_empty() {
                // It would be taken for the server's word, which nobody has proved to be one yet.
                let reason = "there is more than INFO before TLS: somebody on the way may have put it in";
                return Err(PluginError::denied("NATS.TLS", reason));
            }
            stream.start_tls(settings.tls_options(address), left(deadline)?).await.map_err(lost)?;
            secure = true;
        }
        if !incoming.info.headers {
            let reason = "the server takes no headers, and a message's id is one: use nats-server 2.2 or newer";
            return Err(PluginError::new(ErrorKind::Unsupported, Fault::new("NATS.NO_HEADERS", reason)));
        }
        let hello = hello(settings, &incoming, secure)?;
        stream.write(hello, left(deadline)?).await.map_err(lost)?;
        let encoder = Encoder::new(incoming.inbox.clone(), settings.config.stream.clone(), incoming.info.max_payload);
        let mut connection = Self { stream, address: address.clone(), encoder, incoming, next: 0, stays: false };
        // What is wrong with CONNECT is told before the answer to the ping behind it.
        connection.until_pong(deadline).await?;
        Ok(connection)
    }

    /// Where it leads.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The server as it describes itself.
    pub(crate) fn info(&self) -> &Info {
        &self.incoming.info
    }

    /// Whether the server told something new about itself; asked once.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.incoming.has_news)
    }

    /// The parts that writing and reading at once need.
    pub(crate) fn split(&mut self) -> (&Stream, &mut Encoder, &mut Incoming) {
        (&self.stream, &mut self.encoder, &mut self.incoming)
    }

    /// Looks at what has come while nobody was listening.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) async fn catch_up(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let bytes = self.stream.receive_ready().await.map_err(lost)?;
        if !bytes.is_empty() {
            self.incoming.push(bytes);
            // Answers that come now are to messages given up before.
            self.incoming.drain(|_| {})?;
        }
        self.encoder.max_payload = self.incoming.info.max_payload;
        if self.incoming.take_pong_due() {
            self.stream.write(PONG.to_vec(), left(deadline)?).await.map_err(lost)?;
        }
        Ok(())
    }

    /// Pings and waits for the answer.
    ///
    /// # Errors
    /// The connection is gone, or the server is silent.
    pub(crate) async fn ping(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        self.catch_up(deadline).await?;
        self.stream.write(PING.to_vec(), left(deadline)?).await.map_err(lost)?;
        self.until_pong(deadline).await
    }

    /// Asks JetStream's API and answers its JSON, an error of it included.
    ///
    /// # Errors
    /// We may not ask, nobody answers, or the connection is gone.
    pub(crate) async fn ask(&mut self, request: &str, body: &str, deadline: Deadline) -> Result<Vec<u8>, PluginError> {
        let (number, subject) = (self.next, format!("{API}{request}"));
        self.next += 1;
        let line = format!("PUB {subject} {}{number} {}\r\n{body}\r\n", self.incoming.inbox, body.len());
        self.stream.write(line.into_bytes(), left(deadline)?).await.map_err(lost)?;
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
            self.incoming.receive(&self.stream, deadline).await?;
        }
    }

    async fn until_pong(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let mut answered = false;
        loop {
            self.incoming.drain(|event| answered |= matches!(event, Event::Pong))?;
            if answered {
                return Ok(());
            }
            self.incoming.receive(&self.stream, deadline).await?;
        }
    }

    /// Says goodbye: nothing is unsent.
    pub(crate) async fn close(self) {
        // A connection that is broken already needs no goodbye.
        let _ = self.stream.finish().await;
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

    async fn receive(&mut self, stream: &Stream, deadline: Deadline) -> Result<(), PluginError> {
        self.input.push(stream.receive(left(deadline)?).await.map_err(lost)?);
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
fn hello(settings: &Settings, incoming: &Incoming, secure: bool) -> Result<Vec<u8>, PluginError> {
    let connect = Connect {
        verbose: false,
        pedantic: false,
        tls_required: secure,
        name: &settings.name,
        lang: "waybill",
        version: env!("CARGO_PKG_VERSION"),
        protocol: 1,
        echo: false,
        headers: true,
        no_responders: true,
        login: settings.credentials.login(incoming.info.nonce.as_deref())?,
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

fn left(deadline: Deadline) -> Result<u32, PluginError> {
    deadline.left().ok_or_else(|| lost(NetError::Timeout))
}

/// A failure of the stream as that of the call.
pub(crate) fn lost(error: NetError) -> PluginError {
    let code = match error {
        NetError::Denied(_) => "NATS.DENIED",
        NetError::Tls(_) => "NATS.TLS",
        NetError::Unsupported(_) => "NATS.UNSUPPORTED",
        NetError::Resolve(_) => "NATS.RESOLVE",
        NetError::Refused => "NATS.REFUSED",
        NetError::Timeout => "NATS.TIMEOUT",
        NetError::Cancelled => "NATS.CANCELLED",
        NetError::Limit(_) => "NATS.LIMIT",
        NetError::Closed | NetError::Reset(_) | NetError::Busy | NetError::Other(_) => "NATS.LOST",
    };
    failure(code, &error)
}

fn no_nats(what: &str) -> PluginError {
    PluginError::unavailable("NATS.PROTOCOL", format!("who answers there isn't a NATS server: {what}"))
}
