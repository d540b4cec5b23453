//! Between the contract's types and the core's. What comes from a guest is bounded here: texts are cut and kept on one line,
//! lists shortened, secrets it has read taken out.

mod followup;
pub(crate) mod handler;
pub(crate) mod source;
pub(crate) mod step;
pub(crate) mod table;

use std::time::Duration;

use waybill_bindings::api::types as wit;
use waybill_bindings::services::exports::waybill::plugin::provision_api::{Action, Change};
use waybill_core::annotation::{Annotation, Carried};
use waybill_core::code::Code;
use waybill_core::const_text::has;
use waybill_core::endpoint::MessageIds;
use waybill_core::inbox::dlq::{WIRE_ID_HEADER, id_on_wire};
use waybill_core::message::Delivery;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Health, HealthReport, Outcome, Receipt};

use crate::host::EndpointContext;
use crate::limits::{
    ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX, FAULT_CODE_BYTES_MAX, FAULT_REASON_BYTES_MAX, PROVISION_CHANGES_MAX,
};
use crate::meters::Bound;
use crate::text::cut;

/// Where authors of plugins find attributes: their crate sends each on under the receivers' names for it.
const AUTHORS: &[u8] = include_bytes!("../../../../plugins/sdk/src/annotation.rs");
const CONTRACT: &[u8] = include_bytes!("../../../../docs/plugin-contract.md");

macro_rules! known_to_authors {
    ($($variant:ident = $name:ident ($number:tt) { dashed: $dashed:literal, $($unused:tt)* })*) => {
        $(const _: () = assert!(
            !matches!(Annotation::$variant.carried(), Carried::Attribute)
                || has(AUTHORS, concat!("attribute(\"", $dashed, "\"").as_bytes())
                    && has(CONTRACT, concat!("`", $dashed, "`").as_bytes()),
            concat!("plugins/sdk/src/annotation.rs or docs/plugin-contract.md lacks the attribute ", $dashed)
        );)*
    };
}

waybill_core::annotation_rows!(known_to_authors);

/// One delivery as a guest gets it.
pub(crate) fn message(delivery: &Delivery, ids: &MessageIds) -> wit::Message {
    let message = &*delivery.message;
    let id = id_on_wire(message);
    let mut headers = Vec::with_capacity(message.headers.len() + 1);
    let is_id = |name: &str| id != message.id.as_str() && name == WIRE_ID_HEADER;
    headers.extend(message.headers.iter().filter(|(name, _)| !is_id(name)).cloned());
    let mut attributes = Vec::with_capacity(5 + delivery.attributes.len());
    attributes.push(("seq".to_owned(), delivery.seq.0.to_string()));
    attributes.push(("event-version".to_owned(), message.event_version.to_string()));
    if message.replays > 0 {
        attributes.push(("replay".to_owned(), message.replays.to_string()));
    }
    for (annotation, text) in message.annotations.iter() {
        let name = annotation.dashed();
        match annotation.carried() {
            Carried::Member => {}
            Carried::Header if message.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) => {}
            Carried::Header => headers.push((name.to_owned(), text.to_owned())),
            Carried::Attribute => attributes.push((name.to_owned(), text.to_owned())),
        }
    }
    attributes.extend(delivery.attributes.iter().cloned());
    let member = |annotation| message.annotation(annotation).map(str::to_owned);
    wit::Message {
        id: ids.on_wire(id).into_owned(),
        tenant: message.tenant.as_str().to_owned(),
        topic: message.topic.as_str().to_owned(),
        destination: delivery.destination.clone(),
        key: message.key.as_ref().map(|key| key.as_str().to_owned()),
        headers,
        content_type: member(Annotation::ContentType),
        payload: delivery.payload.to_vec(),
        event_type: (!message.event_type.is_empty()).then(|| message.event_type.clone()),
        envelope_id: member(Annotation::EnvelopeId),
        correlation_id: member(Annotation::CorrelationId),
        causation_id: member(Annotation::CausationId),
        reply_to: member(Annotation::ReplyTo),
        occurred_at: message.occurred_at.0,
        created_at: message.created_at.0,
        expires_at: message.expires_at.map(|at| at.0),
        attempt: delivery.attempt,
        lease_epoch: u32::try_from(delivery.lease_epoch).unwrap_or(u32::MAX),
        attributes,
    }
}

pub(crate) fn outcome(context: &EndpointContext, outcome: wit::Outcome) -> Outcome {
    match outcome {
        wit::Outcome::Ack(receipt) => Outcome::Ack(Receipt {
            broker_ref: receipt.broker_ref.map(|text| bounded(context, text, ATTRIBUTE_BYTES_MAX)),
            duplicate: receipt.duplicate,
            attributes: attributes(context, receipt.attributes),
        }),
        wit::Outcome::Retryable(cause) => Outcome::Retryable(fault(context, cause)),
        wit::Outcome::Permanent(cause) => Outcome::Permanent(fault(context, cause)),
        wit::Outcome::Blocked(cause) => {
            let (scope, fault) = block(context, cause);
            Outcome::Blocked { scope, fault }
        }
        wit::Outcome::Release(cause) => Outcome::Release(fault(context, cause)),
    }
}

pub(crate) fn fault(context: &EndpointContext, cause: wit::Fault) -> Fault {
    let (code, reason) = coded(cause.code, cause.reason);
    Fault {
        code: bounded(context, code, FAULT_CODE_BYTES_MAX),
        reason: bounded(context, reason, FAULT_REASON_BYTES_MAX),
        after: cause.after.map(millis),
        maybe_delivered: cause.maybe_delivered,
        attributes: attributes(context, cause.attributes),
    }
}

/// A fault of the host's, as a guest gets it.
fn told_fault(fault: Fault) -> wit::Fault {
    wit::Fault {
        code: fault.code,
        reason: fault.reason,
        after: fault.after.map(to_millis),
        maybe_delivered: fault.maybe_delivered,
        attributes: fault.attributes,
    }
}

/// A code by which failures can be grouped and counted. What isn't one is told in the reason.
fn coded(code: String, reason: String) -> (String, String) {
    let is_code = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    if code.trim().is_empty() {
        (Code::PLUGIN_NO_CODE.into(), reason)
    } else if code.len() <= FAULT_CODE_BYTES_MAX && code.bytes().all(is_code) {
        (code, reason)
    } else {
        (Code::PLUGIN_BAD_CODE.into(), format!("{:?}: {reason}", cut(&code, FAULT_CODE_BYTES_MAX)))
    }
}

/// What a guest holds back: scope and cause.
fn block(context: &EndpointContext, block: wit::Block) -> (String, Fault) {
    (bounded(context, block.scope, FAULT_REASON_BYTES_MAX), fault(context, block.fault))
}

/// A guest's answer that a whole call failed.
pub(crate) fn call_error(context: &EndpointContext, error: wit::PluginError) -> CallError {
    CallError { kind: error_kind(error.kind), fault: fault(context, error.fault) }
}

/// What a guest says of its condition.
pub(crate) fn health_report(context: &EndpointContext, report: wit::HealthReport) -> HealthReport {
    HealthReport {
        health: match report.status {
            wit::Health::Ready => Health::Ready,
            wit::Health::Degraded => Health::Degraded,
            wit::Health::Blocked => Health::Blocked,
            wit::Health::Down => Health::Down,
        },
        detail: report.detail.map(|text| bounded(context, text, FAULT_REASON_BYTES_MAX)),
    }
}

/// What a guest would do at its peer, or did.
pub(crate) fn provision_changes(context: &EndpointContext, mut changes: Vec<Change>) -> Vec<ProvisionChange> {
    changes.truncate(PROVISION_CHANGES_MAX);
    let change = |change: Change| ProvisionChange {
        target: bounded(context, change.target, ATTRIBUTE_BYTES_MAX),
        action: match change.action {
            Action::Keep => ProvisionAction::Keep,
            Action::Create => ProvisionAction::Create,
            Action::Change => ProvisionAction::Change,
            Action::Conflict => ProvisionAction::Conflict,
        },
        detail: bounded(context, change.detail, FAULT_REASON_BYTES_MAX),
    };
    changes.into_iter().map(change).collect()
}

fn error_kind(kind: wit::ErrorKind) -> ErrorKind {
    match kind {
        wit::ErrorKind::InvalidConfig => ErrorKind::InvalidConfig,
        wit::ErrorKind::Denied => ErrorKind::Denied,
        wit::ErrorKind::Unavailable => ErrorKind::Unavailable,
        wit::ErrorKind::Throttled => ErrorKind::Throttled,
        wit::ErrorKind::Fenced => ErrorKind::Fenced,
        wit::ErrorKind::Unsupported => ErrorKind::Unsupported,
        wit::ErrorKind::Cancelled => ErrorKind::Cancelled,
        wit::ErrorKind::Internal => ErrorKind::Internal,
    }
}

fn attributes(context: &EndpointContext, mut list: Vec<(String, String)>) -> Vec<(String, String)> {
    if list.len() > ATTRIBUTES_MAX {
        context.meters.hit(Bound::Outcome);
        list.truncate(ATTRIBUTES_MAX);
    }
    for (name, value) in &mut list {
        for text in [name, value] {
            *text = bounded(context, std::mem::take(text), ATTRIBUTE_BYTES_MAX);
        }
    }
    list
}

/// A guest's text without secrets, cut to `bytes`.
fn bounded(context: &EndpointContext, text: String, bytes: usize) -> String {
    if text.len() > bytes {
        context.meters.hit(Bound::Outcome);
    }
    context.redactor.clean_and_cut(text, bytes)
}

/// Milliseconds of the contract as a duration.
pub(crate) fn millis(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms))
}

/// A duration in milliseconds of the contract; what doesn't fit is 49 days.
pub(crate) fn to_millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_core::annotations::Annotations;
    use waybill_core::ids::Seq;
    use waybill_core::new_message::NewMessage;
    use waybill_core::time::UnixMillis;

    #[test]
    fn a_guest_gets_every_annotation_where_the_table_says() {
        let text = |annotation: Annotation| match annotation {
            Annotation::Traceparent => "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
            other => format!("{} of it", other.name()),
        };
        let annotations: Annotations = Annotation::ALL.map(|annotation| (annotation, text(annotation))).into();
        let new = NewMessage { topic: "bus:x".to_owned(), annotations, ..NewMessage::default() };
        let delivery = Delivery {
            message: new.check(UnixMillis(0), 0).unwrap().message,
            payload: bytes::Bytes::new(),
            destination: "x".to_owned(),
            attempt: 1,
            lease_epoch: 1,
            seq: Seq(1),
            attributes: vec![("exchange".to_owned(), "events".to_owned())],
        };
        let got = message(&delivery, &MessageIds::default());
        assert!(got.attributes.contains(&delivery.attributes[0]), "{:?}", got.attributes);
        let shown = format!("{got:?}").replace('-', "_");
        for annotation in Annotation::ALL {
            let pair = (annotation.dashed().to_owned(), text(annotation));
            let is_there = match annotation.carried() {
                Carried::Member => shown.contains(&format!("{}: Some({:?})", annotation.name(), pair.1)),
                Carried::Header => got.headers.contains(&pair),
                Carried::Attribute => got.attributes.contains(&pair),
            };
            assert!(is_there, "{annotation:?} {shown}");
        }
    }

    #[test]
    fn every_attribute_that_the_contracts_comments_name_is_registered() {
        let contract = std::str::from_utf8(CONTRACT).unwrap();
        let (attributes, _) = contract.split_once("## Features").unwrap();
        let named =
            include_str!("../../../../wit/types.wit").lines().filter_map(|line| line.split_once("Registered extras:"));
        let names: Vec<&str> = named.flat_map(|(_, names)| names.split('`').skip(1).step_by(2)).collect();
        assert!(names.contains(&"priority") && names.contains(&"partition"), "{names:?}");
        for name in names {
            assert!(attributes.contains(&format!("`{name}`")), "docs/plugin-contract.md lacks the attribute {name}");
        }
    }

    #[test]
    fn a_guest_is_told_of_a_replay_and_of_none_else() {
        let first = NewMessage { topic: "bus:x".to_owned(), ..NewMessage::default() };
        let first = first.check(UnixMillis(0), 0).unwrap().message;
        let replay = std::sync::Arc::new(first.replayed(None).replayed(None));
        for (sent, told) in [(first, None), (replay, Some("2"))] {
            let got = message(
                &Delivery {
                    message: sent,
                    payload: bytes::Bytes::new(),
                    destination: "x".to_owned(),
                    attempt: 1,
                    lease_epoch: 1,
                    seq: Seq(1),
                    attributes: Vec::new(),
                },
                &MessageIds::default(),
            );
            let value = got.attributes.iter().find(|(name, _)| name == "replay").map(|(_, value)| value.as_str());
            assert_eq!((value, got.attempt), (told, 1));
        }
    }

    #[test]
    fn a_code_is_one_word_in_capitals() {
        let told = |code: &str| coded(code.to_owned(), "why".to_owned());
        for code in ["NATS.MAX_PAYLOAD", "HTTP.503", "SHOP.SOLD-OUT", &"X".repeat(64)] {
            assert_eq!(told(code), (code.to_owned(), "why".to_owned()));
        }
        assert_eq!(told(" ").0, "PLUGIN.NO_CODE");
        for code in ["stock.none", "ORDER 4711", "A\nB", "É", &"X".repeat(65)] {
            let (found, reason) = told(code);
            assert_eq!(found, "PLUGIN.BAD_CODE", "{code}");
            assert!(reason.ends_with(": why") && reason.len() < 80, "{reason}");
        }
    }
}
