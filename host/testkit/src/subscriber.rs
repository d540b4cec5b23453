//! A subscription over server-sent events, as a client has it: one connection of its own, which stops reading when it isn't asked for more.
//!
//! It also measures: a frame is found without a copy of its own, and nobody parses what isn't looked at.

use std::io::BufRead as _;
use std::net::SocketAddr;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use thiserror::Error;
use tokio::net::{TcpSocket, TcpStream};

/// Why there is no subscription any more.
#[derive(Debug, Error)]
pub enum SubscribeError {
    /// Nobody listens, or the connection broke: the same again with the last cursor.
    #[error("the subscription at {0} broke: {1}")]
    Broken(String, String),
    #[error("GET /v1/subscribe answered {status}: {body}")]
    Refused { status: u16, body: String },
}

/// What a subscription says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Event {
        /// Where it goes on behind this event.
        cursor: Bytes,
        /// The event as JSON.
        envelope: Bytes,
    },
    /// Events were left out that aren't the reader's to see.
    Moved { cursor: Bytes },
    /// A comment: the connection lives.
    Alive,
    /// The host's last word.
    Ended { code: String, detail: String },
}

pub struct Subscriber {
    /// Kept for as long as its answer is read.
    _sender: SendRequest<Empty<Bytes>>,
    body: Incoming,
    frames: Frames,
    peer: String,
}

impl Subscriber {
    /// Subscribes at a base URL such as `http://127.0.0.1:7070`, behind a cursor if there is one.
    ///
    /// # Errors
    /// Nobody answers there, or the host refuses.
    pub async fn open(base: &str, selector: &str, cursor: Option<&str>) -> Result<Self, SubscribeError> {
        Self::open_with(base, selector, cursor, None).await
    }

    /// The same with a bound on what the system holds for it, in bytes: whoever doesn't read is then soon noticed.
    ///
    /// # Errors
    /// Nobody answers there, or the host refuses.
    pub async fn open_with(
        base: &str,
        selector: &str,
        cursor: Option<&str>,
        held: Option<u32>,
    ) -> Result<Self, SubscribeError> {
        let (peer, stream) = connect(base, held).await?;
        let broken = |error: &dyn std::fmt::Display| SubscribeError::Broken(peer.clone(), error.to_string());
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        // Its end is seen by whoever reads the answer.
        tokio::spawn(connection);
        // A selector has no letter that an address can't have.
        let mut request = Request::get(format!("/v1/subscribe?selector={selector}")).header(HOST, &peer);
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        let request = request.body(Empty::new()).map_err(|error| broken(&error))?;
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        let status = response.status().as_u16();
        let body = response.into_body();
        if status == 200 {
            return Ok(Self { _sender: sender, body, frames: Frames::default(), peer });
        }
        let body = body.collect().await.map_err(|error| broken(&error))?.to_bytes();
        Err(SubscribeError::Refused { status, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// The next that the host says; none when it closed the connection between two frames.
    ///
    /// # Errors
    /// The connection broke within a frame.
    pub async fn next(&mut self) -> Result<Option<Frame>, SubscribeError> {
        loop {
            if let Some(frame) = self.frames.next() {
                return Ok(Some(frame));
            }
            let Some(read) = self.body.frame().await else {
                return if self.frames.are_whole() { Ok(None) } else { Err(self.broken("it ended within a frame")) };
            };
            match read {
                Ok(piece) => {
                    if let Ok(bytes) = piece.into_data() {
                        self.frames.push(&bytes);
                    }
                }
                Err(error) => return Err(self.broken(&error.to_string())),
            }
        }
    }

    fn broken(&self, why: &str) -> SubscribeError {
        SubscribeError::Broken(self.peer.clone(), why.to_owned())
    }
}

/// A connection to a base URL, with host and port; with `held`, the system holds about so many bytes that weren't read.
pub(crate) async fn connect(base: &str, held: Option<u32>) -> Result<(String, TcpStream), SubscribeError> {
    let peer = base.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
    let broken = |error: &dyn std::fmt::Display| SubscribeError::Broken(peer.clone(), error.to_string());
    let address = peer.parse::<SocketAddr>().map_err(|error| broken(&error))?;
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(|error| broken(&error))?;
    if let Some(bytes) = held {
        socket.set_recv_buffer_size(bytes).map_err(|error| broken(&error))?;
    }
    let stream = socket.connect(address).await.map_err(|error| broken(&error))?;
    stream.set_nodelay(true).map_err(|error| broken(&error))?;
    Ok((peer, stream))
}

/// The `data:` of an event `error`.
#[derive(Default, Deserialize)]
struct Last {
    code: String,
    detail: String,
}

/// Bytes on their way to frames.
#[derive(Debug, Default)]
struct Frames {
    bytes: BytesMut,
    /// Where the first line begins that wasn't looked at yet, and what the lines before it hold.
    line: usize,
    cursor: Option<Range<usize>>,
    data: Option<Range<usize>>,
    is_error: bool,
}

impl Frames {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Nothing of a next frame has come.
    fn are_whole(&self) -> bool {
        self.bytes.is_empty()
    }

    fn next(&mut self) -> Option<Frame> {
        loop {
            let rest = self.bytes.get(self.line..).unwrap_or_default();
            let mut unread = rest;
            // A slice is read without a failure.
            let length = unread.skip_until(b'\n').unwrap_or_default();
            let line = rest.get(..length).unwrap_or_default().strip_suffix(b"\n")?;
            let (begin, end) = (self.line, self.line + line.len());
            self.line = end + 1;
            if line.is_empty() {
                return Some(self.take());
            }
            let value = |name: &str| begin + name.len()..end;
            if line.starts_with(b"id: ") {
                self.cursor = Some(value("id: "));
            } else if line.starts_with(b"data: ") {
                self.data = Some(value("data: "));
            } else if line == b"event: error" {
                self.is_error = true;
            }
        }
    }

    /// The lines so far as a frame.
    fn take(&mut self) -> Frame {
        let whole = self.bytes.split_to(self.line).freeze();
        self.line = 0;
        let is_error = std::mem::take(&mut self.is_error);
        let part = |range: Range<usize>| if range.end <= whole.len() { whole.slice(range) } else { Bytes::new() };
        match (self.cursor.take().map(part), self.data.take().map(part)) {
            (_, Some(data)) if is_error => {
                let Last { code, detail } = serde_json::from_slice(&data).unwrap_or_default();
                Frame::Ended { code, detail }
            }
            (Some(cursor), Some(envelope)) => Frame::Event { cursor, envelope },
            (Some(cursor), None) => Frame::Moved { cursor },
            _ => Frame::Alive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "id: 1\ndata: {\"seq\":1}\n\n:\n\n:\nid: 7\n\nid: 8\ndata: {\"seq\":8}\n\n\
        event: error\ndata: {\"type\":\"/errors/EVENT.LAGGED\",\"code\":\"EVENT.LAGGED\",\"detail\":\"watch lagged\"}\n\n";

    fn event(cursor: &'static str, envelope: &'static str) -> Frame {
        Frame::Event { cursor: cursor.into(), envelope: envelope.into() }
    }

    /// Whatever the network makes of the pieces.
    #[test]
    fn frames_are_the_same_however_they_come() {
        for size in 1..SAID.len() {
            let (mut frames, mut heard) = (Frames::default(), Vec::new());
            for piece in SAID.as_bytes().chunks(size) {
                frames.push(piece);
                heard.extend(std::iter::from_fn(|| frames.next()));
            }
            let ended = Frame::Ended { code: "EVENT.LAGGED".into(), detail: "watch lagged".into() };
            let moved = Frame::Moved { cursor: "7".into() };
            assert_eq!(heard, [event("1", "{\"seq\":1}"), Frame::Alive, moved, event("8", "{\"seq\":8}"), ended]);
            assert!(frames.are_whole(), "pieces of {size}");
        }
    }

    #[test]
    fn half_a_frame_isnt_one() {
        let mut frames = Frames::default();
        frames.push(b"id: 1\ndata: {}\n");
        assert_eq!(frames.next(), None);
        assert!(!frames.are_whole());
    }
}
