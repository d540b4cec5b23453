//! What an operator may say about a table. Everything but the place of document 5's rows has a default.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::columns::{Layout, Role};
use super::names;

/// The keys that describe a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    pub(crate) table: String,
    /// none = by the columns that are there.
    pub(crate) layout: Option<Layout>,
    /// What columns are called, by what they are for.
    pub(crate) columns: BTreeMap<Role, String>,
    pub(crate) words: Words,
    /// Columns; the row's key is added where it is missing. Empty = the layout's.
    pub(crate) order_by: Vec<String>,
    pub(crate) topic: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) aggregate: Option<String>,
    pub(crate) undue: Undue,
    /// Deletes what is published.
    pub(crate) delete: bool,
    /// Milliseconds after which another worker's claim counts as waiting.
    #[serde(deserialize_with = "waybill_plugin::config::millis")]
    pub(crate) claim_ttl: u32,
    /// Of rows that don't name one.
    pub(crate) content_type: String,
    /// What counts are shown under; none = the first token of the topic.
    pub(crate) context: Option<String>,
}

/// What the column `status` says, and how a dead row's error begins where there is none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Words {
    pub(crate) pending: String,
    /// Empty: nobody claims by a word.
    pub(crate) processing: String,
    pub(crate) published: String,
    pub(crate) failed: String,
    /// Of the last error, in the layout without statuses.
    pub(crate) dead: String,
}

/// What a row is to its aggregate that was never tried and isn't due yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Undue {
    /// Nothing behind it goes.
    #[default]
    Block,
    /// It joins when it is due.
    Aside,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            table: "outbox_events".to_owned(),
            layout: None,
            columns: BTreeMap::new(),
            words: Words::default(),
            order_by: Vec::new(),
            topic: None,
            key: None,
            id: None,
            aggregate: None,
            undue: Undue::Block,
            delete: false,
            claim_ttl: 300_000,
            content_type: "application/json".to_owned(),
            context: None,
        }
    }
}

impl Default for Words {
    fn default() -> Self {
        Self {
            pending: "pending".to_owned(),
            processing: "processing".to_owned(),
            published: "published".to_owned(),
            failed: "failed".to_owned(),
            dead: "DEAD ".to_owned(),
        }
    }
}

impl Settings {
    /// The table as it stands in a statement.
    ///
    /// # Errors
    /// The key, and what is wrong with its value.
    pub(crate) fn name(&self) -> Result<String, (String, String)> {
        names::table(&self.table).map_err(|why| ("table".to_owned(), why.to_owned()))
    }

    /// Checks what can be known without the table.
    ///
    /// # Errors
    /// The key, and what is wrong with its value.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        self.name()?;
        let wrong = |place: &str, why: &str| Err((place.to_owned(), why.to_owned()));
        let Words { pending, processing, published, failed, dead } = &self.words;
        if pending.is_empty() || published.is_empty() || failed.is_empty() || dead.is_empty() {
            return wrong("words", "only `processing` may be empty");
        }
        let words = [pending, processing, published, failed];
        if words.iter().enumerate().any(|(place, word)| words.iter().skip(place + 1).any(|other| other == word)) {
            return wrong("words", "two of them are the same");
        }
        if [pending, processing, published, failed, dead].iter().any(|word| word.contains('\0')) {
            return wrong("words", "one of them has a zero byte");
        }
        if self.claim_ttl == 0 {
            return wrong("claim_ttl", "is 0: write more than that");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn place(json: &str) -> String {
        let settings: Settings = waybill_plugin::config::parse(json).unwrap();
        settings.check().map_or_else(|(place, _)| place, |()| String::new())
    }

    #[test]
    fn what_can_not_work_is_refused_with_its_place() {
        for (json, expected) in [
            ("{}", ""),
            (r#"{"words":{"processing":""}}"#, ""),
            (r#"{"words":{"pending":""}}"#, "words"),
            (r#"{"words":{"pending":"failed"}}"#, "words"),
            (r#"{"table":"a b"}"#, "table"),
            (r#"{"claim_ttl":0}"#, "claim_ttl"),
        ] {
            assert_eq!(place(json), expected, "{json}");
        }
    }
}
