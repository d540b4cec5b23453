//! A journal record that was damaged: what ended in it isn't run again. When an operator has mended it, what it holds goes to its
//! sagas, or it stays in quarantine as a whole.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::port::quarantine::{QuarantineStore, Restored};
use waybill_core::port::saga_store::SagaStore;
use waybill_core::port::store::StoreError;
use waybill_core::saga::event::EventKind;
use waybill_core::saga::json::Json;
use waybill_core::saga::limits::SagaLimits;
use waybill_core::saga::machine::Rules;
use waybill_core::saga::records::{BrokenSaga, JournalEntry, SagaCommit, SagaShardRecord, SagaWrite};
use waybill_core::saga::shard::{SagaShard, SagaShardConfig};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Row, bytes, object};
use waybill_testkit::conformance::saga_samples::{after, completed, key, resting, transitions};

use super::sagas::{SHARD, commit, counts, define, shown, take};
use super::{memory, sql};
use crate::SurrealStore;
use crate::codec::saga::encode_journal;
use crate::quarantine::{hand_out, put};
use crate::saga::{begin_forgetting, dropped, forgotten_until, mark_dropped};
use crate::store::finish;
use crate::tables::{SAGA_JOURNAL, beat_key};

/// Later than anything that happens in a test.
const FAR: UnixMillis = UnixMillis(9_000_000_000_000);

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
    let commit = SagaCommit {
        shard: SHARD,
        expect_token,
        expect_beat,
        record,
        journal,
        writes,
        events: Default::default(),
        messages: Vec::new(),
        door: Vec::new(),
    };
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
    let config = SagaShardConfig {
        shard: SHARD,
        tx_events: None,
        limits: SagaLimits::default(),
        rules: Rules::default(),
        died: true,
    };
    let store = memory().await;
    write(&store, vec![entry("a", 0), entry("still", 0)], Vec::new()).await;
    write(&store, vec![entry("a", 1)], Vec::new()).await;
    write(&store, vec![end("a")], vec![SagaWrite::PutDone(Arc::new(completed(key("acme", "a"), 1)))]).await;
    damage(&store, 3).await;
    // The takeover that meets it, and those that don't any more.
    for _ in 0..3 {
        let restored = SagaShard::restore(config.clone(), take(&store).await, |_| None, after(9), 0.5);
        let found: Vec<_> = restored.broken.iter().map(|broken| broken.key.clone()).collect();
        assert_eq!(found, [key("acme", "still")], "without its definition all that is left can't be restored");
    }
}

#[tokio::test]
async fn the_end_of_a_saga_is_known_after_its_time_as_long_as_a_takeover_needs_it() {
    let config = SagaShardConfig {
        shard: SHARD,
        tx_events: None,
        limits: SagaLimits::default(),
        rules: Rules::default(),
        died: true,
    };
    for damages_before in [false, true] {
        let store = memory().await;
        write(&store, vec![entry("a", 0)], Vec::new()).await;
        write(&store, vec![end("a")], vec![SagaWrite::PutDone(Arc::new(completed(key("acme", "a"), 1)))]).await;
        if damages_before {
            damage(&store, 2).await;
        }
        assert_eq!(store.expire_sagas(FAR, Duration::ZERO, 10).await.unwrap().removed, 0);
        damage(&store, 2).await;
        let restored = SagaShard::restore(config.clone(), take(&store).await, |_| None, after(9), 0.5);
        assert!(restored.broken.is_empty(), "it isn't taken up again: {:?}", restored.broken);
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
        let EventKind::Started(started) = &mut large.events[0].what else {
            unreachable!("a saga begins with its start")
        };
        started.input = Json::parse(&format!("\"{}\"", "x".repeat(1_100_000))).unwrap();
        large
    };
    let store = memory().await;
    define(&store).await;
    let data = encode_journal(&["a", "b", "c"].map(large)).unwrap();
    let record = Row { key: beat_key(SHARD, 1), fields: object([("data", bytes(data))]) };

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

/// Sets a saga aside that is in no row.
fn aside(id: &str, entries: Vec<JournalEntry>) -> SagaWrite {
    let key = key("acme", id);
    SagaWrite::SetAside(Arc::new(BrokenSaga { key, reason: "a gap".to_owned(), row: None, entries }))
}

/// What a refusal says.
async fn refused(store: &SurrealStore, record: &str) -> String {
    let tables = ["saga", "saga_start", "saga_journal", "outbox_quarantine"];
    let before = counts(store, &tables).await;
    let refused = store.restore_row(record).await.unwrap_err();
    assert!(matches!(refused, StoreError::Exists(_)), "{refused:?}");
    assert_eq!(before, counts(store, &tables).await, "{refused:?}");
    refused.to_string()
}

#[tokio::test]
async fn a_mended_record_brings_no_saga_back_that_was_dropped_since() {
    let store = memory().await;
    define(&store).await;
    write(&store, vec![entry("b", 0)], Vec::new()).await;
    write(&store, vec![entry("b", 1)], Vec::new()).await;
    let record = mended(&store, 1).await;
    write(&store, vec![end("b")], vec![aside("b", vec![entry("b", 1)])]).await;
    let saga = store.quarantined(Some("saga"), None, 10).await.unwrap().items.remove(0).id;
    store.drop_row(&saga).await.unwrap().unwrap();
    assert_eq!(store.saga(SHARD, &key("acme", "b")).await.unwrap(), None, "its id is free");
    let named = refused(&store, &record).await;
    assert!(named.contains("b of tenant acme was dropped since") && named.contains("drop it"), "{named}");
    // The mark goes with its time, and then the record is too old.
    store.expire_sagas(FAR, Duration::ZERO, 10).await.unwrap();
    assert_eq!(dropped(store.begin(false).await.unwrap().as_ref(), SHARD, &key("acme", "b")).await.unwrap(), None);
    let named = refused(&store, &record).await;
    assert!(named.contains("too long ago") && named.contains("drop it"), "{named}");
    store.drop_row(&record).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_mended_record_brings_no_saga_back_whose_end_is_not_kept_any_more() {
    let store = memory().await;
    define(&store).await;
    write(&store, vec![entry("b", 0)], Vec::new()).await;
    write(&store, vec![end("b")], vec![SagaWrite::PutDone(Arc::new(completed(key("acme", "b"), 1)))]).await;
    let later = JournalEntry { events: transitions(1_000).swap_remove(0), ..entry("c", 0) };
    write(&store, vec![later], Vec::new()).await;
    let record = mended(&store, 1).await;
    let named = refused(&store, &record).await;
    assert!(named.contains("went on or ended"), "{named}");
    commit(&store, &[], Vec::new(), 3).await;
    assert_eq!(store.expire_sagas(after(500), Duration::ZERO, 10).await.unwrap().removed, 1);
    let named = refused(&store, &record).await;
    assert!(named.contains("b of tenant acme may have ended too long ago") && named.contains("drop it"), "{named}");
    store.drop_row(&record).await.unwrap().unwrap();
    // What began after the last end that was removed can't have ended unseen.
    let record = mended(&store, 3).await;
    assert_eq!(store.restore_row(&record).await.unwrap().unwrap().1, Restored::AtTakeover);
    assert_eq!(store.saga(SHARD, &key("acme", "c")).await.unwrap().unwrap().tree.events, 2);
}

#[tokio::test]
async fn a_mended_record_is_not_put_behind_a_row_of_a_saga_that_went_on_without_it() {
    // The row holds four events, the last of them 16 ms after the first instant.
    let of = |from: u32, at: u64, commits: &[usize]| {
        let all = transitions(at);
        let events = commits.iter().flat_map(|commit| all[*commit].clone()).collect();
        JournalEntry { key: key("acme", "b"), from, events, ended: false }
    };
    for (entry, fits) in [(of(2, 0, &[1, 2]), false), (of(4, 0, &[2]), false), (of(4, 100, &[2]), true)] {
        let store = memory().await;
        define(&store).await;
        let row = Arc::new(resting(key("acme", "b"), 1));
        write(&store, Vec::new(), vec![SagaWrite::PutRow(Arc::clone(&row))]).await;
        write(&store, vec![entry], Vec::new()).await;
        let record = mended(&store, 2).await;
        let broken = BrokenSaga { key: key("acme", "b"), reason: "later".to_owned(), row: Some(row), entries: vec![] };
        write(&store, vec![end("b")], vec![SagaWrite::SetAside(Arc::new(broken))]).await;
        if fits {
            assert_eq!(store.restore_row(&record).await.unwrap().unwrap().1, Restored::AtTakeover);
        } else {
            let named = refused(&store, &record).await;
            assert!(named.contains("went on or ended"), "{named}");
        }
    }
}

#[tokio::test]
async fn a_saga_that_was_set_aside_in_a_damaged_record_is_not_taken_up_again() {
    let config = SagaShardConfig {
        shard: SHARD,
        tx_events: None,
        limits: SagaLimits::default(),
        rules: Rules::default(),
        died: true,
    };
    for drops in [false, true] {
        let store = memory().await;
        write(&store, vec![entry("a", 0)], Vec::new()).await;
        write(&store, vec![end("a")], vec![aside("a", vec![entry("a", 0)])]).await;
        if drops {
            let saga = store.quarantined(Some("saga"), None, 10).await.unwrap().items.remove(0).id;
            store.drop_row(&saga).await.unwrap().unwrap();
        }
        damage(&store, 2).await;
        for _ in 0..2 {
            let restored = SagaShard::restore(config.clone(), take(&store).await, |_| None, after(9), 0.5);
            assert!(restored.broken.is_empty(), "{drops}: {:?}", restored.broken);
        }
    }
}

#[tokio::test]
async fn marks_of_dropped_sagas_are_bounded_and_the_oldest_goes_first() {
    let store = memory().await;
    let marks = (1..=1_000)
        .map(|n| format!("CREATE waybill_meta:['saga_dropped', 0, 'acme', 's{n}'] SET at = {n} RETURN NONE"));
    sql(&store, &marks.collect::<Vec<_>>().join(";")).await.unwrap();
    let transaction = store.begin(true).await.unwrap();
    let worked = mark_dropped(transaction.as_ref(), SHARD, &key("acme", "new"), after(0)).await;
    finish(transaction, worked).await.unwrap();
    let reading = store.begin(false).await.unwrap();
    for (id, at) in [("s1", None), ("s2", Some(UnixMillis(2))), ("new", Some(after(0)))] {
        assert_eq!(dropped(reading.as_ref(), SHARD, &key("acme", id)).await.unwrap(), at, "{id}");
    }
    assert_eq!(forgotten_until(reading.as_ref()).await.unwrap(), UnixMillis(1));
}

#[tokio::test]
async fn what_an_earlier_version_removed_is_not_known() {
    let store = memory().await;
    let note = "SELECT VALUE at FROM waybill_meta:sagas_forgotten";
    assert_eq!(shown(&store, note).await, "[0]", "a new store has removed nothing");
    take(&store).await;
    begin_forgetting(&store).await.unwrap();
    assert_eq!(shown(&store, note).await, "[0]", "it is noted once");
    sql(&store, "DELETE waybill_meta:sagas_forgotten").await.unwrap();
    begin_forgetting(&store).await.unwrap();
    assert_ne!(shown(&store, note).await, "[0]");
}
