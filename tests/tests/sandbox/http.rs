//! The bundled `http` transport in the real sandbox against a real server: what is sent, what each answer means, and what
//! it isn't let to reach.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;
use waybill_core::annotation::Annotation;
use waybill_core::annotations::Annotations;
use waybill_core::endpoint::{EndpointSettings, Grants, MessageIds};
use waybill_core::ids::{MessageId, Seq, Tenant};
use waybill_core::message::{Delivery, Message, Payload};
use waybill_core::port::transport::{Outcome, OutcomeSink, SendCall, Transport};
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;
use waybill_sandbox::{EndpointSpec, PluginSource, Sandbox, SandboxOptions, WasmTransport, World};

const AMPLE: Duration = Duration::from_secs(60);

struct Request {
    line: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// Answers `/status/<code>` with that code, `/slow` never, `/redirect` with a way inside, and keeps what it got.
struct Server {
    address: SocketAddr,
    got: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let got: Arc<Mutex<Vec<Request>>> = Arc::default();
        let all = Arc::clone(&got);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let all = Arc::clone(&all);
                thread::spawn(move || serve(stream, address, &all));
            }
        });
        Self { address, got }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut headers = HashMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line: line.trim_end().to_owned(), headers, body })
}

fn serve(mut stream: TcpStream, own: SocketAddr, all: &Mutex<Vec<Request>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read(&mut reader) {
        let path = request.line.split(' ').nth(1).unwrap().to_owned();
        all.lock().unwrap().push(request);
        let answer = match path.as_str() {
            "/slow" => {
                thread::sleep(Duration::from_secs(3600));
                return;
            }
            "/redirect" => format!("302 Found\r\nlocation: http://{own}/status/200"),
            "/busy" => "503 Busy\r\nretry-after: 7".to_owned(),
            path => format!("{} X", path.rsplit('/').next().unwrap()),
        };
        if stream.write_all(format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n").as_bytes()).is_err() {
            return;
        }
    }
}

struct Ignore;

impl OutcomeSink for Ignore {
    fn settled(&self, _: usize, _: Outcome) {}
}

fn delivery(number: u64, url: &str) -> Delivery {
    let payload = format!("{{\"order\":{number}}}");
    let message = Message {
        id: MessageId::new(format!("m{number}")).unwrap(),
        caller_id: true,
        tenant: Tenant::new("acme").unwrap(),
        topic: Topic::parse(url).unwrap(),
        key: None,
        headers: vec![("x-shop".to_owned(), "berlin".to_owned()), ("host".to_owned(), "evil".to_owned())],
        payload: Payload::Inline(payload.clone().into()),
        event_type: "order.created".to_owned(),
        event_version: 1,
        annotations: Annotations::from([
            (Annotation::Traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            (Annotation::ContentType, "application/json"),
        ]),
        occurred_at: UnixMillis(1_700_000_000_000),
        created_at: UnixMillis(1_700_000_000_000),
        not_before: None,
        expires_at: None,
        statements: None,
        replays: 0,
        replayed_by: None,
    };
    Delivery {
        message: Arc::new(message),
        payload: payload.into(),
        destination: url.to_owned(),
        attempt: 1,
        lease_epoch: 3,
        seq: Seq(42),
        attributes: Vec::new(),
    }
}

async fn start(settings: EndpointSettings) -> Arc<WasmTransport> {
    static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| Sandbox::new(SandboxOptions::default()).expect("engine"));
    let http = waybill_bundled::find("http").expect("bundled").component;
    let plugin = SANDBOX.load(PluginSource::Embedded(http), World::Transport).await.expect("loads");
    WasmTransport::start(plugin, EndpointSpec::new(settings)).await.expect("opens")
}

fn loopback() -> EndpointSettings {
    EndpointSettings { grants: Grants::loopback_http(), ..EndpointSettings::new("hooks") }
}

async fn send(transport: &WasmTransport, urls: &[String]) -> Vec<Outcome> {
    let batch = urls.iter().zip(0..).map(|(url, number)| delivery(number, url)).collect();
    transport.send_batch(SendCall::new(0, AMPLE), batch, Arc::new(Ignore)).await.expect("answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_arrives_as_a_cloud_event() {
    let server = Server::start();
    let transport = start(loopback()).await;
    assert!(matches!(send(&transport, &[server.url("/status/204")]).await.as_slice(), [Outcome::Ack(_)]));
    let got = server.got.lock().unwrap();
    let request = &got[0];
    assert_eq!(request.line, "POST /status/204 HTTP/1.1");
    assert_eq!(request.body, b"{\"order\":0}");
    for (name, value) in [
        ("ce-id", "m0"),
        ("ce-source", "/waybill/acme"),
        ("ce-type", "order.created"),
        ("ce-specversion", "1.0"),
        ("content-type", "application/json"),
        ("idempotency-key", "m0"),
        ("waybill-attempt", "1"),
        ("waybill-lease-epoch", "3"),
        ("waybill-seq", "42"),
        ("waybill-tenant", "acme"),
        ("x-shop", "berlin"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("host", server.address.to_string().as_str()),
    ] {
        assert_eq!(request.headers.get(name).map(String::as_str), Some(value), "{name}");
    }
}

/// `messageId=outbox-{id}` of source document 4.
#[tokio::test(flavor = "multi_thread")]
async fn ids_are_written_by_the_transport_s_template() {
    let server = Server::start();
    let message_ids = MessageIds::parse("outbox-{id}").unwrap();
    let transport = start(EndpointSettings { message_ids, ..loopback() }).await;
    send(&transport, &[server.url("/status/204")]).await;
    let got = server.got.lock().unwrap();
    for name in ["ce-id", "idempotency-key"] {
        assert_eq!(got[0].headers.get(name).map(String::as_str), Some("outbox-m0"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_decides_its_own_message() {
    let server = Server::start();
    let transport = start(loopback()).await;
    let urls: Vec<String> =
        ["/status/200", "/status/409", "/busy", "/status/401", "/status/404", "/status/422", "/redirect"]
            .map(|path| server.url(path))
            .into();
    let outcomes = send(&transport, &urls).await;
    let [
        Outcome::Ack(fresh),
        Outcome::Ack(known),
        Outcome::Retryable(busy),
        Outcome::Blocked { scope: origin, .. },
        Outcome::Blocked { .. },
        Outcome::Permanent(refused),
        Outcome::Permanent(redirected),
    ] = outcomes.as_slice()
    else {
        panic!("{outcomes:#?}");
    };
    assert!(!fresh.duplicate && known.duplicate);
    assert_eq!(busy.after, Some(Duration::from_secs(7)));
    assert_eq!(*origin, format!("http://{}", server.address));
    assert_eq!((refused.code.as_str(), redirected.code.as_str()), ("HTTP.422", "HTTP.REDIRECT"));
    // The redirect's aim was never asked: one request a message.
    assert_eq!(server.got.lock().unwrap().len(), urls.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_receiver_costs_its_own_message_only() {
    let server = Server::start();
    let settings = EndpointSettings { config: json!({ "timeout": "5s" }), ..loopback() };
    let transport = start(settings).await;
    let outcomes = send(&transport, &[server.url("/slow"), server.url("/status/200")]).await;
    let [Outcome::Retryable(slow), Outcome::Ack(_)] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!(slow.code, "HTTP.TIMEOUT");
    assert!(slow.maybe_delivered);
}

/// With no configuration at all it reaches this machine; everything else is blocked with the line that is missing.
#[tokio::test(flavor = "multi_thread")]
async fn what_isnt_granted_is_blocked_and_named() {
    let transport = start(loopback()).await;
    for url in ["http://169.254.169.254/latest/meta-data/", "https://hooks.example.com/x", "http://10.0.0.1/"] {
        let outcomes = send(&transport, &[url.to_owned()]).await;
        let [Outcome::Blocked { fault, .. }] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
        assert_eq!(fault.code, "HTTP.DENIED");
        assert!(fault.reason.contains("allow.net of hooks"), "{}", fault.reason);
    }
    // With nothing granted at all it isn't started.
    let http = waybill_bundled::find("http").expect("bundled").component;
    let sandbox = Sandbox::new(SandboxOptions::default()).expect("engine");
    let plugin = sandbox.load(PluginSource::Embedded(http), World::Transport).await.expect("loads");
    let error =
        WasmTransport::start(plugin, EndpointSpec::new(EndpointSettings::new("hooks"))).await.expect_err("refused");
    assert_eq!(error.code().as_str(), "PLUGIN.GRANT_MISSING");
}

/// Hundreds of messages over several instances arrive once each.
#[tokio::test(flavor = "multi_thread")]
async fn many_messages_arrive_once_each() {
    let server = Server::start();
    let transport = start(EndpointSettings { instances: 3, ..loopback() }).await;
    let url = server.url("/status/200");
    let calls = (0..30_u64).map(|call| {
        let (transport, url) = (Arc::clone(&transport), url.clone());
        tokio::spawn(async move {
            let batch = (0..20).map(|place| delivery(call * 20 + place, &url)).collect();
            let lane = u32::try_from(call % 3).unwrap();
            let outcomes =
                transport.send_batch(SendCall::new(lane, AMPLE), batch, Arc::new(Ignore)).await.expect("answers");
            assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Ack(_))));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let got = server.got.lock().unwrap();
    let mut ids: Vec<&str> = got.iter().map(|request| request.headers["ce-id"].as_str()).collect();
    assert_eq!(ids.len(), 600);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_configuration_is_refused_with_its_place() {
    let http = waybill_bundled::find("http").expect("bundled").component;
    let sandbox = Sandbox::new(SandboxOptions::default()).expect("engine");
    let plugin = sandbox.load(PluginSource::Embedded(http), World::Transport).await.expect("loads");
    for (config, place) in [
        (json!({ "timeout": true }), "/timeout"),
        (json!({ "method": "GET" }), "/method"),
        (json!({ "headers": { "a": 1 } }), "/headers/a"),
        (json!({ "no_such_key": 1 }), "at /"),
    ] {
        let settings = EndpointSettings { config, ..loopback() };
        let error = WasmTransport::start(plugin.clone(), EndpointSpec::new(settings)).await.expect_err("refused");
        assert_eq!(error.code().as_str(), "PLUGIN.CONFIG");
        assert!(error.to_string().contains(place), "{error}");
    }
}
