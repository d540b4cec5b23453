//! Why consumers handle nothing now, in their handlers' words: for people.

use std::collections::HashMap;
use std::time::Duration;

use waybill_api::messages::Waiting;
use waybill_core::inbox::settings::ConsumerId;
use waybill_core::inbox::verdict::Verdict;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::time::UnixMillis;

/// The latest pause or hold of each consumer that had one.
#[derive(Default)]
pub(super) struct HoldNotes(HashMap<ConsumerId, HoldNote>);

struct HoldNote {
    on: WaitKind,
    reason: String,
    since: UnixMillis,
}

impl HoldNotes {
    /// Takes down what a handler said. A hold that follows another began with that one.
    pub fn note(&mut self, consumer: ConsumerId, verdict: &Verdict, now: UnixMillis) {
        let (on, fault) = match verdict {
            Verdict::Busy(fault) => (WaitKind::Paused, fault),
            Verdict::Blocked(fault) => (WaitKind::Destination, fault),
            Verdict::NotCalled | Verdict::Interrupted => return,
            _ => {
                self.0.remove(&consumer);
                return;
            }
        };
        let reason = format!("{}: {}", fault.code, fault.reason);
        let since = self.0.get(&consumer).filter(|note| note.on == on).map_or(now, |note| note.since);
        self.0.insert(consumer, HoldNote { on, reason, since });
    }

    /// As people see it; `left` = for how much longer it is held.
    pub fn of(&self, consumer: ConsumerId, left: Duration, now: UnixMillis) -> Waiting {
        let note = self.0.get(&consumer);
        Waiting {
            on: note.map_or(WaitKind::Destination, |note| note.on),
            reason: note.map_or_else(|| "its handler asked for a pause".to_owned(), |note| note.reason.clone()),
            since: note.map(|note| note.since.into()),
            until: Some(now.plus(left).into()),
        }
    }
}
