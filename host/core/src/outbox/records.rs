//! What the outbox keeps in the store (`architecture.md`, Store): segments for what flows, rows for what stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::annotation::Annotation;
use crate::ids::{MessageId, Place, Seq, ShardId, Tenant};
use crate::message::{Message, Payload};
use crate::new_message::PLAIN_EVENT_TYPE;
use crate::outbox::bits::Bits;
use crate::outbox::suspicion::Suspicion;
use crate::port::transport::{PluginIdentity, Receipt};
use crate::time::UnixMillis;
use crate::topic::Scheme;

/// The record that both an owner and its rivals write: ownership, order and claims of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardRecord {
    /// Host that owns the shard; empty before the first owner.
    pub owner: String,
    /// Fencing token: grows by one at each takeover.
    pub token: u64,
    /// Nonce of the takeover's commit. A store that lost a takeover gives its token a second time: this tells the two owners apart.
    pub taken: u64,
    /// Grows by one with every owner commit. An owner is gone when it stands still.
    pub beat: u64,
    /// Fresh random number with every commit: tells whose commit went in.
    pub nonce: u64,
    /// No segment lies below this seq.
    pub floor: Seq,
    /// Highest seq given out.
    pub last: Seq,
    /// Claimed segments, by first seq.
    pub open: BTreeMap<Seq, OpenSegment>,
    /// Who may have killed a process, and what would be blamed if this one died now.
    pub suspicion: Suspicion,
    /// Its owner is giving it back: whatever ends it now, nothing that it sent is to blame.
    pub leaving: bool,
    /// Its owner gave it back in good order: nothing is claimed, take it at once.
    pub released: bool,
}

/// Progress within a claimed segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenSegment {
    pub acked: Bits,
    /// Left the segment otherwise: parked, dead or cancelled.
    pub moved: Bits,
}

impl OpenSegment {
    /// Whether the message at `index` is no longer this segment's business.
    pub fn is_gone(&self, index: u16) -> bool {
        self.acked.contains(index) || self.moved.contains(index)
    }
}

/// A commit group of messages of one tenant. Its entries keep their index for life, also when others have left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First seq; its key.
    pub first: Seq,
    pub tenant: Tenant,
    /// Messages in order of index.
    pub entries: Vec<Entry>,
}

/// One message in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index in the segment as committed.
    pub index: u16,
    pub message: Arc<Message>,
}

impl Segment {
    /// Place of an entry.
    pub fn place(&self, shard: ShardId, entry: &Entry) -> Place {
        Place { shard, segment: self.first, index: entry.index }
    }
    /// Bytes it is counted with.
    pub fn weight(&self) -> usize {
        self.entries.iter().map(|entry| entry.message.weight()).sum()
    }
}

/// How one attempt ended. Kept with parked messages, dead letters and the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// When its fate was known.
    pub at: UnixMillis,
    /// How long the call took, in milliseconds.
    pub took_ms: u64,
    /// `delivered`, `retry`, `dead`, `blocked`, `released`, `unknown`.
    pub outcome: AttemptOutcome,
    /// Host that tried, or the worker outside.
    pub worker: Arc<str>,
    /// Transport it went through.
    pub transport: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Arc<PluginIdentity>>,
    /// Error code, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Error text, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It may have been delivered all the same.
    #[serde(default)]
    pub maybe_delivered: bool,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttemptOutcome {
    /// The receiver has it.
    Delivered,
    /// Failed; to be tried again.
    Retry,
    /// Failed for good.
    Dead,
    /// The destination was at fault.
    Blocked,
    /// Not tried.
    Released,
    /// The worker died or the call never ended.
    Unknown,
}

/// A failed head waiting for its next try: a row of its own, under the message's own seq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Where it came from; its seq is its key.
    pub place: Place,
    pub message: Arc<Message>,
    /// Definite failures so far.
    pub attempts: u32,
    /// Not before this instant.
    pub due: UnixMillis,
    /// The delay that led to `due`.
    pub delay: Duration,
    /// When it was first tried.
    pub first_attempt_at: UnixMillis,
    /// A send may be under way.
    pub claimed: bool,
    /// Latest attempts, oldest first; at most [`crate::limits::ATTEMPT_RECORDS_MAX`].
    pub history: Vec<AttemptRecord>,
}

impl Parked {
    /// How long it waits from `now`, the wall clock's: until it is due, and never longer than the delay that led to that,
    /// however far the clock was set back since the row was written.
    pub fn wait(&self, now: UnixMillis) -> Duration {
        self.due.since(now).min(self.delay)
    }
}

/// A message whose time hasn't come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    pub shard: ShardId,
    /// When it joins the order.
    pub due: UnixMillis,
    /// The message; its id with `due` is the key.
    pub message: Arc<Message>,
}

/// Condition of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum DeadState {
    Dead,
    /// Fenced off by an operator: replayed by id only.
    Quarantined {
        note: String,
        at: UnixMillis,
    },
}

impl DeadState {
    /// As in filters and JSON.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Quarantined { .. } => "quarantined",
        }
    }
}

/// A message that stopped (`semantics.md` §2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Where it lay; its seq is its key, so that dead letters of a key sort in their order.
    pub place: Place,
    pub message: Arc<Message>,
    /// Stable code of the last error; groups are made by it.
    pub code: String,
    pub reason: String,
    /// Definite failures before it died.
    pub attempts: u32,
    /// Crashes of hosts that were sending it.
    pub suspect: u32,
    pub died_at: UnixMillis,
    pub state: DeadState,
    /// Holds its key until replayed, purged or released (`on_dead = "hold_key"`).
    pub holds_key: bool,
    /// Latest attempts, oldest first.
    pub history: Vec<AttemptRecord>,
}

/// What is kept of a finished message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Index in its segment.
    pub index: u16,
    pub message: Arc<Message>,
    pub end: DoneEnd,
    /// When that was known.
    pub at: UnixMillis,
    /// Attempts made, this one included.
    pub attempts: u32,
    /// Receipt; none when a crash lost it or nothing was delivered.
    pub receipt: Option<Receipt>,
    /// Latest attempts, oldest first; for a first-try success the one attempt.
    pub history: Vec<AttemptRecord>,
}

/// How a finished message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DoneEnd {
    /// The receiver has it.
    Delivered,
    /// An operator took it back before it was sent.
    Cancelled,
    /// Its `expires_at` passed before it could be sent.
    Expired,
    /// Purged from the dead letters.
    Purged,
}

/// Finished messages of one segment, as one commit found them: `outbox_done:[shard, segment, beat]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryChunk {
    pub shard: ShardId,
    /// First seq of their segment.
    pub segment: Seq,
    /// Beat of the commit that wrote it.
    pub beat: u64,
    /// When it was written: retention counts from here.
    pub at: UnixMillis,
    /// The messages, in the order in which they were done with.
    pub entries: Vec<Done>,
}

impl HistoryChunk {
    /// The messages by index: a list that goes on behind one of them skips none.
    pub fn in_order(&self) -> Vec<&Done> {
        let mut entries: Vec<&Done> = self.entries.iter().collect();
        entries.sort_by_key(|done| done.index);
        entries
    }

    /// Its place in the order of writing.
    pub fn key(&self) -> HistoryKey {
        HistoryKey { at: self.at, segment: self.segment, beat: self.beat }
    }
}

/// The place of a chunk in the order in which a shard's history was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryKey {
    /// When it was written.
    pub at: UnixMillis,
    /// First seq of its segment.
    pub segment: Seq,
    /// Beat of its commit.
    pub beat: u64,
}

/// Where an indexed id stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdState {
    /// In the order, in history or dead: at this place.
    At(Place),
    /// Scheduled for this instant.
    Scheduled { shard: ShardId, due: UnixMillis },
}

/// A row of the id index (`outbox_id:[tenant, id]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRecord {
    pub tenant: Tenant,
    pub id: MessageId,
    pub state: IdState,
    /// sha-256 over what makes a repeated enqueue the same ([`content_digest`]); none for host-made ids.
    pub content: Option<[u8; 32]>,
    /// What it was committed with: a repeated transaction has to be the same one.
    pub origin: IdOrigin,
}

/// What a message with a caller's id was committed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOrigin {
    /// It isn't known: a version before has written the row, or the host has made the id.
    Unknown,
    Alone,
    /// With statements of this digest ([`crate::port::transact::statements_digest`]).
    Transaction([u8; 32]),
}

/// Name of the blob for a large payload: unique by place, and it holds the payload's sha-256.
pub fn blob_name(place: Place, payload: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    format!("{}-{}", crate::ids::host_made_id(place), hex(&Sha256::digest(payload)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// sha-256 of a message's payload in lower-case hex; for a payload kept as a blob it is taken from the blob's name.
pub fn payload_sha256(payload: &Payload) -> String {
    use sha2::{Digest, Sha256};
    match payload {
        Payload::Inline(bytes) => hex(&Sha256::digest(bytes)),
        Payload::Blob { blob, .. } => blob.rsplit_once('-').map_or(blob.as_str(), |(_, digest)| digest).to_owned(),
    }
}

/// Digest of what must be equal for a repeated enqueue of one id to count as the same message: topic, key, content
/// type, event type, headers and payload.
pub fn content_digest(message: &Message) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    };
    part(message.topic.as_str());
    part(message.key.as_ref().map_or("", |key| key.as_str()));
    part(message.annotation(Annotation::ContentType).unwrap_or(""));
    // The type that a message to a URL has unasked was the topic in earlier builds, and digests of these are kept.
    let is_plain = message.topic.scheme() == Scheme::Http && message.event_type == PLAIN_EVENT_TYPE;
    part(if is_plain { message.topic.as_str() } else { &message.event_type });
    for (name, value) in &message.headers {
        part(name);
        part(value);
    }
    part(&payload_sha256(&message.payload));
    hash.finalize().into()
}

/// Key of a doorstep row: order of arrival as the enqueuer's process saw it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DoorKey {
    /// `time::now()` of the process that ran the enqueuing statement, in nanoseconds since 1970.
    pub nanos: u64,
    /// Rows already written in the same transaction at that stamp.
    pub ordinal: u32,
    pub ulid: String,
}

/// A doorstep row as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorRow {
    pub key: DoorKey,
    /// Its messages in order, all with ids; or why it can't be read, with what could be saved of it as JSON text.
    pub content: Result<Vec<Arc<Message>>, Malformed>,
}

/// A record that can't be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub reason: String,
    /// The record as text or base64.
    pub raw: String,
}
