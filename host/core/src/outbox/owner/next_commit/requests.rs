//! Direct requests that wait for a commit, and the ids that their callers chose, so that a repeat is looked up and not searched
//! for.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::{MessageId, Tenant};
use crate::new_message::Draft;
use crate::outbox::weight;
use crate::time::Monotonic;

/// Names a request, so that its answer finds the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Messages that a caller wants to enqueue directly. Its caller-made ids were looked up and are new, and none is
/// in it twice: such a commit could never go in.
#[derive(Clone, Debug)]
pub struct DirectRequest {
    pub ticket: Ticket,
    /// Checked messages in order.
    pub messages: Vec<Draft>,
    pub arrived: Monotonic,
}

/// A request with what it weighs.
#[derive(Debug)]
pub struct WaitingRequest {
    pub request: DirectRequest,
    pub bytes: usize,
}

/// How often each id that a caller chose is there.
#[derive(Debug, Default, PartialEq, Eq)]
struct PendingIds(BTreeMap<Tenant, BTreeMap<MessageId, u32>>);

impl PendingIds {
    fn add(&mut self, request: &DirectRequest) {
        for draft in request.messages.iter().filter(|draft| !draft.needs_id) {
            let ids = match self.0.get_mut(&draft.message.tenant) {
                Some(ids) => ids,
                None => self.0.entry(draft.message.tenant.clone()).or_default(),
            };
            *ids.entry(draft.message.id.clone()).or_default() += 1;
        }
    }

    fn remove(&mut self, request: &DirectRequest) {
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
}

/// Requests in the order in which they arrived.
///
/// `ids` counts the callers' ids of those that wait and of those in the commit that is out. A request that a commit has taken is
/// put back ([`Requests::put_back`]) or ends ([`Requests::end`]).
#[derive(Debug, Default)]
pub(in super::super) struct Requests {
    waiting: VecDeque<WaitingRequest>,
    ids: PendingIds,
}

impl Requests {
    pub fn push(&mut self, request: DirectRequest) {
        let entering = request.messages.iter().map(|draft| weight::of_entering(&draft.message, !draft.needs_id));
        let bytes = entering.sum();
        self.ids.add(&request);
        self.waiting.push_back(WaitingRequest { request, bytes });
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether an id waits for a commit or is in the one that is out.
    pub fn is_pending(&self, tenant: &Tenant, id: &MessageId) -> bool {
        self.ids.0.get(tenant).is_some_and(|ids| ids.contains_key(id))
    }

    pub fn front(&self) -> Option<&WaitingRequest> {
        self.waiting.front()
    }

    /// A commit takes the first one.
    pub fn take_front(&mut self) -> Option<WaitingRequest> {
        self.waiting.pop_front()
    }

    /// A request comes back from a commit that never went in, to the front.
    pub fn put_back(&mut self, request: WaitingRequest) {
        self.waiting.push_front(request);
    }

    /// A request is in no commit any more and doesn't wait for one.
    pub fn end(&mut self, request: &DirectRequest) {
        self.ids.remove(request);
    }

    /// Takes back all that wait.
    pub fn recall(&mut self) -> Vec<DirectRequest> {
        self.recall_if(|_| true)
    }

    /// Takes back those with callers' ids.
    pub fn recall_identified(&mut self) -> Vec<DirectRequest> {
        self.recall_if(|request| request.messages.iter().any(|draft| !draft.needs_id))
    }

    fn recall_if(&mut self, is_recalled: impl Fn(&DirectRequest) -> bool) -> Vec<DirectRequest> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (recalled, kept): (Vec<_>, Vec<_>) = waiting.partition(|waiting| is_recalled(&waiting.request));
        self.waiting = kept.into();
        let recalled: Vec<DirectRequest> = recalled.into_iter().map(|waiting| waiting.request).collect();
        recalled.iter().for_each(|request| self.ids.remove(request));
        recalled
    }

    /// For tests: the ids are those of the requests that wait, and of those in the commit that is out.
    pub fn check<'a>(&'a self, out: impl Iterator<Item = &'a WaitingRequest>) -> Result<(), String> {
        let mut pending = PendingIds::default();
        self.waiting.iter().chain(out).for_each(|waiting| pending.add(&waiting.request));
        if pending == self.ids {
            return Ok(());
        }
        Err(format!("{pending:?} wait for a commit or are in one, {:?} are listed", self.ids))
    }
}
