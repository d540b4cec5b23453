//! One TCP connection of one instance.
//!
//! A read and a write may be under way at once, a second of either is `busy`. A read that runs out of time has consumed
//! nothing: what came is kept here. A write that runs out of time may be partly sent, so no further write is taken.
//! What it doesn't do: TLS (`start-tls` answers `unsupported` for now), UDP, listening, Unix sockets.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, OwnedSemaphorePermit};
use waybill_bindings::api::net_types::{ConnectOptions, ConnectionInfo, NetError};

use crate::grants::{EgressPolicy, Target};
use crate::http::net_error;
use crate::limits::NET_READ_BYTES_MAX;

/// Idle time before keep-alive probes where the guest names none: below the timeouts of common NATs.
const KEEP_ALIVE_DEFAULT: Duration = Duration::from_secs(60);
/// Longest wait for a connection.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// An open connection; clones are the same one. Dropping the last closes it.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    reader: Mutex<Reader>,
    writer: Mutex<Writer>,
    info: ConnectionInfo,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Reader {
    half: OwnedReadHalf,
    /// Received and not yet taken. Bound: the largest `max` asked for.
    buffer: BytesMut,
    /// Why nothing more will come.
    ended: Option<NetError>,
}

#[derive(Debug)]
struct Writer {
    half: OwnedWriteHalf,
    /// Why nothing more is taken.
    ended: Option<NetError>,
}

impl Connection {
    /// Connects to `to` if the policy lets it; the permit counts the connection until it is closed.
    pub(crate) async fn connect(
        policy: &EgressPolicy,
        to: &str,
        options: &ConnectOptions,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, NetError> {
        if options.tls.is_some() {
            return Err(NetError::Unsupported(
                "TLS for net isn't supported by this host yet: connect without `tls`".to_owned(),
            ));
        }
        let target = Target::from_stream_uri(to).map_err(net_error)?;
        let time = Duration::from_millis(u64::from(options.timeout)).min(CONNECT_TIMEOUT_MAX);
        let stream = policy.connect(&target, time).await.map_err(net_error)?;
        let idle = options.keep_alive.map_or(KEEP_ALIVE_DEFAULT, |ms| Duration::from_millis(u64::from(ms)));
        // The smallest idle time that systems take is a second.
        let keep_alive = TcpKeepalive::new().with_time(idle.max(Duration::from_secs(1)));
        SockRef::from(&stream).set_tcp_keepalive(&keep_alive).map_err(|error| NetError::Other(error.to_string()))?;
        Self::over(stream, permit).map_err(|error| NetError::Other(error.to_string()))
    }

    fn over(stream: TcpStream, permit: OwnedSemaphorePermit) -> std::io::Result<Self> {
        let info = ConnectionInfo {
            remote: stream.peer_addr()?.to_string(),
            local: stream.local_addr()?.to_string(),
            tls_version: None,
            alpn: None,
            channel_binding: None,
        };
        let (read, write) = stream.into_split();
        Ok(Self(Arc::new(Inner {
            reader: Mutex::new(Reader { half: read, buffer: BytesMut::new(), ended: None }),
            writer: Mutex::new(Writer { half: write, ended: None }),
            info,
            _permit: permit,
        })))
    }

    /// What is known of it.
    pub(crate) fn info(&self) -> ConnectionInfo {
        self.0.info.clone()
    }

    /// Waits for at least `min` bytes (0 = what is there) and answers at most `max`.
    pub(crate) async fn read(&self, min: u32, max: u32, timeout: Option<u32>) -> Result<Bytes, NetError> {
        let mut reader = self.0.reader.try_lock().map_err(|_| NetError::Busy)?;
        let max = (max as usize).min(NET_READ_BYTES_MAX);
        let min = (min as usize).min(max);
        within(timeout, reader.fill(min, max)).await.unwrap_or(Err(NetError::Timeout))?;
        let reader = &mut *reader;
        if reader.buffer.is_empty()
            && max > 0
            && let Some(ended) = &reader.ended
        {
            return Err(ended.clone());
        }
        let take = reader.buffer.len().min(max);
        Ok(reader.buffer.split_to(take).freeze())
    }

    /// Writes everything, or fails.
    pub(crate) async fn write(&self, data: &[u8], timeout: Option<u32>) -> Result<(), NetError> {
        let mut writer = self.0.writer.try_lock().map_err(|_| NetError::Busy)?;
        if let Some(ended) = &writer.ended {
            return Err(ended.clone());
        }
        match within(timeout, writer.half.write_all(data)).await {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => {
                let error = broken(&error);
                writer.ended = Some(error.clone());
                Err(error)
            }
            None => {
                writer.ended = Some(NetError::Reset("an earlier write ran out of time half-way".to_owned()));
                Err(NetError::Timeout)
            }
        }
    }

    /// Ends the writing side; reading goes on.
    pub(crate) async fn finish(&self) -> Result<(), NetError> {
        let mut writer = self.0.writer.try_lock().map_err(|_| NetError::Busy)?;
        if writer.ended.is_some() {
            return Ok(());
        }
        writer.ended = Some(NetError::Closed);
        writer.half.shutdown().await.map_err(|error| broken(&error))
    }
}

impl Reader {
    /// Receives until `min` bytes are there or the stream ends. Cancelling it loses nothing.
    async fn fill(&mut self, min: usize, max: usize) -> Result<(), NetError> {
        if self.ended.is_none() && self.buffer.len() < max {
            // What already lies in the socket comes along without a wait.
            self.take_ready(max);
        }
        while self.ended.is_none() && self.buffer.len() < min {
            let room = max.saturating_sub(self.buffer.len());
            self.buffer.reserve(room.min(64 * 1024));
            match self.half.read_buf(&mut self.buffer).await {
                Ok(0) => self.ended = Some(NetError::Closed),
                Ok(_) => {}
                Err(error) => self.ended = Some(broken(&error)),
            }
        }
        Ok(())
    }

    fn take_ready(&mut self, max: usize) {
        while self.ended.is_none() && self.buffer.len() < max {
            let room = max.saturating_sub(self.buffer.len());
            self.buffer.reserve(room.min(64 * 1024));
            match self.half.try_read_buf(&mut self.buffer) {
                Ok(0) => self.ended = Some(NetError::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => self.ended = Some(broken(&error)),
            }
        }
    }
}

/// Runs within `timeout` milliseconds; none = as long as the call itself may take. Answers nothing when time is over.
async fn within<F: Future>(timeout: Option<u32>, work: F) -> Option<F::Output> {
    match timeout {
        Some(ms) => tokio::time::timeout(Duration::from_millis(u64::from(ms)), work).await.ok(),
        None => Some(work.await),
    }
}

fn broken(error: &std::io::Error) -> NetError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => NetError::Closed,
        _ => NetError::Reset(error.to_string()),
    }
}
