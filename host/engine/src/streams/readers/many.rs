//! A reader of all streams of a selector: by name, then by the feeds, then live.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::Notify;
use waybill_core::error::InputError;
use waybill_core::ids::Tenant;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{EventPiece, EventsPage, Start, StreamError, SubscriptionEnd};
use waybill_core::streams::limits::NAMED_STREAMS_MAX;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::reading::{FeedReader, FeedWants, PageLimits, Place, Ring, Selector, Token, page};
use waybill_core::streams::rules::Rules;

use super::super::Shared;
use super::super::rings::{RingOf, Rings, Seat};
use super::{Answer, Ask, PIECE_BYTES, Reader, Step, ended};

/// Entries of a ring that are taken before the reader looks at what it has.
const ENTRIES_AT_ONCE: u64 = 65_536;
/// Streams of a cursor map that are looked at together: each look holds a chunk.
const LOOKS_AT_ONCE: usize = 64;
/// Looks at the store for one page: where little is wanted of much, it ends short and its caller goes on.
const PAGE_READS_MAX: usize = 256;

pub(in crate::streams) struct Many {
    reader: FeedReader,
    seat: Seat,
    /// Up to here the ring was taken.
    seen: u64,
}

/// The reader of a start.
async fn reader_of(
    shared: &Shared,
    tenant: &Tenant,
    selector: &Selector,
    start: &Start,
    limits: PageLimits,
) -> Result<FeedReader, ServiceError> {
    let (shards, incarnation, rules) = (shared.shards(), shared.incarnation, Rules::default());
    let scope = Token::scope(tenant, selector);
    let resume = |token: &Token| FeedReader::resume(tenant.clone(), selector.clone(), token, shards, rules);
    let earliest = || FeedReader::from_earliest(tenant.clone(), selector.clone(), incarnation, shards, rules);
    let reader = match start {
        Start::Earliest => earliest(),
        Start::Latest => {
            let pos = shared.store.feed_ends(shards).await?;
            resume(&Token { scope, incarnation, place: Place::Feed { pos, part: None } })
        }
        Start::Cursor(text) => resume(&Token::parse(text, scope, incarnation, shards).map_err(StreamError::Token)?),
        Start::Positions(had) if matches!(selector, Selector::Prefix(_)) => {
            // A prefix never gives the histories of sagas, whose names may begin with it.
            if let Some(name) = had.keys().find(|name| name.is_saga() || !selector.may_take(name)) {
                return Err(StreamError::CursorStream(name.clone()).into());
            }
            let key = |name: &StreamName| StreamKey { tenant: tenant.clone(), name: name.clone() };
            let had = had.iter().map(|(name, seq)| (key(name), *seq)).collect();
            check_positions(shared, &had, limits).await?;
            earliest().with_positions(had.into_iter().map(|(stream, seq)| (stream.name, seq)).collect())
        }
        Start::Positions(_) => {
            // Of a stream with few wanted events, the last one that came doesn't say up to where it was read.
            let text = "numbers of streams".to_owned();
            return Err(StreamError::Cursor { text }.into());
        }
    };
    Ok(reader.with_scan_bytes(limits.bytes))
}

/// What is gone already behind a client's numbers, and numbers that no stream has, are told at once, as to a reader of named streams.
async fn check_positions(
    shared: &Shared,
    had: &BTreeMap<StreamKey, u64>,
    limits: PageLimits,
) -> Result<(), ServiceError> {
    if had.len() > NAMED_STREAMS_MAX {
        return Err(InputError::TooMany { count: had.len(), count_max: NAMED_STREAMS_MAX }.into());
    }
    let had: Vec<(&StreamKey, &u64)> = had.iter().collect();
    for some in had.chunks(LOOKS_AT_ONCE) {
        let looks = join_all(some.iter().map(|(stream, seq)| shared.store.stream_slice(stream, **seq, 1))).await;
        for ((_, seq), slice) in some.iter().zip(looks) {
            page(&slice?, **seq, 0, limits, Rules::default()).map_err(StreamError::Read)?;
        }
    }
    Ok(())
}

pub(in crate::streams) async fn begin(
    shared: &Arc<Shared>,
    tenant: &Tenant,
    selector: &Selector,
    start: &Start,
    limits: PageLimits,
    wake: &Arc<Notify>,
) -> Result<Reader, ServiceError> {
    let of = RingOf::Many(tenant.clone(), selector.clone());
    let seat = Rings::join(shared, of, wake, &shared.settings().events);
    let reader = reader_of(shared, tenant, selector, start, limits).await?;
    Ok(Reader::Many(Box::new(Many { reader, seat, seen: 0 })))
}

/// The next event with the cursor behind it; empty as long as the reader goes by numbers that its client keeps.
fn piece(reader: &mut FeedReader) -> Option<EventPiece> {
    let read = reader.next()?;
    let cursor = reader.token().map(|token| token.text()).unwrap_or_default();
    Some(EventPiece { stream: read.stream, seq: read.event.seq, packed: read.event.packed, cursor: Arc::from(cursor) })
}

impl Many {
    pub(super) fn ready(&mut self) -> Vec<EventPiece> {
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while bytes < PIECE_BYTES {
            let Some(piece) = piece(&mut self.reader) else { break };
            bytes += piece.packed.len();
            pieces.push(piece);
        }
        pieces
    }

    pub(super) fn cursor(&self) -> Option<Arc<str>> {
        self.reader.token().map(|token| Arc::from(token.text()))
    }

    pub(super) fn step(&mut self) -> Result<Step, SubscriptionEnd> {
        let Self { reader, seat, seen, .. } = self;
        seat.with(|ring| {
            if let Some(step) = step_of(reader.wants(ring)) {
                return Ok(step);
            }
            for _ in 0..ring.next().saturating_sub(*seen).min(ENTRIES_AT_ONCE) {
                reader.take_live(ring).map_err(ended)?;
                if let Some(step) = step_of(reader.wants(ring)) {
                    return Ok(step);
                }
            }
            *seen = ring.next();
            Ok(Step::Wait)
        })
    }

    pub(super) fn take(&mut self, answer: Answer) -> Result<(), SubscriptionEnd> {
        take(&mut self.reader, answer)
    }

    pub(super) fn drop_page(&mut self) {
        self.reader = self.reader.again();
    }

    pub(super) fn look_again(&mut self) {
        self.reader.look_again();
    }
}

/// What follows what a reader wants; none = it is live.
fn step_of(wants: FeedWants) -> Option<Step> {
    Some(match wants {
        FeedWants::Nothing => Step::Again,
        FeedWants::Ends => Step::Read(Ask::Ends),
        FeedWants::Scan(query) => Step::Read(Ask::Scan(query)),
        FeedWants::Feed(shard, pos) => Step::Read(Ask::Feed(shard, pos)),
        FeedWants::Selected(stream, selector) => Step::Read(Ask::Selected(stream, selector)),
        FeedWants::Live => return None,
    })
}

fn take(reader: &mut FeedReader, answer: Answer) -> Result<(), SubscriptionEnd> {
    match answer {
        Answer::Ends(ends) => {
            reader.take_ends(ends);
            Ok(())
        }
        Answer::Scan(found) => reader.take_scan(found).map_err(ended),
        Answer::Feed(found) => reader.take_feed(found).map_err(ended),
        Answer::Selected(is_selected) => reader.take_selected(is_selected).map_err(ended),
        Answer::Slice { .. } => Ok(()),
    }
}

/// A page of a selector, without a subscription: up to what is there now.
pub(in crate::streams) async fn read_many(
    shared: &Shared,
    tenant: &Tenant,
    selector: &Selector,
    start: &Start,
    limits: PageLimits,
) -> Result<EventsPage, ServiceError> {
    let mut reader = reader_of(shared, tenant, selector, start, limits).await?;
    // Nobody publishes to it: where it would be live, it is at the end.
    let ring = Ring::default();
    let (mut events, mut bytes, mut reads) = (Vec::new(), 0, 0);
    let is_end = loop {
        while events.len() < limits.events && bytes < limits.bytes {
            let Some(piece) = piece(&mut reader) else { break };
            bytes += piece.packed.len();
            events.push(piece);
        }
        if events.len() >= limits.events || bytes >= limits.bytes || reads >= PAGE_READS_MAX {
            break false;
        }
        match step_of(reader.wants(&ring)) {
            Some(Step::Read(ask)) => {
                reads += 1;
                let answer = ask.read(shared).await?;
                take(&mut reader, answer).map_err(|end| match end {
                    SubscriptionEnd::Failed(error) => error,
                    other => ServiceError::Unavailable(other.to_string()),
                })?;
            }
            Some(Step::Again) => {}
            _ => break true,
        }
    };
    // None at the end: whoever reads page after page would never stop. Each event has a cursor to come back with.
    let next_cursor = reader.token().filter(|_| !is_end).map(|token| token.text());
    Ok(EventsPage { events, next_cursor })
}
