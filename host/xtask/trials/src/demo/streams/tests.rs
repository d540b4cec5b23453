//! The demo's own checks against evidence made by hand, and its configuration.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use waybill_testkit::nats::Stored;

use super::checks::{LAGGED, check};
use super::evidence::{Evidence, Subscribed};
use super::fleet::Acknowledged;
use super::readers::{Account, Place};
use super::stage::Victim;
use super::*;

const EVENTS: u64 = 6;

fn place(stream: &str, seq: u64) -> Place {
    Place { stream: stream.into(), seq, id: format!("{stream}-{seq}") }
}

fn message(sequence: u64, place: &Place, task: &str) -> Stored {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let Place { stream, seq, id } = place;
    Stored {
        sequence,
        subject: format!("events.{stream}"),
        headers: vec![
            header("event_id", id),
            header("stream", stream),
            header("seq", &seq.to_string()),
            header("resource_id", task),
        ],
        payload: json!({ "event_id": id, "stream": stream, "seq": seq.to_string(), "resource_id": task })
            .to_string()
            .into(),
    }
}

fn subscribed(name: &'static str, streams: &[&str], is_slow: bool) -> Subscribed {
    let read = (1..=3).flat_map(|seq| streams.iter().map(move |stream| place(stream, seq))).collect();
    let lagged = is_slow.then(|| LAGGED.to_owned()).into_iter().collect();
    let streams: BTreeSet<String> = streams.iter().map(ToString::to_string).collect();
    Subscribed { name, streams, is_slow, account: Account { read, lagged, resumed: 1 } }
}

/// Two streams of three events; one of them wasn't numbered yet when it was acknowledged, and one came to the broker twice.
fn clean() -> Evidence {
    let mut evidence = Evidence { kills: vec![Victim::Host, Victim::Broker], ..Evidence::default() };
    for stream in ["a", "b"] {
        let places: Vec<Place> = (1..=3).map(|seq| place(stream, seq)).collect();
        let told = places.iter().map(|place| Acknowledged { id: place.id.clone(), seq: Some(place.seq) });
        evidence.appended.insert(stream.into(), told.collect());
        for place in &places {
            let task = format!("{stream}-{}", place.seq % 2);
            evidence.stored.push(message(evidence.stored.len() as u64 + 1, place, &task));
        }
        evidence.pages.insert(stream.into(), places);
    }
    evidence.appended.get_mut("b").unwrap()[1].seq = None;
    let again = evidence.stored[0].clone();
    evidence.stored.push(again);
    evidence.subscribed = vec![subscribed("all", &["a", "b"], true), subscribed("one", &["b"], false)];
    evidence
}

#[test]
fn a_clean_run_passes_and_is_counted() {
    let outcome = outcome(EVENTS, &clean(), Duration::from_secs(60));
    assert!(outcome.passed(), "{outcome}");
    let text = outcome.to_string();
    assert!(text.contains("6 to 2 streams") && text.contains("7, of which 1 repeats"), "{text}");
}

#[test]
fn every_check_is_seen_to_fail() {
    type Change = fn(&mut Evidence);
    let changes: [(usize, Change); 21] = [
        (0, |evidence| drop(evidence.appended.remove("a"))),
        (0, |evidence| drop(evidence.pages.remove("a"))),
        (0, |evidence| evidence.pages.get_mut("a").unwrap()[1].seq = 3),
        (0, |evidence| evidence.pages.get_mut("a").unwrap().push(place("a", 4))),
        (0, |evidence| evidence.pages.get_mut("a").unwrap().swap(0, 1)),
        (0, |evidence| evidence.appended.get_mut("a").unwrap()[2].seq = Some(4)),
        (1, |evidence| drop(evidence.subscribed[0].account.read.pop())),
        (1, |evidence| drop(evidence.subscribed[1].account.read.remove(0))),
        (1, |evidence| evidence.subscribed[1].account.read.swap(0, 1)),
        (1, |evidence| evidence.subscribed[1].account.read.push(place("b", 3))),
        (1, |evidence| evidence.subscribed[1].account.read.push(place("a", 1))),
        (2, |evidence| evidence.subscribed[0].account.lagged.clear()),
        (2, |evidence| evidence.subscribed[1].account.lagged.push("lagged".into())),
        (3, |evidence| drop(evidence.stored.remove(1))),
        (3, |evidence| evidence.stored[1].payload = b"{}".to_vec()),
        (3, |evidence| evidence.stored[1].headers[2].1 = "7".into()),
        (3, |evidence| evidence.stored[1].subject = "events.b".into()),
        (3, |evidence| evidence.stored.push(message(9, &place("c", 1), "c"))),
        (4, |evidence| evidence.stored.swap(0, 2)),
        (5, |evidence| evidence.dead = 1),
        (5, |evidence| evidence.overtaken = 1),
    ];
    for (number, (which, change)) in changes.into_iter().enumerate() {
        let mut evidence = clean();
        change(&mut evidence);
        let checks = check(EVENTS, &evidence);
        assert!(!checks[which].breaches.is_empty(), "change {number} isn't seen: {checks:?}");
    }
}

#[test]
fn every_selector_is_read_and_what_takes_everything_is_slowed() {
    let nodes = Node::all(4);
    let readers = readers::Reader::all(&nodes);
    let kinds: BTreeSet<&str> = readers.iter().filter_map(|reader| reader.selector().split(':').next()).collect();
    assert_eq!(kinds, BTreeSet::from(["node", "prefix", "stream", "type"]));
    assert_eq!(readers.iter().filter(|reader| reader.is_slow).count(), 2);
    assert!(readers.iter().filter(|reader| reader.is_slow).all(|reader| reader.streams.len() == 4));
}

#[test]
fn the_configuration_quotes_its_paths_and_names_the_server_twice() {
    let text = config(Path::new("/tmp/a \"b\""), "nats://127.0.0.1:4");
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["store"]["url"].as_str(), Some("surrealkv:///tmp/a \"b\"/data"));
    assert_eq!(table["transport"]["nats"]["allow"]["net"][0].as_str(), Some("tcp://127.0.0.1:4"));
    assert_eq!(table["relay"][RELAY]["transport"].as_str(), Some("nats"));
}
