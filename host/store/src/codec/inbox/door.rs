//! What the inbox left for a saga: a signal, or a reply to a step.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use waybill_core::ids::Tenant;
use waybill_core::inbox::records::SagaDoorItem;
use waybill_core::port::saga::{ReplyFailure, StepReply};
use waybill_core::saga::event::{Failure, StepDirection};
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;

use super::Infallible;
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};
use crate::codec::saga::{WireEnum, lacking, unknown};

/// What an item is: its number is never used again for something else.
const SIGNAL: u8 = 0;
const REPLY: u8 = 1;

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireItem<'b> {
    #[n(0)]
    kind: u8,
    #[b(1)]
    tenant: &'b str,
    #[b(2)]
    saga: &'b str,
    /// Name of the signal, or of the step.
    #[b(3)]
    name: &'b str,
    /// What the signal brings, or the output of the step.
    #[b(4)]
    data: Option<&'b str>,
    #[b(5)]
    by: Option<&'b str>,
    #[n(6)]
    way: Option<u8>,
    #[n(7)]
    attempt: Option<u32>,
    #[b(8)]
    failure: Option<WireFailure<'b>>,
}

#[derive(Encode, Decode)]
struct WireFailure<'b> {
    #[b(0)]
    code: &'b str,
    #[b(1)]
    reason: &'b str,
    #[n(2)]
    maybe_done: bool,
    #[n(3)]
    retryable: bool,
}

pub fn encode_saga_door(item: &SagaDoorItem) -> Result<Vec<u8>, Infallible> {
    let wire = match item {
        SagaDoorItem::Signal { key, name, data, by } => WireItem {
            kind: SIGNAL,
            tenant: key.tenant.as_str(),
            saga: key.id.as_str(),
            name,
            data: Some(data.as_str()),
            by: Some(by.as_str()),
            way: None,
            attempt: None,
            failure: None,
        },
        SagaDoorItem::Reply { tenant, reply } => WireItem {
            kind: REPLY,
            tenant: tenant.as_str(),
            saga: reply.id.as_str(),
            name: &reply.step,
            data: reply.result.as_ref().ok().map(Json::as_str),
            by: None,
            way: Some(reply.way.number()),
            attempt: reply.attempt,
            failure: reply.result.as_ref().err().map(|failed| WireFailure {
                code: &failed.failure.code,
                reason: &failed.failure.reason,
                maybe_done: failed.failure.maybe_done,
                retryable: failed.retryable,
            }),
        },
    };
    let mut bytes = envelope::begin(wire.data.map_or(0, str::len) + 128);
    minicbor::encode(wire, &mut bytes)?;
    Ok(envelope::seal(Kind::SagaDoor, bytes))
}

fn json(text: Option<&str>, what: &str) -> Result<Json, CodecError> {
    Json::stored(text.ok_or_else(|| lacking(what))?)
        .map_err(|error| CodecError::Damaged(format!("a stored JSON text isn't valid: {error}")))
}

pub fn decode_saga_door(bytes: &[u8]) -> Result<SagaDoorItem, CodecError> {
    let wire: WireItem<'_> = minicbor::decode(envelope::open(Kind::SagaDoor, bytes)?)?;
    let (tenant, id) = (Tenant::new(wire.tenant)?, SagaId::new(wire.saga)?);
    match wire.kind {
        SIGNAL => Ok(SagaDoorItem::Signal {
            key: SagaKey { tenant, id },
            name: wire.name.to_owned(),
            data: json(wire.data, "what a signal brings")?,
            by: wire.by.unwrap_or("").to_owned(),
        }),
        REPLY => {
            let result = match wire.failure {
                Some(failed) => Err(ReplyFailure {
                    failure: Failure {
                        code: Arc::from(failed.code),
                        reason: Arc::from(failed.reason),
                        maybe_done: failed.maybe_done,
                    },
                    retryable: failed.retryable,
                }),
                None => Ok(json(wire.data, "the output of a step")?),
            };
            let way = StepDirection::of(wire.way.ok_or_else(|| lacking("the way of a reply"))?)?;
            let reply = StepReply { id, step: wire.name.to_owned(), way, attempt: wire.attempt, result };
            Ok(SagaDoorItem::Reply { tenant, reply: Box::new(reply) })
        }
        other => Err(unknown("SagaDoorItem", other)),
    }
}
