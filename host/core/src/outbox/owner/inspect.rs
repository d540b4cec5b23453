//! Counts and reasons for people. Nothing here changes anything.

use std::collections::BTreeMap;

use super::hold::{PAUSED, UNCLAIMED};
use super::slots::SlotState;
use super::{Hold, HoldKey, LeaseInfo, Owner, TransportId};
use crate::ids::{KeyHash, MessageId, Seq, Tenant};
use crate::time::{Now, UnixMillis};

/// How much of a tenant waits for a transport.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    /// In memory and not being sent.
    pub ready: u64,
    /// Being sent or settled.
    pub leased: u64,
    /// Waiting for a retry.
    pub parked: u64,
    /// `created_at` of the oldest message that isn't parked or being sent.
    pub oldest_ready: Option<UnixMillis>,
}

/// What an idle message waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyWaiting {
    /// This earlier message of its key.
    Key(MessageId),
    /// This dead letter, which holds its key.
    DeadKey(MessageId),
    /// Its retry, due then.
    Retry(UnixMillis),
    /// A held destination, transport or missing route.
    Held(HoldInfo),
    /// Its turn.
    Turn,
    /// Its trial: a host died while it was named.
    Trial,
    /// A send is under way.
    Sending,
    /// A worker outside has it.
    Leased(LeaseInfo),
}

/// A hold as people see it. It doesn't name the messages that wait: they may be many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldInfo {
    /// What is held.
    pub key: HoldKey,
    /// Stable code.
    pub code: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: UnixMillis,
    /// When one message is tried; none = not by itself.
    pub until: Option<UnixMillis>,
    /// One message is being tried.
    pub probing: bool,
    /// Messages in memory that wait for it.
    pub waiting: usize,
}

impl HoldInfo {
    fn of(key: &HoldKey, hold: &Hold, now: Now) -> Self {
        Self {
            key: key.clone(),
            code: hold.code.clone(),
            reason: hold.reason.clone(),
            since: hold.since,
            until: hold.until.map(|until| now.wall_at(until)),
            probing: hold.probe.is_some(),
            waiting: hold.waiting.len(),
        }
    }

    /// What is held, in a word: `no_route`, `paused`, `unclaimed`, `transport`, `destination`.
    pub fn kind(&self) -> &'static str {
        match self.key.transport {
            None => "no_route",
            Some(_) if self.code == PAUSED => "paused",
            Some(_) if self.code == UNCLAIMED => "unclaimed",
            Some(_) if self.key.scope.is_empty() => "transport",
            Some(_) => "destination",
        }
    }
}

/// A key whose head failed and waits for a retry, or that a dead letter holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    /// Whose.
    pub tenant: Tenant,
    /// The key.
    pub key: String,
    /// The message that holds it.
    pub seq: Seq,
    /// Its next try; none = a dead letter.
    pub until: Option<UnixMillis>,
    /// Latest error code.
    pub code: Option<String>,
    /// Latest error.
    pub reason: Option<String>,
    /// Since its first failure.
    pub since: UnixMillis,
    /// Messages in memory behind it.
    pub waiting: u64,
}

impl Owner {
    /// Depths by tenant and transport; transport none = without a route or not read yet.
    pub fn depths(&self) -> BTreeMap<(Tenant, Option<TransportId>), Depths> {
        let mut depths: BTreeMap<(Tenant, Option<TransportId>), Depths> = BTreeMap::new();
        for slot in self.slots.values() {
            let depth = depths.entry((slot.message.tenant.clone(), slot.transport)).or_default();
            if !slot.is_idle() {
                depth.leased += 1;
            } else if slot.origin == super::slots::Origin::Parked {
                depth.parked += 1;
            } else {
                depth.ready += 1;
                let oldest = depth.oldest_ready.get_or_insert(slot.message.created_at);
                *oldest = (*oldest).min(slot.message.created_at);
            }
        }
        for (tenant, window) in &self.windows {
            let stored: u64 = window
                .directory
                .values()
                .map(|entry| u64::from(entry.messages) - (entry.gone.len() as u64).min(u64::from(entry.messages)))
                .sum();
            let unread = stored.saturating_sub(window.messages as u64);
            if unread == 0 {
                continue;
            }
            let depth = depths.entry((tenant.clone(), None)).or_default();
            depth.ready += unread;
            let oldest = window.directory.range(window.scan..).next().map(|(first, _)| UnixMillis(first.0 >> 20));
            depth.oldest_ready = [depth.oldest_ready, oldest].into_iter().flatten().min();
        }
        depths
    }

    /// Messages in memory, their bytes, and segments claimed, against their bounds.
    pub fn memory(&self) -> (usize, usize, usize) {
        (self.window_messages, self.window_bytes, self.record.open.len())
    }

    /// Messages that wait because too many of their tenant wait for retries.
    pub fn stalled_messages(&self) -> usize {
        self.stalled.len()
    }

    /// Skipped keys that are remembered, over all tenants.
    pub fn resume_points(&self) -> usize {
        self.windows.values().map(|window| window.resume.len()).sum()
    }

    /// Everything that is held.
    pub fn holds(&self, now: Now) -> Vec<HoldInfo> {
        self.holds
            .iter()
            .filter(|(key, hold)| key.transport.is_some() || !hold.waiting.is_empty())
            .map(|(key, hold)| HoldInfo::of(key, hold, now))
            .collect()
    }

    /// Keys held by a failed head or a dead letter, at most `limit`.
    pub fn held_keys(&self, limit: usize, now: Now) -> Vec<HeldKey> {
        let behind = |key: &KeyHash| self.keys.get(key).map_or(0, |queue| queue.seqs.len().saturating_sub(1) as u64);
        let parked = self.keys.iter().filter_map(|(hash, queue)| {
            let slot = self.slots.get(&queue.head()?)?;
            if slot.origin != super::slots::Origin::Parked {
                return None;
            }
            let last = slot.history.last();
            Some(HeldKey {
                tenant: slot.message.tenant.clone(),
                key: slot.message.key.as_ref()?.as_str().to_owned(),
                seq: slot.seq(),
                until: Some(slot.due_at(now)),
                code: last.and_then(|attempt| attempt.code.clone()),
                reason: last.and_then(|attempt| attempt.reason.clone()),
                since: slot.first_attempt_at.unwrap_or(slot.due),
                waiting: behind(hash),
            })
        });
        let held = self.held_keys.iter().filter_map(|(hash, holders)| Some((hash, holders.values().next()?)));
        let dead = held.filter_map(|(hash, dead)| {
            Some(HeldKey {
                tenant: dead.message.tenant.clone(),
                key: dead.message.key.as_ref()?.as_str().to_owned(),
                seq: dead.place.seq(),
                until: None,
                code: Some(dead.code.clone()),
                reason: Some(dead.reason.clone()),
                since: dead.died_at,
                waiting: self.keys.get(hash).map_or(0, |queue| queue.seqs.len() as u64),
            })
        });
        dead.chain(parked).take(limit).collect()
    }

    /// What a message in memory waits for; none when it isn't in memory.
    pub fn why_waiting(&self, seq: Seq, now: Now) -> Option<WhyWaiting> {
        let slot = self.slots.get(&seq)?;
        Some(match &slot.state {
            SlotState::Sending if slot.outside => self.lease(seq, now).map_or(WhyWaiting::Sending, WhyWaiting::Leased),
            SlotState::Sending | SlotState::Out(_) | SlotState::Settling(_) => WhyWaiting::Sending,
            SlotState::Held(key) => match self.holds.get(key) {
                Some(hold) => WhyWaiting::Held(HoldInfo::of(key, hold, now)),
                None => WhyWaiting::Turn,
            },
            SlotState::Waiting => {
                if let Some(key) = slot.key {
                    let holder = self.held_keys.get(&key).and_then(|holders| holders.first_key_value());
                    if let Some((_, dead)) = holder.filter(|(dead, _)| **dead < seq) {
                        return Some(WhyWaiting::DeadKey(dead.message.id.clone()));
                    }
                    let head = self.keys.get(&key).and_then(|queue| queue.busy.or(queue.head()));
                    if let Some(head) = head.filter(|head| *head != seq).and_then(|head| self.slots.get(&head)) {
                        return Some(WhyWaiting::Key(head.message.id.clone()));
                    }
                }
                WhyWaiting::Retry(slot.due_at(now))
            }
            SlotState::WantTrial => WhyWaiting::Trial,
            SlotState::Stalled | SlotState::WantClaim | SlotState::Ready { .. } => WhyWaiting::Turn,
        })
    }
}
