//! Files of sources' plugins that change while the host runs (`watch = true`): the source is closed in good order and opened again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;
use waybill_core::port::source::SourcePlugin;
use waybill_engine::Engine;
use waybill_sandbox::POLL_EVERY;

use super::InForce;

/// When a file was written last, and its size; none = it isn't there.
type Stamp = Option<(SystemTime, u64)>;

/// Looks at the files of the sources that are in force, until `stop`.
pub async fn watch(in_force: InForce, engine: Arc<Engine>, stop: CancellationToken) {
    let mut stamps: BTreeMap<String, Stamp> = BTreeMap::new();
    loop {
        let sources: Vec<_> = in_force.get().plugins.into_iter().filter(|source| source.file().is_some()).collect();
        stamps.retain(|name, _| sources.iter().any(|source| source.name() == name));
        for source in &sources {
            let now = stamp(source.file()).await;
            let Some(before) = stamps.get_mut(source.name()) else {
                stamps.insert(source.name().to_owned(), now);
                continue;
            };
            // One that is being replaced is there again in a moment.
            if now.is_none() || now == *before {
                continue;
            }
            *before = now;
            if source.is_replaced().await {
                tracing::info!(source = source.name(), "the file of a source's plugin has changed: it is opened again");
                // Whether it can be opened now or later, is told where it is opened.
                let _opened = engine.reopen_source(source.name()).await;
            }
        }
        if stop.run_until_cancelled(tokio::time::sleep(POLL_EVERY)).await.is_none() {
            return;
        }
    }
}

async fn stamp(file: Option<&Path>) -> Stamp {
    let found = tokio::fs::metadata(file?).await.ok()?;
    Some((found.modified().ok()?, found.len()))
}
