//! Files of sources' plugins that change while the host runs (`watch = true`): the source is closed in good order and opened again.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;
use waybill_core::port::source::SourcePlugin;
use waybill_engine::Engine;
use waybill_sandbox::POLL_EVERY;

use super::opener::ConfiguredSource;

/// When a file was written last, and its size; none = it isn't there.
type Stamp = Option<(SystemTime, u64)>;

/// Looks at the files of these sources until `stop`.
pub async fn watch(sources: Vec<Arc<ConfiguredSource>>, engine: Arc<Engine>, stop: CancellationToken) {
    let mut stamps = Vec::with_capacity(sources.len());
    for source in &sources {
        stamps.push(stamp(source.file()).await);
    }
    while stop.run_until_cancelled(tokio::time::sleep(POLL_EVERY)).await.is_some() {
        for (source, before) in sources.iter().zip(&mut stamps) {
            let now = stamp(source.file()).await;
            // One that is being replaced is there again in a moment.
            if now.is_none() || now == *before {
                continue;
            }
            *before = now;
            if source.is_replaced().await {
                tracing::info!(source = source.name(), "the file of a source's plugin has changed: it is opened again");
                engine.reopen_source(source.name()).await;
            }
        }
    }
}

async fn stamp(file: Option<&Path>) -> Stamp {
    let found = tokio::fs::metadata(file?).await.ok()?;
    Some((found.modified().ok()?, found.len()))
}
