//! What changed at this host, kept for who asks: told by the parts that change something, and taken from what goes to the audit trail.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use waybill_core::changes::{Change, ChangeKind, ChangeLog, KeptChange};
use waybill_core::ids::ShardId;
use waybill_core::outbox::owner::{HoldInfo, WaitKind};
use waybill_core::port::changes::Changes;
use waybill_core::port::transact::AuditEvent;
use waybill_core::time::UnixMillis;

/// The feed of changes of one host: the engine's, and those of parts beside it, which share it through
/// [`EngineConfig::changes`](crate::EngineConfig).
#[derive(Debug, Default)]
pub struct ChangeFeed {
    log: Mutex<ChangeLog>,
    /// Shards in which a transport is held as a whole.
    held: Mutex<BTreeMap<String, BTreeSet<ShardId>>>,
}

impl ChangeFeed {
    /// It holds all that changes from now on. Said again, it changes nothing.
    pub fn begin(&self, now: UnixMillis) {
        self.log.lock().begin(now);
    }

    /// Since when it holds all, and the latest changes that are wanted, newest first.
    pub(crate) fn latest(
        &self,
        since: Option<UnixMillis>,
        limit: usize,
        wanted: impl Fn(&Change) -> bool,
    ) -> (UnixMillis, Vec<KeptChange>) {
        let log = self.log.lock();
        (log.since().unwrap_or_default(), log.latest(since, limit, wanted))
    }

    /// Something goes to the audit trail.
    pub(crate) fn audited(&self, event: &AuditEvent) {
        Change::of_audit(event).into_iter().for_each(|change| self.note(change));
    }

    /// Whether a whole transport is held in a shard. It is blocked from the first shard on in which it is, and flows when it is in none.
    pub(crate) fn transport(&self, shard: ShardId, transport: &str, hold: Option<&HoldInfo>, now: UnixMillis) {
        match hold.map(|hold| (hold, hold.kind())) {
            Some((hold, WaitKind::Transport)) => self.transport_blocked(shard, transport, hold, now),
            // Somebody paused it, which was told; what it does by itself shows when it is resumed.
            Some((_, WaitKind::Paused)) => {}
            _ => self.transport_flows(shard, transport, now),
        }
    }

    fn transport_blocked(&self, shard: ShardId, transport: &str, hold: &HoldInfo, now: UnixMillis) {
        let mut held = self.held.lock();
        let shards = held.entry(transport.to_owned()).or_default();
        if shards.insert(shard) && shards.len() == 1 {
            let change = Change::new(now, ChangeKind::TransportBlocked, transport);
            self.note(change.code(&hold.code).detail(&hold.reason));
        }
    }

    fn transport_flows(&self, shard: ShardId, transport: &str, now: UnixMillis) {
        let mut held = self.held.lock();
        let Some(shards) = held.get_mut(transport) else { return };
        if shards.remove(&shard) && shards.is_empty() {
            held.remove(transport);
            self.note(Change::new(now, ChangeKind::TransportFlowing, transport));
        }
    }

    /// This host has nothing to tell of a shard any more.
    pub(crate) fn leave(&self, shard: ShardId) {
        self.held.lock().retain(|_, shards| {
            shards.remove(&shard);
            !shards.is_empty()
        });
    }
}

impl Changes for ChangeFeed {
    fn note(&self, change: Change) {
        self.log.lock().note(change);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use waybill_core::outbox::owner::{HoldKey, TransportId};

    use super::*;

    fn hold(code: &str) -> HoldInfo {
        HoldInfo {
            key: HoldKey { tenant: None, transport: Some(TransportId(0)), scope: Arc::from("") },
            code: code.to_owned(),
            reason: "nobody answers".to_owned(),
            since: UnixMillis(1),
            until: None,
            probing: false,
            waiting: 0,
        }
    }

    #[test]
    fn a_transport_is_blocked_from_its_first_shard_on_and_flows_behind_its_last() {
        let feed = ChangeFeed::default();
        let told = |shard, hold: Option<&HoldInfo>, at| {
            feed.transport(ShardId(shard), "bus", hold, UnixMillis(at));
            let (_, kept) = feed.latest(None, 10, |_| true);
            kept.iter().map(|kept| kept.change.kind).collect::<Vec<_>>()
        };
        let (held, paused) = (hold("NATS.LOST"), hold("OUTBOX.PAUSED"));
        use ChangeKind::{TransportBlocked, TransportFlowing};
        assert!(told(0, None, 1_000).is_empty(), "it flowed before");
        assert_eq!(told(0, Some(&held), 2_000), [TransportBlocked]);
        assert_eq!(told(1, Some(&held), 3_000), [TransportBlocked]);
        assert_eq!(told(0, None, 4_000), [TransportBlocked]);
        assert_eq!(told(1, Some(&paused), 5_000), [TransportBlocked], "a pause says nothing of it");
        assert_eq!(told(1, None, 6_000), [TransportFlowing, TransportBlocked]);
        assert_eq!(told(1, Some(&held), 70_000), [TransportBlocked, TransportFlowing, TransportBlocked]);
        feed.leave(ShardId(1));
        assert_eq!(told(0, None, 80_000).len(), 3, "what became of another host's isn't told");
    }
}
