//! The fleet: nodes that append events of their tasks over the API, each to a stream of its own.
//!
//! Every event has an id that its node chose, so a request whose answer was lost is made again as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use waybill_testkit::api::{Api, Reply};
use waybill_testkit::seq_json::SeqJson;

use crate::demo::insistent::post;

/// What the names of all streams begin with.
pub const PREFIX: &str = "task.node.";
/// Kind of all resources.
pub const RESOURCE_TYPE: &str = "TASK";
/// Tasks of a node, whose events each stay in order at the broker.
const TASKS: u64 = 5;
/// A node's requests have 1 event, then 2, and so on up to this.
const REQUEST_EVENTS_MAX: u64 = 8;
const OPS: [&str; 3] = ["CREATE", "STATE_TRANSITION", "UPDATE"];
/// Bytes of an event's log excerpt: what passes by a subscriber that stops reading is three times what the system holds for it, which is
/// 4 MiB on the host's side.
const EXCERPT: usize = 4_800;

/// A node of the fleet.
#[derive(Clone, Debug)]
pub struct Node {
    number: u64,
    pub uuid: String,
}

impl Node {
    /// The first so many.
    pub fn all(count: u32) -> Vec<Self> {
        let node = |number| Self { number, uuid: format!("0190a2f0-7b1e-7c3d-9e4f-{number:012x}") };
        (1..=u64::from(count)).map(node).collect()
    }

    pub fn stream(&self) -> String {
        format!("{PREFIX}{}", self.uuid)
    }

    fn event_id(&self, event: u64) -> String {
        format!("node-{}-event-{event}", self.number)
    }

    fn event(&self, event: u64) -> Value {
        let op = OPS.into_iter().cycle().nth((event % 3) as usize);
        json!({
            "event_id": self.event_id(event),
            "resource_type": RESOURCE_TYPE,
            "resource_id": format!("task-{}-{}", self.number, event % TASKS),
            "op": op,
            "schema_version": 1,
            "content_type": "text/plain",
            // Three letters are four of base64.
            "payload_bytes": "eHh4".repeat(EXCERPT / 3),
        })
    }
}

/// An event of which the host said that it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    pub id: String,
    /// None where it wasn't numbered yet.
    pub seq: Option<u64>,
}

/// By stream, each in the order in which its node appended.
pub type Appended = BTreeMap<String, Vec<Acknowledged>>;

pub struct Fleet {
    nodes: JoinSet<Result<(String, Vec<Acknowledged>)>>,
    acknowledged: Arc<AtomicU64>,
    appended: Appended,
}

#[derive(Deserialize)]
struct Answer {
    ids: Vec<String>,
    #[serde(default)]
    seqs: Option<Vec<SeqJson>>,
}

impl Fleet {
    /// Begins to append so many events, so many a second.
    pub fn start(api: &Arc<Mutex<Api>>, nodes: &[Node], events: u64, rate: u32) -> Result<Self> {
        let count = nodes.len() as u64;
        let every = Duration::from_secs(1) * u32::try_from(count)? / rate;
        let fleet = Self { nodes: JoinSet::new(), acknowledged: Arc::default(), appended: Appended::new() };
        let mut tasks = JoinSet::new();
        for node in nodes {
            let share = events / count + u64::from(node.number <= events % count);
            let (api, acknowledged, node) = (Arc::clone(api), Arc::clone(&fleet.acknowledged), node.clone());
            tasks.spawn(async move {
                let appended = append(&api, &node, share, every, &acknowledged).await;
                anyhow::Ok((node.stream(), appended.with_context(|| format!("node {} gave up", node.number))?))
            });
        }
        Ok(Self { nodes: tasks, ..fleet })
    }

    /// Events that were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Whether all nodes are done; an error of one ends the demo.
    pub fn has_ended(&mut self) -> Result<bool> {
        while let Some(done) = self.nodes.try_join_next() {
            let (stream, appended) = done.context("a node of the demo died")??;
            self.appended.insert(stream, appended);
        }
        Ok(self.nodes.is_empty())
    }

    /// How many the nodes that have ended appended to these streams.
    pub fn appended_to(&self, streams: &BTreeSet<String>) -> u64 {
        streams.iter().map(|stream| self.appended.get(stream).map_or(0, Vec::len) as u64).sum()
    }

    /// What all of them appended, once they have ended.
    pub fn into_appended(self) -> Appended {
        self.appended
    }
}

async fn append(
    api: &Mutex<Api>,
    node: &Node,
    events: u64,
    every: Duration,
    acknowledged: &AtomicU64,
) -> Result<Vec<Acknowledged>> {
    let path = format!("/v1/streams/{}/events", node.stream());
    let (begin, mut appended) = (Instant::now(), Vec::new());
    let (mut next, mut size) = (1, node.number % REQUEST_EVENTS_MAX + 1);
    while next <= events {
        let last = events.min(next + size - 1);
        sleep_until(begin + every * u32::try_from(last)?).await;
        let request: Vec<Value> = (next..=last).map(|event| node.event(event)).collect();
        let ids: Vec<String> = (next..=last).map(|event| node.event_id(event)).collect();
        let reply = post(api, &path, &json!({ "events": request })).await?;
        appended.extend(read(ids, reply)?);
        acknowledged.fetch_add(last + 1 - next, Ordering::Relaxed);
        (next, size) = (last + 1, size % REQUEST_EVENTS_MAX + 1);
    }
    Ok(appended)
}

fn read(ids: Vec<String>, reply: Reply) -> Result<Vec<Acknowledged>> {
    let answer: Answer = serde_json::from_value(reply.body).context("reading the answer of an append")?;
    ensure!(answer.ids == ids, "{ids:?} were appended, and {:?} acknowledged", answer.ids);
    let seqs = match answer.seqs {
        Some(seqs) => seqs.into_iter().map(|SeqJson(seq)| Some(seq)).collect(),
        None => vec![None; ids.len()],
    };
    ensure!(seqs.len() == ids.len(), "{} events have {} numbers", ids.len(), seqs.len());
    Ok(ids.into_iter().zip(seqs).map(|(id, seq)| Acknowledged { id, seq }).collect())
}
