//! Messages brought into every state.

use std::collections::VecDeque;
use std::time::Duration;

use waybill_api::messages::{MessageView, Waiting};
use waybill_api::workers::{ClaimRequest, ClaimedMessage};
use waybill_core::annotation::Annotation;
use waybill_core::ids::Seq;
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::{Fault, Outcome};

use super::{InMemoryHost, eventually, tenant};

/// Deliveries to a held destination that a test may see.
const PROBES_MAX: usize = 1_000;
/// How long a worker has what it claimed.
const LEASE: Duration = Duration::from_secs(60);

/// A message of tenant `default` with this id, for the transport `http`.
pub fn message(id: &str) -> NewMessage {
    NewMessage {
        topic: "http:http://shop.example/hook".to_owned(),
        payload: "{\"order\":17}".into(),
        id: Some(id.to_owned()),
        annotations: [(Annotation::ContentType, "application/json")].into(),
        ..NewMessage::default()
    }
}

impl InMemoryHost {
    /// Enqueues one; its id.
    pub async fn send(&self, message: NewMessage) -> String {
        self.outbox.enqueue(vec![message]).await.unwrap().ids.remove(0)
    }

    pub async fn view(&self, of: &str, id: &str) -> MessageView {
        self.outbox.message(&tenant(of), id).await.unwrap()
    }

    pub async fn until_state(&self, of: &str, id: &str, state: MessageState) -> MessageView {
        let what = format!("message {id} is {}", state.word());
        eventually(&what, async || self.view(of, id).await.state == state).await;
        self.view(of, id).await
    }

    /// What the next deliveries of a message come to; those behind them succeed.
    pub fn answer(&self, id: &str, outcomes: impl IntoIterator<Item = Outcome>) {
        self.script.lock().entry(id.to_owned()).or_default().extend(outcomes);
    }

    /// Sends a message and has its deliveries end like this, one after the other, each as soon as it may be. Answers it as it is
    /// after the last one.
    pub async fn sent(&self, message: NewMessage, outcomes: impl IntoIterator<Item = Outcome>) -> MessageView {
        let outcomes: VecDeque<Outcome> = outcomes.into_iter().collect();
        let of = message.tenant.clone().unwrap_or_else(|| "default".to_owned());
        let id = message.id.clone().unwrap_or_else(|| panic!("{message:?} needs an id of the test's own"));
        self.answer(&id, outcomes.iter().cloned());
        self.send(message).await;
        for (index, outcome) in outcomes.iter().enumerate() {
            self.until_over(&of, &id, outcome, index + 1).await;
            let due = self.view(&of, &id).await.waiting.and_then(|waiting| waiting.until);
            if let Some(due) = due.filter(|_| index + 1 < outcomes.len()) {
                self.pass(due.0.since(self.now()));
            }
        }
        self.view(&of, &id).await
    }

    /// Waits until the attempt that ends like this is over.
    async fn until_over(&self, of: &str, id: &str, outcome: &Outcome, attempts: usize) {
        let waits_for = |view: &MessageView, kind: WaitKind| view.waiting.as_ref().is_some_and(|it| it.on == kind);
        let what = format!("message {id} has had attempt {attempts}");
        eventually(&what, async || {
            let view = self.view(of, id).await;
            match outcome {
                Outcome::Ack(_) => view.state == MessageState::Done,
                Outcome::Permanent(_) => view.state == MessageState::Dead,
                Outcome::Blocked { .. } => waits_for(&view, WaitKind::Destination),
                Outcome::Retryable(_) | Outcome::Release(_) => {
                    let is_told = view.attempts as usize >= attempts && waits_for(&view, WaitKind::Retry);
                    is_told || view.state == MessageState::Dead
                }
            }
        })
        .await;
    }

    pub async fn delivered(&self, message: NewMessage) -> MessageView {
        self.sent(message, [crate::fake_transport::ack()]).await
    }

    /// A dead letter: its receiver refused it for good.
    pub async fn dead(&self, message: NewMessage) -> MessageView {
        self.sent(message, [Outcome::Permanent(Fault::new("HTTP.400", "the receiver said no"))]).await
    }

    /// Puts so many copies of a dead letter behind it, which entered the order in the same millisecond.
    pub async fn copy_dead(&self, of: &str, id: &str, copies: usize) {
        let seq = self.view(of, id).await.seq.unwrap().0;
        self.store.write(|tables| {
            let (shard, found) =
                tables.dead.iter().find(|((_, at), _)| at.0 == seq).map(|(at, dead)| (at.0, dead.clone())).unwrap();
            let places = (seq + 1..).take(copies).map(|place| (shard, Seq(place)));
            tables.dead.extend(places.map(|place| (place, found.clone())));
        });
    }

    /// One that waits for its retry.
    pub async fn parked(&self, message: NewMessage) -> MessageView {
        self.sent(message, [Outcome::Retryable(Fault::new("HTTP.503", "the receiver is busy"))]).await
    }

    /// One whose destination is held, however often it is tried.
    pub async fn held(&self, message: NewMessage, scope: &str) -> MessageView {
        let fault = Fault::new("HTTP.401", "401 from the receiver: check the credentials");
        let blocked = Outcome::Blocked { scope: scope.to_owned(), fault };
        let held = self.sent(message, [blocked.clone()]).await;
        self.answer(&held.id, std::iter::repeat_n(blocked, PROBES_MAX));
        held
    }

    /// One whose time comes later.
    pub async fn scheduled(&self, message: NewMessage, after: Duration) -> MessageView {
        let of = message.tenant.clone().unwrap_or_else(|| "default".to_owned());
        let id = self.send(NewMessage { not_before: Some(self.now().plus(after)), ..message }).await;
        let what = format!("message {id} is scheduled");
        let is_scheduled = |waiting: Option<Waiting>| waiting.is_some_and(|it| it.on == WaitKind::Schedule);
        eventually(&what, async || is_scheduled(self.view(&of, &id).await.waiting)).await;
        self.view(&of, &id).await
    }

    /// Sends a message for external workers; the subject begins with `out.`.
    pub async fn offered(&self, message: NewMessage, subject: &str) -> String {
        self.send(NewMessage { topic: format!("bus:{subject}"), ..message }).await
    }

    /// Has a worker claim messages of a tenant, at least one.
    pub async fn claimed(&self, worker: &str, of: &str) -> Vec<ClaimedMessage> {
        let request = ClaimRequest {
            worker: worker.to_owned(),
            limit: 10,
            lease: LEASE,
            topic: None,
            tenants: Some(vec![tenant(of)]),
            wait: Duration::from_secs(20),
        };
        let claimed = self.outbox.claim(request).await.unwrap();
        assert!(!claimed.is_empty(), "there is nothing for worker {worker}");
        claimed
    }
}
