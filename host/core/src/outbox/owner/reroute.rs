//! Another set of routes and transports while messages wait.
//!
//! What is being sent ends where it began; everything else goes by the new routes at once. Numbers of transports stay what
//! they are: a new routing names the old ones first, in the same order, also those that no route names any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{HoldKey, Owner, Routing};
use crate::ids::{Seq, Tenant};
use crate::time::Now;

impl Owner {
    /// Puts another routing in force. `routing` names every transport that the one before named, at the same place, and may
    /// name more. Messages that workers outside have and that go elsewhere now are taken back: their tokens are worth nothing.
    /// `weights` are the tenants' new ones.
    pub fn reroute(&mut self, routing: Arc<Routing>, weights: BTreeMap<Tenant, u32>, now: Now) {
        self.config.routing = routing;
        self.config.weights = weights;
        self.rated.clear();
        self.routed = self.routed.wrapping_add(1);
        let leased: Vec<Seq> = self
            .outside
            .leases()
            .filter(|(_, sending)| !self.is_outside(self.transport_of(&sending.message.topic)))
            .map(|(seq, _)| seq)
            .collect();
        for seq in leased {
            self.outside.end(seq);
            self.end_probe(seq);
            self.put_back(seq, None, now);
        }
        self.window.rescan_skipped();
        let idle: Vec<Seq> = self.slots.iter().filter(|(_, slot)| slot.is_idle()).map(|(seq, _)| *seq).collect();
        for seq in idle {
            self.consider(seq, now);
        }
        let kept: Vec<HoldKey> = self.holds.keys().filter(|key| !self.is_used(key)).cloned().collect();
        for key in kept {
            self.lift(&key, now);
        }
        self.hold_unclaimed(now);
    }

    /// Routes a message that is off every list by the routing in force, if it was found by an earlier one. One that no route
    /// takes finds a hold to wait for.
    pub(super) fn route_anew(&mut self, seq: Seq, now: Now) {
        let Some(slot) = self.slots.get(&seq) else { return };
        let routed = self.routed;
        if slot.routed == routed {
            if slot.transport.is_none() {
                self.hold_unrouted(now);
            }
            return;
        }
        let transport = self.transport_of(&slot.message.topic);
        let outside = self.is_outside(transport);
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        slot.routed = routed;
        let is_moved = slot.transport != transport;
        (slot.transport, slot.outside) = (transport, outside);
        if is_moved {
            // It can't tell any more how the destination is that it was to try.
            self.end_probe(seq);
        }
        if transport.is_none() {
            self.hold_unrouted(now);
        }
    }

    /// A hold of a transport that no route names any more, or of missing routes with nobody waiting, tells nothing.
    fn is_used(&self, key: &HoldKey) -> bool {
        match key.transport {
            None => self.holds.get(key).is_some_and(|hold| !hold.waiting.is_empty()),
            Some(transport) => {
                let name = self.config.routing.name(transport);
                self.config.routing.routes.0.iter().any(|route| Some(route.transport.as_str()) == name)
            }
        }
    }
}
