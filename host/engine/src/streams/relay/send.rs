//! Events of a relay through its transport.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;
use waybill_core::ids::{Key, Tenant};
use waybill_core::message::Delivery;
use waybill_core::outbox::decide::Fate;
use waybill_core::port::transport::Outcome;
use waybill_core::streams::relay::RelaySend;
use waybill_core::time::Now;

use super::super::actor::Actor;
use super::super::mail::Sent;
use crate::live::TransportEntry;
use crate::transport_call;

/// Events that go through one lane in one call.
struct Batch {
    events: Vec<(RelaySend, Delivery)>,
    bytes: usize,
    /// Tenants and keys in it. Two streams may share a key, and a call never holds two messages of one.
    keys: HashSet<(Tenant, Option<Key>)>,
}

impl Batch {
    fn has_room(&self, delivery: &Delivery, count_max: usize, bytes_max: usize) -> bool {
        let is_alone = delivery.message.key.is_none() || !self.keys.contains(&keys_of(delivery));
        is_alone && self.events.len() < count_max && self.bytes + delivery.payload.len() <= bytes_max
    }
}

fn keys_of(delivery: &Delivery) -> (Tenant, Option<Key>) {
    (delivery.message.tenant.clone(), delivery.message.key.clone())
}

impl Actor {
    /// Sends what may be sent now.
    pub(in crate::streams) fn start_sends(&mut self, now: Now) {
        if self.is_ending() || now.mono >= self.lease_until() {
            return;
        }
        for at in 0..self.relays.len() {
            self.start_sends_of(at, now);
        }
    }

    fn start_sends_of(&mut self, at: usize, now: Now) {
        let live = self.shared.context.live();
        let Some(driver) = self.relays.get_mut(at) else { return };
        let is_held = driver.held_until.is_some_and(|until| until > Instant::now());
        if !driver.state.is_running() || is_held || driver.mapping.is_none() {
            return;
        }
        let room = driver.plan.in_flight_max.saturating_sub(driver.state.in_flight.load(Ordering::Acquire));
        let Some((_, entry)) = live.find(&driver.plan.transport).filter(|(id, _)| room > 0 && !live.is_paused(*id))
        else {
            return;
        };
        let Some(relay) = self.owner.relays_mut().get_mut(&driver.plan.name) else { return };
        let sends = relay.sends(now.mono, room);
        if sends.is_empty() {
            return;
        }
        driver.out += sends.len();
        driver.state.in_flight.fetch_add(sends.len(), Ordering::AcqRel);
        let epoch = self.owner.record().token;
        let (limits, mut refused) = (entry.transport.limits(), Vec::new());
        let mut lanes: BTreeMap<u32, Vec<Batch>> = BTreeMap::new();
        let count_max = driver.plan.batch.min(limits.max_batch).max(1) as usize;
        let bytes_max = driver.plan.batch_bytes.min(limits.max_batch_bytes) as usize;
        for send in sends {
            let attempt = driver.attempts.get(&(send.stream.clone(), send.seq)).copied().unwrap_or(0) + 1;
            let made = match &driver.mapping {
                Some(mapping) => mapping.delivery(&send.stream, send.seq, &send.packed, attempt, epoch),
                None => continue,
            };
            match made {
                Ok(delivery) => {
                    let (lane, bytes) = (lane_of(&delivery, limits.lanes), delivery.payload.len());
                    let batches = lanes.entry(lane).or_default();
                    let key = keys_of(&delivery);
                    match batches.last_mut().filter(|batch| batch.has_room(&delivery, count_max, bytes_max)) {
                        Some(batch) => {
                            batch.bytes += bytes;
                            batch.keys.insert(key);
                            batch.events.push((send, delivery));
                        }
                        None => batches.push(Batch { events: vec![(send, delivery)], bytes, keys: [key].into() }),
                    }
                }
                Err(error) => {
                    let RelaySend { stream, seq, generation, .. } = send;
                    let fate = Fate::Answered(Outcome::Permanent(error.fault()));
                    refused.push(Sent { stream, seq, generation, fate });
                }
            }
        }
        let name = driver.plan.name.clone();
        for (lane, batches) in lanes {
            for batch in batches {
                self.start_call(at, Arc::clone(entry), lane, limits.calls_per_lane, batch);
            }
        }
        if !refused.is_empty() {
            self.take_sent(&name, refused);
        }
    }

    fn start_call(&mut self, at: usize, entry: Arc<TransportEntry>, lane: u32, calls: u32, batch: Batch) {
        let Some(driver) = self.relays.get(at) else { return };
        let (room, name) = (driver.state.lane(lane, calls), driver.plan.name.clone());
        let (handle, epoch) = (self.handle.clone(), self.epoch);
        self.tasks.spawn(async move {
            // Nobody closes it.
            let _turn = room.acquire_owned().await;
            let (sends, deliveries): (Vec<RelaySend>, Vec<Delivery>) = batch.events.into_iter().unzip();
            let called = transport_call::call(&entry, lane, deliveries, entry.send_timeout).await;
            if let Some(error) = &called.error {
                tracing::warn!(transport = &*entry.name, relay = name.as_str(), kind = ?error.kind, code = error.fault.code, reason = error.fault.reason, "a call to a transport failed");
            }
            let told = sends.into_iter().zip(called.fates);
            let sent = told.map(|(send, fate)| {
                let RelaySend { stream, seq, generation, .. } = send;
                Sent { stream, seq, generation, fate }
            });
            handle.sent(epoch, name, sent.collect());
        });
    }
}

/// Of one key everything goes through one lane.
fn lane_of(delivery: &Delivery, lanes: u32) -> u32 {
    let mut hasher = DefaultHasher::new();
    keys_of(delivery).hash(&mut hasher);
    u32::try_from(hasher.finish() % u64::from(lanes.max(1))).unwrap_or(0)
}
