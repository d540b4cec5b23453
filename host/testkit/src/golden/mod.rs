//! Data directories of earlier versions (`tests/golden/<version>`): what has to be found in one, and how it is looked for.
//!
//! A directory is an archive of what a real host of that version left behind when it was killed, and a manifest: requests
//! with the answers that they have to get, in order. `cargo xtask golden` makes one of today's version, `tests/tests/processes/golden` opens all.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the archive of the data directory.
pub const ARCHIVE: &str = "data.tar.gz";
/// Name of the manifest.
pub const MANIFEST: &str = "manifest.json";
/// The relay in the configuration of a host on such a directory.
pub const RELAY: &str = "golden";
/// Largest archive, in bytes: they stay in the repository for good.
pub const ARCHIVE_BYTES_MAX: u64 = 300 * 1024;

/// What has to be found in a directory.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The version that wrote the data.
    pub version: String,
    /// Done in this order.
    pub steps: Vec<Step>,
}

/// One thing to be found or done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// A request, and what its answer has to hold.
    Ask(Ask),
    /// A worker outside claims these messages and acknowledges them.
    Take {
        /// Pattern of their topics.
        topic: String,
        /// Ids that have to come, each list in its order; others may come too.
        keys: Vec<Vec<String>>,
    },
    /// What a plugin has kept. Read from the store itself.
    Kept { scope: String, key: String, value: String },
    /// What the inbox has of a consumer, in the store's only shard. Read from the store itself before a host looks after it.
    Inbox {
        consumer: String,
        /// Ids that were finished.
        seen: Vec<String>,
        /// Ids whose end is in the history.
        done: Vec<String>,
        /// Messages that were taken and aren't finished.
        takes: usize,
        /// Behind which position each source begins again that has no place of its own at its peer.
        positions: BTreeMap<String, String>,
    },
    /// What a host noted of a table that it publishes directly. Read from the store itself.
    Table {
        host: String,
        source: String,
        /// Rows that were about to be sent.
        calling: Vec<String>,
    },
    /// A page of one event whose payload is large: in base64 it is a group so many times over.
    Large { path: String, group: String, times: usize },
    /// Rows of this table that could not be read lie in quarantine.
    Quarantined {
        /// Table that they come from.
        table: String,
        count: usize,
    },
}

/// A request, and what its answer has to hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ask {
    /// For whom a failure is told.
    pub what: String,
    /// Path with its query.
    pub path: String,
    /// Body of a POST; a GET has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post: Option<Value>,
    /// `Idempotency-Key` of a POST.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Status of the answer.
    pub status: u16,
    /// Fields of an object that have to be there; items that a list has to have, whatever else is in it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub answer: Value,
    /// Asked again until it is so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub patient: bool,
    /// Unix milliseconds after which it isn't asked any more: what a year at most is kept for ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// The configuration of a host on such a directory. `web` is the plugin that sends to `http:` topics.
///
/// Everything is kept as long as settings allow, so that nothing is retired by time before it is looked for.
pub fn config(data: &Path, web: &str) -> String {
    format!(
        r#"[store]
url = "surrealkv://{}"
memtable = "8MiB"
[outbox]
keep_done = "3650d"
[dead]
keep = "3650d"
on_dead = "hold_key"
alert_at = 0
[inbox]
dedup_window = "3650d"
[saga]
keep_done = "3650d"
rest_after = "100ms"
[idempotency]
ttl = "366d"
lease = "24h"
[events]
keep_ids = "3650d"
tombstone_keep = "3650d"
feed_keep = "3650d"
[[stream]]
match = "golden.aged"
keep_age = "3650d"
[relay.{RELAY}]
match = "golden.relayed"
transport = "relayed"
topic = "golden.{{stream}}"
hold_max = "3650d"
[transport.web]
{web}
[transport.spare]
plugin = "noop"
[transport.relayed]
plugin = "noop"
[[route]]
match = "http:**"
transport = "web"
[[route]]
match = "bus:spare.**"
transport = "spare"
[[route]]
match = "bus:dedup.**"
transport = "external"
dedup = "payload"
dedup_window = "3650d"
[[route]]
match = "bus:**"
transport = "external"
"#,
        data.display()
    )
}

/// Whether an answer holds what is expected: objects may have more fields, lists more items.
pub fn holds(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Null, _) => true,
        (Value::Object(expected), Value::Object(found)) => {
            expected.iter().all(|(name, value)| found.get(name).is_some_and(|found| holds(value, found)))
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.iter().all(|item| found.iter().any(|found| holds(item, found)))
        }
        _ => expected == found,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::holds;

    #[test]
    fn what_is_missing_or_other_is_seen() {
        let found = json!({ "items": [{ "id": "a", "state": "done" }, { "id": "b", "state": "dead" }], "next": null });
        assert!(holds(&json!({ "items": [{ "id": "b", "state": "dead" }] }), &found));
        assert!(!holds(&json!({ "items": [{ "id": "b", "state": "done" }] }), &found));
        assert!(!holds(&json!({ "items": [{ "id": "c" }] }), &found));
        assert!(!holds(&json!({ "count": 2 }), &found));
    }
}
