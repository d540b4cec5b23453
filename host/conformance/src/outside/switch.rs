//! The switch between a plugin and its peer: passes bytes on, and can go down, close at once, fall silent, or cut what is
//! connected. It keeps what the plugin wrote.
//!
//! While it is down its port stays bound without a listener, so that connecting is refused and nobody else gets the port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::limits::RECORD_BYTES_MAX;

/// What the switch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Forward,
    Close,
    /// Accepts, and passes nothing on; what was connected stands still.
    Silent,
    Down,
}

/// Bytes of one copy.
const BUFFER_BYTES: usize = 64 * 1024;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 64;

/// A running switch. Dropping it ends it and all connections.
pub(crate) struct Switch {
    pub(crate) address: SocketAddr,
    mode: watch::Sender<Mode>,
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

struct Shared {
    target: Option<String>,
    /// Cancelled to cut all connections there are; then replaced.
    cut: Mutex<CancellationToken>,
    written: Mutex<Vec<u8>>,
    connections: AtomicUsize,
}

impl Switch {
    pub(crate) async fn start(target: Option<String>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (mode, modes) = watch::channel(Mode::Forward);
        let shared = Arc::new(Shared {
            target,
            cut: Mutex::new(CancellationToken::new()),
            written: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let task = tokio::spawn(run(listener, address, modes, Arc::clone(&shared)));
        Ok(Self { address, mode, shared, _task: AbortOnDropHandle::new(task) })
    }

    /// Changes what it does. Going down cuts what is connected. Waits until a port that went down refuses connections, and
    /// until one that came back takes them.
    pub(crate) async fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
        if mode == Mode::Down {
            self.cut();
        }
        for _ in 0..2_000 {
            let connected = TcpStream::connect(self.address).await.is_ok();
            if connected == (mode != Mode::Down) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Cuts all connections there are.
    pub(crate) fn cut(&self) {
        let mut cut = self.shared.cut.lock();
        cut.cancel();
        *cut = CancellationToken::new();
    }

    /// How many connections carried bytes from the plugin.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How often the plugin wrote a text; none when what it writes can't be read (TLS, or more than is kept).
    pub(crate) fn times_written(&self, text: &str) -> Option<usize> {
        let written = self.shared.written.lock();
        let places = written.windows(text.len().max(1)).filter(|window| *window == text.as_bytes());
        is_readable(&written).then(|| places.count())
    }

    /// Behind how many bytes the plugin first wrote a text; none when it didn't, or what it writes can't be read.
    pub(crate) fn first_written(&self, text: &str) -> Option<usize> {
        let written = self.shared.written.lock();
        let place = || written.windows(text.len().max(1)).position(|window| window == text.as_bytes());
        is_readable(&written).then(place).flatten()
    }

    /// Forgets what was written.
    pub(crate) fn forget(&self) {
        self.shared.written.lock().clear();
    }
}

/// Not TLS, and all of it is kept.
fn is_readable(written: &[u8]) -> bool {
    !written.starts_with(&[0x16, 0x03]) && written.len() < RECORD_BYTES_MAX
}

async fn run(listener: TcpListener, address: SocketAddr, mut modes: watch::Receiver<Mode>, shared: Arc<Shared>) {
    let mut listener = Some(listener);
    loop {
        let mode = *modes.borrow_and_update();
        if mode == Mode::Down {
            drop(listener.take());
            // Bound and not listening: refused, and ours.
            let held = bound(address);
            if modes.wait_for(|mode| *mode != Mode::Down).await.is_err() {
                return;
            }
            listener = held.and_then(|socket| socket.listen(BACKLOG)).ok();
            continue;
        }
        let Some(open) = &listener else {
            // The port was taken meanwhile: nothing answers here any more, and the checks say so.
            return;
        };
        tokio::select! {
            accepted = open.accept() => if let (Ok((stream, _)), true) = (accepted, mode != Mode::Close) {
                let cut = shared.cut.lock().clone();
                let (shared, modes) = (Arc::clone(&shared), modes.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = cut.cancelled() => {}
                        () = pass(stream, modes, &shared) => {}
                    }
                });
            },
            changed = modes.changed() => if changed.is_err() { return },
        }
    }
}

fn bound(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn pass(stream: TcpStream, modes: watch::Receiver<Mode>, shared: &Shared) {
    let (from_plugin, to_plugin) = stream.into_split();
    let Some(target) = &shared.target else {
        // Nobody is behind it: what the plugin says is kept, and never answered.
        let mut from_plugin = from_plugin;
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Ok(1..) = from_plugin.read(&mut buffer).await {}
        drop(to_plugin);
        return;
    };
    let Ok(peer) = TcpStream::connect(target.as_str()).await else { return };
    let (from_peer, to_peer) = peer.into_split();
    let out = copy(from_plugin, to_peer, modes.clone(), Some(shared));
    let back = copy(from_peer, to_plugin, modes, None);
    tokio::join!(out, back);
}

/// Passes bytes on until one side ends; while the switch is silent they wait.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut modes: watch::Receiver<Mode>,
    record: Option<&Shared>,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut counted = false;
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let bytes = buffer.get(..count).unwrap_or_default();
        if let Some(shared) = record {
            if !counted {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                counted = true;
            }
            let mut written = shared.written.lock();
            let room = RECORD_BYTES_MAX.saturating_sub(written.len());
            written.extend_from_slice(bytes.get(..count.min(room)).unwrap_or_default());
        }
        // A lock stands behind the answer, so it isn't kept over the write.
        let ended = modes.wait_for(|mode| *mode != Mode::Silent).await.is_err();
        if ended || to.write_all(bytes).await.is_err() {
            return;
        }
    }
    // The other side sees the end; an error means that it is gone already.
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    async fn echo() -> (String, AbortOnDropHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.into_split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        (address, AbortOnDropHandle::new(task))
    }

    #[tokio::test]
    async fn it_passes_on_goes_down_and_comes_back() {
        let (target, _echo) = echo().await;
        let switch = Switch::start(Some(target)).await.unwrap();
        let mut buffer = [0; 4];
        for _ in 0..2 {
            let mut stream = TcpStream::connect(switch.address).await.unwrap();
            stream.write_all(b"ping").await.unwrap();
            stream.read_exact(&mut buffer).await.unwrap();
            assert_eq!(&buffer, b"ping");
            switch.set(Mode::Down).await;
            assert!(TcpStream::connect(switch.address).await.is_err());
            // What was connected is cut.
            assert!(stream.read_exact(&mut buffer).await.is_err());
            switch.set(Mode::Forward).await;
        }
        assert_eq!(switch.times_written("ping"), Some(2));
        assert_eq!(switch.connections(), 2);
    }

    #[tokio::test]
    async fn what_is_closed_ends_at_once() {
        let (target, _echo) = echo().await;
        let switch = Switch::start(Some(target)).await.unwrap();
        switch.set(Mode::Close).await;
        let mut stream = TcpStream::connect(switch.address).await.unwrap();
        assert_eq!(stream.read(&mut [0; 4]).await.unwrap_or(0), 0);
    }
}
