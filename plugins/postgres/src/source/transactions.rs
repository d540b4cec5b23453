//! Rows in hand by their locks: a lane's transaction stays open until all of its rows are settled, or its time is over.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Delivery, Disposition, Settled, Settlement, Token};
use waybill_plugin::transport::{CallInfo, PluginError};

use super::Brought;
use super::lane::{Lane, Room, Window};
use super::sorting::{Bytes, Sorted, delivery, row_of, sort};
use crate::database::{Begun, Database, Ended, Open};
use crate::marking::{Marking, error_text};
use crate::table::claim::Wanted;
use crate::table::marks::Other;
use crate::table::statements::Statements;
use crate::wire::Connection;

/// The server's own end of a transaction comes this much later than ours, in milliseconds.
const IDLE_MARGIN_MS: u32 = 5_000;

/// The lanes of an instance, each with at most one transaction.
pub(super) struct Transactions {
    slots: RefCell<Vec<Slot>>,
    /// Most rows of one transaction: each lane has its part of the window, so that one is claimed while another is handled.
    share: u32,
    /// What may be unsettled at once, in all lanes together.
    window: Window,
    next: Cell<u32>,
    /// Deliveries that can't be settled any more, until they are told.
    lost: RefCell<Vec<Token>>,
}

struct Slot {
    lane: Lane,
    state: State,
}

enum State {
    Free,
    /// A call is at it.
    Busy,
    Open(Box<Transaction>),
}

/// A transaction with rows that were delivered.
struct Transaction {
    /// Tells its tokens from those of others.
    number: u32,
    connection: Connection,
    statements: Rc<Statements>,
    /// What names its rows, with the bytes of each payload.
    unsettled: BTreeMap<Token, u32>,
    marking: Marking,
    /// How many rows it brought.
    rows: u32,
    /// The aggregate of its first row.
    first: String,
    /// When it is over, in milliseconds.
    until: u64,
}

impl Transactions {
    pub(super) fn new(lanes: impl Iterator<Item = Lane>, window: Window) -> Self {
        let slots: Vec<Slot> = lanes.map(|lane| Slot { lane, state: State::Free }).collect();
        let share = window.rows.div_ceil(u32::try_from(slots.len()).unwrap_or(u32::MAX).max(1)).max(1);
        Self { slots: RefCell::new(slots), share, window, next: Cell::new(0), lost: RefCell::default() }
    }

    /// The room that is left by what is delivered and unsettled.
    fn room(&self, room: Room) -> Room {
        let slots = self.slots.borrow();
        let unsettled = slots.iter().filter_map(|slot| match &slot.state {
            State::Open(transaction) => Some(transaction.unsettled.values().copied()),
            State::Free | State::Busy => None,
        });
        self.window.left(room, unsettled.flatten())
    }

    /// Claims in every lane that has no transaction, as far as there is room.
    pub(super) async fn pull(
        &self,
        call: &CallInfo,
        database: &Database,
        room: Room,
        now: u64,
    ) -> Result<Brought, PluginError> {
        self.expire(call, database, now).await;
        let room = self.room(room);
        let count = self.slots.borrow().len();
        let mut brought = Brought { is_all: true, ..Brought::default() };
        // Not always the same one first: with room for one transaction only, each lane has its turn.
        let first = usize::try_from(self.next.get()).unwrap_or(0);
        for place in (0..count).map(|place| place.wrapping_add(first) % count) {
            let rows = room.rows.saturating_sub(u32::try_from(brought.deliveries.len()).unwrap_or(u32::MAX));
            let bytes = brought.deliveries.iter().map(|delivery| delivery.payload.len()).sum::<usize>();
            let bytes = room.bytes.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
            let room = Room { rows: rows.min(self.share), bytes, ..room };
            let Some(wanted) = self.lend(place, room, now) else {
                brought.is_all = false;
                continue;
            };
            let claimed = self.claim(call, database, place, (&wanted, room), now).await;
            match claimed {
                Ok((deliveries, is_all)) => {
                    brought.is_all &= is_all;
                    brought.deliveries.extend(deliveries);
                }
                // What another lane has brought is handed over all the same.
                Err(error) if brought.deliveries.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(brought)
    }

    /// Takes a free lane, and says what it claims.
    fn lend(&self, place: usize, room: Room, now: u64) -> Option<Wanted> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(place)?;
        slot.lane.forget(now);
        let State::Free = slot.state else { return None };
        let wanted = slot.lane.wanted(room, now)?;
        slot.state = State::Busy;
        Some(wanted)
    }

    fn put(&self, place: usize, state: State, on: impl FnOnce(&mut Lane)) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(place) {
            slot.state = state;
            on(&mut slot.lane);
        }
    }

    fn with_lane<T>(&self, place: usize, on: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        self.slots.borrow_mut().get_mut(place).map(|slot| on(&mut slot.lane))
    }

    async fn claim(
        &self,
        call: &CallInfo,
        database: &Database,
        place: usize,
        (wanted, room): (&Wanted, Room),
        now: u64,
    ) -> Result<(Vec<Delivery>, bool), PluginError> {
        let settle_within = database.pool.config().own.settle_within;
        let idle = settle_within.saturating_add(IDLE_MARGIN_MS);
        let Some(terms) = self.with_lane(place, |lane| lane.terms(idle, now)) else { return Ok((Vec::new(), false)) };
        let begun = match database.claim(call, wanted, terms).await {
            Ok(begun) => begun,
            Err(error) => {
                self.put(place, State::Free, |_| {});
                return Err(error);
            }
        };
        let (open, seen, rows) = match begun {
            Begun::Refused => {
                self.put(place, State::Free, |lane| lane.refuse(now));
                return Ok((Vec::new(), false));
            }
            Begun::Nothing(seen, rows) => (None, seen, rows),
            Begun::Open(Open { connection, statements, seen, rows }) => (Some((connection, statements)), seen, rows),
        };
        let due = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        self.with_lane(place, |lane| lane.looked_at(wanted, seen, due, !terms.without_lock));
        let described = open.as_ref().map_or_else(|| database.statements(), |(_, statements)| statements.clone());
        let sorted = sort(&described, rows, Bytes { now: room.bytes, ever: room.most });
        self.with_lane(place, |lane| {
            for row in &sorted.rows {
                lane.release(&row.aggregate);
            }
            for (key, millis) in &sorted.held {
                lane.hold(key, *millis, now);
            }
        });
        let is_all = seen < wanted.window && due < wanted.batch && !sorted.cut;
        let Some(open) = open else {
            self.put(place, State::Free, |_| {});
            return Ok((Vec::new(), is_all));
        };
        Ok((self.keep(call, database, place, open, sorted, now).await, is_all))
    }

    /// Keeps a transaction with what it delivers; one that delivers nothing ends.
    async fn keep(
        &self,
        call: &CallInfo,
        database: &Database,
        place: usize,
        (connection, statements): (Connection, Rc<Statements>),
        sorted: Sorted,
        now: u64,
    ) -> Vec<Delivery> {
        let settle_within = database.pool.config().own.settle_within;
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let transaction = Transaction {
            number,
            connection,
            statements: statements.clone(),
            unsettled: sorted.rows.iter().map(|row| (row.token(), row.bytes())).collect(),
            rows: u32::try_from(sorted.rows.len()).unwrap_or(u32::MAX),
            first: sorted.first.unwrap_or_default(),
            marking: Marking::default(),
            until: now.saturating_add(u64::from(settle_within)),
        };
        if transaction.unsettled.is_empty() {
            self.end(call, database, place, transaction, now).await;
            return Vec::new();
        }
        let group = self.with_lane(place, |lane| lane.group()).unwrap_or_default();
        self.put(place, State::Open(Box::new(transaction)), |_| {});
        let deliveries = sorted.rows.into_iter().map(|row| {
            let token = token(number, &row.token());
            delivery(row, token, &statements.table.oid, &group, settle_within)
        });
        deliveries.collect()
    }

    /// Notes what becomes of rows; the transaction whose last row it was is committed. What was noted before and isn't committed
    /// comes again, and is known here then.
    pub(super) async fn settle(
        &self,
        call: &CallInfo,
        database: &Database,
        items: Vec<Settlement>,
        now: u64,
    ) -> Vec<Settled> {
        let mut results = Vec::with_capacity(items.len());
        let mut touched: Vec<(usize, usize)> = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            let (settled, place) = self.note(item);
            touched.extend(place.map(|place| (place, index)));
            results.push(settled);
        }
        let places: BTreeSet<usize> = touched.iter().map(|(place, _)| *place).collect();
        for place in places {
            let Some(transaction) = self.take(place, |transaction| transaction.unsettled.is_empty()) else { continue };
            if self.end(call, database, place, transaction, now).await {
                continue;
            }
            for (_, index) in touched.iter().filter(|(other, _)| *other == place) {
                if let Some(result) = results.get_mut(*index) {
                    *result = Settled::Lost;
                }
            }
        }
        results
    }

    /// Notes what becomes of one row; where its transaction is, if it changed.
    fn note(&self, item: Settlement) -> (Settled, Option<usize>) {
        let read = item.token.split_first_chunk().map(|(number, row)| (u32::from_be_bytes(*number), row));
        let Some((number, row)) = read else { return (Settled::Lost, None) };
        let mut slots = self.slots.borrow_mut();
        let found = slots.iter_mut().enumerate().find_map(|(place, slot)| match &mut slot.state {
            State::Open(transaction) if transaction.number == number => Some((place, transaction)),
            _ => None,
        });
        let Some((place, transaction)) = found else { return (Settled::Lost, None) };
        if matches!(item.disposition, Disposition::Extend | Disposition::Nack(_)) {
            return (Settled::unsupported(), None);
        }
        if transaction.unsettled.remove(row).is_none() {
            return (Settled::Lost, None);
        }
        let Some((id, invalid)) = row_of(row) else { return (Settled::Lost, None) };
        let error = match item.disposition {
            // Of a row that is no message the host has the dead letter.
            Disposition::Ack => invalid,
            Disposition::Reject(fault) => Some(error_text(&fault.code, &fault.reason)),
            // It goes with the locks.
            _ => return (Settled::Done, Some(place)),
        };
        match error {
            Some(_) => transaction.marking.others.push(Other { id, attempts: 0, error, after: None }),
            None => transaction.marking.published.push(id),
        }
        (Settled::Done, Some(place))
    }

    /// Takes a lane's transaction out, if it is as wanted.
    fn take(&self, place: usize, is_wanted: impl Fn(&Transaction) -> bool) -> Option<Transaction> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(place)?;
        match std::mem::replace(&mut slot.state, State::Busy) {
            State::Open(transaction) if is_wanted(&transaction) => Some(*transaction),
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// Marks what was settled, and commits; whether it holds.
    async fn end(
        &self,
        call: &CallInfo,
        database: &Database,
        place: usize,
        transaction: Transaction,
        now: u64,
    ) -> bool {
        let deadline = Deadline::of_call(call.timeout);
        let Transaction { connection, statements, marking, rows, first, .. } = transaction;
        if marking.is_empty() {
            database.give_up(connection, deadline).await;
            self.put(place, State::Free, |_| {});
            return true;
        }
        let error = match database.commit(connection, marking.pipeline(&statements.marks), deadline).await {
            Ended::Committed => {
                self.put(place, State::Free, |lane| lane.committed(rows, &first));
                return true;
            }
            Ended::Refused(error) => {
                self.put(place, State::Free, |lane| lane.refused(rows, &first, now));
                error
            }
            Ended::Lost(error) => {
                self.put(place, State::Free, Lane::lost);
                error
            }
        };
        waybill_plugin::warn!(
            [("code", error.fault.code)],
            "rows aren't marked and come again: {}",
            error.fault.reason
        );
        false
    }

    /// Ends transactions whose time is over: what was settled is marked, the rest comes again.
    pub(super) async fn expire(&self, call: &CallInfo, database: &Database, now: u64) {
        let count = self.slots.borrow().len();
        for place in 0..count {
            if let Some(transaction) = self.take(place, |transaction| transaction.until <= now) {
                self.lose(&transaction);
                self.end(call, database, place, transaction, now).await;
            }
        }
    }

    fn lose(&self, transaction: &Transaction) {
        let tokens = transaction.unsettled.keys().map(|row| token(transaction.number, row));
        self.lost.borrow_mut().extend(tokens);
    }

    /// Deliveries that can't be settled any more, once.
    pub(super) fn take_lost(&self) -> Vec<Token> {
        self.lost.take()
    }

    /// Marks what was settled, and gives the rest back.
    pub(super) async fn close(&self, call: &CallInfo, database: &Database, now: u64) {
        let count = self.slots.borrow().len();
        for place in 0..count {
            if let Some(transaction) = self.take(place, |_| true) {
                self.end(call, database, place, transaction, now).await;
            }
        }
    }
}

/// Names a row of a transaction.
fn token(number: u32, row: &[u8]) -> Token {
    [&number.to_be_bytes(), row].concat()
}
