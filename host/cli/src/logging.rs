//! The log on stderr: text for people, or one JSON object a line.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

/// Sets the log up. A second call in one process changes nothing.
pub fn start(level: &str, as_json: bool, color: bool) {
    let filter = EnvFilter::new(directives(level));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| OneLine(io::stderr()));
    let result = if as_json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.with_ansi(color).with_target(false).try_init()
    };
    if let Err(error) = result {
        // Only a test that serves twice in one process gets here.
        tracing::debug!(%error, "the log is set up already");
    }
}

/// Writes each entry on a line of its own, whatever texts of others it holds: a line break in one of them could begin what looks
/// like another entry. An entry comes in one piece and ends with its line break.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let text = entry.strip_suffix(b"\n").unwrap_or(entry);
        if !text.contains(&b'\n') && !text.contains(&b'\r') {
            return self.0.write(entry);
        }
        let mut line = Vec::with_capacity(entry.len() + 16);
        for byte in text {
            match byte {
                b'\n' => line.extend(b"\\n"),
                b'\r' => line.extend(b"\\r"),
                other => line.push(*other),
            }
        }
        line.extend(entry.get(text.len()..).unwrap_or_default());
        self.0.write_all(&line)?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The storage engine warns each time one of its own threads lets go of a store that is closed already. The database warns of each
/// commit that fails, without its cause: whoever made that commit tells it with code and remedy.
const QUIET: &str = "surrealkv=error,surrealdb::core::kvs::tx=error";

/// A bare level is about this program; libraries are quieter, because their messages are for their authors.
fn directives(level: &str) -> String {
    match level {
        "error" | "off" => level.to_owned(),
        "warn" | "info" => format!("warn,{QUIET},waybill={level}"),
        "debug" | "trace" => format!("info,{QUIET},waybill={level}"),
        directives => directives.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_entry_stays_on_its_line() {
        let mut written = Vec::new();
        for entry in ["one\n", "two\n2026-11-22T00:00:00Z  INFO audit ok\r\n", "\u{1b}[1mthree\u{1b}[0m\n"] {
            OneLine(&mut written).write_all(entry.as_bytes()).unwrap();
        }
        let expected = "one\ntwo\\n2026-11-22T00:00:00Z  INFO audit ok\\r\n\u{1b}[1mthree\u{1b}[0m\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    #[test]
    fn a_level_is_about_this_program() {
        assert_eq!(directives("debug"), "info,surrealkv=error,surrealdb::core::kvs::tx=error,waybill=debug");
        assert_eq!(directives("warn,waybill_engine=trace"), "warn,waybill_engine=trace");
    }
}
