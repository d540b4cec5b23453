//! A small native client of MQTT 5, quality of service 1: what others publish, and what they get of what we publish.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest wait for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Seconds for which a server keeps a session that has a name.
const SESSION_SECONDS: u32 = 86_400;

const CONTENT_TYPE: u8 = 3;
const RESPONSE_TOPIC: u8 = 8;
const CORRELATION_DATA: u8 = 9;
const USER_PROPERTY: u8 = 38;

/// How a client logs in.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// Name under which the server keeps the session; none = it ends with the connection.
    pub session: Option<String>,
    pub user: Option<(String, String)>,
}

/// A message that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub topic: String,
    pub payload: Vec<u8>,
    pub is_again: bool,
    pub is_retained: bool,
    /// Properties with a name of the protocol: content type, response topic, correlation data.
    pub named: Vec<(&'static str, String)>,
    /// User properties in their order.
    pub user: Vec<(String, String)>,
}

impl Received {
    /// The first property of a name, the sender's own or the protocol's.
    pub fn property(&self, name: &str) -> Option<&str> {
        let own = self.user.iter().map(|(other, value)| (other.as_str(), value));
        let named = self.named.iter().map(|(other, value)| (*other, value));
        own.chain(named).find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
    }
}

pub struct Client {
    stream: BufStream<TcpStream>,
    /// Came while something else was waited for.
    early: Vec<(u8, Vec<u8>)>,
}

impl Client {
    /// Connects to a server on loopback and logs in.
    ///
    /// # Errors
    /// Nobody listens, or the server doesn't let us in (`PermissionDenied`).
    pub async fn connect(port: u16, login: &Login) -> io::Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        let mut client = Self { stream: BufStream::new(socket), early: Vec::new() };
        let mut body = Vec::new();
        text(&mut body, b"MQTT");
        let flags = if login.session.is_none() { 2 } else { 0 } | if login.user.is_some() { 0xc0 } else { 0 };
        body.extend_from_slice(&[5, flags, 0, 0]);
        let expiry = login.session.as_ref().map_or(0, |_| SESSION_SECONDS);
        body.extend_from_slice(&[5, 17]);
        body.extend_from_slice(&expiry.to_be_bytes());
        text(&mut body, login.session.as_deref().unwrap_or_default().as_bytes());
        if let Some((user, password)) = &login.user {
            text(&mut body, user.as_bytes());
            text(&mut body, password.as_bytes());
        }
        client.send(0x10, &body).await?;
        let answer = client.wait(2).await?;
        match answer.get(1) {
            Some(0) => Ok(client),
            reason => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("not let in: {reason:?}"))),
        }
    }

    /// Publishes with user properties and waits for the acknowledgement; answers its reason code.
    ///
    /// # Errors
    /// The connection ended.
    pub async fn publish(&mut self, topic: &str, payload: &[u8], properties: &[(&str, &str)]) -> io::Result<u8> {
        self.publish_as(0x32, topic, payload, properties).await
    }

    /// The same, to be retained.
    ///
    /// # Errors
    /// The connection ended.
    pub async fn retain(&mut self, topic: &str, payload: &[u8], properties: &[(&str, &str)]) -> io::Result<u8> {
        self.publish_as(0x33, topic, payload, properties).await
    }

    async fn publish_as(
        &mut self,
        first: u8,
        topic: &str,
        payload: &[u8],
        properties: &[(&str, &str)],
    ) -> io::Result<u8> {
        let mut body = Vec::new();
        text(&mut body, topic.as_bytes());
        body.extend_from_slice(&[0, 1]);
        let mut all = Vec::new();
        for (name, value) in properties {
            all.push(USER_PROPERTY);
            text(&mut all, name.as_bytes());
            text(&mut all, value.as_bytes());
        }
        length(&mut body, all.len());
        body.extend_from_slice(&all);
        body.extend_from_slice(payload);
        self.send(first, &body).await?;
        let answer = self.wait(4).await?;
        Ok(answer.get(2).copied().unwrap_or_default())
    }

    /// Subscribes to a filter and waits for the answer.
    ///
    /// # Errors
    /// The server refuses, or the connection ended.
    pub async fn subscribe(&mut self, filter: &str) -> io::Result<()> {
        let mut body = vec![0, 1, 0];
        text(&mut body, filter.as_bytes());
        body.push(1);
        self.send(0x82, &body).await?;
        match self.wait(9).await?.get(3) {
            Some(reason) if *reason < 0x80 => Ok(()),
            reason => Err(io::Error::other(format!("the subscription was refused: {reason:?}"))),
        }
    }

    /// The next message that comes in this time, acknowledged; none if none does.
    ///
    /// # Errors
    /// The connection ended.
    pub async fn receive(&mut self, wait: Duration) -> io::Result<Option<Received>> {
        loop {
            let (first, body) = match self.early.is_empty() {
                false => self.early.remove(0),
                // Of a packet that has begun nothing may be left unread, or what follows is read from its middle.
                true => match timeout(wait, self.stream.read_u8()).await {
                    Ok(first) => {
                        let rest = timeout(ANSWER_TIME_MAX, self.packet_behind(first?)).await;
                        rest.map_err(|_| io::Error::other("a packet didn't come to its end in time"))??
                    }
                    Err(_) => return Ok(None),
                },
            };
            if first >> 4 != 3 {
                continue;
            }
            let (id, received) = message(first, &body).ok_or_else(|| io::Error::other("a malformed message"))?;
            if let Some(id) = id {
                self.send(0x40, &id).await?;
            }
            return Ok(Some(received));
        }
    }

    /// So many messages, each within a minute of the one before.
    ///
    /// # Errors
    /// Fewer came.
    pub async fn receive_all(&mut self, count: usize) -> io::Result<Vec<Received>> {
        let mut all = Vec::new();
        while all.len() < count {
            let next = self.receive(ANSWER_TIME_MAX).await?;
            all.push(next.ok_or_else(|| io::Error::other(format!("{} of {count} messages came", all.len())))?);
        }
        Ok(all)
    }

    /// Ends the connection in good order.
    ///
    /// # Errors
    /// It has ended already.
    pub async fn close(mut self) -> io::Result<()> {
        self.send(0xe0, &[]).await
    }

    async fn send(&mut self, first: u8, body: &[u8]) -> io::Result<()> {
        let mut out = vec![first];
        length(&mut out, body.len());
        out.extend_from_slice(body);
        self.stream.write_all(&out).await?;
        self.stream.flush().await
    }

    /// The next packet of a kind; messages that come before are kept.
    async fn wait(&mut self, kind: u8) -> io::Result<Vec<u8>> {
        loop {
            let packet = timeout(ANSWER_TIME_MAX, self.packet()).await;
            let (first, body) = packet.map_err(|_| io::Error::other("the server didn't answer in time"))??;
            match first >> 4 {
                answer if answer == kind => return Ok(body),
                3 => self.early.push((first, body)),
                14 => return Err(io::Error::other(format!("the server ended the connection: {body:?}"))),
                _ => {}
            }
        }
    }

    async fn packet(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let first = self.stream.read_u8().await?;
        self.packet_behind(first).await
    }

    /// The packet whose first byte was read.
    async fn packet_behind(&mut self, first: u8) -> io::Result<(u8, Vec<u8>)> {
        let (mut size, mut shift) = (0_usize, 0);
        loop {
            let byte = self.stream.read_u8().await?;
            size |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body).await?;
        Ok((first, body))
    }
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(text);
}

fn length(out: &mut Vec<u8>, mut length: usize) {
    while length > 0x7f {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push((length & 0x7f) as u8);
}

fn take<'a>(at: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = at.split_at_checked(count)?;
    *at = rest;
    Some(taken)
}

fn take_text(at: &mut &[u8]) -> Option<String> {
    let length = u16::from_be_bytes(take(at, 2)?.try_into().ok()?);
    Some(String::from_utf8_lossy(take(at, usize::from(length))?).into_owned())
}

fn take_length(at: &mut &[u8]) -> Option<usize> {
    let (mut length, mut shift) = (0_usize, 0);
    loop {
        let byte = *take(at, 1)?.first()?;
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(length);
        }
    }
}

/// The id to acknowledge it by, and the message.
fn message(first: u8, body: &[u8]) -> Option<(Option<[u8; 2]>, Received)> {
    let mut at = body;
    let mut received = Received { is_again: first & 8 != 0, is_retained: first & 1 != 0, ..Received::default() };
    received.topic = take_text(&mut at)?;
    let id: Option<[u8; 2]> = if first & 6 == 0 { None } else { Some(take(&mut at, 2)?.try_into().ok()?) };
    let size = take_length(&mut at)?;
    let mut properties = take(&mut at, size)?;
    while let Some(kind) = take(&mut properties, 1).and_then(|kind| kind.first().copied()) {
        match kind {
            CONTENT_TYPE => received.named.push(("content-type", take_text(&mut properties)?)),
            RESPONSE_TOPIC => received.named.push(("response-topic", take_text(&mut properties)?)),
            CORRELATION_DATA => received.named.push(("correlation-data", take_text(&mut properties)?)),
            USER_PROPERTY => received.user.push((take_text(&mut properties)?, take_text(&mut properties)?)),
            1 => drop(take(&mut properties, 1)?),
            2 => drop(take(&mut properties, 4)?),
            35 => drop(take(&mut properties, 2)?),
            11 => drop(take_length(&mut properties)?),
            _ => return None,
        }
    }
    received.payload = at.to_vec();
    Some((id, received))
}
