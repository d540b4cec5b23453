//! What is said where a filter takes nothing: which condition it was, and what there is in its place. Who filters by what isn't there
//! concludes otherwise that nothing is wrong.

use std::collections::BTreeSet;

use serde_json::Value;
use waybill_core::outbox::filter::conditions;
use waybill_core::suggest::nearest;
use waybill_core::time::UnixMillis;

use super::Context;
use crate::output::{plain, safe, topic};

/// Conditions that are tried by themselves, a request each.
const CONDITIONS_MAX: usize = 6;
/// Items of the list without the filter in which other values are looked for.
const ITEMS: &str = "200";
/// Values told in place of one that nothing has.
const VALUES_MAX: usize = 3;

/// Says why a filter takes nothing. Its list is at `path`; `query` is what it was asked for beside the filter. Where the host can't be
/// asked, nothing more is said: the list was answered.
pub(super) async fn explain(context: &mut Context<'_>, path: &[&str], query: &[(&str, &str)], filter: &str) {
    // Only the fields matter here; what an age counts back to doesn't.
    let Ok(conditions) = conditions(filter, "", UnixMillis(0)) else { return };
    let mut none = Vec::new();
    for condition in conditions.iter().take(CONDITIONS_MAX) {
        if conditions.len() == 1 || !takes_some(context, path, query, &alone(&condition.text)).await {
            none.push(condition);
        }
    }
    if none.is_empty() {
        context.term.say("each condition takes some by itself, and nothing meets all of them");
        return;
    }
    let mut query = query.to_vec();
    query.push(("limit", ITEMS));
    let Ok(answer) = context.client.get(path, &query).await else { return };
    let items = answer.body.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    for condition in none {
        let values: BTreeSet<String> = items.iter().filter_map(|item| value(item, &condition.field)).collect();
        let near = nearest(&condition.value, values.iter().map(String::as_str));
        let others = values.iter().filter(|value| Some(*value) != near.as_ref());
        let told: Vec<String> = near.iter().chain(others).take(VALUES_MAX).map(|value| safe(value)).collect();
        let instead = match (told.is_empty(), values.len() > told.len()) {
            (true, _) => String::new(),
            (false, false) => format!("; there is {}", told.join(", ")),
            (false, true) => format!("; there is {} and others", told.join(", ")),
        };
        context.term.say(&format!("nothing has {}{instead}", safe(&condition.text)));
    }
}

/// Whether a page has something. In doubt it has.
async fn takes_some(context: &Context<'_>, path: &[&str], query: &[(&str, &str)], filter: &str) -> bool {
    let mut query = query.to_vec();
    query.extend([("filter", filter), ("limit", "1")]);
    let Ok(answer) = context.client.get(path, &query).await else { return true };
    let is_empty = answer.body.get("items").and_then(Value::as_array).is_none_or(Vec::is_empty);
    !is_empty || answer.body.get("next_cursor").is_some_and(|cursor| !cursor.is_null())
}

/// A condition as a filter of its own.
fn alone(condition: &str) -> String {
    format!("\"{}\"", condition.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What an item has for a field of filters, if it is shown.
fn value(item: &Value, field: &str) -> Option<String> {
    let member = |name: &str| item.get(name).filter(|value| !value.is_null() && !value.is_object()).map(plain);
    match field {
        "code" | "error_code" => {
            let of_error = || member("last_error").and_then(|error| Some(error.split_once(": ")?.0.to_owned()));
            member("code").or_else(of_error)
        }
        "error" | "reason" => member("last_error").or_else(|| member("reason")),
        "topic" | "subject" => {
            let name = ["topic", "subject", "stream"].into_iter().find(|name| item.get(*name).is_some())?;
            Some(topic(item, name))
        }
        "waits" | "waiting" => item.pointer("/waiting/on").map(plain),
        "status" => member("state"),
        "replayed" => member("replays"),
        name => member(name),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_asked_for_alone_whatever_is_in_it() {
        for text in ["code=X", "error=say \"no\" to C:\\", "key=isn't it"] {
            let read = conditions(&alone(text), "", UnixMillis(0)).unwrap();
            assert_eq!(read.iter().map(|condition| condition.text.as_str()).collect::<Vec<_>>(), [text]);
        }
    }

    #[test]
    fn an_item_has_what_its_list_shows() {
        let item = json!({ "topic": "http:http://a/", "last_error": "HTTP.422: a: b", "key": null, "state": "dead",
            "waiting": { "on": "retry" } });
        for (field, shown) in [
            ("topic", Some("http://a/")),
            ("code", Some("HTTP.422")),
            ("error", Some("HTTP.422: a: b")),
            ("key", None),
            ("status", Some("dead")),
            ("waits", Some("retry")),
            ("tenant", None),
        ] {
            assert_eq!(value(&item, field).as_deref(), shown, "{field}");
        }
    }
}
