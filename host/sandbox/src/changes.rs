//! What becomes of plugins, told to whoever keeps what changed at the host.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::changes::{Change, ChangeKind};
use waybill_core::port::changes::Changes;
use waybill_core::time::UnixMillis;

use crate::engine::Sandbox;

/// Who is told; none = nobody.
#[derive(Clone, Default)]
pub(crate) struct ChangeReporter(pub(crate) Option<Arc<dyn Changes>>);

impl ChangeReporter {
    /// Tells that something of a plugin changed now. `add` says more of it.
    pub(crate) fn tell(&self, kind: ChangeKind, plugin: &str, add: impl FnOnce(Change) -> Change) {
        let Some(changes) = &self.0 else { return };
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX));
        changes.note(add(Change::new(at, kind, plugin)));
    }
}

impl Sandbox {
    /// Tells whoever keeps it what changed at a plugin that is opened outside the fleet: that of a source.
    pub fn tell_change(&self, kind: ChangeKind, plugin: &str, add: impl FnOnce(Change) -> Change) {
        self.0.changes.tell(kind, plugin, add);
    }
}
