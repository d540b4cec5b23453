//! What is put back or dropped leaves things as if it had never been away; what is read by its place is moved away as well.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::idempotency::{Act, EntryKey, Op};
use waybill_core::ids::{HoldToken, IdempotencyKey, MessageId, RequestHash, Tenant};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, DoneEnd, IdOrigin, IdRecord, IdState};
use waybill_core::port::dedup::{DedupAsk, DedupKey, DedupStore};
use waybill_core::port::idempotency::IdempotencyStore;
use waybill_core::port::kv::{KvExpectation, KvQuota, KvStore};
use waybill_core::port::quarantine::{QuarantineStore, Restored};
use waybill_core::port::query::{Found, QueryStore};
use waybill_core::port::store::{OwnerStore, StoreError, Write};
use waybill_core::port::stream_store::StreamStore;
use waybill_core::time::UnixMillis;
use waybill_testkit::conformance::samples::{
    Owner, SHARD, T0, chunk, dead, done, message, parked, place, scheduled, seq,
};
use waybill_testkit::conformance::stream_samples::exact;

use super::sagas::counts;
use super::{memory, sql};
use crate::owner::history::forget;
use crate::tables::history_due_key;
use crate::{StoreConfig, SurrealStore};

const FAR: UnixMillis = UnixMillis(4_000_000_000_000);

async fn only(store: &SurrealStore) -> String {
    let page = store.quarantined(None, None, 10).await.unwrap();
    let [row] = page.items.as_slice() else { panic!("{page:?}") };
    row.id.clone()
}

/// Mends the columns of what lies in quarantine, and puts it back.
async fn put_back(store: &SurrealStore, mend: &str) -> Restored {
    sql(store, &format!("UPDATE outbox_quarantine SET {mend} RETURN NONE")).await.unwrap();
    store.restore_row(&only(store).await).await.unwrap().unwrap().1
}

#[tokio::test]
async fn a_dead_letter_that_holds_its_key_holds_it_from_the_next_takeover_on() {
    let store = memory().await;
    let holding = DeadLetter { holds_key: true, ..dead(seq(0, 0), 1, "acme", "HTTP.500") };
    Owner::new().commit(&store, vec![Write::PutDead(Arc::new(holding))]).await;
    let bytes = sql(&store, "SELECT VALUE data FROM dead_letters").await.unwrap();
    sql(&store, "UPDATE dead_letters SET data = <bytes> 'WBxjunkjunk' RETURN NONE").await.unwrap();
    assert!(store.dead_letters(&Filter::default(), None, 10).await.unwrap().items.is_empty());
    let bindings = vec![("bytes".to_owned(), bytes[0].clone())];
    store.engine.run("UPDATE outbox_quarantine SET row.data = $bytes[0] RETURN NONE", bindings).await.unwrap();
    let (_, restored) = store.restore_row(&only(&store).await).await.unwrap().unwrap();
    assert_eq!(restored, Restored::AtTakeover);
    assert_eq!(store.held_keys(SHARD).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_chunk_of_the_history_that_can_not_be_read_hides_none_of_its_neighbours() {
    let (store, first) = (memory().await, seq(0, 0));
    let chunks = [(0, 1), (1, 2)].map(|(index, beat)| {
        let entries = vec![done(index, message(&format!("m-{index}")), DoneEnd::Delivered)];
        Write::PutHistory(Arc::new(chunk(first, beat, T0, entries)))
    });
    Owner::new().commit(&store, chunks.into()).await;
    sql(&store, &format!("UPDATE outbox_done:[0, {first}, 1] SET data = <bytes> 'junk' RETURN NONE")).await.unwrap();
    let found = store.at(place(first, 1)).await.unwrap();
    assert!(matches!(found, Some(Found::Done(_, _))), "{found:?}");
    assert!(store.at(place(first, 0)).await.unwrap().is_none());
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [("outbox_done".to_owned(), 1)]);
}

#[tokio::test]
async fn a_row_that_is_read_by_its_place_and_can_not_be_is_moved_away() {
    let (of_parked, of_dead, due) = (place(seq(0, 0), 1), place(seq(1, 0), 2), UnixMillis(50));
    for table in ["parked", "dead_letters", "scheduled"] {
        let store = memory().await;
        let writes = vec![
            Write::PutParked(Arc::new(parked(of_parked.segment, of_parked.index))),
            Write::PutDead(Arc::new(dead(of_dead.segment, of_dead.index, "acme", "HTTP.500"))),
            Write::PutScheduled(Arc::new(scheduled(due, "later"))),
        ];
        Owner::new().commit(&store, writes).await;
        sql(&store, &format!("UPDATE {table} SET data = <bytes> 'junk' RETURN NONE")).await.unwrap();
        let read = async || match table {
            "parked" => store.at(of_parked).await.map(|found| found.is_some()),
            "dead_letters" => store.dead_letter(SHARD, of_dead.seq()).await.map(|found| found.is_some()),
            _ => store.scheduled(SHARD, due, &MessageId::new("later").unwrap()).await.map(|found| found.is_some()),
        };
        let told = read().await;
        assert!(matches!(told, Err(StoreError::Corrupt(_))), "{table}: {told:?}");
        assert_eq!(store.quarantined_counts().await.unwrap().tables, [(table.to_owned(), 1)]);
        assert_eq!(read().await, Ok(false), "{table}");
    }
}

#[tokio::test]
async fn rows_that_are_too_large_for_one_transaction_together_are_moved_in_several() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::new(format!("surrealkv://{}", dir.path().display()));
    config.memtable_bytes = 8 * 1024 * 1024;
    let store = SurrealStore::open(config).await.unwrap();
    for n in 0..12 {
        let bindings = vec![("junk".to_owned(), waybill_surreal::text("x".repeat(1_000_000)))];
        let text = format!("UPSERT parked:[0, {n}] SET junk = $junk RETURN NONE");
        store.engine.run(&text, bindings).await.unwrap();
    }
    assert!(store.parked(SHARD, None, 100).await.unwrap().is_empty());
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [("parked".to_owned(), 12)]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_plugins_entry_that_is_dropped_takes_no_room_any_more() {
    let store = memory().await;
    let quota = KvQuota { entries_max: 2, ..KvQuota::default() };
    let put = async |name: &str| store.put("scope", name, "value".into(), KvExpectation::Anything, quota).await;
    put("a").await.unwrap();
    put("b").await.unwrap();
    sql(&store, "UPDATE plugin_kv:['scope', 'b'] UNSET value RETURN NONE").await.unwrap();
    assert!(KvStore::get(&store, "scope", "b").await.is_err());
    store.drop_row(&only(&store).await).await.unwrap().unwrap();
    put("c").await.unwrap();
    assert!(put("d").await.is_err(), "the others are counted");
}

#[tokio::test]
async fn an_idempotency_key_that_is_put_back_is_purged_in_its_time() {
    let store = memory().await;
    let key = IdempotencyKey::new("pay").unwrap();
    let of = EntryKey { tenant: Tenant::new("acme").unwrap(), key };
    let (hash, token) = (RequestHash::new("h").unwrap(), HoldToken::new("t").unwrap());
    let (lease, ttl) = (Duration::from_secs(1), Duration::from_secs(60));
    let begin = Op { of: of.clone(), act: Act::Begin { hash, token, lease, ttl } };
    store.act(&[begin], UnixMillis(1)).await.unwrap().remove(0).unwrap();
    sql(&store, "UPDATE idempotency UNSET state RETURN NONE; DELETE idempotency_due").await.unwrap();
    assert!(store.entry(&of, UnixMillis(2)).await.is_err());
    assert_eq!(put_back(&store, "row.state = 'in_flight'").await, Restored::InPlace);
    assert_eq!(store.purge_idempotency(FAR, 10).await.unwrap(), 1);
    assert_eq!(counts(&store, &["idempotency", "idempotency_due"]).await, [0, 0]);
}

#[tokio::test]
async fn a_payload_that_is_put_back_is_purged_in_its_time() {
    let store = memory().await;
    let tenant = Tenant::new("acme").unwrap();
    let key = DedupKey { tenant, transport: "t".into(), target: "x".into(), sha256: "sha".into() };
    let ask = DedupAsk { key, id: MessageId::new("first").unwrap(), window: Duration::from_secs(60) };
    store.reserve(&[ask], UnixMillis(1), UnixMillis(0)).await.unwrap();
    sql(&store, "UPDATE outbox_dedup UNSET id_of RETURN NONE").await.unwrap();
    assert_eq!(store.purge_dedup(FAR, 10).await.unwrap(), 1);
    assert_eq!(put_back(&store, "row.id_of = 'first'").await, Restored::InPlace);
    assert_eq!(store.purge_dedup(FAR, 10).await.unwrap(), 1);
    assert_eq!(counts(&store, &["outbox_dedup", "outbox_dedup_due"]).await, [0, 0]);
}

#[tokio::test]
async fn an_id_that_is_put_back_is_purged_if_its_message_is_nowhere_any_more() {
    let tenant = Tenant::new("acme").unwrap();
    let id = MessageId::new("m").unwrap();
    for is_there in [false, true] {
        let store = memory().await;
        let of = place(seq(0, 0), 1);
        let (state, origin) = (IdState::At(of), IdOrigin::Unknown);
        let record = Arc::new(IdRecord { tenant: tenant.clone(), id: id.clone(), state, content: None, origin });
        let mut writes = vec![Write::PutId { record, create: true }];
        if is_there {
            writes.push(Write::PutParked(Arc::new(parked(of.segment, of.index))));
        }
        Owner::new().commit(&store, writes).await;
        sql(&store, "UPDATE outbox_id UNSET shard RETURN NONE").await.unwrap();
        store.ids(&[(tenant.clone(), id.clone())]).await.unwrap();
        assert_eq!(put_back(&store, "row.shard = 0").await, Restored::InPlace);
        store.purge_ids(FAR, 10).await.unwrap();
        let kept = usize::from(is_there);
        assert_eq!(counts(&store, &["outbox_id", "outbox_id_due"]).await, [kept, 0], "{is_there}");
    }
}

#[tokio::test]
async fn an_id_of_an_event_that_is_put_back_is_forgotten_in_its_time() {
    for was_forgotten in [true, false] {
        let store = memory().await;
        store.append_exact(&exact("a", &["x"], 0), T0).await.unwrap().unwrap();
        sql(&store, "UPDATE event_id UNSET seq RETURN NONE").await.unwrap();
        store.append_exact(&exact("a", &["x"], 0), T0).await.unwrap().unwrap_err();
        if was_forgotten {
            assert_eq!(store.forget_ids(UnixMillis(T0.0 + 1), 10).await.unwrap(), 1);
        }
        assert_eq!(put_back(&store, "row.seq = 1").await, Restored::InPlace);
        assert_eq!(counts(&store, &["event_id", "event_id_due"]).await, [1, 1], "{was_forgotten}");
        assert_eq!(store.forget_ids(FAR, 10).await.unwrap(), 1, "{was_forgotten}");
        assert_eq!(counts(&store, &["event_id", "event_id_due"]).await, [0, 0], "{was_forgotten}");
    }
}

#[tokio::test]
async fn a_chunk_that_is_there_keeps_its_row_by_time() {
    let store = memory().await;
    let chunk = chunk(seq(0, 0), 1, T0, vec![done(0, message("m"), DoneEnd::Delivered)]);
    let due = history_due_key(SHARD, &chunk.key());
    Owner::new().commit(&store, vec![Write::PutHistory(Arc::new(chunk))]).await;
    forget(&store, SHARD, vec![due.clone()]).await.unwrap();
    assert_eq!(counts(&store, &["outbox_done_due"]).await, [1]);
    sql(&store, "DELETE outbox_done").await.unwrap();
    forget(&store, SHARD, vec![due]).await.unwrap();
    assert_eq!(counts(&store, &["outbox_done_due"]).await, [0]);
}

#[tokio::test]
async fn what_lies_there_is_looked_at_by_its_bytes_and_a_count_that_stops_says_so() {
    let (store, rows) = (memory().await, 30);
    for n in 0..rows {
        let bindings = vec![("junk".to_owned(), waybill_surreal::text("x".repeat(1_000_000)))];
        let text = format!(
            "UPSERT outbox_quarantine:row{n:02} SET `table` = 'parked', key = [0, {n}], row = {{ junk: $junk }} RETURN NONE"
        );
        store.engine.run(&text, bindings).await.unwrap();
    }
    let counts = store.quarantined_counts().await.unwrap();
    let [(table, count)] = counts.tables.as_slice() else { panic!("{counts:?}") };
    assert!(counts.at_least && table == "parked" && (1..rows).contains(count), "{counts:?}");
    let (mut found, mut cursor, mut pages) = (0, None::<String>, 0);
    loop {
        let page = store.quarantined(None, cursor.as_deref(), 100).await.unwrap();
        (found, pages) = (found + page.items.len() as u64, pages + 1);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert!(found == rows && pages > 1, "{found} rows on {pages} pages");
    sql(&store, "DELETE outbox_quarantine WHERE key[1] > 0").await.unwrap();
    let left = store.quarantined_counts().await.unwrap();
    assert_eq!((left.tables, left.at_least), (vec![("parked".to_owned(), 1)], false));
}
