//! Indexes over what messages hold (`[[index]]`): for which tenants which header or field of payloads can be looked up.
//!
//! What they hold of a message is a text for each [`ContentField`], as filters compare it, so that a look-up finds what a scan finds: whoever
//! looks one up compares the message with the filter all the same. A payload beside its message (over 64 KiB) has no fields, for filters
//! neither.

use sha2::{Digest, Sha256};

use crate::glob::Glob;
use crate::ids::Tenant;
use crate::message::Message;
use crate::outbox::filter::{ContentField, Held};

/// Indexes of a host: each is a row more for each message that has the field.
pub const INDEXES_MAX: usize = 16;
/// Bytes of a path, and of a value that lies in an index as it is. Of a longer one its sha-256 does.
pub const VALUE_BYTES_MAX: usize = 128;

/// A header, or a field of payloads, that can be looked up of some tenants' messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Whose messages are in it: a tenant, or a pattern with `*`.
    pub tenant: Glob,
    pub field: ContentField,
}

impl Index {
    /// Reads a tenant or a pattern of tenants.
    ///
    /// # Errors
    /// No tenant can have such a name.
    pub fn tenants(text: &str) -> Result<Glob, String> {
        Tenant::new(text).map(|_| Glob::new(text)).map_err(|error| error.to_string())
    }

    /// Reads a field as filters have it.
    ///
    /// # Errors
    /// It is neither a header nor a field of payloads, asks for any of them with a `*`, or couldn't stand in a key.
    pub fn field(text: &str) -> Result<ContentField, String> {
        let takes = "write header.NAME or payload.PATH, e.g. payload.order.id";
        match ContentField::parse(text)? {
            Some(_) if text.len() > VALUE_BYTES_MAX || text.chars().any(char::is_control) => {
                Err(format!("a path has at most {VALUE_BYTES_MAX} bytes and no control characters; {takes}"))
            }
            Some(_) if text.contains('*') => Err(format!("an index is of one field, without *; {takes}")),
            Some(field) => Ok(field),
            None => Err(format!("only headers and fields of payloads are indexed; {takes}")),
        }
    }

    /// Whether every message that a filter on tenants can take is in it, as far as its tenant goes.
    pub fn covers(&self, tenant: Option<&Glob>) -> bool {
        self.tenant.is_any() || tenant.and_then(Glob::exact).is_some_and(|tenant| self.tenant.matches(tenant))
    }
}

/// A value as it lies in an index. Longer ones, and ones that a key can't hold, go by their hash.
pub fn indexed(value: &str) -> String {
    if value.len() <= VALUE_BYTES_MAX && !value.contains('\0') {
        return value.to_owned();
    }
    let digest = Sha256::digest(value.as_bytes());
    digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// What an index of these fields holds of a message, each value once.
pub fn values<'f>(
    fields: impl IntoIterator<Item = &'f ContentField>,
    message: &Message,
) -> Vec<(&'f ContentField, String)> {
    let held = Held::new(&message.headers, message.payload.inline());
    let mut found: Vec<(&ContentField, String)> = Vec::new();
    for field in fields {
        let mut values: Vec<String> = held.texts(field).iter().map(|text| indexed(text)).collect();
        values.sort_unstable();
        values.dedup();
        found.extend(values.into_iter().map(|value| (field, value)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tenant: &str) -> Index {
        Index { tenant: Index::tenants(tenant).unwrap(), field: Index::field("payload.order.id").unwrap() }
    }

    #[test]
    fn an_index_covers_a_filter_that_takes_none_but_its_tenants() {
        for (index, filter, expected) in [
            ("acme", Some("acme"), true),
            ("acme", Some("zeta"), false),
            ("acme", Some("ac*"), false),
            ("acme", None, false),
            ("ac*", Some("acme"), true),
            ("ac*", Some("zeta"), false),
            ("ac*", None, false),
            ("*", Some("acme"), true),
            ("*", Some("ac*"), true),
            ("*", None, true),
        ] {
            assert_eq!(of(index).covers(filter.map(Glob::new).as_ref()), expected, "{index} {filter:?}");
        }
    }

    #[test]
    fn only_one_header_or_one_field_of_payloads_is_indexed() {
        for bad in ["topic", "", "order.id", "header.", "payload.a..b", "payload.*", "header.x-*"] {
            assert!(Index::field(bad).is_err(), "{bad}");
        }
        assert_eq!(Index::field("header.X-Shop").unwrap().name(), "header.x-shop");
        assert_eq!(Index::field("payload.lines.0.sku").unwrap().name(), "payload.lines.0.sku");
    }

    #[test]
    fn long_values_and_those_with_a_nul_lie_there_by_their_hash() {
        let longest = "x".repeat(VALUE_BYTES_MAX);
        assert_eq!(indexed(&longest), longest);
        for value in [format!("{longest}x"), "a\0b".to_owned()] {
            let short = indexed(&value);
            assert!(short.starts_with("sha256:") && short.len() == 7 + 64 && short != indexed("a\0c"), "{short}");
        }
    }
}
