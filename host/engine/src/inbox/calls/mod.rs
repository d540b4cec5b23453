//! What consumers do with messages: handlers are called in tasks of the ownership, what needs no handler is made at once.
//!
//! | file | holds |
//! |---|---|
//! | `http` | handlers over HTTP: the request, and what an answer means |
//! | `component` | handlers that are components: batches, lanes, early verdicts, repeats |
//! | `leavings` | what a handler leaves behind, checked |
//! | `forward` | messages that go on to a topic or to a saga |
//! | `spans` | the span of each message that a handler is called with |

mod component;
mod forward;
mod http;
mod leavings;
mod spans;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::ids::Seq;
use waybill_core::inbox::owner::Call;
use waybill_core::inbox::settings::ConsumerId;
use waybill_core::inbox::verdict::Verdict;
use waybill_core::port::trace::Span;
use waybill_core::port::transport::Fault;
use waybill_core::time::{Monotonic, Now};

use super::Shared;
use super::actor::Actor;
use super::config::{ConsumerConfig, ConsumerTarget};
use super::mail::{Answered, Mail};
pub(super) use component::Components;

/// A call that its own client or plugin doesn't end is given up this long after its time.
const GIVE_UP_AFTER: Duration = Duration::from_secs(6);

/// What a call needs besides its message.
pub(super) struct Caller {
    pub shared: Arc<Shared>,
    pub config: Arc<super::InboundConfig>,
    pub consumer: Arc<ConsumerConfig>,
    /// No call begins after it.
    pub lease_until: Monotonic,
}

impl Caller {
    /// Whether this host may still act for the shard.
    pub fn may_begin(&self) -> bool {
        self.shared.context.clock.now().mono < self.lease_until
    }
}

impl Actor {
    pub(super) fn start_calls(&mut self, now: Now) {
        if self.is_ending() {
            return;
        }
        let calls = self.owner.take_calls(now, self.lease_until());
        let mut by_consumer: BTreeMap<ConsumerId, Vec<Call>> = BTreeMap::new();
        for call in calls {
            by_consumer.entry(call.consumer).or_default().push(call);
        }
        for (id, calls) in by_consumer {
            let Some(consumer) = self.home.consumer(id).cloned() else { continue };
            self.make(id, consumer, calls, now);
        }
    }

    fn make(&mut self, id: ConsumerId, consumer: Arc<ConsumerConfig>, calls: Vec<Call>, now: Now) {
        match &consumer.target {
            ConsumerTarget::Topic(_) | ConsumerTarget::Saga => {
                for call in calls {
                    let verdict = forward::verdict(&self.home.config, &consumer, &call, self.owner.shard(), now.wall);
                    self.owner.answered(call.seq, verdict, now, rand::random());
                }
            }
            ConsumerTarget::Http { .. } => {
                for call in calls {
                    let seqs = vec![call.seq];
                    let (calls, spans) = self.begin_spans(&consumer, vec![call]);
                    let caller = self.caller(Arc::clone(&consumer));
                    self.spawn(id, seqs, spans, |answers| async move {
                        let Some(call) = calls.into_iter().next() else { return };
                        let time = caller.consumer.handler_timeout;
                        answers.tell([(0, within(time, http::call(&caller, &call)).await)]);
                    });
                }
            }
            ConsumerTarget::Component(handler) => {
                // One plugin for all of them, whatever takes its place meanwhile: these are its lanes and limits.
                let handler = handler.serving().unwrap_or_else(|| Arc::clone(handler));
                for (lane, batch) in self.components.batches(id, handler.as_ref(), calls) {
                    let caller = self.caller(Arc::clone(&consumer));
                    let (handler, seqs) = (Arc::clone(&handler), batch.iter().map(|call| call.seq).collect());
                    let (batch, spans) = self.begin_spans(&consumer, batch);
                    self.spawn(id, seqs, spans, |answers| async move {
                        component::call(&caller, handler, lane, batch, &answers).await;
                    });
                }
            }
        }
    }

    fn caller(&self, consumer: Arc<ConsumerConfig>) -> Caller {
        let (shared, config) = (Arc::clone(&self.shared), Arc::clone(&self.home.config));
        Caller { shared, config, consumer, lease_until: self.lease_until() }
    }

    fn begin_spans(&self, consumer: &ConsumerConfig, calls: Vec<Call>) -> (Vec<Call>, Vec<Option<Box<dyn Span>>>) {
        match &self.shared.context.config.tracer {
            Some(tracer) => calls.into_iter().map(|call| spans::begin(tracer, consumer, call)).unzip(),
            None => (calls, Vec::new()),
        }
    }

    /// Runs calls in a task of this ownership. Whatever happens to it, each message is answered.
    fn spawn<C: Future<Output = ()> + Send + 'static>(
        &mut self,
        consumer: ConsumerId,
        seqs: Vec<Seq>,
        spans: Vec<Option<Box<dyn Span>>>,
        calls: impl FnOnce(Arc<Answers>) -> C,
    ) {
        let answers = Arc::new(Answers {
            mail: self.handle.mail.clone(),
            epoch: self.epoch,
            consumer,
            began: Instant::now(),
            open: Mutex::new(seqs.into_iter().map(Some).collect()),
            spans: Mutex::new(spans),
        });
        let calls = calls(Arc::clone(&answers));
        self.tasks.spawn(async move {
            let _panicked = AssertUnwindSafe(calls).catch_unwind().await;
            answers.tell_rest();
        });
    }

    pub(super) fn take_answers(&mut self, answers: Vec<Answered>) {
        let now = self.shared.context.clock.now();
        for Answered { seq, consumer, verdict, took } in answers {
            if let Some(config) = self.home.consumer(consumer) {
                self.shared.meter.called(&config.name, &verdict, took);
            }
            self.holds.note(consumer, &verdict, now.wall);
            self.owner.answered(seq, verdict, now, rand::random());
        }
    }
}

/// The way back for the verdicts of a task: each of its messages is answered once, when its verdict is known.
struct Answers {
    mail: mpsc::UnboundedSender<Mail>,
    epoch: u64,
    consumer: ConsumerId,
    began: Instant,
    /// The task's messages, by their places in it; none = answered.
    open: Mutex<Vec<Option<Seq>>>,
    /// Their spans, by the same places; empty = none are made.
    spans: Mutex<Vec<Option<Box<dyn Span>>>>,
}

impl Answers {
    /// Answers messages by their places; those that are told at once go together.
    fn tell(&self, verdicts: impl IntoIterator<Item = (usize, Verdict)>) {
        let took = self.began.elapsed();
        let mut open = self.open.lock();
        let answers = verdicts.into_iter().filter_map(|(place, verdict)| {
            let seq = open.get_mut(place)?.take()?;
            if let Some(span) = self.spans.lock().get_mut(place).and_then(Option::take) {
                spans::end(span, &verdict);
            }
            Some(Answered { seq, consumer: self.consumer, verdict, took })
        });
        let answers: Vec<Answered> = answers.collect();
        if !answers.is_empty() {
            let _gone = self.mail.send(Mail::Answered { epoch: self.epoch, answers });
        }
    }

    /// Answers what the task left without a verdict.
    fn tell_rest(&self) {
        let count = self.open.lock().len();
        self.tell((0..count).map(|place| (place, panicked())));
    }
}

fn panicked() -> Verdict {
    Verdict::Failed(Fault::new(Code::UNKNOWN_INTERNAL, "the call's task failed; the log tells more"))
}

/// A call's verdict; one that doesn't end in its time has failed.
async fn within(time: Duration, call: impl Future<Output = Verdict>) -> Verdict {
    tokio::time::timeout(time + GIVE_UP_AFTER, call).await.unwrap_or_else(|_| {
        let reason = format!("no answer came within {time:?}, and the call was given up");
        Verdict::Failed(Fault::new(Code::PLUGIN_TIMEOUT, reason))
    })
}
