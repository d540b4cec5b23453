//! The calls under way on each lane of a transport, and which messages the next one takes.
//!
//! Pure, so that the engine's actor and the model checker go by one and the same.

use std::collections::BTreeMap;

use super::owner::{Owner, Sending, TransportId};
use crate::time::Now;

/// What a lane takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    pub calls: u32,
    /// Messages of one call.
    pub messages: usize,
    /// Bytes of their payloads, about.
    pub bytes: usize,
}

/// Calls under way on one lane.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    count: u32,
    /// The one that is under way has the lane to itself.
    alone: bool,
}

/// The calls of one ownership.
#[derive(Debug, Default)]
pub struct Lanes(BTreeMap<(TransportId, u32), Calls>);

impl Lanes {
    /// Begins another call on a lane, with all of these messages, at least one. None while the lane has no room for one, has one
    /// under way that goes alone, or nothing may be sent.
    pub fn begin(
        &mut self,
        owner: &mut Owner,
        (transport, lane): (TransportId, u32),
        limits: &LaneLimits,
        now: Now,
    ) -> Option<Vec<Sending>> {
        let calls = self.0.entry((transport, lane)).or_default();
        if calls.alone || calls.count >= limits.calls {
            // The end of a call has it tried again.
            owner.forget_rates((transport, lane));
            return None;
        }
        let sending = owner.take_beside(transport, lane, limits.messages, limits.bytes, calls.count > 0, now);
        calls.alone = sending.first()?.alone;
        calls.count += 1;
        Some(sending)
    }

    /// A call of the ownership with this token has ended. False when that isn't this one.
    pub fn end(&mut self, owner: &Owner, token: u64, lane: (TransportId, u32)) -> bool {
        if token != owner.token() {
            return false;
        }
        if let Some(calls) = self.0.get_mut(&lane) {
            calls.count = calls.count.saturating_sub(1);
            calls.alone = false;
        }
        true
    }
}
