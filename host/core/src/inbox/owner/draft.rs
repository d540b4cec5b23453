//! A commit in the making, and the one that is out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::contexts::RowChange;
use super::entry::{Decision, Durable, Entry};
use super::replay::Replay;
use crate::ids::{ConsumerName, Seq, ShardId};
use crate::inbox::message::InboundMessage;
use crate::inbox::records::{
    InboxCommit, InboxDone, InboxShardRecord, InboxWrite, LastError, SagaDoorGroup, SagaDoorItem, Take, TakeRecord,
};
use crate::inbox::seen::SeenMark;
use crate::message::Message;
use crate::port::transact::DoorGroup;
use crate::streams::joint::{JointAppend, JointAppends};
use crate::time::{Monotonic, UnixMillis};
use crate::tx_event::{TxEvent, TxEventKind, TxLog, TxRecordKey, TxSubject};

/// What a message is when its outcome is in.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Gone {
        processed: bool,
        dead: bool,
    },
    /// A row with one more attempt.
    Waits {
        due: Monotonic,
        due_at: UnixMillis,
        delay: std::time::Duration,
        error: LastError,
    },
    /// An orphan without its place.
    Expired,
}

/// The commit that is out.
#[derive(Debug)]
pub(super) struct Flight {
    pub record: InboxShardRecord,
    pub outcomes: Vec<(Seq, Decision, Outcome)>,
    pub stored: Vec<Seq>,
    pub taken: Vec<Seq>,
    /// The place that each replay gets.
    pub replays: Vec<(Seq, Replay)>,
    /// Dead letters that it removes.
    pub purged: Vec<Seq>,
    pub rows: Vec<RowChange>,
    /// Whose each of its appends is, in order, and whether it numbers itself.
    pub appends: Vec<(Seq, bool)>,
    /// Up to when owned time is in it.
    pub begun: Monotonic,
    /// Barriers that were tried since it failed.
    pub barriers: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Draft {
    pub record: InboxShardRecord,
    /// Records of takes, as they are when this is in.
    pub open: BTreeMap<u64, BTreeSet<Seq>>,
    pub writes: Vec<InboxWrite>,
    pub seen: Vec<SeenMark>,
    pub done: Vec<InboxDone>,
    pub shards: u16,
    pub rows: Vec<RowChange>,
    /// Whose each append is, in order, and whether it numbers itself.
    pub appends: Vec<(Seq, bool)>,
    log: TxLog,
    messages: BTreeMap<ShardId, Vec<Arc<Message>>>,
    sagas: BTreeMap<ShardId, Vec<SagaDoorItem>>,
    events: JointAppends,
}

impl Draft {
    /// `is_audited`: it has audit events.
    pub fn new(mut record: InboxShardRecord, shards: u16, is_audited: bool) -> Self {
        // It goes back with `finish`.
        let open = std::mem::take(&mut record.open);
        let (messages, sagas) = (BTreeMap::new(), BTreeMap::new());
        Self {
            record,
            open,
            writes: Vec::new(),
            seen: Vec::new(),
            done: Vec::new(),
            shards,
            rows: Vec::new(),
            appends: Vec::new(),
            log: TxLog::new(is_audited),
            messages,
            sagas,
            events: JointAppends::default(),
        }
    }

    /// Its take is of no use any more.
    pub fn untake(&mut self, entry: &Entry) {
        let Durable::Taken(beat) = entry.durable else { return };
        let Some(seqs) = self.open.get_mut(&beat) else { return };
        seqs.remove(&entry.seq);
        if seqs.is_empty() {
            self.open.remove(&beat);
            self.writes.push(InboxWrite::DeleteTakes(beat));
        }
    }

    /// A row comes or goes.
    pub fn row_change(&mut self, entry: &Entry, comes: bool) {
        if entry.is_row() != comes {
            let (context, received_at, seq) = (Arc::clone(&entry.context), entry.received_at, entry.seq);
            self.rows.push(RowChange { comes, context, received_at, seq });
        }
    }

    pub fn take(&mut self, takes: Vec<Take>) {
        if takes.is_empty() {
            return;
        }
        let beat = self.record.beat;
        self.open.insert(beat, takes.iter().map(|take| take.seq).collect());
        self.writes.push(InboxWrite::PutTakes(TakeRecord { beat, takes }));
    }

    pub fn message(&mut self, message: Arc<Message>) {
        let shard = ShardId::of(&message.tenant, message.key.as_ref(), Some(&message.id), 0, self.shards);
        self.messages.entry(shard).or_default().push(message);
    }

    pub fn saga(&mut self, item: SagaDoorItem) {
        self.sagas.entry(item.shard(self.shards)).or_default().push(item);
    }

    pub fn events(&mut self, of: Seq, appends: &JointAppends) {
        self.appends.extend(appends.list.iter().map(|append| (of, matches!(append, JointAppend::Exact(_)))));
        self.events.extend(appends.clone());
    }

    /// Something happened to a message of a consumer, after so many attempts.
    pub fn note(
        &mut self,
        kind: TxEventKind,
        consumer: &ConsumerName,
        message: &InboundMessage,
        attempts: u32,
        code: &str,
    ) {
        self.log.note(|| TxEvent {
            attempts,
            code: Some(Arc::from(code)),
            consumer: Some(Arc::from(consumer.as_str())),
            ..TxEvent::plain(kind, &message.tenant, message.id.as_str())
        });
    }

    /// Writes what the audit trail says of it. None = a host that writes none.
    pub fn audit(&mut self, shard: ShardId, host: Option<&str>, at: UnixMillis) {
        let Some(host) = host else { return };
        let key = TxRecordKey { at, shard, of: TxSubject::Inbox, beat: self.record.beat, part: 0 };
        let records = std::mem::take(&mut self.log).records(key, host);
        self.writes.extend(records.into_iter().map(InboxWrite::PutTxEvents));
    }

    /// The commit, and the record that it writes.
    pub fn finish(mut self, shard: ShardId, expect: (u64, u64)) -> (InboxCommit, InboxShardRecord) {
        self.record.open = self.open;
        let messages = self.messages.into_iter();
        let sagas = self.sagas.into_iter();
        let commit = InboxCommit {
            shard,
            expect_token: expect.0,
            expect_beat: expect.1,
            record: self.record.clone(),
            writes: self.writes,
            seen: self.seen,
            done: self.done,
            messages: messages.map(|(shard, messages)| DoorGroup { shard, messages }).collect(),
            sagas: sagas.map(|(shard, items)| SagaDoorGroup { shard, items }).collect(),
            events: self.events,
        };
        (commit, self.record)
    }
}
