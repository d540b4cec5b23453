//! A slot as one call has it: one generation, whatever is swapped meanwhile.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::message::Delivery;
use waybill_core::port::handler::{Handler, HandlerLimits, Inbound, Verdict, VerdictSink};
use waybill_core::port::transport::{
    CallError, ErrorKind, Fault, HealthReport, Outcome, OutcomeSink, PluginIdentity, SendCall, Transport,
    TransportLimits,
};

use super::Shared;
use super::generation::Hold;
use super::served::Served;

/// One call's transport, handler, participant or policy. While a slot with `stop-start` has nobody to serve, it waits for the next generation.
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

    /// The generation that serves, with what is left of a call's time; waited for at most until that is over.
    pub async fn held(&self, timeout: Duration) -> Result<(&Hold, Duration), CallError> {
        let deadline = Instant::now() + timeout;
        let hold = match self.hold.get() {
            Some(hold) => hold,
            None => {
                let held = self.slot.next_hold(deadline).await?;
                self.hold.get_or_init(|| held)
            }
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left < timeout / 2 {
            // It waited for a place to open: what it would lack isn't the new generation's fault.
            return Err(swapping());
        }
        Ok((hold, left))
    }

    /// The generation that served when this was made; none while there was none.
    pub fn hold(&self) -> Option<&Hold> {
        self.hold.get()
    }

    /// Who serves this call, or served last.
    pub fn served(&self) -> Served {
        match self.hold.get() {
            Some(hold) => hold.served.clone(),
            None => self.slot.current().served.clone(),
        }
    }
}

/// The answer when the new plugin wasn't there in the time given: nothing was handed to a guest.
pub(super) fn swapping() -> CallError {
    let why = "the plugin is being replaced and its successor wasn't open in the time given";
    CallError { kind: ErrorKind::Unavailable, fault: Fault::new(Code::PLUGIN_SWAPPING, why) }
}

/// Its generation ended before an instance had the call.
pub(super) fn is_untried(fault: &Fault) -> bool {
    fault.code == Code::PLUGIN_CLOSED.as_str() && !fault.maybe_delivered
}

/// Why what waited for a generation that was rolled back is given back: the one that came back has it next, and nothing is held for it.
pub(super) fn rolled_back() -> Fault {
    Fault::new(Code::PLUGIN_SWAPPING, "the plugin was rolled back before an instance had it")
}

#[async_trait]
impl Transport for Pinned {
    fn name(&self) -> &str {
        self.slot.configured_name()
    }

    fn identity(&self) -> PluginIdentity {
        self.served().identity()
    }

    fn limits(&self) -> TransportLimits {
        self.served().limits()
    }

    async fn send_batch(
        &self,
        call: SendCall,
        batch: Vec<Delivery>,
        sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError> {
        let (hold, left) = self.held(call.timeout).await?;
        let count = batch.len();
        let transport = hold.served.transport()?;
        let result = transport.send_batch(SendCall { timeout: left, ..call }, batch, sink).await;
        self.slot.heard(hold.number, result.as_ref().err());
        match result {
            Err(error) if is_untried(&error.fault) && !self.slot.closed.is_cancelled() => {
                Ok(vec![Outcome::Release(rolled_back()); count])
            }
            result => result,
        }
    }

    async fn health(&self) -> HealthReport {
        self.served().health().await
    }

    /// One call can't end what others use.
    async fn close(&self, _timeout: Duration) {}
}

#[async_trait]
impl Handler for Pinned {
    fn name(&self) -> &str {
        self.slot.configured_name()
    }

    fn identity(&self) -> PluginIdentity {
        self.served().identity()
    }

    fn limits(&self) -> HandlerLimits {
        self.served().handler_limits()
    }

    fn generation(&self) -> u32 {
        self.hold.get().map_or_else(|| self.slot.current().number, |hold| hold.number)
    }

    async fn handle(
        &self,
        lane: u32,
        batch: Vec<Inbound>,
        timeout: Duration,
        sink: Arc<dyn VerdictSink>,
    ) -> Result<Vec<Verdict>, CallError> {
        let (hold, left) = self.held(timeout).await?;
        let result = hold.served.handler()?.handle(lane, batch, left, sink).await;
        self.slot.heard(hold.number, result.as_ref().err());
        result
    }

    fn health(&self) -> HealthReport {
        self.served().health_seen()
    }

    /// One call can't end what others use.
    async fn close(&self, _timeout: Duration) {}
}
