//! How many requests go to one peer at once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::grants::Target;
use crate::limits::HTTP_PEERS_MAX;

/// One gate a peer. Bound: [`HTTP_PEERS_MAX`] peers; gates nobody waits at are forgotten.
#[derive(Debug)]
pub(super) struct PeerGates {
    per_peer: usize,
    gates: Mutex<HashMap<Target, Arc<Semaphore>>>,
}

impl PeerGates {
    pub(super) fn new(per_peer: usize) -> Self {
        Self { per_peer: per_peer.max(1), gates: Mutex::new(HashMap::new()) }
    }

    /// The gate of a peer; none when too many peers are busy at once.
    pub(super) fn gate(&self, target: &Target) -> Option<Arc<Semaphore>> {
        let mut gates = self.gates.lock();
        if let Some(gate) = gates.get(target) {
            return Some(Arc::clone(gate));
        }
        if gates.len() >= HTTP_PEERS_MAX {
            gates.retain(|_, gate| Arc::strong_count(gate) > 1);
            if gates.len() >= HTTP_PEERS_MAX {
                return None;
            }
        }
        let gate = Arc::new(Semaphore::new(self.per_peer));
        gates.insert(target.clone(), Arc::clone(&gate));
        Some(gate)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::grants::Scheme;
    use url::Host;

    fn peer(port: u16) -> Target {
        Target { scheme: Scheme::Http, host: Host::Domain("a".to_owned()), port }
    }

    #[test]
    fn busy_peers_are_kept_and_idle_ones_forgotten() {
        let gates = PeerGates::new(1);
        let busy = gates.gate(&peer(1)).unwrap();
        let _held = busy.try_acquire().unwrap();
        for port in 2..=u16::try_from(HTTP_PEERS_MAX + 10).unwrap() {
            assert!(gates.gate(&peer(port)).is_some());
        }
        assert!(gates.gates.lock().len() <= HTTP_PEERS_MAX);
        assert_eq!(gates.gate(&peer(1)).unwrap().available_permits(), 0);
    }
}
