//! A sink: answers 204 to every request and counts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

/// Field of a payload that says when it was made: nanoseconds since [`Sink::started`]. Only looked for when a sink times.
pub const LATENCY_FIELD: &str = "\"at_ns\":";

const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
/// Headers of one request; a delivery has about twenty.
const HEADERS_MAX: usize = 64;
/// A request larger than this ends its connection. Bytes.
const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A running sink. Dropping it closes its port and its connections.
pub struct Sink {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

struct Shared {
    started: Instant,
    times: bool,
    arrived: AtomicU64,
    changed: Notify,
    latencies: Mutex<Vec<Duration>>,
    paths: Mutex<BTreeMap<String, PathTimes>>,
}

/// Arrivals on one path.
#[derive(Clone, Copy, Debug)]
pub struct PathTimes {
    pub count: u64,
    pub first: Instant,
    pub last: Instant,
}

impl Sink {
    /// Listens on a free port of the loopback interface. One that `times` also keeps the age of every payload and the times
    /// of every path, which costs some.
    pub async fn start(times: bool) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            started: Instant::now(),
            times,
            arrived: AtomicU64::new(0),
            changed: Notify::new(),
            latencies: Mutex::default(),
            paths: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { shared, address, accepting })
    }

    /// URL of a path on it; also a topic.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{}", self.address, path.trim_start_matches('/'))
    }

    /// The instant that [`LATENCY_FIELD`] counts from.
    pub fn started(&self) -> Instant {
        self.shared.started
    }

    /// Requests answered so far.
    pub fn arrived(&self) -> u64 {
        self.shared.arrived.load(Ordering::Acquire)
    }

    /// Ages of the payloads that arrived since the last call, in no order.
    pub fn take_latencies(&self) -> Vec<Duration> {
        std::mem::take(&mut self.shared.latencies.lock())
    }

    pub fn paths(&self) -> BTreeMap<String, PathTimes> {
        self.shared.paths.lock().clone()
    }

    /// Waits until so many have arrived; false when nothing arrives for `patience`.
    pub async fn wait_for(&self, count: u64, patience: Duration) -> bool {
        let (mut seen, mut moved) = (self.arrived(), Instant::now());
        while self.arrived() < count {
            let _woken = tokio::time::timeout(Duration::from_millis(20), self.shared.changed.notified()).await;
            let now = self.arrived();
            if now != seen {
                (seen, moved) = (now, Instant::now());
            } else if moved.elapsed() > patience {
                return false;
            }
        }
        true
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(serve(stream, Arc::clone(&shared)));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Ends when the peer goes away or speaks no HTTP; the host sees a broken connection then, and the measurement its retry.
async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut buffer = bytes::BytesMut::with_capacity(16 * 1024);
    loop {
        let mut answers = 0_usize;
        while let Some((path, body, length)) = request(&buffer) {
            if shared.times {
                shared.note(path, body);
            }
            answers += 1;
            let _taken = buffer.split_to(length);
        }
        if answers > 0 {
            if stream.write_all(&ANSWER.repeat(answers)).await.is_err() {
                return;
            }
            shared.arrived.fetch_add(answers as u64, Ordering::AcqRel);
            shared.changed.notify_one();
        }
        if buffer.len() > REQUEST_BYTES_MAX || !matches!(stream.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
    }
}

/// The first whole request: its path, its body, its length in all.
fn request(bytes: &[u8]) -> Option<(&str, &[u8], usize)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        _ => return None,
    };
    let length = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length: usize =
        length.and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse().ok()).unwrap_or(0);
    let body = bytes.get(head..head.checked_add(length)?)?;
    Some((request.path.unwrap_or("/"), body, head + length))
}

impl Shared {
    fn note(&self, path: &str, body: &[u8]) {
        let now = Instant::now();
        if let Some(made) = made_at(body) {
            let age = now.duration_since(self.started).saturating_sub(Duration::from_nanos(made));
            self.latencies.lock().push(age);
        }
        let mut paths = self.paths.lock();
        match paths.get_mut(path) {
            Some(times) => (times.count, times.last) = (times.count + 1, now),
            None => drop(paths.insert(path.to_owned(), PathTimes { count: 1, first: now, last: now })),
        }
    }
}

fn made_at(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once(LATENCY_FIELD)?;
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_when_it_is_whole() {
        let whole = b"POST /a HTTP/1.1\r\nContent-Length: 14\r\n\r\n{\"at_ns\":1234}POST";
        assert_eq!(request(&whole[..whole.len() - 5]), None);
        let (path, body, length) = request(whole).expect("is whole");
        assert_eq!((path, made_at(body), length), ("/a", Some(1234), whole.len() - 4));
        assert_eq!(made_at(b"{}"), None);
    }
}
