//! A slot whose generations are handlers, as the handler port sees it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use waybill_core::port::handler::{Handler, HandlerLimits, Inbound, Verdict, VerdictSink};
use waybill_core::port::transport::{CallError, HealthReport, PluginIdentity};

use super::Slot;
use super::pinned::Pinned;

/// A handler whose plugin can be replaced. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HandlerSlot(pub(crate) Slot);

impl HandlerSlot {
    fn pinned(&self) -> Pinned {
        Pinned::new(Arc::clone(&self.0.0))
    }
}

impl Deref for HandlerSlot {
    type Target = Slot;
    fn deref(&self) -> &Slot {
        &self.0
    }
}

#[async_trait]
impl Handler for HandlerSlot {
    fn name(&self) -> &str {
        self.0.0.configured_name()
    }

    fn identity(&self) -> PluginIdentity {
        Handler::identity(&self.pinned())
    }

    fn limits(&self) -> HandlerLimits {
        Handler::limits(&self.pinned())
    }

    fn generation(&self) -> u32 {
        Handler::generation(&self.pinned())
    }

    fn serving(&self) -> Option<Arc<dyn Handler>> {
        Some(Arc::new(self.pinned()))
    }

    async fn handle(
        &self,
        lane: u32,
        batch: Vec<Inbound>,
        timeout: Duration,
        sink: Arc<dyn VerdictSink>,
    ) -> Result<Vec<Verdict>, CallError> {
        self.pinned().handle(lane, batch, timeout, sink).await
    }

    fn health(&self) -> HealthReport {
        Handler::health(&self.pinned())
    }

    async fn close(&self, timeout: Duration) {
        self.0.0.close(timeout).await;
    }
}
