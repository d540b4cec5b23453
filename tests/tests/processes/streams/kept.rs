//! What retention and compaction leave, and who is told of what is gone.

use std::time::Duration;
use waybill_core::seq_json::SeqJson;

use serde_json::{Value, json};
use tokio::time::sleep;
use waybill_testkit::grpc_subscriber::{After, Call};

use super::grpc::{listed, out_of_range};
use super::support::*;

/// Largest chunk that merging makes of appends of ten.
const CHUNK: u64 = 160;

async fn kept(door: &Door, stream: &str) -> (u64, u64) {
    let shown = door.stream(stream).await;
    (SeqJson::in_value(&shown["first_seq"]).unwrap(), SeqJson::in_value(&shown["last_seq"]).unwrap())
}

/// A cursor before what is kept is refused, at a page and at a subscription; without one the rest is there.
async fn expired(door: &Door, stream: &str, cursor: &str) {
    let page = door.page(stream, &[("after", cursor)]).await;
    assert_eq!((page.status, page.code()), (410, Some("EVENT.CURSOR_EXPIRED")), "{page:?}");
    let refused = door.try_subscribe(&format!("stream:{stream}"), Some(cursor)).await.err().flatten().unwrap();
    assert_eq!((refused.status, refused.code()), (410, Some("EVENT.CURSOR_EXPIRED")), "{refused:?}");
    let after = After::Token(cursor);
    for call in [Call::list(stream, after, 1), Call::subscribe(&format!("stream:{stream}"), after)] {
        out_of_range(door, &call, "EVENT.CURSOR_EXPIRED").await;
    }
}

/// Acceptance 6 of document 3: retention.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_kept_by_count_by_age_and_by_bytes_and_an_expired_cursor_is_the_named_error() {
    let site = Site::start(
        "[[stream]]\nmatch = \"count.**\"\nkeep_count = 100\n[[stream]]\nmatch = \"age.**\"\nkeep_age = \"3s\"\n\
         [[stream]]\nmatch = \"bytes.**\"\nkeep_bytes = \"20KiB\"\n",
    )
    .await;
    let door = &site.door;
    for append in 0..50 {
        door.append("count.a", &events(&format!("a{append}"), 10, "r")).await;
        let (first, last) = kept(door, "count.a").await;
        assert!(last + 1 - first >= last.min(100), "{first}..{last}: what has to be kept is");
        door.append("other", &[event(&format!("other-{append}"), "r")]).await;
    }
    until("what is over the count is gone", async || {
        let (first, last) = kept(door, "count.a").await;
        last + 1 - first <= 100 + CHUNK
    })
    .await;
    let (first, last) = kept(door, "count.a").await;
    assert!(last == 500 && last + 1 - first >= 100, "{first}..{last}");
    expired(door, "count.a", "0").await;
    let stored = door.stored("count.a").await;
    assert_eq!(stored.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), (first..=500).collect::<Vec<_>>());
    let mut reader = door.subscribe("stream:count.a", None).await;
    assert_eq!(
        SeqJson::in_value(&reader.event().await["seq"]),
        Some(first),
        "without a cursor it begins with what is kept"
    );

    door.append("age.a", &events("old", 3, "r")).await;
    until("the old ones are gone", async || kept(door, "age.a").await == (4, 3)).await;
    assert_eq!(door.append("age.a", &events("young", 1, "r")).await, [4], "numbers go on");
    expired(door, "age.a", "1").await;

    const PAYLOAD: usize = 1_800;
    for number in 0..60 {
        let mut event = event(&format!("large-{number}"), "r");
        event["payload_bytes"] = payload(PAYLOAD);
        door.append("bytes.a", &[event]).await;
    }
    until("what is over the bytes is gone", async || kept(door, "bytes.a").await.0 > 1).await;
    let (first, last) = kept(door, "bytes.a").await;
    assert!((last + 1 - first) as usize * (PAYLOAD + 200) >= 20 << 10, "{first}..{last}: the limit is kept");
    expired(door, "bytes.a", "0").await;
    assert_eq!(kept(door, "other").await, (1, 50), "nothing is taken of a stream that has no limit");
    site.end().await;
}

fn changed(id: &str, resource: &str, op: &str) -> Value {
    let mut event = event(id, resource);
    event["op"] = op.into();
    event
}

/// Acceptance 6 of document 3: compaction.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_keeps_the_latest_of_each_resource_and_tells_who_missed_a_delete() {
    let mut site = Site::start(
        "[events]\ntombstone_keep = \"1s\"\n[[stream]]\nmatch = \"state.**\"\ncompact = true\ncompact_lag = \"1s\"\n",
    )
    .await;
    let door = site.door.clone();
    // It is there from the beginning, so it has everything.
    let mut before = door.subscribe("stream:state.node", None).await;
    for round in 0..5 {
        let both = [changed(&format!("a-{round}"), "a", "UPSERT"), changed(&format!("b-{round}"), "b", "UPSERT")];
        door.append("state.node", &both).await;
    }
    door.append("state.node", &[changed("c-0", "c", "CREATE"), changed("c-1", "c", "DELETE")]).await;
    door.append("state.node", &[changed("d-0", "d", "CREATE")]).await;
    before.events(13).await;
    // Older than the lag and than what a delete is kept for; a host that begins looks at the stream when it is appended to.
    sleep(Duration::from_millis(2_500)).await;
    site.restart().await;
    door.append("state.node", &[changed("e-0", "e", "CREATE")]).await;
    let ids = async || door.stored("state.node").await.into_iter().map(|(_, id)| id).collect::<Vec<_>>();
    until("only the latest are left", async || ids().await == ["a-4", "b-4", "d-0", "e-0"]).await;
    // Who had everything goes on; who stands before the delete that was dropped would keep a resource that is gone.
    let mut on = door.subscribe("stream:state.node", before.cursor.as_deref()).await;
    assert_eq!(on.event().await["event_id"], "e-0");
    expired(&door, "state.node", "11").await;
    // Whoever pages through it began after that, and says so by the token of each page.
    assert_eq!(in_time("paging", listed(&door, "state.node")).await, ["a-4", "b-4", "d-0", "e-0"]);
    let fresh = door.subscribe("stream:state.node", None).await.events(4).await;
    assert_eq!(fresh.iter().map(|event| &event["event_id"]).collect::<Vec<_>>(), ["a-4", "b-4", "d-0", "e-0"]);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purged_and_a_deleted_stream_never_give_a_number_twice() {
    let site = Site::start("").await;
    let door = &site.door;
    for append in 0..4 {
        door.append("purged", &events(&format!("a{append}"), 5, "r")).await;
    }
    let path = "/v1/streams/purged/purge";
    let plan = door.api().post(path, &json!({ "before": 11, "dry_run": true, "reason": "test" })).await.unwrap();
    assert!(plan.is_ok() && plan.body["dry_run"] == true, "{plan:?}");
    assert_eq!(kept(door, "purged").await, (1, 20), "it was a plan");
    let done = door.api().post(path, &json!({ "before": 11, "reason": "test" })).await.unwrap();
    assert_eq!((&done.body["events"], &done.body["first_seq"]), (&plan.body["events"], &plan.body["first_seq"]));
    let first = kept(door, "purged").await.0;
    assert!((2..=11).contains(&first), "{first}: whole chunks, and none of 11 and up");
    expired(door, "purged", "0").await;
    let url = format!("{}/v1/streams/purged?reason=test", door.api().base());
    let deleted = reqwest::Client::new().delete(url).send().await.unwrap();
    assert_eq!(deleted.status().as_u16(), 200);
    assert_eq!(kept(door, "purged").await, (21, 20));
    assert_eq!(door.append("purged", &events("again", 1, "r")).await, [21]);
    let audit: Value = door.api().read("/v1/audit", &[]).await.unwrap();
    for act in ["StreamPurged", "StreamDeleted"] {
        assert!(audit.to_string().contains(act), "{act}: {audit}");
    }
    site.end().await;
}
