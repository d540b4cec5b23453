//! Filtering what the store found: the same rule for every store, the API and the tests.

use crate::outbox::filter::Filter;
use crate::outbox::owner::WaitKind;
use crate::outbox::records::{Done, DoneEnd, Parked};
use crate::port::query::Found;

impl Filter {
    /// Whether a found message matches. Ages count from its creation, for finished ones from their end, for dead ones from
    /// their death. `code`, `error` and `generation` look at the latest attempt; of `waits` only what is known without an owner is looked at.
    pub fn takes_found(&self, found: &Found) -> bool {
        match found {
            Found::Flowing { entry, claimed, .. } => {
                self.code.is_none()
                    && self.error.is_none()
                    && self.takes_generation(&[])
                    && self.takes_message(&entry.message, entry.message.created_at)
                    && self.takes_state(if *claimed { LEASED } else { PENDING })
            }
            Found::Parked(parked) => self.takes_parked(parked),
            Found::Scheduled(scheduled) => {
                self.waits.as_ref().is_none_or(|glob| glob.matches(WaitKind::Schedule.as_str()))
                    && self.code.is_none()
                    && self.error.is_none()
                    && self.takes_generation(&[])
                    && self.takes_message(&scheduled.message, scheduled.message.created_at)
                    && self.takes_state(PENDING)
            }
            Found::Dead(dead) => self.takes_dead(dead),
            Found::Done(_, done) => self.takes_done(done),
        }
    }

    fn takes_parked(&self, parked: &Parked) -> bool {
        let last = parked.history.last();
        let code = last.and_then(|attempt| attempt.code.as_deref()).unwrap_or("");
        let reason = last.and_then(|attempt| attempt.reason.as_deref()).unwrap_or("");
        self.takes_message(&parked.message, parked.message.created_at)
            && self.code.as_ref().is_none_or(|glob| glob.matches(code))
            && self.error.as_ref().is_none_or(|glob| glob.matches(code, reason))
            && self.takes_generation(&parked.history)
            && self.takes_state(if parked.claimed { LEASED } else { PENDING })
    }

    fn takes_done(&self, done: &Done) -> bool {
        let names = match done.end {
            DoneEnd::Delivered => &["done", "sent", "published"][..],
            DoneEnd::Cancelled => &["cancelled"][..],
            DoneEnd::Expired => &["expired"][..],
            DoneEnd::Purged => &["purged"][..],
        };
        self.waits.is_none()
            && self.code.is_none()
            && self.error.is_none()
            && self.takes_generation(&done.history)
            && self.takes_message(&done.message, done.at)
            && self.takes_state(names)
    }

    fn takes_state(&self, names: &[&str]) -> bool {
        self.state.as_ref().is_none_or(|glob| names.iter().any(|name| glob.matches(name)))
    }
}

const PENDING: &[&str] = &["pending"];
const LEASED: &[&str] = &["leased", "processing"];
