//! Lists as files: CSV, and JSON lines. What is saved is what the list shows, without payloads, up to a bound that the file's name tells.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use waybill_core::ids::Tenant;
use waybill_core::port::query::{ListOrder, Page};
use waybill_page::frame::Place;

use super::visit::{View, Visit};
use super::{inbox, keys, lists};
use crate::app::App;
use crate::auth::Permission;
use crate::caller::now;
use crate::edge;
use crate::limits::{PAGE_MAX, SAVED_BYTES_MAX, SAVED_ROWS_MAX, SAVED_TIMEOUT};
use crate::problem::Problem;
use crate::routes::query::{AuditParameters, query};

/// Which list, as what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SaveAsked {
    list: Listed,
    #[serde(rename = "as")]
    format: Format,
    tenant: Option<String>,
    #[serde(default)]
    filter: String,
    #[serde(default)]
    sort: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Listed {
    Messages,
    DeadLetters,
    Sagas,
    Inbox,
    Idempotency,
    Audit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Format {
    Csv,
    Jsonl,
}

impl Listed {
    fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::DeadLetters => "dead-letters",
            Self::Sagas => "sagas",
            Self::Inbox => "inbox",
            Self::Idempotency => "idempotency",
            Self::Audit => "audit",
        }
    }

    fn needs(self) -> Permission {
        match self {
            Self::Audit => Permission::Operate,
            _ => Permission::Read,
        }
    }

    /// Members of an item that a table has.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Messages => &[
                "id",
                "tenant",
                "state",
                "topic",
                "transport",
                "key",
                "seq",
                "attempts",
                "replays",
                "created_at",
                "not_before",
                "ended_at",
                "last_error",
            ],
            Self::DeadLetters => &[
                "id",
                "kind",
                "tenant",
                "state",
                "topic",
                "key",
                "attempts",
                "replays",
                "definition",
                "step",
                "consumer",
                "source",
                "subject",
                "stream",
                "relay",
                "code",
                "last_error",
                "created_at",
                "ended_at",
            ],
            Self::Sagas => &[
                "id",
                "tenant",
                "definition",
                "version",
                "state",
                "waiting_for",
                "since",
                "until",
                "steps",
                "code",
                "reason",
                "started_at",
                "updated_at",
                "ended_at",
            ],
            Self::Inbox => &[
                "id",
                "place",
                "consumer",
                "source",
                "tenant",
                "subject",
                "context",
                "key",
                "attempts",
                "last_error",
                "received_at",
                "not_before",
            ],
            Self::Idempotency => {
                &["tenant", "key", "state", "hash", "begun", "created_at", "changed_at", "lease_until", "until"]
            }
            Self::Audit => &["at", "kind", "actor", "tenant", "object", "detail"],
        }
    }
}

/// A list as a file.
pub(super) async fn save(State(app): State<App>, visit: Visit) -> Response {
    match saved(&app, &visit).await {
        Ok(file) => file,
        Err(problem) => {
            let view = View { place: Place::None, title: "Save a list", needs: Permission::Any };
            visit.show(&app, view, async { Err(problem) }).await
        }
    }
}

async fn saved(app: &App, visit: &Visit) -> Result<Response, Problem> {
    let asked: SaveAsked = query(&visit.uri)?;
    edge::may(&visit.caller.0, asked.list.needs())?;
    let place = edge::place(app, &visit.caller.0)?;
    let scope = visit.scope(asked.tenant.as_deref(), &asked.filter)?;
    let mut room = edge::room(app, &visit.caller.0, SAVED_BYTES_MAX)?;
    let mut file = File::new(asked.format, asked.list.columns());
    let began = Instant::now();
    let mut cursor: Option<String> = None;
    let is_whole = loop {
        let limit = PAGE_MAX.min(SAVED_ROWS_MAX - file.rows);
        let found = page(app, visit, &asked, scope.as_ref(), cursor.as_deref(), limit).await?;
        let (count, mut items) = (found.items.len(), found.items.iter());
        while file.text.len() < SAVED_BYTES_MAX
            && let Some(item) = items.next()
        {
            file.push(item);
        }
        let is_left = items.next().is_some();
        cursor = found.next_cursor;
        if cursor.is_none() && !is_left {
            break true;
        }
        // A page that isn't full has looked at as much as one request may.
        if is_left || count < limit || file.rows >= SAVED_ROWS_MAX || began.elapsed() >= SAVED_TIMEOUT {
            break false;
        }
    };
    room.keep(file.text.len().div_ceil(1024));
    Ok(place.until_taken(room.until_taken(file.answer(asked.list.name(), is_whole))))
}

/// A page of a list, each item as JSON.
async fn page(
    app: &App,
    visit: &Visit,
    asked: &SaveAsked,
    scope: Option<&Tenant>,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<Value>, Problem> {
    let filter = asked.filter.as_str();
    match asked.list {
        Listed::Messages => {
            let order = if asked.sort == "state" { ListOrder::State } else { ListOrder::Newest };
            as_json(app.service.messages(scope, filter, order, cursor, limit).await?)
        }
        Listed::DeadLetters => as_json(app.service.dead_letters(scope, filter, cursor, limit).await?),
        Listed::Inbox => as_json(inbox::stored(app, visit, scope, filter, cursor, limit).await?),
        Listed::Idempotency => as_json(keys::page(app, visit, scope, filter, cursor, limit).await?),
        Listed::Sagas => as_json(lists::sagas_page(app, visit, scope, filter, cursor, limit).await?),
        Listed::Audit => {
            let parameters = AuditParameters { filter: filter.to_owned(), ..AuditParameters::default() };
            let wanted = parameters.wanted(scope.cloned(), now())?;
            as_json(app.service.audit(&wanted, cursor, limit).await?)
        }
    }
}

fn as_json<T: Serialize>(found: Page<T>) -> Result<Page<Value>, Problem> {
    let items = found.items.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>();
    Ok(Page { items: items.map_err(Problem::internal)?, next_cursor: found.next_cursor })
}

/// What is written so far.
struct File {
    format: Format,
    columns: &'static [&'static str],
    text: String,
    rows: usize,
}

impl File {
    fn new(format: Format, columns: &'static [&'static str]) -> Self {
        let text = match format {
            Format::Csv => format!("{}\r\n", columns.join(",")),
            Format::Jsonl => String::new(),
        };
        Self { format, columns, text, rows: 0 }
    }

    fn push(&mut self, item: &Value) {
        match self.format {
            Format::Csv => {
                let cells: Vec<String> = self.columns.iter().map(|column| cell(item.get(column))).collect();
                self.text.push_str(&cells.join(","));
                self.text.push_str("\r\n");
            }
            Format::Jsonl => {
                let columns =
                    self.columns.iter().filter_map(|column| Some(((*column).to_owned(), item.get(column)?.clone())));
                self.text.push_str(&Value::Object(columns.collect()).to_string());
                self.text.push('\n');
            }
        }
        self.rows += 1;
    }

    fn answer(self, name: &str, is_whole: bool) -> Response {
        let (ending, media) = match self.format {
            Format::Csv => ("csv", "text/csv; charset=utf-8; header=present"),
            Format::Jsonl => ("jsonl", "application/jsonl; charset=utf-8"),
        };
        let cut = if is_whole { String::new() } else { format!("-first-{}", self.rows) };
        let attached = format!("attachment; filename=\"{name}{cut}.{ending}\"");
        let mut response = Response::new(Body::from(self.text));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
        let attachment = HeaderValue::from_static("attachment");
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_str(&attached).unwrap_or(attachment));
        response
    }
}

/// A cell. What a spreadsheet would take for a formula is text to it, by the mark that spreadsheets have for that.
fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
        }
        Some(other) => return quoted(&other.to_string()),
    };
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { quoted(&format!("'{text}")) } else { quoted(&text) }
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r', '\'']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cell_is_never_a_formula_and_never_two_cells() {
        let shown = |value: Value| cell(Some(&value));
        assert_eq!(shown(json!("=HYPERLINK(\"http://x\")")), "\"'=HYPERLINK(\"\"http://x\"\")\"");
        assert_eq!(shown(json!("a,b\r\nc")), "\"a,b\r\nc\"");
        assert_eq!((shown(json!("@x")), shown(json!("plain"))), ("\"'@x\"".into(), "plain".into()));
        assert_eq!(
            (shown(json!(7)), shown(json!(null)), shown(json!(["a", "b"]))),
            ("7".into(), String::new(), "a b".into())
        );
        assert_eq!(shown(json!({"a": 1})), "\"{\"\"a\"\":1}\"");
    }

    #[test]
    fn a_file_that_was_cut_says_so_in_its_name() {
        let mut file = File::new(Format::Csv, &["id", "note"]);
        file.push(&json!({"id": "a", "other": 1}));
        assert_eq!(file.text, "id,note\r\na,\r\n");
        let named = |file: File, is_whole| {
            let answer = file.answer("messages", is_whole);
            answer.headers()[header::CONTENT_DISPOSITION].to_str().unwrap().to_owned()
        };
        assert_eq!(named(file, false), "attachment; filename=\"messages-first-1.csv\"");
        assert_eq!(named(File::new(Format::Jsonl, &[]), true), "attachment; filename=\"messages.jsonl\"");
    }
}
