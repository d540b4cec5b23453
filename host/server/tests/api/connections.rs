//! Connections end, and nobody has them all: idle ones, unread answers, one peer's many, half a body.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_server::tls::Encryption;

use crate::live::{Live, PATIENCE, rest, until};
use crate::support::token;

const SHORT: Duration = Duration::from_secs(1);
const NEVER: Duration = Duration::from_secs(3600);
const ASK: &[u8] = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

type Http2 = (SendRequest<Empty<Bytes>>, JoinHandle<hyper::Result<()>>);

/// An HTTP/2 connection, whose streams take so many bytes before they are read.
async fn http2(stream: TcpStream, window: u32) -> Http2 {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window).initial_connection_window_size(1 << 20);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

async fn asked(
    sender: &mut SendRequest<Empty<Bytes>>,
    live: &Live,
    path: &str,
) -> http::Response<hyper::body::Incoming> {
    sender.send_request(http::Request::get(live.url(path)).body(Empty::new()).unwrap()).await.unwrap()
}

/// Whether it ended by itself.
async fn ends(connection: JoinHandle<hyper::Result<()>>) -> bool {
    tokio::time::timeout(PATIENCE, connection).await.is_ok()
}

/// Its client answers pings, so nothing but idleness ends it.
#[tokio::test]
async fn an_idle_http2_connection_is_asked_to_go() {
    let live = Live::start(Limits { idle_timeout: SHORT, ..Limits::default() }, PATIENCE).await;
    let (mut sender, connection) = http2(live.connect().await, 1 << 16).await;
    assert_eq!(
        asked(&mut sender, &live, "/livez").await.into_body().collect().await.unwrap().to_bytes(),
        "{\"status\":\"ok\"}"
    );
    assert!(ends(connection).await);
    assert!(sender.ready().await.is_err());
}

#[tokio::test]
async fn an_http2_connection_with_work_is_not_idle() {
    let limits = Limits { idle_timeout: SHORT, ..Limits::default() };
    let live = Live::start(limits, PATIENCE).await;
    let gate = live.hindrance.shut();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(live.connect().await)).await.unwrap();
    let connection = tokio::spawn(connection);
    let body = http_body_util::Full::new(Bytes::from_static(br#"{"topic":"bus:a","payload":1}"#));
    let request = http::Request::post(live.url("/v1/messages")).header("content-type", "application/json");
    let answer = tokio::spawn(sender.send_request(request.body(body).unwrap()));
    until(|| live.hindrance.count() > 0).await;
    // Much longer than an idle connection lives.
    tokio::time::sleep(SHORT * 5).await;
    gate.notify_one();
    assert_eq!(answer.await.unwrap().unwrap().status(), 201);
    assert!(ends(connection).await);
}

/// A client that takes no bytes at all: the answer is larger than what the system keeps for it.
#[tokio::test]
async fn an_answer_that_nobody_reads_ends_its_http1_connection() {
    let limits = Limits { write_timeout: SHORT, idle_timeout: NEVER, connections_max: 1, ..Limits::default() };
    let live = Live::start(limits, PATIENCE).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut deaf = socket.connect(live.address).await.unwrap();
    let ask = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200);
    deaf.write_all(ask.as_bytes()).await.unwrap();
    // It has been served, so it doesn't give way to who comes.
    deaf.read_exact(&mut [0; 1]).await.unwrap();
    served_again(&live).await;
}

/// Flow control keeps all but one byte of the answer back, so the socket itself never stands still.
#[tokio::test]
async fn an_answer_keeps_its_place_until_it_is_taken() {
    let limits = Limits { write_timeout: NEVER, idle_timeout: NEVER, requests_max: 1, ..Limits::default() };
    let live = Live::start(limits, PATIENCE).await;
    let (mut sender, connection) = http2(live.connect().await, 1).await;
    let unread = asked(&mut sender, &live, "/v1/whoami").await;
    assert_eq!(unread.status(), 200);
    let status = || async { reqwest::get(live.url("/v1/whoami")).await.unwrap().status() };
    assert_eq!(status().await, 503);
    assert!(unread.into_body().collect().await.unwrap().to_bytes().starts_with(b"{"));
    let freed = async {
        while status().await != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("the place wasn't given back");
    drop((sender, connection));
}

/// As behind a proxy that speaks for many: one of them takes nothing, and the others go on.
#[tokio::test]
async fn an_answer_that_nobody_takes_ends_its_http2_stream_and_no_other() {
    let limits = Limits { write_timeout: SHORT, idle_timeout: NEVER, requests_max: 1, ..Limits::default() };
    let live = Live::start(limits, PATIENCE).await;
    let (mut sender, connection) = http2(live.connect().await, 1).await;
    let unread = asked(&mut sender, &live, "/v1/whoami").await;
    assert_eq!(unread.status(), 200);
    let freed = async {
        while asked(&mut sender, &live, "/v1/whoami").await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("the answer kept its place");
    assert!(!connection.is_finished());
    // Some clients take a reset for an end.
    let taken = unread.into_body().collect().await.map_or(0, |body| body.to_bytes().len());
    assert!(taken <= 1, "its stream was reset");
}

/// A client that was served and says nothing more, not even to what a goodbye asks it.
#[tokio::test]
async fn an_http2_connection_that_was_asked_to_go_and_stays_is_cut() {
    let limits = Limits { idle_timeout: SHORT, write_timeout: NEVER, connections_max: 1, ..Limits::default() };
    let live = Live::start(limits, PATIENCE).await;
    let mut mute = live.connect().await;
    let settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    // A whole request without a body on stream 1: GET http /livez, of localhost.
    let request = b"\x00\x00\x15\x01\x05\x00\x00\x00\x01\x82\x86\x04\x06/livez\x01\x09localhost";
    mute.write_all(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], settings, request].concat()).await.unwrap();
    assert!(rest(mute).await.contains("{\"status\":\"o"));
    served_again(&live).await;
}

/// The only place is free again.
async fn served_again(live: &Live) {
    let served = async {
        loop {
            let mut probe = live.connect().await;
            let _ = probe.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
            if rest(probe).await.starts_with("HTTP/1.1 200") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, served).await.expect("the connection stayed and kept everybody out");
}

/// A connection that has been served once and stays open.
async fn held(live: &Live) -> TcpStream {
    let mut stream = live.connect().await;
    stream.write_all(ASK).await.unwrap();
    let mut byte = [0; 1];
    stream.read_exact(&mut byte).await.unwrap();
    stream
}

#[tokio::test]
async fn connections_past_the_bounds_are_told_so_and_others_are_served() {
    for (limits, start, code) in [
        (Limits { connections_max: 2, ..Limits::default() }, "HTTP/1.1 503", "HTTP.OVERLOADED"),
        (Limits { connections_per_peer: 2, ..Limits::default() }, "HTTP/1.1 429", "HTTP.SHARE"),
    ] {
        let live = Live::start(limits, PATIENCE).await;
        let (first, second) = (held(&live).await, held(&live).await);
        let mut third = live.connect().await;
        third.write_all(ASK).await.unwrap();
        let told = rest(third).await;
        assert!(told.starts_with(start) && told.contains(code) && told.contains("connection: close"), "{told}");
        let (mut fourth, connection) = http2(live.connect().await, 1 << 16).await;
        let told = asked(&mut fourth, &live, "/livez").await;
        let body = told.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(code), "HTTP/2 is told as well");
        assert!(ends(connection).await);
        drop(first);
        served_again(&live).await;
        drop(second);
    }
}

/// Asks on a connection that stays open, and reads the whole answer.
async fn asks(stream: &mut TcpStream, path: &str, bearer: Option<&str>) -> String {
    let credential = bearer.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{credential}\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = async {
        // Each answer is one JSON object.
        while !answer.ends_with('}') {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).await.unwrap();
            assert!(count > 0, "it was closed after {answer:?}");
            answer.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("no answer");
    answer
}

/// However often it asks: who has no valid token can't keep out who has one.
#[tokio::test]
async fn a_connection_without_a_credential_gives_way_to_another() {
    let tokens = Some(vec![token("view", &["*"], &[Role::Viewer])]);
    let limits = Limits { connections_max: 2, idle_timeout: NEVER, ..Limits::default() };
    let live = Live::of(Encryption::None, tokens, limits, PATIENCE).await;
    let (mut known, mut stranger) = (live.connect().await, live.connect().await);
    assert!(asks(&mut known, "/v1/whoami", Some("view")).await.starts_with("HTTP/1.1 200"));
    assert!(asks(&mut stranger, "/livez", None).await.starts_with("HTTP/1.1 200"));
    assert!(asks(&mut stranger, "/v1/whoami", Some("wrong")).await.starts_with("HTTP/1.1 401"));
    // One that hasn't said anything takes the stranger's place, and gives it to the next.
    let silent = live.connect().await;
    assert_eq!(rest(stranger).await, "");
    let mut next = live.connect().await;
    assert!(asks(&mut next, "/v1/whoami", Some("view")).await.starts_with("HTTP/1.1 200"));
    assert_eq!(rest(silent).await, "");
    // Now nobody has to go.
    let mut late = live.connect().await;
    late.write_all(ASK).await.unwrap();
    assert!(rest(late).await.starts_with("HTTP/1.1 503"));
    for mut stream in [known, next] {
        assert!(asks(&mut stream, "/v1/whoami", None).await.starts_with("HTTP/1.1 401"), "it was cut");
    }
}

#[tokio::test]
async fn of_two_without_a_credential_the_longer_idle_one_gives_way() {
    let tokens = Some(vec![token("view", &["*"], &[Role::Viewer])]);
    let limits = Limits { connections_max: 2, idle_timeout: NEVER, first_request_timeout: NEVER, ..Limits::default() };
    let live = Live::of(Encryption::None, tokens, limits, PATIENCE).await;
    let (mut busy, mut idle) = (live.connect().await, live.connect().await);
    asks(&mut busy, "/livez", None).await;
    asks(&mut idle, "/livez", None).await;
    asks(&mut busy, "/livez", None).await;
    let mut next = live.connect().await;
    assert!(asks(&mut next, "/v1/whoami", Some("view")).await.starts_with("HTTP/1.1 200"));
    assert_eq!(rest(idle).await, "");
    assert!(asks(&mut busy, "/livez", None).await.starts_with("HTTP/1.1 200"));
    // HTTP/2 that doesn't heed the goodbye is cut.
    drop(busy);
    let mut mute = live.connect().await;
    mute.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").await.unwrap();
    let mut byte = [0; 1];
    mute.read_exact(&mut byte).await.unwrap();
    served_again(&live).await;
    drop((next, mute));
}

/// Another peer than the one that has all it may have.
#[tokio::test]
async fn one_peer_does_not_keep_out_another() {
    let live = Live::start(Limits { connections_per_peer: 1, ..Limits::default() }, PATIENCE).await;
    let _first = held(&live).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(live.address).await.unwrap();
    other.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(rest(other).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_peer_that_is_told_and_never_asks_is_closed() {
    let live = Live::start(Limits { connections_max: 1, ..Limits::default() }, PATIENCE).await;
    let _first = held(&live).await;
    assert_eq!(rest(live.connect().await).await, "");
}
