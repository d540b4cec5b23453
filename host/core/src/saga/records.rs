//! What the store keeps of sagas: what runs is packed in the journal, what rests or has ended is a row.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::id::{DefinitionHash, DefinitionRef, SagaKey};
use super::json::Json;
use super::state::{SagaState, Tree};
use crate::ids::ShardId;
use crate::outbox::records::DeadState;
use crate::port::inbox_store::SagaDoorKey;
use crate::streams::joint::JointAppends;
use crate::time::UnixMillis;
use crate::tx_event::TxRecord;

/// `saga_shard:n`: who writes the sagas of a shard, and where its journal stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SagaShardRecord {
    /// Fencing token of the shard's owner.
    pub token: u64,
    /// Grows by one with every commit, so it names the journal record that a commit wrote.
    pub beat: u64,
    /// Fresh random number with every commit: tells whose commit went in.
    pub nonce: u64,
    /// Journal records below this beat are of no use and may be gone.
    pub floor: u64,
}

/// What one commit holds of one tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    pub key: SagaKey,
    /// Number of the first of `events` in the tree's history, from 0.
    pub from: u32,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The tree ended with this commit, which also writes it to the ended ones: nothing of it is to be restored.
    pub ended: bool,
}

/// One record of the journal: `saga_journal:[shard, beat]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalRecord {
    /// Beat of the commit that wrote it.
    pub beat: u64,
    pub entries: Vec<JournalEntry>,
}

/// What can be asked for without unpacking a saga. Plain columns of `saga` and `saga_done`, and an item of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SagaSummary {
    /// Whose, and which. Always a root.
    pub key: SagaKey,
    pub definition: DefinitionRef,
    pub state: SagaState,
    /// What it waits for: `call`, `reply`, `signal`, `approval`, `retry`, `blocked`, `operator`. None when ended.
    pub waiting_for: Option<Arc<str>>,
    pub since: Option<UnixMillis>,
    /// Until when it waits at most.
    pub until: Option<UnixMillis>,
    /// Active steps, as `<step>` or `<sub-saga's path>/<step>`; of an ended one those that failed.
    pub steps: Vec<Arc<str>>,
    /// Code of what made it go back or stop.
    pub code: Option<Arc<str>>,
    pub reason: Option<Arc<str>>,
    pub started_at: UnixMillis,
    pub updated_at: UnixMillis,
    pub ended_at: Option<UnixMillis>,
    /// Must be over by then.
    pub deadline: Option<UnixMillis>,
}

/// A saga that rests (`saga`) or has ended (`saga_done`), packed, with what can be asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct SagaRow {
    pub summary: SagaSummary,
    pub tree: Arc<Tree>,
}

/// A stuck saga among the dead letters (kind `saga`): `saga_dead:[shard, tenant, id]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SagaDead {
    pub key: SagaKey,
    /// The saga whose compensation is stuck: the root or one of its sub-sagas.
    pub saga: super::id::SagaId,
    /// Definition of that one.
    pub definition: DefinitionRef,
    /// Step whose compensation failed.
    pub step: Arc<str>,
    /// Stable code of the last error; groups are made by it.
    pub code: Arc<str>,
    pub reason: Arc<str>,
    /// Attempts at the compensation.
    pub attempts: u32,
    /// Since when it is stuck.
    pub died_at: UnixMillis,
    pub state: DeadState,
}

impl SagaDead {
    /// What stands for a topic in filters and groups: `saga:<definition>/<step>`.
    pub fn topic(&self) -> String {
        format!("saga:{}/{}", self.definition.name, self.step)
    }
}

/// A definition as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDefinition {
    /// Name, version and hash.
    pub reference: DefinitionRef,
    /// Canonical form; [`crate::saga::definition`] reads it.
    pub canonical: Json,
    /// When it was put first.
    pub created_at: UnixMillis,
    pub created_by: String,
}

/// One change in a commit.
#[derive(Clone, Debug, PartialEq)]
pub enum SagaWrite {
    /// Writes the row of one that rests, or of one that runs long, so that the journal can be cut.
    PutRow(Arc<SagaRow>),
    /// Removes such a row; none is there when it never rested.
    DeleteRow(SagaKey),
    /// Writes the row of one that ended.
    PutDone(Arc<SagaRow>),
    /// Writes a dead letter.
    PutDead(Arc<SagaDead>),
    /// Removes a dead letter; none is there when an operator purged it.
    DeleteDead(SagaKey),
    /// Writes audit events under their key.
    PutTxEvents(Arc<TxRecord>),
    /// Moves a saga that can't be restored to quarantine: its row, if it has one, as it lies in the store, and what the journal
    /// holds of it. The journal of the same commit says that it ended, so that no takeover reads it again. Until an operator
    /// puts it back or drops it, whoever asks for it hears where it is.
    SetAside(Arc<BrokenSaga>),
}

/// A saga that can't be restored, with all that is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokenSaga {
    pub key: SagaKey,
    /// Why it can't be restored.
    pub reason: String,
    /// Its row, if it has one that can be read.
    pub row: Option<Arc<SagaRow>>,
    /// What the journal holds of it, in order.
    pub entries: Vec<JournalEntry>,
}

impl BrokenSaga {
    /// Roughly its size in bytes.
    pub fn weight(&self) -> usize {
        let events = self.entries.iter().flat_map(|entry| &entry.events);
        let row = self.row.as_ref().map_or(0, |row| row.tree.weight);
        row + events.map(|event| event.what.weight()).sum::<usize>()
    }

    /// When it began, as far as it says so.
    pub fn started_at(&self) -> Option<UnixMillis> {
        let first = self.entries.first().filter(|entry| entry.from == 0).and_then(|entry| entry.events.first());
        self.row.as_ref().map(|row| row.summary.started_at).or(first.map(|event| event.at))
    }
}

/// One transaction of the writer of a shard's sagas. It goes in only if the stored record has `expect_token` and
/// `expect_beat`; the record is written every time.
#[derive(Clone, Debug, PartialEq)]
pub struct SagaCommit {
    pub shard: ShardId,
    /// Token that must stand.
    pub expect_token: u64,
    /// Beat that must stand.
    pub expect_beat: u64,
    /// The record to write: beat one higher, nonce fresh, floor not lower.
    pub record: SagaShardRecord,
    /// What goes to the journal under `record.beat`; nothing = no record. The store may remove records below `record.floor`
    /// in this commit or later.
    pub journal: Vec<JournalEntry>,
    pub writes: Vec<SagaWrite>,
    /// Messages for the outbox, in order, by shard.
    pub messages: Vec<crate::port::transact::DoorGroup>,
    /// Events for the doorsteps of streams, in order, and events that number themselves, each stream of them once. Where one of these can't
    /// be appended, nothing of the commit is written ([`StoreError::Appends`](crate::port::store::StoreError::Appends)).
    pub events: JointAppends,
    /// What of the shard's `saga_door` came in with it: removed there, whether it is still there or not.
    pub door: Vec<SagaDoorKey>,
}

/// What a new writer finds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SagaTakeover {
    /// The record as it stands now, with the new token.
    pub record: SagaShardRecord,
    /// Rows of the shard in `saga`: all that rest and haven't ended, and checkpoints of those that run.
    pub rows: Vec<Arc<SagaRow>>,
    /// Journal records from the floor on, by beat.
    pub journal: Vec<JournalRecord>,
    /// Keys of the shard's dead letters.
    pub dead: Vec<SagaKey>,
}

impl SagaTakeover {
    /// The definitions that are needed to go on: fetch these by hash.
    pub fn definitions(&self) -> std::collections::BTreeSet<DefinitionHash> {
        let mut hashes = std::collections::BTreeSet::new();
        let mut take = |started: &super::event::Started| {
            hashes.insert(started.definition.hash.clone());
            hashes.extend(started.pinned.iter().map(|(_, pinned)| pinned.hash.clone()));
        };
        self.rows.iter().for_each(|row| take(&row.tree.started));
        for event in self.journal.iter().flat_map(|record| &record.entries).flat_map(|entry| &entry.events) {
            if let super::event::EventKind::Started(started) = &event.what {
                take(started);
            }
        }
        hashes
    }
}
