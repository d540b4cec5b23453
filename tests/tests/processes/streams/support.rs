//! A host that is killed and comes back, appends that outlive it, and readers that keep their cursor.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use waybill_core::seq_json::SeqJson;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use waybill_testkit::api::{Api, Reply};
use waybill_testkit::process::{Host, Launch, binary};
use waybill_testkit::subscriber::{Frame, SubscribeError, Subscriber};

/// Far longer than anything here takes: a broken host must not hang the suite.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks, and before a request is repeated.
pub const POLL: Duration = Duration::from_millis(20);
const STORE: &str = "[store]\nurl = \"surrealkv://./data\"\n[plugins]\ncache = \"./cache\"\n";
/// What the system holds of a subscription before it is read.
pub const SOCKET_BYTES: u32 = 256 << 10;

pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < end, "it never came true that {what}");
        sleep(POLL).await;
    }
}

/// Bounds what a whole task may take.
pub async fn in_time<T>(what: &str, task: impl Future<Output = T>) -> T {
    timeout(PATIENCE, task).await.unwrap_or_else(|_| panic!("{what} doesn't end"))
}

/// A data folder, and the host that serves it at the moment.
pub struct Site {
    launch: Launch,
    host: Option<Host>,
    pub door: Door,
    _folder: tempfile::TempDir,
}

impl Site {
    /// A host with this beside its store's section.
    pub async fn start(more: &str) -> Self {
        Self::start_in(more, &[]).await
    }

    /// The same, with these variables in its environment.
    pub async fn start_in(more: &str, environment: &[(&'static str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut launch = Launch::prepare(binary().unwrap(), folder.path(), &format!("{STORE}{more}")).unwrap();
        launch.environment = environment.iter().map(|(name, value)| (*name, (*value).into())).collect();
        let (host, api) = Host::ready(&launch).await.unwrap();
        let door = Door { api: Arc::new(RwLock::new(api)) };
        Self { launch, host: Some(host), door, _folder: folder }
    }

    /// The file that the host reads.
    pub fn config(&self) -> &Path {
        &self.launch.config
    }

    pub fn pid(&self) -> u32 {
        self.host.as_ref().and_then(Host::id).unwrap()
    }

    /// `kill -9`, and another host on the same folder.
    pub async fn kill_and_revive(&mut self) {
        self.kill_and_revive_after(async || ()).await;
    }

    /// The same; between the two somebody looks at what the dead one left.
    pub async fn kill_and_revive_after<T>(&mut self, look_at: impl AsyncFnOnce() -> T) -> T {
        assert!(self.host.take().unwrap().kill().await.unwrap(), "it still ran");
        let seen = look_at().await;
        self.revive().await;
        seen
    }

    /// An end in good order, and another host on the same folder.
    pub async fn restart(&mut self) {
        assert!(self.host.take().unwrap().terminate(PATIENCE).await.unwrap().success());
        self.revive().await;
    }

    async fn revive(&mut self) {
        let (host, api) = Host::ready(&self.launch).await.unwrap();
        self.host = Some(host);
        *self.door.api.write().unwrap() = api;
    }

    /// Writes the configuration anew and has it read.
    pub async fn reconfigure(&self, more: &str) {
        let draft = self.launch.config.with_extension("draft");
        std::fs::write(&draft, format!("{STORE}{more}")).unwrap();
        std::fs::rename(&draft, &self.launch.config).unwrap();
        let reply = self.door.api().post("/v1/config/reload", &json!({})).await.unwrap();
        assert!(reply.is_ok() && reply.body["applied"] == true, "{reply:?}");
    }

    pub async fn end(mut self) {
        assert!(self.host.take().unwrap().terminate(PATIENCE).await.unwrap().success());
    }
}

/// The way to whichever host serves the folder.
#[derive(Clone)]
pub struct Door {
    api: Arc<RwLock<Api>>,
}

impl Door {
    pub fn api(&self) -> Api {
        self.api.read().unwrap().clone()
    }

    /// One request to append.
    pub async fn post(&self, stream: &str, body: &Value) -> Option<Reply> {
        self.api().post(&format!("/v1/streams/{stream}/events"), body).await.ok()
    }

    /// Appends until it is answered with numbers or with a no that stays one: the same again, with the same ids, whatever happens to the host
    /// meanwhile.
    pub async fn persist(&self, stream: &str, body: &Value) -> Reply {
        loop {
            match self.post(stream, body).await {
                Some(reply) if reply.status == 201 => return reply,
                Some(reply) if is_final(&reply) => return reply,
                // Nobody there, no answer, an outcome that isn't known, or no numbers yet.
                _ => sleep(POLL).await,
            }
        }
    }

    /// Appends events, and answers their numbers.
    pub async fn append(&self, stream: &str, events: &[Value]) -> Vec<u64> {
        let reply = in_time("an append", self.persist(stream, &json!({ "events": events }))).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        numbers(&reply)
    }

    /// What is said of a stream; null if there is none.
    pub async fn stream(&self, stream: &str) -> Value {
        let reply = self.api().get(&format!("/v1/streams/{stream}"), &[]).await.unwrap();
        if reply.code() == Some("STREAM.NOT_FOUND") { Value::Null } else { reply.body }
    }

    /// The number that a stream ends at; 0 if there is none.
    pub async fn last(&self, stream: &str) -> u64 {
        SeqJson::in_value(&self.stream(stream).await["last_seq"]).unwrap_or_default()
    }

    /// One page of a stream.
    pub async fn page(&self, stream: &str, query: &[(&str, &str)]) -> Reply {
        self.api().get(&format!("/v1/streams/{stream}/events"), query).await.unwrap()
    }

    /// All that is kept of a stream, as number and id.
    pub async fn stored(&self, stream: &str) -> Vec<(u64, String)> {
        let (mut all, mut after) = (Vec::new(), None::<String>);
        loop {
            let mut query = vec![("limit", "1000")];
            query.extend(after.as_deref().map(|after| ("after", after)));
            let page = self.page(stream, &query).await;
            assert!(page.is_ok(), "{page:?}");
            for event in page.body["items"].as_array().unwrap() {
                all.push((SeqJson::in_value(&event["seq"]).unwrap(), event["event_id"].as_str().unwrap().to_owned()));
            }
            if page.body["end"] == true {
                return all;
            }
            after = Some(page.body["next_after"].as_str().unwrap().to_owned());
        }
    }

    /// A value among the metrics, over all labels; 0 if it was never set.
    pub async fn metric(&self, name: &str) -> f64 {
        let metrics = self.api().get("/metrics", &[]).await.unwrap().body;
        let lines = metrics.as_str().unwrap().lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Subscribes behind a cursor, if there is one.
    pub async fn subscribe(&self, selector: &str, cursor: Option<&str>) -> Reader {
        self.try_subscribe(selector, cursor).await.unwrap_or_else(|refused| panic!("{selector}: {refused:?}"))
    }

    /// The same; the error is an answer that says no, or that nobody is there.
    pub async fn try_subscribe(&self, selector: &str, cursor: Option<&str>) -> Result<Reader, Option<Reply>> {
        let api = self.api();
        // Little lies in sockets, so that whoever stops reading is noticed.
        let opened = Subscriber::open_with(api.base(), selector, cursor, Some(SOCKET_BYTES));
        match in_time("a subscription", opened).await {
            Ok(subscriber) => Ok(Reader { subscriber, cursor: cursor.map(str::to_owned) }),
            Err(SubscribeError::Refused { status, body }) => {
                Err(Some(Reply { status, body: serde_json::from_str(&body).unwrap_or_default() }))
            }
            Err(SubscribeError::Broken(..)) => Err(None),
        }
    }
}

/// Whether the same request again would be answered the same.
fn is_final(reply: &Reply) -> bool {
    matches!(reply.status, 400 | 403 | 404 | 409 | 413) && reply.code() != Some("STORAGE.CONFLICT")
}

/// The numbers in an answer to an append.
pub fn numbers(reply: &Reply) -> Vec<u64> {
    let seqs = reply.body["seqs"].as_array().unwrap_or_else(|| panic!("{reply:?}"));
    seqs.iter().map(|seq| SeqJson::in_value(seq).unwrap()).collect()
}

/// An event of this id about a resource.
pub fn event(id: &str, resource: &str) -> Value {
    json!({ "event_id": id, "resource_type": "TASK", "resource_id": resource, "op": "UPDATE", "schema_version": 1 })
}

/// So many events with ids that begin so, about the resource of this name.
pub fn events(beginning: &str, count: usize, resource: &str) -> Vec<Value> {
    (0..count).map(|number| event(&format!("{beginning}-{number}"), resource)).collect()
}

/// A payload of so many bytes, as an event has it.
pub fn payload(bytes: usize) -> Value {
    let rest = ["", "AA==", "AAA="][bytes % 3];
    format!("{}{rest}", "AAAA".repeat(bytes / 3)).into()
}

/// What a subscription says.
#[derive(Debug)]
pub enum Heard {
    Event(Value),
    /// `event: error`, and what it says.
    Ended {
        code: String,
        detail: String,
    },
    /// The connection is closed.
    Closed,
}

/// A subscription that keeps its cursor.
pub struct Reader {
    subscriber: Subscriber,
    /// Where it goes on.
    pub cursor: Option<String>,
}

impl Reader {
    /// What comes next, heartbeats apart.
    pub async fn next(&mut self) -> Heard {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        loop {
            match in_time("a subscription", self.subscriber.next()).await {
                Ok(Some(Frame::Event { cursor, envelope })) => {
                    self.cursor = Some(text(&cursor));
                    return Heard::Event(serde_json::from_slice(&envelope).unwrap());
                }
                Ok(Some(Frame::Moved { cursor })) => self.cursor = Some(text(&cursor)),
                Ok(Some(Frame::Alive)) => {}
                Ok(Some(Frame::Ended { code, detail })) => return Heard::Ended { code, detail },
                // A host that was killed breaks off; one that ends its answer closes it.
                Ok(None) | Err(_) => return Heard::Closed,
            }
        }
    }

    /// The next event; an end is a failure.
    pub async fn event(&mut self) -> Value {
        match self.next().await {
            Heard::Event(event) => event,
            other => panic!("no event, but {other:?}"),
        }
    }

    pub async fn events(&mut self, count: usize) -> Vec<Value> {
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            all.push(self.event().await);
        }
        all
    }
}

/// How far a reader is in each stream: it has each number once, and leaves none out.
#[derive(Clone, Debug, Default)]
pub struct Order {
    last: BTreeMap<String, u64>,
}

impl Order {
    /// The next event that it gets.
    pub fn take(&mut self, event: &Value) {
        let (stream, seq) = (event["stream"].as_str().unwrap(), SeqJson::in_value(&event["seq"]).unwrap());
        let before = self.last.insert(stream.to_owned(), seq).unwrap_or_default();
        assert_eq!(seq, before + 1, "{stream}: {event}");
    }

    pub fn of(&self, stream: &str) -> u64 {
        self.last.get(stream).copied().unwrap_or_default()
    }
}
