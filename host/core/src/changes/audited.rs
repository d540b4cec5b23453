//! Changes among what goes to the audit trail.

use super::{Change, ChangeKind};
use crate::port::transact::AuditEvent;

impl Change {
    /// The change that an event of the audit trail tells of; none = it tells of something else.
    pub fn of_audit(event: &AuditEvent) -> Option<Self> {
        let text = |member: &str| event.detail.get(member).and_then(serde_json::Value::as_str).unwrap_or_default();
        let number = |member: &str| event.detail.get(member).and_then(serde_json::Value::as_u64);
        let (kind, detail) = match event.kind.as_str() {
            "TransportPaused" => (ChangeKind::TransportPaused, text("reason").to_owned()),
            "TransportResumed" => (ChangeKind::TransportResumed, text("reason").to_owned()),
            "SourcePaused" => (ChangeKind::SourcePaused, String::new()),
            "SourceResumed" => (ChangeKind::SourceResumed, String::new()),
            "RelayPaused" => (ChangeKind::RelayPaused, text("reason").to_owned()),
            "RelayResumed" => (ChangeKind::RelayResumed, text("reason").to_owned()),
            "RelayStopped" => (ChangeKind::RelayStopped, text("reason").to_owned()),
            "OperationCancelled" => (ChangeKind::OperationCancelled, String::new()),
            // A replay of one tells no number.
            "OperationStarted" | "TxReplayRequested" => {
                let (act, filter, matched) = (text("kind"), text("filter"), number("matched")?);
                (ChangeKind::OperationBegun, format!("{act} {filter}: {matched} matched"))
            }
            "OperationEnded" => {
                let (act, state) = (text("kind"), text("state"));
                let [done, failed] = ["done", "failed"].map(|member| number(member).unwrap_or(0));
                (ChangeKind::OperationEnded, format!("{act}: {state}, {done} done, {failed} failed"))
            }
            _ => return None,
        };
        Some(Self::new(event.at, kind, &event.object).by(&event.actor).of(event.tenant.as_deref()).detail(&detail))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;
    use crate::time::UnixMillis;

    fn change_of(kind: &str, detail: Value) -> Option<(ChangeKind, Option<String>)> {
        let event = AuditEvent {
            at: UnixMillis(7),
            kind: kind.into(),
            actor: "ann".into(),
            tenant: Some("acme".into()),
            object: "01J".into(),
            detail,
        };
        let change = Change::of_audit(&event)?;
        assert_eq!((change.at, change.object.as_str()), (UnixMillis(7), "01J"));
        assert_eq!((change.actor.as_deref(), change.tenant.as_deref()), (Some("ann"), Some("acme")));
        Some((change.kind, change.detail))
    }

    #[test]
    fn acts_on_the_host_and_on_many_are_changes_and_acts_on_one_are_none() {
        let begun = json!({ "kind": "replay", "filter": "code=HTTP.*", "matched": 1_188, "rate": 100, "reason": "" });
        let words = Some("replay code=HTTP.*: 1188 matched".to_owned());
        assert_eq!(change_of("TxReplayRequested", begun), Some((ChangeKind::OperationBegun, words)));
        assert_eq!(change_of("TxReplayRequested", json!({ "reason": "again" })), None, "of one message");
        let ended = json!({ "kind": "replay", "state": "done", "done": 7, "unchanged": 0, "failed": 1 });
        let words = Some("replay: done, 7 done, 1 failed".to_owned());
        assert_eq!(change_of("OperationEnded", ended), Some((ChangeKind::OperationEnded, words)));
        assert_eq!(change_of("TransportPaused", Value::Null), Some((ChangeKind::TransportPaused, None)));
        let reason = json!({ "reason": "it floods us" });
        assert_eq!(change_of("RelayPaused", reason), Some((ChangeKind::RelayPaused, Some("it floods us".to_owned()))));
        for other in ["RelayPauseRequested", "MessageCancelled", "TxDead"] {
            assert_eq!(change_of(other, Value::Null), None, "{other}");
        }
    }
}
