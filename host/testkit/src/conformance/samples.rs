//! Records to write and compare: each with every field set to something of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waybill_core::annotation::{Annotation, Kind};
use waybill_core::annotations::Annotations;
use waybill_core::ids::{Key, MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::message::{Message, Payload};
use waybill_core::outbox::bits::Bits;
use waybill_core::outbox::records::{
    AttemptOutcome, AttemptRecord, DeadLetter, DeadState, Done, DoneEnd, Entry, HistoryChunk, OpenSegment, Parked,
    Scheduled, Segment, ShardRecord,
};
use waybill_core::outbox::suspicion::{Suspect, Suspicion};
use waybill_core::port::store::{OwnerCommit, OwnerStore, StoreError, Write};
use waybill_core::port::transport::{PluginIdentity, Receipt};
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;

/// An instant that the samples count from.
pub const T0: UnixMillis = UnixMillis(1_800_000_000_000);
/// The shard of most samples.
pub const SHARD: ShardId = ShardId(0);

pub fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

pub fn id(text: &str) -> MessageId {
    MessageId::new(text).unwrap()
}

/// The `n`-th seq at an instant after [`T0`].
pub fn seq(ms: u64, n: u64) -> Seq {
    Seq(((T0.0 + ms) << 20) + n)
}

pub fn message(name: &str) -> Message {
    Message {
        id: id(name),
        caller_id: false,
        tenant: tenant("acme"),
        topic: Topic::parse("bus:orders.created").unwrap(),
        key: None,
        headers: Vec::new(),
        payload: Payload::Inline(Bytes::from(format!("{{\"name\":\"{name}\"}}"))),
        event_type: "bus:orders.created".into(),
        event_version: 1,
        annotations: [(Annotation::ContentType, "application/json")].into(),
        occurred_at: T0,
        created_at: T0,
        not_before: None,
        expires_at: None,
        statements: None,
        replays: 2,
        replayed_by: Some("01JD8Q6H3ZK7W5V0N2T4R6Y8BC".into()),
    }
}

/// A message with every field set.
pub fn full_message(name: &str) -> Message {
    Message {
        caller_id: true,
        tenant: tenant("Größe & Söhne"),
        topic: Topic::parse("https://shop.example/hook?x=1").unwrap(),
        key: Some(Key::new("order-17").unwrap()),
        headers: vec![("x-a".into(), "1".into()), ("x-a".into(), "2".into()), ("empty".into(), String::new())],
        payload: Payload::Inline(Bytes::from_static(&[0, 255, 10, 13, 0])),
        event_type: "order_placed".into(),
        event_version: 7,
        annotations: all_annotations(),
        occurred_at: UnixMillis(T0.0 - 5),
        created_at: UnixMillis(T0.0 + 5),
        not_before: Some(UnixMillis(T0.0 + 1_000)),
        expires_at: Some(UnixMillis(T0.0 + 2_000)),
        statements: Some(Box::new([9; 32])),
        ..message(name)
    }
}

/// Every annotation, each with a text of its own.
pub fn all_annotations() -> Annotations {
    let text = |annotation: Annotation| match annotation.kind() {
        Kind::Text | Kind::Id => format!("{} of the sample", annotation.name()),
        Kind::TraceContext => "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
    };
    Annotation::ALL.map(|annotation| (annotation, text(annotation))).into()
}

/// A segment of `count` messages.
pub fn segment(first: Seq, count: u16) -> Segment {
    segment_of(first, count, 0)
}

/// A segment of `count` messages with payloads of this many bytes more.
pub fn segment_of(first: Seq, count: u16, payload_bytes: usize) -> Segment {
    let entries = (0..count).map(|index| {
        let mut message = message(&format!("m-{first}-{index}"));
        message.payload = Payload::Inline(Bytes::from(vec![b'x'; payload_bytes + usize::from(index)]));
        Entry { index, message: Arc::new(message) }
    });
    Segment { first, tenant: tenant("acme"), entries: entries.collect() }
}

pub fn place(first: Seq, index: u16) -> Place {
    Place { shard: SHARD, segment: first, index }
}

/// Two attempts by a plugin and one without.
pub fn attempts() -> Vec<AttemptRecord> {
    let plugin =
        PluginIdentity { plugin: "nats".into(), version: "1.2.3".into(), digest: "sha256:00ff".into(), generation: 3 };
    let attempt = |n: u64, outcome| AttemptRecord {
        at: T0.plus(Duration::from_millis(n)),
        took_ms: n,
        outcome,
        worker: "host-a".into(),
        transport: "orders".into(),
        plugin: Some(plugin.clone().into()),
        code: Some("NATS.TIMEOUT".into()),
        reason: Some(format!("no answer from \"js-{n}\" after {n} ms")),
        maybe_delivered: n % 2 == 1,
    };
    let mut all = vec![attempt(1, AttemptOutcome::Retry), attempt(2, AttemptOutcome::Unknown)];
    all.push(AttemptRecord {
        plugin: None,
        code: None,
        reason: None,
        worker: "host-b".into(),
        ..attempt(3, AttemptOutcome::Released)
    });
    all
}

pub fn parked(first: Seq, index: u16) -> Parked {
    Parked {
        place: place(first, index),
        message: Arc::new(full_message(&format!("parked-{first}-{index}"))),
        attempts: 3,
        due: T0.plus(Duration::from_secs(9)),
        delay: Duration::from_micros(1_234_567),
        first_attempt_at: T0,
        claimed: index % 2 == 1,
        history: attempts(),
    }
}

pub fn scheduled(due: UnixMillis, name: &str) -> Scheduled {
    Scheduled { shard: SHARD, due, message: Arc::new(message(name)) }
}

pub fn dead(first: Seq, index: u16, owner: &str, code: &str) -> DeadLetter {
    let mut message = full_message(&format!("dead-{first}-{index}"));
    message.tenant = tenant(owner);
    DeadLetter {
        place: place(first, index),
        message: Arc::new(message),
        code: code.into(),
        reason: format!("answered {} to \"{owner}\"", 400 + index),
        attempts: 12,
        suspect: 1,
        died_at: T0.plus(Duration::from_millis(u64::from(index))),
        state: DeadState::Dead,
        holds_key: false,
        history: attempts(),
    }
}

pub fn done(index: u16, message: Message, end: DoneEnd) -> Done {
    Done {
        index,
        message: Arc::new(message),
        end,
        at: T0,
        attempts: 2,
        receipt: Some(Receipt {
            broker_ref: Some("42".into()),
            duplicate: true,
            attributes: vec![("stream".into(), "ORDERS".into())],
        }),
        history: attempts(),
    }
}

pub fn chunk(segment: Seq, beat: u64, at: UnixMillis, entries: Vec<Done>) -> HistoryChunk {
    HistoryChunk { shard: SHARD, segment, beat, at, entries }
}

/// A record with every field set.
pub fn full_record() -> ShardRecord {
    let mut acked = Bits::default();
    let mut moved = Bits::default();
    for index in [0, 63, 64, 4_000] {
        acked.insert(index);
    }
    moved.insert(7);
    ShardRecord {
        owner: "host-a".into(),
        token: 7,
        taken: u64::MAX - 6,
        beat: 41,
        nonce: u64::MAX - 5,
        floor: seq(0, 0),
        last: seq(9, 3),
        open: BTreeMap::from([(seq(0, 0), OpenSegment { acked, moved }), (seq(1, 0), OpenSegment::default())]),
        suspicion: suspicion(),
        leaving: true,
        released: true,
    }
}

fn suspicion() -> Suspicion {
    Suspicion {
        unclean: 3,
        cautious: true,
        calling: BTreeSet::from([seq(0, 0), seq(0, 1), seq(1, 4_000)]),
        alone: Some(seq(1, 4_000)),
        suspects: BTreeMap::from([
            (seq(0, 1), Suspect { crashes: 1, alone: 0 }),
            (seq(1, 4_000), Suspect { crashes: 9, alone: 2 }),
        ]),
        lived: Duration::from_millis(19_001),
        longest_life: Duration::from_secs(300),
    }
}

/// An owner that commits one after another.
pub struct Owner {
    pub shard: ShardId,
    pub record: ShardRecord,
}

impl Owner {
    pub fn new() -> Self {
        Self::of(SHARD)
    }

    pub fn of(shard: ShardId) -> Self {
        Self { shard, record: ShardRecord { owner: "host-a".into(), ..ShardRecord::default() } }
    }

    /// The next commit with these writes.
    pub fn next(&self, writes: Vec<Write>) -> OwnerCommit {
        let (expect_token, expect_beat) = (self.record.token, self.record.beat);
        let record = ShardRecord {
            token: expect_token.max(1),
            beat: expect_beat + 1,
            nonce: expect_beat * 31,
            ..self.record.clone()
        };
        OwnerCommit { shard: self.shard, expect_token, expect_beat, record, writes }
    }

    pub async fn try_commit(&mut self, store: &impl OwnerStore, writes: Vec<Write>) -> Result<(), StoreError> {
        let commit = self.next(writes);
        let record = commit.record.clone();
        store.commit(commit).await?;
        self.record = record;
        Ok(())
    }

    pub async fn commit(&mut self, store: &impl OwnerStore, writes: Vec<Write>) {
        self.try_commit(store, writes).await.unwrap();
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}
