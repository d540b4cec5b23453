//! The filter grammar of lists, for the audit trail: `actor=ann kind=Message* since=2026-12-01`.

use crate::glob::Glob;
use crate::outbox::filter::{FilterError, conditions};
use crate::port::transact::AuditEvent;
use crate::time::UnixMillis;

/// What may stand in a condition.
const FIELDS: &str = "actor, kind, object (with = and * as a wildcard), since, until (e.g. since=2026-12-01T14:00:00Z), age (with > or <, \
e.g. age<1h)";

/// Conditions on events of the audit trail. All that are set have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// `actor=`: who asked for it.
    pub actor: Option<Glob>,
    /// `kind=`: what was done.
    pub kind: Option<Glob>,
    /// `object=`: what it was done to.
    pub object: Option<Glob>,
    /// Before this instant (`age>1h`, `until=`).
    pub before: Option<UnixMillis>,
    /// After this instant (`age<1h`, `since=`).
    pub after: Option<UnixMillis>,
}

impl AuditFilter {
    /// Reads a filter. Ages count back from `now`. An empty text takes everything.
    pub fn parse(text: &str, now: UnixMillis) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for condition in conditions(text, FIELDS, now)? {
            if condition.narrow(&mut filter.before, &mut filter.after) {
                continue;
            }
            let slot = match condition.field.as_str() {
                "actor" => &mut filter.actor,
                "kind" => &mut filter.kind,
                "object" => &mut filter.object,
                _ => return Err(condition.unknown(FIELDS)),
            };
            *slot = Some(Glob::new(&condition.value));
        }
        Ok(filter)
    }

    /// Whether an event matches.
    pub fn takes(&self, event: &AuditEvent) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        holds(&self.actor, &event.actor)
            && holds(&self.kind, &event.kind)
            && holds(&self.object, &event.object)
            && self.before.is_none_or(|before| event.at < before)
            && self.after.is_none_or(|after| event.at > after)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
        let takes = |text: &str| AuditFilter::parse(text, UnixMillis(10_800_000)).unwrap().takes(&event);
        for text in
            ["", "actor=ann kind=Message*", "object=order-*", "since=1970-01-01T02:00:00Z", "age<2h until=1970-01-02"]
        {
            assert!(takes(text), "{text}");
        }
        for text in ["actor=bob", "actor=ann kind=Saga*", "object=order", "until=1970-01-01T02:00:00Z", "age>2h"] {
            assert!(!takes(text), "{text}");
        }
        let error = AuditFilter::parse("actr=ann", UnixMillis(0)).unwrap_err().to_string();
        assert!(error.contains("did you mean \"actor\"?"), "{error}");
    }
}
