//! Operators pause and resume a relay at any host, it stops by itself at any host, and every host goes by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use waybill_core::ids::RelayName;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::AuditEvent;
use waybill_core::streams::records::RelayNote;

use super::super::{Shared, StreamHandle};
use super::mapping_of;

/// How often a host looks what was said at others, and tells again what it couldn't.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Goes by what is noted of relays. True: some of it is news.
pub(in crate::streams) async fn read_notes(shared: &Shared) -> Result<bool, StoreError> {
    let notes: BTreeMap<RelayName, RelayNote> = shared.store.relay_notes().await?.into_iter().collect();
    let mut is_news = false;
    for plan in &shared.settings().relays {
        let note = notes.get(&plan.name).cloned().unwrap_or_default();
        if shared.relays.take_note(&plan.name, note) {
            is_news = true;
            // One whose topic can't be used stays stopped.
            let _usable = mapping_of(plan, shared);
        }
    }
    Ok(is_news)
}

/// Tells the store which relays have stopped here, so that every host shows it, and none sends after a restart. True: one of them goes on
/// already.
pub(in crate::streams) async fn tell_stops(shared: &Shared) -> Result<bool, StoreError> {
    let mut goes_on = false;
    for plan in &shared.settings().relays {
        let state = shared.relays.of(&plan.name);
        let note = |word| async move { shared.store.note_relay(&plan.name, &word).await };
        let Some((reason, is_resumed)) = state.tell_stop(note).await? else { continue };
        if is_resumed {
            goes_on = true;
            // One whose topic can't be used stays stopped.
            let _usable = mapping_of(plan, shared);
        }
        let event = AuditEvent {
            at: shared.context.clock.now().wall,
            kind: "RelayStopped".to_owned(),
            actor: shared.context.config.host.clone(),
            tenant: None,
            object: plan.name.to_string(),
            detail: json!({ "reason": reason }),
        };
        crate::service::audit(&shared.context, &event).await;
    }
    Ok(goes_on)
}

/// Tells and looks until the engine ends.
pub(in crate::streams) async fn follow_notes(shared: Arc<Shared>, shards: Vec<StreamHandle>) {
    loop {
        tokio::select! {
            () = sleep(LOOK_EVERY) => {}
            () = shared.relays.stops() => {}
        }
        if shared.settings().relays.is_empty() {
            continue;
        }
        match tell_stops(&shared).await {
            Ok(true) => shards.iter().for_each(StreamHandle::relay_changed),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(code = error.code().as_str(), %error, "can't note which relays have stopped");
            }
        }
        // Nobody else says anything.
        if shared.context.config.exclusive {
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
