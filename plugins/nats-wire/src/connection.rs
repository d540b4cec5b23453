//! One connection: the greeting, pings, and what a server says between answers.

use std::marker::PhantomData;

use serde::Serialize;
use waybill_plugin::broker::{Address, Codes, Config, Endpoint, Link, Session, Tls};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::Broken;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::net::Stream;
use waybill_plugin::transport::{ErrorKind, Fault, OpenArgs, PluginError};

use crate::credentials::{Credentials, Login};
use crate::incoming::{Event, Incoming};
use crate::info::Info;
use crate::keys::ClientKeys;
use crate::refusal;

/// Number of our one subscription.
const SUBSCRIPTION: &str = "1";

/// Code of a call of JetStream's API that nobody answers.
pub(crate) const JETSTREAM_OFF: &str = "NATS.JETSTREAM_OFF";

/// Subject prefix of JetStream's API.
const API: &str = "$JS.API.";

const PING: &[u8] = b"PING\r\n";
/// The answer to a server's ping.
pub const PONG: &[u8] = b"PONG\r\n";

/// What every connection of an instance has in common.
pub struct Shared {
    credentials: Credentials,
    /// Name that the server shows for this client.
    name: String,
}

/// Whether TLS has to follow INFO.
fn needs_tls<K: ClientKeys>(
    endpoint: &Endpoint<Connection<K>>,
    address: &Address,
    info: &Info,
) -> Result<bool, PluginError> {
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

/// An authenticated connection with its inbox.
pub struct Connection<K> {
    link: Link,
    incoming: Incoming,
    /// Number of the next request, so that a late answer is never taken for another's.
    next: u64,
    /// Its server is about to shut down, and no other took us when they were asked.
    stays: bool,
    keys: PhantomData<fn() -> K>,
}

impl<K: ClientKeys> Session for Connection<K> {
    type Keys = K;
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

    fn share(args: &OpenArgs, config: &Config<K>, _: &TlsOptions) -> Result<Shared, PluginError> {
        Ok(Shared { credentials: Credentials::read(config.own.client().auth)?, name: format!("waybill {}", args.name) })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let client = endpoint.config().own.client();
        let mut secure = endpoint.config().common.tls == Tls::First;
        let link = endpoint.connect(address, secure, deadline).await?;
        let mut incoming = Incoming::new(inbox(client.inbox_prefix)?);
        let mut told = 0;
        while !incoming.has_news {
            incoming.receive(&link, deadline).await?;
            told += incoming.drain(|_| {})?;
        }
        if !secure && needs_tls(endpoint, address, &incoming.info)? {
            if told > 1 || !incoming.is_empty() {
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
        let mut connection = Self { link, incoming, next: 0, stays: false, keys: PhantomData };
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

    fn ping_timeout(config: &Config<K>) -> u32 {
        config.own.client().ping_timeout
    }

    async fn close(self, _: Deadline) {
        self.link.finish().await;
    }

    fn take_discovered(&mut self, endpoint: &Endpoint<Self>) -> Option<Vec<String>> {
        let has_news = std::mem::take(&mut self.incoming.has_news);
        (has_news && endpoint.config().own.client().discover).then(|| self.incoming.info.connect_urls.clone())
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

impl<K: ClientKeys> Connection<K> {
    /// The server as it describes itself.
    pub fn info(&self) -> &Info {
        &self.incoming.info
    }

    /// The parts that writing and reading at once need.
    pub fn split(&mut self) -> (&Stream, &mut Incoming) {
        (self.link.stream(), &mut self.incoming)
    }

    /// Numbers of so many requests, whose answers come to our inbox: the first of them.
    pub fn take_numbers(&mut self, count: usize) -> u64 {
        let first = self.next;
        self.next += count as u64;
        first
    }

    /// The end of an exchange over this connection as the failure of the call.
    pub fn broken(broken: Broken) -> PluginError {
        Self::CODES.broken(broken, || {
            PluginError::unavailable("NATS.ACK_TIMEOUT", "the server didn't acknowledge the message in time")
        })
    }

    /// Asks JetStream's API and answers its JSON, an error of it included.
    ///
    /// # Errors
    /// We may not ask, nobody answers, or the connection is gone.
    pub async fn ask(&mut self, request: &str, body: &str, deadline: Deadline) -> Result<Vec<u8>, PluginError> {
        let (number, subject) = (self.take_numbers(1), format!("{API}{request}"));
        let line = format!("PUB {subject} {}{number} {}\r\n{body}\r\n", self.incoming.inbox, body.len());
        self.link.write(line.into_bytes(), deadline).await?;
        let mut answer = None;
        loop {
            self.incoming.drain(|event| match event {
                Event::Answer(other, message) if other == number => {
                    let nobody =
                        || PluginError::unavailable(JETSTREAM_OFF, "JetStream doesn't answer: enable it at the server");
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
