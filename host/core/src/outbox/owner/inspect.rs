//! Counts and reasons for people. Nothing here changes anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hold::Hold;
use super::slots::SlotState;
use super::{HoldKey, LeaseInfo, Owner, RateInfo, TransportId};
use crate::code::Code;
use crate::ids::{MessageId, Seq, Tenant};
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
    /// The rate of its tenant or its transport.
    Rate(RateInfo),
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
    pub key: HoldKey,
    pub code: String,
    pub reason: String,
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

    pub fn kind(&self) -> WaitKind {
        match self.key.transport {
            None => WaitKind::NoRoute,
            Some(_) if self.code == Code::OUTBOX_PAUSED.as_str() => WaitKind::Paused,
            Some(_) if self.code == Code::OUTBOX_UNCLAIMED.as_str() => WaitKind::Unclaimed,
            Some(_) if self.key.scope.is_empty() => WaitKind::Transport,
            Some(_) => WaitKind::Destination,
        }
    }
}

/// What messages wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// An earlier message of the key, or a dead letter that holds it.
    Key,
    Retry,
    Schedule,
    /// A destination that is held.
    Destination,
    /// A whole transport that is held.
    Transport,
    /// A route for the topic.
    NoRoute,
    /// An operator, who paused the transport.
    Paused,
    /// A worker outside who asks.
    Unclaimed,
    /// The rate of a tenant or a transport.
    Rate,
    /// Its trial: a host died while it was named.
    Trial,
    Turn,
}

impl WaitKind {
    pub const ALL: [Self; 11] = [
        Self::Key,
        Self::Retry,
        Self::Schedule,
        Self::Destination,
        Self::Transport,
        Self::NoRoute,
        Self::Paused,
        Self::Unclaimed,
        Self::Rate,
        Self::Trial,
        Self::Turn,
    ];

    /// As in JSON, in filters and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Retry => "retry",
            Self::Schedule => "schedule",
            Self::Destination => "destination",
            Self::Transport => "transport",
            Self::NoRoute => "no_route",
            Self::Paused => "paused",
            Self::Unclaimed => "unclaimed",
            Self::Rate => "rate",
            Self::Trial => "trial",
            Self::Turn => "turn",
        }
    }
}

/// A key whose head failed and waits for a retry, or that a dead letter holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    pub tenant: Tenant,
    pub key: String,
    /// The message that holds it.
    pub seq: Seq,
    /// Its next try; none = a dead letter.
    pub until: Option<UnixMillis>,
    pub code: Option<String>,
    pub reason: Option<String>,
    /// Since its first failure.
    pub since: UnixMillis,
    /// Messages in memory that wait: the one whose retry is awaited, and those behind it.
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
        for (tenant, unread, oldest) in self.window.unread().filter(|(_, unread, _)| *unread > 0) {
            let depth = depths.entry((tenant.clone(), None)).or_default();
            depth.ready += unread;
            let oldest = oldest.map(|first| UnixMillis(first.0 >> 20));
            depth.oldest_ready = [depth.oldest_ready, oldest].into_iter().flatten().min();
        }
        depths
    }

    /// Messages in memory, their bytes, and segments claimed, against their bounds.
    pub fn memory(&self) -> (usize, usize, usize) {
        (self.window.messages(), self.window.bytes(), self.record.open.len())
    }

    /// Skipped keys that are remembered, over all tenants.
    pub fn resume_points(&self) -> usize {
        self.window.resume_points()
    }

    /// Everything that is held.
    pub fn holds(&self, now: Now) -> Vec<HoldInfo> {
        self.holds
            .iter()
            .filter(|(key, hold)| key.transport.is_some() || !hold.waiting.is_empty())
            .map(|(key, hold)| HoldInfo::of(key, hold, now))
            .collect()
    }

    /// The hold of a destination or a whole transport, if it is held.
    pub fn hold_info(&self, key: &HoldKey, now: Now) -> Option<HoldInfo> {
        self.holds.get(key).map(|hold| HoldInfo::of(key, hold, now))
    }

    /// Keys held by a failed head or a dead letter, at most `limit`.
    pub fn held_keys(&self, limit: usize, now: Now) -> Vec<HeldKey> {
        let parked = self.keys.iter().filter_map(|(_, queue)| {
            let slot = self.slots.get(&queue.head()?)?;
            if slot.origin != super::slots::Origin::Parked {
                return None;
            }
            // A head whose retry is due may wait for something else by now, and is counted there.
            let awaited = usize::from(matches!(slot.state, SlotState::Waiting));
            let waiting = (queue.seqs().len() - 1 + awaited) as u64;
            if waiting == 0 {
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
                waiting,
            })
        });
        let dead = self.keys.holders().filter_map(|(key, dead)| {
            Some(HeldKey {
                tenant: dead.message.tenant.clone(),
                key: dead.message.key.as_ref()?.as_str().to_owned(),
                seq: dead.place.seq(),
                until: None,
                code: Some(dead.code.clone()),
                reason: Some(dead.reason.clone()),
                since: dead.died_at,
                waiting: self.keys.len_of(key) as u64,
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
                    if let Some(dead) = self.keys.holder(key).filter(|dead| dead.place.seq() < seq) {
                        return Some(WhyWaiting::DeadKey(dead.message.id.clone()));
                    }
                    let head = self.keys.get(key).and_then(|queue| queue.busy().or(queue.head()));
                    if let Some(head) = head.filter(|head| *head != seq).and_then(|head| self.slots.get(&head)) {
                        return Some(WhyWaiting::Key(head.message.id.clone()));
                    }
                }
                WhyWaiting::Retry(slot.due_at(now))
            }
            SlotState::WantTrial => WhyWaiting::Trial,
            SlotState::Ready { .. } => self.rate_of(slot, now).map_or(WhyWaiting::Turn, WhyWaiting::Rate),
            SlotState::Stalled | SlotState::WantClaim => WhyWaiting::Turn,
        })
    }
}
