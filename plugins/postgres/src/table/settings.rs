//! What a table's words are, and what is done with rows that aren't due.

use serde::Deserialize;

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

impl Words {
    /// Checks what can be known without the table.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let Self { pending, processing, published, failed, dead } = self;
        if pending.is_empty() || published.is_empty() || failed.is_empty() || dead.is_empty() {
            return Err("only `processing` may be empty");
        }
        let words = [pending, processing, published, failed];
        if words.iter().enumerate().any(|(place, word)| words.iter().skip(place + 1).any(|other| other == word)) {
            return Err("two of them are the same");
        }
        if [pending, processing, published, failed, dead].iter().any(|word| word.contains('\0')) {
            return Err("one of them has a zero byte");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn words_have_to_differ() {
        for (json, good) in [
            ("{}", true),
            (r#"{"processing":""}"#, true),
            (r#"{"pending":""}"#, false),
            (r#"{"pending":"failed"}"#, false),
        ] {
            let words: Words = waybill_plugin::config::parse(json).unwrap();
            assert_eq!(words.check().is_ok(), good, "{json}");
        }
    }
}
