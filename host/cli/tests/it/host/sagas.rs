//! Sagas of a shop.

use std::time::Duration;

use waybill_core::ids::Tenant;
use waybill_core::port::participant::{Direction, StepError};
use waybill_core::port::saga::{SagaAct, StartSaga};
use waybill_core::port::transport::Fault;
use waybill_core::saga::id::SagaId;
use waybill_core::saga::json::Json;
use waybill_core::saga::state::SagaState;
use waybill_testkit::memory_host::InMemoryHost;

use super::TestHost;

/// The first version of what an order is; nothing runs on it.
const FIRST: &str = r#"name = "order"
version = 1
[[steps]]
name = "reserve"
action = "fn:orders/reserve"
compensation = "fn:orders/reserve"
"#;

/// A step of the participant, two that run together, a person, a sub-saga, and a last step.
const ORDER: &str = r#"name = "order"
version = 2

[[steps]]
name = "reserve"
action = "fn:orders/reserve"
compensation = "fn:orders/reserve"

[[steps]]
name = "charge"
action = "https://pay.example/charges"
compensation = "https://pay.example/refunds"
concurrency_tag = "pay"
input = { amount = "${ input.total }" }
retry = { max_attempts = 6, base_ms = 1000, jitter = 0.0 }

[[steps]]
name = "label"
action = "fn:orders/label"
compensation = "fn:orders/label"
concurrency_tag = "pay"

[[steps]]
name = "release"
action = "wait:approval"
timeout_ms = 600000

[[steps]]
name = "ship"
action = "saga:shipment"

[[steps]]
name = "notify"
action = "fn:orders/notify"
compensation = "fn:orders/notify"
"#;

const SHIPMENT: &str = r#"name = "shipment"
version = 1
[[steps]]
name = "book"
action = "fn:orders/book"
compensation = "fn:orders/book"
"#;

/// A step that waits for the reply to a message.
const COLLECTION: &str = r#"name = "collection"
version = 1
[[steps]]
name = "reserve"
action = "bus:stock.reserve"
"#;

impl TestHost {
    /// `order-16` of acme has completed, with its last step skipped by ann; `order-17` is stuck in the compensation of `charge`;
    /// `order-18` waits for a person at `release`; `order-19` was cancelled; `pick-1` waits for the reply to a message.
    pub fn sagas() -> Self {
        Self::with(bring_about)
    }

    /// A saga that waits for a person: `order-18`.
    pub fn waiting_saga() -> Self {
        Self::with(async |host| {
            define(host).await;
            waiting(host, "default", "order-18").await;
        })
    }

    /// Definitions, and no saga.
    pub fn definitions() -> Self {
        Self::with(define)
    }
}

async fn define(host: &InMemoryHost) {
    for text in [FIRST, SHIPMENT, ORDER, COLLECTION] {
        host.define(text).await;
    }
}

async fn bring_about(host: &InMemoryHost) {
    define(host).await;
    waiting(host, "acme", "order-16").await;
    host.act_noted("acme", "order-16", SagaAct::Skip { step: "notify".to_owned() }, "the customer was called").await;
    approve(host, "acme", "order-16").await;
    host.until_saga("acme", "order-16", SagaState::Completed).await;
    stuck(host).await;
    waiting(host, "default", "order-19").await;
    host.act("default", "order-19", SagaAct::Cancel).await;
    host.until_saga("default", "order-19", SagaState::Cancelled).await;
    waiting(host, "default", "order-18").await;
    host.begin("collection", "default", "pick-1").await;
    host.until_waiting("default", "pick-1", "reply").await;
}

/// Its sub-saga fails, and then the refund does, for good.
async fn stuck(host: &InMemoryHost) {
    start(host, "default", "order-17", Some(Duration::from_secs(3_600))).await;
    host.until_waiting("default", "order-17", "approval").await;
    let (tenant, id) = (Tenant::unnamed(), SagaId::root("order-17").unwrap());
    let by = waybill_core::port::saga::ActedBy { actor: "ann".to_owned(), note: None };
    host.sagas.signal(&tenant, &id, "paid", Json::null(), by).await.unwrap();
    host.fail_step("order-17~ship", "book", Direction::Execute);
    let fault = Fault { maybe_delivered: true, ..Fault::new("HTTP.STATUS", "500 from pay.example: \u{1b}[31mred") };
    host.posts.fail("https://pay.example/refunds", StepError::Retryable(fault));
    approve(host, "default", "order-17").await;
    while host.saga("default", "order-17").await.state != SagaState::Failed {
        tokio::time::sleep(Duration::from_secs(1)).await;
        host.pass(Duration::from_secs(1));
    }
    host.fail_no_step();
    host.posts.fail_nothing();
}

async fn waiting(host: &InMemoryHost, tenant: &str, id: &str) {
    start(host, tenant, id, None).await;
    host.until_waiting(tenant, id, "approval").await;
}

async fn approve(host: &InMemoryHost, tenant: &str, id: &str) {
    host.act(tenant, id, SagaAct::Approve { step: None, since: None }).await;
}

async fn start(host: &InMemoryHost, tenant: &str, id: &str, deadline: Option<Duration>) {
    let start = StartSaga {
        tenant: Tenant::new(tenant).unwrap(),
        definition: "order".to_owned(),
        version: None,
        id: Some(id.to_owned()),
        input: Json::parse("{\"order\": 17, \"total\": \"10.50\"}").unwrap(),
        deadline,
        headers: vec![("source".to_owned(), "shop".to_owned())],
        envelope_id: None,
        correlation_id: Some("c-1".to_owned()),
        traceparent: None,
        actor: "ann".to_owned(),
    };
    host.sagas.start(start).await.unwrap();
}
