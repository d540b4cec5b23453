//! How event streams and their relays do, as `waybill status` shows it.

use serde_json::{Value, json};

use crate::output::{ago, number, size, words};

/// The screen's lines: what is kept, what isn't numbered, who reads, how far relays are.
pub(in crate::commands) fn rows(stats: &Value, relays: &[Value]) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    if stats.is_object() {
        rows.push(("streams".to_owned(), kept(stats)));
    }
    let host = stats.get("host").filter(|host| host.is_object());
    rows.extend(host.and_then(unnumbered).map(|told| ("unnumbered".to_owned(), told)));
    rows.extend(host.and_then(readers).map(|told| ("readers".to_owned(), told)));
    if !relays.is_empty() {
        rows.push(("relays".to_owned(), behind(relays)));
    }
    rows
}

fn count(item: &Value, name: &str) -> u64 {
    item.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn kept(stats: &Value) -> String {
    let at_least = if stats.get("more") == Some(&Value::Bool(true)) { "at least " } else { "" };
    let tenants = stats.get("tenants").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = tenants.iter().filter_map(Value::as_str).collect();
    format!(
        "{at_least}{} of {} {}: {} kept, {} in all since they began",
        number(count(stats, "streams"), "stream", "streams"),
        if names.len() == 1 { "tenant" } else { "tenants" },
        names.join(", "),
        number(count(stats, "events"), "event", "events"),
        size(count(stats, "bytes")),
    )
}

/// What waits for a number; none = nothing does.
fn unnumbered(host: &Value) -> Option<String> {
    let mut parts = Vec::new();
    let waiting = count(host, "waiting");
    parts.extend((waiting > 0).then(|| number(waiting, "append waits", "appends wait")));
    let rows = count(host, "door_rows");
    parts.extend((rows > 0).then(|| {
        let lie = number(rows, "append of a transaction lies", "appends of transactions lie");
        format!("{lie} on the doorstep, the oldest for {}", ago(host, "door_age_ms"))
    }));
    let owner = format!("this host numbers {} of {} shards", words(host, "owned"), words(host, "shards"));
    (!parts.is_empty()).then(|| format!("{}; {owner}", parts.join(", ")))
}

/// Who reads; none = nobody does, and nobody lagged.
fn readers(host: &Value) -> Option<String> {
    let (now, lagged) = (count(host, "readers"), count(host, "lagged"));
    let held = count(host, "ring_bytes").saturating_add(count(host, "replay_bytes"));
    let told = || {
        let most = words(host, "readers_max");
        format!(
            "{} of {most} there may be, {} held for them, {} lagged",
            words(host, "readers"),
            size(held),
            words(host, "lagged")
        )
    };
    (now > 0 || lagged > 0).then(told)
}

/// How far all relays are together, and what holds them.
fn behind(relays: &[Value]) -> String {
    let is = |relay: &Value, state: &str| relay.get("state").and_then(Value::as_str) == Some(state);
    let is_held = |relay: &Value| is(relay, "running") && relay.get("reason").is_some_and(Value::is_string);
    let many = |which: &dyn Fn(&Value) -> bool| relays.iter().filter(|relay| which(relay)).count() as u64;
    let lag = relays.iter().map(|relay| count(relay, "lag_events")).sum::<u64>();
    let oldest = relays.iter().filter_map(|relay| relay.get("lag_ms")?.as_u64()).max();
    let mut parts = vec![format!("{} of {} behind", many(&|relay| count(relay, "streams_behind") > 0), relays.len())];
    parts.extend((lag > 0).then(|| number(lag, "event isn't sent", "events aren't sent")));
    parts.extend(oldest.map(|oldest| format!("the oldest for {}", ago(&json!({ "oldest": oldest }), "oldest"))));
    for (state, count) in [
        ("stopped", many(&|relay| is(relay, "stopped"))),
        ("paused", many(&|relay| is(relay, "paused"))),
        ("held up (waybill relay list)", many(&is_held)),
    ] {
        parts.extend((count > 0).then(|| format!("{count} {state}")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_well_takes_a_line_and_what_isnt_says_what_holds_it() {
        assert!(rows(&Value::Null, &[]).is_empty());
        let host = json!({ "owned": 1, "shards": 1, "waiting": 0, "door_rows": 0, "readers": 0, "lagged": 0 });
        let stats = json!({ "tenants": ["acme"], "streams": 1, "more": true, "events": 2, "bytes": 3, "host": host });
        let well = json!({ "state": "running", "reason": null, "streams_behind": 0, "lag_events": 0, "lag_ms": null });
        let told = rows(&stats, std::slice::from_ref(&well));
        let kept = "at least 1 stream of tenant acme: 2 events kept, 3 bytes in all since they began";
        let row = |name: &str, told: &str| (name.to_owned(), told.to_owned());
        assert_eq!(told, [row("streams", kept), row("relays", "0 of 1 behind")]);
        let several = json!({ "tenants": ["acme", "other"], "streams": 2, "more": false, "events": 2, "bytes": 3 });
        let kept = "2 streams of tenants acme, other: 2 events kept, 3 bytes in all since they began";
        assert_eq!(rows(&several, &[]), [row("streams", kept)]);
        let late = |state: &str, reason: Value| json!({ "state": state, "reason": reason, "streams_behind": 1, "lag_events": 1, "lag_ms": 61_000 });
        let relays = [
            well,
            late("running", json!("the broker asks for a pause")),
            late("stopped", json!("a refusal")),
            late("paused", Value::Null),
        ];
        let (_, told) = rows(&Value::Null, &relays).remove(0);
        let behind = "3 of 4 behind, 3 events aren't sent, the oldest for 1m1s, 1 stopped, 1 paused, 1 held up (waybill relay list)";
        assert_eq!(told, behind);
    }
}
