//! A small native client: JetStream's API, publishing with a window, and reading a stream as a consumer does.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest wait for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Messages of one request for what is in a stream: a server cuts off a client for which it holds more than 64 MiB.
const READ_BATCH: u64 = 5_000;

/// Who the client is.
#[derive(Clone, Debug, Default)]
pub struct Login {
    pub user: Option<(String, String)>,
    pub token: Option<String>,
}

/// A message as a consumer reads it from a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Place in the stream.
    pub sequence: u64,
    pub subject: String,
    /// Headers in order, names as sent.
    pub headers: Vec<(String, String)>,
    pub payload: Vec<u8>,
}

impl Stored {
    /// A header by its exact name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

pub struct Client {
    stream: BufStream<TcpStream>,
    /// Subjects of its answers begin so. Another connection's are never taken for its own.
    inbox: String,
    next: u64,
}

/// Connections that this process has made.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

struct Raw {
    subject: String,
    reply: String,
    headers: Vec<u8>,
    payload: Vec<u8>,
}

impl Client {
    /// Connects to a server on loopback.
    ///
    /// # Errors
    /// It doesn't answer, or refuses.
    pub async fn connect(port: u16, login: &Login) -> io::Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        let inbox = format!("_INBOX.{}-{}", std::process::id(), CONNECTIONS.fetch_add(1, Ordering::Relaxed));
        let stream = BufStream::with_capacity(256 * 1024, 256 * 1024, socket);
        let mut client = Self { stream, inbox, next: 0 };
        let mut connect =
            json!({ "verbose": false, "pedantic": false, "headers": true, "no_responders": true, "protocol": 1 });
        if let (Some((user, password)), Some(fields)) = (&login.user, connect.as_object_mut()) {
            fields.insert("user".to_owned(), user.as_str().into());
            fields.insert("pass".to_owned(), password.as_str().into());
        }
        if let (Some(token), Some(fields)) = (&login.token, connect.as_object_mut()) {
            fields.insert("auth_token".to_owned(), token.as_str().into());
        }
        let hello = format!("CONNECT {connect}\r\nSUB {}.* 1\r\nPING\r\n", client.inbox);
        client.stream.write_all(hello.as_bytes()).await?;
        client.stream.flush().await?;
        let greeted = async {
            loop {
                let line = client.line().await?;
                if line == "PONG" {
                    return Ok::<(), io::Error>(());
                }
                refuse(&line)?;
            }
        };
        timeout(ANSWER_TIME_MAX, greeted).await.map_err(|_| late())??;
        Ok(client)
    }

    /// Asks JetStream's API (`$JS.API.` and `subject`) and answers its JSON.
    ///
    /// # Errors
    /// No answer, or one with an error.
    pub async fn api(&mut self, subject: &str, request: &Value) -> io::Result<Value> {
        let inbox = self.ask(subject, request).await?;
        loop {
            let answer = self.message().await?;
            if answer.subject == inbox {
                let answer: Value = serde_json::from_slice(&answer.payload)
                    .map_err(|_| io::Error::other(format!("$JS.API.{subject} has no answer")))?;
                return match answer.get("error") {
                    Some(error) => Err(io::Error::other(format!("$JS.API.{subject}: {error}"))),
                    None => Ok(answer),
                };
            }
        }
    }

    /// Makes a stream on file with these subjects, and further settings.
    ///
    /// # Errors
    /// JetStream refuses.
    pub async fn create_stream(&mut self, name: &str, subjects: &[&str], more: &Value) -> io::Result<()> {
        let mut request = json!({ "name": name, "subjects": subjects, "storage": "file", "num_replicas": 1 });
        if let (Some(request), Some(more)) = (request.as_object_mut(), more.as_object()) {
            request.extend(more.clone());
        }
        self.api(&format!("STREAM.CREATE.{name}"), &request).await.map(|_| ())
    }

    /// Everything in a stream, in its order, as a consumer gets it.
    ///
    /// # Errors
    /// There is no such stream.
    pub async fn read_all(&mut self, stream: &str) -> io::Result<Vec<Stored>> {
        let info = self.api(&format!("STREAM.INFO.{stream}"), &json!({})).await?;
        let held = info.pointer("/state/messages").and_then(Value::as_u64).unwrap_or_default();
        let mut all = Vec::new();
        if held == 0 {
            return Ok(all);
        }
        let consumer = json!({ "stream_name": stream, "config": { "deliver_policy": "all", "ack_policy": "none" } });
        let made = self.api(&format!("CONSUMER.CREATE.{stream}"), &consumer).await?;
        let name = made.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut asked = 0;
        while (all.len() as u64) < held {
            if all.len() as u64 == asked {
                let batch = (held - asked).min(READ_BATCH);
                let ask = json!({ "batch": batch, "no_wait": true });
                self.ask(&format!("CONSUMER.MSG.NEXT.{stream}.{name}"), &ask).await?;
                asked += batch;
            }
            let message = self.message().await?;
            if let Some(sequence) = stream_sequence(&message.reply) {
                let headers = headers(&message.headers);
                all.push(Stored { sequence, subject: message.subject, headers, payload: message.payload });
            }
        }
        self.api(&format!("CONSUMER.DELETE.{stream}.{name}"), &json!({})).await?;
        Ok(all)
    }

    /// Publishes to a stream without any header, and answers the place that it got.
    ///
    /// # Errors
    /// No stream takes it.
    pub async fn publish(&mut self, subject: &str, payload: &[u8]) -> io::Result<u64> {
        self.publish_with(subject, &[], payload).await
    }

    /// Publishes to a stream with headers, and answers the place that it got.
    ///
    /// # Errors
    /// No stream takes it.
    pub async fn publish_with(&mut self, subject: &str, headers: &[(&str, &str)], payload: &[u8]) -> io::Result<u64> {
        let inbox = self.request(subject, headers, payload).await?;
        loop {
            let answer = self.message().await?;
            if answer.subject == inbox {
                let said: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
                let place = said.get("seq").and_then(Value::as_u64);
                return place.ok_or_else(|| io::Error::other(format!("{subject} was not taken: {said}")));
            }
        }
    }

    /// Writes a message that nobody answers; [`Self::sync`] sees to it that it leaves.
    ///
    /// # Errors
    /// The server is gone.
    pub async fn push(&mut self, subject: &str, headers: &[(&str, &str)], payload: &[u8]) -> io::Result<()> {
        self.write(subject, "", headers, payload).await
    }

    /// Waits until the server has read everything that was written here.
    ///
    /// # Errors
    /// It refused some of it, or doesn't answer.
    pub async fn sync(&mut self) -> io::Result<()> {
        self.stream.write_all(b"PING\r\n").await?;
        self.stream.flush().await?;
        let read = async {
            loop {
                let line = self.line().await?;
                refuse(&line)?;
                match line.as_str() {
                    "PONG" => return Ok::<(), io::Error>(()),
                    // Who only writes is asked now and then whether it lives.
                    "PING" => {
                        self.stream.write_all(b"PONG\r\n").await?;
                        self.stream.flush().await?;
                    }
                    _ => {}
                }
            }
        };
        timeout(ANSWER_TIME_MAX, read).await.map_err(|_| late())?
    }

    /// Reads along on a subject from here on.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn subscribe(&mut self, subject: &str) -> io::Result<()> {
        self.stream.write_all(format!("SUB {subject} 2\r\n").as_bytes()).await?;
        self.sync().await
    }

    /// The next message: its subject and its payload.
    ///
    /// # Errors
    /// None comes for a long time.
    pub async fn next(&mut self) -> io::Result<(String, Vec<u8>)> {
        self.message().await.map(|message| (message.subject, message.payload))
    }

    /// Asks JetStream's API and answers the inbox that its answer comes to.
    async fn ask(&mut self, subject: &str, request: &Value) -> io::Result<String> {
        self.request(&format!("$JS.API.{subject}"), &[], request.to_string().as_bytes()).await
    }

    async fn request(&mut self, subject: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<String> {
        self.next += 1;
        let inbox = format!("{}.{}", self.inbox, self.next);
        self.write(subject, &inbox, headers, body).await?;
        self.stream.flush().await?;
        Ok(inbox)
    }

    async fn write(&mut self, subject: &str, inbox: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let (line, head) = if headers.is_empty() {
            (format!("PUB {subject} {inbox} {}\r\n", body.len()), String::new())
        } else {
            let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head = format!("NATS/1.0\r\n{lines}\r\n");
            (format!("HPUB {subject} {inbox} {} {}\r\n", head.len(), head.len() + body.len()), head)
        };
        for part in [line.as_bytes(), head.as_bytes(), body, b"\r\n"] {
            self.stream.write_all(part).await?;
        }
        Ok(())
    }

    async fn message(&mut self) -> io::Result<Raw> {
        timeout(ANSWER_TIME_MAX, self.next_message()).await.map_err(|_| late())?
    }

    async fn next_message(&mut self) -> io::Result<Raw> {
        loop {
            let line = self.line().await?;
            refuse(&line)?;
            if line == "PING" {
                self.stream.write_all(b"PONG\r\n").await?;
                self.stream.flush().await?;
            }
            let Some((verb @ ("MSG" | "HMSG"), rest)) = line.split_once(' ') else { continue };
            let words: Vec<&str> = rest.split_ascii_whitespace().collect();
            let number = |from_end: usize| {
                let word = words.len().checked_sub(from_end).and_then(|place| words.get(place));
                word.and_then(|word| word.parse::<usize>().ok()).ok_or_else(|| io::Error::other(line.clone()))
            };
            let total = number(1)?;
            let head = if verb == "HMSG" { number(2)? } else { 0 };
            let reply = if words.len() > if verb == "HMSG" { 4 } else { 3 } { words.get(2) } else { None };
            let mut body = vec![0; total + 2];
            self.stream.read_exact(&mut body).await?;
            body.truncate(total);
            let payload = body.split_off(head.min(total));
            return Ok(Raw {
                subject: words.first().copied().unwrap_or_default().to_owned(),
                reply: reply.copied().unwrap_or_default().to_owned(),
                headers: body,
                payload,
            });
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}

fn late() -> io::Error {
    io::Error::other("nats-server didn't answer in time")
}

fn refuse(line: &str) -> io::Result<()> {
    if line.starts_with("-ERR") { Err(io::Error::other(line.to_owned())) } else { Ok(()) }
}

/// From `$JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.<consumer sequence>.<time>.<pending>`.
fn stream_sequence(reply: &str) -> Option<u64> {
    let mut tokens = reply.strip_prefix("$JS.ACK.")?.split('.');
    tokens.nth(3)?.parse().ok()
}

fn headers(block: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(block);
    let lines = text.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name.to_owned(), value.trim_start().to_owned())).collect()
}
