//! JetStream's answers, and what of a thing at the server differs from what is wanted.

use serde_json::{Map, Value};
use waybill_plugin::provision::{Action, Change};
use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

use crate::text::shown;

/// Code of JetStream's refusals where no message is concerned.
pub const CODE: &str = "NATS.PROVISION";

/// JetStream's word, unless it refused.
///
/// # Errors
/// It did, or it said no JSON.
pub fn answer(bytes: &[u8]) -> Result<Value, PluginError> {
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

/// The same; none if it refused with this number, which says that there is no such thing.
///
/// # Errors
/// It refused for another reason, or it said no JSON.
pub fn unless_missing(bytes: &[u8], missing: u64) -> Result<Option<Value>, PluginError> {
    let said: Value = serde_json::from_slice(bytes).unwrap_or_default();
    if said.pointer("/error/err_code").and_then(Value::as_u64) == Some(missing) {
        return Ok(None);
    }
    answer(bytes).map(Some)
}

/// The configuration in what JetStream tells of a stream or a consumer.
///
/// # Errors
/// There is none in it.
pub fn config_of(mut info: Value) -> Result<Map<String, Value>, PluginError> {
    match info.get_mut("config") {
        Some(Value::Object(config)) => Ok(std::mem::take(config)),
        _ => Err(PluginError::unavailable(CODE, "JetStream's answer holds no configuration")),
    }
}

/// How a setting differs from what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// As it should be.
    Same,
    /// Can be changed in place.
    Different,
    /// Can't be applied, and why.
    Conflict(&'static str),
}

/// What has to be done for `target` to be as wanted. `judge` is asked of settings that aren't equal.
pub fn compare(
    target: &str,
    wanted: &Map<String, Value>,
    found: Option<&Map<String, Value>>,
    judge: impl Fn(&str, &Value, &Value) -> Setting,
) -> Change {
    let target = target.to_owned();
    let Some(found) = found else {
        return Change { target, action: Action::Create, detail: Value::Object(wanted.clone()).to_string() };
    };
    let (mut action, mut details) = (Action::Keep, Vec::new());
    for (setting, value) in wanted {
        let now = found.get(setting).unwrap_or(&Value::Null);
        let judged = if is_same(value, now) { Setting::Same } else { judge(setting, value, now) };
        let why = match judged {
            Setting::Same => continue,
            Setting::Different => {
                if action == Action::Keep {
                    action = Action::Change;
                }
                String::new()
            }
            Setting::Conflict(why) => {
                action = Action::Conflict;
                format!(" ({why})")
            }
        };
        details.push(format!("{setting} is {now}, wanted {value}{why}"));
    }
    Change { target, action, detail: details.join("; ") }
}

/// Equal but for the order of lists, that of subjects means nothing. What JetStream leaves out is empty.
fn is_same(wanted: &Value, now: &Value) -> bool {
    match (wanted, now) {
        (Value::Array(wanted), Value::Array(now)) => {
            wanted.len() == now.len() && wanted.iter().all(|value| now.contains(value))
        }
        (Value::String(wanted), Value::Null) => wanted.is_empty(),
        (wanted, now) => wanted == now,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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

    #[test]
    fn what_is_not_there_is_no_refusal() {
        let missing = br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#;
        assert_eq!(unless_missing(missing, 10_059).unwrap(), None);
        assert!(unless_missing(missing, 10_014).is_err());
        let there = unless_missing(br#"{"config":{"name":"A"}}"#, 10_059).unwrap().unwrap();
        assert_eq!(config_of(there).unwrap().get("name").unwrap(), "A");
        assert!(config_of(Value::Null).is_err());
    }
}
