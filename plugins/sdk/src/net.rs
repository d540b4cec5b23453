//! Byte streams for protocols of one's own: a connection that reads and writes at once, and a buffer for what has come and
//! isn't understood yet.
//!
//! ```ignore
//! let mut stream = Stream::connect("tcp://127.0.0.1:4222", Options { timeout: 5_000, ..Options::default() }).await?;
//! let mut input = Input::new();
//! stream.write(request, 5_000).await?;
//! loop {
//!     if let Some(length) = complete(input.unread()) { input.consume(length); break; }
//!     input.push(stream.receive(5_000).await?);
//! }
//! ```
//!
//! Every read and write has a time. What this doesn't do: framing, reconnecting, pooling: protocols differ in them.

use crate::host::net::Connection;
use crate::host::net_types::{ConnectOptions, ConnectionInfo, NetError, TlsOptions};
use crate::transport::{ErrorKind, Fault, PluginError};

/// Most bytes one read takes: large enough for hundreds of acknowledgements in one crossing into the host.
const RECEIVE_BYTES_MAX: u32 = 256 * 1024;

/// Time and TLS of a connection, for [`Stream::connect`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Milliseconds for resolution, connection and handshake together.
    pub timeout: u32,
    /// TLS from the first byte; none = plain, until [`Stream::start_tls`].
    pub tls: Option<TlsOptions>,
}

/// An open byte stream. Dropping it closes it. One read and one write may be under way at once, hence `&self`.
///
/// Don't drop the future of a read before it is ready: what it had taken from the host would be lost.
pub struct Stream {
    connection: Connection,
}

impl Stream {
    /// Connects to `tcp://name:port`.
    ///
    /// # Errors
    /// Not granted, nobody there, TLS failed, out of time.
    pub async fn connect(to: &str, options: Options) -> Result<Self, NetError> {
        let Options { timeout, tls } = options;
        let options = ConnectOptions { tls, timeout, keep_alive: None, attributes: Vec::new() };
        Connection::connect(to.to_owned(), options).await.map(|connection| Self { connection })
    }

    /// Goes on in TLS. Take every byte that was sent in plain text first: what is left makes it fail.
    ///
    /// # Errors
    /// The handshake failed; the stream is of no more use.
    pub async fn start_tls(&self, tls: TlsOptions, timeout: u32) -> Result<(), NetError> {
        self.connection.start_tls(tls, Some(timeout)).await
    }

    /// Writes all of it. Put a whole batch in one call: each is one crossing into the host and one packet or more.
    ///
    /// # Errors
    /// It may be partly sent: the stream takes no more.
    pub async fn write(&self, bytes: Vec<u8>, timeout: u32) -> Result<(), NetError> {
        self.connection.write(bytes, Some(timeout)).await
    }

    /// Waits for bytes and answers all that are there, at least one.
    ///
    /// # Errors
    /// `timeout` when none came: nothing is lost and another read may follow; `closed` after the last bytes.
    pub async fn receive(&self, timeout: u32) -> Result<Vec<u8>, NetError> {
        self.connection.read(1, RECEIVE_BYTES_MAX, Some(timeout)).await
    }

    /// What has come already, without waiting; empty if nothing has.
    ///
    /// # Errors
    /// As [`Stream::receive`], but for `timeout`.
    pub async fn receive_ready(&self) -> Result<Vec<u8>, NetError> {
        self.connection.read(0, RECEIVE_BYTES_MAX, None).await
    }

    /// Ends the writing side: the peer sees that nothing follows.
    ///
    /// # Errors
    /// The connection is broken anyway.
    pub async fn finish(&self) -> Result<(), NetError> {
        self.connection.finish().await
    }

    /// Addresses and what TLS agreed on.
    pub fn info(&self) -> ConnectionInfo {
        self.connection.info()
    }
}

/// Bytes received and not yet understood.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
}

impl Input {
    /// Holds nothing until [`Self::push`] adds what was received.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what was received. Costs no copy when everything before was consumed.
    pub fn push(&mut self, received: Vec<u8>) {
        if self.start >= self.bytes.len() {
            self.bytes = received;
        } else {
            self.bytes.drain(..self.start);
            self.bytes.extend_from_slice(&received);
        }
        self.start = 0;
    }

    /// The bytes that [`Self::consume`] has not taken yet.
    pub fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Leaves out the first bytes of what is unread.
    pub fn consume(&mut self, count: usize) {
        self.start = self.start.saturating_add(count).min(self.bytes.len());
    }
}

/// A failure of the stream in one sentence for the operator.
pub fn reason(error: &NetError) -> String {
    match error {
        NetError::Denied(why) => why.clone(),
        NetError::Resolve(why) => format!("the name can't be resolved: {why}"),
        NetError::Refused => "nobody listens there".to_owned(),
        NetError::Timeout => "no answer in time".to_owned(),
        NetError::Closed => "the peer closed the connection".to_owned(),
        NetError::Reset(why) => format!("the connection broke: {why}"),
        NetError::Tls(why) => format!("TLS failed: {why}"),
        NetError::Busy => "a read or write was under way already".to_owned(),
        NetError::Cancelled => "the host ended the call".to_owned(),
        NetError::Limit(why) => format!("a limit of the grant: {why}"),
        NetError::Unsupported(why) => format!("the host can't do it: {why}"),
        NetError::Other(why) => why.clone(),
    }
}

/// A connection that wasn't made, as the failure of the call: it says to whom, which the error itself doesn't.
pub fn connect_failure(code: &str, to: &str, error: &NetError) -> PluginError {
    let mut failed = failure(code, error);
    failed.fault.reason = match error {
        NetError::Refused => format!("nobody listens at {to}"),
        other => format!("{to}: {}", reason(other)),
    };
    failed
}

/// A failure of the stream as that of the call: what only an operator can mend is `denied`, the rest `unavailable`.
pub fn failure(code: &str, error: &NetError) -> PluginError {
    let kind = match error {
        NetError::Denied(_) | NetError::Tls(_) => ErrorKind::Denied,
        NetError::Unsupported(_) => ErrorKind::Unsupported,
        NetError::Cancelled => ErrorKind::Cancelled,
        _ => ErrorKind::Unavailable,
    };
    PluginError::new(kind, Fault::new(code, reason(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_was_not_made_says_to_whom() {
        for (error, says) in [
            (NetError::Refused, "nobody listens at broker:1883"),
            (NetError::Timeout, "broker:1883: no answer in time"),
        ] {
            let failed = connect_failure("MQTT.CONNECT", "broker:1883", &error);
            assert_eq!((failed.kind, failed.fault.reason.as_str()), (ErrorKind::Unavailable, says));
        }
    }

    #[test]
    fn input_keeps_what_is_unread_across_pushes() {
        let mut input = Input::new();
        assert_eq!(input.unread(), b"");
        input.push(b"PING\r\nPO".to_vec());
        input.consume(6);
        assert_eq!(input.unread(), b"PO");
        input.push(b"NG\r\n".to_vec());
        assert_eq!(input.unread(), b"PONG\r\n");
        input.consume(100);
        assert_eq!(input.unread(), b"");
        input.push(b"x".to_vec());
        assert_eq!(input.unread(), b"x");
    }

    #[test]
    fn what_only_an_operator_can_mend_is_denied() {
        for (error, kind) in [
            (NetError::Denied("x".to_owned()), ErrorKind::Denied),
            (NetError::Tls("x".to_owned()), ErrorKind::Denied),
            (NetError::Refused, ErrorKind::Unavailable),
            (NetError::Reset("x".to_owned()), ErrorKind::Unavailable),
        ] {
            assert_eq!(failure("x", &error).kind, kind);
        }
    }
}
