//! From replay to live beside writers at full speed, through connections that are cut, and over a restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use serde_json::json;
use tokio::sync::Semaphore;

use super::support::*;

const ALPHA: &str = "seam.alpha";
const BETA: &str = "seam.beta";
/// All of them have the first stream in them, by which a subscription knows that it is past what was stored when it began.
const SELECTORS: [&str; 4] = ["stream:seam.alpha", "stream:seam.beta,seam.alpha", "prefix:seam.", "type:TASK/r"];
const SUBSCRIPTIONS: usize = 100;
/// Subscriptions that are open at once.
const AT_ONCE: usize = 8;
/// So many events after it began a subscription is cut, and after that it is over.
const BEYOND: u64 = 40;

/// Where the last subscription of a selector was.
type Places = Arc<std::sync::Mutex<BTreeMap<&'static str, (String, Order)>>>;

async fn subscribe_twice(door: Door, number: usize, places: Places) {
    let selector = SELECTORS[number % SELECTORS.len()];
    // Some go through all there is, others go on where another one was: little is stored behind that, so they meet the seam at once.
    let begins_anew = number % 10 < SELECTORS.len() && number < 40;
    let before = places.lock().unwrap().get(selector).cloned().filter(|_| !begins_anew);
    let (mut cursor, mut order) = before.map_or_else(Default::default, |(cursor, order)| (Some(cursor), order));
    for _ in 0..2 {
        let mut reader = door.subscribe(selector, cursor.as_deref()).await;
        let until = door.last(ALPHA).await + BEYOND;
        while order.of(ALPHA) < until {
            order.take(&reader.event().await);
        }
        // Dropped in the middle of what comes.
        cursor = reader.cursor;
    }
    places.lock().unwrap().insert(selector, (cursor.unwrap(), order));
}

/// Acceptance 2 of document 3.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_subscriptions_beside_writers_at_full_speed_have_no_gap_and_no_repeat_at_the_seam() {
    let site = Site::start("[events]\nretention_per_stream = 1_000_000\n").await;
    for stream in [ALPHA, BETA] {
        site.door.append(stream, &events(stream, 500, "r0")).await;
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = [ALPHA, BETA, ALPHA]
        .into_iter()
        .enumerate()
        .map(|(writer, stream)| {
            let (door, is_over) = (site.door.clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut appends = 0;
                while !is_over.load(Ordering::Acquire) {
                    door.append(stream, &events(&format!("w{writer}-{appends}"), 3, &format!("r{writer}"))).await;
                    appends += 1;
                }
            })
        })
        .collect();
    let (places, turns) = (Places::default(), Arc::new(Semaphore::new(AT_ONCE)));
    let subscriptions: Vec<_> = (0..SUBSCRIPTIONS)
        .map(|number| {
            let (door, places, turns) = (site.door.clone(), Arc::clone(&places), Arc::clone(&turns));
            tokio::spawn(async move {
                let _turn = turns.acquire().await.unwrap();
                subscribe_twice(door, number, places).await;
            })
        })
        .collect();
    let ended = in_time("a subscription", join_all(subscriptions)).await;
    is_over.store(true, Ordering::Release);
    for ended in ended.into_iter().chain(in_time("a writer", join_all(writers)).await) {
        ended.unwrap();
    }
    assert_eq!(site.door.metric("tx_stream_lagged_total").await, 0.0, "who reads on isn't told that it lags");
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_goes_on_behind_a_restart_and_only_where_it_is_from() {
    let mut site = Site::start("").await;
    let door = site.door.clone();
    door.append("token.1", &events("first", 2, "r")).await;
    door.append("token.2", &events("second", 1, "r")).await;
    let mut cursors = Vec::new();
    for selector in ["prefix:token.", "type:TASK", "stream:token.1,token.2"] {
        let mut reader = door.subscribe(selector, None).await;
        let mut order = Order::default();
        for event in reader.events(3).await {
            order.take(&event);
        }
        cursors.push((selector, reader.cursor.unwrap(), order));
    }
    door.append("token.1", &events("between", 1, "r")).await;
    site.restart().await;
    door.append("token.2", &events("after", 2, "r")).await;
    for (selector, cursor, mut order) in cursors {
        let mut reader = door.subscribe(selector, Some(&cursor)).await;
        for event in reader.events(3).await {
            order.take(&event);
        }
        assert_eq!((order.of("token.1"), order.of("token.2")), (3, 3), "{selector}");
        // Of another selector it says nothing.
        let refused = door.try_subscribe("prefix:tok", Some(&cursor)).await.err().flatten().unwrap();
        assert_eq!((refused.status, refused.code()), (400, Some("EVENT.CURSOR")), "{selector}");
    }
    let other = json!({ "events": events("other", 1, "r"), "tenant": "other" });
    assert_eq!(door.persist("token.1", &other).await.status, 201);
    let query = [("selector", "prefix:token."), ("tenant", "other"), ("cursor", "")];
    let mut reader = door.subscribe("prefix:token.", None).await;
    reader.events(1).await;
    let cursor = reader.cursor.unwrap();
    let query = query.map(|(name, value)| (name, if name == "cursor" { cursor.as_str() } else { value }));
    let refused = door.api().get("/v1/subscribe", &query).await.unwrap();
    assert_eq!(refused.code(), Some("EVENT.CURSOR"), "a token is of its tenant");
    let ahead = door.try_subscribe("stream:token.1", Some("99")).await.err().flatten().unwrap();
    assert_eq!((ahead.status, ahead.code()), (409, Some("EVENT.CURSOR_AHEAD")));
    site.end().await;
}
