//! Opens an instance to see whether it would work, asks how it is, and ends it.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::time::{Instant, timeout_at};
use waybill_bindings::api::types::{CallInfo, OpenPurpose};
use waybill_core::port::transport::{CallError, HealthReport};

use super::crash::Crash;
use super::open::{Endpoint, Live, open};
use crate::convert::{health_report, to_millis};
use crate::error::SandboxError;
use crate::host::{EndpointContext, Reported};

/// Opens one instance with purpose `probe`, asks for its health, and closes it.
pub(crate) async fn probe_endpoint(endpoint: &Endpoint) -> Result<HealthReport, SandboxError> {
    let failed = |error| endpoint.open_error(error);
    let live = open(endpoint, 0, OpenPurpose::Probe, Reported::default())
        .await
        .map_err(|failure| failed(failure.into_call_error()))?;
    probe(live, &endpoint.context).await.map_err(failed)
}

async fn probe(live: Live, context: &EndpointContext) -> Result<HealthReport, CallError> {
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
        Ok(Ok(Ok(Err(trap)) | Err(trap))) => Crash::from_trap(&trap, store.data()),
        Ok(Err(_)) => Crash::host_panic(),
        Err(_) => Crash::late(format!("health took longer than {time:?}")),
    };
    Err(crash.call_error())
}
