//! Events of a relay through its transport.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use waybill_core::message::Delivery;
use waybill_core::outbox::decide::Fate;
use waybill_core::port::transport::Outcome;
use waybill_core::streams::relay::RelaySend;
use waybill_core::time::Now;

use super::super::actor::Actor;
use super::super::mail::Sent;
use super::RelayDriver;
use super::lane::{Batch, BatchBounds, keys_of};
use crate::live::TransportEntry;
use crate::transport_call;

impl Actor {
    /// Sends what may be sent now.
    pub(in crate::streams) fn start_sends(&mut self, now: Now) {
        if self.is_ending() {
            return self.relays.iter().for_each(RelayDriver::stop_waiting);
        }
        if now.mono >= self.lease_until() {
            return;
        }
        for at in 0..self.relays.len() {
            self.start_sends_of(at, now);
        }
    }

    fn start_sends_of(&mut self, at: usize, now: Now) {
        let live = self.shared.context.live();
        let Some(driver) = self.relays.get_mut(at) else { return };
        let Some(relay) = self.owner.relays_mut().get_mut(&driver.plan.name) else { return };
        let entry = live.find(&driver.plan.transport).filter(|_| driver.may_send(&live));
        driver.note_hunger(entry.is_some() && driver.out == 0 && relay.streams_behind() > 0);
        let Some((_, entry)) = entry else { return };
        let room = driver.state.take_room(driver.plan.in_flight_max, driver.is_hungry);
        let sends = relay.sends(now.mono, room);
        driver.state.give_back(room.saturating_sub(sends.len()));
        if sends.is_empty() {
            return;
        }
        driver.out += sends.len();
        driver.note_hunger(false);
        let epoch = self.owner.record().token;
        let (limits, mut refused) = (entry.transport.limits(), Vec::new());
        let mut lanes: BTreeMap<u32, Vec<(RelaySend, Delivery)>> = BTreeMap::new();
        let bounds = BatchBounds {
            events: driver.plan.batch.min(limits.max_batch).max(1) as usize,
            bytes: driver.plan.batch_bytes.min(limits.max_batch_bytes) as usize,
        };
        for send in sends {
            let made = match &driver.mapping {
                Some(mapping) => mapping.delivery(&send.stream, send.seq, &send.packed, send.failed + 1, epoch),
                None => continue,
            };
            match made {
                Ok(delivery) => lanes.entry(lane_of(&delivery, limits.lanes)).or_default().push((send, delivery)),
                Err(error) => {
                    let RelaySend { stream, seq, generation, .. } = send;
                    let fate = Fate::Answered(Outcome::Permanent(error.fault()));
                    refused.push(Sent { stream, seq, generation, fate });
                }
            }
        }
        let name = driver.plan.name.clone();
        for (lane, events) in lanes {
            self.put_in_lane(at, entry, lane, events, bounds);
        }
        if !refused.is_empty() {
            self.take_sent(&name, refused);
        }
    }

    /// Has events wait for a lane, and somebody take them as it has calls free.
    fn put_in_lane(
        &mut self,
        at: usize,
        entry: &Arc<TransportEntry>,
        number: u32,
        events: Vec<(RelaySend, Delivery)>,
        bounds: BatchBounds,
    ) {
        let Some(driver) = self.relays.get_mut(at) else { return };
        let calls = entry.transport.limits().calls_per_lane;
        let lane = driver.lanes.entry(number).or_default().clone();
        if !lane.put(entry, events, calls) {
            return;
        }
        let (room, name) = (driver.state.lane(number, calls), driver.plan.name.clone());
        let (handle, epoch) = (self.handle.clone(), self.epoch);
        self.tasks.spawn(async move {
            while !lane.is_done() {
                // Nobody closes it.
                let _turn = Arc::clone(&room).acquire_owned().await;
                let Some((entry, Batch { sends, deliveries })) = lane.take(bounds) else { return };
                let called = transport_call::call(&entry, number, deliveries, entry.send_timeout).await;
                if let Some(error) = &called.error {
                    tracing::warn!(transport = &*entry.name, relay = name.as_str(), kind = ?error.kind, code = error.fault.code, reason = error.fault.reason, "a call to a transport failed");
                }
                let told = sends.into_iter().zip(called.fates);
                let sent = told.map(|(send, fate)| {
                    let RelaySend { stream, seq, generation, .. } = send;
                    Sent { stream, seq, generation, fate }
                });
                handle.sent(epoch, name.clone(), sent.collect());
            }
        });
    }
}

/// Of one key everything goes through one lane.
pub(in crate::streams) fn lane_of(delivery: &Delivery, lanes: u32) -> u32 {
    let mut hasher = DefaultHasher::new();
    keys_of(delivery).hash(&mut hasher);
    u32::try_from(hasher.finish() % u64::from(lanes.max(1))).unwrap_or(0)
}
