//! Real connections: protocols, limits of heads and time, draining.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use waybill_server::auth::{Role, TokenRecord};
use waybill_server::error::ServerError;
use waybill_server::limits::Limits;
use waybill_server::server::{Drained, Parts, Server, bind};
use waybill_server::tls::Encryption;
use waybill_testkit::memory_host::InMemoryHost;

use crate::hindrance::Hindrance;
use crate::support::{get, host, parts, send, token};

pub struct Live {
    pub hindrance: Arc<Hindrance>,
    pub address: SocketAddr,
    pub router: axum::Router,
    _host: InMemoryHost,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<Drained, ServerError>>,
}

impl Live {
    pub async fn start(limits: Limits, drain: Duration) -> Self {
        Self::with(Encryption::None, limits, drain).await
    }
    pub async fn with(encryption: Encryption, limits: Limits, drain: Duration) -> Self {
        Self::of(encryption, None, limits, drain).await
    }
    pub async fn of(encryption: Encryption, tokens: Option<Vec<TokenRecord>>, limits: Limits, drain: Duration) -> Self {
        let (host, hindrance) = (host().await, Arc::default());
        let listener = bind("127.0.0.1:0".parse().unwrap(), tokens.is_some(), &encryption).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = Server::new(Parts { encryption, ..parts(&host, &hindrance, tokens, limits) });
        let router = server.router();
        let ended = tokio::spawn(server.run(vec![listener], async { drop(stopped.await) }, drain));
        Self { hindrance, address, router, _host: host, stop: Some(stop), ended }
    }
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
    pub fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }
    /// How it ended, once it has.
    pub async fn ended(self) -> Drained {
        self.ended.await.unwrap().unwrap()
    }
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

const MESSAGE: &str = r#"{"topic":"bus:a","payload":1}"#;
pub const PATIENCE: Duration = Duration::from_secs(180);

async fn enqueue(url: String) -> reqwest::Result<reqwest::Response> {
    reqwest::Client::new().post(url).header("content-type", "application/json").body(MESSAGE).send().await
}

pub async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn http1_and_http2_in_clear_text_are_served() {
    let mut live = Live::start(Limits::default(), PATIENCE).await;
    let answer = enqueue(live.url("/v1/messages")).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (201, http::Version::HTTP_11));
    let io = hyper_util::rt::TokioIo::new(live.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), io).await.unwrap();
    let driver = tokio::spawn(connection);
    let request =
        http::Request::get(live.url("/v1/whoami")).body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    drop((answer, sender));
    live.stop();
    assert_eq!(live.ended.await.unwrap().unwrap(), Drained { cut: 0 });
    let _ = driver.await;
}

#[tokio::test]
async fn draining_finishes_what_is_under_way_and_takes_no_more() {
    let mut live = Live::start(Limits::default(), PATIENCE).await;
    let gate = live.hindrance.shut();
    let idle = live.connect().await;
    let held = tokio::spawn(enqueue(live.url("/v1/messages")));
    until(|| live.hindrance.count() > 0).await;
    live.stop();
    while TcpStream::connect(live.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!live.ended.is_finished());
    gate.notify_one();
    assert_eq!(held.await.unwrap().unwrap().status(), 201);
    assert_eq!(live.ended.await.unwrap().unwrap(), Drained { cut: 0 });
    drop(idle);
}

#[tokio::test]
async fn what_does_not_end_by_the_deadline_is_cut() {
    let mut live = Live::start(Limits::default(), Duration::from_millis(50)).await;
    let _shut = live.hindrance.shut();
    let held = tokio::spawn(enqueue(live.url("/v1/messages")));
    until(|| live.hindrance.count() > 0).await;
    live.stop();
    assert_eq!(live.ended.await.unwrap().unwrap(), Drained { cut: 1 });
    assert!(held.await.unwrap().is_err());
}

#[tokio::test]
async fn readyz_fails_while_draining() {
    let mut live = Live::start(Limits::default(), PATIENCE).await;
    let gate = live.hindrance.shut();
    assert_eq!(send(&live.router, get("/readyz")).await.status, 200);
    let held = tokio::spawn(enqueue(live.url("/v1/messages")));
    until(|| live.hindrance.count() > 0).await;
    live.stop();
    while send(&live.router, get("/readyz")).await.status != 503 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(send(&live.router, get("/livez")).await.status, 200);
    gate.notify_one();
    assert_eq!(held.await.unwrap().unwrap().status(), 201);
    live.ended.await.unwrap().unwrap();
}

/// Everything the server sends before it closes.
pub async fn rest(mut stream: impl AsyncRead + Unpin) -> String {
    let mut text = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut text)).await.expect("the connection stayed open");
    drop(read);
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn slow_senders_of_heads_are_cut() {
    let limits = Limits {
        first_request_timeout: Duration::from_millis(50),
        idle_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let live = Live::start(limits, PATIENCE).await;
    // Nothing at all, the beginning of an HTTP/2 preface, half a head.
    for start in ["", "PRI * HT", "GET /livez HTTP/1.1\r\nhost: loc"] {
        let mut stream = live.connect().await;
        stream.write_all(start.as_bytes()).await.unwrap();
        assert_eq!(rest(stream).await, "", "{start}");
    }
    // One request, then silence.
    let limits = Limits { idle_timeout: Duration::from_secs(1), ..Limits::default() };
    let live = Live::start(limits, PATIENCE).await;
    let mut stream = live.connect().await;
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(rest(stream).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn large_heads_are_refused() {
    let live = Live::start(Limits::default(), PATIENCE).await;
    let headers = |count: usize| (0..count).map(|n| format!("x-{n}: 1\r\n")).collect::<String>();
    let long = |bytes: usize| format!("x-long: {}\r\n", "x".repeat(bytes));
    let address = format!("/livez?{}", "x".repeat(40 * 1024));
    for (path, headers, status, code) in [
        ("/livez", headers(150), 431, "HTTP.HEAD_TOO_LARGE"),
        ("/livez", long(40 * 1024), 431, "HTTP.HEAD_TOO_LARGE"),
        ("/nowhere", long(40 * 1024), 431, "HTTP.HEAD_TOO_LARGE"),
        (address.as_str(), String::new(), 414, "HTTP.URI_TOO_LONG"),
    ] {
        let mut stream = live.connect().await;
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = rest(stream).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        assert!(answer.contains("application/problem+json") && answer.contains(code), "{answer}");
    }
    // What is larger still isn't read to its end, and is told a status at most.
    for headers in [headers(300), long(128 * 1024)] {
        let mut stream = live.connect().await;
        let _ = stream.write_all(format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n").as_bytes()).await;
        let answer = rest(stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431") && answer.ends_with("\r\n\r\n"), "{answer}");
    }
    assert_eq!(reqwest::get(live.url("/livez")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn listening_beyond_loopback_needs_tokens_and_encryption() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    for (auth, encryption, code) in [
        (false, Encryption::None, "CONFIG.LISTEN"),
        (false, Encryption::Proxy, "CONFIG.LISTEN"),
        (true, Encryption::None, "CONFIG.CLEAR_TEXT"),
    ] {
        assert_eq!(bind(everywhere, auth, &encryption).await.unwrap_err().code().as_str(), code);
        let open = TcpListener::bind(everywhere).await.unwrap();
        let tokens = auth.then(|| vec![token("ci", &["*"], &[Role::Viewer])]);
        let parts = parts(&host().await, &Arc::default(), tokens, Limits::default());
        let server = Server::new(Parts { encryption, ..parts });
        let refused = server.run(vec![open], async {}, PATIENCE).await.unwrap_err();
        assert_eq!(refused.code().as_str(), code);
    }
    assert!(bind(everywhere, true, &Encryption::Proxy).await.is_ok());
    let here: SocketAddr = "127.0.0.1:0".parse().unwrap();
    assert!(bind(here, true, &Encryption::Proxy).await.is_ok());
    assert_eq!(bind(here, false, &Encryption::Proxy).await.unwrap_err().code().as_str(), "CONFIG.LISTEN");
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = bind(taken.local_addr().unwrap(), false, &Encryption::None).await.unwrap_err();
    assert_eq!(error.code().as_str(), "CONFIG.BIND");
}
