//! An inbox, played, for the host in memory has none: a message that waits, one that is dead, two sources.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_api::dead_inbox::DeadInbox;
use waybill_api::inbox::*;
use waybill_api::messages::Waiting;
use waybill_api::sources::*;
use waybill_core::ids::{ConsumerName, InboundId, Key, Seq, ShardId, SourceName, Tenant};
use waybill_core::inbox::filter::StoredFilter;
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{InboxDead, InboxDone, InboxEnd, InboxRow, LastError};
use waybill_core::outbox::owner::WaitKind;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::missing::Missing;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::transport::{Health, PluginIdentity};

use crate::host::NOW;

#[derive(Default)]
pub struct FakeInbound(Mutex<Vec<String>>);

impl FakeInbound {
    /// What was done so far.
    pub fn acts(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn act(&self, act: String) {
        self.0.lock().unwrap().push(act);
    }
}

fn message(id: &str) -> Arc<InboundMessage> {
    Arc::new(InboundMessage {
        id: InboundId::new(id).unwrap(),
        source: SourceName::new("shop").unwrap(),
        tenant: Tenant::unnamed(),
        subject: "sales.event.order_paid.v1".into(),
        context: "sales".into(),
        key: Some(Key::new("order-17").unwrap()),
        headers: vec![("x-a".into(), "1".into())],
        content_type: Some("application/json".into()),
        payload: Bytes::from_static(b"{\"total\":1.10}"),
        event_type: Some("order_paid".into()),
        event_version: Some(1),
        correlation_id: None,
        causation_id: None,
        reply_to: None,
        occurred_at: Some(NOW),
        received_at: NOW,
        position: Some("ORDERS/17".into()),
        attributes: Vec::new(),
        omitted: None,
    })
}

pub fn stored(seq: u64) -> InboxMessageView {
    let row = InboxRow {
        seq: Seq(seq),
        consumer: ConsumerName::new("ship").unwrap(),
        fingerprint: Default::default(),
        order: None,
        digest: Default::default(),
        message: message("orders/17"),
        attempts: 2,
        last_error: Some(LastError { code: "HTTP.503".into(), reason: "no".into() }),
        due: NOW,
        delay: Duration::ZERO,
        maybe_handled: true,
    };
    let waiting = Waiting { on: WaitKind::Retry, reason: "HTTP.503: no".into(), since: None, until: Some(NOW.into()) };
    InboxMessageView { waiting: Some(waiting), ..InboxMessageView::of(ShardId(3), &row) }
}

/// `inbox-3-18`.
pub fn dead() -> DeadInbox {
    let message = message("orders/18");
    let payload = message.payload.clone();
    let dead = InboxDead {
        seq: Seq(18),
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
        _: Option<&str>,
        _: usize,
    ) -> Result<Page<InboxMessageView>, ServiceError> {
        let none = filter.consumer.as_ref().is_some_and(|glob| !glob.matches("ship"));
        let items = match order {
            _ if none => Vec::new(),
            StoredOrder::Place => vec![stored(17)],
            StoredOrder::Newest => vec![stored(18), stored(17)],
        };
        Ok(Page { items, next_cursor: None })
    }

    async fn status_of(
        &self,
        _: Option<&Tenant>,
        consumer: &ConsumerName,
        id: &InboundId,
    ) -> Result<InboxStatusView, ServiceError> {
        if consumer.as_str() != "ship" {
            return Err(ServiceError::NotFound { what: Missing::Consumer, id: consumer.to_string() });
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
            subject: "sales.event.order_paid.v1".into(),
            received_at: NOW,
            processed_at: NOW,
            attempts: 1,
            end: InboxEnd::Processed,
        };
        Ok(match id.as_str() {
            "orders/16" => InboxStatusView { state: InboxState::Seen, seen: true, ended: vec![done.into()], ..status },
            "orders/17" => {
                let message = stored(17).with_payload(&Bytes::from_static(b"{\"total\":1.10}"));
                InboxStatusView { state: InboxState::Stored, message: Some(message), ..status }
            }
            _ => status,
        })
    }

    async fn inbox_stats(&self, _: Option<&Tenant>) -> Result<InboxStats, ServiceError> {
        let waits = Waiters { count: 1_234, oldest_at: Some(NOW.into()) };
        Ok(InboxStats {
            contexts: vec![ContextStats {
                context: "sales".into(),
                unprocessed: waits,
                unpublished: Waiters::default(),
                failed: 2,
            }],
            consumers: vec![ConsumerStats {
                consumer: "ship".into(),
                configured: true,
                home: "shop".into(),
                in_hand: 12,
                stored: 1_222,
                stored_max: 5_000,
                seen_reads_percent: 104,
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

fn source(name: &str) -> SourceView {
    SourceView {
        name: name.to_owned(),
        plugin: Some(PluginIdentity {
            plugin: "nats-source".into(),
            version: "0.1.0".into(),
            digest: format!("sha256:{}", "ab".repeat(32)),
            generation: 1,
        }),
        publish: if name == "table" { Publish::Direct } else { Publish::Stored },
        home: "shop".into(),
        owner: Some("host-1".into()),
        here: true,
        context: None,
        tenants: vec!["default".into()],
        consumers: vec!["ship".into(), "bill".into()],
        paused: false,
        instances: 1,
        unsettled: 12,
        window: 50,
        caught_up: Some(false),
        lag: Some(3_000),
        overtaken: 0,
        made_anew: 0,
        failed: (name == "table").then_some(2),
        health: Health::Ready,
        health_detail: None,
    }
}

fn known(name: &str) -> Result<SourceView, ServiceError> {
    match name {
        "shop" | "table" => Ok(source(name)),
        other => Err(ServiceError::NotFound { what: Missing::Source, id: other.to_owned() }),
    }
}

#[async_trait]
impl SourceService for FakeInbound {
    async fn sources(&self) -> Vec<SourceView> {
        vec![source("shop"), source("table")]
    }

    async fn pause_source(&self, source: &str, reason: &str, actor: &str) -> Result<SourceView, ServiceError> {
        self.act(format!("pause source {source} [{reason}] {actor}"));
        Ok(SourceView { paused: true, ..known(source)? })
    }

    async fn resume_source(&self, source: &str, reason: &str, actor: &str) -> Result<SourceView, ServiceError> {
        self.act(format!("resume source {source} [{reason}] {actor}"));
        known(source)
    }

    async fn provision_source(&self, source: &str, apply: bool, _: &str) -> Result<Vec<ProvisionChange>, ServiceError> {
        known(source)?;
        if apply {
            self.act(format!("provision source {source}"));
        }
        let change = |target: &str, action, detail: &str| ProvisionChange {
            target: target.to_owned(),
            action,
            detail: detail.to_owned(),
        };
        Ok(vec![
            change("stream ORDERS", ProvisionAction::Keep, ""),
            change("consumer ship", ProvisionAction::Create, "durable, max_deliver -1"),
        ])
    }

    async fn failed_rows(&self, source: &str, _: Option<&str>, _: usize) -> Result<Page<FailedRowView>, ServiceError> {
        known(source)?;
        let row = |id: &str| FailedRowView {
            id: id.to_owned(),
            aggregate: "order/17".into(),
            context: Some("sales".into()),
            topic: Some("bus:orders.paid".into()),
            event_type: Some("order_paid".into()),
            attempts: 20,
            last_error: "NATS.MAX_PAYLOAD: too large".into(),
            occurred_at: Some(NOW.into()),
            failed_at: None,
        };
        Ok(Page { items: vec![row("17"), row("18")], next_cursor: None })
    }

    async fn replay_rows(&self, source: &str, rows: ReplayRows, _: &str) -> Result<ReplayedRows, ServiceError> {
        known(source)?;
        self.act(format!("replay rows {source} {} [{}]", rows.ids.join(","), rows.reason));
        let (replayed, unchanged) = rows.ids.into_iter().partition(|id| id == "17" || id == "18");
        Ok(ReplayedRows { source: source.to_owned(), replayed, unchanged })
    }
}
