//! The comparison: it takes the host's word for nothing that pages, subscribers and the broker tell.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use waybill_testkit::nats::Stored;

use super::evidence::{Evidence, Subscribed};
use super::readers::Place;
use crate::demo::evidence::Check;

/// What a subscriber that lagged is told, word for word.
pub const LAGGED: &str = "watch lagged; resync required";

/// All checks, in the order in which they are shown.
pub fn check(events: u64, evidence: &Evidence) -> Vec<Check> {
    let stored: Vec<_> = evidence.stored.iter().map(|message| (message, Relayed::read(message))).collect();
    vec![
        Check {
            rule: "every acknowledged event is in its stream once, numbered 1, 2, 3 and so on as its node appended",
            breaches: pages(events, evidence),
        },
        Check {
            rule: "every subscriber has each event of its streams once, in order, without a gap",
            breaches: evidence.subscribed.iter().flat_map(|reader| whole(reader, evidence)).collect(),
        },
        Check {
            rule: "every slowed subscriber lagged, was told so word for word, and went on",
            breaches: evidence.subscribed.iter().filter_map(lagged).collect(),
        },
        Check {
            rule: "every event is in NATS as it is in its stream, and nothing else is",
            breaches: at_broker(&stored, evidence),
        },
        Check {
            rule: "NATS has the events of each task first in the order of their numbers",
            breaches: in_order(&stored),
        },
        Check {
            rule: "there are no dead letters, and nothing went before the relay had it",
            breaches: [("dead letters", evidence.dead as u64), ("overtaken events", evidence.overtaken)]
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(what, count)| format!("{count} {what}"))
                .collect(),
        },
    ]
}

fn pages(events: u64, evidence: &Evidence) -> Vec<String> {
    let mut breaches = Vec::new();
    if evidence.events() as u64 != events {
        breaches.push(format!("{} events were acknowledged, {events} were to be", evidence.events()));
    }
    for (stream, appended) in &evidence.appended {
        let page = evidence.pages.get(stream).map(Vec::as_slice).unwrap_or_default();
        for (number, event) in (1..).zip(appended) {
            if event.seq.is_some_and(|seq| seq != number) {
                breaches
                    .push(format!("{} is event {number} of its node, and was answered with {:?}", event.id, event.seq));
            }
        }
        let expected = (1..).zip(appended).map(|(seq, event)| (seq, event.id.as_str()));
        let found = page.iter().map(|place| (place.seq, place.id.as_str()));
        breaches.extend(difference(stream, expected, found));
    }
    breaches
}

/// Where two lists part, if they do.
fn difference<'e>(
    stream: &str,
    mut expected: impl Iterator<Item = (u64, &'e str)>,
    mut found: impl Iterator<Item = (u64, &'e str)>,
) -> Option<String> {
    loop {
        match (expected.next(), found.next()) {
            (None, None) => return None,
            (expected, found) if expected == found => {}
            (expected, found) => return Some(format!("{stream}: {expected:?} should come, and {found:?} does")),
        }
    }
}

fn whole(reader: &Subscribed, evidence: &Evidence) -> Vec<String> {
    let mut by_stream: BTreeMap<&str, Vec<&Place>> =
        reader.streams.iter().map(|name| (name.as_str(), Vec::new())).collect();
    let mut breaches = Vec::new();
    for place in &reader.account.read {
        match by_stream.get_mut(place.stream.as_str()) {
            Some(places) => places.push(place),
            None => breaches.push(format!("{}: {} of {} isn't for it", reader.name, place.id, place.stream)),
        }
    }
    for (stream, places) in by_stream {
        let appended = evidence.appended.get(stream).map(Vec::as_slice).unwrap_or_default();
        let expected = (1..).zip(appended).map(|(seq, event)| (seq, event.id.as_str()));
        let found = places.into_iter().map(|place| (place.seq, place.id.as_str()));
        breaches.extend(difference(stream, expected, found).map(|how| format!("{}: {how}", reader.name)));
    }
    breaches
}

fn lagged(reader: &Subscribed) -> Option<String> {
    let told = &reader.account.lagged;
    match told.iter().find(|told| *told != LAGGED) {
        Some(other) => Some(format!("{} was told {other:?}", reader.name)),
        None if reader.is_slow && told.is_empty() => Some(format!("{} never lagged", reader.name)),
        None => None,
    }
}

/// An event as its message's body tells it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Relayed {
    #[serde(flatten)]
    place: Place,
    resource_id: String,
}

impl Relayed {
    /// If headers and subject say the same.
    fn read(message: &Stored) -> Option<Self> {
        let relayed: Self = serde_json::from_slice(&message.payload).ok()?;
        let Place { stream, seq, id } = &relayed.place;
        let number = seq.to_string();
        let told = [("event_id", id), ("stream", stream), ("seq", &number), ("resource_id", &relayed.resource_id)];
        let agrees = told.into_iter().all(|(name, value)| message.header(name) == Some(value.as_str()));
        (agrees && message.subject == format!("events.{stream}")).then_some(relayed)
    }
}

fn at_broker(stored: &[(&Stored, Option<Relayed>)], evidence: &Evidence) -> Vec<String> {
    let places = evidence.pages.values().flatten();
    let mut missing: BTreeSet<(&str, u64, &str)> =
        places.map(|place| (place.stream.as_str(), place.seq, place.id.as_str())).collect();
    let all = missing.clone();
    let mut breaches = Vec::new();
    for (message, relayed) in stored {
        let Some(Relayed { place, .. }) = relayed else {
            breaches.push(format!("message {} isn't an event, or its headers say something else", message.sequence));
            continue;
        };
        let key = (place.stream.as_str(), place.seq, place.id.as_str());
        if all.contains(&key) {
            missing.remove(&key);
        } else {
            breaches.push(format!("message {} is {key:?}, which is in no stream", message.sequence));
        }
    }
    breaches.extend(missing.into_iter().map(|(stream, seq, id)| format!("{seq} of {stream} ({id}) isn't there")));
    breaches
}

/// First arrivals of each resource of a stream come by number; a repeat may come at any time.
fn in_order(stored: &[(&Stored, Option<Relayed>)]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut latest: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut breaches = Vec::new();
    for Relayed { place, resource_id } in stored.iter().filter_map(|(_, relayed)| relayed.as_ref()) {
        if !seen.insert((place.stream.as_str(), place.seq)) {
            continue;
        }
        let before = latest.insert((place.stream.as_str(), resource_id.as_str()), place.seq).unwrap_or_default();
        if place.seq < before {
            breaches.push(format!("{resource_id}: {} came after {before} of {}", place.seq, place.stream));
        }
    }
    breaches
}
