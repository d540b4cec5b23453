//! The port for writing from outside the owner: business transactions, the doorstep, operations and audit.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::audit::AuditQuery;
use crate::fates::{Fates, Trial};
use crate::idempotency::Answer;
use crate::ids::{ShardId, Tenant};
use crate::message::Message;
use crate::outbox::dead_groups::DeadCause;
use crate::port::idempotency::Hold;
use crate::port::query::Page;
use crate::port::saga::RetryMode;
use crate::port::store::StoreError;
use crate::saga::definition::sorted;
use crate::streams::joint::JointAppends;
use crate::time::UnixMillis;

/// One parameterised SurrealQL statement of a caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// SurrealQL: SELECT, CREATE, INSERT, UPDATE, UPSERT, DELETE, RELATE, LET or RETURN.
    pub query: String,
    /// Values of its `$names`.
    #[serde(default)]
    pub bindings: serde_json::Map<String, serde_json::Value>,
}

/// Digest of what must be equal for a repeated transaction to count as the same one: texts and values, whatever the order of
/// their names. None = there are none.
pub fn statements_digest(statements: &[Statement]) -> Option<[u8; 32]> {
    if statements.is_empty() {
        return None;
    }
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    };
    for statement in statements {
        part(&statement.query);
        part(&sorted(&serde_json::Value::Object(statement.bindings.clone())));
    }
    Some(hash.finalize().into())
}

/// Messages for one shard's doorstep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorGroup {
    pub shard: ShardId,
    /// Messages in order, all with ids.
    pub messages: Vec<Arc<Message>>,
}

/// What a transaction answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transacted {
    /// Result of each statement, in order, as JSON.
    pub results: Vec<serde_json::Value>,
    /// Numbers of the events of each append, in order; none = its owner gives them.
    pub seqs: Vec<Option<Vec<u64>>>,
    /// All of its events were there under the same ids: it is a repeat, and nothing ran.
    pub is_repeat: bool,
}

/// Makes the answer that an idempotency key is finished with from what a transaction answered.
pub type AnswerOf = Arc<dyn Fn(&Transacted) -> Answer + Send + Sync>;

/// An idempotency key that a transaction finishes in its own commit, so that a crash never comes between the two.
#[derive(Clone)]
pub struct Conclusion {
    /// Which key, and the token of who has it.
    pub hold: Hold,
    /// What it is finished with, as it is to be kept.
    pub answer: AnswerOf,
    pub now: UnixMillis,
}

/// State of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationState {
    /// At work, or to be resumed after a restart.
    Running,
    Done,
    /// Stopped by an operator.
    Cancelled,
    /// Stopped by an error.
    Failed,
}

/// A bulk act, kept in the store so that it survives a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    pub id: String,
    /// On dead letters `replay`, `quarantine` or `purge`; on sagas `pause`, `resume`, `cancel`, `kill`, `retry` or `accept`; on messages
    /// `cancel_messages` or `reschedule_messages`.
    pub kind: String,
    /// The filter as given; it selects what died, was enqueued, or which sagas started, before `created_at`.
    pub filter: String,
    /// Of a `retry`: from which step.
    #[serde(default)]
    pub step: Option<String>,
    /// Of a `retry`: which way stuck sagas go on.
    #[serde(default)]
    pub mode: Option<RetryMode>,
    /// Of a `reschedule_messages`: when they go.
    #[serde(default)]
    pub not_before: Option<UnixMillis>,
    /// On dead letters: only what died until then; none = until `created_at`.
    #[serde(default)]
    pub before: Option<UnixMillis>,
    /// Of a `replay`: what is put back first, and how that went.
    #[serde(default)]
    pub trial: Option<Trial>,
    /// Tenant it is confined to; none = all.
    pub tenant: Option<String>,
    /// Most acts a second.
    pub rate: u32,
    /// Why, for the audit.
    pub reason: String,
    /// Who asked for it; empty where an earlier build wrote the record.
    #[serde(default)]
    pub actor: String,
    pub state: OperationState,
    /// How many matched when it began; at least so many when `counted_since` is set.
    pub matched: u64,
    /// Of what entered the order before this instant nothing was counted; it is worked on all the same. None = all was counted.
    #[serde(default)]
    pub counted_since: Option<UnixMillis>,
    /// How many are done.
    pub done: u64,
    /// How many were so already.
    #[serde(default)]
    pub unchanged: u64,
    /// How many could not be done.
    pub failed: u64,
    /// Why not, by code: the first [`REFUSALS_MAX`] codes that were met.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// Of a `replay`: fates that were known at once, of events. Those of messages are counted by their shards.
    #[serde(default)]
    pub fates: Fates,
    /// Of a `replay`: how many were put back whose fates nobody counts: stuck sagas, received messages.
    #[serde(default)]
    pub not_followed: u64,
    /// Of a `replay`: the groups of dead letters that it put something of back, the first [`CAUSES_MAX`] of them.
    #[serde(default)]
    pub causes: Vec<DeadCause>,
    /// Everything up to this cursor is done.
    pub cursor: Option<String>,
    /// Error that stopped it.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: UnixMillis,
    pub updated_at: UnixMillis,
}

/// Codes that an operation keeps an example of.
pub const REFUSALS_MAX: usize = 20;

/// Bytes of the signatures of groups that an operation remembers.
const CAUSES_BYTES_MAX: usize = 64 * 1024;
/// Groups of dead letters that an operation remembers: its record is written again each second while it is at work.
pub const CAUSES_MAX: usize = 100;

/// What a bulk act could not be done to, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    /// Stable code.
    pub code: String,
    /// How many.
    pub count: u64,
    /// Id of the first of them.
    pub example: String,
    /// What was said of that one.
    pub detail: String,
}

/// The lowest id that an operation of an instant can have. Ids are ULIDs, which begin with when they were made.
pub fn first_operation_id(at: UnixMillis) -> String {
    ulid::Ulid::from_parts(at.0, 0).to_string()
}

impl Operation {
    /// Remembers the group of a dead letter that was put back.
    pub fn put_back_of(&mut self, cause: DeadCause) {
        let held: usize = self.causes.iter().map(|cause| cause.signature.len()).sum();
        if self.causes.len() < CAUSES_MAX && held < CAUSES_BYTES_MAX && !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
    }

    /// How many it hasn't come to; none are left when it is over.
    pub fn to_go(&self) -> u64 {
        match self.state {
            OperationState::Running => self.matched.saturating_sub(self.done + self.unchanged + self.failed),
            OperationState::Done | OperationState::Cancelled | OperationState::Failed => 0,
        }
    }

    /// Whether it was over before an instant.
    pub fn was_over(&self, before: UnixMillis) -> bool {
        self.state != OperationState::Running && self.updated_at < before
    }

    /// Counts one that could not be done. True when it is the first with its code.
    pub fn refuse(&mut self, code: &str, id: &str, detail: String) -> bool {
        self.failed += 1;
        if let Some(refusal) = self.refusals.iter_mut().find(|refusal| refusal.code == code) {
            refusal.count += 1;
            return false;
        }
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(Refusal { code: code.to_owned(), count: 1, example: id.to_owned(), detail });
        }
        true
    }
}

/// One line of the audit trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditEvent {
    pub at: UnixMillis,
    pub kind: String,
    /// Who asked: a token's name, a person as `E-MAIL (oidc:SUB)` or `oidc:SUB`, `local`, or the host's id.
    pub actor: String,
    pub tenant: Option<String>,
    /// Object it is about: message id, operation id, transport.
    pub object: String,
    pub detail: serde_json::Value,
}

/// Writes of callers and operators.
#[async_trait]
pub trait TransactStore: Send + Sync + 'static {
    /// Runs the statements, puts the messages on their doorsteps and appends the events, all in one transaction that commits alone. Refuses statements of
    /// other kinds and those that touch Waybill's own tables ([`StoreError::OwnTable`]) before anything runs. A failed statement fails
    /// all ([`StoreError::Statement`], with its number from 1). With `Conflict` nothing was applied.
    /// Messages with a caller's id that is taken fail it with [`StoreError::Exists`]; of one that comes with statements
    /// ([`Message::statements`]) also when it lies on the doorstep of its shard, or so much lies there that the store doesn't look
    /// through it: statements never run a second time with one id. With a conclusion it fails with
    /// [`StoreError::LeaseLost`] when the key isn't the caller's any more.
    /// Events at an expected number fail it with [`StoreError::Append`] where the stream ends elsewhere. Where all of its events are there
    /// under the same ids it is a repeat: nothing runs ([`crate::streams::joint::is_repeat`]).
    async fn transact(
        &self,
        statements: Vec<Statement>,
        messages: Vec<DoorGroup>,
        events: JointAppends,
        conclusion: Option<Conclusion>,
    ) -> Result<Transacted, StoreError>;
    /// Writes an operation (new or progressed).
    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError>;
    async fn operation(&self, id: &str) -> Result<Option<Operation>, StoreError>;
    /// Latest operations, newest first; with a tenant those that are confined to it.
    async fn operations(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Operation>, StoreError>;
    /// What the shards counted of the messages that an operation put back ([`Write::AddFates`](crate::port::store::Write::AddFates)).
    async fn fates(&self, operation: &str) -> Result<Fates, StoreError>;
    /// Operations that are to be resumed.
    async fn running_operations(&self) -> Result<Vec<Operation>, StoreError>;
    /// Notes whether an operator has paused a transport: it stays so over restarts.
    async fn set_paused(&self, transport: &str, paused: bool) -> Result<(), StoreError>;
    /// Names of the transports that are paused.
    async fn paused(&self) -> Result<Vec<String>, StoreError>;
    /// Notes a host's record of open incidents, as text; an empty one takes the note away.
    async fn note_incidents(&self, host: &str, record: &str) -> Result<(), StoreError>;
    /// What was noted last; empty where nothing is.
    async fn incidents(&self, host: &str) -> Result<String, StoreError>;
    /// Appends to the audit trail.
    async fn audit(&self, event: &AuditEvent) -> Result<(), StoreError>;
    /// Lines of the audit trail that are asked for, newest first, at most `limit`. It reads a bounded number and then answers a cursor
    /// even when the page isn't full. `Err(Statement)` for a cursor that this store didn't make.
    async fn audit_lines(
        &self,
        query: &AuditQuery,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEvent>, StoreError>;
    /// Removes what was written before an instant, at most `limit` acts and `limit` records of events; the larger of both counts. It
    /// reads nothing that stays.
    async fn purge_audit(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError>;
    /// Removes operations that were over before an instant, and what the shards counted for operations from before it that aren't there
    /// (any more): at most `limit` of each; the larger of both counts. It reads what is older than the instant by its id, and nothing
    /// else.
    async fn purge_operations(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError>;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::port::dead::DeadKind;

    fn statement(query: &str, bindings: &str) -> Statement {
        Statement { query: query.to_owned(), bindings: serde_json::from_str(bindings).unwrap() }
    }

    fn record() -> Operation {
        let old = r#"{"id":"01J","kind":"replay","filter":"id=*","tenant":null,"rate":100,"reason":"","state":"running","matched":1,
            "done":1,"failed":0,"cursor":"0.17/","error":null,"created_at":1,"updated_at":2}"#;
        serde_json::from_str(old).unwrap()
    }

    #[test]
    fn a_record_of_an_earlier_build_is_read() {
        let read = record();
        assert_eq!((read.done, read.unchanged, read.actor.as_str(), read.mode), (1, 0, "", None));
        assert!(read.refusals.is_empty());
    }

    #[test]
    fn groups_that_are_put_back_are_remembered_once_and_not_without_bound() {
        let mut operation = record();
        assert_eq!((operation.causes.len(), operation.to_go()), (0, 0), "one of an earlier build remembers none");
        for code in (0..CAUSES_MAX + 5).chain(0..3) {
            operation.put_back_of(DeadCause::new(DeadKind::Message, "acme", &format!("HTTP.{code}"), "answered 17"));
        }
        assert_eq!(operation.causes.len(), CAUSES_MAX);
        assert_eq!(operation.causes.first().map(|cause| cause.signature.as_str()), Some("answered #"));
    }

    #[test]
    fn refusals_are_counted_by_code_with_the_first_as_example_and_not_without_bound() {
        let mut operation = record();
        operation.refuse("SAGA.STATE", "a", "it is paused".into());
        operation.refuse("SAGA.STATE", "b", "it is stuck".into());
        let [first] = operation.refusals.as_slice() else { panic!("{:?}", operation.refusals) };
        assert_eq!((first.count, first.example.as_str(), first.detail.as_str()), (2, "a", "it is paused"));
        for code in 0..50 {
            operation.refuse(&format!("X.{code}"), "c", String::new());
        }
        assert_eq!((operation.refusals.len(), operation.failed), (REFUSALS_MAX, 52));
    }

    #[test]
    fn statements_are_the_same_whatever_the_order_of_their_names() {
        let digest = |bindings| statements_digest(&[statement("CREATE a CONTENT $v", bindings)]);
        assert_eq!(digest(r#"{"v": {"x": 1, "y": [2]}, "w": 3}"#), digest(r#"{"w": 3, "v": {"y": [2], "x": 1}}"#));
        assert_ne!(digest(r#"{"v": 1}"#), digest(r#"{"v": 2}"#));
        assert_ne!(digest(r#"{"v": 1}"#), digest(r#"{"v": "1"}"#));
        assert_eq!(statements_digest(&[]), None);
        let two = [statement("a", "{}"), statement("b", "{}")];
        assert_ne!(statements_digest(&two), statements_digest(&[statement("ab", "{}"), statement("", "{}")]));
    }
}
