//! Events whose payloads lie beside their chunks, on a disk.

use serde_json::{Value, json};

use super::support::*;

/// Of each payload: those above 64 KiB lie apart.
const SIZES: [usize; 5] = [70_000, 10, 500_000, 65_537, 200_000];

fn sized(number: usize) -> Value {
    let mut event = event(&format!("e-{number}"), "r");
    event["payload_bytes"] = payload(SIZES[number]);
    event
}

fn shown(event: &Value) -> (Value, Value) {
    (event["event_id"].clone(), event["payload_bytes"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_outlive_a_kill_and_come_back_byte_for_byte() {
    let mut site =
        Site::start("[events]\nmax_payload_bytes = \"512KiB\"\n[[stream]]\nmatch = \"**\"\nkeep_count = 5\n").await;
    let expected: Vec<_> = (0..SIZES.len()).map(|number| shown(&sized(number))).collect();
    let door = &site.door;
    assert_eq!(door.append("large.a", &[sized(0), sized(1)]).await, [1, 2]);
    let exact = json!({ "events": [sized(2)], "expected_seq": 2 });
    assert_eq!(numbers(&in_time("an append", door.persist("large.a", &exact)).await), [3]);
    assert_eq!(door.append("large.a", &[sized(3), sized(4)]).await, [4, 5]);
    site.kill_and_revive().await;
    let door = &site.door;
    let (mut items, mut after) = (Vec::new(), None::<String>);
    while items.len() < SIZES.len() {
        let mut query = vec![("limit", "1000")];
        query.extend(after.as_deref().map(|after| ("after", after)));
        let page = door.page("large.a", &query).await;
        assert!(page.is_ok(), "{page:?}");
        items.extend(page.body["items"].as_array().unwrap().iter().map(shown));
        after = Some(page.body["next_after"].as_str().unwrap().to_owned());
    }
    assert!(items == expected, "pages");
    for selector in ["stream:large.a", "prefix:large."] {
        let mut reader = door.subscribe(selector, None).await;
        for expected in &expected {
            assert!(shown(&reader.event().await) == *expected, "{selector}");
        }
    }
    // What retention takes, takes its payload along: the stream goes on with what is left.
    door.append("large.a", &events("small", 5, "r")).await;
    until("the large ones are gone", async || door.stream("large.a").await["first_seq"] == "6").await;
    assert_eq!(door.stored("large.a").await.len(), 5);
    site.end().await;
}
