//! Messages and idempotency keys of a shop.

use std::time::Duration;

use waybill_core::annotation::Annotation;
use waybill_core::new_message::NewMessage;
use waybill_core::port::transport::{Fault, Outcome};
use waybill_testkit::memory_host::{InMemoryHost, message};

use super::TestHost;

impl TestHost {
    /// Dead letters `d-1` and `d-2` of `default` and `d-3` of acme, each refused at its second attempt; `m-0` to `m-4`, which
    /// wait for a retry; idempotency keys `order-17` in flight, `mail-2` failed, and `pay-1` of acme, which succeeded.
    pub fn shop() -> Self {
        Self::with(bring_about)
    }

    /// The shop while acme's receiver refuses its credentials: a message of acme is held.
    pub fn troubled_shop() -> Self {
        Self::with(async |host| {
            bring_about(host).await;
            let held = NewMessage { topic: "http:https://shop.example/hook".to_owned(), ..message("h-1") };
            host.held(of_acme(held), "https://shop.example").await;
        })
    }
}

pub(super) async fn bring_about(host: &InMemoryHost) {
    host.begun_key("default", "order-17").await;
    host.failed_key("default", "mail-2", "no such address").await;
    host.finished_key("acme", "pay-1", "{\"charged\":990}").await;
    for letter in [letter("d-1"), letter("d-2"), of_acme(letter("d-3"))] {
        let refused =
            |code: &str, maybe_delivered| Fault { maybe_delivered, ..Fault::new(code, "the receiver said no") };
        let outcomes =
            [Outcome::Retryable(refused("HTTP.TIMEOUT", true)), Outcome::Permanent(refused("HTTP.400", false))];
        host.sent(letter, outcomes).await;
    }
    for n in 0..5 {
        let fault = Fault { after: Some(Duration::from_secs(60)), ..Fault::new("HTTP.503", "the receiver is busy") };
        let waits =
            NewMessage { key: None, payload: "{\"z\": 1.10, \"a\": [1, 2]}".into(), ..letter(&format!("m-{n}")) };
        host.sent(waits, [Outcome::Retryable(fault)]).await;
    }
}

fn letter(id: &str) -> NewMessage {
    let bare = message(id);
    NewMessage {
        key: Some("order-17".to_owned()),
        headers: vec![("source".to_owned(), "shop".to_owned())],
        event_type: Some("order.created".to_owned()),
        annotations: bare.annotations.with(Annotation::CorrelationId, "c-1"),
        ..bare
    }
}

fn of_acme(message: NewMessage) -> NewMessage {
    NewMessage { tenant: Some("acme".to_owned()), ..message }
}
