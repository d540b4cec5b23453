//! Event streams, played: the host in memory has none. What is asked is noted.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
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
use waybill_core::streams::reading::Selector;
use waybill_core::time::UnixMillis;

use crate::host::NOW;

type Served<T> = Result<T, ServiceError>;

/// A stream `task` with events 3 to 5, and one relay, `bus`.
#[derive(Default)]
pub struct FakeStreams {
    calls: Mutex<Vec<String>>,
    /// Ends of the subscriptions to come, each behind one event; the last one waits for ever.
    pub ends: Mutex<VecDeque<SubscriptionEnd>>,
}

impl FakeStreams {
    /// Takes what was asked so far.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    fn record(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }
}

fn key(tenant: &str, name: &str) -> StreamKey {
    StreamKey { tenant: Tenant::new(tenant).unwrap(), name: StreamName::new(name).unwrap() }
}

fn piece(stream: &StreamKey, seq: u64) -> EventPiece {
    let event = Event {
        id: EventId::new(format!("e-{seq}")).unwrap(),
        ts: NOW,
        resource_type: "TASK".into(),
        resource_id: "t-1".into(),
        op: Op::UPDATE,
        schema_version: 1,
        node_uuid: None,
        correlation_id: None,
        cause: None,
        headers: Default::default(),
        content_type: None,
        body: Body::Bytes(Bytes::from_static(b"{}")),
    };
    EventPiece {
        stream: stream.clone(),
        seq,
        packed: envelope::pack(&event).into(),
        cursor: Arc::from(seq.to_string()),
    }
}

fn known(stream: &StreamKey) -> Served<()> {
    match stream.name.as_str() {
        "gone" => Err(ServiceError::NotFound { what: Missing::Stream, id: stream.name.to_string() }),
        _ => Ok(()),
    }
}

fn summary(tenant: &Tenant) -> StreamSummary {
    StreamSummary { stream: key(tenant.as_str(), "task"), first: 3, last: 1_005, bytes: 900, readers: 1 }
}

fn relay(name: &RelayName, state: RelayState) -> RelayView {
    RelayView {
        name: name.clone(),
        streams: "task.**".into(),
        transport: "nats".into(),
        state,
        reason: None,
        streams_behind: 1,
        lag_events: 1_234,
        lag: Some(Duration::from_secs(90)),
        in_flight: 4,
        delivered: 40,
        refused: 0,
        overtaken: 0,
        tenants: Default::default(),
    }
}

#[async_trait]
impl StreamService for FakeStreams {
    async fn append(&self, request: AppendRequest) -> Served<Appended> {
        let AppendRequest { stream, events, expected_seq } = request;
        let first = events.first().map(|event| format!("{} {:?} {:?}", event.resource_id, event.op, event.body));
        self.record(format!("append {stream} {} {expected_seq:?} {}", events.len(), first.unwrap_or_default()));
        if let Some(expected) = expected_seq.filter(|expected| *expected < 5) {
            return Err(StreamError::from(ExactRefusal::ExpectedSeq { stream, expected, actual: 5 }).into());
        }
        let ids = (0..events.len()).map(|at| EventId::new(format!("made-{at}")).unwrap()).collect();
        Ok(Appended::Numbered { ids, seqs: (6..).take(events.len()).collect(), duplicates: vec![] })
    }
    async fn import(&self, act: &StreamAct, events: Vec<ImportEvent>) -> Served<StreamActed> {
        let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
        self.record(format!("import {} {seqs:?} [{}]", act.stream, act.reason));
        let (first, last) = (seqs.first().copied().unwrap_or_default(), seqs.last().copied().unwrap_or_default());
        let events = seqs.len() as u64;
        Ok(StreamActed { events, first, last, left_out: last + 1 - first - events })
    }
    /// Event 5 is a delete that was dropped: who goes on before it with a number alone lacks it.
    async fn read_stream(&self, stream: &StreamKey, after: Option<&str>, limit: u64) -> Served<StreamPage> {
        self.record(format!("read_stream {stream} {after:?} {limit}"));
        known(stream)?;
        let from = match after {
            Some(text) => {
                let seq = text.strip_suffix("~5").ok_or(StreamError::Expired)?;
                seq.parse::<u64>().unwrap() + 1
            }
            None => 3,
        };
        // A page is shorter than what is asked for, as pages of large events are.
        let upto = 5.min(from + limit.min(2) - 1);
        let events = (from..=upto).map(|seq| piece(stream, seq)).collect();
        let next_after = if upto < 5 { format!("{upto}~5").into() } else { upto.to_string().into() };
        Ok(StreamPage { events, first: 3, last: 5, next_after, is_end: upto == 5 })
    }
    async fn read_many(
        &self,
        tenant: &Tenant,
        selector: &Selector,
        cursor: Option<&str>,
        _: u64,
    ) -> Served<EventsPage> {
        self.record(format!("read_many {tenant} {selector:?} {cursor:?}"));
        Ok(EventsPage { events: vec![piece(&key(tenant.as_str(), "task"), 3)], next_cursor: None })
    }
    async fn streams(&self, tenant: &Tenant, prefix: &str, _: Option<&str>, _: usize) -> Served<Page<StreamSummary>> {
        let items = if "task".starts_with(prefix) { vec![summary(tenant)] } else { Vec::new() };
        Ok(Page { items, next_cursor: None })
    }
    async fn stream(&self, stream: &StreamKey) -> Served<StreamDetail> {
        known(stream)?;
        Ok(StreamDetail {
            summary: summary(&stream.tenant),
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
        self.record(format!("subscribe {what:?} {start:?}"));
        let after = match start {
            Start::Cursor(text) => text.parse().unwrap(),
            _ => 2,
        };
        let event = piece(&key(tenant.as_str(), "task"), after + 1);
        Ok(Box::new(OneEvent { event: Some(event), end: self.ends.lock().unwrap().pop_front() }))
    }
    async fn purge(&self, act: &StreamAct, before: Option<u64>) -> Served<StreamActed> {
        self.record(format!("purge {} {before:?} plan {} [{}]", act.stream, act.is_plan, act.reason));
        known(&act.stream)?;
        Ok(StreamActed { events: 2, first: 5, last: 5, left_out: 0 })
    }
    async fn delete(&self, act: &StreamAct) -> Served<StreamActed> {
        self.record(format!("delete {} plan {} [{}]", act.stream, act.is_plan, act.reason));
        known(&act.stream)?;
        Ok(StreamActed { events: 3, first: 6, last: 5, left_out: 0 })
    }
    async fn relays(&self) -> Served<Vec<RelayView>> {
        Ok(vec![relay(&RelayName::new("bus").unwrap(), RelayState::Running)])
    }
    async fn relay(&self, name: &RelayName) -> Served<RelayDetail> {
        if name.as_str() != "bus" {
            return Err(ServiceError::NotFound { what: Missing::Relay, id: name.to_string() });
        }
        let place = RelayStreamView { stream: key("default", "task"), upto: 4, named_to: 5, generation: 1 };
        Ok(RelayDetail { view: relay(name, RelayState::Running), behind: vec![place] })
    }
    async fn pause_relay(&self, name: &RelayName, _: &str, reason: &str) -> Served<RelayView> {
        self.record(format!("pause_relay {name} [{reason}]"));
        Ok(relay(name, RelayState::Paused))
    }
    async fn resume_relay(&self, name: &RelayName, _: &str, reason: &str) -> Served<RelayView> {
        self.record(format!("resume_relay {name} [{reason}]"));
        Ok(relay(name, RelayState::Running))
    }
    async fn seek_relay(&self, request: SeekRequest) -> Served<RelayStreamView> {
        self.record(format!("seek_relay {} {} {:?} [{}]", request.relay, request.stream, request.to, request.reason));
        Ok(RelayStreamView { stream: request.stream, upto: 2, named_to: 5, generation: 2 })
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
        Ok(Page { items: vec![range("acme", 1), range("secret", 4)], next_cursor: None })
    }
    async fn stream_stats(&self) -> Served<StreamStats> {
        Ok(StreamStats {
            owned: 4,
            shards: 16,
            waiting: 2,
            door_rows: 3,
            door_age_ms: Some(5_000),
            readers: 7,
            readers_max: 7_500,
            lagged: 1,
            ring_bytes: 20_480,
            replay_bytes: 10_240,
            ..StreamStats::default()
        })
    }
}

struct OneEvent {
    event: Option<EventPiece>,
    end: Option<SubscriptionEnd>,
}

#[async_trait]
impl Subscription for OneEvent {
    async fn next(&mut self) -> Result<Vec<EventPiece>, SubscriptionEnd> {
        match (self.event.take(), self.end.take()) {
            (Some(event), end) => {
                self.end = end;
                Ok(vec![event])
            }
            (None, Some(end)) => Err(end),
            (None, None) => std::future::pending().await,
        }
    }
    fn cursor(&self) -> Option<Arc<str>> {
        None
    }
    fn cut(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}
