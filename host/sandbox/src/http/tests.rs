//! The client against servers that misbehave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use waybill_bindings::api::http_types::{Request, Response};
use waybill_bindings::api::net_types::NetError;
use waybill_core::endpoint::{Grants, PluginLimits};

use super::HttpClient;
use super::failure::Failure;
use crate::grants::{EgressPolicy, Pattern, SystemResolver};
use crate::meters::Meters;
use crate::tls::TlsRoots;

impl HttpClient {
    async fn whole(&self, request: Request) -> Result<Response, Failure> {
        self.exchange(request).await.map(|(response, _held)| response)
    }
}

/// A server that runs `serve` for each connection, with its number.
fn server(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connects = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connects);
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let serve = Arc::clone(&serve);
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream, number));
        }
    });
    (address, connects)
}

/// Reads one request's head; none at the end of the connection.
fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0_u8];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    Some(String::from_utf8(bytes).unwrap())
}

fn answering(answer: &'static [u8]) -> (SocketAddr, Arc<AtomicUsize>) {
    server(move |mut stream, _| {
        while head(&mut stream).is_some() {
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    })
}

fn client_with(limits: PluginLimits, grants: &[String]) -> HttpClient {
    let pattern = |text: &str| Pattern::parse(text).unwrap();
    let ask = vec![pattern("http://*:*"), pattern("https://*:*")];
    let grants = Grants::none().allow(grants.iter().map(String::as_str));
    let policy = EgressPolicy::new("t", ask, &grants, Arc::new(SystemResolver::default())).unwrap();
    HttpClient::new(Arc::new(policy), &TlsRoots::default(), &limits, Arc::new(Meters::new("test", "test", 1)))
}

fn client(address: SocketAddr) -> HttpClient {
    client_with(PluginLimits::default(), &[format!("http://{address}"), format!("https://{address}")])
}

fn get(url: String, timeout: u32) -> Request {
    Request {
        method: "GET".to_owned(),
        url,
        headers: vec![("x-a".to_owned(), "1".to_owned())],
        body: Vec::new(),
        timeout,
        tls: None,
        attributes: Vec::new(),
    }
}

async fn fetch(address: SocketAddr) -> Result<Response, Failure> {
    client(address).whole(get(format!("http://{address}/"), 10_000)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (inside, reached) = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let (address, _) = server(move |mut stream, _| {
        head(&mut stream);
        let answer =
            format!("HTTP/1.1 302 Found\r\nlocation: http://{inside}/latest/meta-data\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let response = fetch(address).await.expect("an answer");
    assert_eq!(response.status, 302);
    assert!(response.headers.iter().any(|(name, _)| name == "location"));
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_kept() {
    let (address, connects) = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let client = client(address);
    let (mut requests, mut before, mut kept) = (0, 0, 0);
    // A connection comes back to the pool a moment after its answer, so the next request may be faster than that, and on a busy
    // machine often is.
    while kept < 40 {
        let response = client.whole(get(format!("http://{address}/"), 10_000)).await.expect("an answer");
        assert_eq!((response.status, response.body.as_slice(), response.truncated), (200, &b"ok"[..], false));
        let now = connects.load(Ordering::SeqCst);
        kept += usize::from(now == before);
        (requests, before) = (requests + 1, now);
        assert!(requests < 1_000, "{now} connections for {requests} requests");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// One endpoint's kept connection is nothing to another that wasn't granted its peer.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_serves_only_its_own_endpoint() {
    let (address, connects) = answering(b"HTTP/1.1 204 No Content\r\n\r\n");
    assert!(fetch(address).await.is_ok());
    let stranger = client_with(PluginLimits::default(), &["http://*:*".to_owned()]);
    let refused = stranger.whole(get(format!("http://{address}/"), 10_000)).await.expect_err("denied");
    assert!(matches!(refused.error, NetError::Denied(_)), "{refused:?}");
    assert!(!refused.maybe_delivered);
    assert_eq!(connects.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_is_cut_at_the_granted_size() {
    let (address, _) = server(|mut stream, _| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        while stream
            .write_all(b"1000\r\n")
            .and_then(|()| stream.write_all(&[b'x'; 4096]))
            .and_then(|()| stream.write_all(b"\r\n"))
            .is_ok()
        {}
    });
    let limits = PluginLimits { http_response_bytes: 10_000, ..PluginLimits::default() };
    let response = client_with(limits, &[format!("http://{address}")])
        .whole(get(format!("http://{address}/"), 10_000))
        .await
        .expect("an answer");
    assert_eq!((response.body.len(), response.truncated), (10_000, true));
}

/// Held until their guest has them: what comes meanwhile is cut, and nothing more is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_takes_are_bounded_together() {
    const SIZE: usize = 8 * 1024 * 1024;
    let (address, _) = server(|mut stream, _| {
        while head(&mut stream).is_some() {
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n").as_bytes());
            let _ = stream.write_all(&vec![b'x'; SIZE]);
        }
    });
    let limits = PluginLimits { http_response_bytes: SIZE, ..PluginLimits::default() };
    let client = client_with(limits, &[format!("http://{address}")]);
    let request = || get(format!("http://{address}/"), 60_000);
    let (mut held, mut cut) = (Vec::new(), 0);
    let unsent = loop {
        match client.exchange(request()).await {
            Ok((answer, one)) => {
                assert_eq!(answer.status, 200);
                cut += usize::from(answer.truncated);
                held.push((answer, one));
            }
            Err(failure) => break failure,
        }
        assert!(held.len() < 1_000, "no end");
        if cut > 0 {
            // What is left is less than the smallest piece that was refused: taken, so that nothing is.
            let rest = client.answers().bytes_left();
            assert!(rest < SIZE);
            let mut one = client.answers().begin();
            assert!(one.take(rest));
            held.push((held.last().unwrap().0.clone(), one));
        }
    };
    assert!(matches!(unsent.error, NetError::Limit(_)) && !unsent.maybe_delivered, "{unsent:?}");
    let bytes: usize = held.iter().map(|(answer, _)| answer.body.capacity()).sum();
    assert!(cut == 1 && bytes <= limits.http_answers_bytes + SIZE, "{cut} cut, {bytes} bytes");
    drop(held);
    assert!(!client.whole(request()).await.expect("there is room again").truncated);
}

/// A guest begins as many sends as it likes to a peer that reads nothing: most are refused before the host holds them.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_nobody_reads_are_bounded_together() {
    const SIZE: usize = 1024 * 1024;
    const ROOM: usize = 10 * SIZE;
    let (address, connects) = server(|stream, _| std::mem::forget(stream));
    let limits = PluginLimits { http_bodies_bytes: ROOM, http_per_peer: 2, ..PluginLimits::default() };
    let client = client_with(limits, &[format!("http://{address}")]);
    let post =
        || Request { method: "POST".to_owned(), body: vec![b'x'; SIZE], ..get(format!("http://{address}/"), 60_000) };
    let (mut begun, mut refused) = (Vec::new(), 0);
    for _ in 0..100 {
        let mut one = Box::pin(client.exchange(post()));
        match futures::poll!(one.as_mut()) {
            Poll::Pending => begun.push(one),
            Poll::Ready(answer) => {
                let failure = answer.expect_err("nobody answers");
                assert!(matches!(failure.error, NetError::Limit(_)) && !failure.maybe_delivered, "{failure:?}");
                refused += 1;
            }
        }
    }
    // Each takes its headers as well.
    assert_eq!((begun.len(), refused), (9, 91));
    assert!(client.bodies().bytes_left() < SIZE);
    // Two of them get a connection, and the rest waits for its turn; then the guest gives all of them up.
    let mut all = futures::future::select_all(begun);
    while connects.load(Ordering::SeqCst) < 2 {
        assert!(futures::poll!(&mut all).is_pending());
        tokio::task::yield_now().await;
    }
    drop(all);
    let freed = async {
        while client.bodies().bytes_left() < ROOM {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), freed).await.expect("all of it is given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_headers_are_refused() {
    let (address, _) = server(|mut stream, _| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        for number in 0..100_000 {
            if stream.write_all(format!("x-{number}: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n").as_bytes()).is_err() {
                return;
            }
        }
    });
    assert!(fetch(address).await.is_err());
}

/// Refused before it was sent: not delivered. Everything after the connection: maybe.
#[tokio::test(flavor = "multi_thread")]
async fn failures_say_whether_the_peer_may_have_it() {
    // Bound and not listening: it refuses, and nobody else gets the port meanwhile.
    let unused = tokio::net::TcpSocket::new_v4().unwrap();
    unused.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = unused.local_addr().unwrap();
    let failure = fetch(nobody).await.expect_err("nobody listens");
    assert!(matches!(failure.error, NetError::Refused) && !failure.maybe_delivered, "{failure:?}");

    let (hangs_up, _) = server(|mut stream, _| {
        head(&mut stream);
    });
    let failure = fetch(hangs_up).await.expect_err("hangs up");
    assert!(matches!(failure.error, NetError::Reset(_)) && failure.maybe_delivered, "{failure:?}");

    let (half, _) = server(|mut stream, _| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").unwrap();
    });
    let failure = fetch(half).await.expect_err("half an answer");
    assert!(matches!(failure.error, NetError::Reset(_)) && failure.maybe_delivered, "{failure:?}");

    let (silent, _) = server(|mut stream, _| {
        head(&mut stream);
        let _ = stream.read(&mut [0]);
    });
    let failure = client(silent).whole(get(format!("http://{silent}/"), 3_000)).await.expect_err("silent");
    assert!(matches!(failure.error, NetError::Timeout) && failure.maybe_delivered, "{failure:?}");

    let failure = client(silent).whole(get(format!("http://{silent}/"), 0)).await.expect_err("no time at all");
    assert!(matches!(failure.error, NetError::Timeout) && !failure.maybe_delivered, "{failure:?}");

    let (plain, _) = server(|mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let failure = client(plain).whole(get(format!("https://{plain}/"), 10_000)).await.expect_err("not TLS");
    assert!(matches!(failure.error, NetError::Tls(_)) && !failure.maybe_delivered, "{failure:?}");
}

/// No more at once to one peer than granted; the others wait their turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_gets_no_more_at_once_than_granted() {
    let now = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (address, _) = {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        server(move |mut stream, _| {
            while head(&mut stream).is_some() {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            }
        })
    };
    let limits = PluginLimits { http_per_peer: 3, ..PluginLimits::default() };
    let client = client_with(limits, &[format!("http://{address}")]);
    let all = (0..60).map(|_| client.whole(get(format!("http://{address}/"), 20_000)));
    for answer in futures::future::join_all(all).await {
        assert_eq!(answer.expect("an answer").status, 200);
    }
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

/// Names in use by the host are left out; what the guest sends otherwise arrives.
#[tokio::test(flavor = "multi_thread")]
async fn the_request_arrives_as_sent() {
    let (address, _) = server(|mut stream, _| {
        let head = head(&mut stream).unwrap();
        let mut body = vec![0; 5];
        stream.read_exact(&mut body).unwrap();
        let echo = format!("{}|{}", head.replace("\r\n", "|"), String::from_utf8(body).unwrap());
        stream
            .write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{echo}", echo.len()).as_bytes())
            .unwrap();
    });
    let request = Request {
        method: "POST".to_owned(),
        headers: vec![
            ("X-A".to_owned(), "1".to_owned()),
            ("host".to_owned(), "evil".to_owned()),
            ("x-a".to_owned(), "2".to_owned()),
        ],
        body: b"hello".to_vec(),
        ..get(format!("http://{address}/hook?a=b"), 10_000)
    };
    let response = client(address).whole(request).await.expect("an answer");
    let echo = String::from_utf8(response.body).unwrap();
    assert!(echo.starts_with("POST /hook?a=b HTTP/1.1|"), "{echo}");
    assert!(echo.contains(&format!("|host: {address}|")) && !echo.contains("evil"), "{echo}");
    assert!(
        echo.contains("|x-a: 1|x-a: 2|") && echo.contains("|content-length: 5|") && echo.ends_with("|hello"),
        "{echo}"
    );
    assert!(echo.contains("|user-agent: waybill/"), "{echo}");
}
