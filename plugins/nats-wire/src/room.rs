//! What a new stream gets where nobody wrote it (source document 5), and what of the wanted one the server can't hold.

use serde_json::{Map, Value};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{ErrorKind, PluginError};

use crate::api;
use crate::connection::{Connection, JETSTREAM_OFF};
use crate::keys::ClientKeys;

/// Longest age of a message, in nanoseconds: 7 days.
const AGE_NS: u64 = 7 * 24 * 60 * 60 * 1_000_000_000;
/// Most bytes of a stream: 10 GB.
const BYTES: i64 = 10_000_000_000;
/// A size that nobody wrote isn't made smaller than this: a server that is so full is the operator's to mend.
const BYTES_LEAST: i64 = 10_000_000;
/// JetStream's errors for a stream that is too large: resources, memory, storage.
const TOO_LARGE: &[u64] = &[10_023, 10_028, 10_047];
/// JetStream's error where no servers of a cluster are fit for a stream; its words say whether they lack room.
const NO_PEERS: u64 = 10_005;

const SIZE: &str = "max_bytes";
const REPLICAS: &str = "num_replicas";

/// Gives a new stream what nobody wrote. Whether its size is one of these.
///
/// Where it isn't the stream's limits that remove messages, none has an age or a size: messages would go before they are handled.
pub(crate) fn fill(wanted: &mut Map<String, Value>) -> bool {
    wanted.entry("storage").or_insert_with(|| "file".into());
    let retention = wanted.entry("retention").or_insert_with(|| "limits".into());
    if retention.as_str() != Some("limits") {
        return false;
    }
    // JetStream takes no stream that remembers ids for longer than messages.
    let window = wanted.get("duplicate_window").and_then(Value::as_u64).unwrap_or_default();
    wanted.entry("max_age").or_insert_with(|| AGE_NS.max(window).into());
    let is_usual = !wanted.contains_key(SIZE);
    wanted.entry(SIZE).or_insert_with(|| BYTES.into());
    is_usual
}

/// What JetStream tells of our account, if a stream with a size is wanted; none: we may not ask.
///
/// # Errors
/// JetStream can't tell.
pub(crate) async fn account<K: ClientKeys>(
    connection: &mut Connection<K>,
    wanted: &Map<String, Value>,
    deadline: Deadline,
) -> Result<Option<Value>, PluginError> {
    if size(wanted).is_none() {
        return Ok(None);
    }
    match connection.ask("INFO", "", deadline).await {
        Ok(said) => api::answer(&said).map(Some),
        // It answered about the stream before: this part of the API isn't open to us.
        Err(error) if error.kind == ErrorKind::Denied || error.fault.code == JETSTREAM_OFF => Ok(None),
        Err(error) => Err(error),
    }
}

/// Cuts what is wanted to what is there: what was cut, to what, and why. A stream that is there is never made smaller by it.
pub(crate) fn cut(
    wanted: &mut Map<String, Value>,
    found: Option<&Map<String, Value>>,
    is_clustered: bool,
    account: Option<&Value>,
) -> Vec<String> {
    let mut cuts = Vec::new();
    let now = found.and_then(|found| positive(found, REPLICAS)).unwrap_or(1);
    let asked = positive(wanted, REPLICAS);
    let mut replicas = asked.unwrap_or(now);
    if !is_clustered && replicas > now {
        cuts.push(format!("{REPLICAS} is cut from {replicas} to {now}: the server is in no cluster"));
        wanted.insert(REPLICAS.to_owned(), now.into());
        replicas = now;
    }
    if let Some(asked) = size(wanted)
        && let Some((room, why)) = account.and_then(|account| room(account, wanted, found, replicas))
    {
        let room = found.and_then(size).map_or(room, |now| room.max(now));
        if room > 0 && room < asked {
            cuts.push(format!("{SIZE} is cut from {asked} to {room}: {why}"));
            wanted.insert(SIZE.to_owned(), room.into());
        }
    }
    cuts
}

/// Most bytes that a stream of ours may have, and why; none: no limit is known.
fn room(
    account: &Value,
    wanted: &Map<String, Value>,
    found: Option<&Map<String, Value>>,
    replicas: i64,
) -> Option<(i64, &'static str)> {
    // With tiers each number of replicas has limits of its own, else every replica counts.
    let tiers = account.get("tiers").and_then(Value::as_object).filter(|tiers| !tiers.is_empty());
    let (account, copies) = match tiers {
        Some(tiers) => (tiers.get(&format!("R{replicas}"))?, 1),
        None => (account, replicas.max(1)),
    };
    let limits = account.get("limits")?.as_object()?;
    let storage = wanted.get("storage").or_else(|| found?.get("storage")).and_then(Value::as_str);
    let kind = if storage == Some("memory") { "memory" } else { "storage" };
    let one = positive(limits, &format!("{kind}_max_stream_bytes"))
        .map(|bytes| (bytes, "the account takes no larger stream"));
    let all = positive(limits, &format!("max_{kind}")).map(|limit| {
        let reserved = account.get(format!("reserved_{kind}")).and_then(Value::as_i64).unwrap_or_default();
        let own = found.and_then(size).map_or(0, |bytes| bytes.saturating_mul(copies));
        let others = reserved.saturating_sub(own).max(0);
        (limit.saturating_sub(others) / copies, "the account has room for no more")
    });
    one.into_iter().chain(all).min_by_key(|(bytes, _)| *bytes)
}

/// Halves a stream's size, unless it is small already. Whether it did.
pub(crate) fn halve(wanted: &mut Map<String, Value>) -> bool {
    let Some(half) = size(wanted).map(|bytes| bytes / 2).filter(|half| *half >= BYTES_LEAST) else { return false };
    wanted.insert(SIZE.to_owned(), half.into());
    true
}

/// Whether JetStream refused a stream because it has no room for one of its size.
pub(crate) fn is_too_large(said: &[u8]) -> bool {
    let said: Value = serde_json::from_slice(said).unwrap_or_default();
    let Some(error) = said.get("error") else { return false };
    let number = error.get("err_code").and_then(Value::as_u64).unwrap_or_default();
    let lacks = || error.get("description").and_then(Value::as_str).is_some_and(|words| words.contains("insufficient"));
    TOO_LARGE.contains(&number) || (number == NO_PEERS && lacks())
}

/// Most bytes of a stream; none: no limit.
pub(crate) fn size(stream: &Map<String, Value>) -> Option<i64> {
    positive(stream, SIZE)
}

fn positive(settings: &Map<String, Value>, name: &str) -> Option<i64> {
    settings.get(name).and_then(Value::as_i64).filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_new_stream_has_what_document_5_says_where_nothing_is_written() {
        let filled = |value: &Value| {
            let mut wanted = map(value);
            let is_usual = fill(&mut wanted);
            (Value::Object(wanted), is_usual)
        };
        let usual = json!({ "name": "A", "storage": "file", "retention": "limits", "max_age": 604_800_000_000_000_u64,
            "max_bytes": 10_000_000_000_i64 });
        assert_eq!(filled(&json!({ "name": "A" })), (usual, true));
        let written = json!({ "storage": "memory", "retention": "limits", "max_age": 0, "max_bytes": -1 });
        assert_eq!(filled(&written), (written.clone(), false));
        // Nothing is lost that somebody waits for, and ids are remembered no longer than messages.
        let queue = json!({ "storage": "file", "retention": "workqueue" });
        assert_eq!(filled(&json!({ "retention": "workqueue" })), (queue, false));
        let month = 2_592_000_000_000_000_u64;
        assert_eq!(filled(&json!({ "duplicate_window": month })).0["max_age"], month);
    }

    #[test]
    fn what_the_server_has_not_is_cut_and_told() {
        let account = |limits: Value| json!({ "limits": limits, "reserved_storage": 1_000 });
        let none = account(json!({ "max_storage": -1, "storage_max_stream_bytes": -1 }));
        let small = account(json!({ "max_storage": 7_000, "max_memory": 50, "storage_max_stream_bytes": -1 }));
        let single = account(json!({ "max_storage": 7_000, "storage_max_stream_bytes": 500 }));
        let tiers = json!({ "limits": {}, "tiers": { "R3": { "limits": { "max_storage": 4_000 } } } });
        let wanted = json!({ "max_bytes": 9_000, "num_replicas": 3 });
        for (wanted, found, is_clustered, account, replicas, bytes, told) in [
            (&wanted, None, true, Some(&none), 3, 9_000, ""),
            (&wanted, None, true, None, 3, 9_000, ""),
            (&wanted, None, false, None, 1, 9_000, "num_replicas is cut from 3 to 1: the server is in no cluster"),
            (
                &wanted,
                None,
                true,
                Some(&small),
                3,
                2_000,
                "max_bytes is cut from 9000 to 2000: the account has room for no more",
            ),
            (
                &wanted,
                None,
                true,
                Some(&single),
                3,
                500,
                "max_bytes is cut from 9000 to 500: the account takes no larger stream",
            ),
            (
                &wanted,
                None,
                true,
                Some(&tiers),
                3,
                4_000,
                "max_bytes is cut from 9000 to 4000: the account has room for no more",
            ),
            (
                &json!({ "max_bytes": 60, "num_replicas": 1, "storage": "memory" }),
                None,
                false,
                Some(&small),
                1,
                50,
                "max_bytes is cut from 60 to 50: the account has room for no more",
            ),
            // What is there is counted once, and never made smaller.
            (
                &wanted,
                Some(json!({ "max_bytes": 1_000, "num_replicas": 1 })),
                false,
                Some(&small),
                1,
                7_000,
                "num_replicas is cut from 3 to 1: the server is in no cluster; \
                 max_bytes is cut from 9000 to 7000: the account has room for no more",
            ),
            (
                &wanted,
                Some(json!({ "max_bytes": 8_000, "num_replicas": 3 })),
                false,
                Some(&single),
                3,
                8_000,
                "max_bytes is cut from 9000 to 8000: the account takes no larger stream",
            ),
        ] {
            let mut wanted = map(wanted);
            let found = found.as_ref().map(map);
            assert_eq!(cut(&mut wanted, found.as_ref(), is_clustered, account).join("; "), told);
            assert_eq!((&wanted["num_replicas"], &wanted["max_bytes"]), (&json!(replicas), &json!(bytes)), "{told}");
        }
        let mut unlimited = map(&json!({ "max_bytes": -1 }));
        assert_eq!(cut(&mut unlimited, None, false, Some(&small)), Vec::<String>::new());
    }

    #[test]
    fn a_size_is_halved_as_long_as_it_is_one() {
        let mut wanted = map(&json!({ "max_bytes": 30_000_000 }));
        assert!(halve(&mut wanted));
        assert_eq!(size(&wanted), Some(15_000_000));
        assert!(!halve(&mut wanted));
        assert_eq!(size(&wanted), Some(15_000_000));
        for (said, expected) in [
            (r#"{"error":{"err_code":10047,"description":"insufficient storage resources available"}}"#, true),
            (
                r#"{"error":{"err_code":10005,"description":"no suitable peers for placement, insufficient storage"}}"#,
                true,
            ),
            (r#"{"error":{"err_code":10005,"description":"no suitable peers for placement"}}"#, false),
            (r#"{"error":{"err_code":10065,"description":"subjects overlap"}}"#, false),
            ("{}", false),
            ("oh", false),
        ] {
            assert_eq!(is_too_large(said.as_bytes()), expected, "{said}");
        }
    }
}
