//! Single values of the message object: identifiers, JSON kept as its bytes, base64.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;
use waybill_core::json_text::check;

use crate::limits::JSON_DEPTH_MAX;

/// Standard alphabet, padded or not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An identifier: a text, or an integer (serial columns of the source documents) taken as its digits.
pub(super) struct Identity(pub(super) String);

impl<'de> Deserialize<'de> for Identity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdentityVisitor;
        impl Visitor<'_> for IdentityVisitor {
            type Value = Identity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or an integer")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Identity, E> {
                Ok(Identity(text.to_owned()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Identity, E> {
                Ok(Identity(number.to_string()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Identity, E> {
                Ok(Identity(number.to_string()))
            }
        }
        deserializer.deserialize_any(IdentityVisitor)
    }
}

/// JSON of any shape, as its bytes.
pub(super) struct Json(pub(super) Bytes);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &RawValue = Deserialize::deserialize(deserializer)?;
        check(raw.get(), JSON_DEPTH_MAX)
            .map_err(|why| de::Error::custom(format_args!("{why}; or send the payload as payload_base64")))?;
        Ok(Self(Bytes::copy_from_slice(raw.get().as_bytes())))
    }
}

/// Bytes as base64 text.
pub(super) struct Base64(pub(super) Bytes);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Base64Visitor;
        impl Visitor<'_> for Base64Visitor {
            type Value = Base64;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64 text")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Base64, E> {
                let bytes = BASE64
                    .decode(text)
                    .map_err(|error| E::custom(format_args!("payload_base64 isn't base64: {error}")))?;
                Ok(Base64(bytes.into()))
            }
        }
        deserializer.deserialize_str(Base64Visitor)
    }
}
