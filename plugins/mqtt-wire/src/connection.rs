//! One connection: login, what the server says of itself, requests, signs of life.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use waybill_plugin::broker::{Address, Codes, Endpoint, Link, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::Broken;
use waybill_plugin::host::net_types::NetError;
use waybill_plugin::net::Stream;
use waybill_plugin::transport::PluginError;

use crate::keys::Protocol;
use crate::packet::{Connected, Packet};
use crate::property::{
    MAXIMUM_PACKET, MAXIMUM_QOS, Properties, Property, REASON_TEXT, RECEIVE_MAXIMUM, RETAIN_AVAILABLE,
    SERVER_KEEP_ALIVE, SHARED_AVAILABLE,
};
use crate::reason::{self, OTHER_VERSION, REFUSED};
use crate::write::{self, Connect};
use crate::{Beat, Credentials, Incoming, Version};

/// Before each login by the newer version. One that is cut may have met a server that is about to end, and one behind it too.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::ZERO, Duration::from_millis(250)];

/// How we log in.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    /// Who we are.
    pub credentials: &'a Credentials,
    /// Name of the client.
    pub client_id: &'a str,
    /// Whether a session that is there is forgotten, and ours with the connection.
    pub clean: bool,
    /// Seconds for which the server keeps our session after the connection's end; 3.1.1 has no word for it.
    pub session_expiry: u32,
    /// Messages that we take without having acknowledged them; 3.1.1 has no word for it.
    pub receive_maximum: u16,
    /// Seconds of silence on our side.
    pub keep_alive: u16,
}

/// What the server says of itself. In 3.1.1 it says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages that it takes without having acknowledged them.
    pub receive_maximum: u16,
    /// Largest packet that it takes, in bytes.
    pub packet: usize,
    /// Whether it retains messages.
    pub retains: bool,
    /// Whether it has subscriptions that are shared.
    pub shares: bool,
    /// Whether it has a session of ours.
    pub has_session: bool,
    /// Seconds of silence that it bears, where it wants others than asked for.
    pub keep_alive: Option<u16>,
    /// Whether it has quality of service 1.
    pub has_acknowledgements: bool,
}

impl Limits {
    /// Those of a server that says nothing of itself.
    pub fn of_silence() -> Self {
        Self {
            receive_maximum: u16::MAX,
            packet: write::BODY_BYTES_MAX,
            retains: true,
            shares: true,
            has_session: false,
            keep_alive: None,
            has_acknowledgements: true,
        }
    }

    fn read(connected: &Connected<'_>) -> Self {
        let mut limits = Self { has_session: connected.has_session, ..Self::of_silence() };
        for property in Properties::new(connected.properties) {
            let Property::Number(id, value) = property else { continue };
            match id {
                RECEIVE_MAXIMUM => limits.receive_maximum = u16::try_from(value).unwrap_or(u16::MAX).max(1),
                // 0 is against the protocol, and no packet would be small enough.
                MAXIMUM_PACKET if value > 0 => limits.packet = (value as usize).min(write::BODY_BYTES_MAX),
                RETAIN_AVAILABLE => limits.retains = value != 0,
                SHARED_AVAILABLE => limits.shares = value != 0,
                SERVER_KEEP_ALIVE => limits.keep_alive = u16::try_from(value).ok(),
                MAXIMUM_QOS => limits.has_acknowledgements = value > 0,
                _ => {}
            }
        }
        limits
    }
}

/// What came of a login.
enum Opening {
    Ready(Box<Connection>),
    /// The server says that it doesn't know this version.
    Older(PluginError),
    /// It ended the connection without a word, as some do that don't know it.
    Cut(PluginError),
}

/// A connection that is logged in.
pub struct Connection {
    link: Link,
    /// What has come.
    pub incoming: Incoming,
    /// Signs of life.
    pub beat: Beat,
    limits: Limits,
    version: Version,
}

impl Connection {
    /// Codes of what goes wrong below the protocol.
    pub const CODES: &'static Codes = &Codes {
        denied: "MQTT.DENIED",
        tls: "MQTT.TLS",
        unsupported: "MQTT.UNSUPPORTED",
        resolve: "MQTT.RESOLVE",
        refused: "MQTT.REFUSED",
        timeout: "MQTT.TIMEOUT",
        cancelled: "MQTT.CANCELLED",
        limit: "MQTT.LIMIT",
        lost: "MQTT.LOST",
    };

    /// Connects to one server and logs in; by the older version where it has to be and may be. What was `found` holds for the
    /// connections that follow, so that a message looks the same on each of them. A server that only cuts us proves nothing: then
    /// the older version is this connection's alone.
    ///
    /// # Errors
    /// Not reachable, of another protocol or version, or it refuses us.
    pub async fn open<S: Session>(
        endpoint: &Endpoint<S>,
        address: &Address,
        protocol: Protocol,
        found: &Cell<Option<Version>>,
        login: &Login<'_>,
        deadline: Deadline,
    ) -> Result<Self, PluginError> {
        let secure = endpoint.wants_tls(address);
        let known = found.get().filter(|_| protocol == Protocol::Auto);
        let version = known.unwrap_or_else(|| protocol.first());
        let may_be_older = protocol == Protocol::Auto && version == Version::V5;
        let mut says_so = false;
        for pause in PAUSES {
            thread::sleep(pause);
            let link = endpoint.connect(address, secure, deadline).await?;
            match Self::log_in(link, version, login, deadline).await? {
                Opening::Ready(connection) => {
                    found.set(Some(version));
                    return Ok(*connection);
                }
                Opening::Older(error) | Opening::Cut(error) if !may_be_older => return Err(error),
                Opening::Cut(error) if known.is_some() => return Err(error),
                Opening::Cut(_) => {}
                Opening::Older(_) => {
                    says_so = true;
                    break;
                }
            }
        }
        let link = endpoint.connect(address, secure, deadline).await?;
        match Self::log_in(link, Version::V311, login, deadline).await? {
            Opening::Ready(connection) => {
                warn_of_older(address, says_so);
                if says_so {
                    found.set(Some(Version::V311));
                }
                Ok(*connection)
            }
            Opening::Older(error) | Opening::Cut(error) => Err(error),
        }
    }

    async fn log_in(
        link: Link,
        version: Version,
        login: &Login<'_>,
        deadline: Deadline,
    ) -> Result<Opening, PluginError> {
        let (user, password) = login.credentials.of_version(version)?;
        let mut out = Vec::new();
        let connect = Connect {
            version,
            client_id: login.client_id,
            clean: login.clean,
            session_expiry: login.session_expiry,
            receive_maximum: login.receive_maximum,
            keep_alive: login.keep_alive,
            user,
            password,
        };
        write::connect(&mut out, &connect);
        link.write(out, deadline).await?;
        let mut incoming = Incoming::new(version);
        let answer = loop {
            if let Some(answer) = incoming.next(|packet| let_in(&packet, version))? {
                break answer?;
            }
            match link.receive(deadline).await {
                Ok(bytes) => incoming.push(bytes),
                Err(error) if error.fault.code == Self::CODES.lost => return Ok(Opening::Cut(error)),
                Err(error) => return Err(error),
            }
        };
        let limits = match answer {
            Answer::Older(error) => return Ok(Opening::Older(error)),
            Answer::LetIn(limits) => limits,
        };
        if !limits.has_acknowledgements {
            return Err(reason::of_connection(0x9b, None).error());
        }
        let beat = Beat::new(limits.keep_alive.unwrap_or(login.keep_alive));
        Ok(Opening::Ready(Box::new(Self { link, incoming, beat, limits, version })))
    }

    /// The server that it is connected to.
    pub fn address(&self) -> &Address {
        self.link.address()
    }

    /// What the server says of itself.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Which version is spoken.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The parts that writing and reading at once need.
    pub fn split(&mut self) -> (&Stream, &mut Incoming, &mut Beat) {
        (self.link.stream(), &mut self.incoming, &mut self.beat)
    }

    /// Writes packets.
    ///
    /// # Errors
    /// They may be partly sent: the connection is of no more use.
    pub async fn write(&mut self, packets: Vec<u8>, deadline: Deadline) -> Result<(), PluginError> {
        self.beat.spoke();
        self.link.write(packets, deadline).await
    }

    /// Asks for a sign of life if one is due, without waiting for it.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn ask_if_due(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        if self.beat.is_due() { self.ask(deadline).await } else { Ok(()) }
    }

    /// Asks for a sign of life, without waiting for it.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn ask(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        self.beat.asked();
        self.link.write(write::PING.to_vec(), deadline).await
    }

    /// Asks for a sign of life and waits for it. For a connection on which nothing else is to come.
    ///
    /// # Errors
    /// The connection is of no more use, or the server is silent.
    pub async fn ping(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        self.ask(deadline).await?;
        while !self.catch_up()? {
            let left = deadline.left().ok_or_else(stale)?;
            if !self.listen(left).await? {
                return Err(stale());
            }
        }
        Ok(())
    }

    /// Goes through what has come while nothing was to come. Answers whether a sign of life was there.
    ///
    /// # Errors
    /// The server ended the connection, or speaks no MQTT.
    pub fn catch_up(&mut self) -> Result<bool, PluginError> {
        let mut is_alive = false;
        while let Some(packet) = self.incoming.next(|packet| match packet {
            Packet::Ended { reason, said } => Err(reason::of_connection(reason, said).error()),
            packet => Ok(packet == Packet::Alive),
        })? {
            is_alive |= packet?;
        }
        Ok(is_alive)
    }

    /// Waits up to `wait` milliseconds for bytes and takes them in; 0 = only what is there. Answers whether some came.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub async fn listen(&mut self, wait: u32) -> Result<bool, PluginError> {
        let read = match wait {
            0 => self.link.stream().receive_ready().await,
            wait => self.link.stream().receive(wait).await,
        };
        match read {
            Ok(bytes) if bytes.is_empty() => Ok(false),
            Ok(bytes) => {
                self.beat.heard();
                self.incoming.push(bytes);
                Ok(true)
            }
            Err(NetError::Timeout) if wait > 0 => Ok(false),
            Err(error) => Err(Self::CODES.lost(&error)),
        }
    }

    /// Says goodbye; what the session holds stays.
    pub async fn close(self, deadline: Deadline) {
        if self.link.write(write::GOODBYE.to_vec(), deadline).await.is_ok() {
            self.link.finish().await;
        }
    }
}

/// With the older version messages look otherwise, and nothing says whether they reach anybody: an operator has to hear of it.
fn warn_of_older(server: &Address, says_so: bool) {
    let why = if says_so {
        "the server doesn't know MQTT 5: MQTT 3.1.1 is spoken for as long as this instance lives"
    } else {
        "the server ended each login by MQTT 5 without a word: this connection speaks MQTT 3.1.1; set `version` if the server has no other"
    };
    waybill_plugin::warn!([("server", server), ("code", "MQTT.VERSION")], "{why}");
}

enum Answer {
    LetIn(Limits),
    Older(PluginError),
}

/// What the first packet of a server says.
fn let_in(packet: &Packet<'_>, version: Version) -> Result<Answer, PluginError> {
    let connected = match packet {
        Packet::Connected(connected) => connected,
        Packet::Ended { reason, said } => return Err(reason::of_connection(*reason, *said).error()),
        _ => return Err(no_mqtt("it doesn't begin with CONNACK")),
    };
    let is_older = connected.is_older || version == Version::V311;
    // Some leave the properties out where they refuse, and it looks like the older version's; that has no code from 128 on.
    let has_older_code = is_older && connected.reason < REFUSED;
    let number = if has_older_code { reason::of_older(connected.reason) } else { connected.reason };
    if number == 0 {
        // Who answers a newer client so doesn't know what follows either.
        return if is_older && version == Version::V5 {
            Ok(Answer::Older(no_mqtt("it answers by an older version")))
        } else {
            Ok(Answer::LetIn(Limits::read(connected)))
        };
    }
    let said = Properties::new(connected.properties).find_map(|property| match property {
        Property::Bytes(REASON_TEXT, text) => Some(text),
        _ => None,
    });
    let error = reason::of_connection(number, said).error();
    if number == OTHER_VERSION { Ok(Answer::Older(error)) } else { Err(error) }
}

/// The end of an exchange as the failure of the call.
pub fn broken(broken: Broken) -> PluginError {
    let silent = || PluginError::unavailable("MQTT.ACK_TIMEOUT", "the server didn't answer in time");
    Connection::CODES.broken(broken, silent)
}

/// The server was asked for a sign of life and gave none.
pub fn stale() -> PluginError {
    PluginError::unavailable("MQTT.STALE", "the server gives no sign of life any more")
}

/// Who answers speaks another protocol.
pub fn no_mqtt(what: &str) -> PluginError {
    PluginError::unavailable("MQTT.PROTOCOL", format!("who answers there isn't an MQTT server: {what}"))
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
