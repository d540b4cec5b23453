//! The seen set and the history of the inbox.

use std::time::Duration;

use waybill_core::ids::ShardId;
use waybill_core::inbox::fingerprint::{ContentCheck, HashSecret};
use waybill_core::inbox::records::InboxEnd;
use waybill_core::inbox::seen::{OwnedAge, SeenPlace, SeenQuery};
use waybill_core::port::inbox_store::SeenHit;
use waybill_core::time::UnixMillis;

use super::InboxPorts as Store;
use super::inbox_samples::{Writer, consumer, done, inbound_id, mark, query};
use super::samples::{SHARD, T0};

/// One id of each form: a time at [`T0`], a counter, neither.
const IDS: [&str; 3] = ["1800000000000-5", "outbox-65537", "0f8fad5b-d9cb-469f-a165-708677289501"];

async fn ages(store: &impl Store, shard: ShardId, name: &str, ids: &[&str]) -> Vec<Option<u64>> {
    let queries: Vec<SeenQuery> = ids.iter().map(|id| query(name, id)).collect();
    let found = store.inbox_seen(shard, &queries).await.unwrap();
    found.into_iter().map(|hit| hit.map(|hit| hit.age.0)).collect()
}

pub async fn what_was_seen_is_found_whatever_its_form(store: &impl Store) {
    let mut writer = Writer::new();
    writer
        .commit(store, |commit| {
            commit.record.age = OwnedAge(500);
            commit.seen = IDS.iter().map(|id| mark("ship", id, 7)).collect();
        })
        .await;
    assert_eq!(ages(store, SHARD, "ship", &IDS).await, [Some(500); 3]);
    let others =
        ["1800000000000-6", "outbox-1", "outbox-65538", "outbox-65536", "0f8fad5b-d9cb-469f-a165-708677289502"];
    assert_eq!(ages(store, SHARD, "ship", &others).await, [None; 5]);
    assert_eq!(ages(store, SHARD, "bill", &IDS).await, [None; 3], "consumers are apart");
    assert_eq!(ages(store, ShardId(1), "ship", &IDS).await, [None; 3], "shards are apart");
    let hit = store.inbox_seen(SHARD, &[query("ship", IDS[1])]).await.unwrap()[0];
    assert_eq!(hit, Some(SeenHit { check: ContentCheck(7), age: OwnedAge(500) }));
}

pub async fn an_id_with_a_time_is_found_among_those_without(store: &impl Store) {
    let mut writer = Writer::new();
    let id = "1700000000000-5";
    let fingerprint = HashSecret(3).of_id(&consumer("ship"), &inbound_id(id));
    let mut far = mark("ship", id, 9);
    far.place = SeenPlace::in_runs(fingerprint);
    writer.commit(store, |commit| commit.seen = vec![far]).await;
    assert_eq!(ages(store, SHARD, "ship", &[id]).await, [Some(0)]);
}

pub async fn what_was_filed_by_a_stamp_is_found_without_it(store: &impl Store) {
    let mut writer = Writer::new();
    let fingerprint = |name: &str, id: &str| HashSecret(3).of_id(&consumer(name), &inbound_id(id));
    // Minutes apart, so that the one in question is neither the first nor the last.
    for (number, id) in IDS.iter().enumerate() {
        let stamp = T0.plus(Duration::from_secs(number as u64 * 600));
        let mut stamped = mark("ship", id, number as u16);
        stamped.place = SeenPlace::of(id, fingerprint("ship", id), Some(stamp), T0);
        writer
            .commit(store, |commit| {
                commit.record.age = OwnedAge(100 + number as u64);
                commit.seen = vec![stamped];
            })
            .await;
    }
    for is_packed in [false, true] {
        if is_packed {
            writer.commit(store, |commit| commit.record.age = OwnedAge(86_400_000)).await;
            while store.tidy_inbox(SHARD, OwnedAge(0), UnixMillis(0), 1_000).await.unwrap().records() >= 1_000 {}
        }
        for (number, id) in IDS.iter().enumerate() {
            let hit = store.inbox_seen_in_any_minute(SHARD, &consumer("ship"), fingerprint("ship", id)).await.unwrap();
            let hit = hit.unwrap_or_else(|| panic!("{id} isn't found"));
            assert!(
                hit.check == ContentCheck(number as u16) && hit.age >= OwnedAge(100 + number as u64),
                "{id}: {hit:?}"
            );
        }
    }
    // Its sender stamped one of them anew and earlier: what was finished last counts, whatever the stamps say.
    let again = T0.plus(Duration::from_secs(300));
    let mut stamped = mark("ship", IDS[1], 9);
    stamped.place = SeenPlace::of(IDS[1], fingerprint("ship", IDS[1]), Some(again), T0);
    writer
        .commit(store, |commit| {
            commit.record.age = OwnedAge(86_500_000);
            commit.seen = vec![stamped];
        })
        .await;
    for is_packed in [false, true] {
        if is_packed {
            writer.commit(store, |commit| commit.record.age = OwnedAge(2 * 86_400_000)).await;
            while store.tidy_inbox(SHARD, OwnedAge(0), UnixMillis(0), 1_000).await.unwrap().records() >= 1_000 {}
        }
        let hit = store.inbox_seen_in_any_minute(SHARD, &consumer("ship"), fingerprint("ship", IDS[1])).await.unwrap();
        assert_eq!(hit, Some(SeenHit { check: ContentCheck(9), age: OwnedAge(86_500_000) }), "packed: {is_packed}");
    }
    for (shard, name, id) in [(SHARD, "ship", "m-1"), (SHARD, "bill", IDS[2]), (ShardId(1), "ship", IDS[2])] {
        let hit = store.inbox_seen_in_any_minute(shard, &consumer(name), fingerprint(name, id)).await.unwrap();
        assert_eq!(hit, None, "{shard} {name} {id}");
    }
}

pub async fn many_ids_of_many_commits_are_all_found(store: &impl Store) {
    let mut writer = Writer::new();
    let ids: Vec<String> = (0..300)
        .map(|n| match n % 3 {
            0 => format!("18000000{:05}-{n}", n * 97),
            1 => format!("order/{}", n * 1_000),
            _ => format!("{n:08x}-d9cb-469f-a165-708677289501"),
        })
        .collect();
    for (round, part) in ids.chunks(30).enumerate() {
        writer
            .commit(store, |commit| {
                commit.record.age = OwnedAge(round as u64 * 1_000);
                commit.seen = part.iter().map(|id| mark("ship", id, 1)).collect();
            })
            .await;
    }
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    let expected: Vec<Option<u64>> = (0..300_u64).map(|n| Some(n / 30 * 1_000)).collect();
    assert_eq!(ages(store, SHARD, "ship", &names).await, expected);
    // Packing what lies idle loses nothing.
    while store.tidy_inbox(SHARD, OwnedAge(0), UnixMillis(0), 1_000).await.unwrap().records() >= 1_000 {}
    assert_eq!(ages(store, SHARD, "ship", &names[30..]).await, expected[30..]);
}

pub async fn what_is_out_of_the_window_is_forgotten_and_nothing_else(store: &impl Store) {
    let mut writer = Writer::new();
    let rounds = [(100, "order/1"), (200, "elsewhere/1"), (300, "order/70000")];
    for (age, id) in rounds {
        writer
            .commit(store, |commit| {
                commit.record.age = OwnedAge(age);
                commit.seen = vec![mark("ship", id, 1)];
            })
            .await;
    }
    let mut forgotten = 0;
    loop {
        let tidied = store.tidy_inbox(SHARD, OwnedAge(200), UnixMillis(0), 1).await.unwrap();
        forgotten += tidied.forgotten;
        if tidied.records() == 0 {
            break;
        }
    }
    assert!(forgotten >= 2, "{forgotten} records are said to be gone");
    assert_eq!(ages(store, SHARD, "ship", &["order/70000"]).await, [Some(300)]);
    assert_eq!(ages(store, SHARD, "ship", &["order/1", "elsewhere/1"]).await, [None, None]);
}

pub async fn an_id_that_is_finished_again_is_as_old_as_the_last_time(store: &impl Store) {
    let mut writer = Writer::new();
    for (age, check) in [(100, 1), (900, 2)] {
        writer
            .commit(store, |commit| {
                commit.record.age = OwnedAge(age);
                commit.seen = IDS.iter().map(|id| mark("ship", id, check)).collect();
            })
            .await;
    }
    while store.tidy_inbox(SHARD, OwnedAge(100), UnixMillis(0), 1_000).await.unwrap().records() >= 1_000 {}
    let queries: Vec<SeenQuery> = IDS.iter().map(|id| query("ship", id)).collect();
    let expected = Some(SeenHit { check: ContentCheck(2), age: OwnedAge(900) });
    assert_eq!(store.inbox_seen(SHARD, &queries).await.unwrap(), [expected; 3]);
}

pub async fn the_history_of_an_id_is_found_the_latest_first_and_removed_after_its_time(store: &impl Store) {
    let mut writer = Writer::new();
    let (first, second) = (done("m-1", InboxEnd::Dead), done("m-1", InboxEnd::Processed));
    writer.commit(store, |commit| commit.done = vec![first.clone(), done("m-2", InboxEnd::Duplicate)]).await;
    writer.commit(store, |commit| commit.done = vec![second.clone()]).await;
    let found = store.inbox_done(SHARD, &consumer("ship"), &inbound_id("m-1")).await.unwrap();
    assert_eq!(found, [second, first]);
    assert!(store.inbox_done(SHARD, &consumer("bill"), &inbound_id("m-1")).await.unwrap().is_empty());
    assert_eq!(store.tidy_inbox(SHARD, OwnedAge(0), UnixMillis(0), 100).await.unwrap().purged, 0);
    assert_eq!(store.inbox_done(SHARD, &consumer("ship"), &inbound_id("m-2")).await.unwrap().len(), 1);
    // Written by this process's clock, so all of it is before a day far ahead.
    let ahead = UnixMillis(T0.0 * 2);
    let tidied = store.tidy_inbox(SHARD, OwnedAge(0), ahead, 100).await.unwrap();
    assert!((1..100).contains(&tidied.purged), "{tidied:?}");
    assert!(store.inbox_done(SHARD, &consumer("ship"), &inbound_id("m-2")).await.unwrap().is_empty());
}
