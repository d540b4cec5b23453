//! What idle messages wait for, listed so that nothing has to be searched for.
//!
//! | file | holds |
//! |---|---|
//! | `claims` | messages that may be sent once they are claimed |
//! | `turns` | ready messages lane by lane, tenants in weighted turn |

mod claims;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use claims::WantedClaims;
use turns::ReadyQueue;
pub(super) use turns::{TURN_MESSAGES, Turn};

use super::TransportId;
use super::slots::Slot;
use crate::ids::{Seq, Tenant};
use crate::time::Monotonic;

/// A lane of a transport.
pub(super) type Lane = (TransportId, u32);

/// The lists of idle messages, and how many are being sent.
///
/// - A message is on one list at most, the one that its state names ([`super::slots::SlotState`]); one that waits for an instant is
///   in `timers` under the instant at which it wakes. What waits for a hold, for a trial, or is named, is listed with those.
/// - `parked` counts the parked messages of each tenant, all of which are in memory; a tenant without any isn't in it.
/// - `sending` counts messages that are being sent by this host, not those that workers have.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    /// Heads whose time comes later.
    timers: BTreeSet<(Monotonic, Seq)>,
    /// Heads of tenants with too many retries waiting.
    stalled: BTreeSet<Seq>,
    claims: WantedClaims,
    ready: BTreeMap<Lane, ReadyQueue>,
    parked: BTreeMap<Tenant, usize>,
    /// Parked messages of one tenant past which none of its fresh messages are sent.
    parked_max: usize,
    sending: usize,
}

impl Scheduler {
    pub fn new(parked_max: usize) -> Self {
        Self { parked_max, ..Self::default() }
    }

    /// A message waits until it wakes.
    pub fn wait_until(&mut self, wakes: Monotonic, seq: Seq) {
        self.timers.insert((wakes, seq));
    }

    /// A message waits for its instant no longer.
    pub fn stop_waiting(&mut self, wakes: Monotonic, seq: Seq) {
        if wakes > Monotonic::default() {
            self.timers.remove(&(wakes, seq));
        }
    }

    /// Whether a message waits for the instant at which it wakes.
    pub fn waits_until(&self, wakes: Monotonic, seq: Seq) -> bool {
        self.timers.contains(&(wakes, seq))
    }

    /// Takes the first message whose instant has come off its list.
    pub fn take_due(&mut self, now: Monotonic) -> Option<Seq> {
        let (due, seq) = self.timers.first().copied().filter(|(due, _)| *due <= now)?;
        self.timers.remove(&(due, seq));
        Some(seq)
    }

    /// The next instant that a message waits for.
    pub fn next_due(&self) -> Option<Monotonic> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// A message waits until its tenant has fewer retries.
    pub fn stall(&mut self, seq: Seq) {
        self.stalled.insert(seq);
    }

    /// It doesn't any more.
    pub fn unstall(&mut self, seq: Seq) {
        self.stalled.remove(&seq);
    }

    pub fn stalled(&self) -> &BTreeSet<Seq> {
        &self.stalled
    }

    /// A message comes to be parked.
    pub fn add_parked(&mut self, tenant: &Tenant) {
        *self.parked.entry(tenant.clone()).or_default() += 1;
    }

    /// A parked message leaves.
    pub fn remove_parked(&mut self, tenant: &Tenant) {
        if let Some(count) = self.parked.get_mut(tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.parked.remove(tenant);
            }
        }
    }

    /// Parked messages of a tenant.
    pub fn parked_of(&self, tenant: &Tenant) -> usize {
        self.parked.get(tenant).copied().unwrap_or(0)
    }

    /// Parked messages of all tenants.
    pub fn parked(&self) -> usize {
        self.parked.values().sum()
    }

    /// Whether a tenant has so many retries that only those are sent, and what holds them up.
    pub fn has_too_many_retries(&self, tenant: &Tenant) -> bool {
        self.parked.get(tenant).is_some_and(|count| *count >= self.parked_max)
    }

    /// Messages that may be sent once they are claimed.
    pub fn claims(&self) -> &WantedClaims {
        &self.claims
    }

    /// A message waits for its claim.
    pub fn want_claim(&mut self, slot: &Slot) {
        self.claims.insert(slot);
    }

    /// It doesn't any more.
    pub fn unwant_claim(&mut self, slot: &Slot) {
        self.claims.remove(slot);
    }

    /// Messages that this host is sending.
    pub fn sending(&self) -> usize {
        self.sending
    }

    pub fn begin_send(&mut self) {
        self.sending += 1;
    }

    /// A send has ended.
    pub fn end_send(&mut self) {
        self.sending = self.sending.saturating_sub(1);
    }
}
