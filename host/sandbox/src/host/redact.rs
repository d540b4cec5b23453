//! Keeps secrets that a guest has read out of what it writes to logs and faults, as far as they can be recognised.
//!
//! It finds a value as it was handed out, not one that the guest encoded, cut or hashed.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use waybill_core::one_line::into_one_line;

use crate::text::cut_owned;

/// A shorter value would be found everywhere.
const VALUE_BYTES_MIN: usize = 6;
/// Values remembered: rotation brings new ones, the oldest are forgotten.
const VALUES_MAX: usize = 64;

/// The values handed out to one endpoint.
#[derive(Default)]
pub(crate) struct Redactor {
    /// Most plugins read no secrets, and this is asked for every outcome.
    any: AtomicBool,
    values: RwLock<Vec<String>>,
}

impl Redactor {
    /// Remembers a value. Values that aren't text, and single lines of it, are recognised line by line.
    pub(crate) fn remember(&self, value: &[u8]) {
        let Ok(text) = std::str::from_utf8(value) else { return };
        let mut values = self.values.write();
        for line in std::iter::once(text).chain(text.lines()).map(str::trim) {
            if line.len() >= VALUE_BYTES_MIN && !values.iter().any(|known| known == line) {
                if values.len() >= VALUES_MAX {
                    values.remove(0);
                }
                values.push(line.to_owned());
                self.any.store(true, Ordering::Release);
            }
        }
    }

    /// The text without the values.
    pub(crate) fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.any.load(Ordering::Acquire) {
            return Cow::Borrowed(text);
        }
        let values = self.values.read();
        let mut cleaned = Cow::Borrowed(text);
        for value in values.iter() {
            if cleaned.contains(value.as_str()) {
                cleaned = Cow::Owned(cleaned.replace(value.as_str(), "[redacted]"));
            }
        }
        cleaned
    }

    /// The same for an owned text, on one line and cut to `bytes` afterwards: a cut before could leave half a value.
    pub(crate) fn clean_and_cut(&self, text: String, bytes: usize) -> String {
        let cleaned = match self.clean(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(cleaned) => cleaned,
        };
        cut_owned(into_one_line(cleaned), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_read_is_not_written() {
        let redactor = Redactor::default();
        redactor.remember(b"hunter2hunter2\n");
        redactor.remember(b"abc");
        redactor.remember(b"\xff\xfe\xff\xfe\xff\xfe\xff");
        assert_eq!(redactor.clean("password hunter2hunter2!"), "password [redacted]!");
        assert_eq!(redactor.clean("abc"), "abc");
        assert_eq!(redactor.clean_and_cut("hunter2hunter2\n2026 INFO x".to_owned(), 21), "[redacted]\\n2026 INFO");
    }

    #[test]
    fn memory_is_bounded() {
        let redactor = Redactor::default();
        for n in 0..1_000 {
            redactor.remember(format!("secret-{n}").as_bytes());
        }
        assert_eq!(redactor.values.read().len(), VALUES_MAX);
        assert_eq!(redactor.clean("secret-999"), "[redacted]");
    }
}
