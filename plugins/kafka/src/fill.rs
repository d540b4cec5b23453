//! What goes next: a batch for each partition that has none under way, and the fate of what goes nowhere.

use std::time::{SystemTime, UNIX_EPOCH};

use waybill_kafka_wire::batch::Filling;
use waybill_plugin::transport::{Fault, Outcome, PluginError};

use crate::publish::Sending;
use crate::queue::{Flight, Queue};
use crate::runs::key_of;

impl Sending<'_> {
    /// Fills what is empty. False if nothing is left.
    ///
    /// # Errors
    /// A batch can't be compressed.
    pub(crate) fn fill(&mut self) -> Result<bool, PluginError> {
        self.settle_fated();
        let config = self.endpoint.config();
        let under_way: usize =
            self.queues.iter().filter_map(|queue| queue.flight.as_ref()).map(|flight| flight.places.len()).sum();
        let mut room = (config.common.window as usize).saturating_sub(under_way);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        for place in 0..self.queues.len() {
            let Some(queue) = self.queues.get_mut(place).filter(|queue| queue.flight.is_none()) else { continue };
            let most = if queue.singly { 1 } else { config.own.batch_bytes as usize };
            let (mut filling, mut places) = (Filling::default(), Vec::new());
            while room > 0
                && let Some(next) = queue.waiting.pop_front()
            {
                let Some(message) = self.batch.get(next) else { continue };
                if key_of(message).is_some_and(|key| self.stopped.contains(&key)) {
                    self.outcomes.settle(next, behind());
                    continue;
                }
                if !self.runs.may_go(next) || !self.client.encoder.add(&mut filling, message, most, now) {
                    queue.waiting.push_front(next);
                    break;
                }
                places.push(next);
                room -= 1;
            }
            if !places.is_empty() {
                let batch = filling.end(config.own.compression);
                let batch =
                    batch.map_err(|error| PluginError::internal(format!("a batch can't be compressed: {error}")))?;
                queue.flight = Some(Flight { places, batch, stamp: None, maybe_there: false, was_corrupt: false });
            }
        }
        // What found no room is first in the next round.
        self.queues.retain(Queue::is_open);
        self.queues.sort_by_key(|queue| queue.flight.is_some());
        Ok(!self.queues.is_empty() || !self.fated.is_empty())
    }

    /// What goes nowhere has its turn behind what is before it of its key.
    fn settle_fated(&mut self) {
        for (place, outcome) in std::mem::take(&mut self.fated) {
            let key = self.batch.get(place).and_then(key_of);
            if key.is_some_and(|key| self.stopped.contains(&key)) {
                self.outcomes.settle(place, behind());
            } else if self.runs.may_go(place) {
                self.settle(&[place], &outcome);
            } else {
                self.fated.push((place, outcome));
            }
        }
    }

    /// Settles what wasn't acknowledged: nothing of its keys goes any more.
    pub(crate) fn settle(&mut self, places: &[usize], outcome: &Outcome) {
        for place in places {
            let Some(message) = self.batch.get(*place) else { continue };
            // Of one key the first is at fault; the others weren't taken with it.
            let follows = key_of(message).is_some_and(|key| !self.stopped.insert(key));
            let tried = matches!(outcome, Outcome::Retryable(fault) if fault.maybe_delivered);
            self.outcomes.settle(*place, if follows && !tried { behind() } else { outcome.clone() });
        }
    }
}

fn behind() -> Outcome {
    Outcome::Release(Fault::new("KAFKA.BEHIND", "a message of its key before it wasn't acknowledged"))
}
