//! Events as they are shown.

use serde_json::Value;

use crate::exit::CliError;
use crate::output::{Format, View, column, instant, less, moment, safe, text, whole, words};
use crate::term::Term;

pub(super) const VIEW: View<'_> = View {
    columns: &[
        column("STREAM", |item| text(item, "stream")),
        whole("SEQ", |item| words(item, "seq")),
        moment("AT", |item| instant(item, "ts_ms")),
        column("OP", |item| text(item, "op")),
        less(2, column("TYPE", |item| text(item, "resource_type"))),
        less(1, column("ID", |item| text(item, "resource_id"))),
        less(4, column("NODE", |item| text(item, "node_uuid"))),
        less(3, whole("EVENT", |item| text(item, "event_id"))),
    ],
    id: |item| text(item, "event_id"),
    none: "there is no event",
};

/// Writes an event that just came: a line, or the host's JSON as it came.
pub(super) fn write(term: &mut Term, format: Format, json: &str, item: &Value) -> Result<(), CliError> {
    match format.followed() {
        Format::Json | Format::Jsonl => term.line(json.trim_end()),
        Format::Ids => term.line(&(VIEW.id)(item)),
        Format::Table => {
            let cells = [
                text(item, "stream"),
                text(item, "seq"),
                instant(item, "ts_ms"),
                text(item, "op"),
                text(item, "resource_type"),
                text(item, "resource_id"),
            ];
            term.line(&safe(&cells.join("  ")))
        }
    }
}
