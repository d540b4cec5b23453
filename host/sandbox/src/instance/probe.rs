//! Asks a freshly opened instance how it is, and ends it.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::time::{Instant, timeout_at};
use waybill_bindings::api::types::CallInfo;
use waybill_core::port::transport::{CallError, HealthReport};

use super::crash::Crash;
use super::open::Live;
use crate::convert::{health_report, to_millis};
use crate::host::EndpointContext;

/// Health of an instance opened with purpose `probe`; it is closed afterwards.
pub(crate) async fn probe(live: Live, context: &EndpointContext) -> Result<HealthReport, CallError> {
    let Live { mut store, guest, cpu, .. } = live;
    let time = context.limits.health_timeout;
    let deadline = Instant::now() + time;
    let call = |id| CallInfo { id, timeout: to_millis(time), traceparent: None, attributes: Vec::new() };
    cpu.credit(context.limits.cpu_per_call);
    let work = cpu.charge(store.run_concurrent(async |accessor| {
        let report = guest.health(accessor, call(1)).await?;
        guest.close(accessor, call(2)).await?;
        wasmtime::error::Ok(report)
    }));
    let crash = match timeout_at(deadline, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(Ok(Ok(report)))) => return Ok(health_report(context, report)),
        Ok(Ok(Ok(Err(trap)) | Err(trap))) => Crash::from_trap(&trap, store.data().limiter.refused()),
        Ok(Err(_)) => Crash::host_panic(),
        Err(_) => Crash::late(format!("health took longer than {time:?}")),
    };
    Err(crash.call_error())
}
