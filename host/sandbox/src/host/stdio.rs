//! stdout and stderr of a guest, line by line into its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use tracing::Level;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use waybill_core::one_line::{into_one_line, one_line};

use super::context::EndpointContext;
use super::last_words::LastWords;
use crate::limits::STDIO_LINE_BYTES_MAX;

/// One of the two streams. Bound: one line of [`STDIO_LINE_BYTES_MAX`] is held.
#[derive(Clone)]
pub(super) struct LineLog {
    context: Arc<EndpointContext>,
    instance: u32,
    level: Level,
    line: Arc<Mutex<Vec<u8>>>,
    /// Kept besides, in case it traps.
    last_words: Option<LastWords>,
}

/// What Rust's runtime says after each panic. No guest has an environment to set it in.
const NO_ENVIRONMENT: &str = "note: run with `RUST_BACKTRACE";

impl LineLog {
    pub(super) fn new(context: Arc<EndpointContext>, instance: u32, level: Level) -> Self {
        Self { context, instance, level, line: Arc::default(), last_words: None }
    }

    /// Keeps the last lines besides.
    pub(super) fn keep(&mut self, last_words: LastWords) {
        self.last_words = Some(last_words);
    }

    fn take(&self, bytes: &[u8]) {
        let mut line = self.line.lock();
        for byte in bytes {
            if *byte == b'\n' || line.len() >= STDIO_LINE_BYTES_MAX {
                self.entry(&std::mem::take(&mut *line));
            }
            if *byte != b'\n' {
                line.push(*byte);
            }
        }
    }

    fn entry(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        if text.is_empty() || text.starts_with(NO_ENVIRONMENT) {
            return;
        }
        if let Some(last_words) = &self.last_words {
            last_words.hear(&one_line(&self.context.redactor.clean(text)));
        }
        if self.context.log.admit() {
            let text = into_one_line(self.context.redactor.clean(text).into_owned());
            super::log::write(&self.context, self.instance, self.level, text, BTreeMap::new());
        } else {
            self.context.log_dropped();
        }
    }
}

impl Drop for LineLog {
    fn drop(&mut self) {
        // The last words of a guest that panicked may lack their line break.
        if Arc::strong_count(&self.line) == 1 {
            let rest = std::mem::take(&mut *self.line.lock());
            self.entry(&rest);
        }
    }
}

impl IsTerminal for LineLog {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LineLog {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 would use it, which isn't linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for LineLog {
    async fn ready(&mut self) {}
}

impl OutputStream for LineLog {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(64 * 1024)
    }
}
