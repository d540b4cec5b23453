//! JetStream by a bare codec on one connection: what the server does when its client costs next to nothing.

use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::append::Shape;
use crate::replay::STREAM;
use crate::{PAYLOAD, Run, cpu};

/// A server from which nothing comes for this long is broken.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where acknowledgements and answers come to, and where events do.
const INBOX: &str = "_INBOX.codec";
const DELIVERED: &str = "_INBOX.events";
/// Bytes of the buffers of a connection.
const BUFFER: usize = 256 * 1024;

/// A message, as far as it is looked at.
struct Arrived {
    subject: String,
    reply: Option<String>,
    /// Of the body, how much is headers.
    headers: usize,
}

struct Connection {
    read: BufReader<TcpStream>,
    write: BufWriter<TcpStream>,
    line: String,
    /// Of the last message.
    body: Vec<u8>,
}

impl Connection {
    fn open(url: &str) -> Result<Self> {
        let stream = TcpStream::connect(url.trim_start_matches("nats://")).context("connecting")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let read = BufReader::with_capacity(BUFFER, stream.try_clone()?);
        let write = BufWriter::with_capacity(BUFFER, stream);
        let mut connection = Self { read, write, line: String::new(), body: Vec::new() };
        let hello =
            json!({ "verbose": false, "pedantic": false, "headers": true, "no_responders": true, "protocol": 1 });
        write!(connection.write, "CONNECT {hello}\r\nSUB {INBOX} 1\r\nSUB {DELIVERED} 2\r\nPING\r\n")?;
        connection.write.flush()?;
        while connection.next_line()? != "PONG" {}
        Ok(connection)
    }

    fn next_line(&mut self) -> Result<&str> {
        self.line.clear();
        ensure!(self.read.read_line(&mut self.line).context("reading")? > 0, "the server closed the connection");
        ensure!(!self.line.starts_with("-ERR"), "the server says {}", self.line);
        Ok(self.line.trim_end())
    }

    fn next(&mut self) -> Result<Arrived> {
        loop {
            let line = self.next_line()?;
            let is_ping = line == "PING";
            // VERB subject number [reply] [bytes of headers] bytes
            let mut words = line.split(' ');
            let verb = words.next().unwrap_or_default();
            if verb == "MSG" || verb == "HMSG" {
                let words: Vec<&str> = words.collect();
                let has_headers = verb == "HMSG";
                let sizes = 1 + usize::from(has_headers);
                let numbers: Vec<usize> =
                    words.iter().rev().take(sizes).map(|word| word.parse()).collect::<Result<_, _>>()?;
                let reply = (words.len() > 2 + sizes).then(|| words[2].to_owned());
                let subject = words.first().copied().unwrap_or_default().to_owned();
                self.body.resize(numbers[0] + 2, 0);
                self.read.read_exact(&mut self.body).context("reading a message")?;
                return Ok(Arrived { subject, reply, headers: if has_headers { numbers[1] } else { 0 } });
            }
            if is_ping {
                self.write.write_all(b"PONG\r\n")?;
                self.write.flush()?;
            }
        }
    }
}

/// Publishes with so many messages unacknowledged at most.
pub fn append(url: &str, messages: u64, shape: Shape) -> Result<Run> {
    let mut connection = Connection::open(url)?;
    let (payload, window) = (vec![b'x'; PAYLOAD], shape.under_way as u64 * shape.size);
    let (began, before) = (Instant::now(), cpu()?);
    let (mut sent, mut acknowledged) = (0, 0);
    while acknowledged < messages {
        while sent < messages && sent + shape.size <= acknowledged + window {
            let stream = sent / shape.size % shape.streams;
            for _ in 0..shape.size {
                write!(connection.write, "PUB events.{stream} {INBOX} {PAYLOAD}\r\n")?;
                connection.write.write_all(&payload)?;
                connection.write.write_all(b"\r\n")?;
            }
            sent += shape.size;
        }
        connection.write.flush()?;
        // As many as there are: what was written together is acknowledged together.
        loop {
            connection.next()?;
            let said = String::from_utf8_lossy(&connection.body);
            ensure!(said.contains("\"seq\""), "an event wasn't taken: {said}");
            acknowledged += 1;
            if connection.read.buffer().is_empty() {
                break;
            }
        }
    }
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

/// Reads a stream by a push consumer with flow control, as an ordered consumer does.
pub fn replay(url: &str, messages: u64) -> Result<Run> {
    let (began, before) = (Instant::now(), cpu()?);
    let mut connection = Connection::open(url)?;
    let heartbeat = u64::try_from(PATIENCE.as_nanos() / 3)?;
    let config = json!({ "deliver_subject": DELIVERED, "deliver_policy": "all", "ack_policy": "none", "flow_control": true,
        "idle_heartbeat": heartbeat });
    let request = json!({ "stream_name": STREAM, "config": config }).to_string();
    write!(connection.write, "PUB $JS.API.CONSUMER.CREATE.{STREAM} {INBOX} {}\r\n{request}\r\n", request.len())?;
    connection.write.flush()?;
    let mut read = 0;
    while read < messages {
        let Arrived { subject, reply, headers } = connection.next()?;
        if subject == INBOX {
            let said = String::from_utf8_lossy(&connection.body);
            ensure!(!said.contains("\"error\""), "the consumer wasn't made: {said}");
        } else if headers == 0 {
            read += 1;
        } else if let Some(reply) = reply {
            // It waits until this is answered.
            write!(connection.write, "PUB {reply} 0\r\n\r\n")?;
            connection.write.flush()?;
        } else {
            bail!("silence after {read} of {messages} events");
        }
    }
    Ok(Run { acknowledged: read, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}
