//! A small native client: one command, one reply; and reading a stream as a consumer does.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest wait for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Entries of one page of a stream.
const PAGE: &str = "10000";

/// A reply of the server (RESP 2), but for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Null,
    Number(i64),
    /// A text or a status.
    Text(Vec<u8>),
    List(Vec<Value>),
}

impl Value {
    /// As text; empty if it is none.
    pub fn text(&self) -> String {
        match self {
            Self::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Number(number) => number.to_string(),
            Self::Null | Self::List(_) => String::new(),
        }
    }

    /// As a list; empty if it is none.
    pub fn list(&self) -> &[Value] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }
}

/// An entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `1700000000000-0`.
    pub id: String,
    /// Names and values in their order.
    pub fields: Vec<(String, Vec<u8>)>,
}

impl Entry {
    /// The first field of a name, as text.
    pub fn field(&self, name: &str) -> Option<String> {
        let bytes = self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

pub struct Client {
    stream: BufStream<TcpStream>,
}

impl Client {
    /// Connects to a server on loopback.
    ///
    /// # Errors
    /// Nobody listens.
    pub async fn connect(port: u16) -> io::Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        Ok(Self { stream: BufStream::with_capacity(256 * 1024, 256 * 1024, socket) })
    }

    /// Sends a command and answers its reply.
    ///
    /// # Errors
    /// The server refuses, or doesn't answer.
    pub async fn ask(&mut self, words: &[&str]) -> io::Result<Value> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.stream.write_all(&command).await?;
        self.stream.flush().await?;
        timeout(ANSWER_TIME_MAX, self.reply())
            .await
            .map_err(|_| io::Error::other(format!("redis-server didn't answer {words:?} in time")))?
    }

    /// Everything in a stream, in its order; nothing if it isn't there.
    ///
    /// # Errors
    /// The key holds something else.
    pub async fn read_all(&mut self, stream: &str) -> io::Result<Vec<Entry>> {
        let (mut all, mut from) = (Vec::new(), "-".to_owned());
        loop {
            let page = self.ask(&["XRANGE", stream, &from, "+", "COUNT", PAGE]).await?;
            let Some(last) = page.list().last().and_then(|entry| entry.list().first()) else { return Ok(all) };
            from = format!("({}", last.text());
            all.extend(page.list().iter().map(entry));
        }
    }

    async fn reply(&mut self) -> io::Result<Value> {
        let line = self.line().await?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| io::Error::other("an empty line"))?;
        match kind {
            "+" => Ok(Value::Text(rest.into())),
            "-" => Err(io::Error::other(rest.to_owned())),
            ":" => Ok(Value::Number(number(rest)?)),
            "$" => match usize::try_from(number(rest)?) {
                Err(_) => Ok(Value::Null),
                Ok(length) => {
                    let mut text = vec![0; length + 2];
                    self.stream.read_exact(&mut text).await?;
                    text.truncate(length);
                    Ok(Value::Text(text))
                }
            },
            "*" => {
                let mut list = Vec::new();
                for _ in 0..number(rest)? {
                    list.push(Box::pin(self.reply()).await?);
                }
                Ok(Value::List(list))
            }
            _ => Err(io::Error::other(line)),
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

fn number(digits: &str) -> io::Result<i64> {
    digits.parse().map_err(|_| io::Error::other(format!("`{digits}` is no number")))
}

fn entry(value: &Value) -> Entry {
    let [id, fields] = value.list() else { return Entry { id: String::new(), fields: Vec::new() } };
    let fields = fields.list().chunks_exact(2).filter_map(|pair| match pair {
        [name, Value::Text(value)] => Some((name.text(), value.clone())),
        _ => None,
    });
    Entry { id: id.text(), fields: fields.collect() }
}
