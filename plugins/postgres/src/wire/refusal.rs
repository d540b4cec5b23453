//! Errors of the server by their SQLSTATE: what is at fault, and what follows.

use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::ErrorFields;
use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

use crate::table::marks::SHORT;

/// What is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The values of this statement: a constraint, a trigger, a value that doesn't fit.
    Row,
    /// Two transactions met: the same once more may go well.
    Conflict,
    /// The server, for a while.
    Server,
    /// The same, and another server may do it.
    Elsewhere,
    /// Our credentials or rights.
    Denied,
    /// The table, a column or a setting isn't as the configuration says.
    Table,
    /// A statement that we took for known isn't: there is a pooler between us and the server, or the table was changed.
    Forgotten,
}

/// A refusal of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) class: Class,
    code: &'static str,
    advice: &'static str,
    message: String,
    sqlstate: String,
    /// The session is over.
    pub(crate) is_fatal: bool,
}

/// By SQLSTATE, or its first letters: the longest that fits.
const STATES: &[(&str, Class, &str, &str)] = &[
    ("0A000", Class::Forgotten, "POSTGRES.ERROR", "the table was changed meanwhile; the next connection sees it"),
    ("08", Class::Server, "POSTGRES.LOST", "see the server's log"),
    ("22", Class::Row, "POSTGRES.REFUSED_ROW", "a value doesn't fit its column"),
    ("23", Class::Row, "POSTGRES.REFUSED_ROW", "a constraint of the table refuses it"),
    ("25006", Class::Elsewhere, "POSTGRES.READ_ONLY", "the server takes no writes: name its primary in `url`"),
    ("25P03", Class::Server, "POSTGRES.IDLE", "the server ended a transaction that had been idle for too long"),
    (
        "26000",
        Class::Forgotten,
        "POSTGRES.POOLER",
        "a pooler hands each transaction to another server: set `pooler = true`",
    ),
    ("28", Class::Denied, "POSTGRES.AUTH", "check user and password, and the server's pg_hba.conf"),
    ("3D000", Class::Denied, "POSTGRES.NO_DATABASE", "create the database, or name another in `url`"),
    ("3F000", Class::Table, "POSTGRES.NO_TABLE", "create the schema, or name another in `table`"),
    ("40", Class::Conflict, "POSTGRES.CONFLICT", "it is tried again"),
    (
        "42501",
        Class::Denied,
        "POSTGRES.PERMISSIONS",
        "allow our user SELECT and UPDATE on the table (with `delete` DELETE)",
    ),
    ("42703", Class::Table, "POSTGRES.NO_COLUMN", "name the columns in `columns`"),
    ("42P01", Class::Table, "POSTGRES.NO_TABLE", "create the table, or name another in `table`"),
    (
        "42P05",
        Class::Forgotten,
        "POSTGRES.POOLER",
        "a pooler hands each transaction to another server: set `pooler = true`",
    ),
    ("42", Class::Table, "POSTGRES.STATEMENT", "`columns`, `words` or `order_by` don't fit the table"),
    ("53100", Class::Server, "POSTGRES.DISK_FULL", "the server's disk is full"),
    ("53200", Class::Server, "POSTGRES.OUT_OF_MEMORY", "the server has no memory left"),
    ("53300", Class::Server, "POSTGRES.MAX_CONNECTIONS", "raise `max_connections` there, or use fewer here"),
    ("53", Class::Server, "POSTGRES.RESOURCES", "see the server's log"),
    ("55P03", Class::Conflict, "POSTGRES.CONFLICT", "another session has what is needed"),
    ("55", Class::Server, "POSTGRES.ERROR", "see the server's log"),
    (
        "57014",
        Class::Server,
        "POSTGRES.STATEMENT_TIMEOUT",
        "the statement took too long: see `statement_timeout`, and whether the index offered is there",
    ),
    ("57P", Class::Elsewhere, "POSTGRES.SHUTDOWN", "the server ends or starts"),
    ("57", Class::Server, "POSTGRES.ERROR", "see the server's log"),
    ("P0", Class::Row, "POSTGRES.REFUSED_ROW", "a trigger of the table refuses it"),
];

impl Refusal {
    /// Reads the fields of an error.
    pub(crate) fn read(mut fields: ErrorFields<'_>) -> Self {
        let (mut state, mut message, mut is_fatal) = (String::new(), String::new(), false);
        while let Ok(Some(field)) = fields.next() {
            let value = String::from_utf8_lossy(field.value_bytes());
            match field.type_() {
                b'C' => state = value.into_owned(),
                b'M' => message = shown(&value),
                // The severity that isn't translated.
                b'V' => is_fatal = matches!(&*value, "FATAL" | "PANIC"),
                _ => {}
            }
        }
        Self { is_fatal, ..Self::sort(&state, &message) }
    }

    /// Sorts out an error. Its details aren't shown: they may hold values of the row.
    pub(crate) fn sort(state: &str, message: &str) -> Self {
        if let Some(short) = short(state, message) {
            return Self::short(short);
        }
        let known = STATES.iter().filter(|(start, ..)| state.starts_with(start)).max_by_key(|(start, ..)| start.len());
        let (class, code, mut advice) = known
            .map_or((Class::Server, "POSTGRES.ERROR", "see the server's log"), |(_, class, code, advice)| {
                (*class, *code, *advice)
            });
        if class == Class::Denied && (message.contains("no encryption") || message.contains("SSL off")) {
            advice = "the server takes us with TLS only: add ?sslmode=require to `url`";
        }
        Self { class, code, advice, message: message.to_owned(), sqlstate: state.to_owned(), is_fatal: false }
    }

    /// For a table that changes another number of rows than were to be marked.
    fn short(message: &str) -> Self {
        Self {
            class: Class::Row,
            code: "POSTGRES.REFUSED_ROW",
            advice: "a trigger or a policy of the table keeps rows from being marked",
            message: message.to_owned(),
            sqlstate: String::new(),
            is_fatal: false,
        }
    }

    /// Whether it is about what was asked for, so that the same would be refused again.
    pub(crate) fn is_of_the_table(&self) -> bool {
        matches!(self.class, Class::Row | Class::Denied | Class::Table)
    }

    pub(crate) fn fault(&self) -> Fault {
        let fault = Fault::new(self.code, format!("the server refused: {}; {}", self.message, self.advice));
        match self.sqlstate.is_empty() {
            true => fault,
            false => fault.with_attribute("broker-code", self.sqlstate.as_str()),
        }
    }

    /// As the failure of a call.
    pub(crate) fn error(&self) -> PluginError {
        let kind = match self.class {
            Class::Denied => ErrorKind::Denied,
            Class::Table => ErrorKind::InvalidConfig,
            Class::Row | Class::Conflict | Class::Server | Class::Elsewhere | Class::Forgotten => {
                ErrorKind::Unavailable
            }
        };
        PluginError::new(kind, self.fault())
    }
}

/// What our own statement says of the rows that it changed: a text that is meant to be no number.
fn short<'a>(state: &str, message: &'a str) -> Option<&'a str> {
    const INVALID_TEXT: &str = "22P02";
    let (_, short) = message.split_once(SHORT).filter(|_| state == INVALID_TEXT)?;
    Some(short.trim_end_matches(|letter: char| !letter.is_ascii_digit()))
}

/// A text as an operator may see it: short, on one line.
fn shown(text: &str) -> String {
    const CHARS: usize = 200;
    text.chars().take(CHARS).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_by_their_state() {
        for (state, class, code) in [
            ("23514", Class::Row, "POSTGRES.REFUSED_ROW"),
            ("P0001", Class::Row, "POSTGRES.REFUSED_ROW"),
            ("22P02", Class::Row, "POSTGRES.REFUSED_ROW"),
            ("40001", Class::Conflict, "POSTGRES.CONFLICT"),
            ("40P01", Class::Conflict, "POSTGRES.CONFLICT"),
            ("42501", Class::Denied, "POSTGRES.PERMISSIONS"),
            ("42P01", Class::Table, "POSTGRES.NO_TABLE"),
            ("42703", Class::Table, "POSTGRES.NO_COLUMN"),
            ("42883", Class::Table, "POSTGRES.STATEMENT"),
            ("42P05", Class::Forgotten, "POSTGRES.POOLER"),
            ("26000", Class::Forgotten, "POSTGRES.POOLER"),
            ("28P01", Class::Denied, "POSTGRES.AUTH"),
            ("3D000", Class::Denied, "POSTGRES.NO_DATABASE"),
            ("53300", Class::Server, "POSTGRES.MAX_CONNECTIONS"),
            ("57P01", Class::Elsewhere, "POSTGRES.SHUTDOWN"),
            ("57014", Class::Server, "POSTGRES.STATEMENT_TIMEOUT"),
            ("25P03", Class::Server, "POSTGRES.IDLE"),
            ("25006", Class::Elsewhere, "POSTGRES.READ_ONLY"),
            ("XX000", Class::Server, "POSTGRES.ERROR"),
            ("", Class::Server, "POSTGRES.ERROR"),
        ] {
            let refusal = Refusal::sort(state, "no");
            assert_eq!((refusal.class, refusal.code), (class, code), "{state}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do_and_keeps_the_servers_code() {
        let error = Refusal::sort("28000", "no pg_hba.conf entry for host, no encryption").error();
        assert_eq!(error.kind, ErrorKind::Denied);
        assert!(error.fault.reason.contains("sslmode=require"), "{}", error.fault.reason);
        assert_eq!(error.fault.attributes, [("broker-code".to_owned(), "28000".to_owned())]);
        assert_eq!(Refusal::sort("42P01", "no").error().kind, ErrorKind::InvalidConfig);
        let short =
            Refusal::sort("22P02", "invalid input syntax for type bigint: \"waybill: 2 rows were changed of 3\"");
        assert_eq!((short.message.as_str(), short.code), ("2 rows were changed of 3", "POSTGRES.REFUSED_ROW"));
        assert!(short.is_of_the_table() && short.fault().attributes.is_empty());
        let other = Refusal::sort("22P02", "invalid input syntax for type bigint: \"x\"");
        assert!(!other.fault().attributes.is_empty());
    }
}
