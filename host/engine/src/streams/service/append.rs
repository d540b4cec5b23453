//! Appends: straight to the owner, over the doorstep, or at an expected number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use waybill_core::commit::is_refusal;
use waybill_core::error::InputError;
use waybill_core::ids::{EventId, ShardId};
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{AppendRequest, Appended, EventInput, StreamError};
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::PassQuery;
use waybill_core::streams::envelope::EventHead;
use waybill_core::streams::event::NewEvent;
use waybill_core::streams::exact::{ExactAppend, ExactRefusal};
use waybill_core::streams::limits::{COMMIT_BYTES_MAX, COMMIT_EVENTS_MAX};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::records::Append;

use super::super::callers::NUMBERS_WAIT;
use super::super::mail::AppendReply;
use super::Streams;
use crate::admission::Admitted;

/// How often the stream is looked at for numbers that another host gives.
const NUMBERS_POLL: Duration = Duration::from_millis(25);
/// Bytes of a stream that such a look reads at once.
const NUMBERS_BYTES: usize = 256 * 1024;

impl Streams {
    pub(super) async fn append_events(&self, request: AppendRequest) -> Result<Appended, ServiceError> {
        let appended = self.take_append(request).await;
        appended.inspect_err(|error| self.shared.meter.refused(error.code()))
    }

    async fn take_append(&self, request: AppendRequest) -> Result<Appended, ServiceError> {
        let AppendRequest { stream, events, expected_seq, traceparent } = request;
        let events = self.admit(&stream, events, true)?;
        let ids: Vec<EventId> = events.iter().map(|event| event.id.clone()).collect();
        let append = Append { stream, events, traceparent };
        let _room = self.take_room(&append)?;
        match expected_seq {
            Some(expected) => self.append_exact(append, expected, ids).await,
            None => self.append_plain(append, ids).await,
        }
    }

    /// Checks events for a stream and packs them. With `chosen`, an id that the caller gave is looked up when it is numbered.
    pub(super) fn admit(
        &self,
        stream: &StreamKey,
        events: Vec<EventInput>,
        chosen: bool,
    ) -> Result<Vec<NewEvent>, ServiceError> {
        if events.is_empty() {
            return Err(StreamError::Exact(ExactRefusal::Empty).into());
        }
        if events.len() > COMMIT_EVENTS_MAX {
            return Err(InputError::TooMany { count: events.len(), count_max: COMMIT_EVENTS_MAX }.into());
        }
        let (limits, now) = (self.shared.settings().event_limits(&stream.name), self.shared.context.clock.now().wall);
        let admitted = events.into_iter().enumerate().map(|(index, input)| {
            let is_indexed = chosen && input.id.is_some();
            let id = match &input.id {
                Some(id) => id.clone(),
                // One that sorts by time.
                None => EventId::new(ulid::Ulid::from_parts(now.0, rand::random()).to_string())?,
            };
            let event = input.into_event(|| id, now);
            event
                .admit(&stream.name, &limits, is_indexed)
                .map_err(|error| ServiceError::from(StreamError::Event { index, error }))
        });
        admitted.collect()
    }

    /// Room among what waits for a commit. An append that no commit could hold is refused.
    pub(super) fn take_room(&self, append: &Append) -> Result<Admitted, ServiceError> {
        let (bytes, bytes_max) = (append.weight(), COMMIT_BYTES_MAX);
        if bytes > bytes_max {
            return Err(StreamError::AppendTooLarge { bytes, bytes_max }.into());
        }
        self.admission.admit(append.events.len(), bytes)
    }

    async fn append_exact(&self, append: Append, expected: u64, ids: Vec<EventId>) -> Result<Appended, ServiceError> {
        let exact = ExactAppend::new(append, expected, self.shared.shards());
        let answer = self.store().append_exact(&exact, self.steady_now()).await;
        self.left_something(&exact.append.stream);
        let answer = answer.map_err(outcome)?.map_err(StreamError::Exact)?;
        let duplicates = if answer.is_repeat { (0..ids.len()).collect() } else { Vec::new() };
        Ok(Appended::Numbered { ids, seqs: answer.seqs, duplicates })
    }

    async fn append_plain(&self, append: Append, ids: Vec<EventId>) -> Result<Appended, ServiceError> {
        let (append, until) = (Arc::new(append), Instant::now() + NUMBERS_WAIT);
        let shard = self.shard_of(&append.stream)?;
        if shard.is_owned() {
            match shard.append(Arc::clone(&append)).await {
                Some(Ok(AppendReply::Numbered { seqs, duplicates })) => {
                    return Ok(Appended::Numbered { ids, seqs, duplicates });
                }
                Some(Ok(AppendReply::IdTaken(place))) => {
                    let id = ids.get(place).or(ids.first()).cloned();
                    return Err(id
                        .map_or(StreamError::Exact(ExactRefusal::Empty), |id| StreamError::IdTaken { id })
                        .into());
                }
                Some(Err(error)) => return Err(error),
                // Its owner had no time for it, or is another one now.
                Some(Ok(AppendReply::Recalled)) | None => {}
            }
        }
        // What is numbered lies behind the present end.
        let end = self.store().stream_slice(&append.stream, 0, 1).await?.head.last;
        // Read behind that: what was numbered up to there is found by its id.
        let before = self.numbered_before(shard.shard, &append).await?;
        let duplicates: Vec<usize> = before.keys().copied().collect();
        if duplicates.len() == ids.len() {
            return Ok(Appended::Numbered { ids, seqs: before.into_values().collect(), duplicates });
        }
        let put = self.store().append_at_door(&[(shard.shard, Arc::clone(&append))]).await;
        self.left_something(&append.stream);
        put.map_err(outcome)?;
        Ok(match self.numbers_of(&append.stream, &ids, before, end, until).await {
            Some(seqs) => Appended::Numbered { ids, seqs, duplicates },
            None => Appended::Accepted { ids },
        })
    }

    /// Numbers of events that were there already, by their places in the append. An append with the id of another event is refused.
    async fn numbered_before(&self, shard: ShardId, append: &Append) -> Result<BTreeMap<usize, u64>, ServiceError> {
        let indexed = || append.events.iter().enumerate().filter(|(_, event)| event.is_indexed);
        let id_of = |event: &NewEvent| (append.stream.tenant.clone(), event.id.clone());
        let query = PassQuery { ids: indexed().map(|(_, event)| id_of(event)).collect(), ..PassQuery::default() };
        if query.ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let found = self.store().stream_pass(shard, &query).await?.ids;
        let mut numbers = BTreeMap::new();
        for (place, event) in indexed() {
            match found.get(&id_of(event)) {
                None => {}
                Some(there) if there.stream == append.stream && there.digest == event.digest => {
                    numbers.insert(place, there.seq);
                }
                Some(_) => return Err(StreamError::IdTaken { id: event.id.clone() }.into()),
            }
        }
        Ok(numbers)
    }

    /// Numbers that somebody gave to events, as soon as all have one. Those of `before` had theirs, by their places.
    async fn numbers_of(
        &self,
        stream: &StreamKey,
        ids: &[EventId],
        before: BTreeMap<usize, u64>,
        end: u64,
        until: Instant,
    ) -> Option<Vec<u64>> {
        let had = before.iter().filter_map(|(place, seq)| Some((ids.get(*place)?.to_string(), *seq)));
        let (mut found, mut after): (BTreeMap<String, u64>, u64) = (had.collect(), end);
        while Instant::now() < until {
            sleep(NUMBERS_POLL).await;
            // They are durable: who can't look now answers without numbers.
            let slice = self.store().stream_slice(stream, after, NUMBERS_BYTES).await.ok()?;
            for chunk in slice.chunks.iter().filter_map(|stored| stored.chunk.as_ref().ok()) {
                for event in chunk.events.iter().filter(|event| event.seq > end) {
                    if let Ok(head) = EventHead::of(&event.packed) {
                        found.insert(head.id.to_owned(), event.seq);
                    }
                }
                after = after.max(chunk.last);
            }
            let seqs: Option<Vec<u64>> = ids.iter().map(|id| found.get(id.as_str()).copied()).collect();
            if seqs.is_some() {
                return seqs;
            }
        }
        None
    }

    /// A commit of this process has ended that may have left something on a doorstep.
    pub(super) fn left_something(&self, stream: &StreamKey) {
        self.shared.bell.ring();
        if let Ok(shard) = self.shard_of(stream) {
            shard.wake_door();
        }
    }
}

/// Whether an error proves that nothing was written.
pub(super) fn outcome(error: StoreError) -> ServiceError {
    if is_refusal(&error) { ServiceError::Store(error) } else { ServiceError::OutcomeUnknown(error) }
}
