//! The two sides of a byte stream, plain or TLS, so that one can wait while the other works.

use std::io;

use bytes::BytesMut;
use futures::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::client::TlsStream;

use super::prompt::{Prompt, acknowledge};

/// Most bytes received in one go.
const CHUNK_BYTES: usize = 64 * 1024;

/// The side that receives.
#[derive(Debug)]
pub(super) enum ReadSide {
    Plain(OwnedReadHalf),
    Tls(ReadHalf<TlsStream<Prompt>>),
}

/// The side that sends.
#[derive(Debug)]
pub(super) enum WriteSide {
    Plain(OwnedWriteHalf),
    Tls(WriteHalf<TlsStream<Prompt>>),
}

/// Takes a plain stream apart.
pub(super) fn plain(stream: TcpStream) -> (ReadSide, WriteSide) {
    let (read, write) = stream.into_split();
    (ReadSide::Plain(read), WriteSide::Plain(write))
}

/// Takes a TLS stream apart.
pub(super) fn tls(stream: TlsStream<Prompt>) -> (ReadSide, WriteSide) {
    let (read, write) = tokio::io::split(stream);
    (ReadSide::Tls(read), WriteSide::Tls(write))
}

impl ReadSide {
    /// Waits for bytes, at most `room`, and answers how many came; 0 = the end. Cancelling it loses nothing.
    pub(super) async fn receive(&mut self, into: &mut BytesMut, room: usize) -> io::Result<usize> {
        into.reserve(room.min(CHUNK_BYTES));
        match self {
            Self::Plain(half) => match half.try_read_buf(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    acknowledge(half.as_ref());
                    half.read_buf(into).await
                }
                result => result,
            },
            Self::Tls(half) => half.read_buf(into).await,
        }
    }

    /// The same without waiting; none = nothing is there.
    pub(super) fn receive_ready(&mut self, into: &mut BytesMut, room: usize) -> Option<io::Result<usize>> {
        into.reserve(room.min(CHUNK_BYTES));
        match self {
            Self::Plain(half) => match half.try_read_buf(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                result => Some(result),
            },
            // Out of tokio's budget: a used-up budget would look like an empty stream.
            Self::Tls(half) => tokio::task::unconstrained(half.read_buf(into)).now_or_never(),
        }
    }
}

impl WriteSide {
    pub(super) async fn send(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(half) => half.write_all(data).await,
            Self::Tls(half) => {
                half.write_all(data).await?;
                half.flush().await
            }
        }
    }

    /// Ends this side: close_notify under TLS, and FIN.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(half) => half.shutdown().await,
            Self::Tls(half) => half.shutdown().await,
        }
    }
}
