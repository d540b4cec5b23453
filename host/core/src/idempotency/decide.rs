//! The rules: an entry, an act and an instant make the next entry and a reply.

use std::time::Duration;

use super::answer::Answer;
use super::entry::{Entry, EntryKey, EntryState};
use crate::ids::{HoldToken, RequestHash};
use crate::time::UnixMillis;

/// An act on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    pub of: EntryKey,
    pub act: Act,
}

/// What is wanted of a key.
///
/// Every act may be repeated with the same token and changes nothing then, so one whose outcome isn't known is simply
/// done again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// `check_and_put`: reserve it, or hear how it stands.
    Begin {
        /// Of what is going to be done.
        hash: RequestHash,
        /// A token nobody else has: it becomes the entry's if this begins it.
        token: HoldToken,
        /// How long the key is remembered from now, if this is its first begin.
        ttl: Duration,
        /// How long it is reserved.
        lease: Duration,
    },
    Finish {
        /// Of who has it.
        token: HoldToken,
        /// The result, as it is to be kept.
        answer: Answer,
    },
    /// It failed for good.
    Fail {
        /// Of who has it.
        token: HoldToken,
        /// The error, as it is to be kept.
        error: String,
    },
    /// Nothing was done: forget it.
    Release {
        /// Of who has it.
        token: HoldToken,
    },
    /// It isn't known what was done: end the lease, so that the next begin takes over at once.
    Yield {
        /// Of who has it.
        token: HoldToken,
    },
    Renew {
        /// Of who has it.
        token: HoldToken,
        /// Reserved for this long from now; what was reserved for longer stays so.
        lease: Duration,
    },
    /// An operator's release: forget it, whoever has it.
    Forget {
        /// Also when its outcome is known: the key may execute again then.
        finished: bool,
    },
}

/// A key that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Token to finish it with.
    pub token: HoldToken,
    /// Token of its first begin ([`Entry::origin`]).
    pub origin: HoldToken,
    /// How often it was begun; above 1, a holder before may have done something already.
    pub begun: u32,
    /// The lease ends then.
    pub lease_until: UnixMillis,
    /// The key is forgotten then.
    pub until: UnixMillis,
}

/// The answer to a begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is the caller's.
    New(Grant),
    /// Somebody is at it.
    Busy {
        /// Until then, unless they renew or finish.
        lease_until: UnixMillis,
    },
    /// The key was used for something else.
    Mismatch,
    Succeeded(Answer),
    /// It failed for good.
    Failed(String),
}

/// The answer to an act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Begin(Begun),
    /// To the other acts of a holder: done.
    Applied,
    /// To the other acts of a holder: the token isn't the entry's, or its outcome is known already. Nothing changed.
    Lost,
    /// To an operator's release: it was this.
    Forgotten(Box<Entry>),
    /// To an operator's release: its outcome is known, and that wasn't to be forgotten.
    Finished,
    /// To an operator's release: there is no such entry.
    Absent,
}

/// What an act comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The entry from now on; none = there is none.
    pub next: Option<Entry>,
    /// Whether that has to be written.
    pub changed: bool,
    pub reply: Reply,
}

/// An act that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub reply: Reply,
    /// The entry behind it, for caches.
    pub entry: Option<Entry>,
}

/// Decides on an act. `found` is the entry as stored, also one that is over. `now` must never go back within a process
/// ([`crate::time::SteadyClock`]); behind the entry's latest change, that change counts as now.
pub fn decide(found: Option<&Entry>, act: &Act, now: UnixMillis) -> Decision {
    let now = found.map_or(now, |entry| now.max(entry.changed_at));
    let entry = found.filter(|entry| !entry.is_over(now));
    let mut decision = decide_on(entry, act, now);
    // What was seen to be over goes, so that a clock that is set back can't bring it back.
    decision.changed |= decision.next.is_none() && found.is_some();
    decision
}

/// What [`decide`] answers to a begin with a new token when that changes nothing; none = it may change something. Repeats are most
/// of what is asked, and nothing is copied for them but their answer.
pub fn known_answer(found: &Entry, hash: &RequestHash, now: UnixMillis) -> Option<Begun> {
    let now = now.max(found.changed_at);
    if found.is_over(now) { None } else { answer_to_another(found, hash, now) }
}

fn decide_on(entry: Option<&Entry>, act: &Act, now: UnixMillis) -> Decision {
    match act {
        Act::Begin { hash, token, ttl, lease } => begin(entry, hash, token, (*ttl, *lease), now),
        Act::Finish { token, answer } => settle(entry, token, EntryState::Succeeded(answer.clone()), now),
        Act::Fail { token, error } => settle(entry, token, EntryState::Failed(error.clone()), now),
        Act::Release { token } => match held_by(entry, token) {
            Some(_) => Decision { next: None, changed: true, reply: Reply::Applied },
            None => stays(entry, Reply::Lost),
        },
        Act::Yield { token } => match held_by(entry, token) {
            Some((held, lease_until)) => {
                let state = EntryState::InFlight { lease_until: lease_until.min(now) };
                becomes(Entry { state, changed_at: now, ..held.clone() }, Reply::Applied)
            }
            None => stays(entry, Reply::Lost),
        },
        Act::Renew { token, lease } => match held_by(entry, token) {
            Some((held, lease_until)) => {
                let lease_until = lease_until.max(now.plus(*lease));
                let state = EntryState::InFlight { lease_until };
                let until = held.until.max(lease_until);
                becomes(Entry { state, until, changed_at: now, ..held.clone() }, Reply::Applied)
            }
            None => stays(entry, Reply::Lost),
        },
        Act::Forget { finished } => match entry {
            None => stays(None, Reply::Absent),
            Some(entry) if entry.is_finished() && !finished => stays(Some(entry), Reply::Finished),
            Some(entry) => Decision { next: None, changed: true, reply: Reply::Forgotten(Box::new(entry.clone())) },
        },
    }
}

fn begin(
    entry: Option<&Entry>,
    hash: &RequestHash,
    token: &HoldToken,
    (ttl, lease): (Duration, Duration),
    now: UnixMillis,
) -> Decision {
    let lease_until = now.plus(lease);
    let Some(entry) = entry else {
        let until = now.plus(ttl).max(lease_until);
        return begun(Entry {
            hash: hash.clone(),
            origin: token.clone(),
            token: token.clone(),
            begun: 1,
            state: EntryState::InFlight { lease_until },
            created_at: now,
            changed_at: now,
            until,
        });
    };
    // The same begin again, whose first answer was lost.
    let held = held_by(Some(entry), token).filter(|_| entry.hash == *hash);
    if let Some((entry, held)) = held {
        return begun(Entry {
            state: EntryState::InFlight { lease_until: lease_until.max(held) },
            changed_at: now,
            until: entry.until.max(lease_until),
            ..entry.clone()
        });
    }
    match answer_to_another(entry, hash, now) {
        Some(answer) => stays(Some(entry), Reply::Begin(answer)),
        None => begun(Entry {
            token: token.clone(),
            begun: entry.begun.saturating_add(1),
            state: EntryState::InFlight { lease_until },
            changed_at: now,
            until: entry.until.max(lease_until),
            ..entry.clone()
        }),
    }
}

/// What a begin with a token of its own is answered without changing the entry; none = the key is to be had.
fn answer_to_another(entry: &Entry, hash: &RequestHash, now: UnixMillis) -> Option<Begun> {
    if entry.hash != *hash {
        return Some(Begun::Mismatch);
    }
    match &entry.state {
        EntryState::Succeeded(answer) => Some(Begun::Succeeded(answer.clone())),
        EntryState::Failed(error) => Some(Begun::Failed(error.clone())),
        EntryState::InFlight { lease_until } => {
            (*lease_until > now).then_some(Begun::Busy { lease_until: *lease_until })
        }
    }
}

fn begun(entry: Entry) -> Decision {
    let lease_until = match entry.state {
        EntryState::InFlight { lease_until } => lease_until,
        _ => entry.changed_at,
    };
    let grant = Grant {
        token: entry.token.clone(),
        origin: entry.origin.clone(),
        begun: entry.begun,
        lease_until,
        until: entry.until,
    };
    becomes(entry, Reply::Begin(Begun::New(grant)))
}

/// A current token settles also after its lease, as long as nobody took over.
fn settle(entry: Option<&Entry>, token: &HoldToken, state: EntryState, now: UnixMillis) -> Decision {
    match entry {
        Some(entry) if entry.token == *token && entry.state == state => stays(Some(entry), Reply::Applied),
        _ => match held_by(entry, token) {
            Some((held, _)) => becomes(Entry { state, changed_at: now, ..held.clone() }, Reply::Applied),
            None => stays(entry, Reply::Lost),
        },
    }
}

/// The entry and the end of its lease, if this token has it.
fn held_by<'a>(entry: Option<&'a Entry>, token: &HoldToken) -> Option<(&'a Entry, UnixMillis)> {
    let entry = entry.filter(|entry| entry.token == *token)?;
    match entry.state {
        EntryState::InFlight { lease_until } => Some((entry, lease_until)),
        _ => None,
    }
}

fn stays(entry: Option<&Entry>, reply: Reply) -> Decision {
    Decision { next: entry.cloned(), changed: false, reply }
}

fn becomes(entry: Entry, reply: Reply) -> Decision {
    Decision { next: Some(entry), changed: true, reply }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
