//! Producers: each sends one request after the other, notes it before and after, and waits for the next host when its own
//! is gone.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::judge::checksum;
use super::plan::{BATCH_MAX, KEYS, PRODUCER_PAUSE, TABLE, TENANTS, TRANSACTION_MAX};
use crate::api::{Api, NoReply, Reply};
use crate::ledger::{ClientLedger, Fate, Kind, Sent};

/// Where statements go together with messages.
const TRANSACTIONS: &str = "/v1/transactions";
/// Pause after an answer that asks for one.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// The host that producers talk to.
#[derive(Clone, Debug, Default)]
pub(super) struct Up {
    /// Which start it is, from 1.
    pub(super) generation: u32,
    /// Its API; none between a kill and the next start.
    pub(super) api: Option<Api>,
    /// It is being killed: a broken connection is expected.
    pub(super) doomed: bool,
    /// Nothing new is to be sent; what is unknown may be sent once more.
    pub(super) last: bool,
}

pub(super) struct Load {
    pub(super) ledger: ClientLedger,
    /// Topic of the messages, without the last path segment.
    pub(super) topic: String,
    /// Some messages are for later.
    pub(super) schedules: bool,
    /// Answers that no valid request should get, one sentence each.
    pub(super) refusals: Mutex<Vec<String>>,
}

struct Request {
    number: usize,
    path: &'static str,
    body: Value,
    /// It carries the caller's ids, so that it may be sent again.
    repeatable: bool,
}

/// Sends until the last host is up; then sends what is unknown and repeatable once more, and ends.
pub(super) async fn produce(
    load: Arc<Load>,
    producer: usize,
    seed: u64,
    mut up: watch::Receiver<Up>,
) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(producer as u64));
    let mut unanswered: Option<Request> = None;
    let mut broken_in = 0;
    loop {
        let host = up
            .wait_for(|up| {
                up.last && unanswered.is_none() || up.api.is_some() && !up.doomed && up.generation > broken_in
            })
            .await
            .map_err(|_| "the harness ended first".to_owned())?
            .clone();
        let Some(api) = host.api.filter(|_| !host.last || unanswered.is_some()) else { return Ok(()) };
        let request = match unanswered.take() {
            Some(request) => {
                load.ledger.again(request.number);
                request
            }
            None => next(&load, producer, &mut rng),
        };
        match api.post(request.path, &request.body).await {
            Ok(reply) => {
                note(&load, &request, &reply);
                if matches!(reply.status, 429 | 503) {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
            }
            Err(NoReply::NotSent(why)) => {
                unexpected(&load, &up, host.generation, &why);
                load.ledger.end(request.number, Fate::Failed(why), &[]);
                broken_in = host.generation;
            }
            Err(NoReply::Unknown(why)) => {
                unexpected(&load, &up, host.generation, &why);
                load.ledger.end(request.number, Fate::Unknown(why), &[]);
                broken_in = host.generation;
                unanswered = request.repeatable.then_some(request);
            }
        }
        if host.last {
            return Ok(());
        }
        tokio::time::sleep(PRODUCER_PAUSE).await;
    }
}

/// A host that isn't being killed has to answer.
fn unexpected(load: &Load, up: &watch::Receiver<Up>, generation: u32, why: &str) {
    let now = up.borrow();
    if now.generation == generation && !now.doomed {
        load.refusals.lock().push(format!("start {generation}: no answer from a living host: {why}"));
    }
}

fn note(load: &Load, request: &Request, reply: &Reply) {
    let told = || format!("{} answered {}: {}", request.path, reply.status, reply.body);
    let fate = match reply.status {
        200 | 201 => Fate::Ok,
        // The host drains or is full and says so: nothing was committed.
        429 | 503 => Fate::Failed(told()),
        // It met another transaction, or was open for so long that it had to give way: nothing was committed, and it may be sent
        // again.
        409 if request.path == TRANSACTIONS && reply.code() == Some("STORAGE.CONFLICT") => Fate::Failed(told()),
        400..=499 => {
            load.refusals.lock().push(told());
            Fate::Failed(told())
        }
        _ => Fate::Unknown(told()),
    };
    let ids: Vec<String> = match reply.body.get("ids").and_then(Value::as_array) {
        Some(ids) => ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect(),
        None => Vec::new(),
    };
    if fate == Fate::Ok && ids.len() != load.ledger.count(request.number) {
        load.refusals.lock().push(format!("{} answered another number of ids: {}", request.path, reply.body));
    }
    load.ledger.end(request.number, fate, &ids);
}

/// The next request, noted in the ledger.
fn next(load: &Load, producer: usize, rng: &mut StdRng) -> Request {
    let kind = match rng.random_range(0..10) {
        0..4 => Kind::Single,
        4..7 => Kind::Batch,
        _ => Kind::Transaction,
    };
    let count = match kind {
        Kind::Single => 1,
        Kind::Batch => rng.random_range(2..=BATCH_MAX),
        Kind::Transaction => rng.random_range(1..=TRANSACTION_MAX),
    };
    let own_ids = kind != Kind::Transaction && rng.random_bool(0.5);
    let tenant = TENANTS.get(producer % TENANTS.len()).copied().unwrap_or("default");
    // The tag has to be known before the ledger numbers the operation.
    let name = format!("p{producer}-{:016x}", rng.random::<u64>());
    let (mut sent, mut bodies) = (Vec::new(), Vec::new());
    for index in 0..count {
        let tag = format!("{name}-{index}");
        let key = rng.random_bool(0.8).then(|| format!("p{producer}-k{}", rng.random_range(0..KEYS)));
        let scheduled = rng.random_bool(0.05) && load.schedules;
        let (message, body) =
            message(load, rng, Sent { tag, tenant: tenant.to_owned(), key, scheduled, id: None }, own_ids);
        sent.push(message);
        bodies.push(body);
    }
    let row = (kind == Kind::Transaction).then(|| name.clone());
    let number = load.ledger.begin(producer, kind, sent, row);
    let (path, body) = match kind {
        Kind::Single => ("/v1/messages", bodies.pop().unwrap_or(Value::Null)),
        Kind::Batch => ("/v1/messages", json!({ "messages": bodies })),
        Kind::Transaction => (
            TRANSACTIONS,
            json!({
                "statements": [{
                    "query": format!("CREATE {TABLE} CONTENT $row"),
                    "bindings": { "row": { "id": name, "producer": producer, "messages": count } },
                }],
                "messages": bodies,
            }),
        ),
    };
    Request { number, path, body, repeatable: own_ids }
}

fn message(load: &Load, rng: &mut StdRng, mut sent: Sent, own_ids: bool) -> (Sent, Value) {
    // Most are small; some are large enough for the blob table, and for a commit that is written in many pieces.
    let bytes = if rng.random_ratio(1, 100) { rng.random_range(65_000..220_000) } else { rng.random_range(10..600) };
    let pad: String = (0..bytes).map(|_| char::from(rng.random_range(b' '..=b'~'))).collect();
    let mut body = json!({
        // Two topics: a key's order spans both.
        "topic": format!("{}/{}", load.topic, if rng.random_bool(0.5) { "a" } else { "b" }),
        "tenant": sent.tenant,
        "payload": { "tag": sent.tag, "sum": checksum(&pad), "pad": pad },
    });
    if let Some(fields) = body.as_object_mut() {
        if let Some(key) = &sent.key {
            fields.insert("key".into(), json!(key));
        }
        if own_ids {
            fields.insert("id".into(), json!(sent.tag));
            sent.id = Some(sent.tag.clone());
        }
        if sent.scheduled {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
            fields.insert("not_before".into(), json!(now as u64 + rng.random_range(20..400)));
        }
    }
    (sent, body)
}
