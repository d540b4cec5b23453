//! What the clients did, in their own words: every operation with what it sent and how it ended.
//!
//! The ledger is written by the harness's process before a request leaves and after its answer came, so a killed host
//! can't take it along. An operation whose answer never came stays `unknown`: it may have been committed or not, and
//! checks must allow both, but nothing in between.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

/// One message of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// The harness's own name for it, in the payload: known before the host gives an id.
    pub tag: String,
    pub tenant: String,
    pub key: Option<String>,
    /// It was to wait for a later instant, so it has no place in its key's order before that.
    pub scheduled: bool,
    /// Id: the caller's, or what the host answered.
    pub id: Option<String>,
}

/// How it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `POST /v1/messages` with one message.
    Single,
    /// `POST /v1/messages` with several.
    Batch,
    /// `POST /v1/transactions` with a business row.
    Transaction,
}

/// How it ended, as the client knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "fate", content = "why")]
pub enum Fate {
    Open,
    Ok,
    Failed(String),
    /// No answer: committed or not.
    Unknown(String),
}

/// One operation of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// Place in the ledger, which is the order in which operations began.
    pub number: usize,
    /// Who. A producer has one operation under way at a time and keys of its own.
    pub producer: usize,
    pub kind: Kind,
    /// What. All or nothing.
    pub messages: Vec<Sent>,
    /// Id of the business row that commits with it.
    pub row: Option<String>,
    #[serde(flatten)]
    pub fate: Fate,
    /// Times it was sent; more than one only with the caller's own ids.
    pub tries: u32,
    /// First sent, since the ledger began.
    pub began: Duration,
    /// Last answer, since the ledger began.
    pub ended: Option<Duration>,
}

/// Operations of all clients.
#[derive(Debug)]
pub struct ClientLedger {
    since: Instant,
    operations: Mutex<Vec<Operation>>,
    acknowledged: AtomicUsize,
}

impl Default for ClientLedger {
    fn default() -> Self {
        Self { since: Instant::now(), operations: Mutex::default(), acknowledged: AtomicUsize::new(0) }
    }
}

impl ClientLedger {
    /// Notes an operation before it is sent, and numbers it.
    pub fn begin(&self, producer: usize, kind: Kind, messages: Vec<Sent>, row: Option<String>) -> usize {
        let mut operations = self.operations.lock();
        let number = operations.len();
        operations.push(Operation {
            number,
            producer,
            kind,
            messages,
            row,
            fate: Fate::Open,
            tries: 1,
            began: self.since.elapsed(),
            ended: None,
        });
        number
    }

    /// Notes that it is sent once more. It stays unknown until an answer comes.
    pub fn again(&self, number: usize) {
        self.change(number, |operation| operation.tries += 1);
    }

    /// Notes its end; `ids` are those that the host answered, in the order of the messages.
    pub fn end(&self, number: usize, fate: Fate, ids: &[String]) {
        let now = self.since.elapsed();
        self.change(number, |operation| {
            // Once unknown, only an acknowledgement tells more: a refusal of the second try says nothing of the first.
            let stays = matches!(operation.fate, Fate::Unknown(_)) && fate != Fate::Ok;
            if !stays {
                if fate == Fate::Ok && operation.fate != Fate::Ok {
                    self.acknowledged.fetch_add(operation.messages.len(), Ordering::Relaxed);
                }
                operation.fate = fate;
            }
            operation.ended = Some(now);
            for (message, id) in operation.messages.iter_mut().zip(ids) {
                message.id = Some(id.clone());
            }
        });
    }

    fn change(&self, number: usize, act: impl FnOnce(&mut Operation)) {
        if let Some(operation) = self.operations.lock().get_mut(number) {
            act(operation);
        }
    }

    pub fn operations(&self) -> Vec<Operation> {
        self.operations.lock().clone()
    }

    /// Messages of an operation.
    pub fn count(&self, number: usize) -> usize {
        self.operations.lock().get(number).map_or(0, |operation| operation.messages.len())
    }

    /// Messages acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// How many are under way.
    pub fn open(&self) -> usize {
        self.operations.lock().iter().rev().take(64).filter(|operation| operation.fate == Fate::Open).count()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.operations.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Writes records as JSON lines, for a look after a failure.
pub fn write_jsonl<T: Serialize>(path: &Path, records: &[T]) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for record in records {
        serde_json::to_writer(&mut file, record)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn one() -> Vec<Sent> {
        vec![Sent { tag: "a".into(), tenant: "t".into(), key: None, scheduled: false, id: None }]
    }

    #[test]
    fn an_unknown_operation_becomes_ok_by_an_answer_and_failed_by_none() {
        let ledger = ClientLedger::default();
        let number = ledger.begin(0, Kind::Single, one(), None);
        assert_eq!((ledger.open(), ledger.len(), ledger.is_empty()), (1, 1, false));
        ledger.end(number, Fate::Unknown("reset".into()), &[]);
        ledger.again(number);
        ledger.end(number, Fate::Failed("503".into()), &[]);
        assert_eq!(ledger.operations()[0].fate, Fate::Unknown("reset".into()));
        ledger.again(number);
        ledger.end(number, Fate::Ok, &["id-1".into()]);
        let operation = ledger.operations().remove(0);
        assert_eq!((operation.fate, operation.tries), (Fate::Ok, 3));
        assert_eq!(ledger.acknowledged(), 1);
        assert_eq!(operation.messages[0].id.as_deref(), Some("id-1"));
    }

    #[test]
    fn records_are_written_one_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = ClientLedger::default();
        let number = ledger.begin(3, Kind::Transaction, one(), Some("row".into()));
        ledger.end(number, Fate::Failed("x".into()), &[]);
        let path = dir.path().join("clients.jsonl");
        write_jsonl(&path, &ledger.operations()).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let read: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!(
            (read["fate"].as_str(), read["why"].as_str(), read["kind"].as_str()),
            (Some("failed"), Some("x"), Some("transaction"))
        );
    }
}
