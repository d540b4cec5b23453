//! Messages that aren't dead, newest first: those that wait for their time, the last due first, then those with a place in the order,
//! the latest first. What became of the messages of one segment lies in several tables: each is read from the end of each shard, and the
//! tables and shards are merged segment by segment.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use waybill_core::ids::{Place, Seq, ShardId};
use waybill_core::limits::SEGMENT_MESSAGES_MAX;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::Parked;
use waybill_core::port::query::{Found, ListKind, Page};
use waybill_core::port::store::StoreError;
use waybill_surreal::{RecordIdKey, Row, Transaction, key, text};

use super::cursor::{At, Filling};
use super::latest::{Head, Latest, ROWS_MIN, ROWS_PAGE, Range, ranges, shards};
use super::list::{OpenSegments, PACKED_PAGE, messages, place_of, row_seq, shape, weight};
use super::reach::Reach;
use crate::quarantine::Spoilt;
use crate::rows::stopped;
use crate::store::SurrealStore;
use crate::tables::{PARKED, SCHEDULED, number, part_text, shard_end, shard_start, shard_value};

/// Rows with many messages read at once of one shard at least.
const PACKED_MIN: usize = 2;

/// Where a page goes on: behind a scheduled message, or behind one with a place.
enum After {
    Scheduled(At),
    Placed(Place),
}

impl After {
    fn from_cursor(cursor: &str) -> Result<Self, StoreError> {
        if let Ok(at) = At::from_cursor(cursor, 2) {
            return Ok(Self::Scheduled(at));
        }
        let at = At::from_cursor(cursor, 3)?;
        let index = u16::try_from(at.number(1)).unwrap_or(u16::MAX);
        Ok(Self::Placed(Place { shard: at.shard(), segment: at.seq(), index }))
    }
}

pub async fn newest(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    kinds: &[ListKind],
    filter: &Filter,
    cursor: Option<&str>,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Page<Found>, StoreError> {
    let after = cursor.map(After::from_cursor).transpose()?;
    let (scheduled, placed) = match after {
        Some(After::Scheduled(at)) => (Some(at), None),
        Some(After::Placed(place)) => (None, Some(place)),
        None => (None, None),
    };
    let mut page = Filling::new(None, limit);
    if kinds.contains(&ListKind::Scheduled) && placed.is_none() {
        let is_full = add_scheduled(transaction, filter, scheduled.as_ref(), &mut page, spoilt).await?;
        if is_full {
            return Ok(page.cut());
        }
    }
    let kinds = kinds.iter().copied().filter(|kind| *kind != ListKind::Scheduled);
    let reach = Reach::of(store, transaction, filter, spoilt).await?;
    let mut segments = Segments::begin(transaction, kinds, &reach, placed, spoilt).await?;
    while let Some(next) = segments.next(spoilt).await? {
        if !page.has_room() {
            return Ok(page.cut());
        }
        for (place, found) in segments.take(next, spoilt).await? {
            let is_before =
                placed.is_some_and(|after| (after.shard, after.segment) == next.of() && place.index >= after.index);
            if is_before || !reach.holds(place) {
                continue;
            }
            if !page.has_room() {
                return Ok(page.cut());
            }
            page.weigh(weight(&found));
            let item = filter.takes_found(&found).then_some(found);
            page.visit(At::new(place.shard, &[place.segment.0, u64::from(place.index)], ""), item);
        }
    }
    Ok(page.end())
}

/// Fills a page with scheduled messages, the last due first. True = it is full, and there are more.
async fn add_scheduled(
    transaction: &dyn Transaction,
    filter: &Filter,
    after: Option<&At>,
    page: &mut Filling<Found>,
    spoilt: &mut Spoilt,
) -> Result<bool, StoreError> {
    let until = |shard: ShardId| -> RecordIdKey {
        let Some(at) = after else { return shard_end(shard) };
        match shard.cmp(&at.shard()) {
            Ordering::Less => key([shard_value(shard), number(at.number(0).saturating_add(1))]),
            Ordering::Equal => key([shard_value(shard), number(at.number(0)), text(at.text())]),
            Ordering::Greater => key([shard_value(shard), number(at.number(0))]),
        }
    };
    // They have no place yet, so no index knows of them.
    let whole = |shard| vec![Range { first: shard_start(shard), end: until(shard), is_narrow: false }];
    let mut latest = Latest::begin(transaction, SCHEDULED, ROWS_PAGE, whole, spoilt).await?;
    while let Some(next) = latest.next(spoilt).await? {
        if !page.has_room() {
            return Ok(true);
        }
        let Some(row) = latest.take(next) else { break };
        let at = At::new(next.1, &[next.0], part_text(&row.key, 2).unwrap_or(""));
        let scheduled = spoilt.sift(SCHEDULED, &row.key, stopped::scheduled(&row))?.map(Found::Scheduled);
        page.weigh(scheduled.as_ref().map_or(0, weight));
        page.visit(at, scheduled.filter(|found| filter.takes_found(found)));
    }
    Ok(false)
}

/// What is left of one shard in the table of one kind.
struct Lane {
    kind: ListKind,
    head: Head,
    /// Of segments from this one on nothing is left.
    until: u64,
    at_once: usize,
    /// Its latest row, of messages that stopped: only its content says which segment it was in.
    stopped: Option<Arc<Parked>>,
}

impl Lane {
    /// The segment of its latest row.
    async fn segment(&mut self, transaction: &dyn Transaction, spoilt: &mut Spoilt) -> Result<Option<u64>, StoreError> {
        loop {
            let Some(seq) = self.head.latest(transaction, self.at_once, spoilt).await? else { return Ok(None) };
            if self.kind != ListKind::Parked {
                return Ok(Some(seq));
            }
            if let Some(parked) = &self.stopped {
                return Ok(Some(parked.place.segment.0));
            }
            let Some(row) = self.head.rows.front() else { return Ok(None) };
            let parked = spoilt.sift(PARKED, &row.key, stopped::parked(row))?;
            self.stopped = parked.filter(|parked| parked.place.segment.0 < self.until);
            if self.stopped.is_none() {
                self.head.rows.pop_front();
            }
        }
    }

    fn pop(&mut self) -> Option<Row> {
        self.stopped = None;
        self.head.rows.pop_front()
    }
}

/// A segment that comes next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Next {
    segment: u64,
    shard: ShardId,
}

impl Next {
    fn of(self) -> (ShardId, Seq) {
        (self.shard, Seq(self.segment))
    }
}

/// Segments of all shards and what became of their messages, the latest segment first.
struct Segments<'t> {
    transaction: &'t dyn Transaction,
    lanes: Vec<Lane>,
    open: OpenSegments,
}

impl<'t> Segments<'t> {
    async fn begin(
        transaction: &'t dyn Transaction,
        kinds: impl Iterator<Item = ListKind> + Send,
        reach: &Reach,
        after: Option<Place>,
        spoilt: &mut Spoilt,
    ) -> Result<Self, StoreError> {
        let mut lanes = Vec::new();
        for kind in kinds {
            let table = shape(kind).table;
            let shards = shards(transaction, table, spoilt).await?;
            let spans = reach.spans(|place| row_seq(kind, place));
            let at_once = match kind {
                ListKind::Parked => (ROWS_PAGE / shards.len().max(1)).max(ROWS_MIN),
                _ => (PACKED_PAGE / shards.len().max(1)).max(PACKED_MIN),
            };
            lanes.extend(shards.into_iter().map(|shard| {
                // The segment behind which the page before ended is looked at again: it may have had more.
                let until =
                    after.map_or(u64::MAX, |after| after.segment.0.saturating_add(u64::from(shard <= after.shard)));
                let end = match kind {
                    ListKind::Parked => Seq(until.saturating_add(SEGMENT_MESSAGES_MAX as u64)),
                    _ => Seq(until),
                };
                Lane { kind, head: Head::new(table, shard, ranges(&spans, shard, end)), until, at_once, stopped: None }
            }));
        }
        Ok(Self { transaction, lanes, open: OpenSegments::default() })
    }

    async fn next(&mut self, spoilt: &mut Spoilt) -> Result<Option<Next>, StoreError> {
        let mut latest = None;
        for lane in &mut self.lanes {
            let segment = lane.segment(self.transaction, spoilt).await?;
            latest = latest.max(segment.map(|segment| Next { segment, shard: lane.head.shard }));
        }
        Ok(latest)
    }

    /// Its messages, the last first.
    async fn take(&mut self, next: Next, spoilt: &mut Spoilt) -> Result<Vec<(Place, Found)>, StoreError> {
        let mut all = Vec::new();
        for lane in self.lanes.iter_mut().filter(|lane| lane.head.shard == next.shard) {
            while lane.segment(self.transaction, spoilt).await? == Some(next.segment) {
                let Some(row) = lane.pop() else { break };
                let found = messages(self.transaction, lane.kind, row, &mut self.open, spoilt).await?;
                all.extend(found.into_iter().filter_map(|(_, found)| Some((place_of(&found)?, found))));
            }
        }
        all.sort_by_key(|(place, _)| Reverse(place.index));
        Ok(all)
    }
}
