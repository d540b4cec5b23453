//! Bytes that arrive are acknowledged at once when nothing more is there.
//!
//! A system that acknowledges late, by some 40 ms, makes a peer with Nagle's algorithm hold back its next small answer for as long.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Has the system acknowledge now what came, and what comes next. It forgets that as it likes, so each wait asks anew.
pub(super) fn acknowledge(stream: &TcpStream) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = stream.set_quickack(true) {
        // The bytes arrive all the same, later.
        tracing::trace!(%error, "arrived bytes aren't acknowledged at once");
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _: &TcpStream = stream;
}

/// A stream that acknowledges before it waits.
#[derive(Debug)]
pub(super) struct Prompt(pub(super) TcpStream);

impl AsyncRead for Prompt {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.0).poll_read(context, into);
        if polled.is_pending() {
            acknowledge(&self.0);
        }
        polled
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use bytes::BytesMut;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::net::stream;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        // As the system has it after a while of asking and answering.
        ours.set_quickack(false).unwrap();
        assert!(!ours.quickack().unwrap());
        (ours, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn who_waits_for_bytes_acknowledges_those_that_came() {
        let (ours, mut peer) = pair().await;
        let (mut read, _write) = stream::plain(ours);
        let mut into = BytesMut::new();
        let (received, ()) = tokio::join!(read.receive(&mut into, 1), async { peer.write_all(b"x").await.unwrap() });
        received.unwrap();
        let stream::ReadSide::Plain(half) = &read else { panic!("it is plain") };
        assert!(half.as_ref().quickack().unwrap());
    }

    #[tokio::test]
    async fn so_it_is_below_tls() {
        let (ours, mut peer) = pair().await;
        let mut prompt = Prompt(ours);
        let mut into = [0; 1];
        let (received, ()) = tokio::join!(prompt.read(&mut into), async { peer.write_all(b"x").await.unwrap() });
        assert_eq!((received.unwrap(), &into), (1, b"x"));
        assert!(prompt.0.quickack().unwrap());
    }
}
