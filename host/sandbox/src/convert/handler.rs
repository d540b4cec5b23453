//! Inbox messages and verdicts between the contract and the core.

use bytes::Bytes;
use waybill_bindings::inbound::inbound_types as wit;
use waybill_core::port::handler::{Handled, Inbound, SagaSignal, Verdict};
use waybill_core::port::transport::Fault;

use super::followup::{Size, followups};
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
        event_version: message.event_version,
        envelope_id: message.envelope_id,
        correlation_id: message.correlation_id,
        causation_id: message.causation_id,
        reply_to: message.reply_to,
        occurred_at: message.occurred_at.map(|at| at.0),
        received_at: message.received_at.0,
        attempt: message.attempt,
        maybe_handled: message.maybe_handled,
        attributes: message.attributes,
    }
}

/// A guest's verdict. One that leaves more behind than is taken is a failed attempt: nothing of it is committed.
pub(crate) fn verdict(endpoint: &EndpointContext, verdict: wit::Verdict) -> Verdict {
    match verdict {
        wit::Verdict::Processed(handled) => processed(endpoint, handled).unwrap_or_else(Verdict::Retry),
        wit::Verdict::Duplicate => Verdict::Duplicate,
        wit::Verdict::Poison(cause) => Verdict::Poison(fault(endpoint, cause)),
        wit::Verdict::Retry(cause) => Verdict::Retry(fault(endpoint, cause)),
        wit::Verdict::Busy(cause) => Verdict::Busy(fault(endpoint, cause)),
        wit::Verdict::Blocked(cause) => {
            let (scope, fault) = block(endpoint, cause);
            Verdict::Blocked { scope, fault }
        }
    }
}

fn processed(endpoint: &EndpointContext, handled: wit::Handled) -> Result<Verdict, Fault> {
    let wit::Handled { messages, events, signals, attributes: extras } = handled;
    let size = Size::of(&messages, &events).with(signals.iter().map(|signal| signal.payload.len()));
    size.check()?;
    let (messages, events) = followups(messages, events);
    let signals = signals.into_iter().map(signal).collect();
    Ok(Verdict::Processed(Handled { messages, events, signals, attributes: attributes(endpoint, extras) }))
}

fn signal(signal: wit::SagaSignal) -> SagaSignal {
    SagaSignal {
        saga: signal.saga,
        name: signal.name,
        content_type: signal.content_type,
        payload: Bytes::from(signal.payload),
    }
}
