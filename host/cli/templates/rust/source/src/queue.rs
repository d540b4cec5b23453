//! What the queue says. Pure, so that `cargo test` runs it natively.

use std::collections::BTreeSet;

use serde::Deserialize;
use waybill_plugin::source::Settled;
use waybill_plugin::transport::Fault;

/// One message in the queue.
#[derive(Debug, Deserialize)]
pub struct Entry {
    /// Names it until it is taken off.
    pub id: String,
    /// What it is about.
    pub topic: String,
    /// Its content, any JSON.
    pub payload: serde_json::Value,
}

/// The list that the queue answers.
pub fn read(body: &[u8]) -> Result<Vec<Entry>, String> {
    serde_json::from_slice(body).map_err(|error| format!("the queue's answer can't be read: {error}"))
}

/// The first `room` messages that aren't out already.
pub fn fresh(entries: Vec<Entry>, out: &BTreeSet<String>, room: usize) -> Vec<Entry> {
    entries.into_iter().filter(|entry| !out.contains(&entry.id)).take(room).collect()
}

/// What a status says of a message that was to be taken off; none = no answer.
pub fn taken_off(status: Option<u16>) -> Settled {
    match status {
        Some(200..=299) => Settled::Done,
        Some(404) => Settled::Lost,
        Some(status) => Settled::Failed(Fault::new("MY_PLUGIN.SETTLE", format!("the queue answered {status}"))),
        None => Settled::Failed(Fault::new("MY_PLUGIN.SETTLE", "the queue gave no answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_nonsense_refused() {
        let entries = read(br#"[{"id":"1","topic":"t","payload":{"a":1}}]"#).unwrap();
        assert_eq!((entries[0].id.as_str(), entries[0].payload.to_string().as_str()), ("1", r#"{"a":1}"#));
        assert!(read(b"nonsense").is_err());
    }

    #[test]
    fn what_is_out_isnt_brought_again() {
        let list = br#"[{"id":"1","topic":"t","payload":1},{"id":"2","topic":"t","payload":2},{"id":"3","topic":"t","payload":3}]"#;
        let fresh = fresh(read(list).unwrap(), &BTreeSet::from(["1".to_owned()]), 1);
        assert_eq!(fresh.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["2"]);
    }

    #[test]
    fn what_is_gone_is_lost_and_no_failure() {
        assert_eq!(taken_off(Some(204)), Settled::Done);
        assert_eq!(taken_off(Some(404)), Settled::Lost);
        assert!(matches!(taken_off(None), Settled::Failed(_)));
    }
}
