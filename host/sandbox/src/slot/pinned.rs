//! A slot's transport as one call has it: one generation, whatever is swapped meanwhile.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::message::Delivery;
use waybill_core::port::transport::{
    CallError, ErrorKind, Fault, HealthReport, Outcome, OutcomeSink, PluginIdentity, Transport, TransportLimits,
};

use super::Shared;
use super::generation::Hold;

/// One call's transport. While a slot with `stop-start` has nobody to serve, it waits for the next generation.
pub(super) struct Pinned {
    slot: Arc<Shared>,
    hold: OnceLock<Hold>,
}

impl Pinned {
    pub fn new(slot: Arc<Shared>) -> Self {
        let hold = OnceLock::new();
        if let Some(held) = slot.hold() {
            let _first = hold.set(held);
        }
        Self { slot, hold }
    }

    /// The generation that serves; waited for at most until the deadline.
    async fn held(&self, deadline: Instant) -> Result<&Hold, CallError> {
        if let Some(hold) = self.hold.get() {
            return Ok(hold);
        }
        let held = self.slot.next_hold(deadline).await?;
        Ok(self.hold.get_or_init(|| held))
    }
}

/// The answer when the new plugin wasn't there in the time given: nothing was handed to a guest.
pub(super) fn swapping() -> CallError {
    let why = "the plugin is being replaced and its successor wasn't open in the time given";
    CallError { kind: ErrorKind::Unavailable, fault: Fault::new(Code::PLUGIN_SWAPPING, why) }
}

#[async_trait]
impl Transport for Pinned {
    fn name(&self) -> &str {
        &self.slot.name
    }

    fn identity(&self) -> PluginIdentity {
        match self.hold.get() {
            Some(hold) => hold.transport.identity(),
            None => self.slot.current().transport.identity(),
        }
    }

    fn limits(&self) -> TransportLimits {
        match self.hold.get() {
            Some(hold) => hold.transport.limits(),
            None => self.slot.current().transport.limits(),
        }
    }

    async fn send_batch(
        &self,
        lane: u32,
        batch: Vec<Delivery>,
        timeout: Duration,
        sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError> {
        let deadline = Instant::now() + timeout;
        let hold = self.held(deadline).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left < timeout / 2 {
            // It waited for a place to open: what it would lack isn't the new generation's fault.
            return Err(swapping());
        }
        let result = hold.transport.send_batch(lane, batch, left, sink).await;
        self.slot.heard(hold.number, result.as_ref().err());
        result
    }

    async fn health(&self) -> HealthReport {
        match self.hold.get() {
            Some(hold) => hold.transport.health().await,
            None => self.slot.current().transport.health().await,
        }
    }

    /// One call can't end what others use.
    async fn close(&self, _timeout: Duration) {}
}
