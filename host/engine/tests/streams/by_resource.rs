//! Reads of one resource: by the index as far as that goes, and everything behind it.

use waybill_core::streams::reading::Selector;

use crate::support::*;

/// Events of one append: their chunk is sealed as it is.
const APPENDED: usize = 64;
const RESOURCES: usize = 7;

/// Ids of all events of a resource, page by page.
async fn of_resource(host: &Host, resource: &str) -> Vec<String> {
    let selector = Selector::OneResource { resource_type: "TASK".into(), resource_id: resource.into() };
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let page = host.streams.read_many(&tenant(), &selector, cursor.as_deref(), 50).await.unwrap();
        ids.extend(page.events.iter().map(|piece| shown(piece).2));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return ids;
        }
    }
}

/// Appends to two streams, in turns from one number to another; what `r3` then has in both.
async fn append(host: &Host, turns: std::ops::Range<usize>) -> Vec<String> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for turn in turns {
        let ids: Vec<String> = (0..APPENDED)
            .map(|number| turn * APPENDED + number)
            .map(|number| format!("r{}-{number}", number % RESOURCES))
            .collect();
        host.append("task.1", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        host.append("task.2", &[&format!("r3-second{turn}")]).await;
        first.extend(ids.into_iter().filter(|id| id.starts_with("r3-")));
        second.push(format!("r3-second{turn}"));
        pass(millis(50)).await;
    }
    first.into_iter().chain(second).collect()
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

#[tokio::test(start_paused = true)]
async fn a_read_by_resource_is_whole_while_its_index_is_behind_and_after_a_crash() {
    let world = World::new();
    let indexed = || world.memory.read(|tables| tables.streams.rest(&key("task.1")).indexed);
    let host = world.start().await;
    let few = append(&host, 0..3).await;
    assert_eq!((of_resource(&host, "r3").await, indexed()), (few.clone(), 0), "there is no index yet");
    let more = append(&host, 3..40).await;
    eventually("there is an index", async || indexed() > 0).await;
    let had = indexed();
    let all = sorted(few.into_iter().chain(more).collect());
    assert_eq!(sorted(of_resource(&host, "r3").await), all);
    host.crash().await;
    // The one that takes over goes on where that one was.
    let host = world.start().await;
    assert_eq!(sorted(of_resource(&host, "r3").await), all);
    let rest = append(&host, 40..80).await;
    eventually("the index goes on", async || indexed() > had).await;
    let all = sorted(all.into_iter().chain(rest).collect());
    assert_eq!(sorted(of_resource(&host, "r3").await), all);
    assert_eq!(of_resource(&host, "r").await, [""; 0], "r3 begins with it and isn't it");
}
