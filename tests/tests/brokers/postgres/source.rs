//! The table as a source of the inbox: rows in hand by their locks, or by the word for it in their status.

use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::source::{
    Disposition, Overtaken, Pulled, Settled, Source, SourceDelivery, SourceSettlement, SourceWants,
};
use waybill_core::port::transport::Fault;
use waybill_sandbox::WasmSource;
use waybill_testkit::postgres::{BY_STATUS, Client};

use super::support::*;

/// Waits for rows as long as it takes on a busy machine.
async fn pull(source: &WasmSource, max: u32) -> Pulled {
    source.pull(0, max, 1 << 20, Duration::from_secs(20)).await.expect("pulls")
}

async fn pull_now(source: &WasmSource, max: u32) -> Pulled {
    source.pull(0, max, 1 << 20, Duration::ZERO).await.expect("pulls")
}

fn item(delivery: &SourceDelivery, disposition: Disposition) -> SourceSettlement {
    SourceSettlement { token: delivery.token.clone(), disposition }
}

async fn settle(source: &WasmSource, session: u64, items: Vec<SourceSettlement>) -> Vec<Settled> {
    source.settle(0, session, items, AMPLE).await.expect("settles")
}

fn ids(pulled: &Pulled) -> Vec<&str> {
    pulled.deliveries.iter().map(|delivery| delivery.id.as_deref().unwrap()).collect()
}

async fn statuses(client: &mut Client) -> Vec<String> {
    client.column("SELECT status FROM outbox_events ORDER BY id").await.unwrap()
}

fn by_row() -> Value {
    json!({ "claim": "row", "claim_ttl": "1h" })
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_marked_in_the_transaction_that_brought_them() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "a"), (3, "b")]).await;
    let source = source(&server, json!({})).await;
    let features = source.facts().features;
    assert!(
        features.iter().any(|feature| feature == "replays-in-order")
            && !features.iter().any(|feature| feature == "extend")
    );
    let pulled = pull(&source, 10).await;
    let mut all = ids(&pulled);
    all.sort_unstable();
    assert_eq!(all, ["outbox-1", "outbox-2", "outbox-3"]);
    let first = &pulled.deliveries[0];
    assert_eq!((first.topic.as_str(), first.content_type.as_deref()), ("orders.created", Some("application/json")));
    assert!(first.position.is_some() && first.group.is_some() && first.settle_within.is_some());
    let acks: Vec<SourceSettlement> =
        pulled.deliveries.iter().map(|delivery| item(delivery, Disposition::Ack)).collect();
    let (last, others) = acks.split_last().unwrap();
    assert_eq!(settle(&source, pulled.session, others.to_vec()).await, vec![Settled::Done; others.len()]);
    assert_eq!(settle(&source, pulled.session, vec![last.clone()]).await, [Settled::Done]);
    assert_eq!(statuses(&mut client).await, ["published"; 3]);
    assert_eq!(settle(&source, pulled.session, vec![last.clone()]).await, [Settled::Lost], "its transaction is over");
    assert!(pull_now(&source, 10).await.caught_up);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_released_comes_again_and_what_is_rejected_fails_in_the_table() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a")]).await;
    let source = source(&server, json!({})).await;
    let pulled = pull(&source, 10).await;
    settle(&source, pulled.session, vec![item(&pulled.deliveries[0], Disposition::Release)]).await;
    let again = pull(&source, 10).await;
    assert_eq!(ids(&again), ["outbox-1"]);
    let reject = Disposition::Reject(Fault::new("INBOX.GAVE_UP", "20 attempts"));
    assert_eq!(settle(&source, again.session, vec![item(&again.deliveries[0], reject)]).await, [Settled::Done]);
    let sql = "SELECT status, last_error FROM outbox_events";
    assert_eq!(client.query(sql).await.unwrap(), [["failed", "INBOX.GAVE_UP: 20 attempts"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_whose_time_is_over_marks_what_was_settled_and_loses_the_rest() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "a")]).await;
    let source = source(&server, json!({ "settle_within": "300ms" })).await;
    let pulled = pull(&source, 10).await;
    assert_eq!(ids(&pulled), ["outbox-1", "outbox-2"]);
    settle(&source, pulled.session, vec![item(&pulled.deliveries[0], Disposition::Ack)]).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let again = pull(&source, 10).await;
    assert_eq!(again.notices.lost, [pulled.deliveries[1].token.clone()]);
    assert_eq!(
        (ids(&again), statuses(&mut client).await),
        (vec!["outbox-2"], vec!["published".to_owned(), "pending".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_breaks_the_rules_comes_for_its_dead_letter_and_fails_when_that_is_kept() {
    for config in [json!({}), by_row()] {
        let (server, mut client) = with_table(BY_STATUS).await;
        insert(&mut client, &[(1, "a"), (2, "a")]).await;
        client.query("UPDATE outbox_events SET routing_key = NULL WHERE id = 1").await.unwrap();
        let source = source(&server, config).await;
        let pulled = pull(&source, 10).await;
        assert_eq!(ids(&pulled), ["outbox-1", "outbox-2"]);
        let told = pulled.deliveries.iter().map(|delivery| {
            let told = delivery.attributes.iter().find(|(name, _)| name == "invalid");
            told.is_some_and(|(_, why)| why.contains("routing_key"))
        });
        assert_eq!(told.collect::<Vec<_>>(), [true, false]);
        assert!(!statuses(&mut client).await.contains(&"failed".to_owned()), "nobody has its dead letter");
        let acks = pulled.deliveries.iter().map(|delivery| item(delivery, Disposition::Ack)).collect();
        assert_eq!(settle(&source, pulled.session, acks).await, vec![Settled::Done; 2]);
        assert_eq!(statuses(&mut client).await, ["failed", "published"]);
        let error = client.value("SELECT last_error FROM outbox_events WHERE id = 1").await.unwrap();
        assert!(error.starts_with("INVALID_OUTBOX: "), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_can_be_claimed_by_the_word_for_it_and_extended() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "b"), (3, "c")]).await;
    let source = source(&server, by_row()).await;
    assert!(source.facts().features.iter().any(|feature| feature == "extend"));
    let pulled = pull(&source, 10).await;
    assert_eq!(statuses(&mut client).await, ["processing"; 3]);
    client.query("UPDATE outbox_events SET updated_at = now() - interval '30 minutes'").await.unwrap();
    let [one, two, three] = &pulled.deliveries[..] else { panic!("{pulled:?}") };
    let items = vec![item(one, Disposition::Extend), item(two, Disposition::Ack), item(three, Disposition::Release)];
    assert_eq!(settle(&source, pulled.session, items).await, vec![Settled::Done; 3]);
    assert_eq!(statuses(&mut client).await, ["processing", "published", "pending"]);
    let extended =
        client.value("SELECT updated_at > now() - interval '10 minutes' FROM outbox_events WHERE id = 1").await;
    assert_eq!(extended.unwrap(), "t");
    assert_eq!(ids(&pull(&source, 10).await), ["outbox-3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_rows_are_out_than_the_window_has_room_for() {
    // So many aggregates that each lane has some.
    let rows = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
    let rows: Vec<(u32, &str)> = (1..).zip(rows).collect();
    for config in [json!({}), by_row()] {
        let (server, mut client) = with_table(BY_STATUS).await;
        insert(&mut client, &rows).await;
        let source = source_with(&server, config, 1).await;
        for settled in 0..3 {
            let pulled = pull(&source, 10).await;
            assert_eq!(pulled.deliveries.len(), 1, "{settled} are settled");
            for _ in 0..3 {
                assert_eq!(pull_now(&source, 10).await.deliveries.len(), 0, "{settled} are settled, and one is out");
            }
            let ack = item(&pulled.deliveries[0], Disposition::Ack);
            assert_eq!(settle(&source, pulled.session, vec![ack]).await, [Settled::Done]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_hand_at_the_end_waits_again_at_once() {
    for config in [json!({}), by_row()] {
        let (server, mut client) = with_table(BY_STATUS).await;
        insert(&mut client, &[(1, "a"), (2, "a"), (3, "a")]).await;
        let first = source(&server, config.clone()).await;
        let pulled = pull(&first, 10).await;
        assert_eq!(ids(&pulled), ["outbox-1", "outbox-2", "outbox-3"]);
        let ack = item(&pulled.deliveries[0], Disposition::Ack);
        assert_eq!(settle(&first, pulled.session, vec![ack]).await, [Settled::Done]);
        first.close(AMPLE).await;
        assert_eq!(statuses(&mut client).await, ["published", "pending", "pending"]);
        let second = source(&server, config).await;
        assert_eq!(ids(&pull(&second, 10).await), ["outbox-2", "outbox-3"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_never_goes_back() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a")]).await;
    let source = source(&server, by_row()).await;
    let pulled = pull(&source, 10).await;
    client.query("UPDATE outbox_events SET status = 'published'").await.unwrap();
    for disposition in
        [Disposition::Extend, Disposition::Release, Disposition::Reject(Fault::new("A.B", "c")), Disposition::Ack]
    {
        let settled = settle(&source, pulled.session, vec![item(&pulled.deliveries[0], disposition)]).await;
        assert_eq!(settled, [Settled::Lost]);
    }
    assert_eq!(statuses(&mut client).await, ["published"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_listens_hears_of_a_new_row_before_the_next_poll() {
    let (server, mut client) = with_table(BY_STATUS).await;
    let source = source(&server, json!({ "listen": "outbox", "poll_every": "1h", "ping_every": "1h" })).await;
    let waits = tokio::spawn(async move { pull(&source, 10).await.deliveries.len() });
    tokio::time::sleep(Duration::from_millis(500)).await;
    insert(&mut client, &[(1, "a")]).await;
    client.query("NOTIFY outbox").await.unwrap();
    assert_eq!(waits.await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_a_word_for_it_can_not_be_claimed_by_rows() {
    let (server, _client) = with_table(waybill_testkit::postgres::BY_PUBLICATION).await;
    let plugin = waybill_tests::transport::bundled("postgres", waybill_sandbox::World::Source).await;
    let wants = SourceWants { window: 1, window_bytes: 1, on_overtaken: Overtaken::Stop, resume_after: None };
    let spec = settings(&server, json!({ "topic": "bus:{event_type}", "claim": "row" }));
    let (_source, opened) = WasmSource::start_supervised(plugin, spec, wants).await.unwrap();
    assert!(opened.unwrap_err().to_string().contains("claim"));
}
