//! Part: what each consumer may call now.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::ids::Seq;
use crate::inbox::fingerprint::Fingerprint;
use crate::inbox::limits::{HOLD_DEFAULT, HOLD_LEAST, HOLD_MAX};
use crate::inbox::settings::ConsumerId;
use crate::time::Monotonic;

#[derive(Debug, Default)]
pub(super) struct Consumer {
    /// Messages that may be called as far as their order goes.
    pub ready: BTreeSet<Seq>,
    /// Those that a handler has.
    pub running: BTreeSet<Seq>,
    /// Rows that are stored for it.
    pub rows: usize,
    /// Messages processed since this owner began.
    pub processed: u64,
    hold: Hold,
}

/// A pause or a hold.
#[derive(Debug, Default)]
struct Hold {
    until: Monotonic,
    /// After it, one message goes first to see whether it is over.
    probing: bool,
    /// Who asked for it: another message probes, if there is one.
    offender: Option<Fingerprint>,
}

impl Consumer {
    /// Holds it for as long as its handler asked, within bounds.
    pub fn hold(&mut self, after: Option<Duration>, offender: Fingerprint, now: Monotonic) {
        let pause = after.unwrap_or(HOLD_DEFAULT).clamp(HOLD_LEAST, HOLD_MAX);
        self.hold = Hold { until: now + pause, probing: true, offender: Some(offender) };
    }

    /// A handler had an answer: nothing is down.
    pub fn answered(&mut self) {
        self.hold.probing = false;
    }

    pub fn is_held(&self, now: Monotonic) -> bool {
        self.hold.until > now
    }

    pub fn held_until(&self) -> Monotonic {
        self.hold.until
    }

    pub fn is_probing(&self) -> bool {
        self.hold.probing
    }

    pub fn offender(&self) -> Option<Fingerprint> {
        self.hold.offender
    }
}

#[derive(Debug, Default)]
pub(super) struct Consumers {
    all: Vec<Consumer>,
}

impl Consumers {
    pub fn new(count: usize) -> Self {
        Self { all: (0..count).map(|_| Consumer::default()).collect() }
    }

    pub fn get(&self, id: ConsumerId) -> Option<&Consumer> {
        self.all.get(usize::from(id.0))
    }

    pub fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.all.get_mut(usize::from(id.0))
    }

    pub fn ids(&self) -> impl Iterator<Item = ConsumerId> + use<> {
        let count = u16::try_from(self.all.len()).unwrap_or(u16::MAX);
        (0..count).map(ConsumerId)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Consumer> {
        self.all.iter()
    }

    pub fn is_held(&self, id: Option<ConsumerId>, now: Monotonic) -> bool {
        id.and_then(|id| self.get(id)).is_some_and(|consumer| consumer.is_held(now))
    }
}
