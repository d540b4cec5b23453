//! Short ways to say what became of a message.

use crate::transport::{Block, Fault, Health, HealthReport, Opened, Outcome, Receipt};

impl Fault {
    /// A fault with a code (upper case with dots, no ids, no times) and one sentence for the operator (no secrets).
    pub fn new(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { code: code.into(), reason: reason.into(), after: None, maybe_delivered: false, attributes: Vec::new() }
    }

    /// Not before this many milliseconds from now, as the peer asked.
    #[must_use]
    pub fn with_after(mut self, millis: Option<u32>) -> Self {
        self.after = millis;
        self
    }

    /// Whether it may have been delivered all the same.
    #[must_use]
    pub fn with_maybe_delivered(mut self, maybe: bool) -> Self {
        self.maybe_delivered = maybe;
        self
    }

    /// Adds an attribute, e.g. `http-status`.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// This fault as the fate of a message whose destination is at fault. An empty scope is the message's destination.
    pub fn blocking(self, scope: impl Into<String>) -> Outcome {
        Outcome::Blocked(Block { scope: scope.into(), fault: self })
    }
}

impl Receipt {
    /// A receipt without particulars.
    pub fn new() -> Self {
        Self { broker_ref: None, duplicate: false, attributes: Vec::new() }
    }

    /// A receipt with the receiver's own reference: sequence, offset, status.
    pub fn with_reference(reference: impl Into<String>) -> Self {
        Self { broker_ref: Some(reference.into()), ..Self::new() }
    }
}

impl Default for Receipt {
    fn default() -> Self {
        Self::new()
    }
}

impl Opened {
    /// Open, with one call at a time and no limits or abilities of its own.
    pub fn new() -> Self {
        Self {
            peer: None,
            max_batch: None,
            max_payload_bytes: None,
            max_concurrent_calls: 1,
            tick_every: None,
            dedup_window: None,
            features: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// Of a source: the peer waits this many milliseconds at most before it delivers again what wasn't settled. The host keeps the
    /// order of a key for twice as long after a crash.
    #[must_use]
    pub fn settling_within(mut self, ms: u32) -> Self {
        self.attributes.push(("settle-within".to_owned(), ms.to_string()));
        self
    }
}

impl Default for Opened {
    fn default() -> Self {
        Self::new()
    }
}

impl HealthReport {
    /// The plugin serves, and there is nothing to tell an operator.
    pub fn ready() -> Self {
        Self { status: Health::Ready, detail: None, attributes: Vec::new() }
    }

    /// Another condition, with one sentence for the operator.
    pub fn new(status: Health, detail: impl Into<String>) -> Self {
        Self { status, detail: Some(detail.into()), attributes: Vec::new() }
    }
}
