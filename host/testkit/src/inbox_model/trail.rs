//! Audit events of received messages, counted.

use std::collections::BTreeMap;

use waybill_core::tx_event::{TxEventKind, TxRecord};

use super::ledger::{Item, consumer_number};
use super::messages::number_of_id;

/// How often each event is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trail(BTreeMap<(TxEventKind, Item), u64>);

impl Trail {
    pub fn add(&mut self, kind: TxEventKind, item: Item) {
        *self.0.entry((kind, item)).or_default() += 1;
    }

    pub fn add_record(&mut self, record: &TxRecord) {
        for event in &record.events {
            let consumer = event.consumer.as_deref().map(consumer_number).unwrap();
            self.add(event.kind, (consumer, number_of_id(&event.id)));
        }
    }

    pub fn add_all(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(*what).or_default() += times;
        }
    }
}
