//! One connection: login, what the server says of itself, questions and pings.

use waybill_plugin::broker::{Address, Codes, Link};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::{Bounds, Broken, Side, exchange};
use waybill_plugin::host::net_types::NetError;
use waybill_plugin::net::{Input, Stream};
use waybill_plugin::transport::PluginError;

use crate::command::Commands;
use crate::login::Login;
use crate::refusal;
use crate::resp::{self, Reply};

/// Largest text where the server doesn't tell (`proto-max-bulk-len`).
const MAX_PAYLOAD_DEFAULT: usize = 512 * 1024 * 1024;
/// The setting that tells.
const MAX_PAYLOAD: &str = "proto-max-bulk-len";

/// A connection that is logged in, to a server that takes writes.
pub struct Connection {
    link: Link,
    input: Input,
    version: Option<String>,
    max_payload: usize,
}

impl Connection {
    /// Codes of what goes wrong below the protocol.
    pub const CODES: &'static Codes = &Codes {
        denied: "REDIS.DENIED",
        tls: "REDIS.TLS",
        unsupported: "REDIS.UNSUPPORTED",
        resolve: "REDIS.RESOLVE",
        refused: "REDIS.REFUSED",
        timeout: "REDIS.TIMEOUT",
        cancelled: "REDIS.CANCELLED",
        limit: "REDIS.LIMIT",
        lost: "REDIS.LOST",
    };

    /// The name that a server shows for the client of this endpoint: Redis takes no spaces in it.
    pub fn client_name(endpoint: &str) -> String {
        format!("waybill-{endpoint}").replace(|letter: char| !letter.is_ascii_graphic(), "-")
    }

    /// Logs in at the server behind this link and selects the database. A replica doesn't take us.
    ///
    /// # Errors
    /// It speaks another protocol, or refuses us.
    pub async fn open(link: Link, login: &Login, name: &str, db: u32, deadline: Deadline) -> Result<Self, PluginError> {
        let mut connection = Self { link, input: Input::new(), version: None, max_payload: MAX_PAYLOAD_DEFAULT };
        connection.log_in(login, name, deadline).await?;
        connection.settle_in(db, deadline).await?;
        Ok(connection)
    }

    /// The server that it is connected to.
    pub fn address(&self) -> &Address {
        self.link.address()
    }

    /// Takes what has come while nobody listened. Nothing should have, but for the end.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn catch_up(&mut self) -> Result<(), PluginError> {
        let bytes = self.link.receive_ready().await?;
        self.input.push(bytes);
        drain(&mut self.input, |reply| {
            Err(match reply {
                Reply::Error(text) => refusal::sort(text).error(),
                _ => no_redis("an answer that nobody asked for"),
            })
        })
    }

    /// Asks for a sign of life. Fails at a server that takes no writes any more, too.
    ///
    /// # Errors
    /// The connection is of no more use, or the server is silent.
    pub async fn ping(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        self.catch_up().await?;
        let mut commands = Commands::default();
        commands.add(&["PING"]);
        self.ask(commands, deadline, |_, reply| pong(reply)).await
    }

    /// Says goodbye: nothing is unsent.
    pub async fn close(self) {
        self.link.finish().await;
    }

    /// `HELLO`, and what came before it where the server doesn't know or allow it.
    async fn log_in(&mut self, login: &Login, name: &str, deadline: Deadline) -> Result<(), PluginError> {
        let mut hello = vec!["HELLO", "3"];
        hello.extend(login.hello());
        hello.extend(["SETNAME", name]);
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
            if let Some(auth) = login.auth() {
                commands.add(&auth);
            }
            let logins = commands.count;
            commands.add(&["CLIENT", "SETNAME", name]);
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
    async fn settle_in(&mut self, number: u32, deadline: Deadline) -> Result<(), PluginError> {
        let db = number.to_string();
        let mut commands = Commands::default();
        commands.add(&["PING"]).add(&["CONFIG", "GET", MAX_PAYLOAD]);
        if number > 0 {
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
        self.max_payload = max_payload;
        Ok(())
    }

    /// Version of the server, if it tells.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Most bytes of a payload.
    pub fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// The parts that writing and reading at once need.
    pub fn split(&mut self) -> (&Stream, &mut Input) {
        (self.link.stream(), &mut self.input)
    }

    /// Sends commands and takes a reply to each, by its place.
    ///
    /// # Errors
    /// The connection is gone, or `on` says so.
    pub async fn ask(
        &mut self,
        commands: Commands,
        deadline: Deadline,
        on: impl FnMut(usize, &Reply<'_>) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        let silence = deadline.left().ok_or_else(|| Self::CODES.lost(&NetError::Timeout))?;
        let Commands { bytes, count } = commands;
        let mut asking = Asking { bytes, input: &mut self.input, due: count, place: 0, on };
        exchange(self.link.stream(), &mut asking, Bounds { silence, deadline }).await.map_err(broken)
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
///
/// # Errors
/// The server speaks no RESP, or `on` says so.
pub fn drain(input: &mut Input, mut on: impl FnMut(&Reply<'_>) -> Result<(), PluginError>) -> Result<(), PluginError> {
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
pub fn broken(broken: Broken) -> PluginError {
    let silent = || PluginError::unavailable("REDIS.ACK_TIMEOUT", "the server didn't answer in time");
    Connection::CODES.broken(broken, silent)
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
