//! What was settled isn't sent again when the record that said so is lost, or when its segment is put back.

use std::sync::Arc;

use waybill_core::ids::Seq;
use waybill_core::message::Message;
use waybill_core::outbox::records::{DoneEnd, OpenSegment};
use waybill_core::port::quarantine::{QuarantineStore, Restored};
use waybill_core::port::store::{OwnerStore, Write};
use waybill_testkit::conformance::samples::{
    Owner, SHARD, T0, chunk, dead, done, message, parked, segment, segment_of, seq,
};

use super::{memory, sql};
use crate::SurrealStore;

/// Indices of what lies in a segment.
async fn indices(store: &SurrealStore, first: Seq) -> Vec<u16> {
    let found = store.segments(SHARD, &[first]).await.unwrap();
    let entries = found.into_iter().flat_map(|stored| stored.segment.unwrap().entries.clone());
    entries.map(|entry| entry.index).collect()
}

fn history(first: Seq, indices: &[(u16, DoneEnd)]) -> Write {
    let of = |index: u16| -> Message { message(&format!("m-{first}-{index}")) };
    let entries = indices.iter().map(|(index, end)| done(*index, of(*index), *end)).collect();
    Write::PutHistory(Arc::new(chunk(first, 9, T0, entries)))
}

#[tokio::test]
async fn a_shard_record_made_anew_leaves_out_what_was_settled() {
    let store = memory().await;
    let (mixed, large, over) = (seq(0, 0), seq(1, 0), seq(2, 0));
    let mut writes = vec![
        Write::PutSegment(Arc::new(segment(mixed, 6))),
        Write::PutParked(Arc::new(parked(mixed, 1))),
        Write::PutDead(Arc::new(dead(mixed, 2, "acme", "HTTP.500"))),
        history(mixed, &[(3, DoneEnd::Delivered), (5, DoneEnd::Cancelled)]),
        Write::PutSegment(Arc::new(segment_of(large, 100, 100))),
        Write::PutDead(Arc::new(dead(large, 7, "acme", "HTTP.500"))),
        Write::PutSegment(Arc::new(segment(over, 1))),
        history(over, &[(0, DoneEnd::Delivered)]),
    ];
    // More than one page.
    for n in 10..50 {
        writes.push(Write::PutSegment(Arc::new(segment(seq(n, 0), 2))));
        writes.push(Write::PutParked(Arc::new(parked(seq(n, 0), 0))));
    }
    Owner::new().commit(&store, writes).await;
    sql(&store, "UPDATE outbox_shard SET open = <bytes> 'junk' RETURN NONE").await.unwrap();
    store.shard(SHARD).await.unwrap();

    assert_eq!(indices(&store, mixed).await, [0, 4]);
    assert_eq!(indices(&store, large).await.len(), 99);
    assert!(store.segments(SHARD, &[over]).await.unwrap().is_empty());
    for n in 10..50 {
        assert_eq!(indices(&store, seq(n, 0)).await, [1]);
    }
    let infos = store.directory(SHARD, Seq(0), 100).await.unwrap();
    let counts: Vec<_> = infos.iter().take(3).map(|info| info.messages).collect();
    assert_eq!((infos.len(), counts), (42, vec![2, 99, 1]));
}

#[tokio::test]
async fn a_segment_that_is_put_back_leaves_out_what_was_settled() {
    let (store, first) = (memory().await, seq(0, 0));
    let mut owner = Owner::new();
    let mut open = OpenSegment::default();
    open.acked.insert(2);
    owner.record.open.insert(first, open);
    let writes = vec![Write::PutSegment(Arc::new(segment(first, 4))), Write::PutParked(Arc::new(parked(first, 1)))];
    owner.commit(&store, writes).await;
    let bytes = sql(&store, "SELECT VALUE data FROM outbox").await.unwrap();
    sql(&store, "UPDATE outbox SET data = <bytes> 'WBSxxxxxxx' RETURN NONE").await.unwrap();
    owner.commit(&store, vec![Write::QuarantineSegment { first, reason: "junk".into() }]).await;
    let row = store.quarantined(None, None, 10).await.unwrap().items.remove(0).id;
    let bindings = vec![("bytes".to_owned(), bytes[0].clone())];
    store.engine.run("UPDATE outbox_quarantine SET row.data = $bytes[0] RETURN NONE", bindings).await.unwrap();
    assert_eq!(store.restore_row(&row).await.unwrap().unwrap().1, Restored::Queued { messages: 2 });
    let queued = super::messages(&store, SHARD).await;
    let ids: Vec<_> = queued.iter().map(|message| message.id.to_string()).collect();
    assert_eq!(ids, [format!("m-{first}-0"), format!("m-{first}-3")]);
}
