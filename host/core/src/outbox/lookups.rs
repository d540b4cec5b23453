//! Direct requests with ids that callers chose: they are looked up before the owner gets them.
//!
//! Pure, so that the engine's actor and the model checker go by one and the same. [`Lookups::ask`] names what one read has
//! to look up, [`Lookups::found`] takes the answer, or [`Lookups::failed`] puts everything back.

use std::collections::{HashSet, VecDeque};

use super::owner::Owner;
use super::records::{IdRecord, content_digest};
use crate::ids::{MessageId, Tenant};
use crate::new_message::Draft;

/// A request that waits; `C` is who asked.
#[derive(Debug)]
struct Waiting<C> {
    drafts: Vec<Draft>,
    caller: C,
}

/// Requests whose ids have to be looked up, in the order in which they came.
#[derive(Debug)]
pub struct Lookups<C> {
    waiting: VecDeque<Waiting<C>>,
    /// Those that the read under way is about, each with how many ids it has.
    asked: Vec<(Waiting<C>, usize)>,
}

/// What a look-up makes of a request.
#[derive(Debug)]
pub enum Checked<C> {
    /// Some of its messages are new: the owner gets those. `slots` has one for each message of the request, in order: the id of one
    /// that is there with the same content, or none for a new one.
    New { drafts: Vec<Draft>, slots: Vec<Option<MessageId>>, caller: C },
    /// All of its messages are there, with the same content.
    Known { ids: Vec<MessageId>, caller: C },
    /// An id belongs to another message; nothing of the request was taken.
    Taken { tenant: Tenant, id: MessageId, caller: C },
}

impl<C> Default for Lookups<C> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), asked: Vec::new() }
    }
}

impl<C> Lookups<C> {
    /// A request waits to be looked up.
    pub fn push(&mut self, drafts: Vec<Draft>, caller: C) {
        self.waiting.push_back(Waiting { drafts, caller });
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Everybody who waits: their requests are dropped.
    pub fn drain(&mut self) -> impl Iterator<Item = C> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.caller)
    }

    /// What is to be looked up, all in one read. A request waits whose id is in one before it, in one that waits for a commit, or
    /// in the commit under way.
    pub fn ask(&mut self, owner: &Owner) -> Vec<(Tenant, MessageId)> {
        let mut named: Vec<(Tenant, MessageId)> = Vec::new();
        let mut taken: HashSet<(Tenant, MessageId)> = HashSet::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let names: Vec<(Tenant, MessageId)> = names(&waiting.drafts).collect();
            let waits = names.iter().any(|name| taken.contains(name) || owner.is_pending_id(&name.0, &name.1));
            // Also when it waits: those behind it have to come after it.
            taken.extend(names.iter().cloned());
            if waits {
                self.waiting.push_back(waiting);
            } else {
                self.asked.push((waiting, names.len()));
                named.extend(names);
            }
        }
        named
    }

    /// The read failed: what it was about waits again.
    pub fn failed(&mut self) {
        self.waiting.extend(self.asked.drain(..).map(|(waiting, _)| waiting));
    }

    /// What the read found, one slot for each id asked.
    pub fn found(&mut self, found: Vec<Option<IdRecord>>) -> Vec<Checked<C>> {
        let mut found = found.into_iter();
        let mut checked = Vec::with_capacity(self.asked.len());
        for (waiting, count) in self.asked.drain(..) {
            let mine = found.by_ref().take(count).collect();
            checked.push(check(waiting.drafts, waiting.caller, mine));
        }
        checked
    }
}

/// Sorts out one request. `found` has one slot for each message with a caller's id.
fn check<C>(drafts: Vec<Draft>, caller: C, found: Vec<Option<IdRecord>>) -> Checked<C> {
    let mut found = found.into_iter();
    let mut slots = Vec::with_capacity(drafts.len());
    let mut new = Vec::with_capacity(drafts.len());
    for draft in drafts {
        match if draft.needs_id { None } else { found.next().flatten() } {
            None => {
                slots.push(None);
                new.push(draft);
            }
            Some(record) if record.content == Some(content_digest(&draft.message)) => {
                slots.push(Some(draft.message.id.clone()));
            }
            Some(_) => {
                return Checked::Taken { tenant: draft.message.tenant.clone(), id: draft.message.id.clone(), caller };
            }
        }
    }
    if new.is_empty() {
        return Checked::Known { ids: slots.into_iter().flatten().collect(), caller };
    }
    Checked::New { drafts: new, slots, caller }
}

fn names(drafts: &[Draft]) -> impl Iterator<Item = (Tenant, MessageId)> {
    let named = drafts.iter().filter(|draft| !draft.needs_id);
    named.map(|draft| (draft.message.tenant.clone(), draft.message.id.clone()))
}
