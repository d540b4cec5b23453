//! What each selector gives, compared with a filter that knows nothing of streams.

use std::collections::BTreeSet;
use waybill_core::seq_json::SeqJson;

use serde_json::Value;

use super::support::*;

const NODES: [&str; 3] = [
    "0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e6f",
    "0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e70",
    "7f000000-0000-4000-8000-000000000001",
];
const TYPES: [&str; 3] = ["TASK", "EXECUTION", "NODE"];
const IDS: [&str; 6] = ["t-1", "t-17", "t-2", "e/1", "e/12", "T-1"];
const SEEDS: u64 = 3;
const EVENTS: usize = 150;

/// The same choices in every run.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// What was appended, as the filters see it.
struct Given {
    id: String,
    stream: String,
    resource_type: &'static str,
    resource_id: &'static str,
    node: Option<&'static str>,
}

fn streams() -> Vec<String> {
    let of_nodes = NODES.iter().flat_map(|node| [format!("task.node.{node}"), format!("execution.node.{node}")]);
    of_nodes.chain(["task.other", "task.nodes", "plain", "p/lain"].map(str::to_owned)).collect()
}

async fn append(door: &Door, choices: &mut Choices, beginning: &str) -> Vec<Given> {
    let (streams, mut all) = (streams(), Vec::new());
    for number in 0..EVENTS {
        let given = Given {
            id: format!("{beginning}-{number}"),
            stream: streams[choices.below(streams.len())].clone(),
            resource_type: choices.one_of(&TYPES),
            resource_id: choices.one_of(&IDS),
            node: [None, None, Some(choices.one_of(&NODES))][choices.below(3)],
        };
        let mut event = event(&given.id, given.resource_id);
        event["resource_type"] = given.resource_type.into();
        if let Some(node) = given.node {
            event["node_uuid"] = node.into();
        }
        door.append(&given.stream.replace('/', "%2F"), &[event]).await;
        all.push(given);
    }
    all
}

/// The node that an event belongs to: its own, else that of a stream that is named after one.
fn node_of(given: &Given) -> Option<&str> {
    let named = given.stream.rsplit_once(".node.").map(|(_, node)| node);
    given.node.or(named.filter(|node| NODES.contains(node)))
}

type Filter = Box<dyn Fn(&Given) -> bool>;

fn selectors() -> Vec<(String, Filter)> {
    let mut all: Vec<(String, Filter)> = Vec::new();
    for stream in streams() {
        let own = stream.clone();
        all.push((format!("stream:{stream}"), Box::new(move |given: &Given| given.stream == own)));
    }
    all.push((
        "stream:plain,task.other".into(),
        Box::new(|given: &Given| ["plain", "task.other"].contains(&&*given.stream)),
    ));
    for prefix in ["task.node.", "task.node", "task.", "p", "execution.node.0190"] {
        all.push((format!("prefix:{prefix}"), Box::new(move |given: &Given| given.stream.starts_with(prefix))));
    }
    for node in NODES {
        all.push((format!("node:{node}"), Box::new(move |given: &Given| node_of(given) == Some(node))));
    }
    for kind in TYPES {
        all.push((format!("type:{kind}"), Box::new(move |given: &Given| given.resource_type == kind)));
        for beginning in ["t-1", "e/", "T", "t-"] {
            let filter = move |given: &Given| given.resource_type == kind && given.resource_id.starts_with(beginning);
            all.push((format!("type:{kind}/{beginning}"), Box::new(filter)));
        }
    }
    all
}

/// Ids in the order in which they come, each once, and each stream in the order of its numbers.
fn ids(selector: &str, events: &[Value]) -> BTreeSet<String> {
    let mut last = std::collections::BTreeMap::new();
    for event in events {
        let seq = SeqJson::in_value(&event["seq"]).unwrap();
        let before = last.insert(event["stream"].as_str().unwrap(), seq).unwrap_or_default();
        assert!(seq > before, "{selector}: {event}");
    }
    let ids: BTreeSet<_> = events.iter().map(|event| event["event_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), events.len(), "{selector}: none twice");
    ids
}

/// Acceptance 5 of document 3.
#[tokio::test(flavor = "multi_thread")]
async fn each_selector_gives_what_a_filter_over_all_events_gives_stored_and_live() {
    for seed in 1..=SEEDS {
        let site = Site::start("").await;
        let (door, mut choices) = (&site.door, Choices(seed));
        let stored = append(door, &mut choices, "stored").await;
        let mut readers = Vec::new();
        for (selector, filter) in selectors() {
            let wanted: BTreeSet<_> =
                stored.iter().filter(|given| filter(given)).map(|given| given.id.clone()).collect();
            let mut reader = door.subscribe(&selector, None).await;
            let events = reader.events(wanted.len()).await;
            assert_eq!(ids(&selector, &events), wanted, "seed {seed}: {selector}");
            readers.push((selector, filter, reader, events));
        }
        // What a selector took too much of before would come first now.
        let live = append(door, &mut choices, "live").await;
        for (selector, filter, mut reader, mut events) in readers {
            let wanted: BTreeSet<_> =
                stored.iter().chain(&live).filter(|given| filter(given)).map(|given| given.id.clone()).collect();
            events.extend(reader.events(wanted.len() - events.len()).await);
            assert_eq!(ids(&selector, &events), wanted, "seed {seed}: {selector}");
        }
        site.end().await;
    }
}
