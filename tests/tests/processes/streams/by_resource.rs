//! Reads of one resource, on a disk: while its index is made, after kills, and when a purge took what it named.

use std::collections::BTreeMap;
use waybill_core::seq_json::SeqJson;

use serde_json::{Value, json};

use super::support::*;

const RESOURCES: [&str; 4] = ["r-1", "r-17", "r/2", "ü"];
/// Events of one append: their chunk is merged no more, and so it is indexed.
const APPENDED: usize = 64;
const APPENDS: usize = 12;

/// Numbers and ids of all events of a resource, page by page.
async fn read(door: &Door, resource: &str) -> Vec<(u64, String)> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut query = vec![("resource_type", "TASK"), ("resource_id", resource), ("limit", "100")];
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page = door.api().get("/v1/events", &query).await.unwrap();
        assert!(page.is_ok(), "{page:?}");
        let items = page.body["items"].as_array().unwrap().iter();
        all.extend(
            items.map(|item| (SeqJson::in_value(&item["seq"]).unwrap(), item["event_id"].as_str().unwrap().to_owned())),
        );
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return all,
        }
    }
}

/// What was appended about each resource.
type Given = BTreeMap<&'static str, Vec<(u64, String)>>;

async fn check(door: &Door, given: &Given) {
    for (resource, events) in given {
        let found = read(door, resource).await;
        assert!(found == *events, "{resource}: {} of {}", found.len(), events.len());
    }
    assert!(read(door, "r-").await.is_empty(), "they begin with it and aren't it");
}

async fn append(door: &Door, round: usize, given: &mut Given) {
    for append in 0..APPENDS {
        let about = |number: usize| RESOURCES[(append + number) % RESOURCES.len()];
        let id = |number: usize| format!("e-{round}-{append}-{number}");
        let events: Vec<Value> = (0..APPENDED).map(|number| event(&id(number), about(number))).collect();
        for (number, seq) in door.append("task.one", &events).await.into_iter().enumerate() {
            given.entry(about(number)).or_default().push((seq, id(number)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_read_whole_while_its_index_is_made_and_after_kills_and_without_what_was_purged() {
    let mut site = Site::start("").await;
    let mut given = Given::new();
    for round in 0..3 {
        append(&site.door, round, &mut given).await;
        check(&site.door, &given).await;
        site.kill_and_revive().await;
        check(&site.door, &given).await;
    }
    let before = (APPENDS * APPENDED) as u64;
    let purge = json!({ "before": before, "reason": "half of it" });
    let purged = site.door.api().post("/v1/streams/task.one/purge", &purge).await.unwrap();
    assert!(purged.is_ok(), "{purged:?}");
    let first = SeqJson::in_value(&site.door.stream("task.one").await["first_seq"]).unwrap();
    assert!(first > 1 && first <= before, "{first}");
    given.values_mut().for_each(|events| events.retain(|(seq, _)| *seq >= first));
    check(&site.door, &given).await;
    site.restart().await;
    check(&site.door, &given).await;
    site.end().await;
}
