//! Segments and their directory.

use std::sync::Arc;

use waybill_core::ids::Seq;
use waybill_core::outbox::records::{Entry, Segment};
use waybill_core::port::quarantine::Restored;
use waybill_core::port::store::Write;

use super::Store;
use super::samples::{Owner, SHARD, full_message, segment, segment_of, seq, tenant};

fn put(segment: Segment) -> Write {
    Write::PutSegment(Arc::new(segment))
}

async fn only(store: &impl Store, first: Seq) -> Segment {
    let mut stored = store.segments(SHARD, &[first]).await.unwrap();
    assert_eq!(stored.len(), 1);
    stored.remove(0).segment.unwrap().as_ref().clone()
}

pub async fn segments_come_back_as_they_were_written(store: &impl Store) {
    let mut written = segment(seq(0, 0), 0);
    written.tenant = tenant("Größe & Söhne");
    for index in [0, 5, 4_095] {
        let message = Arc::new(full_message(&format!("m-{index}")));
        written.entries.push(Entry { index, message });
    }
    Owner::new().commit(store, vec![put(written.clone())]).await;
    assert_eq!(only(store, seq(0, 0)).await, written);
}

pub async fn a_large_segment_comes_back_as_it_was_written(store: &impl Store) {
    let written = segment_of(seq(0, 0), 1_000, 400);
    Owner::new().commit(store, vec![put(written.clone())]).await;
    assert_eq!(only(store, seq(0, 0)).await, written);
}

pub async fn a_rewritten_segment_replaces_the_old_one_whatever_their_sizes(store: &impl Store) {
    let mut owner = Owner::new();
    let sizes = [(3, 0), (500, 300), (500, 310), (2, 0), (400, 300)];
    for (count, bytes) in sizes {
        let written = segment_of(seq(0, 0), count, bytes);
        owner.record.last = seq(0, 600);
        owner.commit(store, vec![put(written.clone())]).await;
        assert_eq!(only(store, seq(0, 0)).await, written);
        let directory = store.directory(SHARD, seq(0, 0), 10).await.unwrap();
        assert_eq!(directory.iter().map(|info| info.messages).collect::<Vec<_>>(), [u32::from(count)]);
    }
}

pub async fn a_deleted_segment_is_gone_from_directory_and_data(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, vec![put(segment(seq(0, 0), 2)), put(segment_of(seq(1, 0), 300, 100))]).await;
    owner
        .commit(
            store,
            vec![Write::DeleteSegment(seq(0, 0)), Write::DeleteSegment(seq(1, 0)), Write::DeleteSegment(seq(2, 0))],
        )
        .await;
    assert!(store.directory(SHARD, Seq(0), 10).await.unwrap().is_empty());
    assert!(store.segments(SHARD, &[seq(0, 0), seq(1, 0)]).await.unwrap().is_empty());
}

pub async fn the_directory_lists_in_order_and_in_pages(store: &impl Store) {
    let mut owner = Owner::new();
    let firsts: Vec<Seq> = (0..50).map(|n| seq(n * 7 % 50, n)).collect();
    owner.commit(store, firsts.iter().map(|first| put(segment(*first, 1))).collect()).await;
    let mut sorted = firsts;
    sorted.sort();
    let mut found = Vec::new();
    let mut from = Seq(0);
    loop {
        let page = store.directory(SHARD, from, 7).await.unwrap();
        assert!(page.len() <= 7);
        let Some(last) = page.last() else { break };
        from = last.first.next();
        found.extend(page.iter().map(|info| info.first));
    }
    assert_eq!(found, sorted);
    assert_eq!(store.directory(SHARD, sorted[3], 1).await.unwrap()[0].first, sorted[3]);
}

pub async fn the_directory_tells_count_and_weight(store: &impl Store) {
    for (n, bytes) in [(0, 10), (1, 5_000)] {
        let written = segment_of(seq(n, 0), 3, bytes);
        let mut owner = Owner::new();
        owner.record = store.shard(SHARD).await.unwrap();
        owner.commit(store, vec![put(written.clone())]).await;
        let info = store.directory(SHARD, seq(n, 0), 1).await.unwrap().remove(0);
        assert_eq!((info.messages, info.bytes as usize, info.tenant), (3, written.weight(), written.tenant));
    }
}

pub async fn asked_segments_come_in_the_order_asked_without_the_missing(store: &impl Store) {
    Owner::new()
        .commit(store, vec![put(segment(seq(0, 0), 1)), put(segment(seq(1, 0), 1)), put(segment(seq(2, 0), 1))])
        .await;
    let found = store.segments(SHARD, &[seq(2, 0), seq(9, 0), seq(0, 0)]).await.unwrap();
    assert_eq!(found.iter().map(|stored| stored.first).collect::<Vec<_>>(), [seq(2, 0), seq(0, 0)]);
    assert!(store.segments(SHARD, &[]).await.unwrap().is_empty());
}

pub async fn a_quarantined_segment_leaves_the_order_and_is_listed(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, vec![put(segment_of(seq(0, 0), 100, 100)), put(segment(seq(1, 0), 1))]).await;
    let write = Write::QuarantineSegment { first: seq(0, 0), reason: "its checksum is wrong".into() };
    owner.commit(store, vec![write]).await;
    let left = store.directory(SHARD, Seq(0), 10).await.unwrap();
    assert_eq!(left.iter().map(|info| info.first).collect::<Vec<_>>(), [seq(1, 0)]);
    assert!(store.segments(SHARD, &[seq(0, 0)]).await.unwrap().is_empty());
    let page = store.quarantined(None, None, 10).await.unwrap();
    let [row] = page.items.as_slice() else { panic!("{page:?}") };
    assert_eq!((row.table.as_str(), row.reason.as_str()), ("outbox", "its checksum is wrong"));
    assert_eq!(row.key, serde_json::json!([SHARD.0, seq(0, 0).0]));
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [("outbox".to_owned(), 1)]);
    assert!(store.quarantined(Some("parked"), None, 10).await.unwrap().items.is_empty());
}

pub async fn a_segment_that_can_be_read_leaves_quarantine_by_the_doorstep(store: &impl Store) {
    let mut owner = Owner::new();
    let segment = segment_of(seq(0, 0), 100, 100);
    owner.commit(store, vec![put(segment.clone())]).await;
    owner.commit(store, vec![Write::QuarantineSegment { first: seq(0, 0), reason: "by mistake".into() }]).await;
    let id = store.quarantined(None, None, 10).await.unwrap().items[0].id.clone();
    assert_eq!(store.quarantined_row(&id).await.unwrap().unwrap().unreadable, None);
    let (_, restored) = store.restore_row(&id).await.unwrap().unwrap();
    assert_eq!(restored, Restored::Queued { messages: 100 });
    let rows = store.door(SHARD, 0, u64::MAX, None, 10).await.unwrap();
    let messages: Vec<_> = rows.into_iter().flat_map(|row| row.content.unwrap()).collect();
    let expected: Vec<_> = segment.entries.iter().map(|entry| entry.message.clone()).collect();
    assert_eq!(messages, expected);
    assert!(store.quarantined_row(&id).await.unwrap().is_none());
    assert!(store.restore_row(&id).await.unwrap().is_none());
    assert!(store.quarantined_counts().await.unwrap().tables.is_empty());
}

pub async fn what_is_dropped_from_quarantine_is_gone_and_pages_hold_each_once(store: &impl Store) {
    let mut owner = Owner::new();
    for n in 0..5 {
        owner.commit(store, vec![put(segment(seq(n, 0), 1))]).await;
        owner.commit(store, vec![Write::QuarantineSegment { first: seq(n, 0), reason: "x".into() }]).await;
    }
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.quarantined(None, cursor.as_deref(), 2).await.unwrap();
        ids.extend(page.items.into_iter().map(|row| row.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(ids.len(), 5);
    assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(store.drop_row(&ids[2]).await.unwrap().unwrap().id, ids[2]);
    assert!(store.drop_row(&ids[2]).await.unwrap().is_none());
    assert_eq!(store.quarantined(None, None, 10).await.unwrap().items.len(), 4);
}

pub async fn writes_of_one_commit_apply_in_order(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, vec![put(segment(seq(0, 0), 1))]).await;
    let (small, large) = (segment(seq(0, 0), 2), segment_of(seq(1, 0), 200, 100));
    owner.record.last = seq(2, 0);
    owner
        .commit(
            store,
            vec![
                Write::DeleteSegment(seq(0, 0)),
                put(small.clone()),
                put(large.clone()),
                put(segment(seq(1, 0), 1)),
                Write::DeleteSegment(seq(1, 0)),
                put(large.clone()),
            ],
        )
        .await;
    assert_eq!(only(store, seq(0, 0)).await, small);
    assert_eq!(only(store, seq(1, 0)).await, large);
}
