//! One connection: login, what the server says of itself, questions and pings.

use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::{Bounds, Broken, Side, exchange};
use waybill_plugin::host::net_types::{NetError, TlsOptions};
use waybill_plugin::net::{Input, Options, Stream, failure};
use waybill_plugin::servers::Address;
use waybill_plugin::transport::PluginError;

use crate::command::Commands;
use crate::config::{Config, Tls};
use crate::encode::Encoder;
use crate::login::Login;
use crate::refusal;
use crate::resp::{self, Reply};
use crate::template::Template;

/// Largest text where the server doesn't tell (`proto-max-bulk-len`).
const MAX_PAYLOAD_DEFAULT: usize = 512 * 1024 * 1024;
/// The setting that tells.
const MAX_PAYLOAD: &str = "proto-max-bulk-len";

/// What every connection of an endpoint has in common.
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) template: Template,
    pub(crate) login: Login,
    /// Names of granted secrets for TLS.
    pub(crate) tls: TlsOptions,
    /// Name that the server shows for this client.
    pub(crate) name: String,
}

impl Settings {
    fn tls_options(&self, address: &Address) -> Option<TlsOptions> {
        let granted = self.tls.ca_secret.is_some() || self.tls.client_cert_secret.is_some();
        let wanted = match self.config.tls {
            Tls::Off => false,
            Tls::Auto => address.tls || granted,
            Tls::Required => true,
        };
        wanted.then(|| {
            let mut options = self.tls.clone();
            options.server_name.get_or_insert_with(|| address.verified().to_owned());
            options
        })
    }
}

/// A connection that is logged in, to a server that takes writes.
pub(crate) struct Connection {
    stream: Stream,
    address: Address,
    input: Input,
    encoder: Encoder,
    version: Option<String>,
}

impl Connection {
    /// Connects to one server and logs in.
    ///
    /// # Errors
    /// Not reachable, not Redis, refused, a replica.
    pub(crate) async fn open(address: &Address, settings: &Settings, deadline: Deadline) -> Result<Self, PluginError> {
        Self::greet(address, settings, deadline).await.map_err(|mut error| {
            error.fault.reason = format!("{address}: {}", error.fault.reason);
            error
        })
    }

    async fn greet(address: &Address, settings: &Settings, deadline: Deadline) -> Result<Self, PluginError> {
        let time = deadline.left().ok_or_else(|| lost(NetError::Timeout))?;
        let options = Options { timeout: time, tls: settings.tls_options(address) };
        let stream = Stream::connect(&address.uri(), options).await.map_err(lost)?;
        let encoder = Encoder::new(&settings.config, settings.template.clone(), MAX_PAYLOAD_DEFAULT);
        let mut connection = Self { stream, address: address.clone(), input: Input::new(), encoder, version: None };
        connection.log_in(settings, deadline).await?;
        connection.settle_in(settings, deadline).await?;
        Ok(connection)
    }

    /// `HELLO`, and what came before it where the server doesn't know or allow it.
    async fn log_in(&mut self, settings: &Settings, deadline: Deadline) -> Result<(), PluginError> {
        let mut hello = vec!["HELLO", "3"];
        hello.extend(settings.login.hello());
        hello.extend(["SETNAME", settings.name.as_str()]);
        let (mut older, mut version, mut replica) = (false, None, false);
        let mut commands = Commands::default();
        commands.add(&hello);
        self.ask(commands, deadline, |_, reply| {
            match reply {
                Reply::Error(text) if lacks_hello(text) => older = true,
                Reply::Error(text) => return Err(refusal::sort(text).error()),
                reply => {
                    let told = |key: &str| reply.get(key).and_then(Reply::text);
                    version = told("version").map(str::to_owned);
                    replica = told("role").is_some_and(|role| role != "master");
                }
            }
            Ok(())
        })
        .await?;
        if replica {
            return Err(refusal::sort(b"READONLY it says that it is a replica").error());
        }
        self.version = version;
        if older {
            let mut commands = Commands::default();
            if let Some(auth) = settings.login.auth() {
                commands.add(&auth);
            }
            let logins = commands.count;
            commands.add(&["CLIENT", "SETNAME", &settings.name]);
            self.ask(commands, deadline, |place, reply| match reply {
                // A name is a comfort.
                Reply::Error(text) if place < logins => Err(refusal::sort(text).error()),
                _ => Ok(()),
            })
            .await?;
        }
        Ok(())
    }

    /// Whether it answers, the database, and how much it takes.
    async fn settle_in(&mut self, settings: &Settings, deadline: Deadline) -> Result<(), PluginError> {
        let db = settings.config.db.to_string();
        let mut commands = Commands::default();
        commands.add(&["PING"]).add(&["CONFIG", "GET", MAX_PAYLOAD]);
        if settings.config.db > 0 {
            commands.add(&["SELECT", &db]);
        }
        let mut max_payload = MAX_PAYLOAD_DEFAULT;
        self.ask(commands, deadline, |place, reply| {
            match (place, reply) {
                (0, reply) => pong(reply)?,
                // Not every user may ask.
                (1, reply) => {
                    let told = reply.get(MAX_PAYLOAD).and_then(Reply::text);
                    max_payload = told.and_then(|bytes| bytes.parse().ok()).unwrap_or(MAX_PAYLOAD_DEFAULT);
                }
                (_, Reply::Error(text)) if text.starts_with(b"ERR") => {
                    let why = format!("can't be selected: {}", refusal::shown(&String::from_utf8_lossy(text)));
                    return Err(PluginError::invalid_config("db", &why));
                }
                (_, Reply::Error(text)) => return Err(refusal::sort(text).error()),
                _ => {}
            }
            Ok(())
        })
        .await?;
        self.encoder.max_payload = max_payload;
        Ok(())
    }

    /// Where it leads.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Version of the server, if it tells.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Most bytes of a payload.
    pub(crate) fn max_payload(&self) -> usize {
        self.encoder.max_payload
    }

    /// The parts that writing and reading at once need.
    pub(crate) fn split(&mut self) -> (&Stream, &mut Encoder, &mut Input) {
        (&self.stream, &mut self.encoder, &mut self.input)
    }

    /// Looks at what has come while nobody was listening: nothing should have, but for the end.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) async fn catch_up(&mut self) -> Result<(), PluginError> {
        let bytes = self.stream.receive_ready().await.map_err(lost)?;
        self.input.push(bytes);
        drain(&mut self.input, |reply| {
            Err(match reply {
                Reply::Error(text) => refusal::sort(text).error(),
                _ => no_redis("an answer that nobody asked for"),
            })
        })
    }

    /// Pings and waits for the answer.
    ///
    /// # Errors
    /// The connection is gone, the server is silent, or takes no writes any more.
    pub(crate) async fn ping(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        self.catch_up().await?;
        let mut commands = Commands::default();
        commands.add(&["PING"]);
        self.ask(commands, deadline, |_, reply| pong(reply)).await
    }

    /// Sends commands and takes a reply to each, by its place.
    ///
    /// # Errors
    /// The connection is gone, or `on` says so.
    pub(crate) async fn ask(
        &mut self,
        commands: Commands,
        deadline: Deadline,
        on: impl FnMut(usize, &Reply<'_>) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        let silence = deadline.left().ok_or_else(|| lost(NetError::Timeout))?;
        let Commands { bytes, count } = commands;
        let mut asking = Asking { bytes, input: &mut self.input, due: count, place: 0, on };
        exchange(&self.stream, &mut asking, Bounds { silence, deadline }).await.map_err(broken)
    }

    /// Says goodbye: nothing is unsent.
    pub(crate) async fn close(self) {
        // A connection that is broken already needs no goodbye.
        let _ = self.stream.finish().await;
    }
}

/// Commands under way, each with a reply.
struct Asking<'a, On> {
    bytes: Vec<u8>,
    input: &'a mut Input,
    due: usize,
    place: usize,
    on: On,
}

impl<On: FnMut(usize, &Reply<'_>) -> Result<(), PluginError>> Side for Asking<'_, On> {
    fn outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn waits(&self) -> bool {
        self.due > 0
    }

    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        let Self { input, due, place, on, .. } = self;
        input.push(bytes);
        drain(input, |reply| {
            *due = due.checked_sub(1).ok_or_else(|| no_redis("more answers than questions"))?;
            *place += 1;
            on(*place - 1, reply)
        })
    }
}

/// Goes through all replies that are there whole.
pub(crate) fn drain(
    input: &mut Input,
    mut on: impl FnMut(&Reply<'_>) -> Result<(), PluginError>,
) -> Result<(), PluginError> {
    while let Some((reply, length)) = resp::next(input.unread()).map_err(|resp::Garbage(what)| no_redis(what))? {
        if reply != Reply::Push {
            on(&reply)?;
        }
        input.consume(length);
    }
    Ok(())
}

fn pong(reply: &Reply<'_>) -> Result<(), PluginError> {
    match reply {
        Reply::Text(b"PONG") => Ok(()),
        Reply::Error(text) => Err(refusal::sort(text).error()),
        _ => Err(no_redis("no PONG")),
    }
}

/// Whether a server doesn't know `HELLO` or version 3 of its protocol, or our user may not say it.
fn lacks_hello(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_lowercase();
    ["noproto", "noperm"].iter().any(|word| text.starts_with(word)) || text.contains("unknown command")
}

/// The end of an exchange as the failure of the call.
pub(crate) fn broken(broken: Broken) -> PluginError {
    match broken {
        Broken::Silent => PluginError::unavailable("REDIS.ACK_TIMEOUT", "the server didn't answer in time"),
        Broken::Lost(error) => lost(error),
        Broken::Refused(error) => error,
    }
}

/// A failure of the stream as that of the call.
fn lost(error: NetError) -> PluginError {
    let code = match error {
        NetError::Denied(_) => "REDIS.DENIED",
        NetError::Tls(_) => "REDIS.TLS",
        NetError::Unsupported(_) => "REDIS.UNSUPPORTED",
        NetError::Resolve(_) => "REDIS.RESOLVE",
        NetError::Refused => "REDIS.REFUSED",
        NetError::Timeout => "REDIS.TIMEOUT",
        NetError::Cancelled => "REDIS.CANCELLED",
        NetError::Limit(_) => "REDIS.LIMIT",
        NetError::Closed | NetError::Reset(_) | NetError::Busy | NetError::Other(_) => "REDIS.LOST",
    };
    failure(code, &error)
}

fn no_redis(what: &str) -> PluginError {
    PluginError::unavailable("REDIS.PROTOCOL", format!("who answers there isn't a Redis server: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_without_hello_are_known_by_what_they_say() {
        for text in [
            "ERR unknown command `HELLO`, with args beginning with: `3`, ",
            "ERR unknown command 'HELLO'",
            "NOPROTO unsupported protocol version",
            "NOPERM this user has no permissions to run the 'hello' command",
        ] {
            assert!(lacks_hello(text.as_bytes()), "{text}");
        }
        for text in [
            "WRONGPASS invalid username-password pair",
            "NOAUTH HELLO must be called with the client already authenticated",
        ] {
            assert!(!lacks_hello(text.as_bytes()), "{text}");
        }
    }
}
