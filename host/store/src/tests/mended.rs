//! A journal record that was damaged: what ended in it isn't run again. When an operator has mended it, what it holds goes to its
//! sagas, or it stays in quarantine as a whole.

use std::sync::Arc;

use waybill_core::port::quarantine::{QuarantineStore, Restored};
use waybill_core::port::saga_store::SagaStore;
use waybill_core::port::store::StoreError;
use waybill_core::saga::event::What;
use waybill_core::saga::json::Json;
use waybill_core::saga::limits::SagaLimits;
use waybill_core::saga::machine::Rules;
use waybill_core::saga::records::{BrokenSaga, JournalEntry, SagaCommit, SagaShardRecord, SagaWrite};
use waybill_core::saga::shard::{SagaShard, SagaShardConfig};
use waybill_surreal::{Row, bytes, object};
use waybill_testkit::conformance::saga_samples::{after, completed, key, resting, transitions};

use super::sagas::{SHARD, counts, define, shown, take};
use super::{memory, sql};
use crate::SurrealStore;
use crate::codec::saga::encode_journal;
use crate::quarantine::{hand_out, put};
use crate::store::finish;
use crate::tables::{SAGA_JOURNAL, journal_key};

/// A part of a saga's history, of two events.
fn entry(id: &str, at: usize) -> JournalEntry {
    let (from, events) = (u32::try_from(2 * at).unwrap(), transitions(0).swap_remove(at));
    JournalEntry { key: key("acme", id), from, events, ended: false }
}

fn end(id: &str) -> JournalEntry {
    JournalEntry { events: Vec::new(), ended: true, ..entry(id, 1) }
}

async fn write(store: &SurrealStore, journal: Vec<JournalEntry>, writes: Vec<SagaWrite>) {
    let stands = store.saga_shard(SHARD).await.unwrap();
    let (expect_token, expect_beat) = (stands.token, stands.beat);
    let record = SagaShardRecord { beat: stands.beat + 1, ..stands };
    let commit = SagaCommit { shard: SHARD, expect_token, expect_beat, record, journal, writes, messages: Vec::new() };
    store.commit_sagas(commit).await.unwrap();
}

async fn damage(store: &SurrealStore, beat: u64) {
    let text = format!("UPDATE saga_journal:[0, {beat}] SET data = <bytes> 'WBJxxxxxxxx' RETURN NONE");
    sql(store, &text).await.unwrap();
}

/// Damages the record of a beat, lets a takeover move it to quarantine, and mends it there; answers its name.
async fn mended(store: &SurrealStore, beat: u64) -> String {
    let good =
        shown(store, &format!("SELECT VALUE encoding::base64::encode(data) FROM saga_journal:[0, {beat}]")).await;
    let good = good.trim_matches(['[', ']', '"']).to_owned();
    damage(store, beat).await;
    take(store).await;
    let mend = format!(
        "UPDATE outbox_quarantine SET row.data = encoding::base64::decode('{good}') WHERE `table` = 'saga_journal' RETURN NONE"
    );
    sql(store, &mend).await.unwrap();
    store.quarantined(Some("saga_journal"), None, 10).await.unwrap().items.remove(0).id
}

#[tokio::test]
async fn a_saga_whose_end_stood_in_a_damaged_record_is_not_run_again() {
    let config = SagaShardConfig { shard: SHARD, limits: SagaLimits::default(), rules: Rules::default(), died: true };
    let store = memory().await;
    write(&store, vec![entry("a", 0), entry("still", 0)], Vec::new()).await;
    write(&store, vec![entry("a", 1)], Vec::new()).await;
    write(&store, vec![end("a")], vec![SagaWrite::PutDone(Arc::new(completed(key("acme", "a"), 1)))]).await;
    damage(&store, 3).await;
    // The takeover that meets it, and those that don't any more.
    for _ in 0..3 {
        let restored = SagaShard::restore(config, take(&store).await, |_| None, after(9), 0.5);
        let found: Vec<_> = restored.broken.iter().map(|broken| broken.key.clone()).collect();
        assert_eq!(found, [key("acme", "still")], "without its definition all that is left can't be restored");
    }
}

#[tokio::test]
async fn a_mended_record_goes_to_its_sagas_and_never_back_into_the_journal() {
    let store = memory().await;
    define(&store).await;
    write(&store, vec![entry("a", 0)], Vec::new()).await;
    write(&store, vec![entry("a", 1), entry("c", 0), end("gone")], Vec::new()).await;
    write(&store, vec![entry("a", 2)], Vec::new()).await;
    let record = mended(&store, 2).await;
    let entries = vec![entry("a", 0), entry("a", 2)];
    let broken = BrokenSaga { key: key("acme", "a"), reason: "a gap".to_owned(), row: None, entries };
    write(&store, vec![end("a")], vec![SagaWrite::SetAside(Arc::new(broken))]).await;

    assert_eq!(store.restore_row(&record).await.unwrap().unwrap().1, Restored::AtTakeover);
    assert_eq!(counts(&store, &["saga_journal:[0, 2]", "saga"]).await, [0, 1]);
    assert_eq!(store.saga(SHARD, &key("acme", "c")).await.unwrap().unwrap().tree.events, 2);
    let aside = store.quarantined(None, None, 10).await.unwrap().items.remove(0).id;
    store.restore_row(&aside).await.unwrap().unwrap();
    let mut rows = take(&store).await.rows;
    rows.sort_by(|a, b| a.tree.key.cmp(&b.tree.key));
    let found: Vec<_> = rows.iter().map(|row| (row.tree.key.clone(), row.tree.events)).collect();
    assert_eq!(found, [(key("acme", "a"), 6), (key("acme", "c"), 2)]);
    assert_eq!(counts(&store, &["outbox_quarantine", "saga_start"]).await, [0, 2]);
}

#[tokio::test]
async fn a_mended_record_stays_as_a_whole_if_a_saga_went_on_without_it() {
    let other = |at: usize, from: u32| JournalEntry { from, ..entry("b", at) };
    let row = || SagaWrite::PutRow(Arc::new(resting(key("acme", "b"), 1)));
    let done = || SagaWrite::PutDone(Arc::new(completed(key("acme", "b"), 1)));
    let broken = |entries| {
        let key = key("acme", "b");
        SagaWrite::SetAside(Arc::new(BrokenSaga { key, reason: "later".to_owned(), row: None, entries }))
    };
    for (how, first, journal, writes) in [
        ("in the journal", Some(entry("b", 0)), vec![other(2, 2)], Vec::new()),
        ("in a row", Some(entry("b", 0)), vec![end("b")], vec![row()]),
        ("to its end", Some(entry("b", 0)), vec![end("b")], vec![done()]),
        ("until it was set aside", None, vec![end("b")], vec![broken(vec![entry("b", 0), other(2, 2)])]),
        ("nobody knows from where", None, Vec::new(), Vec::new()),
    ] {
        let store = memory().await;
        define(&store).await;
        write(&store, first.into_iter().collect(), Vec::new()).await;
        let beat = store.saga_shard(SHARD).await.unwrap().beat + 1;
        write(&store, vec![entry("b", 1), entry("c", 0)], Vec::new()).await;
        let record = mended(&store, beat).await;
        write(&store, journal, writes).await;
        let before = counts(&store, &["saga", "saga_start", "saga_journal", "outbox_quarantine"]).await;
        let refused = store.restore_row(&record).await.unwrap_err();
        let named = format!("{refused}");
        assert!(matches!(refused, StoreError::Exists(_)), "{how}: {named}");
        assert!(named.contains(&key("acme", "b").to_string()), "{how}: {named}");
        assert!(!named.contains(&key("acme", "c").to_string()), "{how}: {named}");
        let after = counts(&store, &["saga", "saga_start", "saga_journal", "outbox_quarantine"]).await;
        assert_eq!(before, after, "{how}");
    }
}

#[tokio::test]
async fn a_mended_record_of_more_than_a_transaction_takes_goes_to_its_sagas_in_parts() {
    let large = |id: &str| {
        let mut large = entry(id, 0);
        let What::Started(started) = &mut large.events[0].what else { unreachable!("a saga begins with its start") };
        started.input = Json::parse(&format!("\"{}\"", "x".repeat(1_100_000))).unwrap();
        large
    };
    let store = memory().await;
    define(&store).await;
    let data = encode_journal(&["a", "b", "c"].map(large)).unwrap();
    let record = Row { key: journal_key(SHARD, 1), fields: object([("data", bytes(data))]) };

    let transaction = store.begin(true).await.unwrap();
    let rest = hand_out(transaction.as_ref(), &record).await.unwrap();
    assert_eq!(rest.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>(), [key("acme", "c")]);
    finish(transaction, Err::<(), _>(StoreError::Other("only looked at".to_owned()))).await.unwrap_err();

    let transaction = store.begin(true).await.unwrap();
    let kept = put(transaction.as_ref(), SAGA_JOURNAL, &record.key, record.fields.clone(), None, "mended").await;
    finish(transaction, kept).await.unwrap();
    let id = store.quarantined(Some("saga_journal"), None, 10).await.unwrap().items.remove(0).id;
    assert_eq!(store.restore_row(&id).await.unwrap().unwrap().1, Restored::AtTakeover);
    assert_eq!(counts(&store, &["saga", "saga_journal", "outbox_quarantine"]).await, [3, 0, 0]);
}
