//! A small native client of AMQP 0-9-1: makes exchanges and queues, and reads a queue as a consumer does. Its codec is its
//! own, so that a mistake of the transport's isn't shared.

use std::io;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest wait for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Messages asked for at once.
const GETS: usize = 100;
/// Every call goes over this one channel.
const CHANNEL: u16 = 1;

/// Who the client is.
#[derive(Clone, Debug)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl Default for Login {
    fn default() -> Self {
        Self { user: "guest".to_owned(), password: "guest".to_owned() }
    }
}

/// A message as a consumer gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Exchange it was published to.
    pub exchange: String,
    pub routing_key: String,
    /// Properties by name, numbers as text.
    pub properties: Vec<(&'static str, String)>,
    /// Headers by name, whatever they are as text.
    pub headers: Vec<(String, String)>,
    pub payload: Vec<u8>,
}

impl Stored {
    /// A property by its name in the protocol, e.g. `message-id`.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
    }

    /// A header by its exact name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

pub struct Client {
    stream: BufStream<TcpStream>,
}

struct Frame {
    kind: u8,
    payload: Bytes,
}

impl Client {
    /// Connects to a server on loopback, in its first virtual host.
    ///
    /// # Errors
    /// It doesn't answer, or refuses.
    pub async fn connect(port: u16, login: &Login) -> io::Result<Self> {
        let greeting = async {
            let socket = TcpStream::connect(("127.0.0.1", port)).await?;
            socket.set_nodelay(true)?;
            let mut client = Self { stream: BufStream::with_capacity(256 * 1024, 256 * 1024, socket) };
            client.stream.write_all(b"AMQP\x00\x00\x09\x01").await?;
            client.stream.flush().await?;
            client.until((10, 10)).await?;
            client
                .call(0, (10, 11), (10, 30), |out| {
                    out.put_u32(0);
                    short(out, "PLAIN");
                    long(out, format!("\0{}\0{}", login.user, login.password).as_bytes());
                    short(out, "en_US");
                })
                .await?;
            client
                .write(0, (10, 31), |out| {
                    out.put_u16(CHANNEL);
                    out.put_u32(131_072);
                    out.put_u16(0);
                })
                .await?;
            client
                .call(0, (10, 40), (10, 41), |out| {
                    short(out, "/");
                    out.put_u16(0);
                })
                .await?;
            client.call(CHANNEL, (20, 10), (20, 11), |out| out.put_u8(0)).await?;
            Ok(client)
        };
        timeout(ANSWER_TIME_MAX, greeting).await.map_err(|_| late())?
    }

    /// Makes an exchange that lasts.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn declare_exchange(&mut self, name: &str, kind: &str) -> io::Result<()> {
        let made = self.call(CHANNEL, (40, 10), (40, 11), |out| {
            out.put_u16(0);
            short(out, name);
            short(out, kind);
            out.put_u8(2);
            out.put_u32(0);
        });
        made.await.map(|_| ())
    }

    /// Removes an exchange.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn delete_exchange(&mut self, name: &str) -> io::Result<()> {
        let gone = self.call(CHANNEL, (40, 20), (40, 21), |out| {
            out.put_u16(0);
            short(out, name);
            out.put_u8(0);
        });
        gone.await.map(|_| ())
    }

    /// Makes a queue that lasts, with text arguments; numbers are told by their digits.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn declare_queue(&mut self, name: &str, arguments: &[(&str, &str)]) -> io::Result<()> {
        let made = self.call(CHANNEL, (50, 10), (50, 11), |out| {
            out.put_u16(0);
            short(out, name);
            out.put_u8(2);
            let mut table = BytesMut::new();
            for (name, value) in arguments {
                short(&mut table, name);
                match value.parse::<i64>() {
                    Ok(number) => {
                        table.put_u8(b'l');
                        table.put_i64(number);
                    }
                    Err(_) => {
                        table.put_u8(b'S');
                        long(&mut table, value.as_bytes());
                    }
                }
            }
            long(out, &table);
        });
        made.await.map(|_| ())
    }

    /// Messages in a queue that lasts.
    ///
    /// # Errors
    /// There is no such queue.
    pub async fn count(&mut self, name: &str) -> io::Result<u64> {
        let told = self.call(CHANNEL, (50, 10), (50, 11), |out| {
            out.put_u16(0);
            short(out, name);
            // Only asked for.
            out.put_u8(1);
            out.put_u32(0);
        });
        let mut told = told.await?;
        take_text(&mut told)?;
        told.try_get_u32().map(u64::from).map_err(cut)
    }

    /// Binds a queue to an exchange.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn bind(&mut self, queue: &str, exchange: &str, key: &str) -> io::Result<()> {
        let bound = self.call(CHANNEL, (50, 20), (50, 21), |out| {
            out.put_u16(0);
            for text in [queue, exchange, key] {
                short(out, text);
            }
            out.put_u8(0);
            out.put_u32(0);
        });
        bound.await.map(|_| ())
    }

    /// Takes everything out of a queue, in its order.
    ///
    /// # Errors
    /// There is no such queue.
    pub async fn read_all(&mut self, queue: &str) -> io::Result<Vec<Stored>> {
        let mut all = Vec::new();
        loop {
            for _ in 0..GETS {
                self.write(CHANNEL, (60, 70), |out| {
                    out.put_u16(0);
                    short(out, queue);
                    // Gone once it is told.
                    out.put_u8(1);
                })
                .await?;
            }
            self.stream.flush().await?;
            let mut empty = false;
            for _ in 0..GETS {
                match timeout(ANSWER_TIME_MAX, self.got()).await.map_err(|_| late())?? {
                    Some(stored) => all.push(stored),
                    None => empty = true,
                }
            }
            if empty {
                return Ok(all);
            }
        }
    }

    /// The answer to `basic.get`; none if the queue is empty.
    async fn got(&mut self) -> io::Result<Option<Stored>> {
        let (id, mut arguments) = self.method().await?;
        if id == (60, 72) {
            return Ok(None);
        }
        expect(id, (60, 71), &arguments)?;
        skip(&mut arguments, 9)?;
        let (exchange, routing_key) = (take_text(&mut arguments)?, take_text(&mut arguments)?);
        let mut header = self.frame().await?.payload;
        skip(&mut header, 4)?;
        let length = header.try_get_u64().map_err(cut)? as usize;
        let mut stored = Stored { exchange, routing_key, ..Stored::default() };
        properties(&mut header, &mut stored)?;
        while stored.payload.len() < length {
            stored.payload.extend_from_slice(&self.frame().await?.payload);
        }
        Ok(Some(stored))
    }

    /// Sends a method and waits for its answer.
    async fn call(
        &mut self,
        channel: u16,
        id: (u16, u16),
        answer: (u16, u16),
        write: impl FnOnce(&mut BytesMut),
    ) -> io::Result<Bytes> {
        self.write(channel, id, write).await?;
        self.stream.flush().await?;
        self.until(answer).await
    }

    async fn write(&mut self, channel: u16, id: (u16, u16), write: impl FnOnce(&mut BytesMut)) -> io::Result<()> {
        let mut arguments = BytesMut::new();
        write(&mut arguments);
        let mut frame = BytesMut::with_capacity(arguments.len() + 12);
        frame.put_u8(1);
        frame.put_u16(channel);
        frame.put_u32(u32::try_from(arguments.len() + 4).map_err(io::Error::other)?);
        frame.put_u16(id.0);
        frame.put_u16(id.1);
        frame.put_slice(&arguments);
        frame.put_u8(0xce);
        self.stream.write_all(&frame).await
    }

    async fn until(&mut self, wanted: (u16, u16)) -> io::Result<Bytes> {
        let (id, arguments) = timeout(ANSWER_TIME_MAX, self.method()).await.map_err(|_| late())??;
        expect(id, wanted, &arguments)?;
        Ok(arguments)
    }

    /// The next method, and what is behind its number.
    async fn method(&mut self) -> io::Result<((u16, u16), Bytes)> {
        loop {
            let mut frame = self.frame().await?;
            // Heartbeats aside.
            if frame.kind == 1 {
                let id = (frame.payload.try_get_u16().map_err(cut)?, frame.payload.try_get_u16().map_err(cut)?);
                return Ok((id, frame.payload));
            }
        }
    }

    async fn frame(&mut self) -> io::Result<Frame> {
        let kind = self.stream.read_u8().await?;
        let _channel = self.stream.read_u16().await?;
        let length = self.stream.read_u32().await? as usize;
        let mut payload = vec![0; length + 1];
        self.stream.read_exact(&mut payload).await?;
        match payload.pop() {
            Some(0xce) => Ok(Frame { kind, payload: payload.into() }),
            _ => Err(io::Error::other("a frame without an end")),
        }
    }
}

/// The properties of a content header, from its flags on.
fn properties(header: &mut Bytes, stored: &mut Stored) -> io::Result<()> {
    let flags = header.try_get_u16().map_err(cut)?;
    for (place, name) in [
        "content-type",
        "content-encoding",
        "headers",
        "delivery-mode",
        "priority",
        "correlation-id",
        "reply-to",
        "expiration",
        "message-id",
        "timestamp",
        "type",
        "user-id",
        "app-id",
    ]
    .into_iter()
    .enumerate()
    {
        if flags & (1 << (15 - place)) == 0 {
            continue;
        }
        let value = match name {
            "headers" => {
                stored.headers.extend(take_table(header)?);
                continue;
            }
            "delivery-mode" | "priority" => header.try_get_u8().map_err(cut)?.to_string(),
            "timestamp" => header.try_get_u64().map_err(cut)?.to_string(),
            _ => take_text(header)?,
        };
        stored.properties.push((name, value));
    }
    Ok(())
}

/// A header's value as text.
fn value(table: &mut Bytes) -> io::Result<String> {
    match table.try_get_u8().map_err(cut)? {
        b'S' => Ok(String::from_utf8_lossy(&take_long(table)?).into_owned()),
        // `x-death` is a list of tables with times in them.
        b'A' => {
            let (mut list, mut values) = (take_long(table)?, Vec::new());
            while list.has_remaining() {
                values.push(value(&mut list)?);
            }
            Ok(format!("[{}]", values.join(", ")))
        }
        b'F' => {
            let fields = take_table(table)?.into_iter().map(|(name, value)| format!("{name}: {value}"));
            Ok(format!("{{{}}}", fields.collect::<Vec<_>>().join(", ")))
        }
        b'T' => Ok(table.try_get_u64().map_err(cut)?.to_string()),
        // The quality of service of what came by MQTT.
        b'b' => Ok(table.try_get_i8().map_err(cut)?.to_string()),
        b'l' => Ok(table.try_get_i64().map_err(cut)?.to_string()),
        b't' => Ok((table.try_get_u8().map_err(cut)? != 0).to_string()),
        kind => Err(io::Error::other(format!("a header of kind {kind}"))),
    }
}

fn expect(id: (u16, u16), wanted: (u16, u16), arguments: &Bytes) -> io::Result<()> {
    if id == wanted {
        return Ok(());
    }
    // Most often it is a closing with a reason.
    Err(io::Error::other(format!("expected {wanted:?}, got {id:?}: {}", String::from_utf8_lossy(arguments))))
}

fn take(bytes: &mut Bytes, count: usize) -> io::Result<Bytes> {
    if bytes.remaining() < count {
        return Err(io::Error::other("a frame that is cut short"));
    }
    Ok(bytes.split_to(count))
}

fn skip(bytes: &mut Bytes, count: usize) -> io::Result<()> {
    take(bytes, count).map(|_| ())
}

/// What has its length before it.
fn take_long(bytes: &mut Bytes) -> io::Result<Bytes> {
    let length = bytes.try_get_u32().map_err(cut)? as usize;
    take(bytes, length)
}

fn take_table(bytes: &mut Bytes) -> io::Result<Vec<(String, String)>> {
    let (mut table, mut fields) = (take_long(bytes)?, Vec::new());
    while table.has_remaining() {
        let name = take_text(&mut table)?;
        fields.push((name, value(&mut table)?));
    }
    Ok(fields)
}

fn take_text(bytes: &mut Bytes) -> io::Result<String> {
    let length = usize::from(bytes.try_get_u8().map_err(cut)?);
    Ok(String::from_utf8_lossy(&take(bytes, length)?).into_owned())
}

fn short(out: &mut BytesMut, text: &str) {
    // Names of tests are shorter.
    out.put_u8(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.put_slice(text.as_bytes());
}

fn long(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.put_slice(bytes);
}

fn cut(error: bytes::TryGetError) -> io::Error {
    io::Error::other(format!("a frame that is cut short: {error}"))
}

fn late() -> io::Error {
    io::Error::other("rabbitmq-server didn't answer in time")
}
