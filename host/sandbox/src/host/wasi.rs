//! WASI 0.2 as guests of I/O worlds get it: clocks, random, and stdout and stderr that go to the log. No arguments, no
//! environment, no files, no stdin; sockets and name lookup are linked and closed.

use std::sync::Arc;

use tracing::Level;
use wasmtime_wasi::WasiCtx;

use super::context::EndpointContext;
use super::last_words::LastWords;
use super::stdio::LineLog;
use crate::limits::RANDOM_BYTES_MAX;

/// The WASI context of one instance. What it writes to stderr is kept in `last_words`.
pub(super) fn context(endpoint: &Arc<EndpointContext>, instance: u32, last_words: LastWords) -> WasiCtx {
    let mut stderr = LineLog::new(Arc::clone(endpoint), instance, Level::WARN);
    stderr.keep(last_words);
    WasiCtx::builder()
        .stdout(LineLog::new(Arc::clone(endpoint), instance, Level::INFO))
        .stderr(stderr)
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .socket_addr_check(|_, _| Box::pin(async { false }))
        .build()
}
