//! Dead letters counted by tenant, code, error signature and kind.

use std::collections::HashMap;

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

/// Most groups kept apart; what comes past it is counted per tenant and code under the signature `…`, so that errors
/// with a text of their own each can't fill the memory.
pub const DEAD_GROUPS_MAX: usize = 10_000;

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
            example: one.id.to_owned(),
        });
        group.count += 1;
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
