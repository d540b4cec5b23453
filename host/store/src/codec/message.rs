//! A message as CBOR.

use std::sync::Arc;

use bytes::Bytes;
use minicbor::bytes::ByteSlice;
use minicbor::{Decode, Encode};
use waybill_core::annotation::Annotation;
use waybill_core::annotations::Annotations;
use waybill_core::ids::{Key, MessageId, Tenant};
use waybill_core::message::{Message, Payload};
use waybill_core::new_message::usual_event_type;
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;

use super::CodecError;

macro_rules! wire_message {
    ($($variant:ident = $name:ident ($number:tt) { $($unused:tt)* })*) => {
        /// The numbered fields; those of annotations have their numbers from the table, and none is ever given again. What has its
        /// usual value is left out: `event_type` that is `usual_event_type`, `occurred_at` that is `created_at`, version 1, an id made by
        /// the host, no replays, no operation that put it back.
        #[derive(Clone, Debug, Default, Encode, Decode)]
        #[cbor(map)]
        pub struct WireMessage<'b> {
            #[b(0)]
            id: &'b str,
            #[n(1)]
            caller_id: Option<bool>,
            #[b(2)]
            tenant: Option<&'b str>,
            #[b(3)]
            topic: &'b str,
            #[b(4)]
            key: Option<&'b str>,
            #[b(5)]
            headers: Option<Vec<(&'b str, &'b str)>>,
            #[b(7)]
            payload: Option<&'b ByteSlice>,
            #[b(8)]
            blob: Option<&'b str>,
            #[n(9)]
            blob_bytes: Option<u32>,
            #[b(10)]
            event_type: Option<&'b str>,
            #[n(11)]
            event_version: Option<u32>,
            #[n(19)]
            created_at: u64,
            #[n(20)]
            occurred_at: Option<u64>,
            #[n(21)]
            not_before: Option<u64>,
            #[n(22)]
            expires_at: Option<u64>,
            #[b(23)]
            statements: Option<&'b ByteSlice>,
            #[n(24)]
            replays: Option<u32>,
            #[b(25)]
            replayed_by: Option<&'b str>,
            $(
                #[b($number)]
                $name: Option<&'b str>,
            )*
        }

        impl<'b> WireMessage<'b> {
            fn annotate(&mut self, annotations: &'b Annotations) {
                $(self.$name = annotations.get(Annotation::$variant);)*
            }

            fn annotations(&self) -> Annotations {
                let mut annotations = Annotations::default();
                $(annotations.set(Annotation::$variant, self.$name);)*
                annotations
            }
        }
    };
}

waybill_core::annotation_rows!(wire_message);

impl<'b> WireMessage<'b> {
    /// Of a message; with its tenant, or without where the record around it has it.
    pub fn of(message: &'b Message, with_tenant: bool) -> Self {
        let headers = message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let (payload, blob, blob_bytes) = match &message.payload {
            Payload::Inline(bytes) => (Some(<&ByteSlice>::from(bytes.as_ref())), None, None),
            Payload::Blob { blob, bytes } => (None, Some(blob.as_str()), Some(*bytes)),
        };
        let mut wire = Self {
            id: message.id.as_str(),
            caller_id: message.caller_id.then_some(true),
            tenant: with_tenant.then(|| message.tenant.as_str()),
            topic: message.topic.as_str(),
            key: message.key.as_ref().map(Key::as_str),
            headers: (!message.headers.is_empty()).then(|| headers.collect()),
            payload,
            blob,
            blob_bytes,
            event_type: (message.event_type != usual_event_type(&message.topic)).then_some(message.event_type.as_str()),
            event_version: (message.event_version != 1).then_some(message.event_version),
            created_at: message.created_at.0,
            occurred_at: (message.occurred_at != message.created_at).then_some(message.occurred_at.0),
            not_before: message.not_before.map(|at| at.0),
            expires_at: message.expires_at.map(|at| at.0),
            statements: message.statements.as_deref().map(|digest| <&ByteSlice>::from(digest.as_slice())),
            replays: (message.replays != 0).then_some(message.replays),
            replayed_by: message.replayed_by.as_deref(),
            ..Self::default()
        };
        wire.annotate(&message.annotations);
        wire
    }

    /// The message. `shared` has the tenant of the record around it and the last topic seen, which is often the next one's.
    pub fn into_message(self, shared: &mut Shared) -> Result<Message, CodecError> {
        let annotations = self.annotations();
        let topic = shared.topic(self.topic)?;
        let payload = match (self.payload, self.blob) {
            (Some(bytes), _) => Payload::Inline(Bytes::copy_from_slice(bytes)),
            (None, Some(blob)) => Payload::Blob { blob: blob.to_owned(), bytes: self.blob_bytes.unwrap_or(0) },
            (None, None) => Payload::Inline(Bytes::new()),
        };
        let headers = self.headers.unwrap_or_default();
        Ok(Message {
            id: MessageId::new(self.id)?,
            caller_id: self.caller_id.unwrap_or(false),
            tenant: match self.tenant {
                Some(tenant) => Tenant::new(tenant)?,
                None => shared.tenant.clone(),
            },
            key: self.key.map(Key::new).transpose()?,
            headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            payload,
            event_type: self.event_type.unwrap_or_else(|| usual_event_type(&topic)).to_owned(),
            topic,
            event_version: self.event_version.unwrap_or(1),
            annotations,
            occurred_at: UnixMillis(self.occurred_at.unwrap_or(self.created_at)),
            created_at: UnixMillis(self.created_at),
            not_before: self.not_before.map(UnixMillis),
            expires_at: self.expires_at.map(UnixMillis),
            statements: self.statements.and_then(|digest| <[u8; 32]>::try_from(&**digest).ok()).map(Box::new),
            replays: self.replays.unwrap_or(0),
            replayed_by: self.replayed_by.map(Arc::from),
        })
    }
}

/// What the messages of one record share while it is decoded.
#[derive(Debug)]
pub struct Shared {
    tenant: Tenant,
    topic: Option<Topic>,
}

impl Shared {
    /// For messages of one tenant.
    pub fn of(tenant: Tenant) -> Self {
        Self { tenant, topic: None }
    }

    fn topic(&mut self, text: &str) -> Result<Topic, CodecError> {
        match &self.topic {
            Some(topic) if topic.as_str() == text => Ok(topic.clone()),
            _ => {
                let topic = Topic::stored(text)?;
                self.topic = Some(topic.clone());
                Ok(topic)
            }
        }
    }
}

/// Decodes a message that stands alone.
pub fn alone(wire: WireMessage<'_>) -> Result<Arc<Message>, CodecError> {
    wire.into_message(&mut Shared::of(Tenant::unnamed())).map(Arc::new)
}
