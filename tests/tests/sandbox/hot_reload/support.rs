//! Components made from the fixtures, a fleet over a folder of its own, an engine over it, and who saw what.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use waybill_api::plugins::{PluginLogAsked, PluginLogLine, PluginService as _};
use waybill_core::annotations::Annotations;
use waybill_core::backoff::RetryPolicy;
use waybill_core::endpoint::{EndpointSettings, SlotPolicy};
use waybill_core::message::Delivery;
use waybill_core::new_message::NewMessage;
use waybill_core::port::transport::{
    CallError, HealthReport, Outcome, OutcomeSink, PluginIdentity, SendCall, Transport, TransportLimits,
};
use waybill_core::route::{Pattern, Route, Routes};
use waybill_engine::{Engine, EngineConfig, Stores, SystemClock};
use waybill_sandbox::{
    ComponentSource, EndpointSpec, Fleet, FleetOptions, Phase, Record, Sandbox, SandboxOptions, Slot, TransportSpec,
    Trust, World,
};
use waybill_testkit::memory_store::MemoryStore;
use waybill_tests::guests;

/// Far longer than anything here takes: what is broken must not hang the suite.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// Name of the transport.
pub const NAME: &str = "orders";

/// One plugin host for all tests, as in the product.
fn sandbox() -> Sandbox {
    static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
        let cache_dir = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("hot-reload"));
        Sandbox::new(SandboxOptions { cache_dir, ..SandboxOptions::default() }).expect("engine")
    });
    SANDBOX.clone()
}

/// A fixture as another version: a manifest at the top level of a component counts before the one inside, so the digest and
/// the version differ and the behaviour doesn't.
pub fn component(fixture: &str, version: &str) -> Vec<u8> {
    component_with(fixture, version, "")
}

/// The same with other lines at the end of its manifest.
pub fn component_with(fixture: &str, version: &str, more: &str) -> Vec<u8> {
    component_of("transport", fixture, version, more)
}

/// The same of any world.
pub fn component_of(world: &str, fixture: &str, version: &str, more: &str) -> Vec<u8> {
    let more = if more.is_empty() { "config_schema = '{\"type\":\"object\"}'\n" } else { more };
    let manifest = format!(
        "name = \"guest\"\nversion = \"{version}\"\nworld = \"{world}\"\ncontract = \"0.1.0\"\ndescription = \"A fixture.\"\n{more}"
    );
    let mut bytes = std::fs::read(fixture).unwrap();
    let name = b"waybill-plugin";
    let mut content = leb(name.len());
    content.extend(name);
    content.extend(manifest.as_bytes());
    bytes.push(0);
    bytes.extend(leb(content.len()));
    bytes.extend(content);
    bytes
}

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

pub fn good(version: &str) -> Vec<u8> {
    component(guests::MIRRORS, version)
}

/// What came with the binary.
pub fn bundled() -> &'static [u8] {
    static BUNDLED: LazyLock<Vec<u8>> = LazyLock::new(|| good("0.9.0"));
    &BUNDLED
}

/// Replaces a file as a careful deployment does.
pub fn put(path: &Path, bytes: &[u8]) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, bytes).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

/// A fleet with one transport whose plugin is a file.
pub struct Place {
    pub folder: tempfile::TempDir,
    pub fleet: Fleet,
}

impl Place {
    pub fn new(trust: Trust) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), trust)
    }

    /// What is kept of a plugin's log.
    pub async fn log(&self, name: &str) -> Vec<PluginLogLine> {
        let asked = PluginLogAsked { limit: usize::MAX, ..PluginLogAsked::default() };
        self.fleet.log(name, asked).await.unwrap().items
    }

    /// Over what another host left there.
    pub fn in_folder(folder: tempfile::TempDir, trust: Trust) -> Self {
        let plugins = folder.path().join("plugins");
        std::fs::create_dir_all(&plugins).unwrap();
        let state = Some(folder.path().join("state"));
        let options = FleetOptions { trust, folder: Some(plugins), bundled: vec![bundled()], state };
        let fleet = Fleet::new(sandbox(), options).unwrap();
        Self { folder, fleet }
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("plugins").join("acme.wasm")
    }

    pub fn put(&self, bytes: &[u8]) {
        put(&self.file(), bytes);
    }

    /// What is written down of the transport's plugins for the next start; its file is named by the transport and the host's seal.
    pub fn remembered(&self) -> Option<String> {
        let mut files = std::fs::read_dir(self.folder.path().join("state")).ok()?.filter_map(Result::ok);
        let begins = format!("{NAME}-");
        let of = |name: &str| name.starts_with(&begins) && name.ends_with(".json");
        let file = files.find(|file| file.file_name().to_str().is_some_and(of))?;
        std::fs::read_to_string(file.path()).ok()
    }

    pub fn spec(&self, policy: SlotPolicy) -> TransportSpec {
        let settings = EndpointSettings { config: json!({}), policy, ..EndpointSettings::new(NAME) };
        TransportSpec { source: ComponentSource::File(self.file()), endpoint: EndpointSpec::new(settings) }
    }

    /// Starts the transport with what lies in the file.
    pub async fn start(&self, spec: TransportSpec) -> Slot {
        let pin = spec.endpoint.settings.sha256.as_deref();
        let loaded = self.fleet.load_for_start(World::Transport, NAME, &spec.source, pin).await.unwrap();
        let (slot, opened) = self.fleet.start(spec, loaded).await.unwrap();
        opened.unwrap();
        slot
    }
}

/// A peer of the fixture `echoes_by_net`: says `ok` to each line, as long as its gate is open.
pub struct Peer {
    pub address: String,
    state: Arc<PeerState>,
    stop: tokio_util::sync::CancellationToken,
    ended: tokio_util::sync::CancellationToken,
}

#[derive(Default)]
struct PeerState {
    lines: std::sync::atomic::AtomicUsize,
    /// Connections that carried lines and are open.
    carrying: std::sync::atomic::AtomicUsize,
    /// Most of them at once.
    carrying_most: std::sync::atomic::AtomicUsize,
    shut: std::sync::atomic::AtomicBool,
}

impl Peer {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(PeerState::default());
        let (stop, ended) = Default::default();
        let peer = Self { address, state, stop, ended };
        let (serving, stopped, gone) = (Arc::clone(&peer.state), peer.stop.clone(), peer.ended.clone());
        tokio::spawn(async move {
            let outer = stopped.clone();
            let accepting = async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(stopped.clone().run_until_cancelled_owned(converse(stream, Arc::clone(&serving))));
                }
            };
            outer.run_until_cancelled_owned(accepting).await;
            // The listener is gone with what accepted: whoever connects from now on is refused.
            gone.cancel();
        });
        peer
    }

    /// From now on it keeps its answers to itself, or gives them all.
    pub fn shut(&self, shut: bool) {
        self.state.shut.store(shut, std::sync::atomic::Ordering::Release);
    }

    /// Cuts its connections, and takes no more once this is over.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }

    pub fn lines(&self) -> usize {
        self.state.lines.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Most connections that carried lines at once.
    pub fn carrying_most(&self) -> usize {
        self.state.carrying_most.load(std::sync::atomic::Ordering::Acquire)
    }

    pub async fn until_lines(&self, count: usize) {
        let waiting = async {
            while self.lines() < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the lines come");
    }
}

async fn converse(mut stream: tokio::net::TcpStream, state: Arc<PeerState>) {
    use std::sync::atomic::Ordering::AcqRel;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut carries = false;
    let mut bytes = [0_u8; 4096];
    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
        if !std::mem::replace(&mut carries, true) {
            let now = state.carrying.fetch_add(1, AcqRel) + 1;
            state.carrying_most.fetch_max(now, AcqRel);
        }
        let lines = bytes[..read].iter().filter(|byte| **byte == b'\n').count();
        state.lines.fetch_add(lines, AcqRel);
        while state.shut.load(std::sync::atomic::Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if stream.write_all("ok\n".repeat(lines).as_bytes()).await.is_err() {
            break;
        }
    }
    if carries {
        state.carrying.fetch_sub(1, AcqRel);
    }
}

/// Sends one message by the transport itself.
pub async fn send(slot: &Slot, number: u64) -> Result<Vec<Outcome>, CallError> {
    send_by(slot.serving().unwrap(), number).await
}

/// The same by a handle, which stays with its generation.
pub async fn send_by(serving: Arc<dyn Transport>, number: u64) -> Result<Vec<Outcome>, CallError> {
    struct Nobody;
    impl OutcomeSink for Nobody {
        fn settled(&self, _: usize, _: Outcome) {}
    }
    serving.send_batch(SendCall::new(0, PATIENCE), vec![delivery(number)], Arc::new(Nobody)).await
}

fn delivery(number: u64) -> Delivery {
    use waybill_core::ids::{MessageId, Seq, Tenant};
    use waybill_core::message::{Message, Payload};
    let message = Message {
        id: MessageId::new(format!("m{number}")).unwrap(),
        caller_id: true,
        tenant: Tenant::new("acme").unwrap(),
        topic: waybill_core::topic::Topic::parse("bus:orders.created").unwrap(),
        key: None,
        headers: Vec::new(),
        payload: Payload::Inline(number.to_string().into()),
        event_type: "order.created".to_owned(),
        event_version: 1,
        annotations: Annotations::default(),
        occurred_at: waybill_core::time::UnixMillis(1_700_000_000_000),
        created_at: waybill_core::time::UnixMillis(1_700_000_000_000),
        not_before: None,
        expires_at: None,
        statements: None,
        replays: 0,
        replayed_by: None,
    };
    let payload = number.to_string().into();
    let destination = "orders.created".to_owned();
    let (attributes, seq) = (Vec::new(), Seq(number));
    Delivery { message: Arc::new(message), payload, destination, attempt: 1, lease_epoch: 1, seq, attributes }
}

/// Waits until something about a slot's records holds.
pub async fn until<T>(slot: &Slot, what: &str, find: impl Fn(&[Record]) -> Option<T>) -> T {
    let waiting = async {
        loop {
            let records: Vec<Record> = slot.life().records().cloned().collect();
            if let Some(found) = find(&records) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(found) => found,
        Err(_) => panic!("never: {what}: {:#?}", slot.life().records().collect::<Vec<_>>()),
    }
}

pub fn phase_of(slot: &Slot, number: u32) -> Option<Phase> {
    slot.life().record(number).map(|record| record.phase)
}

/// What one message met in one call.
#[derive(Clone, Debug)]
pub struct Met {
    pub id: String,
    pub key: String,
    /// Its place in the key.
    pub place: u64,
    pub digest: String,
    pub attempt: u32,
    pub acked: bool,
}

/// Everything that was sent.
#[derive(Default)]
pub struct Deliveries(Mutex<Log>);

#[derive(Default)]
struct Log {
    /// In the order in which calls began; for each the plugin that served it.
    met: Vec<Met>,
    /// The place of each key whose turn it is: all before it are acknowledged.
    turn: BTreeMap<String, u64>,
    /// What was sent when it wasn't its turn.
    out_of_turn: Vec<Met>,
}

impl Deliveries {
    pub fn met(&self) -> Vec<Met> {
        self.0.lock().unwrap().met.clone()
    }

    pub fn out_of_turn(&self) -> Vec<Met> {
        self.0.lock().unwrap().out_of_turn.clone()
    }

    fn begin(&self, met: &[Met]) -> usize {
        let mut log = self.0.lock().unwrap();
        for one in met {
            if log.turn.get(&one.key).copied().unwrap_or(0) != one.place {
                log.out_of_turn.push(one.clone());
            }
        }
        log.met.extend(met.iter().cloned());
        log.met.len() - met.len()
    }

    fn end(&self, first: usize, met: Vec<Met>) {
        let mut log = self.0.lock().unwrap();
        for (index, one) in met.into_iter().enumerate() {
            if one.acked {
                log.turn.insert(one.key.clone(), one.place + 1);
            }
            log.met[first + index] = one;
        }
    }
}

/// A slot whose calls are noted: what each call was served by is asked of the handle that serves it.
pub struct Noted {
    pub slot: Slot,
    pub seen: Arc<Deliveries>,
}

struct NotedCall {
    serving: Arc<dyn Transport>,
    seen: Arc<Deliveries>,
}

#[async_trait]
impl Transport for Noted {
    fn name(&self) -> &str {
        Transport::name(&self.slot)
    }
    fn identity(&self) -> PluginIdentity {
        self.slot.identity()
    }
    fn limits(&self) -> TransportLimits {
        self.slot.limits()
    }
    fn serving(&self) -> Option<Arc<dyn Transport>> {
        Some(Arc::new(NotedCall { serving: self.slot.serving().unwrap(), seen: Arc::clone(&self.seen) }))
    }
    async fn send_batch(
        &self,
        call: SendCall,
        batch: Vec<Delivery>,
        sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError> {
        self.serving().unwrap().send_batch(call, batch, sink).await
    }
    async fn health(&self) -> HealthReport {
        self.slot.health().await
    }
    async fn close(&self, timeout: Duration) {
        self.slot.close(timeout).await;
    }
}

#[async_trait]
impl Transport for NotedCall {
    fn name(&self) -> &str {
        self.serving.name()
    }
    fn identity(&self) -> PluginIdentity {
        self.serving.identity()
    }
    fn limits(&self) -> TransportLimits {
        self.serving.limits()
    }
    async fn send_batch(
        &self,
        call: SendCall,
        batch: Vec<Delivery>,
        sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError> {
        let mut met: Vec<Met> = batch
            .iter()
            .map(|delivery| Met {
                id: delivery.message.id.to_string(),
                key: delivery.message.key.as_ref().map(ToString::to_string).unwrap_or_default(),
                place: String::from_utf8_lossy(&delivery.payload).parse().unwrap(),
                digest: String::new(),
                attempt: delivery.attempt,
                acked: false,
            })
            .collect();
        let first = self.seen.begin(&met);
        let result = self.serving.send_batch(call, batch, sink).await;
        let digest = self.serving.identity().digest;
        for (index, one) in met.iter_mut().enumerate() {
            one.digest.clone_from(&digest);
            one.acked = matches!(&result, Ok(outcomes) if matches!(outcomes[index], Outcome::Ack(_)));
        }
        self.seen.end(first, met);
        result
    }
    async fn health(&self) -> HealthReport {
        self.serving.health().await
    }
    async fn close(&self, _: Duration) {}
}

/// An engine over one noted transport, in memory.
pub fn engine(slot: &Slot, seen: &Arc<Deliveries>) -> Engine {
    let memory = Arc::new(MemoryStore::new());
    let mut config = EngineConfig::new("host");
    config.retries.policy =
        RetryPolicy { base_ms: 5, cap_ms: 20, jitter: 0.0, max_attempts: 1_000, ..RetryPolicy::default() };
    config.routes = Routes(vec![Route::new(Pattern::parse("bus:**").unwrap(), NAME)]);
    config.transports = vec![Arc::new(Noted { slot: slot.clone(), seen: Arc::clone(seen) })];
    let stores = Stores {
        owner: memory.clone(),
        query: memory.clone(),
        transact: memory.clone(),
        dedup: memory.clone(),
        idempotency: memory,
    };
    Engine::start(config, stores, Arc::new(SystemClock))
}

/// The `place`th message of a key.
pub fn message(key: u64, place: u64) -> NewMessage {
    NewMessage {
        topic: "bus:orders.created".to_owned(),
        key: Some(format!("order-{key}")),
        payload: Bytes::from(place.to_string()),
        ..NewMessage::default()
    }
}

/// Places of each key in the order in which they were acknowledged.
pub fn acked_by_key(seen: &Deliveries) -> BTreeMap<String, Vec<u64>> {
    let mut keys: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for met in seen.met().into_iter().filter(|met| met.acked) {
        keys.entry(met.key).or_default().push(met.place);
    }
    keys
}
