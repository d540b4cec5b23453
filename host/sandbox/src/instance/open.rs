//! Makes an instance and opens it: fresh Store, limits, instantiation, `open`, all within one deadline.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};
use wasmtime::{Store, UpdateDeadline};
use waybill_bindings::api::types::{CallInfo, OpenArgs, OpenPurpose, Opened, PluginError};
use waybill_core::endpoint::MessageIds;
use waybill_core::port::transport::CallError;

use super::crash::{CpuExhausted, Crash};
use super::guest::{Guest, Wants};
use super::lane::Facts;
use super::provision::provision_at_start;
use crate::convert::{call_error, to_millis};
use crate::cpu::CpuMeter;
use crate::error::SandboxError;
use crate::host::{CallRecord, EndpointContext, InstanceState, Reported};
use crate::limits::{CPU_OPEN, HANDLES_MAX};
use crate::load::{Linked, LoadedPlugin};

/// Calls whose CPU allowance an instance may hold at once.
const CPU_CALLS_MAX: u32 = 4;
/// Id of the `open` call.
const OPEN_CALL: u32 = 0;

/// Numbers the instances of this process.
static NEXT_SESSION: AtomicU64 = AtomicU64::new(1);

/// What every instance of an endpoint is made from.
pub(crate) struct Endpoint {
    pub(crate) plugin: LoadedPlugin,
    pub(crate) name: String,
    pub(crate) context: Arc<EndpointContext>,
    /// Configuration as the guest gets it.
    pub(crate) config: String,
    pub(crate) host_id: String,
    pub(crate) instances: u32,
    /// How ids of messages are written on the wire.
    pub(crate) message_ids: MessageIds,
    /// What each instance is told at `open`.
    pub(crate) wants: Mutex<Wants>,
    /// Provision before the first instance serves.
    pub(crate) provision: bool,
    pub(crate) provisioned: OnceCell<()>,
}

pub(crate) struct Live {
    pub(super) store: Store<InstanceState>,
    pub(super) guest: Guest,
    pub(super) cpu: Arc<CpuMeter>,
    pub(crate) facts: Facts,
}

/// Why there is none.
pub(crate) enum OpenFailure {
    /// The guest said so.
    Told(CallError),
    /// It trapped, took too long or broke the contract.
    Crashed(Crash),
}

impl OpenFailure {
    /// As a failed call.
    pub(crate) fn into_call_error(self) -> CallError {
        match self {
            Self::Told(error) => error,
            Self::Crashed(crash) => CallError { kind: crash.kind, fault: crash.fault },
        }
    }
}

/// A failed `open` of an endpoint.
pub(crate) fn open_error(endpoint: &str, error: CallError) -> SandboxError {
    SandboxError::Open { endpoint: endpoint.to_owned(), kind: error.kind, fault: error.fault }
}

pub(crate) async fn open(
    endpoint: &Endpoint,
    number: u32,
    purpose: OpenPurpose,
    reported: Reported,
) -> Result<Live, OpenFailure> {
    if endpoint.provision && purpose == OpenPurpose::Serve {
        // The instances wait for one of them; if it fails, the next try of any begins anew.
        endpoint.provisioned.get_or_try_init(|| provision_at_start(endpoint)).await.map_err(OpenFailure::Told)?;
    }
    let limits = &endpoint.context.limits;
    let started = Instant::now();
    let deadline = started + limits.open_timeout;
    reported.forget();
    let most = limits.cpu_per_call * limits.calls_per_instance.clamp(1, CPU_CALLS_MAX);
    let cpu = Arc::new(CpuMeter::new(CPU_OPEN, most, endpoint.context.meters.cpu.clone()));
    let mut store = store(endpoint, number, Arc::clone(&cpu), reported);
    store.data_mut().calls.insert(OPEN_CALL, CallRecord { started, deadline, sink: None, told: Vec::new() });

    let work = cpu.charge(enter(endpoint, number, purpose, &mut store));
    let entered = timeout_at(deadline, AssertUnwindSafe(work).catch_unwind()).await;
    let answer = match entered {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => return Err(OpenFailure::Crashed(Crash::host_panic())),
        Err(_) => {
            let reason = format!("open took longer than {:?}", limits.open_timeout);
            return Err(OpenFailure::Crashed(Crash::late(reason)));
        }
    };
    store.data_mut().calls.remove(&OPEN_CALL);
    match answer {
        Ok((guest, Ok(opened))) => {
            cpu.opened(limits.cpu_per_call);
            let facts = Facts::new(&opened, limits, NEXT_SESSION.fetch_add(1, Ordering::Relaxed));
            Ok(Live { store, guest, cpu, facts })
        }
        Ok((_, Err(told))) => Err(OpenFailure::Told(call_error(&endpoint.context, told))),
        Err(trap) => Err(OpenFailure::Crashed(Crash::from_trap(&trap, store.data()))),
    }
}

pub(super) fn store(endpoint: &Endpoint, number: u32, cpu: Arc<CpuMeter>, reported: Reported) -> Store<InstanceState> {
    let context = Arc::clone(&endpoint.context);
    let fuel = context.limits.hostcall_bytes();
    let state = InstanceState::new(context, number, cpu, reported);
    let mut store = Store::new(&endpoint.plugin.0.sandbox.0.services, state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(fuel);
    store.set_max_component_handles(HANDLES_MAX);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|context| {
        if context.data().cpu.is_overdrawn() {
            return Err(wasmtime::Error::new(CpuExhausted));
        }
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    store
}

async fn enter(
    endpoint: &Endpoint,
    number: u32,
    purpose: OpenPurpose,
    store: &mut Store<InstanceState>,
) -> wasmtime::Result<(Guest, Result<Opened, PluginError>)> {
    let guest = instantiate(endpoint, store).await?;
    let timeout = to_millis(endpoint.context.limits.open_timeout);
    let call = CallInfo { id: OPEN_CALL, timeout, traceparent: None, attributes: Vec::new() };
    let args = open_args(endpoint, number, purpose);
    let opened = {
        let (guest, wants) = (guest.clone(), endpoint.wants.lock().clone());
        store.run_concurrent(async move |accessor| guest.open(accessor, call, args, wants).await).await??
    };
    Ok((guest, opened))
}

/// Makes an instance in a fresh Store.
pub(super) async fn instantiate(endpoint: &Endpoint, store: &mut Store<InstanceState>) -> wasmtime::Result<Guest> {
    let Linked::Services { pre, exports } = &endpoint.plugin.0.linked else {
        return Err(wasmtime::format_err!("a retry policy has no services"));
    };
    let instance = pre.instantiate_async(&mut *store).await?;
    exports.load(&mut *store, &instance)
}

/// What an instance is told at its start.
pub(super) fn open_args(endpoint: &Endpoint, number: u32, purpose: OpenPurpose) -> OpenArgs {
    let context = &endpoint.context;
    OpenArgs {
        name: endpoint.name.clone(),
        config: endpoint.config.clone(),
        purpose,
        instance: number,
        instances: endpoint.instances,
        host_id: endpoint.host_id.clone(),
        generation: context.generation.to_string(),
        max_batch: context.limits.max_batch,
        max_batch_bytes: context.limits.max_batch_bytes,
        attributes: vec![("host-version".to_owned(), env!("CARGO_PKG_VERSION").to_owned())],
    }
}
