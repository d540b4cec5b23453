//! Calls: what is sent in one go over a lane, until the last word on it is heard. A lane takes so many at once, and what goes
//! alone shares its lane with nothing.

use std::collections::BTreeSet;

use waybill_core::outbox::lanes::LaneLimits;
use waybill_core::outbox::owner::{Sending, TransportId};

use super::driver::Driver;
use super::host::{Actor, Host};
use super::options::Mutation;
use super::sends::Send;
use super::store::ModelStore;
use super::world::World;

/// Bytes of one call.
const CALL_BYTES: usize = 200;

/// A call under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    lane: (TransportId, u32),
    number: u64,
    /// It has the lane to itself.
    alone: bool,
}

impl<S: ModelStore> World<S> {
    /// Begins a call, if the lane has room for it and messages are there.
    pub(super) fn begin_call(
        &mut self,
        host: &Host,
        actor: &Actor,
        driver: &mut Driver,
        lane: (TransportId, u32),
        messages: usize,
    ) -> Option<(Vec<Sending>, Option<Call>)> {
        let limits = LaneLimits { calls: self.setup.calls.unwrap_or(u32::MAX), messages, bytes: CALL_BYTES };
        let now = self.now_at(host);
        let Some(batch) = driver.lanes.begin(&mut driver.owner, lane, &limits, now) else {
            self.count_rate_waits(host, driver);
            return None;
        };
        self.check_rates(host, lane.0, &batch);
        let token = driver.owner.token();
        let is_forgotten = self.setup.mutation == Some(Mutation::CallsDontCount);
        if self.setup.calls.is_none() || is_forgotten {
            // As if its end were known at once.
            driver.lanes.end(&driver.owner, token, lane);
        }
        let Some(most) = self.setup.calls else { return Some((batch, None)) };
        let others: BTreeSet<Call> =
            actor.sends.iter().filter(|send| send.token == token).filter_map(|send| send.call).collect();
        let beside: Vec<Call> = others.into_iter().filter(|other| other.lane == lane).collect();
        let alone = batch.iter().any(|sending| sending.alone);
        if beside.len() >= most as usize {
            self.violation(format!("{} calls are under way on {lane:?}, at most {most} may be", beside.len() + 1));
        }
        if alone && (batch.len() > 1 || !beside.is_empty()) || beside.iter().any(|other| other.alone) {
            self.violation(format!("what goes alone isn't: {} messages beside {beside:?}", batch.len()));
        }
        self.stats.calls_beside += u64::from(!beside.is_empty());
        self.stats.lone_calls += u64::from(alone);
        self.calls += 1;
        Some((batch, Some(Call { lane, number: self.calls, alone })))
    }

    /// Ends the calls on all of whose messages the last word was heard.
    pub(super) fn end_calls(&mut self, actor: &Actor, driver: &mut Driver, heard: &[Send]) {
        let going: BTreeSet<Call> = actor.sends.iter().filter_map(|send| send.call).collect();
        let ended: BTreeSet<(u64, Call)> = heard
            .iter()
            .filter_map(|send| Some((send.token, send.call?)))
            .filter(|(_, call)| !going.contains(call))
            .collect();
        for (token, call) in ended {
            driver.lanes.end(&driver.owner, token, call.lane);
        }
    }
}
