//! The data of one Store: everything a guest's calls work on.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};
use waybill_core::port::handler::VerdictSink;
use waybill_core::port::transport::{Health, HealthReport, OutcomeSink};

use super::context::EndpointContext;
use super::last_words::LastWords;
use super::limiter::Limiter;
use crate::cpu::CpuMeter;
use crate::http::HttpGate;
use crate::limits::{HANDLES_MAX, PEER_BLOCKED_TRUST, WASI_HTTP_FIELD_BYTES_MAX};

/// State of one instance.
pub(crate) struct InstanceState {
    pub(crate) context: Arc<EndpointContext>,
    /// 0-based number among the endpoint's instances.
    pub(crate) instance: u32,
    pub(crate) table: ResourceTable,
    pub(crate) limiter: Limiter,
    pub(crate) cpu: Arc<CpuMeter>,
    /// Calls now running, by the id the guest knows them by.
    pub(crate) calls: HashMap<u32, CallRecord>,
    pub(crate) connections: Arc<Semaphore>,
    /// What the guest reported last by itself.
    pub(crate) reported: Reported,
    /// What it wrote last to stderr.
    pub(crate) last_words: LastWords,
    wasi: WasiCtx,
    wasi_http: WasiHttpCtx,
    http_gate: HttpGate,
}

/// What an instance last said of its condition, and when.
#[derive(Clone, Default)]
pub(crate) struct Reported(Arc<parking_lot::Mutex<Option<(Instant, HealthReport)>>>);

impl Reported {
    pub(crate) fn set(&self, report: HealthReport) {
        *self.0.lock() = Some((Instant::now(), report));
    }

    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
    }

    /// How much longer to wait because the peer asked to, and why.
    pub(crate) fn blocked(&self) -> Option<(Duration, String)> {
        let last = self.0.lock();
        let (at, report) = last.as_ref().filter(|(_, report)| report.health == Health::Blocked)?;
        let left = PEER_BLOCKED_TRUST.checked_sub(at.elapsed()).filter(|left| !left.is_zero())?;
        Some((left, report.detail.clone().unwrap_or_else(|| "the peer asked to wait".to_owned())))
    }
}

/// Who takes what a guest tells of a batch before it answers.
#[derive(Clone)]
pub(crate) enum EarlySink {
    Outcomes(Arc<dyn OutcomeSink>),
    Verdicts(Arc<dyn VerdictSink>),
}

/// A running call as `control`, `progress` and `handling` see it.
pub(crate) struct CallRecord {
    pub(crate) started: Instant,
    pub(crate) deadline: Instant,
    /// Takes early answers; none for calls that aren't batches.
    pub(crate) sink: Option<EarlySink>,
    /// Which messages of the batch were told early.
    pub(crate) told: Vec<bool>,
}

impl CallRecord {
    /// Notes that message `index` was told of through `function`, and says whether it is the first time.
    pub(super) fn first_told(&mut self, function: &str, index: u32) -> wasmtime::Result<bool> {
        let size = self.told.len();
        let Some(told) = self.told.get_mut(index as usize) else {
            let why = format!("{function} names message {index} of a batch of {size}");
            return Err(wasmtime::Error::new(ContractBreach(why)));
        };
        Ok(!std::mem::replace(told, true))
    }
}

/// The guest did what the contract forbids: the call that did it traps, and the instance is replaced.
#[derive(Debug)]
pub(crate) struct ContractBreach(pub(crate) String);

impl fmt::Display for ContractBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ContractBreach {}

impl InstanceState {
    pub(crate) fn new(context: Arc<EndpointContext>, instance: u32, cpu: Arc<CpuMeter>, reported: Reported) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        let last_words = LastWords::default();
        let mut wasi_http = WasiHttpCtx::new();
        wasi_http.set_field_size_limit(WASI_HTTP_FIELD_BYTES_MAX);
        Self {
            instance,
            table,
            limiter: Limiter::of(&context),
            cpu,
            calls: HashMap::new(),
            connections: Arc::new(Semaphore::new(context.limits.connections)),
            reported,
            wasi: super::wasi::context(&context, instance, last_words.clone()),
            last_words,
            wasi_http,
            http_gate: HttpGate::new(Arc::clone(&context)),
            context,
        }
    }
}

impl WasiView for InstanceState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for InstanceState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.wasi_http, table: &mut self.table, hooks: &mut self.http_gate }
    }
}

/// The types need nothing of the host.
impl waybill_bindings::api::types::Host for InstanceState {}
impl waybill_bindings::inbound::inbound_types::Host for InstanceState {}
