//! Audit events, booked: each commit has those of what it does, and no others.

use std::collections::BTreeMap;
use std::sync::Arc;

use waybill_core::ids::Tenant;
use waybill_core::message::Message;
use waybill_core::tx_event::{TxEventKind, TxRecord};

/// How often each event is owed, less how often it was written.
#[derive(Debug, Default)]
pub(super) struct OwedEvents(BTreeMap<(TxEventKind, Tenant, Arc<str>), i64>);

impl OwedEvents {
    /// Something happened to a message.
    pub fn owe(&mut self, kind: TxEventKind, message: &Message) {
        *self.0.entry((kind, message.tenant.clone(), Arc::from(&message.id))).or_default() += 1;
    }

    pub fn written(&mut self, record: &TxRecord) {
        for event in &record.events {
            *self.0.entry((event.kind, event.tenant.clone(), Arc::clone(&event.id))).or_default() -= 1;
        }
    }

    /// What doesn't add up.
    pub fn violations(self) -> impl Iterator<Item = String> {
        self.0.into_iter().filter(|(_, owed)| *owed != 0).map(|((kind, tenant, id), owed)| {
            let what = if owed > 0 { "lacks" } else { "invents" };
            format!("the commit {what} {} of {tenant} {id}", kind.as_str())
        })
    }
}
