//! Many appenders on one stream: plain ones and exact ones, while the host is killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio::time::sleep;

use super::support::*;

const STREAM: &str = "work.node.1";

/// Numbers from 1 without a gap, and the number of each id.
async fn without_a_gap(door: &Door, count: usize) -> BTreeMap<String, u64> {
    let stored = door.stored(STREAM).await;
    let numbers: Vec<u64> = stored.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(numbers, (1..=count as u64).collect::<Vec<_>>());
    let by_id: BTreeMap<String, u64> = stored.into_iter().map(|(seq, id)| (id, seq)).collect();
    assert_eq!(by_id.len(), count, "each event is there once");
    by_id
}

/// Reads until it has so many events of the stream, and comes back with its cursor whenever the host goes.
async fn follow(door: Door, selector: &'static str, count: u64) -> usize {
    let (mut order, mut cursor, mut cuts) = (Order::default(), None::<String>, 0);
    loop {
        let Ok(mut reader) = door.try_subscribe(selector, cursor.as_deref()).await else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        loop {
            match reader.next().await {
                Heard::Event(event) => order.take(&event),
                // It says that it goes, or is just gone.
                Heard::Ended { code, detail } => assert_eq!(code, "PROVIDER.UNAVAILABLE", "{detail}"),
                Heard::Closed => break,
            }
            if order.of(STREAM) >= count {
                return cuts;
            }
        }
        (cursor, cuts) = (reader.cursor, cuts + 1);
    }
}

/// Acceptance 1, and 2 for a connection that is cut.
#[tokio::test(flavor = "multi_thread")]
async fn eight_writers_of_a_host_that_is_killed_again_and_again_leave_no_gap_use_no_number_twice_and_lose_nothing() {
    const WRITERS: usize = 8;
    const APPENDS: usize = 60;
    const KILLS: usize = 5;
    // The last two write three events at a time.
    let size = |writer: usize| if writer < 6 { 1 } else { 3 };
    let total: usize = (0..WRITERS).map(|writer| APPENDS * size(writer)).sum();
    let mut site = Site::start("").await;
    let followers: Vec<_> = ["stream:work.node.1", "prefix:work."]
        .map(|selector| tokio::spawn(follow(site.door.clone(), selector, total as u64)))
        .into();
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (door, acknowledged) = (site.door.clone(), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                let mut known = Vec::new();
                for append in 0..APPENDS {
                    let events = events(&format!("w{writer}-{append}"), size(writer), &format!("r{writer}"));
                    let seqs = door.append(STREAM, &events).await;
                    let ids = events.iter().map(|event| event["event_id"].as_str().unwrap().to_owned());
                    known.extend(ids.zip(seqs));
                    acknowledged.fetch_add(1, Ordering::AcqRel);
                }
                known
            })
        })
        .collect();
    for kill in 1..=KILLS {
        let wanted = WRITERS * APPENDS * kill / (KILLS + 1);
        until("enough is acknowledged", async || acknowledged.load(Ordering::Acquire) >= wanted).await;
        site.kill_and_revive().await;
    }
    let known = in_time("a writer", join_all(writers)).await;
    let stored = without_a_gap(&site.door, total).await;
    for known in known {
        let known = known.unwrap();
        for (id, seq) in &known {
            assert_eq!(stored.get(id), Some(seq), "{id} was acknowledged at this number");
        }
        assert!(known.is_sorted_by_key(|(_, seq)| *seq), "who appends after an answer gets a higher number");
    }
    for follower in followers {
        let cuts = in_time("a follower", follower).await.unwrap();
        assert!(cuts > 0, "it was cut off with its host");
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_exact_and_eight_plain_appenders_share_a_stream_without_a_gap() {
    const EXACT: usize = 6;
    const PLAIN: usize = 30;
    let site = Site::start("").await;
    let exact = (0..8).map(|appender| {
        let door = site.door.clone();
        tokio::spawn(async move {
            let mut known = Vec::new();
            while known.len() < EXACT {
                let (id, ends) = (format!("exact{appender}-{}", known.len()), door.last(STREAM).await);
                let body = json!({ "events": [event(&id, "r")], "expected_seq": ends });
                let reply = door.persist(STREAM, &body).await;
                if reply.status == 201 {
                    assert_eq!(numbers(&reply), [ends + 1], "it goes in behind what was expected, or not at all");
                    known.push((id, ends + 1));
                } else {
                    assert_eq!((reply.status, reply.code()), (409, Some("STREAM.EXPECTED_SEQ")), "{reply:?}");
                }
            }
            known
        })
    });
    let plain = (0..8).map(|appender| {
        let door = site.door.clone();
        tokio::spawn(async move {
            let mut known = Vec::new();
            for number in 0..PLAIN {
                let id = format!("plain{appender}-{number}");
                let reply = door.post(STREAM, &json!({ "events": [event(&id, "r")] })).await.unwrap();
                assert!(reply.is_ok(), "a plain append fails because of nobody: {reply:?}");
                if reply.status == 201 {
                    known.push((id, numbers(&reply)[0]));
                }
                // Somebody who never rests would leave the exact ones no place.
                sleep(Duration::from_millis(5)).await;
            }
            known
        })
    });
    let tasks: Vec<_> = exact.chain(plain).collect();
    let known = in_time("an appender", join_all(tasks)).await;
    let count = 8 * (EXACT + PLAIN);
    until("all are numbered", async || site.door.last(STREAM).await == count as u64).await;
    let stored = without_a_gap(&site.door, count).await;
    for (id, seq) in known.into_iter().flat_map(Result::unwrap) {
        assert_eq!(stored.get(&id), Some(&seq), "{id}");
    }
    site.end().await;
}
