//! Instants: RFC 3339 text or integer epoch milliseconds in, RFC 3339 out.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use utoipa::PartialSchema;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema, SchemaFormat};
use waybill_core::time::UnixMillis;

/// Integers below this (March 1973 in milliseconds) are taken for seconds and refused: as a `not_before` they would
/// send at once what was meant for later.
const MILLIS_MIN: u64 = 100_000_000_000;

/// The last instant that is taken, at the end of the year 9999 in every time zone.
const MILLIS_MAX: u64 = 253_402_207_199_999;

/// An instant on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub UnixMillis);

impl From<UnixMillis> for Instant {
    fn from(instant: UnixMillis) -> Self {
        Self(instant)
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InstantVisitor)
    }
}

struct InstantVisitor;

impl Visitor<'_> for InstantVisitor {
    type Value = Instant;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an instant: RFC 3339 text like \"2026-11-21T09:30:00Z\", or integer milliseconds since 1970")
    }

    fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Instant, E> {
        if ms < MILLIS_MIN {
            return Err(E::custom(format_args!(
                "{ms} milliseconds since 1970 look like seconds: multiply by 1000, or write RFC 3339 text"
            )));
        }
        if ms > MILLIS_MAX {
            return Err(E::custom(format_args!("{ms} milliseconds since 1970 lie beyond the year 9999")));
        }
        Ok(Instant(UnixMillis(ms)))
    }

    fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Instant, E> {
        match u64::try_from(ms) {
            Ok(ms) => self.visit_u64(ms),
            Err(_) => Err(E::custom("an instant before 1970 isn't taken")),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Instant, E> {
        let instant: jiff::Timestamp = text
            .parse()
            .map_err(|_| E::custom(format_args!("{text:?} isn't an instant: write RFC 3339 text like \"2026-11-21T09:30:00Z\", or integer milliseconds since 1970")))?;
        match u64::try_from(instant.as_millisecond()) {
            Ok(ms) => Ok(Instant(UnixMillis(ms))),
            Err(_) => Err(E::custom("an instant before 1970 isn't taken")),
        }
    }
}

impl PartialSchema for Instant {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
        let number =
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(MILLIS_MIN)).maximum(Some(MILLIS_MAX));
        OneOfBuilder::new()
            .item(text)
            .item(number)
            .description(Some("RFC 3339 text, or integer milliseconds since 1970, of an instant from 1970 to 9999. Answers always hold the text."))
            .into()
    }
}

impl utoipa::ToSchema for Instant {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_milliseconds_are_the_same_instant() {
        let read = |text: &str| serde_json::from_str::<Instant>(text).map(|instant| instant.0.0);
        for text in ["1700000000123", "\"2023-11-14T22:13:20.123Z\"", "\"2023-11-15T00:13:20.123+02:00\""] {
            assert_eq!(read(text).unwrap(), 1_700_000_000_123, "{text}");
        }
        for text in [
            "1700000000",
            "0",
            "-1",
            "1.7e12",
            "\"tomorrow\"",
            "\"2023-11-14\"",
            "\"2023-11-14T22:13:20\"",
            "true",
            "{}",
            "18446744073709551615",
            "\"1969-01-01T00:00:00Z\"",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(
            serde_json::to_string(&Instant(UnixMillis(1_700_000_000_123))).unwrap(),
            "\"2023-11-14T22:13:20.123Z\""
        );
    }
}
