//! A row that can't be read, in every table: it stops nobody, it lies in quarantine with its key and its columns, it is put back
//! only if it can be read, and it can be dropped. The list of tables is the store's own, so that a new one can't be left out.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::audit::AuditQuery;
use waybill_core::glob::Glob;
use waybill_core::idempotency::{Act, EntryFilter, EntryKey, Op};
use waybill_core::ids::{HoldToken, IdempotencyKey, MessageId, RequestHash, Tenant};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::index::Index;
use waybill_core::port::dedup::{DedupAsk, DedupKey, DedupStore};
use waybill_core::port::idempotency::IdempotencyStore;
use waybill_core::port::kv::{KvExpectation, KvQuota, KvStore};
use waybill_core::port::quarantine::{QuarantineStore, Restored};
use waybill_core::port::query::{ListKind, QueryStore};
use waybill_core::port::saga_store::{SagaStore, SagaTable};
use waybill_core::port::schedules::ScheduleStore;
use waybill_core::port::store::{OwnerStore, StoreError, Write};
use waybill_core::port::tokens::TokenStore;
use waybill_core::port::transact::TransactStore;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::{DefinitionHash, SagaId, SagaKey};
use waybill_core::time::UnixMillis;
use waybill_testkit::conformance::samples::{Owner, SHARD, dead, parked, scheduled, segment, seq};

use super::{inbox, memory, sql, streams};
use crate::SurrealStore;
use crate::quarantine::reader;
use crate::tables::{self, *};

const FAR: UnixMillis = UnixMillis(4_000_000_000_000);

/// Tables without rows that could be set aside by themselves, each with why.
const PARTS: [(&str, &str); 8] = [
    (DATA, "its record is part of a segment"),
    (INBOX_DATA, "its record is part of a stopped message"),
    (SAGA_TREE, "its record is part of a saga"),
    (EVENT_BLOB, "its record is part of an event, whose readers are told"),
    (QUARANTINE, "what lies there is shown as far as it can be"),
    (SAGA_QUARANTINE, "where earlier versions put what could not be read; it is taken over at the start"),
    (META, "settings that each start writes anew, and notes of which one that can't be read proves nothing"),
    (MIGRATION, "a store whose schema isn't known isn't opened"),
];

/// Places of rows whose keys are of another shape than this table's.
fn misplaced(table: &str) -> &'static [&'static str] {
    match table {
        // A key of five parts can't be removed by the stamp that its first four make.
        DOOR | STREAM_DOOR => &["[0, 1, 0, 'x', 'more']"],
        DEAD | INBOX | INBOX_DEAD => &["[0, 7.5]", "[0, 7, 1]"],
        STREAM_DEAD => &["[0, 7]", "[0, 7, 'x']"],
        _ => &[],
    }
}

/// Where a row of a table lies so that whoever reads the table meets it.
fn place(table: &str) -> &'static str {
    match table {
        OUTBOX => "[0, 'x']",
        DOOR | STREAM_DOOR => "[0, 1]",
        tables::SHARD | INDEX_SHARD | SAGA_SHARD | INBOX_SHARD | STREAM_SHARD => "0",
        PARKED | DEAD | INBOX | INBOX_DEAD | INBOX_DONE | INBOX_TAKEN => "[0, 7]",
        // Where counters behind `m-` lie, as something that a commit added.
        INBOX_SEEN => "[0, 'ship', 1, 'm-', 0, 1, 7]",
        INBOX_SEEN_DUE => "[0, 0, 0]",
        INBOX_CONSUMER => "bad",
        SAGA_DOOR => "[0, 0, 7, 1]",
        STREAM | STREAM_REST | EVENT_ID => "['acme', 'bad']",
        // One under a number stays where it is.
        EVENT => "['acme', 'good', 1, 2]",
        EVENT_ID_DUE => "[7, 'bad']",
        STREAM_FEED => "[0, 7]",
        STREAM_NODE => "['acme', 'n', 'good', 'more']",
        STREAM_DUE => "[0, 7, 'acme', 'a b']",
        // Before the row of what was read.
        EVENT_RESOURCE => "['acme', 'T', 'r', 'good', 0, 'more']",
        STREAM_TYPE => "['acme', 'T', 'good', 'more']",
        RELAY_AT => "['mail', 'acme', 'good']",
        STREAM_DEAD => "[0, 7, 0]",
        RELAY_OVERTAKEN => "['mail', 'acme', 'good', 7]",
        SCHEDULED => "[0, 7, 'id']",
        DONE => "[0, 7, 1]",
        ID | IDEMPOTENCY | SCHEDULE => "['acme', 'bad']",
        INDEX => "['header.x-a', '1', 'orders', 0]",
        BLOB | OPERATIONS | TOKEN => "bad",
        DEDUP => "['acme', 't', 'x', 'sha']",
        DONE_DUE => "[0, 7]",
        DEDUP_DUE | IDEMPOTENCY_DUE | ID_DUE => "[7, 'acme']",
        SAGA_JOURNAL => "[0, 7]",
        SAGA | SAGA_DONE => "[0, 7, 'acme', 'bad']",
        SAGA_START => "[0, 'acme', 'bad', 0]",
        SAGA_ENDED => "[7, 0, 1]",
        SAGA_DEAD => "[0, 'acme', 'bad']",
        SAGA_DEFINITION => "['bad', -1]",
        SAGA_DEFINITION_HASH => "bad",
        AUDIT => "[7, 'x']",
        TX_EVENT => "[7, 0, 0, 1, 0]",
        KV => "['scope', 'bad']",
        KV_SCOPE => "scope",
        other => panic!("say where a row of the new table {other} lies, and who reads it"),
    }
}

/// Everything that is read of a store, as a text; the rows with the name `bad` are asked for and their answers left out.
async fn read_all(store: &SurrealStore) -> String {
    let mut seen: Vec<String> = Vec::new();
    macro_rules! see {
        ($($read:expr),+ $(,)?) => { $(seen.push(format!("{:?}", $read.await.unwrap())));+ };
    }
    let (all, sagas, acme) = (Filter::default(), SagaFilter::default(), Tenant::new("acme").unwrap());
    let indexed = Filter::parse("tenant=orders header.x-a=1", UnixMillis(1)).unwrap();
    see!(
        store.directory(SHARD, seq(0, 0), 100),
        store.segments(SHARD, &[seq(0, 0)]),
        store.parked(SHARD, None, 100),
        store.scheduled_due(SHARD, FAR, 100),
        store.door(SHARD, 0, u64::MAX, None, 100),
        store.held_keys(SHARD),
        store.dead_before(SHARD, None, FAR, FAR, 100),
        store.history_before(SHARD, None, FAR, 100),
        store.dead_letters(&all, None, 100),
        store.dead_letters(&indexed, None, 100),
        store.latest_dead(&all, None, 100),
        store.count_dead(&all, 100),
        store.dead_groups(&all, 100),
        store.depths(100),
        store.list_sagas(SagaTable::Open, &sagas, None, 100),
        store.list_sagas(SagaTable::Done, &sagas, None, 100),
        store.count_sagas(SagaTable::Open, &sagas),
        store.count_sagas(SagaTable::Done, &sagas),
        store.dead_sagas(&all, None, 100),
        store.definitions(None, None, 100),
        store.operations(None, 100),
        store.running_operations(),
        store.stored_tokens(),
        store.schedules(),
        store.audit_lines(&AuditQuery { kind: Some(Glob::new("*")), ..AuditQuery::default() }, None, 100),
        store.entries(None, &EntryFilter::default(), UnixMillis(1), None, 100),
        store.keys("scope", "good", None, 100),
    );
    for kind in [ListKind::Flowing, ListKind::Parked, ListKind::Scheduled, ListKind::Done] {
        see!(store.list(kind, &all, None, 100), store.newest(&[kind], &all, None, 100));
    }
    // Who asks for such a row hears of it, or goes on without it; nobody else does.
    let (id, key) = (MessageId::new("bad").unwrap(), IdempotencyKey::new("bad").unwrap());
    let good = MessageId::new("good").unwrap();
    let ids = store.ids(&[(acme.clone(), good), (acme.clone(), id)]).await.unwrap();
    seen.push(format!("{:?}", ids.first()));
    let _told = store.entry(&EntryKey { tenant: acme.clone(), key }, UnixMillis(1)).await;
    let _told = store.blob("bad").await.unwrap();
    let _told = store.operation("bad").await;
    let _told = KvStore::get(store, "scope", "bad").await;
    let of = DedupKey { tenant: acme.clone(), transport: "t".into(), target: "x".into(), sha256: "sha".into() };
    let ask = DedupAsk { key: of, id: MessageId::new("first").unwrap(), window: Duration::from_secs(3_600) };
    store.reserve(std::slice::from_ref(&ask), UnixMillis(FAR.0 + 1), UnixMillis(0)).await.unwrap();
    store.purge_ids(UnixMillis(1_000), 100).await.unwrap();
    store.purge_dedup(UnixMillis(1_000), 100).await.unwrap();
    store.purge_idempotency(UnixMillis(1_000), 100).await.unwrap();
    let put = store.put("scope", "good", "value".into(), KvExpectation::Anything, KvQuota::default());
    put.await.unwrap();
    let _told = store.definition("bad", None).await;
    let _told = store.definition_by_hash(&DefinitionHash(Arc::from("bad"))).await;
    let _told = store.saga(SHARD, &SagaKey { tenant: acme, id: SagaId::new("bad").unwrap() }).await;
    store.expire_sagas(UnixMillis(1_000), Duration::ZERO, 100).await.unwrap();
    store.shard(SHARD).await.unwrap();
    store.acquire(SHARD, 1, 1).await.unwrap();
    seen.push(inbox::read_all(store).await);
    seen.push(streams::read_all(store).await);
    seen.join("\n")
}

/// A store with a good row of everything that flows or has stopped.
async fn populated() -> SurrealStore {
    let store = memory().await;
    store.set_indexes(vec![Index {
        tenant: Index::tenants("orders").unwrap(),
        field: Index::field("header.x-a").unwrap(),
    }]);
    let writes = vec![
        Write::PutSegment(Arc::new(segment(seq(0, 0), 3))),
        Write::PutParked(Arc::new(parked(seq(1, 0), 2))),
        Write::PutScheduled(Arc::new(scheduled(UnixMillis(50), "good"))),
        Write::PutDead(Arc::new(dead(seq(2, 0), 1, "orders", "HTTP.500"))),
    ];
    Owner::new().commit(&store, writes).await;
    inbox::one_of_each(&store).await;
    streams::one_of_each(&store).await;
    store
}

#[tokio::test]
async fn a_row_that_can_not_be_read_stops_nobody_and_lies_in_quarantine() {
    for table in OWN {
        if reader(table).is_none() {
            assert!(PARTS.iter().any(|(part, why)| *part == table && !why.is_empty()), "{table}: nobody reads it");
            continue;
        }
        for place in std::iter::once(place(table)).chain(misplaced(table).iter().copied()) {
            stops_nobody(table, place).await;
        }
    }
}

async fn stops_nobody(table: &'static str, place: &str) {
    let store = populated().await;
    // Reading leaves something itself.
    read_all(&store).await;
    let before = read_all(&store).await;
    sql(&store, &format!("UPSERT {table}:{place} CONTENT {{ junk: 17 }} RETURN NONE")).await.unwrap();
    let after = read_all(&store).await;
    assert_eq!(before, after, "{table}: its neighbours");

    let page = store.quarantined(None, None, 10).await.unwrap();
    let [row] = page.items.as_slice() else { panic!("{table}: {page:?}") };
    assert_eq!(row.table, table);
    let shown = store.quarantined_row(&row.id).await.unwrap().unwrap();
    assert_eq!(shown.columns, serde_json::json!({ "junk": 17 }), "{table}");
    let key = place.trim_matches(|c| c == '\'').replace('\'', "\"");
    let expected: serde_json::Value = serde_json::from_str(&key).unwrap_or_else(|_| key.clone().into());
    assert_eq!(shown.row.key, expected, "{table}");
    assert!(shown.unreadable.is_some(), "{table}");
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [(table.to_owned(), 1)]);

    // It isn't put back as it is, and read again it isn't moved again.
    let refused = store.restore_row(&row.id).await.unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt(_)), "{table}: {refused:?}");
    read_all(&store).await;
    assert_eq!(store.quarantined(None, None, 10).await.unwrap().items.len(), 1, "{table}");
    assert_eq!(store.drop_row(&row.id).await.unwrap().unwrap().id, row.id);
    assert!(store.quarantined_counts().await.unwrap().tables.is_empty(), "{table}");
    let left = sql(&store, &format!("SELECT VALUE junk FROM {table} WHERE junk OR quarantined")).await.unwrap();
    assert!(format!("{left:?}").contains("[]"), "{table}: {left:?}");
}

/// In both directions: what is listed, counted and told of in readiness goes on behind it.
#[tokio::test]
async fn a_dead_letter_under_a_key_without_a_place_hides_none_behind_it() {
    let all = Filter::default();
    for (key, content) in [
        // Above and below the good ones, in the middle of a key and at its front; also with content that can be read.
        ("[0, 4000000000000000000f]", "{ junk: 17 }"),
        ("[0, 7.5]", "(SELECT tenant, data FROM ONLY dead_letters LIMIT 1)"),
        ("[0.5f, 7]", "{ junk: 17 }"),
    ] {
        for newest_first in [true, false] {
            let store = memory().await;
            let letters = (0..3).map(|n| Write::PutDead(Arc::new(dead(seq(n, 0), 1, "orders", "HTTP.500"))));
            Owner::new().commit(&store, letters.collect()).await;
            sql(&store, &format!("CREATE dead_letters:{key} CONTENT {content} RETURN NONE")).await.unwrap();
            let page = match newest_first {
                true => store.latest_dead(&all, None, 100).await.unwrap(),
                false => store.dead_letters(&all, None, 100).await.unwrap(),
            };
            assert_eq!(page.items.len(), 3, "{key}, the newest first: {newest_first}");
            assert_eq!(store.count_dead(&all, 100).await.unwrap().value, 3, "{key}");
            let depths = store.depths(100).await.unwrap();
            assert_eq!(depths.of.iter().map(|depth| depth.dead).sum::<u64>(), 3, "{key}");
            let counts = store.quarantined_counts().await.unwrap();
            assert_eq!(counts.tables, [("dead_letters".to_owned(), 1)], "{key}, the newest first: {newest_first}");
        }
    }
}

#[tokio::test]
async fn damaged_content_goes_to_quarantine_and_back_when_it_is_mended() {
    // Who meets it, and whether its message enters the order anew when it is put back.
    for (table, list, queued, tenant) in [
        ("parked", ListKind::Parked, true, "Größe & Söhne"),
        ("scheduled", ListKind::Scheduled, true, "acme"),
        ("dead_letters", ListKind::Parked, false, "orders"),
    ] {
        let store = populated().await;
        let bytes = sql(&store, &format!("SELECT VALUE data FROM {table}")).await.unwrap();
        sql(&store, &format!("UPDATE {table} SET data = <bytes> 'WBxjunkjunk' RETURN NONE")).await.unwrap();
        store.list(list, &Filter::default(), None, 10).await.unwrap();
        store.dead_letters(&Filter::default(), None, 10).await.unwrap();
        let row = store.quarantined(Some(table), None, 10).await.unwrap().items.remove(0);
        assert_eq!(row.tenant.as_deref(), Some(tenant), "{table}");
        assert!(matches!(store.restore_row(&row.id).await, Err(StoreError::Corrupt(_))), "{table}");

        // A version that reads it: here, its bytes are mended.
        let mended = format!("UPDATE outbox_quarantine SET row.data = $bytes[0] WHERE `table` = '{table}' RETURN NONE");
        let bindings = vec![("bytes".to_owned(), bytes[0].clone())];
        store.engine.run(&mended, bindings).await.unwrap();
        let (_, restored) = store.restore_row(&row.id).await.unwrap().unwrap();
        let door = store.door(SHARD, 0, u64::MAX, None, 10).await.unwrap();
        if queued {
            assert_eq!((restored, door.len()), (Restored::Queued { messages: 1 }, 1), "{table}");
        } else {
            assert_eq!((restored, door.len()), (Restored::InPlace, 0), "{table}");
            assert_eq!(store.count_dead(&Filter::default(), 100).await.unwrap().value, 1);
        }
        assert!(store.quarantined_counts().await.unwrap().tables.is_empty());
    }
}

#[tokio::test]
async fn what_an_id_or_a_key_stood_for_is_refused_until_an_operator_decides() {
    let store = memory().await;
    let (tenant, key) = (Tenant::new("acme").unwrap(), IdempotencyKey::new("pay").unwrap());
    let of = EntryKey { tenant: tenant.clone(), key };
    sql(&store, "CREATE idempotency:['acme', 'pay'] SET state = 'succeeded', bytes = 3").await.unwrap();
    let begin = || {
        let hash = RequestHash::new("h").unwrap();
        let token = HoldToken::new("t").unwrap();
        Op {
            of: of.clone(),
            act: Act::Begin { hash, token, lease: Duration::from_secs(1), ttl: Duration::from_secs(60) },
        }
    };
    // Twice: before and after it was moved. A request that was done isn't done again.
    for _ in 0..2 {
        let answers = store.act(&[begin()], UnixMillis(1)).await.unwrap();
        assert!(matches!(&answers[0], Err(StoreError::Corrupt(_))), "{answers:?}");
    }
    let row = store.quarantined(None, None, 10).await.unwrap().items.remove(0);
    let answers = store.act(&[begin()], UnixMillis(1)).await.unwrap();
    assert!(answers[0].as_ref().unwrap_err().to_string().contains(&row.id), "{answers:?}");
    store.drop_row(&row.id).await.unwrap().unwrap();
    assert!(store.act(&[begin()], UnixMillis(1)).await.unwrap()[0].is_ok());

    let id = MessageId::new("m").unwrap();
    sql(&store, "CREATE outbox_id:['acme', 'm'] SET shard = 'x'").await.unwrap();
    for _ in 0..2 {
        let found = store.ids(&[(tenant.clone(), id.clone())]).await.unwrap();
        assert_eq!(
            found[0].as_ref().map(|record| record.content),
            Some(None),
            "it is taken, and not by the same message"
        );
    }
}

#[tokio::test]
async fn a_page_is_full_whatever_lies_between_its_rows() {
    let store = memory().await;
    let writes = (0..6).map(|n| Write::PutParked(Arc::new(parked(seq(n, 0), 1))));
    Owner::new().commit(&store, writes.collect()).await;
    sql(&store, "UPDATE (SELECT VALUE id FROM parked LIMIT 3) SET data = NONE RETURN NONE").await.unwrap();
    assert_eq!(store.parked(SHARD, None, 3).await.unwrap().len(), 3);
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [("parked".to_owned(), 3)]);
}

#[tokio::test]
async fn a_shard_record_that_can_not_be_read_is_made_anew_behind_all_that_was_given_out() {
    let store = populated().await;
    let before = store.shard(SHARD).await.unwrap();
    sql(&store, "UPDATE outbox_shard SET open = <bytes> 'junk' RETURN NONE").await.unwrap();
    let after = store.shard(SHARD).await.unwrap();
    assert!(after.token > before.token && after.last >= seq(2, 0) && after.open.is_empty() && after.released);
    assert_eq!(store.shard(SHARD).await.unwrap(), after);
    let mut owner = Owner::new();
    owner.record = after;
    owner.commit(&store, Vec::new()).await;
    assert_eq!(store.quarantined_counts().await.unwrap().tables, [("outbox_shard".to_owned(), 1)]);
}

#[tokio::test]
async fn what_earlier_versions_put_into_quarantine_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let config = || crate::StoreConfig::new(format!("surrealkv://{}", dir.path().display()));
    let store = SurrealStore::open(config()).await.unwrap();
    sql(&store, "CREATE outbox_quarantine:[0, 17] SET reason = 'old', tenant = 'acme', data = <bytes> 'x'")
        .await
        .unwrap();
    sql(&store, "CREATE saga_quarantine:['saga', 0, 1, 'acme', 's'] SET reason = 'older', tenant = 'acme'")
        .await
        .unwrap();
    store.close().await.unwrap();
    drop(store);
    let store = SurrealStore::open(config()).await.unwrap();
    let rows = store.quarantined(None, None, 10).await.unwrap().items;
    let mut found: Vec<_> =
        rows.iter().map(|row| (row.table.as_str(), row.key.to_string(), row.reason.as_str())).collect();
    found.sort();
    assert_eq!(found, [("outbox", "[0,17]".to_owned(), "old"), ("saga", "[0,1,\"acme\",\"s\"]".to_owned(), "older")]);
    assert!(rows.iter().all(|row| row.tenant.as_deref() == Some("acme") && row.at.is_none()));
    store.close().await.unwrap();
}
