//! `waybill outbox blocked`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;

use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, Format, View, column, instant, less, moment, number, plain, text, under, whole, words};

/// What holds messages back.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill outbox blocked\n  waybill outbox blocked --tenant acme")]
pub struct Blocked {
    /// Only this tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// A row for each key, also where many wait for one reason
    #[arg(long)]
    pub each: bool,
}

/// Keys that wait for one reason from which they share a row.
const GROUP_MIN: usize = 3;

/// What holds messages back.
pub(in crate::commands) const VIEW: View<'_> = View {
    columns: &[
        column("KIND", |item| text(item, "kind")),
        less(
            2,
            column("TENANT", |item| item.get("tenant").filter(|tenant| !tenant.is_null()).map_or("all".into(), plain)),
        ),
        less(3, column("TRANSPORT", |item| text(item, "transport"))),
        whole("SUBJECT", |item| text(item, "subject")),
        column("WAITING", |item| words(item, "waiting")),
        moment("SINCE", |item| instant(item, "since")),
        less(1, moment("NEXT TRY", |item| instant(item, "until"))),
        under("WHY", why),
    ],
    id: |item| text(item, "subject"),
    none: "nothing is held back",
};

/// What holds them, as code and sentence.
fn why(item: &Value) -> String {
    match item.get("code").filter(|code| !code.is_null()) {
        Some(code) => format!("{}: {}", plain(code), text(item, "reason")),
        None => text(item, "reason"),
    }
}

/// The same with many keys that wait for one reason in one row: an outage makes a row of each key that had a message under way.
pub(in crate::commands) fn grouped(items: &[Value]) -> Vec<Value> {
    let mut groups: BTreeMap<Vec<String>, Vec<&Value>> = BTreeMap::new();
    let alike = |item: &Value| ["tenant", "transport", "code"].map(|name| text(item, name)).to_vec();
    for item in items.iter().filter(|item| text(item, "kind") == "key") {
        groups.entry(alike(item)).or_default().push(item);
    }
    groups.retain(|_, keys| keys.len() >= GROUP_MIN);
    let mut rows = Vec::new();
    for item in items {
        let is_key = text(item, "kind") == "key";
        match groups.get(&alike(item)).filter(|_| is_key) {
            None => rows.push(item.clone()),
            // In the place of the first.
            Some(keys) if keys.first().is_some_and(|first| std::ptr::eq(*first, item)) => rows.push(in_one(item, keys)),
            Some(_) => {}
        }
    }
    rows
}

fn in_one(first: &Value, keys: &[&Value]) -> Value {
    let earliest = |name: &str| {
        keys.iter().filter_map(|key| key.get(name)).filter(|at| !at.is_null()).min_by_key(|at| at.to_string())
    };
    let mut row = first.as_object().cloned().unwrap_or_default();
    let subject = format!("{}: {}, ...", number(keys.len() as u64, "key", "keys"), text(first, "subject"));
    let waiting: u64 = keys.iter().filter_map(|key| key.get("waiting")?.as_u64()).sum();
    row.insert("subject".to_owned(), subject.into());
    row.insert("waiting".to_owned(), waiting.into());
    for name in ["since", "until"] {
        row.insert(name.to_owned(), earliest(name).cloned().unwrap_or_default());
    }
    Value::Object(row)
}

pub(super) async fn run(args: &Blocked, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut items =
        lists::whole(context, &["v1", "outbox", "blocked"], &lists::tenant_query(args.tenant.as_deref())).await?;
    if context.format == Format::Table && !args.each {
        items = grouped(&items);
    }
    output::list(context.term, context.format, &items, &VIEW)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_that_wait_for_one_reason_are_one_row() {
        let key = |number: u64, code: &str| {
            json!({
                "kind": "key", "tenant": "acme", "transport": "bus", "subject": format!("order-{number}"), "code": code,
                "reason": format!("seq {number} is tried again"), "since": format!("2026-11-27T09:00:0{number}Z"),
                "until": null, "waiting": number,
            })
        };
        let whole =
            json!({ "kind": "transport", "tenant": null, "transport": "bus", "subject": "bus", "code": "NATS.LOST" });
        let items = [whole.clone(), key(3, "NATS.LOST"), key(7, "OTHER"), key(1, "NATS.LOST"), key(2, "NATS.LOST")];
        let rows = grouped(&items);
        assert_eq!((rows.len(), &rows[0], &rows[2]), (3, &whole, &items[2]));
        let row = &rows[1];
        assert_eq!((text(row, "subject").as_str(), &row["waiting"]), ("3 keys: order-3, ...", &json!(6)));
        assert_eq!((&row["since"], &row["until"]), (&json!("2026-11-27T09:00:01Z"), &Value::Null));
        assert_eq!(grouped(&items[..3]), items[..3], "two of a kind are two");
    }

    #[test]
    fn a_reason_has_its_code() {
        assert_eq!(why(&json!({ "code": "MQTT.CONNECT", "reason": "nobody" })), "MQTT.CONNECT: nobody");
        assert_eq!(why(&json!({ "code": null, "reason": "nobody" })), "nobody");
    }
}
