//! Payload dedup around a call: what was delivered within the window isn't sent again.
//!
//! Only routes that ask for it come here. Their messages reserve their entries in one transaction before the call, and what
//! became of them is written before their settlement is told: a crash in between finds its own reservation, or its own
//! delivery.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use waybill_core::code::Code;
use waybill_core::message::Message;
use waybill_core::outbox::decide::Fate;
use waybill_core::outbox::records::payload_sha256;
use waybill_core::port::dedup::{DedupAsk, DedupEnd, DedupKey, FirstDelivery, Reservation};
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::{Fault, Outcome, Receipt};
use waybill_core::time::{AHEAD_MAX, UnixMillis};

use super::Context;
use super::dispatch::Call;
use crate::live::Live;

/// Attribute of a receipt that was taken over from an earlier delivery: the message that was delivered.
pub(crate) const DEDUP_OF: &str = "dedup-of";
/// A message that waits for another of the same payload looks again after this.
const HELD_PAUSE: Duration = Duration::from_millis(500);
/// Tries to write what became of messages; then it is given up, and a repeat may be sent once more.
const CONCLUDE_TRIES: u32 = 3;
const CONCLUDE_PAUSE: Duration = Duration::from_millis(200);

/// Messages of a call that have reserved their entries, by index.
#[derive(Default)]
pub(super) struct Reserved {
    asks: BTreeMap<usize, DedupAsk>,
    /// What was told of them early: it waits until it is written.
    early: Mutex<BTreeMap<usize, Outcome>>,
}

impl Reserved {
    /// Keeps an early word on a message that has to be written first. Gives it back if it hasn't.
    pub fn keep_early(&self, index: usize, outcome: Outcome) -> Option<Outcome> {
        if !self.asks.contains_key(&index) {
            return Some(outcome);
        }
        self.early.lock().entry(index).or_insert(outcome);
        None
    }
}

/// What a message asks of dedup, if its route wants that.
pub(crate) fn ask_of(live: &Live, message: &Message) -> Option<DedupAsk> {
    let route = live.routing.routes.find(&message.topic)?;
    let key = DedupKey {
        tenant: message.tenant.clone(),
        transport: route.transport.clone(),
        target: message.topic.subject().to_owned(),
        sha256: payload_sha256(&message.payload),
    };
    Some(DedupAsk { window: route.dedup?, key, id: message.id.clone() })
}

/// The receipt of a message that needn't be sent.
fn receipt_of(first: FirstDelivery) -> Receipt {
    let mut receipt = first.receipt;
    receipt.duplicate = true;
    receipt.attributes.push((DEDUP_OF.to_owned(), first.id));
    receipt
}

impl Call {
    /// Reserves the entries of messages that want it. Also answers for those that aren't to be sent now.
    pub(super) async fn reserve(&self) -> (Arc<Reserved>, Vec<(usize, Fate)>) {
        let is_wanted = self.entry.dedup;
        if !is_wanted {
            return (Arc::default(), Vec::new());
        }
        let all = self.sending.iter().enumerate();
        let asks: Vec<(usize, DedupAsk)> =
            all.filter_map(|(index, sending)| Some((index, ask_of(&self.live, &sending.message)?))).collect();
        if asks.is_empty() {
            return (Arc::default(), Vec::new());
        }
        let now = self.context.clock.now().wall;
        // Older than the longest a call may take, from before its reservation to after its conclusion, and than the clock may be set
        // ahead meanwhile: such a reservation belongs to nobody any more.
        let stale = UnixMillis(now.0.saturating_sub(millis(self.longest().saturating_add(AHEAD_MAX))));
        let only: Vec<DedupAsk> = asks.iter().map(|(_, ask)| ask.clone()).collect();
        let answers = match self.context.stores.dedup.reserve(&only, now, stale).await {
            Ok(answers) => answers,
            Err(error) => {
                let fault = Fault::new(error.code(), error.to_string());
                let released = |(index, _)| (index, Fate::Answered(Outcome::Release(fault.clone())));
                return (Arc::default(), asks.into_iter().map(released).collect());
            }
        };
        let mut reserved = Reserved::default();
        let mut words = Vec::new();
        for ((index, ask), answer) in asks.into_iter().zip(answers) {
            match answer {
                Reservation::Reserved => {
                    reserved.asks.insert(index, ask);
                }
                Reservation::Delivered(first) => {
                    self.context.meter.dedup_hit();
                    words.push((index, Fate::Answered(Outcome::Ack(receipt_of(first)))));
                }
                Reservation::Held => {
                    let reason = "another message with the same payload for the same destination is on its way";
                    let fault = Fault { after: Some(HELD_PAUSE), ..Fault::new(Code::OUTBOX_DEDUP_HELD, reason) };
                    words.push((index, Fate::Answered(Outcome::Release(fault))));
                }
            }
        }
        (Arc::new(reserved), words)
    }

    /// Writes what became of messages that have reserved their entries; what was told early counts.
    pub(super) async fn conclude(&self, reserved: &Reserved, words: &mut Vec<(usize, Fate)>) {
        if reserved.asks.is_empty() {
            return;
        }
        let early = std::mem::take(&mut *reserved.early.lock());
        words.retain(|(index, _)| !early.contains_key(index));
        words.extend(early.into_iter().map(|(index, outcome)| (index, Fate::Answered(outcome))));
        let ends: Vec<DedupEnd> = words
            .iter()
            .filter_map(|(index, word)| {
                let ask = reserved.asks.get(index)?.clone();
                let receipt = match word {
                    Fate::Answered(Outcome::Ack(receipt)) => Some(receipt.clone()),
                    _ => None,
                };
                Some(DedupEnd { ask, receipt })
            })
            .collect();
        let written = conclude(&self.context, &ends);
        if tokio::time::timeout(self.context.config.store_timeout, written).await.is_err() {
            tracing::warn!(
                count = ends.len(),
                "the store is too slow to note what was delivered: repeats of it may be sent again"
            );
        }
    }
}

/// Writes what became of messages. What can't be written is given up: it is delivered all the same.
pub(crate) async fn conclude(context: &Context, ends: &[DedupEnd]) {
    let mut error: Option<StoreError> = None;
    for number in 0..CONCLUDE_TRIES {
        if number > 0 {
            tokio::time::sleep(CONCLUDE_PAUSE).await;
        }
        match context.stores.dedup.conclude(ends, context.clock.now().wall).await {
            Ok(()) => return,
            Err(failed) => error = Some(failed),
        }
    }
    if let Some(error) = error {
        tracing::warn!(code = error.code().as_str(), %error, count = ends.len(), "can't note what was delivered: repeats of it may be sent again");
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
