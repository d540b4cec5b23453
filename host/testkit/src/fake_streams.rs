//! Event streams, played: what is asked is noted, and what subscriptions give is told by the tests that use them.

#![allow(clippy::unwrap_used, reason = "its names and ids are written here")]

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

type Served<T> = Result<T, ServiceError>;

/// What a subscription gives, one after the other; behind the last it was lagging.
type Script = VecDeque<Result<Vec<EventPiece>, SubscriptionEnd>>;

/// When all of it happened.
const AT: UnixMillis = UnixMillis(1_764_201_600_000);

/// Streams with events 3 to 5 of 5, and one relay, `bus`. There is no stream `gone`, and no relay of that name.
pub struct FakeStreams {
    calls: Mutex<Vec<String>>,
    appended: Mutex<Vec<EventInput>>,
    scripts: Mutex<VecDeque<Script>>,
    /// What events that are read hold; none = they are those of [`piece`].
    written: Mutex<Option<Event>>,
    /// Names on each page of the list of streams.
    listed: Vec<Vec<&'static str>>,
    /// A subscription waits at the end of its script.
    pub waits: Mutex<bool>,
    pub cut: Arc<Notify>,
}

impl Default for FakeStreams {
    /// With `hidden` and `task`, on two pages of the list.
    fn default() -> Self {
        let page = vec!["hidden", "task"];
        Self::listing(vec![page.clone(), page])
    }
}

/// An event of a stream of this tenant.
pub fn piece(tenant: &str, stream: &str, seq: u64) -> EventPiece {
    packed(tenant, stream, seq, &event(seq))
}

/// What the event with this number holds.
pub fn event(seq: u64) -> Event {
    Event {
        id: EventId::new(format!("e-{seq}")).unwrap(),
        ts: AT,
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
    }
}

fn packed(tenant: &str, stream: &str, seq: u64, event: &Event) -> EventPiece {
    EventPiece {
        stream: key(tenant, stream),
        seq,
        packed: envelope::pack(event).into(),
        cursor: Arc::from(seq.to_string()),
    }
}

fn key(tenant: &str, stream: &str) -> StreamKey {
    StreamKey { tenant: Tenant::new(tenant).unwrap(), name: StreamName::new(stream).unwrap() }
}

impl FakeStreams {
    /// With these names on the pages of the list of streams.
    pub fn listing(listed: Vec<Vec<&'static str>>) -> Self {
        Self {
            calls: Mutex::default(),
            appended: Mutex::default(),
            scripts: Mutex::default(),
            written: Mutex::default(),
            listed,
            waits: Mutex::new(false),
            cut: Arc::default(),
        }
    }

    /// Takes what was asked so far.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock())
    }

    /// Takes the events that were appended so far.
    pub fn appended(&self) -> Vec<EventInput> {
        std::mem::take(&mut self.appended.lock())
    }

    /// From now on every event of a stream that is read holds this.
    pub fn writes(&self, event: Event) {
        *self.written.lock() = Some(event);
    }

    /// What the next subscription gives that has no script yet. Without one it gives an event of `task` and one of `hidden`.
    pub fn plays(&self, script: impl IntoIterator<Item = Result<Vec<EventPiece>, SubscriptionEnd>>) {
        self.scripts.lock().push_back(script.into_iter().collect());
    }

    fn page(&self, cursor: Option<&str>) -> (&[&'static str], bool) {
        let at = usize::from(cursor.is_some());
        let names = self.listed.get(at).map(Vec::as_slice).unwrap_or_default();
        (names, at + 1 < self.listed.len())
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
                lag_events: 1_234,
                lag: Some(std::time::Duration::from_secs(90)),
                in_flight: 1,
                delivered: 40,
                refused: 0,
                overtaken: 0,
                tenants: [("acme", 1, 3), ("secret", 1, 1_231)]
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
        let AppendRequest { stream, events, expected_seq, .. } = request;
        self.record(format!("append {stream} {} {expected_seq:?}", events.len()));
        let made = |at| EventId::new(format!("made-{at}")).unwrap();
        let ids = events.iter().enumerate().map(|(at, event)| event.id.clone().unwrap_or_else(|| made(at)));
        let ids: Vec<_> = ids.collect();
        self.appended.lock().extend(events);
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
        let (first, last) = (seqs.first().copied().unwrap_or_default(), seqs.last().copied().unwrap_or_default());
        let events = seqs.len() as u64;
        Ok(StreamActed { events, first, last, left_out: last + 1 - first - events })
    }
    /// Event 5 is a delete that was dropped: pages before it say so in their cursor. A page has two events at most, as pages of large
    /// events are shorter than what is asked for.
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
                let upto = 5.min(from + limit.min(2) - 1);
                let written = self.written.lock().clone();
                let piece = |seq| {
                    let event = written.clone().unwrap_or_else(|| event(seq));
                    packed(stream.tenant.as_str(), stream.name.as_str(), seq, &event)
                };
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
        let (names, has_more) = self.page(cursor);
        let events = names.iter().map(|name| piece(tenant.as_str(), name, 1)).collect();
        Ok(EventsPage { events, next_cursor: has_more.then(|| "next".to_owned()) })
    }
    async fn streams(
        &self,
        tenant: &Tenant,
        prefix: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Served<Page<StreamSummary>> {
        self.record(format!("streams {tenant} {prefix:?} {cursor:?} {limit}"));
        let (names, has_more) = self.page(cursor);
        let named = names.iter().filter(|name| name.starts_with(prefix));
        let items = named.map(|name| summary(tenant, name)).collect();
        Ok(Page { items, next_cursor: has_more.then(|| "task".to_owned()) })
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
        let script = self.scripts.lock().pop_front().unwrap_or_else(events);
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
        let range = |tenant: &str, from| OvertakenRange { stream: key(tenant, "task"), from, to: from + 2, at: AT };
        let mut items = vec![range("acme", 1), range("secret", 4)];
        items.retain(|range| tenant.is_none_or(|tenant| range.stream.tenant == *tenant));
        Ok(Page { items, next_cursor: None })
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
