//! A message that a source brought, as CBOR.

use std::sync::Arc;

use bytes::Bytes;
use minicbor::bytes::ByteSlice;
use minicbor::{Decode, Encode};
use waybill_core::ids::{InboundId, Key, SourceName, Tenant};
use waybill_core::inbox::message::{InboundMessage, context_of};
use waybill_core::time::UnixMillis;

use super::Infallible;
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

/// The numbered fields. What has its usual value is left out: a context that is the subject's first token.
#[derive(Clone, Debug, Encode, Decode)]
#[cbor(map)]
pub struct WireInbound<'b> {
    #[b(0)]
    id: &'b str,
    #[b(1)]
    source: &'b str,
    #[b(2)]
    tenant: &'b str,
    #[b(3)]
    subject: &'b str,
    #[b(4)]
    context: Option<&'b str>,
    #[b(5)]
    key: Option<&'b str>,
    #[b(6)]
    headers: Option<Vec<(&'b str, &'b str)>>,
    #[b(7)]
    content_type: Option<&'b str>,
    #[b(8)]
    payload: Option<&'b ByteSlice>,
    #[b(9)]
    event_type: Option<&'b str>,
    #[n(10)]
    event_version: Option<u32>,
    #[b(11)]
    correlation_id: Option<&'b str>,
    #[b(12)]
    causation_id: Option<&'b str>,
    #[b(13)]
    reply_to: Option<&'b str>,
    #[n(14)]
    occurred_at: Option<u64>,
    #[n(15)]
    received_at: u64,
    #[b(16)]
    position: Option<&'b str>,
    #[b(17)]
    attributes: Option<Vec<(&'b str, &'b str)>>,
    #[n(18)]
    omitted: Option<u64>,
}

/// Name and value pairs; none where there are none.
fn pairs(pairs: &[(String, String)]) -> Option<Vec<(&str, &str)>> {
    let texts = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    (!pairs.is_empty()).then(|| texts.collect())
}

fn owned_pairs(pairs: Option<Vec<(&str, &str)>>) -> Vec<(String, String)> {
    pairs.unwrap_or_default().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

impl<'b> WireInbound<'b> {
    pub fn of(message: &'b InboundMessage) -> Self {
        let is_usual = message.context == context_of(&message.subject);
        Self {
            id: message.id.as_str(),
            source: message.source.as_str(),
            tenant: message.tenant.as_str(),
            subject: &message.subject,
            context: (!is_usual).then_some(message.context.as_str()),
            key: message.key.as_ref().map(Key::as_str),
            headers: pairs(&message.headers),
            content_type: message.content_type.as_deref(),
            payload: (!message.payload.is_empty()).then(|| <&ByteSlice>::from(message.payload.as_ref())),
            event_type: message.event_type.as_deref(),
            event_version: message.event_version,
            correlation_id: message.correlation_id.as_deref(),
            causation_id: message.causation_id.as_deref(),
            reply_to: message.reply_to.as_deref(),
            occurred_at: message.occurred_at.map(|at| at.0),
            received_at: message.received_at.0,
            position: message.position.as_deref(),
            attributes: pairs(&message.attributes),
            omitted: message.omitted,
        }
    }

    pub fn into_message(self) -> Result<Arc<InboundMessage>, CodecError> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ok(Arc::new(InboundMessage {
            id: InboundId::new(self.id)?,
            source: SourceName::new(self.source)?,
            tenant: Tenant::new(self.tenant)?,
            subject: self.subject.to_owned(),
            context: self.context.unwrap_or_else(|| context_of(self.subject)).to_owned(),
            key: self.key.map(Key::new).transpose()?,
            headers: owned_pairs(self.headers),
            content_type: owned(self.content_type),
            payload: self.payload.map_or_else(Bytes::new, |payload| Bytes::copy_from_slice(payload)),
            event_type: owned(self.event_type),
            event_version: self.event_version,
            correlation_id: owned(self.correlation_id),
            causation_id: owned(self.causation_id),
            reply_to: owned(self.reply_to),
            occurred_at: self.occurred_at.map(UnixMillis),
            received_at: UnixMillis(self.received_at),
            position: owned(self.position),
            attributes: owned_pairs(self.attributes),
            omitted: self.omitted,
        }))
    }
}

pub fn encode_inbound(message: &InboundMessage) -> Result<Vec<u8>, Infallible> {
    let mut bytes = envelope::begin(message.weight());
    minicbor::encode(WireInbound::of(message), &mut bytes)?;
    Ok(envelope::seal(Kind::Inbound, bytes))
}

pub fn decode_inbound(bytes: &[u8]) -> Result<Arc<InboundMessage>, CodecError> {
    let wire: WireInbound<'_> = minicbor::decode(envelope::open(Kind::Inbound, bytes)?)?;
    wire.into_message()
}
