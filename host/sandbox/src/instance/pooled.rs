//! Calls on pooled instances, without a lane: a call consumes an instance, which comes back only if it may be used again.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use tokio::time::{Instant, timeout_at};
use waybill_bindings::api::types::CallInfo;
use waybill_bindings::services::exports::waybill::plugin::participant_api::StepInfo;
use waybill_core::code::Code;
use waybill_core::port::transport::{CallError, ErrorKind};

use super::answer::{AnswerKind, classify};
use super::crash::Crash;
use super::open::{Endpoint, Live, instantiate, store};
use super::serve::CLOSE_TIMEOUT;
use super::work::{Answer, Work};
use crate::convert::to_millis;
use crate::cpu::CpuMeter;
use crate::host::{CallRecord, EndpointContext, Reported};
use crate::limits::CPU_OPEN;

/// Id of the one call that runs in such an instance at a time.
const CALL: u32 = 1;

/// Does one piece of work. The instance comes back with the answer; after a trap, a missed deadline or a breach of the contract
/// it is gone, and what the call did is unknown.
pub(crate) async fn call_once(
    live: Live,
    context: &EndpointContext,
    work: Work,
    deadline: Instant,
) -> Result<(Live, Result<Answer, CallError>), Crash> {
    let Live { mut store, guest, cpu, facts } = live;
    let started = Instant::now();
    let (function, size, sink) = (work.function(), work.size(), work.sink());
    let timeout = to_millis(deadline.saturating_duration_since(started));
    let info = CallInfo { id: CALL, timeout, traceparent: work.traceparent(), attributes: Vec::new() };
    let told = vec![false; if sink.is_some() { size } else { 0 }];
    store.data_mut().calls.insert(CALL, CallRecord { started, deadline, sink, told });
    cpu.credit(context.limits.cpu_per_call);
    let answer = {
        let guest = &guest;
        // Pinned where it is made: it is large, and each wrapper would move it.
        let call = pin!(store.run_concurrent(async move |accessor| guest.run(accessor, info, work).await));
        timeout_at(deadline, AssertUnwindSafe(cpu.charge(call)).catch_unwind()).await
    };
    let crash = match answer {
        Ok(Ok(Ok(Ok(replied)))) => {
            store.data_mut().calls.remove(&CALL);
            let (answer, kind) = classify(context, facts.session, function, size, replied);
            match (answer, kind) {
                (_, AnswerKind::Breach(crash)) => crash,
                (Some(answer), _) => {
                    let failed = answer.as_ref().err().map(|error| error.kind);
                    context.meters.work(started.elapsed(), failed);
                    if let Ok(answer) = &answer {
                        context.meters.tally.answered(answer, &[]);
                    }
                    return Ok((Live { store, guest, cpu, facts }, answer));
                }
                (None, _) => {
                    Crash::new(ErrorKind::Contract, Code::PLUGIN_CONTRACT, format!("{function} has no answer"))
                }
            }
        }
        Ok(Ok(Ok(Err(trap)) | Err(trap))) => Crash::from_trap(&trap, store.data()),
        Ok(Err(_)) => Crash::host_panic(),
        Err(_) => Crash::late("the call took longer than its time"),
    };
    context.meters.work(started.elapsed(), Some(crash.kind));
    Err(crash)
}

/// Lets an instance say goodbye, for a while.
pub(crate) async fn close_once(live: Live, context: &EndpointContext) {
    let Live { mut store, guest, cpu, .. } = live;
    let started = Instant::now();
    let deadline = started + CLOSE_TIMEOUT;
    store.data_mut().calls.insert(CALL, CallRecord { started, deadline, sink: None, told: Vec::new() });
    let call = CallInfo { id: CALL, timeout: to_millis(CLOSE_TIMEOUT), traceparent: None, attributes: Vec::new() };
    cpu.credit(context.limits.cpu_per_call);
    let guest = &guest;
    let work = cpu.charge(store.run_concurrent(async move |accessor| guest.close(accessor, call).await));
    let ended = timeout_at(deadline, AssertUnwindSafe(work).catch_unwind()).await;
    if !matches!(ended, Ok(Ok(Ok(Ok(()))))) {
        tracing::debug!(transport = %context.name, plugin = %context.plugin, "an instance didn't close in good order");
    }
}

/// The steps a participant describes, in an instance of its own that is never opened. `endpoint` should reach nothing.
pub(crate) async fn read_steps(endpoint: &Endpoint) -> Result<Vec<StepInfo>, Crash> {
    let context = &endpoint.context;
    let deadline = Instant::now() + context.limits.open_timeout;
    let cpu = Arc::new(CpuMeter::new(CPU_OPEN, CPU_OPEN, context.meters.cpu.clone()));
    let mut store = store(endpoint, 0, Arc::clone(&cpu), Reported::default());
    let work = cpu.charge(async {
        let guest = instantiate(endpoint, &mut store).await?;
        guest.steps(&mut store).await
    });
    match timeout_at(deadline, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(Ok(steps))) => Ok(steps),
        Ok(Ok(Err(trap))) => Err(Crash::from_trap(&trap, store.data())),
        Ok(Err(_)) => Err(Crash::host_panic()),
        Err(_) => {
            let reason = format!("steps took longer than {:?}", context.limits.open_timeout);
            Err(Crash::late(reason))
        }
    }
}
