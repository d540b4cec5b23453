//! Single values of the message object: identifiers, JSON kept as its bytes, base64.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;

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
        if is_too_deep(raw.get()) {
            return Err(de::Error::custom(format_args!(
                "the payload is nested deeper than {JSON_DEPTH_MAX}: send it as payload_base64"
            )));
        }
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

/// Whether JSON text is nested deeper than [`JSON_DEPTH_MAX`].
pub(super) fn is_too_deep(json: &str) -> bool {
    // Most payloads haven't as many brackets altogether, which is quickly counted.
    if json.bytes().filter(|b| matches!(b, b'{' | b'[')).count() <= JSON_DEPTH_MAX {
        return false;
    }
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                depth += 1;
                if depth > JSON_DEPTH_MAX {
                    return true;
                }
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}
