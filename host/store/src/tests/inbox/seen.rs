//! The seen set: what is found before and after packing, by who wrote it and by who didn't, and what is forgotten.

use std::sync::Arc;

use waybill_core::ids::{Place, Seq, ShardId, host_made_id};
use waybill_core::inbox::fingerprint::ContentCheck;
use waybill_core::inbox::seen::{Member, OwnedAge};
use waybill_core::port::inbox_store::{InboxStore, SeenHit};
use waybill_core::port::quarantine::QuarantineStore;
use waybill_surreal::{Bound, Row, bytes, bytes_of, object};
use waybill_testkit::conformance::inbox_samples::{Writer, mark, query};
use waybill_testkit::conformance::samples::{SHARD, T0};

use super::super::memory;
use super::{assert_seen, assert_unseen, check, cold, finish, finish_marks, hit, pass, ship, tidy};
use crate::inbox::seen::Asker;
use crate::inbox::seen::bucket::{BucketKey, Form, Part};
use crate::tables::{INBOX_SEEN, INBOX_SEEN_DUE, shard_end, shard_start};
use crate::{Durability, SurrealStore};

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// Ids with a time in them: of this minute behind [`T0`].
fn timed(minute: u64, count: u16) -> Vec<String> {
    let segment = Seq((T0.0 + minute * MINUTE) << 20);
    let of = |number: u16| Place { shard: ShardId(number >> 12), segment, index: number & 0xFFF };
    (0..count).map(|number| host_made_id(of(number)).as_str().to_owned()).collect()
}

fn counters(from: u64, count: u64) -> Vec<String> {
    (from..from + count).map(|number| format!("outbox-{number}")).collect()
}

/// Ids that tell nothing.
fn random(from: u32, count: u32) -> Vec<String> {
    (from..from + count)
        .map(|number| format!("{:08x}-d9cb-469f-a165-{:012x}", number.wrapping_mul(2_654_435_761), number))
        .collect()
}

/// All records of a table.
async fn rows(store: &SurrealStore, table: &'static str) -> Vec<Row> {
    let (from, until) = (Bound::Included(shard_start(SHARD)), Bound::Excluded(shard_end(SHARD)));
    store.begin(false).await.unwrap().scan(table, from, until, 100_000).await.unwrap()
}

/// How many heads, additions and blocks there are.
async fn records(store: &SurrealStore) -> [usize; 3] {
    let mut counts = [0; 3];
    for row in rows(store, INBOX_SEEN).await {
        counts[kind(&row)] += 1;
    }
    counts
}

fn kind(row: &Row) -> usize {
    match BucketKey::of_record(&row.key).unwrap().1 {
        Part::Head => 0,
        Part::Added(_) => 1,
        Part::Block { .. } => 2,
    }
}

async fn notes(store: &SurrealStore) -> usize {
    rows(store, INBOX_SEEN_DUE).await.len()
}

#[tokio::test]
async fn ids_of_every_form_are_found_with_check_and_age() {
    let store = memory().await;
    let mut writer = Writer::new();
    let ids = [timed(0, 1), counters(17, 1), random(0, 1)].concat();
    // Asked before, as an owner does: then the buckets are in memory.
    assert_unseen(&store, &ids).await;
    finish(&mut writer, &store, 1_000, &ids).await;
    for store in [&store, &cold(&store)] {
        for id in &ids {
            let expected = SeenHit { check: ContentCheck(check(id)), age: OwnedAge(1_000) };
            assert_eq!(hit(store, id).await, Some(expected), "{id}");
        }
        assert_unseen(store, &[timed(0, 2).split_off(1), counters(18, 1), random(1, 1), timed(1, 1)].concat()).await;
    }
}

#[tokio::test]
async fn what_is_packed_is_found_by_who_packed_it_and_by_a_new_process() {
    let store = memory().await;
    let mut writer = Writer::new();
    let all = [timed(0, 4_000), counters(65_000, 1_500), random(0, 4_000)].concat();
    for (number, ids) in (0..).zip(all.chunks(500)) {
        finish(&mut writer, &store, 1_000 + number, ids).await;
    }
    assert_seen(&store, &all, 1_000).await;
    // Idle: nothing was added for more than a slot.
    pass(&mut writer, &store, 10 * MINUTE).await;
    tidy(&store, 0).await;
    // One minute, two blocks of 65,536 counters, one day; and all that commits added is packed.
    let [heads, added, _] = records(&store).await;
    assert_eq!((heads, added), (4, 0));
    let strangers = [timed(0, 4_100).split_off(4_000), counters(70_000, 100), random(5_000, 100)].concat();
    for store in [&store, &cold(&store)] {
        assert_seen(store, &all, 1_000).await;
        assert_unseen(store, &strangers).await;
    }
    for row in rows(&store, INBOX_SEEN).await {
        let (bucket, part) = BucketKey::of_record(&row.key).unwrap();
        let length = bytes_of(row.fields.get("data")).unwrap().len();
        // A block of counters holds 4,096 of them.
        assert!(
            length < 5_000 || bucket.form == Form::Counter && length < 9_000,
            "{bucket:?} {part:?}: {length} bytes"
        );
    }
}

#[tokio::test]
async fn what_comes_behind_the_packing_is_found_with_the_rest_and_tables_become_one() {
    let store = memory().await;
    let mut writer = Writer::new();
    let mut all = Vec::new();
    for round in 0..6_u16 {
        let part = |ids: Vec<String>| ids.into_iter().skip(usize::from(round) * 300).collect::<Vec<_>>();
        let ids = [part(timed(0, round * 300 + 300)), random(u32::from(round) * 300, 300)].concat();
        let age = u64::from(round + 1) * 5 * MINUTE;
        finish(&mut writer, &store, age, &ids).await;
        all.extend(ids);
        assert_seen(&store, &all, 0).await;
        pass(&mut writer, &store, age + 2 * MINUTE).await;
        tidy(&store, 0).await;
        assert_seen(&store, &all, 0).await;
        assert_seen(&cold(&store), &all, 0).await;
    }
    // 1,800 ids a bucket in blocks of 300: of one table each.
    assert_eq!(records(&store).await, [2, 0, 12]);
}

#[tokio::test]
async fn of_an_id_that_is_finished_again_the_later_content_and_age_count() {
    let store = memory().await;
    let mut writer = Writer::new();
    for id in [timed(0, 1), counters(3, 1), random(0, 1)].concat() {
        let first = writer.record.age.0;
        for (check, age) in [(1, first + 5 * MINUTE), (2, first + 10 * MINUTE)] {
            finish_marks(&mut writer, &store, age, vec![mark("ship", &id, check)]).await;
            assert_eq!(hit(&store, &id).await.map(|hit| hit.check), Some(ContentCheck(check)), "{id}");
            assert_eq!(hit(&cold(&store), &id).await.map(|hit| hit.check), Some(ContentCheck(check)), "{id}");
            pass(&mut writer, &store, age + 2 * MINUTE).await;
            tidy(&store, 0).await;
            let found = hit(&store, &id).await.unwrap();
            assert_eq!((found.check, found.age), (ContentCheck(check), OwnedAge(age)), "{id}");
        }
    }
}

#[tokio::test]
async fn a_bucket_goes_when_its_last_id_is_out_of_the_window() {
    let store = memory().await;
    let mut writer = Writer::new();
    let (first, second) = ([timed(0, 700), counters(0, 700)].concat(), [timed(1, 700), counters(70_000, 700)].concat());
    finish(&mut writer, &store, 1_000, &first).await;
    finish(&mut writer, &store, 5 * MINUTE, &second).await;
    pass(&mut writer, &store, 10 * MINUTE).await;
    tidy(&store, 999).await;
    assert_seen(&store, &first, 1_000).await;
    tidy(&store, 1_000).await;
    for store in [&store, &cold(&store)] {
        assert_unseen(store, &first).await;
        assert_seen(store, &second, 5 * MINUTE).await;
    }
    tidy(&store, 5 * MINUTE).await;
    assert_unseen(&store, &second).await;
    assert_eq!((records(&store).await, notes(&store).await), ([0; 3], 0), "nothing is left");
}

#[tokio::test]
async fn a_bucket_that_nobody_packed_goes_too() {
    let store = memory().await;
    let mut writer = Writer::new();
    let ids = [timed(0, 10), counters(0, 10), random(0, 10)].concat();
    finish(&mut writer, &store, 1_000, &ids).await;
    assert_seen(&store, &ids, 1_000).await;
    tidy(&store, 1_000).await;
    assert_unseen(&store, &ids).await;
    assert_unseen(&cold(&store), &ids).await;
    assert_eq!((records(&store).await, notes(&store).await), ([0; 3], 0));
}

#[tokio::test]
async fn runs_of_days_become_one_table_each_and_go_day_by_day() {
    let store = memory().await;
    let mut writer = Writer::new();
    let mut days = Vec::new();
    for day in 0..3_u32 {
        let ids = random(day * 1_000, 1_000);
        for (number, part) in (0..).zip(ids.chunks(250)) {
            // No owner's age is zero: what is as old as that is over for `tidy(0)`.
            finish(&mut writer, &store, 1 + u64::from(day) * DAY + number * 10 * MINUTE, part).await;
            tidy(&store, 0).await;
        }
        days.push(ids);
    }
    pass(&mut writer, &store, 3 * DAY + 2 * MINUTE).await;
    tidy(&store, 0).await;
    // A thousand ids in blocks of 300, three times.
    assert_eq!(records(&store).await, [3, 0, 12]);
    for store in [&store, &cold(&store)] {
        assert_seen(store, &days.concat(), 0).await;
        assert_unseen(store, &random(9_000, 200)).await;
    }
    tidy(&store, DAY - 1).await;
    assert_unseen(&store, &days[0]).await;
    assert_seen(&store, &days[1..].concat(), DAY).await;
    assert_seen(&cold(&store), &days[1..].concat(), DAY).await;
}

#[tokio::test]
async fn filters_change_no_answer() {
    let store = memory().await;
    let mut writer = Writer::new();
    let ids = random(0, 2_000);
    finish(&mut writer, &store, 1_000, &ids).await;
    pass(&mut writer, &store, 5 * MINUTE).await;
    tidy(&store, 0).await;
    // None, and as many as there are.
    for bytes_max in [0, 1 << 20] {
        let store = SurrealStore::over(Arc::clone(&store.engine), true, Durability::Memory, 1, None, bytes_max);
        for _ in 0..2 {
            assert_seen(&store, &ids, 1_000).await;
            assert_unseen(&store, &random(10_000, 500)).await;
        }
    }
}

/// It is what `waybill inbox stats` shows as READS.
#[tokio::test]
async fn a_stranger_costs_a_read_where_filters_have_no_room_and_hardly_any_where_they_have() {
    let store = memory().await;
    let mut writer = Writer::new();
    finish(&mut writer, &store, 1_000, &random(0, 2_000)).await;
    pass(&mut writer, &store, 5 * MINUTE).await;
    tidy(&store, 0).await;
    for (bytes_max, expected) in [(0, 500..=520), (1 << 20, 1..=100)] {
        let store = SurrealStore::over(Arc::clone(&store.engine), true, Durability::Memory, 1, None, bytes_max);
        assert_eq!(store.inbox_seen_reads(&ship()), 0);
        assert_unseen(&store, &random(10_000, 500)).await;
        let reads = store.inbox_seen_reads(&ship());
        assert!(expected.contains(&reads), "{reads} with {bytes_max} bytes of filters");
    }
}

/// Somebody waits for the answer, and a month has 43,200 minutes.
#[tokio::test]
async fn an_id_that_may_lie_in_any_minute_costs_two_reads_for_each_at_most() {
    let store = memory().await;
    let mut writer = Writer::new();
    for minute in 0..20 {
        finish(&mut writer, &store, 1_000 + minute, &timed(minute, 10)).await;
    }
    pass(&mut writer, &store, 5 * MINUTE).await;
    tidy(&store, 0).await;
    let store = cold(&store);
    let find = async |id: &str| {
        let Member::Hash(fingerprint) = mark("ship", id, 0).place.member else { panic!("{id} has a time inside") };
        store.inbox_seen_in_any_minute(SHARD, &ship(), fingerprint).await.unwrap()
    };
    assert_eq!(find(&timed(30, 1)[0]).await, None);
    // The last one finds that there are no more minutes.
    let reads = store.seen_reads().of(&ship(), Asker::People);
    assert!((20..=41).contains(&reads), "{reads}");
    let id = &timed(7, 10)[3];
    assert_eq!(find(id).await, Some(SeenHit { check: ContentCheck(check(id)), age: OwnedAge(1_007) }));
}

#[tokio::test]
async fn what_people_ask_isnt_counted_among_the_reads_of_messages() {
    let store = memory().await;
    let mut writer = Writer::new();
    finish(&mut writer, &store, 1_000, &random(0, 200)).await;
    pass(&mut writer, &store, 5 * MINUTE).await;
    tidy(&store, 0).await;
    let store = cold(&store);
    let id = random(0, 200).remove(3);
    let Member::Hash(fingerprint) = mark("ship", &id, 0).place.member else { panic!("{id} has a time inside") };
    assert!(store.inbox_seen_for_people(SHARD, &query("ship", &id)).await.unwrap().is_some());
    store.inbox_seen_in_any_minute(SHARD, &ship(), fingerprint).await.unwrap();
    assert!(store.seen_reads().of(&ship(), Asker::People) > 0);
    assert_eq!(store.inbox_seen_reads(&ship()), 0, "nothing flowed");
    assert!(hit(&cold(&store), &id).await.is_some());
}

/// Tables of a bucket whose head is lost are numbered anew: filters of the same numbers count no more.
#[tokio::test]
async fn filters_of_a_lost_head_hide_nothing_that_is_packed_behind_it() {
    let store = memory().await;
    let mut writer = Writer::new();
    let (lost, kept) = (random(0, 1_000), random(5_000, 1_000));
    finish(&mut writer, &store, 1_000, &lost).await;
    pass(&mut writer, &store, 5 * MINUTE).await;
    tidy(&store, 0).await;
    // Makes the filters.
    assert_seen(&store, &lost, 1_000).await;
    let head = rows(&store, INBOX_SEEN).await.into_iter().find(|row| kind(row) == 0).unwrap();
    let transaction = store.begin(true).await.unwrap();
    transaction.put(INBOX_SEEN, head.key, object([("data", bytes("junk"))])).await.unwrap();
    transaction.commit().await.unwrap();
    store.seen_memory().forget_all();
    finish(&mut writer, &store, 10 * MINUTE, &kept).await;
    pass(&mut writer, &store, 15 * MINUTE).await;
    tidy(&store, 0).await;
    assert_seen(&store, &kept, 10 * MINUTE).await;
}

#[tokio::test]
async fn a_limit_of_one_gets_everything_done() {
    let store = memory().await;
    let mut writer = Writer::new();
    let ids = [timed(0, 900), counters(0, 900), random(0, 900)].concat();
    for part in ids.chunks(100) {
        finish(&mut writer, &store, 1_000, part).await;
    }
    pass(&mut writer, &store, 5 * MINUTE).await;
    let steps = async |until| {
        let mut steps = 0;
        while store.tidy_inbox(SHARD, OwnedAge(until), T0, 1).await.unwrap().records() > 0 {
            steps += 1;
            assert!(steps < 1_000, "it never ends");
        }
    };
    steps(0).await;
    assert_eq!(records(&store).await[1], 0);
    assert_seen(&store, &ids, 1_000).await;
    steps(5 * MINUTE).await;
    assert_eq!(records(&store).await, [0; 3]);
}

/// Damages the record of this kind of the minute that [`T0`] begins.
async fn damage(store: &SurrealStore, of: usize) {
    let is_meant = |row: &&Row| {
        kind(row) == of && BucketKey::of_record(&row.key).is_some_and(|(bucket, _)| bucket.number() == T0.0 / MINUTE)
    };
    let all = rows(store, INBOX_SEEN).await;
    let [row] = all.iter().filter(is_meant).collect::<Vec<_>>()[..] else { panic!("not one of kind {of}") };
    let transaction = store.begin(true).await.unwrap();
    transaction.put(INBOX_SEEN, row.key.clone(), object([("data", bytes("junk"))])).await.unwrap();
    transaction.commit().await.unwrap();
}

#[tokio::test]
async fn a_record_that_can_not_be_read_takes_its_own_ids_with_it_and_no_others() {
    for part in [0, 1, 2] {
        let store = memory().await;
        let mut writer = Writer::new();
        let (lost, kept) = (timed(0, 100), timed(1, 100));
        finish(&mut writer, &store, 1_000, &lost).await;
        finish(&mut writer, &store, 2_000, &kept).await;
        if part != 1 {
            pass(&mut writer, &store, 5 * MINUTE).await;
            tidy(&store, 0).await;
        }
        damage(&store, part).await;
        let store = cold(&store);
        assert_unseen(&store, &lost).await;
        assert_seen(&store, &kept, 2_000).await;
        let counts = store.quarantined_counts().await.unwrap();
        assert_eq!(counts.tables, [("inbox_seen".to_owned(), 1)], "part {part}");
        // What is finished now is known again, and everything goes in its time.
        writer.record = store.inbox_shard(SHARD).await.unwrap();
        finish(&mut writer, &store, 10 * MINUTE, &lost).await;
        assert_seen(&store, &lost, 10 * MINUTE).await;
        pass(&mut writer, &store, 20 * MINUTE).await;
        tidy(&store, 0).await;
        assert_seen(&cold(&store), &lost, 10 * MINUTE).await;
        tidy(&store, 20 * MINUTE).await;
        assert_eq!(records(&store).await, [0; 3], "part {part}");
    }
}
