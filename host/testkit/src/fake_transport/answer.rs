//! What one call of a [`super::FakeTransport`] does.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use waybill_core::message::Delivery;
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Outcome, Receipt};

/// One call as the script sees it.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Number of the call, from 1.
    pub call: u64,
    pub lane: u32,
    pub deliveries: &'a [Delivery],
}

impl Batch<'_> {
    /// Index of the message with this id.
    pub fn index_of(&self, id: &str) -> Option<usize> {
        self.deliveries.iter().position(|delivery| delivery.message.id.as_str() == id)
    }
    /// Whether a message with this payload is in it.
    pub fn has_payload(&self, payload: &str) -> bool {
        self.deliveries.iter().any(|delivery| delivery.payload == payload.as_bytes())
    }
}

/// How a call ends.
#[derive(Clone, Debug)]
pub enum End {
    /// With one outcome a message, in order (a lying transport may give another number).
    Outcomes(Vec<Outcome>),
    /// As a whole: nothing is known of what wasn't told early.
    Failed(CallError),
    /// Not at all, until the caller's time is over.
    Never,
    /// Not at all, and not even then: against the contract.
    Stuck,
}

/// What one call does, in this order: early results, delay, gate, end.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) early: Vec<(usize, Outcome)>,
    pub(super) delay: Duration,
    pub(super) gate: Option<Gate>,
    pub(super) end: End,
}

impl Answer {
    /// Ends this way at once.
    pub fn ending(end: End) -> Self {
        Self { early: Vec::new(), delay: Duration::ZERO, gate: None, end }
    }
    /// One outcome for each message.
    pub fn each(batch: &Batch<'_>, tell: impl Fn(&Delivery) -> Outcome) -> Self {
        Self::ending(End::Outcomes(batch.deliveries.iter().map(tell).collect()))
    }
    /// Fails as a whole.
    pub fn failing(kind: ErrorKind, code: &str) -> Self {
        Self::ending(End::Failed(CallError { kind, fault: Fault::new(code, format!("the call failed: {kind:?}")) }))
    }
    pub fn trap() -> Self {
        Self::failing(ErrorKind::Trapped, "PLUGIN.TRAPPED")
    }
    /// The call gets no answer until its time is over.
    pub fn never() -> Self {
        Self::ending(End::Never)
    }
    /// Never answers and ignores its time.
    pub fn stuck() -> Self {
        Self::ending(End::Stuck)
    }
    /// Tells an outcome early.
    #[must_use]
    pub fn telling(mut self, index: usize, outcome: Outcome) -> Self {
        self.early.push((index, outcome));
        self
    }
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
    /// Waits for a gate to open.
    #[must_use]
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }
}

/// A gate that a test opens: calls wait before it.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Gate {
    /// Lets everybody pass from now on.
    pub fn open(&self) {
        self.0.send_replace(true);
    }
    /// Stops everybody from now on.
    pub fn shut(&self) {
        self.0.send_replace(false);
    }
    /// Waits until it is open.
    pub async fn passed(&self) {
        // The sender lives as long as this gate: waiting can't fail.
        let mut open = self.0.subscribe();
        let _passed = open.wait_for(|open| *open).await;
    }
}

pub fn ack() -> Outcome {
    Outcome::Ack(Receipt::default())
}

pub fn retryable(code: &str) -> Outcome {
    Outcome::Retryable(Fault::new(code, format!("{code} this time")))
}

pub fn permanent(code: &str) -> Outcome {
    Outcome::Permanent(Fault::new(code, format!("{code} for good")))
}

/// The destination is at fault.
pub fn blocked(scope: &str, code: &str) -> Outcome {
    Outcome::Blocked { scope: scope.to_owned(), fault: Fault::new(code, format!("{code} at {scope}")) }
}

pub fn released(code: &str) -> Outcome {
    Outcome::Release(Fault::new(code, format!("{code}: not tried")))
}
