//! Pages, lists, subscriptions.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Notify;
use waybill_core::error::InputError;
use waybill_core::ids::Tenant;
use waybill_core::port::missing::Missing;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{
    EventPiece, EventsPage, Start, StreamDetail, StreamError, StreamPage, StreamSummary, SubscribeRequest, Subscribed,
    Subscription,
};
use waybill_core::port::stream_store::StreamSlice;
use waybill_core::streams::limits::NAMED_STREAMS_MAX;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::reading::{Selector, page};
use waybill_core::streams::records::{StreamHead, StreamRest};
use waybill_core::streams::rules::Rules;

use super::super::readers::subscription::Reading;
use super::super::readers::{begin_many, begin_named, positions, read_many, text_of};
use super::Streams;

impl Streams {
    pub(super) async fn page_of(
        &self,
        stream: &StreamKey,
        after: Option<&str>,
        limit: u64,
    ) -> Result<StreamPage, ServiceError> {
        let limits = self.shared.settings().events.replay.asked(limit);
        let after = after.map(position).transpose()?;
        let slice = self.shared.slice(stream, after.map_or(0, |(seq, _)| seq), limits.bytes).await?;
        let (first, last) = self.kept(stream, &slice)?;
        // Whoever begins with nothing lacks nothing that was dropped before; the cursors of its pages say so as long as that matters.
        let (seq, base) = match after {
            Some((seq, purged)) => (seq, purged.unwrap_or(0)),
            None => (slice.rest.first.saturating_sub(1), slice.rest.purged),
        };
        let page = page(&slice, seq, base, limits, Rules::default()).map_err(StreamError::Read)?;
        let cursor = |seq: u64| text_of([(seq, (seq < base).then_some(base))].into_iter());
        let events = page.events.into_iter().map(|event| EventPiece {
            stream: stream.clone(),
            seq: event.seq,
            packed: event.packed,
            cursor: cursor(event.seq),
        });
        Ok(StreamPage { events: events.collect(), first, last, next_after: cursor(page.upto), is_end: page.is_end })
    }

    pub(super) async fn page_of_many(
        &self,
        tenant: &Tenant,
        selector: &Selector,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<EventsPage, ServiceError> {
        let limits = self.shared.settings().events.replay.asked(limit);
        let start = cursor.map_or(Start::Earliest, |cursor| Start::Cursor(cursor.to_owned()));
        read_many(&self.shared, tenant, selector, &start, limits).await
    }

    pub(super) async fn list(
        &self,
        tenant: &Tenant,
        prefix: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StreamSummary>, ServiceError> {
        let behind = cursor.map(StreamName::new).transpose()?;
        let found = self.store().streams_named(tenant, prefix, behind.as_ref(), limit).await?;
        let next_cursor = found.last().filter(|_| found.len() >= limit).map(|last| last.stream.name.to_string());
        let items = found.into_iter().map(|found| self.summary(found.stream, &found.head, &found.rest)).collect();
        Ok(Page { items, next_cursor })
    }

    fn summary(&self, stream: StreamKey, head: &StreamHead, rest: &StreamRest) -> StreamSummary {
        let readers = self.shared.rings.readers_of(&stream) as u64;
        StreamSummary { first: rest.first, last: head.last, bytes: head.bytes, readers, stream }
    }

    pub(super) async fn show(&self, stream: &StreamKey) -> Result<StreamDetail, ServiceError> {
        let slice = self.shared.slice(stream, 0, 1).await?;
        self.kept(stream, &slice)?;
        let (settings, shard) = (self.shared.settings(), self.shard_of(stream)?);
        // Neither relays nor limits reach sagas' histories, whatever their patterns.
        let is_stored = !stream.name.is_saga();
        let mut relays = Vec::new();
        for plan in settings.relays.iter().filter(|plan| is_stored && plan.streams.matches(&stream.name)) {
            let read = self.store().relay_slice(&plan.name, stream, slice.head.last, 1).await?;
            relays.push((plan.name.clone(), read.checkpoint.upto));
        }
        let pattern = settings.pattern(&stream.name).filter(|_| is_stored);
        Ok(StreamDetail {
            shard: shard.shard,
            is_owned_here: shard.is_owned(),
            named_to: slice.rest.named_to(&slice.head),
            purged: slice.rest.purged,
            settings: pattern.map(|settings| settings.pattern.as_str().to_owned()),
            relays,
            summary: self.summary(stream.clone(), &slice.head, &slice.rest),
        })
    }

    pub(super) async fn begin_reading(&self, request: SubscribeRequest) -> Result<Box<dyn Subscription>, ServiceError> {
        let SubscribeRequest { tenant, what, start, replay_events } = request;
        let settings = self.shared.settings();
        // Before anything is read for it.
        self.shared.readers.check(settings.events.subscriptions_max)?;
        let limits = settings.events.replay.asked(replay_events);
        let wake = Arc::new(Notify::new());
        let reader = match what {
            Subscribed::Streams(names) => {
                check_names(&names)?;
                begin_named(&self.shared, &tenant, &names, &start, limits, &wake).await?
            }
            Subscribed::Many(selector) => begin_many(&self.shared, &tenant, &selector, &start, limits, &wake).await?,
        };
        Ok(Box::new(Reading::begin(&self.shared, reader, wake)?))
    }

    /// The first and the last number that is kept, of a stream that ever had an event.
    pub(super) fn kept(&self, stream: &StreamKey, slice: &StreamSlice) -> Result<(u64, u64), ServiceError> {
        if slice.head.last == 0 {
            return Err(ServiceError::NotFound { what: Missing::Stream, id: stream.name.to_string() });
        }
        Ok((slice.rest.first, slice.head.last))
    }
}

/// A cursor of one stream.
fn position(text: &str) -> Result<(u64, Option<u64>), StreamError> {
    let read = positions(text, 1).and_then(|read| read.into_iter().next());
    read.ok_or_else(|| StreamError::Cursor { text: text.to_owned() })
}

/// Some, not too many, and each once: a cursor has one number for each.
fn check_names(names: &[StreamName]) -> Result<(), ServiceError> {
    if names.is_empty() {
        return Err(InputError::Empty { field: "stream" }.into());
    }
    if names.len() > NAMED_STREAMS_MAX {
        return Err(InputError::TooMany { count: names.len(), count_max: NAMED_STREAMS_MAX }.into());
    }
    let mut seen = BTreeSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(InputError::name("stream", twice.as_str(), "is named twice: name each stream once").into()),
        None => Ok(()),
    }
}
