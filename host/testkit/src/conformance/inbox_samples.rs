//! Records of the inbox to write and compare: each with every field set to something of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waybill_core::ids::{ConsumerName, InboundId, Key, Seq, ShardId, SourceName};
use waybill_core::inbox::fingerprint::{ContentCheck, ContentDigest, Fingerprint, HashSecret, OrderTag};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{
    ContextCount, InboxCommit, InboxDead, InboxDone, InboxEnd, InboxRow, InboxShardRecord, InboxWrite, LastError,
    SagaDoorItem, SourcePosition, Take, TakeRecord,
};
use waybill_core::inbox::seen::{OwnedAge, SeenMark, SeenPlace, SeenQuery};
use waybill_core::outbox::records::DeadState;
use waybill_core::outbox::suspicion::{Suspect, Suspicion};
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::time::UnixMillis;

use super::samples::{SHARD, T0, tenant};

pub fn consumer(name: &str) -> ConsumerName {
    ConsumerName::new(name).unwrap()
}

pub fn inbound_id(text: &str) -> InboundId {
    InboundId::new(text).unwrap()
}

pub fn fingerprint(text: &str) -> Fingerprint {
    HashSecret(3).of_id(&consumer("ship"), &inbound_id(text))
}

/// A message with few fields set.
pub fn inbound(id: &str) -> InboundMessage {
    InboundMessage {
        id: inbound_id(id),
        source: SourceName::new("shop").unwrap(),
        tenant: tenant("acme"),
        subject: "sales.event.paid.v1".into(),
        context: "sales".into(),
        key: None,
        headers: Vec::new(),
        content_type: None,
        payload: Bytes::from(format!("{{\"id\":\"{id}\"}}")),
        event_type: None,
        event_version: None,
        correlation_id: None,
        causation_id: None,
        reply_to: None,
        occurred_at: None,
        received_at: T0,
        position: None,
        attributes: Vec::new(),
        omitted: None,
    }
}

/// A message with every field set.
pub fn full_inbound(id: &str) -> InboundMessage {
    InboundMessage {
        tenant: tenant("Größe & Söhne"),
        key: Some(Key::new("order-17").unwrap()),
        headers: vec![("x-a".into(), "1".into()), ("x-a".into(), "2".into()), ("empty".into(), String::new())],
        content_type: Some("application/octet-stream".into()),
        payload: Bytes::from_static(&[0, 255, 10, 13, 0]),
        event_type: Some("paid".into()),
        event_version: Some(7),
        correlation_id: Some("correlation".into()),
        causation_id: Some("causation".into()),
        reply_to: Some("replies".into()),
        occurred_at: Some(UnixMillis(T0.0 - 5)),
        position: Some("orders@1700/12".into()),
        attributes: vec![("lag".into(), "3".into())],
        omitted: Some(1 << 33),
        ..inbound(id)
    }
}

pub fn row(seq: u64, message: InboundMessage) -> InboxRow {
    InboxRow {
        seq: Seq(seq),
        consumer: consumer("ship"),
        fingerprint: fingerprint(message.id.as_str()),
        order: message.key.is_some().then_some(OrderTag(u64::MAX - 3)),
        digest: ContentDigest(u128::MAX - 9),
        message: Arc::new(message),
        attempts: 3,
        last_error: Some(LastError { code: "HTTP.500".into(), reason: "say \"no\"\n".into() }),
        due: UnixMillis(T0.0 + 700),
        delay: Duration::from_millis(250),
        maybe_handled: true,
    }
}

pub fn dead(seq: u64, message: InboundMessage, code: &str) -> InboxDead {
    InboxDead {
        seq: Seq(seq),
        consumer: consumer("ship"),
        fingerprint: fingerprint(message.id.as_str()),
        digest: ContentDigest(77),
        message: Arc::new(message),
        code: code.into(),
        reason: "it can't be".into(),
        attempts: 4,
        died_at: UnixMillis(T0.0 + 900),
        state: DeadState::Dead,
    }
}

pub fn done(id: &str, end: InboxEnd) -> InboxDone {
    InboxDone {
        consumer: consumer("ship"),
        id: inbound_id(id),
        tenant: tenant("acme"),
        subject: "sales.event.paid.v1".into(),
        received_at: T0,
        processed_at: UnixMillis(T0.0 + 4),
        attempts: 2,
        end,
    }
}

pub fn take(seq: u64) -> Take {
    let source = SourceName::new("shop").unwrap();
    Take { seq: Seq(seq), fingerprint: fingerprint(&format!("take-{seq}")), order: OrderTag(seq * 3), source }
}

pub fn takes(beat: u64, seqs: &[u64]) -> InboxWrite {
    InboxWrite::PutTakes(TakeRecord { beat, takes: seqs.iter().map(|seq| take(*seq)).collect() })
}

/// What a commit appends to the seen set for an id that is finished at [`T0`].
pub fn mark(name: &str, id: &str, check: u16) -> SeenMark {
    let fingerprint = HashSecret(3).of_id(&consumer(name), &inbound_id(id));
    SeenMark { consumer: consumer(name), place: SeenPlace::of(id, fingerprint, None, T0), check: ContentCheck(check) }
}

pub fn query(name: &str, id: &str) -> SeenQuery {
    let fingerprint = HashSecret(3).of_id(&consumer(name), &inbound_id(id));
    SeenQuery { consumer: consumer(name), places: SeenPlace::all_of(id, fingerprint, None) }
}

pub fn signal(id: &str, name: &str) -> SagaDoorItem {
    SagaDoorItem::Signal {
        key: SagaKey { tenant: tenant("acme"), id: SagaId::root(id).unwrap() },
        name: name.into(),
        data: Json::parse("{\"n\":12345678901234567890.5}").unwrap(),
        by: "consumer ship".into(),
    }
}

pub fn full_record(token: u64, beat: u64) -> InboxShardRecord {
    let suspicion = Suspicion {
        unclean: 2,
        cautious: true,
        calling: BTreeSet::from([fingerprint("a"), fingerprint("b")]),
        alone: Some(fingerprint("b")),
        suspects: BTreeMap::from([(fingerprint("b"), Suspect { crashes: 3, alone: 1 })]),
        lived: Duration::from_millis(1_500),
        longest_life: Duration::from_millis(2_500),
    };
    InboxShardRecord {
        token,
        beat,
        nonce: u64::MAX - 1,
        last: Seq(99),
        age: OwnedAge(123_456),
        secret: HashSecret(u128::MAX - 2),
        open: BTreeMap::from([(7, BTreeSet::from([Seq(3), Seq(5)])), (9, BTreeSet::from([Seq(8)]))]),
        suspicion,
        contexts: BTreeMap::from([(Arc::from("sales"), ContextCount { count: 2, oldest_at: T0 })]),
        positions: BTreeMap::from([("shop", None), ("gone", Some(OwnedAge(120_000)))].map(position)),
    }
}

fn position((source, unnamed_since): (&str, Option<OwnedAge>)) -> (SourceName, SourcePosition) {
    let position = format!("{source}@2026-11-26T09:00:00Z/17");
    (SourceName::new(source).unwrap(), SourcePosition { position, unnamed_since })
}

/// Somebody who writes a shard's inbox.
pub struct Writer {
    pub record: InboxShardRecord,
    shard: ShardId,
}

impl Writer {
    pub fn of(shard: ShardId) -> Self {
        Self { record: InboxShardRecord::default(), shard }
    }

    pub fn new() -> Self {
        Self::of(SHARD)
    }

    /// A commit that goes in behind the last one.
    pub fn next(&self) -> InboxCommit {
        let record = InboxShardRecord {
            token: self.record.token.max(1),
            beat: self.record.beat + 1,
            nonce: self.record.nonce.wrapping_add(17),
            ..self.record.clone()
        };
        InboxCommit {
            shard: self.shard,
            expect_token: self.record.token,
            expect_beat: self.record.beat,
            record,
            writes: Vec::new(),
            seen: Vec::new(),
            done: Vec::new(),
            messages: Vec::new(),
            sagas: Vec::new(),
            events: Default::default(),
        }
    }

    pub async fn commit(&mut self, store: &impl InboxStore, fill: impl FnOnce(&mut InboxCommit)) {
        let mut commit = self.next();
        fill(&mut commit);
        self.record = commit.record.clone();
        store.commit_inbox(commit).await.unwrap();
    }

    pub async fn write(&mut self, store: &impl InboxStore, writes: Vec<InboxWrite>) {
        self.commit(store, |commit| commit.writes = writes).await;
    }
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}
