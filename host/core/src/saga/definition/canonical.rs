//! The one form in which a definition is stored and hashed: JSON with sorted names and every default written out, so that
//! another default in a later version changes no definition that exists. Of retries only what was said is in it: the rest is
//! the configuration's, and a definition's hash doesn't depend on that.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Definition, Step};
use crate::saga::id::DefinitionHash;
use crate::saga::json::Json;

/// Makes a definition of its checked parts.
pub(super) fn seal(
    name: Arc<str>,
    version: u32,
    summary: Option<Arc<str>>,
    deadline: Option<Duration>,
    steps: Vec<Step>,
    groups: Vec<Range<usize>>,
) -> Definition {
    let mut document = Map::new();
    document.insert("name".to_owned(), name.to_string().into());
    document.insert("version".to_owned(), version.into());
    if let Some(summary) = &summary {
        document.insert("summary".to_owned(), summary.to_string().into());
    }
    if let Some(deadline) = deadline {
        document.insert("deadline_ms".to_owned(), millis(deadline).into());
    }
    document.insert("steps".to_owned(), steps.iter().map(step).collect());
    let text = sorted(&Value::Object(document));
    let digest = Sha256::digest(text.as_bytes());
    let hash = digest.iter().fold(String::with_capacity(64), |mut hash, byte| {
        // Writing to a string doesn't fail.
        let _infallible = write!(hash, "{byte:02x}");
        hash
    });
    let canonical = Json::parse(&text).unwrap_or_else(|_| Json::null());
    Definition { name, version, summary, deadline, steps, groups, canonical, hash: DefinitionHash(Arc::from(hash)) }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn step(step: &Step) -> Value {
    let mut fields = json!({
        "name": &*step.name,
        "action": step.action.to_string(),
        "idempotent": step.idempotent,
    });
    if let Value::Object(fields) = &mut fields {
        fields.extend(retry(step).map(|retry| ("retry".to_owned(), retry)));
        let texts = [
            ("compensation", step.compensation.as_ref().map(ToString::to_string)),
            ("concurrency_tag", step.concurrency_tag.as_ref().map(ToString::to_string)),
        ];
        fields.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into()))));
        fields.extend(step.timeout.map(|timeout| ("timeout_ms".to_owned(), millis(timeout).into())));
        fields.extend(step.input.as_ref().map(|input| ("input".to_owned(), input.source().clone())));
    }
    fields
}

/// What a step says about retries; none when it says nothing.
fn retry(step: &Step) -> Option<Value> {
    let retry = &step.retry;
    let fields = [
        ("max_attempts", retry.max_attempts.map(Value::from)),
        ("base_ms", retry.base_ms.map(Value::from)),
        ("factor", retry.factor.map(Value::from)),
        ("jitter", retry.jitter.map(Value::from)),
        ("cap_ms", retry.cap_ms.map(Value::from)),
        ("floor_ms", retry.floor_ms.map(Value::from)),
        ("policy", step.retry_plugin.as_ref().map(|name| name.to_string().into())),
    ];
    let said: Map<String, Value> =
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    (!said.is_empty()).then_some(Value::Object(said))
}

/// Writes JSON with sorted names.
/// JSON with its names sorted, at every depth.
pub(crate) fn sorted(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(name.clone()).to_string());
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
}
