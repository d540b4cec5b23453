//! Callers' ids that wait for a commit or are in the one that is out, so that a repeat is looked up and not searched for.

use std::collections::BTreeMap;

use super::enqueue::DirectRequest;
use crate::ids::{MessageId, Tenant};

/// How often each id is there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PendingIds(BTreeMap<Tenant, BTreeMap<MessageId, u32>>);

impl PendingIds {
    /// A request waits from now on.
    pub fn add(&mut self, request: &DirectRequest) {
        for draft in request.messages.iter().filter(|draft| !draft.needs_id) {
            let ids = match self.0.get_mut(&draft.message.tenant) {
                Some(ids) => ids,
                None => self.0.entry(draft.message.tenant.clone()).or_default(),
            };
            *ids.entry(draft.message.id.clone()).or_default() += 1;
        }
    }

    /// It doesn't any more, and isn't in a commit.
    pub fn remove(&mut self, request: &DirectRequest) {
        for draft in request.messages.iter().filter(|draft| !draft.needs_id) {
            let Some(ids) = self.0.get_mut(&draft.message.tenant) else { continue };
            match ids.get_mut(&draft.message.id) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(ids.remove(&draft.message.id)),
            }
            if ids.is_empty() {
                self.0.remove(&draft.message.tenant);
            }
        }
    }

    pub fn contains(&self, tenant: &Tenant, id: &MessageId) -> bool {
        self.0.get(tenant).is_some_and(|ids| ids.contains_key(id))
    }
}
