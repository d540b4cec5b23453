//! Provisioning in an instance of its own: made, asked, dropped. It never opens and never serves.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::time::{Instant, timeout_at};
use wasmtime::Store;
use wasmtime::component::InstancePre;
use waybill_bindings::api::types::{CallInfo, OpenPurpose, PluginError};
use waybill_bindings::services::exports::waybill::plugin::provision_api::{Change, GuestIndices};
use waybill_core::code::Code;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange, ProvisionError};
use waybill_core::port::transport::{CallError, ErrorKind, Fault};

use super::crash::Crash;
use super::guest::Exports;
use super::open::{Endpoint, open_args, store};
use crate::convert::{call_error, provision_changes, to_millis};
use crate::cpu::CpuMeter;
use crate::host::{CallRecord, InstanceState, Reported};
use crate::limits::CPU_OPEN;
use crate::load::Linked;

/// Id of the one call of such an instance.
const CALL: u32 = 1;

/// What is missing at the peer; with `apply` it is created.
pub(crate) async fn provision(endpoint: &Endpoint, apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
    let Linked::Services { pre, exports: Exports { provision: Some(guest), .. } } = &endpoint.plugin.0.linked else {
        return Err(ProvisionError::NotOffered { plugin: endpoint.context.plugin.to_string() });
    };
    let context = &endpoint.context;
    let started = Instant::now();
    let deadline = started + context.limits.provision_timeout;
    let cpu = Arc::new(CpuMeter::new(CPU_OPEN, CPU_OPEN, context.meters.cpu.clone()));
    let mut store = store(endpoint, 0, Arc::clone(&cpu), Reported::default());
    store.data_mut().calls.insert(CALL, CallRecord { started, deadline, sink: None, told: Vec::new() });

    let work = cpu.charge(ask(endpoint, pre, guest, apply, &mut store));
    let answer = timeout_at(deadline, AssertUnwindSafe(work).catch_unwind()).await;
    let crash = match answer {
        Ok(Ok(Ok(Ok(changes)))) => return Ok(provision_changes(context, changes)),
        Ok(Ok(Ok(Err(told)))) => return Err(ProvisionError::Failed(call_error(context, told))),
        Ok(Ok(Err(trap))) => Crash::from_trap(&trap, store.data()),
        Ok(Err(_)) => Crash::host_panic(),
        Err(_) => {
            let reason = format!("provisioning took longer than {:?}", context.limits.provision_timeout);
            Crash::late(reason)
        }
    };
    crash.count(context);
    Err(ProvisionError::Failed(crash.call_error()))
}

async fn ask(
    endpoint: &Endpoint,
    pre: &InstancePre<InstanceState>,
    guest: &GuestIndices,
    apply: bool,
    store: &mut Store<InstanceState>,
) -> wasmtime::Result<Result<Vec<Change>, PluginError>> {
    let instance = pre.instantiate_async(&mut *store).await?;
    let guest = guest.load(&mut *store, &instance)?;
    let timeout = to_millis(endpoint.context.limits.provision_timeout);
    let call = CallInfo { id: CALL, timeout, traceparent: None, attributes: Vec::new() };
    let args = open_args(endpoint, 0, OpenPurpose::Serve);
    store
        .run_concurrent(async move |accessor| {
            if apply {
                guest.call_apply(accessor, call, args).await
            } else {
                guest.call_plan(accessor, call, args).await
            }
        })
        .await?
}

/// Plans and applies before an endpoint's first instance serves. A conflict stops it before anything is changed.
pub(super) async fn provision_at_start(endpoint: &Endpoint) -> Result<(), CallError> {
    let plan = provision(endpoint, false).await.map_err(failed)?;
    refuse_conflicts(&plan)?;
    if plan.iter().all(|change| change.action == ProvisionAction::Keep) {
        return Ok(());
    }
    let done = provision(endpoint, true).await.map_err(failed)?;
    for change in done.iter().filter(|change| change.action != ProvisionAction::Keep) {
        tracing::info!(transport = %endpoint.context.name, target = %change.target, action = ?change.action, detail = %change.detail, "provisioned");
    }
    refuse_conflicts(&done)
}

fn refuse_conflicts(changes: &[ProvisionChange]) -> Result<(), CallError> {
    let conflicts: Vec<&ProvisionChange> =
        changes.iter().filter(|change| change.action == ProvisionAction::Conflict).collect();
    let Some(first) = conflicts.first() else { return Ok(()) };
    let more = match conflicts.len() {
        1 => String::new(),
        count => format!("; {count} things in all"),
    };
    let reason = format!(
        "{} at the peer differs in a way that would lose data ({}{more}): change it by hand, or correct config",
        first.target, first.detail
    );
    // Not tried again by itself: somebody has to decide.
    Err(CallError { kind: ErrorKind::Unsupported, fault: Fault::new(Code::PLUGIN_PROVISION_CONFLICT, reason) })
}

fn failed(error: ProvisionError) -> CallError {
    match error {
        ProvisionError::Failed(error) => error,
        ProvisionError::NotOffered { .. } => CallError {
            kind: ErrorKind::InvalidConfig,
            fault: Fault::new(Code::PLUGIN_NO_PROVISIONING, error.to_string()),
        },
    }
}
