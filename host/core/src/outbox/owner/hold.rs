//! Destinations, transports and missing routes that hold messages back, and the tries that end a hold.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::slots::SlotState;
use super::{Owner, TransportId};
use crate::code::Code;
use crate::ids::{Seq, Tenant};
use crate::time::{Monotonic, Now, UnixMillis};

/// Longest pause between two tries of a held destination.
const HOLD_RETRY_MAX: Duration = Duration::from_secs(60);
/// First pause of a held destination.
const HOLD_RETRY_MIN: Duration = Duration::from_secs(1);

/// What a hold is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldKey {
    /// Whose messages; none = everybody's.
    pub tenant: Option<Tenant>,
    /// Which transport; none = messages without a route.
    pub transport: Option<TransportId>,
    /// Origin, queue or subject; empty = all of the transport.
    pub scope: Arc<str>,
}

impl HoldKey {
    /// Whether a destination of a tenant in a transport falls under it: equal, or below it as a path.
    pub fn takes(&self, tenant: &Tenant, transport: Option<TransportId>, destination: &str) -> bool {
        if self.transport != transport || self.tenant.as_ref().is_some_and(|mine| mine != tenant) {
            return false;
        }
        match destination.strip_prefix(self.scope.as_ref()) {
            None => false,
            Some(rest) => {
                self.scope.is_empty()
                    || rest.is_empty()
                    || self.scope.ends_with('/')
                    || rest.starts_with(['/', '?', '#'])
            }
        }
    }
}

impl HoldKey {
    /// Whether everything under `other` is under this one too.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let tenant = self.tenant.is_none() || self.tenant == other.tenant;
        let whole = Self { tenant: None, ..self.clone() };
        tenant && other.tenant.as_ref().is_some_and(|tenant| whole.takes(tenant, other.transport, &other.scope))
    }
}

/// A destination, transport or missing route that holds messages back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub code: String,
    pub reason: String,
    pub since: UnixMillis,
    /// When one message is tried; none = not before an operator or a new configuration lifts it.
    pub until: Option<Monotonic>,
    pub tries: u32,
    /// The message that is being tried.
    pub probe: Option<Seq>,
    /// The latest that was tried and found it held still: the next try takes the one behind it, so that one message that is
    /// always refused can't speak for all.
    pub tried: Option<Seq>,
    /// Messages in memory that wait for it.
    pub waiting: BTreeSet<Seq>,
}

impl Hold {
    fn new(code: &str, reason: &str, since: UnixMillis) -> Self {
        let (code, reason) = (code.to_owned(), reason.to_owned());
        Self { code, reason, since, until: None, tries: 0, probe: None, tried: None, waiting: BTreeSet::new() }
    }

    /// Tries it now, unless somebody wants it held.
    fn try_at(&mut self, now: Now) {
        if ![Code::OUTBOX_PAUSED.as_str(), Code::OUTBOX_UNCLAIMED.as_str()].contains(&self.code.as_str()) {
            self.until = Some(now.mono);
        }
    }

    /// Those that wait, in the order in which they are tried.
    pub(super) fn turns(&self) -> impl Iterator<Item = Seq> {
        let behind = self.tried.map_or(Bound::Unbounded, Bound::Excluded);
        let before = self.tried.into_iter().flat_map(|tried| self.waiting.range(..=tried));
        self.waiting.range((behind, Bound::Unbounded)).chain(before).copied()
    }
}

impl Owner {
    /// Holds a destination (`blocked`), or holds it longer. The next try follows after `after` or a growing pause.
    pub fn hold(&mut self, key: HoldKey, code: &str, reason: &str, after: Option<Duration>, now: Now) {
        let tenant = key.tenant.clone();
        let is_new = !self.holds.contains_key(&key);
        let hold = self.holds.open(&key, || Hold::new(code, reason, now.wall));
        // What was under way when the hold began also comes back blocked: only a failed probe lengthens the pause.
        let probe = hold.probe.take();
        hold.tried = probe.or(hold.tried);
        if hold.tries == 0 || probe.is_some() {
            hold.tries = hold.tries.saturating_add(1);
            let grown =
                HOLD_RETRY_MIN.saturating_mul(1_u32.checked_shl(hold.tries.saturating_sub(1)).unwrap_or(u32::MAX));
            hold.until = Some(now.mono + after.unwrap_or(Duration::ZERO).max(grown.min(HOLD_RETRY_MAX)));
        }
        code.clone_into(&mut hold.code);
        reason.clone_into(&mut hold.reason);
        let affected: Vec<Seq> = self
            .slots
            .iter()
            .filter(|(_, slot)| {
                is_new
                    && slot.is_idle()
                    && tenant.as_ref().is_none_or(|tenant| *tenant == slot.message.tenant)
                    && key.takes(&slot.message.tenant, slot.transport, slot.message.topic.subject())
            })
            .map(|(seq, _)| *seq)
            .collect();
        for seq in affected.into_iter().chain(probe) {
            self.consider(seq, now);
        }
    }

    /// Ends a hold: a probe succeeded, or an operator said so.
    pub fn lift(&mut self, key: &HoldKey, now: Now) {
        let Some(hold) = self.holds.remove(key) else { return };
        self.window.resume_after_hold(key);
        for seq in hold.waiting {
            if let Some(slot) = self.slots.get_mut(&seq) {
                slot.state = SlotState::Waiting;
            }
            self.consider(seq, now);
        }
    }

    /// Holds a whole transport until an operator resumes it.
    pub fn pause(&mut self, transport: TransportId, reason: &str, now: Now) {
        let key = HoldKey { tenant: None, transport: Some(transport), scope: Arc::from("") };
        self.hold(key.clone(), Code::OUTBOX_PAUSED.as_str(), reason, None, now);
        self.hold_for_operator(&key);
    }

    /// Tries every held destination of a transport again now.
    pub fn retry_holds(&mut self, transport: TransportId, now: Now) {
        for (key, hold) in self.holds.iter_mut() {
            if key.transport == Some(transport) {
                hold.try_at(now);
            }
        }
    }

    /// Tries one held destination or transport again now.
    pub fn retry_hold(&mut self, key: &HoldKey, now: Now) {
        if let Some(hold) = self.holds.get_mut(key) {
            hold.try_at(now);
        }
    }

    /// Holds messages whose topic no route takes.
    pub(super) fn hold_unrouted(&mut self, now: Now) {
        let key = HoldKey { tenant: None, transport: None, scope: Arc::from("") };
        let reason = "no route takes these topics: add a [[route]] for them";
        self.holds.open(&key, || Hold::new(Code::OUTBOX_NO_ROUTE.as_str(), reason, now.wall));
    }

    /// Lets one message through a hold whose time is up. With nobody waiting in memory the hold ends.
    pub(super) fn begin_probe(&mut self, key: &HoldKey, now: Now) {
        let Some(hold) = self.holds.get(key).filter(|hold| hold.probe.is_none()) else { return };
        if hold.waiting.is_empty() {
            if self.window.has_skipped(key) {
                // Only a message can tell whether the destination is back: read some of those that were skipped.
                self.window.resume_after_hold(key);
                self.holds.postpone(key, Some(now.mono + HOLD_RETRY_MIN));
            } else {
                self.lift(key, now);
            }
            return;
        }
        let only = hold.waiting.len() == 1;
        let was_tried = only && hold.tried.is_some_and(|tried| hold.waiting.contains(&tried));
        // Those that wait for a part of the same may be the only ones that can be sent.
        let candidates = || {
            let parts = self.holds.iter().filter(|(other, _)| *other != key && key.covers(other));
            hold.turns().chain(parts.flat_map(|(_, part)| part.turns())).filter(|seq| self.may_try(*seq))
        };
        // A suspect would hold up all of them until its trial.
        let probe = candidates().find(|seq| !self.is_suspect(*seq)).or_else(|| candidates().next());
        if was_tried {
            // Others may know better: have them in memory by the next try.
            self.window.resume_after_hold(key);
        }
        match probe {
            Some(seq) => self.let_through(key, seq, now),
            None => self.holds.postpone(key, Some(now.mono + HOLD_RETRY_MIN)),
        }
    }

    /// Of a tenant with too many retries waiting only those can be sent, and what holds them up.
    fn may_try(&self, seq: Seq) -> bool {
        self.slots.contains_key(&seq) && !self.is_stalled(seq)
    }

    /// Lets a message try a hold, and every other one that it falls under: it can go only when all of them are due.
    fn let_through(&mut self, key: &HoldKey, seq: Seq, now: Now) {
        let mut next = Some(key.clone());
        while let Some(tried) = next {
            let Some(hold) = self.holds.get_mut(&tried) else { return };
            let is_due = hold.probe.is_none() && hold.until.is_some_and(|until| until <= now.mono);
            if !is_due {
                let until = hold.until.filter(|until| *until > now.mono).unwrap_or(now.mono + HOLD_RETRY_MIN);
                self.holds.end_probe(seq);
                return self.holds.postpone(key, Some(until));
            }
            hold.probe = Some(seq);
            self.holds.note_probe(seq);
            next = self.hold_of(seq);
        }
        self.consider(seq, now);
    }

    /// A message that was to try a held destination isn't going to be sent: the next try takes another.
    pub(super) fn end_probe(&mut self, seq: Seq) -> bool {
        !self.holds.end_probe(seq).is_empty()
    }

    pub(super) fn hold_of(&self, seq: Seq) -> Option<HoldKey> {
        let slot = self.slots.get(&seq)?;
        let destination = slot.message.topic.subject();
        let tenant = &slot.message.tenant;
        if slot.transport.is_none() {
            let key = HoldKey { tenant: None, transport: None, scope: Arc::from("") };
            return self.holds.contains_key(&key).then_some(key);
        }
        self.holds.find(seq, tenant, slot.transport, destination)
    }
}
