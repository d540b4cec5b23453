//! What background work and takeovers cost, in rows read: they have to stay what they are when everything else grows.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::idempotency::{Act, EntryKey, Op};
use waybill_core::ids::{HoldToken, IdempotencyKey, RequestHash, ShardId};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DoneEnd;
use waybill_core::port::idempotency::IdempotencyStore;
use waybill_core::port::query::{ListKind, QueryStore};
use waybill_core::port::saga_store::{Acquired, SagaStore};
use waybill_core::port::store::{OwnerStore, Write};
use waybill_core::port::stream_store::StreamStore;
use waybill_core::saga::records::{SagaCommit, SagaWrite};
use waybill_core::time::UnixMillis;
use waybill_testkit::conformance::saga_samples::{key, resting};
use waybill_testkit::conformance::samples::{
    Owner, SHARD, T0, chunk, dead, done, message, parked, segment, segment_of, seq, tenant,
};
use waybill_testkit::conformance::stream_samples::{ALL_BYTES, Writer, stream};

use super::watched::watch;
use super::{memory, sql};
use crate::owner::history::list_by_time;
use crate::tables::{DATA, DEAD, DONE, DONE_DUE, IDEMPOTENCY_DUE, OUTBOX};

const HOUR: Duration = Duration::from_secs(3600);

fn at(ms: u64) -> UnixMillis {
    UnixMillis(T0.0 + ms)
}

/// A backlog that is older than the retention: its segments are old, what was delivered of them isn't.
fn history(chunks: u64, written: u64) -> Vec<Write> {
    let of = |n| chunk(seq(n, 0), n, at(written + n), vec![done(0, message("m"), DoneEnd::Delivered)]);
    (0..chunks).map(|n| Write::PutHistory(Arc::new(of(n)))).collect()
}

#[tokio::test]
async fn retention_reads_no_more_history_than_it_removes() {
    let (store, reads) = watch(memory().await);
    let mut owner = Owner::new();
    owner.commit(&store, history(300, 1_000_000)).await;
    reads.clear();
    assert!(store.history_before(SHARD, None, at(900_000), 100).await.unwrap().is_empty());
    assert_eq!((reads.rows(DONE), reads.rows(DONE_DUE)), (0, 0));
    let old = store.history_before(SHARD, None, at(1_000_010), 100).await.unwrap();
    assert_eq!((old.len(), reads.rows(DONE), reads.rows(DONE_DUE)), (10, 10, 10));
    store.purge_history(&old, HOUR, at(1_000_010)).await.unwrap();
    reads.clear();
    assert!(store.history_before(SHARD, None, at(1_000_010), 100).await.unwrap().is_empty());
    assert_eq!((reads.rows(DONE), reads.rows(DONE_DUE)), (0, 0));
}

#[tokio::test]
async fn history_of_an_older_version_is_found_by_its_time_after_an_opening() {
    let store = memory().await;
    Owner::new().commit(&store, history(100, 0)).await;
    sql(&store, "DELETE outbox_done_due; DELETE waybill_meta:history_by_time").await.unwrap();
    assert!(store.history_before(SHARD, None, at(1_000), 100).await.unwrap().is_empty());
    list_by_time(&store).await.unwrap();
    assert_eq!(store.history_before(SHARD, None, at(1_000), 100).await.unwrap().len(), 100);
    // Once is enough.
    let (store, reads) = watch(store);
    list_by_time(&store).await.unwrap();
    assert_eq!(reads.rows(DONE), 0);
}

#[tokio::test]
async fn a_row_by_time_whose_chunk_is_gone_goes_too() {
    let (store, reads) = watch(memory().await);
    Owner::new().commit(&store, history(3, 0)).await;
    sql(&store, "DELETE outbox_done").await.unwrap();
    assert!(store.history_before(SHARD, None, at(1_000), 100).await.unwrap().is_empty());
    reads.clear();
    assert!(store.history_before(SHARD, None, at(1_000), 100).await.unwrap().is_empty());
    assert_eq!(reads.rows(DONE_DUE), 0);
}

#[tokio::test]
async fn a_purge_begins_where_the_one_before_ended() {
    let (store, reads) = watch(memory().await);
    let begin = |n: u64| Op {
        of: EntryKey { tenant: tenant("t"), key: IdempotencyKey::new(format!("k-{n}")).unwrap() },
        act: Act::Begin {
            hash: RequestHash::new("h").unwrap(),
            token: HoldToken::of_bits(u128::from(n)),
            ttl: Duration::from_millis(100 + n),
            lease: Duration::from_millis(100),
        },
    };
    let ops: Vec<Op> = (0..40).map(begin).collect();
    store.act(&ops, at(0)).await.unwrap();
    reads.clear();
    for _ in 0..4 {
        assert_eq!(store.purge_idempotency(at(1_000), 10).await.unwrap(), 10);
    }
    let begins: Vec<String> = reads.begins(IDEMPOTENCY_DUE).iter().map(|from| format!("{from:?}")).collect();
    assert!(begins.windows(2).all(|pair| pair[0] != pair[1]), "each begins behind the one before: {begins:?}");
    reads.clear();
    assert_eq!(store.purge_idempotency(at(2_000), 10).await.unwrap(), 0);
    let again: Vec<String> = reads.begins(IDEMPOTENCY_DUE).iter().map(|from| format!("{from:?}")).collect();
    assert!(!begins.contains(&again[0]), "and so does the next round");
}

/// An embedded database that is opened again makes transactions give way that have been open for long. A takeover that read all
/// sagas in one never got through while the outbox was busy.
#[tokio::test]
async fn a_takeover_of_sagas_gets_through_although_long_transactions_give_way() {
    let (store, reads) = watch(memory().await);
    let shard = ShardId(0);
    assert!(matches!(store.acquire(shard, 1, 1).await.unwrap(), Acquired::Taken(_)));
    for round in 0..3 {
        let stands = store.saga_shard(shard).await.unwrap();
        let rows = (0..400).map(|n| resting(key("acme", &format!("s-{round}-{n}")), n));
        let commit = SagaCommit {
            shard,
            expect_token: stands.token,
            expect_beat: stands.beat,
            record: waybill_core::saga::records::SagaShardRecord { beat: stands.beat + 1, ..stands },
            journal: Vec::new(),
            writes: rows.map(|row| SagaWrite::PutRow(Arc::new(row))).collect(),
            messages: Vec::new(),
            events: Default::default(),
            door: Vec::new(),
        };
        store.commit_sagas(commit).await.unwrap();
    }
    reads.give_way_after.store(3, std::sync::atomic::Ordering::Relaxed);
    let taken = match store.acquire(shard, 2, 2).await.unwrap() {
        Acquired::Taken(taken) => taken,
        Acquired::Lost { token } => unreachable!("token {token} is higher"),
    };
    assert_eq!((taken.rows.len(), taken.record.token), (1_200, 2));
}

/// A page ends when much was read for it, whatever of that matches, and says where it goes on.
#[tokio::test]
async fn a_list_with_a_rare_filter_ends_its_page_after_a_bounded_read() {
    let (store, reads) = watch(memory().await);
    let mut owner = Owner::new();
    for n in 0..60 {
        owner.commit(&store, vec![Write::PutSegment(Arc::new(segment_of(seq(n, 0), 10, 60_000)))]).await;
    }
    reads.clear();
    let rare = Filter::parse("id=none", T0).unwrap();
    let mut cursor: Option<String> = None;
    let mut pages = Vec::new();
    loop {
        let page = store.list(ListKind::Flowing, &rare, cursor.as_deref(), 100).await.unwrap();
        assert!(page.items.is_empty());
        pages.push(reads.rows(DATA));
        reads.clear();
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    // 600 KB a segment: 28 of them are 16 MiB.
    assert!(pages.len() > 1 && pages.iter().all(|segments| *segments <= 29), "{pages:?}");
}

#[tokio::test]
async fn a_page_of_the_newest_messages_reads_little_more_than_itself() {
    let (store, reads) = watch(memory().await);
    let mut owner = Owner::new();
    for n in 0..200 {
        let stopped = Write::PutParked(Arc::new(parked(seq(n, 0), 1)));
        let ended = chunk(seq(n, 0), n, T0, vec![done(0, message("done"), DoneEnd::Delivered)]);
        owner
            .commit(
                &store,
                vec![Write::PutSegment(Arc::new(segment(seq(n, 0), 3))), stopped, Write::PutHistory(Arc::new(ended))],
            )
            .await;
    }
    reads.clear();
    let kinds = [ListKind::Parked, ListKind::Flowing, ListKind::Done];
    let page = store.newest(&kinds, &Filter::default(), None, 10).await.unwrap();
    assert_eq!((page.items.len(), page.next_cursor.is_some()), (10, true));
    for (table, most) in [(OUTBOX, 60), (DONE, 40)] {
        assert!(reads.rows(table) <= most, "{} rows of {table} for 10 of 1,000", reads.rows(table));
    }
}

#[tokio::test]
async fn a_page_of_the_latest_dead_letters_reads_little_more_than_itself() {
    let (store, reads) = watch(memory().await);
    let mut owner = Owner::new();
    for n in 0..20 {
        let letters = (0..100).map(|index| Write::PutDead(Arc::new(dead(seq(n, 0), index, "acme", "HTTP.400"))));
        owner.commit(&store, letters.collect()).await;
    }
    reads.clear();
    let page = store.latest_dead(&Filter::default(), None, 10).await.unwrap();
    assert_eq!(page.items.first().map(|letter| (letter.place.segment, letter.place.index)), Some((seq(19, 0), 99)));
    assert!(reads.rows(DEAD) <= 220, "{} rows for 10 of 2,000", reads.rows(DEAD));
    for filter in [Filter::default(), Filter { before: Some(at(15)), ..Filter::default() }] {
        reads.clear();
        let counted = store.count_dead(&filter, 300).await.unwrap();
        assert!(counted.since.is_some(), "{counted:?}");
        assert!(reads.rows(DEAD) <= 310, "{} rows for a count of 300 of 2,000", reads.rows(DEAD));
    }
    reads.clear();
    // Retention reads what is old by its key, and knows by a column what has died since.
    let old = store.dead_before(SHARD, None, at(2), at(20), 100).await.unwrap();
    assert_eq!((old.len(), reads.rows(DEAD)), (4, 200));
}

/// A scan backwards walks over all that SurrealKV holds in memory behind its range, so the first append to each stream would cost more
/// the more others there are.
#[tokio::test]
async fn a_new_stream_is_read_forwards() {
    let (store, reads) = watch(memory().await);
    Writer::new().number(&store, &stream("other"), &["x"]).await;
    reads.clear();
    let slice = store.stream_slice(&stream("new"), 0, ALL_BYTES).await.unwrap();
    assert_eq!((slice.head.last, slice.chunks.len()), (0, 0));
    assert_eq!(*reads.backwards.lock().unwrap(), [""; 0]);
}
