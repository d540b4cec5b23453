//! What is asked of the audit trail: acts of operators and hosts, one row each, and events of messages and sagas
//! ([`crate::tx_event`]), many a record.

use crate::glob::Glob;
use crate::ids::Tenant;
use crate::port::transact::AuditEvent;
use crate::time::UnixMillis;
use crate::tx_event::TxEventKind;

/// Which lines of the trail. Every condition that is there has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// What happened, as the trail names it.
    pub kind: Option<Glob>,
    /// The object: a message, a saga, an operation, a transport.
    pub id: Option<String>,
    pub tenant: Option<Tenant>,
    /// Written at this instant or later.
    pub since: Option<UnixMillis>,
    /// Written before this instant.
    pub until: Option<UnixMillis>,
}

impl AuditQuery {
    /// Whether events of messages and sagas are asked for: only where a kind of theirs or an id is, for they are so many that
    /// nobody would find an act among them.
    pub fn wants_tx_events(&self) -> bool {
        match &self.kind {
            Some(kind) => TxEventKind::ALL.iter().any(|of| kind.matches(of.as_str())),
            None => self.id.is_some(),
        }
    }

    /// Whether a line with these members is asked for; time is the reader's business.
    pub fn matches(&self, kind: &str, object: &str, tenant: Option<&str>) -> bool {
        self.kind.as_ref().is_none_or(|of| of.matches(kind))
            && self.id.as_ref().is_none_or(|id| id == object)
            && self.tenant.as_ref().is_none_or(|of| tenant == Some(of.as_str()))
    }

    /// Whether this line is asked for, its time included.
    pub fn takes(&self, event: &AuditEvent) -> bool {
        self.is_in_time(event.at) && self.matches(&event.kind, &event.object, event.tenant.as_deref())
    }

    /// Whether an instant is within the bounds.
    pub fn is_in_time(&self, at: UnixMillis) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at < until)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn events_of_messages_are_read_only_where_their_kind_or_an_id_is_asked_for() {
        let kind = |text: &str| AuditQuery { kind: Some(Glob::new(text)), ..AuditQuery::default() };
        assert!(!AuditQuery::default().wants_tx_events());
        assert!(!AuditQuery { since: Some(UnixMillis(1)), ..AuditQuery::default() }.wants_tx_events());
        assert!(AuditQuery { id: Some("m-1".into()), ..AuditQuery::default() }.wants_tx_events());
        assert!(kind("TxDead").wants_tx_events() && kind("Tx*").wants_tx_events() && kind("*").wants_tx_events());
        assert!(!kind("Saga*").wants_tx_events() && !kind("TxReplayRequested").wants_tx_events());
    }

    #[test]
    fn every_condition_has_to_hold() {
        let query = AuditQuery {
            kind: Some(Glob::new("Tx*")),
            id: Some("m-1".into()),
            tenant: Some(Tenant::new("acme").unwrap()),
            since: Some(UnixMillis(5)),
            until: Some(UnixMillis(9)),
        };
        assert!(query.matches("TxDead", "m-1", Some("acme")));
        for (kind, object, tenant) in [("SagaKilled", "m-1", Some("acme")), ("TxDead", "m-2", Some("acme"))] {
            assert!(!query.matches(kind, object, tenant));
        }
        assert!(!query.matches("TxDead", "m-1", Some("other")) && !query.matches("TxDead", "m-1", None));
        let within: Vec<u64> = (4..11).filter(|at| query.is_in_time(UnixMillis(*at))).collect();
        assert_eq!(within, [5, 6, 7, 8]);
    }
}
