//! Every error code that the host itself tells, each in one row: its text, and how the API answers with it.
//!
//! The compiler reads a code's page in `docs/errors` with its row, so the two can't disagree. What plugins, workers and
//! participants report at run time has a code as text ([`crate::port::transport::Fault`]), which needn't be one of these.
//!
//! | file | codes |
//! |---|---|
//! | `api.rs` | `AUTH`, `HTTP`, `PROVIDER`, `SCHEMA`, `UNKNOWN` |
//! | `command.rs` | `CLI`, `CLIENT`, `CONFIG` |
//! | `inbox.rs` | `HANDLER`, `INBOX`, and those of the inbox without a dot |
//! | `outbox.rs` | `DEAD`, `EXTERNAL`, `OPERATION`, `OUTBOX`, `QUARANTINE`, `TRANSPORT`, and those without a dot |
//! | `plugin.rs` | `PLUGIN`, `SOURCE` |
//! | `saga.rs` | `SAGA` |
//! | `storage.rs` | `STORAGE`, `TX` |
//! | `stream.rs` | `EVENT`, `RELAY`, `STREAM`, `SCHEMA.VERSION` |

use std::fmt;

/// Rows of codes: `NAME = "TEXT";` for one that no request is answered with, else
/// `NAME = "TEXT" => answered(STATUS, TITLE, FIX);` or `retryable(...)`. Its page begins with the text and names the status.
macro_rules! codes {
    ($($name:ident = $text:literal $(=> $kind:ident($status:literal, $title:literal, $fix:literal))?;)*) => {
        impl super::Code {
            $(
                #[doc = concat!("`", $text, "`" $(, ": ", $title)?)]
                pub const $name: Self = Self(&super::Row {
                    text: $text,
                    answer: codes!(@answer $(super::Answer::$kind($status, $title, $fix))?),
                });
            )*
        }

        pub(super) const CODES: &[super::Code] = &[$(super::Code::$name),*];

        $(
            const _: () = {
                let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors/", $text, ".md"));
                assert!(crate::const_text::begins(page.as_bytes(), concat!("# ", $text, "\n").as_bytes()), "the page has another heading");
                assert!(
                    super::Code::$name.is_answer() || !crate::const_text::has(page.as_bytes(), b"Seen as: HTTP "),
                    "the page has a status, the code has none"
                );
                $(assert!(crate::const_text::has(page.as_bytes(), concat!("HTTP ", $status).as_bytes()), "the page has another status");)?
            };
        )*
    };
    (@answer) => { None };
    (@answer $answer:expr) => { Some($answer) };
}

mod api;
mod command;
mod inbox;
mod outbox;
mod plugin;
mod saga;
mod storage;
mod stream;

/// A stable error code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(&'static Row);

#[derive(PartialEq, Eq)]
struct Row {
    text: &'static str,
    answer: Option<Answer>,
}

/// How the API answers with a code.
#[derive(PartialEq, Eq)]
struct Answer {
    status: u16,
    title: &'static str,
    retryable: bool,
    fix: &'static str,
}

impl Answer {
    const fn answered(status: u16, title: &'static str, fix: &'static str) -> Self {
        Self { status, title, retryable: false, fix }
    }

    const fn retryable(status: u16, title: &'static str, fix: &'static str) -> Self {
        Self { status, title, retryable: true, fix }
    }
}

impl Code {
    pub fn all() -> impl Iterator<Item = Self> {
        let families = [
            api::CODES,
            command::CODES,
            inbox::CODES,
            outbox::CODES,
            plugin::CODES,
            saga::CODES,
            storage::CODES,
            stream::CODES,
        ];
        families.into_iter().flatten().copied()
    }

    /// The code with this text, if it is the host's.
    pub fn of(text: &str) -> Option<Self> {
        Self::all().find(|code| code.0.text == text)
    }

    pub const fn as_str(self) -> &'static str {
        self.0.text
    }

    /// Requests are answered with it.
    pub const fn is_answer(self) -> bool {
        self.0.answer.is_some()
    }

    /// HTTP status. This and the other parts of an answer are those of [`Self::UNKNOWN_INTERNAL`] where
    /// [`Self::is_answer`] is false.
    pub fn status(self) -> u16 {
        self.answer().status
    }

    /// The same for every occurrence.
    pub fn title(self) -> &'static str {
        self.answer().title
    }

    /// The same request may succeed later.
    pub fn retryable(self) -> bool {
        self.answer().retryable
    }

    pub fn fix(self) -> &'static str {
        self.answer().fix
    }

    fn answer(self) -> &'static Answer {
        self.0.answer.as_ref().unwrap_or_else(|| Self::UNKNOWN_INTERNAL.answer())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.text)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.text)
    }
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        self.0.text
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.0.text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_sorted_and_well_formed() {
        let families = [
            api::CODES,
            command::CODES,
            inbox::CODES,
            outbox::CODES,
            plugin::CODES,
            saga::CODES,
            storage::CODES,
            stream::CODES,
        ];
        for family in families {
            assert!(family.is_sorted_by_key(|code| code.as_str()), "{family:?} isn't in order");
        }
        let mut seen = std::collections::BTreeSet::new();
        for code in Code::all() {
            assert!(seen.insert(code.as_str()), "{code} twice");
            assert!((400..600).contains(&code.status()), "{code}");
            assert!(!code.title().ends_with('.') && code.fix().ends_with('.'), "{code}");
            assert!(code.as_str().bytes().all(|b| b.is_ascii_uppercase() || b == b'.' || b == b'_'), "{code}");
        }
    }

    /// What a reader would write into the configuration or the shell is there.
    #[test]
    fn fixes_name_what_exists() {
        for code in [Code::AUTH_REQUIRED, Code::AUTH_HOST, Code::AUTH_ORIGIN, Code::AUTH_PROXY] {
            assert!(code.fix().contains("[[auth.token]]"), "{code}");
        }
        assert!(Code::STORAGE_CORRUPT.fix().contains("`waybill quarantine list`"));
        assert!(Code::HTTP_OVERLOADED.title().contains("connections"));
    }

    #[test]
    fn a_code_that_no_request_is_answered_with_is_an_internal_error() {
        assert_eq!(Code::of("NOPE"), None);
        let (paused, internal) = (Code::of("OUTBOX.PAUSED").unwrap(), Code::UNKNOWN_INTERNAL);
        assert!(!paused.is_answer() && internal.is_answer());
        assert_eq!((paused.status(), paused.title()), (500, internal.title()));
    }
}
