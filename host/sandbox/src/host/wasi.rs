//! WASI 0.2 as guests of I/O worlds get it: clocks, random, and stdout and stderr that go to the log. No arguments, no
//! environment, no files, no stdin; sockets and name lookup are linked and closed.

use std::sync::Arc;

use tracing::Level;
use wasmtime_wasi::WasiCtx;

use super::context::EndpointContext;
use super::stdio::LineLog;
use crate::limits::RANDOM_BYTES_MAX;

/// The WASI context of one instance.
pub(super) fn context(endpoint: &Arc<EndpointContext>, instance: u32) -> WasiCtx {
    WasiCtx::builder()
        .stdout(LineLog::new(Arc::clone(endpoint), instance, Level::INFO))
        .stderr(LineLog::new(Arc::clone(endpoint), instance, Level::WARN))
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .socket_addr_check(|_, _| Box::pin(async { false }))
        .build()
}
