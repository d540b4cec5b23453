//! Audit events of messages, received messages, sagas and dead letters of streams (`soulbase-tx.md` §11, `TxEvent`).
//!
//! The commit that makes a fact writes its events, packed in one record. So none is lost, none tells of what didn't happen, and none
//! goes when the history of a message or a saga does. Nothing is read for them.
//!
//! A received message has no [`TxEventKind::Begin`]: what flows through the inbox is in no commit before the one that ends it, and that
//! one says when it was received in its history and in the seen set. Of events of streams there is [`TxEventKind::Dead`] alone: a replay
//! of one is a call to a broker, which has two acts in the trail, what was asked and what came of it.

use std::sync::Arc;

use serde_json::json;

use crate::ids::{ShardId, Tenant};
use crate::port::transact::AuditEvent;
use crate::time::UnixMillis;

/// Events of one record. A commit that has more writes several.
const EVENTS_MAX: usize = 4_096;
/// Bytes that an event is counted with besides its texts.
pub const EVENT_BYTES: usize = 32;

/// What happened to a message, a received message or a saga.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TxEventKind {
    /// A message entered the order or the schedule; a saga or a sub-saga was started.
    Begin,
    /// An attempt failed and another follows.
    Retry,
    /// A message, a received one or an event of a stream became a dead letter; a saga got stuck in a compensation.
    Dead,
    /// An operator had a dead letter sent or handled again, or a step called again.
    Replay,
}

impl TxEventKind {
    pub const ALL: [Self; 4] = [Self::Begin, Self::Retry, Self::Dead, Self::Replay];

    /// As the audit trail names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begin => "TxBegin",
            Self::Retry => "TxRetry",
            Self::Dead => "TxDead",
            Self::Replay => "TxReplay",
        }
    }
}

/// What it happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TxSubject {
    Message,
    Saga,
    /// A received message at one consumer.
    Inbox,
    /// An event of a stream.
    Event,
}

impl TxSubject {
    pub const ALL: [Self; 4] = [Self::Message, Self::Saga, Self::Inbox, Self::Event];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Saga => "saga",
            Self::Inbox => "inbox",
            Self::Event => "event",
        }
    }

    /// Its number in the keys of records, by which they are ordered.
    pub fn number(self) -> u8 {
        match self {
            Self::Message => 0,
            Self::Saga => 1,
            Self::Inbox => 2,
            Self::Event => 3,
        }
    }

    /// The one that a key names.
    pub fn of_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|of| u64::from(of.number()) == number)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxEvent {
    pub kind: TxEventKind,
    pub tenant: Tenant,
    /// Of the message, the saga or the sub-saga; of a received message its sender's; of an event the place of
    /// its dead letter.
    pub id: Arc<str>,
    /// Attempts that were made so far.
    pub attempts: u32,
    /// The failure's stable code.
    pub code: Option<Arc<str>>,
    /// Step of a saga.
    pub step: Option<Arc<str>>,
    /// Whose received message it is; of what nobody takes, `~` and its source.
    pub consumer: Option<Arc<str>>,
    /// Whose broker refused an event.
    pub relay: Option<Arc<str>>,
    /// Where an event belongs.
    pub stream: Option<Arc<str>>,
    /// Who asked, where the commit knows it.
    pub actor: Option<Arc<str>>,
}

impl TxEvent {
    /// One of which nothing else is known.
    pub fn plain(kind: TxEventKind, tenant: &Tenant, id: impl Into<Arc<str>>) -> Self {
        Self {
            kind,
            tenant: tenant.clone(),
            id: id.into(),
            attempts: 0,
            code: None,
            step: None,
            consumer: None,
            relay: None,
            stream: None,
            actor: None,
        }
    }

    /// Bytes it is counted with against the bound of a commit.
    pub fn weight(&self) -> usize {
        let texts = [&self.code, &self.step, &self.consumer, &self.relay, &self.stream, &self.actor];
        let texts: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        EVENT_BYTES + self.id.len() + texts
    }
}

/// Where a record lies, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxRecordKey {
    /// When the commit was built.
    pub at: UnixMillis,
    pub shard: ShardId,
    pub of: TxSubject,
    /// Beat of the commit that wrote it.
    pub beat: u64,
    /// Number of the record in the commit, from 0.
    pub part: u16,
}

/// Events of one commit, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxRecord {
    pub key: TxRecordKey,
    /// The host that committed it.
    pub host: Arc<str>,
    pub events: Vec<TxEvent>,
}

impl TxRecord {
    /// Bytes it is counted with against the bound of a commit, without its row.
    pub fn weight(&self) -> usize {
        self.host.len() + self.events.iter().map(TxEvent::weight).sum::<usize>()
    }

    /// Who made a fact: who asked for it, else the host.
    pub fn actor<'a>(&'a self, event: &'a TxEvent) -> &'a str {
        event.actor.as_ref().unwrap_or(&self.host)
    }

    /// One of its events as the audit trail shows it.
    pub fn view(&self, event: &TxEvent) -> AuditEvent {
        let mut detail = json!({ "of": self.key.of.as_str() });
        if let Some(detail) = detail.as_object_mut() {
            let texts = [
                ("code", &event.code),
                ("step", &event.step),
                ("consumer", &event.consumer),
                ("relay", &event.relay),
                ("stream", &event.stream),
            ];
            detail.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text.as_ref()?)))));
            if event.attempts > 0 {
                detail.insert("attempts".to_owned(), json!(event.attempts));
            }
        }
        AuditEvent {
            at: self.key.at,
            kind: event.kind.as_str().to_owned(),
            actor: self.actor(event).to_owned(),
            tenant: Some(event.tenant.as_str().to_owned()),
            object: event.id.to_string(),
            detail,
        }
    }
}

/// The events of a commit in the making.
#[derive(Debug, Default)]
pub struct TxLog {
    /// Whether any are wanted.
    is_on: bool,
    events: Vec<TxEvent>,
}

impl TxLog {
    pub fn new(is_on: bool) -> Self {
        Self { is_on, events: Vec::new() }
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Adds an event if any are wanted; bytes that it is counted with.
    pub fn note(&mut self, event: impl FnOnce() -> TxEvent) -> usize {
        if !self.is_on {
            return 0;
        }
        let event = event();
        let weight = event.weight();
        self.events.push(event);
        weight
    }

    /// The records to write with the commit, none if nothing happened. `key` is that of the first.
    pub fn records(self, key: TxRecordKey, host: &str) -> Vec<Arc<TxRecord>> {
        let (host, mut events) = (Arc::<str>::from(host), self.events);
        let mut records = Vec::new();
        while !events.is_empty() {
            let rest = events.split_off(events.len().min(EVENTS_MAX));
            let part = u16::try_from(records.len()).unwrap_or(u16::MAX);
            let key = TxRecordKey { part, ..key };
            records.push(Arc::new(TxRecord { key, host: Arc::clone(&host), events }));
            events = rest;
        }
        records
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key() -> TxRecordKey {
        TxRecordKey { at: UnixMillis(7), shard: ShardId(3), of: TxSubject::Message, beat: 9, part: 0 }
    }

    #[test]
    fn a_commit_with_many_events_writes_several_records_and_none_is_lost() {
        let mut log = TxLog::new(true);
        let tenant = Tenant::unnamed();
        for n in 0..2 * EVENTS_MAX + 1 {
            log.note(|| TxEvent::plain(TxEventKind::Begin, &tenant, format!("m-{n}")));
        }
        let records = log.records(key(), "host-a");
        let sizes: Vec<(u16, usize)> = records.iter().map(|record| (record.key.part, record.events.len())).collect();
        assert_eq!(sizes, [(0, EVENTS_MAX), (1, EVENTS_MAX), (2, 1)]);
        let last = records.last().unwrap().events.last().unwrap();
        assert_eq!(&*last.id, format!("m-{}", 2 * EVENTS_MAX));
    }

    #[test]
    fn where_none_are_wanted_nothing_is_made_and_nothing_weighs() {
        let mut log = TxLog::new(false);
        assert_eq!(log.note(|| unreachable!("it isn't wanted")), 0);
        assert!(log.records(key(), "host-a").is_empty());
    }

    #[test]
    fn an_event_is_shown_with_what_is_known_of_it() {
        let plain = TxEvent::plain(TxEventKind::Dead, &Tenant::unnamed(), "m-1");
        let event = TxEvent { attempts: 12, code: Some("HTTP.STATUS".into()), ..plain };
        let record = TxRecord { key: key(), host: "host-a".into(), events: vec![event.clone()] };
        let shown = record.view(&event);
        assert_eq!((shown.kind.as_str(), shown.actor.as_str(), shown.object.as_str()), ("TxDead", "host-a", "m-1"));
        assert_eq!(shown.detail, json!({ "of": "message", "code": "HTTP.STATUS", "attempts": 12 }));
        let received = TxEvent { consumer: Some("ship".into()), ..event };
        let key = TxRecordKey { of: TxSubject::Inbox, ..key() };
        let shown = TxRecord { key, host: "host-a".into(), events: Vec::new() }.view(&received);
        assert_eq!(shown.detail, json!({ "of": "inbox", "code": "HTTP.STATUS", "consumer": "ship", "attempts": 12 }));
    }

    #[test]
    fn a_subject_is_found_by_its_number_and_keeps_it() {
        assert_eq!(TxSubject::ALL.map(TxSubject::number), [0, 1, 2, 3]);
        assert_eq!([0, 1, 2, 3].map(TxSubject::of_number), TxSubject::ALL.map(Some));
        assert_eq!(TxSubject::of_number(4), None);
    }
}
