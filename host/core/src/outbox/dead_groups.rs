//! Dead letters counted by tenant, code, error signature and kind.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::ids::ShardId;
use crate::inbox::place::InboxPlace;
use crate::inbox::records::InboxDead;
use crate::outbox::filter::signature;
use crate::outbox::records::DeadLetter;
use crate::port::dead::DeadKind;
use crate::port::query::DeadGroup;
use crate::saga::records::SagaDead;
use crate::streams::dead::StoredDead;
use crate::time::UnixMillis;

/// Most groups kept apart; what comes past it is counted per tenant and code under the signature `…`, so that errors
/// with a text of their own each can't fill the memory.
pub const DEAD_GROUPS_MAX: usize = 10_000;

/// Minutes of which a group knows how many of it died in each: an hour. Whoever groups dead letters reads each of them once anyway, so this
/// costs no read, and a group at most so many numbers.
pub const DEAD_MINUTES: u64 = 60;
const MINUTE_MS: u64 = 60_000;

/// How many of a group died in each minute, of the hour that ends with the latest of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadMinutes(BTreeMap<u64, u64>);

impl DeadMinutes {
    fn add(&mut self, at: u64) {
        *self.0.entry(at / MINUTE_MS).or_default() += 1;
        let latest = self.0.last_key_value().map_or(0, |(minute, _)| *minute);
        while self.0.first_key_value().is_some_and(|(minute, _)| minute + DEAD_MINUTES <= latest) {
            self.0.pop_first();
        }
    }

    /// How many died in each of the sixty minutes up to an instant, the oldest first; empty = none did. None = before the instant from which
    /// on was counted.
    pub fn until(&self, now: UnixMillis, since: Option<UnixMillis>) -> Vec<Option<u64>> {
        let last = now.0 / MINUTE_MS;
        let first = (last + 1).saturating_sub(DEAD_MINUTES);
        let is_counted = |minute: u64| since.is_none_or(|since| minute * MINUTE_MS >= since.0);
        let point = |minute: u64| is_counted(minute).then(|| self.0.get(&minute).copied().unwrap_or(0));
        let points: Vec<Option<u64>> = (first..=last).map(point).collect();
        if points.iter().flatten().all(|died| *died == 0) { Vec::new() } else { points }
    }
}

/// What the dead letters of one group have in common, and no others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadCause {
    pub kind: DeadKind,
    pub tenant: String,
    pub code: String,
    /// Error text without numbers and quoted parts.
    pub signature: String,
}

impl DeadCause {
    pub fn new(kind: DeadKind, tenant: &str, code: &str, reason: &str) -> Self {
        Self { kind, tenant: tenant.to_owned(), code: code.to_owned(), signature: signature(reason) }
    }
}

/// Gathers [`DeadGroup`]s from dead letters given one after another.
#[derive(Debug, Default)]
pub struct DeadGroups {
    groups: HashMap<Name, DeadGroup>,
}

/// Tenant, code, error signature, kind.
type Name = (String, String, String, DeadKind);

struct One<'a> {
    tenant: &'a str,
    code: &'a str,
    reason: &'a str,
    kind: DeadKind,
    id: &'a str,
    at: u64,
}

impl DeadGroups {
    pub fn add(&mut self, dead: &DeadLetter) {
        let one = One {
            tenant: dead.message.tenant.as_str(),
            code: &dead.code,
            reason: &dead.reason,
            kind: DeadKind::Message,
            id: dead.message.id.as_str(),
            at: dead.died_at.0,
        };
        self.count(&one, || dead.message.topic.as_str().to_owned());
    }

    /// Counts a stuck saga.
    pub fn add_saga(&mut self, dead: &SagaDead) {
        let one = One {
            tenant: dead.key.tenant.as_str(),
            code: &dead.code,
            reason: &dead.reason,
            kind: DeadKind::Saga,
            id: dead.key.id.as_str(),
            at: dead.died_at.0,
        };
        self.count(&one, || dead.topic());
    }

    /// Counts a received message that couldn't be handled.
    pub fn add_inbox(&mut self, shard: ShardId, dead: &InboxDead) {
        let place = InboxPlace { shard, seq: dead.seq }.to_string();
        let one = One {
            tenant: dead.message.tenant.as_str(),
            code: &dead.code,
            reason: &dead.reason,
            kind: DeadKind::Inbox,
            id: &place,
            at: dead.died_at.0,
        };
        self.count(&one, || dead.message.subject.clone());
    }

    /// Counts an event of a stream that couldn't be numbered or relayed.
    pub fn add_event(&mut self, stored: &StoredDead) {
        let (place, stream, why) = (stored.place.to_string(), stored.stream(), stored.why());
        let one = One {
            tenant: stream.tenant.as_str(),
            code: &why.code,
            reason: &why.reason,
            kind: DeadKind::Event,
            id: &place,
            at: stored.died_at.0,
        };
        self.count(&one, || stream.name.to_string());
    }

    /// Takes groups that were counted elsewhere, of a kind that isn't counted here.
    pub fn join(&mut self, groups: Vec<DeadGroup>) {
        self.groups.extend(groups.into_iter().map(|group| {
            let name = (group.tenant.clone(), group.code.clone(), group.signature.clone(), group.kind);
            (name, group)
        }));
    }

    fn count(&mut self, one: &One<'_>, topic: impl FnOnce() -> String) {
        let mut name = (one.tenant.to_owned(), one.code.to_owned(), signature(one.reason), one.kind);
        if self.groups.len() >= DEAD_GROUPS_MAX && !self.groups.contains_key(&name) {
            name.2 = "…".to_owned();
        }
        let group = self.groups.entry(name).or_insert_with_key(|(tenant, code, signature, kind)| DeadGroup {
            kind: *kind,
            tenant: tenant.clone(),
            code: code.clone(),
            signature: signature.clone(),
            topic: topic(),
            count: 0,
            first_at: one.at,
            latest_at: one.at,
            minutes: DeadMinutes::default(),
            example: one.id.to_owned(),
        });
        group.count += 1;
        group.minutes.add(one.at);
        group.first_at = group.first_at.min(one.at);
        group.latest_at = group.latest_at.max(one.at);
    }

    /// The groups, largest first; equal ones by tenant, code, signature and kind.
    pub fn finish(self) -> Vec<DeadGroup> {
        let mut groups: Vec<DeadGroup> = self.groups.into_values().collect();
        groups.sort_by(|a, b| {
            (b.count, &a.tenant, &a.code, &a.signature, a.kind).cmp(&(
                a.count,
                &b.tenant,
                &b.code,
                &b.signature,
                b.kind,
            ))
        });
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 28_000_000;

    fn died(minutes: &[u64]) -> DeadMinutes {
        let mut died = DeadMinutes::default();
        minutes.iter().for_each(|minute| died.add(minute * MINUTE_MS + 17));
        died
    }

    fn at(minute: u64) -> UnixMillis {
        UnixMillis(minute * MINUTE_MS + 59_999)
    }

    #[test]
    fn a_group_knows_the_minutes_of_its_last_hour_in_whatever_order_it_is_read() {
        let read = [MINUTE, MINUTE - 59, MINUTE - 60, MINUTE - 3, MINUTE - 3, MINUTE - 500];
        let hour = died(&read).until(at(MINUTE), None);
        assert_eq!(hour.len(), 60);
        let at_all = |(place, died): (usize, &Option<u64>)| died.filter(|died| *died > 0).map(|died| (place, died));
        let counted: Vec<(usize, u64)> = hour.iter().enumerate().filter_map(at_all).collect();
        assert_eq!(counted, [(0, 1), (56, 2), (59, 1)]);
        let mut backwards = read;
        backwards.reverse();
        assert_eq!(died(&backwards).until(at(MINUTE), None), hour);
    }

    #[test]
    fn what_died_before_the_hour_is_no_hour_and_it_goes_on_as_time_does() {
        let died = died(&[MINUTE]);
        assert_eq!(died.until(at(MINUTE + 59), None).first(), Some(&Some(1)));
        assert!(died.until(at(MINUTE + 60), None).is_empty());
        assert!(DeadMinutes::default().until(UnixMillis(0), None).is_empty());
    }

    #[test]
    fn minutes_that_were_not_counted_whole_are_gaps() {
        let died = died(&[MINUTE - 30, MINUTE - 1]);
        let hour = died.until(at(MINUTE), Some(UnixMillis((MINUTE - 10) * MINUTE_MS + 1)));
        assert_eq!(hour.iter().filter(|died| died.is_none()).count(), 50);
        assert_eq!(hour.iter().flatten().sum::<u64>(), 1);
        assert!(died.until(at(MINUTE), Some(at(MINUTE))).is_empty(), "nothing was counted of it");
    }

    #[test]
    fn a_group_keeps_no_more_than_an_hour() {
        let days: Vec<u64> = (0..3 * 24 * 60).map(|minute| MINUTE + minute).collect();
        assert_eq!(died(&days).0.len(), 60);
    }
}
