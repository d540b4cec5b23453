//! What a source knows between calls: its consumer, what is unsettled, what the host has to be told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

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
    /// Tokens of what was handed over and isn't settled, by the places in the stream.
    unsettled: RefCell<BTreeMap<u64, Vec<u8>>>,
    /// Tokens that can't be settled any more, not told yet.
    lost: RefCell<Vec<Vec<u8>>>,
    /// Messages that were removed before they were read, not told yet.
    overtaken: Cell<u64>,
    quiet: Cell<bool>,
}

impl State {
    pub(crate) fn new(wants: &SourceArgs, instances: u32) -> Self {
        let after = wants.attributes.iter().find(|(name, _)| name == RESUME_AFTER);
        Self {
            on_overtaken: wants.on_overtaken,
            instances: instances.max(1),
            consumer: RefCell::default(),
            resume: RefCell::new(after.map_or(Resume::Start, |(_, position)| Resume::Behind(position.clone()))),
            unsettled: RefCell::default(),
            lost: RefCell::default(),
            overtaken: Cell::new(0),
            quiet: Cell::new(false),
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

    /// The consumer as it is now.
    ///
    /// # Errors
    /// Messages were removed before they were read, and the operator wants to stop then.
    pub(crate) fn found(&self, consumer: Consumer) -> Result<(), PluginError> {
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
        self.consumer.replace(Some(consumer));
        Ok(())
    }

    /// The consumer is there no more: what it delivered comes again, from another one.
    pub(crate) fn gone(&self) {
        let Some(consumer) = self.consumer.replace(None) else { return };
        let unsettled = self.unsettled.take();
        if consumer.is_ephemeral {
            let first = unsettled.keys().next().copied();
            self.resume.replace(Resume::at(&consumer, first));
        }
        self.lost.borrow_mut().extend(unsettled.into_values());
    }

    /// Messages that wait to be delivered for the first time.
    pub(crate) fn pending(&self, count: Option<u64>) {
        if let (Some(consumer), Some(count)) = (self.consumer.borrow_mut().as_mut(), count) {
            consumer.pending = count;
        }
    }

    /// What came as the answer to the host.
    pub(crate) fn pulled(&self, fetched: Vec<(Metadata, Delivery)>, end: Option<End>) -> Pulled {
        let mut deliveries = Vec::with_capacity(fetched.len());
        if let Some(consumer) = self.consumer.borrow_mut().as_mut() {
            for (metadata, mut delivery) in fetched {
                complete(&mut delivery, &metadata, consumer);
                consumer.learn(&metadata);
                self.unsettled.borrow_mut().insert(metadata.sequence, delivery.token.clone());
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
            let sequence = ack::subject(&item.token).and_then(Metadata::parse).map(|metadata| metadata.sequence);
            if let (true, Settled::Done, Some(sequence)) = (ends, settled, sequence)
                && unsettled.get(&sequence) == Some(&item.token)
            {
                unsettled.remove(&sequence);
            }
        }
    }

    /// What the host wasn't told yet.
    pub(crate) fn notices(&self) -> Notices {
        let mut notices = Notices { lost: self.lost.take(), ..Notices::new() };
        if let Some(consumer) = self.consumer.borrow().as_ref() {
            notices = notices.with_attribute("lag", consumer.pending.to_string());
        }
        match self.overtaken.take() {
            0 => notices,
            count => notices.with_attribute("overtaken", count.to_string()),
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
