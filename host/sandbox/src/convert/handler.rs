//! Inbox messages and verdicts between the contract and the core.

use waybill_bindings::services::exports::waybill::plugin::handler_api as wit;
use waybill_core::port::handler::{Handled, Inbound, Verdict};

use super::followup::followups;
use super::{attributes, block, fault};
use crate::host::EndpointContext;

/// One message as a guest gets it.
pub(crate) fn inbound(message: Inbound) -> wit::Inbound {
    wit::Inbound {
        id: message.id,
        consumer: message.consumer,
        source: message.source,
        tenant: message.tenant,
        topic: message.topic,
        key: message.key,
        headers: message.headers,
        content_type: message.content_type,
        payload: message.payload.to_vec(),
        event_type: message.event_type,
        envelope_id: message.envelope_id,
        correlation_id: message.correlation_id,
        causation_id: message.causation_id,
        reply_to: message.reply_to,
        occurred_at: message.occurred_at.map(|at| at.0),
        received_at: message.received_at.0,
        attempt: message.attempt,
        attributes: message.attributes,
    }
}

/// A guest's verdict. One that leaves more behind than is taken is poison: it would do so again.
pub(crate) fn verdict(endpoint: &EndpointContext, verdict: wit::Verdict) -> Verdict {
    match verdict {
        wit::Verdict::Processed(handled) => match followups(handled.messages, handled.events) {
            Ok((messages, events)) => {
                Verdict::Processed(Handled { messages, events, attributes: attributes(endpoint, handled.attributes) })
            }
            Err(fault) => Verdict::Poison(fault),
        },
        wit::Verdict::Duplicate => Verdict::Duplicate,
        wit::Verdict::Poison(cause) => Verdict::Poison(fault(endpoint, cause)),
        wit::Verdict::Retry(cause) => Verdict::Retry(fault(endpoint, cause)),
        wit::Verdict::Blocked(cause) => {
            let (scope, fault) = block(endpoint, cause);
            Verdict::Blocked { scope, fault }
        }
    }
}
