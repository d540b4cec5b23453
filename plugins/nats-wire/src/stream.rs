//! A stream: compared with what the operator wants, created, or changed in place.
//!
//! A new one gets what source document 5 says where the configuration says nothing; of one that is there only what the configuration
//! names is compared. What would delete messages (a lower limit), lose those that others publish
//! (a subject taken away) or can't be changed (storage, retention) is a conflict and left to the operator.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Action, Change};
use waybill_plugin::transport::PluginError;

use crate::api::{self, Setting, answer, compare};
use crate::connection::Connection;
use crate::keys::ClientKeys;
use crate::room;

/// JetStream's error for a stream that isn't there.
const NO_STREAM: u64 = 10_059;
/// Settings that can't be changed once a stream is there.
const FIXED: &[&str] = &["storage", "retention"];
/// Settings whose lower value deletes messages.
const LIMITS: &[&str] = &["max_age", "max_bytes", "max_msgs", "max_msgs_per_subject"];
/// The limit that only counts for what comes.
const SIZE: &str = "max_msg_size";

/// A stream as the operator writes it, and as JetStream's API reads it. What is absent is left as it is.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    #[serde(skip_serializing_if = "Option::is_none")]
    /// None: the one that the configuration names elsewhere.
    pub name: Option<String>,
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
    #[serde(deserialize_with = "from_size", skip_serializing_if = "Option::is_none")]
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

fn from_size<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number of bytes, or a text like \"10GB\" or \"512MiB\"")]
    enum Either {
        Number(i64),
        Text(String),
    }
    match Either::deserialize(input)? {
        Either::Number(number) => Ok(Some(number)),
        Either::Text(text) => parse_size(&text).map(Some).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{text}` is no size: write a whole number and KB, MB, GB or TB, or KiB, MiB, GiB or TiB"
            ))
        }),
    }
}

fn parse_size(text: &str) -> Option<i64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor: i64 = match unit.trim() {
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(factor)
}

fn as_nanos<S: Serializer>(millis: &Option<u32>, output: S) -> Result<S::Ok, S::Error> {
    output.serialize_u64(u64::from(millis.unwrap_or_default()) * 1_000_000)
}

impl Stream {
    /// As JetStream's API writes it; `usual` is its name where it has none of its own.
    ///
    /// # Errors
    /// A defect of this code.
    pub fn document(&self, usual: Option<&str>) -> Result<Map<String, Value>, PluginError> {
        let name = self.name.clone().or_else(|| usual.map(str::to_owned));
        match serde_json::to_value(Self { name, ..self.clone() }) {
            Ok(Value::Object(stream)) => Ok(stream),
            _ => Err(PluginError::internal("a stream that is no JSON object")),
        }
    }
}

/// Looks what is there of a wanted stream, and creates or changes it if `apply`. Answers what was found to do.
///
/// # Errors
/// JetStream refuses, or can't be asked.
pub async fn provision<K: ClientKeys>(
    connection: &mut Connection<K>,
    mut wanted: Map<String, Value>,
    apply: bool,
    deadline: Deadline,
) -> Result<Change, PluginError> {
    let name = wanted.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = config(connection, &name, deadline).await?;
    let is_usual = found.is_none() && room::fill(&mut wanted);
    let account = room::account(connection, &wanted, deadline).await?;
    let is_clustered = connection.info().cluster.is_some();
    let mut cuts = room::cut(&mut wanted, found.as_ref(), is_clustered, account.as_ref());
    let target = format!("stream {name}");
    let mut change = compare(&target, &wanted, found.as_ref(), judge);
    match change.action {
        Action::Create if apply => {
            cuts.extend(create(connection, &name, &mut wanted, is_usual, deadline).await?);
            change = compare(&target, &wanted, None, judge);
        }
        Action::Change if apply => {
            let mut whole = found.unwrap_or_default();
            whole.extend(wanted);
            let request = format!("STREAM.UPDATE.{name}");
            answer(&connection.ask(&request, &Value::Object(whole).to_string(), deadline).await?)?;
        }
        _ => {}
    }
    if !change.detail.is_empty() {
        // Behind: the host cuts a long text off at its end.
        cuts.push(change.detail);
    }
    change.detail = cuts.join("; ");
    Ok(change)
}

/// Creates it. Where the server has no room for a size that nobody wrote it is halved, which is told: only trying shows how much a
/// server has.
async fn create<K: ClientKeys>(
    connection: &mut Connection<K>,
    name: &str,
    wanted: &mut Map<String, Value>,
    is_usual: bool,
    deadline: Deadline,
) -> Result<Option<String>, PluginError> {
    let request = format!("STREAM.CREATE.{name}");
    let asked = room::size(wanted);
    loop {
        let said = connection.ask(&request, &Value::Object(wanted.clone()).to_string(), deadline).await?;
        if is_usual && room::is_too_large(&said) && room::halve(wanted) {
            continue;
        }
        answer(&said)?;
        let (Some(asked), Some(made)) = (asked, room::size(wanted)) else { return Ok(None) };
        let cut = || format!("max_bytes is cut from {asked} to {made}: the server has room for no more");
        return Ok((made < asked).then(cut));
    }
}

/// What JetStream tells of a stream: its configuration, state and time of creation; none if there is no such stream.
///
/// # Errors
/// We may not ask, or JetStream can't tell.
pub async fn info<K: ClientKeys>(
    connection: &mut Connection<K>,
    name: &str,
    deadline: Deadline,
) -> Result<Option<Value>, PluginError> {
    let bytes = connection.ask(&format!("STREAM.INFO.{name}"), "", deadline).await?;
    api::unless_missing(&bytes, NO_STREAM)
}

/// The configuration of a stream, if it is there.
///
/// # Errors
/// As [`info`].
pub async fn config<K: ClientKeys>(
    connection: &mut Connection<K>,
    name: &str,
    deadline: Deadline,
) -> Result<Option<Map<String, Value>>, PluginError> {
    info(connection, name, deadline).await?.map(api::config_of).transpose()
}

/// How a setting of a stream differs.
fn judge(setting: &str, wanted: &Value, now: &Value) -> Setting {
    let limited = LIMITS.contains(&setting);
    if (limited || setting == SIZE) && limit(wanted) == limit(now) {
        Setting::Same
    } else if FIXED.contains(&setting) {
        Setting::Conflict("can't be changed")
    } else if limited && is_lower(wanted, now) {
        Setting::Conflict("would delete messages")
    } else if setting == "subjects" && takes_away(wanted, now) {
        Setting::Conflict("would lose what is published to a subject that isn't named")
    } else {
        Setting::Different
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
pub fn covers(pattern: &str, other: &str) -> bool {
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
        let stream: Stream = waybill_plugin::config::parse(json).unwrap();
        stream.document(Some("ORDERS")).unwrap()
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

    /// As source document 5 writes it.
    #[test]
    fn sizes_and_ages_have_units() {
        let stream = wants(
            r#"{"name":"SEA_EVENTS","subjects":["sea.event.>"],"retention":"limits","max_age":"7d","max_bytes":"10GB",
                "storage":"file","replicas":3}"#,
        );
        assert_eq!(stream["max_age"], 604_800_000_000_000_u64);
        for (size, bytes) in [("\"10GB\"", 10_000_000_000_i64), ("\"4 GiB\"", 1 << 32), ("-1", -1), ("1024", 1_024)] {
            let stream = wants(&format!(r#"{{"subjects":["a"],"max_bytes":{size}}}"#));
            assert_eq!(stream["max_bytes"], bytes, "{size}");
        }
        for wrong in ["\"10\"", "\"GB\"", "\"10gb\"", "\"-1GB\"", "\"99999999999GB\"", "1.5"] {
            let text = format!(r#"{{"subjects":["a"],"max_bytes":{wrong}}}"#);
            assert_eq!(waybill_plugin::config::parse::<Stream>(&text).unwrap_err().path, "max_bytes", "{wrong}");
        }
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
            let change = compare("stream ORDERS", &wants(json), Some(&found()), judge);
            assert_eq!(change.action, action, "{json}: {}", change.detail);
            assert!(change.detail.contains(part), "{json}: {}", change.detail);
        }
        assert_eq!(compare("stream ORDERS", &found(), None, judge).action, Action::Create);
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
}
