//! What came of a key, as it is kept.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::settings::{Keep, Settings};
use crate::limits::IDEMPOTENCY_ERROR_BYTES_MAX;

/// A result. Its digest and size are always kept, its bytes as the settings say ([`Answer::kept`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status, for an answer of this host's own API; none for a result that its caller gave.
    pub status: Option<u16>,
    /// Error code, for an answer that is a problem: kept whatever else is.
    pub code: Option<String>,
    /// Media type of `body`.
    pub content_type: Option<String>,
    /// Address of what was made, for an answer of this host's own API that tells one.
    pub location: Option<String>,
    /// sha-256 of the whole body, in lower-case hex.
    pub sha256: String,
    /// Size of the whole body.
    pub bytes: u64,
    /// The body, if it is kept.
    pub body: Option<Bytes>,
}

impl Answer {
    pub fn new(status: Option<u16>, content_type: Option<String>, body: Bytes) -> Self {
        let sha256 = format!("{:x}", Sha256::digest(&body));
        Self { status, code: None, content_type, location: None, sha256, bytes: body.len() as u64, body: Some(body) }
    }

    /// A result that its caller gave: the text of a JSON value.
    pub fn of_json(text: impl Into<Bytes>) -> Self {
        Self::new(None, Some("application/json".to_owned()), text.into())
    }

    /// What of it is stored: without its body when only digests are kept, or when it is larger than the bound.
    #[must_use]
    pub fn kept(mut self, settings: &Settings) -> Self {
        if settings.keep == Keep::Digest || self.bytes > settings.result_bytes_max as u64 {
            self.body = None;
        }
        self
    }

    /// Bytes that it takes in memory, roughly.
    pub fn weight(&self) -> usize {
        self.body.as_ref().map_or(0, Bytes::len) + self.content_type.as_ref().map_or(0, String::len) + 64
    }
}

/// An error as it is kept: at most [`IDEMPOTENCY_ERROR_BYTES_MAX`] bytes, and a note of how long it was if it was longer.
pub fn cut_error(error: &str) -> String {
    if error.len() <= IDEMPOTENCY_ERROR_BYTES_MAX {
        return error.to_owned();
    }
    let note = format!("... (cut, {} bytes)", error.len());
    let mut end = IDEMPOTENCY_ERROR_BYTES_MAX - note.len();
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{note}", error.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_answer_above_the_bound_keeps_its_digest_and_size() {
        let settings = Settings { result_bytes_max: 4, ..Settings::default() };
        let whole = Answer::of_json("1234");
        assert_eq!(whole.clone().kept(&settings), whole);
        let large = Answer::of_json("12345").kept(&settings);
        assert_eq!((large.body, large.bytes), (None, 5));
        assert_eq!(large.sha256, "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5");
        let digest = Settings { keep: Keep::Digest, ..Settings::default() };
        assert_eq!(whole.kept(&digest).body, None);
    }

    #[test]
    fn a_long_error_is_cut_between_characters_and_says_so() {
        assert_eq!(cut_error("no"), "no");
        let cut = cut_error(&"ä".repeat(IDEMPOTENCY_ERROR_BYTES_MAX));
        assert!(cut.len() <= IDEMPOTENCY_ERROR_BYTES_MAX);
        assert!(cut.ends_with("ä... (cut, 8192 bytes)"), "{cut}");
    }
}
