//! Deliveries and settlements between the contract and the core.

use bytes::Bytes;
use waybill_bindings::inbound::inbound_types::Notices as WitNotices;
use waybill_bindings::services::exports::waybill::inbound::source_api as wit;
use waybill_core::port::source::{
    Disposition, Notices, Overtaken, Pulled, Settled, SourceDelivery, SourceSettlement, SourceWants,
};
use waybill_core::time::UnixMillis;

use super::{attributes, fault, millis, to_millis, told_fault};
use crate::host::EndpointContext;

/// What a guest brought. Payloads and tokens come as they are: they are bounded by what a call may hand over.
pub(crate) fn pulled(endpoint: &EndpointContext, session: u64, pulled: wit::Pulled) -> Pulled {
    Pulled {
        session,
        notices: notices(endpoint, pulled.notices),
        deliveries: pulled.deliveries.into_iter().map(delivery).collect(),
        caught_up: pulled.caught_up,
    }
}

/// What a guest told besides.
pub(crate) fn notices(endpoint: &EndpointContext, notices: WitNotices) -> Notices {
    Notices {
        revoked: notices.revoked,
        lost: notices.lost.into_iter().map(Bytes::from).collect(),
        waiting: notices.waiting,
        attributes: attributes(endpoint, notices.attributes),
    }
}

/// What a guest is told at its start.
pub(crate) fn wants(wants: SourceWants) -> wit::SourceArgs {
    wit::SourceArgs {
        window: wants.window,
        window_bytes: wants.window_bytes,
        on_overtaken: match wants.on_overtaken {
            Overtaken::Stop => wit::Overtaken::Stop,
            Overtaken::GoOn => wit::Overtaken::GoOn,
        },
        attributes: wants.resume_after.map(|position| ("resume-after".to_owned(), position)).into_iter().collect(),
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
        omitted: delivery.omitted,
        tenant: delivery.tenant,
        event_type: delivery.event_type,
        event_version: delivery.event_version,
        correlation_id: delivery.correlation_id,
        causation_id: delivery.causation_id,
        reply_to: delivery.reply_to,
        occurred_at: delivery.occurred_at.map(UnixMillis),
        delivery_count: delivery.delivery_count,
        deliveries_left: delivery.deliveries_left,
        redelivered: delivery.redelivered,
        settle_within: delivery.settle_within.map(millis),
        attributes: delivery.attributes,
    }
}

/// An order as a guest gets it.
pub(crate) fn settlement(item: SourceSettlement) -> wit::Settlement {
    let disposition = match item.disposition {
        Disposition::Ack => wit::Disposition::Ack,
        Disposition::Nack(after) => wit::Disposition::Nack(after.map(to_millis)),
        Disposition::Reject(cause) => wit::Disposition::Reject(told_fault(cause)),
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
