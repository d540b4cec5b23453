//! One connection of one instance: TCP, with TLS from the first byte or by `start_tls` in place.
//!
//! A read and a write may be under way at once, a second of either is `busy`. A read that runs out of time has consumed
//! nothing: what came is kept here. A write that was cut short, by its time or by its caller, may be partly sent, so no
//! further write is taken. Under TLS the end of the stream counts as an end only if the peer said so (close_notify).
//! Dropping a connection closes it without a word; `finish` ends it in good order.
//! What it doesn't do: UDP, listening, Unix sockets.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit};
use tokio::time::{Instant, timeout_at};
use url::Host;
use waybill_bindings::api::net_types::{ConnectOptions, ConnectionInfo, NetError};

use super::prompt::Prompt;
use super::stream::{self, ReadSide, WriteSide};
use crate::grants::{EgressPolicy, Target};
use crate::http::net_error;
use crate::limits::NET_READ_BYTES_MAX;
use crate::tls::{self, TlsClient, TlsPeer};

/// Idle time before keep-alive probes where the guest names none: below the timeouts of common NATs.
const KEEP_ALIVE_DEFAULT: Duration = Duration::from_secs(60);
/// Longest wait for a connection with its handshake, or for a handshake alone.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Bytes looked at for a reason after a write has failed.
const REASON_BYTES_MAX: usize = 64 * 1024;

/// The time a guest's `milliseconds` leave for a connection or handshake, within the host's bound.
pub(crate) fn time_to_connect(milliseconds: Option<u32>) -> Instant {
    let asked = milliseconds.map_or(CONNECT_TIMEOUT_MAX, |ms| Duration::from_millis(u64::from(ms)));
    Instant::now() + asked.min(CONNECT_TIMEOUT_MAX)
}

/// An open connection; clones are the same one. Dropping the last closes it.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    reader: Mutex<Reader>,
    writer: Mutex<Writer>,
    info: RwLock<ConnectionInfo>,
    /// Host and address as the guest gave them.
    target: Target,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Reader {
    /// None only when `ended` says why.
    side: Option<ReadSide>,
    /// Received and not yet taken. Bound: the largest `max` asked for.
    buffer: BytesMut,
    /// Why nothing more will come.
    ended: Option<NetError>,
    tls: Option<Arc<TlsPeer>>,
}

#[derive(Debug)]
struct Writer {
    /// None only when `ended` says why.
    side: Option<WriteSide>,
    /// Why nothing more is taken.
    ended: Option<NetError>,
    tls: Option<Arc<TlsPeer>>,
}

impl Connection {
    /// Connects to `to` by `deadline`, TLS included, if the policy lets it; the permit counts the connection until it is
    /// closed.
    pub(crate) async fn connect(
        policy: &EgressPolicy,
        to: &str,
        options: &ConnectOptions,
        tls: Option<TlsClient>,
        deadline: Instant,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, NetError> {
        let target = Target::from_stream_uri(to).map_err(net_error)?;
        let left = deadline.saturating_duration_since(Instant::now());
        let stream = policy.connect(&target, left).await.map_err(net_error)?;
        let idle = options.keep_alive.map_or(KEEP_ALIVE_DEFAULT, |ms| Duration::from_millis(u64::from(ms)));
        // The smallest idle time that systems take is a second.
        let keep_alive = TcpKeepalive::new().with_time(idle.max(Duration::from_secs(1)));
        SockRef::from(&stream).set_tcp_keepalive(&keep_alive).map_err(other)?;
        let connection = Self::over(stream, target, permit).map_err(other)?;
        if let Some(tls) = tls {
            let (mut reader, mut writer) = connection.sides()?;
            connection.upgrade(&mut reader, &mut writer, tls, deadline).await?;
        }
        Ok(connection)
    }

    fn over(stream: TcpStream, target: Target, permit: OwnedSemaphorePermit) -> io::Result<Self> {
        let info = ConnectionInfo {
            remote: stream.peer_addr()?.to_string(),
            local: stream.local_addr()?.to_string(),
            tls_version: None,
            alpn: None,
            channel_binding: None,
        };
        let (read, write) = stream::plain(stream);
        Ok(Self(Arc::new(Inner {
            reader: Mutex::new(Reader { side: Some(read), buffer: BytesMut::new(), ended: None, tls: None }),
            writer: Mutex::new(Writer { side: Some(write), ended: None, tls: None }),
            info: RwLock::new(info),
            target,
            _permit: permit,
        })))
    }

    /// What is known of it.
    pub(crate) fn info(&self) -> ConnectionInfo {
        self.0.info.read().clone()
    }

    /// Waits for at least `min` bytes (0 = what is there) and answers at most `max`.
    pub(crate) async fn read(&self, min: u32, max: u32, timeout: Option<u32>) -> Result<Bytes, NetError> {
        let mut reader = self.0.reader.try_lock().map_err(|_| NetError::Busy)?;
        let max = (max as usize).min(NET_READ_BYTES_MAX);
        let min = (min as usize).min(max);
        within(timeout, reader.fill(min, max)).await.ok_or(NetError::Timeout)?;
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
        match within(timeout, writer.send(data)).await {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => {
                let error = self.reason().unwrap_or(error);
                writer.ended = Some(error.clone());
                Err(error)
            }
            None => Err(NetError::Timeout),
        }
    }

    /// What a peer that hung up said before it did, if it lies in the socket: a TLS alert tells more than a broken pipe.
    fn reason(&self) -> Option<NetError> {
        let mut reader = self.0.reader.try_lock().ok()?;
        reader.take_ready(REASON_BYTES_MAX);
        reader.ended.clone().filter(|ended| matches!(ended, NetError::Tls(_)))
    }

    /// Upgrades to TLS by `deadline`. A connection whose handshake failed is of no further use.
    pub(crate) async fn start_tls(&self, tls: TlsClient, deadline: Instant) -> Result<(), NetError> {
        let (mut reader, mut writer) = self.sides()?;
        if reader.tls.is_some() {
            return Err(NetError::Tls("this connection has TLS already: start-tls once".to_owned()));
        }
        reader.take_ready(1);
        if !reader.buffer.is_empty() {
            let injected = NetError::Tls(format!(
                "{} sent bytes before TLS that nobody has taken: they may be injected, so the connection is given up",
                self.0.target
            ));
            reader.buffer.clear();
            reader.give_up(injected.clone());
            writer.give_up(injected.clone());
            return Err(injected);
        }
        if let Some(ended) = reader.ended.as_ref().or(writer.ended.as_ref()) {
            return Err(ended.clone());
        }
        self.upgrade(&mut reader, &mut writer, tls, deadline).await
    }

    fn sides(&self) -> Result<(MutexGuard<'_, Reader>, MutexGuard<'_, Writer>), NetError> {
        let reader = self.0.reader.try_lock().map_err(|_| NetError::Busy)?;
        Ok((reader, self.0.writer.try_lock().map_err(|_| NetError::Busy)?))
    }

    async fn upgrade(
        &self,
        reader: &mut Reader,
        writer: &mut Writer,
        tls: TlsClient,
        deadline: Instant,
    ) -> Result<(), NetError> {
        // Before the wait, so that a caller who goes away leaves nothing half-way.
        let broken_off = NetError::Reset("an earlier start of TLS was broken off".to_owned());
        (reader.ended, writer.ended) = (Some(broken_off.clone()), Some(broken_off));
        match timeout_at(deadline, self.handshake(reader, writer, tls)).await.unwrap_or(Err(NetError::Timeout)) {
            Ok(()) => {
                (reader.ended, writer.ended) = (None, None);
                Ok(())
            }
            Err(error) => {
                reader.give_up(error.clone());
                writer.give_up(error.clone());
                Err(error)
            }
        }
    }

    async fn handshake(&self, reader: &mut Reader, writer: &mut Writer, tls: TlsClient) -> Result<(), NetError> {
        let (Some(ReadSide::Plain(read)), Some(WriteSide::Plain(write))) = (reader.side.take(), writer.side.take())
        else {
            return Err(NetError::Closed);
        };
        let stream = read.reunite(write).map_err(other)?;
        let address = address(&self.0.target);
        let (stream, peer) = tls.handshake(Prompt(stream), &self.0.target.host, &address).await?;
        tls::describe(stream.get_ref().1, &mut self.0.info.write());
        let peer = Some(Arc::new(peer));
        let (read, write) = stream::tls(stream);
        (reader.side, writer.side) = (Some(read), Some(write));
        (reader.tls, writer.tls) = (peer.clone(), peer);
        Ok(())
    }

    /// Ends the writing side; reading goes on.
    pub(crate) async fn finish(&self) -> Result<(), NetError> {
        let mut writer = self.0.writer.try_lock().map_err(|_| NetError::Busy)?;
        if writer.ended.is_some() {
            return Ok(());
        }
        writer.ended = Some(NetError::Closed);
        let Some(side) = &mut writer.side else { return Ok(()) };
        side.finish().await.map_err(|error| broken(&error, None))
    }
}

impl Reader {
    fn give_up(&mut self, why: NetError) {
        self.side = None;
        self.ended = Some(why);
    }

    /// Receives until `min` bytes are there or the stream ends. Cancelling it loses nothing.
    async fn fill(&mut self, min: usize, max: usize) {
        // What already lies in the socket comes along without a wait.
        self.take_ready(max);
        while self.ended.is_none() && self.buffer.len() < min {
            let Some(side) = &mut self.side else { return };
            let room = max.saturating_sub(self.buffer.len());
            let result = side.receive(&mut self.buffer, room).await;
            self.note(result);
        }
    }

    fn take_ready(&mut self, max: usize) {
        while self.ended.is_none() && self.buffer.len() < max {
            let Some(side) = &mut self.side else { return };
            let room = max.saturating_sub(self.buffer.len());
            let Some(result) = side.receive_ready(&mut self.buffer, room) else { return };
            self.note(result);
        }
    }

    fn note(&mut self, result: io::Result<usize>) {
        match result {
            Ok(0) => self.ended = Some(NetError::Closed),
            Ok(_) => {}
            Err(error) => self.ended = Some(broken(&error, self.tls.as_deref())),
        }
    }
}

impl Writer {
    fn give_up(&mut self, why: NetError) {
        self.side = None;
        self.ended = Some(why);
    }

    async fn send(&mut self, data: &[u8]) -> Result<(), NetError> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let Some(side) = &mut self.side else { return Err(NetError::Closed) };
        // Stays if this future is dropped in the middle.
        self.ended = Some(NetError::Reset("an earlier write was cut short half-way".to_owned()));
        side.send(data).await.map_err(|error| broken(&error, self.tls.as_deref()))?;
        self.ended = None;
        Ok(())
    }
}

/// Runs within `timeout` milliseconds; none = as long as the call itself may take. Answers nothing when time is over.
async fn within<F: Future>(timeout: Option<u32>, work: F) -> Option<F::Output> {
    match timeout {
        Some(ms) => tokio::time::timeout(Duration::from_millis(u64::from(ms)), work).await.ok(),
        None => Some(work.await),
    }
}

fn broken(error: &io::Error, tls: Option<&TlsPeer>) -> NetError {
    match tls {
        Some(peer) => peer.stream_failed(error),
        None => NetError::Reset(error.to_string()),
    }
}

fn other(error: impl std::fmt::Display) -> NetError {
    NetError::Other(error.to_string())
}

/// `host:port`, as people write it.
fn address(target: &Target) -> String {
    match &target.host {
        Host::Ipv6(host) => format!("[{host}]:{}", target.port),
        host => format!("{host}:{}", target.port),
    }
}
