//! Filtering what the store found: the same rule for every store, the API and the tests.

use crate::glob::Glob;
use crate::outbox::filter::{Filter, signature};
use crate::outbox::records::{Done, DoneEnd, Parked};
use crate::port::query::Found;

impl Filter {
    /// Whether a found message matches. Ages count from its creation, for finished ones from their end, for dead ones from
    /// their death. `code` and `error` look at the latest attempt.
    pub fn takes_found(&self, found: &Found) -> bool {
        match found {
            Found::Flowing { entry, claimed, .. } => {
                self.code.is_none()
                    && self.error.is_none()
                    && self.takes_message(&entry.message, entry.message.created_at)
                    && self.takes_state(if *claimed { LEASED } else { PENDING })
            }
            Found::Parked(parked) => self.takes_parked(parked),
            Found::Scheduled(scheduled) => {
                self.code.is_none()
                    && self.error.is_none()
                    && self.takes_message(&scheduled.message, scheduled.message.created_at)
                    && self.takes_state(PENDING)
            }
            Found::Dead(dead) => self.takes_dead(dead),
            Found::Done(_, done) => self.takes_done(done),
        }
    }

    fn takes_parked(&self, parked: &Parked) -> bool {
        let last = parked.history.last();
        let text =
            |glob: &Option<Glob>, text: Option<&str>| glob.as_ref().is_none_or(|glob| glob.matches(text.unwrap_or("")));
        self.takes_message(&parked.message, parked.message.created_at)
            && text(&self.code, last.and_then(|attempt| attempt.code.as_deref()))
            && text(&self.error, last.and_then(|attempt| attempt.reason.as_deref()).map(signature).as_deref())
            && self.takes_state(if parked.claimed { LEASED } else { PENDING })
    }

    fn takes_done(&self, done: &Done) -> bool {
        let names = match done.end {
            DoneEnd::Delivered => &["done", "sent", "published"][..],
            DoneEnd::Cancelled => &["cancelled"][..],
            DoneEnd::Expired => &["expired"][..],
            DoneEnd::Purged => &["purged"][..],
        };
        self.code.is_none()
            && self.error.is_none()
            && self.takes_message(&done.message, done.at)
            && self.takes_state(names)
    }

    fn takes_state(&self, names: &[&str]) -> bool {
        self.state.as_ref().is_none_or(|glob| names.iter().any(|name| glob.matches(name)))
    }
}

const PENDING: &[&str] = &["pending"];
const LEASED: &[&str] = &["leased", "processing"];
