//! Starts fixtures and looks at what they do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::annotation::Annotation;
use waybill_core::annotations::Annotations;
use waybill_core::endpoint::{EndpointSettings, Grants, PluginLimits};
use waybill_core::ids::{Key, MessageId, Seq, Tenant};
use waybill_core::message::{Delivery, Message, Payload};
use waybill_core::port::transport::{CallError, Outcome, OutcomeSink, SendCall, Transport};
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;
use waybill_sandbox::{
    EndpointSpec, LoadedPlugin, PluginSource, Sandbox, SandboxError, SandboxOptions, WasmTransport, World,
};

/// Longest a healthy call takes on a busy machine.
pub const AMPLE: Duration = Duration::from_secs(60);
/// A deadline that a guest is meant to miss.
pub const SHORT: Duration = Duration::from_secs(1);

/// One sandbox for all tests: engines are made once a process, as in the product, and guests are compiled once.
pub fn sandbox() -> &'static Sandbox {
    static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
        let cache_dir = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox-guests"));
        Sandbox::new(SandboxOptions { cache_dir, ..SandboxOptions::default() }).expect("engine")
    });
    &SANDBOX
}

pub async fn load(path: &str, world: World) -> Result<LoadedPlugin, SandboxError> {
    sandbox().load(PluginSource::File(path.into()), world).await
}

/// Settings of a fixture: nothing granted.
pub fn settings(config: Value) -> EndpointSpec {
    EndpointSpec::new(EndpointSettings { config, ..EndpointSettings::new("fixture") })
}

/// Settings with grants for these patterns.
pub fn granting(config: Value, patterns: &[&str]) -> EndpointSpec {
    let mut spec = settings(config);
    spec.settings.grants = Grants::none().allow(patterns.iter().copied());
    spec
}

pub async fn start(path: &str, spec: EndpointSpec) -> Arc<WasmTransport> {
    let plugin = load(path, World::Transport).await.expect("loads");
    WasmTransport::start(plugin, spec).await.expect("opens")
}

/// Starts with nothing granted and no configuration.
pub async fn start_plain(path: &str) -> Arc<WasmTransport> {
    start(path, settings(json!({}))).await
}

/// Limits with little CPU, so that a spinning guest ends soon.
pub fn little_cpu() -> PluginLimits {
    PluginLimits { cpu_per_call: Duration::from_millis(200), ..PluginLimits::default() }
}

pub fn delivery(number: u64, payload: &str) -> Delivery {
    let message = Message {
        id: MessageId::new(format!("m{number}")).unwrap(),
        caller_id: true,
        tenant: Tenant::new("acme").unwrap(),
        topic: Topic::parse("bus:orders.created").unwrap(),
        key: Some(Key::new(format!("order-{number}")).unwrap()),
        headers: vec![("x-shop".to_owned(), "berlin".to_owned())],
        payload: Payload::Inline(payload.to_owned().into()),
        event_type: "order.created".to_owned(),
        event_version: 3,
        annotations: Annotations::from([
            (Annotation::AggregateType, "order".to_owned()),
            (Annotation::AggregateId, number.to_string()),
            (Annotation::EnvelopeId, "env-1".to_owned()),
            (Annotation::CorrelationId, "cor-1".to_owned()),
            (Annotation::Traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
            (Annotation::ContentType, "application/json".to_owned()),
        ]),
        occurred_at: UnixMillis(1_700_000_000_000),
        created_at: UnixMillis(1_700_000_000_500),
        not_before: None,
        expires_at: None,
        statements: None,
        replays: 0,
        replayed_by: None,
    };
    Delivery {
        message: Arc::new(message),
        payload: payload.to_owned().into(),
        destination: "orders.created".to_owned(),
        attempt: 2,
        lease_epoch: 7,
        seq: Seq(number),
        attributes: Vec::new(),
    }
}

pub fn batch(count: u64) -> Vec<Delivery> {
    (0..count).map(|number| delivery(number, "{}")).collect()
}

/// What was told early.
#[derive(Default)]
pub struct RecordedOutcomes(pub Mutex<Vec<(usize, Outcome)>>);

impl OutcomeSink for RecordedOutcomes {
    fn settled(&self, index: usize, outcome: Outcome) {
        self.0.lock().unwrap().push((index, outcome));
    }
}

impl RecordedOutcomes {
    pub fn places(&self) -> Vec<usize> {
        self.0.lock().unwrap().iter().map(|(place, _)| *place).collect()
    }
}

pub async fn send(transport: &WasmTransport, batch: Vec<Delivery>) -> Result<Vec<Outcome>, CallError> {
    transport.send_batch(SendCall::new(0, AMPLE), batch, Arc::new(RecordedOutcomes::default())).await
}

/// The reference in the receipt of a single message: fixtures report what they saw there.
pub async fn seen(transport: &WasmTransport) -> String {
    reference(send(transport, batch(1)).await.expect("answers"))
}

pub fn reference(outcomes: Vec<Outcome>) -> String {
    match outcomes.into_iter().next() {
        Some(Outcome::Ack(receipt)) => receipt.broker_ref.expect("a reference"),
        other => panic!("no acknowledgement: {other:?}"),
    }
}

/// Whether the transport serves: a well-behaved neighbour on the same host still does its work.
pub async fn the_host_still_serves() {
    let neighbour = start_plain(waybill_tests::guests::MIRRORS).await;
    assert_eq!(send(&neighbour, batch(3)).await.expect("serves").len(), 3);
    neighbour.close(AMPLE).await;
}

/// A server on loopback that knows who connected and answers HTTP.
pub struct Server {
    pub address: SocketAddr,
    peers: Arc<Mutex<Vec<SocketAddr>>>,
    own: AtomicUsize,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let peers = Arc::new(Mutex::new(Vec::new()));
        let arrived = Arc::clone(&peers);
        std::thread::spawn(move || {
            while let Ok((mut stream, peer)) = listener.accept() {
                arrived.lock().unwrap().push(peer);
                std::thread::spawn(move || {
                    let mut bytes = [0_u8; 4096];
                    while let Ok(read) = stream.read(&mut bytes) {
                        if read == 0 || !bytes[..read].starts_with(b"GET") {
                            return;
                        }
                        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                    }
                });
            }
        });
        Self { address, peers, own: AtomicUsize::new(0) }
    }

    /// How many have connected up to now. It joins the queue itself and waits for its turn, so that nobody before it is
    /// missed.
    pub async fn connects(&self) -> usize {
        let marker = TcpStream::connect(self.address).unwrap();
        let own = marker.local_addr().unwrap();
        eventually("the server accepts", || self.peers.lock().unwrap().contains(&own)).await;
        let mine = self.own.fetch_add(1, Ordering::SeqCst) + 1;
        let all = self.peers.lock().unwrap();
        all.iter().position(|peer| *peer == own).unwrap() + 1 - mine
    }

    pub fn config(&self) -> Value {
        json!({ "address": self.address.to_string() })
    }
}

/// Waits until a condition holds.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    tokio::time::timeout(AMPLE, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("never: {what}"));
}
