//! `waybill outbox list --facets` and `waybill dead list --facets`: what a list can be narrowed by.

use serde_json::{Value, json};

use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{self, Format, View, column, instant, number, text, topic, whole, words};

const VIEW: View<'_> = View {
    columns: &[
        whole("BY", |item| text(item, "name")),
        column("COUNT", |item| words(item, "count")),
        whole("VALUE", |item| topic(item, "value")),
    ],
    id: condition,
    none: "nothing matches",
};

/// A condition of a filter, as a shell-free line.
fn condition(item: &Value) -> String {
    let value = text(item, "value");
    let is_plain = !value.contains([' ', '"', '\'']);
    let value = if is_plain { value } else { format!("\"{}\"", value.replace('"', "*")) };
    format!("{}={value}", text(item, "name"))
}

/// Writes values with their counts, member by member. True = nothing matches.
pub(super) async fn run(list: &str, filter: &str, context: &mut Context<'_>) -> Result<bool, CliError> {
    let answer = context.client.get(&["v1", list, "facets"], &[("filter", filter)]).await?;
    let facets = answer.need("facets", Value::as_array)?;
    let counted = answer.need("counted", Value::as_u64)?;
    if context.format == Format::Json {
        context.term.line(answer.text.trim_end())?;
        return Ok(counted == 0);
    }
    let mut rows: Vec<Value> = facets.iter().flat_map(rows).collect();
    if context.format != Format::Table {
        rows.retain(|row| row.get("others").is_none());
    }
    output::list(context.term, context.format, &rows, &VIEW)?;
    if answer.body.get("partial") == Some(&Value::Bool(true)) {
        let since = match instant(&answer.body, "counted_since") {
            since if since == "-" => String::new(),
            since => format!(", those enqueued since {since}"),
        };
        context.term.say(&format!("counted {}{since}: there may be more", number(counted, "item", "items")));
    }
    Ok(counted == 0)
}

/// A line a value, and one for all others.
fn rows(facet: &Value) -> Vec<Value> {
    let name = text(facet, "name");
    let values = facet.get("values").and_then(Value::as_array).into_iter().flatten();
    let line = |value: &Value, count: &Value| json!({ "name": name, "value": value, "count": count });
    let null = Value::Null;
    let mut rows: Vec<Value> =
        values.map(|value| line(value.get("value").unwrap_or(&null), value.get("count").unwrap_or(&null))).collect();
    if let Some(others) = facet.get("others").filter(|others| others.as_u64().is_some_and(|others| others > 0)) {
        rows.push(json!({ "name": name, "value": "(others)", "count": others, "others": true }));
    }
    rows
}
