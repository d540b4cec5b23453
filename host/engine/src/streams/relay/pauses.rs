//! Operators pause and resume a relay at any host, and every host goes by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use waybill_core::ids::RelayName;
use waybill_core::port::store::StoreError;
use waybill_core::streams::records::RelayNote;

use super::super::{Shared, StreamHandle};
use super::mapping_of;

/// How often a host looks what was said at others.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Goes by what is noted of relays. True: some of it is news.
pub(in crate::streams) async fn read_notes(shared: &Shared) -> Result<bool, StoreError> {
    let notes: BTreeMap<RelayName, RelayNote> = shared.store.relay_notes().await?.into_iter().collect();
    let mut is_news = false;
    for plan in &shared.settings().relays {
        let note = notes.get(&plan.name).copied().unwrap_or_default();
        if shared.relays.take_note(&plan.name, note) {
            is_news = true;
            // One whose topic can't be used stays stopped.
            let _usable = mapping_of(plan, shared);
        }
    }
    Ok(is_news)
}

/// Looks until the engine ends.
pub(in crate::streams) async fn follow_notes(shared: Arc<Shared>, shards: Vec<StreamHandle>) {
    loop {
        sleep(LOOK_EVERY).await;
        if shared.settings().relays.is_empty() {
            continue;
        }
        match read_notes(&shared).await {
            Ok(true) => shards.iter().for_each(StreamHandle::relay_changed),
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(code = error.code().as_str(), %error, "can't read which relays are paused");
            }
        }
    }
}
