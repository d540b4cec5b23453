//! The inbox, played: the host in memory has none. Its services are in `inbox` and `sources`, each with its tests; its dead letters
//! are here.

use parking_lot::Mutex;
use waybill_api::dead_letters::*;
use waybill_api::messages::Enqueued;
use waybill_core::ids::Tenant;
use waybill_core::new_message::NewMessage;
use waybill_core::port::dead::{DeadId, DeadKind};
use waybill_core::port::service::ServiceError;

use crate::inbox::{dead, stored};

pub type Served<T> = Result<T, ServiceError>;

/// An inbox with one dead letter, `inbox-3-17` of whatever tenant asks.
#[derive(Default)]
pub struct FakeInbound {
    calls: Mutex<Vec<String>>,
    taken: Mutex<Vec<NewMessage>>,
}

impl FakeInbound {
    /// Takes what was asked so far.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock())
    }

    /// Takes the edited copies so far.
    pub fn taken(&self) -> Vec<NewMessage> {
        std::mem::take(&mut self.taken.lock())
    }

    pub fn record(&self, call: String) {
        self.calls.lock().push(call);
    }

    /// Whether a dead letter is one of these.
    pub fn has(&self, dead: &DeadId) -> bool {
        dead.id == "inbox-3-17" && dead.takes(DeadKind::Inbox)
    }

    pub fn dead_letter(&self, id: &DeadId) -> DeadLetterView {
        let kind = id.kind.map_or("any", DeadKind::word);
        self.record(format!("dead_letter {} {kind} {}", id.tenant, id.id));
        dead(id.tenant.as_str()).into()
    }

    pub fn replay(&self, id: &DeadId, how: &Replay, actor: &str) -> Replayed {
        self.record(format!("replay {} {} [{}] {actor}", id.tenant, id.id, how.reason));
        Replayed::Inbox(Box::new(stored(id.tenant.as_str())))
    }

    pub fn quarantine(&self, id: &DeadId, note: &str, actor: &str) -> DeadLetterView {
        self.record(format!("quarantine {} {} [{note}] {actor}", id.tenant, id.id));
        dead(id.tenant.as_str()).into()
    }

    pub fn edit(&self, id: &DeadId, edited: NewMessage, reason: &str, actor: &str) -> Enqueued {
        self.record(format!("edit {} {} [{reason}] {actor}", id.tenant, id.id));
        self.taken.lock().push(edited);
        Enqueued { ids: vec!["copy".to_owned()], ..Enqueued::default() }
    }
}

/// A tenant as calls are noted.
pub fn name(tenant: Option<&Tenant>) -> &str {
    tenant.map_or("*", Tenant::as_str)
}
