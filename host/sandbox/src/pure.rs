//! WASI for pure worlds: the interfaces that language runtimes import even when they use nothing, without any effect. The
//! clock stands still, random is a constant, there are no files, no arguments and nowhere to write.

use std::time::Duration;

use metrics::Gauge;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi::random::Deterministic;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxView, WasiView};

use crate::host::Limiter;
use crate::limits::{BACKOFF_MEMORY_BYTES, HANDLES_MAX, RANDOM_BYTES_MAX};

/// State of one pure instance.
pub(crate) struct PureState {
    table: ResourceTable,
    wasi: WasiCtx,
    pub(crate) limiter: Limiter,
}

impl PureState {
    pub(crate) fn new(memory: Gauge) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        let wasi = WasiCtx::builder()
            .wall_clock(Still)
            .monotonic_clock(Still)
            .secure_random(Deterministic::new(vec![4]))
            .insecure_random(Deterministic::new(vec![4]))
            .insecure_random_seed(4)
            .max_random_size(RANDOM_BYTES_MAX)
            .build();
        Self { table, wasi, limiter: Limiter::new(BACKOFF_MEMORY_BYTES, memory) }
    }
}

impl WasiView for PureState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// A clock that stands still.
struct Still;

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for Still {
    fn resolution(&self) -> u64 {
        1_000_000
    }
    fn now(&self) -> u64 {
        0
    }
}

/// Puts inert WASI into a linker.
pub(crate) fn add_inert_wasi(linker: &mut Linker<PureState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)
}
