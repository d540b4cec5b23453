//! What an operator may set. The manifest's schema says the same for the host; here it becomes types.

use std::collections::BTreeMap;

use serde::Deserialize;
use waybill_plugin::broker::{self, Address, Common, Scheme, Tls, positive};
use waybill_plugin::transport::PluginError;

use crate::address::{Place, SCHEME};
use crate::provision::Wanted;
use crate::table::columns::{Layout, Role};
use crate::table::names;
use crate::table::settings::{Undue, Words};

pub(crate) type Config = broker::Config<Keys>;

/// The keys beside those of every broker. Its hosts stand in `url`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    url: String,
    table: String,
    /// none = by the columns that are there.
    pub(crate) layout: Option<Layout>,
    /// What columns are called, by what they are for.
    pub(crate) columns: BTreeMap<Role, String>,
    pub(crate) words: Words,
    /// Columns; the row's key is added where it is missing. Empty = the layout's.
    pub(crate) order_by: Vec<String>,
    /// Text with places for columns, as the next three.
    pub(crate) topic: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) aggregate: Option<String>,
    /// What counts are shown under; none = the first token of the topic.
    pub(crate) context: Option<String>,
    /// Of rows that don't name one.
    pub(crate) content_type: String,
    pub(crate) undue: Undue,
    /// Deletes what is published.
    pub(crate) delete: bool,
    /// How a source has rows in hand.
    pub(crate) claim: ClaimBy,
    /// Milliseconds after which another worker's claim counts as waiting.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) claim_ttl: u32,
    /// Milliseconds that a source's transaction may stay open.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) settle_within: u32,
    /// Milliseconds between two looks at a table where nothing waits.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) poll_every: u32,
    /// Milliseconds after which the server ends a statement.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) statement_timeout: u32,
    /// Milliseconds between two signs of life of an idle connection.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) ping_every: u32,
    /// Bytes of the largest payload that is sent.
    pub(crate) max_payload_bytes: u32,
    /// The channel on which somebody notifies; none = nobody does.
    pub(crate) listen: Option<String>,
    /// A pooler is between us and the server that hands each transaction to another one.
    pub(crate) pooler: bool,
    /// What is created at the server when the operator asks for it.
    pub(crate) provision: Wanted,
}

/// How a source has rows in hand that it brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClaimBy {
    /// By their locks, in a transaction that stays open until they are settled.
    Transaction,
    /// By the word for it in their status, which other workers see.
    Row,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            url: String::new(),
            table: "outbox_events".to_owned(),
            layout: None,
            columns: BTreeMap::new(),
            words: Words::default(),
            order_by: Vec::new(),
            topic: None,
            key: None,
            id: None,
            aggregate: None,
            context: None,
            content_type: "application/json".to_owned(),
            undue: Undue::Block,
            delete: false,
            claim: ClaimBy::Transaction,
            claim_ttl: 300_000,
            settle_within: 30_000,
            poll_every: 250,
            statement_timeout: 30_000,
            ping_every: 30_000,
            max_payload_bytes: 1_048_576,
            listen: None,
            pooler: false,
            provision: Wanted::default(),
        }
    }
}

impl broker::Keys for Keys {
    const SCHEME: Scheme = SCHEME;

    fn addresses(&self, _: &Common) -> Result<Vec<Address>, PluginError> {
        self.place().map(|place| place.addresses)
    }

    fn check(&self, common: &Common) -> Result<(), PluginError> {
        let wrong = |path: &str, why: &str| Err(PluginError::invalid_config(path, why));
        let place = self.place()?;
        self.table()?;
        self.words.check().map_err(|why| PluginError::invalid_config("words", why))?;
        positive(&[
            ("claim_ttl", self.claim_ttl),
            ("settle_within", self.settle_within),
            ("poll_every", self.poll_every),
            ("statement_timeout", self.statement_timeout),
            ("ping_every", self.ping_every),
            ("max_payload_bytes", self.max_payload_bytes),
        ])?;
        match common.tls {
            Tls::Off if place.addresses.iter().any(|address| address.tls) => {
                return wrong("url", "has an sslmode that wants TLS, and `tls` is off: leave one of them out");
            }
            Tls::Required if place.is_plain => {
                return wrong("url", "has sslmode=disable, and `tls` is required: leave one of them out");
            }
            Tls::First => {
                return wrong("tls", "is `first`, which no server before PostgreSQL 17 knows: write required");
            }
            _ => {}
        }
        match &self.listen {
            Some(channel) if channel.is_empty() || channel.len() > CHANNEL_BYTES_MAX || channel.contains('\0') => {
                wrong("listen", "is no channel: 1 to 63 bytes")
            }
            Some(_) if self.pooler => {
                wrong("listen", "can't be had through a pooler: leave it out, or connect past it")
            }
            _ => Ok(()),
        }
    }
}

/// Longest name at the server, in bytes.
const CHANNEL_BYTES_MAX: usize = 63;

impl Keys {
    /// Where the database is.
    ///
    /// # Errors
    /// The URL can't be read.
    pub(crate) fn place(&self) -> Result<Place, PluginError> {
        Place::parse(&self.url).map_err(|why| PluginError::invalid_config("url", &why))
    }

    /// The table as it stands in a statement.
    ///
    /// # Errors
    /// Its name can't be read.
    pub(crate) fn table(&self) -> Result<String, PluginError> {
        names::table(&self.table).map_err(|why| PluginError::invalid_config("table", why))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn checked(json: &str) -> Result<Config, String> {
        let config: Config = waybill_plugin::config::parse(json).map_err(|error| error.path)?;
        config.check().map_err(|error| error.fault.attributes.into_iter().map(|(_, path)| path).collect::<String>())?;
        Ok(config)
    }

    #[test]
    fn a_url_is_enough() {
        let config = checked(r#"{"url":"postgres://app@127.0.0.1/shop"}"#).unwrap();
        assert_eq!(config.addresses().unwrap().first().unwrap().uri(), "tcp://127.0.0.1:5432");
        assert_eq!((config.own.table().unwrap().as_str(), config.own.claim_ttl), ("\"outbox_events\"", 300_000));
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (more, path) in [
            (r#""url":"nats://a""#, "url"),
            (r#""url":"postgres://app:secret@a/b""#, "url"),
            (r#""url":"postgres://a/b?sslmode=require","tls":"off""#, "url"),
            (r#""url":"postgres://a/b?sslmode=disable","tls":"required""#, "url"),
            (r#""url":"postgres://a/b","tls":"first""#, "tls"),
            (r#""url":"postgres://a/b","table":"a b""#, "table"),
            (r#""url":"postgres://a/b","words":{"failed":"pending"}"#, "words"),
            (r#""url":"postgres://a/b","claim_ttl":0"#, "claim_ttl"),
            (r#""url":"postgres://a/b","claim":"lease""#, "claim"),
            (r#""url":"postgres://a/b","columns":{"colour":"a"}"#, "columns.?"),
            (r#""url":"postgres://a/b","listen":"""#, "listen"),
            (r#""url":"postgres://a/b","listen":"a","pooler":true"#, "listen"),
            (r#""url":"postgres://a/b","connections":0"#, "connections"),
            (r#""url":"postgres://a/b","tables":"a""#, "tables"),
        ] {
            assert_eq!(checked(&format!("{{{more}}}")).unwrap_err(), path, "{more}");
        }
        assert_eq!(checked("{}").unwrap_err(), "url");
    }
}
