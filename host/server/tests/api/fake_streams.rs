//! Event streams, played: what is asked is noted, and what they hold is told by the tests that use them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use waybill_core::ids::{EventId, RelayName, ShardId, Tenant};
use waybill_core::port::missing::Missing;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::*;
use waybill_core::streams::dead::OvertakenRange;
use waybill_core::streams::envelope;
use waybill_core::streams::event::{Body, Event, Op};
use waybill_core::streams::exact::ExactRefusal;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::reading::{PageError, Selector};
use waybill_core::time::UnixMillis;

use crate::fake_inbound::Served;
use crate::support::NOW;

/// What a subscription gives, one after the other; behind the last it was lagging.
pub type Script = VecDeque<Result<Vec<EventPiece>, SubscriptionEnd>>;

/// Streams `task` with 3 to 5 of 5 events, and `hidden` with its first.
#[derive(Default)]
pub struct FakeStreams {
    calls: Mutex<Vec<String>>,
    /// What the next subscription gives; none = an event of `task` and one of `hidden`.
    pub script: Mutex<Option<Script>>,
    /// A subscription waits at the end of its script.
    pub waits: Mutex<bool>,
    pub cut: Arc<Notify>,
}

/// An event of a stream of this tenant.
pub fn piece(tenant: &str, stream: &str, seq: u64) -> EventPiece {
    let event = Event {
        id: EventId::new(format!("e-{seq}")).unwrap(),
        ts: NOW,
        resource_type: "TASK".into(),
        resource_id: format!("t-{seq}"),
        op: Op::CREATE,
        schema_version: 1,
        node_uuid: None,
        correlation_id: None,
        cause: None,
        headers: Default::default(),
        content_type: Some("application/json".into()),
        body: Body::Bytes(Bytes::from_static(b"{\n}")),
    };
    EventPiece {
        stream: key(tenant, stream),
        seq,
        packed: envelope::pack(&event).into(),
        cursor: Arc::from(seq.to_string()),
    }
}

fn key(tenant: &str, stream: &str) -> StreamKey {
    StreamKey { tenant: Tenant::new(tenant).unwrap(), name: StreamName::new(stream).unwrap() }
}

impl FakeStreams {
    /// Takes what was asked so far.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock())
    }

    fn record(&self, call: String) {
        self.calls.lock().push(call);
    }

    fn known(stream: &StreamKey) -> Served<()> {
        match stream.name.as_str() {
            "gone" => Err(ServiceError::NotFound { what: Missing::Stream, id: stream.name.to_string() }),
            _ => Ok(()),
        }
    }

    fn relay_of(name: &RelayName) -> Served<RelayView> {
        match name.as_str() {
            "gone" | "a b" => Err(ServiceError::NotFound { what: Missing::Relay, id: name.to_string() }),
            known => Ok(RelayView {
                name: RelayName::new(known).unwrap(),
                streams: "task.**".into(),
                transport: "nats".into(),
                state: RelayState::Running,
                reason: Some("10.0.0.7 asks for a pause".into()),
                streams_behind: 2,
                lag_events: 7,
                lag: Some(std::time::Duration::from_millis(1_500)),
                in_flight: 1,
                delivered: 40,
                refused: 0,
                overtaken: 0,
                tenants: [("acme", 1, 3), ("secret", 1, 4)]
                    .map(|(tenant, streams, events)| (Tenant::new(tenant).unwrap(), RelayLag { streams, events }))
                    .into(),
            }),
        }
    }
}

fn summary(tenant: &Tenant, name: &str) -> StreamSummary {
    StreamSummary { stream: key(tenant.as_str(), name), first: 3, last: 5, bytes: 900, readers: 1 }
}

fn place(tenant: &str, name: &str, upto: u64) -> RelayStreamView {
    RelayStreamView { stream: key(tenant, name), upto, named_to: 5, generation: 1 }
}

#[async_trait]
impl StreamService for FakeStreams {
    async fn append(&self, request: AppendRequest) -> Served<Appended> {
        let AppendRequest { stream, events, expected_seq } = request;
        self.record(format!("append {stream} {} {expected_seq:?}", events.len()));
        let ids = events
            .iter()
            .enumerate()
            .map(|(at, event)| event.id.clone().unwrap_or_else(|| EventId::new(format!("made-{at}")).unwrap()));
        let ids: Vec<_> = ids.collect();
        match (stream.name.as_str(), expected_seq) {
            ("slow", _) => Ok(Appended::Accepted { ids }),
            (_, Some(expected)) if expected != 5 => {
                Err(StreamError::from(ExactRefusal::ExpectedSeq { stream, expected, actual: 5 }).into())
            }
            _ => Ok(Appended::Numbered { seqs: (6..).take(ids.len()).collect(), ids, duplicates: vec![] }),
        }
    }
    async fn import(&self, act: &StreamAct, events: Vec<ImportEvent>) -> Served<StreamActed> {
        let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
        self.record(format!("import {} {seqs:?} [{}] {}", act.stream, act.reason, act.actor));
        let last = seqs.last().copied().unwrap_or_default();
        Ok(StreamActed { events: seqs.len() as u64, first: 1, last, left_out: last - seqs.len() as u64 })
    }
    /// Event 5 is a delete that was dropped: pages before it say so in their cursor.
    async fn read_stream(&self, stream: &StreamKey, after: Option<&str>, limit: u64) -> Served<StreamPage> {
        self.record(format!("read_stream {stream} {after:?} {limit}"));
        Self::known(stream)?;
        let seq = |text: &str| text.trim_end_matches("~5").parse::<u64>().ok();
        let after = match after {
            Some(text) => Some(seq(text).ok_or_else(|| StreamError::Cursor { text: text.to_owned() })?),
            None => None,
        };
        match after {
            Some(after) if after < 2 => Err(StreamError::from(PageError::Expired { after, first: 3, last: 5 }).into()),
            Some(after) if after > 5 => Err(StreamError::from(PageError::Ahead { after, last: 5 }).into()),
            after => {
                let from = after.unwrap_or(2) + 1;
                let upto = 5.min(from + limit - 1);
                let piece = |seq| piece(stream.tenant.as_str(), stream.name.as_str(), seq);
                Ok(StreamPage {
                    events: (from..=upto).map(piece).collect(),
                    first: 3,
                    last: 5,
                    next_after: if upto < 5 { format!("{upto}~5").into() } else { upto.to_string().into() },
                    is_end: upto == 5,
                })
            }
        }
    }
    async fn read_many(
        &self,
        tenant: &Tenant,
        selector: &Selector,
        cursor: Option<&str>,
        limit: u64,
    ) -> Served<EventsPage> {
        self.record(format!("read_many {tenant} {selector:?} {cursor:?} {limit}"));
        let events = ["hidden", "task"].map(|name| piece(tenant.as_str(), name, 1));
        Ok(EventsPage { events: events.to_vec(), next_cursor: cursor.is_none().then(|| "next".to_owned()) })
    }
    async fn streams(
        &self,
        tenant: &Tenant,
        prefix: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Served<Page<StreamSummary>> {
        self.record(format!("streams {tenant} {prefix:?} {cursor:?} {limit}"));
        let items = ["hidden", "task"].map(|name| summary(tenant, name)).to_vec();
        Ok(Page { items, next_cursor: cursor.is_none().then(|| "task".to_owned()) })
    }
    async fn stream(&self, stream: &StreamKey) -> Served<StreamDetail> {
        self.record(format!("stream {stream}"));
        Self::known(stream)?;
        Ok(StreamDetail {
            summary: summary(&stream.tenant, stream.name.as_str()),
            shard: ShardId(3),
            is_owned_here: true,
            named_to: 5,
            purged: 0,
            settings: Some("task.**".into()),
            relays: vec![(RelayName::new("bus").unwrap(), 4)],
        })
    }
    async fn subscribe(&self, request: SubscribeRequest) -> Served<Box<dyn Subscription>> {
        let SubscribeRequest { tenant, what, start, .. } = request;
        self.record(format!("subscribe {tenant} {what:?} {start:?}"));
        if start == Start::Cursor("elsewhere".into()) {
            return Err(StreamError::Cursor { text: "elsewhere".into() }.into());
        }
        let events =
            || VecDeque::from([Ok(vec![piece(tenant.as_str(), "task", 4), piece(tenant.as_str(), "hidden", 5)])]);
        let script = self.script.lock().take().unwrap_or_else(events);
        let (waits, cut) = (*self.waits.lock(), Arc::clone(&self.cut));
        Ok(Box::new(FakeSubscription { script, waits, cut, cursor: None }))
    }
    async fn purge(&self, act: &StreamAct, before: Option<u64>) -> Served<StreamActed> {
        let StreamAct { stream, is_plan, actor, reason } = act;
        self.record(format!("purge {stream} {before:?} plan {is_plan} [{reason}] {actor}"));
        Self::known(stream)?;
        Ok(StreamActed { events: 2, first: 5, last: 5, left_out: 0 })
    }
    async fn delete(&self, act: &StreamAct) -> Served<StreamActed> {
        let StreamAct { stream, is_plan, actor, reason } = act;
        self.record(format!("delete {stream} plan {is_plan} [{reason}] {actor}"));
        Self::known(stream)?;
        Ok(StreamActed { events: 3, first: 6, last: 5, left_out: 0 })
    }
    async fn relays(&self) -> Served<Vec<RelayView>> {
        Ok(vec![Self::relay_of(&RelayName::new("bus").unwrap())?])
    }
    async fn relay(&self, name: &RelayName) -> Served<RelayDetail> {
        let view = Self::relay_of(name)?;
        Ok(RelayDetail { view, behind: vec![place("acme", "task", 4), place("secret", "task", 1)] })
    }
    async fn pause_relay(&self, name: &RelayName, actor: &str, reason: &str) -> Served<RelayView> {
        self.record(format!("pause_relay {name} [{reason}] {actor}"));
        Ok(RelayView { state: RelayState::Paused, ..Self::relay_of(name)? })
    }
    async fn resume_relay(&self, name: &RelayName, actor: &str, reason: &str) -> Served<RelayView> {
        self.record(format!("resume_relay {name} [{reason}] {actor}"));
        Self::relay_of(name)
    }
    async fn seek_relay(&self, request: SeekRequest) -> Served<RelayStreamView> {
        let SeekRequest { relay, stream, to, actor, reason } = request;
        self.record(format!("seek_relay {relay} {stream} {to:?} [{reason}] {actor}"));
        Self::relay_of(&relay)?;
        match to {
            SeekTo::After(asked) if asked < 2 => {
                Err(StreamError::Seek { relay, stream, asked, first: 3, last: 5 }.into())
            }
            _ => Ok(RelayStreamView { stream, upto: 2, named_to: 5, generation: 2 }),
        }
    }
    async fn overtaken(
        &self,
        name: &RelayName,
        tenant: Option<&Tenant>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Served<Page<OvertakenRange>> {
        let of = tenant.map_or("all", Tenant::as_str);
        self.record(format!("overtaken {name} of {of} {cursor:?} {limit}"));
        let range = |tenant: &str, from| OvertakenRange {
            stream: key(tenant, "task"),
            from,
            to: from + 2,
            at: UnixMillis(1_764_201_600_000),
        };
        let mut items = vec![range("acme", 1), range("secret", 4)];
        items.retain(|range| tenant.is_none_or(|tenant| range.stream.tenant == *tenant));
        Ok(Page { items, next_cursor: None })
    }
    async fn stream_stats(&self) -> Served<StreamStats> {
        Ok(StreamStats { readers: 7, door_rows: 3, door_age_ms: Some(5_000), ..StreamStats::default() })
    }
}

struct FakeSubscription {
    script: Script,
    waits: bool,
    cut: Arc<Notify>,
    cursor: Option<Arc<str>>,
}

#[async_trait]
impl Subscription for FakeSubscription {
    async fn next(&mut self) -> Result<Vec<EventPiece>, SubscriptionEnd> {
        match self.script.pop_front() {
            Some(Ok(pieces)) => {
                self.cursor = pieces.last().map(|piece| Arc::clone(&piece.cursor));
                Ok(pieces)
            }
            Some(Err(end)) => Err(end),
            None if self.waits => std::future::pending().await,
            None => Err(SubscriptionEnd::Lagged),
        }
    }
    fn cursor(&self) -> Option<Arc<str>> {
        self.cursor.clone()
    }
    fn cut(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let cut = Arc::clone(&self.cut);
        Box::pin(async move { cut.notified().await })
    }
}
