//! Lists of messages that aren't dead.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use waybill_core::ids::{Place, Seq, ShardId};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{OpenSegment, ShardRecord};
use waybill_core::port::query::{Found, ListKind, Page};
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, int, key, text};

use super::cursor::{At, Filling};
use super::place;
use super::reach::Reach;
use crate::fault::store_error;
use crate::owner::read;
use crate::quarantine::Spoilt;
use crate::rows::{segment, stopped};
use crate::store::SurrealStore;
use crate::tables::{DONE, OUTBOX, PARKED, SCHEDULED, history_key, number, part, part_shard, part_text, seq_key};

/// Rows read at once where a row holds many messages.
pub(super) const PACKED_PAGE: usize = 16;
/// Rows read at once where a row is a message.
const ROWS_PAGE: usize = 500;

/// How the rows of one kind lie.
pub(super) struct Shape {
    pub table: &'static str,
    rows: usize,
    /// Numbers in a cursor, the shard included.
    numbers: usize,
}

pub(super) fn shape(kind: ListKind) -> Shape {
    match kind {
        ListKind::Flowing => Shape { table: OUTBOX, rows: PACKED_PAGE, numbers: 3 },
        ListKind::Parked => Shape { table: PARKED, rows: ROWS_PAGE, numbers: 2 },
        ListKind::Scheduled => Shape { table: SCHEDULED, rows: ROWS_PAGE, numbers: 2 },
        ListKind::Done => Shape { table: DONE, rows: PACKED_PAGE, numbers: 4 },
    }
}

/// The row that a place lies in.
fn row_key(kind: ListKind, at: &At) -> RecordIdKey {
    match kind {
        ListKind::Flowing | ListKind::Parked => seq_key(at.shard(), at.seq()),
        ListKind::Scheduled => key([int(i64::from(at.shard().0)), number(at.number(0)), text(at.text())]),
        ListKind::Done => history_key(at.shard(), at.seq(), at.number(1)),
    }
}

/// The seq under which the row of a place lies.
pub(super) fn row_seq(kind: ListKind, place: Place) -> Seq {
    match kind {
        ListKind::Parked | ListKind::Scheduled => place.seq(),
        ListKind::Flowing | ListKind::Done => place.segment,
    }
}

pub async fn list(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    kind: ListKind,
    filter: &Filter,
    cursor: Option<&str>,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Page<Found>, StoreError> {
    let shape = shape(kind);
    let after = cursor.map(|cursor| At::from_cursor(cursor, shape.numbers)).transpose()?;
    let reach = match kind {
        // What waits for its time has no place yet.
        ListKind::Scheduled => Reach::everything(),
        _ => Reach::of(store, transaction, filter, spoilt).await?,
    };
    let (mut walk, mut open) = (reach.spans(|place| row_seq(kind, place)), OpenSegments::default());
    walk.retain(|span| after.as_ref().is_none_or(|at| !span.is_before(at.shard(), at.seq())));
    let begin = after.as_ref().map(|at| (at.shard(), at.seq(), row_key(kind, at)));
    let mut page = Filling::new(after, limit);
    for span in walk {
        let mut from = match &begin {
            Some((shard, seq, row)) if span.holds(*shard, *seq) => Bound::Included(row.clone()),
            _ => Bound::Included(span.begin()),
        };
        loop {
            let until = Bound::Excluded(span.end());
            let rows = transaction.scan(shape.table, from, until, shape.rows).await.map_err(store_error)?;
            let last = rows.get(shape.rows - 1).map(|last| last.key.clone());
            for row in rows {
                // A row may hold many messages: none is read for a page that is over.
                if !page.has_room() {
                    return Ok(page.cut());
                }
                for (at, found) in messages(transaction, kind, row, &mut open, spoilt).await? {
                    if page.is_before(&at) || place_of(&found).is_some_and(|place| !reach.holds(place)) {
                        continue;
                    }
                    if !page.has_room() {
                        return Ok(page.cut());
                    }
                    page.weigh(weight(&found));
                    let item = filter.takes_found(&found).then_some(found);
                    page.visit(at, item);
                }
            }
            match last {
                Some(last) => from = Bound::Excluded(last),
                None => break,
            }
        }
    }
    Ok(page.end())
}

/// Its place in the order, if it has one.
pub(super) fn place_of(found: &Found) -> Option<Place> {
    match found {
        Found::Flowing { place, .. } | Found::Done(place, _) => Some(*place),
        Found::Parked(parked) => Some(parked.place),
        Found::Dead(dead) => Some(dead.place),
        Found::Scheduled(_) => None,
    }
}

/// Bytes of a message as it was read.
pub(super) fn weight(found: &Found) -> usize {
    match found {
        Found::Flowing { entry, .. } => entry.message.weight(),
        Found::Parked(parked) => parked.message.weight(),
        Found::Scheduled(scheduled) => scheduled.message.weight(),
        Found::Dead(dead) => dead.message.weight(),
        Found::Done(_, done) => done.message.weight(),
    }
}

/// The messages of a row, each with its place in the list.
pub(super) async fn messages(
    transaction: &dyn Transaction,
    kind: ListKind,
    row: Row,
    open: &mut OpenSegments,
    spoilt: &mut Spoilt,
) -> Result<Vec<(At, Found)>, StoreError> {
    let (Some(shard), Some(seq)) = (part_shard(&row.key), part(&row.key, 1)) else { return Ok(Vec::new()) };
    Ok(match kind {
        ListKind::Parked => {
            let parked = spoilt.sift(PARKED, &row.key, stopped::parked(&row))?;
            parked.map(|parked| (At::new(shard, &[seq], ""), Found::Parked(parked))).into_iter().collect()
        }
        ListKind::Scheduled => {
            let at = At::new(shard, &[seq], part_text(&row.key, 2).unwrap_or(""));
            let scheduled = spoilt.sift(SCHEDULED, &row.key, stopped::scheduled(&row))?;
            scheduled.map(|scheduled| (at, Found::Scheduled(scheduled))).into_iter().collect()
        }
        ListKind::Done => {
            let Some(chunk) = spoilt.sift(DONE, &row.key, segment::history(&row))? else { return Ok(Vec::new()) };
            let found = chunk.in_order().into_iter().map(|done| {
                let place = Place { shard, segment: chunk.segment, index: done.index };
                let at = At::new(shard, &[seq, chunk.beat, u64::from(done.index)], "");
                (at, Found::Done(place, done.clone()))
            });
            found.collect()
        }
        ListKind::Flowing => {
            let stored = read::segments(transaction, shard, &[Seq(seq)]).await?;
            // What can't be decoded is on its way to quarantine; it isn't a message to list.
            let Some(Ok(segment)) = stored.into_iter().next().map(|stored| stored.segment) else {
                return Ok(Vec::new());
            };
            let open = open.of(transaction, shard, Seq(seq)).await?;
            let here = segment.entries.iter().filter(|entry| open.is_none_or(|open| !open.is_gone(entry.index)));
            let found = here.map(|entry| {
                let place = segment.place(shard, entry);
                let found = Found::Flowing { place, entry: entry.clone(), claimed: open.is_some() };
                (At::new(shard, &[seq, u64::from(entry.index)], ""), found)
            });
            found.collect()
        }
    })
}

/// Claims of the shards seen so far.
#[derive(Default)]
pub(super) struct OpenSegments(HashMap<ShardId, ShardRecord>);

impl OpenSegments {
    async fn of(
        &mut self,
        transaction: &dyn Transaction,
        shard: ShardId,
        first: Seq,
    ) -> Result<Option<&OpenSegment>, StoreError> {
        let record = match self.0.entry(shard) {
            Entry::Occupied(seen) => seen.into_mut(),
            Entry::Vacant(new) => new.insert(place::claims(transaction, shard).await?),
        };
        Ok(record.open.get(&first))
    }
}
