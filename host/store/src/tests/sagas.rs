//! What only this store does with sagas: columns for people, quarantine, what is left behind.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::ids::ShardId;
use waybill_core::port::quarantine::{QuarantineStore, Restored};
use waybill_core::port::saga::DefinitionFormat;
use waybill_core::port::saga_store::{Acquired, SagaStore, SagaTable};
use waybill_core::port::store::StoreError;
use waybill_core::saga::definition::parse;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{
    BrokenSaga, JournalEntry, SagaCommit, SagaRow, SagaShardRecord, SagaTakeover, SagaWrite, StoredDefinition,
};
use waybill_surreal::to_json;
use waybill_testkit::conformance::saga_samples::{after, completed, dead, key, reference, resting, transitions};

use super::{memory, sql};
use crate::SurrealStore;

pub(super) const SHARD: ShardId = ShardId(0);

pub(super) async fn take(store: &SurrealStore) -> SagaTakeover {
    match store.acquire(SHARD, 1, 1).await.unwrap() {
        Acquired::Taken(takeover) => *takeover,
        Acquired::Lost { .. } => unreachable!("nobody else is here"),
    }
}

pub(super) async fn commit(store: &SurrealStore, journal: &[&str], writes: Vec<SagaWrite>, floor: u64) {
    let stands = store.saga_shard(SHARD).await.unwrap();
    let entry =
        |id: &&str| JournalEntry { key: key("acme", id), from: 0, events: transitions(0).swap_remove(0), ended: false };
    let commit = SagaCommit {
        shard: SHARD,
        expect_token: stands.token,
        expect_beat: stands.beat,
        record: SagaShardRecord { beat: stands.beat + 1, floor, ..stands },
        journal: journal.iter().map(entry).collect(),
        writes,
        messages: Vec::new(),
        events: Default::default(),
        door: Vec::new(),
    };
    store.commit_sagas(commit).await.unwrap();
}

fn large(row: SagaRow) -> SagaRow {
    let mut tree = row.tree.as_ref().clone();
    tree.sagas[0].input = Json::parse(&format!("\"{}\"", "x".repeat(9_000))).unwrap();
    SagaRow { tree: Arc::new(tree), ..row }
}

pub(super) async fn shown(store: &SurrealStore, text: &str) -> String {
    let answers = sql(store, text).await.unwrap();
    answers.into_iter().map(|value| to_json(value).unwrap().to_string()).collect::<Vec<_>>().join(";")
}

/// Puts the definition that the samples run on.
pub(super) async fn define(store: &SurrealStore) {
    let text = "name = \"order\"\nversion = 3\n".to_owned()
        + &["a", "b", "c"].map(|step| format!("[[steps]]\nname = \"{step}\"\naction = \"fn:x/{step}\"\n")).concat();
    let canonical = parse(&text, DefinitionFormat::Toml).unwrap().definition.canonical;
    let reference = reference("order", 3);
    let stored = StoredDefinition { reference, canonical, created_at: after(0), created_by: "ada".into() };
    store.put_definition(&stored).await.unwrap();
}

/// How many records the tables hold.
pub(super) async fn counts(store: &SurrealStore, tables: &[&str]) -> Vec<usize> {
    let mut counts = Vec::new();
    for table in tables {
        let ids = shown(store, &format!("SELECT VALUE 1 FROM {table}")).await;
        counts.push(ids.matches('1').count());
    }
    counts
}

#[tokio::test]
async fn what_rests_ended_or_died_is_queryable_with_the_columns_of_the_source() {
    let store = memory().await;
    let writes = vec![
        SagaWrite::PutRow(Arc::new(resting(key("acme", "a"), 1))),
        SagaWrite::PutDone(Arc::new(completed(key("acme", "b"), 1))),
        SagaWrite::PutDead(Arc::new(dead(key("acme", "c"), "HTTP.500"))),
    ];
    commit(&store, &[], writes, 0).await;
    let text = "SELECT VALUE [saga_id, tenant, def_name, def_version, state, waiting_for, steps, created_at] FROM saga";
    let row = shown(&store, text).await;
    let start = r#"[["a","acme","order",3,"running","approval",["approve"],"2027-01-15T08:00:00.001"#;
    assert!(row.starts_with(start), "{row}");
    let row = shown(&store, "SELECT VALUE [saga_id, state, ended_at] FROM saga_done WHERE state = 'completed'").await;
    assert!(row.starts_with(r#"[["b","completed","2027-01-15T08:00:00.016"#), "{row}");
    let row = shown(&store, "SELECT VALUE [kind, ref_id, topic, error_code, last_error, status] FROM saga_dead").await;
    let expected = r#"[["saga","c","saga:payment/charge","HTTP.500","HTTP.500: the bank said no 17 times","dead"]]"#;
    assert_eq!(row, expected);
}

#[tokio::test]
async fn nothing_is_left_of_what_ended_and_expired() {
    let store = memory().await;
    let tables = ["saga", "saga_done", "saga_tree", "saga_start", "saga_ended", "saga_journal"];
    let rested = large(resting(key("acme", "mine"), 1));
    commit(&store, &["mine"], vec![SagaWrite::PutRow(Arc::new(rested))], 0).await;
    assert_eq!(counts(&store, &tables).await, [1, 0, 1, 1, 0, 1]);
    let ended = large(completed(key("acme", "mine"), 1));
    let writes = vec![SagaWrite::DeleteRow(ended.summary.key.clone()), SagaWrite::PutDone(Arc::new(ended))];
    commit(&store, &["mine"], writes, 0).await;
    assert_eq!(counts(&store, &tables).await, [0, 1, 1, 1, 1, 2]);
    let beat = store.saga_shard(SHARD).await.unwrap().beat;
    commit(&store, &[], Vec::new(), beat + 1).await;
    assert_eq!(store.expire_sagas(after(100_000), Duration::ZERO, 10).await.unwrap().removed, 1);
    assert_eq!(counts(&store, &tables).await, [0; 6]);
}

#[tokio::test]
async fn a_damaged_journal_record_goes_to_quarantine_and_its_neighbours_are_read() {
    let store = memory().await;
    for id in ["a", "b", "c"] {
        commit(&store, &[id], Vec::new(), 0).await;
    }
    sql(&store, "UPDATE saga_journal:[0, 2] SET data = <bytes> 'WBJxxxxxxxx' RETURN NONE").await.unwrap();
    for _ in 0..2 {
        let found = take(&store).await;
        let ids: Vec<_> = found.journal.iter().map(|record| record.entries[0].key.id.to_string()).collect();
        assert_eq!(ids, ["a", "c"]);
        assert_eq!(store.saga_shard(SHARD).await.unwrap(), found.record);
    }
    let kept = shown(&store, "SELECT VALUE [`table`, key, reason, row] FROM outbox_quarantine").await;
    assert!(kept.starts_with(r#"[["saga_journal",[0,2],"#) && kept.contains("checksum"), "{kept}");
}

#[tokio::test]
async fn a_damaged_row_goes_to_quarantine_with_its_tree() {
    let store = memory().await;
    let rows = ["a", "b"].map(|id| SagaWrite::PutRow(Arc::new(large(resting(key("acme", id), 1)))));
    commit(&store, &[], rows.into(), 0).await;
    sql(&store, "UPDATE saga_tree:[0, 1800000000001, 'acme', 'a', 0] SET data = <bytes> 'junk' RETURN NONE")
        .await
        .unwrap();
    let error = store.saga(SHARD, &key("acme", "a")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(text) if text.contains("saga")), "{error:?}");
    let listed = store.list_sagas(SagaTable::Open, &SagaFilter::default(), None, 10).await.unwrap();
    assert_eq!(listed.items.len(), 2, "columns are read without the tree");
    let found = take(&store).await;
    assert_eq!(found.rows.len(), 1);
    assert_eq!(counts(&store, &["saga", "saga_tree", "outbox_quarantine"]).await, [1, 1, 1]);
    let kept = shown(&store, "SELECT VALUE [row.saga_id, row.state, reason, apart] FROM outbox_quarantine").await;
    assert!(kept.starts_with(r#"[["a","running","#), "{kept}");
    let error = store.saga(SHARD, &key("acme", "a")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(text) if text.contains("quarantine")), "{error:?}");
}

#[tokio::test]
async fn sagas_of_a_newer_host_give_the_shard_back() {
    let store = memory().await;
    commit(&store, &["a"], Vec::new(), 0).await;
    let crc = crc32fast::hash(b"J\x09").to_le_bytes();
    let bytes: Vec<u8> = [b'W', b'B', b'J', 9].into_iter().chain(crc).collect();
    let bindings = vec![("data".to_owned(), waybill_surreal::bytes(bytes))];
    store.engine.run("UPDATE saga_journal SET data = $data RETURN NONE", bindings).await.unwrap();
    let error = store.acquire(SHARD, 1, 1).await.unwrap_err();
    assert!(matches!(&error, StoreError::NewerData(text) if text.contains("version 9")), "{error:?}");
    assert_eq!(counts(&store, &["saga_journal", "outbox_quarantine"]).await, [1, 0]);
}

#[tokio::test]
async fn a_damaged_list_of_ended_sagas_stops_nothing_but_itself() {
    let store = memory().await;
    for id in ["a", "b"] {
        commit(&store, &[], vec![SagaWrite::PutDone(Arc::new(completed(key("acme", id), 1)))], 0).await;
    }
    sql(&store, "UPDATE saga_ended:[1800000000016, 0, 1] SET data = <bytes> 'junk' RETURN NONE").await.unwrap();
    assert_eq!(store.expire_sagas(after(100_000), Duration::ZERO, 10).await.unwrap().removed, 1);
    assert_eq!(counts(&store, &["saga_done", "saga_ended", "outbox_quarantine"]).await, [1, 0, 1]);
    assert!(store.saga(SHARD, &key("acme", "a")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_row_without_a_column_is_left_out_and_named_in_quarantine() {
    let store = memory().await;
    commit(&store, &[], vec![SagaWrite::PutRow(Arc::new(resting(key("acme", "a"), 1)))], 0).await;
    sql(&store, "UPDATE saga UNSET def_hash RETURN NONE").await.unwrap();
    assert!(store.list_sagas(SagaTable::Open, &SagaFilter::default(), None, 10).await.unwrap().items.is_empty());
    let kept = shown(&store, "SELECT VALUE reason FROM outbox_quarantine").await;
    assert!(kept.contains("def_hash"), "{kept}");
}

#[tokio::test]
async fn a_mended_journal_record_is_given_to_a_saga_that_was_set_aside_for_the_gap_it_left() {
    let store = memory().await;
    let events = transitions(0);
    let entry = |at: usize| JournalEntry {
        key: key("acme", "a"),
        from: u32::try_from(2 * at).unwrap(),
        events: events[at].clone(),
        ended: false,
    };
    let write = async |journal: Vec<JournalEntry>, writes: Vec<SagaWrite>, floor: u64| {
        let stands = store.saga_shard(SHARD).await.unwrap();
        let (expect_token, expect_beat) = (stands.token, stands.beat);
        let record = SagaShardRecord { beat: stands.beat + 1, floor, ..stands };
        let commit = SagaCommit {
            shard: SHARD,
            expect_token,
            expect_beat,
            record,
            journal,
            writes,
            events: Default::default(),
            messages: vec![],
            door: Vec::new(),
        };
        store.commit_sagas(commit).await.unwrap();
    };
    for at in 0..3 {
        write(vec![entry(at)], Vec::new(), 0).await;
    }
    let good = shown(&store, "SELECT VALUE encoding::base64::encode(data) FROM saga_journal:[0, 2]").await;
    let good = good.trim_matches(['[', ']', '"']).to_owned();
    sql(&store, "UPDATE saga_journal:[0, 2] SET data = <bytes> 'WBJxxxxxxxx' RETURN NONE").await.unwrap();
    assert_eq!(take(&store).await.journal.len(), 2);
    let record = store.quarantined(None, None, 10).await.unwrap().items.remove(0).id;
    let entries = vec![entry(0), entry(2)];
    let broken = BrokenSaga { key: key("acme", "a"), reason: "a gap".to_owned(), row: None, entries };
    let floor = store.saga_shard(SHARD).await.unwrap().beat + 1;
    write(Vec::new(), vec![SagaWrite::SetAside(Arc::new(broken))], floor).await;

    define(&store).await;
    let saga = store.quarantined(Some("saga"), None, 10).await.unwrap().items.remove(0).id;
    let refused = store.restore_row(&saga).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Corrupt(reason) if reason.contains("gap")), "{refused:?}");

    let mend = format!(
        "UPDATE outbox_quarantine SET row.data = encoding::base64::decode('{good}') WHERE `table` = 'saga_journal' RETURN NONE"
    );
    sql(&store, &mend).await.unwrap();
    assert_eq!(store.restore_row(&record).await.unwrap().unwrap().1, Restored::AtTakeover);
    assert_eq!(store.restore_row(&saga).await.unwrap().unwrap().1, Restored::AtTakeover);
    assert_eq!(counts(&store, &["saga", "saga_journal", "outbox_quarantine"]).await, [1, 0, 0]);
    let found = take(&store).await.rows.remove(0);
    assert_eq!((found.tree.events, found.summary.started_at), (6, after(0)));
}
