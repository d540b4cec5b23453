//! A slot whose generations are retry policies, as the backoff port sees it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use waybill_core::port::backoff::{BackoffDecision, BackoffPolicy, FailedAttempt};

use super::Slot;
use super::pinned::Pinned;

/// A retry policy whose plugin can be replaced. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PolicySlot(pub(crate) Slot);

impl Deref for PolicySlot {
    type Target = Slot;
    fn deref(&self) -> &Slot {
        &self.0
    }
}

impl PolicySlot {
    /// Ends the watch over its generations; decisions under way come to their end.
    pub async fn close(&self, timeout: Duration) {
        self.0.0.close(timeout).await;
    }
}

#[async_trait]
impl BackoffPolicy for PolicySlot {
    fn name(&self) -> &str {
        self.0.0.configured_name()
    }

    async fn decide(&self, attempt: &FailedAttempt) -> BackoffDecision {
        let pinned = Pinned::new(Arc::clone(&self.0.0));
        // Held until it has decided. A policy is never stopped before the next one is there, so there always is one.
        let Some(hold) = pinned.hold() else { return BackoffDecision::Fallback };
        match hold.served.policy() {
            Ok(policy) => policy.decide(attempt).await,
            Err(_) => BackoffDecision::Fallback,
        }
    }
}
