//! What a source knows between calls: its consumer, what is unsettled, what the host has to be told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use waybill_plugin::source::{
    Delivery, Disposition, Notices, Overtaken, Pulled, Settled, Settlement, SourceArgs, overtaken,
};
use waybill_plugin::transport::PluginError;

use crate::ack::{self, Metadata};
use crate::consumer::{Consumer, Resume};
use crate::delivery::complete;
use crate::fetch::End;

/// Attribute of [`SourceArgs`] with the position that a consumer of our own begins behind.
const RESUME_AFTER: &str = "resume-after";

pub(crate) struct State {
    on_overtaken: Overtaken,
    instances: u32,
    consumer: RefCell<Option<Consumer>>,
    /// Where a consumer of our own begins when it is made again.
    resume: RefCell<Resume>,
    /// Deliveries that may be unsettled.
    window: u32,
    /// What was handed over and isn't settled, by the places in the stream: its token, and when it came or was extended.
    unsettled: RefCell<BTreeMap<u64, (Vec<u8>, Instant)>>,
    /// Tokens that can't be settled any more, not told yet.
    lost: RefCell<Vec<Vec<u8>>>,
    /// Messages that were removed before they were read, not told yet.
    overtaken: Cell<u64>,
    /// The stream that was read last, also before this instance was opened where that is known.
    stream: RefCell<Option<String>>,
    /// How often that was made anew, not told yet.
    made_anew: Cell<u64>,
    quiet: Cell<bool>,
    /// The consumer may not be there any more, or not be the same.
    is_unsure: Cell<bool>,
}

impl State {
    pub(crate) fn new(wants: &SourceArgs, instances: u32) -> Self {
        let after = wants.attributes.iter().find(|(name, _)| name == RESUME_AFTER);
        let resume = after.map_or(Resume::Start, |(_, position)| Resume::Behind(position.clone()));
        let stream = resume.stream().map(str::to_owned);
        Self {
            on_overtaken: wants.on_overtaken,
            window: wants.window,
            instances: instances.max(1),
            consumer: RefCell::default(),
            resume: RefCell::new(resume),
            unsettled: RefCell::default(),
            lost: RefCell::default(),
            overtaken: Cell::new(0),
            stream: RefCell::new(stream),
            made_anew: Cell::new(0),
            quiet: Cell::new(false),
            is_unsure: Cell::new(false),
        }
    }

    pub(crate) fn consumer(&self) -> Option<Consumer> {
        self.consumer.borrow().clone()
    }

    pub(crate) fn resume(&self) -> Resume {
        self.resume.borrow().clone()
    }

    pub(crate) fn quiesce(&self) {
        self.quiet.set(true);
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.get()
    }

    /// The consumer has to be looked for before it is used again: the server said nothing when it was asked for messages, as it does
    /// where there is no such consumer, or what came looks like another stream's.
    pub(crate) fn recheck(&self) {
        self.is_unsure.set(true);
    }

    /// Whether the consumer has to be looked for before it is used.
    pub(crate) fn is_unsure(&self) -> bool {
        self.is_unsure.get() || self.consumer.borrow().is_none()
    }

    /// The consumer as it is now.
    ///
    /// # Errors
    /// Messages were removed before they were read, and the operator wants to stop then.
    pub(crate) fn found(&self, mut consumer: Consumer) -> Result<(), PluginError> {
        match self.consumer() {
            Some(before) if before.is_of_the_same_stream(&consumer) => consumer.recall_of(&before),
            // Its tokens would acknowledge what lies at the same places of the new stream.
            Some(_) => self.gone(),
            None => {}
        }
        self.reads(&consumer);
        let count = consumer.overtaken;
        let before = self.consumer.borrow().as_ref().map_or(0, |before| before.overtaken);
        if count > before {
            if self.on_overtaken == Overtaken::Stop {
                self.consumer.replace(None);
                let reason = format!(
                    "stream `{}` removed {count} messages before they were read: raise its limits, then set `on_overtaken` to \"go-on\" once",
                    consumer.stream
                );
                return Err(overtaken(reason));
            }
            self.overtaken.set(self.overtaken.get() + count - before);
        }
        self.is_unsure.set(false);
        self.consumer.replace(Some(consumer));
        Ok(())
    }

    /// Notes the stream that a consumer is of.
    fn reads(&self, consumer: &Consumer) {
        let place = consumer.place();
        let before = self.stream.replace(Some(place.clone())).filter(|before| *before != place);
        // Another name is what the operator wanted.
        let of_this_name = format!("{}@", consumer.stream);
        if before.is_some_and(|before| before.starts_with(&of_this_name)) {
            self.made_anew.set(self.made_anew.get() + 1);
        }
    }

    /// The consumer is there no more: what it delivered comes again, from another one.
    pub(crate) fn gone(&self) {
        let Some(consumer) = self.consumer.replace(None) else { return };
        let unsettled = self.unsettled.take();
        if consumer.is_ephemeral {
            let first = unsettled.keys().next().copied();
            if let Some(resume) = Resume::at(&consumer, first) {
                self.resume.replace(resume);
            }
        }
        self.lost.borrow_mut().extend(unsettled.into_values().map(|(token, _)| token));
    }

    /// The longest that the consumer waits before it delivers again; none while there is no consumer.
    pub(crate) fn longest_wait(&self) -> Option<u32> {
        self.consumer.borrow().as_ref().and_then(Consumer::longest_wait)
    }

    /// How many more deliveries may be out. What the consumer must have delivered again to us, and hasn't, is with somebody
    /// else or gone: after twice its time it takes no room any more.
    pub(crate) fn room(&self) -> u32 {
        let wait = self.consumer.borrow().as_ref().and_then(|consumer| consumer.settle_within(u32::MAX));
        let time = Duration::from_millis(u64::from(wait.unwrap_or(u32::MAX))) * 2;
        // A clock is the host's: asked once, not for each.
        let now = Instant::now();
        let is_out = |since: &Instant| now.saturating_duration_since(*since) < time;
        let out = self.unsettled.borrow().values().filter(|(_, since)| is_out(since)).count();
        self.window.saturating_sub(u32::try_from(out).unwrap_or(u32::MAX))
    }

    /// What was fetched through a consumer that isn't that of the stream which is there now: another call has looked meanwhile. It
    /// would get places of the new stream; what the old one kept comes again.
    pub(crate) fn is_outdated(&self, asked: &Consumer, fetched: &[(Metadata, Delivery)]) -> bool {
        let is_other = |now: &Consumer| !now.is_of_the_same_stream(asked);
        self.consumer.borrow().as_ref().is_none_or(is_other)
            && !fetched.iter().any(|(metadata, _)| asked.is_made_anew(metadata))
    }

    /// What came as the answer to the host.
    pub(crate) fn pulled(&self, fetched: Vec<(Metadata, Delivery)>, end: Option<End>) -> Pulled {
        let mut deliveries = Vec::with_capacity(fetched.len());
        if let Some(consumer) = self.consumer.borrow_mut().as_mut() {
            let (now, mut unsettled) = (Instant::now(), self.unsettled.borrow_mut());
            for (metadata, mut delivery) in fetched {
                complete(&mut delivery, &metadata, consumer);
                consumer.learn(&metadata);
                unsettled.insert(metadata.sequence, (delivery.token.clone(), now));
                deliveries.push(delivery);
            }
        }
        if end == Some(End::Gone) {
            self.gone();
        }
        let caught_up = self.is_caught_up(deliveries.is_empty(), end.as_ref());
        Pulled { deliveries, caught_up, notices: self.notices() }
    }

    /// Whether the stream holds nothing more for us: the last message said so, or none came although some could have.
    fn is_caught_up(&self, is_empty: bool, end: Option<&End>) -> bool {
        let consumer = self.consumer.borrow();
        let Some(consumer) = consumer.as_ref() else { return false };
        if !is_empty {
            return consumer.pending == 0;
        }
        let unsettled = u32::try_from(self.unsettled.borrow().len()).unwrap_or(u32::MAX);
        let has_room = unsettled.saturating_mul(self.instances) < consumer.max_ack_pending;
        end == Some(&End::Drained) && has_room
    }

    /// Whether a token is that of the latest delivery of a message which isn't settled.
    pub(crate) fn knows(&self, token: &[u8]) -> bool {
        let unsettled = self.unsettled.borrow();
        let latest = ack::read(token).and_then(|(_, metadata)| unsettled.get(&metadata.sequence));
        latest.is_some_and(|(latest, _)| latest == token)
    }

    /// What became of settlements.
    pub(crate) fn settled(&self, items: &[Settlement], settled: &[Settled]) {
        let is_ephemeral = self.consumer.borrow().as_ref().is_some_and(|consumer| consumer.is_ephemeral);
        let mut unsettled = self.unsettled.borrow_mut();
        for (item, settled) in items.iter().zip(settled) {
            let ends = match item.disposition {
                Disposition::Ack | Disposition::Reject(_) => true,
                // A consumer of our own must bring it again even when it is made anew.
                Disposition::Nack(_) | Disposition::Release => !is_ephemeral,
                Disposition::Extend => false,
            };
            let Some((_, metadata)) = ack::read(&item.token) else { continue };
            let Some((token, since)) = unsettled.get_mut(&metadata.sequence) else { continue };
            if *token != item.token {
                continue;
            }
            match settled {
                Settled::Done if !ends => *since = Instant::now(),
                // One that is gone forgets everything: what isn't done here is what the next one begins with.
                Settled::Lost if is_ephemeral && !ends => {}
                Settled::Done | Settled::Lost => drop(unsettled.remove(&metadata.sequence)),
                Settled::Failed(_) => {}
            }
        }
    }

    /// What the host wasn't told yet.
    pub(crate) fn notices(&self) -> Notices {
        let mut notices = Notices { lost: self.lost.take(), ..Notices::new() };
        if let Some(consumer) = self.consumer.borrow().as_ref() {
            notices = notices.with_attribute("lag", consumer.pending.to_string());
        }
        for (name, count) in [("overtaken", self.overtaken.take()), ("made-anew", self.made_anew.take())] {
            if count > 0 {
                notices = notices.with_attribute(name, count.to_string());
            }
        }
        notices
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
