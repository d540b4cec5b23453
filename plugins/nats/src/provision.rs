//! The stream that messages land in: compared with what the operator wants, created, or changed in place.
//!
//! Only what the configuration names is compared. What would delete messages (a lower limit), lose those that others publish
//! (a subject taken away) or can't be changed (storage, retention) is a conflict and left to the operator.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use waybill_plugin::broker::{Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Action, Change, Provision};
use waybill_plugin::transport::{CallInfo, ErrorKind, Fault, OpenArgs, PluginError};

use crate::Nats;
use crate::config::Config;
use crate::connection::Connection;
use crate::encode::shown;

/// Code of JetStream's refusals here.
const CODE: &str = "NATS.PROVISION";
/// JetStream's error for a stream that isn't there.
const NO_STREAM: u64 = 10_059;
/// Longest wait for the duplicate window while opening, in milliseconds.
const WINDOW_MS_MAX: u32 = 1_000;
/// Settings that can't be changed once a stream is there.
const FIXED: &[&str] = &["storage", "retention"];
/// Settings whose lower value deletes messages.
const LIMITS: &[&str] = &["max_age", "max_bytes", "max_msgs", "max_msgs_per_subject"];
/// The limit that only counts for what comes.
const SIZE: &str = "max_msg_size";

/// What is wanted at the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) stream: Stream,
}

/// A stream as the operator writes it, and as JetStream's API reads it. What is absent is left as it is.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Stream {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    subjects: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discard: Option<String>,
    #[serde(rename(serialize = "num_replicas"), skip_serializing_if = "Option::is_none")]
    replicas: Option<u32>,
    #[serde(deserialize_with = "from_millis", serialize_with = "as_nanos", skip_serializing_if = "Option::is_none")]
    max_age: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bytes: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_msgs: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_msgs_per_subject: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_msg_size: Option<i32>,
    #[serde(deserialize_with = "from_millis", serialize_with = "as_nanos", skip_serializing_if = "Option::is_none")]
    duplicate_window: Option<u32>,
}

fn from_millis<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    waybill_plugin::config::millis(input).map(Some)
}

fn as_nanos<S: Serializer>(millis: &Option<u32>, output: S) -> Result<S::Ok, S::Error> {
    output.serialize_u64(u64::from(millis.unwrap_or_default()) * 1_000_000)
}

impl Provision for Nats {
    type Config = Config;

    async fn plan(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, args, config, false).await
    }

    async fn apply(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, args, config, true).await
    }
}

async fn provision(call: &CallInfo, args: &OpenArgs, config: Config, apply: bool) -> Result<Vec<Change>, PluginError> {
    let Some(wanted) = wanted(&config)? else { return Ok(Vec::new()) };
    let deadline = Deadline::of_call(call.timeout);
    let mut connection = Pool::<Connection>::new(args, config)?.connect(deadline).await?;
    let name = wanted.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = stream(&mut connection, &name, deadline).await?;
    let change = compare(&name, &wanted, found.as_ref());
    let request = match change.action {
        Action::Create => Some((format!("STREAM.CREATE.{name}"), wanted)),
        Action::Change => {
            let mut whole = found.unwrap_or_default();
            whole.extend(wanted);
            Some((format!("STREAM.UPDATE.{name}"), whole))
        }
        Action::Keep | Action::Conflict => None,
    };
    if apply && let Some((request, body)) = request {
        answer(&connection.ask(&request, &Value::Object(body).to_string(), deadline).await?)?;
    }
    connection.close(deadline).await;
    Ok(vec![change])
}

/// The stream as JetStream's API writes it; none if nothing is wanted.
fn wanted(config: &Config) -> Result<Option<Map<String, Value>>, PluginError> {
    config.check()?;
    let Some(wanted) = &config.own.provision else { return Ok(None) };
    let mut stream = wanted.stream.clone();
    stream.name = stream.name.or_else(|| config.own.stream.clone());
    match serde_json::to_value(stream) {
        Ok(Value::Object(stream)) => Ok(Some(stream)),
        _ => Err(PluginError::internal("a stream that is no JSON object")),
    }
}

/// The configuration of a stream, if it is there.
async fn stream(
    connection: &mut Connection,
    name: &str,
    deadline: Deadline,
) -> Result<Option<Map<String, Value>>, PluginError> {
    let bytes = connection.ask(&format!("STREAM.INFO.{name}"), "", deadline).await?;
    let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if said.pointer("/error/err_code").and_then(Value::as_u64) == Some(NO_STREAM) {
        return Ok(None);
    }
    match answer(&bytes)?.get_mut("config") {
        Some(Value::Object(config)) => Ok(Some(std::mem::take(config))),
        _ => Err(PluginError::unavailable(CODE, "JetStream's answer holds no configuration")),
    }
}

/// How long a stream remembers ids, in milliseconds, as far as it tells us.
pub(crate) async fn dedup_window(connection: &mut Connection, name: &str, deadline: Deadline) -> Option<u32> {
    // Not every user may ask, and nothing depends on it.
    let config = stream(connection, name, deadline.at_most(WINDOW_MS_MAX)).await.ok()??;
    let nanos = config.get("duplicate_window").and_then(Value::as_u64)?;
    u32::try_from(nanos / 1_000_000).ok()
}

/// JetStream's word, unless it refused.
fn answer(bytes: &[u8]) -> Result<Value, PluginError> {
    let said: Value =
        serde_json::from_slice(bytes).map_err(|_| PluginError::unavailable(CODE, "JetStream's answer is no JSON"))?;
    let Some(error) = said.get("error") else { return Ok(said) };
    let number = |name: &str| error.get(name).and_then(Value::as_u64).unwrap_or_default();
    let kind = match number("code") {
        401 | 403 => ErrorKind::Denied,
        400 | 404 => ErrorKind::InvalidConfig,
        _ => ErrorKind::Unavailable,
    };
    let words = shown(error.get("description").and_then(Value::as_str).unwrap_or("no reason told"));
    let fault = Fault::new(CODE, format!("JetStream refused: {words}"));
    Err(PluginError::new(kind, fault.with_attribute("broker-code", number("err_code").to_string())))
}

/// What has to be done for a stream to be as wanted.
fn compare(name: &str, wanted: &Map<String, Value>, found: Option<&Map<String, Value>>) -> Change {
    let target = format!("stream {name}");
    let Some(found) = found else {
        return Change { target, action: Action::Create, detail: Value::Object(wanted.clone()).to_string() };
    };
    let (mut action, mut details) = (Action::Keep, Vec::new());
    for (setting, value) in wanted {
        let now = found.get(setting).unwrap_or(&Value::Null);
        if same(setting, value, now) {
            continue;
        }
        let why = if FIXED.contains(&setting.as_str()) {
            " (can't be changed)"
        } else if LIMITS.contains(&setting.as_str()) && is_lower(value, now) {
            " (would delete messages)"
        } else if setting == "subjects" && takes_away(value, now) {
            " (would lose what is published to a subject that isn't named)"
        } else {
            ""
        };
        if !why.is_empty() {
            action = Action::Conflict;
        } else if action == Action::Keep {
            action = Action::Change;
        }
        details.push(format!("{setting} is {now}, wanted {value}{why}"));
    }
    Change { target, action, detail: details.join("; ") }
}

/// Equal but for the order of lists, that of subjects means nothing, and the ways to say "no limit". What JetStream leaves out
/// is empty.
fn same(setting: &str, wanted: &Value, now: &Value) -> bool {
    if setting == SIZE || LIMITS.contains(&setting) {
        return limit(wanted) == limit(now);
    }
    match (wanted, now) {
        (Value::Array(wanted), Value::Array(now)) => {
            wanted.len() == now.len() && wanted.iter().all(|value| now.contains(value))
        }
        (Value::String(wanted), Value::Null) => wanted.is_empty(),
        (wanted, now) => wanted == now,
    }
}

/// Whether a limit lets through less than the one before.
fn is_lower(wanted: &Value, now: &Value) -> bool {
    limit(wanted) < limit(now)
}

/// Zero, below, or absent: no limit.
fn limit(value: &Value) -> i64 {
    value.as_i64().filter(|limit| *limit > 0).unwrap_or(i64::MAX)
}

/// Whether the stream takes a subject now that none of the wanted ones covers.
fn takes_away(wanted: &Value, now: &Value) -> bool {
    let subjects = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let wanted = subjects(wanted);
    let is_covered = |subject: &str| wanted.iter().filter_map(Value::as_str).any(|pattern| covers(pattern, subject));
    subjects(now).iter().filter_map(Value::as_str).any(|subject| !is_covered(subject))
}

/// Whether a pattern takes everything that the other, pattern or subject, takes.
fn covers(pattern: &str, other: &str) -> bool {
    let mut rest = other.split('.');
    for token in pattern.split('.') {
        match (token, rest.next()) {
            (_, None) => return false,
            (">", Some(_)) => return true,
            (token, Some(found)) if token == found || (token == "*" && found != ">") => {}
            _ => return false,
        }
    }
    rest.next().is_none()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn wants(json: &str) -> Map<String, Value> {
        let config =
            waybill_plugin::config::parse(&format!(r#"{{"stream":"ORDERS","provision":{{"stream":{json}}}}}"#));
        wanted(&config.unwrap()).unwrap().unwrap()
    }

    fn found() -> Map<String, Value> {
        let text = r#"{"name":"ORDERS","subjects":["orders.>","a"],"storage":"file","max_age":0,"max_bytes":-1,
            "max_msgs":1000,"num_replicas":1,"duplicate_window":120000000000,"allow_direct":false}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_stream_is_written_as_jetstream_reads_it() {
        let stream = wants(r#"{"subjects":["orders.>"],"max_age":"24h","duplicate_window":"2m","replicas":3}"#);
        let text = r#"{"name":"ORDERS","subjects":["orders.>"],"num_replicas":3,"max_age":86400000000000,"duplicate_window":120000000000}"#;
        assert_eq!(Value::Object(stream), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn only_what_is_named_is_compared() {
        for (json, action, part) in [
            (r#"{"subjects":["a","orders.>"]}"#, Action::Keep, ""),
            (r#"{"subjects":["a","orders.>"],"duplicate_window":"2m","storage":"file"}"#, Action::Keep, ""),
            (r#"{"subjects":["a","orders.>","b"]}"#, Action::Change, "subjects"),
            (r#"{"subjects":["*","orders.>"]}"#, Action::Change, "subjects"),
            (r#"{"subjects":["orders.>"]}"#, Action::Conflict, "would lose"),
            (r#"{"subjects":["a","orders.*"]}"#, Action::Conflict, "would lose"),
            (r#"{"subjects":["a","orders.>"],"max_bytes":0,"max_age":"0s"}"#, Action::Keep, ""),
            (r#"{"subjects":["a","orders.>"],"max_msgs_per_subject":-1,"max_msg_size":0}"#, Action::Keep, ""),
            (r#"{"subjects":["a","orders.>"],"max_msg_size":1000}"#, Action::Change, "max_msg_size"),
            (r#"{"subjects":["a","orders.>"],"duplicate_window":"10m"}"#, Action::Change, "duplicate_window"),
            (r#"{"subjects":["a","orders.>"],"max_msgs":2000}"#, Action::Change, "max_msgs"),
            (r#"{"subjects":["a","orders.>"],"max_msgs":-1}"#, Action::Change, "max_msgs"),
            (r#"{"subjects":["a","orders.>"],"max_msgs":999}"#, Action::Conflict, "would delete"),
            (r#"{"subjects":["a","orders.>"],"max_age":"24h"}"#, Action::Conflict, "would delete"),
            (r#"{"subjects":["b"],"max_bytes":1000}"#, Action::Conflict, "would delete"),
            (r#"{"subjects":["a","orders.>"],"storage":"memory"}"#, Action::Conflict, "can't be changed"),
        ] {
            let change = compare("ORDERS", &wants(json), Some(&found()));
            assert_eq!(change.action, action, "{json}: {}", change.detail);
            assert!(change.detail.contains(part), "{json}: {}", change.detail);
        }
        assert_eq!(compare("ORDERS", &found(), None).action, Action::Create);
    }

    #[test]
    fn a_pattern_covers_what_it_takes_whole() {
        for (pattern, other, expected) in [
            ("a.b", "a.b", true),
            ("a.*", "a.b", true),
            ("a.>", "a.b.c", true),
            ("a.>", "a.*", true),
            (">", "a", true),
            ("a.b", "a.*", false),
            ("a.*", "a.>", false),
            ("a.*", "a.b.c", false),
            ("a.*", "a", false),
            ("a.>", "a", false),
        ] {
            assert_eq!(covers(pattern, other), expected, "{pattern} {other}");
        }
    }

    #[test]
    fn a_refusal_is_sorted_by_its_class() {
        for (code, kind) in [(400, ErrorKind::InvalidConfig), (403, ErrorKind::Denied), (503, ErrorKind::Unavailable)] {
            let text = format!(r#"{{"error":{{"code":{code},"err_code":10065,"description":"subjects overlap"}}}}"#);
            let error = answer(text.as_bytes()).unwrap_err();
            assert_eq!((error.kind, error.fault.code.as_str()), (kind, CODE));
        }
        assert!(answer(b"{}").is_ok());
        assert_eq!(answer(b"oh").unwrap_err().kind, ErrorKind::Unavailable);
    }
}
