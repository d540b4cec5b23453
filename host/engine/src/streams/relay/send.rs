//! Events of a relay through its transport.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use waybill_core::code::Code;
use waybill_core::message::Delivery;
use waybill_core::outbox::decide::Fate;
use waybill_core::port::trace::{self, Span, SpanKind, SpanStart, Tracer};
use waybill_core::port::transport::{Fault, Outcome, TransportLimits};
use waybill_core::streams::relay::RelaySend;
use waybill_core::time::Now;

use super::super::actor::Actor;
use super::super::mail::Sent;
use super::RelayDriver;
use super::lane::{Batch, BatchBounds, Taken, keys_of};
use crate::live::TransportEntry;
use crate::{spans, transport_call};

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
        let (limits, mut unsent) = (entry.transport.limits(), Vec::new());
        let bounds = BatchBounds {
            events: driver.plan.batch.min(limits.max_batch).max(1) as usize,
            bytes: driver.plan.batch_bytes.min(limits.max_batch_bytes) as usize,
        };
        relay.set_run_max(if limits.key_runs { bounds.events } else { 1 });
        let sends = relay.sends(now.mono, room);
        driver.state.give_back(room.saturating_sub(sends.len()));
        if sends.is_empty() {
            return;
        }
        driver.out += sends.len();
        driver.note_hunger(false);
        let epoch = self.owner.record().token;
        let mut lanes: BTreeMap<u32, Vec<(RelaySend, Delivery)>> = BTreeMap::new();
        // Streams with an event that isn't sent: in a run it may have others behind it.
        let mut cut = BTreeSet::new();
        for send in sends {
            if cut.contains(&send.stream) {
                unsent.push(given_back(send));
                continue;
            }
            let made = match &driver.mapping {
                Some(mapping) => mapping.delivery(&send.stream, send.seq, &send.packed, send.failed + 1, epoch),
                None => continue,
            };
            match made {
                Ok(delivery) => lanes.entry(lane_of(&delivery, limits.lanes)).or_default().push((send, delivery)),
                Err(error) => {
                    if limits.key_runs {
                        cut.insert(send.stream.clone());
                    }
                    let RelaySend { stream, seq, generation, .. } = send;
                    let fate = Fate::Answered(Outcome::Permanent(error.fault()));
                    unsent.push(Sent { stream, seq, generation, fate });
                }
            }
        }
        let name = driver.plan.name.clone();
        for (lane, events) in lanes {
            self.put_in_lane(at, (entry, limits), lane, events, bounds);
        }
        if !unsent.is_empty() {
            self.take_sent(&name, unsent);
        }
    }

    /// Has events wait for a lane, and somebody take them as it has calls free.
    fn put_in_lane(
        &mut self,
        at: usize,
        (entry, limits): (&Arc<TransportEntry>, TransportLimits),
        number: u32,
        events: Vec<(RelaySend, Delivery)>,
        bounds: BatchBounds,
    ) {
        let Some(driver) = self.relays.get_mut(at) else { return };
        let calls = limits.calls_per_lane;
        let lane = driver.lanes.entry(number).or_default().clone();
        if !lane.put(entry, events, calls, limits.key_runs) {
            return;
        }
        let (room, name) = (driver.state.lane(number, calls), driver.plan.name.clone());
        let (handle, epoch) = (self.handle.clone(), self.epoch);
        let tracer = self.shared.context.config.tracer.clone();
        self.tasks.spawn(async move {
            while !lane.is_done() {
                // Nobody closes it.
                let _turn = Arc::clone(&room).acquire_owned().await;
                let Some(Taken { entry, serving, batch }) = lane.take(bounds) else { return };
                let Batch { sends, deliveries, given_back: cut } = batch;
                if !cut.is_empty() {
                    handle.sent(epoch, name.clone(), cut.into_iter().map(given_back).collect());
                }
                let time = entry.send_timeout;
                let span = tracer.as_ref().map(|tracer| relayed(tracer, name.as_str(), &entry, &sends));
                let context = span.as_ref().filter(|span| span.is_recorded()).map(|span| span.traceparent());
                let called =
                    transport_call::call_through(&serving, &entry, number, deliveries, (time, context)).await;
                trace::finish(span, called.error.as_ref().map(|error| error.fault.code.as_str()));
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

/// The span of a call with events of a relay.
fn relayed(tracer: &Arc<dyn Tracer>, relay: &str, entry: &TransportEntry, sends: &[RelaySend]) -> Box<dyn Span> {
    let mut span = tracer.start(SpanStart::new("relay", SpanKind::Producer).of(relay));
    if span.is_recorded() {
        spans::messaging(span.as_mut(), "relay", "send");
        span.set("messaging.batch.message_count", sends.len().into());
        span.set("waybill.relay", relay.to_owned().into());
        span.set("waybill.transport", entry.name.to_string().into());
    }
    span
}

/// An event that goes behind one that isn't sent: neither is it, until that one is settled.
fn given_back(send: RelaySend) -> Sent {
    let RelaySend { stream, seq, generation, .. } = send;
    let fault = Fault::new(Code::PLUGIN_BATCH_LIMIT, "an earlier event of its key isn't sent yet");
    Sent { stream, seq, generation, fate: Fate::Answered(Outcome::Release(fault)) }
}

/// Of one key everything goes through one lane.
pub(in crate::streams) fn lane_of(delivery: &Delivery, lanes: u32) -> u32 {
    let mut hasher = DefaultHasher::new();
    keys_of(delivery).hash(&mut hasher);
    u32::try_from(hasher.finish() % u64::from(lanes.max(1))).unwrap_or(0)
}
