//! The log on stderr: text for people, or one JSON object a line.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use serde_json::Value;
use tracing::field::Field;
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use waybill_telemetry::Telemetry;

/// Field that holds a plugin's own names and values as one JSON object: what it calls them is known only at run time.
const OF_PLUGIN: &str = "fields";

/// Sets the log up. A second call in one process changes nothing.
pub fn start(level: &str, as_json: bool, color: bool) {
    start_with(level, as_json, color, None);
}

/// The same; where logs are exported, each entry that is written is also handed over for that.
pub fn start_with(level: &str, as_json: bool, color: bool, telemetry: Option<&Telemetry>) {
    let filter = EnvFilter::new(directives(level));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| OneLine(io::stderr()));
    let result = if as_json {
        exported(builder.json().flatten_event(true).map_event_format(OwnFields).finish(), telemetry).try_init()
    } else {
        let fields = debug_fn(field).delimited(" ");
        exported(builder.with_ansi(color).with_target(false).fmt_fields(fields).finish(), telemetry).try_init()
    };
    if let Err(error) = result {
        // Only a test that serves twice in one process gets here.
        tracing::debug!(%error, "the log is set up already");
    }
}

/// What writes entries, with what exports them behind it.
fn exported<S>(written: S, telemetry: Option<&Telemetry>) -> impl SubscriberInitExt
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync + 'static,
{
    written.with(telemetry.and_then(|telemetry| telemetry.log_layer::<S>()))
}

/// Writes a field as text.
fn field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    match field.name() {
        "message" => write!(writer, "{value:?}"),
        OF_PLUGIN => {
            let text = format!("{value:?}");
            let Ok(own) = serde_json::from_str::<BTreeMap<String, String>>(&text) else {
                return named(writer, OF_PLUGIN, &text);
            };
            for (index, (name, value)) in own.iter().enumerate() {
                if index > 0 {
                    writer.write_char(' ')?;
                }
                // What could be taken for more than one value is quoted, and what could be more than a name, too.
                let is_plain =
                    |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_./:@".contains(c));
                let shown = |text: &str| if is_plain(text) { text.to_owned() } else { format!("{text:?}") };
                named(writer, &shown(name), &shown(value))?;
            }
            Ok(())
        }
        name => {
            let text = format!("{value:?}");
            match is_one_value(&text) {
                true => named(writer, name, &text),
                false => named(writer, name, &format!("{text:?}")),
            }
        }
    }
}

/// Whether a value can't be taken for more than one: it is a word, or quoted already, as texts are that come as such.
fn is_one_value(text: &str) -> bool {
    let is_word =
        !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control() || "\"=".contains(c));
    is_word || is_quoted(text)
}

/// Whether it is one text between quotes, with those inside escaped.
fn is_quoted(text: &str) -> bool {
    let Some(inside) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else { return false };
    let mut is_escaped = false;
    for c in inside.chars() {
        match c {
            '"' if !is_escaped => return false,
            c if c.is_control() => return false,
            c => is_escaped = c == '\\' && !is_escaped,
        }
    }
    !is_escaped
}

fn named(writer: &mut Writer<'_>, name: &str, value: &str) -> fmt::Result {
    match writer.has_ansi_escapes() {
        // As the default formatter draws them: slanted and dim.
        true => write!(writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m{value}"),
        false => write!(writer, "{name}={value}"),
    }
}

/// JSON in which what a plugin names is an object, and not a text of one.
struct OwnFields<E>(E);

impl<S, N, E> FormatEvent<S, N> for OwnFields<E>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    E: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if event.metadata().fields().field(OF_PLUGIN).is_none() {
            return self.0.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        writeln!(writer, "{}", with_object(line.trim_end()))
    }
}

fn with_object(line: &str) -> String {
    let Ok(Value::Object(mut entry)) = serde_json::from_str(line) else { return line.to_owned() };
    let own = entry.get(OF_PLUGIN).and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    if let Some(own @ Value::Object(_)) = own {
        entry.insert(OF_PLUGIN.to_owned(), own);
    }
    Value::Object(entry).to_string()
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
/// commit that fails, without its cause, of each transaction that is dropped because of it, and of each round of its own upkeep, which
/// we have no part in: whoever made that commit tells it with code and remedy. What fails of exports is told by
/// `waybill-telemetry`, once in a while and not for each batch.
const QUIET: &str = "surrealkv=error,surrealdb::core::kvs::tx=error,surrealdb::core::kvs::ds=off,\
     surrealdb_datastore::tr=off,surrealdb_core::kvs::tasks=off,opentelemetry=off";

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
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
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

    /// What is written of an entry of a plugin.
    fn entry(as_json: bool) -> String {
        written(as_json, || {
            let own = tracing::field::display(r#"{"client":"vm-0-1","why":"no \"answer\""}"#);
            tracing::info!(target: "waybill::plugin", transport = "mqtt", fields = own, "connected");
        })
    }

    /// What is written of what `say` says.
    fn written(as_json: bool, say: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Kept(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().extend(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let kept = Kept::default();
        let writer = kept.clone();
        let builder = tracing_subscriber::fmt().with_writer(move || writer.clone());
        if as_json {
            let builder = builder.json().flatten_event(true).map_event_format(OwnFields);
            tracing::subscriber::with_default(builder.finish(), say);
        } else {
            let builder = builder.with_ansi(false).with_target(false).fmt_fields(debug_fn(field).delimited(" "));
            tracing::subscriber::with_default(builder.finish(), say);
        }
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_a_plugin_names_are_fields() {
        let text = entry(false);
        assert!(
            text.ends_with("INFO connected transport=\"mqtt\" client=vm-0-1 why=\"no \\\"answer\\\"\"\n"),
            "{text}"
        );
        let json: Value = serde_json::from_str(&entry(true)).unwrap();
        assert_eq!(json["fields"], serde_json::json!({ "client": "vm-0-1", "why": "no \"answer\"" }));
        assert_eq!((&json["message"], &json["transport"]), (&"connected".into(), &"mqtt".into()));
    }

    #[test]
    fn a_value_that_could_be_more_than_one_is_quoted() {
        for (text, is_one) in [
            ("http://127.0.0.1:1/a", true),
            ("17", true),
            (r#""nobody listens there""#, true),
            (r#""he said \"no\"""#, true),
            ("127.0.0.1:1: nobody listens there", false),
            ("Some(\"a\")", false),
            (r#""a" and "b""#, false),
            ("a=b", false),
            ("", false),
            ("\"", false),
            (r#""a\""#, false),
        ] {
            assert_eq!(is_one_value(text), is_one, "{text}");
        }
        let written = written(false, || {
            let reason = tracing::field::display("127.0.0.1:1: nobody listens there");
            tracing::info!(transport = "mqtt", generation = 17, reason, "down");
        });
        assert!(
            written
                .ends_with("INFO down transport=\"mqtt\" generation=17 reason=\"127.0.0.1:1: nobody listens there\"\n"),
            "{written}"
        );
    }

    #[test]
    fn a_level_is_about_this_program() {
        assert_eq!(
            directives("debug"),
            "info,surrealkv=error,surrealdb::core::kvs::tx=error,opentelemetry=off,waybill=debug"
        );
        assert_eq!(directives("warn,waybill_engine=trace"), "warn,waybill_engine=trace");
    }
}
