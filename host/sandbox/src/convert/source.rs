//! Deliveries and settlements between the contract and the core.

use bytes::Bytes;
use waybill_bindings::api::types;
use waybill_bindings::services::exports::waybill::plugin::source_api as wit;
use waybill_core::port::source::{Disposition, Pulled, Settled, SourceDelivery, SourceSettlement};
use waybill_core::time::UnixMillis;

use super::{attributes, fault, millis, to_millis};
use crate::host::EndpointContext;

/// What a guest brought. Payloads and tokens come as they are: they are bounded by what a call may hand over.
pub(crate) fn pulled(endpoint: &EndpointContext, session: u64, pulled: wit::Pulled) -> Pulled {
    Pulled {
        session,
        deliveries: pulled.deliveries.into_iter().map(delivery).collect(),
        revoked: pulled.revoked,
        caught_up: pulled.caught_up,
        attributes: attributes(endpoint, pulled.attributes),
    }
}

fn delivery(delivery: wit::Delivery) -> SourceDelivery {
    SourceDelivery {
        token: Bytes::from(delivery.token),
        id: delivery.id,
        position: delivery.position,
        group: delivery.group,
        topic: delivery.topic,
        key: delivery.key,
        headers: delivery.headers,
        content_type: delivery.content_type,
        payload: Bytes::from(delivery.payload),
        tenant: delivery.tenant,
        event_type: delivery.event_type,
        correlation_id: delivery.correlation_id,
        causation_id: delivery.causation_id,
        reply_to: delivery.reply_to,
        occurred_at: delivery.occurred_at.map(UnixMillis),
        delivery_count: delivery.delivery_count,
        settle_within: delivery.settle_within.map(millis),
        attributes: delivery.attributes,
    }
}

/// An order as a guest gets it.
pub(crate) fn settlement(item: SourceSettlement) -> wit::Settlement {
    let disposition = match item.disposition {
        Disposition::Ack => wit::Disposition::Ack,
        Disposition::Nack(after) => wit::Disposition::Nack(after.map(to_millis)),
        Disposition::Reject(cause) => wit::Disposition::Reject(types::Fault {
            code: cause.code,
            reason: cause.reason,
            after: cause.after.map(to_millis),
            maybe_delivered: cause.maybe_delivered,
            attributes: cause.attributes,
        }),
        Disposition::Extend => wit::Disposition::Extend,
        Disposition::Release => wit::Disposition::Release,
    };
    wit::Settlement { token: item.token.to_vec(), disposition }
}

/// What became of an order.
pub(crate) fn settled(endpoint: &EndpointContext, settled: wit::Settled) -> Settled {
    match settled {
        wit::Settled::Done => Settled::Done,
        wit::Settled::Lost => Settled::Lost,
        wit::Settled::Failed(cause) => Settled::Failed(fault(endpoint, cause)),
    }
}
