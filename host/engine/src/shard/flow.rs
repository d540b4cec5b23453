//! Whether whole transports are held in this shard, for the feed of changes.

use super::actor::Actor;
use super::dispatch;

impl Actor {
    pub(super) fn note_flow(&self) {
        let (now, live) = (self.now(), self.context.live());
        for (id, entry) in live.iter() {
            let hold = self.owner.hold_info(&dispatch::whole(id), now);
            self.context.config.changes.transport(self.owner.shard(), &entry.name, hold.as_ref(), now.wall);
        }
    }
}
