//! `/v1/inbox`, and received messages among the dead letters.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use waybill_api::dead_inbox::DeadInbox;
use waybill_api::inbox::*;
use waybill_api::messages::Waiting;
use waybill_core::annotation::Annotation;
use waybill_core::ids::{ConsumerName, InboundId, Key, Seq, ShardId, SourceName, Tenant};
use waybill_core::inbox::filter::StoredFilter;
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{InboxDead, InboxDone, InboxEnd, InboxRow, LastError};
use waybill_core::outbox::owner::WaitKind;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::missing::Missing;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::time::UnixMillis;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::fake_inbound::{FakeInbound, Served, name};
use crate::sagas::bare;
use crate::support::{Api, NOW, NOW_TEXT, get, host, send, token, with};

fn message(tenant: &str) -> Arc<InboundMessage> {
    let text = |text: &str| Some(text.to_owned());
    Arc::new(InboundMessage {
        id: InboundId::new("orders/17").unwrap(),
        source: SourceName::new("shop").unwrap(),
        tenant: Tenant::new(tenant).unwrap(),
        subject: "sales.event.order_paid.v1".into(),
        context: "sales".into(),
        key: Some(Key::new("order-17").unwrap()),
        headers: vec![("x-a".into(), "1".into())],
        content_type: text("application/json"),
        payload: Bytes::from_static(b"{\"total\":1.10}"),
        event_type: text("order_paid"),
        event_version: Some(1),
        correlation_id: text("c"),
        causation_id: None,
        reply_to: text("replies"),
        occurred_at: Some(NOW),
        received_at: NOW,
        position: text("ORDERS/17"),
        attributes: Vec::new(),
        omitted: None,
    })
}

/// A message that waits for its next try.
pub fn stored(tenant: &str) -> InboxMessageView {
    let row = InboxRow {
        seq: Seq(17),
        consumer: ConsumerName::new("ship").unwrap(),
        fingerprint: Default::default(),
        order: None,
        digest: Default::default(),
        message: message(tenant),
        attempts: 2,
        last_error: Some(LastError { code: "HTTP.503".into(), reason: "no".into() }),
        due: UnixMillis(NOW.0 + 500),
        delay: Duration::from_millis(500),
        maybe_handled: true,
    };
    let waiting = Waiting {
        on: WaitKind::Retry,
        reason: "HTTP.503: no".into(),
        since: Some(NOW.into()),
        until: Some(NOW.into()),
    };
    InboxMessageView { waiting: Some(waiting), ..InboxMessageView::of(ShardId(3), &row) }
}

/// A message that can't be handled.
pub fn dead(tenant: &str) -> DeadInbox {
    let message = message(tenant);
    let payload = message.payload.clone();
    let dead = InboxDead {
        seq: Seq(17),
        consumer: ConsumerName::new("ship").unwrap(),
        fingerprint: Default::default(),
        digest: Default::default(),
        message,
        code: "HTTP.422".into(),
        reason: "no such order".into(),
        attempts: 1,
        died_at: NOW,
        state: DeadState::Dead,
    };
    DeadInbox::of(ShardId(3), &dead).with_payload(payload)
}

#[async_trait]
impl InboxService for FakeInbound {
    async fn stored(
        &self,
        filter: &StoredFilter,
        order: StoredOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Served<Page<InboxMessageView>> {
        let of = |glob: &Option<waybill_core::glob::Glob>| {
            glob.as_ref().and_then(|glob| glob.exact()).unwrap_or("*").to_owned()
        };
        let list = if order == StoredOrder::Newest { "newest" } else { "stored" };
        self.record(format!("{list} {} {} {cursor:?} {limit}", of(&filter.tenant), of(&filter.consumer)));
        let next_cursor = cursor.is_none().then(|| "3:17".to_owned());
        Ok(Page { items: vec![stored("default")], next_cursor })
    }
    async fn status_of(
        &self,
        tenant: Option<&Tenant>,
        consumer: &ConsumerName,
        id: &InboundId,
    ) -> Served<InboxStatusView> {
        self.record(format!("status_of {} {consumer} {id}", name(tenant)));
        if consumer.as_str() == "gone" {
            return Err(ServiceError::NotFound { what: Missing::Consumer, id: consumer.to_string() });
        }
        if id.as_str().starts_with("other-") && tenant.is_some_and(|tenant| tenant.as_str() != "other") {
            return Err(ServiceError::NotFound { what: Missing::InboxMessage, id: id.to_string() });
        }
        let status = InboxStatusView {
            consumer: consumer.to_string(),
            id: id.to_string(),
            state: InboxState::Unseen,
            seen: false,
            message: None,
            ended: Vec::new(),
            dead_letter: None,
        };
        let done = InboxDone {
            consumer: consumer.clone(),
            id: id.clone(),
            tenant: Tenant::unnamed(),
            subject: "orders.paid".into(),
            received_at: NOW,
            processed_at: NOW,
            attempts: 0,
            end: InboxEnd::Processed,
        };
        Ok(match id.as_str() {
            "done" => InboxStatusView { state: InboxState::Seen, seen: true, ended: vec![done.into()], ..status },
            "waits" => {
                let message = stored("default").with_payload(&Bytes::from_static(b"{\"total\":1.10}"));
                InboxStatusView { state: InboxState::Stored, message: Some(message), ..status }
            }
            _ => status,
        })
    }
    async fn inbox_stats(&self, tenant: Option<&Tenant>) -> Served<InboxStats> {
        self.record(format!("inbox_stats {}", name(tenant)));
        let waits = Waiters { count: 3, oldest_at: Some(NOW.into()) };
        Ok(InboxStats {
            contexts: vec![ContextStats {
                context: "sales".into(),
                unprocessed: waits,
                unpublished: Waiters::default(),
                failed: 0,
            }],
            consumers: vec![ConsumerStats {
                consumer: "ship".into(),
                configured: true,
                home: "shop".into(),
                stored: 3,
                stored_max: 5_000,
                held: Some(Waiting {
                    on: WaitKind::Destination,
                    reason: "HTTP.401: no".into(),
                    since: None,
                    until: None,
                }),
                ..ConsumerStats::default()
            }],
        })
    }
}

#[tokio::test]
async fn stored_messages_are_listed_in_pages_by_a_filter_and_within_a_tenant() {
    let api = Api::open().await;
    let page = api.get("/v1/inbox?filter=consumer%3Dship&limit=5").await;
    assert_eq!(page.status, 200, "{}", page.text);
    let item = &page.json()["items"][0];
    assert_eq!(
        (&item["id"], &item["place"], &item["consumer"], &item["attempts"], &item["waiting"]["on"]),
        (&json!("orders/17"), &json!("inbox-3-17"), &json!("ship"), &json!(2), &json!("retry"))
    );
    assert!(item.get("payload").is_none(), "lists have no payloads");
    let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
    let next = api.get(&format!("/v1/inbox?filter=consumer%3Dship&cursor={cursor}")).await;
    assert_eq!((next.status.as_u16(), &next.json()["next_cursor"]), (200, &json!(null)));
    assert_eq!(api.get(&format!("/v1/inbox?filter=consumer%3Dbill&cursor={cursor}")).await.status, 400);
    assert_eq!(api.inbound().calls(), ["stored * ship None 5", "stored * ship Some(\"3:17\") 100"]);
    let newest = api.get("/v1/inbox?newest=true&filter=consumer%3Dship&limit=5").await;
    let other = format!("/v1/inbox?newest=true&filter=consumer%3Dship&cursor={cursor}");
    assert_eq!((newest.status.as_u16(), api.get(&other).await.status.as_u16()), (200, 400), "a cursor is of its order");
    assert_eq!(api.inbound().calls(), ["newest * ship None 5"]);

    let api = Api::with(Some(vec![token("acme", &["acme"], &[Role::Viewer])]), Limits::default()).await;
    let as_acme = |path: &str| with(get(path), "authorization", "Bearer acme");
    assert_eq!(api.send(as_acme("/v1/inbox")).await.status, 200);
    assert_eq!(api.inbound().calls(), ["stored acme * None 100"]);
    let others = api.send(as_acme("/v1/inbox?filter=tenant%3Dother")).await;
    assert_eq!((others.status.as_u16(), others.json()["items"].as_array().map(Vec::len)), (200, Some(0)));
    assert!(api.inbound().calls().is_empty(), "nothing of another tenant is asked for");
}

#[tokio::test]
async fn a_filter_that_cannot_be_read_says_what_may_be_written() {
    let refused = Api::open().await.get("/v1/inbox?filter=colour%3Dred").await;
    assert_eq!(refused.problem(), (400, "SCHEMA.VALIDATION_FAILED".into()));
    assert_eq!(refused.json()["path"], "filter");
    assert!(refused.json()["detail"].as_str().unwrap().contains("consumer, source, context"));
}

#[tokio::test]
async fn an_id_is_shown_as_seen_stored_or_unseen() {
    let api = Api::open().await;
    let done = api.get("/v1/inbox/ship/done").await.json();
    assert_eq!(
        (&done["state"], &done["seen"], &done["ended"][0]["end"]),
        (&json!("seen"), &json!(true), &json!("processed"))
    );
    let waits = api.get("/v1/inbox/ship/waits").await.json();
    assert_eq!((&waits["state"], &waits["seen"]), (&json!("stored"), &json!(false)));
    assert_eq!(waits["message"]["payload"], json!({"total": 1.1}));
    // A sender's id may hold what parts an address.
    let unseen = api.get("/v1/inbox/ship/orders%2F18").await;
    assert_eq!((unseen.status.as_u16(), &unseen.json()["state"]), (200, &json!("unseen")));
    assert_eq!(api.get("/v1/inbox/gone/x").await.problem(), (404, "INBOX.NOT_FOUND".into()));
    assert_eq!(
        api.inbound().calls(),
        ["status_of * ship done", "status_of * ship waits", "status_of * ship orders/18", "status_of * gone x"]
    );
}

#[tokio::test]
async fn whose_message_it_is_counts_for_a_credential_of_some_tenants() {
    let tokens = vec![token("acme", &["acme"], &[Role::Viewer]), token("all", &["*"], &[Role::Viewer])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let ask = |path: &str, caller: &str| with(get(path), "authorization", &format!("Bearer {caller}"));
    assert_eq!(api.send(ask("/v1/inbox/ship/done", "acme")).await.status, 200);
    assert_eq!(api.send(ask("/v1/inbox/ship/done?tenant=shop", "all")).await.status, 200);
    assert_eq!(api.inbound().calls(), ["status_of acme ship done", "status_of shop ship done"]);
    let other = api.send(ask("/v1/inbox/ship/done?tenant=other", "acme")).await;
    assert_eq!(other.problem(), (404, "INBOX.NOT_FOUND".into()));
    assert!(api.inbound().calls().is_empty());
}

#[tokio::test]
async fn what_waits_is_counted_by_context_and_by_consumer() {
    let api = Api::open().await;
    let stats = api.get("/v1/inbox/stats").await.json();
    assert_eq!(
        stats["contexts"][0],
        json!({
            "context": "sales", "unprocessed": {"count": 3, "oldest_at": NOW_TEXT},
            "unpublished": {"count": 0, "oldest_at": null}, "failed": 0,
        })
    );
    assert_eq!(
        (&stats["consumers"][0]["stored"], &stats["consumers"][0]["held"]["on"]),
        (&json!(3), &json!("destination"))
    );
    assert_eq!(api.get("/v1/inbox/stats?tenant=acme").await.status, 200);
    assert_eq!(api.inbound().calls(), ["inbox_stats *", "inbox_stats acme"]);
    let scraped = api.get("/metrics").await.text;
    assert!(scraped.contains("waybill_inbox_unprocessed{context=\"sales\"} 3"), "{scraped}");
    assert!(scraped.contains("waybill_inbox_held{consumer=\"ship\"} 1"), "{scraped}");
}

#[tokio::test]
async fn a_dead_received_message_is_shown_replayed_and_fenced_off_by_its_place() {
    let api = Api::open().await;
    let shown = api.get("/v1/dead-letters/inbox-3-17?tenant=acme&kind=inbox").await.json();
    assert_eq!(
        (&shown["kind"], &shown["id"], &shown["message_id"], &shown["consumer"], &shown["code"]),
        (&json!("inbox"), &json!("inbox-3-17"), &json!("orders/17"), &json!("ship"), &json!("HTTP.422"))
    );
    assert_eq!((&shown["payload"], &shown["subject"]), (&json!({"total": 1.1}), &json!("sales.event.order_paid.v1")));
    let back = api.post("/v1/dead-letters/inbox-3-17/replay", r#"{"reason":"fixed"}"#).await.json();
    assert_eq!(
        (&back["kind"], &back["consumer"], &back["place"]),
        (&json!("inbox"), &json!("ship"), &json!("inbox-3-17"))
    );
    assert_eq!(api.post("/v1/dead-letters/inbox-3-17/quarantine", r#"{"note":"look"}"#).await.status, 200);
    assert_eq!(
        api.inbound().calls(),
        [
            "dead_letter acme inbox inbox-3-17",
            "replay default inbox-3-17 [fixed] local",
            "quarantine default inbox-3-17 [look] local",
        ]
    );
}

#[tokio::test]
async fn an_edited_copy_of_a_received_message_keeps_consumer_subject_and_tenant_and_has_an_id_of_its_own() {
    let api = Api::open().await;
    let path = "/v1/dead-letters/inbox-3-17/edit?tenant=acme";
    let answer = api.post(path, r#"{"payload":{"total":2},"correlation_id":null}"#).await;
    assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
    let edited = api.inbound().taken().remove(0);
    let annotation = |annotation| edited.annotations.get(annotation);
    assert_eq!((edited.topic.as_str(), edited.tenant.as_deref()), ("sales.event.order_paid.v1", Some("acme")));
    assert_eq!((edited.payload.as_ref(), edited.id.as_deref()), (b"{\"total\":2}".as_slice(), None));
    assert_eq!((edited.key.as_deref(), annotation(Annotation::CorrelationId)), (Some("order-17"), None));
    assert_eq!(annotation(Annotation::ReplyTo), Some("replies"));
    assert_eq!((annotation(Annotation::CausationId), edited.occurred_at), (Some("orders/17"), Some(NOW)));
    for refused in
        [r#"{"topic":"bus:a"}"#, r#"{"tenant":"x"}"#, r#"{"not_before":1790000000999}"#, r#"{"id":"orders/17"}"#]
    {
        assert_eq!(api.post(path, refused).await.problem().0, 400, "{refused}");
    }
    assert!(api.inbound().taken().is_empty());
}

#[tokio::test]
async fn a_host_without_sources_says_so() {
    let host = host().await;
    let router = bare(&host);
    for path in ["/v1/inbox", "/v1/inbox/stats", "/v1/inbox/ship/x", "/v1/sources"] {
        let answer = send(&router, get(path)).await;
        assert_eq!(answer.problem(), (503, "PROVIDER.UNAVAILABLE".into()), "{path}");
        assert!(answer.json()["detail"].as_str().unwrap().contains("[source.NAME]"), "{path}");
    }
}
