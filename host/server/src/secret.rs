//! Secrets that the host makes for browsers: sessions, forms, tickets, sign-ins.

use ulid::Ulid;

/// The random bits of two: 160.
pub(crate) fn secret() -> String {
    format!("{}{}", Ulid::new(), Ulid::new()).to_lowercase()
}
