//! Dead letters counted by tenant, code and error signature.

use std::collections::HashMap;

use crate::outbox::filter::signature;
use crate::outbox::records::DeadLetter;
use crate::port::query::DeadGroup;

/// Most groups kept apart; what comes past it is counted per tenant and code under the signature `…`, so that errors
/// with a text of their own each can't fill the memory.
pub const DEAD_GROUPS_MAX: usize = 10_000;

/// Gathers [`DeadGroup`]s from dead letters given one after another.
#[derive(Debug, Default)]
pub struct DeadGroups {
    groups: HashMap<(String, String, String), DeadGroup>,
}

impl DeadGroups {
    /// Counts one.
    pub fn add(&mut self, dead: &DeadLetter) {
        let tenant = dead.message.tenant.as_str().to_owned();
        let mut name = (tenant, dead.code.clone(), signature(&dead.reason));
        if self.groups.len() >= DEAD_GROUPS_MAX && !self.groups.contains_key(&name) {
            name.2 = "…".to_owned();
        }
        let at = dead.died_at.0;
        let group = self.groups.entry(name).or_insert_with_key(|(tenant, code, signature)| DeadGroup {
            tenant: tenant.clone(),
            code: code.clone(),
            signature: signature.clone(),
            topic: dead.message.topic.as_str().to_owned(),
            count: 0,
            first_at: at,
            latest_at: at,
            example: dead.message.id.as_str().to_owned(),
        });
        group.count += 1;
        group.first_at = group.first_at.min(at);
        group.latest_at = group.latest_at.max(at);
    }

    /// The groups, largest first; equal ones by tenant, code and signature.
    pub fn finish(self) -> Vec<DeadGroup> {
        let mut groups: Vec<DeadGroup> = self.groups.into_values().collect();
        groups.sort_by(|a, b| {
            (b.count, &a.tenant, &a.code, &a.signature).cmp(&(a.count, &b.tenant, &b.code, &b.signature))
        });
        groups
    }
}
