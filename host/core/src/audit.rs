//! What is asked of the audit trail: acts of operators and hosts, one row each, and events of messages, received messages and sagas
//! ([`crate::tx_event`]), many a record. Its filter has the grammar of lists: `actor=ann kind=Message* since=2026-12-01`.

use crate::glob::Glob;
use crate::ids::Tenant;
use crate::outbox::filter::{FilterError, conditions};
use crate::port::transact::AuditEvent;
use crate::time::UnixMillis;
use crate::tx_event::TxEventKind;

/// What may stand in a condition.
const FIELDS: &str = "actor, kind, object, consumer (with = and * as a wildcard), since, until (e.g. since=2026-12-01T14:00:00Z), age (with > \
or <, e.g. age<1h)";

/// Which lines of the trail. Every condition that is there has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Who asked for it, or the host.
    pub actor: Option<Glob>,
    /// What happened, as the trail names it.
    pub kind: Option<Glob>,
    /// What it happened to: a message, a saga, an operation, a transport.
    pub object: Option<Glob>,
    /// Whose received message or dead letter it happened to.
    pub consumer: Option<Glob>,
    pub tenant: Option<Tenant>,
    /// Written at this instant or later (`since=`, `age<1h`).
    pub since: Option<UnixMillis>,
    /// Written before this instant (`until=`, `age>1h`).
    pub until: Option<UnixMillis>,
}

impl AuditQuery {
    /// Reads a filter. Ages count back from `now`. An empty text takes every act.
    pub fn parse(text: &str, now: UnixMillis) -> Result<Self, FilterError> {
        let mut query = Self::default();
        let mut after = None;
        for condition in conditions(text, FIELDS, now)? {
            if condition.narrow(&mut query.until, &mut after) {
                continue;
            }
            let slot = match condition.field.as_str() {
                "actor" => &mut query.actor,
                "kind" => &mut query.kind,
                "object" | "id" => &mut query.object,
                "consumer" => &mut query.consumer,
                _ => return Err(condition.unknown(FIELDS)),
            };
            condition.once(slot, Glob::new(&condition.value))?;
        }
        query.since = after.map(|after| UnixMillis(after.0.saturating_add(1)));
        Ok(query)
    }

    /// Whether events of messages, received ones and sagas are asked for: only where a kind of theirs, an object or a consumer is, for
    /// they are so many that nobody would find an act among them.
    pub fn wants_tx_events(&self) -> bool {
        match &self.kind {
            Some(kind) => TxEventKind::ALL.iter().any(|of| kind.matches(of.as_str())),
            None => [&self.object, &self.consumer].into_iter().flatten().any(|glob| !glob.is_any()),
        }
    }

    /// Whether a line with these members is asked for; time and consumer are the reader's business.
    pub fn matches(&self, actor: &str, kind: &str, object: &str, tenant: Option<&str>) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        holds(&self.actor, actor)
            && holds(&self.kind, kind)
            && holds(&self.object, object)
            && self.tenant.as_ref().is_none_or(|of| tenant == Some(of.as_str()))
    }

    /// Whether a line of this consumer is asked for; none = it is of no received message.
    pub fn is_of(&self, consumer: Option<&str>) -> bool {
        self.consumer.as_ref().is_none_or(|wanted| consumer.is_some_and(|consumer| wanted.matches(consumer)))
    }

    /// Whether this line is asked for, its time included.
    pub fn takes(&self, event: &AuditEvent) -> bool {
        self.is_in_time(event.at)
            && self.matches(&event.actor, &event.kind, &event.object, event.tenant.as_deref())
            && self.is_of(event.detail.get("consumer").and_then(serde_json::Value::as_str))
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
    fn events_of_messages_are_read_only_where_their_kind_or_an_object_is_asked_for() {
        let kind = |text: &str| AuditQuery { kind: Some(Glob::new(text)), ..AuditQuery::default() };
        assert!(!AuditQuery::default().wants_tx_events());
        assert!(!AuditQuery { since: Some(UnixMillis(1)), ..AuditQuery::default() }.wants_tx_events());
        assert!(!AuditQuery { actor: Some(Glob::new("ann")), ..AuditQuery::default() }.wants_tx_events());
        assert!(AuditQuery { object: Some(Glob::literal("m-1")), ..AuditQuery::default() }.wants_tx_events());
        assert!(AuditQuery { object: Some(Glob::new("m-*")), ..AuditQuery::default() }.wants_tx_events());
        assert!(!AuditQuery { object: Some(Glob::new("*")), ..AuditQuery::default() }.wants_tx_events());
        assert!(AuditQuery { consumer: Some(Glob::literal("ship")), ..AuditQuery::default() }.wants_tx_events());
        assert!(!AuditQuery { consumer: Some(Glob::new("*")), ..AuditQuery::default() }.wants_tx_events());
        assert!(kind("TxDead").wants_tx_events() && kind("Tx*").wants_tx_events() && kind("*").wants_tx_events());
        assert!(!kind("Saga*").wants_tx_events() && !kind("TxReplayRequested").wants_tx_events());
    }

    #[test]
    fn every_condition_has_to_hold() {
        let query = AuditQuery {
            actor: Some(Glob::new("host-*")),
            kind: Some(Glob::new("Tx*")),
            object: Some(Glob::literal("m-1")),
            consumer: None,
            tenant: Some(Tenant::new("acme").unwrap()),
            since: Some(UnixMillis(5)),
            until: Some(UnixMillis(9)),
        };
        assert!(query.matches("host-a", "TxDead", "m-1", Some("acme")));
        for (actor, kind, object) in
            [("ann", "TxDead", "m-1"), ("host-a", "SagaKilled", "m-1"), ("host-a", "TxDead", "m-2")]
        {
            assert!(!query.matches(actor, kind, object, Some("acme")));
        }
        for tenant in [Some("other"), None] {
            assert!(!query.matches("host-a", "TxDead", "m-1", tenant));
        }
        let within: Vec<u64> = (4..11).filter(|at| query.is_in_time(UnixMillis(*at))).collect();
        assert_eq!(within, [5, 6, 7, 8]);
    }

    #[test]
    fn who_did_what_to_what_and_when_are_conditions() {
        let event = AuditEvent {
            at: UnixMillis(7_200_000),
            kind: "MessageCancelled".into(),
            actor: "ann".into(),
            tenant: None,
            object: "order-17".into(),
            detail: serde_json::Value::Null,
        };
        let takes = |text: &str| AuditQuery::parse(text, UnixMillis(10_800_000)).unwrap().takes(&event);
        for text in [
            "",
            "actor=ann kind=Message*",
            "object=order-*",
            "id=order-17",
            "since=1970-01-01T02:00:00Z",
            "age<2h until=1970-01-02",
        ] {
            assert!(takes(text), "{text}");
        }
        for text in [
            "actor=bob",
            "actor=ann kind=Saga*",
            "object=order",
            "until=1970-01-01T02:00:00Z",
            "age>2h",
            "age<1h",
            "since=1970-01-01T01:00:00Z since=1970-01-01T02:00:00.001Z",
        ] {
            assert!(!takes(text), "{text}");
        }
        let of_ship = AuditEvent { detail: serde_json::json!({ "consumer": "ship" }), ..event.clone() };
        for (text, is_taken) in [("consumer=ship", true), ("consumer=s*", true), ("consumer=bill", false)] {
            let query = AuditQuery::parse(text, UnixMillis(10_800_000)).unwrap();
            assert_eq!((query.takes(&of_ship), query.takes(&event)), (is_taken, false), "{text}");
        }
        let error = AuditQuery::parse("actr=ann", UnixMillis(0)).unwrap_err().to_string();
        assert!(error.contains("did you mean \"actor\"?"), "{error}");
    }
}
