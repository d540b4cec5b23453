//! `control`: what a guest asks and tells beside its calls.

use tokio::time::Instant;
use waybill_bindings::api::control::Host;
use waybill_bindings::api::types::HealthReport;

use super::state::InstanceState;
use crate::convert::health_report;
use crate::limits::CANCEL_MARGIN_MAX;

impl Host for InstanceState {
    fn cancelled(&mut self, call: u32) -> wasmtime::Result<bool> {
        if self.context.closing.is_cancelled() {
            return Ok(true);
        }
        // An id that isn't running (any more) has nobody waiting for it.
        Ok(self.calls.get(&call).is_none_or(|record| {
            let margin = (record.deadline.saturating_duration_since(record.started) / 5).min(CANCEL_MARGIN_MAX);
            record.deadline.saturating_duration_since(Instant::now()) <= margin
        }))
    }

    fn remaining(&mut self, call: u32) -> wasmtime::Result<u32> {
        let left = self.calls.get(&call).map(|record| record.deadline.saturating_duration_since(Instant::now()));
        Ok(left.map_or(0, |left| u32::try_from(left.as_millis()).unwrap_or(u32::MAX)))
    }

    fn report_health(&mut self, report: HealthReport) -> wasmtime::Result<()> {
        self.reported.set(health_report(&self.context, report));
        Ok(())
    }
}
